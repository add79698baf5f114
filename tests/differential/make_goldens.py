#!/usr/bin/python3
"""Makes the goldens of tests/run/differential_test.cc: random networks, and what PyTorch makes of them in three steps.

    tools/setup --bench && tests/differential/make_goldens.py [COUNT]

Behind each case (case.py) stands what became of it:

    curve NAME NUMBER NUMBER NUMBER    an objective or output in each step
    after NAME SUM PRODUCT             a parameter or statistic after the last step: the sum of its elements, and of their
                                       products with those that come from the name SEED:NAME:factors
"""

import pathlib
import sys

import torch

from case import recipes
from random_case import random_case

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/differential/networks.golden"


def golden_lines(case, history, network):
    for name in (*case.objectives, *case.outputs):
        yield " ".join(["curve", name, *(repr(float(values[name])) for values in history)])
    for name, tensor in {**network.parameters, **network.statistics}.items():
        flat = tensor.detach().reshape(-1)
        product = (flat * recipes.uniform(f"{case.seed}:{name}:factors", 1.0, flat.shape)).sum()
        yield f"after {name} {flat.sum().item()!r} {product.item()!r}"


def main():
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    texts = [f"# Made by tests/differential/make_goldens.py with PyTorch {torch.__version__}\n"]
    seed = 0
    while len(texts) <= count:
        case = random_case(seed)
        seed += 1
        if not isinstance(case, str):
            texts.append(case[0].text() + "\n".join(golden_lines(*case)) + "\n")
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text("".join(texts))


if __name__ == "__main__":
    main()
