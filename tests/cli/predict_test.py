"""`snug predict` in its formats: what is written, that it comes batch by batch, and that it is whole or not there."""

import ast
import csv
import json
import math
import random
import struct
import subprocess
import unittest

from pictures_test import COLOURS, MODEL, png
from snug import BINARY, ROOT, SnugTest

MLP = "models/mlp.pbtxt"


def read_npy(data):
    """The shape, and the numbers of a float32 array."""
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack("<H", data[8:10])
    assert (10 + length) % 64 == 0
    header = ast.literal_eval(data[10:10 + length].decode())
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    return header["shape"], list(struct.unpack(f"<{len(data[10 + length:]) // 4}f", data[10 + length:]))


class PredictTest(SnugTest):
    def setUp(self):
        super().setUp()
        run = self.folder / "run"
        self.run_snug("train", MLP, "--threads=1", "--steps=5", "--data-digits-samples=640", f"--output={run}")
        self.trained = (MLP, f"--checkpoint={run}", "--threads=1", "--batch=32", "--batches=3")

    def lines(self, *arguments):
        return [json.loads(line) for line in self.run_snug("predict", *self.trained, "--format=jsonl", *arguments).stdout.splitlines()]

    def table(self, *arguments):
        return list(csv.reader(self.run_snug("predict", *self.trained, *arguments).stdout.splitlines()))

    def test_the_formats_say_the_same(self):
        lines = self.lines("--fetch=fc3")
        self.assertEqual([line["sample"] for line in lines], list(range(96)))
        plain = self.table("--fetch=fc3")
        self.assertEqual(plain[0], ["sample", *(f"fc3[{i}]" for i in range(10))])
        self.assertEqual([[float(x) for x in row[1:]] for row in plain[1:]], [line["fc3"] for line in lines])
        told = self.table("--fetch=fc3", "--format=csv")
        self.assertEqual(told[0], [*plain[0], "class", "probability"])
        self.assertEqual([row[:11] for row in told], plain)
        for row, line in zip(told[1:], lines):
            self.assertEqual((int(row[11]), float(row[12])), (line["class"], float(f"{line['probability']:.9g}")))
            scores = line["fc3"]
            self.assertEqual(line["class"], scores.index(max(scores)))
            self.assertAlmostEqual(line["probability"], 1 / sum(math.exp(s - max(scores)) for s in scores), places=9)
        array = self.folder / "scores.npy"
        said = self.run_snug("predict", *self.trained, "--fetch=fc3", "--format=npy", f"--output={array}").stdout
        self.assertEqual(said, f"96 rows in {array}\n")
        shape, numbers = read_npy(array.read_bytes())
        self.assertEqual(shape, (96, 10))
        single = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
        self.assertEqual(numbers, [single(x) for line in lines for x in line["fc3"]])
        document = self.json("predict", *self.trained, "--fetch=fc3")
        self.assertEqual([[single(x) for x in row] for row in document["rows"]], [[single(x) for x in line["fc3"]] for line in lines])

    def test_without_a_value_the_class_is_told(self):
        table = self.table()
        self.assertEqual(table[0], ["sample", "class", "probability"])
        lines = self.lines()
        self.assertEqual(set(lines[0]), {"sample", "class", "probability"})
        self.assertEqual([int(row[1]) for row in table[1:]], [line["class"] for line in lines])
        self.assertEqual([line["class"] for line in self.lines("--fetch=fc3")], [line["class"] for line in lines])

    def test_several_values(self):
        line = self.lines("--fetch=fc3,fc1")[5]
        self.assertEqual((len(line["fc3"]), list(line)), (10, ["sample", "fc3", "fc1", "class", "probability"]))
        table = self.table("--fetch=fc3,fc1")
        self.assertEqual(len(table[0]), 1 + 10 + len(line["fc1"]))
        self.assertEqual([float(x) for x in table[6][1:]], line["fc3"] + line["fc1"])
        self.run_snug("predict", *self.trained, "--fetch=fc3,fc1", "--format=npy", f"--output={self.folder / 'all.npy'}")
        self.assertEqual(read_npy((self.folder / "all.fc3.npy").read_bytes())[0], (96, 10))
        self.assertEqual(read_npy((self.folder / "all.fc1.npy").read_bytes())[0], (96, len(line["fc1"])))

    def test_a_short_last_batch_is_written_too(self):
        shape, _ = read_npy(subprocess.run(
            [BINARY, "predict", MLP, *self.trained[1:3], "--batch=700", "--format=npy", "--data=digits"], cwd=ROOT,
            capture_output=True, check=True, timeout=300).stdout)
        self.assertEqual(shape, (10000, 10))

    def test_mistakes(self):
        for flags, expected in (
                (["--format=xml"], '--format: expected csv, npy or jsonl, found "xml"'),
                (["--format=jsonl", "--json"], "--json and --format exclude each other"),
                (["--json", "--fetch=fc3,fc1"], "--json: expected one value in --fetch, found 2"),
                (["--fetch=fc3,fc3"], '--fetch: "fc3" is named twice'),
                (["--fetch=fc3,fc1", "--format=npy"], "each value has a file of its own, FILE.NAME.npy"),
                (["--fetch=loss"], "has no row for each sample"),
                (["--scores=loss"], 'scores "loss": expected real numbers for each of 32 samples, found float32[]'),
        ):
            with self.subTest(flags=flags):
                self.assertIn(expected, self.run_snug("predict", *self.trained, *flags, code=2).stderr.split("\n")[-2])

    def test_what_did_not_arrive_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BINARY, "predict", *self.trained, "--fetch=fc3"], cwd=ROOT, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the predictions did not all reach standard output", done.stderr)
        said = self.error("predict", *self.trained, f"--output={self.folder / 'nowhere' / 'a.csv'}", code=1)
        self.assertIn("nowhere/a.csv: cannot be written", said)


