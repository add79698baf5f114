#!/usr/bin/env python3
"""`snug place` on every public placement instance: the table of what it reaches.

    bench/place_bench.py [--binary build/release/snug] [--memory best] [--threads 1] [FOLDER_OR_FILE ...]

Without arguments: every .csv below $SNUG_SHARED/data/dsa (default: ../shared beside the repository). A number in a name
("A.1048576.csv", as the collection of MiniMalloc has them) is the capacity that is asked for; --no-capacity leaves it
out. CPU seconds are those of the process, start included.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = pathlib.Path(os.environ.get("SNUG_SHARED", ROOT.parent / "shared"))


def files_of(arguments):
    for path in arguments:
        if path.is_dir():
            yield from sorted(path.rglob("*.csv"))
        else:
            yield path


def capacity_of(path):
    found = re.search(r"\.(\d+)\.csv$", path.name)
    return int(found.group(1)) if found else None


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def place(options, path):
    command = [options.binary, "place", path, "--json", f"--memory={options.memory}", f"--threads={options.threads}"]
    if not options.no_capacity and capacity_of(path):
        command.append(f"--capacity={capacity_of(path)}")
    before = cpu_seconds()
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode not in (0, 3):
        sys.exit(f"{path}: exit code {run.returncode}: {run.stderr}")
    return json.loads(run.stdout), cpu_seconds() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/release/snug")
    parser.add_argument("--memory", default="best")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-capacity", action="store_true")
    parser.add_argument("files", nargs="*", type=pathlib.Path, default=[SHARED / "data/dsa"])
    options = parser.parse_args()
    print("| instance | n | total | bound | ratio | proven | seconds | CPU seconds |")
    print("|---|---|---|---|---|---|---|---|")
    all_cpu = 0
    for path in files_of(options.files):
        answer, cpu = place(options, path)
        all_cpu += cpu
        total, bound = answer["total"], answer["lower_bound"]
        print(
            f"| {path.stem} | {answer['buffers']} | {total} | {bound} | {total / max(bound, 1):.6f} | "
            f"{'yes' if answer['proven'] else 'no'} | {answer['seconds']:.2f} | {cpu:.2f} |",
            flush=True,
        )
    print(f"\nAll together: {all_cpu:.2f} CPU seconds.")


if __name__ == "__main__":
    main()
