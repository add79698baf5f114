#!/usr/bin/env python3
"""OLLA under a clock, and what each of its reductions does: the tables of docs/memory.md.

    bench/olla_bench.py limits [--limits=3,30,300] [--only=alexnet,resnet50@32] [--results=FILE]
    bench/olla_bench.py reductions BUILD/snug GRAPH.graph[.gz] ... [--work-limit=N]

`limits` plans the shared training graphs and four networks of models/ at batch 1 and 32 under each limit, twice: from
the plan of `best`, and by the programs alone, from the given order. Each result is one line of JSON that is added to the
results file as it comes; what is there already is not run again, so an interrupted table goes on. At the end the whole
table is printed: totals in MB (10^6 bytes), * proven least, else the gap to the bound; and whatever broke a promise: a
total that grew with the limit, one above that of `best` or of the given order, a limit that was not kept within 10 % and
0.2 s. The exit code is 1 then.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODELS = ("resnet18", "resnet50", "mobilenet_v2", "gpt_small")
BATCHES = (1, 32)

VARIANTS = [
    ("split", ["--olla=split"]),
    ("no spans", ["--olla=split", "--olla-spans=false"]),
    ("no merging", ["--olla=split", "--olla-merge=false"]),
    ("no stages", ["--olla=split", "--olla-stages=false"]),
    ("warm start", ["--olla=split", "--olla-warm-start"]),
    ("early updates", ["--olla=split", "--olla-early-updates"]),
    ("pyramid", ["--olla=split", "--olla-pyramid"]),
    ("joint", ["--olla=joint"]),
    ("joint, no spans", ["--olla=joint", "--olla-spans=false"]),
    ("joint, no precedence", ["--olla=joint", "--olla-precedence=false"]),
]
MOST_JOINT_TASKS = 20  # beyond these the joint program spends any limit


def instances(shared, only):
    """Name -> the command that plans it, without strategy."""
    found = {}
    for path in sorted((shared / "data/olla/graphs").glob("*.graph.gz")):
        name = path.name.split(".")[0]
        found["@".join(name.rsplit("_b", 1))] = ["order", str(path)]
    for model in MODELS:
        for batch in BATCHES:
            found[f"models/{model}@{batch}"] = ["plan", f"models/{model}.pbtxt", f"--batch={batch}"]
    wanted = [part for part in only.split(",") if part]
    return {name: command for name, command in found.items() if not wanted or any(part in name for part in wanted)}


def plan(binary, command, flags):
    begin = time.monotonic()
    cpu_before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([binary, *command, *flags, "--json"], cwd=ROOT, capture_output=True, text=True)
    wall = time.monotonic() - begin
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - cpu_before
    if done.returncode != 0:
        sys.exit(f"{' '.join(command + flags)}: {done.stderr.strip()}")
    out = json.loads(done.stdout)
    # `plan` compiles the network before, and counts the Variables, which lie in an arena of their own.
    seconds = out["seconds"] if command[0] == "plan" else wall
    bound = out.get("total_lower_bound", out["lower_bound"])
    return {"total": out["total"], "bound": bound, "proven": out["proven"], "seconds": round(seconds, 3),
            "cpu": round(cpu, 2), "work": out.get("work"), "notes": out["notes"]}  # fmt: skip


class Results:
    """The results file: one line for each run."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.runs = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                run = json.loads(line)
                self.runs[(run["name"], run["start"], run["limit"])] = run

    def get(self, name, start, limit, compute):
        key = (name, start, limit)
        if key not in self.runs:
            run = {"name": name, "start": start, "limit": limit, **compute()}
            with self.path.open("a") as file:
                file.write(json.dumps(run) + "\n")
            self.runs[key] = run
            print(f"{name}, {start}, {limit:g} s: {run['total'] / 1e6:.2f} MB in {run['seconds']} s", file=sys.stderr)
        return self.runs[key]


def cell(run):
    gap = 100 * (run["total"] - run["bound"]) / run["total"] if run["total"] else 0
    return f"{run['total'] / 1e6:.2f}{'*' if run['proven'] else f' ({gap:.2f} %)'}, {run['seconds']:.1f} s"


