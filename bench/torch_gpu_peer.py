#!/usr/bin/env python3
"""PyTorch on a GPU, training one of the benchmark models on data that are already there: the other side of bundle-run.

    bench/torch_gpu_peer.py MODEL BATCH PRECISION MODE SECONDS [--device=cpu]

PRECISION: float32 (no TF32), tf32 or bfloat16 (autocast; float32 parameters). MODE, each as PyTorch's own advice has it:
eager; graph (the whole step captured as one CUDA graph); compile (torch.compile); compile_graph (its "reduce-overhead",
CUDA graphs); autotune (its "max-autotune", which measures kernels, with CUDA graphs). Everywhere: cuDNN measures its
algorithms (cudnn.benchmark), images lie channels-last, attention is F.scaled_dot_product_attention with is_causal, SGD
with momentum is one fused kernel, and what is compiled includes the loss. Prints one line of JSON: seconds of a step (median), peak bytes, what was in effect.
Also: `copy`, `cached` and `matmul PRECISION`, what the device can do at best, and `launches N`, a graph of N tiny kernels.
--device=cpu tries out the script itself: there are no graphs then.
"""

import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

WARM_UP = 11
COMPILE_MODES = {"compile": "default", "compile_graph": "reduce-overhead", "autotune": "max-autotune"}
MODES = ("eager", "graph", *COMPILE_MODES)
DEVICE = "cuda"


def on_gpu():
    return DEVICE != "cpu"


def done():
    if on_gpu():
        torch.cuda.synchronize()


def timed(step, budget):
    """Seconds of each call, with the device done in between."""
    for _ in range(WARM_UP if on_gpu() else 2):
        step()
    done()
    seconds, begin = [], time.perf_counter()
    while len(seconds) < (10 if on_gpu() else 2) or time.perf_counter() - begin < budget:
        start = time.perf_counter()
        step()
        done()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def captured(step):
    """`step` as one CUDA graph."""
    if not on_gpu():
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):  # cuDNN measures its algorithms, which need not be possible while something is recorded
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def training(name, batch, precision, mode, budget):
    import torch_models
    if mode not in MODES:
        raise ValueError(f"no such mode: {mode}; there are {', '.join(MODES)}")
    module, data, labels = torch_models.benchmark(name, batch)
    module, data, labels = module.to(DEVICE), data.to(DEVICE), labels.to(DEVICE)
    if data.dim() == 4:
        module, data = module.to(memory_format=torch.channels_last), data.to(memory_format=torch.channels_last)

    def loss_of(x, y):  # with the loss, which of a large vocabulary is a good part of the step
        logits = module(x)
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), y.view(-1))

    run = torch.compile(loss_of, mode=COMPILE_MODES[mode]) if mode in COMPILE_MODES else loss_of
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=mode != "graph")
        with torch.autocast(DEVICE, torch.bfloat16, enabled=precision == "bfloat16"):
            loss = run(data, labels)
        loss.backward()
        optimizer.step()

    if on_gpu():
        torch.cuda.reset_peak_memory_stats()
    seconds = timed(captured(step) if mode == "graph" else step, budget)
    memory = {"peak_bytes": torch.cuda.max_memory_allocated(),
              "reserved_bytes": torch.cuda.max_memory_reserved()} if on_gpu() else {}
    return {"seconds": seconds, **memory, "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "tf32": torch.backends.cuda.matmul.allow_tf32, "channels_last": data.dim() == 4, "fused_optimizer": True,
            "graphs": on_gpu() and mode in ("graph", "compile_graph", "autotune")}


def copy(budget, elements=1 << 28):
    a = torch.empty(elements if on_gpu() else 1 << 20, dtype=torch.float32, device=DEVICE)
    b = torch.empty_like(a)
    return {"bytes_per_second": 2 * a.numel() * 4 / timed(lambda: b.copy_(a), budget)}


def cached(budget):
    """Copies of what stays in the second-level cache, many in one graph."""
    count, elements = 100, 1 << 21
    a = torch.empty(elements, dtype=torch.float32, device=DEVICE)
    b = torch.empty_like(a)

    def step():
        for _ in range(count):
            b.copy_(a)

    return {"bytes_per_second": 2 * elements * 4 * count / timed(captured(step), budget)}


def matmul(precision, budget):
    n, dtype = 8192 if on_gpu() else 256, torch.bfloat16 if precision == "bfloat16" else torch.float32
    a, b = (torch.randn(n, n, device=DEVICE, dtype=dtype) for _ in range(2))
    return {"flops_per_second": 2 * n**3 / timed(lambda: a @ b, budget)}


def launches(count, budget):
    x = torch.zeros(1, device=DEVICE)

    def step():
        for _ in range(count):
            x.add_(1)

    return {"seconds": timed(captured(step), budget)}


def device():
    if not on_gpu():
        return {"device": "cpu"}
    properties = torch.cuda.get_device_properties(0)
    return {"device": properties.name, "processors": properties.multi_processor_count,
            "l2_bytes": getattr(properties, "L2_cache_size", 0)}


def main():
    global DEVICE
    arguments = [word for word in sys.argv[1:] if not word.startswith("--device=")]
    DEVICE = next((word.split("=")[1] for word in sys.argv[1:] if word.startswith("--device=")), "cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = "tf32" in arguments
    torch.backends.cudnn.benchmark = True
    budget = float(arguments[-1])
    kinds = {"copy": lambda: copy(budget), "cached": lambda: cached(budget),
             "matmul": lambda: matmul(arguments[1], budget), "launches": lambda: launches(int(arguments[1]), budget)}
    if arguments[0] in kinds:
        result = {**kinds[arguments[0]](), **device()}
    else:
        name, batch, precision, mode = arguments[:4]
        result = training(name, int(batch), precision, mode, budget)
    print(json.dumps({**result, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
