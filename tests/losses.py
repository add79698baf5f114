"""Compares what two builds of snug compute: the losses of training steps, to the last digit.

    tests/losses.py BEFORE AFTER [--models=a.pbtxt,...] [--strategies=none,...] [--flags=...] [--seconds=60]

One line of text for each model file and memory strategy: the losses, the gradients' norms and the bytes that were
planned, of BEFORE, and whether AFTER has the same text. Both run on the same machine one after the other, so there is
nothing to keep for each kind of processor. A run that takes longer than --seconds is named and not compared. Exit code
1: some line differs, or a run failed.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
DATA = pathlib.Path(__file__).resolve().parent / "data"
STRATEGIES = "none,inplace,share,both,coloring,nnc,nnc-seed,offset,exact,olla,best,dynamic".split(",")
# Few steps of search: which plan is found matters little, and that it is the same one is the point.
LIMITS = {"exact": ["--work-limit=2000"], "olla": ["--work-limit=1"], "best": ["--work-limit=20000"]}


def text_of(snug, model, strategy, arguments):
    """One line, or what went wrong."""
    command = [snug, "step", str(model), f"--memory={strategy}", f"--batch={arguments.batch}",
               f"--steps={arguments.steps}", "--gradient-norm", "--json", *LIMITS.get(strategy, []),
               *arguments.flags.split()]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=arguments.seconds)
    except subprocess.TimeoutExpired:
        return None
    if run.returncode != 0:
        return "failed: " + (run.stderr.strip().splitlines() or ["?"])[-1]
    found = json.loads(run.stdout)
    steps = [f"{loss!r} ({norm!r})" for loss, norm in zip(found["losses"], found["gradient_norms"])]
    return f"{' '.join(steps)}; {found['planned_bytes']} bytes"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.strip().splitlines()[2].strip())
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--models", default="")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--flags", default="", help="more of them, for `snug step`")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    arguments = parser.parse_args()
    models = [pathlib.Path(m) for m in arguments.models.split(",") if m]
    models = models or [*sorted(MODELS.glob("*.pbtxt")), *sorted(DATA.glob("*.pbtxt"))]
    cases = [(model, strategy) for model in models for strategy in arguments.strategies.split(",")]
    wrong = skipped = 0

    def both(case):
        before = text_of(arguments.before, *case, arguments)
        return before, text_of(arguments.after, *case, arguments) if before is not None else None

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for (model, strategy), (before, after) in zip(cases, pool.map(both, cases)):
            if before is None or after is None:
                skipped += 1
                print(f"{model.stem} {strategy}: not compared, more than {arguments.seconds:g} s", flush=True)
                continue
            same = before == after and not before.startswith("failed")
            wrong += not same
            print(f"{model.stem} {strategy}: {before}: {'the same' if same else 'NOT THE SAME: ' + after}", flush=True)
    print(f"{len(cases) - wrong - skipped} the same, {wrong} not, {skipped} not compared")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
