"""A network whose steps make one update after the other, trained, resumed and planned by the command."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import unittest

from snug import BINARY, ROOT, SnugTest

NETWORK = str(ROOT / "tests" / "data" / "adversaries.pbtxt")


def snug(*arguments):
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=300)


def array(numbers, *dims):
    return [array(numbers, *dims[1:]) for _ in range(dims[0])] if dims else next(numbers)


class UpdatesTest(SnugTest):
    def setUp(self):
        super().setUp()
        drawn = random.Random(7)
        numbers = iter(lambda: round(drawn.uniform(-1, 1), 4), None)
        self.data = self.folder / "pictures.jsonl"
        with open(self.data, "w", encoding="utf-8") as file:
            for _ in range(48):
                print(json.dumps({"noise": array(numbers, 6, 2, 2), "image": array(numbers, 2, 8, 8)}), file=file)

    def train(self, output, *arguments, network=NETWORK):
        return snug("train", network, f"--output={self.folder / output}", "--data=json-lines",
                    f"--data-json-lines-file={self.data}", "--batch=8", "--threads=1", "--checkpoint-every=4", *arguments)

    def newest(self, output):
        folder = self.folder / output / "checkpoints"
        name = sorted(path for path in os.listdir(folder) if path.startswith("step-"))[-1]
        return (folder / name).read_bytes()

    def test_each_objective_is_told_by_itself(self):
        run = self.train("run", "--steps=6")
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = [json.loads(line) for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines()]
        steps = [line for line in lines if line["kind"] == "step"]
        self.assertEqual(len(steps), 6)
        for step in steps:  # the third is called "loss", as the sum is
            each = step["real_loss.mean"] + step["drawn_loss.mean"] + step["loss:0"]
            self.assertAlmostEqual(step["loss"], each, places=5)
        self.assertIn("  real_loss.mean ", run.stdout)

    def test_a_single_update_that_comes_or_goes_is_noticed(self):
        plain = """name: "one"
            input { name: "x" shape { dim: 4 } }
            layer { name: "fc" input: "x" dense { units: 2 } }
            layer { name: "loss" input: "fc" reduce_mean {} }
            objective: "loss"
            """
        update = """update { objective: "loss" parameter: "fc.*" optimizer { sgd { momentum: 0.5 } } }"""
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({"x": [i, 1, 2, 3]}) + "\n" for i in range(8)), encoding="utf-8")
        files = [self.folder / "without.pbtxt", self.folder / "with.pbtxt"]
        for file, text in zip(files, (plain, plain + update)):
            file.write_text(text, encoding="utf-8")
        for before, after, count in ((*files, (0, 1)), (*reversed(files), (1, 0))):
            arguments = [f"--output={self.folder / before.stem}", "--data=json-lines", f"--data-json-lines-file={rows}",
                         "--batch=2", "--threads=1"]
            self.assertEqual(snug("train", str(before), "--steps=2", *arguments).returncode, 0)
            other = snug("train", str(after), "--steps=4", "--resume", *arguments)
            self.assertEqual(other.returncode, 2)
            self.assertIn(f"the checkpoint was made with updates of the network {count[0]}, this run has {count[1]}; give "
                          "it the same, or let it change: --resume-with=optimizer", other.stderr)
            changed = snug("train", str(after), "--steps=4", "--resume", "--resume-with=optimizer", *arguments)
            self.assertEqual(changed.returncode, 0, changed.stderr)
            same = snug("train", str(after), "--steps=6", "--resume", *arguments)
            self.assertEqual(same.returncode, 0, same.stderr)

    def test_the_best_of_an_objective_is_the_least(self):
        run = self.train("run", "--steps=6", "--evaluate-every=2", "--best-metric=loss:0")
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = [json.loads(line) for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines()]
        evaluated = {line["step"]: line["loss:0"] for line in lines if line["kind"] == "evaluation"}
        best = min(evaluated, key=evaluated.get)
        self.assertIn(f"step {best}", next(line for line in run.stdout.splitlines() if "best" in line))

    def test_a_training_that_goes_on_has_the_bits_of_one_that_was_not_interrupted(self):
        self.assertEqual(self.train("whole", "--steps=8").returncode, 0)
        self.assertEqual(self.train("parts", "--steps=4", "--schedule=constant").returncode, 0)
        resumed = self.train("parts", "--steps=8", "--resume")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        whole, parts = self.newest("whole"), self.newest("parts")
        for slot in (b"judge.conv.weight/m", b"judge.conv.weight/v", b"draw.0.weight/momentum"):
            self.assertIn(slot, whole)
        self.assertTrue(whole == parts)

    def train_changed(self, network, *changes, arguments=()):
        text = pathlib.Path(NETWORK).read_text()
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        path = self.folder / network
        path.write_text(text)
        return self.train("changed", "--schedule=constant", *arguments, network=str(path))

    def test_options_of_an_update_are_compared_where_a_training_goes_on(self):
        self.assertEqual(self.train_changed("first.pbtxt", arguments=["--steps=4"]).returncode, 0)
        other_momentum = ("sgd { momentum: 0.5 }", "sgd { momentum: 0.25 }")
        run = self.train_changed("momentum.pbtxt", other_momentum, arguments=["--steps=8", "--resume"])
        self.assertEqual(run.returncode, 2)
        self.assertIn("the checkpoint was made with update-2-sgd-momentum 0.5, this run has 0.25; give it the same, or let "
                      "it change: --resume-with=optimizer", run.stderr)
        moved = ('objective: ["real_loss", "drawn_loss"] parameter', 'objective: "drawn_loss" parameter'), (
            'objective: "loss" parameter', 'objective: ["real_loss", "loss"] parameter')
        run = self.train_changed("moved.pbtxt", *moved, arguments=["--steps=8", "--resume"])
        self.assertEqual(run.returncode, 2)
        self.assertIn("the checkpoint was made with update-1-objective real_loss.mean,drawn_loss.mean, this run has "
                      "drawn_loss.mean; it was made with update-2-objective loss, this run has real_loss.mean,loss; give "
                      "it the same, or let it change: --resume-with=optimizer", run.stderr)
        no_momentum = ("sgd { momentum: 0.5 }", "sgd {}")
        run = self.train_changed("none.pbtxt", no_momentum, arguments=["--steps=8", "--resume-with=optimizer"])
        self.assertEqual(run.returncode, 2)
        self.assertIn("update-2-sgd-momentum 0.5, this run has its default: that takes other tensors than it keeps",
                      run.stderr)
        other_rate = ("learning_rate: 0.05", "learning_rate: 0.04")
        run = self.train_changed("rate.pbtxt", other_rate, other_momentum,
                                 arguments=["--steps=8", "--resume-with=optimizer,learning-rate"])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("changed after step 4: update-2-learning-rate 0.05 -> 0.04\n", run.stdout)
        self.assertIn("changed after step 4: update-2-sgd-momentum 0.5 -> 0.25\n", run.stdout)

    def test_a_flag_changes_the_rates_of_all_updates(self):
        self.assertEqual(self.train_changed("first.pbtxt", arguments=["--steps=4"]).returncode, 0)
        twice = ["--learning-rate=0.02", "--steps=8"]
        run = self.train_changed("first.pbtxt", arguments=["--resume", *twice])
        self.assertEqual(run.returncode, 2)
        self.assertIn("learning-rate 0.01, this run has 0.02; it was made with update-2-learning-rate 0.05, this run has 0.1",
                      run.stderr)
        self.assertIn("--resume-with=learning-rate\n", run.stderr)

    def test_streams_and_engines_leave_the_same(self):
        checkpoints = set()
        for arguments in (["--memory=none", "--engine=serial"], ["--memory=best", "--streams=3"],
                          ["--memory=dynamic", "--engine=serial"]):
            run = self.train("way", "--steps=4", *arguments)
            self.assertEqual(run.returncode, 0, run.stderr)
            content = self.newest("way")
            checkpoints.add(content[8 + int.from_bytes(content[:8], "little"):])
            shutil.rmtree(self.folder / "way")
        self.assertEqual(len(checkpoints), 1)

    def test_micro_batches_are_refused_by_name(self):
        run = self.train("run", "--steps=2", "--accumulate=2")
        self.assertEqual(run.returncode, 2)
        self.assertIn("update: a step of 2 micro-batches makes one update of all parameters: expected accumulate 1",
                      run.stderr)

    def test_the_memory_table_does_not_compare_with_what_is_not_simulated(self):
        run = snug("bench", "memory", NETWORK, "--train", "--memory=best", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        for row in json.loads(run.stdout)["rows"]:
            self.assertIsNone(row["pytorch"])
            self.assertEqual(row["pytorch_missing"], "updates that are made one after the other are not simulated")


if __name__ == "__main__":
    unittest.main()
