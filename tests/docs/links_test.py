"""Every link of the documents leads somewhere: to a file of the repository, and within it to a heading, by the anchors that
GitHub gives them."""

import pathlib
import re
import subprocess
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)(?: \"[^\"]*\")?\)")


def without_code(text):
    """Fenced and indented code and code within lines are blank, so that lines keep their numbers."""
    lines, fenced, after_empty = [], False, True
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
            line = ""
        elif fenced or (after_empty and line.startswith("    ")):
            line = ""
        after_empty = not line.strip()
        lines.append(re.sub(r"(`+)(?:(?!\1).)*\1(?!\()", lambda code: " " * len(code[0]) if "](" in code[0] else code[0], line))
    return lines


def anchors(text):
    found, fenced = [], False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        heading = None if fenced else re.match(r"#{1,6} +(.*?)(?: +#+)?$", line)
        if heading:
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            anchor = "".join(c for c in plain.lower() if c.isalnum() or c in "-_ ").replace(" ", "-")
            repeats = sum(1 for other in found if other == anchor or re.fullmatch(re.escape(anchor) + r"-\d+", other))
            found.append(anchor if anchor not in found else f"{anchor}-{repeats}")
    return found


def documents():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.splitlines()]
    return [path for folder in [".", "*", "docs/**"] for path in ROOT.glob(folder + "/*.md")]


def broken(path, text, root=ROOT):
    """`file:line: what` for each link of the document that leads nowhere."""
    for number, line in enumerate(without_code(text), 1):
        for target in LINK.findall(line):
            parts = urllib.parse.urlsplit(target)
            if parts.scheme:
                if parts.scheme not in ("http", "https", "mailto"):
                    yield f"{path.relative_to(root)}:{number}: {target}: what is {parts.scheme}?"
                continue
            file = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if file != path and not file.exists():
                yield f"{path.relative_to(root)}:{number}: {target}: no such file"
            elif parts.fragment and parts.fragment not in anchors(text if file == path else file.read_text()):
                yield f"{path.relative_to(root)}:{number}: {target}: no such heading"


class LinksTest(unittest.TestCase):
    def test_all_lead_somewhere(self):
        paths = documents()
        self.assertIn(ROOT / "docs/training.md", paths)
        found = [what for path in paths for what in broken(path, path.read_text())]
        self.assertEqual(found, [])

    def test_every_document_is_reached_from_the_first(self):
        reached, left = set(), [ROOT / "README.md"]
        while left:
            path = left.pop()
            if path in reached:
                continue
            reached.add(path)
            for line in without_code(path.read_text()):
                targets = [urllib.parse.urlsplit(target) for target in LINK.findall(line)]
                left += [(path.parent / target.path).resolve() for target in targets
                         if not target.scheme and target.path.endswith(".md")]
        self.assertEqual([path for path in documents() if ROOT / "docs" in path.parents and path not in reached], [])

    def test_what_leads_nowhere_is_found_with_its_place(self):
        here = ROOT / "docs/x.md"
        for text, expected in {
            "# A\n\nsee [b](nowhere.md)": "docs/x.md:3: nowhere.md: no such file",
            "see [b](training.md#no-such-heading)": "docs/x.md:1: training.md#no-such-heading: no such heading",
            "# A b\n[c](#a-c)": "docs/x.md:2: #a-c: no such heading",
            "[c](htp://x)": "docs/x.md:1: htp://x: what is htp?",
            "![c](pictures/no.svg)": "docs/x.md:1: pictures/no.svg: no such file",
            "[`code`](nowhere.md)": "docs/x.md:1: nowhere.md: no such file",
        }.items():
            self.assertEqual(list(broken(here, text)), [expected])
        for text in ("# A `b`, c: d\n[e](#a-b-c-d)", "# A\n# A\n[b](#a-1)", "`[b](nowhere.md)`", "```\n[b](nowhere.md)\n```",
                     "text\n\n    [b](nowhere.md)", "[b](https://a.b/c)", "[b](../README.md#words)"):
            self.assertEqual(list(broken(here, text)), [])


if __name__ == "__main__":
    unittest.main()
