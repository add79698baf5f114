"""--keep-derived and --only: what is computed stays what it was, and what they do not go with is said."""

import json

from snug import SnugTest

LENET = "models/lenet.pbtxt"


class KeepDerivedTest(SnugTest):
    def test_predictions_and_losses_of_trained_parameters_are_the_same(self):
        run = self.folder / "run"
        data = ("--threads=1", "--data=digits", "--data-digits-samples=64")
        self.run_snug("train", LENET, *data, "--steps=3", f"--output={run}")
        trained = (LENET, *data, f"--checkpoint={run}", "--batches=1")
        losses = [json.loads(self.run_snug("eval", *trained, "--json", *more).stdout) for more in ((), ("--keep-derived",))]
        self.assertAlmostEqual(*(answer["metrics"]["loss"] for answer in losses), delta=1e-4)
        tables = [self.run_snug("predict", *trained, "--fetch=fc3", *more).stdout for more in ((), ("--keep-derived",))]
        first, second = ([float(cell) for line in table.splitlines()[1:] for cell in line.split(",")] for table in tables)
        self.assertGreater(len(first), 100)
        for one, other in zip(first, second, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-3)

    def test_the_derived_bytes_are_planned_and_had(self):
        rows = json.loads(self.run_snug("bench", LENET, "--forward", "--seconds=0", "--threads=1", "--json",
                                        "--vary=keep-derived=false,true").stdout)["rows"]
        for row in rows:
            self.assertEqual(row["planned_bytes"], row["measured_bytes"])
        self.assertGreater(rows[1]["planned_bytes"], rows[0]["planned_bytes"])

    def test_they_are_for_the_forward_pass_alone(self):
        for flag in ("--keep-derived", "--only=fc3"):
            name = flag.split("=")[0]
            self.assertIn(f"{name} is for the forward pass alone: expected --forward", self.error("bench", LENET, flag))
            self.assertIn("expected a forward-only program", self.error("compile", LENET, "--train", flag))
            self.assertIn(f"{name} is for the forward pass alone: expected --forward", self.error("step", LENET, flag))
        self.assertIn('did you mean "fc1"?', self.error("bench", LENET, "--forward", "--only=fc4"))

    def test_only_leaves_the_rest_out(self):
        folder = self.folder / "dump"
        self.run_snug("compile", LENET, "--only=fc3", f"--dump={folder}")
        self.assertNotIn("softmax_cross_entropy", (folder / "70_kernels.txt").read_text())

    def test_forward_passes_are_profiled_by_node(self):
        forward = ("step", LENET, "--forward", "--steps=2", "--threads=1")
        whole = json.loads(self.run_snug(*forward, "--profile", "--json").stdout)
        self.assertEqual(len(whole["losses"]), 2)
        only = json.loads(self.run_snug(*forward, "--profile", "--json", "--only=fc3", "--keep-derived").stdout)
        self.assertNotIn("losses", only)
        for steps, ops in ((whole, {"conv_fused", "softmax_cross_entropy"}), (only, {"conv_fused"})):
            found = {node["op"] for node in steps["profile"]["nodes"]}
            self.assertLessEqual(ops, found)
            self.assertFalse({op for op in found if "grad" in op or "update" in op})
        self.assertNotIn("softmax_cross_entropy", {node["op"] for node in only["profile"]["nodes"]})
        self.assertNotIn("loss", self.run_snug(*forward, "--only=fc3").stdout)
        self.assertIn("loss", self.run_snug(*forward, "--only=fc3,loss").stdout)
        self.assertIn("--gradient-norm: is for training", self.error(*forward, "--gradient-norm"))

    def test_what_is_for_training_does_nothing_silently(self):
        for command in (("step", LENET, "--steps=1"), ("plan", LENET), ("bench", LENET, "--seconds=0")):
            self.assertIn("flags are for training: expected no --forward",
                          self.error(*command, "--forward", "--learning-rate=0.1"))
        for flag in ("update-as-made", "loss-in-blocks", "recompute-sweeps"):
            told = self.run_snug("step", LENET, "--forward", "--steps=1", "--threads=1", f"--{flag}")
            self.assertIn(f"--{flag} changes nothing in this network", told.stderr)

    def test_steps_measure_what_making_the_derived_takes_too(self):
        # Making what resnet18's weights give takes more than a step of one picture.
        steps = json.loads(self.run_snug("step", "models/resnet18.pbtxt", "--forward", "--keep-derived", "--batch=1",
                                         "--steps=2", "--threads=1", "--json").stdout)
        self.assertEqual(steps["planned_bytes"], steps["measured_bytes"])
        self.assertNotIn("library_bytes", steps)

    def test_what_follows_from_weights_alone_is_no_activation(self):
        compiled = ("compile", "models/resnet18.pbtxt", "--batch=1", "--json")
        computed, kept = (json.loads(self.run_snug(*compiled, *more).stdout) for more in ((), ("--keep-derived",)))
        # Batch norm's results are not among them any more.
        self.assertLess(kept["activation_bytes"], computed["activation_bytes"])
