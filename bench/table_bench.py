#!/usr/bin/env python3
"""Times a training step of a recommender, whose tables only lookups read, beside PyTorch's nn.Embedding.

    tools/setup --bench && cmake --build --preset release && bench/table_bench.py [CASE...]

A case is OPTIMIZER:ROWS:WIDTH:BATCH, such as adam:1000000:64:1024. Both sides train with whole gradients of the tables,
and with lists of the rows that were looked up: `--sparse-tables='*'` here, nn.Embedding(sparse=True) and for adam
SparseAdam there. The four programs take turns in every round; what is printed is the median over all steps of all
rounds, and the most memory that each process had. Two runs at once, or a build beside, make the numbers worthless.
"""

import argparse
import datetime
import pathlib
import statistics
import tempfile

import step_bench

USUAL = ["sgd:1000000:64:1024", "adam:1000000:64:1024"]
ITEMS = 3706

NETWORK = """name: "recommender"
batch: {batch}
input {{ name: "user" dtype: INT32 max_value: {rows} }}
input {{ name: "item" dtype: INT32 max_value: {items} }}
input {{ name: "watched" shape {{ dim: 1 }} }}
layer {{ name: "users" input: "user" embedding {{ entries: {rows} width: {width} }} }}
layer {{ name: "items" input: "item" embedding {{ entries: {items} width: {width} }} }}
layer {{ name: "both" input: ["users", "items"] concat {{ axis: -1 }} }}
layer {{ name: "fc1" input: "both" dense {{ units: 128 }} }}
layer {{ name: "act1" input: "fc1" relu {{}} }}
layer {{ name: "fc2" input: "act1" dense {{ units: 1 }} }}
layer {{ name: "loss" input: "fc2" input: "watched" binary_cross_entropy_with_logits {{}} }}
objective: "loss"
optimizer {{ learning_rate: 0.001 {optimizer} {{}} }}
"""


class Ours(step_bench.Ours):
    def __init__(self, args, file, tables):
        super().__init__(args, "", 0, {})
        self.command = [str(args.snug), "step", str(file), f"--threads={args.threads}", f"--sparse-tables={tables}",
                        "--json"]


class Peer(step_bench.Peer):
    def __init__(self, args, case, tables):
        self.start(args, "table_peer.py", [*map(str, case), str(ITEMS), tables, str(args.threads)], {})


def measure(case, args):
    """(milliseconds of a step, MB) of ours with whole gradients and with lists of rows, then of PyTorch's."""
    optimizer, rows, width, batch = case
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "network.pbtxt"
        file.write_text(NETWORK.format(optimizer=optimizer, rows=rows, width=width, batch=batch, items=ITEMS))
        programs = [Ours(args, file, "!*"), Ours(args, file, "*"),
                    Peer(args, case, "dense"), Peer(args, case, "sparse")]
        for turn in range(args.rounds):
            for program in programs[turn % 4:] + programs[:turn % 4]:
                program.run(args.seconds)
        for program in programs:
            program.close()
    return [(1e3 * statistics.median(program.seconds), 1e-6 * program.peak_bytes) for program in programs]


def case_of(text):
    optimizer, *numbers = text.split(":")
    if optimizer not in ("sgd", "adam") or len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f'expected OPTIMIZER:ROWS:WIDTH:BATCH, as {USUAL[0]}, found "{text}"')
    return (optimizer, *map(int, numbers))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", type=case_of, help=f"unless named: {' '.join(USUAL)}")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2, help="of each program in each round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--snug", type=pathlib.Path, default=step_bench.ROOT / "build/release/snug")
    parser.add_argument("--python", type=pathlib.Path, default=step_bench.ROOT / "build/bench_venv/bin/python")
    args = parser.parse_args()
    if not args.python.exists():
        parser.error(f"no PyTorch in {args.python}: run tools/setup --bench, or name another --python")
    print("| optimizer:rows:width:batch | gradients | snug ms | torch ms | torch / snug | snug MB | torch MB |")
    print("|---" * 7 + "|")
    for case in args.cases or map(case_of, USUAL):
        measured = measure(case, args)
        for gradients, ours, theirs in zip(("whole", "rows"), measured[:2], measured[2:]):
            print(f"| {':'.join(map(str, case))} | {gradients} | {ours[0]:.3g} | {theirs[0]:.3g} | "
                  f"{theirs[0] / ours[0]:.2f} | {ours[1]:.0f} | {theirs[1]:.0f} |", flush=True)
    print(f"\n{step_bench.machine()}; {args.threads} threads; commit {step_bench.commit()}; {datetime.date.today()}; "
          f"PyTorch {args.torch_version}; {args.rounds} rounds of {args.seconds:g} s each.")


if __name__ == "__main__":
    main()
