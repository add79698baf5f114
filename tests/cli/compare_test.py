"""`snug compare`: runs beside each other, as a table, as JSON, and as a page in a real browser."""

import json
import os
import pathlib
import unittest

import browser
from snug import SnugTest

MLP = "models/mlp.pbtxt"


class Comparing(SnugTest):
    def train(self, name, *flags):
        output = self.folder / "runs" / name
        self.run_snug("train", MLP, "--threads=1", "--data-digits-samples=640", "--steps=40", "--evaluate-every=10",
                      f"--output={output}", *flags)
        return output

    def compare(self, *runs):
        return self.run_snug("compare", *runs, f"--html={self.folder / 'c.html'}")


class CompareTest(Comparing):
    def losses(self, run, kind):
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [line["loss"] for line in lines if line["kind"] == kind]

    def test_it_tells_what_each_reached_and_where_they_differ(self):
        slow = self.train("slow", "--learning-rate=0.001")
        fast = self.train("fast", "--learning-rate=0.05", "--optimizer=adam", "--batch=32")
        document = json.loads(self.run_snug("compare", slow, f"{fast}/", "--json", f"--html={self.folder / 'c.html'}").stdout)
        for run, told in zip((slow, fast), document["runs"]):
            self.assertEqual((told["name"], told["state"], told["step"], told["steps"]), (run.name, "done", 40, 40))
            evaluations, steps = self.losses(run, "evaluation"), self.losses(run, "step")
            self.assertEqual(told["evaluation"]["loss"]["last"], evaluations[-1])
            self.assertEqual(told["evaluation"]["loss"]["least"], min(evaluations))
            self.assertAlmostEqual(told["training"]["loss"]["mean_at_end"], sum(steps[-25:]) / 25, places=9)
        differ = {option["name"]: option["values"] for option in document["options_that_differ"]}
        self.assertEqual(differ, {"learning-rate": ["0.001", "0.05"], "optimizer": ["sgd", "adam"], "sgd-momentum": ["0.9", None],
                                  "batch": ["64", "32"]})

        text = self.compare(slow, fast).stdout
        rows = {line.split()[0]: line for line in text.splitlines() if line}
        best = min((slow, fast), key=lambda run: self.losses(run, "evaluation")[-1])
        self.assertIn(f"{self.losses(best, 'evaluation')[-1]:.5g} *", rows[best.name])
        self.assertEqual(rows["--optimizer"].split(), ["--optimizer", "sgd", "adam"])
        self.assertIn(f"the page is in {self.folder / 'c.html'}", text)

    def test_options_of_every_command_are_told_too(self):
        plain = self.train("plain", "--precision=bfloat16")
        flags = {"stochastic-rounding": "true", "memory": "none", "loops": "rolled", "recompute-rounds": "2",
                 "update-as-made": "true", "recompute-sweeps": "true", "streams": "2", "plain-kernels": "true",
                 "stash-limit": "1GB", "memory-limit": "1GB", "engine": "serial"}
        other = self.train("other", "--precision=bfloat16", *(f"--{name}={value}" for name, value in flags.items()))
        document = json.loads(self.run_snug("compare", plain, other, "--json", f"--html={self.folder / 'c.html'}").stdout)
        differ = {option["name"]: option["values"] for option in document["options_that_differ"]}
        self.assertLessEqual({name: [None, value] for name, value in flags.items()}.items(), differ.items())

    def test_runs_of_one_name_have_their_paths(self):
        one, other = self.train("a/run"), self.train("b/run")
        text = self.compare(one, other).stdout
        self.assertIn(str(one), text)
        self.assertNotIn("options that differ", text)

    def test_what_is_no_run_is_left_out_and_said(self):
        run = self.train("run")
        (self.folder / "runs/empty").mkdir()
        (self.folder / "runs/file").write_text("")
        done = self.compare(*sorted((self.folder / "runs").iterdir()))
        self.assertEqual(done.stderr.splitlines(), [
            f"warning: {self.folder}/runs/empty: no training has left metrics here; it is left out",
            f"warning: {self.folder}/runs/file: no training has left metrics here; it is left out"])
        self.assertIn(run.name, done.stdout)
        self.assertEqual(self.compare(run / "metrics.jsonl").stderr, "")

    def test_torn_lines_and_older_runs_are_borne(self):
        run = self.train("run")
        os.remove(run / "run.json")
        with (run / "metrics.jsonl").open("a") as file:
            file.write("rubbish\n{\"kind\": \"st")
        done = self.compare(run, self.train("new", "--learning-rate=0.1"))
        self.assertIn("1 lines cannot be read", done.stderr)
        self.assertIn("ended", done.stdout)
        self.assertNotIn("options that differ", done.stdout)  # nobody knows those of the first

    def test_what_is_wrong_is_said(self):
        self.assertIn("expected run folders, as in `snug compare runs/*`, found none", self.error("compare"))
        self.assertIn("nowhere: there is no such folder", self.error("compare", "nowhere"))
        self.assertIn("none of these is a folder that a training has left", self.error("compare", self.folder))
        run = self.train("run")
        self.assertIn("cannot be written", self.error("compare", run, "--html=/nowhere/c.html", code=1))


@unittest.skipIf(browser.MISSING, browser.MISSING)
class ComparePageTest(Comparing):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def curves(self, panel):
        return self.browser.run("return [...charts.get(arguments[0]).box.querySelectorAll('path.chart-curve')].map(p => p.dataset.name)", panel)

    def test_curves_lie_over_each_other(self):
        runs = [self.train(f"rate_{rate}", f"--learning-rate={rate}") for rate in (0.001, 0.01, 0.1)]
        self.compare(*runs)
        page = (self.folder / "c.html").read_text()
        self.assertNotIn("http", page.replace("http://www.w3.org/2000/svg", ""))
        self.browser.open(f"file://{self.folder / 'c.html'}")
        self.assertEqual(len(self.curves("loss")), 6)
        for name in ("loss", "accuracy", "learning rate", "samples a second"):
            self.assertTrue(self.curves(name), name)
        text = self.browser.run("return document.body.innerText")
        self.assertIn("--learning-rate", text)
        self.assertIn("3 runs", text)
        self.browser.run("document.querySelector('#runs td.name').click()")
        self.assertEqual(len(self.curves("loss")), 4)
        self.browser.run("document.getElementById('training').click()")
        self.assertEqual(self.curves("loss"), ["rate_0.01, evaluation", "rate_0.1, evaluation"])
        self.browser.run("const a = document.getElementById('across'); a.value = 'samples'; a.oninput()")
        self.assertEqual(self.browser.run("return charts.get('loss').series[0].points.map(p => p[0])"), [640, 1280, 1920, 2560])
        folder = os.environ.get("SNUG_SCREENSHOTS")
        if folder:
            self.browser.run("document.getElementById('training').click(); document.querySelector('#runs td.name').click()")
            (pathlib.Path(folder) / "compare.png").write_bytes(self.browser.screenshot())
        self.assertEqual(self.browser.complaints(), [])

    def test_names_are_text_and_nothing_else(self):
        run = self.train("</script><b>x<!--<script>")  # a folder "<", and one in it, which names the run
        self.compare(run)
        self.browser.open(f"file://{self.folder / 'c.html'}")
        self.assertIn("script><b>x<!--<script>", self.browser.run("return document.body.innerText"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('#runs b').length"), 0)


if __name__ == "__main__":
    unittest.main()
