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
            error = self.error(command, "models/mlp.pbtxt", "--memory=ofset")
            self.assertIn('unknown memory strategy "ofset"; did you mean "offset"? There are: none, ', error)

    def test_an_empty_file_is_no_plan(self):
        path = self.write("empty.plan", "")
        self.assertIn(f"{path}: expected a plan, found an empty file", self.error("step", "models/mlp.pbtxt", f"--plan={path}"))


class BatchRangeTest(SnugTest):
    FLAGS = ("plan", "models/lenet.pbtxt", "--threads=1")

    def overlaps(self, buffers):
        """Pairs that are needed at once and share bytes, but for an output that begins where and when its input ends."""
        for i, a in enumerate(buffers):
            for b in buffers[:i]:
                together = a["first"] <= b["last"] and b["first"] <= a["last"]
                apart = a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]
                in_place = a["offset"] == b["offset"] and (a["first"] == b["last"] or b["first"] == a["last"])
                if together and not apart and not in_place:
                    yield a["name"], b["name"]

    def test_ranges_follow_each_other_and_cost_at_most_what_they_may(self):
        for excess in (0.5, 20):
            family = self.json(*self.FLAGS, "--batch-range=2:24", f"--batch-excess={excess}")
            batch = 2
            for part in family["ranges"]:
                self.assertEqual(part["first"], batch)
                self.assertEqual(part["begins_by"] == "", batch == 2)
                self.assertLessEqual(part["worst_excess"], excess / 100)
                batch = part["last"] + 1
                for tried in part["tried"]:
                    line = part["fixed_bytes"] + part["bytes_per_sample"] * tried["batch"]
                    self.assertLessEqual(tried["total"], line)
                    self.assertGreaterEqual(tried["total"], line - part["at_most_less"])
                    self.assertGreaterEqual(tried["total"], tried["lower_bound"])
                for end in part["ends"]:
                    self.assertEqual(list(self.overlaps(end["buffers"])), [])
                    self.assertEqual(max(b["offset"] + b["bytes"] for b in end["buffers"]), end["step"])
            self.assertEqual(batch, 25)
        for part in family["ranges"][1:]:
            self.assertIn("in place of", part["begins_by"])  # other kernels, not more bytes
        plain = self.json(*self.FLAGS, "--plain-kernels", "--batch-range=2:24", f"--batch-excess={excess}")
        self.assertEqual(len(plain["ranges"]), 1)

    def test_what_is_said_of_a_batch_alone_is_what_plan_says_of_it(self):
        family = self.json(*self.FLAGS, "--batch-range=3:6", "--batch-every")
        tried = [one for part in family["ranges"] for one in part["tried"]]
        self.assertEqual([one["batch"] for one in tried], [3, 4, 5, 6])
        for one in tried:
            plan = self.json(*self.FLAGS, f"--batch={one['batch']}")
            self.assertEqual((one["total_alone"], one["lower_bound"]), (plan["total"], plan["lower_bound"]))

    def test_the_text_has_the_bytes_as_a_line(self):
        text = self.run_snug("plan", "models/mlp.pbtxt", "--threads=1", "--batch-range=1:64").stdout
        self.assertIn("mlp, batches 1 to 64, training: 1 plan by best", text)
        self.assertRegex(text, r"batches 1 to 64, by the plan for \d+: \d+ \+ \d+ b")
        self.assertIn("7 of its 64 batches were tried: at most 0.000 % more", text)

    def test_the_batch_that_a_limit_names_fits_and_the_next_one_does_not(self):
        error = self.error(*self.FLAGS, "--batch-range=1:64", "--memory-limit=1500000", code=1)
        fits = int(error.split("all up to batch ")[1].split(" ")[0])
        self.run_snug(*self.FLAGS, f"--batch-range=1:{fits}", "--memory-limit=1500000")
        self.error(*self.FLAGS, f"--batch-range=1:{fits + 1}", "--memory-limit=1500000", code=1)

    def test_no_batch_costs_more_than_it_may_and_a_limit_that_it_meets_alone_is_met(self):
        # With two threads an op, kernels of batch 3 need workspaces that batch 2 does without.
        flags = ("plan", "models/gru_bytes.pbtxt", "--threads=2")
        for part in self.json(*flags, "--batch-range=2:3")["ranges"]:
            self.assertLessEqual(part["worst_excess"], 0.005, part["first"])
        alone = self.json(*flags, "--batch=2")["total"]
        error = self.error(*flags, "--batch-range=2:3", f"--memory-limit={alone}", code=1)
        self.assertIn("all up to batch 2 fit: --batch-range=2:2", error)

    def test_strategies_of_whole_blocks_and_what_is_of_one_batch_are_refused(self):
        for strategy in ("none", "inplace", "share", "both", "coloring"):
            error = self.error(*self.FLAGS, "--batch-range=1:4", f"--memory={strategy}")
            self.assertEqual(error, f"--batch-range excludes --memory={strategy}: such plans have whole blocks, and one for many batches keeps only what "
                                    "lies on what; nnc, nnc-seed, offset, exact, olla, best have offsets\n")
        self.assertIn("--batch-range excludes --top: that is of the plan for one batch", self.error(*self.FLAGS, "--batch-range=1:4", "--top=3"))

    def test_what_cannot_be_compiled_is_an_error_of_that_batch(self):
        error = self.error("plan", "models/vgg16.pbtxt", "--threads=1", "--batch-range=1:2147483647")
        self.assertRegex(error, r"^batch 33554432: .*layer .*has too many elements")


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
                self.assertGreaterEqual(run["library_bytes"], 0)
                self.assertLess(run["planned_bytes"], truth["planned_bytes"])

    def test_what_the_heap_takes_is_said_of_libraries_only_where_nobody_else_takes_any(self):
        flags = ("step", "models/mlp.pbtxt", "--batch=4", "--steps=2")
        for alone in ((), ("--engine=serial",), ("--engine=replay", "--streams=2")):
            self.assertIn("library_bytes", self.json(*flags, *alone))
        for others in (("--engine=dynamic",), ("--check-access",), ("--watchdog=60",), ("--memory=dynamic",)):
            self.assertNotIn("library_bytes", self.json(*flags, *others))


