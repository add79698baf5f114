"""`snug bench memory`: the table as text, Markdown and JSON, its page in a real browser, and its picture."""

import os
import pathlib
import statistics
import unittest
import xml.etree.ElementTree

import browser
from snug import SnugTest

MLP, LENET = "models/mlp.pbtxt", "models/lenet.pbtxt"
QUICK = ("--memory=none,best", "--threads=1")
CHAIN = "node 0 a\nnode 1 b\nnode 2 c\ntensor 0 0 3000000 1\ntensor 1 1 5000000 2\ntensor 2 2 8 -\ntensor 3 0 600 2 persistent\n"


class MemoryTableTest(SnugTest):
    def table(self, *arguments):
        return self.json("bench", "memory", *arguments)

    def test_each_network_batch_and_mode_has_a_row(self):
        rows = self.table(MLP, LENET, *QUICK)["rows"]
        expected = [(n, m, b) for n in ("mlp", "lenet") for m in ("forward", "training") for b in (1, 32)]
        self.assertEqual([(row["network"], row["mode"], row["batch"]) for row in rows], expected)
        for row in rows:
            none, best = row["strategies"]
            self.assertEqual((none["strategy"], best["strategy"]), ("none", "best"))
            self.assertLessEqual(best["lower_bound"], best["bytes"])
            self.assertLess(best["bytes"], none["bytes"])
            self.assertEqual(row["pytorch"]["reserved"] % (2 << 20), 0)
            self.assertLessEqual(row["pytorch"]["order"], row["pytorch"]["reserved"])

    def test_the_summary_is_the_mean_of_the_rows(self):
        document = self.table(MLP, LENET, "--train", "--batch=8", *QUICK)
        saved = [1 - row["strategies"][1]["bytes"] / row["pytorch"]["reserved"] for row in document["rows"]]
        (summary,) = document["summary"]
        self.assertEqual((summary["mode"], summary["batch"], summary["networks"]), ("training", 8, 2))
        self.assertAlmostEqual(summary["saved"], statistics.mean(saved))
        self.assertAlmostEqual(summary["least_saved"], min(saved))

    def test_the_plan_is_the_one_that_snug_plan_makes(self):
        (row,) = self.table(MLP, "--train", "--batch=32", *QUICK)["rows"]
        plan = self.json("plan", MLP, "--batch=32", "--threads=1")
        self.assertEqual(row["strategies"][1]["bytes"], plan["total"])

    def test_without_momentum_there_are_no_slots(self):
        totals = [self.table(MLP, "--train", "--batch=1", *QUICK, *more)["rows"][0] for more in ((), ("--plain-sgd",))]
        parameters = 4 * (784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10)
        difference = totals[0]["pytorch"]["order"] - totals[1]["pytorch"]["order"]
        self.assertEqual(difference, parameters)

    def test_a_graph_of_tasks_is_taken_as_it_stands(self):
        (row,) = self.table(self.write("chain.graph", CHAIN), "--memory=both,best")["rows"]
        self.assertEqual((row["network"], row["mode"], row["batch"]), ("chain", "graph", None))
        # b's inputs and outputs are there at once; two large blocks of one segment, and a small segment.
        self.assertEqual(row["pytorch"], {"order": 8000600, "reserved": 22 << 20})
        self.assertGreaterEqual(row["strategies"][1]["bytes"], 8000600)

    def test_text_and_markdown_say_the_same(self):
        arguments = ("bench", "memory", MLP, "--batch=32", *QUICK)
        text = self.run_snug(*arguments).stdout.splitlines()
        markdown = self.run_snug(*arguments, "--markdown").stdout.splitlines()
        self.assertIn("network", text[3])
        rows = [line.strip("|").split("|") for line in markdown if line.startswith("| mlp")]
        self.assertEqual(len(rows), 2)
        # The time of planning, which no two runs share, is the fourth from the end.
        for line, cells in zip(text[4:6], rows):
            words, cells = line.split(), [cell.strip() for cell in cells]
            self.assertEqual((words[-4], words[-3:]), (words[-4], cells[-3:]))
            self.assertEqual(words[-5], cells[-5])
        self.assertEqual([line for line in text if line.startswith("training")],
                         [line[2:] for line in markdown if line.startswith("- training")])

    def test_what_pytorch_needs_is_told_in_float32(self):
        done = self.run_snug("bench", "memory", MLP, "--precision=bfloat16", "--batch=4", *QUICK)
        self.assertIn("without PyTorch: mlp: PyTorch's memory is told for float32", done.stdout)

    def test_what_is_wrong_is_said(self):
        self.assertIn("expected model files", self.error("bench", "memory"))
        self.assertIn('--batch: expected whole numbers of at least 1, found "0"', self.error("bench", "memory", MLP, "--batch=0"))
        self.assertIn("--json and --markdown", self.run_snug("bench", "memory", MLP, "--markdown", "--json", code=2).stderr)
        graph = self.write("chain.graph", CHAIN)
        self.assertIn("dynamic memory is for networks", self.error("bench", "memory", graph, "--memory=dynamic"))
        backwards = self.write("backwards.graph", "node 0 a\nnode 1 b\ntensor 0 1 8 0\n")
        self.assertIn("must run after", self.error("bench", "memory", backwards, "--memory=best"))

    def test_help_says_what_is_compared(self):
        said = self.run_snug("bench", "memory", "--help").stdout
        for text in ("MODEL...", "caching allocator", "--plain-sgd", "--html", "default: none,inplace,share,both"):
            self.assertIn(text, said)
        self.assertIn("snug bench memory", self.run_snug("bench", "--help").stdout)


