"""The flags that mean the same everywhere: which command takes which, and that --json gives one document."""

import json
import re

from snug import SnugTest

# The common flags, and what goes without: a command that is not named there takes the flag.
NO_STEP = {"compile", "plan", "memcost", "fit"}  # compiles a network, but runs no step (memcost: only to measure)
CONVERSIONS = {"import", "export"}  # of files: nothing is run or planned
FOR_SHELLS = {"completion", "man"}  # print what is for other programs
INQUIRIES = {"ops", "doctor", "new"} | FOR_SHELLS  # say what there is, or write what they know
RUN_FOLDERS = {"watch", "compare"}  # look at what trainings left
NO_NETWORK = {"place", "order", "import"} | INQUIRIES | RUN_FOLDERS
SERVERS = {"watch"}  # print an address, and serve
WITHOUT = {
    "json": FOR_SHELLS | SERVERS,
    "device": NO_NETWORK,
    "batch": NO_NETWORK,
    "precision": NO_NETWORK,
    "tuning": NO_NETWORK,
    "tf32": NO_NETWORK,
    "fast": NO_NETWORK,
    "loops": NO_NETWORK,
    "recompute-rounds": NO_NETWORK,
    "stash-limit": NO_NETWORK,
    "streams": NO_NETWORK,
    "stream-policy": NO_NETWORK,
    "threads": INQUIRIES | RUN_FOLDERS,  # of ops, or of the search
    "memory": INQUIRIES | RUN_FOLDERS,
    "work-limit": INQUIRIES | RUN_FOLDERS,
    "time-limit": INQUIRIES | RUN_FOLDERS,
    "memory-limit": NO_NETWORK | {"memcost"},  # which shows what every strategy needs; place has --capacity
    "plan": NO_NETWORK | {"memcost", "fit"},  # which plan themselves
    "allocator": NO_NETWORK,
    "engine": NO_NETWORK | NO_STEP,
    "seed": NO_NETWORK | NO_STEP,
    "cuda-graph": NO_NETWORK | NO_STEP,
    "watchdog": NO_NETWORK | NO_STEP,
    "watchdog-abort": NO_NETWORK | NO_STEP,
    "check-access": NO_NETWORK | NO_STEP,
}

for name in WITHOUT.keys() - {"json", "batch", "seed"}:  # an export may be for so many samples, of parameters that are drawn
    WITHOUT[name] = WITHOUT[name] | CONVERSIONS

MLP = "models/mlp.pbtxt"
SMALL = ("--batch=4", "--threads=1")


