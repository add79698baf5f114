#!/usr/bin/env python3
"""Reads the machine code (SASS) of our CUDA kernels in objects that are built, and checks what it has to show.

    tools/sass.py [--report] [BUILD]    BUILD: a build folder; default: the one under build/ whose kernels are newest

What is checked of which kernel, and what is excepted and why, is in tools/sass_rules.txt. --report prints all kernels.
Needs cuobjdump: of the toolkit, of SNUG_CUOBJDUMP, or that which comes with Python's package triton. No GPU is needed.
Exit code 0: all is well, 1: something is not, 3: there is nothing to read, or no cuobjdump.
"""

import argparse
import collections
import concurrent.futures
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
RULES = ROOT / "tools/sass_rules.txt"
NOTHING_TO_READ = 3

REGISTERS, THREADS, BLOCKS, SHARED_BYTES = 65536, 2048, 32, 227 * 1024  # of a multiprocessor of sm_90

INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);")
RESOURCES = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
SYMBOL = re.compile(r"^\s*0x[0-9a-f]+\s+0x([0-9a-f]+)\s+0x[0-9a-f]+\s+0x22\s+\d+\s+0x([0-9a-f]+)\s+(\$__internal\S+)")
SECTION = re.compile(r"^\s*([0-9a-f]+)\s+[0-9a-f]+\s+[0-9a-f]+\s+.*\s\.text\.(\S+)$")
# Integers of 64 bits are divided by these; a float's subroutine is only for numbers that its own code cannot divide.
DIVISION = re.compile(r"(div|rem)_[su]64")


def find_cuobjdump():
    """The program, or None."""
    named = os.environ.get("SNUG_CUOBJDUMP") or shutil.which("cuobjdump")
    if named:
        return named
    nvcc = shutil.which("nvcc")
    places = [pathlib.Path(nvcc).resolve().parent] if nvcc else []
    places.append(pathlib.Path("/usr/local/cuda/bin"))
    spec = importlib.util.find_spec("triton")
    if spec and spec.origin:
        places.append(pathlib.Path(spec.origin).parent / "backends/nvidia/bin")
    return next((str(place / "cuobjdump") for place in places if (place / "cuobjdump").exists()), None)


def find_build():
    """The folder under build/ whose kernels were compiled last, or None."""
    objects = list(ROOT.glob("build/*/ops/CMakeFiles/snug_ops.dir/**/*.cu.o"))
    return ROOT.joinpath(*max(objects, key=lambda path: path.stat().st_mtime).relative_to(ROOT).parts[:2]) if objects else None


def split_name(demangled):
    """(name, template arguments) of a kernel."""
    text = demangled.replace("(anonymous namespace)", "anonymous").removeprefix("void ")
    end = re.search(r"[<(]", text)
    head = text[:end.start()] if end else text
    arguments, depth = "", 0
    if end and text[end.start()] == "<":
        for i in range(end.start(), len(text)):
            depth += {"<": 1, ">": -1}.get(text[i], 0)
            if depth == 0:
                arguments = text[end.start() + 1:i]
                break
    return head.split("::")[-1].split()[-1], re.sub(r"snug::core::(anonymous::)?", "", arguments)