LONG = "a_network_with_a_name_that_goes_on_and_on_beyond_what_any_column_or_card_of_a_page_could_hold_"
NETWORK = """name: "{}"
input {{ name: "x" shape {{ dim: 64 }} }}
input {{ name: "y" shape {{ dim: 8 }} }}
layer {{ name: "hidden" input: "x" dense {{ units: {} }} }}
layer {{ name: "act" input: "hidden" relu {{}} }}
layer {{ name: "out" input: "act" dense {{ units: 8 }} }}
layer {{ name: "loss" input: "out" input: "y" mean_squared_error {{}} }}
objective: "loss"
"""


class MemoryPageTest(SnugTest):
    """Forty networks, one with a name that would end the script, all others with long ones."""

    def draw(self):
        names = ["</script><b>hostile</b>"] + [f"{LONG}{i}" for i in range(39)]
        models = [self.write(f"m{i}.pbtxt", NETWORK.format(name, 16 + i)) for i, name in enumerate(names)]
        self.page, self.picture = self.folder / "memory.html", self.folder / "memory.svg"
        self.run_snug("bench", "memory", *models, *QUICK, f"--html={self.page}", f"--svg={self.picture}")
        return names

    def test_the_picture_has_two_bars_for_each(self):
        names = self.draw()
        svg = xml.etree.ElementTree.parse(self.picture).getroot()
        space = "{http://www.w3.org/2000/svg}"
        titles = [title.text for title in svg.iter(f"{space}title")]
        self.assertEqual(len(titles), 80)
        self.assertIn(names[0], titles[0])
        labels = [text.text for text in svg.iter(f"{space}text")]
        self.assertTrue(all(len(label) < 120 for label in labels))

    @unittest.skipIf(browser.MISSING, browser.MISSING)
    def test_the_page_bears_forty_networks(self):
        names = self.draw()
        with browser.Browser() as window:
            window.open(f"file://{self.page}")
            self.assertEqual(window.run("return document.querySelectorAll('article').length"), 40)
            self.assertEqual(window.run("return [...document.querySelectorAll('article h2')].map(h => h.textContent)"), names)
            self.assertEqual(window.run("return document.querySelectorAll('b').length && document.querySelector('article b').textContent"), "forward, batch 1")
            self.assertTrue(window.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth"))
            # Bars: two strategies, PyTorch's order and its allocator, four times a network.
            self.assertEqual(window.run("return document.querySelectorAll('.bar').length"), 40 * 4 * 4)
            self.assertTrue(window.run("return [...document.querySelectorAll('.bar i')].every(i => i.offsetWidth > 0)"))
            window.type_into("#tools input", "hostile")
            self.assertEqual(window.run("return document.querySelectorAll('article').length"), 1)
            window.run("document.querySelector('#tools input[type=checkbox]').click()")
            self.assertEqual(window.run("return document.querySelectorAll('.group').length"), 3)
            window.run("const i = document.querySelector('#tools input'); i.value = ''; i.oninput()")
            window.run("const s = document.querySelector('#tools select'); s.value = 'largest first'; s.onchange()")
            self.assertEqual(window.run("return document.querySelector('article h2').textContent"), f"{LONG}38")
            self.assertEqual(window.complaints(), [])
            if os.environ.get("SNUG_SCREENSHOTS"):
                (pathlib.Path(os.environ["SNUG_SCREENSHOTS"]) / "memory_page.png").write_bytes(window.screenshot())


if __name__ == "__main__":
    unittest.main()
