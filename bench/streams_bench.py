#!/usr/bin/env python3
"""What several streams cost in memory and bring in time: one training step of some networks on one stream and on two, by
each policy. All runs of a network are done in turn, several times over; the median step counts.

    bench/streams_bench.py [--rounds=N] [NETWORK:BATCH ...]
"""

import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
SNUG = ROOT / "build" / "release" / "snug"

# name, flags
RUNS = [
    ("1 stream, 1 thread an op", ["--streams=1", "--threads=1"]),
    ("1 stream, 2 threads an op", ["--streams=1", "--threads=2"]),
    ("2 streams, serial", ["--streams=2", "--threads=1", "--stream-policy=serial"]),
    ("2 streams, waitless", ["--streams=2", "--threads=1", "--stream-policy=waitless"]),
] + [
    (f"2 streams, {policy}", ["--streams=2", "--threads=1", f"--stream-policy={policy}"])
    for policy in ("implicit", "ancestors", "ancestors-only", "colors", "colors-only")
]


def snug(*arguments):
    return json.loads(subprocess.run([SNUG, *arguments, "--json"], check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("networks", nargs="*", default=["mlp:64", "resnet18:8", "gpt_small:4"])
    options = parser.parse_args()
    for network in options.networks:
        name, batch = network.split(":")
        common = [ROOT / "models" / f"{name}.pbtxt", f"--batch={batch}"]
        times = {run: [] for run, _ in RUNS}
        for _ in range(options.rounds):
            for run, flags in RUNS:
                times[run] += snug("step", *common, "--steps=6", *flags)["seconds"][1:]
        base = statistics.median(times[RUNS[0][0]])
        print(f"\n{name}, batch {batch}\n\n| | MB | waits | expected | ms a step | speed |\n|---|---|---|---|---|---|")
        for run, flags in RUNS:
            plan = snug("plan", *common, *flags)
            seconds = statistics.median(times[run])
            print(f"| {run} | {plan['total'] / 1e6:.1f} | {plan['streams']['waits']} | "
                  f"{plan['streams']['estimated_speedup']:.2f} | {seconds * 1e3:.2f} | {base / seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
