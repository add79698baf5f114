"""Loops that stay one node, in what the tools show of them: dumps, stashes, traces, and the limit of stashes."""

import json
import re

from snug import SnugTest

NETWORK = """
block { name: "cell" input: "x" input: "h"
  layer { name: "ih" input: "$x" dense { units: 32 } }
  layer { name: "hh" input: "$h" dense { units: 32 } }
  layer { name: "sum" input: "ih" input: "hh" add {} }
  layer { name: "next" input: "sum" tanh {} }
  output: "next" }
name: "rnn" batch: 4
input { name: "x" shape { dim: [24, 32] } }
input { name: "h" shape { dim: 32 } }
layer { name: "rnn" input: "x" input: "h" loop { body: "cell" scan { input: "x" } carry { input: "h" output: "next" } } }
layer { name: "squares" input: "rnn" square {} }
layer { name: "loss" input: "squares" reduce_mean {} }
objective: "loss"
"""
ROLLED = ("--loops=rolled", "--threads=1")


class LoopsTest(SnugTest):
    def setUp(self):
        super().setUp()
        self.network = self.write("rnn.pbtxt", NETWORK)

    def test_a_dump_shows_bodies_indented(self):
        folder = self.folder / "dump"
        self.run_snug("compile", self.network, "--train", f"--dump={folder}", *ROLLED)
        last_graph = max(path for path in folder.iterdir() if "70_kernels" in path.name and path.suffix == ".txt").read_text()
        self.assertRegex(last_graph, r'(?m)^rnn(, \S+)* = loop\(.*\n  graph "cell"\n(  .*\n)*  next = ')
        order = (folder / "80_order.txt").read_text()
        self.assertRegex(order, r"(?m)^\d+ rnn loop rounds workspace \d+\n(  \d+ .*\n)*  \d+ hh\S* ")
        self.assertRegex(order, r"(?m)^\d+ rnn/gradient loop rounds workspace \d+\n  0 ")
        plan = (folder / "90_plan.txt").read_text()
        self.assertRegex(plan, r"(?m)^a round of rnn:\n  arena \d+ bytes$")

    def test_a_stash_has_a_line_of_its_own(self):
        said = re.findall(r'^stash of loop "rnn": (\d+) bytes of all of 24 rounds$',
                          self.run_snug("memcost", self.network, "--memory=best", *ROLLED).stdout, re.MULTILINE)
        self.assertEqual(len(said), 1)
        self.assertGreaterEqual(int(said[0]), 24 * 4 * 32 * 4)  # of every round, what was carried on
        document = self.json("memcost", self.network, "--memory=best", *ROLLED)
        self.assertEqual(document["loops"][0]["stash_bytes"], int(said[0]))
        self.assertNotIn("stash", self.run_snug("memcost", "models/mlp.pbtxt", "--memory=best").stdout)

    def test_a_limit_of_stashes_chooses_rounds(self):
        whole = self.json("plan", self.network, *ROLLED)["loops"][0]
        self.assertEqual((whole["rounds"], whole["chunk"], whole["chunk_stash_bytes"]), (24, 0, 0))
        half = whole["stash_bytes"] // 2
        limited = self.json("plan", self.network, f"--stash-limit={half}", *ROLLED)["loops"][0]
        self.assertIn(limited["chunk"], (2, 3, 4, 6, 8, 12))
        self.assertLessEqual(limited["stash_bytes"] + limited["chunk_stash_bytes"], half)
        text = self.run_snug("plan", self.network, f"--stash-limit={half}", *ROLLED).stdout
        self.assertIn(f'stash of loop "rnn": {limited["stash_bytes"]} bytes of one in every {limited["chunk"]} of 24 rounds, and ', text)
        refused = self.error("plan", self.network, "--stash-limit=10", *ROLLED, code=1)
        self.assertRegex(refused, r'rnn.pbtxt:\d+:1: layer "rnn" \(loop\): .*the limit is 10; expected --stash-limit=\d+ or more')
        least = re.search(r"--stash-limit=(\d+)", refused).group(1)
        self.run_snug("plan", self.network, f"--stash-limit={least}", *ROLLED)
        self.assertIn("leave it or --recompute-rounds out",
                      self.error("plan", self.network, "--stash-limit=1MB", "--recompute-rounds=-1", code=2))

    def test_rounds_are_not_computed_anew_where_they_would_be_merged(self):
        self.assertIn("--recompute-rounds: is for loops that stay one node, found --loops=unrolled",
                      self.error("plan", self.network, "--loops=unrolled", "--recompute-rounds=5", code=2))

    def test_every_strategy_plans_bodies_too(self):
        strategies = ("none", "inplace", "share", "nnc", "best")
        rows = self.json("memcost", self.network, f"--memory={','.join(strategies)}", *ROLLED)["rows"]
        long = self.write("long.pbtxt", NETWORK.replace("[24, 32]", "[1000, 32]"))  # stays one node by its size
        table, = self.json("bench", "memory", long, f"--memory={','.join(strategies)}", "--train", "--batch=4", "--threads=1")["rows"]
        for strategy in strategies:
            planned = self.json("plan", self.network, f"--memory={strategy}", *ROLLED)["total"]
            self.assertIn(planned, [row["arena"] for row in rows if (row["strategy"], row["mode"]) == (strategy, "training")])
            of_long = self.json("plan", long, f"--memory={strategy}", "--threads=1")
            self.assertTrue(of_long["loops"][0]["rolled"])
            self.assertIn(of_long["total"], [plan["bytes"] for plan in table["strategies"] if plan["strategy"] == strategy])
            # What is planned so runs so, from a file too.
            path = self.folder / f"{strategy}.plan"
            self.run_snug("plan", self.network, f"--memory={strategy}", f"--write-plan={path}", *ROLLED)
            self.run_snug("step", self.network, "--steps=1", f"--plan={path}", *ROLLED)
        body = {strategy: re.search(r"of which the body's arena (\d+)", self.run_snug(
            "compile", self.network, "--train", f"--memory={strategy}", *ROLLED).stdout).group(1) for strategy in strategies}
        self.assertGreater(int(body["none"]), int(body["best"]))

    def test_a_prime_number_of_rounds_has_a_shorter_last_chunk(self):
        prime = self.write("prime.pbtxt", NETWORK.replace("[24, 32]", "[23, 32]"))
        flags = ("--precision=float64", *ROLLED)
        whole = self.json("plan", prime, *flags)["loops"][0]["stash_bytes"]
        half = f"--stash-limit={whole // 2}"
        loop, = self.json("plan", prime, half, *flags)["loops"]
        self.assertEqual(loop["rounds"], 23)
        self.assertGreater(loop["chunk"], 1)
        self.assertLessEqual(loop["stash_bytes"] + loop["chunk_stash_bytes"], whole // 2)
        kept = self.json("step", prime, "--steps=3", *flags)["losses"]
        anew = self.json("step", prime, "--steps=3", half, *flags)["losses"]
        for before, after in zip(kept, anew):
            self.assertAlmostEqual(before, after, places=12)
        said = self.run_snug("compile", prime, "--train", "--recompute-rounds=7", *flags).stdout
        self.assertIn("gradients compute 7 rounds at a time anew", said)
        said = self.run_snug("compile", prime, "--train", "--recompute-rounds=100", *flags).stdout
        self.assertIn("gradients compute 23 rounds at a time anew", said)

    def test_the_largest_batch_says_which_limit_ended_the_search(self):
        fit = ("fit", self.network, "--memory=none", "--max-batch=64", *ROLLED)
        flags = ("--memory-limit=1GB", "--stash-limit=20kB")
        forward, training = self.json(*fit, *flags)["rows"]
        self.assertEqual((forward["batch"], forward["ended_by"]), (64, "max-batch"))  # keeps nothing for gradients
        self.assertEqual(training["ended_by"], "stash-limit")
        self.assertGreater(training["batch"], 1)
        plan = ("plan", self.network, "--stash-limit=20kB", *ROLLED)
        self.run_snug(*plan, f"--batch={training['batch']}")
        self.assertIn("the limit is 20000", self.error(*plan, f"--batch={training['batch'] + 1}", code=1))
        self.assertRegex(self.run_snug(*fit, *flags).stdout, r"(?m)^training +none .* stash-limit$")
        # Memory that is even less ends it first.
        self.assertEqual(self.json(*fit, "--memory-limit=50kB", "--stash-limit=1GB")["rows"][1]["ended_by"], "memory-limit")

    def test_losses_do_not_depend_on_the_limit(self):
        whole = self.json("plan", self.network, *ROLLED)["loops"][0]["stash_bytes"]
        flags = ("--steps=3", "--precision=float64", *ROLLED)
        losses = self.json("step", self.network, *flags)["losses"]
        for loss, limited in zip(losses, self.json("step", self.network, f"--stash-limit={whole}", *flags)["losses"]):
            self.assertAlmostEqual(loss, limited, places=12)

    def test_a_trace_names_rounds_within_their_loop(self):
        path = self.folder / "trace.json"
        self.run_snug("step", self.network, "--steps=2", f"--trace={path}", *ROLLED)
        events = json.loads(path.read_text())["traceEvents"]
        slices = [event for event in events if event["ph"] == "X"]
        for name, backwards in (("rnn", False), ("rnn/gradient", True)):
            loops = [event for event in slices if event["name"] == name and event["cat"] == "step"]
            self.assertEqual(len(loops), 2)
            for step, loop in enumerate(loops):
                rounds = [event for event in slices if event["cat"] == "round" and event["args"]["loop"] == name and
                          event["args"]["step"] == step]
                numbers = list(range(24))[::-1 if backwards else 1]
                self.assertEqual([event["name"] for event in rounds], [f"round {number}" for number in numbers])
                for event in rounds:
                    self.assertEqual(event["tid"], loop["tid"])
                    self.assertGreaterEqual(event["ts"], loop["ts"] - 0.002)
                    self.assertLessEqual(event["ts"] + event["dur"], loop["ts"] + loop["dur"] + 0.002)
