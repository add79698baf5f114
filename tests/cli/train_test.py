"""`snug train` as a user meets it: what it leaves, how it stops and goes on, and what it says of mistakes."""

import fcntl
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
import xml.dom.minidom

from snug import BINARY, ROOT

SNUG = str(BINARY)
MLP = str(ROOT / "models" / "mlp.pbtxt")
COPY = str(ROOT / "models" / "copy.pbtxt")


def snug(*arguments, **more):
    return subprocess.run([SNUG, *arguments], capture_output=True, text=True, timeout=300, **more)


def room_in(pipe):
    held = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - int.from_bytes(held, sys.byteorder)


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def has_dealt_with(pid, number):
    """Whether a program that was sent a signal is past its handler, and sleeps."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    return status["State"].startswith("S") and not int(status["ShdPnd"], 16) & 1 << number - 1


def train(output, *arguments):
    return snug("train", MLP, f"--output={output}", "--data=digits", "--data-digits-samples=640", "--batch=32",
                "--threads=1", "--evaluate-batches=5", *arguments)


def newest(output):
    names = sorted(os.listdir(os.path.join(output, "checkpoints")))
    with open(os.path.join(output, "checkpoints", names[-1]), "rb") as file:
        return names, file.read()


def without_header(content):
    """The bytes of a safetensors file's tensors."""
    (length,) = struct.unpack_from("<Q", content)
    return content[8 + length:]


