"""Draws random networks, each a pure function of its seed, within what PyTorch can train too.

A network grows layer by layer; PyTorch runs each as it is added, and one whose values leave a moderate range is taken
back.
"""

import fnmatch
import math
import random

import torch

from case import Case
from torch_network import Enum, Layer, Network

MOST_ELEMENTS = 3000  # of a value
LARGEST = 30.0        # of its elements


class Rejected(Exception):
    """The layer cannot stand here."""


class Builder:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.case = Case(seed)
        self.case.batch = self.random.randint(2, 5)
        self.network = Network(self.case.layers, [], self.case.make_parameter)
        self.values = {}  # by name, as PyTorch has them in the first step
        self.used = set()
        self.names = 0

    # ---- pieces

    def chance(self, probability):
        return self.random.random() < probability

    def new_name(self, stem):
        self.names += 1
        return f"{stem[:3]}{self.names}"  # short: hundreds of networks are kept as text

    def input(self, stem, dims, kind="uniform", number=1.0, has_batch=True, dtype="FLOAT"):
        name = self.new_name(stem)
        dims = (self.case.batch, *dims) if has_batch else tuple(dims)
        self.case.inputs[name] = (kind, number, dims, has_batch, dtype)
        self.values[name] = self.case.feeds(0)[name]
        return name

    def integers(self, stem, dims, classes, has_batch=True):
        return self.input(stem, dims, "class", classes, has_batch, self.random.choice(["INT32", "INT64"]))

    def add(self, op, inputs, options=None, params=None, outputs=1):
        """The name of the new layer; Rejected where its values would be of no use."""
        layer = Layer(self.new_name(op), op, list(inputs), options or {}, params or {}, outputs)
        known = set(self.case.parameters)
        try:
            with torch.no_grad():
                self.network.run_layer(layer, self.values)
            for name in layer.output_names():
                value = self.values[name]
                if value.numel() == 0 or value.numel() > MOST_ELEMENTS or value.dim() > 5:
                    raise Rejected
                if not value.isfinite().all() or value.abs().max() > LARGEST:
                    raise Rejected
        except (Rejected, RuntimeError, ValueError, IndexError):
            for name in layer.output_names():
                self.values.pop(name, None)
            for name in set(self.case.parameters) - known:
                del self.case.parameters[name], self.network.parameters[name], self.network.multipliers[name]
            raise Rejected from None
        self.case.layers.append(layer)
        self.used.update(inputs)
        return layer.name

    def floats(self, fits=lambda value: True):
        return [name for name, value in self.values.items() if value.is_floating_point() and value.dim() > 0 and fits(value)]

    def pick(self, fits=lambda value: True):
        """A value that fits, rather a late one."""
        names = self.floats(fits)
        if not names:
            raise Rejected
        return names[-1] if self.chance(0.7) else self.random.choice(names)

    def pick_of_batch(self):
        """What has something to say of each sample, and axes beside it."""
        return self.pick(lambda value: value.dim() >= 2 and value.shape[0] == self.case.batch)

    def shape(self, name):
        return tuple(self.values[name].shape)

    def positive(self, x):
        """Between 0.5 and 1.5."""
        return self.add("scale", [self.add("sigmoid", [x])], {"factor": 1.0, "offset": 0.5})

    def overrides(self, *names):
        params = {}
        for name in names:
            if self.chance(0.8):
                continue
            params[name] = self.random.choice([{"lr_mult": 0.5}, {"decay_mult": 0.0}, {"decay_mult": 2.0}, {"frozen": True},
                                               {"lr_mult": 2.0, "decay_mult": 0.5}])
        return params

    # ---- layers

    def dense(self, x=None, units=None):
        x = x or self.pick(lambda value: value.dim() >= 2)
        options = {"units": units or self.random.randint(1, 9)}
        if self.chance(0.2):
            options["bias"] = False
        width = self.shape(x)[-1]
        twins = [layer for layer in self.case.layers if layer.op == "dense" and not layer.params and
                 layer.options["units"] == options["units"] and self.shape(layer.inputs[0])[-1] == width]
        if twins and self.chance(0.3):
            return self.add("dense", [x], options, {"weight": {"tie": f"{twins[0].name}.weight"}})
        return self.add("dense", [x], options, self.overrides("weight", *([] if "bias" in options else ["bias"])))

    def sizes(self, rank, low, high):
        """One number for all dimensions, or one each."""
        return [self.random.randint(low, high) for _ in range(self.random.choice([1, rank]))]

    def with_space(self):
        return self.pick(lambda value: 3 <= value.dim() <= 5)

    def conv(self):
        x = self.with_space()
        channels, rank = self.shape(x)[1], len(self.shape(x)) - 2
        options = {"kernel": self.sizes(rank, 1, 3)}
        if self.chance(0.4):
            options["stride"] = self.sizes(rank, 1, 2)
        if self.chance(0.2):
            options["dilation"] = self.sizes(rank, 1, 2)
        padding = self.random.choice(["none", "pad", "SAME", "VALID"])
        if padding == "pad":  # less than any kernel
            options["pad"] = self.sizes(rank, 0, min(2, min(options["kernel"]) - 1))
        elif padding != "none":
            options["padding"] = Enum(padding)
        if self.chance(0.2):
            options["depthwise"] = True
            if self.chance(0.5):
                options["filters"] = channels * self.random.randint(1, 2)
        else:
            groups = self.random.choice([n for n in (1, 1, 1, 2, 3) if channels % n == 0])
            options["filters"] = groups * self.random.randint(1, 4)
            if groups > 1:
                options["groups"] = groups
        if self.chance(0.3):
            options["bias"] = False
        return self.add("conv", [x], options, self.overrides("weight", *([] if "bias" in options else ["bias"])))

    def bias_add(self):
        x = self.pick(lambda value: value.dim() >= 2)
        axis = self.random.choice([1, -1, len(self.shape(x)) - 1])
        return self.add("bias_add", [x], {"axis": axis} if axis != 1 else {}, self.overrides("bias"))

    def matmul(self):
        x = self.pick(lambda value: value.dim() >= 3)
        shape = self.shape(x)
        others = self.floats(lambda value: value.dim() >= 3 and value.shape[:-2] == self.values[x].shape[:-2])
        y = self.random.choice(others)
        options = {name: True for name in ("transpose_a", "transpose_b") if self.chance(0.5)}
        inner = shape[-2] if options.get("transpose_a") else shape[-1]
        if self.shape(y)[-1 if options.get("transpose_b") else -2] != inner:
            dims = (self.random.randint(1, 5), inner) if options.get("transpose_b") else (inner, self.random.randint(1, 5))
            y = self.parameter(dims)
        return self.add("matmul", [x, y], options)

    def embedding(self):
        entries = self.random.randint(2, 9)
        dims = [[], [self.random.randint(1, 5)], [2, 3]][self.random.randint(0, 2)]
        ids = self.integers("ids", dims, entries)
        return self.add("embedding", [ids], {"entries": entries, "width": self.random.randint(2, 8)}, self.overrides("weight"))

    def attention(self):
        if self.chance(0.5):
            x = self.pick(lambda value: value.dim() == 3)
            heads = self.random.randint(1, 3)
            q, k, v = (self.dense(x, heads * 2) for _ in range(3))
            options = {"heads": heads}
        else:
            x = self.pick(lambda value: value.dim() == 4)
            q, k, v = (self.dense(x, self.random.choice([3])) for _ in range(3))
            options, heads = {}, self.shape(x)[1]
        if self.chance(0.5):
            options["causal"] = True
        if self.chance(0.3):
            options["scale"] = 0.75
        inputs = [q, k, v]
        length = self.shape(q)[-2]
        if self.chance(0.3):
            dims = self.random.choice([(length, length), (1, length), (1, heads, length, length)])
            inputs.append(self.input("mask", dims, has_batch=False))
        return self.add("attention", inputs, options)

    def pool(self):
        x = self.with_space()
        rank = len(self.shape(x)) - 2
        op = self.random.choice(["max_pool", "avg_pool"])
        options = {"kernel": self.sizes(rank, 1, 3)}
        if self.chance(0.5):
            options["stride"] = self.sizes(rank, 1, 3)
        padding = self.random.choice(["none", "pad", "SAME", "VALID"])
        if padding == "pad":
            options["pad"] = [self.random.randint(0, min(options["kernel"]) // 2)]
        elif padding != "none":
            options["padding"] = Enum(padding)
        if self.chance(0.3) and padding in ("none", "pad"):
            options["ceil_mode"] = True
        if op == "max_pool" and self.chance(0.2) and padding == "none":
            options["dilation"] = self.sizes(rank, 1, 2)
        if op == "avg_pool" and self.chance(0.5):
            options["include_padding"] = False
        return self.add(op, [x], options)

    def global_pool(self):
        op = self.random.choice(["global_avg_pool", "global_max_pool"])
        return self.add(op, [self.with_space()], {"keep_dims": True} if self.chance(0.4) else {})

    def adaptive_pool(self):
        x = self.with_space()
        op = self.random.choice(["adaptive_avg_pool", "adaptive_max_pool"])
        return self.add(op, [x], {"size": self.sizes(len(self.shape(x)) - 2, 1, 4)})

    def batch_norm(self):
        x = self.pick(lambda value: value.dim() >= 2 and value.numel() // value.shape[1] >= 4)
        options = {}
        if self.chance(0.3):
            options["epsilon"] = self.random.choice([1e-3, 0.01])
        if self.chance(0.3):
            options["momentum"] = self.random.choice([0.01, 0.5, 1.0])
        if self.chance(0.2):
            options["affine"] = False
        return self.add("batch_norm", [x], options, {} if "affine" in options else self.overrides("weight", "bias"))

    def layer_norm(self):
        x = self.pick(lambda value: value.dim() >= 2 and value.shape[-1] > 2)
        options = {}
        if self.chance(0.3):
            options["epsilon"] = self.random.choice([1e-3, 0.01])
        if self.chance(0.3) and len(self.shape(x)) > 2:
            options["axes"] = self.random.randint(1, len(self.shape(x)) - 1)
        if self.chance(0.2):
            options["affine"] = False
        return self.add("layer_norm", [x], options, {} if "affine" in options else self.overrides("weight", "bias"))

    def activation(self):
        op = self.random.choice(["relu", "relu6", "leaky_relu", "sigmoid", "tanh", "gelu", "silu", "hard_swish",
                                 "hard_sigmoid", "elu", "selu", "mish", "hard_tanh", "softmax", "log_softmax"])
        x = self.pick()
        options = {}
        if op == "leaky_relu" and self.chance(0.5):
            options["slope"] = self.random.choice([0.2, 0.05])
        if op == "elu" and self.chance(0.5):
            options["alpha"] = self.random.choice([0.5, 2.0])
        if op == "hard_tanh" and self.chance(0.5):
            options = {"min": -0.5, "max": 0.25}
        if op == "gelu" and self.chance(0.5):
            options["tanh"] = True
        if op.endswith("softmax"):
            options["axis"] = self.random.randint(1, len(self.shape(x)) - 1) if len(self.shape(x)) > 1 else -1
        return self.add(op, [x], options)

    def prelu(self):
        x = self.pick(lambda value: value.dim() >= 2)
        options = {"num_parameters": self.shape(x)[1]} if self.chance(0.6) else {}
        return self.add("prelu", [x], options, self.overrides("weight"))

    def chance_layer(self):
        return self.add(self.random.choice(["dropout", "stochastic_depth"]), [self.pick()], {"rate": 0.0})

    def parameter(self, dims):
        return self.add("parameter", [], {"dim": list(dims)})

    def constant(self, dims):
        count = math.prod(dims)
        numbers = [round(self.random.uniform(-1, 1), 3) for _ in range(self.random.choice([1, count]))]
        return self.add("constant", [], {"dim": list(dims), "value": numbers})

    def operand(self, x):
        """Something that broadcasts with x."""
        shape = self.shape(x)
        equal = self.floats(lambda value: tuple(value.shape) == shape)
        kind = self.random.choice(["equal", "equal", "parameter", "constant"])
        if kind == "equal":
            return self.random.choice(equal)
        dims = [1 if self.chance(0.4) else dim for dim in shape[1:]]
        dims = dims[self.random.randint(0, len(dims)):] or [1]
        return self.parameter(dims) if kind == "parameter" else self.constant(dims)

    def binary(self):
        op = self.random.choice(["add", "add", "sub", "mul", "mul", "div", "min", "max", "pow"])
        a = self.pick(lambda value: value.dim() >= 2)
        b = self.operand(a)
        if op == "div":
            b = self.positive(b)
        if op == "pow":
            a = self.positive(a)
        return self.add(op, [b, a] if op not in ("div", "pow") and self.chance(0.3) else [a, b])

    def unary(self):
        op = self.random.choice(["exp", "log", "sqrt", "square", "abs", "neg", "clip", "scale", 
                                 "sin", "cos", "floor", "sign", "stop_gradient"])
        x = self.pick()
        options = {}
        if op == "exp":
            x = self.add("tanh", [x])
        elif op in ("log", "sqrt"):
            x = self.positive(x)
        elif op == "clip":
            options = self.random.choice([{"min": -0.5, "max": 0.25}, {"min": 0.1, "max": 2.0}])
        elif op == "scale":
            options = {"factor": round(self.random.uniform(-2, 2), 3), "offset": round(self.random.uniform(-1, 1), 3)}
        return self.add(op, [x], options)

    def reduce(self):
        x = self.pick(lambda value: value.dim() >= 2)
        rank = len(self.shape(x))
        axes = self.random.sample(range(1, rank), self.random.randint(1, rank - 1))
        options = {"axis": [axis - rank if self.chance(0.3) else axis for axis in axes]}
        if self.chance(0.4):
            options["keep_dims"] = True
        return self.add(self.random.choice(["reduce_sum", "reduce_mean", "reduce_max"]), [x], options)

    def concat(self):
        x = self.pick(lambda value: value.dim() >= 2)
        shape = self.shape(x)
        axis = self.random.randint(1, len(shape) - 1)
        fits = self.floats(lambda value: value.dim() == len(shape) and
                           all(i == axis or value.shape[i] == shape[i] for i in range(len(shape))))
        others = [self.random.choice(fits) for _ in range(self.random.randint(1, 2))]
        return self.add("concat", [x, *others], {"axis": axis - len(shape) if self.chance(0.3) else axis})

    def slice(self):
        x = self.pick(lambda value: value.dim() >= 2)
        rank = len(self.shape(x))
        axes = sorted(self.random.sample(range(1, rank), self.random.randint(1, rank - 1)))
        options = {"axis": axes, "begin": [], "end": []}
        for axis in axes:
            size = self.shape(x)[axis]
            begin = self.random.randint(0, size - 1)
            end = self.random.randint(begin + 1, size)
            options["begin"].append(begin - size if self.chance(0.2) else begin)
            options["end"].append(end - size if end < size and self.chance(0.2) else end)
        if self.chance(0.4):
            options["step"] = [self.random.randint(1, 3) for _ in axes]
        return self.add("slice", [x], options)

    def split(self):
        x = self.pick(lambda value: value.dim() >= 2 and max(value.shape[1:]) >= 2)
        shape = self.shape(x)
        axis = self.random.choice([i for i in range(1, len(shape)) if shape[i] >= 2])
        parts = [n for n in (2, 3, 4) if shape[axis] % n == 0]
        if parts and self.chance(0.5):
            n = self.random.choice(parts)
            options = {"axis": axis, "parts": n}
        else:
            first = self.random.randint(1, shape[axis] - 1)
            options, n = {"axis": axis, "size": [first, shape[axis] - first]}, 2
        return self.add("split", [x], options, outputs=n)

    def reshape(self):
        x = self.pick(lambda value: value.dim() >= 2)
        shape = self.shape(x)
        if self.chance(0.4):
            axis = self.random.randint(1, len(shape) - 1)
            return self.add("flatten", [x], {"axis": axis} if axis != 1 else {})
        size, dims = math.prod(shape[1:]), []
        while size > 1 and len(dims) < 3:
            dims.append(self.random.choice([n for n in range(1, size + 1) if size % n == 0]))
            size //= dims[-1]
        dims = [*dims, size] if size > 1 or not dims else dims
        if self.chance(0.3):
            dims[self.random.randrange(len(dims))] = -1
        return self.add("reshape", [x], {"dim": dims})

    def transpose(self):
        x = self.pick(lambda value: value.dim() >= 3)
        axes = list(range(1, len(self.shape(x))))
        self.random.shuffle(axes)
        return self.add("transpose", [x], {"axes": [0, *axes]})

    def pad(self):
        x = self.pick(lambda value: value.dim() >= 2)
        rank = len(self.shape(x))
        axes = self.random.sample(range(1, rank), self.random.randint(1, rank - 1))
        options = {"axis": axes, "before": [self.random.randint(0, 2) for _ in axes],
                   "after": [self.random.randint(0, 2) for _ in axes]}
        if self.chance(0.4):
            options["value"] = round(self.random.uniform(-1, 1), 3)
        return self.add("pad", [x], options)

    def gather(self):
        x = self.pick(lambda value: value.dim() >= 2)
        axis = self.random.randint(1, len(self.shape(x)) - 1)
        dims = self.random.choice([[2], [3], [2, 2]])
        indices = self.integers("indices", dims, self.shape(x)[axis], has_batch=False)
        return self.add("gather", [x, indices], {"axis": axis})

    KINDS = [dense, dense, dense, conv, conv, conv, conv, bias_add, matmul, embedding, attention, pool, pool, pool, global_pool,
             adaptive_pool, batch_norm, batch_norm, batch_norm, layer_norm, layer_norm, activation, activation, activation,
             activation, prelu, chance_layer, binary, binary, binary, binary, unary, unary, unary, reduce, concat, slice, split,
             reshape, transpose, pad, gather]

    # ---- a whole network

    def begin(self):
        kind = self.random.choice(["vector", "signal", "image", "image", "image", "volume", "sequence", "tokens"])
        if kind == "vector":
            self.input("x", [self.random.randint(2, 12)])
        elif kind == "sequence":
            self.input("x", [self.random.randint(2, 6), self.random.randint(3, 8)])
        elif kind == "tokens":
            self.embedding()
        else:
            rank = {"signal": 1, "image": 2, "volume": 3}[kind]
            high = {1: 12, 2: 8, 3: 4}[rank]
            self.input("x", [self.random.randint(1, 4), *(self.random.randint(3, high) for _ in range(rank))])

    def logits(self):
        """A value of the network as scores of classes, one row a sample or one for each position."""
        x = self.pick_of_batch()
        if len(self.shape(x)) > 3 or (len(self.shape(x)) == 3 and self.chance(0.6)):
            x = self.add("flatten", [x])
        return self.dense(x, self.random.randint(2, 6))

    def loss(self):
        kind = self.random.choice(["classes", "classes", "classes", "probabilities", "nll", "squares", "regression", "binary",
                                   "divergence"])
        if kind == "squares":
            return self.add("reduce_mean", [self.add("square", [self.pick()])])
        if kind == "regression":
            x = self.pick_of_batch()
            op = self.random.choice(["mean_squared_error", "l1_loss", "huber_loss", "cosine_similarity_loss"])
            options = {"delta": 0.5} if op == "huber_loss" and self.chance(0.5) else {}
            return self.add(op, [x, self.input("target", self.shape(x)[1:])], options)
        if kind == "binary":
            x = self.pick_of_batch()
            target = self.add("sigmoid", [self.input("target", self.shape(x)[1:])])
            return self.add("binary_cross_entropy_with_logits", [x, target])
        scores = self.logits()
        *rows, classes = self.shape(scores)[1:]
        options = {}
        if kind == "probabilities":
            target = self.add("softmax", [self.input("target", [*rows, classes])])
        else:
            target = self.integers("label", rows, classes)
            if self.chance(0.3):
                options["ignore_index"] = self.random.randrange(classes)
        if kind == "divergence":
            target = self.add("softmax", [self.input("target", [*rows, classes])])
            return self.add("kl_divergence", [self.add("log_softmax", [scores]), target])
        if kind == "nll":
            return self.add("nll_loss", [self.add("log_softmax", [scores]), target], options)
        if kind == "classes" and self.chance(0.4):
            metric = self.random.choice(["accuracy", "top_k_accuracy"])
            more = {"k": self.random.randint(1, classes)} if metric == "top_k_accuracy" else {}
            self.case.outputs.append(self.add(metric, [scores, target], {**more, **options}))
        if self.chance(0.4):
            options["label_smoothing"] = 0.1
        return self.add("softmax_cross_entropy", [scores, target], options)

    def choose_optimizer(self):
        r = self.random
        kind = r.choice(["sgd", "sgd", "sgd", "adam", "adamw", "rmsprop", "adagrad"])
        optimizer = {"learning_rate": r.choice([0.01, 0.05, 0.1]) if kind == "sgd" else r.choice([1e-3, 2e-3, 5e-3])}
        if self.chance(0.6):
            optimizer["weight_decay"] = r.choice([0.01, 0.1])
        if self.chance(0.25):
            optimizer["clip_norm"] = r.choice([0.1, 1.0])
        options = {}
        if kind == "sgd":
            if self.chance(0.7):
                options["momentum"] = r.choice([0.5, 0.9])
                if self.chance(0.4):
                    options["nesterov"] = True
        elif kind == "rmsprop":
            options = r.choice([{}, {"alpha": 0.9, "epsilon": 1e-4}, {"momentum": 0.9, "epsilon": 1e-6}])
        elif kind == "adagrad":
            options = r.choice([{}, {"initial_accumulator_value": 0.1}, {"lr_decay": 0.5}])
        else:
            options["epsilon"] = r.choice([1e-8, 1e-6, 1e-4])
            if self.chance(0.5):
                options.update(beta1=r.choice([0.8, 0.95]), beta2=r.choice([0.9, 0.99]))
        self.case.optimizer = {**optimizer, "kind": kind, "options": options}
        if self.chance(0.2):
            pattern = r.choice(["*.bias", "bat*", "den*.weight"])
            if any(fnmatch.fnmatchcase(name, pattern) for name in self.case.parameters):
                self.case.no_decay = [pattern]

    def attempt(self, what):
        for _ in range(40):
            try:
                return what()
            except Rejected:
                continue
        return None

    def build(self):
        """The case; None where no loss fits what was drawn."""
        self.begin()
        for _ in range(self.random.randint(3, 14)):
            self.attempt(lambda: self.random.choice(self.KINDS)(self))
        objective = self.attempt(self.loss)
        if objective is None:
            return None
        self.case.objectives = [objective]
        last = {name: self.values[name] for name in self.floats() if name not in self.used}
        for name in last:  # what nobody reads counts, too
            if self.chance(0.6) and name not in self.case.inputs:
                self.case.objectives.append(self.add("reduce_mean", [self.add("square", [name])]))
        self.choose_optimizer()
        return self.case if self.case.parameters else None
