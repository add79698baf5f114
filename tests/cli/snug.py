"""Runs the `snug` program for the tests in this folder.

    python3 -m unittest discover -s tests/cli -p '*_test.py'      with SNUG_BINARY naming the program
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SNUG_BINARY", str(ROOT / "build/release/snug"))
SHARED = pathlib.Path(os.environ.get("SNUG_SHARED", ROOT / "../shared"))


class SnugTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_snug(self, *arguments, code=0, environment=None):
        """The finished process, whose exit code must be `code`."""
        done = subprocess.run(
            [BINARY, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OMP_WAIT_POLICY": "passive", **(environment or {})},
            timeout=300,
        )
        self.assertEqual(done.returncode, code, f"snug {arguments}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done

    def json(self, *arguments, code=0):
        """The one document on standard output."""
        return json.loads(self.run_snug(*arguments, "--json", code=code).stdout)

    def error(self, *arguments, code=2):
        """What standard error says; standard output must be empty."""
        done = self.run_snug(*arguments, code=code)
        self.assertEqual(done.stdout, "")
        self.assertNotEqual(done.stderr.strip(), "")
        return done.stderr

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path
