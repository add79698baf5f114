#!/usr/bin/python3
"""Makes the goldens of tests/run/parity_test.cc: what PyTorch computes in ten steps of SGD with momentum, or of Adam.

    tools/setup --bench && tests/golden/parity/make_parity.py [MODEL...]

bert_base, gpt2, llama_110m and xlmr_base take pip's PyTorch and transformers, in a virtual environment of Python's.

Nothing but numbers that cannot be computed is stored. Parameters and data follow from their names, so the test makes
the same ones (recipes.py). Scales are powers of two, so every number is the same in float32 and in double. A line of a
golden file is a keyword and its fields, separated by blanks; `#` starts a comment:

    batch N / learning_rate X / momentum X / beta1 X     (beta1: of Adam, which has no momentum line)
    set LAYER OPTION NUMBER...           an option that differs from the model file's, which has too many words, say
    input NAME uniform SCALE DIM...      input NAME class CLASSES DIM...       (DIM... with the batch)
    parameter NAME uniform SCALE DIM...  parameter NAME constant VALUE DIM...  (names are PyTorch's)
    double loss|grad_norm VALUE...                    one for each step, the gradient's norm over all parameters; of
                                                      networks whose parts are updated in turn, each at its turn
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
import networks
from recipes import make

STEPS = 10
MOMENTUM = 0.9
RESIDUAL_GAMMA = float(numpy.float32(0.2))  # the same number in float32 and in double


def image(size, channels, batch):
    return {"image": ("uniform", 1.0, (batch, channels, size, size))}, {"label": ("class", 1000, (batch,))}


def googlenet(heads):
    return torchvision.models.googlenet(aux_logits=heads, init_weights=False, dropout=0.0, dropout_aux=0.0)


def inception_v3():
    return torchvision.models.inception_v3(aux_logits=False, init_weights=False, dropout=0.0)


def efficientnet_b0():
    module = torchvision.models.efficientnet_b0(stochastic_depth_prob=0.0)
    module.classifier[0].p = 0.0  # the function has no argument for it
    return module


def tokens(words, *dims):
    return ("class", words, dims)


# name: (module, inputs, labels, learning rate)
MODELS = {
    "mlp": (lambda: torch_models.Mlp(784, 256, 128, 10), {"image": ("uniform", 1.0, (16, 784))}, {"label": ("class", 10, (16,))}, 0.1),
    "lenet": (torch_models.LeNet, {"image": ("uniform", 1.0, (16, 1, 28, 28))}, {"label": ("class", 10, (16,))}, 0.05),
    "resnet18": (torchvision.models.resnet18, *image(64, 3, 4), 0.0003),
    "resnet50": (torchvision.models.resnet50, *image(64, 3, 4), 0.0003),
    "mobilenet_v2": (lambda: torchvision.models.mobilenet_v2(dropout=0.0), *image(64, 3, 8), 0.0003),
    "alexnet": (lambda: torchvision.models.alexnet(dropout=0.0), *image(64, 3, 4), 0.003),
    "vgg11": (lambda: torchvision.models.vgg11(dropout=0.0), *image(32, 3, 2), 0.003),
    "vgg16": (lambda: torchvision.models.vgg16(dropout=0.0), *image(32, 3, 2), 0.003),
    "vgg19": (lambda: torchvision.models.vgg19(dropout=0.0), *image(32, 3, 2), 0.003),
    "resnet34": (torchvision.models.resnet34, *image(64, 3, 4), 0.0003),
    "resnet101": (torchvision.models.resnet101, *image(64, 3, 4), 0.0003),
    "resnet152": (torchvision.models.resnet152, *image(64, 3, 4), 0.00003),
    "squeezenet1_0": (lambda: torchvision.models.squeezenet1_0(dropout=0.0), *image(64, 3, 4), 0.003),
    "densenet121": (torchvision.models.densenet121, *image(64, 3, 8), 0.0001),
    "googlenet": (lambda: googlenet(False), *image(64, 3, 8), 0.000005),
    "googlenet_aux": (lambda: googlenet(True), *image(64, 3, 8), 0.000002),
    "inception_v3": (inception_v3, *image(107, 3, 8), 0.000005),
    "mnasnet0_5": (lambda: torchvision.models.mnasnet0_5(dropout=0.0), *image(64, 3, 8), 0.0003),
    "mnasnet1_0": (lambda: torchvision.models.mnasnet1_0(dropout=0.0), *image(64, 3, 8), 0.0003),
    "efficientnet_b0": (efficientnet_b0, *image(64, 3, 8), 0.0003),
    "convnext_tiny": (lambda: torchvision.models.convnext_tiny(stochastic_depth_prob=0.0), *image(64, 3, 4), 0.0003),
    "r3d_18": (torchvision.models.video.r3d_18, {"video": ("uniform", 1.0, (4, 3, 4, 32, 32))},
               {"label": ("class", 400, (4,))}, 0.0003),
    "inception_bn": (networks.InceptionBn, *image(64, 3, 8), 0.000002),
    "resnet1001": (lambda: networks.PreActivationResNet(111), {"image": ("uniform", 1.0, (4, 3, 16, 16))},
                   {"label": ("class", 10, (4,))}, 0.00001),
    "unet": (networks.UNet, {"image": ("uniform", 1.0, (4, 3, 32, 32))}, {"label": ("class", 2, (4, 32, 32))}, 0.003),
    "neumf": (networks.NeuMf, {"user": tokens(6040, 64), "item": tokens(3706, 64)}, {"watched": tokens(2, 64, 1)}, 0.1),
    "transformer_base": (lambda: networks.Transformer(101), {"source": tokens(101, 2, 24), "target": tokens(101, 2, 24)},
                         {"label": tokens(101, 2, 24)}, 0.003),
    "dcgan": (lambda: networks.Dcgan(8), {"noise": ("uniform", 1.0, (16, 100, 1, 1)), "image": ("uniform", 1.0, (16, 3, 64, 64))},
              {}, 0.0002),
    "llama_110m": (lambda: networks.llama(101), {"tokens": tokens(101, 2, 24)}, {"label": tokens(101, 2, 24)}, 0.003),
    "xlmr_base": (lambda: networks.XlmRoberta(101), {"tokens": tokens(101, 4, 24)}, {"target": ("uniform", 1.0, (4, 768))},
                  0.03),
    "vit_b16": (lambda: torchvision.models.VisionTransformer(32, 16, 12, 12, 768, 3072), *image(32, 3, 4), 0.003),
    "gpt2": (lambda: networks.Gpt2(24, 101), {"tokens": tokens(101, 2, 24)}, {"label": tokens(101, 2, 24)}, 0.003),
    "bert_base": (lambda: networks.BertBase(101), {"tokens": tokens(101, 2, 24), "segments": tokens(2, 2, 24)},
                  {"label": tokens(101, 2, 24)}, 0.003),
    "autoencoder": (networks.Autoencoder, {"image": ("uniform", 1.0, (8, 1, 28, 28))}, {}, 0.1),
    "transformer": (lambda: torch_models.Gpt(layers=2, width=48, heads=4, length=24, words=101),
                    {"tokens": ("class", 101, (4, 24))}, {"label": ("class", 101, (4, 24))}, 0.1),
}

def dcgan_widths(width):
    changes = {f"generator.main.{3 * i}": {"filters": [width * 8 // 2**i]} for i in range(4)}
    for judge in ("discriminator", "of_drawn", "through"):
        for layer, times in ((0, 1), (2, 2), (5, 4), (8, 8)):
            changes[f"{judge}.main.{layer}"] = {"filters": [width * times]}
    return changes


# name: options of layers that differ from the model file's, where that is too large: {layer: {option: numbers}}
CHANGES = {
    "vit_b16": {"rows": {"dim": [768, 4]}, "class_row": {"after": [4]}, "encoder.pos_embedding": {"dim": [1, 5, 768]}},
    "gpt2": {"tok": {"entries": [101]}, "pos": {"dim": [24, 768]}, "head": {"units": [101]}},
    "bert_base": {"tok": {"entries": [101]}, "pos": {"end": [24]}, "head": {"units": [101]}},
    "llama_110m": {"model.embed_tokens": {"entries": [101]}, "lm_head": {"units": [101]},
                   "position_ones": {"dim": [24, 1, 1]}},
    "xlmr_base": {"roberta.embeddings.word_embeddings": {"entries": [101]}, "positions": {"end": [26]}},
    "dcgan": dcgan_widths(8),
    "transformer_base": {"words": {"entries": [101]}, "written_words": {"entries": [101]}, "head": {"units": [101]},
                         "position_ones": {"dim": [24, 1]}},
}

# Those of which the paper, too, trains by Adam.
BETA1 = {"dcgan": 0.5}

# Kernels that round differently: how far they are from each other is how far rounding alone carries.
FLOAT_VARIANTS = {
    "onednn": {"threads": 1},
    "onednn_2_threads": {"threads": 2},
    "channels_last": {"threads": 1, "channels_last": True},
    "native": {"threads": 1, "mkldnn": False},
    "native_2_threads": {"threads": 2, "mkldnn": False},
}


def last_gammas(module):
    """The names of what scales the sum of every residual block: the last batch norm's weight, or a parameter for it."""
    for name, child in module.named_modules():
        if isinstance(child, torchvision.models.resnet.BasicBlock):
            yield name + ".bn2.weight"
        elif isinstance(child, torchvision.models.resnet.Bottleneck):
            yield name + ".bn3.weight"
        elif isinstance(child, torchvision.models.mobilenetv2.InvertedResidual) and child.use_res_connect:
            yield f"{name}.conv.{len(child.conv) - 1}.weight"
        elif isinstance(child, torchvision.models.video.resnet.BasicBlock):
            yield name + ".conv2.1.weight"
        elif isinstance(child, torchvision.models.mnasnet._InvertedResidual) and child.apply_residual:
            yield name + ".layers.7.weight"
        elif isinstance(child, torchvision.models.efficientnet.MBConv) and child.use_res_connect:
            yield f"{name}.block.{len(child.block) - 1}.1.weight"
        elif isinstance(child, networks.PreActivationBottleneck):
            yield name + ".bn3.weight"  # before the last convolution
        elif isinstance(child, torchvision.models.convnext.CNBlock):
            yield name + ".layer_scale"


