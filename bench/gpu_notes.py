"""What bundle-run's parts share: what has been measured so far, commands and their JSON, tables."""

import contextlib
import json
import os
import pathlib
import subprocess
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent.parent  # the bundle
NOT_INSTALLED = 127  # as a shell says it


class OutOfTime(Exception):
    pass


def output_folder():
    """Where what was measured goes: $OUT, for machines that keep nothing else, or the bundle."""
    return pathlib.Path(os.environ.get("OUT") or HERE)


class Notes:
    """What has been measured, by key; written after each. `earlier`: a file of an earlier visit, or None."""

    def __init__(self, device, minutes, earlier=None):
        self.file = output_folder() / ("results.json" if device == "cuda" else f"results.{device.replace(':', '')}.json")
        self.all = {}
        if earlier is not None:
            self.all.update(json.loads(pathlib.Path(earlier).read_text()))
        if self.file.exists():
            self.all.update(json.loads(self.file.read_text()))
        self.end = time.monotonic() + 60 * minutes
        self.lock = threading.Lock()  # several threads may measure at once

    def left(self):
        return self.end - time.monotonic()

    @contextlib.contextmanager
    def within(self, minutes):
        """For as long as this is open, no more minutes than these are left."""
        end = self.end
        self.end = min(end, time.monotonic() + 60 * minutes)
        try:
            yield
        finally:
            self.end = end

    def get(self, key, longest, measure):
        """What is noted under `key`, or what `measure(seconds left)` says, if `longest` seconds are left for it. What is
        measured is printed as soon as it is known, because a visit may end at any time."""
        if key not in self.all:
            if self.left() < longest:
                raise OutOfTime
            begin = time.monotonic()
            found = measure(self.left())
            with self.lock:
                self.all[key] = found
                self.write()
            print(f"[{time.monotonic() - begin:6.1f} s] {key}: {short(self.all[key])}", flush=True)
        return self.all[key]

    def write(self):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.all, indent=1))
        new.replace(self.file)

    def forget(self, part):
        self.all = {key: value for key, value in self.all.items() if not key.startswith(part + "/")}
        self.write()

    def forget_errors(self):
        """So that what failed is measured again."""
        failed = [key for key, value in self.all.items() if isinstance(value, dict) and ("error" in value or value.get("failed"))]
        for key in failed:
            del self.all[key]
        self.write()


def short(value):
    """A line about what was measured."""
    text = ", ".join(f"{key} {one:.6g}" if isinstance(one, float) else f"{key} {one}" for key, one in value.items()
                     if isinstance(one, (str, int, float)) and str(one).strip()) if isinstance(value, dict) else str(value)
    return " ".join(text.split())[:160]


def run(command, seconds, environment=None):
    """(exit code, output); what takes longer than that is an error of the command, not of this script."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=max(seconds, 1), env={**os.environ, **(environment or {})})
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return -1, "", f"stopped after {seconds:.0f} s"
    except FileNotFoundError:
        return NOT_INSTALLED, "", f"{command[0]} is not installed"


def document(command, seconds, environment=None):
    """The JSON that a command prints, or {"error": ...}."""
    code, out, err = run(command, seconds, environment)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if code == 0 and lines:
        return json.loads(lines[-1])
    return {"error": (err.strip().splitlines() or out.strip().splitlines() or [f"exit code {code}"])[-1][:300]}


def table(head, rows):
    rows = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for i, row in enumerate(rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if i == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
