"""What a training keeps of its best evaluation, when it ends early, and when its learning rate falls; also after it was killed."""

import json
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
                (["--best-metric=acuracy"], 'training.best.metric: expected a metric of the evaluation, loss or accuracy, found "acuracy"'),
                (["--best-patience=2"], "training.best.patience: expected training.best.metric as well"),
                (["--best-metric=loss", "--best-patience=0"], "--best-patience: expected a whole number of at least 1"),
                (["--schedule-plateau-factor=2"], "--schedule-plateau-factor: expected a number from 0 to 1"),
                (["--schedule-plateau-patience=0"], "--schedule-plateau-patience: expected a whole number"),
                (["--schedule-plateau-metric=f1"], "training.schedule.plateau.metric: expected a metric"),
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


if __name__ == "__main__":
    unittest.main()
