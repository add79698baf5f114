"""CUDA's libraries in folders that the loader knows nothing of, as those of NVIDIA's Python packages. No GPU is needed.

SNUG_TEST_PYTHON names a Python that has such packages; without, the one that runs this is looked at.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from snug import BINARY, ROOT, SnugTest

LOADER = pathlib.Path("/lib64/ld-linux-x86-64.so.2")
NVRTC = ["libnvrtc.so", "libnvrtc-builtins.so"]
CUDNN = ["libcudnn.so", "libcudnn_graph.so", "libcudnn_ops.so", "libcudnn_heuristic.so",
         "libcudnn_engines_precompiled.so", "libcudnn_engines_runtime_compiled.so"]


def folder_of(stem):
    """Where this machine has a library: a folder that the loader knows, or the toolkit's. None: nowhere."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    found = [pathlib.Path(line.split(" => ")[1]) for line in listed.splitlines() if line.strip().startswith(stem)]
    found += pathlib.Path("/usr/local/cuda/lib64").glob(stem + ".*")
    return found[0].parent if found else None


@unittest.skipUnless(LOADER.exists(), "SKIPPED: needs glibc's loader, to be run without its cache")
class CudaLibrariesTest(SnugTest):
    def place(self, folder, stems, take=os.symlink):
        """A folder that has these libraries and nothing else."""
        source = folder_of(stems[0])
        if source is None or "NVRTC" not in self.json("doctor"):
            self.skipTest(f"SKIPPED: no {stems[0]}, or a build without CUDA")
        (self.folder / folder).mkdir(parents=True, exist_ok=True)
        for stem in stems:
            for file in source.glob(stem + ".*"):
                take(file, self.folder / folder / file.name)
        return self.folder / folder

    def hidden(self, *arguments, folders, **environment):
        """A command that finds CUDA's libraries in these folders only: the loader does without its list of others."""
        kept = {key: value for key, value in os.environ.items()
                if key not in ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")}
        done = subprocess.run([LOADER, "--inhibit-cache", BINARY, *arguments], capture_output=True, text=True, cwd=ROOT,
                              env={**kept, **environment, "OMP_WAIT_POLICY": "passive",
                                   "SNUG_CUDA_LIBRARIES": ":".join(map(str, folders))}, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def doctor(self, *folders):
        return json.loads(self.hidden("doctor", "--json", folders=folders).stdout)

    def plan(self, *folders):
        """What standard error says of a plan with fused nodes, if any are."""
        return self.hidden("plan", "models/mlp.pbtxt", "--device=cuda", folders=folders).stderr

    def test_nvrtc_compiles_wherever_it_lies_with_its_builtins(self):
        folder = self.place("nvidia/cu13/lib", NVRTC)
        found = self.doctor(folder)
        self.assertRegex(found["NVRTC"], r"^\d+\.\d+$")
        self.assertNotEqual(found["fused kernels"], "none")
        self.assertEqual(self.plan(folder), "")

    def test_nvrtc_without_its_builtins_is_no_compiler_and_that_is_said(self):
        folder = self.place("alone", NVRTC[:1])
        self.assertEqual(self.doctor(folder)["fused kernels"], "none")
        self.assertRegex(self.plan(folder), rf"without the pass fuse_elementwise: NVRTC was found in {folder} without "
                                            r"libnvrtc-builtins\.so\.\d+\.\d+, which it needs \(.*No such file")

    def test_cudnn_and_its_parts_in_a_folder_of_their_own(self):
        self.assertRegex(self.doctor(self.place("nvidia/cudnn/lib", CUDNN))["cuDNN"], r"^\d+\.\d+")

    def test_cudnn_without_one_of_its_parts_is_not_there(self):
        for i, part in enumerate(CUDNN[1:]):
            folder = self.place(f"all_but_{i}", [stem for stem in CUDNN if stem != part], take=os.symlink)
            # The loader's own folders may have the part.
            said = self.hidden("doctor", folders=[folder]).stdout
            if "cuDNN was found" in said:
                self.assertRegex(said, rf"cuDNN was found in {folder} without {part}\.\d+, which it needs")

    def test_the_folders_of_the_newest_python_packages_together(self):
        toolkit = self.place("nvidia/cu13/lib", [*NVRTC, "libcublasLt.so"])
        cudnn = self.place("nvidia/cudnn/lib", CUDNN)
        for folders in ([toolkit, cudnn], [cudnn, toolkit]):
            found = self.doctor(*folders)
            for library in ("NVRTC", "cuBLASLt", "cuDNN"):
                self.assertRegex(found[library], r"^\d+\.\d+", library)
            self.assertNotEqual(found["fused kernels"], "none")

    def test_cudnn_without_its_parts_does_not_end_the_program(self):
        folder = self.place("alone", CUDNN[:1], take=shutil.copy)
        self.assertEqual(self.doctor(folder)["cuDNN"], "none")
        self.assertRegex(self.hidden("doctor", folders=[folder]).stdout,
                         rf"cuDNN was found in {folder} without libcudnn_graph\.so\.\d+, which it needs")

    def test_cublaslt_in_a_folder_of_its_own(self):
        self.assertRegex(self.doctor(self.place("nvidia/cu13/lib", ["libcublasLt.so"]))["cuBLASLt"], r"^\d+\.\d+")

    def test_a_toolkit_that_only_a_variable_names(self):
        self.place("cuda/lib64", NVRTC)
        self.place("cuda/lib64", ["libcublasLt.so"])
        self.place("cuda/lib64", CUDNN)
        for variable in ("CUDA_HOME", "CUDA_PATH"):
            found = json.loads(self.hidden("doctor", "--json", folders=[], **{variable: str(self.folder / "cuda")}).stdout)
            for library in ("NVRTC", "cuBLASLt", "cuDNN"):
                self.assertRegex(found[library], r"^\d+\.\d+")
            self.assertNotEqual(found["fused kernels"], "none")

    def test_bundle_run_finds_what_a_python_brings(self):
        python = os.environ.get("SNUG_TEST_PYTHON", sys.executable)
        there = subprocess.run([python, "-c", "import nvidia; print(nvidia.__path__[0])"], capture_output=True, text=True,
                               check=False)
        packages = pathlib.Path(there.stdout.strip())
        if there.returncode != 0 or not list(packages.glob("*/lib/libnvrtc.so.*")) or "NVRTC" not in self.json("doctor"):
            self.skipTest("SKIPPED: a Python without NVIDIA's packages, or a build without CUDA")
        bundle = self.folder / "bundle"
        (bundle / "bench").mkdir(parents=True)
        for name in ("bench/gpu_notes.py", "bench/gpu_parts.py", "bench/gpu_visit.py", "tools/bundle-run"):
            shutil.copy(ROOT / name, bundle / name.replace("tools/", ""))
        (bundle / "commit").write_text("none")
        (bundle / "snug").write_text(f"#!/bin/sh\nexec {LOADER} --inhibit-cache {BINARY} \"$@\"\n")
        (bundle / "snug").chmod(0o755)
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "SNUG_CUDA_LIBRARIES", "OUT")}
        done = subprocess.run([python, bundle / "bundle-run", "machine"], capture_output=True, text=True,
                              env={**environment, "OMP_WAIT_POLICY": "passive"}, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for library in ("cuBLASLt", "cuDNN", "NVRTC"):
            if list(packages.glob(f"*/lib/lib{library}*") if library != "NVRTC" else packages.glob("*/lib/libnvrtc.so*")):
                self.assertRegex(done.stdout, rf"(?m)^ *{library} +\d+\.\d+")
        self.assertNotRegex(done.stdout, r"fused kernels +none")


if __name__ == "__main__":
    unittest.main()
