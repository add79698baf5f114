#!/usr/bin/env python3
"""Checks the layers by the #include lines: a lower layer never includes a higher one.

    engine/base <- engine/cuda <- {memory, proto, engine/graph} <- ops <- engine/compile <- engine/run <- engine/train
        <- interchange <- {tools, snug}

and a few rules beside them: who may see CUDA, protobuf's generated headers, oneDNN, what headers may include of Abseil,
which namespaces are opened where, and how many files a folder may have. `layers.py` checks the files git knows; `layers.py --self-test` checks this
script.
"""

import collections
import fnmatch
import pathlib
import re
import subprocess
import sys

# What each folder may include in addition to itself. Folders that are not named here may include everything.
MAY_INCLUDE = {
    "engine/base": [],
    "engine/cuda": ["engine/base"],
    "memory": ["engine/base", "engine/cuda"],
    "proto": ["engine/base"],
    "engine/graph": ["engine/base"],
    "ops": ["engine/base", "engine/cuda", "engine/graph", "proto"],
    "engine/compile": ["engine/base", "engine/cuda", "memory", "proto", "engine/graph", "ops"],
}
MAY_INCLUDE["engine/run"] = [*MAY_INCLUDE["engine/compile"], "engine/compile"]
MAY_INCLUDE["engine/train"] = [*MAY_INCLUDE["engine/run"], "engine/run"]
MAY_INCLUDE["interchange"] = [*MAY_INCLUDE["engine/train"], "engine/train"]
MAY_INCLUDE["tools"] = [*MAY_INCLUDE["interchange"], "interchange"]
MAY_INCLUDE["snug"] = MAY_INCLUDE["interchange"]
UNRESTRICTED = ["tests", "bench"]
# Installed headers may include only the standard library and each other.
PUBLIC_HEADERS = ["snug/*.h"]
BEHIND_PUBLIC_HEADERS = "snug/internal/"

CUDA_HEADER = re.compile(r"^(cuda|cublas|cudnn|nvrtc|cub/|thrust/|cooperative_groups|mma\.h|nv)")
CUDA_FILES = ["*.cu", "*.cuh", "*cuda*", "cublas*", "cudnn*"]
ONEDNN_HEADER = re.compile(r"(^|/)dnnl")
ONEDNN_FILES = ["ops/kit/onednn*", "ops/kernels/*/onednn*", "bench/onednn*"]
# Headers of the library include nothing heavier of Abseil than these, except headers that only .cc files next to them
# include.
PRIVATE_HEADERS = ["*_internal.h", "ops/*/*"]
ABSL_IN_HEADERS = {"absl/status/status.h", "absl/status/statusor.h", "absl/strings/string_view.h", "absl/types/span.h"}

# What ops share among themselves and keep to themselves: everybody else knows ops by the headers in ops/ alone.
INSIDES_OF_OPS = re.compile(r"^ops/\w+/")

# `snug` is the public library alone: all else opens these within it. Its tests that stand beside it have a third.
NAMESPACES = ["snug::core", "snug::proto"]
NAMESPACE_OF_PUBLIC_TESTS = "snug::testing"

NAMESPACE = re.compile(r"^\s*(?:inline\s+)?namespace\s+([\w:]+)\s*\{")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
SOURCES = (".h", ".cc", ".cu", ".cuh", ".inc")

# Who looks for something in a folder of sources reads its names: there are no more than these.
MOST_FILES = 40


def layer_of(path):
    """The layer that a path from the root lies in, or None."""
    for layer in [*MAY_INCLUDE, *UNRESTRICTED]:
        if path.startswith(layer + "/"):
            return layer
    return None


