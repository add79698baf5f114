"""`pip install .`, as a user types it: pip makes an environment for the build and fetches what pyproject.toml asks for,
and the library is compiled. A clean environment then has the package, and trains.

SNUG_SOURCE_DIR and SNUG_BUILD_DIR name the sources and a build tree, beside which this one compiles, always in the same
place: what ccache has of an earlier run is taken. The exit code is 77, and it is said, where pip cannot fetch anything.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import venv

SOURCE = pathlib.Path(os.environ["SNUG_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["SNUG_BUILD_DIR"])
SKIPPED = 77
TRAINS = """
import array, snug
network = snug.Network.from_text('''name: "sign" input { name: "x" shape { dim: 1 } } input { name: "y" dtype: INT32 max_value: 2 }
layer { name: "out" input: "x" dense { units: 2 } } layer { name: "loss" input: "out" input: "y" softmax_cross_entropy {} }
objective: "loss" optimizer { learning_rate: 0.5 sgd {} }''')
with snug.Session(network, batch=8, seed=1) as session:
    x = memoryview(array.array("f", [i - 3.5 for i in range(8)])).cast("B").cast("f", (8, 1))
    losses = [session.step({"x": x, "y": [0, 0, 0, 0, 1, 1, 1, 1]})["loss"].item() for _ in range(50)]
assert losses[-1] < 0.2 * losses[0], losses
print(snug.__file__, snug.__version__)
"""


def run(*command, **options):
    """Standard output; where the command fails, everything it said is the message."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def fetches(python, folder):
    """Whether pip gets at what the build asks for."""
    return subprocess.run([python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--retries=1",
                           "--timeout=20", "--dest", folder, "scikit-build-core>=0.10,<0.12"], capture_output=True).returncode == 0


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        venv.create(folder / "clean", with_pip=True)
        python = folder / "clean/bin/python"
        if not fetches(python, folder / "fetched"):
            print("SKIPPED: pip cannot fetch scikit-build-core (offline?)", file=sys.stderr)
            return SKIPPED
        began = time.monotonic()
        compiled = BUILD.parent / f"{BUILD.name}_pip"
        shutil.rmtree(compiled, ignore_errors=True)
        try:
            run(python, "-m", "pip", "install", "--disable-pip-version-check", "-C", f"build-dir={compiled}", ".", cwd=SOURCE)
        finally:
            shutil.rmtree(compiled, ignore_errors=True)
        print(f"pip install . took {time.monotonic() - began:.0f} s", file=sys.stderr)
        version = run(python, "-c", TRAINS, cwd=folder).split()
        assert version[0].startswith(str(folder / "clean")), version
        shown = run(python, "-m", "pip", "show", "--disable-pip-version-check", "snug")
        assert f"Version: {version[1]}\n" in shown, shown
        assert "Requires: \n" in shown, shown  # no other package
        assert "No broken requirements" in run(python, "-m", "pip", "check", "--disable-pip-version-check")
        # Nothing of what it compiled is needed any more, and it goes as a whole.
        mapped = run(python, "-c", "import snug; print(open('/proc/self/maps').read())", cwd=folder)
        assert str(BUILD.parent) not in mapped, mapped
        run(python, "-m", "pip", "uninstall", "--yes", "--disable-pip-version-check", "snug")
        assert not list((folder / "clean").glob("**/snug*")), list((folder / "clean").glob("**/snug*"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
