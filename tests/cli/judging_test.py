"""`snug eval` of classifiers and language models beside an oracle that only sees `snug predict`, and its page in a browser."""

import json
import math
import os
import pathlib
import random
import struct
import subprocess
import unittest

import browser
from pictures_test import COLOURS, MODEL, png
from snug import BINARY, ROOT, SnugTest

NETWORK = """name: "points"
input {{ name: "x" shape {{ dim: 3 }} }}
input {{ name: "label" dtype: INT32 max_value: {classes} }}
layer {{ name: "fc" input: "x" dense {{ units: 8 }} }}
layer {{ name: "act" input: "fc" relu {{}} }}
layer {{ name: "out" input: "act" dense {{ units: {classes} }} }}
layer {{ name: "loss" input: "out" input: "label" softmax_cross_entropy {{}} }}
layer {{ name: "accuracy" input: "out" input: "label" accuracy {{}} }}
objective: "loss"
output: "accuracy"
"""


def area(scores, positive):
    """The share of pairs that are in order; ties are half a pair."""
    ups = [s for s, p in zip(scores, positive) if p]
    downs = [s for s, p in zip(scores, positive) if not p]
    if not ups or not downs:
        return None
    return sum((u > d) + 0.5 * (u == d) for u in ups for d in downs) / (len(ups) * len(downs))


def softmax(row):
    powers = [math.exp(x - max(row)) for x in row]
    return [p / sum(powers) for p in powers]


class PointsTest(SnugTest):
    """Trains on points, and compares what is judged with the oracle."""

    def train_points(self, classes, labels, rows=(120, 60)):
        """A network trained a little on random points, and the labels that it is judged by."""
        model = self.write("points.pbtxt", NETWORK.format(classes=classes))
        drawn = random.Random(classes)
        tables, judged = [], []
        for name, n in zip(("training", "test"), rows):
            lines = ["a,b,c,label"]
            for _ in range(n):
                label = drawn.choice(labels)
                # Whole numbers, so that many rows are alike and their scores tie.
                lines.append(",".join(str(drawn.randrange(3) + (label + i) % 2) for i in range(3)) + f",{label}")
                if name == "test":
                    judged.append(label)
            tables.append(self.write(f"{name}.csv", "\n".join(lines) + "\n"))
        data = ("--data=csv", f"--data-csv-file={tables[0]}", f"--data-csv-test-file={tables[1]}")
        self.run_snug("train", model, *data, "--epochs=3", "--batch=20", "--threads=1", f"--output={self.folder / 'run'}")
        return (model, f"--checkpoint={self.folder / 'run'}", "--threads=1", *data), judged

    def check(self, classes, labels, **how):
        arguments, judged = self.train_points(classes, labels, **how)
        scores = self.json("predict", *arguments, "--fetch=out")["rows"]
        found = self.json("eval", *arguments)
        got = found["classes"]
        predicted = [row.index(max(row)) for row in scores]
        matrix = [[0] * classes for _ in range(classes)]
        for label, guess in zip(judged, predicted):
            matrix[label][guess] += 1
        self.assertEqual(got["confusion"], matrix)
        self.assertEqual(sorted(got["confusions"]), sorted([l, p, matrix[l][p]] for l in range(classes) for p in range(classes) if l != p and matrix[l][p]))
        self.assertEqual([c[2] for c in got["confusions"]], sorted((c[2] for c in got["confusions"]), reverse=True))
        means = {"precision": [], "recall": [], "f1": [], "auc": []}
        probabilities = [softmax(row) for row in scores]
        for c, each in enumerate(got["each"]):
            rows, guesses, right = judged.count(c), predicted.count(c), matrix[c][c]
            self.assertEqual((each["rows"], each["predicted"], each["right"]), (rows, guesses, right))
            for key, part, whole in (("precision", right, guesses), ("recall", right, rows), ("f1", 2 * right, rows + guesses)):
                self.assertEqual(each[key], part / whole if whole else None, (c, key))
                if rows:
                    means[key].append(part / whole if whole else 0)
            # For two classes by the difference of the scores, in which nothing is rounded.
            ranks = [row[c] - row[1 - c] for row in scores] if classes == 2 else [round(p[c], 12) for p in probabilities]
            expected = area(ranks, [label == c for label in judged])
            if expected is None:
                self.assertIsNone(each["auc"])
            else:
                self.assertAlmostEqual(each["auc"], expected, places=12)
                means["auc"].append(expected)
        for key, values in means.items():
            self.assertAlmostEqual(got[key], sum(values) / len(values), places=12)
        loss = -sum(math.log(p[label]) for p, label in zip(probabilities, judged)) / len(judged)
        self.assertAlmostEqual(got["cross_entropy"], loss, places=6)
        self.assertAlmostEqual(found["metrics"]["loss"], loss, places=5)
        self.assertEqual(got["accuracy"], sum(l == p for l, p in zip(judged, predicted)) / len(judged))
        self.assertAlmostEqual(found["metrics"]["accuracy"], got["accuracy"], places=6)
        if classes > 5:  # the label is among the five highest scores; of equal ones the lower class comes first
            ranks = [sorted(range(classes), key=lambda c: (-row[c], c)).index(label) for label, row in zip(judged, scores)]
            self.assertEqual(got["top5_accuracy"], sum(rank < 5 for rank in ranks) / len(judged))
            self.assertLess(got["accuracy"], got["top5_accuracy"])
        else:
            self.assertNotIn("top5_accuracy", got)
        # The training's last evaluation has left the same.
        left = json.loads((self.folder / "run/confusion.json").read_text())
        self.assertEqual((left["rows"], left["right"], left["classes"]), (len(judged), sum(l == p for l, p in zip(judged, predicted)), classes))
        self.assertEqual(left["confusions"], got["confusions"])
        counts = lambda each: [(c["class"], c["name"], c["rows"], c["predicted"], c["right"]) for c in each if c["rows"] or c["predicted"]]
        self.assertEqual(counts(left["each"]), counts(got["each"]))
        return arguments, got


