"""A workflow of Snakemake runs under the probe, a sweep evaluates it, and a second execution with the
profile that `ebb tune` writes requests what was recommended. The probe needs root and eBPF."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from program import PROGRAM, ebb, needs_program

_PLUGIN = Path(__file__).parents[2] / "integrations" / "snakemake-logger-plugin-ebb" / "src"

# A rule holds 300 MB, another uses a core, and the third has `run:`. The requests are too large.
_WORKFLOW = """
rule all:
    input: expand("{rule}/{sample}", rule=["hold", "burn", "count"], sample=["A", "B"])
rule hold:
    output: "hold/{sample}"
    threads: 4
    resources: mem_mb=4000
    shell: "python3 -c 'import time; x = bytearray(300_000_000); time.sleep(3)' && touch {output}"
rule burn:
    output: "burn/{sample}"
    threads: 4
    resources: mem_mb=4000
    shell: "timeout 3 sh -c 'while :; do :; done' || touch {output}"
rule count:
    output: "count/{sample}"
    threads: 4
    resources: mem_mb=4000
    run:
        shell("sleep 3; touch {output}")
"""

# Advice on a request needs this many runs.
_RUNS = 3


def _probe() -> Path:
    """The probe next to the program, or the reason why it cannot run."""
    probe = Path(PROGRAM or "").with_name("ebb-probe")
    if os.geteuid() != 0:
        raise unittest.SkipTest("not root")
    if not Path("/sys/kernel/btf/vmlinux").exists():
        raise unittest.SkipTest("this kernel has no type information (/sys/kernel/btf/vmlinux)")
    if not probe.exists():
        raise unittest.SkipTest(f"{probe} is not built")
    return probe


@needs_program
class AdviceTaken(unittest.TestCase):
    def setUp(self):
        self.probe = _probe()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "Snakefile").write_text(_WORKFLOW)

    def _snakemake(self, *arguments: str) -> str:
        run = [sys.executable, "-m", "snakemake", "--cores", "8", "--forceall", *arguments]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {"PYTHONPATH": str(_PLUGIN), "PATH": path}
        ran = subprocess.run(run, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=180)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout + ran.stderr

    def _observe(self, lake: str) -> None:
        """Runs the workflow under the probe, which sends to the lake."""
        config = self.folder / "probe.toml"
        socket = self.folder / "label.sock"
        settings = {"place": lake, "spool_dir": str(self.folder / "spool"), "label_socket": str(socket)}
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        config.write_text("\n".join([*lines, "interval_seconds = 5", "sample_seconds = 1", "steps_seconds = 1"]))
        log = self.folder / "probe.log"
        with log.open("w") as to:
            environment = os.environ | {"RUST_LOG": "info"}
            probe = subprocess.Popen([self.probe, "run", "--config", config], env=environment, stderr=to)
        try:
            until = time.monotonic() + 60
            while "the probe is running" not in log.read_text():
                self.assertIsNone(probe.poll(), log.read_text())
                self.assertLess(time.monotonic(), until, "the probe did not start")
                time.sleep(0.2)
            for _ in range(_RUNS):
                self._snakemake("--logger", "ebb", "--logger-ebb-socket", str(socket))
            # The ends of the last tasks.
            time.sleep(4)
        finally:
            probe.send_signal(signal.SIGTERM)
            probe.wait(30)

    def test_a_second_execution_requests_what_was_recommended(self):
        lake = self.folder / "lake"
        lake.mkdir()
        url = f"file://{lake}"
        self._observe(url)
        ebb("sweep", "--lake", url)
        report = lake / "reports" / "latest" / "report.json"
        advice = {step["step"]: step for step in json.loads(report.read_text())["steps"]}
        self.assertLessEqual({"hold", "burn", "count"}, set(advice))

        profile = self.folder / "profiles" / "tuned"
        profile.mkdir(parents=True)
        text = ebb("tune", "--report", str(report), "--format", "snakemake")
        (profile / "config.yaml").write_text(text)
        said = self._snakemake("--workflow-profile", "profiles/tuned", "--dry-run", "--printshellcmds")
        jobs = re.split(r"^(?:local)?rule ", said, flags=re.MULTILINE)[1:]
        for rule in ("hold", "burn", "count"):
            of_rule = [job for job in jobs if job.startswith(f"{rule}:")]
            self.assertEqual(len(of_rule), 2, said)
            should = advice[rule]["should_ask"]
            for job in of_rule:
                mem_mb = re.search(r"mem_mb=(\d+)", job)
                self.assertIsNotNone(mem_mb, job)
                self.assertEqual(int(mem_mb[1]), _mb(should["memory"]), rule)
                self.assertLess(int(mem_mb[1]), 4000, rule)
                threads = re.search(r"threads: (\d+)", job)
                self.assertEqual(int(threads[1]) if threads else 1, -(-should["cores"] // 1000), rule)
        # And the jobs run with these requests.
        self._snakemake("--workflow-profile", "profiles/tuned")


def _mb(size: int) -> int:
    """Bytes as the megabytes of Snakemake, rounded up."""
    return -(-size // 1_000_000)
