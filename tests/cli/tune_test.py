"""tune and bench: what is measured, and a tuning that other commands take."""

import re

from snug import ROOT, SnugTest

LENET = ("models/lenet.pbtxt", "--batch=4")


class TuneTest(SnugTest):
    def tune(self, *flags):
        path = self.folder / "lenet.tuning.pbtxt"
        return path, self.json("tune", *LENET, "--seconds=0", f"--output={path}", *flags)

    def test_a_tuning_is_never_slower_and_every_command_takes_it(self):
        path, report = self.tune("--threads=1")
        self.assertEqual(report["threads"], 1)
        self.assertEqual(report["faster"], report["after_ms"] < 0.98 * report["before_ms"])
        for kernel in report["kernels"]:
            self.assertEqual(kernel["candidates"][0]["choice"], "default")
            self.assertIn(kernel["chosen"], [candidate["choice"] for candidate in kernel["candidates"]])
        plain = self.json("step", *LENET, "--steps=2", "--threads=1")["losses"]
        tuned = self.json("step", *LENET, "--steps=2", f"--tuning={path}")
        self.assertEqual(tuned["threads"], 1)
        for a, b in zip(plain, tuned["losses"]):
            self.assertAlmostEqual(a, b, delta=2e-4 * abs(a))
        again = self.json("step", *LENET, "--steps=2", f"--tuning={path}", "--memory=none")
        self.assertEqual(again["losses"], tuned["losses"])  # where bytes lie changes nothing
        for command in ("plan", "compile", "memcost"):
            self.run_snug(command, *LENET, f"--tuning={path}", *(["--memory=none"] if command == "memcost" else []))
        self.run_snug("step", "models/mlp.pbtxt", "--steps=1", f"--tuning={path}")  # entries that fit no node do no harm

    def test_a_tuning_for_something_else_is_refused(self):
        path, _ = self.tune("--threads=1")
        self.assertIn("was measured with 1 per op, found 2", self.error("step", *LENET, f"--tuning={path}", "--threads=2"))
        text = path.read_text().splitlines()
        path.write_text("\n".join('library: "oneDNN 0.1"' if line.startswith("library") else line for line in text))
        self.assertIn("measured with another library: oneDNN 0.1", self.error("step", *LENET, f"--tuning={path}"))

    def test_an_output_that_cannot_be_written_is_said_before_measuring(self):
        done = self.run_snug("tune", *LENET, "--output=/no/such/folder/x", code=1)
        self.assertIn("/no/such/folder/x: cannot be written", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_threads_are_what_the_flag_allows(self):
        path, _ = self.tune("--threads=1")
        path.write_text(path.read_text().replace("threads: 1\n", "threads: 99999\n"))
        self.assertIn("expected a tuning for 1 to 1024 threads per op, found 99999",
                      self.error("step", *LENET, f"--tuning={path}"))

    def test_a_chosen_kernel_is_used(self):
        path, report = self.tune("--threads=1", "--forward")
        offering = [kernel for kernel in report["kernels"] if len(kernel["candidates"]) > 1]
        if not offering:
            self.skipTest("built without oneDNN")
        # All of them: which nodes there are depends on the passes, and those on what was measured.
        asked = "".join('kernel { node: "%s" choice: "abacus" }\n' % kernel["for"].replace('"', '\\"') for kernel in offering)
        path.write_text(re.sub(r"(?ms)^kernel \{.*?^\}\n", "", path.read_text()) + asked)
        self.assertIn("abacus", self.error("compile", *LENET, f"--tuning={path}"))

    def test_choices_for_kept_weights_are_for_these_alone(self):
        path, report = self.tune("--threads=1", "--forward", "--keep-derived")
        kept = [kernel for kernel in report["kernels"] if "with kept inputs 1" in kernel["for"]]
        if not kept:
            self.skipTest("built without oneDNN")
        # All of them, as in the test above.
        path.write_text("".join('kernel { node: "%s" choice: "abacus" }\n' % kernel["for"].replace('"', '\\"') for kernel in kept) +
                        re.sub(r"(?ms)^kernel \{.*?^\}\n", "", path.read_text()))
        self.assertIn("abacus", self.error("step", *LENET, f"--tuning={path}", "--forward", "--keep-derived"))
        unused = self.run_snug("step", *LENET, "--steps=1", f"--tuning={path}", "--forward")
        self.assertIn("--tuning: none of its kernels is for a node here", unused.stdout + unused.stderr)
        self.assertIn("--keep-derived is for the forward pass alone", self.error("tune", *LENET, "--keep-derived"))

    def test_the_batch_is_the_one_to_be_trained_with(self):
        mlp = (ROOT / "models/mlp.pbtxt").read_text()
        network = self.write("mlp.pbtxt", mlp[:mlp.index("training {")] + "training { batch: 3 }\n")
        report = self.json("tune", network, "--seconds=0", "--threads=1", f"--output={self.folder}/t.pbtxt")
        self.assertEqual(report["batch"], 3)

    def test_plain_kernels_leave_nothing_to_choose(self):
        path, _ = self.tune("--threads=1", "--forward")
        self.assertIn("--plain-kernels: a tuning", self.error("step", *LENET, f"--tuning={path}", "--plain-kernels"))


class BenchTest(SnugTest):
    def test_nothing_is_varied_twice(self):
        self.assertIn("--vary: batch is named twice", self.error("bench", *LENET, "--vary=batch=1,2", "--vary=batch=3"))
        self.assertIn("--vary: batch=1 is named twice", self.error("bench", *LENET, "--vary=batch=1,2,1"))

    def test_variants_are_measured_side_by_side(self):
        found = self.json("bench", *LENET, "--seconds=0", "--threads=1", "--vary=memory=none,best", "--vary=streams=1,2")
        self.assertEqual(len(found["rows"]), 8)  # forward and training
        for row in found["rows"]:
            self.assertGreaterEqual(row["steps"], 3)
            self.assertGreater(row["seconds"], 0)
            self.assertEqual(row["planned_bytes"], row["measured_bytes"])
        none, best = (row for row in found["rows"] if row["mode"] == "training" and row["variant"].endswith("streams=1"))
        self.assertEqual(none["variant"], "memory=none streams=1")
        self.assertGreater(none["planned_bytes"], best["planned_bytes"])

    def test_kernels_of_an_op_are_measured_plain_and_fast(self):
        found = self.json("bench", *LENET, "--seconds=0", "--threads=1", "--op=conv_grad_weight")
        self.assertEqual(sum(row["nodes"] for row in found["rows"]), 2)
        for row in found["rows"]:
            self.assertGreater(min(row["seconds"], row["plain_seconds"], row["gflops_per_second"], row["gb_per_second"]), 0)
        self.assertIn('no node of these steps is a "softmaks"', self.error("bench", *LENET, "--seconds=0", "--op=softmaks"))

    def test_scaling_foretells_more_threads(self):
        found = self.json("bench", *LENET, "--seconds=0", "--scaling", "--threads=3")
        self.assertEqual(found["threads"], 3)
        self.assertEqual(set(found["copy_bytes_per_second"]), {"1", "2", "3"})
        ops = {op["op"]: op for op in found["ops"]}
        self.assertEqual(ops["conv_grad_weight"]["nodes"], 2)
        self.assertIn("(between ops)", ops)
        for op in ops.values():
            measured = op["seconds"]["2"]
            self.assertAlmostEqual(op["serial_seconds"] + op["parallel_seconds"] / 2, measured, delta=1e-9 + 1e-6 * measured)
            times = [op["predicted_seconds"][str(threads)] for threads in (4, 8, 16, 32, 64, 128)]
            self.assertEqual(times, sorted(times, reverse=True), "more threads never hurt in this model")
            self.assertGreaterEqual(times[-1], op["serial_seconds"])
            self.assertIn(op["limit"], ("serial", "memory", "threads"))
        self.assertAlmostEqual(sum(op["predicted_seconds"]["16"] for op in ops.values()), found["predicted_seconds"]["16"])
        text = self.run_snug("bench", *LENET, "--seconds=0", "--scaling", "--forward", "--threads=2").stdout
        self.assertRegex(text, r"(?m)^op +limit +nodes +on 1 +on 2 +serial +~4 .* ~128 +share 1 +share 64$")
        self.assertNotIn("conv_grad_weight", text)
        self.assertIn("64 threads: ", text)
        self.assertRegex(text, r"a copy: [\d.]+ GB/s on one thread, [\d.]+ on 2: memory ")
        self.assertIn("neither --op nor --vary", self.error("bench", *LENET, "--scaling", "--op=conv"))
        self.assertIn("--streams=1", self.error("bench", *LENET, "--scaling", "--streams=2"))

    def test_what_cannot_vary_is_said(self):
        self.assertIn("--vary: expected a flag and its values", self.error("bench", *LENET, "--vary=streams"))
        self.assertIn("unknown flag --streems", self.error("bench", *LENET, "--vary=streems=1,2"))
