#!/usr/bin/env python3
"""Inference of one of the benchmark models by PyTorch or onnxruntime: the other side of bench/step_bench.py --forward.

    bench/forward_peer.py MODEL BATCH THREADS eager|compiled|onnxruntime

For every line with a number of seconds on its standard input it runs for about so long and answers with one line of
JSON: the seconds of each run, and the most memory it has had. `compiled` is torch.compile with frozen weights;
onnxruntime gets the network as PyTorch exports it, all optimisations on. Batch norm uses its running statistics.
"""

import os
import sys
import tempfile

import peer
import torch
import torch_models

MIN_RUNS = 5


def eager(module, data):
    if data.dim() == 4:
        module, data = module.to(memory_format=torch.channels_last), data.to(memory_format=torch.channels_last)
    return lambda: module(data)


def compiled(module, data):
    peer.vectorise_as_pretended(os.environ)
    torch._inductor.config.freezing = True
    return eager(torch.compile(module), data)


def onnxruntime(module, data):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "network.onnx")
        torch.onnx.export(module, (data,), path, dynamo=True, external_data=False, verbose=False)
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name, fed = session.get_inputs()[0].name, data.numpy()
    return lambda: session.run(None, {name: fed})


def main():
    name, batch, threads, by = sys.argv[1:]
    torch.set_num_threads(int(threads))
    module, data, _ = torch_models.benchmark(name, int(batch))
    module.eval()
    answers, sys.stdout = sys.stdout, sys.stderr  # the exporter prints
    with torch.inference_mode(by != "onnxruntime"):
        run = {"eager": eager, "compiled": compiled, "onnxruntime": onnxruntime}[by](module, data)
        peer.serve(run, MIN_RUNS, answers)


if __name__ == "__main__":
    main()
