"""What is installed is enough: examples/embed is configured, built and run against a temporary prefix, by CMake and by
pkg-config, and the library shows no more than it should."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["SNUG_SOURCE_DIR"])
BUILD = os.environ["SNUG_BUILD_DIR"]


def run(*command, **options):
    """The command's standard output; its standard error is the message where it fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class InstalledTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.temporary.name)
        for component in ("library", "development"):
            run("cmake", "--install", BUILD, "--prefix", root / "first", "--component", component)
        cls.prefix = root / "prefix"
        (root / "first").rename(cls.prefix)  # an installed tree may be moved
        cls.libdir = next(cls.prefix.glob("**/libsnug.so")).parent
        cls.example = root / "example"
        shutil.copytree(SOURCE / "examples/embed", cls.example)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def check_spiral(self, program):
        out = run(program, self.example / "checkpoints", cwd=self.example)
        self.assertRegex(out, r"(?m)^600 steps: loss 0\.0\d+, accuracy on unseen points (0\.9[5-9]\d|1\.000)$")
        planned, taken = re.search(r"planned (\d+) bytes, at least \d+, taken (\d+)", out).groups()
        self.assertEqual(planned, taken)
        self.assertIn("loaded from", out)

    def test_cmake_project(self):
        build = self.example / "build"
        run("cmake", "-S", self.example, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", build)
        self.check_spiral(build / "spiral")
        self.assertIn("the same bits", run(build / "two_threads"))
        if (build / "own_cuda_stream").exists():  # is built where CUDA's toolkit is; where a GPU is too, it trains
            done = subprocess.run([build / "own_cuda_stream"], capture_output=True, text=True)
            self.assertRegex(done.stdout + done.stderr, r"^loss |CUDA|driver|no device")
        self.check_spiral(build / "spiral_static")
        self.assertNotIn("libsnug", run("readelf", "-d", build / "spiral_static"))

    @unittest.skipUnless(shutil.which("pkg-config"), "pkg-config is not installed")
    def test_pkg_config_project(self):
        run("make", "-C", self.example, env={**os.environ, "PKG_CONFIG_PATH": str(self.libdir / "pkgconfig")})
        self.check_spiral(self.example / "spiral")

    def check_names(self, *listing):
        names = [line.split(maxsplit=2)[2] for line in run("nm", "--defined-only", "-C", *listing).splitlines() if " " in line]
        self.assertTrue(any(name.startswith("snug::v0::Session::Create(") for name in names))
        public = re.compile(r"^(vtable for |typeinfo for |typeinfo name for )?snug::v0::(?!embed::)|^SNUG_(0|C_1)$|^snug_[a-z_]+(@|$)")
        self.assertEqual([name for name in names if not public.search(name)], [])

    def test_only_the_public_api_is_visible(self):
        self.check_names("-D", self.libdir / "libsnug.so")
        self.check_names("--extern-only", self.libdir / "libsnug.a")

    def test_c_finds_what_it_was_promised(self):
        promised = (SOURCE / "tests/embed/c_functions.txt").read_text().split()
        for listing in (["-D", self.libdir / "libsnug.so"], ["--extern-only", self.libdir / "libsnug.a"]):
            names = run("nm", "--defined-only", "--without-symbol-versions", *listing).split()
            functions = sorted(name for name in names if name.startswith("snug_"))
            self.assertEqual(functions, promised, "programs in C count on these names: add to the list, take none away")
        header = (self.prefix / "include/snug/c.h").read_text()
        self.assertEqual(sorted(set(re.findall(r"\b(snug_[a-z_]+)\(", header))), promised)

    @unittest.skipUnless(shutil.which("pkg-config"), "pkg-config is not installed")
    def test_c_project(self):
        project = self.example.parent / "c"
        shutil.copytree(SOURCE / "examples/c", project)
        run("make", "-C", project, "CFLAGS=-std=c99 -Wall -Wextra -Wpedantic -Werror -O2",
            env={**os.environ, "PKG_CONFIG_PATH": str(self.libdir / "pkgconfig")})
        out = run(project / "quadrants", project / "checkpoints", cwd=project)
        self.assertRegex(out, r"(?m)^planned \d+ bytes, at least \d+$")
        self.assertRegex(out, r"(?m)^400 steps: loss 0\.0\d+, 2\d\d of 256 unseen points right$")
        self.assertRegex(out, r"(?m)^the same from .*checkpoints/step-0+400\.safetensors$")
        self.assertIn("a mistake: text:3:", out)

    def test_the_name_carries_the_version(self):
        version = re.search(r"project\(snug VERSION (\d+\.\d+\.\d+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        major, minor, patch = version.split(".")
        # Until 1.0 every minor version may change the interface, so programs ask for that very one.
        interface = f"{major}.{minor}" if major == "0" else major
        dynamic = run("readelf", "-d", self.libdir / "libsnug.so")
        self.assertEqual(re.search(r"SONAME.*\[(.*)\]", dynamic)[1], f"libsnug.so.{interface}")
        self.assertEqual(sorted(path.name for path in self.libdir.glob("libsnug.so*")),
                         sorted({"libsnug.so", f"libsnug.so.{interface}", f"libsnug.so.{version}"}))
        for name, target in (("libsnug.so", f"libsnug.so.{interface}"), (f"libsnug.so.{interface}", f"libsnug.so.{version}")):
            self.assertEqual(os.readlink(self.libdir / name), target)
        program = "import ctypes, sys; l = ctypes.CDLL(sys.argv[1]); l.snug_version.restype = ctypes.c_char_p; print(l.snug_version().decode())"
        self.assertEqual(run(sys.executable, "-c", program, self.libdir / f"libsnug.so.{interface}").strip(), version)
        header = (self.prefix / "include/snug/version.h").read_text()
        for name, number in (("MAJOR", major), ("MINOR", minor), ("PATCH", patch)):
            self.assertRegex(header, rf"#define SNUG_VERSION_{name} {number}\b")
        if shutil.which("pkg-config"):
            path = {**os.environ, "PKG_CONFIG_PATH": str(self.libdir / "pkgconfig")}
            self.assertEqual(run("pkg-config", "--modversion", "snug", env=path).strip(), version)

    def test_cmake_finds_the_versions_that_serve_and_no_other(self):
        major, minor, patch = map(int, re.search(r"project\(snug VERSION (\d+)\.(\d+)\.(\d+)",
                                                 (SOURCE / "CMakeLists.txt").read_text()).groups())
        project = self.example.parent / "asks"
        project.mkdir()
        for wanted, serves in ((f"{major}.{minor}", True), (f"{major}.{minor}.{patch}", True),
                               (f"{major}.{minor}.{patch + 1}", False), (f"{major}.{minor + 1}", False), (f"{major + 1}", False)):
            (project / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.25)
project(asks LANGUAGES CXX)
find_package(Snug {wanted} QUIET)
message(STATUS "Snug ${{Snug_FOUND}}")
""")
            shown = run("cmake", "-S", project, "-B", project / f"build-{wanted}", f"-DCMAKE_PREFIX_PATH={self.prefix}")
            self.assertEqual("-- Snug 1" in shown, serves, f"{wanted}: {shown}")

    def test_every_header_stands_alone(self):
        headers = sorted((self.prefix / "include/snug").glob("*.h"))
        self.assertIn("version.h", [h.name for h in headers])
        for header in headers:
            text = header.read_text()
            self.assertNotRegex(text, r"absl|google|\.pb\.h|snug/internal", header.name)
            run("c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{self.prefix / 'include'}",
                "-x", "c++", "-", input=f"#include <snug/{header.name}>\n")


if __name__ == "__main__":
    unittest.main()
