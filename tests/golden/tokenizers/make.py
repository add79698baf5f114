#!/usr/bin/env python3
"""Makes the tokenizers in this folder, and what the package tokenizers makes of texts with them.

    python3 -m venv VENV && VENV/bin/pip install tokenizers==0.23.3 && VENV/bin/python tests/golden/tokenizers/make.py

They are trained on the repository's own documents. NAME.json is the file, NAME.jsonl has a text and its tokens a line.
"""

import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def corpus():
    for path in sorted((ROOT / "docs").glob("*.md"))[:6]:
        yield path.read_text(encoding="utf-8")
    yield "Größe naïve Ελληνικά русский 日本語 한국어 עברית العربية 🙂🙃 don't WE'LL it's I'd they've we're" * 20


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train(pre_tokenizer, size, special=("<|endoftext|>",)):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def gpt2():
    return json.loads(train(pre_tokenizers.ByteLevel(add_prefix_space=False), 700).to_str())


def prefix():
    """A space before each text, tokens that take blanks, and merges as texts."""
    tokenizer = train(pre_tokenizers.ByteLevel(add_prefix_space=True), 500)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<pad>", rstrip=True), "<pad><pad>"])
    tokenizer.add_tokens([AddedToken("snug", normalized=True), AddedToken("snugly"), AddedToken("<é>", lstrip=True, rstrip=True)])
    content = json.loads(tokenizer.to_str())
    content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"]]
    return content


def llama3():
    """Words that are taken without merging, and a token before each text."""
    tokenizer = train(split(LLAMA3), 600, special=())
    content = json.loads(tokenizer.to_str())
    model = content["model"]
    model["ignore_merges"] = True
    for word in ("Ġunreachable", "qqqq", "日本"):
        text = "".join(token for token, _ in pre_tokenizers.ByteLevel(False, use_regex=False).pre_tokenize_str(word.replace("Ġ", " ")))
        model["vocab"][text] = len(model["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.add_special_tokens(["<|begin|>", "<|end|>"])
    template = processors.TemplateProcessing(single="<|begin|> $A <|end|>", pair="<|begin|> $A $B",
                                             special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("<|begin|>", "<|end|>")])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return json.loads(tokenizer.to_str())


def qwen2():
    return json.loads(train(split(QWEN2), 400).to_str())


def texts(generator):
    fixed = [
        "", " ", "  ", "\n", "a", " a", "  a", "a ", "a  ", "a  b", "\t\ta\n\n b\r\n\r\n  c", " \n \n x", "don't", "DON'T", "'s", "'S",
        "it'ſ", "we'll've'd", "x='re", "''s", "1234567", " 12 3456", "3.14e-10", "a1b22c333", "²③Ⅻ", "...!?", " ...\n\n", "?!a",
        "é", "e\u0301", "日本語テキスト", "🙂🙃👩‍👩‍👧", "\u00a0nbsp\u2003em\u3000", "\u1680\u180e\u200b", "\ufeffbom", "\x00\x01\x1f\x85",
        "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|><|endoftext|>", "<|endof", "<|end|>", "x <mask> y", "<mask>  <mask>",
        "<pad>  x", "<pad><pad> <pad>", " <é> snug snugly unsnug", " unreachable qqqq 日本", "x" * 500, "ab" * 300, " " * 70, "\n" * 50 + "x",
    ]
    yield from fixed
    document = (ROOT / "docs/engine.md").read_text(encoding="utf-8")
    for _ in range(20):
        begin = generator.randrange(len(document) - 200)
        yield document[begin:begin + generator.randrange(1, 200)]
    alphabet = "aAzZ 09'sStTlLdDmMeErRvV\t\n\r .,;<|>-éßΩжא中한🙂\u00a0\u2028²٣ſ"
    for _ in range(60):
        yield "".join(generator.choice(alphabet) for _ in range(generator.randrange(1, 40)))
    for _ in range(30):
        codes = (generator.choice([generator.randrange(0xD800), generator.randrange(0xE000, 0x110000)]) for _ in range(12))
        yield "".join(map(chr, codes))


def main():
    for make in (gpt2, prefix, llama3, qwen2):
        name = make.__name__
        content = make()
        (HERE / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
        tokenizer = Tokenizer.from_file(str(HERE / f"{name}.json"))
        with open(HERE / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for text in texts(random.Random(22)):
                file.write(json.dumps({"text": text, "tokens": tokenizer.encode(text).ids}, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
