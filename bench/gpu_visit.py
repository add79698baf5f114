"""bundle-run visit: all that is worth knowing of a GPU, most important first, within so many minutes and with nobody there."""

import time
import traceback

from gpu_notes import OutOfTime, table

# What is done in turn: minutes, parts of gpu_parts.py. What did not come to its end in its minutes is gone on with when all
# have had theirs; then come the other parts, the sanitizer last, which takes what time there is.
STAGES = [
    (5, ["machine", "smoke"]),
    (8, ["tests"]),
    (6, ["ceilings", "profile"]),
    (12, ["peers"]),
    (8, ["memory", "train", "batches", "processes"]),
]


class Visit:
    """`parts`: functions by name. States are noted under "visit/<part>": "done", "failed" or "out of time"."""

    def __init__(self, notes, parts):
        self.notes, self.parts, self.states = notes, parts, {}

    def run(self):
        """Runs all, prints what came of it, and returns the exit code: 0, 1 if a part failed, 3 if time was too short."""
        for minutes, names in STAGES:
            with self.notes.within(minutes):
                for name in names:
                    self.run_part(name)
        for name in sorted(self.parts, key=lambda part: part == "sanitizer"):
            if self.states.get(name) in (None, "out of time"):
                self.run_part(name)
        self.summary()
        states = set(self.states.values())
        return 1 if "failed" in states else 3 if "out of time" in states else 0

    def run_part(self, name):
        part = self.parts[name]
        begin = time.monotonic()
        print(f"\n== {name}: {part.__doc__} ({self.notes.left() / 60:.1f} minutes are left)", flush=True)
        state, why = "done", ""
        try:
            part(self.notes)
        except OutOfTime:
            state = "out of time"
        except Exception as problem:  # whatever it is, it must not stop the rest
            state, why = "failed", f"{type(problem).__name__}: {problem}"
            traceback.print_exc()
        self.states[name] = state
        self.notes.all[f"visit/{name}"] = {"state": state, "why": why, "seconds": time.monotonic() - begin}
        self.notes.write()
        print(f"== {name}: {state}{f', {why}' if why else ''}", flush=True)

    def summary(self):
        rows = []
        for name, state in self.states.items():
            errors = [f"{key}: {one['error']}" for key, one in self.notes.all.items()
                      if key.startswith(name + "/") and isinstance(one, dict) and "error" in one]
            noted = sum(key.startswith(name + "/") for key in self.notes.all)
            rows.append([name, state, noted, len(errors), (self.notes.all[f"visit/{name}"]["why"] or "; ".join(errors))[:100]])
        print("\n== what came of it")
        table(["part", "state", "noted", "errors", "first of them"], rows)
