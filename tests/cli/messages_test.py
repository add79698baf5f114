"""What the program says to what is wrong: every message as a user meets it, in tests/golden/messages.txt.

    SNUG_UPDATE_GOLDEN=1 python3 -m unittest messages_test      writes the file anew; review reads it
"""

import os
import re
import shutil
import struct
import subprocess

from snug import BINARY, ROOT, SnugTest

GOLDEN = ROOT / "tests/golden/messages.txt"

NETWORK = """name: "own"
input { name: "x" shape { dim: 2 } }
input { name: "label" dtype: INT32 max_value: 2 }
layer { name: "out" input: "x" dense { units: 2 } }
layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }
objective: "loss"
"""
MLP = str(ROOT / "models/mlp.pbtxt")
GPT = str(ROOT / "models/gpt_bytes.pbtxt")
RESNET = str(ROOT / "models/resnet20.pbtxt")


def idx(magic, *dims, data=b""):
    return struct.pack(f">{1 + len(dims)}I", magic, *dims) + data


def npy(dtype, shape, data):
    header = str({"descr": dtype, "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


FILES = {
    "own.pbtxt": NETWORK,
    "typo.pbtxt": NETWORK.replace("units", "unit"),
    "dangling.pbtxt": NETWORK.replace('input: "x" dense', 'input: "y" dense'),
    "shape.pbtxt": NETWORK.replace("dense { units: 2 }", "conv { filters: 4 kernel: 3 }"),
    "brace.pbtxt": NETWORK.replace("softmax_cross_entropy {} }", "softmax_cross_entropy {}"),
    "no_objective.pbtxt": NETWORK.replace('objective: "loss"\n', ""),
    "magic.idx": idx(0x42, 1, 28, 28, data=bytes(784)),
    "short.idx": idx(0x803, 2, 28, 28, data=bytes(784)),
    "images.idx": idx(0x803, 1, 28, 28, data=bytes(784)),
    "labels.idx": idx(0x801, 1, data=b"\x0b"),
    "two_labels.idx": idx(0x801, 2, data=b"\x01\x02"),
    "cifar/data_batch_1.bin": b"\x03" * 100,
    "x.npy": npy("<f4", (4, 2), bytes(32)),
    "x3.npy": npy("<f4", (4, 3), bytes(48)),
    "text.npy": "no array",
    "words.npy": npy("<U4", (4, 2), bytes(128)),
    "label.npy": npy("<i4", (4,), bytes(16)),
    "label3.npy": npy("<i4", (3,), bytes(12)),
    "cut.onnx": b"\x3a\x40half",
    "nothing.onnx": b"\x3a\x00\x42\x02\x10\x11",  # an empty graph, and an opset
    "old.onnx": b"\x3a\x00\x42\x02\x10\x09",
    "words.csv": "a,b,label\n1,two,0\n",
    "ragged.csv": "a,b,label\n1,2,0\n3,4\n",
    "label.csv": "a,b,label\n1,2,0\n3,4,7\n",
    "texts.csv": "a,colour,label\n1,red,rose\n3,blue,tulip\n4,red,tulip\n",
    "texts_test.csv": "a,colour,label\n1,green,tulp\n",
    "gaps.csv": "a,b,label\n1,,0\n3,4,1\n5,6,1\n",
    "gpt2.json": (ROOT / "tests/golden/tokenizers/gpt2.json").read_text(encoding="utf-8"),
    "unigram.json": '{"version": "1.0", "model": {"type": "Unigram", "vocab": []}}',
    "nfkc.json": (ROOT / "tests/golden/tokenizers/gpt2.json").read_text(encoding="utf-8").replace(
        '"normalizer":null', '"normalizer":{"type":"NFKC"}'),
    "text.txt": "snug " * 100,
    "columns.csv": "a,label\n1,0\n2,1\n",
    "good.csv": "a,b,label\n" + "1,2,0\n3,4,1\n" * 40,
    "short.txt": "too short",
    "broken.safetensors": b"\x10\x00\x00\x00\x00\x00\x00\x00{not a header}  ",
    "empty.safetensors": "",
    "broken.pbtxt": "network: 3",
    "training.pbtxt": 'training { epoch: 3 }\n',
    "memory.pbtxt": 'training { memory_limit: "8GiB" }\n',
    "hue.pbtxt": 'training {\n  data { images { directory: "pictures" hue: 0.1 } } }\n',
    "directory/file": "",
}

IDX = ("train", MLP, "--data=idx", "--output=run")
TOKENS = ("train", GPT, "--data=text", "--output=run", "--data-text-file=text.txt")
CSV = ("train", "own.pbtxt", "--data=csv", "--output=run", "--batch=2")
NPY = ("train", "own.pbtxt", "--data=npy", "--output=run", "--batch=2")

CASES = {
    # commands and flags
    "no command": (),
    "unknown command": ("trian", MLP),
    "unknown flag": ("train", MLP, "--learning-rates=0.1"),
    "no file": ("step",),
    "two files": ("step", MLP, MLP),
    "a flag without its value": ("step", MLP, "--batch"),
    "a flag that is no number": ("step", MLP, "--batch=many"),
    "a flag of the wrong case": ("step", MLP, "--precision=fp16"),
    "unknown memory strategy": ("plan", MLP, "--memory=bets"),
    "unknown engine": ("step", MLP, "--engine=fast"),
    "no such device": ("step", MLP, "--device=gpu"),
    "a size that is none": ("fit", MLP, "--memory-limit=2Gigs"),
    "no limit": ("fit", MLP),
    # model files
    "model file is missing": ("step", "mlp.pbtxt"),
    "model file is a directory": ("step", "directory"),
    "unknown option": ("step", "typo.pbtxt"),
    "unknown value": ("step", "dangling.pbtxt"),
    "wrong shape": ("step", "shape.pbtxt"),
    "missing brace": ("step", "brace.pbtxt"),
    "no objective": ("step", "no_objective.pbtxt"),
    # data
    "idx magic": (*IDX, "--data-idx-images=magic.idx", "--data-idx-labels=labels.idx"),
    "idx short": (*IDX, "--data-idx-images=short.idx", "--data-idx-labels=two_labels.idx"),
    "idx label out of range": (*IDX, "--data-idx-images=images.idx", "--data-idx-labels=labels.idx"),
    "idx other number of labels": (*IDX, "--data-idx-images=images.idx", "--data-idx-labels=two_labels.idx"),
    "idx without files": IDX,
    "cifar short": ("train", RESNET, "--data=cifar", "--data-cifar-directory=cifar", "--output=run"),
    "cifar directory is missing": ("train", RESNET, "--data=cifar", "--data-cifar-directory=nowhere", "--output=run"),
    "npy is none": (*NPY, "--data-npy-file=x=text.npy,label=label.npy"),
    "npy of another shape": (*NPY, "--data-npy-file=x=x3.npy,label=label.npy"),
    "npy of other lengths": (*NPY, "--data-npy-file=x=x.npy,label=label3.npy"),
    "npy of words": (*NPY, "--data-npy-file=x=words.npy,label=label.npy"),
    "csv with words": (*CSV, "--data-csv-file=words.csv"),
    "csv ragged": (*CSV, "--data-csv-file=ragged.csv"),
    "csv label out of range": (*CSV, "--data-csv-file=label.csv"),
    "csv with too few columns": (*CSV, "--data-csv-file=columns.csv"),
    "csv with a category": (*CSV, "--data-csv-file=texts.csv", "--data-csv-category=colour"),
    "csv with an unknown label": (*CSV, "--data-csv-file=texts.csv", "--data-csv-category=colour", "--data-csv-test-file=texts_test.csv"),
    "csv with an empty field": (*CSV, "--data-csv-file=gaps.csv"),
    "csv with another rule": (*CSV, "--data-csv-file=gaps.csv", "--data-csv-missing=median"),
    "csv category of no column": (*CSV, "--data-csv-file=texts.csv", "--data-csv-category=color"),
    "tokenizer of another kind": (*TOKENS, "--data-text-tokenizer=unigram.json"),
    "tokenizer that normalizes": (*TOKENS, "--data-text-tokenizer=nfkc.json"),
    "tokenizer that knows more": (*TOKENS, "--data-text-tokenizer=gpt2.json"),
    "csv label of no column": (*CSV, "--data-csv-file=good.csv", "--data-csv-label=klass"),
    "text too short": ("train", GPT, "--data=text", "--data-text-file=short.txt", "--output=run"),
    "data for another network": ("train", "own.pbtxt", "--data=digits", "--output=run"),
    "no data": ("train", "own.pbtxt", "--output=run"),
    # training options
    "unknown training option": ("train", MLP, "--training=training.pbtxt"),
    "training option outside its message": ("train", MLP, "--training=memory.pbtxt"),
    "hue of grey": ("train", str(ROOT / "models/lenet.pbtxt"), "--training=hue.pbtxt"),
    "hue of grey on the command line": ("train", str(ROOT / "models/lenet.pbtxt"), "--data=images",
                                        "--data-images-directory=pictures", "--data-images-hue=0.2"),
    "nonsense learning rate": (*CSV, "--data-csv-file=good.csv", "--learning-rate=-1"),
    "two optimizers": (*CSV, "--data-csv-file=good.csv", "--optimizer=adam", "--sgd-momentum=0.9"),
    "unknown optimizer": (*CSV, "--data-csv-file=good.csv", "--optimizer=adan"),
    "no epochs": (*CSV, "--data-csv-file=good.csv", "--epochs=0"),
    "batch larger than the data": (*CSV[:-1], "--data-csv-file=good.csv", "--batch=4096"),
    # checkpoints, plans and tunings
    "nothing to resume": (*CSV, "--data-csv-file=good.csv", "--resume"),
    "what may change in nothing": (*CSV, "--data-csv-file=good.csv", "--resume=false", "--resume-with=data"),
    "gradients for no files": (*CSV, "--data-csv-file=good.csv", "--tensorboard=false", "--tensorboard-gradients"),
    "less memory on another device": ("bench", "memory", MLP, "--train", "--lean", "--device=cuda"),
    "no checkpoint named": ("eval", MLP),
    "checkpoint is missing": ("eval", MLP, "--checkpoint=nowhere.safetensors"),
    "checkpoint is broken": ("eval", MLP, "--checkpoint=broken.safetensors"),
    "checkpoint is empty": ("eval", MLP, "--checkpoint=empty.safetensors"),
    "checkpoint of another network": ("eval", MLP, "--checkpoint=trained"),
    "value that is not there": ("predict", "own.pbtxt", "--checkpoint=trained", "--fetch=oot", "--data=csv", "--data-csv-file=good.csv"),
    "plan is missing": ("step", MLP, "--plan=nowhere.plan"),
    "plan is none": ("step", MLP, "--plan=broken.pbtxt"),
    "plan for another batch": ("step", "own.pbtxt", "--batch=8", "--threads=1", "--plan=own.plan"),
    "plan and strategy": ("step", "own.pbtxt", "--plan=own.plan", "--memory=best"),
    "tuning is none": ("step", MLP, "--tuning=own.pbtxt"),
    # memory, and what cannot be written
    "too little memory": ("step", MLP, "--batch=64", "--threads=1", "--memory=none", "--memory-limit=1MB"),
    "too little memory without a plan": ("step", MLP, "--batch=64", "--threads=1", "--memory=dynamic", "--memory-limit=2.9MB"),
    "output is a file": (*CSV[:3], "--data-csv-file=good.csv", "--output=own.pbtxt"),
    "trace cannot be written": ("step", MLP, "--trace=nowhere/trace.json"),
    "plan cannot be written": ("plan", "own.pbtxt", "--write-plan=nowhere/own.plan"),
    "a range of batches from nothing": ("plan", "own.pbtxt", "--batch-range=0:4"),
    "a range of batches that ends before it begins": ("plan", "own.pbtxt", "--batch-range=8:4"),
    "a range of batches that is none": ("plan", "own.pbtxt", "--batch-range=a:b"),
    "a range of batches, and one": ("plan", "own.pbtxt", "--batch-range=1:4", "--batch=2"),
    "a range of batches, and a picture": ("plan", "own.pbtxt", "--batch-range=1:4", "--svg=own.svg"),
    "a range of batches without a plan": ("plan", "own.pbtxt", "--batch-range=1:4", "--memory=dynamic"),
    "a range of batches in whole blocks": ("plan", "own.pbtxt", "--batch-range=1:4", "--memory=share"),
    "a range of batches, and the top of one": ("plan", "own.pbtxt", "--batch-range=1:4", "--top=3"),
    "every batch of no range": ("plan", "own.pbtxt", "--batch-every"),
    "too little memory for a range of batches": ("plan", MLP, "--threads=1", "--batch-range=1:64", "--memory-limit=2.8MB"),
    "too little memory for any batch of a range": ("plan", MLP, "--threads=1", "--batch-range=2:64", "--memory-limit=1MB"),
    "dump cannot be written": ("compile", "own.pbtxt", "--dump=own.pbtxt/dump"),
    "an import of what is not there": ("import", "nowhere.onnx", "--out=run"),
    "an import to nowhere": ("import", "old.onnx"),
    "an import of another file": ("import", "own.pbtxt", "--out=run"),
    "an import of a part of a file": ("import", "cut.onnx", "--out=run"),
    "an import of nothing": ("import", "nothing.onnx", "--out=run"),
    "an import of an old opset": ("import", "old.onnx", "--out=run"),
    "a shape that is none": ("import", "old.onnx", "--out=run", "--shape=x"),
    "an export to nowhere": ("export", "own.pbtxt"),
    "an export that cannot be written": ("export", "own.pbtxt", "--out=nowhere/a.onnx"),
    "an export of what ONNX does not have": ("export", "own.pbtxt", "--out=a.onnx", "--fetch=loss"),
    "an export of what is not there": ("export", "own.pbtxt", "--out=a.onnx", "--fetch=outs"),
    "an export of two sets of parameters": ("export", "own.pbtxt", "--out=a.onnx", "--checkpoint=a", "--init-from=b"),
}


class MessagesTest(SnugTest):
    maxDiff = None

    def snug(self, *arguments):
        return subprocess.run(
            [BINARY, *arguments], capture_output=True, text=True, cwd=self.folder, timeout=300,
            env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        )  # fmt: skip

    def prepare(self):
        for name, content in FILES.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        for arguments in (
            (*CSV[:3], "--data-csv-file=good.csv", "--batch=8", "--epochs=1", "--output=trained"),
            ("plan", "own.pbtxt", "--batch=4", "--threads=1", "--write-plan=own.plan"),
        ):
            done = self.snug(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)

    def message(self, arguments):
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        done = self.snug(*arguments)
        shown = " ".join(arguments).replace(str(ROOT) + "/", "")
        text = (done.stdout + done.stderr).replace(str(self.folder) + "/", "").replace(str(ROOT) + "/", "")
        if "memory" in text.split("\n")[0]:  # how much depends on the libraries
            text = re.sub(r"\d+", "N", text)
        return f"$ snug {shown}".rstrip() + f"\n{text.rstrip()}\nexit code {done.returncode}\n"

    def test_messages_are_those_that_were_read_and_found_good(self):
        self.prepare()
        found = "\n".join(f"# {name}\n{self.message(arguments)}" for name, arguments in CASES.items())
        if os.environ.get("SNUG_UPDATE_GOLDEN"):
            GOLDEN.write_text(found)
        self.assertEqual(found, GOLDEN.read_text())

    def test_nothing_that_is_wrong_succeeds_or_crashes(self):
        golden = GOLDEN.read_text()
        codes = [line for line in golden.splitlines() if line.startswith("exit code ")]
        self.assertEqual(len(codes), len(CASES))
        self.assertLessEqual(set(codes), {"exit code 1", "exit code 2"})