def problem_with(path, quote, header):
    """Why file `path` may not include `header`, or None."""
    name = path.rsplit("/", 1)[-1]
    layer = layer_of(path)
    in_header = name.endswith((".h", ".cuh"))
    in_cuda = any(fnmatch.fnmatch(name, pattern) for pattern in CUDA_FILES)
    if any(fnmatch.fnmatch(path, pattern) for pattern in PUBLIC_HEADERS) and not path.startswith(BEHIND_PUBLIC_HEADERS):
        ours = header.startswith("snug/") and not header.startswith(BEHIND_PUBLIC_HEADERS)
        if not ours and (quote == '"' or "/" in header):
            return "public headers include the standard library and each other only"
    if header.endswith(".pb.h"):
        if in_header and layer != "proto":
            return "generated protobuf headers are for .cc files: declare the message instead"
    if header.startswith("proto/"):
        if name.endswith((".cu", ".cuh")):
            return "nvcc never sees protobuf"
        if in_header and layer == "ops":
            return "ops know the model file's options in .cc files only"
    if CUDA_HEADER.match(header) and not in_cuda:
        return "CUDA headers are only for .cu, .cuh and files named *cuda*, cublas*, cudnn*"
    if ONEDNN_HEADER.search(header) and not any(fnmatch.fnmatch(path, pattern) for pattern in ONEDNN_FILES):
        return "only files named onednn* in ops/kit, ops/kernels and bench know oneDNN"
    private = any(fnmatch.fnmatch(path, pattern) for pattern in PRIVATE_HEADERS)
    if in_header and not private and layer in MAY_INCLUDE and header.startswith("absl/") and header not in ABSL_IN_HEADERS:
        return "headers include no more of Abseil than status, statusor, string_view and span"

    if path.startswith("examples/"):
        return None  # programs of others: they include what is installed, in angle brackets

    target = layer_of(header)
    if target is None:
        if quote == '"' and not in_cuda:
            return "files of ours are included by their path from the root"
        return None
    if quote == "<":
        return "files of ours are included with quotes"
    if layer is None or layer in UNRESTRICTED or target == layer:
        return None
    if INSIDES_OF_OPS.match(header):
        return "folders of ops/ are for ops: others include the headers that lie in ops/ itself"
    if target not in MAY_INCLUDE[layer]:
        return f"{layer} may include only {', '.join(MAY_INCLUDE[layer]) or 'itself'}"
    return None


def within(name, outer):
    """Whether a namespace is the other or lies in it."""
    return name == outer or name.startswith(outer + "::")


def problem_with_namespace(path, name):
    """Why file `path` may not open namespace `name`, or None."""
    if any(fnmatch.fnmatch(path, pattern) for pattern in PUBLIC_HEADERS) and not path.startswith(BEHIND_PUBLIC_HEADERS):
        return "public headers name nothing of the engine" if within(name, "core") or within(name, "snug::core") else None
    if path.startswith(("snug/", "examples/")) or not within(name, "snug") or any(within(name, n) for n in NAMESPACES):
        return None
    if path.startswith("tests/") and within(name, NAMESPACE_OF_PUBLIC_TESTS):
        return None
    return "`snug` is the public library's: the engine's names are in `snug::core`, messages in `snug::proto`"


def check(path, text):
    """Yields `path:line: message` for everything that is wrong in one file."""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match:
            problem = problem_with(path, *match.groups())
            if problem:
                yield f"{path}:{number}: #include {match.group(2)}: {problem}"
        opened = NAMESPACE.match(line)
        if opened and (problem := problem_with_namespace(path, opened.group(1))):
            yield f"{path}:{number}: namespace {opened.group(1)}: {problem}"
    if path.endswith((".h", ".cuh")) and "#pragma once" not in lines:
        yield f"{path}:1: a header starts with #pragma once"


def crowded(paths):
    """Yields `folder: message` for each folder that holds sources, and more files than anyone reads through."""
    files = collections.Counter(path.rpartition("/")[0] for path in paths)
    for folder in sorted({path.rpartition("/")[0] for path in paths if path.endswith(SOURCES)}):
        if files[folder] > MOST_FILES:
            yield f"{folder or '.'}: {files[folder]} files: at most {MOST_FILES}, more than that are several folders"