class CommonFlagsTest(SnugTest):
    def commands(self):
        listed = self.run_snug("--help").stdout.split("commands:")[1].split("\n\n")[0]
        return re.findall(r"^  (\S+)", listed, re.MULTILINE)

    def flags(self, command):
        """Name to help text."""
        return dict(re.findall(r"^  --([a-z0-9-]+)\S*\s+(.*)$", self.run_snug(command, "--help").stdout, re.MULTILINE))

    def test_every_command_takes_the_flags_that_it_has_use_for(self):
        for command in self.commands():
            taken = self.flags(command)
            for flag, without in WITHOUT.items():
                self.assertEqual(flag in taken, command not in without, f"snug {command} --{flag}")

    def test_a_flag_says_the_same_wherever_it_is_taken(self):
        for flag in ("json", "device", "precision", "streams", "stream-policy", "engine", "watchdog", "check-access", "allocator"):
            texts = {self.flags(command)[flag] for command in self.commands() if command not in WITHOUT[flag]}
            if flag == "json":  # train and predict say when
                texts = {text for text in texts if text.startswith("print one JSON document;")}
            self.assertEqual(len(texts), 1, flag)

    def test_json_is_one_document_and_nothing_else(self):
        run = self.folder / "run"
        self.run_snug("train", MLP, "--threads=1", "--steps=2", "--data-digits-samples=64", f"--output={run}")
        trained = (MLP, *SMALL, f"--checkpoint={run}", "--batches=1")
        buffers = self.write("a.csv", "id,lower,upper,size\na,0,3,5\n")
        tasks = self.write("a.graph", "node 0 a\nnode 1 b\ntensor 0 0 8 1\n")
        examples = {
            "train": (MLP, "--threads=1", "--steps=2", "--data-digits-samples=64", f"--output={self.folder / 'again'}"),
            "eval": trained,
            "predict": (*trained, "--fetch=fc3"),
            "compare": (run, f"--html={self.folder / 'compare.html'}"),
            "find-lr": (MLP, "--threads=1", "--data-digits-samples=640", f"--svg={self.folder / 'lr.svg'}"),
            "step": (MLP, *SMALL, "--steps=1"),
            "compile": (MLP, *SMALL),
            "plan": (MLP, *SMALL),
            "memcost": (MLP, *SMALL, "--memory=none,dynamic"),
            "fit": (MLP, "--threads=1", "--memory-limit=10MB", "--memory=none"),
            "tune": (MLP, *SMALL, "--seconds=0", f"--output={self.folder / 'a.tuning.pbtxt'}"),
            "bench": (MLP, *SMALL, "--seconds=0", "--vary=streams=1,2"),
            "export": (MLP, f"--out={self.folder / 'mlp.onnx'}"),
            "import": (self.folder / "mlp.onnx", f"--out={self.folder / 'imported'}"),
            "ops": (),
            "doctor": (),
            "new": ("mlp", self.folder / "new.pbtxt"),
            "place": (buffers,),
            "order": (tasks,),
        }
        self.assertEqual(set(examples), set(self.commands()) - FOR_SHELLS - SERVERS)  # a new command needs an example here
        for command, arguments in examples.items():
            document = json.loads(self.run_snug(command, *arguments, "--json").stdout)
            self.assertTrue(document, command)


