"""Snakemake takes the profile, and asks for the next size after each failure. Benchmark
files that it really wrote are read, with the rules of its Snakefile."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from functools import cache
from pathlib import Path

from program import HOSTILE, PROGRAM, ebb, needs_program, report

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
        tune = ("tune", "--report", str(path), "--format", "snakemake")
        self.assertNotRegex(ebb(*tune), "(?m)^retries", "the pipeline keeps its retries")
        text = ebb(*tune, "--with-retry")
        self.assertIn("SIMULATED", text)
        (profile / "config.yaml").write_text(text)
        self.profile = text

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
        # `retries` is that of the rule with most sizes; the others stay at their last.
        retries = int(re.search(r"(?m)^retries: (\d+)$", self.profile)[1])
        sizes += sizes[-1:] * (retries + 1 - len(sizes))
        asked = (self.folder / "asked").read_text().splitlines()
        self.assertEqual(asked, [f"{cores} {_mb(size)}" for size in sizes], ran.stderr)


# Wildcards in any place, a repetition, memory in two units, and rules whose requests are
# the same for all jobs or not. Each job holds 60 MB for more than a second.
_BENCHMARKED = """
class Matrix:
    def __repr__(self):
        return "array([[1, 2],\\n       [3, 4]])"

print("parsed")
HOLD = "python3 -c 'import time; x = bytearray(60_000_000); time.sleep(1.2)' && touch {output}; : {threads} {resources.mem_mb}"

rule all:
    input: expand("out/{sample}.{chrom}.vcf", sample=list("ABC"), chrom=["chr1", "chr2"])

rule bwa:
    output: "out/{sample}.bam"
    wildcard_constraints: sample="[A-Z]+"
    benchmark: repeat("benchmarks/{sample}.bwa.benchmark.SUFFIX", 2)
    params: Matrix(), quoted="it's, a \\"test\\" {{}}"
    threads: 4
    resources: mem_mb=2000, runtime=30
    shell: HOLD

rule call:
    input: "out/{sample}.bam"
    output: "out/{sample}.{chrom}.vcf"
    benchmark: "benchmarks/{chrom,chr[0-9]}/{sample}.SUFFIX"
    threads: 2
    resources: mem="1.5GB", runtime="2h"
    shell: HOLD
"""


def _snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "snakemake", "--cores", "16", *arguments]
    return subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=180)


@cache
def _benchmarked(suffix: str, *arguments: str) -> tempfile.TemporaryDirectory[str]:
    """A folder in which the workflow ran."""
    folder = tempfile.TemporaryDirectory()
    (Path(folder.name) / "Snakefile").write_text(_BENCHMARKED.replace("SUFFIX", suffix))
    ran = _snakemake(Path(folder.name), *arguments)
    if ran.returncode != 0:
        raise AssertionError(ran.stderr)
    return folder


@needs_program
class Benchmarks(unittest.TestCase):
    def _import(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        files = [str(path.relative_to(folder)) for path in sorted(folder.glob("benchmarks/**/*.*"))]
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = [PROGRAM, "import", *files, *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)

    def _profile(self, folder: Path, *arguments: str) -> dict[str, tuple[int, int]]:
        """What a dry run with the profile asks for, by rule: threads and mem_mb."""
        written = self._import(folder, "--format", "snakemake", *arguments)
        self.assertEqual(written.returncode, 0, written.stderr)
        profile = folder / "profiles" / "tuned"
        profile.mkdir(parents=True, exist_ok=True)
        (profile / "config.yaml").write_text(written.stdout)
        dry = ("--workflow-profile", "profiles/tuned", "--dry-run", "--forceall", "--printshellcmds")
        ran = _snakemake(folder, *dry)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        jobs = re.split(r"^(?:local)?rule ", ran.stdout + ran.stderr, flags=re.MULTILINE)[1:]
        asked: dict[str, set[tuple[int, int]]] = {}
        for job in jobs:
            found = re.search(r"; : (\d+) (\d+)$", job, flags=re.MULTILINE)
            if found:
                asked.setdefault(job.split(":")[0], set()).add((int(found[1]), int(found[2])))
        self.assertEqual({len(all_jobs) for all_jobs in asked.values()}, {1}, asked)
        return {rule: next(iter(all_jobs)) for rule, all_jobs in asked.items()}

    def _check(self, folder: Path, *arguments: str) -> None:
        rows = self._import(folder, "--format", "json", *arguments)
        self.assertEqual(rows.returncode, 0, rows.stderr)
        self.assertNotIn("skipped", rows.stderr)
        table = self._import(folder, *arguments).stdout
        self.assertIn("12 tasks of 2 steps", table)
        asked = self._profile(folder, *arguments)
        self.assertEqual(set(asked), {"bwa", "call"})
        for rule, (threads, mem_mb) in asked.items():
            # How many cores a short task kept busy depends on what else the machine does.
            self.assertLess(threads, {"bwa": 4, "call": 2}[rule], rule)
            self.assertTrue(70 <= mem_mb <= 1000, f"{rule}: {mem_mb}")

    def test_plain_files_are_of_the_rules_of_the_snakefile(self):
        folder = Path(_benchmarked("txt").name)
        self._check(folder, "--snakefile", "Snakefile")
        # The requests are those of the rules.
        table = self._import(folder, "--snakefile", "Snakefile").stdout
        self.assertRegex(table, r"bwa +6 +0 +4 +\S+ +1\.9 GiB")
        self.assertRegex(table, r"call +6 +0 +2 +\S+ +1\.4 GiB")

    def test_extended_and_json_files_say_it_themselves(self):
        for suffix in ("tsv", "jsonl"):
            with self.subTest(suffix):
                self._check(Path(_benchmarked(suffix, "--benchmark-extended").name))

    def test_plain_files_without_a_snakefile_are_refused(self):
        refused = self._import(Path(_benchmarked("txt").name))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--snakefile", refused.stderr)

    def test_a_rule_that_the_snakefile_lacks_is_named(self):
        folder = Path(_benchmarked("tsv", "--benchmark-extended").name)
        (folder / "Other").write_text(_BENCHMARKED.replace("rule call", "rule call_variants"))
        refused = self._import(folder, "--snakefile", "Other", "--format", "snakemake")
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertIn("the Snakefile has no rule call\n", refused.stderr)

    def test_what_keeps_snakemake_from_reading_is_said(self):
        folder = Path(_benchmarked("txt").name)
        broken = {
            "rule a:\n    outputs: 'x'\n": "Unexpected keyword outputs",
            "configfile: 'missing.yaml'\n": "missing.yaml",
            "import sys\nsys.exit(0)\n": "ends the program",
        }
        for text, expect in broken.items():
            (folder / "Broken").write_text(text)
            refused = self._import(folder, "--snakefile", "Broken")
            self.assertEqual(refused.returncode, 1)
            self.assertIn("failed to read the rules of Broken", refused.stderr)
            self.assertIn(expect, refused.stderr)
        nothing = self._import(folder, "--snakefile", "Snakefile", "--snakemake", "/bin/false")
        self.assertEqual(nothing.returncode, 1)


def _mb(size: int) -> int:
    return -(-size // 1_000_000)


if __name__ == "__main__":
    unittest.main()
