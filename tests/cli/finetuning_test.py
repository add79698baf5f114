"""A fine-tuning of resnet18 on a folder of images, from weights that torchvision named: one command, and its page.

The campaign needs a Python with torchvision (SNUG_TEST_PYTHON, or Debian's); what README says is tried without.
Where SNUG_SCREENSHOTS names a folder, the pages are left there as PNG files.
"""

import csv
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import unittest

import browser
from pictures_test import COLOURS, png
from snug import BINARY, ROOT, SnugTest

sys.path.append(str(ROOT / "tests/testing"))
import torch_archive  # noqa: E402

PYTHON = os.environ.get("SNUG_TEST_PYTHON", "/usr/bin/python3")

# Draws 256 x 256 images of three kinds, each with a colour that it often has, teaches torchvision's resnet18 four other kinds for a while (so that its weights
# and statistics are those of a network that has seen something), saves it as PyTorch does, and says what it makes of the
# middle of each test image.
SCRIPT = """
import pathlib, sys
import numpy, torch, torchvision
from PIL import Image

folder = pathlib.Path(sys.argv[1])
torch.manual_seed(3)
torch.set_num_threads(2)
draw = numpy.random.default_rng(3)

usual = {"across": (210, 60, 50), "down": (60, 170, 60), "rings": (60, 80, 220)}
def picture(kind, side):
    y, x = numpy.mgrid[0:side, 0:side] * (256 / side)
    period, phase = draw.uniform(16, 40), draw.uniform(0, 40)
    wave = {
        "across": numpy.sin((y + phase) * 6.28 / period), "down": numpy.sin((x + phase) * 6.28 / period),
        "rings": numpy.sin(numpy.hypot(x - 128, y - 128) * 6.28 / period), "slope": (x + y) / 256 - 1,
        "checks": numpy.sin((x + phase) * 6.28 / period) * numpy.sin(y * 6.28 / period), "plain": 0 * x,
        "diagonal": numpy.sin((x + y + phase) * 6.28 / period),
    }[kind]
    colours = draw.uniform(0, 255, (2, 3))
    if kind in usual:
        colours[0] = usual[kind] + draw.normal(0, 25, 3)
    mixed = colours[0] + (colours[1] - colours[0]) * (wave[..., None] + 1) / 2 + draw.normal(0, 10, (side, side, 3))
    return mixed.clip(0, 255).astype(numpy.uint8)

model = torchvision.models.resnet18(weights=None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
kinds = ["slope", "checks", "plain", "diagonal"]
mean, deviation = numpy.array([0.485, 0.456, 0.406]), numpy.array([0.229, 0.224, 0.225])
def batch_of(images):
    return torch.from_numpy(((numpy.stack(images) / 255 - mean) / deviation).transpose(0, 3, 1, 2).astype(numpy.float32))
for step in range(40):
    labels = draw.integers(0, 4, 16)
    loss = torch.nn.functional.cross_entropy(model(batch_of([picture(kinds[l], 64) for l in labels])), torch.from_numpy(labels))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
torch.save(model.state_dict(), folder / "resnet18.pth")

model.eval()
middles, names = [], []
for part, n in (("flowers", 16), ("test", 6)):
    for kind in ("across", "down", "rings"):
        (folder / part / kind).mkdir(parents=True)
        for i in range(n):
            image = picture(kind, 256)
            Image.fromarray(image).save(folder / part / kind / f"{i}.png")
            if part == "test":
                middles.append(image[16:240, 16:240]); names.append(f"{kind}/{i}.png")
with torch.no_grad():
    scores = model(batch_of(middles)).numpy()
order = sorted(range(len(names)), key=lambda i: names[i])
numpy.savetxt(folder / "scores.txt", scores[order])
"""