class Kernel:
    """One instance of a kernel, and what its machine code shows."""

    def __init__(self, mangled):
        self.mangled = mangled
        self.name = self.arguments = ""
        self.registers = self.stack = self.shared = self.local = 0
        self.code = []  # (address, operation, operands)
        self.subroutines = {}  # address -> name

    def count(self, pattern):
        return sum(bool(re.match(pattern, operation)) for _, operation, _ in self.code)

    def loops(self):
        """(first, last address) of what is between a jump back and its target."""
        found = []
        for address, operation, operands in self.code:
            target = re.search(r"0x([0-9a-f]+)\s*$", operands)
            if operation.startswith("BRA") and target and int(target.group(1), 16) < address:
                found.append((int(target.group(1), 16), address))
        return found

    def divisions_in_loops(self):
        loops, found = self.loops(), 0
        for address, operation, operands in self.code:
            target = re.search(r"0x([0-9a-f]+)\s*$", operands)
            if not operation.startswith("CALL") or not target:
                continue
            called = self.subroutines.get(int(target.group(1), 16), "")
            if DIVISION.search(called) and any(first <= address <= last for first, last in loops):
                found += 1
        return found

    def spills(self):
        return self.count(r"(LDL|STL)\b")

    def resident_blocks(self, threads):
        """How many blocks a multiprocessor has room for."""
        of_warp = -(-max(self.registers, 16) * 32 // 256) * 256
        by_registers = REGISTERS // of_warp // max(threads // 32, 1)
        by_shared = SHARED_BYTES // (self.shared + 1024)
        return min(by_registers, THREADS // threads, BLOCKS, by_shared)


def read_object(cuobjdump, path):
    """The kernels of one object."""
    def ask(flag):
        return subprocess.run([cuobjdump, flag, str(path)], capture_output=True, text=True, check=False).stdout.splitlines()

    kernels, kernel = {}, None
    for line in ask("-sass"):
        if "Function :" in line:
            mangled = line.split(":", 1)[1].strip()
            kernel = kernels.setdefault(mangled, Kernel(mangled))
        elif kernel is not None and (found := INSTRUCTION.match(line)):
            kernel.code.append((int(found.group(1), 16), found.group(2), found.group(3).strip()))
    for line in ask("-res-usage"):
        if line.lstrip().startswith("Function "):
            kernel = kernels.get(line.strip()[len("Function "):].rstrip(":"))
        elif kernel is not None and (found := RESOURCES.search(line)):
            kernel.registers, kernel.stack, kernel.shared, kernel.local = map(int, found.groups())
    sections = {}
    for line in ask("-elf"):
        if found := SECTION.match(line):
            sections[int(found.group(1), 16)] = found.group(2)
        elif found := SYMBOL.match(line):
            of = kernels.get(sections.get(int(found.group(2), 16), ""))
            if of is not None:
                of.subroutines[int(found.group(1), 16)] = found.group(3)
    return list(kernels.values())


def read_kernels(cuobjdump, build, jobs):
    folder = build / "ops/CMakeFiles/snug_ops.dir"
    objects = sorted(path for path in folder.glob("**/*.cu.o")
                     # a build folder keeps the objects of sources that are gone
                     if (ROOT / "ops" / path.relative_to(folder)).with_suffix("").exists())
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        kernels = [kernel for some in pool.map(lambda path: read_object(cuobjdump, path), objects) for kernel in some]
    names = subprocess.run(["c++filt"], input="\n".join(kernel.mangled for kernel in kernels), capture_output=True,
                           text=True, check=True).stdout.splitlines()
    for kernel, name in zip(kernels, names):
        kernel.name, kernel.arguments = split_name(name)
    return kernels


class Rules:
    """tools/sass_rules.txt, which says in its head how it is read."""

    def __init__(self, text):
        self.kernels, self.exceptions, self.problems = {}, [], []
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            if line.startswith("except "):
                found = re.match(r"except (\w+) (\w+)(?: \[(.*?)\])?: (.+)$", line)
                if not found:
                    self.problems.append(f"line {number}: expected \"except KERNEL RULE [ARGUMENTS]: reason\"")
                    continue
                self.exceptions.append([*found.groups(), False])
                continue
            name, kind, *rest = line.split()
            rule = {"kind": kind, "threads": 256, "resident": 1024 if kind == "streaming" else 512, "where": ""}
            for word in rest:
                key, _, value = word.partition("=")
                rule[key] = int(value) if value.isdigit() else value
            self.kernels[name] = rule

    def excepted(self, kernel, rule):
        for exception in self.exceptions:
            name, of, arguments, _, _ = exception
            if name == kernel.name and of == rule and (not arguments or re.search(arguments, kernel.arguments)):
                exception[4] = True
                return True
        return False


def broken(kernel, rule):
    """(rule, what is wrong) of one kernel."""
    if kernel.spills() or kernel.local:
        yield "spills", f"{kernel.spills()} spills to memory, {kernel.local} bytes"
    if divisions := kernel.divisions_in_loops():
        yield "division", f"{divisions} divisions of 64-bit integers in loops"
    threads = rule["threads"]
    if "double" in kernel.arguments:  # float64 is for exact results, not for speed
        return
    if (resident := kernel.resident_blocks(threads) * threads) < rule["resident"]:
        yield "occupancy", (f"{resident} threads on a processor where {rule['resident']} are intended: "
                            f"{kernel.registers} registers, {kernel.shared} bytes shared")
    if not re.search(rule["where"], kernel.arguments):
        return
    if rule["kind"] == "streaming":
        loads, stores = kernel.count(r"LDG\b|LDGSTS\b"), kernel.count(r"STG\b")
        wide_loads, wide_stores = kernel.count(r"LDG\b.*\.128|LDGSTS\b.*\.128"), kernel.count(r"STG\b.*\.128")
        if loads and not wide_loads:
            yield "wide", f"none of {loads} loads is of 16 bytes"
        elif stores and not wide_stores and rule.get("stores") != "few":
            yield "wide", f"none of {stores} stores is of 16 bytes"
    if rule["kind"] == "tensor_cores" and not kernel.count(r"(HMMA|HGMMA|IMMA)\b"):
        yield "tensor_cores", "no HMMA or HGMMA"


def check(kernels, rules):
    """Lines about what is not as it has to be."""
    problems = list(rules.problems)
    seen = collections.Counter(kernel.name for kernel in kernels)
    for name in sorted(seen):
        if name not in rules.kernels:
            problems.append(f"{name}: has no line in {RULES.name}: is it streaming, for tensor_cores, or other?")
    found = collections.defaultdict(list)
    for kernel in kernels:
        rule = rules.kernels.get(kernel.name)
        if rule is None:
            continue
        for of, what in broken(kernel, rule):
            if not rules.excepted(kernel, of):
                found[kernel.name, of].append((kernel.arguments, what))
    for (name, of), all_of in sorted(found.items()):
        problems.append(f"{name} [{of}]: {all_of[0][1]}: <{all_of[0][0]}>"
                        + (f" and {len(all_of) - 1} instances more" if len(all_of) > 1 else ""))
    problems += [f"{name}: stands in {RULES.name}, but there is no such kernel"
                 for name in sorted(rules.kernels) if name not in seen]
    problems += [f"except {name} {of}: excepts nothing any more" for name, of, _, _, used in rules.exceptions if not used]
    return problems


def report(kernels, rules):
    for kernel in sorted(kernels, key=lambda one: (one.name, one.arguments)):
        rule = rules.kernels.get(kernel.name, {"kind": "?", "threads": 256})
        print(f"{kernel.name:28} {rule['kind']:12} {kernel.registers:4} registers {kernel.shared:6} shared "
              f"{kernel.resident_blocks(rule['threads']):2} x {rule['threads']:4} threads  "
              f"loads {kernel.count(r'LDG'):3} ({kernel.count(r'LDG.*128'):3} wide)  stores {kernel.count(r'STG'):3} "
              f"({kernel.count(r'STG.*128'):3})  mma {kernel.count(r'HMMA|HGMMA'):3}  spills {kernel.spills():2}  "
              f"divisions {kernel.divisions_in_loops():2}  <{kernel.arguments[:80]}>")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build", nargs="?", type=pathlib.Path, help="a build folder")
    parser.add_argument("--report", action="store_true", help="print what every kernel shows")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    cuobjdump, build = find_cuobjdump(), args.build or find_build()
    if cuobjdump is None or build is None:
        print("sass: SKIPPED: " + ("no cuobjdump" if cuobjdump is None else "no build folder has kernels"))
        return NOTHING_TO_READ
    kernels = read_kernels(cuobjdump, build, args.jobs)
    if not kernels:
        print(f"sass: SKIPPED: {build} has no kernels")
        return NOTHING_TO_READ
    rules = Rules(RULES.read_text())
    if args.report:
        report(kernels, rules)
    problems = check(kernels, rules)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"sass: {len({kernel.name for kernel in kernels})} kernels, {len(kernels)} instances, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
