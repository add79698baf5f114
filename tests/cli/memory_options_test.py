"""The options of memory are one list (message Memory of proto/train.proto): each is a field of `training { memory { } }`
and a flag of every command that plans memory, with the same help, default and effect; flags come before files."""

import re

from snug import ROOT, SnugTest

COMMANDS = ("train", "eval", "predict", "step", "compile", "plan", "memcost", "fit", "tune", "bench")
NOT_DYNAMIC = {"strategy", "memory_limit"}  # for planned memory, too
FIELD = re.compile(r'optional (\w+) (\w+) = \d+ \[(?:default = ([^,]+), )?(?:\(flag\) = "([a-z-]+)", )?\(help\) = "([^"]*)"\];')


class Field:
    def __init__(self, kind, name, default, flag, text):
        self.kind, self.name = kind, name
        self.flag = flag or name.replace("_", "-")
        self.default = default.strip('"')
        self.help = text + (f"; default {self.default}" if default else "")

    def other(self):
        """A value that is not the default, as Python has it."""
        return {"string": "buddy", "bool": self.default != "true", "double": 0.25}.get(self.kind, int(self.default or 0) + 1 if self.kind == "int64" else None)

    def written(self, value):
        """As a model file has it."""
        return f'"{value}"' if self.kind == "string" else str(value).lower()


def fields():
    text = (ROOT / "proto/train.proto").read_text()
    body = re.search(r"^message Memory \{(.*?)^\}", text, re.MULTILINE | re.DOTALL)[1]
    found = [Field(*groups) for groups in FIELD.findall(body)]
    assert len(found) == body.count("optional "), "a field is not written like the others"
    return found


