"""`snug compare`: runs beside each other, as a table, as JSON, and as a page in a real browser."""

import json
import os
import pathlib
import subprocess
import unittest

import browser
from snug import BINARY, SnugTest

MLP = "models/mlp.pbtxt"


class Comparing(SnugTest):
    def train(self, name, *flags):
        output = self.folder / "runs" / name
        self.run_snug("train", MLP, "--threads=1", "--data-digits-samples=640", "--steps=40", "--evaluate-every=10",
                      f"--output={output}", *flags)
        return output

    def compare(self, *runs):
        return self.run_snug("compare", *runs, f"--html={self.folder / 'c.html'}")


    def left(self, name, lines, record=None):
        """A folder as a training leaves it, with these lines of metrics."""
        run = self.folder / "runs" / name
        run.mkdir(parents=True)
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if record is not None:
            (run / "run.json").write_text(record if isinstance(record, str) else json.dumps(record))
        return run

    def steps(self, *losses, first=1, **more):
        return [{"kind": "step", "step": first + i, "loss": loss, "epoch": 0, "learning_rate": 0.1, "seconds": 0.01, **more}
                for i, loss in enumerate(losses)]


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
                 "update-as-made": "true", "recompute-sweeps": "true", "gradients-from-outputs": "true", "loss-in-blocks": "true",
                 "half-byte-indices": "true", "split-products": "true", "streams": "2",
                 "plain-kernels": "true", "memory-limit": "1GB", "engine": "serial"}
        other = self.train("other", "--precision=bfloat16", *(f"--{name}={value}" for name, value in flags.items()))
        document = json.loads(self.run_snug("compare", plain, other, "--json", f"--html={self.folder / 'c.html'}").stdout)
        differ = {option["name"]: option["values"] for option in document["options_that_differ"]}
        self.assertLessEqual({name: [None, value] for name, value in flags.items()}.items(), differ.items())

    def test_of_an_error_the_least_is_marked(self):
        known = {"state": "done", "metrics": {"loss": "least", "l1": "least", "size": "unknown", "f1": "most", "auc": "most"}}
        runs = [self.left(name, self.steps(1, l1=9, size=9) + [{"kind": "evaluation", "step": step, "loss": 1, "l1": l1 + step, "size": l1, "f1": l1,
                                                                "auc": l1, "seconds": 1} for step in (1, 2)], {**known, "options": options})
                for name, l1, options in (("one", 3, {}), ("two", 5, {"best-metric": "f1:most"}))]
        text = self.compare(*runs).stdout
        self.assertEqual(text.splitlines()[0].split()[9:], ["loss", "best", "loss", "l1", "best", "l1", "size", "f1", "best", "f1", "samples/s", "memory"])
        one, two = ([line for line in text.splitlines() if line.startswith(name)][0] for name in ("one", "two"))
        self.assertRegex(one, r" 5 \*  +4 at 1 \* ")
        self.assertRegex(two, r" 7  +6 at 1  ")
        self.assertRegex(two, r" 5 \*  +5 at 1 \* ")
        self.assertIn("* the best: the least of loss, l1; the most of f1, samples/s\n", text)
        # What evaluations alone have, and no run goes by, would make the table too wide.
        self.assertIn("the page also has auc of the evaluations\n", text)
        self.assertIn('{"title": "best auc"', (self.folder / "c.html").read_text())
        # Where the runs do not agree, or one is of a version that does not say it, nothing is marked.
        other = self.left("other", self.steps(1, l1=9) + [{"kind": "evaluation", "step": 1, "loss": 1, "l1": 1, "seconds": 1}])
        text = self.compare(runs[0], other).stdout
        self.assertNotIn("best l1", text)
        self.assertNotIn("*", text)

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
        self.assertIn("1 line cannot be read", done.stderr)
        self.assertIn("ended", done.stdout)
        self.assertNotIn("options that differ", done.stdout)  # nobody knows those of the first

    def test_what_others_wrote_gives_the_terminal_no_orders(self):
        hostile = "\x1b[31mred\nrow\x9b2J\u202e"
        records = [{"network": "n", "state": "done", "options": {hostile: hostile + str(i)}} for i in range(2)]
        runs = [self.left(f"run{i}\nnew", self.steps(2, 1 + i, **{hostile: 3}), records[i]) for i in range(2)]
        text = self.compare(*runs).stdout
        self.assertEqual(len(text.split("\n\n")[0].splitlines()), 4, text)  # titles, two runs, and what the mark means
        self.assertIn("\\033[31mred\\nrow\\u009b2J\\u202e1", text)
        self.assertIn("run1\\nnew", text)
        for character in "\x1b\x9b\u202e":
            self.assertNotIn(character, text)

    def test_a_folder_whose_name_is_no_text_makes_no_bad_json(self):
        run = self.left("x", self.steps(2, 1))
        odd = os.fsencode(self.folder / "runs") + b"/r\xff"
        os.rename(run, odd)
        page = self.folder / "c.html"
        done = subprocess.run([BINARY, "compare", odd, "--json", f"--html={page}"], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.decode("utf-8"))["runs"][0]["name"], "r\\xff")
        page.read_bytes().decode("utf-8")

    def test_a_run_is_called_as_its_folder_however_that_is_reached(self):
        run = self.left("mine", self.steps(2, 1))
        for given, folder in ((f"{run}/.", "/"), (f"{run}/./", "/"), (".", run), ("../mine", run), ("./metrics.jsonl", run)):
            done = subprocess.run([BINARY, "compare", given, "--json", f"--html={self.folder / 'c.html'}"], cwd=folder,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(json.loads(done.stdout)["runs"][0]["name"], "mine", given)

    def test_a_record_that_cannot_be_read_is_said(self):
        for i, (record, said) in enumerate({
                '{"state_bytes": -5}': "byte 16: expected a whole number, not negative",
                "[[[[": "byte 0: expected an object",
                '{"state_bytes": 9223372036854775807, "step_bytes": 9223372036854775807}': "expected a number up to 2^53",
                json.dumps({"options": {f"o{i}": "1" for i in range(60_000)}}): "expected at most 1000 options",
                " " * 2_000_000: "expected at most 1048576 bytes, found 2000000"}.items()):
            run = self.left(f"run{i}", self.steps(2, 1), record)
            done = self.compare(run)
            self.assertIn(f"warning: {run}/run.json: ", done.stderr)
            self.assertIn(said, done.stderr)
            self.assertIn("the options, the memory and the end of this training are not known", done.stderr)
            self.assertNotIn("-2 B", done.stdout)

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
        for name in ("loss", "accuracy", "learning rate", "samples a second", "waited for data, %"):
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

    def test_what_never_changes_is_drawn_as_a_line(self):
        # Means of equal values differ by rounding; steps near 9e15 by less than what counting adds to them.
        self.compare(self.left("constant", self.steps(0.94, 0.94, 0.94, 0.94, accuracy=0.94)),
                     self.left("late", self.steps(3, 2, 1, first=8_999_999_999_999_990)))
        self.browser.open(f"file://{self.folder / 'c.html'}")
        self.assertTrue(self.curves("accuracy"))
        marks = self.browser.run("return [...charts.get('accuracy').box.querySelectorAll('text')].map(t => t.textContent)")
        self.assertIn("0.8", marks)
        self.assertIn("1", marks)
        self.compare(self.folder / "runs/late")
        self.browser.open(f"file://{self.folder / 'c.html'}")
        self.assertTrue(self.curves("loss"))
        self.assertEqual(self.browser.complaints(), [])

    def test_names_are_text_and_nothing_else(self):
        run = self.train("</script><b>x<!--<script>")  # a folder "<", and one in it, which names the run
        self.compare(run)
        self.browser.open(f"file://{self.folder / 'c.html'}")
        self.assertIn("script><b>x<!--<script>", self.browser.run("return document.body.innerText"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('#runs b').length"), 0)


if __name__ == "__main__":
    unittest.main()
