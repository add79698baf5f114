"""place with NNC's files: uses under a partial order, and in one sequence."""

from snug import SnugTest

# Two branches of a diamond, and a last tensor that may lie on either.
DIAMOND = """nncgraph 1
nodes 4
edge 0 1
edge 0 2
edge 1 3
edge 2 3
tensor 7 size 64 type 1 head 1 tail 1
tensor 8 size 64 type 1 head 2 tail 2
tensor 9 size 128 type 1 head 3 tail 3
"""


class PlaceNncTest(SnugTest):
    def test_what_may_run_at_once_does_not_share(self):
        path = self.write("diamond.txt", DIAMOND)
        for strategy, total in (("none", 256), ("nnc", 128 + 64), ("nnc-seed", 128), ("offset", 128), ("best", 128)):
            result = self.json("place", path, f"--memory={strategy}")
            self.assertTrue(result["verified"])
            self.assertEqual(result["lower_bound"], 128)
            self.assertLessEqual(result["total"], total)
            self.assertEqual(result["proven"], result["total"] == 128)
        self.run_snug("place", path, "--capacity=100", code=3)
        self.assertIn("one sequence", self.error("place", path, "--memory=share"))

    def test_one_sequence_is_placed_by_any_strategy(self):
        path = self.write("chain.txt", DIAMOND + "edge 1 2\n")
        out = self.folder / "offsets.csv"
        result = self.json("place", path, "--memory=both", f"--write={out}")
        self.assertEqual((result["total"], result["verified"]), (128, True))
        self.assertEqual(out.read_text(), "id,offset\nt7,0\nt8,0\nt9,0\n")

    def test_mistakes_name_the_line(self):
        self.assertIn("bad.txt:2", self.error("place", self.write("bad.txt", "nncgraph 1\nnodes x\n")))
