"""plan, memcost and fit, and the memory flags of step."""

from snug import SnugTest

ROW_KEYS = {
    "strategy", "mode", "weights", "gradients", "optimizer", "activations", "workspace", "arena", "lower_bound",
    "proven", "seconds", "measured", "step_ms",
}  # fmt: skip


class PlanTest(SnugTest):
    def test_buffers_lie_inside_the_arena_and_the_totals_add_up(self):
        plan = self.json("plan", "models/lenet.pbtxt", "--batch=4")
        self.assertEqual(plan["state"] + plan["step"], plan["total"])
        self.assertEqual(max(b["offset"] + b["bytes"] for b in plan["buffers"]), plan["step"])
        self.assertEqual(max(b["offset"] + b["bytes"] for b in plan["variables"]), plan["state"])
        self.assertLessEqual(plan["lower_bound"], plan["total"])
        live = [b for b in plan["buffers"] if b["first"] <= plan["peak"]["position"] <= b["last"]]
        self.assertGreaterEqual(sum(b["bytes"] for b in live), plan["peak"]["step_bytes"])
        self.assertIn(plan["peak"]["node"], plan["order"])

    def test_table_names_peak_and_bound(self):
        text = self.run_snug("plan", "models/mlp.pbtxt", "--forward", "--top=2").stdout
        for words in ("the peak: position", "lower bound", "state arena", "fc1.weight", "fragmentation"):
            self.assertIn(words, text)

    def test_a_saved_plan_runs_and_gives_the_same_losses(self):
        for name in ("a.plan", "a.pbtxt"):
            path = self.folder / name
            flags = ("models/mlp.pbtxt", "--batch=8", "--threads=2")
            self.run_snug("plan", *flags, f"--write-plan={path}")
            planned = self.json("step", *flags, "--steps=2")
            shipped = self.json("step", *flags, "--steps=2", f"--plan={path}")
            for key in ("losses", "planned_bytes", "measured_bytes", "step_bytes"):
                self.assertEqual(planned[key], shipped[key])
            self.assertIn("beside a fresh plan by best: 0 bytes more", self.run_snug("plan", *flags, f"--plan={path}").stdout)

    def test_a_plan_for_something_else_is_refused(self):
        path = self.folder / "a.plan"
        self.run_snug("plan", "models/mlp.pbtxt", "--batch=8", f"--write-plan={path}")
        self.assertIn("another batch: 8, here it is 4", self.error("step", "models/mlp.pbtxt", "--batch=4", f"--plan={path}"))
        self.assertIn("another network", self.error("step", "models/lenet.pbtxt", "--batch=8", f"--plan={path}"))
        self.assertIn("exclude", self.error("step", "models/mlp.pbtxt", "--memory=none", f"--plan={path}"))

    def test_unknown_strategies_are_answered_with_the_nearest(self):
        for command in ("plan", "step", "memcost", "compile"):
            self.assertIn('did you mean "offset"', self.error(command, "models/mlp.pbtxt", "--memory=ofset"))


class StepTest(SnugTest):
    def test_every_strategy_gives_the_same_losses_and_takes_what_was_planned(self):
        flags = ("step", "models/lenet.pbtxt", "--batch=4", "--steps=3", "--threads=2")
        truth = self.json(*flags, "--memory=none")
        for strategy in ("both", "best"):
            for poison in ("--poison=false", "--poison"):
                run = self.json(*flags, f"--memory={strategy}", poison)
                self.assertEqual(run["losses"], truth["losses"])
                self.assertEqual(run["memory"], strategy)
                self.assertEqual(run["planned_bytes"], run["measured_bytes"])
                self.assertLess(run["planned_bytes"], truth["planned_bytes"])


class MemcostTest(SnugTest):
    def test_rows(self):
        cost = self.json("memcost", "models/lenet.pbtxt", "--batch=8", "--measure")
        self.assertEqual(set(cost), {"network", "batch", "rows"})
        self.assertEqual((cost["network"], cost["batch"]), ("lenet", 8))
        arena = {}
        for row in cost["rows"]:
            self.assertEqual(set(row), ROW_KEYS)
            self.assertEqual(row["measured"], row["arena"])
            self.assertGreater(row["step_ms"], 0)
            self.assertLessEqual(row["lower_bound"], row["arena"])
            self.assertEqual(row["proven"], row["lower_bound"] == row["arena"])
            arena[row["mode"], row["strategy"]] = row["arena"]
        for mode in ("forward", "training"):
            for strategy in ("inplace", "share", "both", "coloring", "offset"):
                self.assertLessEqual(arena[mode, "best"], arena[mode, strategy])
                self.assertLessEqual(arena[mode, strategy], arena[mode, "none"])
            self.assertLess(arena[mode, "both"], arena[mode, "none"])
        self.assertLess(arena["forward", "best"], arena["training", "best"])

    def test_without_measuring_there_is_nothing_measured(self):
        cost = self.json("memcost", "models/mlp.pbtxt", "--memory=none,best")
        self.assertEqual([row["strategy"] for row in cost["rows"]], ["none", "best"] * 2)
        self.assertEqual({row["measured"] for row in cost["rows"]}, {None})
        self.assertIn("/none", self.run_snug("memcost", "models/mlp.pbtxt", "--memory=none,best").stdout)


class FitTest(SnugTest):
    def test_the_batch_fits_and_the_next_does_not(self):
        limit = 20_000_000
        fit = self.json("fit", "models/mlp.pbtxt", "--memory-limit=20MB", "--memory=none,best")
        self.assertEqual(len(fit["rows"]), 4)
        for row in fit["rows"]:
            self.assertEqual(set(row), {"strategy", "mode", "batch", "arena", "proven"})
            self.assertLessEqual(row["arena"], limit)
            mode = "--forward" if row["mode"] == "forward" else "--train"
            plan = self.json("plan", "models/mlp.pbtxt", mode, f"--batch={row['batch']}", f"--memory={row['strategy']}")
            self.assertEqual(plan["total"], row["arena"])
            more = self.json("plan", "models/mlp.pbtxt", mode, f"--batch={row['batch'] + 1}", f"--memory={row['strategy']}")
            self.assertGreater(more["total"], limit)

    def test_nothing_fits_in_a_kilobyte_and_limits_need_a_number(self):
        fit = self.json("fit", "models/mlp.pbtxt", "--memory-limit=1kB", "--memory=best")
        self.assertEqual([row["batch"] for row in fit["rows"]], [0, 0])
        self.assertIn("8GiB", self.error("fit", "models/mlp.pbtxt"))
        self.assertIn("8 GB of", self.error("fit", "models/mlp.pbtxt", "--memory-limit=8 GB of"))
