"""Plans, memcost and fit from Python say what the command says, and draw themselves."""

import json
import subprocess
import unittest
import xml.etree.ElementTree

import snug
from package import BATCH, BINARY, ROOT, PackageTest, points, quadrants

LENET = ROOT / "models/lenet.pbtxt"


def command(*arguments):
    done = subprocess.run([BINARY, *map(str, arguments), "--threads=1", "--json"], capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout)


class PlanTest(PackageTest):
    def test_a_plan_is_what_a_session_takes_and_what_the_command_says(self):
        network = snug.Network(LENET)
        plan = snug.plan(network, batch=8)
        with snug.Session(network, batch=8) as session:
            self.assertEqual(session.memory.total_bytes, plan.total_bytes)
            self.assertEqual(session.memory.lower_bound, plan.lower_bound)
        said = command("plan", LENET, "--batch=8")
        for mine, theirs in [("state_bytes", "state"), ("step_bytes", "step"), ("lower_bound", "lower_bound"),
                             ("batch", "batch"), ("network", "network"), ("mode", "mode"), ("order", "order"),
                             ("proven", "proven"), ("strategy", "strategy")]:
            self.assertEqual(getattr(plan, mine), said[theirs], mine)
        self.assertEqual(plan.peak, said["peak"]["position"])
        self.assertEqual(plan.at_peak, {kind: said[kind] for kind in plan.at_peak})
        self.assertEqual([vars(buffer) for buffer in plan.buffers], said["buffers"])
        self.assertEqual([{**row, "first": -1, "last": -1} for row in said["variables"]],
                         [vars(variable) for variable in plan.variables])
        self.assertEqual(snug.plan(network, batch=8, training=False).mode, "forward")

    def test_dynamic_memory_has_no_addresses(self):
        plan = snug.plan(quadrants(), batch=BATCH, memory="dynamic")
        self.assertEqual((plan.buffers, plan.variables), ([], []))
        self.assertGreater(plan.step_bytes, 0)
        self.assertIn("dynamic", plan._repr_html_())

    def test_a_plan_draws_itself(self):
        plan = snug.plan(snug.Network(LENET), batch=8)
        picture = xml.etree.ElementTree.fromstring(plan.svg())
        rectangles = [e for e in picture.iter("{http://www.w3.org/2000/svg}rect") if e.find("{*}title") is not None]
        self.assertEqual(len(rectangles), len(plan.buffers))
        width, height = (float(picture.get(name)) for name in ("width", "height"))
        for rectangle in rectangles:
            x, y, wide, high = (float(rectangle.get(name)) for name in ("x", "y", "width", "height"))
            self.assertGreaterEqual(min(x, y), 0)
            self.assertLessEqual(x + wide, width)
            self.assertLessEqual(y + high, height)
        self.assertEqual(plan._repr_html_(), plan.svg())
        self.assertIn("lenet", repr(plan))

    def test_memcost_is_the_commands(self):
        strategies = ["none", "share", "best", "dynamic"]
        said = command("memcost", LENET, "--batch=4", "--memory=" + ",".join(strategies))["rows"]
        rows = snug.memcost(snug.Network(LENET), strategies, batch=4)
        mine = {(row.mode, row.strategy): row for row in rows}
        self.assertEqual(len(mine), 8)
        for theirs in said:
            row = mine[theirs["mode"], theirs["strategy"]]
            self.assertEqual((row.total_bytes, row.lower_bound, row.proven),
                             (theirs["arena"], theirs["lower_bound"], theirs["proven"]))
            self.assertEqual(row.at_peak, {kind: theirs[kind] for kind in row.at_peak})
        self.assertIn("<table>", rows._repr_html_())
        self.assertIn("best", snug.strategies())
        self.assertIn("olla", snug.strategies(slow=True))

    def test_fit_is_the_commands(self):
        said = command("fit", LENET, "--memory-limit=20MB", "--memory=none,best")["rows"]
        rows = snug.fit(snug.Network(LENET), "20MB", ["none", "best"])
        self.assertEqual(sorted((row.mode, row.strategy, row.batch, row.total_bytes, row.proven, row.ended_by)
                                for row in rows),
                         sorted((r["mode"], r["strategy"], r["batch"], r["arena"],
                                 r["proven"], r["ended_by"]) for r in said))
        nothing = snug.fit(snug.Network(LENET), 1000, "best", training=True)
        self.assertEqual((nothing[0].batch, nothing[0].ended_by), (0, "memory-limit"))
        few = snug.fit(snug.Network(LENET), "20MB", "best", training=True, max_batch=3)
        self.assertEqual((few[0].batch, few[0].ended_by), (3, "max-batch"))
        for call, expected in [(lambda: snug.fit(snug.Network(LENET), "much"), "8GiB"),
                               (lambda: snug.fit(snug.Network(LENET), "1GB", batch=3), "what is looked for"),
                               (lambda: snug.fit(snug.Network(LENET), "1GB", "bets"), "best")]:
            self.error(snug.Error, call, expected)

    def test_a_network_is_its_text(self):
        network = quadrants()
        self.assertEqual(network.name, "quadrants")
        self.assertEqual(snug.Network.from_text(network.text).text, network.text)
        with snug.Session(network, batch=BATCH) as session:
            self.assertEqual(session.inputs["point"], snug.TensorType((BATCH, 2), "float32"))
            self.assertEqual(session.outputs["score"].shape, (BATCH, 4))
            session.step(points())


if __name__ == "__main__":
    unittest.main()
