#!/usr/bin/python3
"""Writes the files of torch.save in this folder, which tests/checkpoint/torch_file_test.cc reads (Debian's PyTorch 1.13):

    /usr/bin/python3 tests/data/torch/make.py
"""

import collections
import os
import pathlib

import torch

FOLDER = pathlib.Path(__file__).resolve().parent


class System:
    def __reduce__(self):
        return os.system, ("touch /tmp/snug_ran_it",)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 1)


def tensors():
    """Every type, and every way of lying in a storage."""
    values = torch.arange(24)
    matrix = values.float().reshape(4, 6)
    made = collections.OrderedDict()
    for name in "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8".split():
        made[name] = (values[:6] - (0 if name == "uint8" else 2)).to(getattr(torch, name)).reshape(2, 3)
    made["bool"] = torch.tensor([True, False, True])
    made["scalar"] = torch.tensor(3.5)
    made["empty"] = torch.zeros(0, 4)
    made["matrix"] = matrix
    made["transposed"] = matrix.t()
    made["column"] = matrix[:, 2]
    made["part"] = matrix[1:3, ::2]
    made["repeated"] = torch.tensor([7.0]).expand(2, 3)
    made["tied"] = matrix
    made["parameter"] = torch.nn.Parameter(torch.tensor([1.0, -1.0]))
    made["größe"] = torch.tensor([5.0])
    return made


def linear(prefix=""):
    return {f"{prefix}fc.weight": torch.tensor([[1.0, 2.0]]), f"{prefix}fc.bias": torch.tensor([3.0])}


def save(name, content, **options):
    torch.save(content, FOLDER / name, **options)


torch.manual_seed(1)
save("tensors.pth", tensors())
net = Net()
net.load_state_dict(linear())
save("state_dict.pth", net.state_dict())
save("training.pth", {"epoch": 3, "model_state_dict": linear(), "optimizer": {"lr": 0.1, "seed": 2**63 + 1}, "best": torch.ones(1)})
save("data_parallel.pth", {"state_dict": linear("module.")})
save("legacy.pth", linear(), _use_new_zipfile_serialization=False)
save("system.pth", {"fc.weight": System()})
save("no_tensors.pth", {"epoch": 3})
save("sparse.pth", {"fc.weight": torch.eye(2).to_sparse()})
