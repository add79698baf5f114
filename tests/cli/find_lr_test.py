"""`snug find-lr`: a learning rate with which a training gets somewhere, and what is said where there is none."""

import json
import math
import os
import pathlib
import re
import signal
import struct
import subprocess
import xml.dom.minidom

from snug import BINARY, ROOT, SnugTest

MLP = "models/mlp.pbtxt"
SMALL = ("--threads=1", "--data-digits-samples=3200")


class FindLrTest(SnugTest):
    def find(self, *flags, code=0):
        return self.json("find-lr", MLP, *SMALL, f"--svg={self.folder / 'lr.svg'}", *flags, code=code)

    def loss_after(self, rate, *flags):
        output = self.folder / f"run_{rate}"
        document = self.json("train", MLP, *SMALL, "--steps=100", "--schedule=constant", f"--learning-rate={rate}",
                             f"--output={output}", *flags)
        return document["evaluation"]["loss"]

    def test_what_it_suggests_learns_better_than_what_is_far_away(self):
        for optimizer in ((), ("--optimizer=adam",)):
            found = self.find(*optimizer)
            rate = found["suggestion"]
            self.assertLess(found["least_loss"], found["first_loss"])
            good = self.loss_after(rate, *optimizer)
            self.assertLess(good, self.loss_after(rate / 30, *optimizer), optimizer)
            rates = [point[0] for point in found["points"]]
            self.assertEqual(rates, sorted(rates))
            self.assertAlmostEqual(rates[0], 1e-6)
            xml.dom.minidom.parse(str(self.folder / "lr.svg"))

    def test_classes_of_the_data(self):
        # Of ten digits' classes in the file there are three.
        text = (ROOT / MLP).read_text().replace("shape { dim: 784 }", "shape { dim: 2 }").replace("784", "2")
        model = self.write("kinds.pbtxt", text[:text.index("training {")])
        rows = self.write("kinds.csv", "a,b,kind\n" + "".join(f"{i % 7},{i % 3},k{i % 3}\n" for i in range(160)))
        flags = ("find-lr", model, "--data=csv", f"--data-csv-file={rows}", "--data-csv-label=kind", "--batch=80", "--threads=1",
                 "--steps=100", f"--svg={self.folder / 'lr.svg'}")
        said = {wanted: self.run_snug(*flags, f"--classes-of-data={wanted}").stdout for wanted in ("true", "false")}
        self.assertIn("network: 3 classes, as the data have, in place of 10: fc3\n", said["true"])
        self.assertIn("network: fc3 scores 10 classes, and the data have 3", said["false"])
        first = {wanted: float(re.search(r"loss ([\d.]+)", text)[1]) for wanted, text in said.items()}
        self.assertLess(first["true"], first["false"])  # about ln 3, not ln 10
        language = self.error("find-lr", "models/gpt_bytes.pbtxt", "--data=text", f"--data-text-file={model}", "--classes-of-data")
        self.assertIn("--classes-of-data: the network is a language model", language)

    def test_it_says_what_to_type_and_keeps_nothing(self):
        done = self.run_snug("find-lr", MLP, *SMALL, f"--svg={self.folder / 'lr.svg'}")
        self.assertRegex(done.stdout, r"\nsuggested  --learning-rate=[\d.e-]+\nbecause    .*the loss falls from ")
        self.assertIn("the parameters of this test are not kept", done.stdout)
        self.assertEqual(os.listdir(self.folder), ["lr.svg"])

    def test_the_same_command_suggests_the_same(self):
        self.assertEqual(self.find("--steps=60"), self.find("--steps=60"))

    def test_schedules_and_ends_of_the_model_file_do_not_count(self):
        text = (ROOT / MLP).read_text().replace(
            "training { batch: 64 epochs: 4 schedule { one_cycle {} }",
            'training { batch: 64 epochs: 4 schedule { warm_up: 1000 plateau {} } best { metric: "accuracy" patience: 1 }')
        self.assertIn("patience", text)
        own = self.write("own.pbtxt", text)
        document = self.json("find-lr", own, *SMALL, "--steps=40", f"--svg={self.folder / 'lr.svg'}")
        self.assertEqual(document["points"], self.find("--steps=40")["points"])

    def test_where_nothing_is_learnt_nothing_is_suggested(self):
        failed = self.find("--to=1e-5", code=1)
        self.assertIn("no suggestion (the curve is in", failed["error"])
        self.assertIn("the loss never falls clearly", failed["error"])
        self.assertIn("A larger --to than 1e-05", failed["error"])
        self.assertTrue((self.folder / "lr.svg").exists())
        self.assertIn("begin lower, with --from=", self.find("--from=1e6", "--to=1e9", code=1)["error"])

    def test_a_loss_that_is_never_finite_is_no_matter_of_the_rate(self):
        run = self.folder / "run"
        checkpoint = pathlib.Path(self.json("train", MLP, *SMALL, "--steps=1", f"--output={run}")["checkpoint"])
        whole = (checkpoint if checkpoint.is_absolute() else ROOT / checkpoint).read_bytes()
        size, = struct.unpack("<Q", whole[:8])
        header = json.loads(whole[8:8 + size])
        header.pop("__metadata__", None)  # it has the checksum of what was there
        head = json.dumps(header).encode()
        head += b" " * (-len(head) % 8)
        weights = self.folder / "nan.safetensors"
        weights.write_bytes(struct.pack("<Q", len(head)) + head + struct.pack("<f", math.nan) * ((len(whole) - 8 - size) // 4))
        folder = self.folder / "curves"
        folder.mkdir()
        said = self.error_of("find-lr", MLP, *SMALL, f"--init-from={weights}", f"--svg={folder / 'lr.svg'}")
        self.assertIn("no suggestion: the loss is not finite before the first update", said)
        self.assertIn("--init-from", said)
        self.assertEqual(os.listdir(folder), [])

    def error_of(self, *arguments):
        done = self.run_snug(*arguments, code=1)
        self.assertNotIn("suggested", done.stdout)
        return done.stderr

    def test_where_it_rises_from_the_beginning_it_is_to_begin_lower(self):
        said = self.find("--from=10", "--to=1e5", code=1)["error"]
        self.assertIn("begin lower, with --from=1e-02", said)
        self.assertNotIn("--batch", said)

    def test_names_in_the_data_give_the_terminal_no_orders(self):
        network = self.write("points.pbtxt", """name: "points"
input { name: "x" shape { dim: 2 } }
input { name: "label" dtype: INT32 max_value: 3 }
layer { name: "out" input: "x" dense { units: 3 } }
layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }
objective: "loss"
""")
        names = ("\x1b[31mred", "\x9b32mgreen", "\u202eblue")
        rows = "".join(f"{i % 3},{i % 2},{names[i % 3]}\n" for i in range(90))
        data = ("--data=csv", f"--data-csv-file={self.write('t.csv', 'a,b,label' + chr(10) + rows)}", "--threads=1", "--batch=8")
        for command in (("find-lr", "--steps=20", f"--svg={self.folder / 'lr.svg'}", "--to=0.1"),
                        ("train", "--steps=2", f"--output={self.folder / 'run'}"),
                        ("eval", f"--checkpoint={self.folder / 'run'}")):
            done = subprocess.run([BINARY, command[0], str(network), *data, *command[1:]],
                                  cwd=ROOT, capture_output=True, text=True, timeout=300)
            said = done.stdout + done.stderr
            self.assertIn("\\033[31mred", said, command)
            self.assertIn("\\u009b32mgreen", said, command)
            self.assertIn("\\u202eblue", said, command)
            for character in "\x1b\x9b\u202e":
                self.assertNotIn(character, said, command)

    def test_what_is_wrong_is_said(self):
        for flags, said in {
            ("--from=0",): "--from: expected a learning rate above 0, found 0",
            ("--from=1", "--to=0.1"): "--to: expected a learning rate above --from, 1, found 0.1",
            ("--steps=5",): '--steps: expected a whole number from 20 to 10000, found "5"',
            ("--steps=20", "--smoothing=10"): "--smoothing: expected at most a quarter of the --steps, 5, found 10",
            ("--stop-at=1",): "--stop-at: expected more than once the least loss, 1, found 1",
            ("--learning-rate=1",): "unknown flag --learning-rate",
            ("--epochs=1",): "unknown flag --epochs",
        }.items():
            self.assertIn(said, self.error("find-lr", MLP, *flags))
        self.assertIn("cannot be written", self.error("find-lr", MLP, *SMALL, "--svg=/nowhere/lr.svg", code=1))
        self.assertIn("expected one argument, a model file", self.error("find-lr"))

    def test_a_signal_ends_it_without_a_suggestion(self):
        process = subprocess.Popen([BINARY, "find-lr", MLP, *SMALL, "--steps=10000", f"--svg={self.folder / 'lr.svg'}"],
                                   cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "OMP_WAIT_POLICY": "passive"})
        self.assertIn("at most 10000 steps", process.stdout.readline() + process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(error, r"stopped after \d+ of 10000 steps: nothing can be suggested before the end")
