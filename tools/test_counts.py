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


# How a program says that it skips a test: googletest's line after «Skipped», unittest's with -v, and our own.
REASON = re.compile(r"""^\S+:\d+: Skipped\n(?:SKIPPED: )?(.*)$|skipped ["'](?:SKIPPED: )?(.*)["']$|^SKIPPED: (.*)$""", re.MULTILINE)
ENTRY = re.compile(r"^-{58}\n\n?\d+/\d+ Testing: ", re.MULTILINE)


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
    """A test with several failing parts is one failed test; where a class cannot be set up its tests do not count as run."""
    closing = re.search(r"^Ran (\d+) tests? in [^\n]*\n+(?:OK|FAILED)(?: \((.*)\))?$", output, re.MULTILINE)
    if closing is None:
        return None
    details = closing.group(2) or ""
    failed = {f"{name} ({where})" for name, where in re.findall(r"^(?:FAIL|ERROR): (\S+) \((.*?)\)", output, re.MULTILINE)}
    failed |= {f"{name} (passes, and is said to fail)" for name in re.findall(r"^UNEXPECTED SUCCESS: (\S+)", output, re.MULTILINE)}
    skipped = number(r"skipped=(\d+)", details)
    return Counts(max(0, int(closing.group(1)) - len(failed) - skipped), len(failed), skipped), sorted(failed)


def verdict_of(after):
    """ctest's word, from what it writes after a program's output."""
    if re.search(r"^Test Passed\.$", after, re.MULTILINE):
        return "passed"
    if re.search(r"^Test Pass Reason:\nSkip ", after, re.MULTILINE):
        return "skipped"
    return "failed"


def programs(log):
    """(name, output, ctest's verdict) of each program in a log."""
    for part in ENTRY.split(log)[1:]:
        name = part.split("\n", 1)[0]
        output, _, after = part.split("Output:\n", 1)[-1].rpartition("<end of output>")
        yield name, output, verdict_of(after)


def count(log, phase):
    total = Counts(0, 0, 0)
    failures = []
    reasons = collections.Counter()
    for name, output, verdict in programs(log):
        where = f"{phase}{name}"
        counts, failed = googletest(output) or unittest(output) or (Counts(verdict == "passed", 0, verdict == "skipped"), [])
        if verdict == "failed" and counts.failed == 0:
            counts = counts._replace(failed=1)
            failed = ["crashed or ran out of time"]
        failures += [f"{where}: {test}" for test in failed]
        total = Counts(*(a + b for a, b in zip(total, counts)))
        if counts.skipped:
            for found in REASON.findall(output) or [["without a reason"]]:
                reasons["".join(found).strip()] += 1
    return total, failures, reasons


# This is the format of ctest 3.25: an empty line before each entry but the first, and a skip without «Test Skipped.».
SELF_TEST_LOG = """Start testing: Nov 23 14:09 UTC
----------------------------------------------------------
20/28 Testing: good
20/28 Test: good
Command: "/build/good"
Directory: /build
"good" start time: Nov 23 14:09 UTC
Output:
----------------------------------------------------------
[==========] Running 3 tests from 1 test suite.
a_test.cc:3: Skipped
SKIPPED: no GPU here

[==========] 3 tests from 1 test suite ran. (1 ms total)
[  PASSED  ] 2 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] A.B
<end of output>
Test time =   0.30 sec
----------------------------------------------------------
Test Passed.
"good" end time: Nov 23 14:09 UTC
"good" time elapsed: 00:00:00
----------------------------------------------------------

2/28 Testing: bad
2/28 Test: bad
Output:
----------------------------------------------------------
[  FAILED  ] A.B (3 ms)
[==========] 2 tests from 1 test suite ran. (1 ms total)
[  PASSED  ] 1 test.
[  FAILED  ] 1 test, listed below:
[  FAILED  ] A.B
<end of output>
Test time =   0.30 sec
----------------------------------------------------------
Test Failed.
"bad" end time: Nov 23 14:09 UTC
----------------------------------------------------------

3/28 Testing: python
3/28 Test: python
Output:
----------------------------------------------------------
test_w (a_test.A.test_w) ... skipped 'no browser'
FAIL: test_x (a_test.A.test_x) (part=1)
FAIL: test_x (a_test.A.test_x) (part=2)
errors=7 is what the program printed
----------------------------------------------------------------------
Ran 5 tests in 0.1s

FAILED (failures=2, skipped=1)
<end of output>
Test time =   0.30 sec
----------------------------------------------------------
Test Failed.
----------------------------------------------------------

4/28 Testing: crash
4/28 Test: crash
Output:
----------------------------------------------------------
[ RUN      ] A.C
<end of output>
Test time =   0.30 sec
----------------------------------------------------------
Test Failed.
----------------------------------------------------------

21/28 Testing: gpu
21/28 Test: gpu
Output:
----------------------------------------------------------
gpu_test.cc:3: Skipped
SKIPPED: no CUDA device: none

[==========] 4 tests from 1 test suite ran. (1 ms total)
[  PASSED  ] 0 tests.
[  SKIPPED ] 4 tests, listed below:
<end of output>
Test time =   0.30 sec
----------------------------------------------------------
Test Pass Reason:
Skip regular expression found in output. Regex=[SKIPPED: no CUDA device]
"gpu" end time: Nov 23 14:08 UTC
----------------------------------------------------------

22/28 Testing: peers
22/28 Test: peers
Output:
----------------------------------------------------------
SKIPPED: offline
<end of output>
Test time =   0.30 sec
----------------------------------------------------------
Test Pass Reason:
Skip return code=77
----------------------------------------------------------

End testing: Nov 23 14:09 UTC
"""


def self_test():
    total, failures, reasons = count(SELF_TEST_LOG, "")
    assert total == Counts(6, 3, 7), total
    assert failures == ["bad: A.B", "python: test_x (a_test.A.test_x)", "crash: crashed or ran out of time"], failures
    assert reasons == {"no GPU here": 1, "no browser": 1, "no CUDA device: none": 1, "offline": 1}, reasons


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