def parameter_recipes(module):
    """name -> (kind, scale or value, dims) for every parameter."""
    batch_norms = [name for name, child in module.named_modules() if isinstance(child, (nn.BatchNorm2d, nn.BatchNorm3d))]
    norms = batch_norms + [name for name, child in module.named_modules() if type(child).__name__.endswith(
        ("LayerNorm", "LayerNorm2d", "RMSNorm"))]
    gammas = set(last_gammas(module))
    recipes = {}
    for name, parameter in module.named_parameters():
        dims = tuple(parameter.shape)
        owner = name.rsplit(".", 1)[0]
        if name in gammas:
            recipe = ("constant", RESIDUAL_GAMMA)
        elif owner in norms:
            through_relu = owner + ".weight" not in gammas or isinstance(module, networks.PreActivationResNet)
            shifted = owner in batch_norms and through_relu
            recipe = ("constant", 1.0 if name.endswith("weight") or shifted else 0.0)
        else:
            # PyTorch's default, 1 / sqrt(fan in), as a power of two; embeddings: 1 / 32.
            weight = parameter if len(dims) > 1 else module.get_parameter(name.removesuffix("bias") + "weight")
            table = owner in ("pos", "positions", "class_token") or isinstance(module.get_submodule(owner), nn.Embedding)
            fan_in = 1024 if table else weight[0].numel()
            recipe = ("uniform", 2.0 ** round(-0.5 * math.log2(fan_in)))
        recipes[name] = (*recipe, dims)
    return recipes