class PredictImagesTest(SnugTest):
    def setUp(self):
        super().setUp()
        self.model = self.write("flowers.pbtxt", MODEL)
        drawn = random.Random(9)
        for name, colour in {"daisy, white": COLOURS["daisy"], "rose": COLOURS["rose"], "violet": COLOURS["violet"]}.items():
            (self.folder / "flowers" / name).mkdir(parents=True)
            for i in range(8):
                pixels = [[[max(0, min(255, c + drawn.randrange(-9, 10))) for c in colour] for _ in range(14)] for _ in range(14)]
                (self.folder / "flowers" / name / f"{i}.png").write_bytes(png(pixels))
        data = ("--data=images", f"--data-images-directory={self.folder / 'flowers'}", f"--data-images-test-directory={self.folder / 'flowers'}")
        self.run_snug("train", self.model, *data, "--batch=6", "--epochs=12", "--learning-rate=0.05", "--threads=1", f"--output={self.folder / 'run'}")
        self.trained = (self.model, f"--checkpoint={self.folder / 'run'}", *data, "--batch=4")

    def test_classes_and_files_have_names(self):
        table = list(csv.reader(self.run_snug("predict", *self.trained).stdout.splitlines()))
        self.assertEqual(table[0], ["sample", "file", "class", "probability"])
        self.assertEqual(len(table), 25)
        for row in table[1:]:
            self.assertEqual(row[1].split("/")[-2], row[2])  # it has learnt them all
        lines = [json.loads(line) for line in self.run_snug("predict", *self.trained, "--format=jsonl").stdout.splitlines()]
        self.assertEqual([line["class"] for line in lines], [row[2] for row in table[1:]])

    def test_a_run_that_fails_leaves_nothing_half_written(self):
        output = self.folder / "a.csv"
        output.write_text("as it was")
        (self.folder / "flowers" / "violet" / "7.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
        done = subprocess.run([BINARY, "predict", *map(str, self.trained), f"--output={output}"], cwd=ROOT, capture_output=True, text=True, timeout=300)
        self.assertIn(done.returncode, (1, 2))
        self.assertIn("violet/7.png", done.stderr)
        self.assertEqual(output.read_text(), "as it was")
        self.assertEqual([p.name for p in self.folder.iterdir() if "a.csv" in p.name], ["a.csv"])


if __name__ == "__main__":
    unittest.main()
