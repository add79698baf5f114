"""`snug place` and `snug order`: NNC's files, with uses under a partial order and in one sequence; threads of a search."""

import random

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
        self.assertIn("(28 over --capacity)", self.run_snug("place", path, "--capacity=100", code=3).stdout)
        self.assertIn("one sequence", self.error("place", path, "--memory=share"))

    def test_one_sequence_is_placed_by_any_strategy(self):
        path = self.write("chain.txt", DIAMOND + "edge 1 2\n")
        out = self.folder / "offsets.csv"
        result = self.json("place", path, "--memory=both", f"--write={out}")
        self.assertEqual((result["total"], result["verified"]), (128, True))
        self.assertEqual(out.read_text(), "id,offset\nt7,0\nt8,0\nt9,0\n")

    def test_order_chooses_the_sequence(self):
        # Running 2 between 1 and 3 would keep the two tensors of 100 at once.
        path = self.write("fork.txt", "nncgraph 1\nnodes 4\nedge 0 1\nedge 1 3\nedge 0 2\n"
                          "tensor 0 size 100 type 1 head 1 tail 3\ntensor 1 size 100 type 1 head 2 tail 2\n")
        out = self.folder / "order.txt"
        best = self.json("order", path, f"--write={out}")
        self.assertEqual((best["peak"], best["total"], best["lower_bound"]), (100, 100, 100))
        self.assertTrue(best["proven"] and best["verified"])
        order = [int(line) for line in out.read_text().split()]
        self.assertEqual(sorted(order), [0, 1, 2, 3])
        self.assertNotEqual(order, [0, 1, 2, 3])
        self.assertEqual(self.json("order", path, "--memory=offset")["total"], 200)

    def test_mistakes_name_the_line(self):
        cycle = self.write("cycle.txt", "nncgraph 1\nnodes 2\nedge 0 1\nedge 1 0\n")
        for command in ("order", "place"):
            self.assertIn("cycle.txt:4: the edges form a cycle of 2 nodes: 0 -> 1 -> 0", self.error(command, cycle))
        self.assertIn("bad.txt:2", self.error("place", self.write("bad.txt", "nncgraph 1\nnodes x\n")))


def thicket(size):
    """Tasks that read two of the 25 before them: a search for their order takes a while."""
    draw = random.Random(3)
    readers = {task: set() for task in range(size)}
    for task in range(1, size):
        for _ in range(2):
            readers[draw.randrange(max(task - 25, 0), task)].add(task)
    lines = [f"node {task} t{task} 0" for task in range(size)]
    for task in range(size):
        read_by = ",".join(map(str, sorted(readers[task]))) or "-"
        lines.append(f"tensor {task} {task} {draw.randrange(1, 100)} {read_by}")
    return "\n".join(lines) + "\n"


def without_seconds(document):
    if isinstance(document, dict):
        return {key: without_seconds(value) for key, value in document.items() if key != "seconds"}
    if isinstance(document, list):
        return [without_seconds(value) for value in document]
    return document


class OrderThreadsTest(SnugTest):
    """They change seconds, and nothing else."""

    def test_the_order_and_the_report_are_the_same(self):
        path = self.write("thicket.graph", thicket(110))
        orders, reports = set(), []
        for threads in (1, 2, 3, 4):
            out = self.folder / f"order{threads}.txt"
            report = self.json("order", path, f"--threads={threads}", "--work-limit=3000000", f"--write={out}")
            reports.append(without_seconds(report))
            orders.add(out.read_text())
        self.assertEqual(len(orders), 1)
        for report in reports[1:]:
            self.assertEqual(report, reports[0])
        self.assertGreater(reports[0]["work"], 500_000, "it was found without a search: nothing was tested")