def tensors(path):
    """Of a safetensors file, whose numbers are all double or int64; and its metadata."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__")
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        found[name] = struct.unpack_from(f"<{(end - begin) // 8}{'d' if entry['dtype'] == 'F64' else 'q'}", content,
                                         8 + length + begin)
    return found, metadata


class Train(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def test_leaves_checkpoints_metrics_and_a_curve(self):
        run = train(self.path("a"), "--steps=30", "--evaluate-every=10", "--checkpoint-every=10",
                    "--checkpoint-keep=2", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        result = json.loads(run.stdout)
        self.assertEqual((result["steps"], result["finished"]), (30, True))
        self.assertIn("accuracy", result["evaluation"])
        names, _ = newest(self.path("a"))
        self.assertEqual(names, ["step-000000020.safetensors", "step-000000030.safetensors"])
        with open(self.path("a/metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["step"] for line in lines if line["kind"] == "step"], list(range(1, 31)))
        self.assertEqual([line["step"] for line in lines if line["kind"] == "evaluation"], [10, 20, 30])
        picture = xml.dom.minidom.parse(self.path("a/curve.svg"))
        self.assertEqual(picture.documentElement.tagName, "svg")

    def test_without_a_plan_training_is_the_same(self):
        flags = ("--steps=20", "--evaluate-every=10", "--checkpoint-every=20")
        for name, memory in (("planned", ()), ("dynamic", ("--memory=dynamic", "--memory-limit=20MB"))):
            run = train(self.path(name), *flags, *memory)
            self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(newest(self.path("planned")), newest(self.path("dynamic")))

    def test_resumed_is_as_uninterrupted(self):
        self.assertEqual(train(self.path("whole"), "--steps=80").returncode, 0)
        steps = ["--steps=80", "--checkpoint-every=13"]
        # A pipe of 4096 bytes holds about 45 lines: when the seventh step's is read, the training cannot be over.
        interrupted = subprocess.Popen(
            [SNUG, "train", MLP, f"--output={self.path('part')}", "--data=digits", "--data-digits-samples=640",
             "--batch=32", "--threads=1", "--evaluate-batches=5", *steps, "--log-every=1"], stdout=subprocess.PIPE, text=True,
            pipesize=4096)
        for line in interrupted.stdout:
            if "step 7/" in line:
                interrupted.send_signal(signal.SIGINT)
        self.assertEqual(interrupted.wait(timeout=120), 4)
        interrupted.stdout.close()
        names, _ = newest(self.path("part"))
        self.assertLess(names[-1], "step-000000080.safetensors")
        resumed = train(self.path("part"), *steps, "--resume")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(newest(self.path("part"))[1], newest(self.path("whole"))[1])
        with open(self.path("part/metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["step"] for line in lines if line["kind"] == "step"], list(range(1, 81)))

    def test_an_older_training_goes_on_with_the_weight_decay_that_it_began_with(self):
        data = ROOT / "tests/data/before_decay"

        def go_on(name, *arguments):
            os.makedirs(self.path(f"{name}/checkpoints"), exist_ok=True)
            if not os.listdir(self.path(f"{name}/checkpoints")):
                shutil.copy(data / "step-000000003.safetensors", self.path(f"{name}/checkpoints"))
            run = snug("train", str(data / "net.pbtxt"), f"--data-csv-file={data / 'points.csv'}", "--threads=1",
                       f"--output={self.path(name)}", "--resume", *arguments)
            self.assertEqual(run.returncode, 0, run.stderr)
            return run.stderr, tensors(os.path.join(self.path(f"{name}/checkpoints"), newest(self.path(name))[0][-1]))

        said = "warning: fc.bias, out.bias: this training began when biases of dense layers had no weight decay"
        stderr, (found, metadata) = go_on("old", "--steps=6")
        self.assertIn(said, stderr)
        self.assertEqual(metadata["decay"], "not-dense-biases")
        expected, _ = tensors(data / "step-000000006.safetensors")
        self.assertEqual(sorted(found), sorted(expected))
        for name, numbers in expected.items():
            for a, b in zip(found[name], numbers):
                self.assertAlmostEqual(a, b, delta=1e-13, msg=name)
        stderr, (written, _) = go_on("written", "--steps=6", "--no-decay=fc.bias,out.bias")
        self.assertNotIn("warning", stderr)
        self.assertEqual(found, written)  # to the bit
        stderr, (_, metadata) = go_on("old", "--steps=9")  # and so for ever after
        self.assertIn(said, stderr)
        self.assertEqual(metadata["decay"], "not-dense-biases")

        new = snug("train", str(data / "net.pbtxt"), f"--data-csv-file={data / 'points.csv'}", "--threads=1",
                   f"--output={self.path('new')}", "--steps=6")
        self.assertEqual(new.returncode, 0, new.stderr)
        self.assertNotIn("weight decay", new.stderr)
        found, metadata = tensors(self.path("new/checkpoints/step-000000006.safetensors"))
        self.assertEqual(metadata["decay"], "all")
        self.assertNotAlmostEqual(found["out.bias"][0], expected["out.bias"][0], delta=1e-3)

    def test_micro_batches_take_less_memory_and_train_alike(self):
        whole = train(self.path("whole"), "--steps=12", "--precision=float64", "--json")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        parts = train(self.path("parts"), "--steps=12", "--precision=float64", "--accumulate=4", "--json")
        self.assertEqual(parts.returncode, 0, parts.stderr)
        self.assertIn("each step in 4 micro-batches of 8 samples", parts.stderr)
        a, b = json.loads(whole.stdout), json.loads(parts.stdout)
        self.assertEqual((b["batch"], b["micro_batches"], b["steps"]), (32, 4, 12))
        self.assertLess(b["step_bytes"], a["step_bytes"])
        self.assertAlmostEqual(a["training"]["loss"], b["training"]["loss"], places=10)
        self.assertAlmostEqual(a["evaluation"]["loss"], b["evaluation"]["loss"], places=10)
        odd = train(self.path("odd"), "--accumulate=5")
        self.assertEqual(odd.returncode, 2)
        self.assertIn("accumulate: expected a divisor of the batch, 32 samples, found 5", odd.stderr)

    def test_micro_batches_are_resumed_bit_for_bit_and_with_another_number(self):
        flags = ("--steps=20", "--accumulate=4", "--checkpoint-every=10")
        self.assertEqual(train(self.path("whole"), *flags).returncode, 0)
        self.assertEqual(train(self.path("part"), *flags).returncode, 0)
        os.remove(self.path("part/checkpoints/step-000000020.safetensors"))
        resumed = train(self.path("part"), *flags, "--resume")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertNotIn("warning", resumed.stderr)
        self.assertEqual(newest(self.path("part")), newest(self.path("whole")))
        os.remove(self.path("part/checkpoints/step-000000020.safetensors"))
        other = train(self.path("part"), "--steps=20", "--accumulate=2", "--resume")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertIn("made with accumulate 4, this run has 2: results differ in rounding, and by what batch norm", other.stderr)

    def test_stochastic_rounding_halves_the_state_and_is_resumed_bit_for_bit(self):
        flags = ("--steps=20", "--precision=bfloat16", "--checkpoint-every=10", "--json")
        wide = train(self.path("wide"), *flags)
        self.assertEqual(wide.returncode, 0, wide.stderr)
        flags += ("--stochastic-rounding",)
        whole = train(self.path("whole"), *flags)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        a, b = json.loads(wide.stdout), json.loads(whole.stdout)
        self.assertAlmostEqual(a["state_bytes"] / b["state_bytes"], 2, delta=0.01)
        self.assertAlmostEqual(a["training"]["loss"], b["training"]["loss"], delta=0.05)
        self.assertEqual(train(self.path("part"), *flags).returncode, 0)
        last = self.path("part/checkpoints/step-000000020.safetensors")
        os.remove(last)
        resumed = train(self.path("part"), *flags, "--resume")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(newest(self.path("part")), newest(self.path("whole")))
        os.remove(last)
        other = train(self.path("part"), *flags[:-1], "--resume")
        self.assertEqual(other.returncode, 2)
        self.assertIn("made with stochastic_rounding on, this run has off", other.stderr)
        evaluated = snug("eval", MLP, f"--checkpoint={self.path('whole')}", "--data=digits", "--data-digits-samples=640",
                         "--json")  # in float32, from parameters of bfloat16
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        in_float32 = train(self.path("none"), "--stochastic-rounding")
        self.assertEqual(in_float32.returncode, 2)
        self.assertIn("--stochastic-rounding: expected --precision=bfloat16", in_float32.stderr)

    def test_a_loss_that_is_not_finite_loses_nothing(self):
        with open(self.path("net.pbtxt"), "w", encoding="utf-8") as file:
            file.write('name: "net" input { name: "point" shape { dim: 2 } } input { name: "label" dtype: INT32 }\n'
                       'layer { name: "out" input: "point" dense { units: 2 } }\n'
                       'layer { name: "boom" input: "out" exp {} }\n'
                       'layer { name: "loss" input: "boom" input: "label" softmax_cross_entropy {} }\n'
                       'objective: "loss" training { data { shuffle: false held_back: 0 } }\n')
        def table(last):
            with open(self.path("points.csv"), "w", encoding="utf-8") as file:
                file.write("x,y,side\n" + "".join(f"{i % 7 - 3},{i % 5 - 2},{i % 2}\n" for i in range(30)) + last)
        flags = (self.path("net.pbtxt"), "--data=csv", f"--data-csv-file={self.path('points.csv')}", "--batch=4",
                 "--learning-rate=0.01", "--steps=10", "--threads=1")
        for accumulate in ("--accumulate=1", "--accumulate=2"):
            with self.subTest(accumulate=accumulate):
                output = self.path(accumulate)
                table("1e30,-1e30,0\n1,1,1\n")  # of 8 steps the last
                run = snug("train", *flags, accumulate, f"--output={output}")
                self.assertEqual(run.returncode, 1)
                kept = os.path.join(output, "checkpoints", "step-000000007.safetensors")
                self.assertIn("step 8: the loss is not finite", run.stderr)
                self.assertIn('net.pbtxt:3:1: layer "boom" (exp): the first node', run.stderr)
                self.assertIn(f"The state after step 7 is in {kept}\n--resume goes on from it", run.stderr)
                self.assertTrue(os.path.exists(kept))
                self.assertTrue(os.path.exists(os.path.join(output, "curve.svg")))
                again = snug("train", *flags, accumulate, f"--output={output}", "--resume")
                self.assertIn("step 8: the loss is not finite", again.stderr)
                table("1,-1,0\n1,1,1\n")
                mended = snug("train", *flags, accumulate, f"--output={output}", "--resume")
                self.assertIn("--resume-with=data", mended.stderr)
                mended = snug("train", *flags, accumulate, f"--output={output}", "--resume-with=data")
                self.assertEqual(mended.returncode, 0, mended.stderr)
                self.assertEqual(snug("train", *flags, accumulate, f"--output={output}-whole").returncode, 0)
                self.assertEqual(without_header(newest(output)[1]), without_header(newest(f"{output}-whole")[1]))

    def test_a_second_signal_ends_it_at_once(self):
        run = subprocess.Popen([SNUG, "train", MLP, f"--output={self.path('b')}", "--data=digits", "--epochs=1000",
                                "--threads=1", "--log-every=1"], stdout=subprocess.PIPE, pipesize=4096)
        try:
            # Nobody reads what it says, and when the pipe is full it waits. So it cannot do what the first signal asks
            # for, to end after the step that it is at: it would have some lines more to say.
            while room_in(run.stdout) >= 100:  # one line takes less
                self.assertIsNone(run.poll())
            run.send_signal(signal.SIGTERM)
            while not has_dealt_with(run.pid, signal.SIGTERM):
                pass
            self.assertIsNone(run.poll())
            run.send_signal(signal.SIGTERM)
            self.assertEqual(run.wait(), 128 + signal.SIGTERM)
        finally:
            run.kill()
            run.stdout.close()
            run.wait()

    def test_a_directory_that_was_used_is_not_written_over(self):
        self.assertEqual(train(self.path("c"), "--steps=3").returncode, 0)
        again = train(self.path("c"), "--steps=3")
        self.assertEqual(again.returncode, 2)
        self.assertIn("--resume", again.stderr)
        other = train(self.path("c"), "--steps=6", "--resume", "--seed=5")
        self.assertEqual(other.returncode, 2)
        self.assertIn("made with seed 0, this run has 5", other.stderr)

    def test_two_trainings_do_not_share_a_folder(self):
        output = self.path("shared")
        first = subprocess.Popen(
            [SNUG, "train", MLP, f"--output={output}", "--data=digits", "--data-digits-samples=640", "--batch=32", "--threads=1",
             "--steps=1000000", "--checkpoint-every=5", "--log-every=1", "--evaluate-batches=5"], stdout=subprocess.PIPE, text=True, pipesize=4096)  # some 45 lines ahead, and waits
        checkpoints = os.path.join(output, "checkpoints")
        try:
            for line in first.stdout:
                if "step 7/" in line:
                    first.send_signal(signal.SIGSTOP)
                    break
            while not is_stopped(first.pid):
                pass
            files = sorted(str(path) for path in pathlib.Path(output).rglob("*"))
            with open(os.path.join(output, "metrics.jsonl"), "rb") as file:
                before = file.read()
            for more in ((), ("--resume",)):
                second = train(output, "--steps=20", *more)
                self.assertEqual(second.returncode, 2, second.stderr)
                self.assertIn("metrics.jsonl: another training is writing here", second.stderr)
            elsewhere = train(self.path("elsewhere"), "--steps=20", "--resume", f"--checkpoint-directory={checkpoints}")
            self.assertEqual(elsewhere.returncode, 2, elsewhere.stderr)
            self.assertIn(f"{checkpoints}: another training keeps its checkpoints here", elsewhere.stderr)
            self.assertEqual(sorted(str(path) for path in pathlib.Path(output).rglob("*")), files)
            with open(os.path.join(output, "metrics.jsonl"), "rb") as file:
                self.assertEqual(file.read(), before)
        finally:
            first.kill()
        again = train(output, "--steps=200", "--resume")  # at once: its lock goes with it
        first.stdout.close()
        first.wait()
        self.assertEqual(again.returncode, 0, again.stderr)
        with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
            steps = [line["step"] for line in map(json.loads, file) if line["kind"] == "step"]
        self.assertEqual(steps, list(range(1, 201)))

    def test_checkpoints_that_have_no_place_are_told_before_the_first_step(self):
        with open(self.path("taken"), "w", encoding="utf-8"):
            pass
        run = train(self.path("t"), "--steps=3", f"--checkpoint-directory={self.path('taken/in/it')}")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn(self.path("taken"), run.stderr)
        self.assertNotIn("step 1", run.stdout)

    def test_a_metric_may_not_be_called_as_a_number_of_every_line(self):
        with open(MLP, encoding="utf-8") as file:
            network = file.read()
        for name in ("kind", "step", "epoch", "learning_rate", "seconds", "waited"):
            with self.subTest(name=name):
                changed = network.replace('"accuracy"', f'"{name}"')
                with open(self.path("net.pbtxt"), "w", encoding="utf-8") as file:
                    file.write(changed)
                before = changed[:changed.index(f'"{name}"', changed.index("\noutput:"))]
                run = snug("train", self.path("net.pbtxt"), "--data=digits", "--steps=1", f"--output={self.path(name)}")
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertIn(f'net.pbtxt:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}: output "{name}": every '
                              f'line of metrics.jsonl has a "{name}" of its own: give this layer another name', run.stderr)
                self.assertFalse(os.path.exists(self.path(name)))

    def test_why_it_failed_before_its_first_step_is_left(self):
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        run = train(self.path("t"), "--steps=3", f"--tensorboard={self.path('file/tb')}")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn(self.path("file/tb"), run.stderr)
        with open(self.path("t/run.json"), encoding="utf-8") as file:
            record = json.load(file)
        self.assertEqual((record["state"], record["error"]), ("failed", run.stderr.splitlines()[-1]))

    def test_a_network_without_a_name_is_called_as_its_file(self):
        with open(MLP, encoding="utf-8") as mlp, open(self.path("called_so.pbtxt"), "w", encoding="utf-8") as file:
            file.write(mlp.read().replace('name: "mlp"', "", 1))
        done = snug("train", "called_so.pbtxt", "--data=digits", "--steps=1", cwd=self.directory.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.exists(self.path("runs/called_so/metrics.jsonl")))

    def test_no_checkpoint_goes_before_a_resumed_training_has_come_further(self):
        steps = [f"step-{step:09}.safetensors" for step in (1, 2, 3)]
        train(self.path("k"), "--steps=3", "--checkpoint-every=1")
        os.remove(self.path("k/metrics.jsonl"))
        os.mkdir(self.path("k/metrics.jsonl"))  # so that the next one fails before its first step
        failed = train(self.path("k"), "--steps=6", "--resume", "--checkpoint-keep=1")
        self.assertIn("metrics.jsonl", failed.stderr)
        self.assertEqual(sorted(os.listdir(self.path("k/checkpoints"))), steps)
        os.rmdir(self.path("k/metrics.jsonl"))
        train(self.path("k"), "--steps=6", "--resume", "--checkpoint-keep=1")
        self.assertEqual(os.listdir(self.path("k/checkpoints")), ["step-000000006.safetensors"])

    def test_mistakes(self):
        for arguments, expected in [
                (["--data=digit"], 'did you mean "digits"'),
                (["--data=digits", "--epochs=two"], "--epochs: expected a whole number"),
                (["--data=digits", "--schedule=cosin"], 'did you mean "cosine"'),
                (["--data=csv", "--data-digits-samples=5"], "is for digits, but csv was chosen"),
                (["--data=digits", "--steps=5", "--epochs=2"], "epochs and steps"),
                (["--data=digits", "--no-decay=*.biass"], '--no-decay: "*.biass": no parameter has such a name'),
                (["--data=digits", "--optimizer=adan"], 'did you mean "adam"'),
                (["--data=digits", "--adam-beta1=0.9", "--optimizer=sgd"], "is for sgd, but adam was chosen"),
                (["--data=digits", "--memory-limit=100kB"], "the limit is 100000; no plan takes less than"),
                (["--data=digits", "--memory-limit=lots"], "--memory-limit"),
                (["--data=digits", "--init-from=/nowhere.safetensors"], "/nowhere.safetensors"),
                (["--data=digits", "--training=/nowhere.pbtxt"], "/nowhere.pbtxt"),
                (["--data=digits", "--precision=float8"], "float8"),
                (["--data=digits", "--resume"], "--resume"),
                (["--data=digits", "--checkpoint-keep=4294967297"], "--checkpoint-keep: expected a whole number of at most 1000000000"),
                (["--data=digits", "--epochs=1700000000000000000"], "--epochs: expected a whole number of at most 1000000000"),
                (["--data=digits", "--data-crop=9223372036854775807"], "--data-crop: expected a whole number of at most 16384"),
                (["--data=images", "--data-images-size=100000"], "--data-images-size: expected a whole number of at most 16384"),
                (["--data=digits", "--checkpoint-keep=0"], "--checkpoint-keep: expected a whole number of at least 1"),
                (["--data=digits", "--data-held-back=1.5"], "--data-held-back: expected a number from 0 to"),
                (["--data=digits", "--schedule=one-cycle", "--schedule-one-cycle-peak-at=2"], "--schedule-one-cycle-peak-at: expected"),
                (["--data=digits", "--learning-rate=-1"], "--learning-rate: expected a number of at least 0, found -1"),
                (["--data=digits", "--sgd-momentum=1"], "--sgd-momentum: expected at least 0 and less than 1, found 1"),
                (["--data=digits", "--batch=100000"], "expected at most the 60000 samples"),
        ]:
            with self.subTest(arguments=arguments):
                run = snug("train", MLP, f"--output={self.path('mistake')}", *arguments)
                self.assertIn(run.returncode, (1, 2))
                self.assertIn(expected, run.stderr)
                self.assertFalse(os.path.exists(self.path("mistake/checkpoints")))

    def test_a_flag_for_another_optimizer_than_the_file_has_needs_its_name(self):
        def trained(*arguments, code):
            run = snug("train", COPY, f"--output={self.path('other')}", "--steps=1", *arguments)
            self.assertEqual(run.returncode, code, run.stderr)
            return run.stderr

        said = trained("--lion-beta1=0.8", code=2)
        self.assertIn("--lion-beta1: is for lion, but the file has adam; --optimizer=lion beside it takes that instead", said)
        self.assertIn("--schedule-linear-final: is for linear, but the file has cosine; --schedule=linear beside it",
                      trained("--schedule-linear-final=0.1", code=2))
        for command in (["plan"], ["step"], ["fit", "--memory-limit=1GiB"]):
            self.assertIn("--lion-beta1: is for lion, but the file has adam", snug(*command, COPY, "--lion-beta1=0.8").stderr)
        trained("--lion-beta1=0.8", "--optimizer=lion", code=0)

    def test_mistakes_in_files_are_located(self):
        with open(MLP, encoding="utf-8") as file:
            network = file.read()
        network = network[:network.index("training {")]
        for marked, expected in [  # the message stands at the @
                ("training { steps: @-1 }", "training.steps: expected a whole number of at least 1, found -1"),
                ("training {\n  checkpoint {\n    keep: @0\n  }\n}", "training.checkpoint.keep: expected a whole number"),
                ("training { epochs: 2\n  steps: @3 }", "training.steps: epochs and steps are both given"),
                ("training { data { mean: [0, @1e10] } }", "training.data.mean: expected a number from"),
                ("training { data { cifar { classes: @11 } } }", "training.data.cifar.classes: expected 10 or 100"),
                ("training { schedule { staircase { at: 0.5\n at: @2 } } }", "training.schedule.staircase.at: expected"),
                ("training { precision: @'float8' }", "training.precision: expected float32, bfloat16 or float64"),
                ("training { memory { strategy: @'bets' } }", 'training.memory.strategy: unknown memory strategy "bets"; did you mean "best"'),
                ("training { memory { memory_limit: @'lots' } }", "training.memory.memory_limit: expected a number of bytes"),
                ("training { memory {\n gc_fraction: @2 } }", "training.memory.gc_fraction: expected a share from 0 to 1"),
                ("training { memory: @'best' }", '''"memory": expected a message { }, found a string: memory { strategy: 'best' }'''),
                ("training { accumulate: @0 }", "training.accumulate: expected a whole number of at least 1"),
                ("training {\n no_decay: '*.bias'\n no_decay: @'*.biass' data { digits {} } }",
                 'training.no_decay: "*.biass": no parameter has such a name'),
                ("optimizer {\n  sgd {\n    momentum: @2 } }", "optimizer.sgd.momentum: expected at least 0"),
                ("optimizer { learning_rate: @inf }", "optimizer.learning_rate: expected a number of at least 0"),
        ]:
            options = marked.replace("@", "")
            before = marked[:marked.index("@")]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            with self.subTest(options=options):
                files = {"net.pbtxt": network + options, "training.pbtxt": options}
                for name, text in files.items():
                    with open(self.path(name), "w", encoding="utf-8") as file:
                        file.write(text)
                first = network.count("\n")
                for arguments, place in [
                        ([self.path("net.pbtxt")], f"net.pbtxt:{first + line}:{column}: "),
                        ([MLP, f"--training={self.path('training.pbtxt')}"], f"training.pbtxt:{line}:{column}: "),
                ]:
                    run = snug("train", *arguments, f"--output={self.path('mistake')}")
                    self.assertEqual(run.returncode, 2)
                    self.assertIn(place + expected, run.stderr)

    def test_patterns_say_which_parameters_to_begin_with(self):
        first = json.loads(train(self.path("from"), "--steps=2", "--json").stdout)["checkpoint"]
        for patterns, loaded in [("", 6), ("fc1.weight", 1), ("fc1.*,!fc1.bias", 1), ("!fc3.*", 4)]:
            with self.subTest(patterns=patterns):
                chosen = [f"--init-patterns={patterns}"] if patterns else []
                run = train(self.path(f"to{loaded}{len(patterns)}"), "--steps=1", f"--init-from={first}", *chosen)
                self.assertIn(f"loaded {loaded}, ", run.stdout)
        run = snug("train", MLP, "--data=digits", "--steps=1", f"--output={self.path('none')}", f"--init-from={first}",
                   "--init-patterns=nothing*")
        self.assertEqual(run.returncode, 2)
        self.assertIn('pattern "nothing*" matches no tensor', run.stderr)

    def test_a_training_that_is_past_its_end_is_done(self):
        train(self.path("past"), "--steps=3")
        again = snug("train", MLP, "--data=digits", f"--output={self.path('past')}", "--steps=3")
        self.assertEqual(again.returncode, 2)
        self.assertIn("a training has been here before: go on with --resume", again.stderr)
        run = train(self.path("past"), "--steps=2", "--resume")
        self.assertIn("nothing was left to do", run.stdout)
        self.assertNotIn("--resume goes on", run.stdout)

    def test_what_was_trained_is_evaluated_and_asked(self):
        result = json.loads(train(self.path("e"), "--steps=20", "--json").stdout)
        for checkpoint in (self.path("e"), result["checkpoint"]):
            for batch in ("--batch=64", "--batch=7"):  # neither divides the samples
                run = snug("eval", MLP, f"--checkpoint={checkpoint}", batch, "--json")
                self.assertEqual(run.returncode, 0, run.stderr)
                found = json.loads(run.stdout)
                self.assertEqual(found["checkpoint"], result["checkpoint"])
                self.assertEqual(found["samples"], 10000)
                self.assertGreater(found["metrics"]["accuracy"], 0.1)
        table = snug("predict", MLP, f"--checkpoint={self.path('e')}", "--fetch=fc3", "--batches=2", "--batch=32")
        rows = table.stdout.splitlines()
        self.assertEqual(len(rows), 1 + 64, table.stderr)
        self.assertEqual(len(rows[0].split(",")), 11)
        self.assertEqual([row.split(",")[0] for row in rows[1:]], [str(i) for i in range(64)])
        document = json.loads(snug("predict", MLP, f"--checkpoint={self.path('e')}", "--fetch=fc3", "--batches=2",
                                   "--batch=32", "--json").stdout)
        self.assertEqual((len(document["rows"]), len(document["rows"][0])), (64, 10))
        self.assertAlmostEqual(document["rows"][1][2], float(rows[2].split(",")[3]), places=6)
        for arguments, expected in [
                (["eval", MLP], "--checkpoint: expected a file of safetensors"),
                (["eval", MLP, f"--checkpoint={MLP}"], "mlp.pbtxt"),
                (["predict", MLP, f"--checkpoint={self.path('e')}", "--fetch=fc9"], 'no value of that name'),
                (["predict", MLP, f"--checkpoint={self.path('e')}", "--fetch=loss"], "no row for each sample"),
                (["eval", MLP, f"--checkpoint={self.path('e')}", "--part=other"], "held-back or training"),
        ]:
            with self.subTest(arguments=arguments):
                run = snug(*arguments)
                self.assertEqual((run.returncode in (1, 2), expected in run.stderr), (True, True), run.stderr)

    def test_averages_are_kept_resumed_and_evaluated(self):
        flags = ("--steps=20", "--checkpoint-every=10", "--average-decay=0.8", "--average-evaluate")
        whole = train(self.path("whole"), *flags, "--json")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual(train(self.path("part"), *flags).returncode, 0)
        os.remove(self.path("part/checkpoints/step-000000020.safetensors"))
        resumed = train(self.path("part"), *flags, "--resume")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(newest(self.path("part")), newest(self.path("whole")))

        def loss(*arguments):
            run = snug("eval", MLP, f"--checkpoint={self.path('whole')}", "--data=digits", "--data-digits-samples=640",
                       "--batch=32", "--batches=5", "--threads=1", "--json", *arguments)
            self.assertEqual(run.returncode, 0, run.stderr)
            return json.loads(run.stdout)["metrics"]["loss"]

        self.assertEqual(loss("--use-average"), json.loads(whole.stdout)["evaluation"]["loss"])
        self.assertNotEqual(loss("--use-average"), loss())
        self.assertEqual(train(self.path("without"), "--steps=2").returncode, 0)
        run = snug("eval", MLP, f"--checkpoint={self.path('without')}", "--use-average")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("has no averages of this network's parameters", run.stderr)

    def test_their_own_table_and_their_own_network(self):
        with open(self.path("points.csv"), "w", encoding="utf-8") as file:
            file.write("x,y,side\n" + "".join(f"{i % 7 - 3},{i % 5 - 2},{int(i % 7 - 3 > i % 5 - 2)}\n" for i in range(210)))
        with open(self.path("own.pbtxt"), "w", encoding="utf-8") as file:
            file.write('name: "own" input { name: "point" shape { dim: 2 } } input { name: "label" dtype: INT32 }\n'
                       'layer { name: "h" input: "point" dense { units: 16 } } layer { name: "a" input: "h" tanh {} }\n'
                       'layer { name: "out" input: "a" dense { units: 2 } }\n'
                       'layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }\n'
                       'layer { name: "accuracy" input: "out" input: "label" accuracy {} }\n'
                       'objective: "loss" output: "accuracy"\n')
        run = snug("train", self.path("own.pbtxt"), "--data=csv", f"--data-csv-file={self.path('points.csv')}",
                   "--epochs=40", "--batch=16", "--optimizer=adam", "--learning-rate=0.01",
                   f"--output={self.path('f')}", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertGreater(json.loads(run.stdout)["evaluation"]["accuracy"], 0.9)

    def test_a_saved_plan_is_run(self):
        plan = self.path("mlp.plan")
        self.assertEqual(snug("plan", MLP, "--batch=32", "--threads=1", "--memory=both", f"--write-plan={plan}").returncode, 0)
        planned = train(self.path("g"), "--steps=10", f"--plan={plan}", "--json")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertEqual(train(self.path("h"), "--steps=10").returncode, 0)
        self.assertEqual(newest(self.path("g"))[1], newest(self.path("h"))[1])  # where bytes lie changes nothing
        other = snug("train", MLP, f"--output={self.path('i')}", "--batch=16", f"--plan={plan}")
        self.assertEqual(other.returncode, 2)
        self.assertIn("another batch", other.stderr)
        forward = self.path("forward.plan")
        snug("plan", MLP, "--forward", "--batch=64", f"--write-plan={forward}")
        found = snug("eval", MLP, f"--checkpoint={self.path('g')}", "--batch=64", f"--plan={forward}")
        self.assertEqual(found.returncode, 0, found.stderr)

    def test_training_is_profiled_and_traced(self):
        run = train(self.path("j"), "--steps=5", "--profile", f"--trace={self.path('trace.json')}", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        profile = json.loads(run.stdout)["profile"]
        self.assertIn("dense", " ".join(op["op"] for op in profile["ops"]))
        with open(self.path("trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        runs = [event for event in events if event.get("name") == "run" and event["ph"] == "X"]
        self.assertEqual(len(runs), 5)
        unwritable = train(self.path("k"), "--steps=5", "--trace=/nowhere/trace.json")
        self.assertIn("/nowhere/trace.json", unwritable.stderr)
        self.assertFalse(os.path.exists(self.path("k")))  # said before anything began

    def test_doctor_knows_the_machine(self):
        found = json.loads(snug("doctor", "--json").stdout)
        self.assertEqual(int(found["processors"]), len(os.sched_getaffinity(0)))
        self.assertTrue({"CUDA", "CUDA driver"} & found.keys(), found)

    def test_options_from_a_file_of_their_own(self):
        with open(self.path("training.pbtxt"), "w", encoding="utf-8") as file:
            file.write("training { steps: 4 batch: 16 data { digits { samples: 64 } } }\n"
                       "optimizer { learning_rate: 0.5 sgd {} }\n")
        run = snug("train", MLP, f"--output={self.path('d')}", f"--training={self.path('training.pbtxt')}", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual((json.loads(run.stdout)["steps"], json.loads(run.stdout)["batch"]), (4, 16))

    def test_a_learning_rate_that_never_gets_there_is_said(self):
        for warm_up, warning in ((4, "rises for 4 steps, and the training has 4"), (3, "")):
            run = train(self.path(f"w{warm_up}"), "--steps=4", f"--schedule-warm-up={warm_up}")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn(warning, run.stderr)
            self.assertEqual("warm_up" in run.stderr, bool(warning))


if __name__ == "__main__":
    unittest.main()
