#!/usr/bin/env python3
"""Times a training step of LSTM and GRU layers, which are loops in Snug's model files, beside PyTorch's nn.LSTM and nn.GRU.

    tools/setup --bench && cmake --build --preset release && bench/recurrent_bench.py [CASE...] [--markdown=FILE]

A case is KIND:LAYERS:WIDTH:LENGTH:BATCH, such as lstm:1:256:100:32. Both sides train on one batch of random sequences:
layers of the width of what they read, a mean squared error of all outputs, SGD with momentum. The programs take turns in
every round; what is printed is the median over all steps of all rounds, and the most memory that each process had.
--disable-passes shows what a pass brings. Two runs at once, or a build beside, make the numbers worthless.

    bench/recurrent_bench.py --plan [CASE...]

plans the memory of a step in place of timing it, with sequences laid out with their steps first: all that gradients read
is kept, or rounds are computed anew by limits for that or by the square root of their number. First with a loop for each
layer, which hands a sequence to the next one, then with one loop of steps, each of which has all layers and its error.
"""

import argparse
import datetime
import json
import pathlib
import resource
import statistics
import subprocess
import tempfile

import step_bench

USUAL = ["lstm:1:256:64:32", "lstm:1:256:100:32", "lstm:2:256:100:32", "gru:1:256:64:32", "gru:1:256:100:32",
         "gru:2:256:100:32"]
PLANNED = ["lstm:4:1024:1000:64"]
LIMITS = ["4GB", "1GB", "300MB"]

LSTM = """
block {{ name: "cell" input: "x" input: "h" input: "c"
  layer {{ name: "ih" input: "$x" dense {{ units: {four} }} }}
  layer {{ name: "hh" input: "$h" dense {{ units: {four} }} }}
  layer {{ name: "sum" input: "ih" input: "hh" add {{}} }}
  layer {{ name: "gates" input: "sum" split {{ parts: 4 axis: -1 }} }}
  layer {{ name: "i" input: "gates" sigmoid {{}} }}
  layer {{ name: "f" input: "gates:1" sigmoid {{}} }}
  layer {{ name: "g" input: "gates:2" tanh {{}} }}
  layer {{ name: "o" input: "gates:3" sigmoid {{}} }}
  layer {{ name: "kept" input: "f" input: "$c" mul {{}} }}
  layer {{ name: "added" input: "i" input: "g" mul {{}} }}
  layer {{ name: "c_next" input: "kept" input: "added" add {{}} }}
  layer {{ name: "bounded" input: "c_next" tanh {{}} }}
  layer {{ name: "h_next" input: "o" input: "bounded" mul {{}} }}
  output: "h_next" output: "c_next" }}
"""
GRU = """
block {{ name: "cell" input: "x" input: "h"
  layer {{ name: "ih" input: "$x" dense {{ units: {three} }} }}
  layer {{ name: "hh" input: "$h" dense {{ units: {three} }} }}
  layer {{ name: "from_x" input: "ih" split {{ parts: 3 axis: -1 }} }}
  layer {{ name: "from_h" input: "hh" split {{ parts: 3 axis: -1 }} }}
  layer {{ name: "r_sum" input: "from_x" input: "from_h" add {{}} }}
  layer {{ name: "r" input: "r_sum" sigmoid {{}} }}
  layer {{ name: "z_sum" input: "from_x:1" input: "from_h:1" add {{}} }}
  layer {{ name: "z" input: "z_sum" sigmoid {{}} }}
  layer {{ name: "reset" input: "r" input: "from_h:2" mul {{}} }}
  layer {{ name: "n_sum" input: "from_x:2" input: "reset" add {{}} }}
  layer {{ name: "n" input: "n_sum" tanh {{}} }}
  layer {{ name: "change" input: "$h" input: "n" sub {{}} }}
  layer {{ name: "kept" input: "z" input: "change" mul {{}} }}
  layer {{ name: "h_next" input: "n" input: "kept" add {{}} }}
  output: "h_next" }}
"""


