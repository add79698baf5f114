"""`snug train --data=images`: pictures in folders, from files to a trained network."""

import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import unittest
import zlib

from snug import BINARY, SnugTest

MODEL = """name: "flowers"
input { name: "image" shape { dim: 3 dim: 12 dim: 12 } }
input { name: "label" dtype: INT32 max_value: 3 }
layer { name: "flat" input: "image" flatten {} }
layer { name: "out" input: "flat" dense { units: 3 } }
layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }
layer { name: "accuracy" input: "out" input: "label" accuracy {} }
objective: "loss"
output: "accuracy"
"""
COLOURS = {"daisy": (250, 250, 240), "rose": (220, 20, 60), "violet": (90, 30, 200)}


def png(pixels):
    """Rows of (red, green, blue)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\x00" + bytes(value for pixel in row for value in pixel) for row in pixels)
    header = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class PicturesTest(SnugTest):
    def setUp(self):
        super().setUp()
        self.model = self.write("flowers.pbtxt", MODEL)
        self.flowers = self.folder / "flowers"
        drawn = random.Random(1)
        for name, colour in COLOURS.items():
            (self.flowers / name).mkdir(parents=True)
            for i in range(20):
                width, height = drawn.randrange(12, 40), drawn.randrange(12, 40)
                pixels = [[[max(0, min(255, c + drawn.randrange(-20, 21))) for c in colour] for _ in range(width)]
                          for _ in range(height)]
                (self.flowers / name / f"{i}.png").write_bytes(png(pixels))

    def arguments(self, output, *more):
        return ("train", self.model, f"--output={self.folder / output}", "--data=images", "--threads=1",
                f"--data-images-directory={self.flowers}", "--batch=6", "--epochs=6", "--learning-rate=0.05",
                "--data-flip", "--data-images-jitter=0.1", "--data-images-hue=0.05", *more)

    def checkpoint(self, output):
        return sorted((self.folder / output / "checkpoints").iterdir())[-1].read_bytes()

    def needs_libraries(self):
        probe = subprocess.run([BINARY, *map(str, self.arguments("probe", "--steps=1"))], capture_output=True, text=True,
                               timeout=300)
        if "has no lib" in probe.stderr:
            self.skipTest("SKIPPED: a build without libpng")

    def test_it_learns_and_readers_change_nothing(self):
        self.needs_libraries()
        done = self.run_snug(*self.arguments("one"))
        self.assertIn("data: 60 images of 3 classes", done.stdout)
        judged = self.json("eval", self.model, f"--checkpoint={self.folder / 'one'}", "--data=images",
                           f"--data-images-directory={self.flowers}")
        self.assertEqual(judged["metrics"]["accuracy"], 1)
        self.run_snug(*self.arguments("three", "--data-readers=3"))
        self.assertEqual(self.checkpoint("one"), self.checkpoint("three"))

    def test_how_long_steps_waited_for_data_is_said(self):
        """Large pictures and a small network: a step takes less time than its batch does."""
        self.needs_libraries()
        large = png([[(x % 256, y % 256, (x * y) % 256) for x in range(600)] for y in range(600)])
        for name in COLOURS:
            (self.folder / "large" / name).mkdir(parents=True)
            for i in range(4):
                (self.folder / "large" / name / f"{i}.png").write_bytes(large)
        flags = (f"--data-images-directory={self.folder / 'large'}", "--batch=10", "--epochs=20",
                 "--data-held-back=0", "--evaluate-every=0")
        said = self.run_snug(*self.arguments("slow", *flags)).stdout
        self.assertRegex(said, r"\d+ samples/s \(\d+ % waiting for data\)  ")
        shares = [int(share) for share in re.findall(r"(?m)^data +(\d+) % of the time in steps was waited for them", said)]
        self.assertEqual(len(shares), 1, said)
        self.assertTrue(20 <= shares[0] <= 100, said)
        processors = len(os.sched_getaffinity(0))
        if processors > 1:
            self.assertIn(" % of the time in steps was waited for them: --data-readers=2 may help\n", said)
        readers = f"--data-readers={processors}"
        said = self.run_snug(*self.arguments("readers", *flags, readers)).stdout
        if " was waited for them" in said:  # or all processors were fast enough together
            self.assertIn(" was waited for them: --data-images-cache=FILE may help\n", said)
        lines = [json.loads(line) for line in (self.folder / "slow/metrics.jsonl").read_text().splitlines()]
        steps = [line for line in lines if line["kind"] == "step"]
        self.assertTrue(all(0 <= line["waited"] <= line["seconds"] for line in steps))
        share = sum(line["waited"] for line in steps) / sum(line["seconds"] for line in steps)
        self.assertAlmostEqual(100 * share, shares[0], delta=1)

    def test_a_cache_is_made_once(self):
        self.needs_libraries()
        cache = f"--data-images-cache={self.folder / 'pixels'}"
        self.run_snug(*self.arguments("one", cache))
        made = (self.folder / "pixels").stat().st_mtime_ns
        self.run_snug(*self.arguments("two", cache))
        self.assertEqual((self.folder / "pixels").stat().st_mtime_ns, made)
        self.assertEqual(self.checkpoint("one"), self.checkpoint("two"))

    def test_decoding_before_the_first_step_can_be_watched_and_ended(self):
        """Signals come while images are decoded, one after the other of many; what was begun is removed."""
        self.needs_libraries()
        (self.folder / "many/rose").mkdir(parents=True)
        large = png([[(x % 256, y % 256, (x * y) % 256) for x in range(900)] for y in range(900)])
        for i in range(20000):
            (self.folder / f"many/rose/{i}.png").write_bytes(large) if i == 0 else os.link(
                self.folder / "many/rose/0.png", self.folder / f"many/rose/{i}.png")
        for flags in (["--data-images-skip-broken"], [f"--data-images-cache={self.folder / 'pixels'}"]):
            with self.subTest(flags=flags):
                mine, theirs = os.openpty()
                process = subprocess.Popen(
                    [BINARY, *map(str, self.arguments("stopped", f"--data-images-directory={self.folder / 'many'}", *flags))],
                    stdout=theirs, stderr=subprocess.PIPE, text=True, cwd=self.folder)
                os.close(theirs)
                said = ""
                while " of 20000 images decoded, " not in said:
                    said += os.read(mine, 4096).decode()
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=60)
                os.close(mine)
                self.assertEqual(process.returncode, 1)
                self.assertRegex(errors, r"^images: stopped when \d+ of 20000 were decoded, of which nothing is kept\n$")
                self.assertEqual([path.name for path in self.folder.glob("pixels*")], [])
                self.assertFalse((self.folder / "stopped").exists())

    def test_a_cache_that_has_other_numbers_is_named(self):
        self.needs_libraries()
        self.run_snug(*self.arguments("one", "--epochs=1"))
        cache = f"--data-images-cache={self.folder / 'pixels'}"
        said = self.run_snug(*self.arguments("one", cache, "--resume", "--epochs=2"), code=2).stderr
        self.assertIn("; it was made with data-images-cache none, this run has a file; give it the same, or let it change: --resume-with=data\n", said)
        self.run_snug(*self.arguments("one", cache, "--resume-with=data", "--epochs=2"))
        (self.folder / "pixels").rename(self.folder / "moved")
        done = self.run_snug(*self.arguments("one", f"--data-images-cache={self.folder / 'moved'}", "--resume", "--epochs=3"))
        self.assertNotIn("changed", done.stdout)

    def test_a_training_that_goes_on_keeps_its_classes(self):
        self.needs_libraries()
        self.run_snug(*self.arguments("one"))
        some = self.folder / "some"
        for name in ("rose", "violet"):
            shutil.copytree(self.flowers / name, some / name)
        flags = (f"--data-images-directory={some}", "--learning-rate=0")
        self.run_snug(*self.arguments("one", *flags, "--resume-with=data,learning-rate", "--epochs=8"))
        # Without the first folder, "rose" would be the first class; all are still recognised, and so are their names.
        self.assertIn(b'[\\"daisy\\",\\"rose\\",\\"violet\\"]', self.checkpoint("one").replace(b" ", b""))
        losses = [json.loads(line) for line in (self.folder / "one/metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["accuracy"] for line in losses if line["kind"] == "evaluation"][-1], 1)
        (some / "rose").rename(some / "roses")
        for resume in ("--resume", "--resume-with=data"):
            said = self.run_snug(*self.arguments("one", *flags, resume, "--epochs=9"), code=2).stderr
            self.assertIn(f'{some}/roses: expected one of the 3 classes of the training images (daisy, rose, violet), found "roses"', said)

    def test_mistakes(self):
        self.needs_libraries()
        broken = self.flowers / "rose" / "half.png"
        broken.write_bytes((self.flowers / "rose" / "0.png").read_bytes()[:200])
        said = self.run_snug(*self.arguments("refused"), code=2).stderr
        self.assertIn(f"{broken}: a broken PNG file: ", said)
        done = self.run_snug(*self.arguments("skipped", "--data-images-skip-broken"))
        self.assertIn(f"data: left out: {broken}: a broken PNG file: ", done.stdout)
        self.assertIn("data: 60 images of 3 classes", done.stdout)
        said = self.run_snug("train", self.model, "--data=images", f"--output={self.folder / 'none'}", code=2).stderr
        self.assertIn("--data-images-directory", said)
        said = self.run_snug(*self.arguments("none", "--data-images-size=13"), code=2).stderr
        self.assertIn("image", said)
        said = self.run_snug(*self.arguments("none", "--data-readers=0"), code=2).stderr
        self.assertIn("--data-readers: expected a number from 1 to 1024, found 0", said)


if __name__ == "__main__":
    unittest.main()
