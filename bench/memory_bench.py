#!/usr/bin/env python3
"""What a step of each model needs under every memory strategy: the tables of docs/benchmarks/memory.md.

    bench/memory_bench.py [--models resnet50,gpt_small] [--batches 1,32] [--measure]

Runs `snug memcost --json` and prints Markdown: MB (10^6 bytes, Variables included) and the ratio to `none`; * marks a
total that is proven least (for `best` and `olla` over all orders, otherwise for the given order). With --measure also
milliseconds per step, the fastest of a few, in training.
"""

import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]


def memcost(binary, model, batch, measure):
    command = [binary, "memcost", f"models/{model}.pbtxt", f"--batch={batch}", "--json"]
    if measure:
        command.append("--measure")
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)["rows"]


def cell(row, base):
    return f"{row['arena'] / 1e6:.2f} ({row['arena'] / base['arena']:.3f}){'*' if row['proven'] else ''}"


def print_table(model, batch, rows, measure):
    by_mode = {mode: [row for row in rows if row["mode"] == mode] for mode in ("forward", "training")}
    print(f"\n**{model}, batch {batch}**\n")
    print("| strategy | forward MB | training MB | planning s, training |" + (" step ms |" if measure else ""))
    print("|---|---|---|---|" + ("---|" if measure else ""))
    for forward, training in zip(by_mode["forward"], by_mode["training"]):
        cells = [
            training["strategy"],
            cell(forward, by_mode["forward"][0]),
            cell(training, by_mode["training"][0]),
            f"{training['seconds']:.3f}",
        ]
        if measure:
            if training["measured"] != training["arena"]:
                raise SystemExit(f"{model}: {training['measured']} bytes measured, {training['arena']} planned")
            cells.append(f"{training['step_ms']:.3g}")
        print("| " + " | ".join(cells) + " |")
    bounds = ", ".join(f"{mode} {max(row['lower_bound'] for row in rows_of if row['strategy'] == 'best') / 1e6:.2f}"
                       for mode, rows_of in by_mode.items())  # fmt: skip
    print(f"\nBound over all orders, MB: {bounds}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/release/snug")
    parser.add_argument("--models", default="mlp,mlp_big,lenet,resnet18,resnet50,mobilenet_v2,gpt_small")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    for model in options.models.split(","):
        for batch in options.batches.split(","):
            print_table(model, batch, memcost(options.binary, model, batch, options.measure), options.measure)


if __name__ == "__main__":
    main()
