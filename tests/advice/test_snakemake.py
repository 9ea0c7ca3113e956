"""Snakemake takes the profile, and asks for the next size after each failure."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from program import HOSTILE, ebb, needs_program, report

_WORKFLOW = """
rule star:
    output: "star.bam"
    threads: 16
    resources: mem_mb=57344
    shell: "echo {threads} {resources.mem_mb} >> asked; exit 1"
"""


@needs_program
class Snakemake(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "Snakefile").write_text(_WORKFLOW)
        path, steps = report(self.folder, {"variant-call": "star", "fastqc": HOSTILE})
        [self.step] = [step for step in steps if step["step"] == "star"]
        profile = self.folder / "profiles" / "tuned"
        profile.mkdir(parents=True)
        text = ebb("tune", "--report", str(path), "--format", "snakemake")
        self.assertIn("SIMULATED", text)
        (profile / "config.yaml").write_text(text)

    def _run(self, *more: str) -> subprocess.CompletedProcess[str]:
        run = [sys.executable, "-m", "snakemake", "--workflow-profile", "profiles/tuned", "--cores", "16", *more]
        return subprocess.run(run, cwd=self.folder, capture_output=True, text=True, timeout=120)

    def test_a_dry_run_shows_what_it_will_ask_for(self):
        ran = self._run("--dry-run")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        said = ran.stdout + ran.stderr
        self.assertIn(f"threads: {self.step['should_ask']['cores'] // 1000}\n", said)
        self.assertIn(f"mem_mb={_mb(self.step['should_ask']['memory'])},", said)

    def test_each_attempt_asks_for_the_next_size(self):
        ran = self._run()
        self.assertNotEqual(ran.returncode, 0, "the rule fails")
        cores = self.step["should_ask"]["cores"] // 1000
        sizes = [self.step["should_ask"]["memory"], *self.step["risk"]["attempts"]]
        asked = (self.folder / "asked").read_text().splitlines()
        self.assertEqual(asked, [f"{cores} {_mb(size)}" for size in sizes], ran.stderr)


def _mb(size: int) -> int:
    return -(-size // 1_000_000)


if __name__ == "__main__":
    unittest.main()
