"""How a training goes on with something changed, and how it ends when its terminal, its reader or its disk is gone."""

import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import time
import unittest

from snug import BINARY, ROOT, SnugTest

PATIENCE = 120


def metadata_of(path):
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    return json.loads(content[8:8 + length])["__metadata__"]


class Resuming(SnugTest):
    """Trains MLP, 20 steps an epoch of 640 digits, into self.folder / output."""

    FLAGS = ("--data=digits", "--data-digits-samples=640", "--batch=32", "--threads=1", "--evaluate-batches=2")

    def setUp(self):
        super().setUp()
        text = (ROOT / "models/mlp.pbtxt").read_text()
        self.assertIn("schedule { one_cycle {} } ", text)
        self.model = self.write("mlp.pbtxt", text.replace("schedule { one_cycle {} } ", ""))

    def train(self, *arguments, output="run", code=0):
        return self.run_snug("train", self.model, f"--output={self.folder / output}", *self.FLAGS, *arguments, code=code)

    def newest(self, output="run"):
        return max((self.folder / output / "checkpoints").glob("step-*.safetensors"))

    def lines(self, output="run"):
        return [json.loads(line) for line in (self.folder / output / "metrics.jsonl").read_text().splitlines()]

    def record(self, output="run"):
        return json.loads((self.folder / output / "run.json").read_text())


