"""What the tests of the Python package share. They run with an interpreter in which the wheel is installed, or with
PYTHONPATH=python and SNUG_LIBRARY naming a libsnug.so."""

import array
import os
import pathlib
import random
import tempfile
import unittest

import snug

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SNUG_BINARY", str(ROOT / "build/release/snug"))
BATCH = 16
QUADRANTS = """name: "quadrants"
input { name: "point" shape { dim: 2 } }
input { name: "quadrant" dtype: INT32 max_value: 4 }
layer { name: "hidden" input: "point" dense { units: 32 } }
layer { name: "bent" input: "hidden" tanh {} }
layer { name: "score" input: "bent" dense { units: 4 } }
layer { name: "loss" input: "score" input: "quadrant" softmax_cross_entropy {} }
objective: "loss"
output: "score"
optimizer { learning_rate: 0.02 adam {} }
"""
# Its step takes long enough to be interrupted.
SLOW_BATCH, SLOW_UNITS = 256, 1536
SLOW = ('name: "slow"\ninput { name: "x" shape { dim: %d } }\ninput { name: "t" shape { dim: %d } }\n'
        % (SLOW_UNITS, SLOW_UNITS)
        + "".join(f'layer {{ name: "d{i}" input: "{"x" if i == 0 else f"r{i - 1}"}" dense {{ '
                  f'units: {SLOW_UNITS} }} }}\n'
                  f'layer {{ name: "r{i}" input: "d{i}" relu {{}} }}\n' for i in range(10))
        + 'layer { name: "loss" input: "r9" input: "t" mean_squared_error {} }\nobjective: "loss"\n')


def quadrants():
    return snug.Network.from_text(QUADRANTS, "quadrants.pbtxt")


def points(count=BATCH, seed=1):
    """Points of the plane, and in which quadrant they lie; as arrays of Python's own."""
    numbers = random.Random(seed)
    xy = [numbers.uniform(-1, 1) for _ in range(2 * count)]
    labels = [(xy[2 * i] < 0) + 2 * (xy[2 * i + 1] < 0) for i in range(count)]
    return {"point": memoryview(array.array("f", xy)).cast("B").cast("f", (count, 2)),
            "quadrant": array.array("i", labels)}


class PackageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def error(self, kind, call, *expected):
        """What the exception says."""
        with self.assertRaises(kind) as raised:
            call()
        for text in expected:
            self.assertIn(text, str(raised.exception))
        self.assertIsInstance(raised.exception, snug.Error)
        return raised.exception
