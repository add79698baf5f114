"""A network of layers as the model file has them, run and trained by PyTorch.

Each op is written here a second time, in PyTorch's words, from what docs/ops.md and proto/network.proto say of it. Where
PyTorch has a function for it, that function is taken.
"""

import dataclasses
import math

import torch
import torch.nn.functional as F

STEPS = 3


class Enum(str):
    """Written without quotes."""


@dataclasses.dataclass
class Layer:
    name: str
    op: str
    inputs: list
    options: dict = dataclasses.field(default_factory=dict)
    params: dict = dataclasses.field(default_factory=dict)  # name -> {"lr_mult": ..., "tie": ...}
    outputs: int = 1

    def output_names(self):
        return [self.name] + [f"{self.name}:{i}" for i in range(1, self.outputs)]


def spatial(options, name, rank, default):
    """An option given once holds for every spatial dimension."""
    numbers = options.get(name) or [default]
    return list(numbers) * rank if len(numbers) == 1 else list(numbers)


def same_padding(size, kernel, stride, dilation):
    """Begin and end of each spatial dimension: an odd surplus goes to the end."""
    pads = []
    for n, k, s, d in zip(size, kernel, stride, dilation):
        total = max(0, (math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n)
        pads.append((total // 2, total - total // 2))
    return pads


def pad_spatial(x, pads, value=0.0):
    flat = [n for pair in reversed(pads) for n in pair]  # F.pad begins with the last dimension
    return F.pad(x, flat, value=value)


def along(axes, rank):
    return [axis % rank for axis in axes]


def plain(x):
    """The same numbers in plain storage, the gradient's too: PyTorch 1.13 has wrong gradients of a batch norm whose
    output is transposed where a dimension is 1, because it takes the strides of what it is given for channels-last."""
    x = x.clone(memory_format=torch.contiguous_format)
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient.clone(memory_format=torch.contiguous_format))
    return x


class Network:
    """Parameters come from `make(name, shape)` when the layer that has them is met first; `jitter` (random_case.py), if it
    is given, changes constants and what layers compute."""

    def __init__(self, layers, objectives, make, jitter=None):
        self.layers, self.objectives, self.make, self.jitter = layers, objectives, make, jitter
        self.parameters, self.statistics, self.multipliers = {}, {}, {}

    # ---- state

    def parameter(self, layer, name, shape):
        override = layer.params.get(name, {})
        if "tie" in override:
            return self.parameters[override["tie"]]
        full = f"{layer.name}.{name}" if name else layer.name
        if full not in self.parameters:
            self.parameters[full] = self.make(full, tuple(shape)).requires_grad_(not override.get("frozen", False))
            self.multipliers[full] = (override.get("lr_mult", 1.0), override.get("decay_mult", 1.0))
        return self.parameters[full]

    def statistic(self, layer, name, shape, value):
        return self.statistics.setdefault(f"{layer.name}.{name}", torch.full(shape, value, dtype=torch.float64))

    # ---- a step

    def run(self, feeds):
        """Every value by name."""
        values = dict(feeds)
        for layer in self.layers:
            self.run_layer(layer, values)
        return values

    def run_layer(self, layer, values):
        inputs = [values[name] for name in layer.inputs]
        outputs = getattr(self, "op_" + layer.op)(layer, layer.options, *inputs)
        outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        if self.jitter is not None:
            outputs = [self.jitter.output(layer.op, value) for value in outputs]
        values.update(zip(layer.output_names(), map(plain, outputs)))

    def train(self, optimizer, no_decay, feeds_of_step):
        """The values of each step's objectives and outputs; then parameters and statistics are those after the last."""
        history = []
        torch_optimizer = None
        for step in range(STEPS):
            values = self.run(feeds_of_step(step))
            if torch_optimizer is None:
                torch_optimizer = self.make_optimizer(optimizer, no_decay)
            sum(values[name].sum() for name in self.objectives).backward()
            history.append({name: value.detach().clone() for name, value in values.items()})
            if "clip_norm" in optimizer:
                torch.nn.utils.clip_grad_norm_([p for p in self.parameters.values() if p.grad is not None],
                                               optimizer["clip_norm"])
            torch_optimizer.step()
            torch_optimizer.zero_grad(set_to_none=True)
        return history

    def make_optimizer(self, optimizer, no_decay):
        groups = []
        for name, parameter in self.parameters.items():
            if not parameter.requires_grad:
                continue
            lr_mult, decay_mult = self.multipliers[name]
            if any(matches(name) for matches in no_decay):
                decay_mult = 0
            groups.append({"params": [parameter], "lr": optimizer["learning_rate"] * lr_mult,
                           "weight_decay": optimizer.get("weight_decay", 0.0) * decay_mult})
        kind, options = optimizer["kind"], optimizer["options"]
        if kind == "sgd":
            return torch.optim.SGD(groups, lr=0.0, momentum=options.get("momentum", 0.0),
                                   nesterov=options.get("nesterov", False))
        if kind == "rmsprop":
            return torch.optim.RMSprop(groups, lr=0.0, alpha=options.get("alpha", 0.99), eps=options.get("epsilon", 1e-8),
                                       momentum=options.get("momentum", 0.0))
        if kind == "adagrad":
            return torch.optim.Adagrad(groups, lr=0.0, lr_decay=options.get("lr_decay", 0.0), eps=1e-10,
                                       initial_accumulator_value=options.get("initial_accumulator_value", 0.0))
        make = torch.optim.AdamW if kind == "adamw" else torch.optim.Adam
        return make(groups, lr=0.0, betas=(options.get("beta1", 0.9), options.get("beta2", 0.999)),
                    eps=options.get("epsilon", 1e-8))

    # ---- linear

    def op_dense(self, layer, o, x):
        weight = self.parameter(layer, "weight", (o["units"], x.shape[-1]))
        bias = self.parameter(layer, "bias", (o["units"],)) if o.get("bias", True) else None
        return F.linear(x, weight, bias)

    def op_conv(self, layer, o, x):
        rank, channels = x.dim() - 2, x.shape[1]
        groups = channels if o.get("depthwise") else o.get("groups", 1)
        filters = o.get("filters", channels)
        kernel = spatial(o, "kernel", rank, 1)
        stride, dilation, pad = (spatial(o, *option) for option in
                                 (("stride", rank, 1), ("dilation", rank, 1), ("pad", rank, 0)))
        if o.get("padding") == "SAME":
            x = pad_spatial(x, same_padding(x.shape[2:], kernel, stride, dilation))
        weight = self.parameter(layer, "weight", (filters, channels // groups, *kernel))
        bias = self.parameter(layer, "bias", (filters,)) if o.get("bias", True) else None
        conv = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
        return conv(x, weight, bias, stride, pad, dilation, groups)

    def op_bias_add(self, layer, o, x):
        axis = o.get("axis", 1) % x.dim()
        bias = self.parameter(layer, "bias", (x.shape[axis],))
        return x + bias.reshape([-1 if i == axis else 1 for i in range(x.dim())])

    def op_matmul(self, layer, o, a, b):
        return (a.mT if o.get("transpose_a") else a) @ (b.mT if o.get("transpose_b") else b)

    def op_embedding(self, layer, o, ids):
        return F.embedding(ids, self.parameter(layer, "weight", (o["entries"], o["width"])))

    def op_attention(self, layer, o, q, k, v, mask=None):
        heads = o.get("heads")
        if heads:
            q, k, v = (x.reshape(*x.shape[:2], heads, -1).transpose(1, 2) for x in (q, k, v))
        scores = q @ k.mT * o.get("scale", 1 / math.sqrt(q.shape[-1]))
        if mask is not None:
            scores = scores + mask
        if o.get("causal"):
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        y = scores.softmax(-1) @ v
        return y.transpose(1, 2).flatten(2) if heads else y

    # ---- pooling

    def pool_options(self, o, x):
        rank = x.dim() - 2
        kernel = spatial(o, "kernel", rank, 1)
        stride = spatial(o, "stride", rank, 1) if "stride" in o else kernel
        return rank, kernel, stride, spatial(o, "pad", rank, 0), spatial(o, "dilation", rank, 1)

    def op_max_pool(self, layer, o, x):
        rank, kernel, stride, pad, dilation = self.pool_options(o, x)
        if o.get("padding") == "SAME":
            x = pad_spatial(x, same_padding(x.shape[2:], kernel, stride, dilation), -math.inf)
        pool = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[rank]
        return pool(x, kernel, stride, pad, dilation, o.get("ceil_mode", False))

    def op_avg_pool(self, layer, o, x):
        rank, kernel, stride, pad, dilation = self.pool_options(o, x)
        pool = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[rank]
        counts_padding = o.get("include_padding", True)
        if o.get("padding") != "SAME":
            return pool(x, kernel, stride, pad, o.get("ceil_mode", False), counts_padding)
        pads = same_padding(x.shape[2:], kernel, stride, dilation)
        mean = pool(pad_spatial(x, pads), kernel, stride)
        return mean if counts_padding else mean / pool(pad_spatial(torch.ones_like(x), pads), kernel, stride)

    def op_global_avg_pool(self, layer, o, x):
        return x.mean(list(range(2, x.dim())), keepdim=o.get("keep_dims", False))

    def op_global_max_pool(self, layer, o, x):
        y = x.flatten(2).max(-1).values
        return y.reshape(*y.shape, *[1] * (x.dim() - 2)) if o.get("keep_dims") else y

    def op_adaptive_avg_pool(self, layer, o, x):
        rank = x.dim() - 2
        pool = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}[rank]
        return pool(x, spatial(o, "size", rank, 1))

    def op_adaptive_max_pool(self, layer, o, x):
        rank = x.dim() - 2
        pool = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}[rank]
        return pool(x, spatial(o, "size", rank, 1))

    # ---- normalisation

    def op_batch_norm(self, layer, o, x):
        channels = (x.shape[1],)
        affine = o.get("affine", True)
        weight = self.parameter(layer, "weight", channels) if affine else None
        bias = self.parameter(layer, "bias", channels) if affine else None
        return F.batch_norm(x, self.statistic(layer, "running_mean", channels, 0.0),
                            self.statistic(layer, "running_var", channels, 1.0), weight, bias, training=True,
                            momentum=o.get("momentum", 0.1), eps=o.get("epsilon", 1e-5))

    def op_layer_norm(self, layer, o, x):
        shape = x.shape[-o.get("axes", 1):]
        affine = o.get("affine", True)
        weight = self.parameter(layer, "weight", shape) if affine else None
        bias = self.parameter(layer, "bias", shape) if affine else None
        return F.layer_norm(x, shape, weight, bias, o.get("epsilon", 1e-5))

    # ---- activations

    def op_relu(self, layer, o, x):
        return F.relu(x)

    def op_relu6(self, layer, o, x):
        return F.relu6(x)

    def op_leaky_relu(self, layer, o, x):
        return F.leaky_relu(x, o.get("slope", 0.01))

    def op_sigmoid(self, layer, o, x):
        return torch.sigmoid(x)

    def op_tanh(self, layer, o, x):
        return torch.tanh(x)

    def op_gelu(self, layer, o, x):
        return F.gelu(x, approximate="tanh" if o.get("tanh") else "none")

    def op_silu(self, layer, o, x):
        return F.silu(x)

    def op_hard_swish(self, layer, o, x):
        return F.hardswish(x)

    def op_hard_sigmoid(self, layer, o, x):
        return (x + 3).clamp(0, 6) / 6  # F.hardsigmoid has a gradient of 1/6 in float32, in double too

    def op_elu(self, layer, o, x):
        return F.elu(x, o.get("alpha", 1.0))

    def op_selu(self, layer, o, x):
        return F.selu(x)

    def op_mish(self, layer, o, x):
        return F.mish(x)

    def op_hard_tanh(self, layer, o, x):
        return F.hardtanh(x, o.get("min", -1.0), o.get("max", 1.0))

    def op_prelu(self, layer, o, x):
        return F.prelu(x, self.parameter(layer, "weight", (o.get("num_parameters", 1),)))

    def op_softmax(self, layer, o, x):
        return x.softmax(o.get("axis", -1))

    def op_log_softmax(self, layer, o, x):
        return x.log_softmax(o.get("axis", -1))

    # ---- random, where nothing is left to chance

    def op_dropout(self, layer, o, x):
        assert o["rate"] == 0
        return x

    op_stochastic_depth = op_dropout

    # ---- elementwise

    def op_add(self, layer, o, a, b):
        return a + b

    def op_sub(self, layer, o, a, b):
        return a - b

    def op_mul(self, layer, o, a, b):
        return a * b

    def op_div(self, layer, o, a, b):
        return a / b

    def op_min(self, layer, o, a, b):
        return torch.minimum(a, b)

    def op_max(self, layer, o, a, b):
        return torch.maximum(a, b)

    def op_pow(self, layer, o, a, b):
        return torch.pow(a, b)

    def op_exp(self, layer, o, x):
        return x.exp()

    def op_log(self, layer, o, x):
        return x.log()

    def op_sqrt(self, layer, o, x):
        return x.sqrt()

    def op_square(self, layer, o, x):
        return x.square()

    def op_abs(self, layer, o, x):
        return x.abs()

    def op_neg(self, layer, o, x):
        return -x

    def op_clip(self, layer, o, x):
        return x.clamp(o.get("min"), o.get("max"))

    def op_scale(self, layer, o, x):
        return x * o.get("factor", 1.0) + o.get("offset", 0.0)

    def op_sin(self, layer, o, x):
        return x.sin()

    def op_cos(self, layer, o, x):
        return x.cos()

    def op_floor(self, layer, o, x):
        return x.detach().floor()

    def op_sign(self, layer, o, x):
        return x.detach().sign()

    def op_stop_gradient(self, layer, o, x):
        return x.detach()

    # ---- reductions

    def reduce_axes(self, o, x):
        return along(o["axis"], x.dim()) if o.get("axis") else list(range(x.dim()))

    def op_reduce_sum(self, layer, o, x):
        return x.sum(self.reduce_axes(o, x), keepdim=o.get("keep_dims", False))

    def op_reduce_mean(self, layer, o, x):
        return x.mean(self.reduce_axes(o, x), keepdim=o.get("keep_dims", False))

    def op_reduce_max(self, layer, o, x):
        return x.amax(self.reduce_axes(o, x), keepdim=o.get("keep_dims", False))

    # ---- shape

    def op_concat(self, layer, o, *xs):
        return torch.cat(xs, o.get("axis", 1))

    def op_slice(self, layer, o, x):
        index = [slice(None)] * x.dim()
        for i, axis in enumerate(o["axis"]):
            end = o["end"][i] if "end" in o else None
            index[axis] = slice(o["begin"][i], end, o["step"][i] if "step" in o else 1)
        return x[tuple(index)]

    def op_split(self, layer, o, x):
        axis = o.get("axis", 1)
        return torch.split(x, o["size"] if "size" in o else x.shape[axis] // o["parts"], axis)

    def op_reshape(self, layer, o, x):
        return x.reshape(x.shape[0], *o["dim"])

    def op_flatten(self, layer, o, x):
        return x.flatten(o.get("axis", 1))

    def op_transpose(self, layer, o, x):
        return x.permute(o["axes"])

    def op_pad(self, layer, o, x):
        pads = [(0, 0)] * x.dim()
        for axis, before, after in zip(o["axis"], o["before"], o["after"]):
            pads[axis % x.dim()] = (before, after)
        return pad_spatial(x, pads, o.get("value", 0.0))

    def op_gather(self, layer, o, x, indices):
        axis = o.get("axis", 0) % x.dim()
        y = x.index_select(axis, indices.flatten())
        return y.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1:])

    # ---- losses and metrics

    def op_softmax_cross_entropy(self, layer, o, logits, target):
        classes = logits.shape[-1]
        logits = logits.reshape(-1, classes)
        target = target.reshape(-1, classes) if target.is_floating_point() else target.reshape(-1)
        return F.cross_entropy(logits, target, ignore_index=o.get("ignore_index", -100),
                               label_smoothing=o.get("label_smoothing", 0.0))

    def op_nll_loss(self, layer, o, x, labels):
        return F.nll_loss(x.reshape(-1, x.shape[-1]), labels.reshape(-1), ignore_index=o.get("ignore_index", -100))

    def op_mean_squared_error(self, layer, o, x, target):
        return F.mse_loss(x, target)

    def op_l1_loss(self, layer, o, x, target):
        return F.l1_loss(x, target)

    def op_huber_loss(self, layer, o, x, target):
        return F.huber_loss(x, target, delta=o.get("delta", 1.0))

    def op_binary_cross_entropy_with_logits(self, layer, o, x, target):
        return F.binary_cross_entropy_with_logits(x, target)

    def op_kl_divergence(self, layer, o, x, target):
        return F.kl_div(x, target, reduction="batchmean")

    def op_cosine_similarity_loss(self, layer, o, x, target):
        return (1 - F.cosine_similarity(x, target, o.get("axis", 1), o.get("epsilon", 1e-8))).mean()

    def rows_that_count(self, o, scores, labels):
        labels = labels.reshape(-1)
        counts = labels != o.get("ignore_index", -100)
        return scores.reshape(-1, scores.shape[-1])[counts], labels[counts]

    def op_top_k_accuracy(self, layer, o, scores, labels):
        scores, labels = self.rows_that_count(o, scores, labels)
        best = scores.sort(dim=-1, descending=True, stable=True).indices[:, :o.get("k", 5)]  # of equal ones the first
        return (best == labels[:, None]).any(-1).double().mean()

    def op_accuracy(self, layer, o, scores, labels):
        return self.op_top_k_accuracy(layer, {**o, "k": 1}, scores, labels)

    # ---- sources

    def op_parameter(self, layer, o):
        return self.parameter(layer, "", o["dim"])

    def op_constant(self, layer, o):
        values = torch.tensor(o["value"], dtype=torch.float64)
        constant = values.expand(o["dim"]) if len(values) == 1 else values.reshape(o["dim"])
        return constant if self.jitter is None else self.jitter.leaf(constant)
