#!/usr/bin/python3
"""onnxruntime computes what we do: of models that PyTorch exported and we import, and of networks that we export.

    tests/interchange/peer/peers_test.py SNUG CHECKPOINT_PEER FOLDER

SNUG is the command, CHECKPOINT_PEER that of tests/checkpoint/peer; in FOLDER a virtual environment with PyTorch,
torchvision, transformers, onnx and onnxruntime is made once. Without these it is skipped, and said; the exit code is 77.
Two small networks and one of every layer take seconds. With SNUG_CAMPAIGN set, all networks of networks.py and of models/.
"""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import venv

PACKAGES = ["torch", "torchvision", "transformers", "onnx", "onnxscript", "onnxruntime", "safetensors", "numpy"]
ROOT = pathlib.Path(__file__).resolve().parents[3]
SKIPPED = 77
CAMPAIGN = bool(os.environ.get("SNUG_CAMPAIGN"))
TOLERANCE = 1e-4
STEPS = 6  # that each imported network is trained


def run_inside(folder):
    """Runs this script again in the environment, which the campaign makes if it is not there: it is some gigabytes."""
    python = folder / "bin/python"
    if not (folder / "ready").exists():
        if not CAMPAIGN:
            print(f"SKIPPED: no {folder}: the campaign (tools/test --campaign) makes it", file=sys.stderr)
            return SKIPPED
        if importlib.util.find_spec("ensurepip") is None:  # Debian leaves it out of python3
            print("SKIPPED: this Python makes no virtual environments (Debian: python3-venv)", file=sys.stderr)
            return SKIPPED
        venv.create(folder, with_pip=True, clear=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1", "--timeout=20"]
        done = subprocess.run([*pip, *PACKAGES], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"SKIPPED: {', '.join(PACKAGES)} cannot be installed (offline?)\n{done.stderr}", file=sys.stderr)
            return SKIPPED
        (folder / "ready").touch()
    return subprocess.run([python, "-B", __file__, *sys.argv[1:], "--inside"]).returncode


class Peers(unittest.TestCase):
    snug = peer = None

    def setUp(self):
        self.use_another_folder()

    def use_another_folder(self):
        """Each network has one of its own, as a training does not go where another has been."""
        self.doCleanups()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *arguments, code=0):
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stderr}")
        return done

    def onnxruntime(self, path, feeds):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return session.run(None, {i.name: feeds(i) for i in session.get_inputs()})

    def ours(self, network, weights, feeds, outputs):
        from safetensors.numpy import load_file, save_file

        save_file({name: x if x.dtype.kind == "f" else x.astype("float64") for name, x in feeds.items()}, self.folder / "in")
        self.run_program(self.peer, "predict", network, weights, self.folder / "in", ",".join(outputs), self.folder / "out")
        return load_file(self.folder / "out")

    def assert_close(self, found, expected, what):
        """Returns the relative error, which is below TOLERANCE."""
        import numpy

        self.assertEqual(found.shape, expected.shape, what)
        scale = max(float(numpy.abs(expected).max()), 1e-3)
        error = float(numpy.abs(found - expected).max()) / scale
        self.assertLess(error, TOLERANCE, what)
        self.assertTrue(numpy.isfinite(found).all(), what)
        return error

    # ---- import ----

    def check_training(self, network, weights, x, scores, loss):
        """Some steps from the imported weights, which move them and lower the loss. Returns the losses of the steps."""
        import numpy
        from safetensors.numpy import load_file

        # What the network does not say yet.
        wanted = scores + numpy.random.default_rng(2).standard_normal(scores.shape)
        target, name = ((wanted, "target") if loss == "mean_squared_error" else (numpy.argmin(scores, -1), "label"))
        for file, data in [("x", x), (name, target)]:  # each sample four times: some are held back
            kind = "float32" if data.dtype.kind == "f" else "int32"
            numpy.save(self.folder / f"{file}.npy", numpy.concatenate([data] * 4).astype(kind))
        self.run_program(self.snug, "train", network, f"--init-from={weights}", f"--output={self.folder}/run", "--data=npy",
                         f"--data-npy-file=x={self.folder}/x.npy,{name}={self.folder}/{name}.npy", "--data-held-back=0.25",
                         "--batch=2", f"--steps={STEPS}", "--learning-rate=1e-3")
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        losses = [line["loss"] for line in lines if line["kind"] == "step"]
        self.assertEqual(len(losses), STEPS)
        self.assertLess(min(losses[1:]), losses[0], f"no step lowers the loss: {losses}")
        before = load_file(weights)
        after = load_file(next((self.folder / "run/checkpoints").glob("*.safetensors")))
        moved = [key for key in before if not numpy.array_equal(before[key], after[key])]
        self.assertGreater(len(moved), len(before) / 2)
        for key in before:
            self.assertTrue(numpy.isfinite(after[key]).all(), key)
            if key.endswith(("running_mean", "running_var")):
                continue  # statistics go where the data are, however far that is
            self.assertLess(float(numpy.abs(after[key] - before[key]).mean()), 0.1 + float(numpy.abs(before[key]).mean()), key)
        return losses

    def check_import(self, name, dynamo):
        import networks
        import numpy

        file, prefix = self.folder / "model.onnx", self.folder / "model"
        networks.export(name, str(file), dynamo)
        random = numpy.random.default_rng(1)
        x = None

        def feed(i):
            nonlocal x
            shape = [2 if isinstance(d, str) else d for d in i.shape]
            whole = "int" in i.type
            x = random.integers(0, networks.TOKENS, shape) if whole else random.standard_normal(shape).astype("float32")
            return x

        expected = self.onnxruntime(file, feed)[0]
        self.assertGreater(float(expected.std()), 1e-3, "a network that puts out nothing shows nothing")
        text = name in networks.TEXTS
        loss = "mean_squared_error" if text and name != "gpt2" else "softmax_cross_entropy"
        done = self.run_program(self.snug, "import", file, f"--out={prefix}", f"--loss={loss}", "--json")
        output = json.loads(done.stdout)["outputs"][0]["name"]
        network, weights = f"{prefix}.pbtxt", f"{prefix}.safetensors"
        error = self.assert_close(self.ours(network, weights, {"x": x}, [output])[output], expected, f"{name}, dynamo={dynamo}")
        losses = self.check_training(network, weights, x, expected, loss)
        exporter = " by dynamo" if dynamo else ""
        print(f"imported {name}{exporter}: error {error:.1e}, loss {losses[0]:.4g} to {losses[-1]:.4g}", flush=True)

    def test_a_small_network(self):
        self.check_import("small", dynamo=False)

    def test_a_small_network_with_external_data(self):
        self.check_import("small", dynamo=True)

    def test_distilbert(self):
        self.check_import("distilbert", dynamo=True)

    def test_nothing_is_written_of_what_cannot_be_imported(self):
        import onnx
        from onnx import TensorProto, helper

        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
        nodes = [helper.make_node("Hardmax", ["x"], ["a"], name="first"), helper.make_node("Det", ["x"], ["y"], name="second")]
        model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
        onnx.save(model, self.folder / "a.onnx")
        done = self.run_program(self.snug, "import", self.folder / "a.onnx", f"--out={self.folder}/a", code=2)
        self.assertIn('node "first" (Hardmax)', done.stderr)
        self.assertIn('node "second" (Det)', done.stderr)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["a.onnx"])

    def model_of_opset(self, opset):
        """Ops that were written in another way before or after this version: what was an attribute is an input, and so on."""
        import numpy
        from onnx import TensorProto, helper, numpy_helper

        random = numpy.random.default_rng(opset)
        nodes, initializers = [], []

        def weight(name, *dims):
            initializers.append(numpy_helper.from_array(random.uniform(0.5, 1.5, dims).astype("float32"), name))
            return name

        def ints(*values):
            initializers.append(numpy_helper.from_array(numpy.array(values, "int64"), f"ints{len(initializers)}"))
            return initializers[-1].name

        def add(op, *inputs, outputs=1, **attributes):
            made = [f"{op}{len(nodes)}_{i}" for i in range(outputs)]
            nodes.append(helper.make_node(op, list(inputs), made, name=made[0], **attributes))
            return made[0] if outputs == 1 else made

        def with_axes(op, since, x, axes, **attributes):
            """Axes are an attribute before the version `since`, and an input from then on."""
            return add(op, x, ints(*axes), **attributes) if opset >= since else add(op, x, axes=axes, **attributes)

        y = add("BatchNormalization", "x", *(weight(name, 4) for name in ("bn.scale", "bn.bias", "bn.mean", "bn.var")),
                **({"training_mode": 0} if opset >= 14 else {}))
        # From version 18 on, axes may be named: 1 before each, none behind.
        y = add("Pad", y, ints(1, 1, 0, 0), "", ints(2, 3)) if opset >= 18 else add("Pad", y, ints(0, 0, 1, 1, 0, 0, 0, 0))
        y = add("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2], **({"dilations": [1, 1]} if opset >= 19 else {}))
        y = add("HardSwish", y) if opset >= 14 else add("Mul", y, add("HardSigmoid", y, alpha=1 / 6, beta=0.5))
        y = add("LeakyRelu", y, alpha=0.125)
        if opset >= 21:  # that of version 18 was withdrawn
            y = add("GroupNormalization", y, weight("gn.scale", 4), weight("gn.bias", 4), num_groups=2)
        initializers.append(numpy_helper.from_array(numpy.array(0.25, "float32"), "ratio"))
        y = add("Dropout", y, "ratio") if opset >= 12 else add("Dropout", y, ratio=0.25)
        if opset >= 18:
            a, b = add("Split", y, outputs=2, axis=1, num_outputs=2)
        elif opset >= 13:
            a, b = add("Split", y, ints(2, 2), outputs=2, axis=1)
        else:
            a, b = add("Split", y, outputs=2, axis=1, split=[2, 2])
        y = add("Concat", b, a, axis=1)
        y = with_axes("Unsqueeze", 13, y, [2])
        y = with_axes("Squeeze", 13, y, [2])
        largest = with_axes("ReduceMax", 18, y, [3], keepdims=1)
        y = add("Sub", y, with_axes("ReduceMean", 18, y, [2, 3], keepdims=1))
        y = add("Mul", y, with_axes("ReduceSum", 13, largest, [2], keepdims=1))
        if opset >= 15:
            shape = add("Concat", add("Shape", y, start=0, end=1), ints(-1), axis=0)
            y = add("Reshape", y, shape, allowzero=0)
        else:
            y = add("Reshape", y, ints(0, -1), **({"allowzero": 0} if opset >= 14 else {}))
        if opset >= 17:
            y = add("LayerNormalization", y, weight("ln.scale", 64), weight("ln.bias", 64), axis=-1)
        if opset >= 20:
            y = add("Gelu", y, approximate="tanh")
        y = add("Gemm", y, weight("fc.weight", 3, 64), weight("fc.bias", 3), transB=1, alpha=1.0, beta=1.0)
        y = add("Softmax", y, axis=1)
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 7, 7])],
                                  [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["n", 3])], initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10 if opset >= 21 else 7), y

    def test_every_opset(self):
        import numpy
        import onnx

        for opset in range(11, 22):
            with self.subTest(opset=opset):
                self.use_another_folder()
                model, output = self.model_of_opset(opset)
                file = self.folder / f"opset{opset}.onnx"
                onnx.checker.check_model(model, full_check=True)
                onnx.save(model, file)
                x = numpy.random.default_rng(1).standard_normal((3, 4, 7, 7)).astype("float32")
                expected = self.onnxruntime(file, lambda _, x=x: x)[0]
                done = self.run_program(self.snug, "import", file, f"--out={self.folder}/a", "--json")
                name = json.loads(done.stdout)["outputs"][0]["name"]
                found = self.ours(self.folder / "a.pbtxt", self.folder / "a.safetensors", {"x": x}, [name])[name]
                error = self.assert_close(found, expected, f"opset {opset}")
                print(f"imported opset {opset}: error {error:.1e}", flush=True)

    def test_a_newer_opset_is_refused(self):
        import onnx

        model, _ = self.model_of_opset(21)
        model.opset_import[0].version = 22
        onnx.save(model, self.folder / "a.onnx")
        done = self.run_program(self.snug, "import", self.folder / "a.onnx", f"--out={self.folder}/a", code=2)
        self.assertIn("opset 22: versions 11 to 21 are understood", done.stderr)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["a.onnx"])

    # ---- export ----

    def check_export(self, path, *options):
        import numpy
        import onnx
        from onnx import numpy_helper
        from safetensors.numpy import save_file

        text, file = path.read_text(), self.folder / "model.onnx"
        done = self.run_program(self.snug, "export", path, f"--out={file}", "--seed=1", "--json", *options)
        onnx.checker.check_model(str(file), full_check=True)
        model = onnx.load(str(file))
        random = numpy.random.default_rng(1)
        feeds = {}

        def feed(i):
            shape = [2 if isinstance(d, str) else d for d in i.shape]
            limit = re.search(rf'name: "{re.escape(i.name)}".*max_value: (\d+)', text)
            whole = "int" in i.type
            feeds[i.name] = (random.integers(0, int(limit.group(1)) if limit else 2, shape).astype("int32")
                             if whole else random.standard_normal(shape).astype("float32"))
            return feeds[i.name]

        expected = self.onnxruntime(file, feed)
        # The parameters, as the file has them: what is named after a layer.
        done_compile = self.run_program(self.snug, "compile", path, f"--dump={self.folder}/dump")
        self.assertEqual(done_compile.returncode, 0)
        graph = (self.folder / "dump/10_graph.txt").read_text()
        kept = set(re.findall(r"^variable (\S+) .* (?:parameter|statistic)", graph, re.M))
        weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.name in kept}
        save_file(weights, self.folder / "weights")
        names = json.loads(done.stdout)["outputs"]
        found = self.ours(path, self.folder / "weights", feeds, names)
        errors = []
        for name, wanted in zip(names, expected):
            errors.append(self.assert_close(found[name], wanted, f"{path.name}: {name}"))
        print(f"exported {path.name}: error {max(errors):.1e}", flush=True)

    def test_every_layer(self):
        self.check_export(ROOT / "tests/interchange/every_layer.pbtxt")

    def test_a_model_with_a_loss(self):
        self.check_export(ROOT / "models/lenet.pbtxt")