def broken_promises(name, start, runs, best, given):
    promises = []
    for limit, run in runs:
        if run["seconds"] > 1.1 * limit + 0.2:
            promises.append(f"{name}, {start}: {run['seconds']} s with a limit of {limit}")
        if start == "best" and run["total"] > best["total"]:
            promises.append(f"{name}: {run['total']} bytes, best has {best['total']}")
        if run["total"] > given["total"]:
            promises.append(f"{name}, {start}: {run['total']} bytes, the given order has {given['total']}")
    for (limit, run), (next_limit, next_run) in zip(runs, runs[1:]):
        if next_run["total"] > run["total"]:
            promises.append(f"{name}, {start}: {run['total']} after {limit} s, {next_run['total']} after {next_limit}")
    return promises


def limits(arguments):
    results = Results(arguments.results)
    seconds = [float(limit) for limit in arguments.limits.split(",")]
    starts = {"best": [], "given": ["--olla-fast-start=false"]}
    rows, promises = [], []
    for name, command in instances(pathlib.Path(arguments.shared), arguments.only).items():
        best = results.get(name, "--memory=best", 0, lambda: plan(arguments.binary, command, ["--memory=best"]))
        given = results.get(name, "--memory=exact", 0,
                            lambda: plan(arguments.binary, command, ["--memory=exact", f"--work-limit={1 << 24}"]))  # fmt: skip
        row = [name, cell(given), cell(best)]
        for start, start_flags in starts.items():
            runs = []
            for limit in seconds:
                flags = ["--memory=olla", f"--time-limit={limit}", *start_flags]
                runs.append((limit, results.get(name, start, limit, lambda: plan(arguments.binary, command, flags))))
            promises += broken_promises(name, start, runs, best, given)
            row += [cell(run) for _, run in runs]
        rows.append(row)
    names = [f"{what}, {limit:g} s" for what in ("olla", "programs alone") for limit in seconds]
    print("| " + " | ".join(["graph@batch", "given order", "best", *names]) + " |")
    print("|---" * (3 + len(names)) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print("\n" + ("\n".join(promises) if promises else "every limit kept, no total grew, none above the given order or best"))
    return 1 if promises else 0


def run_variant(snug, graph, flags):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command = [snug, "order", graph, "--memory=olla", "--olla-fast-start=false", "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    if done.returncode != 0:
        sys.exit(f"{graph} {' '.join(flags)}: {done.stderr.strip()}")
    return json.loads(done.stdout), seconds


def reductions(arguments):
    flags = [f"--work-limit={arguments.work_limit}"] if arguments.work_limit else []
    print("| graph | variant | CPU s | work | peak | total | proven |\n|---|---|---|---|---|---|---|")
    for graph in arguments.graphs:
        name = os.path.basename(graph).split(".")[0]
        for variant, variant_flags in VARIANTS:
            out, seconds = run_variant(arguments.snug, graph, variant_flags + flags)
            proven = {(True, True): "both", (True, False): "peak", (False, True): "total"}.get(
                (out["peak_proven"], out["proven"]), "no")  # fmt: skip
            print(f"| {name} | {variant} | {seconds:.2f} | {out['work']} | {out['peak']} | {out['total']} | {proven} |",
                  flush=True)  # fmt: skip
            if variant == "pyramid" and out["tasks"] > MOST_JOINT_TASKS:
                break
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    table = commands.add_parser("limits")
    table.add_argument("--binary", default=str(ROOT / "build/release/snug"))
    table.add_argument("--shared", default=os.environ.get("SNUG_SHARED", str(ROOT.parent / "shared")))
    table.add_argument("--limits", default="3,30,300", help="seconds, ascending")
    table.add_argument("--only", default="", help="parts of names, as alexnet or resnet50@32 or models/")
    table.add_argument("--results", default="olla_limits.jsonl", help="where results are kept, one a line")
    table.set_defaults(run=limits)
    variants = commands.add_parser("reductions")
    variants.add_argument("snug")
    variants.add_argument("graphs", nargs="+")
    variants.add_argument("--work-limit", type=int, default=0)
    variants.set_defaults(run=reductions)
    arguments = parser.parse_args()
    sys.exit(arguments.run(arguments))


if __name__ == "__main__":
    main()
