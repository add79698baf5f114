"""Which kernel serves a node, and what is said where a library was expected to serve and does not."""

import json

from snug import SnugTest

# More products than oneDNN counts, and our fast kernel multiplies one pair of matrices; nothing is allocated for it,
# because compiling is all that is asked for.
TALL = """
input { name: "a" shape { dim: [1, 2] } }
input { name: "b" shape { dim: [2, 1] } }
layer { name: "tall" input: "a" input: "b" matmul {} }
output: "tall"
"""
ROWS = 2**31
UNEVEN = """
input { name: "x" shape { dim: [2, 8, 8] } }
layer { name: "uneven" input: "x" conv { filters: 4 kernel: 4 padding: SAME } }
output: "uneven"
"""
# Rows of 24 bytes.
NARROW = """
input { name: "x" shape { dim: [4, 12] } }
layer { name: "narrow" input: "x" input: "x" input: "x" attention { heads: 1 } }
output: "narrow"
"""
# Its only large product is in the body of a loop.
LOOP = """
block {
  name: "cell"
  input: "row" input: "state"
  layer { name: "from_state" input: "$state" dense { units: 512 } }
  layer { name: "next" input: "from_state" input: "$row" add {} }
  output: "next"
}
input { name: "rows" shape { dim: [4, 512] } }
layer { name: "zeros" input: "rows" state { dim: 512 } }
layer {
  name: "last"
  input: "rows" input: "zeros"
  loop { body: "cell" scan { input: "row" } carry { input: "state" output: "next" } }
}
output: "last"
"""
# What is frozen is another layer's parameter behind a node that lets no gradient through: in bfloat16 it is rounded, and
# beside it stands a parameter of the layer's own, which is not.
FROZEN = """
input { name: "image" shape { dim: [1, 28, 28] } }
input { name: "label" dtype: INT32 max_value: 10 }
layer { name: "own" input: "image" conv { filters: 6 kernel: 5 pad: 2 } }
layer {
  name: "weight" input: "image"
  conv { filters: 6 kernel: 5 pad: 2 }
  param { name: "weight" tie: "own.weight" frozen: true }
}
layer {
  name: "bias" input: "image"
  conv { filters: 6 kernel: 5 pad: 2 }
  param { name: "bias" tie: "own.bias" frozen: true }
}
layer { name: "two" input: "own" input: "weight" add {} }
layer { name: "all" input: "two" input: "bias" add {} }
layer { name: "features" input: "all" flatten {} }
layer { name: "fc" input: "features" dense { units: 10 } }
layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
objective: "loss"
"""


