"""The page of `snug plan --html` in a real browser: it comes to life, finds, is clicked on, and bears 10,000 buffers.

Where SNUG_SCREENSHOTS names a folder, what the window showed is left there as PNG files.
"""

import os
import pathlib
import unittest

import browser
from plan_picture_test import LOOP
from snug import SnugTest


@unittest.skipIf(browser.MISSING, browser.MISSING)
class PlanPageTest(SnugTest):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def tearDown(self):
        folder = os.environ.get("SNUG_SCREENSHOTS")
        if folder:
            (pathlib.Path(folder) / f"{self._testMethodName}.png").write_bytes(self.browser.screenshot())
        self.assertEqual(self.browser.complaints(), [])

    def open_plan(self, model, *flags):
        path = self.folder / "plan.html"
        self.run_snug("plan", model, f"--html={path}", *flags)
        self.browser.open(f"file://{path}")

    def open_lenet(self):
        self.open_plan("models/lenet.pbtxt", "--batch=4")

    def page_text(self):
        return self.browser.run("return document.body.innerText").lower()

    def click_on_largest_buffer(self):
        """The names of all buffers that lie within a pixel of where the mouse was pressed."""
        x, y = self.browser.run("""
            map.scrollIntoView({ block: "center" });
            const area = b => b[BYTES] * (b[LAST] + 1 - b[FIRST]);
            const largest = plan.buffers.reduce((a, b) => area(b) > area(a) ? b : a);
            const box = map.getBoundingClientRect();
            return [Math.round(box.left + X((largest[FIRST] + largest[LAST] + 1) / 2, map.clientWidth)),
                    Math.round(box.top + Y(largest[OFFSET] + largest[BYTES] / 2, map.clientHeight))];""")
        self.browser.click_at(x, y)
        return self.browser.run("""
            const box = map.getBoundingClientRect(), x = arguments[0] - box.left, y = arguments[1] - box.top;
            const w = map.clientWidth, h = map.clientHeight;
            return plan.buffers.filter(b => X(b[FIRST], w) <= x + 1 && x - 1 <= X(b[LAST] + 1, w) &&
                Y(b[OFFSET] + b[BYTES], h) <= y + 1 && y - 1 <= Y(b[OFFSET], h)).map(b => b[NAME]);""", x, y)

    def assert_shown(self, names):
        shown = self.browser.run("return document.querySelector('#detail td:nth-child(2)').textContent")
        self.assertIn(shown, names)

    def colours(self):
        """How many pixels of the map have which colour, the most frequent first."""
        return self.browser.run("""
            const copy = document.createElement("canvas"), context = copy.getContext("2d", { willReadFrequently: true });
            copy.width = map.width; copy.height = map.height; context.drawImage(map, 0, 0);
            const pixels = new Uint32Array(context.getImageData(0, 0, copy.width, copy.height).data.buffer);
            const counts = new Map();
            for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) || 0) + 1);
            return [...counts].sort((a, b) => b[1] - a[1]);""")

    def test_it_comes_to_life(self):
        self.open_lenet()
        for text in ("lenet, batch 4, training", "lower bound", "nnc-seed", "activations", "at the peak"):
            self.assertIn(text, self.page_text())
        self.assertEqual(self.browser.run("return document.querySelector('[aria-pressed=true]').textContent"), "best")
        self.assertGreater(len(self.colours()), 10)

    def test_a_strategy_is_chosen_by_its_button(self):
        self.open_lenet()
        before = self.colours()
        self.browser.run("[...document.querySelectorAll('#strategies button')].find(b => b.textContent === 'none').click()")
        self.assertIn("strategy “none”", self.page_text())
        self.assertNotEqual(self.colours(), before)

    def test_a_buffer_is_shown_when_it_is_clicked_on(self):
        self.open_lenet()
        self.assertIn("click a rectangle or a row", self.page_text())
        names = self.click_on_largest_buffer()
        self.assertEqual(len(names), 1)
        self.assert_shown(names)
        self.browser.run("document.querySelector('#top tbody tr:nth-child(3)').click()")
        third = self.browser.run("return document.querySelector('#top tbody tr:nth-child(3) td').textContent")
        self.assert_shown([third])

    def test_what_is_looked_for_stands_out(self):
        self.open_lenet()
        before = self.colours()
        self.browser.type_into("#tools input", "no buffer has this name")
        faded = self.colours()
        self.assertNotEqual(before, faded)
        self.browser.run("const i = document.querySelector('#tools input'); i.value = ''; i.oninput()")
        self.assertEqual(self.colours(), before)
        self.browser.type_into("#tools input", "conv1")
        self.assertNotIn(self.colours(), (before, faded))

    def test_a_loop_opens(self):
        self.open_plan("models/lstm_bytes.pbtxt", "--loops=rolled", "--threads=1")
        whole = self.browser.run("return plan.buffers.length")
        bodies = self.browser.run("return data.bodies.map(b => b.loop)")
        self.assertGreaterEqual(len(bodies), 2)
        self.assertEqual(self.browser.run("return document.querySelectorAll('#bodies button').length"), 1 + len(bodies))
        # By a click on the largest block of the map.
        x, y, loop = self.browser.run("""
            map.scrollIntoView({ block: "center" });
            const blocks = plan.buffers.filter(b => block(b) >= 0).sort((a, b) => b[BYTES] - a[BYTES]), b = blocks[0];
            const box = map.getBoundingClientRect();
            return [Math.round(box.left + X((b[FIRST] + b[LAST] + 1) / 2, map.clientWidth)),
                    Math.round(box.top + Y(b[OFFSET] + b[BYTES] / 2, map.clientHeight)), data.bodies[block(b)].loop];""")
        self.browser.click_at(x, y)
        self.assertIn(f"a round of the loop “{loop}”".lower(), self.page_text())
        self.assertLess(self.browser.run("return plan.buffers.length"), whole)
        self.assertGreater(self.browser.run("return plan.nodes.length"), 0)
        self.assertGreater(len(self.colours()), 5)
        self.browser.run("document.querySelector('#bodies button').click()")
        self.assertEqual(self.browser.run("return plan.buffers.length"), whole)
        self.assertNotIn("a round of the loop", self.page_text())
        self.browser.run("document.querySelector('#bodies button:nth-child(2)').click()")

    def test_a_bound_on_rounds_is_called_one(self):
        for more, count, said in (("", "", "60 rounds"), ("counted: true", 'input: "c"', "at most 60 rounds")):
            network = self.write("loop.pbtxt", LOOP.replace("MORE", more).replace("COUNT", count))
            self.open_plan(network, "--loops=rolled")
            button = self.browser.run("return document.querySelector('#bodies button:nth-child(2)').textContent")
            self.assertIn(f"o: {said}, ", button)
            self.browser.run("document.querySelector('#bodies button:nth-child(2)').click()")
            self.assertIn(f"a round of the loop “o”, which has {said}: ", self.page_text())

    def test_it_bears_ten_thousand_buffers(self):
        layers = [f'layer {{ name: "l{i}" input: "l{i - 1}" tanh {{}} }}' for i in range(1, 5200)]
        text = 'name: "deep"\ninput { name: "x" shape { dim: 64 } }\nlayer { name: "l0" input: "x" dense { units: 64 } }\n'
        network = self.write("deep.pbtxt", text + "\n".join(layers) + '\nlayer { name: "loss" input: "l5199" input: "x" mean_squared_error {} }\nobjective: "loss"\n')
        self.open_plan(network, "--batch=16", "--disable-passes=fuse_activation")
        self.assertGreaterEqual(self.browser.run("return plan.buffers.length"), 10_000)
        self.assertGreater(len(self.colours()), 10)
        self.browser.type_into("#tools input", "l2600")
        self.assert_shown(self.click_on_largest_buffer())


if __name__ == "__main__":
    unittest.main()
