"""What README.md, the folders' own and docs/*.md name is there: flags of the commands they show, fields of model files,
members of the API; and docs/ops.md is what the command prints."""

import functools
import re
import subprocess
import unittest

from snug import BINARY, ROOT

FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9_]*(?:-[a-z0-9]+)*)(?!-)")
# What may stand before a command: variables for it.
VARIABLES = re.compile(r"^\s*(?:[A-Z]\w*=\S* +)+")
# What the bundle holds at its top is one of tools/ here.
IN_BUNDLE = re.compile(r"^\s*\./(?=bundle-run\b)")
ARROW = re.compile(r"--[\w, ]+-->")  # of the pictures made of letters
# Programs of others, and their flags that the docs show.
OTHERS = {
    "cmake": {"preset", "build", "install", "prefix", "component", "target"},
    "docker": {"build-arg", "tag", "rm", "user", "init"},
    "pkg-config": {"cflags", "libs"},
    "GoogleTest's": {"gtest_filter", "gtest_output"},
}
# A model file, or a part of one: it begins with one of its messages.
MODEL_TEXT = re.compile(r"\b(?:training|optimizer|layer|input|block|param|data|schedule|checkpoint|memory) \{")
EXTENSION = re.compile(r"\[[\w.]+\] \{[^}]*\}")  # an op's from outside
# What the loader knows beside the protos (docs/model_files.md), and a block that an example uses.
LOADER_WORDS = {"block", "arg", "default", "repeat", "times", "index", "from", "transformer"}
BLOCK_WORD = re.compile(r'\b(?:name|arg): "(\w+)"')
FIELD = re.compile(r"(?<![\w.$\"])([a-z][a-z0-9_]*)(?=:(?!:)| \{)")
MEMBER = re.compile(r"\b([A-Z]\w*)::([A-Za-z_]\w*)")
DESIGNATED = re.compile(r"[{,] ?\.([a-z]\w*) = ")
# How programs and scripts here read environment variables.
READ_VARIABLE = [re.compile(pattern) for pattern in (
    r'\bgetenv\("(\w+)"\)', r'\bvariable\("(\w+)"\)', r'\bkFoldersVariable\[\] = "(\w+)"', r'\bos\.environ\.get\("(\w+)"',
    r'\bos\.environ\["(\w+)"\]', r'\bos\.environ\.setdefault\("(\w+)"', r'"(\w+)" in os\.environ', r"\$\{(SNUG_\w+):-")]
# A file of ours as the docs name it, by the end of its path at least; results of runs have other endings.
FILE = re.compile(r"`((?:[\w.-]+/)*\w+\.(?:h|cc|cu|py|proto))`")
DOCUMENTS = "README.md docs/*.md */README.md"
DEFINED = r"\b(?:class|struct|enum class)(?: SNUG_API)? {}\b"


@functools.lru_cache
def flags_of(command):
    """Of `snug COMMAND`, which may be two words; None where there is no such command."""
    done = subprocess.run([BINARY, *command.split(), "--help"], capture_output=True, text=True)
    return set(re.findall(r"^  --([a-z0-9-]+)", done.stdout, re.MULTILINE)) | {"help"} if done.returncode == 0 else None


@functools.lru_cache
def commands():
    text = subprocess.run([BINARY, "--help"], capture_output=True, text=True).stdout
    return re.findall(r"^  ([\w-]+)  ", text.split("commands:")[1].split("\n\n")[0], re.MULTILINE)


@functools.lru_cache
def sources(pattern):
    files = subprocess.run(["git", "ls-files", "-z", *pattern.split()], cwd=ROOT, capture_output=True, text=True).stdout
    return {name: (ROOT / name).read_text(errors="replace") for name in files.split("\0") if name}


@functools.lru_cache
def model_words():
    words = set(LOADER_WORDS)
    for text in sources("proto/*.proto snug/internal/*.proto").values():
        words |= set(re.findall(r"\b(\w+) = \d+", text))
    return words


def wrong_flags(code):
    """Each part of a line is measured by the program that it runs; a flag without one, by all there are."""
    for part in re.split(r" && |; | \| |, (?=snug )", ARROW.sub("", code).split("  #")[0]):
        part = IN_BUNDLE.sub("tools/", VARIABLES.sub("", part))
        words = part.split() or [""]
        command = re.match(r"\s*(?:\S*/)?snug (\w[\w-]*)", part)
        if command and command[1] in commands():
            name = "bench memory" if re.match(r"\s*(?:\S*/)?snug bench memory\b", part) else command[1]
            known, owner = flags_of(name), f"snug {name}"
        elif words[0].startswith(("bench/", "tools/")):
            texts = [text for name, text in sources("bench tools").items() if name.split(".")[0] == words[0].split(".")[0]]
            known, owner = set(re.findall(r"--([a-z][a-z-]*)", "\n".join(texts))), words[0]
        elif words[0] in OTHERS:
            known, owner = OTHERS[words[0]], words[0]
        else:
            known = set().union(*map(flags_of, [*commands(), "bench memory"]), *OTHERS.values(), {"version"})
            owner = "any command"
        for flag in FLAG.findall(part):
            if flag not in known:
                yield f"--{flag}: no flag of {owner}"