class KernelsTest(SnugTest):
    def has_onednn(self):
        return self.json("doctor")["library"].startswith("oneDNN")

    def test_ordinary_runs_say_nothing_and_are_strict(self):
        for precision in ("float32", "bfloat16", "float64"):
            for model in ("mlp", "lenet"):
                done = self.run_snug("step", f"models/{model}.pbtxt", "--batch=4", "--steps=2", "--strict-kernels",
                                     f"--precision={precision}")
                self.assertEqual(done.stderr, "")
        self.assertEqual(self.json("step", "models/lenet.pbtxt", "--batch=4", "--steps=1")["fallbacks"], 0)

    def test_a_rounded_weight_beside_an_unrounded_bias(self):
        step = ("step", self.write("frozen.pbtxt", FROZEN), "--batch=16", "--steps=4", "--precision=bfloat16")
        for fast, plain in zip(self.json(*step)["losses"], self.json(*step, "--plain-kernels")["losses"]):
            self.assertAlmostEqual(fast, plain, delta=0.02)

    def test_few_channels_do_not_leave_the_library_s_vectors_empty(self):
        step = ("step", "models/lenet.pbtxt", "--steps=1", "--threads=2", "--profile", "--json")

        def kernels(batch):
            done = self.run_snug(*step, f"--batch={batch}", environment={"SNUG_ISA": "avx2"})
            nodes = {node["node"]: node["kernel"] for node in json.loads(done.stdout)["profile"]["nodes"]}
            return {name for name, kernel in nodes.items() if name.startswith("conv") and kernel == "spans"}

        few = {"conv1+relu1", "conv1/conv_grad_weight", "conv2/conv_grad_input"}
        self.assertLessEqual(few, kernels(64))
        if self.has_onednn():
            self.assertNotIn("conv2/conv_grad_weight", kernels(64))  # six channels fill most of a vector
        self.assertNotIn("conv2/conv_grad_input", kernels(1))  # packing the weights would take too long

    def test_products_in_pieces_train_alike_and_are_told(self):
        step = ("step", "models/mlp_big.pbtxt", "--batch=128", "--steps=4", "--threads=2")
        whole, split = self.json(*step), self.json(*step, "--split-products")
        for a, b in zip(whole["losses"], split["losses"]):
            self.assertAlmostEqual(a, b, delta=1e-4)
        one = self.json(*step[:-1], "--threads=1", "--split-products")
        self.assertEqual(one["losses"], split["losses"])
        in_vain = "--split-products changes nothing"
        plan = ("plan", "models/mlp_big.pbtxt", "--split-products")
        self.assertIn(in_vain, self.run_snug(*plan, "--batch=1").stdout)
        self.assertIn(in_vain, self.run_snug(*plan, "--batch=128", environment={"SNUG_ISA": "avx512"}).stdout)
        profile = self.run_snug(*step, "--split-products", "--profile").stdout
        self.assertEqual("own split" in profile, in_vain not in self.run_snug(*plan, "--batch=128").stdout)
        loop = self.write("loop.pbtxt", LOOP)
        for loops in ("unrolled", "rolled"):
            found = self.run_snug("plan", loop, "--split-products", "--batch=128", "--forward", f"--loops={loops}").stdout
            self.assertEqual(in_vain not in found, "own split" in profile, loops)

    def test_a_library_that_does_not_take_a_size_is_said_counted_and_dumped(self):
        if not self.has_onednn():
            self.skipTest("SKIPPED: a build without oneDNN")
        file = self.write("tall.pbtxt", TALL)
        dump = self.folder / "dump"
        command = ("compile", file, f"--batch={ROWS}", f"--dump={dump}", "--memory=none")
        why = "oneDNN has no such large dimensions"
        said = f"our plain kernel serves in place of oneDNN's, more slowly, for matmul \"tall\": {why}\n"
        self.assertEqual(self.run_snug(*command).stderr, said)
        found = self.json(*command)
        self.assertEqual(found["fallbacks"], 1)
        self.assertEqual(found["fallback_nodes"], [{"node": "tall", "op": "matmul", "library": "oneDNN",
                                                    "why": why, "instead": "plain"}])
        self.assertEqual((dump / "75_passed_over.txt").read_text(),
                         "tall matmul: not own, it multiplies one pair of matrices, not several (by design); plain serves\n"
                         f"tall matmul: not onednn, {why}; plain serves\n")
        trained = ('layer { name: "bias" input: "tall" bias_add {} } '
                   'layer { name: "loss" input: "bias" reduce_mean {} } objective: "loss"')
        file = self.write("tall.pbtxt", TALL.replace('output: "tall"', trained))
        error = self.error("step", file, f"--batch={ROWS}", "--steps=1", "--memory=none", "--strict-kernels", code=1)
        self.assertIn(f"tall.pbtxt:4:1: layer \"tall\" (matmul): oneDNN does not serve it: {why}; our plain kernel "
                      "would, and --strict-kernels does not want that", error)

    def test_what_cudnn_does_not_take_is_known_without_a_gpu(self):
        if "cuDNN" not in self.json("doctor"):
            self.skipTest("SKIPPED: a build without CUDA")
        file = self.write("narrow.pbtxt", NARROW)
        self.assertEqual(self.run_snug("compile", file, "--device=cuda", "--precision=bfloat16").stderr,
                         "our own kernel serves in place of cuDNN's, more slowly, for attention \"narrow\": it is for "
                         "heads whose width is a multiple of 8, up to 128\n")
        self.assertEqual(self.run_snug("compile", file, "--device=cuda").stderr, "", "float32 is ours by design")
        file = self.write("uneven.pbtxt", UNEVEN)
        self.assertEqual(self.run_snug("compile", file, "--device=cuda").stderr, "")

    def test_the_dump_says_what_is_by_design(self):
        dump = self.folder / "dump"
        self.run_snug("compile", "models/lenet.pbtxt", f"--dump={dump}", "--plain-kernels")
        text = (dump / "75_passed_over.txt").read_text()
        if self.has_onednn():
            self.assertRegex(text, r"(?m)^\S+ conv\S*: not onednn, plain kernels are asked for \(by design\); plain ")
