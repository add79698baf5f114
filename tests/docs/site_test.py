"""The site that tools/site makes of the documents: every page is there and every link of it leads to a page, a file or a
heading; nothing comes from elsewhere; and in Chromium no page is wider than a phone or a desktop's window, in light and dark.

    SNUG_SCREENSHOTS=DIR tests/docs/site_test.py       leaves pictures of the pages there
"""

import html.parser
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))
from browser import MISSING, Browser  # noqa: E402

NO_MARKDOWN = None
try:
    import markdown  # noqa: F401
except ImportError:
    NO_MARKDOWN = "SKIPPED: this Python has no markdown to make pages with: tools/setup --docs"

# Text and the colour behind it: the contrast that WCAG asks for, of all text that is seen.
CONTRAST = """
const channel = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); };
const numbers = text => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const ground = e => { for (; e; e = e.parentElement) { const c = numbers(getComputedStyle(e).backgroundColor);
  if (c.length == 3 || c[3] > 0) return c; } return [255, 255, 255]; };
let least = [99, ""];
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim());
  if (!own || !e.checkVisibility({opacityProperty: true, checkOpacity: true}) || e.closest(".headerlink")) continue;
  const a = light(numbers(getComputedStyle(e).color)), b = light(ground(e));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < least[0]) least = [ratio, e.outerHTML.slice(0, 90)];
}
return least;
"""
WIDE = """
const wide = [...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 &&
  !e.parentElement.closest("pre, .scroll"));
return [document.scrollingElement.scrollWidth, innerWidth, wide.slice(0, 3).map(e => e.outerHTML.slice(0, 90))];
"""


class PageReader(html.parser.HTMLParser):
    """The ids and links of a page, and whether its tags close."""

    VOID = {"meta", "link", "img", "br", "hr", "wbr"}

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.open, self.loaded, self.title = [], [], [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "a":
            self.links.append(attributes.get("href"))
        elif tag in ("img", "script", "link", "iframe", "source"):
            self.loaded.append(attributes.get("src") or attributes.get("href"))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data):
        if self.open and self.open[-1] == "title":
            self.title += data


def make(folder, tree=ROOT):
    return subprocess.run([sys.executable, tree / "tools/site", f"--out={folder}"], capture_output=True, text=True)


