#!/usr/bin/env python3
"""Images a second, decoded, cut out at random, drawn to size, mirrored and normalised, on one core: Snug's readers beside
torchvision's transforms (PIL) and beside libjpeg-turbo's own djpeg, which only decodes. In turn, medians of rounds.

    bench/image_bench.py [--images=20000] [--side=256] [--size=224] [--rounds=3] [--python=PYTHON] [--folder=DIR]

PYTHON is one that has torch and torchvision (build/bench_venv/bin/python after `tools/setup --bench`)."""
import argparse
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

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


def djpeg_rate(files, seconds) -> float:
    """Decodes files one after the other; the time to start the program is in it, so several files are one's work."""
    begin, images = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        subprocess.run(["djpeg", "-outfile", "/dev/null", str(files[images % len(files)])], check=True)
        images += 1
    return images / (time.perf_counter() - begin)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20000)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--python", default=ROOT / "build/bench_venv/bin/python")
    parser.add_argument("--folder", help="of images, written there if it is not there; default: a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(arguments.folder or temporary) / "images"
        if not folder.exists():
            subprocess.run([str(arguments.python), "-c", WRITER, str(folder), str(arguments.images), str(arguments.side),
                            str(CLASSES)], check=True)
        ours = ROOT / "build/release/bench/image_reading"
        cache = pathlib.Path(arguments.folder or temporary) / "pixels"
        ways = {
            "snug, files": lambda: rate_of("taskset", "-c", "0", ours, folder, arguments.size, 1, arguments.seconds),
            "snug, cache": lambda: rate_of("taskset", "-c", "0", ours, folder, arguments.size, 1, arguments.seconds, cache),
            "torchvision": lambda: rate_of("taskset", "-c", "0", arguments.python, "-c", PEER, folder, arguments.size,
                                           arguments.seconds),
        }
        if shutil.which("djpeg"):
            files = sorted(folder.glob("*/*.jpg"))
            ways["djpeg, decoding alone"] = lambda: djpeg_rate(files, arguments.seconds)
        else:
            print("SKIPPED: no djpeg (Debian: libjpeg-turbo-progs)", file=sys.stderr)
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
