#!/usr/bin/env python3
"""The package tokenizers makes the tokens that we make, of random texts, with tokenizers that it trains.

    tests/train_data/peer/peers_test.py PROGRAM FOLDER

PROGRAM is tokenizer_peer (peer.cc). SNUG_TEST_PYTHON names a Python that has the package; without, a virtual environment
with it is made in FOLDER once, by pip. Where that cannot be had (offline) the exit code is 77, and it is said.
"""

import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
import venv

TOKENIZERS = "tokenizers==0.23.3"
ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests/golden/tokenizers"
SKIPPED = 77


def python_with_tokenizers(folder):
    """A Python that has the package, or None; then it says why."""
    has_it = lambda python: subprocess.run([python, "-c", "import tokenizers"], capture_output=True).returncode == 0
    for python in filter(None, (os.environ.get("SNUG_TEST_PYTHON"), sys.executable)):
        if has_it(python):
            return python
    python = folder / "bin/python"
    if (folder / "ready").exists():
        return python
    if importlib.util.find_spec("ensurepip") is None:  # Debian leaves it out of python3
        print("SKIPPED: this Python makes no virtual environments (Debian: python3-venv)", file=sys.stderr)
        return None
    venv.create(folder, with_pip=True, clear=True)
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1",
                           "--timeout=20", TOKENIZERS], capture_output=True, text=True)
    if done.returncode != 0 or not has_it(python):
        print(f"SKIPPED: {TOKENIZERS} cannot be installed (offline?)\n{done.stderr}", file=sys.stderr)
        return None
    (folder / "ready").touch()
    return python


def random_texts(generator, count):
    """Texts of few characters in many ways, and of any characters."""
    pools = [
        "ab 's'S'll'LL'ſ\n\r\t ",
        "aZéßſΩжא中한ًं٣²Ⅻ1 09.,-_!?<|>'\"\n\r\t \u00a0\u2003\u2028\u3000\u200b\u0301🙂\U0001F469\u200d",
        "<|endoftext|><mask> <pad>snugly <é>",
        "the engine runs a step ",
    ]
    for i in range(count):
        length = generator.randrange(0, 60)
        if i % 5 == 4:
            yield "".join(chr(generator.choice([generator.randrange(0x300), generator.randrange(0xD800),
                                                generator.randrange(0xE000, 0x110000)])) for _ in range(length))
        else:
            pool = pools[i % 5] if i % 5 < len(pools) else pools[1]
            yield "".join(generator.choice(pool) for _ in range(length))


class Peers(unittest.TestCase):
    program = None

    def compare(self, path, texts):
        from tokenizers import Tokenizer

        texts = list(texts)
        lines = "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
        # JSON in UTF-8: surrogates do not come, and line ends are escaped.
        done = subprocess.run([self.program, str(path)], input=lines.encode(), capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [list(map(int, line.split())) for line in done.stdout.decode().split("\n")[:-1]]
        self.assertEqual(len(found), len(texts))
        tokenizer = Tokenizer.from_file(str(path))
        for text, ours, theirs in zip(texts, found, tokenizer.encode_batch(texts)):
            self.assertEqual(ours, theirs.ids, (path.name, text))

    def test_random_texts(self):
        for path in sorted(GOLDEN.glob("*.json")):
            self.compare(path, random_texts(random.Random(path.name), 4000))

    def test_every_character_is_of_the_same_class(self):
        characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]

        def texts():  # each after a letter, a number, another character, a space, an apostrophe
            for i in range(0, len(characters), 64):
                yield "|".join(f"a{c}1{c}!{c} {c}'{c}" for c in characters[i:i + 64])

        for name in ("gpt2", "llama3"):
            self.compare(GOLDEN / f"{name}.json", texts())

    def test_tokenizers_that_are_trained_here(self):
        from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

        generator = random.Random(3)
        with tempfile.TemporaryDirectory() as folder:
            for i in range(12):
                tokenizer = Tokenizer(models.BPE())
                tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=i % 2 == 0, use_regex=i % 3 != 0)
                trainer = trainers.BpeTrainer(vocab_size=generator.randrange(256, 1200), show_progress=False,
                                              special_tokens=["<|endoftext|>"],
                                              initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
                tokenizer.train_from_iterator(random_texts(generator, 400), trainer)
                options = dict(lstrip=generator.random() < 0.5, rstrip=generator.random() < 0.5)
                tokenizer.add_tokens([AddedToken("snug", normalized=generator.random() < 0.5, **options), AddedToken("ab"), AddedToken("ab a")])
                path = pathlib.Path(folder) / f"trained{i}.json"
                tokenizer.save(str(path))
                self.compare(path, random_texts(generator, 500))

    def test_merges_in_any_sequence(self):
        """Where several pairs become one token, and none was learnt from counts."""
        generator = random.Random(4)
        base = json.loads((GOLDEN / "qwen2.json").read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            for i in range(20):
                content = json.loads(json.dumps(base))
                vocabulary, merges = content["model"]["vocab"], []
                parts = ["a", "b"]
                for _ in range(40):
                    left, right = generator.choice(parts), generator.choice(parts)
                    if len(left + right) > 9:
                        continue
                    merges.append([left, right])
                    parts.append(left + right)
                    vocabulary.setdefault(left + right, len(vocabulary))
                generator.shuffle(merges)
                content["model"]["merges"] = merges
                path = pathlib.Path(folder) / f"merges{i}.json"
                path.write_text(json.dumps(content), encoding="utf-8")
                self.compare(path, ("".join(generator.choice("ab") for _ in range(generator.randrange(1, 40))) for _ in range(200)))


if __name__ == "__main__":
    if "--inside" not in sys.argv:
        found = python_with_tokenizers(pathlib.Path(sys.argv[2]))
        if found is None:
            sys.exit(SKIPPED)
        sys.exit(subprocess.run([found, "-B", *sys.argv, "--inside"]).returncode)
    Peers.program = sys.argv[1]
    unittest.main(argv=sys.argv[:1], verbosity=2)
