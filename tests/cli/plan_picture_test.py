"""The page and the SVG of `snug plan`: what they hold. plan_page_test.py opens the page in a browser."""

import json
import re
import xml.etree.ElementTree

from snug import SnugTest

LOOP = """
block { name: "cell" input: "h"
  layer { name: "hh" input: "$h" dense { units: 4 } }
  layer { name: "n" input: "hh" tanh {} }
  output: "n" }
batch: 2
input { name: "h" shape { dim: 4 } }
input { name: "c" dtype: INT32 max_value: 5 }
layer { name: "o" input: "h" COUNT loop { body: "cell" times: 60 MORE carry { input: "h" output: "n" } } }
layer { name: "sq" input: "o" square {} }
layer { name: "loss" input: "sq" reduce_mean {} }
objective: "loss"
"""


class PlanPictureTest(SnugTest):
    def page(self, model="lenet"):
        path = self.folder / "plan.html"
        self.run_snug("plan", f"models/{model}.pbtxt", "--batch=4", f"--html={path}")
        return path

    def test_the_page_holds_the_plan_of_every_strategy_and_needs_no_network(self):
        text = self.page().read_text()
        self.assertIsNone(re.search(r"https?://|src=|@import", text))
        data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', text, re.DOTALL).group(1))
        totals = {strategy["name"]: strategy["total"] for strategy in data["strategies"]}
        self.assertEqual(data["chosen"], "best")
        self.assertLess(totals["best"], totals["none"])
        for strategy in data["strategies"]:
            ends = [buffer[3] + buffer[4] for buffer in strategy["buffers"]]
            self.assertEqual(max(ends), strategy["total"], strategy["name"])
            self.assertLessEqual(strategy["lower_bound"], strategy["total"])
        printed = self.json("plan", "models/lenet.pbtxt", "--batch=4")
        self.assertEqual(printed["step"], totals["best"])

    def test_a_bound_on_rounds_is_no_count_of_them(self):
        for more, bound in (("", False), ("counted: true", True)):
            network = self.write("loop.pbtxt", LOOP.replace("MORE", more).replace("COUNT", 'input: "c"' if bound else ""))
            path = self.folder / "loop.html"
            self.run_snug("plan", network, "--loops=rolled", f"--html={path}")
            data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', path.read_text(), re.DOTALL).group(1))
            self.assertEqual([(body["loop"], body["rounds"], body["bound"]) for body in data["bodies"]],
                             [("o", 60, bound), ("o/gradient", 60, bound)])

    def test_the_svg_is_well_formed_with_a_rectangle_for_each_buffer(self):
        path = self.folder / "plan.svg"
        self.run_snug("plan", "models/lenet.pbtxt", "--batch=4", f"--svg={path}")
        titles = xml.etree.ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}title")
        self.assertEqual(len(list(titles)), len(self.json("plan", "models/lenet.pbtxt", "--batch=4")["buffers"]))

    def test_a_file_that_cannot_be_written_is_named(self):
        self.assertIn("/no/such/folder", self.run_snug("plan", "models/mlp.pbtxt", "--html=/no/such/folder/x.html", code=1).stderr)