class DynamicTest(SnugTest):
    FLAGS = ("step", "models/lenet.pbtxt", "--batch=4", "--steps=3", "--threads=1", "--memory=dynamic")

    def test_training_is_the_same_and_takes_what_was_predicted(self):
        truth = self.json(*self.FLAGS[:-1], "--memory=none")
        for flags in ((), ("--allocator=buddy", "--buddy-initial-mb=4"), ("--gc-threshold-gb=-1", "--inplace=false"),
                      ("--allocator=prealloc", "--initial-mb=50"),
                      ("--auto-growth-chunk-mb=100000000",)):  # which no machine has
            run = self.json(*self.FLAGS, *flags)
            self.assertEqual((run["memory"], run["engine"]), ("dynamic", "serial"))
            self.assertEqual(run["losses"], truth["losses"])
            self.assertEqual(run["planned_bytes"], run["measured_bytes"])
            self.assertEqual(run["predicted_used_bytes"], run["used_bytes"])
        workers = self.json(*self.FLAGS, "--engine=dynamic", "--streams=2")
        self.assertEqual(workers["losses"], truth["losses"])

    def test_plan_prints_what_step_measures(self):
        flags = ("models/lenet.pbtxt", "--batch=4", "--threads=1", "--memory=dynamic")
        plan = self.json("plan", *flags)
        run = self.json("step", *flags, "--steps=3")
        self.assertEqual((plan["total"], plan["used"]), (run["measured_bytes"], run["used_bytes"]))
        self.assertIn("bytes at most", self.run_snug("plan", *flags).stdout)

    def test_fit_finds_batches_of_what_needs_two_samples(self):
        model = self.write("norm.pbtxt", """
            input { name: "x" shape { dim: 4 } }
            input { name: "label" dtype: INT32 }
            layer { name: "norm" input: "x" batch_norm {} }
            layer { name: "out" input: "norm" dense { units: 3 } }
            layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }
            objective: "loss"
        """)
        rows = self.json("fit", model, "--memory-limit=1MB", "--memory=best", "--max-batch=64", "--threads=1")["rows"]
        self.assertEqual([row["batch"] for row in rows], [64, 64])
        self.assertIn("expected more than one element per channel", self.error("fit", model, "--memory-limit=1MB", "--max-batch=1"))
        self.assertIn("--accumulate: expected at most --max-batch, 2, found 4",
                      self.error("fit", model, "--memory-limit=1MB", "--max-batch=2", "--accumulate=4"))

    def test_out_of_memory_comes_before_the_first_step_and_names_what_fits(self):
        error = self.error(*self.FLAGS, "--batch=64", "--memory-limit=2400kB", code=1)
        for words in ("out of memory on cpu", "largest in use", "would fit with --batch=", "would fit with --memory=best", "held by the user)",
                      "of these the user holds ", "nothing is taken yet; free on cpu: "):
            self.assertIn(words, error)
        self.assertNotIn("step   0", error)

    def test_what_does_not_go_together_is_refused(self):
        self.assertIn('engine "replay": expected planned memory', self.error(*self.FLAGS, "--engine=replay"))
        self.assertIn("--inplace: expected --memory=dynamic", self.error("step", "models/mlp.pbtxt", "--inplace"))
        self.assertIn('--allocator: expected auto_growth', self.error(*self.FLAGS, "--allocator=best_fit"))
        self.assertIn("poison goes by a plan", self.error(*self.FLAGS, "--poison"))
        plan = ("plan", "models/mlp.pbtxt", "--memory=dynamic")
        self.assertIn("no plan to save", self.error(*plan, f"--write-plan={self.folder / 'a.plan'}"))
        self.assertIn("has none", self.error(*plan, f"--svg={self.folder / 'a.svg'}"))