def network(kind, layers, width, length, batch, steps_first=False):
    states = ["h", "c"] if kind == "lstm" else ["h"]
    text = f'name: "{kind}"\nbatch: {batch}\n' + (LSTM if kind == "lstm" else GRU).format(four=4 * width, three=3 * width)
    dims = f"dim: [{length}, {batch}, {width}]" if steps_first else f"dim: [{length}, {width}]"
    for name in ("x", "target"):
        text += f'input {{ name: "{name}" {"no_batch: true " if steps_first else ""}shape {{ {dims} }} }}\n'
    if steps_first:
        text += f'input {{ name: "zeros" shape {{ dim: {width} }} }}\n'
    else:
        text += f'layer {{ name: "zeros" input: "x" state {{ dim: {width} }} }}\n'
    carries = " ".join(f'carry {{ input: "{s}" output: "{s}_next" }}' for s in states)
    axis = " axis: 0" if steps_first else ""
    below = "x"
    for i in range(layers):
        inputs = ", ".join(f'"{name}"' for name in [below] + ["zeros"] * len(states))
        text += (f'layer {{ name: "layer{i}" input: [{inputs}] loop {{ body: "cell" scan {{ input: "x"{axis} }} {carries} '
                 f'collect {{ output: "h_next"{axis} }} }} }}\n')
        below = f"layer{i}:{len(states)}"
    text += f'layer {{ name: "loss" input: "{below}" input: "target" mean_squared_error {{}} }}\nobjective: "loss"\n'
    return text + "optimizer { learning_rate: 0.01 sgd { momentum: 0.9 } }\n"


def network_of_steps(kind, layers, width, length, batch):
    """The same as one loop, whose body has the cells of all layers and the error of its step: a chain of time steps, as
    frameworks that unroll by hand have it. Only inputs and targets are sequences."""
    states = ["h", "c"] if kind == "lstm" else ["h"]
    text = f'name: "{kind}"\nbatch: {batch}\n'
    text += (LSTM if kind == "lstm" else GRU).format(four=4 * width, three=3 * width)
    carried = [f"{s}{i}" for i in range(layers) for s in states]
    text += 'block { name: "step" ' + " ".join(f'input: "{name}"' for name in ["x", "target", "total", *carried]) + "\n"
    below = "$x"
    for i in range(layers):
        inputs = " ".join(f'input: "{name}"' for name in [below, *(f"${s}{i}" for s in states)])
        text += f'  layer {{ name: "cell{i}" {inputs} cell {{}} }}\n'
        below = f"cell{i}"
    text += f'  layer {{ name: "error" input: "{below}" input: "$target" mean_squared_error {{}} }}\n'
    text += '  layer { name: "total_next" input: "$total" input: "error" add {} }\n  output: "total_next" '
    text += " ".join(f'output: "cell{i}:{s}"' for i in range(layers) for s in range(len(states))) + " }\n"
    for name in ("x", "target"):
        text += f'input {{ name: "{name}" no_batch: true shape {{ dim: [{length}, {batch}, {width}] }} }}\n'
    text += f'input {{ name: "zeros" shape {{ dim: {width} }} }}\n'
    text += 'layer { name: "none" input: "zeros" reduce_mean {} }\n'
    inputs = ", ".join(f'"{name}"' for name in ["x", "target", "none", *["zeros"] * len(carried)])
    carries = 'carry { input: "total" output: "total_next" } '
    carries += " ".join(f'carry {{ input: "{s}{i}" output: "cell{i}:{states.index(s)}" }}' for i in range(layers)
                        for s in states)
    text += (f'layer {{ name: "steps" input: [{inputs}] loop {{ body: "step" scan {{ input: "x" axis: 0 }} '
             f'scan {{ input: "target" axis: 0 }} {carries} }} }}\n')
    text += f'layer {{ name: "loss" input: "steps" scale {{ factor: {1 / length} }} }}\nobjective: "loss"\n'
    return text + "optimizer { learning_rate: 0.01 sgd { momentum: 0.9 } }\n"


class Ours(step_bench.Ours):
    def __init__(self, args, file):
        super().__init__(args, "", 0, {})
        self.command = [str(args.snug), "step", str(file), f"--threads={args.threads}", "--json"]
        if args.disable_passes:
            self.command.append(f"--disable-passes={args.disable_passes}")
        if args.loops:
            self.command.append(f"--loops={args.loops}")


