"""order, place and plan by OLLA under a clock: the best so far, and what was and was not tried."""

import unittest

from snug import SnugTest

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


if __name__ == "__main__":
    unittest.main()
