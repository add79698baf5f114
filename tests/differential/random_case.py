"""Random cases of which any two correct programs make the same numbers, within the tolerance of the comparison."""

import torch

from random_networks import Builder, Rejected

CHAOTIC = 1e-11  # how far a change in the last bits may carry

# What these make of a value is exact: rounding cannot tell one program from another.
EXACT = {"abs", "adaptive_max_pool", "argmax", "clip", "concat", "constant", "embedding", "flatten", "flip", "floor", "gather",
         "global_max_pool", "hard_tanh", "max", "max_pool", "min", "neg", "one_hot", "pad", "parameter", "pixel_shuffle",
         "relu", "relu6", "reshape", "sign", "slice", "split", "stop_gradient", "tile", "top_k", "transpose", "where"}


class Jitter:
    """Changes in the last bits, as rounding makes them: of parameters, data and constants, and, `within` the network,
    of what layers compute."""

    def __init__(self, seed, within):
        self.generator = torch.Generator().manual_seed(seed)
        self.within = within

    def factors(self, tensor):
        return 1 + torch.randint(-4, 5, tensor.shape, generator=self.generator, dtype=torch.float64) * 2.0**-53

    def leaf(self, tensor):
        return (tensor.detach() * self.factors(tensor)).requires_grad_(tensor.requires_grad)

    def output(self, op, value):
        return value * self.factors(value) if self.within and op not in EXACT and value.is_floating_point() else value


def distance(a, b):
    return (a - b).abs().max().item() / max(1.0, a.abs().max().item()) if a.numel() > 0 else 0.0


def carries_far(case, history, network, jitter):
    """Whether another rounding is seen in the end: noise that Adam makes a step of, an accuracy that it decides."""
    again, other = case.train(jitter)
    before = {**network.parameters, **network.statistics}
    after = {**other.parameters, **other.statistics}
    return any(distance(before[name], after[name]) > CHAOTIC for name in before) or any(
        distance(one[name].double(), two[name].double()) > CHAOTIC
        for one, two in zip(history, again) for name in (*case.objectives, *case.outputs))


def random_case(seed):
    """Case and what PyTorch makes of it, (case, history, network); or a word on why there is none of this seed."""
    try:
        case = Builder(seed).build()
    except Rejected:
        case = None
    if case is None:
        return "no loss fits"
    try:
        history, network = case.train()
    except (RuntimeError, ValueError) as error:  # a loss that depends on no parameter, or on frozen ones alone
        return f"nothing to train: {error}".splitlines()[0]
    finite = [*network.parameters.values(), *network.statistics.values(),
              *(values[name] for values in history for name in case.objectives)]
    if not all(tensor.isfinite().all() for tensor in finite):
        return "values are not finite"
    if any(carries_far(case, history, network, Jitter(3 * seed + i, within=i > 0)) for i in range(3)):
        return "a change in the last bits carries too far"
    return case, history, network
