"""Every command: its help, what it says to wrong words, and its exit codes."""

import json
import os
import re
import subprocess

from snug import BINARY, ROOT, SnugTest


class CommandTest(SnugTest):
    def commands(self):
        listed = self.run_snug("--help").stdout.split("commands:")[1].split("\n\n")[0]
        return re.findall(r"^  (\S+)", listed, re.MULTILINE)

    def test_help_of_each_command_names_its_flags_and_goes_to_standard_output(self):
        commands = self.commands()
        self.assertIn("step", commands)
        for command in commands:
            done = self.run_snug(command, "--help")
            self.assertIn(f"usage: snug {command}", done.stdout)
            if command not in ("completion", "man", "watch"):  # what they give is for other programs already
                self.assertIn("--json", done.stdout, command)
            self.assertEqual(done.stderr, "")

    def test_no_command_is_a_mistake_that_shows_help(self):
        self.assertIn("usage: snug", self.error())

    def test_unknown_words_are_answered_with_the_nearest(self):
        self.assertIn('did you mean "step"', self.error("stpe"))
        self.assertIn("did you mean --batch?", self.error("step", "models/mlp.pbtxt", "--bacth=2"))
        for command in self.commands():
            self.assertIn("--nonsense", self.error(command, "--nonsense"))

    def test_a_flag_says_what_it_expected(self):
        self.assertIn("--batch", self.error("step", "models/mlp.pbtxt", "--batch=many"))
        self.assertIn("many", self.error("step", "models/mlp.pbtxt", "--batch=many"))
        self.assertIn("--threads", self.error("step", "models/mlp.pbtxt", "--threads=-1"))
        self.assertIn("float32", self.error("step", "models/mlp.pbtxt", "--precision=float31"))

    def test_idle_threads_spin_briefly_unless_told_otherwise(self):
        def idle(**environment):
            doctor = [BINARY, "doctor", "--json"]
            kept = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
            done = subprocess.run(doctor, capture_output=True, check=True, env={**kept, **environment})
            return json.loads(done.stdout)["idle threads"]

        self.assertEqual(idle(), "spin for 10000 turns")
        self.assertEqual(idle(GOMP_SPINCOUNT="7"), "spin for 7 turns")
        self.assertEqual(idle(OMP_WAIT_POLICY="passive"), "OMP_WAIT_POLICY=passive")

    def test_threads_that_openmp_binds_have_all_processors(self):
        def processors(**environment):
            freely = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
            kept = {k: v for k, v in os.environ.items() if k not in freely}
            doctor = [BINARY, "doctor", "--json"]
            done = subprocess.run(doctor, capture_output=True, check=True, env={**kept, **environment})
            return json.loads(done.stdout)["processors"]

        shown = subprocess.run([BINARY, "doctor"], capture_output=True, text=True,
                               env={**os.environ, "OMP_DISPLAY_ENV": "true"}).stderr
        if "OMP_PLACES" not in shown:
            self.skipTest("snug was built without OpenMP")
        self.assertEqual(processors(OMP_PROC_BIND="true"), processors())
        self.assertEqual(processors(OMP_PROC_BIND="true", GOMP_SPINCOUNT="7"), processors())
        one = min(os.sched_getaffinity(0))
        self.assertEqual(processors(OMP_PLACES=f"{{{one}}}", OMP_PROC_BIND="true"), "1")

    def test_an_unknown_instruction_set_is_refused(self):
        done = subprocess.run([BINARY, "doctor"], capture_output=True, text=True, env={**os.environ, "SNUG_ISA": "avx9"})
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn('SNUG_ISA: expected baseline, avx2 or avx512, found "avx9"', done.stderr)

    def test_a_file_that_is_not_there_is_named(self):
        self.assertIn("no_such.pbtxt", self.error("step", "no_such.pbtxt"))
        self.assertIn("expected", self.error("step").lower())


