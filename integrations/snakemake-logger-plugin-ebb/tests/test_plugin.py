"""The plugin with real Snakemake and a socket in the place of the probe."""

import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any, Dict, Iterator, List, Type

import pytest
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase
from snakemake_interface_logger_plugins.tests import TestLogHandlerBase

from snakemake_logger_plugin_ebb import LogHandler, LogHandlerSettings
from snakemake_logger_plugin_ebb.jobs import as_label
from snakemake_logger_plugin_ebb.sender import Sender


class TestInterface(TestLogHandlerBase):
    """The tests of the interface itself."""

    __test__ = True

    def get_log_handler_cls(self) -> Type[LogHandlerBase]:
        return LogHandler

    def get_log_handler_settings(self) -> LogHandlerSettingsBase:
        return LogHandlerSettings(socket="/nowhere")


class Probe:
    """A socket that answers as the probe does, and keeps the requests."""

    def __init__(self, path: Path, answers: List[bytes]) -> None:
        self.path = str(path)
        self.requests: List[Dict[str, Any]] = []
        self._answers = answers
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            with stream:
                data = b""
                while not data.endswith(b"\n"):
                    data += stream.recv(4_096)
                self.requests.append(json.loads(data))
                stream.sendall(self._answers.pop(0) if self._answers else b"ok\n")

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Probe]:
    probe = Probe(tmp_path / "label.sock", [])
    yield probe
    probe.close()


SNAKEFILE = """
rule all:
    input: expand("{rule}/{sample}.{n}", rule=["one", "two", "script", "run"], sample=["A", "B"], n=[1, 2])
rule one:
    output: "one/{sample}.{n}"
    shell: "echo $$ > {output}; sleep 0.3"
rule two:
    output: "two/{sample}.{n}"
    threads: 2
    shell: "echo $$ > {output}; sleep 0.3"
rule script:
    output: "script/{sample}.{n}"
    script: "work.py"
rule run:
    output: "run/{sample}.{n}"
    run:
        shell("echo $$ > {output}")
"""

SCRIPT = "import os\nopen(snakemake.output[0], 'w').write(str(os.getpid()))\n"


def run_snakemake(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Runs the workflow of `folder` with the plugin."""
    command = [sys.executable, "-m", "snakemake", "--cores", "4", "--logger", "ebb", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_each_process_of_parallel_jobs_is_sent_with_its_own_rule(tmp_path: Path, probe: Probe) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "work.py").write_text(SCRIPT)
    done = run_snakemake(tmp_path, "--logger-ebb-socket", probe.path)
    assert done.returncode == 0, done.stderr
    expect = {}
    # A job with `run:` is a process of Snakemake of its own, whose arguments name it.
    for rule in ["one", "two", "script"]:
        for sample in "AB":
            for n in "12":
                pid = int((tmp_path / rule / f"{sample}.{n}").read_text())
                task = f"sample={sample},n={n}"
                expect[pid] = {"step": rule, "task": task, "sample": sample, "attempt": "1"}
    assert {request["pid"]: request["labels"] for request in probe.requests} == expect


def test_a_second_attempt_is_sent_as_such(tmp_path: Path, probe: Probe) -> None:
    snakefile = """
    rule all:
        output: "done"
        retries: 1
        shell: "[ -e again ] && touch {output} || {{ touch again; exit 3; }}"
    """
    (tmp_path / "Snakefile").write_text(textwrap.dedent(snakefile))
    done = run_snakemake(tmp_path, "--logger-ebb-socket", probe.path)
    assert done.returncode == 0, done.stderr
    labels = [request["labels"] for request in probe.requests]
    assert labels == [{"step": "all", "attempt": "1"}, {"step": "all", "attempt": "2"}]


def test_without_a_probe_the_workflow_runs_with_one_warning(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text('rule all:\n    output: "a"\n    shell: "touch {output}"\n')
    done = run_snakemake(tmp_path, "--logger-ebb-socket", str(tmp_path / "none"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Ebb does not get the names of some jobs") == 1, done.stderr
    dry = run_snakemake(tmp_path, "--dry-run", "--forceall", "--logger-ebb-socket", str(tmp_path / "none"))
    assert (dry.returncode, "Ebb" in dry.stderr) == (0, False), dry.stderr


def test_a_request_is_repeated_only_while_the_probe_has_too_many(tmp_path: Path) -> None:
    answers = [b"refused: too many requests; try again later\n", b"ok\n", b"refused: no\n"]
    probe = Probe(tmp_path / "label.sock", answers)
    sender = Sender(probe.path)
    for pid in (1, 2, 3):
        sender.send(pid, {"step": "a"})
    sender.close()
    probe.close()
    assert [request["pid"] for request in probe.requests] == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "expect"),
    [("S1", "S1"), ("a\x1b[2J\n", "a?[2J?"), ("é" * 100, "é" * 64), ("x" * 127 + "é", "x" * 127)],
)
def test_a_label_has_no_control_character_and_a_limit(text: str, expect: str) -> None:
    assert as_label(text) == expect
    assert len(as_label(text).encode()) <= 128
    assert os.linesep not in as_label(text)
