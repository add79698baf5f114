#!/usr/bin/env python3
"""Every kind of kernel of ours beside its ceiling, on each instruction set that this machine has or can pretend.

    bench/kernel_table.py [--build=build/release] [--threads=N] [--isa=avx2,avx512] [--only=TEXT] [--under=0.5]

A kernel runs where it works: in the steps of a small network, timed by `snug step --profile`; the least of several runs.
The ceiling is the longest of three times, from rates that are measured in the same run with the same threads and
instruction set (bench/rates_bench.cc): its operations at the rate of multiply-adds, its bytes at the rate of a copy over
a working set of their size, and, where functions such as exp are computed, so many vector instructions (INSTRUCTIONS) at
half that rate of operations. It prints a table in Markdown: GFLOP/s where arithmetic is the ceiling, else GB/s, and the
share of the ceiling; what is under --under (a half) everywhere or somewhere stands in bold.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
ISAS = {"baseline": "SSE41", "avx2": "AVX2", "avx512": "ALL"}  # and what oneDNN calls them

# Vector instructions an element, counted in the machine code that AVX2 is given for these functions (the gradients of
# activations too); other instruction sets take a few more or fewer.
EXP, EXP_OR_ZERO, LOG, TANH, ERF = 39, 28, 49, 45, 51
INSTRUCTIONS = {
    "exp": EXP, "log": LOG, "tanh": TANH, "sigmoid": EXP + 2, "silu": EXP + 3, "silu_grad": EXP + 8,
    "gelu": ERF + 4, "gelu_grad": ERF + EXP_OR_ZERO + 8,
    "softmax": EXP_OR_ZERO + 6, "log_softmax": EXP_OR_ZERO + 6, "log_softmax_grad": EXP_OR_ZERO + 3,
    "softmax_cross_entropy": EXP_OR_ZERO + 5, "softmax_cross_entropy_grad": EXP_OR_ZERO + 4,
    "softmax_cross_entropy_with_grad": 2 * EXP_OR_ZERO + 9,
}
BY_TANH = {"gelu": EXP_OR_ZERO + 6, "gelu_grad": EXP_OR_ZERO + 21}

CHANNELS_LAST = "conv { filters: %d kernel: 1 bias: false }"  # before what shall find images as convolutions leave them
MEAN = 'layer { name: "loss" input: "y" reduce_mean {} } objective: "loss"'


def chain(shape, *layers, value=1.0):
    """A network from a parameter of this shape, so that everything after it has a gradient, to a mean."""
    text = 'layer { name: "x" parameter { dim: %s init { kind: NORMAL value: %g } } }\n' % (list(shape), value)
    last = "x"
    for i, layer in enumerate(layers):
        name = "y" if i == len(layers) - 1 else f"l{i}"
        text += f'layer {{ name: "{name}" input: "{last}" {layer} }}\n'
        last = name
    return text + MEAN


def attention(batch, length, heads, width, causal=False):
    text = "".join('layer { name: "%s" parameter { dim: %s init { kind: NORMAL value: 1 } } }\n'
                   % (name, [batch, length, heads * width]) for name in "qkv")
    options = f"heads: {heads}" + (" causal: true" if causal else "")
    return text + f'layer {{ name: "y" input: ["q", "k", "v"] attention {{ {options} }} }}\n' + MEAN


def classify(width, classes):
    return (f'input {{ name: "x" shape {{ dim: {width} }} }}\ninput {{ name: "label" dtype: INT32 max_value: {classes} }}\n'
            f'layer {{ name: "logits" input: "x" dense {{ units: {classes} bias: false }} }}\n'
            'layer { name: "loss" input: "logits" input: "label" softmax_cross_entropy {} } objective: "loss"')


def update(optimizer):
    return chain([2048, 1024], "square {}") + f"\noptimizer {{ learning_rate: 1e-3 {optimizer} }}"


L2, MEMORY, ODD = (128, 1024), (4096, 1024), (257, 1001)
FLAGS = ["--disable-passes=fuse_elementwise"]
# name, network, flags, and the ops that are shown of it.
CASES = [
    *((f"{'by tanh, ' if options else ''}{where}", chain(shape, f"{op} {{{options}}}"), [], ops)
      for where, shape in (("128 x 1024", L2), ("4096 x 1024", MEMORY), ("257 x 1001", ODD))
      for op, options, ops in (
          ("relu", "", ["relu", "relu_grad"]), ("exp", "", ["exp"]), ("tanh", "", ["tanh", "tanh_grad"]),
          ("sigmoid", "", ["sigmoid"]), ("gelu", "", ["gelu", "gelu_grad"]), ("gelu", " tanh: true ", ["gelu", "gelu_grad"]))),
    ("128 x 1024", chain(L2, "exp {}", "log {}"), [], ["log"]),
    ("subnormal, 128 x 1024", chain(L2, "gelu {}", value=1e-39), [], ["gelu", "gelu_grad"]),
    ("subnormal, 128 x 1024", chain(L2, "relu {}", "square {}", value=1e-39), [], ["relu", "square"]),
    *((f"rows of {shape[1]}" + (", subnormal" if value != 1 else ""),
       chain(shape, f"{op} {{}}", "square {}", value=value), [], [op, f"{op}_grad"])
      for op in ("softmax", "layer_norm", "rms_norm", "log_softmax")
      for shape, value in (((65536, 10), 1), ((4096, 257), 1), ((1024, 1024), 1), ((1024, 1024), 1e-39))),
    *((f"{batch} rows of {classes}", classify(16, classes), [f"--batch={batch}"],
       ["softmax_cross_entropy", "softmax_cross_entropy_grad"]) for batch, classes in ((65536, 10), (1024, 5000), (4096, 1001))),
    *((f"16 x {c} x {s} x {s}", chain((16, c, s, s), CHANNELS_LAST % c, "batch_norm {}", "square {}"), [], ["batch_norm", "batch_norm_grad"])
      for c, s in ((64, 56), (3, 57), (512, 7))),
    ("16 x 64 x 28 x 28", chain((16, 64, 28, 28), CHANNELS_LAST % 64, "group_norm { groups: 8 }", "square {}"), [], ["group_norm", "group_norm_grad"]),
    *((f"16 x {c} x {s} x {s}, {kernel} by {stride}",
       chain((16, c, s, s), CHANNELS_LAST % c, f"{pool} {{ kernel: {kernel} stride: {stride} pad: {kernel // 2} }}", "square {}"), [],
       [pool, f"{pool}_indices", f"{pool}_grad"])
      for pool in ("max_pool", "avg_pool") for c, s, kernel, stride in ((64, 56, 3, 2), (6, 28, 2, 2), (61, 29, 3, 1))),
    ("16 x 64 x 56 x 56, 3 by 2, channels first",
     chain((16, 64, 56, 56), "max_pool { kernel: 3 stride: 2 pad: 1 }", "square {}"), [], ["max_pool_indices", "max_pool_grad"]),
    ("16 x 512 x 7 x 7", chain((16, 512, 7, 7), CHANNELS_LAST % 512, "global_avg_pool {}", "square {}"), [], ["global_avg_pool", "global_avg_pool_grad"]),
    *((f"depthwise, 16 x {c} x {s} x {s}", chain((16, c, s, s), "conv { kernel: 3 pad: 1 depthwise: true bias: false }", "square {}"),
       [], ["conv", "conv_grad_input", "conv_grad_weight"]) for c, s in ((96, 56), (576, 14), (33, 27))),
    *((f"3 x 3, 16 x {c} x {s} x {s} to {f}",
       chain((16, c, s, s), f"conv {{ filters: {f} kernel: 3 pad: 1 bias: false }}", "square {}"), [],
       ["conv", "conv_grad_input", "conv_grad_weight"]) for c, s, f in ((64, 56, 64), (256, 14, 256), (61, 29, 67))),
    *((f"{n} x {k} to {units}", chain((n, k), f"dense {{ units: {units} bias: false }}", "square {}"), [],
       ["dense", "dense_grad_input", "dense_grad_weight"])
      for n, k, units in ((1024, 256, 1024), (1024, 1024, 256), (256, 2048, 2048), (509, 251, 1003), (8, 1024, 1024))),
    *((f"{b} x {n}, {h} heads of {w}" + (", causal" if causal else ""), attention(b, n, h, w, causal), [],
       ["attention", "attention_grad"])
      for b, n, h, w, causal in ((8, 128, 4, 64, True), (4, 197, 12, 64, False), (1, 1024, 4, 64, True), (4, 61, 3, 40, False))),
    *(("2048 x 1024", update(text), [], [f"{name}_update"]) for name, text in (
        ("sgd", "sgd {}"), ("momentum", "sgd { momentum: 0.9 }"), ("adam", "adam {}"), ("lion", "lion {}"), ("rmsprop", "rmsprop {}"),
        ("adagrad", "adagrad {}"), ("lamb", "lamb {}"))),
    ("4096 x 1024, to bfloat16 and back", chain(MEMORY, "cast { dtype: BFLOAT16 }", "cast { dtype: FLOAT32 }"), [], ["cast"]),
    ("2048 x 1024", chain((2048, 1024), "transpose { axes: [1, 0] }", "square {}"), [], ["transpose"]),
    ("2048 x 1024", chain((2048, 1024), "dropout {}"), [], ["dropout", "dropout_grad"]),
    ("2048 x 1024", chain((2048, 1024), "square {}"), [], ["reduce_mean", "square"]),
]


def run(command, isa):
    # Threads stay where they are: now and then Linux puts two that wait for each other on one processor, for a while.
    environment = {**os.environ, "SNUG_ISA": isa, "ONEDNN_MAX_CPU_ISA": ISAS[isa], "OMP_PROC_BIND": "true",
                   "GOMP_SPINCOUNT": "10000"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.stderr}")
    return json.loads(done.stdout)


def profile(build, network, flags, threads, isa, runs):
    """The nodes of a step: the least time of each over several runs."""
    with tempfile.NamedTemporaryFile("w", suffix=".pbtxt") as file:
        file.write('name: "case"\n' + network)
        file.flush()
        command = [build / "snug", "step", file.name, "--steps=6", "--profile", "--json", f"--threads={threads}", *FLAGS, *flags]
        found = [run(command, isa)["profile"]["nodes"] for _ in range(runs)]
    for nodes in zip(*found):
        yield {**nodes[0], "seconds": min(node["seconds"] for node in nodes)}


def elements(node):
    # What is read or written once, by elements of four bytes: of all that functions are applied to.
    return node["bytes"] / 4 / (3 if node["op"].endswith("_grad") else 2)


def ceiling(node, case, rates):
    """Seconds, and what they are of."""
    copy = min(rates["copies"], key=lambda entry: abs(entry["bytes"] / node["bytes"] - 1) if entry["bytes"] > node["bytes"]
               else abs(node["bytes"] / entry["bytes"] - 1))["bytes_per_second"]
    instructions = (BY_TANH if case.startswith("by tanh") else INSTRUCTIONS).get(node["op"], 0) * elements(node)
    return max((node["flops"] / rates["flops_per_second"], "GFLOP/s"), (node["bytes"] / copy, "GB/s"),
               (2 * instructions / rates["flops_per_second"], "functions"))


def cell(node, case, rates, under):
    seconds, kind = ceiling(node, case, rates)
    share = seconds / node["seconds"]
    rate = node["flops" if kind == "GFLOP/s" else "bytes"] / node["seconds"] * 1e-9
    text = f"{rate:.1f} {'GB/s' if kind == 'functions' else kind}, {'f ' if kind == 'functions' else ''}{share:.0%}"
    return f"**{text}**" if share < under else text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--isa", default="baseline,avx2,avx512")
    parser.add_argument("--only", default="", help="a part of a kernel's or a case's name")
    parser.add_argument("--under", type=float, default=0.5)
    parser.add_argument("--runs", type=int, default=2)
    args = parser.parse_args()
    rates, rows = {}, {}
    for isa in args.isa.split(","):
        found = run([args.build / "bench/rates_bench", f"--threads={args.threads}"], isa)
        if found["instructions"] == isa:  # the machine may have less
            rates[isa] = found
    for name, network, flags, ops in CASES:
        if args.only and not any(args.only in text for text in (name, *ops)):
            continue
        for isa in rates:
            for node in profile(args.build, network, flags, args.threads, isa, args.runs):
                if node["op"] in ops and node["bytes"] > 4096:
                    row = rows.setdefault((node["op"], name, node["node"]), {})
                    row[isa] = (node["kernel"], cell(node, name, rates[isa], args.under))
    print(f"{args.threads} threads. Multiply-adds on registers, GFLOP/s: "
          + ", ".join(f"{isa} {found['flops_per_second'] * 1e-9:.0f}" for isa, found in rates.items()) + ". Copies, GB/s: "
          + "; ".join(f"{entry['bytes'] // 1024} KB {entry['bytes_per_second'] * 1e-9:.0f}"
                      for entry in rates[list(rates)[-1]]["copies"]) + ".\n")
    print("| op | on | kernel | " + " | ".join(rates) + " |\n|---|---|---|" + "---|" * len(rates))
    for (op, name, _), row in rows.items():
        kernels = list(dict.fromkeys(kernel for kernel, _ in row.values()))
        print(f"| {op} | {name} | {', '.join(kernels)} | " + " | ".join(row.get(isa, ("", ""))[1] for isa in rates) + " |")


if __name__ == "__main__":
    main()
