#!/usr/bin/env python3
"""What each reduction of OLLA does to time and optimum: one table, CPU seconds of `snug order --memory=olla`.

    bench/olla_bench.py BUILD/snug GRAPH.graph[.gz] ... [--work-limit=N]
"""
import json
import os
import resource
import subprocess
import sys

VARIANTS = [
    ("split", ["--olla=split"]),
    ("no spans", ["--olla=split", "--olla-spans=false"]),
    ("no stages", ["--olla=split", "--olla-stages=false"]),
    ("warm start", ["--olla=split", "--olla-warm-start"]),
    ("early updates", ["--olla=split", "--olla-early-updates"]),
    ("pyramid", ["--olla=split", "--olla-pyramid"]),
    ("joint", ["--olla=joint"]),
    ("joint, no spans", ["--olla=joint", "--olla-spans=false"]),
    ("joint, no precedence", ["--olla=joint", "--olla-precedence=false"]),
]
MOST_JOINT_TASKS = 20  # beyond these the joint program spends any limit


def run(snug, graph, flags):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([snug, "order", graph, "--memory=olla", "--json", *flags], capture_output=True, text=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    if done.returncode != 0:
        sys.exit(f"{graph} {' '.join(flags)}: {done.stderr.strip()}")
    return json.loads(done.stdout), seconds


def main():
    limits = [argument for argument in sys.argv[1:] if argument.startswith("--")]
    snug, *graphs = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    print("| graph | variant | CPU s | work | peak | total | proven |\n|---|---|---|---|---|---|---|")
    for graph in graphs:
        name = os.path.basename(graph).split(".")[0]
        for variant, flags in VARIANTS:
            out, seconds = run(snug, graph, flags + limits)
            proven = {(True, True): "both", (True, False): "peak", (False, True): "total"}.get(
                (out["peak_proven"], out["proven"]), "no")
            print(f"| {name} | {variant} | {seconds:.2f} | {out['work']} | {out['peak']} | {out['total']} | {proven} |",
                  flush=True)
            if variant == "pyramid" and out["tasks"] > MOST_JOINT_TASKS:
                break


if __name__ == "__main__":
    main()
