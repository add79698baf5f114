#!/usr/bin/python3
"""The real safetensors, NumPy and PyTorch packages read what we write, and we read what they write.

    tests/checkpoint/peer/peers_test.py PROGRAM FOLDER

PROGRAM is checkpoint_peer (peer.cc); in FOLDER a virtual environment with `safetensors` is made once, on the Python that
runs this: with Debian's, python3-torch is seen too. What cannot be had is skipped, and said; with nothing left to test
the exit code is 77.
"""

import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import venv

SAFETENSORS = "safetensors==0.4.5"
ROOT = pathlib.Path(__file__).resolve().parents[3]
SKIPPED = 77


def run_inside(folder):
    """Runs this script again in the environment, which it makes if it is not there."""
    python = folder / "bin/python"
    if not (folder / "ready").exists():
        if importlib.util.find_spec("ensurepip") is None:  # Debian leaves it out of python3
            print("SKIPPED: this Python makes no virtual environments (Debian: python3-venv)", file=sys.stderr)
            return SKIPPED
        venv.create(folder, system_site_packages=True, with_pip=True, clear=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1", "--timeout=20"]
        done = subprocess.run([*pip, SAFETENSORS], capture_output=True, text=True)
        if done.returncode == 0 and subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode != 0:
            done = subprocess.run([*pip, "numpy==1.26.4"], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"SKIPPED: {SAFETENSORS} and NumPy cannot be installed (offline?)\n{done.stderr}", file=sys.stderr)
            return SKIPPED
        (folder / "ready").touch()
    return subprocess.run([python, "-B", __file__, *sys.argv[1:], "--inside"]).returncode


class Peers(unittest.TestCase):
    program = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def peer(self, *arguments):
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def copy(self, source):
        """The file as we write what we read of it."""
        self.peer("copy", source, self.folder / "copy.safetensors")
        return self.folder / "copy.safetensors"

    def test_numpy(self):
        import numpy
        from safetensors import safe_open
        from safetensors.numpy import save_file

        random = numpy.random.default_rng(1)
        tensors = {"scalar": numpy.array(3.5), "empty": numpy.zeros((2, 0, 3), numpy.float32), 'ä "\\\n/é\U0001F600': numpy.ones(1)}
        for kind in "f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 ?".split():
            shape = tuple(random.integers(1, 6, size=random.integers(1, 5)))
            bits = random.integers(0, 2 if kind == "?" else 256, size=(*shape, numpy.dtype(kind).itemsize), dtype=numpy.uint8)
            tensors[f"random.{kind}"] = numpy.ascontiguousarray(bits).view(kind)[..., 0].copy()
        metadata = {"format": "np", "": "empty", 'quote"': "line\nü\t\x01\U0001F600"}
        save_file(tensors, self.folder / "a.safetensors", metadata=metadata)
        with safe_open(self.copy(self.folder / "a.safetensors"), "numpy") as file:
            self.assertEqual(file.metadata(), metadata)
            self.assertEqual(set(file.keys()), set(tensors))
            for name, tensor in tensors.items():
                found = file.get_tensor(name)
                self.assertEqual((found.dtype, found.shape), (tensor.dtype, tensor.shape), name)
                self.assertEqual(found.tobytes(), tensor.tobytes(), name)

    def test_a_file_of_nothing(self):
        from safetensors.numpy import load_file, save_file

        save_file({}, self.folder / "a.safetensors")
        self.assertEqual(load_file(self.copy(self.folder / "a.safetensors")), {})

    def test_a_checkpoint_is_read_by_numpy(self):
        import numpy
        from safetensors.numpy import load_file

        self.peer("train", ROOT / "models/mlp.pbtxt", 2, self.folder / "mlp.safetensors")
        state = load_file(self.folder / "mlp.safetensors")
        self.assertEqual(state["fc1.weight"].shape, (256, 784))
        self.assertEqual(state["fc1.weight"].dtype, numpy.float32)
        self.assertEqual(state["fc1.weight/momentum"].shape, (256, 784))
        self.assertEqual(state["state.random"].tolist(), [1, 2])
        with open(self.folder / "mlp.safetensors", "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        starts = [entry["data_offsets"][0] for name, entry in header.items() if name != "__metadata__"]
        self.assertEqual(starts, sorted(starts))


class PyTorch(Peers):
    test_numpy = test_a_file_of_nothing = test_a_checkpoint_is_read_by_numpy = None

    def setUp(self):
        super().setUp()
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch: tools/setup --bench")
        torch.manual_seed(1)

    def test_all_types(self):
        import torch
        from safetensors.torch import load_file, save_file

        types = [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool]
        tensors = {str(kind): (torch.randn(3, 5) * 100).abs().to(kind) for kind in types}
        save_file(tensors, self.folder / "a.safetensors")
        found = load_file(self.copy(self.folder / "a.safetensors"))
        self.assertEqual(set(found), set(tensors))
        for name, tensor in tensors.items():
            self.assertEqual(found[name].dtype, tensor.dtype)
            self.assertTrue(torch.equal(found[name], tensor), name)

    def test_a_state_dict_of_torch_save_gives_the_same_logits(self):
        import torch
        from safetensors.torch import load_file, save_file

        kinds = {"conv1": (6, 1, 5, 5), "conv2": (16, 6, 5, 5), "fc1": (120, 400), "fc2": (84, 120), "fc3": (10, 84)}
        state = {f"{name}.weight": torch.randn(shape) / shape[-1] for name, shape in kinds.items()}
        state |= {f"{name}.bias": torch.randn(shape[0]) for name, shape in kinds.items()}
        state["fc1.weight"] = state["fc1.weight"].t().contiguous().t()  # not row-major
        state["fc2.weight"] = state["fc2.weight"].half()
        state["fc3.weight"] = torch.nn.Parameter(state["fc3.weight"])
        save_file({name: tensor.detach().contiguous() for name, tensor in state.items()}, self.folder / "a.safetensors")
        torch.save(state, self.folder / "a.pth")
        torch.save({"epoch": 1, "state_dict": {f"module.{name}": state[name] for name in state}}, self.folder / "b.pth")
        save_file({"image": torch.randn(3, 1, 28, 28)}, self.folder / "inputs.safetensors")
        logits = {}
        for name in ("a.safetensors", "a.pth", "b.pth"):
            output = self.folder / "output.safetensors"
            notes = self.peer("predict", ROOT / "models/lenet.pbtxt", self.folder / name, self.folder / "inputs.safetensors", "fc3", output)
            self.assertEqual('all names begin with "module."' in notes, name == "b.pth", notes)
            logits[name] = load_file(output)["fc3"]
        self.assertGreater(logits["a.pth"].std().item(), 0.1)
        self.assertTrue(torch.equal(logits["a.safetensors"], logits["a.pth"]))
        self.assertTrue(torch.equal(logits["a.safetensors"], logits["b.pth"]))

    def resnet18(self):
        try:
            import torchvision
        except ImportError:
            self.skipTest("no torchvision: tools/setup --bench")
        return torchvision.models.resnet18()

    def expect_equal_outputs(self, module, weights):
        """`module` with the weights that it has, against ours with those of the file."""
        import torch
        from safetensors.torch import load_file, save_file

        image = torch.randn(2, 3, 224, 224)
        save_file({"image": image}, self.folder / "inputs.safetensors")
        output = self.folder / "output.safetensors"
        notes = self.peer("predict", ROOT / "models/resnet18.pbtxt", weights, self.folder / "inputs.safetensors", "fc", output)
        module.eval()
        with torch.no_grad():
            expected = module(image).double()
        found = load_file(output)["fc"]
        self.assertGreater(expected.std().item(), 0.1)
        error = (found - expected).abs().max() / expected.abs().max()
        self.assertLess(error.item(), 1e-4)
        return notes

    def test_resnet18_of_pytorch_is_evaluated_here(self):
        import torch
        from safetensors.torch import save_file

        module = self.resnet18()
        with torch.no_grad():
            for _ in range(2):  # statistics that are not the initial ones
                module(torch.randn(4, 3, 224, 224))
        save_file(module.state_dict(), self.folder / "torch.safetensors")
        notes = self.expect_equal_outputs(module, self.folder / "torch.safetensors")
        self.assertIn('tensor "layer1.0.bn1.num_batches_tracked": ignored', notes)

    def test_resnet18_trained_here_is_evaluated_by_pytorch(self):
        from safetensors.torch import load_file

        weights = self.folder / "snug.safetensors"
        self.peer("train", ROOT / "models/resnet18.pbtxt", 2, weights)
        module = self.resnet18()
        loaded = module.load_state_dict(load_file(weights), strict=False)
        self.assertTrue(all(name.endswith(".num_batches_tracked") for name in loaded.missing_keys), loaded.missing_keys)
        ours = [name for name in loaded.unexpected_keys if "/" in name or name in ("state.random", "optimizer.learning_rate")]
        self.assertEqual(ours, loaded.unexpected_keys)
        self.expect_equal_outputs(module, weights)


if __name__ == "__main__":
    if "--inside" not in sys.argv:
        sys.exit(run_inside(pathlib.Path(sys.argv[2])))
    Peers.program = sys.argv[1]
    unittest.main(argv=sys.argv[:1], verbosity=2)
