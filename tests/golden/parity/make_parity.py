#!/usr/bin/python3
"""Makes the goldens of tests/run/parity_test.cc: what PyTorch computes in ten steps of SGD with momentum.

    tools/setup --bench && tests/golden/parity/make_parity.py [MODEL...]

Nothing but numbers that cannot be computed is stored. Parameters and data follow from their names, so the test makes
the same ones (recipes.py). Scales are powers of two, so every number is the same in float32 and in double. A line of a
golden file is a keyword and its fields, separated by blanks; `#` starts a comment:

    batch N / learning_rate X / momentum X
    input NAME uniform SCALE DIM...      input NAME class CLASSES DIM...       (DIM... with the batch)
    parameter NAME uniform SCALE DIM...  parameter NAME constant VALUE DIM...  (names are PyTorch's)
    double loss|grad_norm VALUE...                    one for each step, the gradient's norm over all parameters
    float:VARIANT loss|grad_norm VALUE...             the same in float32, on differently rounding kernels

Deep networks are chaotic: a rounding in one step turns a relu on or off in the next, and after ten of them float32 says
little. So the last batch-norm gamma of each residual block is 0.2, and the batch-norm biases of what goes through a
relu are 1: fewer values lie at its kink.
"""

import math
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))
import torch_models
from recipes import make

STEPS = 10
MOMENTUM = 0.9
RESIDUAL_GAMMA = float(numpy.float32(0.2))  # the same number in float32 and in double


def image(size, channels, batch):
    return {"image": ("uniform", 1.0, (batch, channels, size, size))}, {"label": ("class", 1000, (batch,))}


# name: (module, inputs, labels, learning rate)
MODELS = {
    "mlp": (lambda: torch_models.Mlp(784, 256, 128, 10), {"image": ("uniform", 1.0, (16, 784))}, {"label": ("class", 10, (16,))}, 0.1),
    "lenet": (torch_models.LeNet, {"image": ("uniform", 1.0, (16, 1, 28, 28))}, {"label": ("class", 10, (16,))}, 0.05),
    "resnet18": (torchvision.models.resnet18, *image(64, 3, 4), 0.0003),
    "resnet50": (torchvision.models.resnet50, *image(64, 3, 4), 0.0003),
    "mobilenet_v2": (lambda: torchvision.models.mobilenet_v2(dropout=0.0), *image(64, 3, 8), 0.0003),
    "transformer": (lambda: torch_models.Gpt(layers=2, width=48, heads=4, length=24, words=101),
                    {"tokens": ("class", 101, (4, 24))}, {"label": ("class", 101, (4, 24))}, 0.1),
}

# Kernels that round differently: how far they are from each other is how far rounding alone carries.
FLOAT_VARIANTS = {
    "onednn": {"threads": 1},
    "onednn_2_threads": {"threads": 2},
    "channels_last": {"threads": 1, "channels_last": True},
    "native": {"threads": 1, "mkldnn": False},
    "native_2_threads": {"threads": 2, "mkldnn": False},
}


def last_gammas(module):
    """The names of the last batch-norm weight of every residual block."""
    for name, child in module.named_modules():
        if isinstance(child, torchvision.models.resnet.BasicBlock):
            yield name + ".bn2.weight"
        elif isinstance(child, torchvision.models.resnet.Bottleneck):
            yield name + ".bn3.weight"
        elif isinstance(child, torchvision.models.mobilenetv2.InvertedResidual) and child.use_res_connect:
            yield f"{name}.conv.{len(child.conv) - 1}.weight"


