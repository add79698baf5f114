"""`snug order --threads`: other seconds, nothing else."""

import random

from snug import SnugTest


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