class MemcostTest(SnugTest):
    def test_rows(self):
        cost = self.json("memcost", "models/lenet.pbtxt", "--batch=8", "--measure")
        self.assertEqual(set(cost), {"network", "batch", "rows", "loops", "tables"})
        self.assertEqual((cost["loops"], cost["tables"]), ([], []))
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
            self.assertEqual(set(row), {"strategy", "mode", "batch", "arena", "proven", "ended_by"})
            self.assertEqual(row["ended_by"], "memory-limit")
            self.assertLessEqual(row["arena"], limit)
            mode = "--forward" if row["mode"] == "forward" else "--train"
            plan = self.json("plan", "models/mlp.pbtxt", mode, f"--batch={row['batch']}", f"--memory={row['strategy']}")
            self.assertEqual(plan["total"], row["arena"])
            more = self.json("plan", "models/mlp.pbtxt", mode, f"--batch={row['batch'] + 1}", f"--memory={row['strategy']}")
            self.assertGreater(more["total"], limit)

    def test_dynamic_memory_keeps_the_limit_and_the_next_batch_does_not(self):
        fit = self.json("fit", "models/mlp.pbtxt", "--memory-limit=20MB", "--memory=dynamic")
        batch = fit["rows"][1]["batch"]
        flags = ("step", "models/mlp.pbtxt", "--memory=dynamic", "--memory-limit=20MB", "--steps=3")
        self.assertLessEqual(self.json(*flags, f"--batch={batch}")["measured_bytes"], 20_000_000)
        self.assertIn("would fit with --batch=", self.error(*flags, f"--batch={batch + 1}", code=1))

    def test_micro_batches_fit_more_and_what_fits_trains(self):
        flags = ("models/lenet.pbtxt", "--threads=1")
        whole = self.json("fit", *flags, "--memory-limit=20MB", "--memory=best")["rows"][1]["batch"]
        row = self.json("fit", *flags, "--memory-limit=20MB", "--memory=best", "--accumulate=4")["rows"][1]
        self.assertEqual(row["batch"] % 4, 0)
        self.assertGreater(row["batch"], 3 * whole)
        train = ("train", *flags, "--data=digits", "--steps=1", "--memory=best", "--evaluate-batches=1",
                 f"--output={self.folder / 'run'}", f"--batch={row['batch']}", "--accumulate=4")
        found = self.json(*train)
        self.assertEqual(found["state_bytes"] + found["step_bytes"], row["arena"])
        self.assertLessEqual(row["arena"], 20e6)

    def test_nothing_fits_in_a_kilobyte_and_limits_need_a_number(self):
        fit = self.json("fit", "models/mlp.pbtxt", "--memory-limit=1kB", "--memory=best,dynamic")
        self.assertEqual([row["batch"] for row in fit["rows"]], [0, 0, 0, 0])
        self.assertIn("8GiB", self.error("fit", "models/mlp.pbtxt"))
        self.assertIn("8 GB of", self.error("fit", "models/mlp.pbtxt", "--memory-limit=8 GB of"))
        self.assertIn("1e", self.error("fit", "models/mlp.pbtxt", "--memory-limit=1e"))

    def test_what_ends_the_search_is_said(self):
        rows = self.json("fit", "models/mlp.pbtxt", "--memory-limit=20MB", "--memory=none", "--max-batch=3")["rows"]
        self.assertEqual([(row["batch"], row["ended_by"]) for row in rows], [(3, "max-batch")] * 2)
        rows = self.json("fit", "models/mlp.pbtxt", "--memory-limit=1kB", "--memory=none")["rows"]
        self.assertEqual([(row["batch"], row["ended_by"]) for row in rows], [(0, "memory-limit")] * 2)

    def test_limits_are_written_as_people_do(self):
        batches = {
            self.json("fit", "models/mlp.pbtxt", f"--memory-limit={limit}", "--memory=none")["rows"][0]["batch"]
            for limit in ("20000000", "20MB", "2e7", "0.2E8 b", "2.0e+1 mb", "2000e-2MB")
        }
        self.assertEqual(len(batches), 1, batches)

    def test_a_list_of_strategies_names_each_once_and_none_that_is_empty(self):
        for command in ("memcost", "fit"):
            arguments = (command, "models/mlp.pbtxt") + (("--memory-limit=20MB",) if command == "fit" else ())
            self.assertIn('--memory: "none" is named twice', self.error(*arguments, "--memory=none,best,none"))
            self.assertIn('--memory: "none" is named twice', self.error(*arguments, "--memory=none", "--memory=none"))
            for nothing in ("", ",", "none,"):
                expected = f'--memory: expected names separated by commas, found "{nothing}"'
                self.assertIn(expected, self.error(*arguments, f"--memory={nothing}"))
