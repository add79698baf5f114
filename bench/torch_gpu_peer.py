#!/usr/bin/env python3
"""PyTorch on a GPU, training one of the benchmark models on data that are already there: the other side of bundle-run.

    bench/torch_gpu_peer.py MODEL BATCH PRECISION MODE SECONDS

PRECISION: float32 (no TF32), tf32 or bfloat16 (autocast; float32 parameters). MODE: eager; compile (torch.compile); or
graph (the whole step captured as one CUDA graph). Prints one line of JSON: seconds of a step (median), peak bytes.
Also: `copy` and `matmul PRECISION`, what the device can do at best, and `launches N`, a graph of N tiny kernels.
"""

import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

WARM_UP = 11


def timed(step, budget):
    """Seconds of each call, with the device done in between."""
    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    seconds, begin = [], time.perf_counter()
    while len(seconds) < 10 or time.perf_counter() - begin < budget:
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def captured(step):
    """`step` as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def training(name, batch, precision, mode, budget):
    import torch_models
    module, data, labels = torch_models.benchmark(name, batch)
    module, data, labels = module.cuda(), data.cuda(), labels.cuda()
    if data.dim() == 4:
        module, data = module.to(memory_format=torch.channels_last), data.to(memory_format=torch.channels_last)
    run = torch.compile(module) if mode == "compile" else module
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=mode != "graph")
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bfloat16"):
            logits = run(data)
        loss = F.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels.view(-1))
        loss.backward()
        optimizer.step()

    torch.cuda.reset_peak_memory_stats()
    seconds = timed(captured(step) if mode == "graph" else step, budget)
    return {"seconds": seconds, "peak_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved()}


def copy(budget):
    a = torch.empty(1 << 28, dtype=torch.float32, device="cuda")
    b = torch.empty_like(a)
    return {"bytes_per_second": 2 * a.numel() * 4 / timed(lambda: b.copy_(a), budget)}


def matmul(precision, budget):
    n, dtype = 8192, torch.bfloat16 if precision == "bfloat16" else torch.float32
    a, b = (torch.randn(n, n, device="cuda", dtype=dtype) for _ in range(2))
    return {"flops_per_second": 2 * n**3 / timed(lambda: a @ b, budget)}


def launches(count, budget):
    x = torch.zeros(1, device="cuda")

    def step():
        for _ in range(count):
            x.add_(1)

    return {"seconds": timed(captured(step), budget)}


def main():
    arguments = sys.argv[1:]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = "tf32" in arguments
    budget = float(arguments[-1])
    if arguments[0] == "copy":
        result = copy(budget)
    elif arguments[0] == "matmul":
        result = matmul(arguments[1], budget)
    elif arguments[0] == "launches":
        result = launches(int(arguments[1]), budget)
    else:
        name, batch, precision, mode = arguments[:4]
        result = training(name, int(batch), precision, mode, budget)
    print(json.dumps({**result, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
