"""What a training keeps of its best evaluation, when it ends early, and when its learning rate falls; also after it was killed."""

import json
import math
import pathlib
import shutil
import struct
import unittest

import interruption_test
from snug import SnugTest

BEST = "best.safetensors"


def content_of(path):
    """Metadata and the bytes of the tensors of a safetensors file."""
    content = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    return json.loads(content[8:8 + length])["__metadata__"], content[8 + length:]


class BestTest(SnugTest):
    FLAGS = ("--data-digits-samples=320", "--batch=32", "--threads=1", "--evaluate-batches=3", "--evaluate-every=2")

    def train(self, *arguments, output="run", schedule="constant", code=0):
        return self.run_snug("train", "models/mlp.pbtxt", *self.FLAGS, f"--schedule={schedule}",
                             f"--output={self.folder / output}", *arguments, code=code)

    def evaluations(self, output="run"):
        lines = [json.loads(line) for line in (self.folder / output / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if line["kind"] == "evaluation"]

    def rates(self, output="run"):
        lines = [json.loads(line) for line in (self.folder / output / "metrics.jsonl").read_text().splitlines()]
        return [line["learning_rate"] for line in lines if line["kind"] == "step"]

    def test_the_best_state_is_kept_beside_the_newest(self):
        # So large a rate that the loss goes up and down.
        said = json.loads(self.train("--steps=20", "--learning-rate=0.8", "--best-metric=loss", "--checkpoint-every=2",
                                     "--checkpoint-keep=1", "--json").stdout)
        best = min(self.evaluations(), key=lambda line: line["loss"])
        checkpoints = self.folder / "run/checkpoints"
        self.assertEqual(sorted(path.name for path in checkpoints.iterdir()), [BEST, "step-000000020.safetensors"])
        self.assertEqual(said["best"], {"metric": "loss", "value": best["loss"], "step": best["step"], "checkpoint": str(checkpoints / BEST)})
        metadata, bytes_of_it = content_of(checkpoints / BEST)
        self.assertEqual((metadata["snug.step"], float(metadata["best.value"])), (str(best["step"]), best["loss"]))
        # It is the state of that step: a training of so many steps ends with it.
        self.train(f"--steps={best['step']}", "--learning-rate=0.8", output="so_far")
        _, expected = content_of(self.folder / f"so_far/checkpoints/step-{best['step']:09}.safetensors")
        self.assertEqual(bytes_of_it, expected)
        found = self.json("eval", "models/mlp.pbtxt", f"--checkpoint={checkpoints / BEST}", "--batch=32", "--batches=3")
        self.assertAlmostEqual(found["metrics"]["loss"], best["loss"], places=6)

    def test_patience_ends_the_training_and_more_of_it_goes_on(self):
        # Nothing is learnt at this rate, so no accuracy is better than the first.
        flags = ("--steps=40", "--learning-rate=0", "--best-metric=accuracy", "--checkpoint-every=7")
        done = self.train(*flags, "--best-patience=3")
        self.assertIn("ended early: 3 evaluations were no better than the best", done.stdout)
        self.assertIn(f"best       {self.folder / 'run/checkpoints' / BEST}: accuracy ", done.stdout)
        self.assertIn("done after 8 steps", done.stdout)
        again = json.loads(self.train(*flags, "--best-patience=3", "--resume", "--json").stdout)
        self.assertEqual((again["steps"], again["finished"], again["ended_early"]), (8, True, True))
        more = json.loads(self.train(*flags, "--best-patience=5", "--resume", "--json").stdout)
        self.assertEqual((more["steps"], more["ended_early"], more["best"]["step"]), (12, True, 2))

    def test_the_rate_falls_on_a_plateau(self):
        done = self.train("--steps=12", "--learning-rate=0.5", "--schedule-plateau-metric=accuracy", "--schedule-plateau-patience=1",
                          "--schedule-plateau-factor=0.5", "--schedule-plateau-final=0.25", schedule="plateau")
        expected, factor, best = [], 1.0, None
        for line in self.evaluations():
            expected += [0.5 * factor] * 2
            if best is None or line["accuracy"] > best:
                best = line["accuracy"]
            else:
                factor = max(0.25, factor / 2)
        self.assertEqual(self.rates(), expected)
        if factor < 1:
            self.assertIn("of the schedule's from now on", done.stdout)

    def test_of_an_error_the_least_is_best(self):
        model = self.write("fit.pbtxt", """name: "fit"
input { name: "features" shape { dim: 2 } }
input { name: "label" shape { dim: 1 } }
layer { name: "out" input: "features" dense { units: 1 } }
layer { name: "loss" input: "out" input: "label" mean_squared_error {} }
layer { name: "l1" input: "out" input: "label" l1_loss {} }
layer { name: "size" input: "out" reduce_mean {} }
objective: "loss"
output: ["l1", "size"]
""")
        table = self.write("fit.csv", "a,b,y\n" + "".join(f"{i % 7},{i % 5},{i % 7 - 2 * (i % 5)}\n" for i in range(200)))
        train = ("train", model, "--data=csv", f"--data-csv-file={table}", "--batch=20", "--steps=20", "--evaluate-every=2",
                 "--learning-rate=0.02", "--threads=1", f"--output={self.folder / 'run'}")
        said = json.loads(self.run_snug(*train, "--best-metric=l1", "--json").stdout)
        errors = {line["step"]: line["l1"] for line in self.evaluations()}
        self.assertGreater(len(set(errors.values())), 5)
        self.assertEqual(said["best"]["value"], min(errors.values()))
        self.assertEqual(errors[said["best"]["step"]], min(errors.values()))
        record = json.loads((self.folder / "run/run.json").read_text())
        self.assertEqual(record["metrics"], {"loss": "least", "l1": "least", "size": "unknown"})
        self.assertIn('training.best.metric: of "size" it is not known whether the least or the most is best',
                      self.run_snug(*train, "--best-metric=size", code=2).stderr)
        for direction, best in (("least", min), ("most", max)):
            shutil.rmtree(self.folder / "run")
            said = json.loads(self.run_snug(*train, f"--best-metric=size:{direction}", "--json").stdout)
            self.assertEqual(said["best"]["value"], best(line["size"] for line in self.evaluations()))
            self.assertEqual(json.loads((self.folder / "run/run.json").read_text())["metrics"]["size"], direction)

    def test_mistakes(self):
        for arguments, expected in [
                (["--best-metric=acuracy"], 'training.best.metric: expected a metric of the evaluation, loss or accuracy or precision or recall or f1 or auc or top5_accuracy, found "acuracy"'),
                (["--best-patience=2"], "training.best.patience: expected training.best.metric as well"),
                (["--best-metric=loss", "--best-patience=0"], "--best-patience: expected a whole number of at least 1"),
                (["--schedule-plateau-factor=2"], "--schedule-plateau-factor: expected a number from 0 to 1"),
                (["--schedule-plateau-patience=0"], "--schedule-plateau-patience: expected a whole number"),
                (["--schedule-plateau-metric=f2"], "training.schedule.plateau.metric: expected a metric"),
        ]:
            with self.subTest(arguments=arguments):
                schedule = "plateau" if "plateau" in arguments[0] else "constant"
                self.assertIn(expected, self.train("--steps=2", *arguments, schedule=schedule, code=2).stderr)
                self.assertFalse((self.folder / "run/checkpoints").exists())


class InterruptedOnAPlateau(interruption_test.Interrupted):
    """The kills of interruption_test.py, in a training whose evaluations decide about its rate and its best state."""

    def command(self, output, steps):
        return [*super().command(output, steps), "--schedule=plateau", "--schedule-plateau-patience=1",
                "--schedule-plateau-factor=0.7", "--best-metric=accuracy", "--evaluate-every=3"]

    def test_killed_at_random_moments(self):
        self.kill_at_random_moments(4)

    def test_killed_at_the_writes_of_the_best_state(self):
        self.kill_at_writes(lambda kinds: [i + 1 for i, kind in enumerate(kinds) if kind == "rename"])


MLP = "models/mlp.pbtxt"
JUDGED = ("precision", "recall", "f1", "auc", "top5_accuracy")
CLASSIFIER = """name: "many"
input {{ name: "features" shape {{ dim: 2 }} }}
input {{ name: "label" dtype: INT32 max_value: {classes} }}
layer {{ name: "out" input: "features" dense {{ units: {classes} }} }}
layer {{ name: "loss" input: "out" input: "label" softmax_cross_entropy {{}} }}
{more}
objective: "loss"
"""
BYTES = """name: "bytes"
input { name: "tokens" shape { dim: 16 } dtype: INT32 max_value: 256 }
input { name: "label" shape { dim: 16 } dtype: INT32 max_value: 256 }
layer { name: "embed" input: "tokens" embedding { entries: 256 width: 8 } }
layer { name: "head" input: "embed" dense { units: 256 } }
layer { name: "loss" input: "head" input: "label" softmax_cross_entropy {} }
objective: "loss"
"""


class EvaluationMetricsTest(SnugTest):
    """What judging adds to the metrics of a training's evaluations, and that a training can go by it."""

    def train(self, model, *flags, code=0):
        if "--resume" not in flags:
            shutil.rmtree(self.folder / "run", ignore_errors=True)
        return self.run_snug("train", model, "--threads=1", f"--output={self.folder / 'run'}", *flags, code=code)

    def evaluations(self):
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if line["kind"] == "evaluation"]

    def record(self):
        return json.loads((self.folder / "run/run.json").read_text())

    def table(self, classes, rows):
        text = "a,b,label\n" + "".join(f"{i % 7},{i % 5},{i % classes}\n" for i in range(rows))
        return ("--data=csv", f"--data-csv-file={self.write('table.csv', text)}", "--data-held-back=0.5")

    def test_evaluations_measure_what_eval_measures(self):
        said = self.train(MLP, "--steps=40", "--evaluate-every=10", "--data-digits-samples=640", "--best-metric=f1").stdout
        lines = self.evaluations()
        found = self.json("eval", MLP, f"--checkpoint={self.folder / 'run'}", "--threads=1")["classes"]
        for name in JUDGED:
            self.assertAlmostEqual(lines[-1][name], found[name], places=12, msg=name)
        best = max(line["f1"] for line in lines)
        self.assertIn(f"best       {self.folder / 'run/checkpoints/best.safetensors'}: f1 {best:.6g} after step", said)
        # The console has what the network measures and what the training goes by; the files have all.
        self.assertRegex(said, r"evaluation after step 40  loss \S+  accuracy \S+  f1 \S+  \(")
        self.assertEqual(self.record()["metrics"], {"loss": "least", "accuracy": "most", **{name: "most" for name in JUDGED}})
        curves = (self.folder / "run/curve.svg").read_text()
        for name in JUDGED:
            self.assertIn(f">{name}<", curves)
        table = self.run_snug("compare", self.folder / "run", f"--html={self.folder / 'c.html'}").stdout
        self.assertIn("best f1", table)

    def test_patience_and_plateau_go_by_it(self):
        # Nothing is learnt at this rate, so no area is better than the first.
        flags = ("--steps=40", "--learning-rate=0", "--evaluate-every=2", "--data-digits-samples=320", "--evaluate-batches=3")
        done = self.train(MLP, *flags, "--best-metric=auc", "--best-patience=3")
        self.assertIn("ended early: 3 evaluations were no better than the best", done.stdout)
        self.assertIn("done after 8 steps", done.stdout)
        done = self.train(MLP, *flags, "--schedule=plateau", "--schedule-plateau-metric=recall", "--schedule-plateau-patience=2")
        self.assertIn("the learning rate is 0.1 of the schedule's from now on", done.stdout)

    def test_a_language_model_has_its_perplexity(self):
        text = self.write("text.txt", "the cat sat on the mat and the dog sat on the log. " * 60)
        model = self.write("bytes.pbtxt", BYTES)
        flags = ("--data=text", f"--data-text-file={text}", "--epochs=2", "--batch=8", "--optimizer=adam", "--learning-rate=0.02")
        said = self.train(model, *flags, "--best-metric=perplexity").stdout
        lines = self.evaluations()
        for line in lines:
            self.assertAlmostEqual(line["perplexity"], math.exp(line["loss"]), places=9)
        self.assertEqual(self.record()["metrics"], {"loss": "least", "perplexity": "least"})
        self.assertRegex(said, r"evaluation after step \d+  loss \S+  perplexity \S+  \(")
        self.assertIn(f"perplexity {min(line['perplexity'] for line in lines):.6g} after step", said)
        # A loss that is smoothed does not tell it: the scores are read.
        smoothed = self.write("smoothed.pbtxt", BYTES.replace("softmax_cross_entropy {}", "softmax_cross_entropy { label_smoothing: 0.2 }"))
        self.train(smoothed, *flags)
        line = self.evaluations()[-1]
        self.assertGreater(abs(math.log(line["perplexity"]) - line["loss"]), 0.05)
        found = self.json("eval", smoothed, f"--checkpoint={self.folder / 'run'}", "--threads=1", *flags[:2])
        self.assertAlmostEqual(line["perplexity"], found["perplexity"], places=6)
        # Of so many tokens that would take too long, which is said.
        many = self.write("many.pbtxt", BYTES.replace("256", "10001").replace("softmax_cross_entropy {}", "softmax_cross_entropy { label_smoothing: 0.2 }"))
        done = self.train(many, *flags[:2], "--steps=1", "--batch=8", "--best-metric=perplexity", code=2)
        self.assertIn('expected a metric of the evaluation, loss, found "perplexity"; no perplexity, as no objective is the mean of -log p',
                      done.stderr)
        done = self.train(many, *flags[:2], "--steps=1", "--batch=8")
        self.assertIn("\nevaluations have no perplexity, as no objective", done.stdout)
        self.assertNotIn("perplexity", self.evaluations()[-1])

    def test_what_would_take_too_long_is_left_out_and_said(self):
        model = self.write("many.pbtxt", CLASSIFIER.format(classes=3000, more=""))
        data = self.table(3000, 6000)
        said = self.train(model, *data, "--steps=2", "--batch=500").stdout
        self.assertIn("\nevaluations have no auc: 3000 rows of 3000 classes have more scores than the 1048576 that are ranked", said)
        line = self.evaluations()[-1]
        self.assertEqual(set(line) - {"kind", "step", "seconds", "loss"}, set(JUDGED) - {"auc"})
        said = self.train(model, *data, "--steps=2", "--batch=500", "--best-metric=auc", code=2).stderr
        self.assertIn('found "auc"; no auc: 3000 rows of 3000 classes', said)
        # An evaluation of fewer rows has one.
        self.train(model, *data, "--steps=2", "--batch=300", "--evaluate-batches=1", "--best-metric=auc")
        self.assertIn("auc", self.evaluations()[-1])
        model = self.write("more.pbtxt", CLASSIFIER.format(classes=10001, more=""))
        said = self.train(model, *self.table(10001, 400), "--steps=2", "--batch=100", "--best-metric=f1", code=2).stderr
        self.assertIn('loss, found "f1"; no precision, recall, f1 and auc: 10001 classes are too many to be told apart one by one', said)

    def test_an_output_of_the_network_keeps_its_name(self):
        more = 'layer { name: "f1" input: "out" input: "label" accuracy {} }\noutput: "f1"'
        model = self.write("own.pbtxt", CLASSIFIER.format(classes=3, more=more))
        self.train(model, *self.table(3, 200), "--steps=4", "--batch=20", "--best-metric=f1")
        line = self.evaluations()[-1]
        self.assertEqual(list(line), ["kind", "step", "loss", "f1", "precision", "recall", "auc", "seconds"])
        left = json.loads((self.folder / "run/confusion.json").read_text())
        self.assertAlmostEqual(line["f1"], left["right"] / left["rows"], places=6)

    def test_a_network_without_classes_has_its_own_metrics_alone(self):
        model = self.write("fit.pbtxt", CLASSIFIER.format(classes=1, more="").replace(" dtype: INT32 max_value: 1", " shape { dim: 1 }")
                           .replace("softmax_cross_entropy", "l1_loss"))
        self.train(model, *self.table(3, 200), "--steps=4", "--batch=20")
        self.assertEqual(set(self.evaluations()[-1]), {"kind", "step", "loss", "seconds"})
        self.assertIn('expected a metric of the evaluation, loss, found "f1"\n', self.train(model, *self.table(3, 200), "--best-metric=f1", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
