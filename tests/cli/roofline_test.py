"""--roofline: how long kernels would take on a GPU, which needs none."""

import unittest

from snug import SnugTest

MLP = ("models/mlp.pbtxt", "--batch=64", "--device=cuda", "--disable-passes=fuse_elementwise")


class RooflineTest(SnugTest):
    def setUp(self):
        super().setUp()
        if "cuDNN" not in self.json("doctor"):
            self.skipTest("SKIPPED: a build without CUDA")

    def test_a_plan_shows_what_each_kernel_would_take(self):
        # Layers wide enough for the library: those of MLP are all computed by kernels of one launch.
        text = self.run_snug("plan", "models/mlp_big.pbtxt", "--batch=256", "--device=cuda", "--roofline").stdout
        self.assertRegex(text, r"a step on h200, predicted: 0\.\d+ ms, \d+ samples/s; \d+ launches")
        for word in ("library, product", "momentum_update", "below half of its roofline", "2 launches"):
            self.assertIn(word, text)

    def test_json_adds_up(self):
        found = self.json("plan", *MLP, "--roofline=a100")["roofline"]
        self.assertEqual(found["device"], "a100")
        kernels = found["kernels"]
        self.assertAlmostEqual(found["launches"], sum(kernel["launches"] for kernel in kernels))
        self.assertAlmostEqual(found["least_seconds"], sum(kernel["least_seconds"] for kernel in kernels))
        self.assertLess(sum(kernel["seconds"] for kernel in kernels), found["seconds"])
        self.assertAlmostEqual(found["samples_per_second"] * found["seconds"], 64)
        for kernel in kernels:
            self.assertGreaterEqual(kernel["seconds"], kernel["least_seconds"])

    def test_without_it_a_plan_is_as_it_was(self):
        self.assertNotIn("roofline", self.json("plan", *MLP))

    def test_a_faster_device_is_predicted_to_be_faster(self):
        seconds = [self.json("plan", *MLP, f"--roofline={name}")["roofline"]["seconds"] for name in ("h200", "l4")]
        self.assertLess(seconds[0], seconds[1])

    def test_a_file_may_say_what_a_device_does(self):
        path = self.write("device.pbtxt", 'name: "mine" processors: 4')
        self.assertIn("found no dram_gb_per_second", self.error("plan", *MLP, f"--roofline={path}"))

    def test_what_is_wrong_is_said(self):
        self.assertIn("one of h200, h100, a100, l4", self.error("plan", *MLP, "--roofline=tpu"))
        self.assertIn("expected --device=cuda", self.error("plan", "models/mlp.pbtxt", "--roofline"))
        self.assertIn("expected --profile", self.error("step", "models/mlp.pbtxt", "--roofline"))


if __name__ == "__main__":
    unittest.main()
