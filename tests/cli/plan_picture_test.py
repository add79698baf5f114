"""The page and the SVG of `snug plan`: what they hold. plan_page_test.py opens the page in a browser."""

import json
import re
import xml.etree.ElementTree

from snug import SnugTest


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

    def test_the_svg_is_well_formed_with_a_rectangle_for_each_buffer(self):
        path = self.folder / "plan.svg"
        self.run_snug("plan", "models/lenet.pbtxt", "--batch=4", f"--svg={path}")
        titles = xml.etree.ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}title")
        self.assertEqual(len(list(titles)), len(self.json("plan", "models/lenet.pbtxt", "--batch=4")["buffers"]))

    def test_a_file_that_cannot_be_written_is_named(self):
        self.assertIn("/no/such/folder", self.run_snug("plan", "models/mlp.pbtxt", "--html=/no/such/folder/x.html", code=1).stderr)
