"""tools/bundle-run with pretended programs in its folder: what is asked of them, and where what they say is kept."""

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
    print(json.dumps({{"seconds": [0.5] * steps, "measured_bytes": 7, "planned_bytes": 7, "fallbacks": 1,
                      "fallback_nodes": [node]}}))
else:
    print("NVRTC 13.0")
"""
TESTS = """#!{python}
import json, sys
if "--gtest_list_tests" in sys.argv:
    print("Cuda.\\n  conv/small")
else:
    file = next(word.split("json:")[1] for word in sys.argv if word.startswith("--gtest_output="))
    test = {{"name": "conv/small", "result": "COMPLETED", "refused": "cuDNN: status 3000"}}
    json.dump({{"testsuites": [{{"name": "Cuda", "testsuite": [test]}}]}}, open(file, "w"))
"""


class BundleRunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bundle = self.folder / "bundle"
        (self.bundle / "bench").mkdir(parents=True)
        for name in ("gpu_notes.py", "gpu_parts.py"):
            shutil.copy(ROOT / "bench" / name, self.bundle / "bench")
        shutil.copy(ROOT / "tools/bundle-run", self.bundle)
        for name, text in (("snug", SNUG), ("snug_gpu_test", TESTS)):
            (self.bundle / name).write_text(text.format(python=sys.executable))
            (self.bundle / name).chmod(0o755)
        (self.bundle / "commit").write_text("abc\n")
        (self.bundle / "bench/torch_gpu_peer.py").write_text('print("{}")\n')

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
