#!/usr/bin/env python3
"""Counts the single tests in ctest's logs, where ctest itself counts programs.

    tools/test_counts.py [--phase=NAME] LOG...     LOG is ctest's Testing/Temporary/LastTest.log

Prints what failed, by name, and why what was skipped was skipped; the last line is «N passed, N failed, N skipped».
The exit code is 1 where something failed. Reads what googletest and Python's unittest print as they close; a program
that ends without such a line counts as one test, a failed one if ctest says so.
"""

import argparse
import collections
import pathlib
import re
import sys

Counts = collections.namedtuple("Counts", "passed failed skipped")


def number(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def googletest(output):
    if not re.search(r"^\[==========\] \d+ tests? from \d+ test suites? ran", output, re.MULTILINE):
        return None
    names = re.findall(r"^\[  FAILED  \] (\S+?)(?:, where .*)?(?: \(\d+ ms\))?$", output, re.MULTILINE)
    failed = sorted({name.rstrip(",") for name in names})
    counts = Counts(number(r"\[  PASSED  \] (\d+) tests?\.", output), number(r"\[  FAILED  \] (\d+) tests?, listed below", output),
                    number(r"\[  SKIPPED \] (\d+) tests?, listed below", output))
    return counts, failed


def unittest(output):
    ran = re.search(r"^Ran (\d+) tests? in", output, re.MULTILINE)
    if ran is None:
        return None
    failed = [f"{name} ({where})" for name, where in re.findall(r"^(?:FAIL|ERROR): (\S+) \((.*)\)$", output, re.MULTILINE)]
    skipped = number(r"^(?:OK|FAILED) \(.*?skipped=(\d+)", output) or number(r"skipped=(\d+)", output)
    bad = number(r"failures=(\d+)", output) + number(r"errors=(\d+)", output)
    return Counts(int(ran.group(1)) - bad - skipped, bad, skipped), failed


def programs(log):
    """(name, output, ctest's verdict) of each program in a log."""
    for part in re.split(r"^-{58}\n\d+/\d+ Testing: ", "-" * 58 + "\n" + log, flags=re.MULTILINE)[1:]:
        name = part.split("\n", 1)[0]
        output = part.split("Output:\n", 1)[-1].rsplit("<end of output>", 1)[0]
        verdict = re.search(r"^Test (Passed|Failed|Skipped|Timeout|.*)\.$", part.rsplit("<end of output>", 1)[-1], re.MULTILINE)
        yield name, output, verdict.group(1) if verdict else "Failed"


def count(log, phase):
    total = Counts(0, 0, 0)
    failures = []
    reasons = collections.Counter()
    for name, output, verdict in programs(log):
        where = f"{phase}{name}"
        found = googletest(output) or unittest(output)
        if verdict in ("Skipped", "Not Run", "Disabled"):
            found = (Counts(0, 0, 1), [])
        elif found is None:
            found = (Counts(1, 0, 0) if verdict == "Passed" else Counts(0, 0, 0), [])
        counts, failed = found
        if verdict not in ("Passed", "Skipped", "Not Run", "Disabled") and counts.failed == 0:
            counts = counts._replace(failed=1)
            failed = [f"crashed or ran out of time (ctest: {verdict.lower()})"]
        failures += [f"{where}: {test}" for test in failed]
        total = Counts(*(a + b for a, b in zip(total, counts)))
        if counts.skipped:
            for reason in re.findall(r"SKIPPED: ([^\n'\"]*)", output) or ["without a reason"]:
                reasons[reason.strip()] += 1
    return total, failures, reasons


def self_test():
    line = "-" * 58
    log = "\n".join([
        "Start testing: now", line,
        "1/4 Testing: good", "Output:", line, "[==========] 3 tests from 1 test suite ran. (1 ms total)",
        "a_test.cc:3: Skipped", "SKIPPED: no GPU here", "[  PASSED  ] 2 tests.", "[  SKIPPED ] 1 test, listed below:",
        "<end of output>", "Test time =   0.1 sec", line, "Test Passed.", '"good" end time: now', line, "",
        line, "2/4 Testing: bad", "Output:", line, "[  FAILED  ] A.B (3 ms)", "[==========] 2 tests from 1 test suite ran. (1 ms total)",
        "[  PASSED  ] 1 test.", "[  FAILED  ] 1 test, listed below:", "[  FAILED  ] A.B", "<end of output>", line, "Test Failed.", line, "",
        line, "3/4 Testing: python", "Output:", line, "FAIL: test_x (a_test.A)", "Ran 5 tests in 0.1s", "FAILED (failures=1, skipped=1)",
        "<end of output>", line, "Test Failed.", line, "",
        line, "4/4 Testing: crash", "Output:", line, "[ RUN      ] A.C", "<end of output>", line, "Test Failed.", line, ""])
    total, failures, reasons = count(log, "")
    assert total == Counts(6, 3, 2), total
    assert failures == ["bad: A.B", "python: test_x (a_test.A)", "crash: crashed or ran out of time (ctest: failed)"], failures
    assert reasons["no GPU here"] == 1, reasons


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--phase", default="", help="put before each name")
    parser.add_argument("logs", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    self_test()
    phase = arguments.phase + ": " if arguments.phase else ""
    total = Counts(0, 0, 0)
    for path in arguments.logs:
        counts, failures, reasons = count(path.read_text(errors="replace"), phase)
        total = Counts(*(a + b for a, b in zip(total, counts)))
        for failure in failures:
            print(f"failed: {failure}")
        for reason, times in sorted(reasons.items()):
            print(f"skipped: {phase}{reason}" + (f" ({times} times)" if times > 1 else ""))
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
