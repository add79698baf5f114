"""Samples of many lengths, a line of JSON each: a tagger learns from them, and what fills them up changes nothing."""

import json
import pathlib
import random
import subprocess
import tempfile
import unittest

from snug import BINARY, ROOT

TAGGER = str(ROOT / "models" / "tagger.pbtxt")


def snug(*arguments):
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=300)


def write_sentences(path, count, seed):
    """A word's tag follows from it and from the word before."""
    numbers = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for i in range(count):
            words = [numbers.randrange(30) for _ in range(numbers.randint(1, 24))]
            tags = [(word + before) % 9 for word, before in zip(words, [0, *words])]
            file.write(json.dumps({"id": i, "words": words, "tags": tags}) + "\n")


class JsonLines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        write_sentences(cls.path / "train.jsonl", 1200, 1)
        write_sentences(cls.path / "test.jsonl", 60, 2)
        cls.data = ["--data=json-lines", f"--data-json-lines-file={cls.path}/train.jsonl",
                    f"--data-json-lines-test-file={cls.path}/test.jsonl", "--data-json-lines-length=length",
                    "--data-json-lines-padding=tags=-100"]
        cls.trained = snug("train", TAGGER, *cls.data, "--data-json-lines-by-length=10", "--epochs=8", "--threads=1",
                           f"--output={cls.path}/run", "--json")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def metrics(self, *arguments):
        run = snug("eval", TAGGER, f"--checkpoint={self.path}/run", *self.data, "--json", *arguments)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)["metrics"]

    def test_learns(self):
        self.assertEqual(self.trained.returncode, 0, self.trained.stderr)
        self.assertIn('field "id" is no input of the network', self.trained.stderr)
        self.assertGreater(self.metrics()["accuracy"], 0.95)

    def test_padding_changes_nothing(self):
        together, alone = self.metrics("--batch=60"), self.metrics("--batch=1")
        for name, value in together.items():
            self.assertAlmostEqual(alone[name], value, delta=1e-6 * max(1, abs(value)), msg=name)

    def test_a_sentence_has_the_scores_that_it_has_alone(self):
        sentence = {"words": [3, 1, 4], "tags": [3, 4, 5]}
        others = [{"words": [7] * 24, "tags": [7] + [5] * 23}, {"words": [2], "tags": [2]}]
        scores = []
        for name, lines in (("alone", [sentence]), ("beside", [sentence, *others])):
            path = self.path / f"{name}.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            run = snug("predict", TAGGER, f"--checkpoint={self.path}/run", *self.data[:1], f"--batch={len(lines)}",
                       f"--data-json-lines-file={path}", "--data-held-back=0", *self.data[3:], "--fetch=score",
                       "--part=training")
            self.assertEqual(run.returncode, 0, run.stderr)
            rows = [line.split(",") for line in run.stdout.splitlines()[1:]]
            scores.append([float(value) for value in rows[0][1:1 + 3 * 9]])
        for alone, beside in zip(*scores):
            self.assertAlmostEqual(alone, beside, delta=1e-5 * max(1, abs(alone)))

    def test_mistakes_are_located(self):
        broken = self.path / "broken.jsonl"
        for line, expected in [
                ('{"words": [1], "tag": [1]}', 'broken.jsonl:2:27: field "tags": expected for this input of the network'),
                ('{"words": [1], "tags": [9]}', 'broken.jsonl:2:26: field "tags": expected a whole number from 0 to 8'),
                ('{"words": [1] "tags": [9]}', "broken.jsonl:2:15: expected"),
                ('{"words": ' + str([1] * 25) + ', "tags": []}', "`truncate` cuts longer ones")]:
            broken.write_text('{"words": [1], "tags": [1]}\n' + line + "\n", encoding="utf-8")
            run = snug("train", TAGGER, *self.data, f"--data-json-lines-file={broken}", f"--output={self.path}/none")
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(expected, run.stderr)
            self.assertFalse((self.path / "none").exists())
        for flag, expected in [("--data-json-lines-length=lenght", 'no input "lenght"; did you mean "length"?'),
                               ("--data-json-lines-padding=words=-1", 'input "words" takes numbers from 0 to 3999'),
                               ("--data-json-lines-padding=length=1", "which is counted"),
                               ("--data-json-lines-padding=word=1", "an input of the network and a whole number"),
                               ("--data-json-lines-by-length=0", "expected a number from 1 to 1000, found 0")]:
            run = snug("train", TAGGER, *self.data, flag, f"--output={self.path}/none")
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(expected, run.stderr)


if __name__ == "__main__":
    unittest.main()