class DeviceTest(SnugTest):
    def test_the_processor_is_a_device(self):
        self.run_snug("step", MLP, *SMALL, "--steps=1", "--device=cpu")

    def test_what_is_no_device_is_said(self):
        for command in ("step", "compile", "fit"):
            self.assertIn('--device: expected cpu, cuda or cuda:N, found "gpu"', self.error(command, MLP, "--memory-limit=1GB", "--device=gpu"))
        self.assertIn("cuda:N", self.error("plan", MLP, "--device=cuda:-1"))

    def test_a_device_that_is_not_there_is_an_error_that_says_what_was_found(self):
        if "cuda:0" in self.json("doctor"):
            self.assertIn("no device cuda:999", self.error("step", MLP, *SMALL, "--device=cuda:999"))
            return
        error = self.error("step", MLP, *SMALL, "--device=cuda", code=1)
        expected = ("the CUDA driver was not found", "the driver shows none", "this build has no CUDA")
        self.assertTrue(any(text in error for text in expected), error)

    def test_planning_for_a_device_needs_none(self):
        if self.json("doctor").get("CUDA") == "not in this build":
            return
        there = self.json("plan", MLP, *SMALL, "--device=cuda")
        self.assertGreater(there["total"], 0)

    def test_products_are_a_librarys_or_our_own(self):
        if self.json("doctor").get("CUDA") == "not in this build":
            return
        kernels = {}
        for flag in ("", "--tf32", "--plain-kernels"):
            self.run_snug("compile", "models/gpt2.pbtxt", "--device=cuda", *flag.split(), f"--dump={self.folder}/{flag}")
            text = "".join(path.read_text() for path in sorted((self.folder / flag).iterdir()) if "order" in path.name)
            kernels[flag] = set(re.findall(r" dense\S* (?:cublaslt )?(\S+)", text))
        self.assertEqual(kernels, {"": {"library"}, "--tf32": {"library_tf32"}, "--plain-kernels": {"own"}})

    def test_small_products_are_our_own(self):
        if self.json("doctor").get("CUDA") == "not in this build":
            return
        self.run_snug("compile", MLP, "--batch=64", "--train", "--device=cuda", f"--dump={self.folder}/small")
        text = (self.folder / "small" / "80_order.txt").read_text()
        products = re.findall(r" (dense\S*) (.*)", text)
        self.assertEqual(len(products), 8)
        self.assertEqual({kernel for _, kernel in products}, {"small"})
        self.assertEqual([op for op, _ in products].count("dense_grad_input_relu"), 2)
        self.assertNotIn("relu_grad relu_grad", text)

    def test_what_may_vary_is_asked_for_and_named(self):
        if self.json("doctor").get("CUDA") == "not in this build":
            return
        lenet = ("compile", "models/lenet.pbtxt", *SMALL, "--train", "--device=cuda")
        self.assertNotIn("other bits", self.run_snug(*lenet).stderr)
        for flags, kernel in ((("--fast",), "library_fast"), (("--fast", "--tf32"), "library_tf32_fast")):
            said = self.run_snug(*lenet, *flags, f"--dump={self.folder}/{kernel}").stderr
            varying = re.search(r"may have other bits each time: (.*)", said)[1].split(", ")
            text = "".join(path.read_text() for path in sorted((self.folder / kernel).iterdir()) if "order" in path.name)
            self.assertEqual(sorted(re.findall(rf"^\d+ (\S+) conv_grad_\S+ cudnn {kernel}\b", text, re.MULTILINE)), sorted(varying))
            self.assertGreater(len(varying), 1)
        self.assertIn("--fast: expected --device=cuda", self.error("plan", MLP, "--fast"))
        self.assertIn("--fast: expected no --plain-kernels", self.error("plan", MLP, "--device=cuda", "--fast", "--plain-kernels"))

    def test_rounding_to_tf32_is_for_the_library_on_a_gpu(self):
        self.assertIn("--tf32: expected --device=cuda", self.error("plan", MLP, "--tf32"))
        if self.json("doctor").get("CUDA") != "not in this build":
            self.assertIn("--tf32: expected no --plain-kernels", self.error("plan", MLP, "--device=cuda", "--tf32", "--plain-kernels"))

    def test_a_tuning_is_for_a_machine_with_the_device(self):
        doctor = self.json("doctor")
        if doctor.get("CUDA") != "not in this build" and not any(name.startswith("cuda:") for name in doctor):
            for command in (("plan", MLP, "--tuning=file"), ("tune", MLP)):
                done = self.run_snug(*command, "--device=cuda", code=1)
                self.assertIn("the CUDA driver was not found", done.stderr)

    def test_on_or_off_is_nothing_else(self):
        self.assertIn('--cuda-graph: expected on or off, found "of"', self.error("step", MLP, "--cuda-graph=of"))
        self.assertIn('--upload-ahead: expected on or off, found "of"', self.error("train", MLP, "--upload-ahead=of"))


class RunFlagsTest(SnugTest):
    def test_training_and_inference_are_watched_and_checked(self):
        run = self.folder / "run"
        small = ("--data-digits-samples=64", "--steps=2")
        self.run_snug("train", MLP, *small, f"--output={run}", "--check-access", "--watchdog=60", "--engine=serial")
        trained = (MLP, f"--checkpoint={run}", "--batches=1", *SMALL)
        plain = self.json("eval", *trained)["metrics"]
        for flags in (["--check-access"], ["--engine=dynamic", "--streams=2"], ["--watchdog=60"]):
            self.assertEqual(self.json("eval", *trained, *flags)["metrics"], plain)
        for command in ("train", "eval", "step"):
            self.assertIn("--watchdog: expected seconds", self.error(command, *trained[:1], "--watchdog=-1"))


class MemoryLimitTest(SnugTest):
    def test_every_strategy_and_a_saved_plan_keep_it(self):
        plan = self.folder / "a.plan"
        taken = self.json("plan", MLP, *SMALL, f"--write-plan={plan}")["total"]
        for how in (["--memory=best"], ["--memory=none"], [f"--plan={plan}"], ["--memory=dynamic"]):
            self.assertIn("limit is 100", self.error("step", MLP, *SMALL, *how, "--memory-limit=100", code=1))
        self.run_snug("step", MLP, *SMALL, "--steps=1", f"--memory-limit={taken}")
        self.assertIn(f"takes {taken} bytes", self.error("step", MLP, *SMALL, f"--memory-limit={taken - 1}", code=1))