class MemoryOptionsTest(SnugTest):
    def network(self, name, memory, batch=4):
        text = (ROOT / "models/mlp.pbtxt").read_text()
        text = text[: text.index("training {")]
        self.lines = text.count("\n")
        return self.write(name, f"{text}training {{ data {{ digits {{}} }} batch: {batch} memory {{ {memory} }} }}\nbatch: {batch}\n")

    def plan(self, *arguments):
        return self.json("plan", *arguments, "--threads=1")

    def test_every_option_is_a_flag_of_every_command_with_the_help_of_the_proto(self):
        for command in COMMANDS:
            help_text = self.run_snug(command, "--help").stdout
            flags = dict(re.findall(r"^  --([a-z0-9-]+)\S*\s+(.*)$", help_text, re.MULTILINE))
            for field in fields():
                if field.name == "memory_limit" and command == "memcost":
                    self.assertNotIn(field.flag, flags)  # it shows all, whatever there is room for
                    continue
                self.assertIn(field.flag, flags, command)
                if field.name not in NOT_DYNAMIC:
                    self.assertEqual(flags[field.flag], field.help, f"snug {command} --{field.flag}")

    def test_every_option_has_its_default_and_takes_effect_from_the_file_and_as_a_flag_and_flags_come_first(self):
        plain = self.network("plain.pbtxt", 'strategy: "dynamic"')
        defaults = self.plan(plain)["options"]
        options = [field for field in fields() if field.name not in NOT_DYNAMIC]
        self.assertEqual(sorted(defaults), sorted(field.name for field in options))
        for field in options:
            value, default = field.other(), defaults[field.name]
            self.assertEqual(field.written(default), field.written(field.default if field.kind == "string" else default))
            expected = {**defaults, field.name: value}
            file = self.network("file.pbtxt", f'strategy: "dynamic" {field.name}: {field.written(value)}')
            self.assertEqual(self.plan(file)["options"], expected)
            flag = f"--{field.flag}={str(value).lower()}"
            self.assertEqual(self.plan(plain, flag)["options"], expected)
            self.assertEqual(self.plan(file, f"--{field.flag}={str(default).lower()}")["options"], defaults)

    def test_every_command_goes_by_the_file_and_flags_come_before_it(self):
        file = self.network("file.pbtxt", 'strategy: "dynamic" allocator: "buddy" buddy_initial_mb: 3')
        run = self.folder / "run"
        quick = ("--data-digits-samples=64", "--steps=2", "--threads=1", f"--output={run}")
        # What dynamic memory and no plan is refused with shows what a command goes by.
        refused = 'engine "replay": expected planned memory'
        for command, arguments in {
            "train": quick,
            "eval": (f"--checkpoint={run}", "--batches=1"),
            "predict": (f"--checkpoint={run}", "--batches=1", "--fetch=fc3"),
            "step": ("--steps=1",),
            "bench": ("--seconds=0",),
            "tune": ("--seconds=0", "--threads=1", f"--output={self.folder / 'a.tuning.pbtxt'}"),
        }.items():
            self.assertIn(refused, self.error(command, file, *arguments, "--engine=replay"))
            if command != "tune":  # takes seconds
                self.run_snug(command, file, *arguments, "--engine=replay", "--memory=best")
        step = self.json("step", file, "--steps=1", "--threads=1")
        self.assertEqual((step["memory"], step["allocator"]), ("dynamic", "buddy"))
        self.assertEqual(self.json("step", file, "--steps=1", "--threads=1", "--allocator=system")["allocator"], "system")
        self.assertEqual(self.plan(file, "--memory=none")["strategy"], "none")
        rows = self.json("memcost", file, "--threads=1", "--memory=none,dynamic")["rows"]
        dynamic = [row["arena"] for row in rows if (row["strategy"], row["mode"]) == ("dynamic", "training")]
        self.assertEqual(dynamic, [self.plan(file)["total"]])
        self.assertEqual(self.plan(file)["reserved"] % 3_000_000, 0)  # buddy's chunks
        self.run_snug("compile", file)

    def test_the_limit_of_the_file_is_kept_by_plans_and_saved_plans(self):
        plan = self.folder / "a.plan"
        free = self.network("free.pbtxt", "")
        taken = self.json("plan", free, "--threads=1", f"--write-plan={plan}")["total"]
        tight = self.network("tight.pbtxt", f'memory_limit: "{taken - 1}"')
        for flags in ((), (f"--plan={plan}",)):
            self.assertIn(f"the limit is {taken - 1}", self.error("step", tight, "--threads=1", *flags, code=1))
            self.run_snug("step", tight, "--threads=1", "--steps=1", *flags, f"--memory-limit={taken}")
        fit = self.json("fit", self.network("fit.pbtxt", 'memory_limit: "20MB"', batch=1), "--threads=1", "--memory=none", "--max-batch=64")
        self.assertEqual(fit["memory_limit"], 20_000_000)
        self.run_snug("memcost", tight, "--threads=1", "--memory=none")  # shows what every strategy needs, limit or not

    def test_a_saved_plan_comes_in_the_place_of_the_files_strategy(self):
        plan = self.folder / "a.plan"
        file = self.network("dynamic.pbtxt", 'strategy: "dynamic" inplace: false')
        self.run_snug("plan", file, "--threads=1", "--memory=best", f"--write-plan={plan}")
        self.assertEqual(self.json("step", file, "--threads=1", "--steps=1", f"--plan={plan}")["memory"], "best")

    def test_mistakes_of_files_are_located_for_every_command(self):
        file = self.network("wrong.pbtxt", "\n  gc_fraction: 1.5")
        for command in COMMANDS:
            arguments = ("--checkpoint=none", "--fetch=x")[: {"eval": 1, "predict": 2}.get(command, 0)]
            expected = f"{file}:{self.lines + 2}:16: training.memory.gc_fraction: expected a share from 0 to 1, found 1.5"
            self.assertIn(expected, self.error(command, file, *arguments))
        file = self.network("planned.pbtxt", "\n  gc_fraction: 0.5")
        expected = f'{file}:{self.lines + 2}:16: training.memory.gc_fraction: expected training.memory.strategy: "dynamic" beside it'
        self.assertIn(expected, self.error("step", file))
        self.run_snug("step", file, "--steps=1", "--memory=dynamic")

    def test_what_one_planner_alone_reads_is_refused_where_another_plans(self):
        mlp = ("models/mlp.pbtxt", "--threads=1")
        saved = self.folder / "a.plan"
        self.run_snug("plan", *mlp, f"--write-plan={saved}")
        for flags, found in {
            ("--olla=joint", "--memory=share"): "--olla: expected a planner that reads it (--memory=olla), found share",
            ("--olla-spans=false",): "--olla-spans: expected a planner that reads it (--memory=olla), found best",
            ("--match-range=4", "--memory=nnc"):
                "--match-range: expected a planner that reads it (--memory=share, both, best; or --stream-policy=implicit,",
            ("--match-range=16", "--memory=nnc"): "--match-range: expected",  # its default, but given
            ("--match-range=4", "--streams=2"): "found best+waitless",
            ("--match-range=4", "--memory=share", "--streams=2", "--stream-policy=waitless"): "found share+waitless",
            ("--match-range=4", "--memory=dynamic"): "found dynamic",
            ("--match-range=4", f"--plan={saved}"): f"found --plan={saved}",
            ("--colors=3", "--streams=2", "--stream-policy=ancestors"): "(--stream-policy=colors, colors-only), found best+ancestors",
        }.items():
            self.assertIn(found, self.error("step", *mlp, *flags))
        self.assertIn("(--memory=olla), found none, both", self.error("memcost", *mlp, "--memory=none,both", "--olla=split"))
        self.assertIn("found dynamic", self.error("memcost", *mlp, "--memory=dynamic", "--stream-policy=implicit", "--match-range=4"))
        self.assertIn('did you mean "share"', self.error("memcost", *mlp, "--memory=sahre", "--match-range=4"))
        buffers = self.write("a.csv", "id,lower,upper,size\na,0,3,5\n")
        for flags, found in {
            ("--olla=split",): "--olla: expected a planner that reads it (--memory=olla), found best",
            ("--match-range=4",): "--match-range: expected a planner that reads it (--memory=share, both), found best",
            ("--memory=olla", "--olla=joint"): "--olla: is about the order, which is fixed here",
            ("--memory=olla", "--olla-spans"): "--olla-spans: is about the order, which is fixed here",
            ("--memory=sahre", "--match-range=4"): 'did you mean "share"',
        }.items():
            self.assertIn(found, self.error("place", buffers, *flags))
        self.run_snug("place", buffers, "--memory=olla", "--olla-pyramid")
        for flags in (("--match-range=4", "--memory=share"), ("--match-range=4", "--memory=nnc", "--streams=2", "--stream-policy=implicit"),
                      ("--colors=3", "--streams=2", "--stream-policy=colors")):
            self.run_snug("plan", *mlp, *flags)
