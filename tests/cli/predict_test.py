"""`snug predict` in its formats: what is written, that it comes batch by batch, and that it is whole or not there."""

import ast
import csv
import json
import math
import os
import random
import shutil
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

    def most_memory(self, *arguments):
        """The bytes that a run of the command has had resident at its most."""
        command = subprocess.Popen([BINARY, *map(str, arguments)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = command.stderr.read()
        command.stderr.close()
        _, status, usage = os.wait4(command.pid, 0)
        command.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(command.returncode, 0, said)
        return usage.ru_maxrss * 1024

    def test_memory_does_not_grow_with_the_number_of_samples(self):
        # What comes out has 256 numbers for each sample: 10 MB for all of them, or 30 MB as text.
        few, many = 200, 10000
        flags = ("predict", *self.trained[:3], "--batch=100", "--fetch=fc1")
        for form in ("csv", "jsonl", "npy"):
            with self.subTest(form):
                output = self.folder / f"rows.{form}"
                most = {}
                for samples in (few, many):
                    most[samples] = self.most_memory(*flags, f"--batches={samples // 100}", f"--format={form}", f"--output={output}")
                if form == "npy":
                    self.assertEqual(read_npy(output.read_bytes())[0], (many, 256))
                else:
                    self.assertEqual(output.read_bytes().count(b"\n"), many + (form == "csv"))
                self.assertLess(most[many] - most[few], 4 << 20, most)

    def test_what_did_not_arrive_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BINARY, "predict", *self.trained, "--fetch=fc3"], cwd=ROOT, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the predictions did not all reach standard output", done.stderr)
        said = self.error("predict", *self.trained, f"--output={self.folder / 'nowhere' / 'a.csv'}", code=1)
        self.assertIn("nowhere/a.csv: cannot be written", said)


POINTS = """name: "points"
input { name: "x" shape { dim: 3 } }
input { name: "kind" dtype: INT32 max_value: 3 }
layer { name: "out" input: "x" dense { units: 3 } }
layer { name: "loss" input: "out" input: "kind" softmax_cross_entropy { ignore_index: 2 } }
layer { name: "accuracy" input: "out" input: "kind" accuracy { ignore_index: 2 } }
layer { name: "right" input: "kind" one_hot { classes: 3 } }
objective: "loss"
output: "accuracy"
training { steps: 3 batch: 4 }
"""


class PredictArraysTest(SnugTest):
    """Of files of NumPy, one for each input."""

    def setUp(self):
        super().setUp()
        self.model = self.write("points.pbtxt", POINTS)
        drawn = random.Random(2)
        numbers = [drawn.uniform(-1, 1) for _ in range(3 * 21)]
        self.array("x", "<f4", (21, 3), struct.pack("<63f", *numbers))
        self.array("kind", "<i4", (21,), struct.pack("<21i", *(drawn.randrange(3) for _ in range(21))))
        self.files = f"--data-npy-file=x={self.folder / 'x.npy'},kind={self.folder / 'kind.npy'}"
        self.run_snug("train", self.model, "--data=npy", self.files, "--threads=1", f"--output={self.folder / 'run'}")
        self.predict = ("predict", self.model, f"--checkpoint={self.folder / 'run'}", "--data=npy", "--threads=1", "--batch=4")

    def array(self, name, kind, shape, data):
        header = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
        header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
        (self.folder / f"{name}.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)

    def test_arrays_need_no_labels(self):
        expected = self.run_snug(*self.predict, self.files, "--part=training", "--data-held-back=0").stdout
        done = self.run_snug(*self.predict, f"--data-npy-file=x={self.folder / 'x.npy'}")
        self.assertEqual(done.stdout, expected)
        self.assertEqual(len(expected.splitlines()), 22)
        self.assertIn('data: npy: no file is named for "kind": nothing that depends on it is computed\n', done.stderr)
        test = self.run_snug(*self.predict, self.files, f"--data-npy-test-file=x={self.folder / 'x.npy'}")
        self.assertEqual(test.stdout, expected)
        self.assertEqual(self.run_snug(*self.predict, f"--data-npy-file=other={self.folder / 'x.npy'}").stdout, expected)

    def test_what_needs_labels_says_so(self):
        bare = f"--data-npy-file=x={self.folder / 'x.npy'}"
        said = self.run_snug(*self.predict, bare, "--fetch=right", code=2).stderr
        self.assertIn('input "kind" takes 1 int32 numbers a sample; the data have "x" float32[3]', said)
        said = self.run_snug(*self.predict, bare, f"--data-npy-test-file=x={self.folder / 'none.npy'}", code=2).stderr
        self.assertIn(f"--data-npy-test-file=x={self.folder / 'none.npy'}: x={self.folder / 'x.npy'} has no labels, so that all of its samples are "
                      "predicted and no other file is read: leave out the flag, or give the file as --data-npy-file\n", said)
        said = self.run_snug("eval", *self.predict[1:], bare, code=2).stderr
        self.assertIn('input "kind" takes 1 int32 numbers a sample; the data have "x" float32[3]', said)


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

    def predicted(self, *arguments):
        """The rows of a table, and what is said beside it."""
        done = self.run_snug("predict", self.model, f"--checkpoint={self.folder / 'run'}", "--data=images", "--batch=4", *arguments)
        return list(csv.reader(done.stdout.splitlines())), done.stderr

    def expected(self, *arguments):
        """By the picture's name in its folder and the folder's, what is said of it where its class is known."""
        table = list(csv.reader(self.run_snug("predict", *self.trained, *arguments).stdout.splitlines()))
        return {"/".join(row[1].split("/")[-2:]): row[2:] for row in table[1:]}

    def test_pictures_need_no_classes(self):
        expected = self.expected()
        new = self.folder / "new"
        new.mkdir()
        for name in ("rose/3", "violet/1", "daisy, white/5"):
            (new / (name.replace("/", "-") + ".png")).write_bytes((self.folder / "flowers" / f"{name}.png").read_bytes())
        table, said = self.predicted(f"--data-images-directory={new}")
        self.assertIn(f"data: 3 images, of which no labels are known: {new} has no folders\n", said)
        self.assertEqual(table, [["sample", "file", "class", "probability"],
                                 ["0", f"{new}/daisy, white-5.png", *expected["daisy, white/5.png"]],
                                 ["1", f"{new}/rose-3.png", *expected["rose/3.png"]],
                                 ["2", f"{new}/violet-1.png", *expected["violet/1.png"]]])
        self.assertEqual([row[2] for row in table[1:]], ["daisy, white", "rose", "violet"])
        lines = [json.loads(line) for line in self.run_snug(
            "predict", self.model, f"--checkpoint={self.folder / 'run'}", "--data=images", f"--data-images-directory={new}",
            "--fetch=out", "--format=jsonl").stdout.splitlines()]
        self.assertEqual([(line["file"], line["class"], len(line["out"])) for line in lines], [(row[1], row[2], 3) for row in table[1:]])

        # In folders of other names they are of no class either, and a test folder may be without classes, too.
        (new / "monday").mkdir()
        (new / "rose-3.png").rename(new / "monday" / "a.png")
        table, said = self.predicted(f"--data-images-directory={new}")
        self.assertIn(f"no folder in {new} has the name of a class", said)
        self.assertEqual([row[2:] for row in table[1:]], [expected["daisy, white/5.png"], expected["rose/3.png"], expected["violet/1.png"]])
        table, _ = self.predicted(f"--data-images-directory={self.folder / 'flowers'}", f"--data-images-test-directory={new}")
        self.assertEqual([row[1] for row in table[1:]], [f"{new}/daisy, white-5.png", f"{new}/monday/a.png", f"{new}/violet-1.png"])
        table, _ = self.predicted(f"--data-images-directory={self.folder / 'flowers'}", f"--data-images-test-directory={new}", "--part=training")
        self.assertEqual(len(table), 25)

    def test_labels_that_are_not_known_are_no_prediction(self):
        new = self.folder / "new"
        new.mkdir()
        (new / "a.png").write_bytes((self.folder / "flowers/rose/1.png").read_bytes())
        flags = ("predict", self.model, f"--checkpoint={self.folder / 'run'}", "--data=images")
        bare = f"--data-images-directory={new}"
        self.assertIn(f"--fetch=label: depends on the labels, and {new} has none: leave it out", self.error(*flags, bare, "--fetch=label"))
        tested = (f"--data-images-directory={self.folder / 'flowers'}", f"--data-images-test-directory={new}", "--fetch=label")
        self.assertIn(f"--fetch=label: depends on the labels, and {new} has none: leave it out", self.error(*flags, *tested))
        self.assertEqual(len(self.run_snug(*flags, *tested, "--part=training").stdout.splitlines()), 25)
        for flag in ("directory", "list"):
            said = self.error(*flags, bare, f"--data-images-test-{flag}=/nonexistent")
            self.assertIn(f"--data-images-test-{flag}=/nonexistent: {new} has no labels, so that all of its samples are predicted and no other images "
                          f"are read: leave out the flag, or give the {'folder' if flag == 'directory' else 'file'} as --data-images-{flag}", said)
        # What the model file names is for evaluations.
        text = MODEL + 'training { data { images { directory: "flowers" test_directory: "/nonexistent" } } }\n'
        done = self.run_snug("predict", self.write("named.pbtxt", text), *flags[2:3], bare)
        self.assertIn(f"data: /nonexistent: is not read: all images of {new} are predicted\n", done.stderr)
        # Pictures beside a folder of a class have none.
        (new / "rose").mkdir()
        (new / "rose/b.png").write_bytes((new / "a.png").read_bytes())
        table, said = self.predicted(bare, "--part=training", "--data-held-back=0")
        self.assertEqual([row[1] for row in table[1:]], [f"{new}/rose/b.png"])
        self.assertIn(f"data: left out: 1 image in {new} itself, beside the folders of classes: a.png\n", said)

    def test_a_list_needs_no_classes(self):
        expected = self.expected()
        names = self.write("names.csv", 'file\nviolet/0.png\n"daisy, white/2.png"\n')
        flowers = self.folder / "flowers"
        table, said = self.predicted(f"--data-images-directory={flowers}", f"--data-images-list={names}")
        self.assertIn(f"data: 2 images, of which no labels are known: {names} has files alone\n", said)
        self.assertEqual(table[1:], [["0", f"{flowers}/violet/0.png", *expected["violet/0.png"]],
                                     ["1", f"{flowers}/daisy, white/2.png", *expected["daisy, white/2.png"]]])
        self.write("names.csv", "violet/0.png\nviolet/90.png\n")
        said = self.error("predict", *self.trained, f"--data-images-list={names}")
        self.assertIn(f"{names}:2:1: expected a file, found no {flowers}/violet/90.png", said)
        self.write("names.csv", "violet/0.png\nviolet/1.png,rose\n")
        self.assertIn(f"{names}:2:1: expected one field, a file, as above, found 2", self.error("predict", *self.trained, f"--data-images-list={names}"))

    def test_what_judges_needs_classes(self):
        new = self.folder / "new"
        new.mkdir()
        flags = ("eval", self.model, f"--checkpoint={self.folder / 'run'}", "--data=images", f"--data-images-directory={new}")
        (new / "a.png").write_bytes((self.folder / "flowers/rose/1.png").read_bytes())
        self.assertIn(f"{new}: expected a folder for each class with its images in it, found no folders; `snug predict` needs none", self.error(*flags))
        (new / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
        said = self.run_snug("predict", *flags[1:], code=2).stderr
        self.assertIn(f"{new}/broken.png: a broken PNG file", said)
        table, said = self.predicted(f"--data-images-directory={new}", "--data-images-skip-broken")
        self.assertIn(f"data: left out: {new}/broken.png: a broken PNG file", said)
        self.assertEqual([row[1] for row in table[1:]], [f"{new}/a.png"])

    def test_classes_are_those_of_the_training_whichever_are_there(self):
        # Without the first folder, "rose" would be the first class.
        some = self.folder / "some"
        for name in ("rose", "violet"):
            (some / name).mkdir(parents=True)
            (some / name / "0.png").write_bytes((self.folder / f"flowers/{name}/0.png").read_bytes())
        found = self.json("eval", self.model, f"--checkpoint={self.folder / 'run'}", "--data=images", f"--data-images-directory={some}",
                          f"--data-images-test-directory={some}")
        self.assertEqual(found["metrics"]["accuracy"], 1)
        self.assertEqual([c["name"] for c in found["classes"]["each"]], ["daisy, white", "rose", "violet"])
        (some / "rose").rename(some / "roses")
        said = self.run_snug("eval", self.model, f"--checkpoint={self.folder / 'run'}", "--data=images", f"--data-images-directory={some}", code=2).stderr
        self.assertIn(f'{some}/roses: expected one of the 3 classes of the training images (daisy, white, rose, violet), found "roses"', said)

    def test_weights_from_elsewhere_know_no_names(self):
        newest = sorted((self.folder / "run/checkpoints").glob("step-*"))[-1]
        content = newest.read_bytes()
        (length,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8:8 + length])
        self.assertEqual(json.loads(header["__metadata__"]["data.classes"]), ["daisy, white", "rose", "violet"])
        del header["__metadata__"]
        bare = json.dumps(header).encode()
        weights = self.folder / "weights.safetensors"
        weights.write_bytes(struct.pack("<Q", len(bare)) + bare + content[8 + length:])
        new = self.folder / "new"
        new.mkdir()
        (new / "a.png").write_bytes((self.folder / "flowers/rose/1.png").read_bytes())
        done = self.run_snug("predict", self.model, f"--checkpoint={weights}", "--data=images", f"--data-images-directory={new}")
        self.assertIn("data: the checkpoint keeps no names of classes, so they are told by their numbers\n", done.stderr)
        self.assertEqual(done.stdout.splitlines()[1].split(",")[:3], ["0", str(new / "a.png"), "1"])
        for names, said in (('["rose", "daisy"]', 'byte 16: expected names in their sequence, found "daisy" behind "rose"'), ("[3]", "byte 1: expected"), ("", "byte 0")):
            header["__metadata__"] = {"data.classes": names}
            odd = json.dumps(header).encode()
            weights.write_bytes(struct.pack("<Q", len(odd)) + odd + content[8 + length:])
            found = self.error("predict", self.model, f"--checkpoint={weights}", "--data=images", f"--data-images-directory={new}")
            self.assertIn(f'metadata "data.classes": {said}', found)

    def test_a_run_that_fails_leaves_nothing_half_written(self):
        output = self.folder / "a.csv"
        output.write_text("as it was")
        (self.folder / "flowers" / "violet" / "7.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
        done = subprocess.run([BINARY, "predict", *map(str, self.trained), f"--output={output}"], cwd=ROOT, capture_output=True, text=True, timeout=300)
        self.assertIn(done.returncode, (1, 2))
        self.assertIn("violet/7.png", done.stderr)
        self.assertEqual(output.read_text(), "as it was")
        self.assertEqual([p.name for p in self.folder.iterdir() if "a.csv" in p.name], ["a.csv"])


NORMALISED = ("--data-mean=0.13", "--data-deviation=0.31")


class TrainedDataTest(SnugTest):
    """Data are read as the training read them: normalised, filled up and held back as the checkpoint keeps it."""

    def setUp(self):
        super().setUp()
        self.output = self.folder / "run"

    def train(self, *flags, model=MLP):
        if "--resume" not in flags:
            shutil.rmtree(self.output, ignore_errors=True)
        self.run_snug("train", model, "--threads=1", "--steps=20", f"--output={self.output}", *flags)

    def judged(self, *flags, model=MLP, checkpoint=None):
        """The metrics, and what was said beside them."""
        done = self.run_snug("eval", model, f"--checkpoint={checkpoint or self.output}", "--threads=1", "--json", *flags)
        document = json.loads(done.stdout)
        return {**document["metrics"], "samples": document["samples"]}, done.stderr

    def last_evaluation(self):
        lines = [json.loads(line) for line in (self.output / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if line["kind"] == "evaluation"][-1]

    def with_options(self, **options):
        """The checkpoint with other words in its `options`."""
        (trained,) = (self.output / "checkpoints").glob("step-*.safetensors")
        data = trained.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        metadata = header["__metadata__"]
        metadata.pop("snug.xxh64")
        metadata["options"] = json.dumps({**json.loads(metadata["options"]), **options})
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        other = self.folder / "other.safetensors"
        other.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length:])
        return other

    def test_what_was_normalised_in_training_is_so_in_judging(self):
        self.train(*NORMALISED, "--data-digits-samples=640", "--seed=3")
        expected = self.last_evaluation()
        metrics, said = self.judged()
        self.assertAlmostEqual(metrics["loss"], expected["loss"], places=5)
        self.assertEqual(said, "data: as in the training: --data-mean=0.13 --data-deviation=0.31 --seed=3\n")
        same, said = self.judged(*NORMALISED, "--seed=3")
        self.assertEqual((same, said), (metrics, ""))
        # What is said otherwise is done, and told.
        other, said = self.judged("--data-mean=0.9")
        self.assertNotAlmostEqual(other["loss"], metrics["loss"], places=2)
        self.assertIn("data: as in the training: --data-deviation=0.31 --seed=3\n", said)
        self.assertIn("warning: --data-mean=0.9 where the training had --data-mean=0.13: the parameters know other data", said)
        self.assertIn("--seed=4 where the training had --seed=3", self.judged("--seed=4")[1])
        scores = [self.json("predict", MLP, f"--checkpoint={self.output}", "--threads=1", "--batches=1", "--fetch=fc3", *flags)["rows"]
                  for flags in ((), NORMALISED, (*NORMALISED, "--seed=3"), ("--seed=4", *NORMALISED))]
        self.assertEqual(scores[0], scores[1])
        self.assertEqual(scores[0], scores[2])
        self.assertNotEqual(scores[0], scores[3])

    def test_a_model_file_that_was_edited_since_is_overruled_and_that_is_said(self):
        self.train("--data-digits-samples=640")
        plain, said = self.judged()
        self.assertEqual(said, "")
        lines = (ROOT / MLP).read_text()
        self.assertIn("data {", lines)
        text = self.write("mlp.pbtxt", lines.replace("data {", "data { mean: 0.5", 1))
        metrics, said = self.judged(model=text)
        self.assertEqual(metrics, plain)
        self.assertEqual(said, "data: as in the training: no --data-mean\n")

    def test_the_same_share_is_held_back(self):
        rows = "".join(f"{i % 7},{i % 5},{i % 3}\n" for i in range(200))
        table = self.write("table.csv", "a,b,kind\n" + rows)
        model = self.write("table.pbtxt", """name: "table"
input { name: "x" shape { dim: 2 } }
input { name: "kind" dtype: INT32 max_value: 3 }
layer { name: "out" input: "x" dense { units: 3 } }
layer { name: "loss" input: "out" input: "kind" softmax_cross_entropy {} }
objective: "loss"
""")
        data = ("--data=csv", f"--data-csv-file={table}")
        self.rows = f"data: {table}: 200 rows below a header, 2 numbers a sample (a, b)\n"
        self.train(*data, "--data-held-back=0.3", "--batch=10", model=model)
        metrics, said = self.judged(*data, model=model)
        self.assertEqual((metrics["samples"], said), (60, "data: as in the training: --data-held-back=0.3\n" + self.rows))
        metrics, said = self.judged(*data, "--data-held-back=0.2", model=model)
        self.assertEqual(metrics["samples"], 40)
        self.assertIn("warning: --data-held-back=0.2 where the training had --data-held-back=0.3", said)
        metrics, said = self.judged(*data, "--data-held-back=0", "--part=training", model=model)
        self.assertEqual((metrics["samples"], said), (200, self.rows))
        self.train(*data, "--data-held-back=0", "--batch=10", model=model)
        said = self.error("eval", model, f"--checkpoint={self.output}", *data, code=1)
        self.assertIn("data: as in the training: --data-held-back=0\n", said)
        self.assertIn("these data have no part that is held back; --part=training takes all of their samples", said)

    def test_lines_are_filled_up_as_in_the_training(self):
        lines = "".join(json.dumps({"words": [i % 9 for i in range(n % 20 + 1)], "tags": [i % 3 for i in range(n % 20 + 1)]}) + "\n"
                        for n in range(120))
        data = ("--data=json-lines", f"--data-json-lines-file={self.write('lines.jsonl', lines)}")
        filled = ("--data-json-lines-length=length", "--data-json-lines-padding=tags=-100")
        self.train(*data, *filled, "--batch=20", model="models/tagger.pbtxt")
        metrics, said = self.judged(*data, model="models/tagger.pbtxt")
        self.assertEqual(said, "data: as in the training: --data-json-lines-length=length --data-json-lines-padding=tags=-100\n")
        self.assertEqual(metrics, self.judged(*data, *filled, model="models/tagger.pbtxt")[0])
        other, said = self.judged(*data, "--data-json-lines-padding=tags=0", model="models/tagger.pbtxt")
        self.assertNotAlmostEqual(other["loss"], metrics["loss"], places=4)
        self.assertIn("--data-json-lines-padding=tags=0 where the training had --data-json-lines-padding=tags=-100", said)

    def test_options_that_are_none_are_located(self):
        self.train("--data-digits-samples=320", "--steps=2")
        for options, expected in [({"data-mean": "much"}, '--data-mean: expected a number, found "much"'),
                                  ({"data-held-back": "\x1b[31m"}, "--data-held-back: expected a number"),
                                  ({"data": "pixels"}, '--data: expected one of digits')]:
            with self.subTest(options=options):
                other = self.with_options(**options)
                said = self.error("eval", MLP, f"--checkpoint={other}")
                self.assertIn(f'{other}: metadata "options": {expected}', said)
                self.assertNotIn("\x1b", said)


if __name__ == "__main__":
    unittest.main()
