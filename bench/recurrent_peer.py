#!/usr/bin/env python3
"""PyTorch's recurrent layers: the other side of bench/recurrent_bench.py.

    bench/recurrent_peer.py lstm|gru LAYERS WIDTH LENGTH BATCH THREADS

For every line with a number of seconds on its standard input it trains for about so long (SGD with momentum 0.9, fused)
and answers with one line of JSON: the seconds of each step, and the most memory it has had.
"""

import sys

import peer
import torch

MIN_STEPS = 3


def main():
    kind = sys.argv[1]
    layers, width, length, batch, threads = map(int, sys.argv[2:])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind]
    module = layer(width, width, num_layers=layers, batch_first=True)
    data, target = torch.randn(batch, length, width), torch.randn(batch, length, width)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(module(data)[0], target)
        loss.backward()
        optimizer.step()
        return loss.item()

    peer.serve(step, MIN_STEPS)


if __name__ == "__main__":
    main()
