"""Notices each process that a job starts, and which job that is.

Snakemake runs local jobs in threads of one process. A thread starts its process in
`snakemake.shell`, for `shell:` and for `script:`, notebooks, wrappers and CWL. No interface of
Snakemake shows that process, so `subprocess` is replaced in that module only. The job is on the
stack of the thread, so two parallel jobs cannot be mixed up.
"""

import importlib
import logging
import subprocess
import sys
from types import FrameType, ModuleType
from typing import Any, Callable, Dict, Optional

from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

Labels = Dict[str, str]

#: Limits of the probe for a label.
MAX_NAME_BYTES = 128


def watch_processes(started: Callable[[int, Labels], None]) -> Callable[[], None]:
    """Calls `started` with the number and the labels of each process that a job starts.

    Returns a function that ends this.
    """
    shell = importlib.import_module("snakemake.shell")
    original = getattr(shell, "sp", None)
    if original is not subprocess:
        logging.getLogger(__name__).warning(
            "this version of Snakemake starts processes in another way; Ebb does not get the names of local jobs"
        )
        return lambda: None

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        """A process whose start is reported."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            # Snakemake reads the output of its own short commands, such as the version of Python.
            if options.get("stdout") == subprocess.PIPE:
                return
            job = job_on_stack(sys._getframe(1))
            labels = labels_of(job) if job is not None else None
            if labels is not None:
                started(self.pid, labels)

    setattr(shell, "sp", WithPopen(Popen))

    def stop() -> None:
        setattr(shell, "sp", subprocess)

    return stop


class WithPopen(ModuleType):
    """The module `subprocess` with another `Popen`."""

    def __init__(self, popen: type) -> None:
        super().__init__("subprocess")
        self.Popen = popen

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)


def job_on_stack(frame: Optional[FrameType]) -> Optional[JobExecutorInterface]:
    """The job that this thread runs; `None` outside of a job."""
    while frame is not None:
        if "job" in frame.f_code.co_varnames:
            job = frame.f_locals.get("job")
            if isinstance(job, JobExecutorInterface) and not job.is_group():
                return job
        frame = frame.f_back
    return None


def labels_of(job: JobExecutorInterface) -> Optional[Labels]:
    """The labels of a job: rule, wildcards, the wildcard `sample`, and attempt."""
    targets: Any = job.get_target_spec()
    if len(targets) != 1:
        return None
    (target,) = targets
    wildcards = {str(name): str(value) for name, value in target.wildcards_dict.items()}
    labels = {
        "step": target.rulename,
        "task": ",".join(f"{name}={value}" for name, value in wildcards.items()),
        "sample": wildcards.get("sample", ""),
        "attempt": str(job.attempt),
    }
    plain = {name: as_label(value) for name, value in labels.items()}
    return {name: value for name, value in plain.items() if value}


def as_label(text: str) -> str:
    """The text without control characters, cut to the limit of a label."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text.encode(errors="replace")[:MAX_NAME_BYTES].decode(errors="ignore")
