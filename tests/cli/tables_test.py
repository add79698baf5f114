"""Tables of texts, categories and gaps, and texts by a tokenizer: trained, gone on with, evaluated, predicted."""

import json
import math
import pathlib
import random
import struct
import unittest

from snug import ROOT, SnugTest

FLOWERS = """name: "flowers"
input {{ name: "measures" shape {{ dim: {inputs} }} }}
input {{ name: "kind" dtype: INT32 max_value: 3 }}
layer {{ name: "fc1" input: "measures" dense {{ units: 16 }} }}
layer {{ name: "act1" input: "fc1" relu {{}} }}
layer {{ name: "out" input: "act1" dense {{ units: 3 }} }}
layer {{ name: "loss" input: "out" input: "kind" softmax_cross_entropy {{}} }}
layer {{ name: "accuracy" input: "out" input: "kind" accuracy {{}} }}
objective: "loss"
output: "accuracy"
training {{
  epochs: 12 batch: 16
  data {{ csv {{ file: "{folder}/flowers.csv" label: "kind" category: "colour" missing: "mean" normalise: true }} }}
}}
optimizer {{ learning_rate: 0.1 sgd {{ momentum: 0.9 }} }}
"""
WORDS = """name: "words"
input {{ name: "tokens" shape {{ dim: 16 }} dtype: INT32 max_value: {bound} }}
input {{ name: "label" shape {{ dim: 16 }} dtype: INT32 max_value: {bound} }}
layer {{ name: "tok" input: "tokens" embedding {{ entries: {bound} width: 16 }} }}
layer {{ name: "out" input: "tok" dense {{ units: {bound} }} }}
layer {{ name: "loss" input: "out" input: "label" softmax_cross_entropy {{}} }}
objective: "loss"
"""
KINDS = ["aster", "rose, red", "tulip"]


def flower(numbers):
    """The length says two kinds apart, the colour the third; some fields are missing."""
    kind = numbers.randrange(3)
    length = 1e6 + (1000 if kind == 0 else 3000) + numbers.gauss(0, 300)
    colour = {1: "white", 2: "dark, red"}.get(kind) or numbers.choice(["white", "dark, red", "blue"])
    return [f"{length:.2f}" if numbers.random() > 0.05 else "", colour, f"{numbers.random():.3f}", KINDS[kind]]


def csv(header, rows):
    quoted = lambda text: f'"{text}"' if "," in text else text
    return "\r\n".join(",".join(map(quoted, row)) for row in [header, *rows]) + "\r\n"


def metadata(path):
    content = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    return json.loads(content[8:8 + length])["__metadata__"]


