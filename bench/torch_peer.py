#!/usr/bin/python3
"""PyTorch, eager, on one of the benchmark models: the other side of bench/step_bench.py.

    bench/torch_peer.py MODEL BATCH THREADS

For every line with a number of seconds on its standard input it trains for about so long (SGD with momentum 0.9) and
answers with one line: the seconds of each step, as JSON. Which OpenBLAS and malloc it runs on is its caller's choice.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F
import torch_models

MIN_STEPS = 3


def main():
    name, batch, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    module, data, labels = torch_models.benchmark(name, batch)
    if data.dim() == 4:
        module, data = module.to(memory_format=torch.channels_last), data.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        logits = module(data)
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(2):
        step()
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        budget, seconds = float(line), []
        while len(seconds) < MIN_STEPS or sum(seconds) < budget:
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
