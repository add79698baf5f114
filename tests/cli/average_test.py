"""`average.safetensors`, the mean of a training's newest checkpoints: what it is of, and that no interruption changes it."""

import array
import json
import pathlib
import struct
import unittest

import interruption_test
from snug import SnugTest

AVERAGE = "average.safetensors"


def tensors_of(path):
    """The metadata of a safetensors file, and its float32 tensors as arrays."""
    content = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__")
    data = content[8 + length:]
    return metadata, {name: array.array("f", data[slice(*entry["data_offsets"])]) for name, entry in header.items()
                      if entry["dtype"] == "F32"}


class AverageTest(SnugTest):
    FLAGS = ("--data-digits-samples=320", "--batch=32", "--threads=1", "--evaluate-batches=3", "--learning-rate=0.3")

    def train(self, *arguments, output="run", code=0):
        return self.run_snug("train", "models/mlp.pbtxt", *self.FLAGS, f"--output={self.folder / output}", *arguments,
                             code=code)

    def test_it_is_the_mean_of_the_newest(self):
        said = json.loads(self.train("--steps=20", "--checkpoint-every=6", "--checkpoint-keep=3", "--checkpoint-average=3",
                                     "--json").stdout)
        checkpoints = self.folder / "run/checkpoints"
        steps = [12, 18, 20]
        self.assertEqual(said["average"], {"checkpoint": str(checkpoints / AVERAGE), "steps": steps})
        names = [f"step-{step:09}.safetensors" for step in steps]
        self.assertEqual(sorted(path.name for path in checkpoints.iterdir()), [AVERAGE, *names])
        metadata, found = tensors_of(checkpoints / AVERAGE)
        self.assertEqual((metadata["averaged"], metadata["snug.step"]), ("12,18,20", "20"))
        parts = [tensors_of(checkpoints / name)[1] for name in names]
        self.assertEqual(sorted(found), sorted(name for name in parts[0] if "/" not in name and not name.startswith("optimizer.")))
        for name, values in found.items():
            mean = array.array("f", [sum(numbers) / 3 for numbers in zip(*(part[name] for part in parts))])
            self.assertEqual(values, mean, name)
        self.assertNotEqual(found["fc1.weight"], parts[2]["fc1.weight"])
        # Other commands take it, and it has what it should: between its parts' losses or better.
        losses = [self.json("eval", "models/mlp.pbtxt", f"--checkpoint={checkpoints / name}", "--batch=32", "--batches=4")["metrics"]["loss"]
                  for name in [AVERAGE, *names]]
        self.assertLess(losses[0], max(losses[1:]))
        self.run_snug("predict", "models/mlp.pbtxt", f"--checkpoint={checkpoints / AVERAGE}", "--data-digits-samples=40",
                      "--batch=8", "--fetch=fc3")

    def test_a_training_that_goes_on_has_another(self):
        flags = ("--checkpoint-every=5", "--checkpoint-keep=2", "--checkpoint-average=2")
        self.train("--steps=13", *flags)
        path = self.folder / "run/checkpoints" / AVERAGE
        self.assertEqual(tensors_of(path)[0]["averaged"], "10,13")
        path.unlink()
        again = self.train("--steps=13", *flags, "--resume")  # nothing is left to do but that
        self.assertIn(f"average    {path}: of the checkpoints after steps 10, 13", again.stdout)
        self.train("--steps=20", *flags, "--resume-with=schedule", "--schedule=constant")
        self.assertEqual(tensors_of(path)[0]["averaged"], "15,20")
        self.assertEqual(sorted(file.name for file in path.parent.iterdir()),
                         [AVERAGE, "step-000000015.safetensors", "step-000000020.safetensors"])

    def test_a_training_with_other_steps_before_keeps_those_it_has_room_for(self):
        self.train("--steps=12", "--checkpoint-every=3", "--checkpoint-keep=4")
        self.train("--steps=20", "--checkpoint-every=10", "--checkpoint-keep=4", "--checkpoint-average=1", "--resume")
        self.assertEqual(sorted(file.name for file in (self.folder / "run/checkpoints").iterdir()),
                         [AVERAGE, *(f"step-{step:09}.safetensors" for step in (6, 9, 12, 20))])

    def test_checkpoints_that_are_not_there_are_missed_before_it_begins(self):
        flags = ("--checkpoint-every=5", "--checkpoint-keep=5")
        self.train("--steps=15", "--checkpoint-every=5", "--checkpoint-keep=2")
        before = (self.folder / "run/metrics.jsonl").read_bytes()
        checkpoints = self.folder / "run/checkpoints"

        def refused(average, missing, most):
            failed = self.train("--steps=25", *flags, f"--checkpoint-average={average}", "--resume", code=2)
            self.assertIn("training.checkpoint.average: it is to be of the checkpoints after steps ", failed.stderr)
            self.assertIn(f"{checkpoints}/step-{missing:09}.safetensors is not there: ", failed.stderr)
            self.assertIn(f"; give at most {most}\n", failed.stderr)
            self.assertEqual((self.folder / "run/metrics.jsonl").read_bytes(), before)
            self.assertFalse((checkpoints / AVERAGE).exists())

        refused(5, missing=5, most=4)
        (checkpoints / "step-000000010.safetensors").unlink()
        refused(4, missing=10, most=3)
        self.train("--steps=25", *flags, "--checkpoint-average=3", "--resume")
        self.assertEqual(tensors_of(checkpoints / AVERAGE)[0]["averaged"], "15,20,25")
        # Also where nothing is left to do but the average.
        (checkpoints / "step-000000020.safetensors").unlink()
        failed = self.train("--steps=25", *flags, "--checkpoint-average=2", "--resume", code=2)
        self.assertIn("/step-000000020.safetensors is not there", failed.stderr)
        self.assertIn("give at most 1\n", failed.stderr)

    def test_after_a_change_of_batch_it_is_of_the_steps_that_there_were(self):
        flags = ("--schedule=constant", "--checkpoint-keep=9")
        self.train("--epochs=3", *flags)  # 10 steps an epoch
        smaller = (*flags, "--batch=16", "--resume-with=batch")  # 20
        most = self.train("--epochs=5", *smaller, "--checkpoint-average=6", code=2).stderr
        self.assertIn("training.checkpoint.average: expected at most 5, as many checkpoints as this training writes in 70 steps", most)
        self.train("--epochs=5", *smaller, "--checkpoint-average=4")
        path = self.folder / "run/checkpoints" / AVERAGE
        self.assertEqual(tensors_of(path)[0]["averaged"], "20,30,50,70")
        # And after another one, in the middle of an epoch whose rest is left out.
        self.train("--steps=80", *flags, "--batch=16", "--resume")
        self.train("--epochs=8", *flags, "--batch=32", "--resume-with=batch", "--checkpoint-average=5")
        self.assertEqual(tensors_of(path)[0]["averaged"], "30,50,70,90,100")
        self.assertEqual(tensors_of(path.parent / "step-000000100.safetensors")[0]["data.begin.earlier"], "0:10,30:20")

    def test_one_that_ends_early_has_the_mean_of_those_it_has(self):
        self.train("--steps=10", "--checkpoint-every=5", "--checkpoint-keep=1")
        done = self.train("--steps=100", "--checkpoint-every=5", "--checkpoint-keep=4", "--checkpoint-average=4", "--resume",
                          "--evaluate-every=5", "--best-metric=accuracy", "--best-patience=1", "--learning-rate=1e-12",
                          "--resume-with=learning-rate")
        steps = [int(step) for step in tensors_of(self.folder / "run/checkpoints" / AVERAGE)[0]["averaged"].split(",")]
        self.assertEqual(steps, list(range(10, steps[-1] + 1, 5)))
        self.assertLess(len(steps), 4)
        self.assertIn(f"the training ended early: the average is of {len(steps)} checkpoints, because those after steps ",
                      done.stderr)
        self.assertIn(f"of the checkpoints after steps {', '.join(map(str, steps))}\n", done.stdout)

    def test_no_average_is_older_than_the_training(self):
        path = self.folder / "run/checkpoints" / AVERAGE
        removed = f"warning: {path}: removed, because it was the mean of older checkpoints"
        self.train("--steps=10", "--checkpoint-every=5", "--checkpoint-average=2")
        self.train("--steps=10", "--checkpoint-every=5", "--resume")  # nothing is left to do, so it is what it was
        self.assertTrue(path.exists())
        self.assertIn(removed, self.train("--steps=15", "--checkpoint-every=5", "--resume").stderr)
        self.assertFalse(path.exists())

    def test_mistakes(self):
        for arguments, expected in [
                (["--checkpoint-average=4"],
                 "--checkpoint-average: expected at most as many checkpoints as are kept, checkpoint.keep is 3, found 4"),
                (["--checkpoint-average=0"], "--checkpoint-average: expected a whole number of at least 1, found 0"),
                (["--checkpoint-average=3"],
                 "training.checkpoint.average: expected at most 2, as many checkpoints as this training writes in 20 steps "
                 "(one every 10: checkpoint.every), found 3"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(expected, self.train("--steps=20", "--checkpoint-every=10", *arguments, code=2).stderr)
                self.assertFalse((self.folder / "run/checkpoints").exists())


class InterruptedBeforeAnAverage(interruption_test.Interrupted):
    """The kills and signals of interruption_test.py, in a training that averages all checkpoints that it keeps."""

    def command(self, output, steps):
        return [*super().command(output, steps), "--checkpoint-average=2", "--state=8bit"]

    def test_killed_at_random_moments(self):
        self.kill_at_random_moments(4)

    def test_killed_at_writes(self):
        self.kill_at_writes(lambda kinds: [i + 1 for i, kind in enumerate(kinds) if kind in ("rename", "unlink")])

    def test_stopped_by_signals(self):
        self.signal_at_random_moments(2)


if __name__ == "__main__":
    unittest.main()
