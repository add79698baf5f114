#!/usr/bin/env python3
"""PyTorch's nn.Embedding in a recommender: the other side of bench/table_bench.py.

    bench/table_peer.py sgd|adam ROWS WIDTH BATCH ITEMS dense|sparse THREADS

For every line with a number of seconds on its standard input it trains for about so long and answers with one line of
JSON: the seconds of each step, and the most memory it has had.
"""

import itertools
import sys

import peer
import torch

MIN_STEPS = 3


def main():
    kind, gradients = sys.argv[1], sys.argv[6]
    rows, width, batch, items = map(int, sys.argv[2:6])
    torch.set_num_threads(int(sys.argv[7]))
    torch.manual_seed(1)
    sparse = gradients == "sparse"
    users, wares = (torch.nn.Embedding(n, width, sparse=sparse) for n in (rows, items))
    mlp = torch.nn.Sequential(torch.nn.Linear(2 * width, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    tables, rest = [users.weight, wares.weight], list(mlp.parameters())
    if kind == "sgd":
        optimizers = [torch.optim.SGD(tables + rest, lr=0.001)]
    elif sparse:
        optimizers = [torch.optim.SparseAdam(tables, lr=0.001), torch.optim.Adam(rest, lr=0.001, fused=True)]
    else:
        optimizers = [torch.optim.Adam(tables + rest, lr=0.001, fused=True)]
    batches = itertools.cycle([(torch.randint(0, rows, (batch,)), torch.randint(0, items, (batch,)),
                                torch.randint(0, 2, (batch, 1)).float()) for _ in range(16)])

    def step():
        user, ware, watched = next(batches)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        score = mlp(torch.cat([users(user), wares(ware)], 1))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(score, watched)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss.item()

    peer.serve(step, MIN_STEPS)


if __name__ == "__main__":
    main()
