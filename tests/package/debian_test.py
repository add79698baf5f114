"""The Debian packages that `cpack -G DEB` makes of a build: what their control files say, and that the command runs and a
program is built from what dpkg puts into an empty root.

The root has no libraries of Debian's own, so they are this machine's; which packages these are is checked against Depends.
"""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["SNUG_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["SNUG_BUILD_DIR"])
VERSION = re.search(r"project\(snug VERSION (\d+)\.(\d+)\.(\d+)", (SOURCE / "CMakeLists.txt").read_text())
TEXT = ".".join(VERSION.groups())
LIBRARY = f"libsnug{VERSION[1]}.{VERSION[2]}"
PACKAGES = ["libsnug-dev", LIBRARY, "snug"]
TOOLS = ["cpack", "dpkg", "dpkg-deb", "dpkg-shlibdeps", "dpkg-query", "file"]
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
# What lintian finds that belongs to packages of Debian's archive, or is how CPack and dpkg make them; each with its reason.
ALLOWED_TAGS = {
    "bogus-mail-host": "SNUG_PACKAGE_MAINTAINER is nobody's address until who builds the packages gives one",
    "bogus-mail-host-in-debian-changelog": "the same",
    "initial-upload-closes-no-bugs": "there is no bug in Debian's list that asks for the package",
    "maintscript-calls-ldconfig": "CPack writes these scripts beside the trigger that the policy asks for",
    "pkg-config-unavailable-for-cross-compilation": "of a build that was not configured with CMAKE_INSTALL_PREFIX=/usr",
}


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def names_of(field):
    """The packages that a field like Depends names."""
    return {re.split(r"[ (]", name)[0] for name in re.split(r", | \| ", field) if name}


def field(package, name):
    return run("dpkg-deb", "--field", package, name).strip()


def owners_of(binary):
    """Debian's packages of the shared libraries that the binary names itself."""
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", binary))
    found = dict(re.findall(r"^\s*(\S+) => (\S+)", run("ldd", binary), re.MULTILINE))
    return {owner_of(os.path.realpath(found[name])) for name in needed if name in found and not name.startswith("libsnug")}


def owner_of(file):
    """The package that brings the file: dpkg knows some of /usr/lib as /lib, which is a link to it."""
    for path in (file, file.removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "--search", path], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    raise AssertionError(f"{file}: of no package")


@unittest.skipIf(MISSING, f"SKIPPED: no {', '.join(MISSING)} here to make packages with: tools/setup --package")
class DebianTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        folder = pathlib.Path(cls.temporary.name)
        # An umask that lets others in would hide a folder whose permissions nobody set. gzip, because xz takes a minute.
        run("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", folder / "packages",
            "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", cwd=folder, umask=0o077)
        made = sorted((folder / "packages").glob("*.deb"))
        cls.packages = {package.name.split("_")[0]: package for package in made}
        cls.root = folder / "root"
        for package in made:
            run("dpkg-deb", "--extract", package, cls.root)

    def test_there_is_one_for_the_command_one_for_programs_and_one_for_their_authors(self):
        self.assertEqual(sorted(self.packages), PACKAGES)
        architecture = run("dpkg", "--print-architecture").strip()
        for name, package in self.packages.items():
            self.assertRegex(package.name, rf"^{re.escape(name)}_{re.escape(TEXT)}-\w+_{architecture}\.deb$")
            self.assertEqual(field(package, "Package"), name)
            self.assertEqual(field(package, "Architecture"), architecture)
            self.assertRegex(field(package, "Maintainer"), r"^.+ <\S+@\S+>$")
            summary, *rest = field(package, "Description").split("\n")
            self.assertTrue(0 < len(summary) < 80 and not summary.endswith(".") and len(rest) >= 3, summary)
        self.assertEqual([field(self.packages[name], "Section") for name in PACKAGES], ["libdevel", "libs", "science"])

    def test_they_depend_on_what_their_programs_are_linked_with(self):
        library = next(self.root.glob("usr/**/libsnug.so.*.*.*"))
        for name, binary in (("snug", self.root / "usr/bin/snug"), (LIBRARY, library)):
            depends = names_of(field(self.packages[name], "Depends"))
            self.assertEqual(owners_of(binary) - depends, set(), name)
            self.assertNotIn("libsnug-dev", depends)
        version = field(self.packages[LIBRARY], "Version")
        self.assertEqual(field(self.packages["libsnug-dev"], "Depends"), f"{LIBRARY} (= {version})")
        shlibs = run("dpkg-deb", "--info", self.packages[LIBRARY], "shlibs").split()
        self.assertEqual(shlibs[:3], ["libsnug", f"{VERSION[1]}.{VERSION[2]}", LIBRARY])

    def test_no_file_is_in_two_and_all_are_roots(self):
        seen = {}
        for name, package in self.packages.items():
            for line in run("dpkg-deb", "--contents", package).splitlines():
                mode, owner, path = re.match(r"(\S+) (\S+) .*? (\./\S*)", line).groups()
                self.assertEqual(owner, "root/root", line)
                if mode[0] == "d":
                    self.assertEqual(mode, "drwxr-xr-x", line)
                else:
                    self.assertEqual(seen.setdefault(path, name), name, path)
                    self.assertIn(mode, ("-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"), line)
            documents = self.root / "usr/share/doc" / name
            self.assertIn("License: Apache-2.0", (documents / "copyright").read_text())
            changelog = gzip.decompress((documents / "changelog.Debian.gz").read_bytes()).decode()
            self.assertTrue(changelog.startswith(f"snug ({field(package, 'Version')}) "), changelog)

    @unittest.skipUnless(os.geteuid() == 0 or shutil.which("fakeroot"), "SKIPPED: neither root nor fakeroot, which dpkg wants")
    def test_dpkg_installs_and_removes_them(self):
        root = self.root.parent / "installed"
        for folder in ("info", "triggers", "updates"):
            (root / "var/lib/dpkg" / folder).mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        # Scripts and triggers run within the root, where there is no shell: they are not of interest here.
        dpkg = [*([] if os.geteuid() == 0 else ["fakeroot"]), "dpkg", f"--root={root}", "--force-not-root",
                "--force-script-chrootless", "--log=/dev/null"]
        run(*dpkg, "--unpack", *self.packages.values())
        status = run("dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", "--showformat=${Package} ${db:Status-Status}\n")
        self.assertEqual(status.splitlines(), [f"{name} unpacked" for name in PACKAGES])
        self.assertEqual(run(root / "usr/bin/snug", "--version"), run(BUILD / "snug", "--version"))
        run(*dpkg, "--force-depends", "--purge", "snug", "libsnug-dev")
        self.assertFalse(list(root.glob("usr/bin/*")) + list(root.glob("usr/share/snug")) + list(root.glob("usr/include")))

    def test_the_command_runs_from_there(self):
        command = self.root / "usr/bin/snug"
        work = self.root.parent / "work"
        work.mkdir()
        run(command, "new", "mlp", cwd=work)
        run(command, "train", "mlp.pbtxt", "--epochs=1", "--data-digits-samples=256", "--threads=1", cwd=work)
        self.assertIn("step-", " ".join(os.listdir(work / "runs/mlp/checkpoints")))
        model = self.root / "usr/share/snug/models/lenet.pbtxt"
        self.assertEqual(model.read_bytes(), (SOURCE / "models/lenet.pbtxt").read_bytes())
        run(command, "step", model, "--batch=2", "--steps=1", "--threads=1", cwd=work)
        page = gzip.decompress((self.root / "usr/share/man/man1/snug.1.gz").read_bytes()).decode()
        self.assertEqual(page, run(command, "man"))
        for path, shell in (("bash-completion/completions/snug", "bash"), ("zsh/vendor-completions/_snug", "zsh"),
                            ("fish/vendor_completions.d/snug.fish", "fish")):
            self.assertEqual((self.root / "usr/share" / path).read_text(), run(command, "completion", shell))
        self.assertNotIn("RUNPATH", run("readelf", "-d", command))
        self.assertEqual(run("nm", command, "--defined-only").strip(), "")  # stripped

    @unittest.skipUnless(shutil.which("pkg-config") and shutil.which("make"), "SKIPPED: no pkg-config or make here")
    def test_a_program_is_built_with_the_development_files(self):
        project = self.root.parent / "c"
        shutil.copytree(SOURCE / "examples/c", project)
        configuration = next(self.root.glob("usr/**/pkgconfig/snug.pc"))
        run("make", "-C", project, env={**os.environ, "PKG_CONFIG_PATH": str(configuration.parent)})
        self.assertRegex(run(project / "quadrants", project / "checkpoints"), r"(?m)^400 steps: loss 0\.0\d+")

    @unittest.skipUnless(shutil.which("lintian"), "SKIPPED: no lintian here")
    def test_lintian_finds_no_more_than_is_known(self):
        done = subprocess.run(["lintian", "--allow-root", "--fail-on=none", *map(str, self.packages.values())], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        unknown = [line for line in done.stdout.splitlines()
                   if (tag := re.match(r"[EW]: \S+: (\S+)", line)) and tag[1] not in ALLOWED_TAGS]
        self.assertEqual(unknown, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)  # says why one is skipped