def wrong_members(text):
    for kind, member in MEMBER.findall(text):
        files = [t for name, t in sources("*.h").items() if re.search(DEFINED.format(kind), t)]
        if kind != "Snug" and not any(re.search(rf"\b{member}\b", t) for t in files):  # Snug::snug is CMake's
            yield f"{kind}::{member}: " + ("no such member" if files else "no such type")


def wrong_fields(code, own_words):
    for field in FIELD.findall(EXTENSION.sub("", code.split("#")[0])):
        if field not in model_words() and field not in own_words:
            yield f"{field}: no field of a model file"


def wrong_designated(line):
    headers = "\n".join(sources("snug/*.h").values())
    for field in DESIGNATED.findall(line):
        if not re.search(rf"\b{field}\b", headers):
            yield f".{field}: no field of the API"


def problems(name, text):
    """`file:line: what` for everything that is not there."""
    lines = text.splitlines()
    own_words = set(BLOCK_WORD.findall(text))
    fenced = model = False
    for number, line in enumerate(lines, 1):
        found = list(wrong_members(line))
        if line.startswith("```"):
            fenced = not fenced
            model = fenced and bool(re.match(r'name: "|(?:block|layer|input|training|repeat)\b', lines[number]))
            continue
        if fenced:
            found += wrong_designated(line)
        codes = [line] if fenced or line.startswith("    ") else re.findall(r"`([^`]+)`", line)
        for code in codes:
            found += wrong_flags(code)
            if model or MODEL_TEXT.search(code):
                found += wrong_fields(code, own_words)
        if not fenced and line not in codes:  # what stands outside of code
            found += wrong_flags(re.sub(r"`[^`]+`", "", line))
        yield from (f"{name}:{number}: {what}" for what in found)


class DocsTest(unittest.TestCase):
    def test_flags_fields_and_members_that_the_docs_name_are_there(self):
        found = [what for name, text in sources(DOCUMENTS).items() for what in problems(name, text)]
        self.assertEqual(found, [])

    def test_files_that_the_docs_name_are_there(self):
        files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
        known = {"/" + name for name in files}
        missing = [f"{name}:{number}: {path}"
                   for name, text in sources(DOCUMENTS).items()
                   for number, line in enumerate(text.splitlines(), 1)
                   for path in FILE.findall(line)
                   if not any(file.endswith("/" + path) for file in known)]
        self.assertEqual(missing, [])

    def test_the_table_of_ops_is_what_the_command_prints(self):
        printed = subprocess.run([BINARY, "ops", "--markdown"], capture_output=True, text=True, check=True).stdout
        self.assertEqual((ROOT / "docs/ops.md").read_text(), printed, "write it anew: snug ops --markdown > docs/ops.md")

    def test_every_option_of_memory_is_in_its_document(self):
        text = (ROOT / "docs/memory.md").read_text()
        body = re.search(r"^message Memory \{(.*?)^\}", (ROOT / "proto/train.proto").read_text(), re.MULTILINE | re.DOTALL)[1]
        for field in re.findall(r"optional \w+ (\w+) =", body):
            self.assertIn(f"`{field}`", text)

    def test_every_environment_variable_that_is_read_is_in_its_document(self):
        read = set()
        for text in sources("*.cc *.h *.py tools").values():
            for pattern in READ_VARIABLE:
                read |= set(pattern.findall(text))
        self.assertLess({"SNUG_ISA", "SNUG_CUDA_LIBRARIES", "SNUG_KERNEL_CACHE", "SNUG_CAMPAIGN", "OMP_WAIT_POLICY"}, read)
        text = (ROOT / "docs/environment.md").read_text()
        self.assertEqual([name for name in sorted(read) if f"`{name}`" not in text], [])
        for name in re.findall(r"`(SNUG_[A-Z_]+)`", text):
            self.assertIn(name, read)

    def test_what_is_not_there_is_found_with_its_place(self):
        for text, expected in {
            "so `snug step NET --bach=4` runs": "x.md:1: --bach: no flag of snug step",
            "a\n    snug plan NET --measure   # no": "x.md:2: --measure: no flag of snug plan",
            "and --no-such-flag is": "x.md:1: --no-such-flag: no flag of any command",
            "`training { memory { alocator: \"buddy\" } }`": "x.md:1: alocator: no field of a model file",
            "```\nname: \"n\"\nlayer { nam: \"x\" relu {} }\n```": "x.md:3: nam: no field of a model file",
            "`SessionOptions::wachdog` is": "x.md:1: SessionOptions::wachdog: no such member",
            "`SesionOptions::watchdog` is": "x.md:1: SesionOptions::watchdog: no such type",
            "```cpp\nCreate(network, {.bach = 3});\n```": "x.md:2: .bach: no field of the API",
            "    bench/step_bench.py --rownds=2": "x.md:1: --rownds: no flag of bench/step_bench.py",
            "    cmake --instal x": "x.md:1: --instal: no flag of cmake",
        }.items():
            self.assertEqual(list(problems("x.md", text)), [expected])
        for text in ("`snug step NET --batch=4`", "    snug step NET --batch=4 | cat", "network.pbtxt --load--> Network --import--> Graph",
                     "`layer { name: \"x\" relu {} }`", "```cpp\nCreate(network, {.batch = 3});\n```"):
            self.assertEqual(list(problems("x.md", text)), [])