@unittest.skipUnless(CAMPAIGN, "SNUG_CAMPAIGN is not set")
class Campaign(Peers):
    test_a_small_network = test_a_small_network_with_external_data = test_distilbert = None
    test_nothing_is_written_of_what_cannot_be_imported = test_every_layer = test_a_model_with_a_loss = None
    test_every_opset = test_a_newer_opset_is_refused = None

    def test_networks_are_imported(self):
        import networks

        for name in [*networks.IMAGES, *networks.TEXTS]:
            for dynamo in [False, True]:
                if (name, dynamo) == ("gpt2", False):
                    continue  # that exporter has no aten::diff
                with self.subTest(name, dynamo=dynamo):
                    self.use_another_folder()
                    self.check_import(name, dynamo)

    def test_models_are_exported(self):
        for path in sorted((ROOT / "models").glob("*.pbtxt")):
            with self.subTest(path.name):
                self.use_another_folder()
                self.check_export(path, *self.statistics(path))

    def statistics(self, path):
        """Of a network so deep that numbers overflow while batch norms have the statistics that they begin with (each of 333
        blocks doubles the variance), those of a few steps: there batch norms divide by what they saw."""
        if path.stem != "resnet1001":
            return []
        self.run_program(self.snug, "train", path, f"--output={self.folder}/run", "--data=textures", "--steps=12", "--batch=2",
                         "--learning-rate=1e-5", "--evaluate-every=0", "--evaluate-batches=1")
        return [f"--checkpoint={self.folder}/run"]


if __name__ == "__main__":
    if "--inside" not in sys.argv:
        sys.exit(run_inside(pathlib.Path(sys.argv[3])))
    Peers.snug, Peers.peer = sys.argv[1], sys.argv[2]
    unittest.main(argv=sys.argv[:1], verbosity=2)
