#!/usr/bin/env python3
"""Writes lstm.golden and gru.golden: PyTorch's loss and gradients, in double, of two bidirectional layers over ten steps.

    tests/golden/sequences/make_sequences.py

tests/control/sequences_test.cc has the same networks as loops. A line is `loss NUMBER`, or `gradient NAME NUMBER...`,
where names are those of the loops. Element i of the k-th of these tensors is 0.5 sin(k + 0.7 i), and so is what is fed.
"""
import pathlib

import torch

BATCH, STEPS, INPUT, HIDDEN, LAYERS = 2, 10, 2, 3, 2


def make(kind):
    torch.set_default_dtype(torch.float64)
    network = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](
        INPUT, HIDDEN, num_layers=LAYERS, bidirectional=True, batch_first=True)
    tensors = {"x": torch.empty(BATCH, STEPS, INPUT)}
    states = ["h", "c"] if kind == "lstm" else ["h"]
    for layer in range(LAYERS):
        for direction in "fb":
            for state in states:
                tensors[f"{state}{layer}{direction}"] = torch.empty(BATCH, HIDDEN)
    named = {}
    for layer in range(LAYERS):
        for direction, suffix in (("f", ""), ("b", "_reverse")):
            for what in ("ih", "hh"):
                for part in ("weight", "bias"):
                    name = f"l{layer}{direction}.{what}.{part}"
                    named[name] = tensors[name] = getattr(network, f"{part}_{what}_l{layer}{suffix}")
    with torch.no_grad():
        for k, tensor in enumerate(tensors.values()):
            index = torch.arange(tensor.numel(), dtype=torch.float64)
            tensor.copy_((0.5 * torch.sin(k + 0.7 * index)).reshape(tensor.shape))
    for tensor in tensors.values():
        tensor.requires_grad_(True)
    stacked = [torch.stack([tensors[f"{state}{layer}{direction}"] for layer in range(LAYERS) for direction in "fb"])
               for state in states]
    y, last = network(tensors["x"], tuple(stacked) if kind == "lstm" else stacked[0])
    loss = (y**2).sum() + sum((state**2).sum() for state in (last if kind == "lstm" else [last]))
    loss.backward()
    lines = [f"# {kind}: made by make_sequences.py with PyTorch {torch.__version__}", f"loss {loss.item():.15g}"]
    for name, tensor in tensors.items():
        numbers = " ".join(f"{value:.12g}" for value in tensor.grad.flatten().tolist())
        lines.append(f"gradient {name} {numbers}")
    (pathlib.Path(__file__).parent / f"{kind}.golden").write_text("\n".join(lines) + "\n")


for cell in ("lstm", "gru"):
    make(cell)
