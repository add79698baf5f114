"""What users get wrong and what breaks under them: folders for files, full disks, numbers that are none."""

import json
import math
import pathlib
import resource
import struct
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


def npy(kind, shape):
    """A file of zeros."""
    header = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(4 * math.prod(shape))


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


    def test_what_is_read_is_not_overwritten(self):
        model = self.folder / "m.pbtxt"
        model.write_text((ROOT / "models/mlp.pbtxt").read_text())
        before = model.read_text()
        self.assertIn("--out: expected another file than those that are read", self.error("export", model, f"--out={model}"))
        self.run_snug("train", model, f"--output={self.folder / 'run'}", "--steps=1", "--evaluate-batches=1")
        trained = f"--checkpoint={self.folder / 'run'}"
        refused = "expected another file than those that are read"
        self.assertIn(f"--output: {refused}", self.error("predict", model, trained, f"--output={model}"))
        self.assertIn(f"--trace: {refused}", self.error("step", model, f"--trace={model}"))
        self.assertEqual(model.read_text(), before)
        (weights,) = (self.folder / "run/checkpoints").iterdir()
        before = weights.read_bytes()
        for flag in (trained, f"--init-from={self.folder / 'run'}"):
            self.assertIn(f"--out: {refused}", self.error("export", model, flag, f"--out={weights}"))
        self.assertEqual(weights.read_bytes(), before)
        arrays = {name: self.folder / f"{name}.npy" for name in ("image", "label")}
        arrays["image"].write_bytes(npy("<f4", (3, 784)))
        arrays["label"].write_bytes(npy("<i4", (3,)))
        data = ("--data=npy", "--part=training", "--data-npy-file=" + ",".join(f"{k}={v}" for k, v in arrays.items()))
        self.run_snug("predict", model, trained, *data, f"--output={self.folder / 'label'}")
        self.run_snug("predict", model, trained, *data, f"--output={self.folder / 'label'}")
        error = self.error("predict", model, trained, *data, "--fetch=fc1", f"--output={arrays['image']}")
        self.assertIn(f"--output: {refused}", error)

    def test_no_picture_plan_or_table_takes_the_place_of_what_is_read(self):
        model = self.write("m.pbtxt", (ROOT / "models/mlp.pbtxt").read_text())
        buffers = self.write("a.csv", "id,lower,upper,size\na,0,3,5\n")
        tasks = self.write("a.graph", "node 0 a\nnode 1 b\ntensor 0 0 8 1\n")
        read = {path: path.read_text() for path in (model, buffers, tasks)}
        for flag, arguments in {
            "--svg": ("plan", model, f"--svg={model}"),
            "--html": ("plan", model, f"--html={model}"),
            "--write-plan": ("plan", model, f"--write-plan={model}"),
            "--output": ("tune", model, f"--output={model}"),
            "--svg ": ("find-lr", model, f"--svg={model}"),
            "--html ": ("bench", "memory", model, f"--html={model}"),
            "--write": ("place", buffers, f"--write={buffers}"),
            "--write ": ("order", tasks, f"--write={tasks}"),
            "--trace": ("train", model, f"--trace={model}", f"--output={self.folder / 'run'}"),
        }.items():
            with self.subTest(arguments[0]):
                said = self.error(*arguments)
                self.assertIn(f"{flag.strip()}: expected another file than those that are read", said)
        self.assertEqual({path: path.read_text() for path in read}, read)

    def test_a_network_is_named_and_leads_nowhere(self):
        text = (ROOT / "models/mlp.pbtxt").read_text().replace('name: "mlp"', 'name: "../../out\\033[31m"', 1)
        model = self.write("m.pbtxt", text)
        done = subprocess.run([BINARY, "train", model, "--steps=1", "--threads=1", "--evaluate-batches=1"],
                              capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\033", done.stdout)
        (run,) = (self.folder / "runs").iterdir()
        self.assertEqual(run.name, ".._.._out_[31m")

    def test_an_import_does_not_replace_a_model_file_unasked(self):
        exported, network = self.folder / "m.onnx", self.folder / "n.pbtxt"
        self.run_snug("export", "models/mlp.pbtxt", f"--out={exported}")
        arguments = ("import", exported, f"--out={self.folder / 'n'}")
        self.run_snug(*arguments)
        written = network.read_text()
        network.write_text(written + "# mine\n")
        self.assertIn("n.pbtxt is there already", self.error(*arguments))
        network.rename(self.folder / "mine")
        self.assertIn("n.safetensors is there already", self.error(*arguments))
        (self.folder / "mine").rename(network)
        self.assertEqual(network.read_text(), written + "# mine\n")
        self.run_snug(*arguments, "--overwrite")
        self.assertEqual(network.read_text(), written)
        self.assertIn("expected 784 for axis 1, as the file says, found 2", self.error(*arguments, "--overwrite", "--shape=image:3x2"))

    def test_a_limit_on_files_is_an_error_that_leaves_nothing(self):
        trace = self.folder / "trace.json"
        command = [BINARY, "step", "models/mlp.pbtxt", "--steps=200", f"--trace={trace}"]
        limit = (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=ROOT,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("trace.json: cannot be written: File too large", done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])


BROKEN = """
name: "broken"
input { name: "image" shape { dim: [1, 28, 28] } }
input { name: "label" dtype: INT32 max_value: 10 }
layer { name: "first" input: "image" %s }
layer { name: "act" input: "first" %s {} }
layer { name: "flat" input: "act" flatten {} }
layer { name: "out" input: "flat" dense { units: 10 } }
layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }
objective: "loss"
training { batch: 4 steps: 1 data { digits { samples: 64 } } }
optimizer { learning_rate: 0.01 sgd {} }
"""
FIRST_OF_BROKEN = {
    "conv { filters: 16 kernel: 3 pad: 1 }": (16, 1, 3, 3),
    "conv { filters: 16 kernel: 5 pad: 2 }": (16, 1, 5, 5),
    "conv { filters: 16 kernel: 3 stride: 2 }": (16, 1, 3, 3),
    "conv { filters: 16 kernel: 1 }": (16, 1, 1, 1),
    "dense { units: 32 }": (32, 28),
}


class NotFiniteTest(SnugTest):
    """Weights that are not finite are seen, whatever is fused behind what multiplies by them."""

    def write_nan(self, shape):
        count = 1
        for size in shape:
            count *= size
        header = '{"first.weight":{"dtype":"F32","shape":[%s],"data_offsets":[0,%d]}}' % (", ".join(map(str, shape)), 4 * count)
        path = self.folder / "nan.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + struct.pack("<f", float("nan")) * count)
        return path

    def test_no_activation_hides_them(self):
        for first, shape in FIRST_OF_BROKEN.items():
            for activation in ("relu", "relu6", "sigmoid"):
                network = self.write("broken.pbtxt", BROKEN % (first, activation))
                for flags in ((), ("--precision=bfloat16",)):
                    with self.subTest(first=first, activation=activation, flags=flags):
                        said = self.run_snug("train", network, f"--init-from={self.write_nan(shape)}", "--threads=1",
                                          f"--output={self.folder}/run", *flags, code=1).stderr
                        self.assertIn("not finite", said)


class AnswerTest(SnugTest):
    def test_names_that_are_no_text_are_told_in_json_too(self):
        done = subprocess.run([BINARY, "step", b"no\xff.pbtxt", "--json"], capture_output=True, cwd=ROOT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no\\xff.pbtxt", json.loads(done.stdout.decode())["error"])

    def test_the_precision_is_told_that_was_compiled(self):
        self.assertEqual(self.json("step", "models/mlp.pbtxt")["precision"], "float32")

    def test_patterns_without_parameters_to_choose_are_a_mistake(self):
        done = self.run_snug(
            "train", "models/mlp.pbtxt", f"--output={self.folder / 'run'}", "--steps=1", "--init-patterns=fc*", code=2
        )
        self.assertIn("--init-patterns: expected --init-from beside it", done.stderr)

    def test_what_a_training_left_can_be_begun_with(self):
        train = ("train", "models/mlp.pbtxt", "--steps=1", "--evaluate-batches=1")
        self.run_snug(*train, f"--output={self.folder / 'run'}")
        begun = self.run_snug(*train, f"--output={self.folder / 'other'}", f"--init-from={self.folder / 'run'}")
        self.assertIn("loaded 6,", begun.stdout)

    def test_a_prediction_is_written_as_its_file_is_called(self):
        self.run_snug("train", "models/mlp.pbtxt", f"--output={self.folder / 'run'}", "--steps=1", "--evaluate-batches=1")
        for name, begin in (("y.npy", b"\x93NUMPY"), ("y.jsonl", b"{")):
            arguments = (f"--checkpoint={self.folder / 'run'}", f"--output={self.folder / name}", "--batches=1")
            self.run_snug("predict", "models/mlp.pbtxt", *arguments, "--fetch=fc3")
            self.assertTrue((self.folder / name).read_bytes().startswith(begin))

    def test_every_command_says_what_changes_nothing(self):
        for command in ("step", "compile", "plan"):
            done = self.run_snug(command, "models/mlp.pbtxt", "--half-byte-indices")
            self.assertIn("--half-byte-indices changes nothing in this network", done.stdout + done.stderr)

    def test_help_of_a_command_is_asked_for_in_three_ways(self):
        texts = {self.run_snug(*words).stdout for words in (("train", "--help"), ("help", "train"), ("--help", "train"))}
        self.assertEqual(len(texts), 1)
        self.assertIn("usage: snug train NET", texts.pop())
        for words in (("help",), ("help", "help"), ("--help", "--help"), ("-h", "help"), ("--help", "--json")):
            self.assertIn("usage: snug COMMAND", self.run_snug(*words).stdout)

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
