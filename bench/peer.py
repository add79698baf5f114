"""What the programs that time PyTorch or onnxruntime answer to bench/step_bench.py."""

import json
import resource
import sys
import time

import torch


def serve(run, min_runs, answers=sys.stdout):
    """Warms up; then, for each line with a number of seconds on standard input, runs for about so long and answers with
    one line of JSON: the seconds of each run, and the most memory that the process has had."""
    for _ in range(3):
        run()
    print(json.dumps({"torch": torch.__version__}), file=answers, flush=True)
    for line in sys.stdin:
        budget, seconds = float(line), []
        while len(seconds) < min_runs or sum(seconds) < budget:
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes}), file=answers, flush=True)


def vectorise_as_pretended(environment):
    """The loops that torch.compile makes do not heed the variable that says what instructions there are."""
    if environment.get("ATEN_CPU_CAPABILITY") == "avx2":
        torch._inductor.config.cpp.simdlen = 256