class StepTest(SnugTest):
    def test_losses_come_with_every_digit_and_are_the_same_again(self):
        first = self.json("step", "models/mlp.pbtxt", "--batch=8", "--steps=3", "--seed=5", "--threads=2")
        again = self.json("step", "models/mlp.pbtxt", "--batch=8", "--steps=3", "--seed=5", "--threads=2")
        other = self.json("step", "models/mlp.pbtxt", "--batch=8", "--steps=3", "--seed=6", "--threads=2")
        self.assertEqual(first["losses"], again["losses"])
        self.assertNotEqual(first["losses"], other["losses"])
        self.assertEqual(len(first["losses"]), 3)
        self.assertEqual(len(first["seconds"]), 3)
        self.assertEqual(first["threads"], 2)

    def test_a_mistake_in_the_file_is_located(self):
        path = self.write("bad.pbtxt", 'name: "x"\ninput { name: "i" shape { dim: 4 } }\nlayer { name: "l" input: "j" relu {} }\n')
        self.assertRegex(self.error("step", path), r"bad\.pbtxt:3:\d+: .*j")

    def test_a_layer_that_nothing_reads_is_said(self):
        with open(os.path.join(ROOT, "models/mlp.pbtxt"), encoding="utf-8") as file:
            network = file.read()
        path = self.write("skips.pbtxt", network.replace('input: "relu2" dense', 'input: "relu1" dense'))
        done = self.run_snug("step", path, "--steps=1")
        self.assertRegex(done.stderr, r"warning: .*skips\.pbtxt:\d+:\d+: nothing reads fc2\.weight, fc2\.bias")
        self.assertEqual(self.run_snug("step", "models/mlp.pbtxt", "--steps=1").stderr, "")

    def test_no_library_call_falls_back_to_a_reference_kernel(self):
        for model in ("lenet", "resnet18", "mobilenet_v2", "gpt_small"):
            done = self.run_snug("step", f"models/{model}.pbtxt", "--batch=2", "--steps=1", environment={"DNNL_VERBOSE": "1"})
            calls = [line for line in done.stdout.splitlines() if ",exec," in line]
            if not calls:
                self.skipTest("built without oneDNN")
            self.assertEqual([line for line in calls if ",ref" in line], [], model)


class CompileTest(SnugTest):
    def test_counts_equal_the_published_ones(self):
        published = {
            "resnet18": (11689512, 1814073344),
            "resnet50": (25557032, 4089184256),
            "mobilenet_v2": (3504872, 300774272),
            "vit_b16": (86567656, 16848500736),
            "gpt2": (124439808, 126496800768),
            "bert_base": (109514298, 13947568128),
            "alexnet": (61100840, 714188480),
            "vgg11": (132863336, 7609090048),
            "vgg16": (138357544, 15470264320),
            "vgg19": (143667240, 19632062464),
            "resnet34": (21797672, 3663761408),
            "resnet101": (44549160, 7801405440),
            "resnet152": (60192808, 11513626624),
            "squeezenet1_0": (1248424, 818924576),
            "densenet121": (7978856, 2834161664),
            "googlenet": (6624904, 1498376192),
            "googlenet_aux": (13004888, 1506748416),
            "inception_v3": (23834568, 5713216096),
            "mnasnet0_5": (2218512, 104455968),
            "mnasnet1_0": (4383312, 314415872),
            "efficientnet_b0": (5288548, 385814752),
            "convnext_tiny": (28589128, 4455531264),
            "r3d_18": (33371472, 40696553472),
            "llama_110m": (109529856, 112138911744),
            "xlmr_base": (278043648, 10872225792),
            "transformer_base": (63082496, 8061976576),
            "unet": (31037698, 48171581440),
            "neumf": (1602657, 43072),
            "resnet1001": (10327706, 1490995712),
            "dcgan": (6342272, 379379712),
            "inception_bn": (11295240, 2032600064),
        }
        for model, (parameters, multiply_adds) in published.items():
            found = self.json("compile", f"models/{model}.pbtxt")
            self.assertEqual((found["parameters"], found["multiply_adds"]), (parameters, multiply_adds), model)

    def test_gradients_need_a_backward_pass(self):
        self.assertIn("--gradients goes with --train", self.error("compile", "models/lenet.pbtxt", "--gradients=image"))

    def test_dump_writes_each_stage_as_text_and_dot(self):
        self.run_snug("compile", "models/lenet.pbtxt", "--train", f"--dump={self.folder}")
        names = sorted(path.name for path in self.folder.iterdir())
        self.assertTrue(any(name.endswith(".dot") for name in names), names)
        self.assertGreater(len(names), 5)


class OpsTest(SnugTest):
    def test_every_op_says_what_it_computes(self):
        text = self.run_snug("ops").stdout
        for op in ("conv(", "softmax_cross_entropy(", "adam_update("):
            self.assertTrue(op in text, op)