def loss_of(logits, label):
    """The mean cross entropy; of a network with auxiliary heads with 0.3 times theirs."""
    if isinstance(logits, tuple):
        first, *heads = logits
        return loss_of(first, label) + 0.3 * sum(loss_of(head, label) for head in heads)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), label.reshape(-1))


def losses_in_turn(module, data, label):
    """Yields the loss of each part of the network that an optimizer of its own updates in between; mostly one of all."""
    if hasattr(module, "losses_in_turn"):
        yield from module.losses_in_turn(*data)
    else:
        yield getattr(module, "loss_of", loss_of)(module(*data), label)


def optimizer_of(part, learning_rate, beta1):
    if beta1 is not None:
        return torch.optim.Adam(part.parameters(), lr=learning_rate, betas=(beta1, 0.999))
    return torch.optim.SGD(part.parameters(), lr=learning_rate, momentum=MOMENTUM)


def train(build, recipes, inputs, labels, learning_rate, beta1, dtype, threads=2, channels_last=False, mkldnn=True):
    """Losses and gradient norms of every step."""
    torch.set_num_threads(threads)
    module = build().to(dtype)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(make(name, *recipes[name]))
    data = [make(name, *recipe) for name, recipe in inputs.items()]
    data = [x.to(dtype) if x.is_floating_point() else x for x in data]
    label = next((make(name, *recipe) for name, recipe in labels.items()), None)
    label = label.to(dtype) if label is not None and label.is_floating_point() else label
    if channels_last:
        layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
        for parameter in module.parameters():
            if parameter.dim() in layouts:
                parameter.data = parameter.data.to(memory_format=layouts[parameter.dim()])
        data = [x.to(memory_format=layouts[x.dim()]) if x.dim() in layouts else x for x in data]
    parts = module.parts() if hasattr(module, "parts") else (module,)
    optimizers = [optimizer_of(part, learning_rate, beta1) for part in parts]
    losses, norms = [], []
    with torch.backends.mkldnn.flags(enabled=mkldnn):
        for _ in range(STEPS):
            squares = []
            losses.append(0)
            for part, optimizer, loss in zip(parts, optimizers, losses_in_turn(module, data, label)):
                optimizer.zero_grad()
                loss.backward()
                squares += [p.grad.double().square().sum() for p in part.parameters()]
                losses[-1] += loss.item()
                optimizer.step()
            norms.append(torch.stack(squares).sum().sqrt().item())
    return losses, norms


