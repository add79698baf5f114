#!/usr/bin/env python3
"""How fast texts become tokens, beside the package tokenizers, on one core each.

    VENV/bin/python bench/tokenizer_bench.py build/release/tests/tokenizer_peer [--rounds=3]

VENV has tokenizers. It trains tokenizers of 32,000 tokens on the repository's own text, then both make tokens of all of
it, in turn; the best round counts. The package is called with the whole text, and line by line in a batch.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("RAYON_NUM_THREADS", "1")  # the package's threads
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")


def train(kind, text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if kind == "gpt2" else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=32000, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    return tokenizer


def seconds_of(work):
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    names = subprocess.run(["git", "ls-files", "*.h", "*.cc", "*.md", "*.proto", "*.pbtxt", "*.py"], cwd=ROOT, capture_output=True,
                           text=True, check=True).stdout.split()
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in names)
    megabytes = len(text.encode()) / 1e6
    print(f"{megabytes:.1f} MB of text")
    with tempfile.TemporaryDirectory() as folder:
        path, corpus = pathlib.Path(folder) / "tokenizer.json", pathlib.Path(folder) / "text.txt"
        corpus.write_text(text, encoding="utf-8")
        for kind in ("gpt2", "llama3"):
            train(kind, text).save(str(path))
            best = {}
            for _ in range(options.rounds):
                tokenizer = Tokenizer.from_file(str(path))  # anew: it remembers words
                whole, theirs = seconds_of(lambda: tokenizer.encode(text).ids)
                tokenizer = Tokenizer.from_file(str(path))
                lines, _ = seconds_of(lambda: tokenizer.encode_batch(text.splitlines(keepends=True)))
                done = subprocess.run([options.program, str(path), str(corpus)], capture_output=True, check=True)
                ours = json.loads(done.stdout)
                if ours["tokens"] != theirs:
                    sys.exit(f"{kind}: other tokens than the package makes")
                for name, seconds in (("snug", ours["seconds"]), ("tokenizers, whole", whole), ("tokenizers, lines", lines)):
                    best[name] = min(seconds, best.get(name, seconds))
            print(f"{kind}: {len(theirs)} tokens; " + ", ".join(f"{name} {megabytes / s:.1f} MB/s" for name, s in best.items()))


if __name__ == "__main__":
    main()
