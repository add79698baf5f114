#!/usr/bin/env python3
"""The kernels that ops choose by themselves beside those that `snug tune` finds: are the defaults good on this machine?

    bench/default_choices.py [--isa=avx512,avx2] [--seconds=S] [--worst=1.1] [NETWORK:BATCH ...]

`snug tune` measures every kernel that the library and we offer for each node, in whole steps, and takes what is faster.
A line of the table says what it took. Where tuned steps are faster than default ones by more than --worst, the rules in
the ops' rows (the `serves` and `prepare` of ops/kernels) want another line, and the exit status is 1.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SNUG = ROOT / "build" / "release" / "snug"
ONEDNN = {"baseline": "SSE41", "avx2": "AVX2", "avx512": "ALL"}
NETWORKS = ["mlp:64", "lenet:64", "mlp_big:256", "gpt_small:8", "mobilenet_v2:16", "resnet18:16"]


def field(tuning, name):
    return float(re.search(rf"^{name}: (.*)$", tuning, re.MULTILINE).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", default="avx512,avx2")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--worst", type=float, default=1.1)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK:BATCH")
    options = parser.parse_args()

    worst = 1.0
    print("| network, batch | instructions | default ms | tuned ms | default / tuned | kernels, passes changed |")
    print("| --- | --- | --- | --- | --- | --- |")
    for isa in options.isa.split(","):
        for network in options.networks:
            name, batch = network.split(":")
            with tempfile.TemporaryDirectory() as folder:
                output = pathlib.Path(folder) / "tuning.pbtxt"
                subprocess.run([SNUG, "tune", ROOT / "models" / f"{name}.pbtxt", f"--batch={batch}",
                                f"--seconds={options.seconds}", f"--output={output}"], check=True,
                               stdout=subprocess.DEVNULL,
                               env={**os.environ, "SNUG_ISA": isa, "ONEDNN_MAX_CPU_ISA": ONEDNN[isa]})
                tuning = output.read_text()
            before, after = field(tuning, "step_ms"), field(tuning, "tuned_step_ms")
            changed = [str(len(re.findall(r"^kernel ", tuning, re.MULTILINE)))]
            changed += re.findall(r'^disabled_pass: "(.*)"', tuning, re.MULTILINE)
            print(f"| {name}, {batch} | {isa} | {before:.3g} | {after:.3g} | {before / after:.2f} | "
                  f"{', '.join(changed)} |", flush=True)
            worst = max(worst, before / after)
    if worst > options.worst:
        sys.exit(f"a tuned step is {worst:.2f} times as fast as a default one; --worst allows {options.worst}")


if __name__ == "__main__":
    main()
