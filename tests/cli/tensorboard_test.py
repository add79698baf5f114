"""What `snug train --tensorboard` writes, read back by TensorBoard's own reader.

SNUG_TEST_PYTHON names a Python that has the package tensorboard. Without, one is made beside the program once, by pip; where
that cannot be had (offline), these tests are skipped, and say so.
"""

import importlib.util
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import unittest
import venv

from snug import BINARY, SnugTest

# Prints what a folder of event files holds, as JSON, and what the newest checkpoint's parameters are like.
READER = r"""
import json, struct, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import graph_pb2
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0, "tensors": 0}).Reload()
tags = events.Tags()
found = {"scalars": {t: [[e.step, e.value] for e in events.Scalars(t)] for t in tags["scalars"]},
         "histograms": {t: [[e.step, vars(e.histogram_value)] for e in events.Histograms(t)] for t in tags["histograms"]},
         "texts": {t: [e.tensor_proto.string_val[0].decode() for e in events.Tensors(t)] for t in tags["tensors"]}}
graph = events.Graph()
found["graph"] = {n.name: {"op": n.op, "inputs": list(n.input), "options": n.attr["options"].s.decode(),
                           "shapes": [[d.size for d in s.dim] for s in n.attr["_output_shapes"].list.shape]} for n in graph.node}
print(json.dumps(found))
"""


MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"
TABLES = """name: "tables"
input { name: "a" dtype: INT32 max_value: 1000 }
input { name: "kind" dtype: INT32 max_value: 3 }
layer { name: "table" input: "a" embedding { entries: 1000 width: 8 } }
layer { name: "out" input: "table" dense { units: 3 } }
layer { name: "loss" input: "out" input: "kind" softmax_cross_entropy {} }
objective: "loss"
optimizer { learning_rate: 0.1 sgd { momentum: 0 } }
"""


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def parameters(path):
    """Of a safetensors file: every float32 tensor that is no slot, by name."""
    content = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    found = {}
    for name, entry in header.items():
        if name == "__metadata__" or "/" in name or entry["dtype"] != "F32" or not entry["shape"]:
            continue
        begin, end = entry["data_offsets"]
        found[name] = struct.unpack_from(f"<{(end - begin) // 4}f", content, 8 + length + begin)
    return found


def reader_python():
    """A Python with tensorboard, or the reason why there is none."""
    given = os.environ.get("SNUG_TEST_PYTHON")
    has_it = lambda python: subprocess.run([python, "-c", "import tensorboard"], capture_output=True).returncode == 0
    for python in filter(None, (given, sys.executable)):
        if has_it(python):
            return python, ""
    folder = pathlib.Path(BINARY).resolve().parent / "tensorboard_venv"
    python = folder / "bin/python"
    if (folder / "ready").exists():
        return python, ""
    if importlib.util.find_spec("ensurepip") is None:  # Debian leaves it out of python3
        return None, "SKIPPED: this Python makes no virtual environments (Debian: python3-venv)"
    venv.create(folder, with_pip=True, clear=True)
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1",
                           "--timeout=20", "tensorboard", "setuptools<81"], capture_output=True, text=True)
    if done.returncode != 0 or not has_it(python):
        return None, f"SKIPPED: tensorboard cannot be installed (offline?)\n{done.stderr}"
    (folder / "ready").touch()
    return python, ""


