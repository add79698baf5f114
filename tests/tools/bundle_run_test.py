"""tools/bundle-run with pretended programs in its folder: what is asked of them, and where what they say is kept."""

import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Notes its arguments and environment; answers like the real one.
SNUG = """#!{python}
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
with open(folder + "/asked", "a") as asked:
    asked.write(json.dumps([sys.argv[1:], os.environ["SNUG_CUDA_LIBRARIES"]]) + "\\n")
if sys.argv[1] == "step":
    steps = next(int(word.split("=")[1]) for word in sys.argv if word.startswith("--steps="))
    node = {{"node": "conv1", "op": "conv", "library": "cuDNN", "why": "status 3000"}}
    losses = [2.5, 2.25] if "--device=cpu" in sys.argv else [2.5, 2.2501]
    profile = {{"seconds": 0.5, "nodes": [{{**node, "kernel": "cudnn", "seconds": 0.4, "share": 0.8}}]}}
    kernel = {{"node": "conv1", "seconds": 0.2, "least_seconds": 0.1, "why": "tiles"}}
    if "CUDNN_LOGDEST_DBG" in os.environ and "--device=cuda" in sys.argv:
        open(os.environ["CUDNN_LOGDEST_DBG"], "w").write("W! no engine 17\\nW! no engine 18\\n")
    print(json.dumps({{"seconds": [0.5] * steps, "measured_bytes": 7, "planned_bytes": 7, "fallbacks": 1, "losses": losses,
                      "fallback_nodes": [node], "profile": profile,
                      "roofline": {{"seconds": 0.3, "kernels": [kernel]}}}}))
elif sys.argv[1] == "memcost" and os.path.exists(folder + "/broken"):
    print(json.dumps({{"rows": 5}}))
elif "--json" in sys.argv:
    print(json.dumps({{"error": "pretended"}}))
else:
    print("NVRTC 13.0")
"""
TESTS = """#!{python}
import json, os, sys
if "--gtest_list_tests" in sys.argv:
    print("Cuda.\\n  relu/small\\n  conv/small\\nFusion.\\n  OfChains\\nModels/CudaTraining.\\n  Loses/mlp")
else:
    file = next(word.split("json:")[1] for word in sys.argv if word.startswith("--gtest_output="))
    test = {{"name": "conv/small", "result": "COMPLETED", "refused": "cuDNN: status 3000"}}
    names = next(word.split("=")[1].split(":") for word in sys.argv if word.startswith("--gtest_filter="))
    if os.path.exists(os.path.dirname(os.path.abspath(__file__)) + "/disturbed") and len(names) > 1:
        test["failures"] = [{{"failure": "less memory is free"}}]
    json.dump({{"testsuites": [{{"name": "Cuda", "testsuite": [test]}}]}}, open(file, "w"))
"""
PEER = """
import json
print(json.dumps({"seconds": 0.25, "bytes_per_second": 3e12, "flops_per_second": 6e14, "peak_bytes": 9, "processors": 132,
                  "device": "pretended", "l2_bytes": 50e6}))
"""


class BundleRunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bundle = self.folder / "bundle"
        (self.bundle / "bench").mkdir(parents=True)
        for name in ("gpu_notes.py", "gpu_parts.py", "gpu_visit.py"):
            shutil.copy(ROOT / "bench" / name, self.bundle / "bench")
        shutil.copy(ROOT / "tools/bundle-run", self.bundle)
        for name, text in (("snug", SNUG), ("snug_gpu_test", TESTS)):
            (self.bundle / name).write_text(text.format(python=sys.executable))
            (self.bundle / name).chmod(0o755)
        (self.bundle / "commit").write_text("abc\n")
        (self.bundle / "bench/torch_gpu_peer.py").write_text(PEER)

    def run_part(self, *words, code=0, **environment):
        kept = {key: value for key, value in os.environ.items() if key not in ("OUT", "SNUG_CUDA_LIBRARIES")}
        done = subprocess.run([sys.executable, self.bundle / "bundle-run", *map(str, words)], capture_output=True,
                              text=True, env={**kept, **environment}, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def asked(self):
        """What the pretended program was asked so far: its words, and where CUDA's libraries are."""
        file = self.bundle / "asked"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def test_what_was_measured_goes_to_the_folder_that_is_named_and_is_not_measured_again(self):
        out = self.folder / "out"
        self.run_part("libraries", OUT=str(out))
        self.assertEqual([path.name for path in out.iterdir()], ["results.json"])
        self.assertFalse((self.bundle / "results.json").exists())
        measured = len(self.asked())
        self.assertGreater(measured, 4)

        kept = self.folder / "kept.json"  # the machine forgets, the bundle is new
        shutil.move(out / "results.json", kept)
        again = self.run_part("libraries", "--results", kept, OUT=str(out))
        self.assertIn("| gpt_small", again)
        self.assertEqual(len(self.asked()), measured)
        self.run_part("machine", "--results", kept, OUT=str(out))
        self.assertEqual(len(self.asked()), measured + 1)
        parts = {key.split("/")[0] for key in json.loads((out / "results.json").read_text())}
        self.assertEqual(parts, {"libraries", "machine"})

    def test_it_stays_in_the_bundle_where_no_folder_is_named(self):
        self.run_part("machine")
        self.assertIn("machine/all", json.loads((self.bundle / "results.json").read_text()))

    def test_programs_are_unpacked_where_they_are_missing_or_of_another_bundle(self):
        program, packed = self.bundle / "snug", self.bundle / "snug.gz"
        for says in ("NVRTC 13.0", "NVRTC 13.1"):  # the second one is of a bundle that was copied over the first
            packed.write_bytes(gzip.compress(SNUG.format(python=sys.executable).replace("NVRTC 13.0", says).encode()))
            if says == "NVRTC 13.0":
                program.unlink()
            os.utime(packed, (1000, 1000 + int(says[-1])))  # older than what was unpacked
            self.assertIn(says, self.run_part("machine", "--again"))
        unpacked = program.stat()
        self.run_part("machine", "--again")
        self.assertEqual(program.stat().st_ino, unpacked.st_ino)

    def test_earlier_results_that_cannot_be_read_are_an_error(self):
        self.assertIn("--results", self.run_part("machine", "--results", self.folder / "none.json", code=2))

    def test_gpt2_takes_few_steps(self):
        self.run_part("transformers")
        steps = {words[1]: next(word for word in words if word.startswith("--steps=")) for words, _ in self.asked()}
        self.assertEqual(steps, {"models/gpt2.pbtxt": "--steps=8", "models/gpt_small.pbtxt": "--steps=33",
                                 "models/vit_b16.pbtxt": "--steps=33"})

    def test_what_a_library_refuses_is_in_the_tables(self):
        self.assertIn("cuDNN does not serve conv1 (conv), our own kernel does: status 3000", self.run_part("libraries"))
        self.assertIn("REFUSED Cuda.conv/small cuDNN: status 3000", self.run_part("tests"))

    def test_what_fails_beside_others_is_tried_by_itself(self):
        (self.bundle / "disturbed").touch()
        text = self.run_part("tests")
        self.assertIn("tests/alone/Cuda.conv/small", text)
        self.assertNotIn("FAILED", text)
        self.assertRegex(text, r"\| passed +\| skipped +\| failed +\|\n[|-]+\n\| 1 +\| 0 +\| 0 +\|")

    def test_first_steps_are_compared_with_each_other_and_with_the_processors(self):
        text = self.run_part("smoke")
        self.assertRegex(text, r"\| mlp +\| float32 +\| 3 of 3 +\| yes +\| yes +\| 4.4e-05 +\|")
        self.assertIn("smoke/mlp/float32/graph: log: W! no engine 17", text)
        self.assertNotIn("no engine 18", text)  # alike
        self.assertNotIn("smoke/mlp/float32/cpu: log", text)

    def test_a_profile_stands_beside_the_roofline_of_what_the_device_was_measured_to_do(self):
        out = self.folder / "out"
        text = self.run_part("profile", OUT=str(out))
        self.assertRegex(text, r"\| conv1 +\| conv +\| cudnn +\| 400000.0 +\| 80.0% +\| 200000.0 +\| 25% +\| tiles +\|")
        self.assertIn("dram_gb_per_second: 3000.0", (out / "device.pbtxt").read_text())
        step = [words for words, _ in self.asked() if "--profile" in words][0]
        self.assertIn(f"--roofline={out / 'device.pbtxt'}", step)

    def test_peers_are_pytorch_in_all_its_modes(self):
        text = self.run_part("peers")
        self.assertRegex(text, r"\| resnet50 +\| 256 +\| bfloat16 +\| 512 +\| 1024 +\| 1024 +\| 1024 +\| 1024 +\| 0.50 ")

    def test_a_visit_does_all_and_goes_on_after_what_failed(self):
        (self.bundle / "broken").touch()  # memcost prints what no part expects
        (self.bundle / "snug_gpu_test").unlink()
        out = self.folder / "out"
        text = self.run_part("visit", OUT=str(out), code=1)
        self.assertRegex(text, r"\| tests +\| failed .*snug_gpu_test --gtest_list_tests")
        self.assertRegex(text, r"\| peers +\| done ")
        self.assertRegex(text, r"\| sanitizer +\| failed ")
        self.assertRegex(text, r"\| tuning +\| ")  # after all that is in a stage
        self.assertLess(text.index("== smoke"), text.index("== tests"))
        self.assertLess(text.index("== peers"), text.index("== memory"))
        self.assertEqual(json.loads((out / "results.json").read_text())["visit/tests"]["state"], "failed")

    def test_a_visit_goes_on_where_an_earlier_one_was_ended_and_does_nothing_twice(self):
        text = self.run_part("visit", "--minutes=0", code=3)
        self.assertEqual(self.asked(), [])
        self.assertRegex(text, r"\| smoke +\| out of time \|")
        self.run_part("smoke")
        begun = len(self.asked())
        self.assertGreater(begun, 0)
        first = self.run_part("visit", code=0)
        self.assertNotIn("] smoke/", first)
        done = len(self.asked())
        again = self.run_part("visit", code=0)
        self.assertEqual(len(self.asked()), done)
        self.assertIn("| resnet50", again)  # the tables, from what is noted
        tests = [group for group in json.loads((self.bundle / "results.json").read_text()) if group.startswith("tests/")]
        self.assertEqual(tests, ["tests/Models/CudaTraining.Loses/mlp"])  # first in its group

    def test_what_ended_in_an_error_is_tried_again_if_asked(self):
        results = self.bundle / "results.json"
        results.write_text(json.dumps({"peers/mlp/64/float32/snug": {"error": "no device"}}))
        self.assertIn("peers/mlp/64/float32/snug: no device", self.run_part("peers"))
        self.assertNotIn("no device", self.run_part("peers", "--retry"))

    def test_the_libraries_of_pythons_packages_are_found(self):
        site = self.folder / "site"
        for library in ("nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cudnn/lib/libcudnn.so.9"):
            (site / library).parent.mkdir(parents=True)
            (site / library).touch()
        self.run_part("machine", PYTHONPATH=str(site))
        folders = self.asked()[0][1].split(":")
        for library in ("cu13", "cudnn"):
            self.assertIn(str(site / "nvidia" / library / "lib"), folders)


if __name__ == "__main__":
    unittest.main()