class Tables(SnugTest):
    HEADER = ["length", "colour", "noise", "kind"]

    def setUp(self):
        super().setUp()
        numbers = random.Random(5)
        self.rows = [flower(numbers) for _ in range(600)]
        self.write("flowers.csv", "\ufeff" + csv(self.HEADER, self.rows))
        self.network = self.write("flowers.pbtxt", FLOWERS.format(inputs=5, folder=self.folder))
        self.run_folder = self.folder / "run"

    def train(self, *arguments, code=0):
        return self.run_snug("train", self.network, f"--output={self.run_folder}", "--threads=1", *arguments, code=code)

    def evaluate(self, *arguments):
        return self.json("eval", self.network, f"--checkpoint={self.run_folder}", *arguments)["metrics"]

    def newest(self):
        return sorted((self.run_folder / "checkpoints").glob("step-*"))[-1]

    def test_learns_and_keeps_what_it_has_learnt(self):
        done = self.train()
        self.assertIn("600 rows below a header, 5 numbers a sample (length, colour=blue, colour=dark, red, colour=white, noise), "
                      "3 classes (aster, rose, red, tulip)", done.stdout)
        self.assertIn("the mean of the training rows", done.stdout)
        self.assertGreater(self.evaluate()["accuracy"], 0.85)
        learnt = json.loads(metadata(self.newest())["data.table"])
        self.assertEqual(learnt["classes"], KINDS)
        self.assertEqual(learnt["columns"][1]["values"], ["blue", "dark, red", "white"])

        # One row alone, its columns in another sequence, has the scores that it has among all: no mean is its own.
        everywhere = self.run_snug("predict", self.network, f"--checkpoint={self.run_folder}", "--fetch=out", "--part=training",
                                   "--data-held-back=0", "--batch=16").stdout.splitlines()
        row = next(i for i, one in enumerate(self.rows) if one[0])
        alone = self.write("alone.csv", csv(["kind", "noise", "length", "colour"], [[self.rows[row][i] for i in (3, 2, 0, 1)]]))
        found = self.run_snug("predict", self.network, f"--checkpoint={self.run_folder}", "--fetch=out", "--part=training",
                              "--data-held-back=0", f"--data-csv-file={alone}", "--batch=1").stdout.splitlines()
        for one, other in zip(found[1].split(",")[1:], everywhere[row + 1].split(",")[1:]):
            self.assertAlmostEqual(float(one), float(other), delta=1e-5 * max(1, abs(float(other))))

    def test_new_rows_need_no_labels(self):
        self.train("--epochs=2")
        labelled = self.write("labelled.csv", csv(self.HEADER, self.rows[:50]))
        new = self.write("new.csv", csv(["noise", "length", "colour"], [[row[i] for i in (2, 0, 1)] for row in self.rows[:50]]))
        predict = ("predict", self.network, f"--checkpoint={self.run_folder}", "--format=jsonl", "--batch=16")
        done = self.run_snug(*predict, f"--data-csv-file={new}")
        self.assertIn(f'data: {new}: has no column "kind", so no labels are known\n', done.stderr)
        expected = self.run_snug(*predict, f"--data-csv-file={labelled}", "--data-held-back=0", "--part=training").stdout
        self.assertEqual(done.stdout, expected)
        self.assertEqual(len(expected.splitlines()), 50)
        self.assertIn(json.loads(expected.splitlines()[0])["class"], KINDS)
        said = self.error("eval", self.network, f"--checkpoint={self.run_folder}", f"--data-csv-file={new}")
        self.assertIn(f'{new}:1:1: label: expected column "kind" as in the training\'s table, found none', said)
        self.assertIn("`snug predict` needs no such column", said)
        said = self.error(*predict, f"--data-csv-file={self.write('less.csv', 'noise,length' + chr(10) + '1,2' + chr(10))}")
        self.assertIn('less.csv:1:1: no column is called "colour"\n', said)

    def test_what_depends_on_labels_that_are_not_there_is_refused(self):
        self.train("--epochs=1")
        new = self.write("new.csv", csv(self.HEADER[:-1], [row[:-1] for row in self.rows[:20]]))
        labelled = self.write("labelled.csv", csv(self.HEADER, self.rows[:20]))
        predict = ("predict", self.network, f"--checkpoint={self.run_folder}", "--batch=16")
        label = "kind"
        for name in (label, "loss"):
            said = self.error(*predict, f"--data-csv-file={new}", f"--fetch={name}")
            self.assertEqual(said.splitlines()[-1], f"--fetch={name}: depends on the labels, and {new} has none: leave it out")
        done = self.run_snug(*predict, f"--data-csv-file={labelled}", "--data-held-back=0", "--part=training", f"--fetch={label}")
        self.assertEqual(len(done.stdout.splitlines()), 21)
        # A table to evaluate with has no part in what is predicted of rows without labels.
        said = self.error(*predict, f"--data-csv-file={new}", f"--data-csv-test-file={labelled}")
        self.assertIn(f"--data-csv-test-file={labelled}: {new} has no labels, so that all of its rows are predicted and no other file is read", said)
        # The other way round it is the one that is predicted.
        done = self.run_snug(*predict, f"--data-csv-file={labelled}", f"--data-csv-test-file={new}")
        self.assertEqual(len(done.stdout.splitlines()), 21)
        self.assertIn(f'data: {new}: has no column "kind", so no labels are known\n', done.stderr)
        said = self.error(*predict, f"--data-csv-file={labelled}", f"--data-csv-test-file={new}", f"--fetch={label}")
        self.assertIn(f"--fetch={label}: depends on the labels, and {new} has none", said)

    def test_goes_on_with_the_same_bits(self):
        self.train("--epochs=4")
        whole = self.newest().read_bytes()
        self.run_folder = self.folder / "parts"
        self.train("--steps=66")
        self.train("--epochs=4", "--resume")
        self.assertEqual(self.newest().read_bytes(), whole)

    def test_other_tables_are_refused(self):
        self.train("--epochs=1")
        checkpoint = f"--checkpoint={self.run_folder}"
        def error(rows, *arguments, header=self.HEADER):
            path = self.write("other.csv", csv(header, rows))
            return self.error("eval", self.network, checkpoint, f"--data-csv-file={path}", *arguments)
        row = ["1000", "white", "0.5", "tulip"]
        self.assertIn('other.csv:3:16: column "kind": expected a label of the training\'s table (aster, rose, red, tulip), found '
                      '"tulp"; did you mean "tulip"?', error([row, [*row[:3], "tulp"]]))
        self.assertIn('missing: "noise"; unexpected: "noises"', error([row], header=["length", "colour", "noises", "kind"]))
        self.assertIn("normalise: the columns of the training's table were normalised: expected the same here",
                      error([row], "--data-csv-normalise=false"))
        self.assertIn('column "noise": is a category, and of numbers in the training\'s table',
                      error([row], "--data-csv-category=colour,noise"))

    def test_an_unknown_value_is_said(self):
        self.train("--epochs=1")
        path = self.write("other.csv", csv(self.HEADER, [["1000", "green", "0.5", "tulip"]] * 3))
        done = self.run_snug("eval", self.network, f"--checkpoint={self.run_folder}", f"--data-csv-file={path}")
        self.assertIn('other.csv: column "colour": 3 rows have values that no training row has ("green"): 0 for each known value',
                      done.stderr)

    def test_weights_from_elsewhere_know_nothing_of_a_table(self):
        self.train("--epochs=1")
        content = self.newest().read_bytes()
        (length,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8:8 + length])
        del header["__metadata__"]
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path = self.folder / "weights.safetensors"
        path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length:])
        done = self.run_snug("eval", self.network, f"--checkpoint={path}")
        self.assertIn("data: the checkpoint keeps nothing of the table that it was trained with: what is learnt of one comes from the "
                      "training rows of", done.stderr)

    def test_the_message_about_the_inputs_names_the_columns(self):
        self.network = self.write("flowers.pbtxt", FLOWERS.format(inputs=3, folder=self.folder))
        self.assertIn('input "measures" takes 3 float32 numbers a sample; the data have "features" float32[5] (length, colour=blue, '
                      'colour=dark, red, colour=white, noise), "label" int32[] (aster, rose, red, tulip)',
                      self.train(code=2).stderr)


