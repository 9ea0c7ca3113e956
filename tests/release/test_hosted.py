"""The hosted release: its steps before the build run here with the variables of GitHub, and the scripts find Debian
on a machine with Ubuntu."""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
import debian  # noqa: E402

WORKFLOW = (ROOT / ".github/workflows/release.yml").read_text()
VERSION = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
TAG = "The tag is the version of the programs"
KEY = "The key that signs"
BUILD = "Build and check as root"


def step(name: str) -> str:
    """The shell script of a step."""
    after = WORKFLOW[WORKFLOW.index(f"- name: {name}") :]
    block = re.search(r"^ +run: \|\n((?: {10}.*\n)+)", after, re.M)
    return textwrap.dedent(block[1])


class Steps(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)

    def run_step(self, name: str, **variables: str) -> subprocess.CompletedProcess[str]:
        variables |= {"RUNNER_TEMP": str(self.place), "GITHUB_ENV": str(self.place / "env"), "PATH": os.environ["PATH"]}
        # The options of GitHub.
        command = ["bash", "-e", "-c", step(name)]
        return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60)

    def test_a_tag_must_be_the_version(self):
        ran = self.run_step(TAG, GITHUB_REF_NAME=f"v{VERSION}")
        self.assertEqual((ran.returncode, ran.stdout), (0, ""))
        for other in ("v99.0.0", f"v{VERSION}.1", f"v{VERSION.replace('.', 'x')}"):
            ran = self.run_step(TAG, GITHUB_REF_NAME=other)
            self.assertEqual(ran.returncode, 1, other)
            self.assertIn(f"::error::the tag {other} is not the version", ran.stdout)

    def test_a_tag_without_a_key_is_an_error_that_names_the_secret(self):
        ran = self.run_step(KEY, KEY="", GITHUB_REF_TYPE="tag")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("::error::the secret EBB_SIGNING_KEY is not set", ran.stdout)

    def test_a_run_by_hand_needs_no_key(self):
        ran = self.run_step(KEY, KEY="", GITHUB_REF_TYPE="branch")
        self.assertEqual((ran.returncode, ran.stdout + ran.stderr), (0, ""))
        self.assertFalse((self.place / "env").exists())

    def test_only_the_owner_reads_the_file_of_the_key(self):
        ran = self.run_step(KEY, KEY="first\nsecond", GITHUB_REF_TYPE="tag")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        name, file = (self.place / "env").read_text().strip().split("=")
        self.assertEqual((name, Path(file).read_text()), ("EBB_SIGNING_KEY", "first\nsecond\n"))
        self.assertEqual(Path(file).stat().st_mode & 0o777, 0o600)

    def test_both_checks_are_before_the_build(self):
        places = [WORKFLOW.index(f"- name: {name}") for name in (TAG, KEY, BUILD)]
        self.assertEqual(places, sorted(places))
        self.assertIn("sudo --preserve-env=HOME,EBB_SIGNING_KEY make release", WORKFLOW[places[-1] :])


class Jobs(unittest.TestCase):
    def test_a_job_in_which_root_fills_the_cache_of_the_user_goes_on_as_root(self):
        as_root = re.compile(r"sudo --preserve-env=HOME\b")
        filled = []
        for file in sorted((ROOT / ".github/workflows").glob("*.yml")):
            jobs = re.split(r"^  (?=[a-z]+:$)", file.read_text().split("\njobs:\n")[1], flags=re.M)
            for job in filter(None, jobs):
                name = job.partition(":")[0]
                commands = re.findall(r"^ +(?:- )?run: (.*(?:make|scripts|\.ci)\b.*)", job, re.M)
                roots = [bool(as_root.match(command)) for command in commands]
                if any(roots):
                    filled.append(name)
                    self.assertTrue(all(roots[roots.index(True) :]), f"{file.name}: {name}: {commands}")
        self.assertEqual(filled, ["test", "terraform", "kernels", "release"])


class Mirror(unittest.TestCase):
    def check(self, files: dict[str, str], expect: str, **variables: str) -> None:
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, variables):
            if not variables:
                os.environ.pop("EBB_DEBIAN_MIRROR", None)
            (Path(folder) / "sources.list.d").mkdir()
            for name, text in files.items():
                (Path(folder) / name).write_text(text)
            self.assertEqual(debian.mirror(Path(folder)), expect)

    def test_debian_comes_from_the_mirror_of_this_machine_or_the_public_one(self):
        ubuntu = {
            "sources.list": "# Ubuntu sources have moved to sources.list.d\n",
            "sources.list.d/ubuntu.sources": "Types: deb\nURIs: http://azure.archive.ubuntu.com/ubuntu/\nSuites: noble\n",
        }
        self.check(ubuntu, "http://deb.debian.org/debian")
        self.check(ubuntu, "http://mirror.example/debian", EBB_DEBIAN_MIRROR="http://mirror.example/debian")
        of_debian = {"sources.list.d/debian.sources": "Types: deb\nURIs: https://mirror.example/debian\nSuites: bookworm\n"}
        self.check(of_debian, "https://mirror.example/debian")
        self.check({"sources.list": "deb http://mirror.example/debian bookworm main\n"}, "http://mirror.example/debian")


if __name__ == "__main__":
    unittest.main()