class TensorBoardTest(SnugTest):
    @classmethod
    def setUpClass(cls):
        cls.python, missing = reader_python()
        if cls.python is None:
            print(missing, file=sys.stderr)
            raise unittest.SkipTest(missing)

    def train(self, *arguments, output="run", code=0):
        return self.run_snug("train", "models/mlp.pbtxt", f"--output={self.folder / output}", "--data-digits-samples=320",
                             "--batch=32", "--threads=1", "--evaluate-every=4", "--evaluate-batches=2",
                             "--checkpoint-every=4", "--checkpoint-keep=9", *arguments, code=code)

    def read(self, folder):
        done = subprocess.run([self.python, "-c", READER, folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def expect_metrics(self, output, found):
        """Every number of the metrics' file, in float32, and no other."""
        expected = {}
        for line in (self.folder / output / "metrics.jsonl").read_text().splitlines():
            line = json.loads(line)
            kind = "training" if line["kind"] == "step" else "evaluation"
            for name in sorted(set(line) - {"kind", "step", "epoch", "learning_rate", "seconds", "waited"}):
                expected.setdefault(f"{name}/{kind}", []).append([line["step"], float32(line[name])])
            if kind == "training":
                expected.setdefault("rate/learning_rate", []).append([line["step"], float32(line["learning_rate"])])
        scalars = dict(found["scalars"])
        speed = scalars.pop("rate/samples_per_second")
        self.assertLessEqual({"loss/training", "accuracy/evaluation", "f1/evaluation", "auc/evaluation"}, set(expected))
        self.assertEqual([step for step, _ in speed], [step for step, _ in expected["loss/training"]])
        self.assertTrue(all(value > 0 for _, value in speed))
        waited = scalars.pop("rate/waited_for_data")
        self.assertEqual([step for step, _ in waited], [step for step, _ in speed])
        self.assertTrue(all(0 <= value <= 1 for _, value in waited))
        self.assertEqual({tag: values for tag, values in scalars.items() if not tag.startswith("memory/")}, expected)

    def expect_histograms(self, output, found, steps):
        for step in steps:
            tensors = parameters(self.folder / output / f"checkpoints/step-{step:09}.safetensors")
            self.assertEqual({f"parameters/{name}" for name in tensors}, set(found["histograms"]))
            for name, numbers in tensors.items():
                (histogram,) = [h for at, h in found["histograms"][f"parameters/{name}"] if at == step]
                self.assertEqual((histogram["num"], histogram["min"], histogram["max"]),
                                 (len(numbers), min(numbers), max(numbers)))
                self.assertAlmostEqual(histogram["sum"], sum(numbers), delta=1e-9 * len(numbers))
                self.assertAlmostEqual(histogram["sum_squares"], sum(x * x for x in numbers), delta=1e-9 * len(numbers))
                limits = histogram["bucket_limit"]
                counts = [sum(low <= x < high for x in numbers) for low, high in zip([-float("inf"), *limits], limits)]
                self.assertEqual(histogram["bucket"], counts)
        for values in found["histograms"].values():
            self.assertEqual([at for at, _ in values], list(steps))

    def test_every_number_and_histogram_is_read_back(self):
        said = self.train("--steps=10", "--tensorboard").stdout
        folder = self.folder / "run/tensorboard"
        (file,) = folder.iterdir()
        self.assertIn(f"events     {file}", said)
        found = self.read(folder)
        self.expect_metrics("run", found)
        self.expect_histograms("run", found, (4, 8, 10))
        self.assertEqual(found["graph"]["fc1"], {"op": "dense", "inputs": ["image"], "options": "units: 256", "shapes": [[32, 256]]})
        self.assertEqual(found["graph"]["loss"]["inputs"], ["fc3", "label"])
        planned = self.json("train", "models/mlp.pbtxt", "--data-digits-samples=320", "--batch=32", "--threads=1", "--steps=1",
                            f"--output={self.folder / 'json'}")
        (text,) = found["texts"]["memory"]
        self.assertIn(f"| variables | {planned['state_bytes']} |", text)
        self.assertIn(f"| step | {planned['step_bytes']} |", text)
        self.assertEqual(found["scalars"]["memory/step"], [[0, float32(planned["step_bytes"])]])

    def test_writing_them_changes_nothing_else(self):
        self.train("--steps=8", "--tensorboard=" + str(self.folder / "elsewhere"))
        self.train("--steps=8", output="plain")
        self.assertFalse((self.folder / "run/tensorboard").exists())
        self.assertEqual(len(list((self.folder / "elsewhere").iterdir())), 1)
        for name in ("step-000000004.safetensors", "step-000000008.safetensors"):
            self.assertEqual(*((self.folder / run / "checkpoints" / name).read_bytes() for run in ("run", "plain")))

    def gradients_of_sgd(self, folder, step, rate):
        """By name: what plain SGD has taken off the parameters in that step, divided by the rate; and what rounding a
        parameter to float32 can make of it."""
        before, after = (parameters(folder / f"checkpoints/step-{at:09}.safetensors") for at in (step - 1, step))
        return {name: ([(x - y) / rate for x, y in zip(numbers, after[name])],
                       2 ** -24 * max(map(abs, [*numbers, *after[name]])) / rate) for name, numbers in before.items()}

    def test_histograms_of_gradients_are_of_what_changed_the_parameters(self):
        text = (MODELS / "mlp.pbtxt").read_text()
        plain = self.write("plain.pbtxt", text + "optimizer { learning_rate: 0.25 sgd { momentum: 0 } }\n")
        flags = ("train", plain, "--data-digits-samples=320", "--batch=32", "--threads=1", "--steps=5",
                 "--schedule=constant", "--evaluate-every=5", "--checkpoint-every=1", "--checkpoint-keep=9", "--tensorboard-gradients")
        for name, more in (("whole", ()), ("parts", ("--accumulate=4",))):
            run = self.folder / name
            said = self.run_snug(*flags, *more, f"--output={run}").stdout
            self.assertRegex(said, r"of that for --tensorboard-gradients: 6 gradients stay to the end of a step, up to [\d.]+ \wB\n")
            found = self.read(run / "tensorboard")["histograms"]
            expected = self.gradients_of_sgd(run, 5, 0.25)
            self.assertEqual({tag for tag in found if tag.startswith("gradients/")}, {f"gradients/{one}" for one in expected})
            for parameter, (numbers, error) in expected.items():
                ((step, histogram),) = found[f"gradients/{parameter}"]
                self.assertEqual((step, histogram["num"], sum(histogram["bucket"])), (5, len(numbers), len(numbers)))
                self.assertAlmostEqual(histogram["min"], min(numbers), delta=2 * error)
                self.assertAlmostEqual(histogram["max"], max(numbers), delta=2 * error)
                self.assertAlmostEqual(histogram["sum"], sum(numbers), delta=2 * error * len(numbers))
                squares = sum(x * x for x in numbers)
                self.assertGreater(squares, 0)
                self.assertAlmostEqual(histogram["sum_squares"], squares, delta=0.01 * squares)

    def rows(self):
        lines = self.write("rows.jsonl", "".join(json.dumps({"a": 37 * i % 1000, "kind": i % 3}) + "\n" for i in range(64)))
        return "--data=json-lines", f"--data-json-lines-file={lines}"

    def test_gradients_that_are_kept_change_no_bit_that_is_trained(self):
        text = self.write("text.txt", "To be, or not to be, that is the question. " * 40)
        tables = self.write("tables.pbtxt", TABLES)
        for name, flags in (
                ("clip", ("models/mlp.pbtxt", "--data-digits-samples=320", "--batch=32", "--optimizer=adam", "--clip-norm=0.1")),
                ("narrow", ("models/lenet.pbtxt", "--data=digits", "--data-digits-samples=160", "--batch=16", "--precision=bfloat16",
                            "--stochastic-rounding", "--accumulate=2")),
                ("rounded", ("models/lenet.pbtxt", "--data=digits", "--data-digits-samples=160", "--batch=16", "--precision=bfloat16")),
                ("rounded_state", ("models/lenet.pbtxt", "--data=digits", "--data-digits-samples=160", "--batch=16",
                                   "--precision=bfloat16", "--stochastic-rounding")),
                ("rounded_norm", ("models/lenet.pbtxt", "--data=digits", "--data-digits-samples=160", "--batch=16",
                                  "--precision=bfloat16", "--optimizer=lamb", "--clip-norm=0.5", "--recompute-sweeps")),
                ("made", ("models/mlp_big.pbtxt", "--data=digits", "--data-digits-samples=64", "--batch=8", "--update-as-made")),
                ("loops", ("models/gru_bytes.pbtxt", f"--data-text-file={text}", "--batch=2", "--data-text-rows=2", "--loops=rolled")),
                ("sparse", (tables, *self.rows(), "--batch=8"))):
            with self.subTest(name):
                done = {}
                for kept in ("false", "true"):
                    output = self.folder / f"{name}_{kept}"
                    said = self.run_snug("train", *flags, "--threads=1", "--steps=3", "--evaluate-every=0", f"--output={output}",
                                         "--tensorboard", f"--tensorboard-gradients={kept}").stdout
                    done[kept] = (output / "checkpoints/step-000000003.safetensors").read_bytes()
                    self.assertEqual("--tensorboard-gradients" in said, kept == "true")
                    self.assertEqual("--update-as-made does nothing" in said, kept == "true" and name == "made")
                self.assertTrue(done["true"] == done["false"], "the checkpoints differ")
                tags = self.read(output / "tensorboard")["histograms"]
                self.assertTrue(any(tag.startswith("gradients/") for tag in tags))

    def test_a_table_whose_gradient_is_a_list_of_rows_has_none_and_is_named(self):
        said = self.run_snug("train", self.write("tables.pbtxt", TABLES), *self.rows(), "--batch=8", "--steps=2",
                             f"--output={self.folder / 'run'}", "--tensorboard-gradients").stdout
        self.assertIn("no histogram of the gradient of table.weight, which is never made: it is a list of rows\n", said)
        tags = self.read(self.folder / "run/tensorboard")["histograms"]
        self.assertIn("parameters/table.weight", tags)
        self.assertEqual({tag for tag in tags if tag.startswith("gradients/")}, {"gradients/out.weight", "gradients/out.bias"})

    def test_a_training_that_was_killed_goes_on_without_going_back(self):
        # Steps after the newest checkpoint are done again: what was written of them before is not shown. The pipe is
        # small, so the training is not over when its 14th line is read.
        killed = subprocess.Popen(
            [BINARY, "train", "models/mlp.pbtxt", f"--output={self.folder / 'run'}", "--data-digits-samples=320",
             "--batch=32", "--threads=1", "--evaluate-every=4", "--evaluate-batches=2", "--checkpoint-every=8",
             "--steps=90", "--log-every=1", "--tensorboard"], stdout=subprocess.PIPE, text=True, pipesize=4096,
            cwd=pathlib.Path(__file__).resolve().parents[2])
        for line in killed.stdout:
            if "step 14/" in line:
                killed.kill()
                break
        killed.stdout.close()
        self.assertEqual(killed.wait(), -signal.SIGKILL)
        folder = self.folder / "run/tensorboard"
        (file,) = folder.iterdir()
        with open(file, "ab") as cut:
            cut.write(b"\x40\x00\x00")  # a record that a loss of power has cut short
        self.train("--steps=90", "--tensorboard", "--resume")
        self.assertEqual(len(list(folder.iterdir())), 2)
        self.expect_metrics("run", self.read(folder))

    def test_a_folder_that_cannot_be_made_is_an_error(self):
        self.write("taken", "a file")
        done = self.train("--steps=1", f"--tensorboard={self.folder / 'taken' / 'inside'}", code=1)
        self.assertIn(f"{self.folder / 'taken' / 'inside'}: cannot be made", done.stderr)


if __name__ == "__main__":
    unittest.main()
