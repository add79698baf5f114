"""What users get wrong and what breaks under them: folders for files, full disks, numbers that are none."""

import json
import pathlib
import subprocess

from snug import BINARY, ROOT, SnugTest

NETWORK = """
input { name: "x" shape { dim: 4 } }
input { name: "label" dtype: INT32 }
layer { name: "n" input: "x" batch_norm { momentum: MOMENTUM } }
layer { name: "fc" input: "n" dense { units: 3 } param { name: "bias" lr_mult: FACTOR } }
layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
objective: "loss"
optimizer { OPTIMIZER }
"""


class FileTest(SnugTest):
    def test_a_folder_is_no_file(self):
        for arguments in (
            ("step", self.folder),
            ("step", "models/mlp.pbtxt", f"--plan={self.folder}"),
            ("place", self.folder),
            ("order", self.folder),
        ):
            self.assertIn(f"{self.folder}: expected a file, found a directory", self.error(*arguments))

    def test_written_files_take_the_place_of_no_device_or_link(self):
        buffers = self.write("a.csv", "id,lower,upper,size\na,0,3,5\n")
        target = self.write("offsets", "")
        link = self.folder / "link"
        link.symlink_to(target)
        self.run_snug("place", buffers, f"--write={link}")
        self.assertTrue(link.is_symlink())
        self.assertEqual(target.read_text(), "id,offset\na,0\n")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["a.csv", "link", "offsets"])

    def test_a_result_that_standard_output_cannot_take_is_a_failure(self):
        if not pathlib.Path("/dev/full").is_char_device():
            self.skipTest("this machine has no /dev/full")
        for arguments in (["ops"], ["--help"], ["compile", "models/mlp.pbtxt", "--json"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([BINARY, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
            self.assertEqual((done.returncode, done.stderr), (1, "standard output: cannot be written\n"))


class AnswerTest(SnugTest):
    def test_json_is_one_document_of_failures_too(self):
        for arguments in (("plan", "/no/such.pbtxt"), ("tran", "models/mlp.pbtxt"), ("step",)):
            done = self.run_snug(*arguments, "--json", code=2)
            self.assertEqual(json.loads(done.stdout), {"error": done.stderr[:-1], "exit_code": 2})

    def test_a_flag_that_names_nothing_is_a_mistake(self):
        for flag in ("plan", "tuning", "device"):
            self.assertIn(f"--{flag}: expected a value, found none", self.error("step", "models/mlp.pbtxt", f"--{flag}="))


class NumberTest(SnugTest):
    def test_threads_have_an_upper_limit(self):
        for command, file in (("step", "models/mlp.pbtxt"), ("place", "a.csv"), ("order", "a.graph")):
            for threads in ("1025", "4294967297"):
                self.assertIn(f'from 1 to 1024, found "{threads}"', self.error(command, file, f"--threads={threads}"))

    def test_batches_beyond_32_bits_are_planned_or_refused(self):
        flags = ("--forward", "--memory=none")
        for batch in (2**32, 2**32 + 1):
            self.assertEqual(self.json("plan", "models/mlp.pbtxt", f"--batch={batch}", *flags)["batch"], batch)
            self.assertEqual(self.json("plan", "models/lenet.pbtxt", f"--batch={batch}", *flags)["batch"], batch)
        error = self.error("fit", "models/mlp.pbtxt", "--memory-limit=1GB", f"--max-batch={2**63 - 1}")
        self.assertIn("--max-batch: expected a whole number from 1 to 2147483647", error)
        huge = ("--memory-limit=4000000TB", "--max-batch=2147483647", "--memory=none")
        self.assertGreater(self.json("fit", "models/resnet18.pbtxt", *huge)["rows"][0]["batch"], 10**7)

    def test_one_dash_is_answered_with_two(self):
        self.assertIn("two dashes", self.error("ops", "-json"))

    def test_nnc_files_stay_within_bounds(self):
        tensor = "tensor {} size {} type 0 head 0 tail 1\n"
        many = self.write("a.nnc", "nncgraph 1\nnodes 2147483646\n" + tensor.format(0, 64))
        self.assertIn("a.nnc:2: expected a number of nodes of at most 10000000", self.error("place", many))
        huge = self.write("b.nnc", "nncgraph 1\nnodes 2\n" + "".join(tensor.format(i, 2**50) for i in range(2049)))
        self.assertIn("b.nnc:2051: the sizes up to here add up to more than", self.error("place", huge))

    def step(self, momentum="0.1", factor="1", optimizer=""):
        text = NETWORK.replace("MOMENTUM", momentum).replace("FACTOR", factor).replace("OPTIMIZER", optimizer)
        return ("step", self.write("net.pbtxt", text), "--batch=4", "--steps=1")

    def test_the_network_of_these_tests_trains(self):
        self.run_snug(*self.step(optimizer="learning_rate: 0.1 weight_decay: 0 clip_norm: 1 adam { beta1: 0 epsilon: 0 }"))

    def test_numbers_that_would_train_to_nonsense_are_located(self):
        for optimizer, found in (  # the message stands at the @
            ("learning_rate: @nan", "learning_rate: expected a number of at least 0, found nan"),
            ("learning_rate: @-1", "learning_rate: expected a number of at least 0, found -1"),
            ("weight_decay: @inf", "weight_decay: expected a number of at least 0, found inf"),
            ("clip_norm: @0", "clip_norm: expected more than 0, found 0"),
            ("average { decay: @1 }", "average.decay: expected at least 0 and less than 1, found 1"),
            ("sgd { momentum: @5 }", "sgd.momentum: expected at least 0 and less than 1, found 5"),
            ("adam { beta1: @1 }", "adam.beta1: expected at least 0 and less than 1, found 1"),
            ("adamw { epsilon: @-1 }", "adamw.epsilon: expected a number of at least 0, found -1"),
            ("rmsprop { alpha: @1 }", "rmsprop.alpha: expected at least 0 and less than 1, found 1"),
            ("adagrad { lr_decay: @-1 }", "adagrad.lr_decay: expected a number of at least 0, found -1"),
            ("lion { beta2: @1 }", "lion.beta2: expected at least 0 and less than 1, found 1"),
            ("lamb { epsilon: @-1 }", "lamb.epsilon: expected a number of at least 0, found -1"),
        ):
            error = self.error(*self.step(optimizer=optimizer.replace("@", "")))
            column = len("optimizer { ") + optimizer.index("@") + 1
            self.assertIn(f"net.pbtxt:8:{column}: optimizer.{found}", error)
        self.assertRegex(self.error(*self.step(momentum="2")), r'net\.pbtxt:4:\d+: .*"momentum": expected 0 to 1, found 2')
        self.assertRegex(self.error(*self.step(factor="nan")), r'net\.pbtxt:5:\d+: .*lr_mult: expected a finite number, found nan')
