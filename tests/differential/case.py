"""A network with an optimizer and data, as text and as PyTorch trains it. Parameters and data follow from their names, as
tests/testing/parity_golden.h makes them, so a case is text alone:

    case SEED
    parameter NAME uniform SCALE DIM...           what it is before the first step
    feed NAME uniform SCALE DIM...                or `class CLASSES DIM...`; with the batch, if it has one
    network                                       a model file up to the line `end`
    end

The elements of a parameter come from the name SEED:NAME, those that a feed has in step S (from 0) from SEED:NAME:S.
"""

import fnmatch
import math
import pathlib
import sys

from torch_network import Enum, Network

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden/parity"))
import recipes


class Case:
    def __init__(self, seed):
        self.seed = seed
        self.batch = 0
        self.layers, self.objectives, self.outputs = [], [], []
        self.inputs = {}      # name -> (kind, number, dims with the batch, has a batch, dtype)
        self.parameters = {}  # name -> (scale, dims)
        self.optimizer, self.no_decay = {}, []

    def feeds(self, step, jitter=None):
        feeds = {}
        for name, (kind, number, dims, _, _) in self.inputs.items():
            tensor = recipes.make(f"{self.seed}:{name}:{step}", kind, number, dims)
            feeds[name] = jitter.leaf(tensor) if jitter is not None and tensor.is_floating_point() else tensor
        return feeds

    def make_parameter(self, name, dims):
        if name not in self.parameters:
            fan = math.prod(dims[1:]) if len(dims) > 1 else 4
            self.parameters[name] = (2.0 ** round(-0.5 * math.log2(max(1, fan))), dims)
        scale, dims = self.parameters[name]
        return recipes.uniform(f"{self.seed}:{name}", scale, dims)

    def train(self, jitter=None):
        """The history of all values, and the network after the last step."""
        make = self.make_parameter if jitter is None else lambda name, dims: jitter.leaf(self.make_parameter(name, dims))
        network = Network(self.layers, self.objectives, make, jitter)
        patterns = [lambda name, pattern=pattern: fnmatch.fnmatchcase(name, pattern) for pattern in self.no_decay]
        history = network.train(self.optimizer, patterns, lambda step: self.feeds(step, jitter))
        return history, network

    # ---- as text

    def text(self):
        lines = [f"case {self.seed}"]
        for name, (scale, dims) in self.parameters.items():
            lines.append(" ".join(map(str, ("parameter", name, "uniform", scale, *dims))))
        for name, (kind, number, dims, _, _) in self.inputs.items():
            lines.append(" ".join(map(str, ("feed", name, kind, number, *dims))))
        return "\n".join([*lines, "network", *self.network_lines(), "end"]) + "\n"

    def network_lines(self):
        yield f'name: "random{self.seed}" batch: {self.batch}'
        for name, (kind, number, dims, has_batch, dtype) in self.inputs.items():
            shape = "".join(f" dim: {dim}" for dim in dims[1 if has_batch else 0:])
            more = f" dtype: {dtype} max_value: {number}" if kind == "class" else ""
            shape = f" shape {{{shape} }}" if shape else ""
            yield f'input {{ name: "{name}"{shape}{more}{"" if has_batch else " no_batch: true"} }}'
        for layer in self.layers:
            inputs = "".join(f' input: "{name}"' for name in layer.inputs)
            params = "".join(f' param {{ name: "{name}"{fields(override)} }}' for name, override in layer.params.items())
            yield f'layer {{ name: "{layer.name}"{inputs} {layer.op} {{{fields(layer.options)} }}{params} }}'
        for name in self.objectives:
            yield f'objective: "{name}"'
        for name in self.outputs:
            yield f'output: "{name}"'
        kind, options = self.optimizer["kind"], self.optimizer["options"]
        numbers = {key: value for key, value in self.optimizer.items() if key not in ("kind", "options")}
        yield f"optimizer {{{fields(numbers)} {kind} {{{fields(options)} }} }}"
        if self.no_decay:
            yield f"training {{{fields({'no_decay': self.no_decay})} }}"


def fields(options):
    def text(value):
        if isinstance(value, Enum):
            return str(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        return f'"{value}"' if isinstance(value, str) else repr(value)

    return "".join(f" {name}: [{', '.join(map(text, value))}]" if isinstance(value, (list, tuple)) else f" {name}: {text(value)}"
                   for name, value in options.items())