def parameter_recipes(module):
    """name -> (kind, scale or value, dims) for every parameter."""
    norms = tuple(name for name, child in module.named_modules() if isinstance(child, (nn.BatchNorm2d, nn.LayerNorm)))
    gammas = set(last_gammas(module))
    recipes = {}
    for name, parameter in module.named_parameters():
        dims = tuple(parameter.shape)
        owner = name.rsplit(".", 1)[0]
        if name in gammas:
            recipe = ("constant", RESIDUAL_GAMMA)
        elif owner in norms:
            shifted = isinstance(module.get_submodule(owner), nn.BatchNorm2d) and owner + ".weight" not in gammas
            recipe = ("constant", 1.0 if name.endswith("weight") or shifted else 0.0)
        else:
            # PyTorch's default, 1 / sqrt(fan in), as a power of two; embeddings: 1 / 32.
            weight = parameter if len(dims) > 1 else module.get_parameter(owner + ".weight")
            fan_in = 1024 if owner in ("tok", "pos") else weight[0].numel()
            recipe = ("uniform", 2.0 ** round(-0.5 * math.log2(fan_in)))
        recipes[name] = (*recipe, dims)
    return recipes


def train(build, recipes, inputs, labels, learning_rate, dtype, threads=2, channels_last=False, mkldnn=True):
    """Losses and gradient norms of every step."""
    torch.set_num_threads(threads)
    module = build().to(dtype)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(make(name, *recipes[name]))
    data = [make(name, *recipe) for name, recipe in inputs.items()]
    data = [x.to(dtype) if x.is_floating_point() else x for x in data]
    (label,) = (make(name, *recipe) for name, recipe in labels.items())
    if channels_last:
        module = module.to(memory_format=torch.channels_last)
        data = [x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in data]
    optimizer = torch.optim.SGD(module.parameters(), lr=learning_rate, momentum=MOMENTUM)
    losses, norms = [], []
    with torch.backends.mkldnn.flags(enabled=mkldnn):
        for _ in range(STEPS):
            optimizer.zero_grad()
            logits = module(*data)
            loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), label.reshape(-1))
            loss.backward()
            squares = [p.grad.double().square().sum() for p in module.parameters()]
            losses.append(loss.item())
            norms.append(torch.stack(squares).sum().sqrt().item())
            optimizer.step()
    return losses, norms


def golden(name):
    build, inputs, labels, learning_rate = MODELS[name]
    recipes = parameter_recipes(build())
    lines = [f"# {name}: made by make_parity.py with PyTorch {torch.__version__}, torchvision {torchvision.__version__}"]
    batch = next(iter(inputs.values()))[2][0]
    lines += [f"batch {batch}", f"learning_rate {learning_rate!r}", f"momentum {MOMENTUM!r}"]
    for keyword, tensors in (("input", {**inputs, **labels}), ("parameter", recipes)):
        for tensor, (kind, number, dims) in tensors.items():
            lines.append(f"{keyword} {tensor} {kind} {number!r} {' '.join(map(str, dims))}")

    def write(run, losses, norms):
        lines.append(f"{run} loss {' '.join(map(repr, losses))}")
        lines.append(f"{run} grad_norm {' '.join(map(repr, norms))}")

    truth = train(build, recipes, inputs, labels, learning_rate, torch.float64)
    again = train(build, recipes, inputs, labels, learning_rate, torch.float64, threads=1, mkldnn=False)
    apart = max(abs(a / b - 1) for x, y in zip(truth, again) for a, b in zip(x, y))
    print(f"{name}: loss {truth[0][0]:.6f} to {truth[0][-1]:.6f}; double against double {apart:.1e}")
    assert apart < 1e-10, "the run is chaotic: its digits are no golden"
    write("double", *truth)
    for variant, settings in FLOAT_VARIANTS.items():
        run = train(build, recipes, inputs, labels, learning_rate, torch.float32, **settings)
        first, last = abs(run[0][0] / truth[0][0] - 1), abs(run[0][-1] - truth[0][-1])
        norm = max(abs(a / b - 1) for a, b in zip(run[1], truth[1]))
        assert norm < 1e-3, "rounding carries too far to say much about float32: train on more samples, or more slowly"
        print(f"  {variant:18} first loss {first:.1e}, gradient norms {norm:.1e} relative; tenth loss off by {last:.1e}")
        write(f"float:{variant}", *run)
    return "\n".join(lines) + "\n"


def main():
    here = pathlib.Path(__file__).resolve().parent
    for name in sys.argv[1:] or MODELS:
        (here / f"{name}.golden").write_text(golden(name))


if __name__ == "__main__":
    main()
