#!/usr/bin/env python3
"""Times a training step of Snug, or its inference, beside today's PyTorch and the floor of the machine: in turn, in one run.

    tools/setup --bench && cmake --build --preset release && bench/step_bench.py [MODEL...] [--isa=LIST] [--markdown=FILE]

    eager     pip's newest PyTorch (the venv that tools/setup --bench makes), channels_last for convolutional networks,
              scaled_dot_product_attention, fused SGD, glibc told to keep memory
    compiled  the same under torch.compile
    floor     bench/floor_bench.cc: oneDNN's best for every convolution and matmul + the bytes of the rest at copy speed
              (--floor)

With --forward inference is timed instead (batch norm by its running statistics), by all of these but the floor, and by

    onnxruntime   what PyTorch exports, all optimisations on

Every program takes its turn in every round; what is printed is the median over all steps of all rounds, and the most
memory that each process had. --bf16 compares our bfloat16 with PyTorch's autocast; --split adds our --split-products.
--isa pretends lesser processors, for all programs alike. Two runs at once, or a build beside, make the numbers worthless.
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
BATCHES = {"mlp": 64, "mlp_big": 256, "lenet": 64, "resnet18": 16, "resnet50": 16, "mobilenet_v2": 16, "gpt_small": 8,
           "vit_b16": 4, "bert_base": 4, "gpt2": 1,
           "alexnet": 32, "vgg16": 4, "resnet34": 16, "googlenet": 16, "inception_v3": 8, "densenet121": 8,
           "squeezenet1_0": 16, "mnasnet1_0": 16, "efficientnet_b0": 8, "convnext_tiny": 4}
USUAL = list(BATCHES)[:7]
SCORES = {"resnet50": "fc", "mobilenet_v2": "classifier.1", "gpt_small": "head"}  # what inference computes: no loss
FORWARD = {"resnet50": (1, 16), "mobilenet_v2": (1, 16), "gpt_small": (1, 16)}  # usual batches of inference
WARM_UP = 2  # steps of each run of ours that are left out
KEEP_MEMORY = "glibc.malloc.mmap_threshold=17179869184:glibc.malloc.trim_threshold=17179869184"
# What each library is told, so that it uses no more than these instructions; and the flag of a processor that has them.
ISAS = {
    "avx2": ("avx2", {"SNUG_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
                      "MKL_ENABLE_INSTRUCTIONS": "AVX2"}),
    "avx512": ("avx512bw", {"SNUG_ISA": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
                            "ATEN_CPU_CAPABILITY": "avx512", "MKL_ENABLE_INSTRUCTIONS": "AVX512"}),
    "amx": ("amx_tile", {}),
}


class Ours:
    """`snug step`, started anew in every round."""

    def __init__(self, args, model, batch, environment, *extra):
        self.command = [str(args.snug), "step", str(ROOT / f"models/{model}.pbtxt"), f"--batch={batch}",
                        f"--threads={args.threads}", "--json", *extra]
        self.environment = {**os.environ, **environment}
        self.seconds, self.step, self.peak_bytes = [], None, 0

    def run(self, budget):
        if self.step is None:
            self.step = statistics.median(self.measure(3))
        self.seconds += self.measure(max(3, round(budget / self.step)))

    def measure(self, steps):
        return self.output_of(f"--steps={steps + WARM_UP}")["seconds"][WARM_UP:]

    def output_of(self, *flags):
        process = subprocess.Popen([*self.command, *flags], env=self.environment, stdout=subprocess.PIPE)
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"step_bench: {' '.join(self.command)} ended with {process.returncode}")
        self.peak_bytes = max(self.peak_bytes, usage.ru_maxrss * 1024)
        return json.loads(output)

    def close(self):
        pass


class OurForward(Ours):
    """`snug bench --forward`, started anew in every round, which says the median of its runs."""

    def __init__(self, args, model, batch, environment):
        super().__init__(args, model, batch, environment)
        self.command[1] = "bench"
        self.command += ["--forward", "--keep-derived"]
        if model in SCORES:
            self.command.append(f"--only={SCORES[model]}")

    def run(self, budget):
        self.seconds.append(self.output_of(f"--seconds={budget}")["rows"][0]["seconds"])


class Peer:
    """bench/torch_peer.py or bench/forward_peer.py, one process for all rounds."""

    def __init__(self, args, model, batch, environment, *extra):
        program = "forward_peer.py" if args.forward else "torch_peer.py"
        self.start(args, program, [model, str(batch), str(args.threads), *extra], environment)

    def start(self, args, program, words, environment):
        environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "GLIBC_TUNABLES": KEEP_MEMORY,
                       "PYTHONDONTWRITEBYTECODE": "1", **environment}
        self.process = subprocess.Popen([str(args.python), str(ROOT / "bench" / program), *words], env=environment,
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        args.torch_version = self.read()["torch"]
        self.seconds, self.peak_bytes = [], 0

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("step_bench: the PyTorch peer stopped; what it said is above")
        return json.loads(line)

    def run(self, budget):
        print(budget, file=self.process.stdin, flush=True)
        answer = self.read()
        self.seconds += answer["seconds"]
        self.peak_bytes = answer["peak_bytes"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Floor:
    """bench/floor_bench, once in every round; it measures each call several times itself."""

    def __init__(self, args, model, batch, environment, *extra):
        self.command = [str(args.floor_program), str(ROOT / f"models/{model}.pbtxt"), f"--batch={batch}",
                        f"--threads={args.threads}", "--json", *extra]
        self.environment = {**os.environ, **environment}
        self.seconds, self.peak_bytes = [], 0

    def run(self, _):
        done = subprocess.run(self.command, env=self.environment, check=True, stdout=subprocess.PIPE)
        self.seconds.append(json.loads(done.stdout)["floor_seconds"])

    def close(self):
        pass


def programs_of(*what):
    """name -> the program that bears it; `what` are the arguments of their constructors."""
    args = what[0]
    if args.forward:
        return {"snug": OurForward(*what), **{by: Peer(*what, by) for by in ("eager", "compiled", "onnxruntime")}}
    programs = {"snug": Ours(*what), "eager": Peer(*what), "compiled": Peer(*what, "--compile")}
    if args.bf16:
        programs["snug bf16"] = Ours(*what, "--precision=bfloat16")
        programs["eager bf16"] = Peer(*what, "--bf16")
        programs["compiled bf16"] = Peer(*what, "--bf16", "--compile")
    if args.split:
        programs["snug split"] = Ours(*what, "--split-products")
    if args.floor:
        programs["floor"] = Floor(*what)
    return programs


def measure(model, batch, environment, args):
    """Milliseconds of a step and MB for every program: name -> (median, peak)."""
    programs = programs_of(args, model, batch, environment)
    order = list(programs.values())
    for turn in range(args.rounds):
        for program in order[turn % len(order):] + order[:turn % len(order)]:
            program.run(args.seconds)
    for program in order:
        program.close()
    return {name: (1e3 * statistics.median(program.seconds), 1e-6 * program.peak_bytes)
            for name, program in programs.items()}


def columns(args):
    """(title, function from what was measured to a cell) for every column after model and batch."""
    time = lambda name: (f"{name} ms", lambda m: f"{m[name][0]:.3g}" if m[name][0] < 1e3 else f"{m[name][0]:.0f}")
    ratio = lambda above, below: (f"{above} / {below}", lambda m: f"{m[above][0] / m[below][0]:.2f}")
    peak = lambda name: (f"{name} MB", lambda m: f"{m[name][1]:.0f}")
    chosen = [time("snug"), time("eager"), ratio("eager", "snug"), time("compiled"), ratio("compiled", "snug")]
    if args.bf16:
        chosen += [time("snug bf16"), ratio("snug", "snug bf16"), ratio("eager bf16", "snug bf16"),
                   ratio("compiled bf16", "snug bf16")]
    if args.split:
        chosen += [time("snug split"), ratio("eager", "snug split"), ratio("compiled", "snug split")]
    if args.floor:
        chosen += [time("floor"), ratio("floor", "snug")]
    peers = ["eager", "compiled"]
    if args.forward:
        chosen += [time("onnxruntime"), ratio("onnxruntime", "snug")]
        peers.append("onnxruntime")
    return chosen + [peak(name) for name in ["snug", *peers]]


def machine():
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} processors"


def commit():
    git = lambda *command: subprocess.run(["git", "-C", ROOT, *command], stdout=subprocess.PIPE, text=True).stdout.strip()
    return git("rev-parse", "--short=12", "HEAD") + (" with changes" if git("status", "--porcelain") else "")


def markdown(tables, head, args):
    lines = [f"{machine()}; {args.threads} threads; commit {commit()}; {datetime.date.today()}; "
             f"PyTorch {args.torch_version}; {args.rounds} rounds of {args.seconds:g} s each.", ""]
    for isa, rows in tables.items():
        lines += [f"**{isa}**", ""]
        lines += ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows]] + [""]
    return "\n".join(lines)


def isas_of_this_machine():
    flags = next(line for line in open("/proc/cpuinfo") if line.startswith("flags")).split()
    return [isa for isa, (flag, _) in ISAS.items() if flag in flags]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL",
                        help=f"{' '.join(USUAL)} unless named; also {' '.join(list(BATCHES)[7:])}")
    parser.add_argument("--batches", default="", help="MODEL=BATCH[+BATCH],... instead of the usual ones")
    parser.add_argument("--isa", default="", help=f"some of {','.join(ISAS)}; the machine's own unless named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each program in each round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--forward", action="store_true", help="inference, at batches of 1 and 16")
    parser.add_argument("--bf16", action="store_true", help="also bfloat16 beside autocast")
    parser.add_argument("--split", action="store_true", help="also with --split-products, on a processor with AMX")
    parser.add_argument("--floor", action="store_true", help="also the floor")
    parser.add_argument("--snug", type=pathlib.Path, default=ROOT / "build/release/snug")
    parser.add_argument("--floor-program", type=pathlib.Path, default=ROOT / "build/release/bench/floor_bench")
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / "build/bench_venv/bin/python")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the tables there")
    args = parser.parse_args()
    unknown = set(args.models) - set(BATCHES)
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    had = isas_of_this_machine()
    args.isas = args.isa.split(",") if args.isa else had[-1:]
    for isa in args.isas:
        if isa not in had:
            parser.error(f"--isa: expected some of {', '.join(had)}, which this machine has; found \"{isa}\"")
    if not args.python.exists():
        parser.error(f"no PyTorch in {args.python}: run tools/setup --bench, or name another --python")
    if args.forward and (args.bf16 or args.floor or args.split):
        parser.error("--forward goes with none of --bf16, --split and --floor")
    if args.split and args.isas != ["amx"]:
        parser.error("--split needs AMX: say --isa=amx, on a processor that has it")
    batches = {name: (batch,) for name, batch in BATCHES.items()} | (FORWARD if args.forward else {})
    for name, batch in (pair.split("=") for pair in args.batches.split(",") if pair):
        batches[name] = tuple(map(int, batch.split("+")))
    args.cases = [(model, batch) for model in args.models or (FORWARD if args.forward else USUAL)
                  for batch in batches[model]]
    return args


def main():
    args = arguments()
    cells = columns(args)
    head = ["model", "batch", *(title for title, _ in cells)]
    widths = [max(12 if i == 0 else 6, len(title)) for i, title in enumerate(head)]
    show = lambda texts: print("  ".join(text.rjust(width) for text, width in zip(texts, widths)), flush=True)
    tables = {}
    for isa in args.isas:
        print(isa)
        show(head)
        tables[isa] = []
        for model, batch in args.cases:
            measured = measure(model, batch, ISAS[isa][1], args)
            tables[isa].append([model, str(batch), *(cell(measured) for _, cell in cells)])
            show(tables[isa][-1])
            if args.markdown:
                args.markdown.write_text(markdown(tables, head, args))


if __name__ == "__main__":
    main()