def golden(name):
    build, inputs, labels, learning_rate = MODELS[name]
    recipes = parameter_recipes(build())
    lines = [f"# {name}: made by make_parity.py with PyTorch {torch.__version__}, torchvision {torchvision.__version__}"]
    batch = next(iter(inputs.values()))[2][0]
    beta1 = BETA1.get(name)
    lines += [f"batch {batch}", f"learning_rate {learning_rate!r}"]
    lines += [f"momentum {MOMENTUM!r}" if beta1 is None else f"beta1 {beta1!r}"]
    for layer, options in CHANGES.get(name, {}).items():
        lines += [f"set {layer} {option} {' '.join(map(str, numbers))}" for option, numbers in options.items()]
    for keyword, tensors in (("input", {**inputs, **labels}), ("parameter", recipes)):
        for tensor, (kind, number, dims) in tensors.items():
            lines.append(f"{keyword} {tensor} {kind} {number!r} {' '.join(map(str, dims))}")

    def write(run, losses, norms):
        lines.append(f"{run} loss {' '.join(map(repr, losses))}")
        lines.append(f"{run} grad_norm {' '.join(map(repr, norms))}")

    truth = train(build, recipes, inputs, labels, learning_rate, beta1, torch.float64)
    again = train(build, recipes, inputs, labels, learning_rate, beta1, torch.float64, threads=1, mkldnn=False)
    apart = max(abs(a / b - 1) for x, y in zip(truth, again) for a, b in zip(x, y))
    print(f"{name}: loss {truth[0][0]:.6f} to {truth[0][-1]:.6f}; double against double {apart:.1e}")
    assert apart < 1e-10, "the run is chaotic: its digits are no golden"
    write("double", *truth)
    for variant, settings in FLOAT_VARIANTS.items():
        run = train(build, recipes, inputs, labels, learning_rate, beta1, torch.float32, **settings)
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
