"""What looks on while step runs: --trace, --profile, --watchdog, --check-access."""

import json
import os

from snug import SnugTest


class TraceTest(SnugTest):
    FLAGS = ("step", "models/mlp.pbtxt", "--batch=8", "--threads=1")

    def test_a_trace_is_json_with_the_host_and_each_stream(self):
        path = self.folder / "trace.json"
        self.run_snug(*self.FLAGS, "--steps=3", "--streams=2", f"--trace={path}")
        events = json.loads(path.read_text())["traceEvents"]
        names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertEqual(names, {0: "host: feed, run, fetch", 1: "stream 0", 2: "stream 1"})
        host = [(e["args"]["step"], e["name"]) for e in events if e["ph"] == "X" and e["tid"] == 0]
        self.assertEqual(host, [(step, name) for step in range(3) for name in ("feed", "run", "fetch")])
        steps = [e for e in events if e.get("cat") == "step"]
        self.assertTrue(all(e["args"]["op"] and e["dur"] > 0 for e in steps))
        self.assertIn("fc1.weight/update", {e["name"] for e in steps})
        profile = self.json(*self.FLAGS, "--steps=1", "--streams=2", "--profile")["profile"]
        kernels = {r["node"]: r["kernel"] for r in profile["nodes"]}
        self.assertEqual({e["name"]: e["args"]["kernel"] for e in steps}, kernels)
        self.assertIn("plain", kernels.values())
        self.assertEqual(os.listdir(self.folder), ["trace.json"])

    def test_a_trace_that_cannot_be_written_is_said_before_training(self):
        for path in (self.folder / "no" / "folder.json", self.folder):
            error = self.error(*self.FLAGS, f"--trace={path}", code=1 if path != self.folder else 2)
            self.assertIn(str(path), error)

    def test_a_failed_compile_leaves_no_file(self):
        self.error("step", "models/no_such.pbtxt", f"--trace={self.folder / 'trace.json'}")
        self.assertEqual(os.listdir(self.folder), [])


class ProfileTest(SnugTest):
    def test_tables(self):
        text = self.run_snug("step", "models/mlp.pbtxt", "--batch=8", "--steps=3", "--streams=2", "--profile").stdout
        self.assertIn("profile of 2 steps", text)
        for word in ("GFLOP/s", "GB/s", "momentum_update", "fc1.weight/update", "waiting ms", "idle ms", "a step moves at least"):
            self.assertIn(word, text)

    def test_json_adds_up(self):
        for streams in (1, 2):
            run = self.json("step", "models/lenet.pbtxt", "--batch=4", "--steps=3", "--profile", f"--streams={streams}")
            profile = run["profile"]
            self.assertEqual(profile["steps"], 2)
            self.assertEqual(len(profile["streams"]), streams)
            busy = sum(s["busy"] for s in profile["streams"])
            for rows in (profile["ops"], profile["nodes"]):
                self.assertAlmostEqual(sum(r["seconds"] for r in rows), busy)
                self.assertAlmostEqual(sum(r["share"] for r in rows), 1)
            self.assertEqual(sum(r["calls"] for r in profile["ops"]), len(profile["nodes"]))
            names = [r["kernel"].split()[0] for r in profile["nodes"]]
            self.assertEqual({name: names.count(name) for name in names}, run["kernels"])
            self.assertIn("plain", names)
            for stream in profile["streams"]:
                self.assertAlmostEqual(sum(stream.values()), profile["seconds"])
            self.assertEqual({r["stream"] for r in profile["nodes"]}, set(range(streams)))
            self.assertGreater(profile["moved_bytes"], profile["least_bytes"])
            slow = profile["ops"][0]
            self.assertAlmostEqual(slow["gflops_per_second"], slow["flops"] / slow["seconds"] * 1e-9)

    def test_what_the_user_holds_is_named(self):
        flags = ("step", "models/mlp.pbtxt", "--batch=8", "--steps=2", "--profile")
        loss, accuracy = ({"name": name, "as": "fetched", "bytes": 4} for name in ("loss", "accuracy"))
        image = {"name": "image", "as": "fed", "bytes": 8 * 784 * 4}
        label = {"name": "label", "as": "fed", "bytes": 8 * 4}
        held = lambda *more: sorted(self.json(*flags, *more)["profile"]["held"], key=lambda value: value["name"])
        self.assertEqual(held(), [accuracy, loss])
        self.assertEqual(held("--keep-inputs"), [accuracy, image, label, loss])
        self.assertEqual(held("--memory=dynamic"), [accuracy, image, label, loss])
        self.assertRegex(self.run_snug(*flags, "--memory=dynamic").stdout, r"(?m)^image +fed +25088$")

    def test_the_only_step_is_profiled(self):
        self.assertEqual(self.json("step", "models/mlp.pbtxt", "--steps=1", "--profile")["profile"]["steps"], 1)
        self.assertNotIn("profile", self.json("step", "models/mlp.pbtxt", "--steps=1"))


class WatchdogTest(SnugTest):
    SLOW = ("step", "models/lenet.pbtxt", "--plain-kernels", "--batch=256", "--steps=1", "--threads=1")

    def test_it_reports_on_standard_error_and_lets_the_run_end(self):
        done = self.run_snug(*self.SLOW, "--watchdog=0.01")
        self.assertRegex(done.stderr, r'stream 0: for \S+ s running "\S+" \(\w+\), models/lenet\.pbtxt:\d+')
        self.assertIn("step   0", done.stdout)

    def test_it_may_end_the_program(self):
        done = self.run_snug(*self.SLOW, "--watchdog=0.01", "--watchdog-abort", code=5)
        self.assertIn("running", done.stderr)
        self.assertIn("--watchdog-abort", done.stderr)

    def test_it_is_off_without_seconds(self):
        self.assertEqual(self.run_snug(*self.SLOW).stderr, "")
        self.assertIn("expected seconds", self.error(*self.SLOW, "--watchdog=-1"))
        self.assertIn("expected seconds for --watchdog-abort", self.error(*self.SLOW, "--watchdog-abort"))


class CheckAccessTest(SnugTest):
    FLAGS = ("step", "models/lenet.pbtxt", "--batch=3", "--steps=2")

    def test_losses_are_those_without_checks(self):
        truth = self.json(*self.FLAGS, "--threads=1")
        for more in ((), ("--streams=2",), ("--memory=none",), ("--plain-kernels",)):
            checked = self.json(*self.FLAGS, "--check-access", *more)
            if "--plain-kernels" not in more:
                self.assertEqual(checked["losses"], truth["losses"])
            self.assertEqual((checked["engine"], checked["threads"]), ("serial", 1))
            self.assertEqual(checked["planned_bytes"], checked["measured_bytes"])
            self.assertIn("guarded pages", checked["memory"])

    def test_it_says_what_it_cannot_be_together_with(self):
        self.assertIn("one thread", self.error(*self.FLAGS, "--check-access", "--threads=2"))
        for flag in ("--engine=replay", "--poison"):
            self.assertIn("serial", self.error(*self.FLAGS, "--check-access", flag))
