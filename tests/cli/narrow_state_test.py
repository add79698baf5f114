"""`--state`: what the optimizer keeps in fewer bits, from the command line."""

import json
import os
import unittest

from snug import SnugTest


class NarrowStateTest(SnugTest):
    FLAGS = ("--data-digits-samples=320", "--batch=32", "--threads=1", "--learning-rate=0.002", "--steps=20",
             "--checkpoint-every=10")

    def train(self, *arguments, optimizer="adam", output="run", code=0):
        return self.run_snug("train", "models/mlp.pbtxt", *self.FLAGS, f"--optimizer={optimizer}",
                             f"--output={self.folder / output}", *arguments, code=code)

    def newest(self, output):
        return (self.folder / output / "checkpoints/step-000000020.safetensors").read_bytes()

    def test_it_takes_less_learns_as_much_and_goes_on_bit_for_bit(self):
        said = {state: json.loads(self.train(f"--state={state}", "--json", output=state).stdout)
                for state in ("float32", "bfloat16", "8bit")}
        parameters = said["float32"]["state_bytes"] / 3  # as large as each of the two slots
        self.assertAlmostEqual(said["bfloat16"]["state_bytes"] / parameters, 2, delta=0.01)
        self.assertAlmostEqual(said["8bit"]["state_bytes"] / parameters, 1.5, delta=0.02)
        for state in ("bfloat16", "8bit"):
            self.assertAlmostEqual(said[state]["training"]["loss"], said["float32"]["training"]["loss"], delta=0.1)
            self.train(f"--state={state}", output=f"part{state}")
            os.remove(self.folder / f"part{state}/checkpoints/step-000000020.safetensors")
            resumed = self.train(f"--state={state}", "--resume", output=f"part{state}")
            self.assertNotIn("warning", resumed.stderr)
            self.assertEqual(self.newest(f"part{state}"), self.newest(state))
        # Without the option it is float32, and a checkpoint that says so goes on.
        self.train("--resume", output="float32")
        for state, other in [("8bit", "bfloat16"), ("bfloat16", "float32"), ("float32", "8bit")]:
            refused = self.train(f"--state={other}", "--resume", output=state, code=2)
            self.assertIn(f"made with optimizer.state {state}, this run has {other}; give it the same", refused.stderr)
            # They keep the same, so only the name of the optimizer tells them apart.
            refused = self.train(f"--state={state}", "--resume", optimizer="adamw", output=state, code=2)
            self.assertIn("made with optimizer adam, this run has adamw; give it the same", refused.stderr)
        self.json("eval", "models/mlp.pbtxt", f"--checkpoint={self.folder / '8bit'}", "--batch=32", "--batches=2")

    def test_commands_that_only_look_take_another_optimizer(self):
        flags = ("models/mlp.pbtxt", "--batch=8", "--optimizer=adam")
        planned = {state: self.json("plan", *flags, f"--state={state}")["state"] for state in ("float32", "bfloat16", "8bit")}
        self.assertAlmostEqual(planned["bfloat16"] / planned["float32"], 2 / 3, delta=0.01)
        self.assertAlmostEqual(planned["8bit"] / planned["float32"], 1.5 / 3, delta=0.01)
        self.assertEqual(self.json("plan", *flags)["state"], planned["float32"])
        self.assertLess(self.json("plan", "models/mlp.pbtxt", "--batch=8")["state"], planned["float32"])  # sgd
        self.json("step", *flags, "--state=8bit", "--steps=2")
        rows = self.run_snug("bench", *flags, "--train", "--seconds=0.01", "--vary=state=float32,8bit").stdout
        self.assertIn("state=8bit", rows)
        self.assertIn('--state: expected float32, bfloat16 or 8bit, found "half"', self.error("plan", *flags, "--state=half"))

    def test_mistakes(self):
        for optimizer, arguments, expected in [
                ("adam", ["--state=int8"], '--state: expected float32, bfloat16 or 8bit, found "int8"'),
                ("sgd", ["--state=8bit"], "found sgd without momentum, which keeps nothing"),
                ("lion", ["--state=8bit", "--precision=float64"], "is for the precisions float32 and bfloat16, found float64"),
                ("adagrad", ["--state=8bit", "--adagrad-initial-accumulator-value=0.1"], "expected 0"),
        ]:
            with self.subTest(optimizer=optimizer, arguments=arguments):
                self.assertIn(expected, self.train(*arguments, optimizer=optimizer, code=2).stderr)
                self.assertFalse((self.folder / "run/checkpoints").exists())
        model = self.write("net.pbtxt", "\n".join([
            'name: "net"',
            'input { name: "x" shape { dim: 4 } }',
            'input { name: "t" shape { dim: 1 } }',
            'layer { name: "y" input: "x" dense { units: 1 } }',
            'layer { name: "loss" input: "y" input: "t" mean_squared_error {} }',
            'objective: "loss"',
            'optimizer { adam {} state: "8 bits" }',
        ]))
        self.assertIn(f'{model}:7:28: optimizer.state: expected float32, bfloat16 or 8bit, found "8 bits"',
                      self.error("plan", model))


if __name__ == "__main__":
    unittest.main()
