#!/usr/bin/python3
"""Random networks, trained here and by PyTorch: three steps in double, every element within 1e-10.

    tests/differential/differential_test.py PROGRAM [COUNT [FIRST_SEED]]

PROGRAM is train_cases (train_cases.cc). COUNT networks are compared, 300 unless given; some seeds give none, which is
counted. Without PyTorch the exit code is 77: then the goldens are what there is (tests/run/differential_test.cc).
"""

import collections
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

SKIPPED = 77
CHUNK = 100      # networks at a time
TOLERANCE = 1e-10


def read_safetensors(path):
    import numpy

    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    data = memoryview(content)[8 + length:]
    return {name: numpy.frombuffer(data[slice(*entry["data_offsets"])], numpy.float64) for name, entry in header.items()}


def run_here(program, cases):
    """Tensors of all cases as SEED/NAME, and what went wrong by seed."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "cases").write_text("".join(case.text() for case in cases))
        done = subprocess.run([program, folder / "cases", folder / "out"], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{program}: exit code {done.returncode}\n{done.stderr}")
        return read_safetensors(folder / "out"), dict(line.split(" ", 1) for line in done.stderr.splitlines())


def differences(case, history, network, found):
    """What PyTorch has otherwise, one line for each tensor."""
    import numpy

    expected = {f"{case.seed}/{name}": tensor.detach().reshape(-1).numpy()
                for name, tensor in {**network.parameters, **network.statistics}.items()}
    for name in (*case.objectives, *case.outputs):
        expected[f"{case.seed}/curve/{name}"] = [float(values[name]) for values in history]
    ours = {name for name in found if name.startswith(f"{case.seed}/")}
    if ours != set(expected):
        yield f"tensors: {sorted(ours)}, PyTorch has {sorted(expected)}"
    for name in sorted(ours & set(expected)):
        a, b = found[name], numpy.asarray(expected[name])
        if a.shape != b.shape:
            yield f"{name}: {a.size} elements, PyTorch has {b.size}"
        elif not numpy.all(numpy.abs(a - b) <= TOLERANCE * numpy.maximum(1.0, numpy.abs(b))):
            yield f"{name}: {numpy.abs(a - b).max():.1e} from PyTorch's"


def main():
    try:
        import torch
    except ImportError:
        print("SKIPPED: no PyTorch (tools/setup --bench)", file=sys.stderr)
        return SKIPPED
    from random_case import random_case

    torch.set_num_threads(1)
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    left_out, ops = collections.Counter(), collections.Counter()
    compared = failed = 0
    while compared < count:
        chunk = []
        while len(chunk) < min(CHUNK, count - compared):
            case = random_case(seed)
            seed += 1
            if isinstance(case, str):
                left_out[case] += 1
            else:
                chunk.append(case)
        found, errors = run_here(program, [case for case, _, _ in chunk])
        for case, history, network in chunk:
            wrong = [errors[str(case.seed)]] if str(case.seed) in errors else list(differences(case, history, network, found))
            ops.update({layer.op for layer in case.layers})
            if wrong:
                failed += 1
                print(f"FAILED: seed {case.seed}\n{case.text()}" + "\n".join(wrong) + "\n")
        compared += len(chunk)
    print(f"{compared} networks with {len(ops)} kinds of layers against PyTorch {torch.__version__}: {failed} differ")
    print("; ".join(f"{number} seeds left out: {why}" for why, number in left_out.most_common()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
