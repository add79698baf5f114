"""order, place and plan by OLLA under a clock: the best so far, and what was and was not tried."""

import json
import os
import subprocess
import sys
import unittest

from snug import BINARY, ROOT, SHARED, SnugTest

# Eight sources, then a reader of each that leaves little: in the file's order all eight are live at once.
GRAPH = (
    "".join(f"node {i} source{i} 0\n" for i in range(8))
    + "".join(f"node {i + 8} reader{i} 0\n" for i in range(8))
    + "".join(f"tensor {i} {i} {100 + 37 * i % 90} {i + 8}\n" for i in range(8))
    + "".join(f"tensor {i + 8} {i + 8} {10 + i} -\n" for i in range(8))
)


class OllaTest(SnugTest):
    def setUp(self):
        super().setUp()
        doctor = self.run_snug("doctor").stdout
        if "--memory=olla is not there" in doctor:
            self.skipTest("this build has no solver of integer linear programs")

    def test_more_time_is_never_worse_and_the_notes_say_what_was_tried(self):
        path = self.write("sources.graph", GRAPH)
        best = self.json("order", path, "--memory=best")
        last = None
        for limit in (0.001, 60, 3600):
            for start in ((), ("--olla-fast-start=false",)):
                out = self.json("order", path, "--memory=olla", f"--time-limit={limit}", *start)
                self.assertTrue(out["verified"])
                self.assertIn("the plan is that of", out["notes"][0])
            if last is not None:
                self.assertLessEqual(out["total"], last)
            last = out["total"]
        self.assertEqual(last, best["total"])
        self.assertTrue(any("the program of the order" in note for note in out["notes"]), out["notes"])
        text = self.run_snug("order", path, "--memory=olla", "--olla-fast-start=false").stdout
        self.assertIn("search         the program of the order", text)

    def test_the_programs_alone_reach_under_a_limit_what_they_reach_without_one(self):
        """A limit of which most is left must not end the search, and none may cost what the given order had."""
        path = self.write("sources.graph", GRAPH)
        alone = ("order", path, "--memory=olla", "--olla-fast-start=false")
        whole = self.json(*alone)
        given = self.json("order", path, "--memory=both")["total"]
        self.assertTrue(whole["proven"])
        self.assertLess(whole["total"], given)
        totals = [self.json(*alone, f"--time-limit={limit}")["total"] for limit in (1e-9, 0.02, 60, 1000)]
        self.assertLessEqual(totals[0], given)
        self.assertEqual(totals, sorted(totals, reverse=True))
        self.assertEqual(totals[2:], [whole["total"]] * 2)
        # By work it is to the bit the same on every machine.
        totals = [self.json(*alone, f"--work-limit={limit}")["total"] for limit in (1, 10, 100, 1000, 10_000, 100_000)]
        self.assertEqual(totals, sorted(totals, reverse=True))
        self.assertEqual(totals[-1], whole["total"])

    def test_place_and_plan_say_it_too(self):
        path = self.write("buffers.csv", "id,lower,upper,size\n0,0,2,4\n1,1,3,4\n2,2,4,4\n3,3,5,4\n4,0,4,3\n")
        placed = self.json("place", path, "--memory=olla", "--time-limit=60")
        self.assertTrue(placed["verified"])
        self.assertIn("the program of the offsets", placed["notes"][0])
        self.assertIn("search       the program of the offsets", self.run_snug("place", path, "--memory=olla").stdout)
        plan = self.json("plan", "models/mlp.pbtxt", "--memory=olla", "--time-limit=60")
        best = self.json("plan", "models/mlp.pbtxt")
        self.assertLessEqual(plan["total"], best["total"])
        self.assertIn("the plan is that of", plan["notes"][0])
        self.assertEqual(best["notes"], [])
        self.assertIn("search         the plan is that of", self.run_snug("plan", "models/mlp.pbtxt", "--memory=olla").stdout)


class OllaUnderAClock(SnugTest):
    """With the machine to itself (CMake sees to that): what is promised of a limit in seconds needs a machine that gives
    seconds."""

    @unittest.skipUnless(os.environ.get("SNUG_CAMPAIGN"), "a campaign: set SNUG_CAMPAIGN")
    def test_limits_are_kept_and_the_optimum_is_found(self):
        if not (SHARED / "data/olla/graphs").is_dir():
            self.skipTest(f"NOT TESTED: nothing in {SHARED / 'data/olla/graphs'}; set SNUG_SHARED")
        if "--memory=olla is not there" in self.run_snug("doctor").stdout:
            self.skipTest("this build has no solver of integer linear programs")
        results = self.folder / "results.jsonl"
        done = subprocess.run([sys.executable, "-B", ROOT / "bench/olla_bench.py", "limits", f"--binary={BINARY}",
                               f"--shared={SHARED}", "--limits=3,5,6", "--only=alexnet@1,resnet@1,vgg@1",
                               f"--results={results}"], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)  # 1: a limit was not kept, or a total grew
        runs = [json.loads(line) for line in results.read_text().splitlines()]
        self.assertEqual({run["name"] for run in runs}, {"alexnet@1", "resnet@1", "vgg@1"})
        for name, optimum in {"alexnet@1": 395_451_552, "vgg@1": 942_611_872}.items():
            found = [run for run in runs if run["name"] == name and run["start"] in ("best", "given")]
            self.assertEqual(len(found), 6)
            for run in found:
                self.assertEqual((run["total"], run["proven"]), (optimum, True), run)


if __name__ == "__main__":
    unittest.main()
