#!/usr/bin/env python3
"""Writes tables.golden: what PyTorch's optimizers make of a table whose gradients are sparse, in double.

    tests/golden/tables/make_tables.py

tests/compile/row_gradients_test.cc trains the same. A line is `NAME STEP NUMBER...`: the table [7, 3] after that step. It begins
as 0.5 sin(0.7 i) in element i. Step s looks up IDS[s], and the loss is the sum of what was found times 0.5 cos(s + 0.3 i).
"""
import pathlib

import torch

IDS = [[3, 1, 3, 6], [1, 1, 1, 1], [0, 6, 2, 6], [5, 4, 3, 3]]
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1, eps=1e-10),
    "adam": lambda parameters: torch.optim.SparseAdam(parameters, lr=0.1, betas=(0.8, 0.9), eps=1e-14),
}

torch.set_default_dtype(torch.float64)
lines = [f"# made by make_tables.py with PyTorch {torch.__version__}"]
for name, make in OPTIMIZERS.items():
    embedding = torch.nn.Embedding(7, 3, sparse=True)
    with torch.no_grad():
        embedding.weight.copy_((0.5 * torch.sin(0.7 * torch.arange(21))).reshape(7, 3))
    optimizer = make(list(embedding.parameters()))
    for step, ids in enumerate(IDS):
        weights = (0.5 * torch.cos(step + 0.3 * torch.arange(12))).reshape(4, 3)
        optimizer.zero_grad()
        (embedding(torch.tensor(ids)) * weights).sum().backward()
        assert embedding.weight.grad.is_sparse
        optimizer.step()
        numbers = " ".join(f"{value:.15g}" for value in embedding.weight.flatten().tolist())
        lines.append(f"{name} {step} {numbers}")
(pathlib.Path(__file__).parent / "tables.golden").write_text("\n".join(lines) + "\n")
