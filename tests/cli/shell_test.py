"""What helps to begin with, and in the shell: `snug new`, `snug completion`, `snug man`."""

import os
import re
import select
import shlex
import shutil
import subprocess
import unittest

from snug import BINARY, ROOT, SnugTest


class InstallTest(SnugTest):
    """cmake --install, of the build folder that the command is in."""

    def test_the_command_comes_with_its_manual_and_completions(self):
        build = os.path.dirname(BINARY)
        if not os.path.exists(os.path.join(build, "cmake_install.cmake")):
            self.skipTest(f"{build} is no build folder")
        prefix = self.folder / "prefix"
        subprocess.run(["cmake", "--install", build, "--prefix", prefix, "--component", "command"], check=True,
                       capture_output=True)
        for path, arguments in {"share/man/man1/snug.1": ["man"],
                                "share/bash-completion/completions/snug": ["completion", "bash"],
                                "share/zsh/site-functions/_snug": ["completion", "zsh"],
                                "share/fish/vendor_completions.d/snug.fish": ["completion", "fish"]}.items():
            self.assertEqual((prefix / path).read_text(), self.run_snug(*arguments).stdout)
        done = subprocess.run([prefix / "bin/snug", "--version"], capture_output=True, text=True, check=True)
        version = re.search(r"project\(snug VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertRegex(done.stdout, rf"^snug {re.escape(version)} \((commit [\w.+-]+|unknown commit), \w+, library: .+\)\n$")
        self.assertEqual(done.stdout, self.run_snug("--version").stdout)


class NewTest(SnugTest):
    def test_each_kind_trains_as_it_is(self):
        for kind, data in (("mlp", "digits"), ("convnet", "textures"), ("transformer", "copy")):
            path = self.folder / f"{kind}.pbtxt"
            self.assertIn(f"snug train {path}", self.run_snug("new", kind, path).stdout)
            output = self.folder / kind
            self.run_snug("train", path, f"--output={output}", f"--data-{data}-samples=512", "--epochs=1", "--threads=1")
            self.assertTrue(os.listdir(output / "checkpoints"))

    def test_nothing_is_replaced(self):
        path = self.write("mine.pbtxt", "mine")
        self.assertIn("is there already", self.error("new", "mlp", path))
        self.assertEqual(path.read_text(), "mine")

    def test_kinds_are_listed_and_the_nearest_is_named(self):
        self.assertIn("mlp, convnet, transformer", self.error("new"))
        self.assertIn('did you mean "convnet"', self.error("new", "convent"))
        self.assertIn("No such file or directory", self.error("new", "mlp", "/no/such/folder/x.pbtxt"))

    def test_a_name_is_one_that_other_commands_read_as_text(self):
        for name in ("y.pb", "-", ""):
            self.assertIn(f'ends in .pbtxt, found "{name}"', self.error("new", "mlp", name))

    def test_the_command_that_it_names_can_be_pasted(self):
        path = self.folder / "two words.pbtxt"
        command = self.run_snug("new", "mlp", path).stdout.split("To train it: ")[1]
        self.assertEqual(shlex.split(command), ["snug", "train", str(path)])


class CompletionTest(SnugTest):
    def complete(self, *words):
        script = f"source <({BINARY} completion bash)\nCOMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1))\n_snug 2>/dev/null\n" 'printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True)
        return done.stdout.split("\n")[:-1]

    def test_bash_completes_commands_flags_and_files(self):
        self.assertEqual(self.complete("snug", "memc"), ["memcost"])
        self.assertEqual(self.complete("snug", "plan", "--bat"), ["--batch=", "--batch-range=", "--batch-excess=", "--batch-every"])
        self.assertEqual(self.complete("snug", "plan", "--forw"), ["--forward"])
        path = str(self.write("some_net.pbtxt", ""))
        self.assertEqual(self.complete("snug", "plan", path[:-4]), [path])
        self.assertEqual(self.complete("snug", "plan", "--svg", "=", path[:-4]), [path])
        spaced = str(self.write("two words.pbtxt", ""))
        self.assertEqual(self.complete("snug", "plan", spaced[:-8]), [spaced])
        self.assertEqual(self.complete("snug", "new", "conv"), ["convnet"])
        self.assertEqual(self.complete("snug", "completion", ""), ["bash", "zsh", "fish"])

    def test_zsh_and_fish_read_what_is_for_them(self):
        for shell in ("zsh", "fish"):
            script = self.write(f"snug.{shell}", self.run_snug("completion", shell).stdout)
            with self.subTest(shell):
                if shutil.which(shell) is None:
                    raise unittest.SkipTest(f"no {shell} here to read its completion")
                subprocess.run([shell, "-n", script], check=True)

    def needs(self, shell):
        if shutil.which(shell) is None:
            self.skipTest(f"SKIPPED: no {shell} here to complete anything (tools/setup --peers)")

    def environment(self):
        """An empty home, and this build's command as `snug`."""
        (self.folder / "bin").mkdir()
        (self.folder / "bin/snug").symlink_to(BINARY)
        self.write("some_net.pbtxt", "")
        return {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "HOME": str(self.folder), "TERM": "dumb", "LC_ALL": "C.UTF-8"}

    def test_fish_completes_commands_flags_and_files(self):
        self.needs("fish")
        environment = self.environment()
        script = "snug completion fish | source; for line in $argv; complete -C $line; echo ----; end"
        lines = ("snug memc", "snug plan --forw", "snug plan --bat", "snug new conv", "snug completion ", "snug plan some", "snug plan --svg=some")
        done = subprocess.run(["fish", "--no-config", "-c", script, *lines], capture_output=True, text=True, check=True,
                              env=environment, cwd=self.folder)
        self.assertEqual(done.stderr, "")
        # Behind each word, fish says what it is.
        found = [[answer.split("\t")[0] for answer in answers.splitlines()] for answers in done.stdout.split("----\n")[:-1]]
        self.assertEqual(len(found), len(lines), done.stdout)
        expected = (["memcost"], ["--forward"], ["--batch", "--batch-every", "--batch-excess", "--batch-range"], ["convnet"], None,
                    ["some_net.pbtxt"], ["--svg=some_net.pbtxt"])
        for line, answers, wanted in zip(lines, found, expected):
            if wanted is not None:
                self.assertEqual(answers, wanted, line)
        self.assertLessEqual({"bash", "zsh", "fish"}, set(found[4]))

    def test_zsh_completes_commands_flags_and_files(self):
        """It completes in a terminal alone: words are typed into one, then Tab, and a key that shows the line."""
        self.needs("zsh")
        mine, theirs = os.openpty()
        process = subprocess.Popen(["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=self.environment(),
                                   cwd=self.folder, start_new_session=True)
        os.close(theirs)
        try:
            said = ""

            def read_until(end):
                nonlocal said
                while end not in said:
                    self.assertTrue(select.select([mine], [], [], 60)[0], f"zsh shows no {end!r}: {said!r}")
                    said += os.read(mine, 4096).decode()
                before, said = said.split(end, 1)
                return before

            os.write(mine, b"autoload -Uz compinit; compinit -u -D; source <(snug completion zsh); "
                           b"shown() { print -r -- \"<$BUFFER\"'>'; BUFFER='' }; zle -N shown; bindkey '^T' shown; echo rea''dy\n")
            read_until("ready\r\n")
            for line, wanted in (("snug memc", "snug memcost "), ("snug plan --forw", "snug plan --forward "), ("snug new conv", "snug new convnet "),
                                 ("snug plan some", "snug plan some_net.pbtxt "), ("snug plan --svg=some", "snug plan --svg=some_net.pbtxt ")):
                os.write(mine, line.encode() + b"\t\x14")
                self.assertEqual(read_until(">\r\n").rsplit("<", 1)[-1], wanted)
        finally:
            process.kill()
            process.wait()
            os.close(mine)

    def test_other_shells_are_refused(self):
        self.assertIn("bash, zsh or fish", self.error("completion", "tcsh"))


class ManTest(SnugTest):
    def test_the_page_has_every_command_and_flag_of_the_help(self):
        page = self.run_snug("man").stdout.replace("\\-", "-")
        commands = re.findall(r"^\.SS (\S+)", page, re.MULTILINE)
        listed = self.run_snug("--help").stdout.split("commands:")[1].split("\n\n")[0]
        self.assertEqual(commands, re.findall(r"^  (\S+)", listed, re.MULTILINE))
        for command, section in zip(commands, re.split(r"^\.SS ", page, flags=re.MULTILINE)[1:]):
            flags = re.findall(r"^  --([\w-]+)", self.run_snug(command, "--help").stdout, re.MULTILINE)
            self.assertEqual(re.findall(r"^\.B --([\w-]+)", section, re.MULTILINE), flags, command)

    def test_groff_has_nothing_to_say_against_it(self):
        if shutil.which("groff") is None:
            self.skipTest("no groff here")
        page = self.run_snug("man").stdout
        done = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page, capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")