class ResumeWithTest(Resuming):
    def test_what_differs_is_refused_by_name(self):
        self.train("--steps=10", "--learning-rate=0.1", "--checkpoint-every=5")
        path = self.newest()
        before = path.read_bytes()
        for flags, expected in (
                (["--learning-rate=0.05"], "made with learning-rate 0.1, this run has 0.05; give it the same, or let it change: "
                                           "--resume-with=learning-rate"),
                (["--learning-rate=0.10000001"], "made with learning-rate 0.1, this run has 0.10000001"),
                (["--schedule=cosine"], "schedule constant, this run has cosine; give it the same, or let it change: --resume-with=schedule"),
                (["--weight-decay=0.1"], "weight-decay its default, this run has 0.1; give it the same, or let it change: --resume-with=optimizer"),
                (["--data-flip"], "data-flip its default, this run has true; give it the same, or let it change: --resume-with=augmentation"),
                (["--batch=16"], "batch 32, this run has 16; give it the same, or let it change: --resume-with=batch"),
                (["--data-digits-samples=320"], "training samples 640, this run has 320; give it the same, or let it change: --resume-with=data"),
                (["--learning-rate=0.05", "--data-flip", "--resume-with=augmentation"],
                 "give it the same, or let it change: --resume-with=augmentation,learning-rate"),
                (["--learning-rate=0.1", "--seed=5", "--resume-with=data"], "made with seed 0, this run has 5; give it the same, or begin"),
        ):
            with self.subTest(flags=flags):
                rate = [] if any("learning-rate=" in flag for flag in flags) else ["--learning-rate=0.1"]
                said = self.train("--steps=20", "--resume", *rate, *flags, code=2).stderr
                self.assertIn(f"--resume: {path}: the checkpoint was made with ", said)
                self.assertIn(expected, said)
                self.assertEqual(path.read_bytes(), before)
                self.assertEqual(len(self.lines()), 11)  # and an evaluation
        for name, expected in (("momentum", ""), ("learning_rat", '; did you mean "learning-rate"?')):
            said = self.train("--steps=20", f"--resume-with={name}", code=2).stderr
            self.assertIn("--resume-with: expected what may change, some of learning-rate, schedule, optimizer, data, "
                          f'augmentation, batch, layers; found "{name}"{expected}', said)

    def test_layers_that_say_something_else(self):
        model = self.folder / "rate.pbtxt"

        def write(activation, dropout):
            model.write_text('name: "rate" batch: 32 input { name: "image" shape { dim: [1, 28, 28] } }'
                             'input { name: "label" dtype: INT32 max_value: 10 }'
                             'layer { name: "flat" input: "image" flatten {} }'
                             'layer { name: "fc" input: "flat" dense { units: 16 } param { name: "bias" lr_mult: 1 } }'
                             f'layer {{ name: "act" input: "fc" {activation} }}{dropout}'
                             f'layer {{ name: "out" input: "{"drop" if dropout else "act"}" dense {{ units: 10 }} }}'
                             'layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} } objective: "loss"')
            return model

        def drop(rate):
            return f'layer {{ name: "drop" input: "act" dropout {{ {rate} }} }}'

        train = ("--data=digits", "--data-digits-samples=640", "--learning-rate=0.1", f"--output={self.folder / 'rate'}")
        write("relu {}", drop("rate: 0.25"))
        self.run_snug("train", model, *train, "--steps=4")
        write("relu {}", drop("rate: 0.75"))
        said = self.run_snug("train", model, *train, "--steps=8", "--resume", code=2).stderr
        self.assertIn('made with layer drop input: "act" dropout { rate: 0.25 }, this run has input: "act" dropout { rate: 0.75 }; '
                      "give it the same, or let it change: --resume-with=layers", said)
        write("tanh {}", "")
        said = self.run_snug("train", model, *train, "--steps=8", "--resume", code=2).stderr
        self.assertIn('made with layer act input: "fc" relu { }, this run has input: "fc" tanh { }; it was made with layer drop '
                      'input: "act" dropout { rate: 0.25 }, this run has none; it was made with layer out', said)
        done = self.run_snug("train", model, *train, "--steps=8", "--resume-with=layers")
        self.assertIn("changed after step 4: layer act", done.stdout)
        # What is said as it is by itself, and what parameters begin with, is no change.
        write("tanh {}", "")
        model.write_text(model.read_text().replace("lr_mult: 1", "init { kind: CONSTANT value: 1 } decay_mult: 1"))
        self.assertNotIn("changed", self.run_snug("train", model, *train, "--steps=10", "--resume").stdout)

    def test_what_changes_no_number_needs_no_name(self):
        self.train("--steps=10", "--learning-rate=0.1")
        done = self.train("--steps=20", "--resume", "--learning-rate=0.1", "--evaluate-every=3", "--data-readers=2", "--checkpoint-every=4",
                          "--log-every=1", "--memory=dynamic", "--best-metric=loss", "--schedule=constant")
        self.assertNotIn("changed", done.stdout)
        self.assertNotIn("changes", self.record())

    def test_a_learning_rate_changes_and_is_kept(self):
        self.train("--steps=10", "--learning-rate=0.1")
        first = self.newest().read_bytes()
        done = self.train("--steps=20", "--learning-rate=0.05", "--resume-with=learning_rate,schedule", "--checkpoint-every=5")
        self.assertIn("goes on with batch 11 of epoch 1\nchanged after step 10: learning-rate 0.1 -> 0.05\n"
                      "--resume-with=schedule: nothing of it has changed\nthe learning rate of the next step is 0.05\n", done.stdout)
        change = {"step": 10, "name": "learning-rate", "before": "0.1", "after": "0.05"}
        self.assertEqual(self.record()["changes"], [change])
        rates = [line["learning_rate"] for line in self.lines() if line["kind"] == "step"]
        self.assertEqual(rates, [0.1] * 10 + [0.05] * 10)
        self.assertEqual([line for line in self.lines() if line["kind"] == "change"], [{"kind": "change", **change}])
        whole = self.newest().read_bytes()
        # A plain --resume in the middle of the rest goes on bit for bit, and knows of the change.
        (self.newest()).unlink()
        self.assertIn("made with learning-rate 0.05, this run has 0.1", self.train("--steps=20", "--learning-rate=0.1", "--resume", code=2).stderr)
        again = self.train("--steps=20", "--learning-rate=0.05", "--resume", "--checkpoint-every=5")
        self.assertNotIn("changed", again.stdout)
        self.assertEqual(self.newest().read_bytes(), whole)
        self.assertEqual(self.record()["changes"], [change])
        self.assertEqual([line for line in self.lines() if line["kind"] == "change"], [{"kind": "change", **change}])
        # From before the change it can be changed once more, in another way.
        for path in (self.folder / "run/checkpoints").iterdir():
            path.unlink()
        (self.folder / "run/checkpoints/step-000000010.safetensors").write_bytes(first)
        self.train("--steps=20", "--learning-rate=0.2", "--resume-with=learning-rate")
        self.assertEqual([line["after"] for line in self.lines() if line["kind"] == "change"], ["0.2"])
        compared = json.loads(self.run_snug("compare", self.folder / "run", f"--html={self.folder / 'c.html'}", "--json").stdout)
        self.assertEqual(compared["runs"][0]["changes"], [{**change, "after": "0.2"}])
        self.assertEqual(compared["runs"][0]["unreadable_lines"], 0)
        text = self.run_snug("compare", self.folder / "run", f"--html={self.folder / 'c.html'}").stdout
        self.assertIn("run: changed after step 10: learning-rate 0.1 -> 0.2\n", text)
        self.assertIn('"after": "0.2"', (self.folder / "c.html").read_text())

    def test_other_data_begin_with_the_next_epoch(self):
        self.train("--steps=25", "--learning-rate=0.1")
        self.FLAGS = (*self.FLAGS[:1], "--data-digits-samples=320", *self.FLAGS[2:])  # 10 steps an epoch
        done = self.train("--epochs=4", "--learning-rate=0.1", "--resume-with=data", "--checkpoint-every=1", "--checkpoint-keep=20")
        self.assertIn("goes on with batch 1 of epoch 3\n", done.stdout)
        self.assertIn("changed after step 25: training samples 640 -> 320\n", done.stdout)
        self.assertRegex(done.stdout, r"changed after step 25: checksum of samples [0-9a-f]{16} -> [0-9a-f]{16}\n")
        self.assertIn("the samples come in the order of epoch 3 from its beginning on\n", done.stdout)
        steps = [line for line in self.lines() if line["kind"] == "step"]
        self.assertEqual([(line["step"], line["epoch"]) for line in steps[24:27] + steps[-2:]], [(25, 1), (26, 2), (27, 2), (44, 3), (45, 3)])
        evaluations = [line["step"] for line in self.lines() if line["kind"] == "evaluation"]
        self.assertEqual(evaluations, [20, 25, 35, 45])  # epochs end there
        whole = self.newest().read_bytes()
        for path in sorted((self.folder / "run/checkpoints").iterdir())[-12:]:
            path.unlink()
        again = self.train("--epochs=4", "--learning-rate=0.1", "--resume", "--checkpoint-every=1", "--checkpoint-keep=20")
        self.assertIn("goes on with batch 9 of epoch 3\n", again.stdout)
        self.assertEqual(self.newest().read_bytes(), whole)
        # The samples are those that a training has in its third epoch that had these data from the beginning on: with no
        # learning, losses are those of the samples alone.
        kept = ("--learning-rate=0", "--log-every=1")
        self.train("--steps=21", *kept, output="small")
        self.FLAGS = (*self.FLAGS[:1], "--data-digits-samples=640", *self.FLAGS[2:])
        self.train("--steps=22", *kept, output="mixed")
        self.FLAGS = (*self.FLAGS[:1], "--data-digits-samples=320", *self.FLAGS[2:])
        self.train("--steps=23", *kept, "--resume-with=data", output="mixed")
        losses = {name: {line["step"]: line["loss"] for line in self.lines(name) if line["kind"] == "step"} for name in ("small", "mixed")}
        self.assertEqual(losses["small"][21], losses["mixed"][23])

    def test_data_that_moved_are_the_same_data(self):
        network = self.write("net.pbtxt", 'name: "net" input { name: "point" shape { dim: 2 } } input { name: "label" dtype: INT32 }\n'
                             'layer { name: "out" input: "point" dense { units: 2 } }\n'
                             'layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} } objective: "loss"\n')

        def table(name, last):
            return self.write(name, "x,y,side\n" + "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(60)) + f"{last},0,1\n")

        def train(path, *arguments, code=0):
            return self.run_snug("train", network, "--data=csv", f"--data-csv-file={path}", "--batch=4", "--threads=1",
                                 f"--output={self.folder / 'run'}", *arguments, code=code)
        first = table("first.csv", 1)
        train(first, "--steps=5")
        moved = self.folder / "moved.csv"
        first.rename(moved)
        self.assertNotIn("changed", train(moved, "--steps=9", "--resume").stdout)
        table("moved.csv", 2)  # one number is another
        said = train(moved, "--steps=12", "--resume", code=2).stderr
        self.assertRegex(said, f"made with checksum of samples [0-9a-f]{{16}}, this run has [0-9a-f]{{16}}, of {re.escape(str(moved))}; .*--resume-with=data")
        done = train(moved, "--steps=12", "--resume-with=data")
        self.assertIn("goes on with batch 10 of epoch 1\n", done.stdout)
        self.assertNotIn("the order of epoch", done.stdout)

    def test_another_batch_and_a_schedule(self):
        self.train("--steps=10", "--learning-rate=0.1", "--schedule=cosine")
        done = self.train("--steps=40", "--learning-rate=0.1", "--schedule=cosine", "--resume-with=batch", "--batch=16")
        self.assertIn("changed after step 10: batch 32 -> 16\nchanged after step 10: steps 10 -> 40\n", done.stdout)
        self.assertIn("goes on with batch 1 of epoch 2", done.stdout)
        rate = next(line["learning_rate"] for line in self.lines() if line["step"] == 11 and line["kind"] == "step")
        self.assertIn(f"the learning rate of the next step is {rate:.4g}\n", done.stdout)
        self.assertEqual(metadata_of(self.newest())["batch"], "16")

    def test_where_it_stops_at_once_the_change_is_kept(self):
        self.train("--steps=10", "--learning-rate=0.1")
        process = subprocess.Popen([BINARY, "train", str(self.model), f"--output={self.folder / 'run'}", *self.FLAGS, "--steps=1000000", "--learning-rate=0.05",
                                    "--resume-with=learning-rate", "--log-every=1"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("memory "):
                process.send_signal(signal.SIGTERM)
                break
        process.stdout.read()
        process.stdout.close()
        self.assertIn(process.wait(timeout=PATIENCE), (4, -signal.SIGTERM, 128 + signal.SIGTERM))
        if process.returncode == 4:
            metadata = metadata_of(self.newest())
            self.assertEqual(json.loads(metadata["options"])["learning-rate"], "0.05")

    def test_older_checkpoints_say_nothing_and_are_gone_on_from(self):
        data = ROOT / "tests/data/before_decay"
        (self.folder / "old/checkpoints").mkdir(parents=True)
        shutil.copy(data / "step-000000003.safetensors", self.folder / "old/checkpoints")
        train = ("train", data / "net.pbtxt", f"--data-csv-file={data / 'points.csv'}", "--threads=1", f"--output={self.folder / 'old'}")
        done = self.run_snug(*train, "--steps=6", "--learning-rate=0.001", "--resume-with=learning-rate")
        self.assertIn("the checkpoint does not say with which options it was made: what is others in learning-rate is not known\n", done.stdout)
        said = self.run_snug(*train, "--steps=9", "--learning-rate=0.002", "--resume", code=2).stderr
        self.assertIn("made with learning-rate 0.001, this run has 0.002", said)

    def test_older_checkpoints_that_are_gone_on_from_as_they_are_are_said_too(self):
        data = ROOT / "tests/data/before_decay"
        (self.folder / "old/checkpoints").mkdir(parents=True)
        shutil.copy(data / "step-000000003.safetensors", self.folder / "old/checkpoints")
        done = self.run_snug("train", data / "net.pbtxt", f"--data-csv-file={data / 'points.csv'}", "--threads=1",
                             f"--output={self.folder / 'old'}", "--steps=6", "--resume")
        self.assertIn("whether they were the same is not known\n", done.stdout)

    def test_what_has_changed_is_kept_where_no_step_is_left(self):
        self.train("--steps=10", "--learning-rate=0.1")
        self.train("--steps=10", "--learning-rate=0.05", "--resume-with=learning-rate")
        self.assertEqual(json.loads(metadata_of(self.newest())["options"])["learning-rate"], "0.05")
        self.train("--steps=12", "--learning-rate=0.05", "--resume")

    def test_the_rate_is_said_where_the_batch_has_changed(self):
        self.train("--steps=20", "--learning-rate=0.1")
        done = self.train("--steps=30", "--learning-rate=0.1", "--batch=16", "--resume-with=batch")
        self.assertIn("the learning rate of the next step is 0.1\n", done.stdout)


    def test_an_option_is_named_and_not_the_tensors_that_come_with_it(self):
        self.FLAGS = (*self.FLAGS, "--optimizer=sgd")
        self.train("--steps=10")
        for flag, option in (("--average-decay=0.9", "average-decay"), ("--sgd-momentum=0.9", "sgd-momentum")):
            said = self.train("--steps=20", "--resume", flag, code=2).stderr
            self.assertIn(f"made with {option} its default, this run has 0.9; give it the same, or let it change: --resume-with=optimizer\n", said)
            self.assertNotIn("tensors differ", said)
            # Where it may change, there is still nothing to go on with.
            said = self.train("--steps=20", "--resume-with=optimizer", flag, code=2).stderr
            self.assertIn(f"--resume-with=optimizer: {self.newest()}: the checkpoint was made with {option} its default, this run has 0.9", said)
            self.assertIn("begin with its weights: --init-from, and another --output\n", said)
            self.assertIn("tensors differ", said)
        # One that keeps none is not why those of another network differ.
        self.model.write_text(self.model.read_text().replace("units: 128 ", "units: 130 "))
        said = self.train("--steps=20", "--resume-with=optimizer,layers", "--clip-norm=1", code=2).stderr
        self.assertIn("tensors differ", said)
        self.assertNotIn("made with clip-norm", said)
        self.model.write_text(self.model.read_text().replace("units: 130 ", "units: 128 "))
        self.FLAGS = self.FLAGS[:-1]
        said = self.train("--steps=20", "--resume", "--optimizer=adam", "--adam-beta1=0.8", code=2).stderr
        self.assertIn("made with optimizer sgd, this run has adam; give it the same", said)

    def test_a_default_that_is_said_is_the_default(self):
        explicit = ("--weight-decay=0", "--sgd-momentum=0", "--sgd-nesterov=false", "--schedule-warm-up=0", "--data-shuffle=true")
        self.FLAGS = (*self.FLAGS, "--optimizer=sgd")
        self.train("--steps=10")
        self.assertNotIn("changed", self.train("--steps=12", "--resume", *explicit).stdout)
        self.assertNotIn("changed", self.train("--steps=14", "--resume").stdout)
        self.train("--steps=10", *explicit, output="said")
        self.assertNotIn("changed", self.train("--steps=12", "--resume", output="said").stdout)
        self.FLAGS = ("--data=digits", "--batch=64", "--threads=1", "--evaluate-batches=1")
        self.train("--steps=2", output="all")
        samples = json.loads(metadata_of(self.newest("all"))["options"])["training samples"]
        self.assertNotIn("changed", self.train("--steps=3", "--resume", f"--data-digits-samples={samples}", output="all").stdout)

    def test_nothing_that_is_said_is_not_called_the_default(self):
        self.train("--steps=10")
        self.assertIn("sgd-momentum 0.9, this run has 0; give it the same", self.train("--steps=12", "--resume", "--sgd-momentum=0", code=2).stderr)

    def test_what_says_that_nothing_is_gone_on_with_and_what_may_change_in_it_are_refused_together(self):
        said = self.train("--steps=10", "--resume=false", "--resume-with=learning-rate", code=2).stderr
        self.assertIn("--resume-with goes on with a training, and --resume=false says that one begins: leave out one of them", said)
        self.assertFalse((self.folder / "run").exists())
        self.train("--steps=10")
        before = self.newest().read_bytes()
        self.train("--steps=12", "--resume=false", "--resume-with=learning-rate", "--learning-rate=0.2", code=2)
        self.assertEqual(self.newest().read_bytes(), before)
        self.train("--steps=12", "--resume=true", "--resume-with=learning-rate", "--learning-rate=0.2")

    def test_a_schedule_over_epochs_goes_on_where_its_epoch_is(self):
        flags = ("--learning-rate=0.1", "--schedule=linear")
        self.train("--epochs=2", *flags)  # 40 steps
        done = self.train("--epochs=4", *flags, "--batch=16", "--resume-with=batch", "--log-every=1")  # 40 an epoch
        rates = [line["learning_rate"] for line in self.lines() if line["kind"] == "step"]
        self.assertEqual(len(rates), 40 + 80)
        for after, rate in enumerate(rates[40:]):
            self.assertAlmostEqual(rate, 0.1 * (1 - (80 + after) / 159), delta=1e-9)  # half of the way, as after two epochs of four
        self.assertIn(f"the learning rate of the next step is {rates[40]:.4g}\n", done.stdout)
        # Larger batches, and those that come after a plain --resume.
        self.train("--epochs=8", *flags, "--batch=64", "--resume-with=batch", "--checkpoint-every=15")
        (self.newest()).unlink()
        self.train("--epochs=8", *flags, "--batch=64", "--resume", "--checkpoint-every=15")
        rates = [line["learning_rate"] for line in self.lines() if line["kind"] == "step"]
        self.assertEqual(len(rates), 120 + 40)
        for after, rate in enumerate(rates[120:]):
            self.assertAlmostEqual(rate, 0.1 * (1 - (40 + after) / 79), delta=1e-9)


class EvaluatedWithATable(SnugTest):
    """Trains a line of three numbers, on a table with another one to evaluate with."""

    def setUp(self):
        super().setUp()
        self.network = self.write("net.pbtxt", 'name: "net" input { name: "point" shape { dim: 2 } } input { name: "label" dtype: INT32 }\n'
                                  'layer { name: "out" input: "point" dense { units: 2 } }\n'
                                  'layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }\n'
                                  'layer { name: "accuracy" input: "out" input: "label" accuracy {} } objective: "loss" output: "accuracy"\n')
        self.table("train.csv", 60)
        self.test = self.table("test.csv", 20)

    def table(self, name, rows, last="0,0,1"):
        return self.write(name, "x,y,side\n" + "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(rows - 1)) + f"{last}\n")

    def train(self, *arguments, code=0):
        return self.run_snug("train", self.network, "--data=csv", f"--data-csv-file={self.folder / 'train.csv'}",
                             f"--data-csv-test-file={self.test}", "--batch=4", "--threads=1", "--learning-rate=0",
                             f"--output={self.folder / 'run'}", *arguments, code=code)

    def newest(self):
        return max((self.folder / "run/checkpoints").glob("step-*.safetensors"))

    def best(self):
        return metadata_of(self.folder / "run/checkpoints/best.safetensors")

    def test_other_data_to_evaluate_with_are_noticed_where_something_goes_by_them(self):
        for number, flags in enumerate((["--best-metric=loss"], ["--schedule=plateau"], ["--best-metric=accuracy", "--schedule=plateau"])):
            with self.subTest(flags=flags):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                self.table("test.csv", 20)
                self.train("--steps=4", *flags)
                before = self.newest().read_bytes()
                self.table("test.csv", 20, last="3,3,0")  # one row is another
                said = self.train("--steps=8", "--resume", *flags, code=2).stderr
                self.assertRegex(said, f"made with checksum of evaluation samples [0-9a-f]{{16}}, this run has [0-9a-f]{{16}}, of {re.escape(str(self.test))}; "
                                       "give it the same, or let it change: --resume-with=data\n")
                self.table("test.csv", 21)
                said = self.train("--steps=8", "--resume", *flags, code=2).stderr
                self.assertIn(f"; it was made with evaluation samples 20, this run has 21, of {self.test}; give it", said)
                self.assertEqual(self.newest().read_bytes(), before)
                done = self.train("--steps=8", "--resume-with=data", *flags)
                self.assertIn("changed after step 4: evaluation samples 20 -> 21\n", done.stdout)
                self.assertIn("the data to evaluate with are others: what is best is looked for anew", done.stdout)
                self.assertIn("goes on with batch 5 of epoch 1\n", done.stdout)
                self.assertNotIn("the order of epoch", done.stdout)
                self.assertNotIn("changed", self.train("--steps=9", "--resume", *flags).stdout)

    def test_how_much_is_evaluated_is_noticed_where_something_goes_by_it(self):
        for flags in (["--best-metric=loss"], ["--schedule=plateau"]):
            with self.subTest(flags=flags):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                self.train("--steps=4", *flags)
                said = self.train("--steps=8", "--resume", *flags, "--evaluate-batches=2", code=2).stderr
                self.assertIn("made with evaluate-batches all, this run has 2; give it the same, or let it change: --resume-with=data\n", said)
                done = self.train("--steps=8", "--resume-with=data", *flags, "--evaluate-batches=2")
                self.assertIn("the data to evaluate with are others: what is best is looked for anew", done.stdout)
                self.assertIn("goes on with batch 5 of epoch 1\n", done.stdout)
                self.assertNotIn("changed", self.train("--steps=9", "--resume", *flags, "--evaluate-batches=2").stdout)
        # So many larger batches are more samples.
        done = self.train("--steps=12", "--resume-with=batch", "--batch=5", *flags, "--evaluate-batches=2")
        self.assertIn("the data to evaluate with are others: what is best is looked for anew", done.stdout)
        done = self.train("--steps=14", "--resume-with=batch,data", "--batch=5", *flags)
        done = self.train("--steps=16", "--resume-with=batch", *flags)
        self.assertIn("changed after step 14: batch 5 -> 4\n", done.stdout)
        self.assertNotIn("evaluate with are others", done.stdout)
        shutil.rmtree(self.folder / "run")
        self.train("--steps=4", "--average-decay=0.9", "--best-metric=loss")
        said = self.train("--steps=8", "--average-decay=0.9", "--average-evaluate", "--best-metric=loss", "--resume", code=2).stderr
        self.assertIn("made with average-evaluate false, this run has true; give it the same, or let it change: --resume-with=data\n", said)
        self.assertNotIn("changed", self.train("--steps=8", "--average-decay=0.9", "--average-evaluate", "--resume").stdout)

    def test_and_not_noticed_where_nothing_does(self):
        self.train("--steps=4")
        self.table("test.csv", 21)
        self.assertNotIn("changed", self.train("--steps=6", "--resume").stdout)
        # There is no best value yet that other data could have given.
        self.train("--steps=8", "--resume", "--best-metric=loss")
        self.table("test.csv", 22)
        self.train("--steps=10", "--resume")
        self.train("--steps=12", "--resume", "--best-metric=loss")

    def test_rows_that_are_held_back_are_of_the_table(self):
        self.test = ""
        self.train("--steps=4", "--best-metric=loss", "--data-held-back=0.5")
        path = self.folder / "train.csv"
        lines = path.read_text().splitlines()
        parts = set()
        for i in range(1, len(lines)):
            path.write_text("\n".join([*lines[:i], "9,9," + lines[i][-1], *lines[i + 1:]]) + "\n")
            said = self.train("--steps=8", "--resume", "--best-metric=loss", "--data-held-back=0.5", code=2).stderr
            self.assertIn(f", of {path}; give it the same", said)
            parts.add(re.search("made with (checksum of [a-z ]*samples)", said).group(1))
            if len(parts) == 2:
                break
        self.assertEqual(parts, {"checksum of samples", "checksum of evaluation samples"})

    def test_with_other_data_to_evaluate_with_the_best_is_looked_for_anew(self):
        flags = ("--evaluate-every=2", "--best-metric=accuracy", "--best-patience=3")
        self.assertIn("ended early", self.train("--steps=40", *flags).stdout)
        best = (self.folder / "run/checkpoints/best.safetensors").read_bytes()
        value, step = self.best()["best.value"], self.best()["best.step"]
        self.assertEqual(step, "2")
        self.table("test.csv", 20, last="6,4,0")
        done = self.train("--steps=40", *flags, "--resume-with=data", "--checkpoint-every=1", "--checkpoint-keep=99")
        self.assertIn(f"what is best is looked for anew; accuracy {float(value):.6g} after step 2 does not count any more\n"
                      f"the state of the first evaluation takes the place of {self.folder / 'run/checkpoints/best.safetensors'}: move that away if it is to stay\n",
                      done.stdout)
        self.assertIn("done after 16 steps", done.stdout)  # one that is best, and three that are no better
        self.assertEqual(self.best()["best.step"], "10")
        self.assertNotEqual((self.folder / "run/checkpoints/best.safetensors").read_bytes(), best)
        # A plain --resume from before that evaluation does not bring the old value back.
        for path in sorted((self.folder / "run/checkpoints").glob("step-*"))[2:]:
            path.unlink()
        self.assertEqual(self.newest().name, "step-000000009.safetensors")
        self.assertNotIn("best.value", metadata_of(self.newest()))
        self.assertIn("done after 16 steps", self.train("--steps=40", *flags, "--resume").stdout)

    def test_with_other_data_to_train_on_the_best_stays_and_patience_begins_anew(self):
        flags = ("--evaluate-every=2", "--best-metric=accuracy", "--best-patience=3")
        self.train("--steps=40", *flags)
        best = self.best()
        self.table("train.csv", 60, last="3,4,0")
        done = self.train("--steps=40", *flags, "--resume-with=data")
        self.assertIn("the data are others: evaluations that are no better are counted anew\n", done.stdout)
        self.assertIn("done after 14 steps", done.stdout)
        self.assertEqual(self.best(), best)

    def test_a_plateau_is_looked_for_anew_and_the_rate_stays(self):
        flags = ("--evaluate-every=2", "--schedule=plateau", "--schedule-plateau-patience=2", "--schedule-plateau-metric=accuracy")
        self.train("--steps=8", *flags)  # better than nothing, then not: it falls after step 6
        self.assertEqual((metadata_of(self.newest())["plateau.factor"], metadata_of(self.newest())["plateau.waited"]), ("0.10000000000000001", "1"))
        self.table("test.csv", 20, last="6,4,0")
        self.train("--steps=9", *flags, "--resume-with=data")
        kept = metadata_of(self.newest())
        self.assertEqual((kept["plateau.factor"], kept["plateau.step"], kept["plateau.waited"]), ("0.10000000000000001", "9", "0"))
        # It falls from the rate that is named.
        done = self.train("--steps=10", *flags, "--learning-rate=0.5", "--resume-with=data,learning-rate")
        self.assertIn("the learning rate of the next step is 0.05\n", done.stdout)

    def test_a_checkpoint_that_does_not_say_with_which_data_it_was_evaluated(self):
        self.train("--steps=4", "--best-metric=accuracy")
        path = self.newest()
        content = path.read_bytes()
        (length,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8:8 + length])
        metadata = header["__metadata__"]
        options = json.loads(metadata["options"])
        del options["evaluation samples"], options["checksum of evaluation samples"]
        metadata["options"] = json.dumps(options)

        def write():
            text = json.dumps(header).encode()
            path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length:])
        write()
        failed = self.train("--steps=6", "--resume", "--best-metric=accuracy", code=2).stderr
        metadata["snug.xxh64"] = re.search("found ([0-9a-f]{16}); it is damaged", failed).group(1)
        write()
        self.assertNotIn("changed", self.train("--steps=5", "--resume", "--best-metric=accuracy").stdout)
        self.newest().unlink()
        said = self.train("--steps=6", "--resume-with=data", "--best-metric=accuracy")
        self.assertIn("the checkpoint does not say with which data it was evaluated: they are taken as others\n", said.stdout)
        self.assertIn("what is best is looked for anew", said.stdout)

    def test_a_column_that_is_said_as_it_is_by_itself(self):
        self.train("--steps=4")
        done = self.train("--steps=6", "--resume", "--data-csv-label=side", "--data-csv-normalise=false")
        self.assertNotIn("changed", done.stdout)
        self.assertNotIn("changed", self.train("--steps=8", "--resume").stdout)
        said = self.train("--steps=10", "--resume", "--data-csv-label=x", code=2).stderr
        self.assertIn('the label of the training\'s table is in column "side", here in "x"', said)


class EndedFromOutside(Resuming):
    def begin(self, *arguments, output="run", **more):
        return subprocess.Popen([BINARY, "train", str(self.model), f"--output={self.folder / output}", *self.FLAGS, "--steps=1000000",
                                 "--log-every=1", *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True, **more)

    def finish(self, process):
        """What it wrote on standard error."""
        try:
            said = process.stderr.read()
            process.wait(timeout=PATIENCE)
        finally:
            process.kill()
            process.stderr.close()
        return said

    def wait_for_step(self, number, output="run"):
        deadline = time.monotonic() + PATIENCE
        metrics = self.folder / output / "metrics.jsonl"
        while not metrics.exists() or metrics.read_text().count("\n") < number:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def assert_stopped_well(self, why):
        steps = [line["step"] for line in self.lines() if line["kind"] == "step"]
        self.assertEqual(int(metadata_of(self.newest())["snug.step"]), steps[-1])
        self.assertEqual(self.record()["state"], "stopped")
        self.assertIn(why, self.record()["error"])
        self.FLAGS = (*self.FLAGS, f"--steps={steps[-1] + 1}")
        self.train("--resume")

    def test_a_closed_terminal(self):
        process = self.begin(stdout=subprocess.DEVNULL)
        self.wait_for_step(3)
        for _ in range(3):  # a shell sends its own beside the system's
            process.send_signal(signal.SIGHUP)
        said = self.finish(process)
        self.assertEqual(process.returncode, 4)
        self.assertIn("stopped after a checkpoint: SIGHUP came, as when a terminal is closed; --resume goes on\n", said)
        self.assert_stopped_well("SIGHUP came, as when a terminal is closed")

    def test_a_real_terminal_that_closes(self):
        controller, terminal = pty.openpty()
        process = self.begin(stdin=terminal, stdout=terminal, start_new_session=True,
                             preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0))
        os.close(terminal)
        self.wait_for_step(3)
        os.read(controller, 1)
        os.close(controller)
        self.finish(process)
        self.assertEqual(process.returncode, 4)
        self.assert_stopped_well("SIGHUP came")

    def test_nohup_stays_nohup(self):
        process = self.begin(stdout=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for_step(3)
        process.send_signal(signal.SIGHUP)
        before = len(self.lines())
        self.wait_for_step(before + 5)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertNotIn("SIGHUP", self.finish(process))
        self.assertEqual(process.returncode, 4)
        self.assertNotIn("error", self.record())

    def test_a_reader_that_is_gone(self):
        for ignored in (False, True):  # whoever starts it may ignore the signal
            with self.subTest(ignored=ignored):
                self.FLAGS = Resuming.FLAGS
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                process = self.begin(stdout=subprocess.PIPE, restore_signals=not ignored,
                                     preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN) if ignored else None)
                for line in process.stdout:
                    if "step 3/" in line:
                        break
                process.stdout.close()
                said = self.finish(process)
                self.assertEqual(process.returncode, 4, said)
                self.assertIn("stopped after a checkpoint: SIGPIPE came: whoever read its output is gone; --resume goes on\n", said)
                self.assertNotIn("cannot be written", said)
                self.assert_stopped_well("whoever read its output is gone")

    def test_a_full_disk(self):
        place = self.folder / "disk"
        place.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place], capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"SKIPPED: no file system can be mounted here: {mounted.stderr}")
        self.addCleanup(subprocess.run, ["umount", "-l", place], check=True)
        process = self.begin("--checkpoint-every=1000000", "--evaluate-every=1000000", output="disk/run", stdout=subprocess.PIPE)
        for line in process.stdout:
            if "step 3/" in line:
                process.send_signal(signal.SIGSTOP)
                break
        with open(place / "filler", "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        process.send_signal(signal.SIGCONT)
        process.stdout.read()
        process.stdout.close()
        said = self.finish(process)
        self.assertEqual(process.returncode, 1)
        self.assertIn(f"{place}/run/metrics.jsonl: cannot be written", said)
        self.assertRegex(said, f'warning: {re.escape(str(place))}/run/run.json: cannot be written: No space left on device: this training is '
                               'failed, but the file still says "running": `snug watch` and `snug compare` will call it gone')
        compared = json.loads(self.run_snug("compare", place / "run", f"--html={self.folder / 'c.html'}", "--json").stdout)
        self.assertEqual(compared["runs"][0]["state"], "gone")


if __name__ == "__main__":
    unittest.main()
