#!/usr/bin/env python3
"""Images a second, decoded, cut out at random, drawn to size, mirrored and normalised, on one core: Snug's readers beside
torchvision's transforms (PIL) and beside libjpeg-turbo alone, which only decodes. In turn, medians of rounds.

    bench/image_bench.py [--images=20000] [--side=256] [--size=224] [--rounds=3] [--python=PYTHON] [--folder=DIR]
    bench/image_bench.py --train [--images=2000] [--train-size=64] [--batch=32] [--steps=40] [--rounds=3]

The second trains ResNet-50 on such files, on the first two cores, and says for how much of the time its steps waited for
data: by one reader, by two, and from a cache.

PYTHON is one that has torch and torchvision (build/bench_venv/bin/python after `tools/setup --bench`)."""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLASSES = 10
WRITER = """
import pathlib, sys
import numpy
from PIL import Image
folder, images, side, classes = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:])
random = numpy.random.default_rng(1)
for i in range(images):
    # Clouds: large shapes with some noise, which compress about as photographs do.
    coarse = Image.fromarray(random.integers(0, 256, (12, 12, 3), dtype=numpy.uint8)).resize((side, side), Image.BICUBIC)
    pixels = numpy.asarray(coarse, dtype=numpy.int16) + random.integers(-12, 13, (side, side, 3))
    path = folder / f"class{i % classes}" / f"{i:06}.jpg"
    path.parent.mkdir(exist_ok=True, parents=True)
    Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)).save(path, quality=90)
"""
PEER = """
import sys, time
import torch
from torchvision import datasets, transforms
torch.set_num_threads(1)
folder, size, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
data = datasets.ImageFolder(folder, transforms.Compose([
    transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
    transforms.Normalize([0.5] * 3, [0.25] * 3)]))
order = torch.randperm(len(data), generator=torch.Generator().manual_seed(1)).tolist()
for i in order[:64]: data[i]
begin, images = time.perf_counter(), 0
while time.perf_counter() - begin < seconds:
    torch.stack([data[i][0] for i in order[images % len(order):][:32]])
    images += 32
print(images / (time.perf_counter() - begin))
"""


def rate_of(*command) -> float:
    return float(subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout)


def train(folder: pathlib.Path, arguments) -> None:
    """Steps of ResNet-50 from files, by so many readers in turn: how long one took, and how much of that was waited."""
    model = (ROOT / "models/resnet50.pbtxt").read_text()
    shape = "dim: [3, 224, 224]"
    assert model.count(shape) == 1, "models/resnet50.pbtxt says its shape in another way"
    changed = folder.parent / "resnet50.pbtxt"
    changed.write_text(model.replace(shape, f"dim: [3, {arguments.train_size}, {arguments.train_size}]"))
    cache = folder.parent / f"pixels{arguments.train_size}"
    ways = {"1 reader": ["--data-readers=1"], "2 readers": ["--data-readers=2"],
            "1 reader, cache": ["--data-readers=1", f"--data-images-cache={cache}"]}
    found = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, flags in ways.items():
            output = folder.parent / "run"
            shutil.rmtree(output, ignore_errors=True)  # a training begins anew in a folder of its own
            done = subprocess.run(
                ["taskset", "-c", "0,1", str(ROOT / "build/release/snug"), "train", str(changed), "--data=images",
                 f"--data-images-directory={folder}", "--data-flip", "--data-held-back=0", "--evaluate-every=0",
                 "--threads=2", f"--batch={arguments.batch}", f"--steps={arguments.steps}", "--learning-rate=0.01",
                 "--checkpoint-every=0", f"--output={output}", "--json", *flags], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{' '.join(done.args)}: exit code {done.returncode}\n{done.stderr}")
            found[name].append(json.loads(done.stdout))
    for name, documents in found.items():
        print(f"{name:16} {statistics.median(d['samples_per_second'] for d in documents):7.1f} images/s   waited "
              f"{100 * statistics.median(d['waited_share'] for d in documents):6.3f} % of the time in steps")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true", help="train ResNet-50 on the files")
    parser.add_argument("--train-size", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--images", type=int, help="default: 20000, or 2000 to train")
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--python", default=ROOT / "build/bench_venv/bin/python")
    parser.add_argument("--folder", help="of images, written there if it is not there; default: a temporary one")
    arguments = parser.parse_args()
    arguments.images = arguments.images or (2000 if arguments.train else 20000)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(arguments.folder or temporary) / "images"
        if not folder.exists():
            subprocess.run([str(arguments.python), "-c", WRITER, str(folder), str(arguments.images), str(arguments.side),
                            str(CLASSES)], check=True)
        if arguments.train:
            train(folder, arguments)
            return 0
        ours = ROOT / "build/release/bench/image_reading"
        cache = pathlib.Path(arguments.folder or temporary) / "pixels"
        ways = {
            "snug, files": lambda: rate_of("taskset", "-c", "0", ours, folder, arguments.size, 1, arguments.seconds),
            "snug, cache": lambda: rate_of("taskset", "-c", "0", ours, folder, arguments.size, 1, arguments.seconds, cache),
            "torchvision": lambda: rate_of("taskset", "-c", "0", arguments.python, "-c", PEER, folder, arguments.size,
                                           arguments.seconds),
        }
        decoding = ROOT / "build/release/bench/jpeg_decoding"
        if decoding.exists():
            ways["decoding alone"] = lambda: rate_of("taskset", "-c", "0", decoding, folder, arguments.seconds)
        else:
            print("SKIPPED: a build without libjpeg-turbo (Debian: libturbojpeg0-dev)", file=sys.stderr)
        rates = {name: [] for name in ways}
        for _ in range(arguments.rounds):
            for name, way in ways.items():
                rates[name].append(way())
        for name, found in rates.items():
            ratio = statistics.median(rates["snug, files"]) / statistics.median(found)
            print(f"{name:24} {statistics.median(found):9.0f} images/s   snug's files / this {ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