class Peer(step_bench.Peer):
    def __init__(self, args, case):
        self.start(args, "recurrent_peer.py", [*map(str, case), str(args.threads)], {})


def measure(case, args):
    """(milliseconds of a step, MB) of ours, then of PyTorch's."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "network.pbtxt"
        file.write_text(network(*case))
        programs = [Ours(args, file), Peer(args, case)]
        for turn in range(args.rounds):
            for program in programs[turn % 2:] + programs[:turn % 2]:
                program.run(args.seconds)
        for program in programs:
            program.close()
    return [(1e3 * statistics.median(program.seconds), 1e-6 * program.peak_bytes) for program in programs]


def show(head, cells):
    print("  ".join(cell.rjust(max(6, len(title))) for cell, title in zip(cells, head)), flush=True)


def plan(case, args):
    """Tables of what a step of the network takes, by what is computed anew."""
    head = ["rounds anew".ljust(21), "stashes MB", "total MB", "above the bound", "CPU s", "seconds", "chunks"]
    texts = {"a loop for each layer": (network(*case, steps_first=True), [*LIMITS, "150MB"]),
             "one loop of steps": (network_of_steps(*case), LIMITS)}
    for title, (text, limits) in texts.items():
        print(f"{title}:")
        show(head, head)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "network.pbtxt"
            file.write_text(text)
            for flags in [[], *([f"--stash-limit={limit}"] for limit in limits), ["--recompute-rounds=-1"]]:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                done = subprocess.run([str(args.snug), "plan", str(file), "--json", *flags], stdout=subprocess.PIPE,
                                      check=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                found = json.loads(done.stdout)
                stashes = sum(loop["stash_bytes"] for loop in found["loops"])
                stashes += max(loop["chunk_stash_bytes"] for loop in found["loops"])
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                chunks = " ".join(str(loop["chunk"]) for loop in found["loops"])
                show(head, [" ".join(flags) or "none", f"{stashes * 1e-6:.0f}", f"{found['total'] * 1e-6:.0f}",
                            f"{found['gap'] / found['lower_bound']:.4%}", f"{cpu:.2f}",
                            f"{found['seconds']:.2f}", chunks])


def case_of(text):
    kind, *numbers = text.split(":")
    if kind not in ("lstm", "gru") or len(numbers) != 4:
        raise argparse.ArgumentTypeError(f'expected KIND:LAYERS:WIDTH:LENGTH:BATCH, as {USUAL[0]}, found "{text}"')
    return (kind, *map(int, numbers))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", type=case_of, help=f"unless named: {' '.join(USUAL)}")
    parser.add_argument("--plan", action="store_true", help=f"plan memory; the case unless named: {PLANNED[0]}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each program in each round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--loops", help="of ours: unrolled, rolled, or by-size, as by default")
    parser.add_argument("--disable-passes", default="", help="of ours")
    parser.add_argument("--snug", type=pathlib.Path, default=step_bench.ROOT / "build/release/snug")
    parser.add_argument("--python", type=pathlib.Path, default=step_bench.ROOT / "build/bench_venv/bin/python")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table there")
    args = parser.parse_args()
    if args.plan:
        for case in args.cases or map(case_of, PLANNED):
            plan(case, args)
        return
    if not args.python.exists():
        parser.error(f"no PyTorch in {args.python}: run tools/setup --bench, or name another --python")
    head = ["kind", "layers", "width", "length", "batch", "snug ms", "torch ms", "torch / snug", "snug MB", "torch MB"]
    show(head, head)
    rows = []
    for case in args.cases or map(case_of, USUAL):
        (ours, our_mb), (theirs, their_mb) = measure(case, args)
        rows.append([*map(str, case), f"{ours:.3g}", f"{theirs:.3g}", f"{theirs / ours:.2f}", f"{our_mb:.0f}",
                     f"{their_mb:.0f}"])
        show(head, rows[-1])
        if args.markdown:
            lines = [f"{step_bench.machine()}; {args.threads} threads; commit {step_bench.commit()}; "
                     f"{datetime.date.today()}; PyTorch {args.torch_version}; {args.rounds} rounds of "
                     f"{args.seconds:g} s each.", ""]
            lines += ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows]]
            args.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
