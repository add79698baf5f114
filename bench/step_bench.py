#!/usr/bin/env python3
"""Times a training step of Snug beside PyTorch and beside the floor of the machine: in turn, in rounds, in one run.

    tools/setup --bench && cmake --build --preset release && bench/step_bench.py [MODEL...] [--markdown=FILE]

    fair    Debian's PyTorch with the OpenMP OpenBLAS, channels_last for convolutional networks
    tuned   the same, with glibc told to keep memory instead of returning it to the system
    floor   bench/floor_bench.cc: oneDNN's best for every convolution and matmul + the bytes of the rest at copy speed

Every program takes its turn in every round; what is printed is the median over all steps of all rounds. Two training
runs at once, or a build beside, make the numbers worthless.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCHES = {"mlp": 64, "mlp_big": 256, "lenet": 64, "resnet18": 16, "resnet50": 16, "mobilenet_v2": 16, "gpt_small": 8}
WARM_UP = 2  # steps of each run of ours that are left out
KEEP_MEMORY = "glibc.malloc.mmap_threshold=17179869184:glibc.malloc.trim_threshold=17179869184"


def openblas_folder():
    """Where the OpenMP flavour of OpenBLAS is: first on the library path, it takes the place of Debian's default."""
    found = sorted(pathlib.Path("/usr/lib").glob("*/openblas-openmp"))
    if not found:
        sys.exit("step_bench: the OpenMP OpenBLAS is missing: run tools/setup --bench")
    return str(found[0])


class Ours:
    """`snug step`, started anew in every round."""

    def __init__(self, args, model, *extra):
        self.command = [str(args.snug), "step", str(ROOT / f"models/{model}.pbtxt"), f"--batch={BATCHES[model]}",
                        f"--threads={args.threads}", "--json", *extra]
        self.seconds, self.step = [], None

    def run(self, budget):
        if self.step is None:
            self.step = statistics.median(self.measure(3))
        self.seconds += self.measure(max(3, round(budget / self.step)))

    def measure(self, steps):
        done = subprocess.run([*self.command, f"--steps={steps + WARM_UP}"], check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)["seconds"][WARM_UP:]

    def close(self):
        pass


class Peer:
    """bench/torch_peer.py, one process for all rounds."""

    def __init__(self, args, model, environment):
        command = ["/usr/bin/python3", str(ROOT / "bench/torch_peer.py"), model, str(BATCHES[model]), str(args.threads)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "LD_LIBRARY_PATH": openblas_folder(),
                       "PYTHONDONTWRITEBYTECODE": "1", **environment}
        self.process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.version = self.read()["torch"]
        self.seconds = []

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("step_bench: the PyTorch peer stopped; what it said is above")
        return json.loads(line)

    def run(self, budget):
        print(budget, file=self.process.stdin, flush=True)
        self.seconds += self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Floor:
    """bench/floor_bench, once in every round; it measures each call several times itself."""

    def __init__(self, args, model, *extra):
        self.command = [str(args.floor), str(ROOT / f"models/{model}.pbtxt"), f"--batch={BATCHES[model]}",
                        f"--threads={args.threads}", "--json", *extra]
        self.seconds = []

    def run(self, _):
        done = subprocess.run(self.command, check=True, stdout=subprocess.PIPE)
        self.seconds.append(json.loads(done.stdout)["floor_seconds"])

    def close(self):
        pass


def measure(model, args):
    """Milliseconds of a step for every program: name -> median."""
    programs = {"snug": Ours(args, model)}
    if args.bf16:
        programs["bf16"] = Ours(args, model, "--precision=bfloat16")
    if args.floor.exists():
        programs["floor"] = Floor(args, model)
    programs["fair"] = Peer(args, model, {})
    programs["tuned"] = Peer(args, model, {"GLIBC_TUNABLES": KEEP_MEMORY})
    args.torch_version = programs["fair"].version
    order = list(programs.values())
    for turn in range(args.rounds):
        for program in order[turn % len(order):] + order[:turn % len(order)]:
            program.run(args.seconds)
    for program in order:
        program.close()
    return {name: 1e3 * statistics.median(program.seconds) for name, program in programs.items()}


HEAD = ["model", "batch", "snug ms", "fair ms", "fair / snug", "tuned ms", "tuned / snug", "floor ms", "floor / snug",
        "bf16 ms", "snug / bf16"]


def row(model, ms):
    time = lambda name: f"{ms[name]:.3g}" if name in ms and ms[name] < 1e3 else f"{ms[name]:.0f}" if name in ms else "-"
    ratio = lambda above, below: f"{ms[above] / ms[below]:.2f}" if above in ms and below in ms else "-"
    return [model, str(BATCHES[model]), time("snug"), time("fair"), ratio("fair", "snug"), time("tuned"),
            ratio("tuned", "snug"), time("floor"), ratio("floor", "snug"), time("bf16"), ratio("snug", "bf16")]


def machine():
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} processors"


def commit():
    git = lambda *command: subprocess.run(["git", "-C", ROOT, *command], stdout=subprocess.PIPE, text=True).stdout.strip()
    return git("rev-parse", "--short=12", "HEAD") + (" with changes" if git("status", "--porcelain") else "")


def markdown(rows, args):
    lines = [f"{machine()}; {args.threads} threads; commit {commit()}; {datetime.date.today()}; "
             f"PyTorch {args.torch_version}; {args.rounds} rounds of {args.seconds:g} s each.", ""]
    lines += ["| " + " | ".join(cells) + " |" for cells in [HEAD, ["---"] * len(HEAD), *rows]]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"all unless named: {' '.join(BATCHES)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each program in each round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-bf16", dest="bf16", action="store_false", help="leave our bfloat16 runs out")
    parser.add_argument("--snug", type=pathlib.Path, default=ROOT / "build/release/snug")
    parser.add_argument("--floor", type=pathlib.Path, default=ROOT / "build/release/bench/floor_bench")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table there")
    args = parser.parse_args()
    unknown = set(args.models) - set(BATCHES)
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    widths = [max(12 if i == 0 else 0, len(title)) for i, title in enumerate(HEAD)]
    show = lambda cells: print("  ".join(cell.rjust(width) for cell, width in zip(cells, widths)), flush=True)
    show(HEAD)
    rows = []
    for model in args.models or BATCHES:
        rows.append(row(model, measure(model, args)))
        show(rows[-1])
    if args.markdown:
        args.markdown.write_text(markdown(rows, args))


if __name__ == "__main__":
    main()
