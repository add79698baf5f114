"""docs/tutorial.md as a newcomer follows it: every block of commands is run, one after the other, in an empty home, and what it
prints is compared with what stands under it.

Two commands are not run, because the build that is tested is what they would make: tools/quickstart, and the one that compiles
the library. That what they make is there is checked in their place. A server that readers end by Ctrl-C is ended likewise, after
some seconds.

Compared are words and whole numbers of one or two digits; the rest of the numbers roughly, because other processors round
otherwise and take other kernels; times and rates not at all. A line `...` stands for any number of lines, `...` within a line for any text.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SNUG_BUILD_DIR", ROOT / "build/release"))
TUTORIAL = ROOT / "docs/tutorial.md"
MADE_BEFORE = {
    "tools/quickstart": "test -x build/release/snug",
    "cmake --build $SNUG/build/release --target snug_shared snug_static":
        "ls $SNUG/build/release/libsnug/libsnug.so $SNUG/build/release/libsnug/libsnug.a > /dev/null",
}
ENDED = {"snug watch runs/slow": "timeout --signal=INT 3 snug watch runs/slow || test $? = 124"}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A number, and what tells whether it is a time, a rate or bytes.
DIGITS = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
UNIT = r" ?(?:s|ms|us|ns|samples/s|steps/s|B|KB|kB|MB|GB|KiB|MiB|GiB|bytes)\b|%| %"
ANY_NUMBER = rf"(?<![\w.])({DIGITS})({UNIT})?"
TOKEN = re.compile(rf"(?P<gap>\s*\.\.\.\s*)|(?P<space>\s+)|(?<![\w.])(?P<number>{DIGITS})(?P<unit>{UNIT})?")
CLOCK = re.compile(r"\b\d+:\d\d(?::\d\d)?\b")
BYTES = {"B", "KB", "kB", "MB", "GB", "KiB", "MiB", "GiB", "bytes"}


def blocks():
    """(line, commands, what they print or None) of each block of the page."""
    text = TUTORIAL.read_text()
    found = []
    for match in BLOCK.finditer(text):
        kind, body = match.groups()
        if kind == "sh":
            found.append([text.count("\n", 0, match.start()) + 1, body, None])
        elif kind == "text":
            found[-1][2] = body
    return found


def alike(expected, found):
    """Whether the lines have the same words, any text for each `...`, and about the same numbers."""
    expected, found = (CLOCK.sub("TIME", line.strip()) for line in (expected, found))
    pattern, numbers, end = "", [], 0
    for match in TOKEN.finditer(expected):
        pattern += re.escape(expected[end:match.start()])
        end = match.end()
        if match["gap"]:
            pattern += ".*"
        elif match["space"]:
            pattern += r"\s+"
        else:
            pattern += ANY_NUMBER
            numbers.append((match["number"], (match["unit"] or "").strip()))
    fits = re.fullmatch(pattern + re.escape(expected[end:]), found)
    if fits is None:
        return False
    others = zip(fits.groups()[::2], fits.groups()[1::2])
    return all(near(number, (other, (unit or "").strip())) for number, (other, unit) in zip(numbers, others))


def near(expected, found):
    (number, unit), (other, other_unit) = expected, found
    if unit != other_unit:
        return unit in BYTES and other_unit in BYTES
    if unit.endswith("s") and unit not in BYTES:  # a time or a rate
        return True
    if unit in BYTES or re.search(r"[.e]|\d{3}", f"{number} {other}"):
        return abs(float(number) - float(other)) <= 0.25 * max(abs(float(number)), abs(float(other))) + 0.1
    return number == other


def mismatch(expected, found):
    """Why what was printed is not what the page says, or None."""
    expected, found = expected.strip().splitlines(), found.strip().splitlines()
    place, skipping = 0, False
    for line in expected:
        if line.strip() == "...":
            skipping = True
            continue
        while skipping and place < len(found) and not alike(line, found[place]):
            place += 1
        if place == len(found) or not alike(line, found[place]):
            near_by = "\n".join(found) if skipping else (found[place] if place < len(found) else "the end")
            return f"expected the line\n  {line}\nfound\n{near_by}"
        place += 1
        skipping = False
    if not skipping and place < len(found):
        return "expected the end, found\n" + "\n".join(found[place:])
    return None


class TutorialTest(unittest.TestCase):
    def test_every_block_does_what_the_page_says(self):
        for tool in ("bash", "cmake", "c++", "pkg-config", "python3"):
            if shutil.which(tool) is None:
                self.skipTest(f"SKIPPED: no {tool} here, which the tutorial uses")
        all_blocks = blocks()
        self.assertGreater(len(all_blocks), 10)
        script, replaced = ["set -euo pipefail"], set()
        for number, (_, commands, _) in enumerate(all_blocks):
            for line in commands.splitlines():
                if line in MADE_BEFORE | ENDED:
                    replaced.add(line)
                    commands = commands.replace(line, (MADE_BEFORE | ENDED)[line])
            script += [f"printf '\\n@@@ %s\\n' {number}", commands]
        self.assertEqual(replaced, set(MADE_BEFORE | ENDED))
        with tempfile.TemporaryDirectory() as folder:
            home = pathlib.Path(folder)
            clone = home / "snug"
            (clone / "build").mkdir(parents=True)
            (clone / "build/release").symlink_to(BUILD)
            (clone / "python").symlink_to(ROOT / "python")
            environment = {name: value for name, value in os.environ.items() if not name.startswith(("PKG_CONFIG", "CMAKE"))}
            environment |= {"HOME": str(home), "OMP_WAIT_POLICY": "passive", "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=clone, env=environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=900)
            printed = re.split(r"\n?@@@ \d+\n", done.stdout)[1:]
            last = all_blocks[len(printed) - 1]
            self.assertEqual(done.returncode, 0, f"docs/tutorial.md:{last[0]}: {last[1]}\n{done.stdout[-3000:]}")
            self.check_files(home / "first")
        for (line, commands, expected), found in zip(all_blocks, printed, strict=True):
            if os.environ.get("SNUG_UPDATE_GOLDEN"):
                print(f"---- docs/tutorial.md:{line}\n{found}")
            elif expected is not None:
                with self.subTest(line=line):
                    wrong = mismatch(expected, found)
                    self.assertIsNone(wrong, f"docs/tutorial.md:{line}: {commands}{wrong}")

    def check_files(self, folder):
        """What the page tells readers to open."""
        for picture in ("curve.svg", "find_lr.svg"):
            self.assertTrue((folder / "runs/mlp" / picture).read_text().startswith("<svg"))
        for page in ("plan.html", "runs/mlp/memory.html", "compare.html", "report.html"):
            self.assertIn("<html", (folder / page).read_text()[:200], page)

    def test_the_page_begins_as_the_readme_does(self):
        self.assertIn("tools/quickstart", (ROOT / "README.md").read_text().split("## A model file")[0])
        self.assertTrue((ROOT / "tools/quickstart").exists())

    def test_what_differs_is_seen(self):
        page = "one 1.25 of 30\n...\nlast 5 rows, 2.17 MB, in 3.1 s at 0:03"
        for same in ("one 1.3 of 30\nlast 5 rows, 2.3 MB, in 9.9 s at 1:13", "one 1.1 of 30\na\nb\nlast 5 rows, 2.1 MB, in 1 s at 0:00"):
            self.assertIsNone(mismatch(page, same))
        for other in ("one 1.9 of 30\nlast 5 rows, 2.3 MB, in 9 s at 0:03", "one 1.25 of 31\nlast 5 rows, 2.17 MB, in 3 s at 0:03",
                      "one 1.25 of 30\nlast 6 rows, 2.17 MB, in 3.1 s at 0:03", "one 1.25 of 30", "one 1.25 of 30\nlast 5 rows, 4.17 MB, in 3.1 s at 0:03",
                      "one 1.25 of 30\nlast 5 rows, 2.17 MB, in 3.1 s at 0:03\nmore", "two 1.25 of 30\nlast 5 rows, 2.17 MB, in 3.1 s at 0:03"):
            self.assertIsNotNone(mismatch(page, other), other)
        # Lines are left out where the page says so, and nowhere else.
        self.assertIsNone(mismatch("one\n...\nlast", "one\nmore\nlast"))
        for found in ("one\nmore\nlast", "more\none\nlast", "one\nlast\nmore", "one\n\nlast"):
            self.assertIsNotNone(mismatch("one\nlast", found), found)
        self.assertIsNone(mismatch("see ... rows", "see 17 of all rows"))
        self.assertIsNotNone(mismatch("see ... rows", "see 17 of all lines"))


if __name__ == "__main__":
    unittest.main()
