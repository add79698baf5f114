"""The source file from which `snug --version` has its commit (cmake/SnugCommit.cmake), in repositories made on the spot."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "cmake/SnugCommit.cmake"
CMAKE = shutil.which("cmake")
AUTHOR = {f"GIT_{role}_{what}": "test@test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@unittest.skipUnless(CMAKE and shutil.which("git"), "SKIPPED: no cmake or git here")
class CommitTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source = pathlib.Path(folder.name) / "tree"
        self.out = pathlib.Path(folder.name) / "commit.cc"
        self.source.mkdir()
        self.git("init", "--quiet")
        (self.source / "file").write_text("one")
        self.git("add", "file")
        self.git("commit", "--quiet", "--message=one")

    def git(self, *arguments):
        done = subprocess.run(["git", "-C", self.source, *arguments], check=True, capture_output=True, text=True,
                              env={**os.environ, **AUTHOR, "GIT_CONFIG_GLOBAL": "/dev/null"})
        return done.stdout.strip()

    def written(self, source=None, commit="", **environment):
        """The commit in the file that the script writes."""
        subprocess.run([CMAKE, f"-DSOURCE={source or self.source}", f"-DOUT={self.out}", f"-DCOMMIT={commit}", "-P", SCRIPT],
                       check=True, capture_output=True, env={**os.environ, **environment})
        return re.search(r'return "(.*)";', self.out.read_text())[1]

    def test_it_is_what_git_says(self):
        commit = self.git("rev-parse", "HEAD")[:12]
        self.assertEqual(self.written(), commit)
        (self.source / "beside").write_text("no file of the repository")
        self.assertEqual(self.written(), commit)
        (self.source / "file").write_text("two")
        self.assertEqual(self.written(), commit + "-dirty")
        self.git("commit", "--quiet", "--all", "--message=two")
        self.git("tag", "v1", "--message=a tag is no commit")
        self.assertEqual(self.written(), self.git("rev-parse", "HEAD")[:12])

    def test_the_file_is_left_alone_until_it_is_wrong(self):
        self.written()
        os.utime(self.out, (1, 1))
        self.written()
        self.assertEqual(self.out.stat().st_mtime, 1)
        self.git("commit", "--quiet", "--allow-empty", "--message=two")
        self.written()
        self.assertNotEqual(self.out.stat().st_mtime, 1)

    def test_an_unpacked_archive_has_none_whatever_it_lies_in(self):
        archive = self.source / "vendor" / "snug"
        archive.mkdir(parents=True)
        self.assertEqual(self.written(archive), "")
        (archive / ".git").write_text("gitdir: nowhere\n")  # of a submodule that was copied without its repository
        self.assertEqual(self.written(archive), "")

    def test_who_builds_may_say_it(self):
        self.assertEqual(self.written(commit="0123abc"), "0123abc")
        self.assertEqual(self.written(commit="0123456789ab" + "c" * 28), "0123456789ab")
        self.assertEqual(self.written(commit="debian-12.3"), "debian-12.3")
        with self.assertRaises(subprocess.CalledProcessError) as raised:
            self.written(commit='a"; system("')
        self.assertIn("expected letters, digits", raised.exception.stderr.decode())


if __name__ == "__main__":
    unittest.main()
