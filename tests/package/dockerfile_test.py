"""The Dockerfile names what is there: paths, options of tools/setup and of CMake, stages, packages; and its user is nobody
with rights. No image is made here."""

import fnmatch
import json
import pathlib
import re
import shlex
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def instructions():
    """(word, rest) for each, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


class DockerfileTest(unittest.TestCase):
    def setUp(self):
        self.all = instructions()
        self.commands = [part.strip() for word, rest in self.all if word == "RUN"
                         for part in re.sub(r"^(--\S+ +)*", "", rest).split("&&")]

    def test_every_instruction_is_known_and_its_quotes_close(self):
        self.assertLessEqual({word for word, _ in self.all}, {"FROM", "WORKDIR", "COPY", "RUN", "ARG", "USER", "ENTRYPOINT", "CMD"})
        for command in self.commands:
            self.assertEqual(subprocess.run(["bash", "-n", "-c", command]).returncode, 0, command)
        for word, rest in self.all:
            if word in ("ENTRYPOINT", "CMD"):  # as a list: signals reach the program, not a shell
                self.assertIsInstance(json.loads(rest), list)

    def test_stages_and_copied_paths_are_there(self):
        stages = [rest.split(" AS ")[1] for word, rest in self.all if word == "FROM" and " AS " in rest]
        for word, rest in self.all:
            for stage in re.findall(r"from=(\w+)", rest):
                self.assertIn(stage, stages)
            if word == "COPY":
                for path in rest.split()[:-1]:
                    self.assertTrue((ROOT / path).exists(), path)
        self.assertTrue(all("debian:12" in rest for word, rest in self.all if word == "FROM"))

    def test_options_are_those_of_cmake_and_the_presets(self):
        text = (ROOT / "CMakeLists.txt").read_text() + (ROOT / "tools/CMakeLists.txt").read_text()
        presets = [preset["name"] for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]]
        options = re.findall(r"-D(SNUG_\w+)=", " ".join(self.commands))
        self.assertGreater(len(options), 3)
        for option in options:
            self.assertRegex(text, rf"\b(option|set)\({option}\b")
        for preset in re.findall(r"--preset (\w+)", " ".join(self.commands)):
            self.assertIn(preset, presets)

    def test_the_set_up_knows_its_arguments(self):
        command = next(shlex.split(c) for c in self.commands if c.startswith("tools/setup"))
        listed = subprocess.run([ROOT / command[0], *command[1:], "--list"], capture_output=True, text=True, check=True).stdout
        self.assertIn("libprotobuf-dev", listed)
        self.assertIn("dpkg-dev", listed)
        self.assertNotIn("clang", listed)

    def test_what_the_build_switches_on_and_runs_is_installed_before(self):
        at = next(i for i, command in enumerate(self.commands) if command.startswith("tools/setup"))
        command = shlex.split(self.commands[at])
        listed = subprocess.run([ROOT / command[0], *command[1:], "--list"], capture_output=True, text=True, check=True).stdout.split()
        later = " ".join(self.commands[at + 1:])
        needs = {"-DSNUG_ONEDNN=ON": ["libdnnl-dev"], "-DSNUG_CBC=ON": ["coinor-libcbc-dev"],
                 "-DSNUG_IMAGES=ON": ["libturbojpeg0-dev", "libpng-dev"], "cmake --preset": ["cmake", "ninja-build", "g++"],
                 "cpack -G DEB": ["dpkg-dev", "file"]}
        for what, packages in needs.items():
            self.assertIn(what, later)
            self.assertLessEqual(set(packages), set(listed), what)
        # What is switched on here, and what else would be found by itself, is all that the build has.
        self.assertEqual(set(re.findall(r"-DSNUG_\w+=ON", later)), {what for what in needs if what.startswith("-D")})

    def test_the_package_that_it_installs_is_the_one_of_the_command(self):
        cmake = (ROOT / "cmake/SnugPackage.cmake").read_text()
        names = re.findall(r"CPACK_DEBIAN_(\w+)_PACKAGE_NAME\s+\"?([^\s\")]+)", cmake)
        self.assertGreater(len(names), 1, cmake)
        (pattern,) = re.findall(r"/packages/(\S+)\.deb", " ".join(self.commands))
        matched = [component for component, name in names if fnmatch.fnmatch(f"{name}_0.1.0_amd64", pattern)]
        self.assertEqual(len(matched), 1, names)

    def test_it_runs_as_nobody_with_rights(self):
        last = [rest for word, rest in self.all if word == "USER"][-1]
        self.assertIn(f"useradd --uid 1000 --create-home {last}", self.commands)
        self.assertEqual([word for word, _ in self.all][-4:], ["USER", "WORKDIR", "ENTRYPOINT", "CMD"])


if __name__ == "__main__":
    unittest.main()
