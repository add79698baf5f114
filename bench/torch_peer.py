#!/usr/bin/env python3
"""PyTorch on one of the benchmark models: the other side of bench/step_bench.py.

    bench/torch_peer.py MODEL BATCH THREADS [--compile] [--bf16]

For every line with a number of seconds on its standard input it trains for about so long (SGD with momentum 0.9, fused)
and answers with one line of JSON: the seconds of each step, and the most memory it has had. --compile is torch.compile,
--bf16 autocast. Which malloc and instructions it runs on is its caller's choice.
"""

import os
import sys

import peer
import torch
import torch.nn.functional as F
import torch_models

MIN_STEPS = 3


def main():
    name, batch, threads, *flags = sys.argv[1:]
    torch.set_num_threads(int(threads))
    module, data, labels = torch_models.benchmark(name, int(batch))
    if data.dim() == 4:
        module, data = module.to(memory_format=torch.channels_last), data.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, fused=True)
    run = module
    if "--compile" in flags:
        peer.vectorise_as_pretended(os.environ)
        run = torch.compile(module)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled="--bf16" in flags):
            logits = run(data)
        loss = F.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels.view(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    peer.serve(step, MIN_STEPS)


if __name__ == "__main__":
    main()