class Tokens(SnugTest):
    TOKENIZERS = ROOT / "tests/golden/tokenizers"

    def test_a_text_is_learnt_by_its_tokens(self):
        network = self.write("words.pbtxt", WORDS.format(bound=700))
        data = ["--data=text", f"--data-text-file={ROOT}/docs/training.md", f"--data-text-tokenizer={self.TOKENIZERS}/gpt2.json"]
        run = f"--output={self.folder}/run"
        done = self.run_snug("train", network, *data, run, "--batch=16", "--epochs=20", "--optimizer=adam", "--learning-rate=0.01",
                             "--threads=1")
        self.assertRegex(done.stdout, r"training\.md: \d+ bytes are \d+ tokens by .*gpt2\.json, \d\.\d\d bytes each")
        checkpoint = f"--checkpoint={self.folder}/run"
        self.assertLess(self.json("eval", network, checkpoint, *data)["metrics"]["loss"], math.log(700) - 1)
        wrong = data[:2] + [f"--data-text-tokenizer={self.TOKENIZERS}/prefix.json"]
        self.assertIn("prefix.json: expected the tokenizer that the checkpoint was trained with, found a file with other bytes; "
                      "one that was written anew counts as another",
                      self.error("eval", network, checkpoint, *wrong))
        self.assertIn("tokenizer: the checkpoint was trained with one: expected the same here, found none",
                      self.error("eval", network, checkpoint, *data[:2]))

    def test_a_training_on_bytes_does_not_go_on_with_a_tokenizer(self):
        network = self.write("words.pbtxt", WORDS.format(bound=700))
        data = ["--data=text", f"--data-text-file={ROOT}/docs/training.md"]
        training = [network, f"--output={self.folder}/run", "--batch=16", "--threads=1"]
        self.run_snug("train", *training, *data, "--steps=2")
        data.append(f"--data-text-tokenizer={self.TOKENIZERS}/gpt2.json")
        self.assertIn("gpt2.json: the checkpoint was trained without a tokenizer: expected none here, found one",
                      self.error("train", *training, *data, "--steps=4", "--resume"))
        self.assertIn("the checkpoint keeps nothing of a tokenizer",
                      self.run_snug("eval", network, f"--checkpoint={self.folder}/run", *data, "--batch=16").stderr)

    def test_tokens_that_the_network_does_not_take(self):
        network = self.write("words.pbtxt", WORDS.format(bound=256))
        tokenizer = f"{self.TOKENIZERS}/gpt2.json"
        self.assertIn('gpt2.json: has tokens up to 699, and input "tokens" of the network takes values below 256: expected a max_value '
                      "of at least 700",
                      self.error("train", network, "--data=text", f"--data-text-file={ROOT}/README.md",
                                 f"--data-text-tokenizer={tokenizer}", f"--output={self.folder}/run"))
        lines = self.write("texts.jsonl", '{"tokens": "the engine"}\n')
        self.assertRegex(self.error("train", network, "--data=json-lines", f"--data-json-lines-file={lines}",
                                    f"--data-json-lines-tokenizer={tokenizer}", f"--output={self.folder}/run"),
                         r'texts\.jsonl:1:\d+: field "tokens": has token \d+ by .*gpt2\.json, and the input takes values below 256')
        self.assertFalse((self.folder / "run").exists())


if __name__ == "__main__":
    unittest.main()