class ReadmeFineTuning(SnugTest):
    """The commands of README's section, as they stand there, but for how long they train."""

    def setUp(self):
        super().setUp()
        section = (ROOT / "README.md").read_text().split("\n## Train on your own pictures\n")[1].split("\n## ")[0]
        lines = [line.strip() for line in "\n".join(re.findall(r"(?m)^    .*$", section)).replace("\\\n", " ").splitlines()]
        self.train, self.judge, self.predict = [line for line in lines if line.startswith("snug ")]
        drawn = random.Random(8)
        for name, colour in COLOURS.items():
            (self.folder / "flowers" / name).mkdir(parents=True)
            for i in range(8):
                pixels = [[[max(0, min(255, c + drawn.randrange(-40, 41))) for c in colour] for _ in range(48)] for _ in range(40)]
                (self.folder / "flowers" / name / f"{i}.png").write_bytes(png(pixels))
        self.weights = torch_archive.resnet18()
        torch_archive.save(self.folder / "resnet18.pth", self.weights)
        (self.folder / "models").symlink_to(ROOT / "models")

    def shell(self, command):
        environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "OMP_WAIT_POLICY": "passive"}
        (self.folder / "bin").mkdir(exist_ok=True)
        if not (self.folder / "bin/snug").exists():
            (self.folder / "bin/snug").symlink_to(pathlib.Path(BINARY).resolve())
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def test_one_command_trains_and_one_makes_the_page(self):
        for part in ("models/resnet18.pbtxt", "--init-from=resnet18.pth", "--classes-of-data", "--data-images-directory=flowers"):
            self.assertIn(part, self.train)
        self.assertIn("--report=flowers.html", self.judge)
        short, changed = re.subn(r"--epochs=\d+ --batch=\d+", "--steps=3 --batch=6", self.train)
        self.assertEqual(changed, 1)
        said = self.shell(short)
        loaded = [name for name, shape, _ in self.weights if shape and not name.startswith("fc.")]
        self.assertIn(f"loaded {len(loaded)}, ", said)
        self.assertIn('as initialised: "fc.weight"', said)
        self.assertIn("network: 3 classes, as the data have, in place of 1000: fc\n", said)
        self.assertRegex(said, r'"fc.weight".*it is F32\[1000, ?512\], the network\'s is float32\[3, ?512\]')
        self.assertNotIn('as initialised: "conv1.weight"', said)
        self.assertIn("24 images of 3 classes", said)
        self.assertIn("the page is in flowers.html", self.shell(self.judge))
        (self.folder / "new").mkdir()
        for name in COLOURS:
            (self.folder / "new" / f"{name}.png").symlink_to(self.folder / "flowers" / name / "0.png")
        rows = list(csv.reader(self.shell(self.predict).splitlines()))[1:]
        self.assertEqual([row[1] for row in rows], [f"new/{name}.png" for name in sorted(COLOURS)])
        if browser.MISSING:
            return
        with browser.Browser() as window:
            window.open(f"file://{self.folder / 'flowers.html'}")
            shown = window.run("return document.body.innerText")
            self.assertRegex(shown, r"resnet18: [23] held-back samples")
            self.assertNotIn("other classes have no rows", shown)
            self.assertIn("Predicted worst", shown)
            self.assertGreaterEqual(len(window.run("return [...document.querySelectorAll('figure canvas')]")), 2)
            self.assertEqual(window.complaints(), [])
            if folder := os.environ.get("SNUG_SCREENSHOTS"):
                (pathlib.Path(folder) / "readme_fine_tuning.png").write_bytes(window.screenshot())


def has_torchvision():
    return subprocess.run([PYTHON, "-c", "import torchvision, numpy, PIL"], capture_output=True).returncode == 0


@unittest.skipUnless(os.environ.get("SNUG_CAMPAIGN"), "a long one: set SNUG_CAMPAIGN")
@unittest.skipUnless(pathlib.Path(PYTHON).exists() and has_torchvision(), "SKIPPED: no Python with torchvision: SNUG_TEST_PYTHON names one")
class FineTuningCampaign(SnugTest):
    def test_weights_images_and_page(self):
        made = subprocess.run([PYTHON, "-c", SCRIPT, str(self.folder)], capture_output=True, text=True, timeout=600)
        self.assertEqual(made.returncode, 0, made.stderr)
        data = ("--data=images", f"--data-images-directory={self.folder / 'flowers'}", f"--data-images-test-directory={self.folder / 'test'}",
                "--data-mean=0.485,0.456,0.406", "--data-deviation=0.229,0.224,0.225")
        resnet = "models/resnet18.pbtxt"

        # The middle of a 256 x 256 image is 224 x 224 pixels as they are, so torchvision sees what is seen here.
        table = self.folder / "scores.csv"
        self.run_snug("predict", resnet, f"--checkpoint={self.folder / 'resnet18.pth'}", *data, "--fetch=fc", "--batch=6", f"--output={table}")
        ours = [[float(x) for x in row[1:]] for row in list(csv.reader(table.read_text().splitlines()))[1:]]
        theirs = [[float(x) for x in line.split()] for line in (self.folder / "scores.txt").read_text().splitlines()]
        self.assertEqual((len(ours), len(theirs)), (18, 18))
        scale = max(abs(x) for row in theirs for x in row)
        self.assertLess(max(abs(a - b) for p, q in zip(ours, theirs) for a, b in zip(p, q)), 2e-4 * scale)

        # The one command of the docs.
        train = [BINARY, "train", resnet, *data, "--data-flip", "--data-readers=2", f"--init-from={self.folder / 'resnet18.pth'}",
                 "--init-patterns=!fc.*", "--epochs=6", "--batch=8", "--learning-rate=0.005", "--data-images-least-area=0.4", f"--output={self.folder / 'run'}"]
        done = subprocess.run(list(map(str, train)), capture_output=True, text=True, cwd=ROOT, timeout=900)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        self.assertIn("48 images of 3 classes", done.stdout)

        page = self.folder / "report.html"
        found = self.json("eval", resnet, f"--checkpoint={self.folder / 'run'}", *data, "--batch=6", f"--report={page}")
        classes = found["classes"]
        self.assertEqual([c["name"] for c in classes["each"][:3]], ["across", "down", "rings"])
        self.assertEqual([c["rows"] for c in classes["each"][:4]], [6, 6, 6, 0])
        self.assertGreater(classes["accuracy"], 0.8)
        if browser.MISSING:
            return
        with browser.Browser() as window:
            window.open(f"file://{page}")
            shown = window.run("return document.body.innerText")
            for part in ("across", "down", "rings", "Predicted worst"):
                self.assertIn(part, shown)
            self.assertRegex(shown, r"99\d other classes have no rows")
            self.assertEqual(window.run("return [...document.querySelectorAll('figure canvas')].map(c => c.width)"), [112] * 18)
            self.assertEqual(window.complaints(), [])
            if folder := os.environ.get("SNUG_SCREENSHOTS"):
                (pathlib.Path(folder) / "fine_tuning.png").write_bytes(window.screenshot())


