#!/usr/bin/env python3
"""Orders and places every training graph of the public data, beside what others reach.

    bench/order_bench.py [--snug build/release/snug] [--shared ../shared] [--work-limit N]

Prints a Markdown table: the peak of PyTorch's program order, the best peak known, ours, the arena after placement, the
bound over all orders, and seconds for all of it. Fails if a graph is not verified or worse than the best known.
"""
import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def megabytes(text):
    return f"{int(text) / 1e6:.3f}"


def order(snug, graph, limits):
    run = subprocess.run([snug, "order", graph, "--json", *limits], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{graph}: exit code {run.returncode}\n{run.stderr}")
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snug", default=str(ROOT / "build/release/snug"))
    parser.add_argument("--shared", default=os.environ.get("SNUG_SHARED", str(ROOT.parent / "shared")))
    parser.add_argument("--work-limit")
    arguments = parser.parse_args()
    limits = [f"--work-limit={arguments.work_limit}"] if arguments.work_limit else []
    folder = pathlib.Path(arguments.shared) / "data/olla"

    print("| graph | program order, MB | best known peak | our peak | best known total | our total | bound "
          "| proven: peak / total | s |")
    print("|---|---:|---:|---:|---:|---:|---:|---|---:|")
    worse = []
    with open(folder / "best_known.csv", encoding="utf-8") as table:
        for row in csv.DictReader(table):
            result = order(arguments.snug, str(folder / "graphs" / f"{row['graph']}.graph.gz"), limits)
            proven = f"{'yes' if result['peak_proven'] else 'no'} / {'yes' if result['proven'] else 'no'}"
            cells = [row["program_order_peak"], row["best_known_peak"], result["peak"], row["packed_total"],
                     result["total"], result["lower_bound"]]
            print(f"| {row['graph']} | {' | '.join(map(megabytes, cells))} | {proven} | {result['seconds']:.3f} |")
            if result["peak"] > int(row["best_known_peak"]) or result["total"] > int(row["packed_total"]):
                worse.append(row["graph"])
    if worse:
        sys.exit(f"worse than the best known: {', '.join(worse)}")


if __name__ == "__main__":
    main()
