"""`snug train` interrupted, at random moments and at each of its writes, and gone on with: what is left in the end is what
a training leaves that nobody touched, byte for byte.

A few interruptions here; where SNUG_CAMPAIGN is set, 200 kills at random moments, one at every write, and ten signals.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

from snug import BINARY, ROOT

KILL_AT_WRITE = os.environ.get("SNUG_KILL_AT_WRITE", str(ROOT / "build/release/tests/kill_at_write"))
CANNOT_WATCH = 125  # its exit code where programs cannot be watched
STOPPED = 4

# All kinds of state: statistics, random numbers, slots, a schedule that knows the step.
NETWORK = """
name: "small"
input { name: "image" shape { dim: 784 } }
input { name: "label" dtype: INT32 max_value: 10 }
layer { name: "fc" input: "image" dense { units: 12 } }
layer { name: "bn" input: "fc" batch_norm {} }
layer { name: "relu" input: "bn" relu {} }
layer { name: "drop" input: "relu" dropout { rate: 0.3 } }
layer { name: "out" input: "drop" dense { units: 10 } }
layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }
layer { name: "accuracy" input: "out" input: "label" accuracy {} }
objective: "loss"
output: "accuracy"
optimizer { learning_rate: 0.01 weight_decay: 0.01 adamw {} }
training { batch: 16 data { digits { samples: 320 } } schedule { cosine {} } }
"""


def environment():
    # Nothing that was leaked can be looked for while a program is watched.
    sanitizers = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    return {**os.environ, "OMP_WAIT_POLICY": "passive", "ASAN_OPTIONS": sanitizers.lstrip(":")}


class Interrupted(unittest.TestCase):
    """`steps`: few where every write is tried; more than lines fit into a pipe where a training must not be over too soon."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.network = self.folder / "small.pbtxt"
        self.network.write_text(NETWORK)
        self.outputs = 0

    def new_output(self):
        self.outputs += 1
        return self.folder / f"run{self.outputs}"

    def command(self, output, steps):
        """What a user would type next: --resume, if there is something to go on with."""
        checkpoints = output / "checkpoints"
        resumes = checkpoints.is_dir() and any(checkpoints.glob("step-*.safetensors"))
        return [BINARY, "train", str(self.network), f"--output={output}", f"--steps={steps}", "--checkpoint-every=4",
                "--checkpoint-keep=2", "--evaluate-every=6", "--evaluate-batches=2", "--threads=1", "--log-every=1",
                *(["--resume"] if resumes else [])]

    def start(self, output, steps, **more):
        return subprocess.Popen(self.command(output, steps), env=environment(), stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, **more)

    def go_on_to_the_end(self, output, steps):
        done = subprocess.run(self.command(output, steps), env=environment(), capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)

    def left(self, output):
        """Every file's content, but for how long things took."""
        files = {}
        for path in sorted(output.rglob("*")):
            if path.is_dir():
                continue
            content = path.read_bytes()
            if path.name == "metrics.jsonl":
                content = [{**json.loads(line), "seconds": 0, "waited": 0} for line in content.splitlines()]
            files[str(path.relative_to(output))] = content
        return files

    def whole(self, steps):
        output = self.new_output()
        begin = time.monotonic()
        self.go_on_to_the_end(output, steps)
        return self.left(output), time.monotonic() - begin

    def expect_equal(self, found, expected, what):
        self.assertEqual(sorted(found), sorted(expected), what)
        for name, content in expected.items():
            self.assertEqual(found[name], content, f"{name}, {what}")

    def lines_logged(self, output):
        metrics = output / "metrics.jsonl"
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    def kill_at_random_moments(self, kills):
        steps = 60
        expected, seconds = self.whole(steps)
        moments = random.Random(16)
        killed = training = 0
        output = self.new_output()
        while True:
            process = self.start(output, steps)
            if killed == kills:
                self.assertEqual(process.wait(timeout=300), 0)
            else:
                before = self.lines_logged(output)
                if killed % 2 == 0:  # half of them at any moment, half in a training that has begun
                    while self.lines_logged(output) <= before and process.poll() is None:
                        time.sleep(0.001)
                try:
                    process.wait(timeout=moments.uniform(0, seconds))
                except subprocess.TimeoutExpired:
                    process.kill()
                if process.wait() == -signal.SIGKILL:
                    killed += 1
                    training += self.lines_logged(output) > before
                    continue
                self.assertEqual(process.returncode, 0)  # it was through before; its end counts all the same
            self.expect_equal(self.left(output), expected, f"after {killed} kills")
            if killed == kills:
                break
            output = self.new_output()
        self.assertEqual(killed, kills)
        self.assertGreater(training, 0, "no kill came after the first step")
        return f"{killed} kills at random moments, {training} of them in a training that had begun"

    def watched(self, output, steps, kill_at):
        """The exit code, and the calls that changed something in `output`."""
        report = self.folder / "calls"
        done = subprocess.run(
            ["sh", "-c", 'exec "$@" 3>"$0"', report, KILL_AT_WRITE, output, str(kill_at), *self.command(output, steps)],
            env=environment(), capture_output=True, text=True, timeout=600)
        if done.returncode == CANNOT_WATCH:
            self.skipTest(f"programs cannot be watched here: {done.stderr.strip()}")
        return done.returncode, report.read_text().splitlines()

    def kill_at_writes(self, choose):
        steps = 10
        expected, _ = self.whole(steps)
        output = self.new_output()
        code, calls = self.watched(output, steps, kill_at=0)
        self.assertEqual(code, 0)
        self.expect_equal(self.left(output), expected, "watched, but not killed")
        kinds = [call.split()[0] for call in calls]
        self.assertLessEqual({"mkdir", "open", "write", "fsync", "rename", "unlink"}, set(kinds))
        chosen = choose(kinds)
        for call in chosen:
            output = self.new_output()
            code, made = self.watched(output, steps, kill_at=call)
            self.assertEqual((code, len(made)), (128 + signal.SIGKILL, call), calls[call - 1])
            self.go_on_to_the_end(output, steps)
            self.expect_equal(self.left(output), expected, f"killed before call {call}: {calls[call - 1]}")
        return f"{len(chosen)} kills before {len(calls)} calls that change something"

    def signal_at_random_moments(self, signals):
        # A pipe of 4096 bytes holds about 45 lines: when one of the first is read, the training cannot be over.
        steps = 90
        expected, _ = self.whole(steps)
        moments = random.Random(17)
        for _ in range(signals):
            output = self.new_output()
            process = subprocess.Popen(self.command(output, steps), env=environment(), stdout=subprocess.PIPE, text=True,
                                       stderr=subprocess.DEVNULL, pipesize=4096)
            step = moments.randint(1, 30)
            for line in process.stdout:
                if f"step {step}/" in line:
                    time.sleep(moments.uniform(0, 0.01))
                    process.send_signal(signal.SIGTERM)
                    break
            process.stdout.read()
            process.stdout.close()
            self.assertEqual(process.wait(timeout=120), STOPPED, f"signalled at step {step}")
            done = len([1 for line in (output / "metrics.jsonl").read_text().splitlines() if '"kind": "step"' in line])
            self.assertTrue(step <= done < steps, f"signalled at step {step}, stopped after {done}")
            self.assertIn(f"step-{done:09}.safetensors", os.listdir(output / "checkpoints"))
            self.go_on_to_the_end(output, steps)
            self.expect_equal(self.left(output), expected, f"signalled at step {step}, stopped after {done}")
        return f"{signals} signals"


class Interruptions(Interrupted):
    def test_killed_at_random_moments(self):
        self.kill_at_random_moments(4)

    def test_killed_at_writes(self):
        def one_of_each_kind(kinds):
            choice = random.Random(18)
            calls = {wanted: [i + 1 for i, kind in enumerate(kinds) if kind == wanted] for wanted in sorted(set(kinds))}
            # The last removal leaves a whole training with a checkpoint too many, which no later save removes.
            return sorted([choice.choice(calls.pop(wanted)) for wanted in list(calls) if wanted != "unlink"] +
                          calls["unlink"][-1:])

        self.kill_at_writes(one_of_each_kind)

    def test_stopped_by_signals(self):
        self.signal_at_random_moments(2)


@unittest.skipUnless("SNUG_CAMPAIGN" in os.environ, "a long one: set SNUG_CAMPAIGN")
class InterruptionsCampaign(Interrupted):
    def test_killed_at_random_moments(self):
        print(self.kill_at_random_moments(200))

    def test_killed_at_every_write(self):
        print(self.kill_at_writes(lambda kinds: range(1, len(kinds) + 1)))

    def test_stopped_by_signals(self):
        print(self.signal_at_random_moments(10))


if __name__ == "__main__":
    unittest.main()