MODEL = """name: "kinds"
input { name: "features" shape { dim: 2 } }
input { name: "label" dtype: INT32 max_value: 10 }
layer { name: "hidden" input: "features" dense { units: 8 } }
layer { name: "fc" input: "hidden" dense { units: 10 } }
layer { name: "side" input: "features" dense { units: 10 } }
layer { name: "dropped" input: "side" dropout { rate: 0.1 } }
layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
layer { name: "aux" input: "dropped" input: "label" softmax_cross_entropy {} }
layer { name: "accuracy" input: "fc" input: "label" accuracy {} }
objective: ["loss", "aux"]
output: "accuracy"
"""
KINDS = ["aster", "rose", "tulip"]


class ClassesOfDataTest(SnugTest):
    """The network has as many classes as the data, in training and whenever its checkpoint is read."""

    def setUp(self):
        super().setUp()
        self.model = self.write("kinds.pbtxt", MODEL)
        self.run_folder = self.folder / "run"

    def data(self, kinds, name="kinds.csv"):
        rows = "".join(f"{i % 7},{i % 5},{kinds[i % len(kinds)]}\n" for i in range(160))
        return ("--data=csv", f"--data-csv-file={self.write(name, 'a,b,kind' + chr(10) + rows)}", "--data-csv-label=kind")

    def train(self, *flags, code=0, model=None):
        if "--resume" not in flags:
            shutil.rmtree(self.run_folder, ignore_errors=True)
        return self.run_snug("train", model or self.model, "--threads=1", "--batch=8", f"--output={self.run_folder}", *flags, code=code)

    def test_all_heads_have_as_many_outputs_and_the_checkpoint_keeps_that(self):
        data = self.data(KINDS)
        said = self.train(*data, "--steps=4", "--classes-of-data").stdout
        self.assertIn("network: 3 classes, as the data have, in place of 10: fc, side\n", said)
        judged = (self.model, f"--checkpoint={self.run_folder}", "--threads=1", *data)
        done = self.run_snug("eval", *judged, "--json")
        self.assertEqual([c["name"] for c in json.loads(done.stdout)["classes"]["each"]], KINDS)
        self.assertIn("network: as in the training, 3 classes in place of 10: fc, side\n", done.stderr)
        self.assertEqual(len(self.json("predict", *judged, "--fetch=fc")["rows"][0]), 3)
        told = self.run_snug("predict", *judged).stdout.splitlines()[1:]
        self.assertLessEqual({line.split(",")[1] for line in told}, set(KINDS))
        # It goes on with the flag and without it, to the same bits.
        newest = lambda: (self.run_folder / "checkpoints/step-000000008.safetensors").read_bytes()
        ended = []
        for flags in (["--classes-of-data"], []):
            self.assertIn("resumed from", self.train(*data, "--steps=8", "--resume", *flags).stdout)
            ended.append(newest())
            (self.run_folder / "checkpoints/step-000000008.safetensors").unlink()
        self.assertEqual(*ended)
        record = json.loads((self.run_folder / "run.json").read_text())
        self.assertEqual(record["options"]["classes-of-data"], "true")

    def test_more_classes_than_the_file_has(self):
        kinds = [f"k{i:02}" for i in range(16)]
        data = self.data(kinds)
        self.assertIn("reach 15", self.train(*data, "--steps=2", code=2).stderr)
        self.assertIn("network: 16 classes, as the data have, in place of 10: fc, side\n",
                      self.train(*data, "--steps=2", "--classes-of-data").stdout)
        found = self.json("eval", self.model, f"--checkpoint={self.run_folder}", *data)
        self.assertEqual(len(found["classes"]["each"]), 16)

    def test_fewer_classes_are_said_at_the_beginning(self):
        data = self.data(KINDS)
        said = self.train(*data, "--steps=2").stdout
        self.assertIn("network: fc, side scores 10 classes, and the data have 3: the others are learnt as never right, and may be "
                      "predicted; --classes-of-data gives it 3\n", said)
        ten = self.data([f"k{i}" for i in range(10)], "ten.csv")
        self.assertNotIn("network:", self.train(*ten, "--steps=2").stdout)
        self.assertNotIn("network:", self.train(*ten, "--steps=2", "--classes-of-data").stdout)
        self.train(*data, "--steps=2")
        self.assertIn("--classes-of-data: the checkpoint was trained with the 10 classes of the file",
                      self.train(*data, "--steps=4", "--resume", "--classes-of-data", code=2).stderr)

    def test_where_it_cannot_be_done_that_is_said(self):
        data = self.data(KINDS)
        for replaced, by, expected in [
                ('dense { units: 10 } }\nlayer { name: "dropped"', 'dense { units: 12 } }\nlayer { name: "dropped"',
                 '"fc" has 10 outputs, and "side" 12'),
                ("max_value: 10", "max_value: 9", '"fc" has 10 outputs, and the labels "label" have max_value 9'),
                ('input: "side" dropout { rate: 0.1 }', 'input: "side" input: "side" add {}',
                 'the scores "dropped" come from "dropped", which is no dense or conv layer'),
                ('layer { name: "dropped" input: "side" dropout { rate: 0.1 }',
                 'layer { name: "pixels" input: "features" conv { filters: 10 kernel: 1 } }\n'
                 'layer { name: "dropped" input: "pixels" flatten {}',
                 'the scores "dropped" are all pixels of the conv layer "pixels", which flatten puts into one row'),
                ('input: "fc" input: "label" softmax_cross_entropy {}', 'input: "fc" input: "label" softmax_cross_entropy { classes: 9 }',
                 '"loss" has `classes: 9`')]:
            with self.subTest(expected=expected):
                self.assertIn(replaced, MODEL)
                model = self.write("other.pbtxt", MODEL.replace(replaced, by))
                self.assertIn(f"--classes-of-data: {expected}", self.train(*data, "--classes-of-data", model=model, code=2).stderr)
                self.assertFalse(self.run_folder.exists())
        self.assertIn("--classes-of-data: the network is a language model",
                      self.run_snug("train", "models/gpt_bytes.pbtxt", "--data=text", f"--data-text-file={self.model}", "--classes-of-data", code=2).stderr)

    def test_another_network_cannot_take_the_checkpoint(self):
        data = self.data(KINDS)
        self.train(*data, "--steps=2", "--classes-of-data")
        (trained,) = (self.run_folder / "checkpoints").glob("step-*.safetensors")
        content = trained.read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8:8 + length])
        header["__metadata__"].pop("snug.xxh64")
        for classes in ("1000000", "3x", "-3", ""):
            header["__metadata__"]["network.classes"] = classes
            text = json.dumps(header).encode()
            text += b" " * (-len(text) % 8)
            other = self.folder / "other.safetensors"
            other.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length:])
            self.assertIn(f'{other}: metadata "network.classes": expected as many classes as a tensor has rows, found "{classes}"',
                          self.error("eval", self.model, f"--checkpoint={other}", *data))
        other = self.write("fit.pbtxt", """name: "fit"
input { name: "features" shape { dim: 2 } }
input { name: "label" shape { dim: 1 } }
layer { name: "out" input: "features" dense { units: 1 } }
layer { name: "loss" input: "out" input: "label" l1_loss {} }
objective: "loss"
""")
        self.assertIn("the checkpoint is of a network of 3 classes, and this one cannot be given so many: there are no class scores",
                      self.error("eval", other, f"--checkpoint={self.run_folder}", *data))


if __name__ == "__main__":
    unittest.main()