@unittest.skipIf(NO_MARKDOWN, NO_MARKDOWN)
class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.site = pathlib.Path(cls.temporary.name) / "site"
        done = make(cls.site)
        assert done.returncode == 0, done.stderr
        cls.pages = {path: PageReader(path.read_text()) for path in sorted(cls.site.rglob("*.html"))}

    def test_every_document_is_a_page_that_all_others_lead_to(self):
        expected = {"index.html"} | {p.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for p in (ROOT / "docs").rglob("*.md")}
        self.assertEqual({p.relative_to(self.site).as_posix() for p in self.pages}, expected)
        for path, page in self.pages.items():
            led_to = {(path.parent / link.split("#")[0]).resolve() for link in page.links if link and not link.startswith("#")}
            self.assertLessEqual({p.resolve() for p in self.pages}, led_to | {path.resolve()}, path)
            self.assertNotEqual(page.title, "")
            self.assertEqual(page.open, [], path)
            self.assertEqual(len(page.ids), len(set(page.ids)), path)

    def test_every_link_leads_somewhere(self):
        for path, page in self.pages.items():
            for link in page.links:
                parts = urllib.parse.urlsplit(link)
                if parts.scheme in ("http", "https"):
                    continue
                target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
                self.assertTrue(target.is_file(), f"{path.name}: {link}")
                if parts.fragment:
                    ids = self.pages[self.site / target.relative_to(self.site.resolve())].ids
                    self.assertIn(urllib.parse.unquote(parts.fragment), ids, f"{path.name}: {link}")

    def test_nothing_comes_from_elsewhere(self):
        for path, page in self.pages.items():
            for address in page.loaded:
                if address != "data:,":  # no icon
                    self.assertEqual(urllib.parse.urlsplit(address).scheme, "", path)
                    self.assertTrue((path.parent / address).is_file(), f"{path.name}: {address}")
            self.assertNotIn("<script", path.read_text())
        self.assertNotRegex((self.site / "site.css").read_text(), r"@import|url\(|@font-face")

    def test_a_link_to_nowhere_a_new_page_and_a_folder_of_something_else(self):
        tree = pathlib.Path(self.temporary.name) / "tree"
        (tree / "docs/more").mkdir(parents=True)
        (tree / "tools").mkdir()
        for name in ("site", "site_page.html", "site.css"):
            shutil.copy(ROOT / "tools" / name, tree / "tools")
        (tree / "README.md").write_text("# Net\n\nSee [x](docs/more/x.md#b-c), [code](tools/site.css).\n- a\n  - b\n")
        (tree / "docs/more/x.md").write_text("# X & Y\n\n## B, `c`\n\n## B, `c`\n\n[again](#b-c-1) [up](../../README.md#net) [../../README.md](../../README.md)\n")
        out = tree / "out"
        self.assertEqual(make(out, tree).returncode, 0)
        first, second = (out / "index.html").read_text(), (out / "more/x.html").read_text()
        for piece in ('href="more/x.html#b-c"', 'href="files/tools/site.css"', "<li>a<ul>"):
            self.assertIn(piece, first.replace("\n", ""))
        for piece in ('href="#b-c-1"', 'href="../index.html#net"', 'href="../site.css"', "<title>X &amp; Y · Snug</title>", ">Overview</a></p>"):
            self.assertIn(piece, second)
        (tree / "docs/more/x.md").write_text("# X\n\n[a](y.md)\n[b](../../README.md#nothing)\n[c](../../tools)\n[d](../../../x)\n")
        (tree / "README.md").write_text("# Net\n")
        done = make(out, tree)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.splitlines(), [
            "docs/more/x.md:3: the link to y.md: docs/more/y.md is not there",
            "docs/more/x.md:4: the link to ../../README.md#nothing: README.md has no heading of this name",
            "docs/more/x.md:5: the link to ../../tools: tools is a folder: link to a file in it",
            "docs/more/x.md:6: the link to ../../../x: ../x is not there"])
        self.assertEqual((out / "index.html").read_text(), first)
        (tree / "docs/more/x.md").write_text("# X\n")
        self.assertIn("is no site of ours", make(tree / "docs", tree).stderr)
        self.assertEqual(sorted(p.name for p in (tree / "docs").iterdir()), ["more"])
        other = tree / "other"  # a style sheet makes no site of ours
        other.mkdir()
        for name in ("site.css", "index.html"):
            (other / name).write_text("mine")
        self.assertIn("is no site of ours", make(other, tree).stderr)
        self.assertEqual(sorted(p.read_text() for p in other.iterdir()), ["mine", "mine"])
        shutil.rmtree(other)
        self.assertEqual(make(out, tree).returncode, 0)
        self.assertFalse((out / "files").exists())  # of the site before
        self.assertEqual(sorted(p.name for p in tree.iterdir()), ["README.md", "docs", "out", "tools"])

    @unittest.skipIf(MISSING, MISSING)
    def test_pages_fit_phones_and_desktops_in_light_and_dark(self):
        shots = os.environ.get("SNUG_SCREENSHOTS")
        with Browser() as browser:
            for width, height in ((360, 740), (820, 1100), (1400, 900)):
                for scheme in ("light", "dark"):
                    self.look(browser, width, height, scheme, shots)
            self.assertEqual(browser.complaints(), [])

    def look(self, browser, width, height, scheme, shots):
        browser.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for path in self.pages:
            with self.subTest(page=path.name, width=width, scheme=scheme):
                browser.open(path.as_uri())
                total, seen, wide = browser.run(WIDE)
                self.assertLessEqual(total, seen, wide)
                self.assertEqual(wide, [])
                ratio, element = browser.run(CONTRAST)
                self.assertGreaterEqual(ratio, 4.5, element)
                if shots:
                    (pathlib.Path(shots) / f"site_{path.stem}_{width}_{scheme}.png").write_bytes(browser.screenshot())


if __name__ == "__main__":
    unittest.main()