def self_test():
    """Each rule, once broken and once kept."""
    wrong = [
        ("engine/base/a.h", '#include "ops/op_def.h"'),
        ("engine/base/a.cc", '#include "proto/options.h"'),
        ("engine/base/a.cc", '#include "engine/cuda/cuda_api.h"'),
        ("engine/cuda/cuda_a.cc", '#include "memory/problem.h"'),
        ("memory/a.cc", '#include "engine/graph/graph.h"'),
        ("engine/graph/a.cc", '#  include "ops/registry.h"'),
        ("ops/math/a.cc", '#include "engine/run/session/session.h"'),
        ("ops/math/a.cc", '#include "memory/problem.h"'),
        ("ops/math/a.cc", '#include "relu.h"'),
        ("ops/math/a.cc", "#include <engine/base/status.h>"),
        ("ops/op_def.h", '#include "proto/network.pb.h"'),
        ("ops/kit/a.h", '#include "proto/options.h"'),
        ("ops/math/a.cu", '#include "proto/network.pb.h"'),
        ("ops/math/a.cu", '#include "proto/options.h"'),
        ("ops/math/a.cc", "#include <cuda_runtime.h>"),
        ("ops/nn/a.cc", "#include <oneapi/dnnl/dnnl.hpp>"),
        ("bench/op_bench.cc", "#include <dnnl.hpp>"),
        ("engine/graph/a.h", "#include <absl/strings/str_cat.h>"),
        ("engine/compile/a.cc", '#include "engine/run/session/session.h"'),
        ("engine/run/a.cc", '#include "engine/train/trainer.h"'),
        ("engine/compile/passes/a.cc", '#include "ops/kernels/conv/geometry.h"'),
        ("tools/cli/a.cc", '#include "ops/kit/isa.h"'),
        ("tools/a.cc", '#include "snug/session.h"'),
        ("engine/train/a.cc", '#include "interchange/tensor.h"'),
        ("snug/session.cc", '#include "interchange/tensor.h"'),
        ("snug/session.h", '#include "engine/run/session/session.h"'),
        ("snug/session.h", "#include <absl/status/status.h>"),
        ("snug/session.h", '#include "snug/internal/engine.h"'),
        ("engine/base/a.h", "namespace snug {"),
        ("ops/math/a.cu", "namespace snug::ops {"),
        ("engine/run/a.cc", "namespace snug::testing {"),
        ("tests/run/a_test.cc", "namespace snug {"),
        ("snug/session.h", "namespace core {"),
        ("snug/session.h", "namespace snug::core { class Session; }"),
    ]
    right = [
        ("engine/base/a.cc", "#include <absl/strings/str_cat.h>"),
        ("ops/math/a.cc", '#include "proto/network.pb.h"'),
        ("ops/math/a.cc", '// #include "engine/run/session/session.h"'),
        ("proto/text_loader.h", '#include "proto/network.pb.h"'),
        ("ops/math/a.cu", "#include <cuda_runtime.h>"),
        ("ops/kernels/matmul/cublaslt.cc", "#include <cublas_v2.h>"),
        ("memory/allocator/cuda_source.cc", '#include "engine/cuda/cuda_device.h"'),
        ("ops/kernels/conv/onednn/conv.h", "#include <oneapi/dnnl/dnnl.hpp>"),
        ("ops/kit/onednn_internal.h", "#include <absl/strings/str_cat.h>"),
        ("engine/run/a.cc", '#include "engine/compile/executable.h"'),
        ("engine/compile/passes/a.cc", '#include "ops/fused_chain.h"'),
        ("ops/nn/a.cc", '#include "ops/kernels/pool/geometry.h"'),
        ("tools/a.cc", '#include "engine/train/trainer.h"'),
        ("interchange/a.cc", '#include "engine/train/trainer.h"'),
        ("tools/a.cc", '#include "interchange/tensor.h"'),
        ("snug/session.h", '#include "snug/network.h"'),
        ("snug/session.h", "#include <vector>"),
        ("snug/session.cc", '#include "engine/run/session/session.h"'),
        ("examples/embed/spiral.cc", "#include <snug/snug.h>"),
        ("snug/internal/engine.h", '#include "engine/run/session/session.h"'),
        ("tests/ops/a_test.cc", '#include "engine/run/session/session.h"'),
        ("engine/base/a.h", "namespace snug::core {"),
        ("ops/math/a.cc", "namespace snug::core::ops {"),
        ("proto/options.h", "namespace snug::proto {"),
        ("engine/base/a.h", "namespace google::protobuf {"),
        ("tests/embed/a_test.cc", "namespace snug::testing {"),
        ("snug/session.h", "namespace snug {"),
        ("snug/internal/a.h", "namespace snug::core { class Session; }"),
        ("examples/embed/a.cc", "namespace snug {"),
    ]
    failed = [f"not found: {p}: {line}" for p, line in wrong if not list(check(p, "#pragma once\n" + line))]
    failed += [f"wrongly reported: {p}: {line}" for p, line in right if list(check(p, "#pragma once\n" + line))]
    if not list(check("engine/base/a.h", "int x;")):
        failed.append("not found: a header without #pragma once")
    most = [f"ops/math/{i}.cc" for i in range(MOST_FILES)]
    if list(crowded([*most, "ops/README.md", *(f"tests/golden/{i}.test" for i in range(MOST_FILES + 1))])):
        failed.append("wrongly reported: a folder with as many files as it may have, or one without sources")
    if list(crowded([*most, "ops/math/README.md"])) == []:
        failed.append("not found: a folder with too many files")
    return failed


def main():
    if sys.argv[1:] == ["--self-test"]:
        failed = self_test()
        print("\n".join(failed) if failed else "layers: the self-test passed")
        return 1 if failed else 0
    if sys.argv[1:]:
        print("usage: tools/layers.py [--self-test]", file=sys.stderr)
        return 2
    root = pathlib.Path(__file__).resolve().parent.parent
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=root,
                            check=True, stdout=subprocess.PIPE)
    known = [p for p in listed.stdout.decode().split("\0") if (root / p).is_file()]
    paths = [p for p in known if p.endswith(SOURCES)]
    problems = [*crowded(known), *(problem for path in paths for problem in check(path, (root / path).read_text()))]
    for problem in problems:
        print(problem)
    print(f"layers: {len(paths)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