class JudgingTest(PointsTest):
    def test_several_classes(self):
        self.check(4, [0, 1, 2, 3])

    def test_more_than_five_classes_have_a_top_5(self):
        arguments, got = self.check(7, list(range(7)), rows=(120, 200))
        page = self.folder / "report.html"
        self.run_snug("eval", *arguments, f"--report={page}")
        if browser.MISSING:
            return
        with browser.Browser() as window:
            window.open(f"file://{page}")
            shown = window.run("return [...document.querySelectorAll('#facts div')].map(d => d.textContent)")
            self.assertIn("top-5 accuracy" + format(got["top5_accuracy"], ".5g"), shown)
            self.assertEqual(window.complaints(), [])

    def test_classes_that_never_occur(self):
        _, got = self.check(5, [0, 2, 3])
        self.assertIsNone(got["each"][4]["recall"])

    def test_two_classes(self):
        arguments, got = self.check(2, [0, 1], rows=(120, 200))
        self.assertEqual(got["each"][0]["auc"], got["each"][1]["auc"])
        said = self.run_snug("eval", *arguments).stdout
        for part in ("class", "precision", "F1", "AUC", "mean of classes", "label \\ taken for"):
            self.assertIn(part, said)

    def test_a_training_keeps_nothing_of_evaluations_that_are_yet_to_come(self):
        self.train_points(4, [0, 1, 2, 3])
        run = self.folder / "run"
        data = ("--data=csv", *(f"--data-csv-{flag}={self.folder / name}.csv" for flag, name in (("file", "training"), ("test-file", "test"))))
        left = run / "confusion.json"
        self.assertEqual(json.loads(left.read_text())["step"], 18)
        train = ("train", self.folder / "points.pbtxt", *data, "--batch=20", "--threads=1", f"--output={run}", "--steps=30")
        fails = (*train, "--resume-with=learning-rate", "--learning-rate=1e30")
        self.run_snug(*fails, code=1)  # at a loss that is not finite, before any evaluation
        self.assertTrue(left.exists())
        for checkpoint in sorted((run / "checkpoints").iterdir())[1:]:
            checkpoint.unlink()
        self.run_snug(*fails, code=1)
        self.assertFalse(left.exists())
        left.write_text('{"step": 2}')
        for checkpoint in (run / "checkpoints").iterdir():
            checkpoint.unlink()
        self.run_snug(*train, "--learning-rate=1e30", code=1)  # begins anew
        self.assertFalse(left.exists())

    def test_a_batch_changes_nothing(self):
        arguments, got = self.check(4, [0, 1, 2, 3])
        other = self.json("eval", *arguments, "--batch=7")["classes"]
        for key in ("confusion", "confusions", "rows", "accuracy", "precision", "recall", "f1"):
            self.assertEqual(other[key], got[key])
        self.assertAlmostEqual(other["cross_entropy"], got["cross_entropy"], places=6)  # kernels round otherwise

    def test_many_classes_are_shown_by_the_worst(self):
        arguments, got = self.check(30, list(range(30)), rows=(200, 300))
        said = self.run_snug("eval", *arguments).stdout
        self.assertIn("These are the 20 of 30 classes with the lowest F1.", said)
        self.assertIn(f"\ntop-5 accuracy {got['top5_accuracy']:.4f}: so many rows have their label among the 5 highest scores.\n", said)
        self.assertIn("most frequent confusions", said)
        label, predicted, count = got["confusions"][0]
        self.assertIn(f"  {label} taken for {predicted}: {count} of ", said)
        self.assertLess(len(said.splitlines()), 45)

    def test_a_network_without_class_scores_says_what_was_looked_for(self):
        text = NETWORK.format(classes=2)
        text = text.replace('input: "label" softmax_cross_entropy', 'input: "goal" mean_squared_error')
        text = text.replace('name: "label" dtype: INT32 max_value: 2', 'name: "goal" shape { dim: 2 }')
        text = "".join(line for line in text.splitlines(True) if "accuracy" not in line)
        model = self.write("goal.pbtxt", text)
        def npy(shape, values):
            header = str({"descr": "<f4", "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
            return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values)
        for name, width in (("x", 3), ("goal", 2)):
            (self.folder / f"{name}.npy").write_bytes(npy((20, width), [0.5] * 20 * width))
        data = ("--data=npy", f"--data-npy-file=x={self.folder / 'x.npy'},goal={self.folder / 'goal.npy'}")
        self.run_snug("train", model, *data, "--steps=2", "--batch=4", f"--output={self.folder / 'run'}")
        trained = (model, f"--checkpoint={self.folder / 'run'}", *data)
        self.assertIn("classes are not judged: no layer is a softmax_cross_entropy", self.run_snug("eval", *trained).stdout)
        self.assertIn("--scores=LAYER --labels=INPUT", self.json("eval", *trained)["classes_missing"])
        said = self.error("eval", *trained, f"--report={self.folder / 'a.html'}")
        self.assertIn("--report: there are no class scores: no layer is a softmax_cross_entropy", said)
        self.assertFalse((self.folder / "a.html").exists())
        self.assertIn("--labels: expected the input that has the labels", self.error("eval", *trained, "--scores=out"))
        self.assertIn('the labels "goal" are a probability for each class, not a class', self.error("eval", *trained, "--scores=out", "--labels=goal"))
        self.assertIn('scores "fc" float32[20, 8]: expected a class for each row of them as the labels, found "goal" float32[20, 2]',
                      self.error("eval", *trained, "--scores=fc", "--labels=goal", "--part=training", "--data-held-back=0", "--batch=20"))
        self.assertIn("the network has no value of that name", self.error("eval", *trained, "--scores=outt", "--labels=goal"))
        self.assertIn("--fetch: expected the name of a layer", self.error("predict", *trained))

    def test_named_scores_are_judged(self):
        arguments, _ = self.train_points(3, [0, 1, 2])
        found = self.json("eval", *arguments, "--scores=act")["classes"]  # eight scores, of which three have labels
        self.assertEqual((found["scores"], found["labels"], len(found["each"])), ("act", "label", 8))

    def test_a_saved_plan_keeps_no_scores_and_that_is_said(self):
        arguments, _ = self.train_points(3, [0, 1, 2], rows=(120, 64))
        plan = self.folder / "forward.plan"
        self.run_snug("plan", arguments[0], "--forward", "--batch=64", "--threads=1", f"--write-plan={plan}")
        said = self.run_snug("eval", *arguments, "--batch=64", f"--plan={plan}").stdout
        self.assertIn('classes are not judged: the program of --plan keeps no "out"', said)

    def test_a_language_model_has_a_perplexity(self):
        text = self.write("text.txt", "the cat sat on the mat and the dog sat on the log. " * 60)
        model = self.write("bytes.pbtxt", """name: "bytes"
input { name: "tokens" shape { dim: 16 } dtype: INT32 max_value: 256 }
input { name: "label" shape { dim: 16 } dtype: INT32 max_value: 256 }
layer { name: "embed" input: "tokens" embedding { entries: 256 width: 8 } }
layer { name: "head" input: "embed" dense { units: 256 } }
layer { name: "loss" input: "head" input: "label" softmax_cross_entropy {} }
objective: "loss"
""")
        data = ("--data=text", f"--data-text-file={text}")
        self.run_snug("train", model, *data, "--epochs=4", "--batch=8", "--optimizer=adam", "--learning-rate=0.02", f"--output={self.folder / 'run'}")
        trained = (model, f"--checkpoint={self.folder / 'run'}", *data)
        found = self.json("eval", *trained)
        self.assertAlmostEqual(found["perplexity"], math.exp(found["metrics"]["loss"]), places=9)
        self.assertAlmostEqual(found["bits_per_token"], found["metrics"]["loss"] / math.log(2), places=9)
        self.assertNotIn("classes", found)
        asked = self.json("eval", *trained, "--scores=head")
        self.assertAlmostEqual(asked["perplexity"], found["perplexity"], places=4)
        self.assertEqual(len(asked["classes"]["each"]), 256)
        said = self.run_snug("eval", *trained).stdout
        self.assertIn("bits per token", said)
        self.assertIn("unless --scores=head asks for it", said)
        # A loss that is smoothed is another number than -log p: the scores are read for that alone.
        smoothed = self.write("smoothed.pbtxt", model.read_text().replace("softmax_cross_entropy {}", "softmax_cross_entropy { label_smoothing: 0.2 }"))
        other = self.json("eval", smoothed, *trained[1:])
        self.assertAlmostEqual(other["perplexity"], found["perplexity"], places=4)
        self.assertGreater(other["metrics"]["loss"], found["metrics"]["loss"] + 0.05)


NAMED = """name: "named"
input {{ name: "x" shape {{ dim: 2 }} }}
input {{ name: "kind" dtype: INT32 max_value: {classes} }}
layer {{ name: "out" input: "x" dense {{ units: {units} }} }}
{rest}
"""
COMPARED = """layer { name: "loss" input: "out" input: "kind" softmax_cross_entropy {} }
objective: "loss"
"""
# Whether a row is of any kind but the first, which is a class of its own.
COMPUTED = """layer { name: "number" input: "kind" cast { dtype: FLOAT } }
layer { name: "clipped" input: "number" clip { max: 1 } }
layer { name: "other" input: "clipped" reshape { dim: 1 } }
layer { name: "loss" input: "out" input: "other" binary_cross_entropy_with_logits {} }
objective: "loss"
"""


class NamedClassesTest(SnugTest):
    """Of a table whose classes are text, and scores that are no numbers or infinite."""

    def train(self, kinds, units, rest):
        model = self.write("named.pbtxt", NAMED.format(classes=len(kinds), units=units, rest=rest))
        rows = "".join(f"{i % 5},{i % 7},{kinds[i % len(kinds)]}\n" for i in range(60))
        table = self.write("kinds.csv", "a,b,kind\n" + rows)
        data = ("--data=csv", f"--data-csv-file={table}", "--data-csv-label=kind")
        self.run_snug("train", model, *data, "--steps=4", "--batch=10", "--threads=1", f"--output={self.folder / 'run'}")
        return [model, f"--checkpoint={self.folder / 'run'}", "--threads=1", *data]

    def with_bias(self, arguments, bias):
        """The same, with another bias of "out" than was trained."""
        (trained,) = (self.folder / "run" / "checkpoints").glob("step-*.safetensors")
        data = trained.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header, numbers = json.loads(data[8:8 + length]), bytearray(data[8 + length:])
        header["__metadata__"].pop("snug.xxh64")
        begin, end = header["out.bias"]["data_offsets"]
        numbers[begin:end] = struct.pack(f"<{len(bias)}f", *bias)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        other = self.folder / "other.safetensors"
        other.write_bytes(struct.pack("<Q", len(text)) + text + numbers)
        return [arguments[0], f"--checkpoint={other}", *arguments[2:]]

    def told(self, arguments):
        """The class and the probability of each sample, as the table has them."""
        lines = self.run_snug("predict", *arguments).stdout.splitlines()
        self.assertEqual(lines[0], "sample,class,probability")
        return {tuple(line.split(",")[1:]) for line in lines[1:]}

    def test_text_labels_name_the_classes(self):
        arguments = self.train(["iris", "rose", "tulip"], 3, COMPARED)
        self.assertEqual([c["name"] for c in self.json("eval", *arguments)["classes"]["each"]], ["iris", "rose", "tulip"])
        self.assertLessEqual({kind for kind, _ in self.told(arguments)}, {"iris", "rose", "tulip"})

    def test_computed_labels_have_names_of_their_own(self):
        arguments = self.train(["iris", "rose", "tulip"], 1, COMPUTED)
        found = self.json("eval", *arguments)["classes"]
        self.assertEqual((found["labels"], [c["name"] for c in found["each"]]), ("other", ["0", "1"]))
        self.assertLessEqual({kind for kind, _ in self.told(arguments)}, {"0", "1"})

    def test_what_has_no_prediction_is_no_class_of_that_name(self):
        arguments = self.train(["none", "some"], 2, COMPARED)
        self.assertEqual({kind for kind, _ in self.told(self.with_bias(arguments, [90, 0]))}, {"none"})
        self.assertEqual(self.told(self.with_bias(arguments, [math.nan, 0])), {("", "")})

    def test_infinite_scores_are_said(self):
        arguments = self.with_bias(self.train(["iris", "rose", "tulip"], 3, COMPARED), [math.inf, 0, 0])
        self.assertEqual(self.told(arguments), {("iris", "")})
        found = self.json("eval", *arguments)["classes"]
        self.assertIsNone(found["auc"])
        self.assertEqual(found["auc_missing"], "sample 0 has infinite scores, which give no probabilities to be ranked")
        said = self.run_snug("eval", *arguments).stdout
        self.assertIn("No AUC: sample 0 has infinite scores, which give no probabilities to be ranked.", said)


class ImagesJudgingTest(SnugTest):
    """Of pictures in folders: names, files, and the training part as it is judged."""

    def setUp(self):
        super().setUp()
        self.model = self.write("flowers.pbtxt", MODEL)
        self.flowers = self.folder / "flowers"
        drawn = random.Random(4)
        for name, colour in {**COLOURS, "violet": (200, 60, 120)}.items():
            (self.flowers / name).mkdir(parents=True)
            for i in range(14):
                pixels = [[[max(0, min(255, c + drawn.randrange(-90, 91))) for c in colour] for _ in range(20)] for _ in range(16)]
                (self.flowers / name / f"{i}.png").write_bytes(png(pixels))
        self.data = ("--data=images", f"--data-images-directory={self.flowers}", "--threads=1")
        output = self.folder / "run"
        train = ("train", self.model, *self.data, "--batch=6", "--epochs=3", "--learning-rate=0.02", f"--output={output}")
        probe = subprocess.run([BINARY, *map(str, train)], capture_output=True, text=True, cwd=ROOT, timeout=300)
        if "has no lib" in probe.stderr:
            self.skipTest("SKIPPED: a build without libpng")
        self.assertEqual(probe.returncode, 0, probe.stderr)
        self.trained = (self.model, f"--checkpoint={output}", *self.data)

    def test_classes_have_the_names_of_their_folders(self):
        found = self.json("eval", *self.trained, "--part=training")["classes"]
        self.assertEqual([c["name"] for c in found["each"]], sorted(COLOURS))
        said = self.run_snug("eval", *self.trained, "--part=training").stdout
        for name in COLOURS:
            self.assertIn(f"\n{name} ", said)

    def test_the_training_part_is_judged_by_the_middle_of_each_image(self):
        # With a test folder of the same images, both parts are all of them, in one sequence.
        both = (*self.trained, f"--data-images-test-directory={self.flowers}")
        held_back, training = (self.json("predict", *both, "--fetch=out", f"--part={part}") for part in ("held-back", "training"))
        self.assertEqual(held_back["rows"], training["rows"])
        self.assertEqual(len(training["rows"]), 42)
        for seed in ("--seed=1", "--seed=2"):  # which decides what random crops there would be
            self.assertEqual(self.json("predict", *both, "--fetch=out", "--part=training", seed)["rows"], training["rows"])

    @unittest.skipIf(browser.MISSING, browser.MISSING)
    def test_the_page_shows_it(self):
        page = self.folder / "report.html"
        said = self.run_snug("eval", *self.trained, "--part=training", f"--report={page}").stdout
        self.assertIn(f"the page is in {page}", said)
        text = page.read_text()
        for remote in ("http://", "https://", "src=", "@import"):
            self.assertNotIn(remote, text)
        with browser.Browser() as window:
            window.open(f"file://{page}")
            shown = window.run("return document.body.innerText")
            for part in ("flowers", "daisy", "rose", "violet", "What was taken for what", "Predicted worst", "mean of classes"):
                self.assertIn(part, shown)
            table = window.run("return [...document.querySelectorAll('#classes tbody tr')].map(r => [...r.children].map(c => c.textContent))")
            found = self.json("eval", *self.trained, "--part=training")["classes"]
            self.assertEqual([[r[0], r[1], r[4]] for r in table], [[c["name"], str(c["rows"]), f"{c['recall']:.4f}"] for c in found["each"]])
            window.run("document.querySelectorAll('#classes th')[5].click()")
            f1 = window.run("return [...document.querySelectorAll('#classes tbody tr')].map(r => Number(r.children[5].textContent))")
            self.assertEqual(f1, sorted(f1))
            # Each of the worst samples is a picture, in which not all pixels are alike, with the file's name.
            pictures = window.run("""return [...document.querySelectorAll('figure')].map(f => {
                const c = f.querySelector('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
                return [c.width, c.height, new Set(d).size > 20, f.innerText]; })""")
            self.assertEqual(len(pictures), 24)
            for width, height, varied, caption in pictures:
                self.assertEqual((width, height, varied), (12, 12, True))
                self.assertRegex(caption, r"(daisy|rose|violet)/\d+\.png")
            losses = window.run("return data.worst.map(s => s.cross_entropy)")
            self.assertEqual(losses, sorted(losses, reverse=True))
            self.assertEqual(window.complaints(), [])
            folder = os.environ.get("SNUG_SCREENSHOTS")
            if folder:
                (pathlib.Path(folder) / "report.png").write_bytes(window.screenshot())

    def test_a_page_that_cannot_be_written_is_said_at_once(self):
        said = self.error("eval", *self.trained, f"--report={self.folder / 'nowhere' / 'a.html'}", code=1)
        self.assertIn("nowhere/a.html: cannot be written", said)


class PageOfNumbersTest(PointsTest):
    def test_two_classes_have_a_curve_and_samples_are_numbers(self):
        arguments, got = self.check(2, [0, 1], rows=(120, 200))
        page = self.folder / "report.html"
        self.run_snug("eval", *arguments, f"--report={page}")
        document = json.loads(page.read_text().split('type="application/json">')[1].split("</script>")[0])
        curve = document["curve"]
        trapezoids = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in zip(curve, curve[1:]))
        self.assertAlmostEqual(trapezoids, got["auc"], places=12)
        self.assertEqual((curve[0], curve[-1][:2]), ([0, 0, None], [1, 1]))  # no probability is so high that nothing is found
        self.assertEqual(len(document["worst"][0]["numbers"]["features"]["first"]), 3)
        if browser.MISSING:
            return
        with browser.Browser() as window:
            window.open(f"file://{page}")
            self.assertIn("ROC curve", window.run("return document.body.innerText"))
            self.assertIn("features:", window.run("return document.querySelector('figure pre').textContent"))
            at_start = window.run("""const roc = document.getElementById('roc'), box = roc.getBoundingClientRect();
                roc.onmousemove({clientX: box.left + 46, clientY: box.top + box.height - 46});
                return document.getElementById('tip').textContent""")
            self.assertEqual(at_start, "above every probability: 0.0 % found, 0.0 % taken wrongly")
            self.assertEqual(window.complaints(), [])


if __name__ == "__main__":
    unittest.main()
