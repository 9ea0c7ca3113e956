"""Prints the rules of a Snakefile as one JSON object; for Snakemake 7, 8 and 9.

Its arguments are the path of the Snakefile and the seconds that this may take. The
Snakefile is executed as Snakemake executes it to parse it; no rule runs. What the
Snakefile prints goes to standard error.
"""

import sys

# As in the program `snakemake`, modules do not come from the working directory.
if sys.path[:1] == [""]:
    del sys.path[0]

import dataclasses
import json
import os
import signal
import threading
import time
from pathlib import Path

# A rule may ask for a part of all cores. Such a part is not a number of threads. This is
# more cores than any rule asks for by number.
ALL_CORES = 1_000_000
MOST_THREADS = 10_000


def settings(kind, **wanted):
    """A settings object with those of the values that this release knows."""
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in wanted.items() if name in known})


def rules_of_api(path):
    """Snakemake 8 and later."""
    from snakemake.api import SnakemakeApi

    try:
        from snakemake.settings.types import OutputSettings, ResourceSettings
    except ImportError:
        from snakemake.settings import OutputSettings, ResourceSettings

    output = settings(OutputSettings, nocolor=True, dryrun=True, enable_file_logging=False)
    with SnakemakeApi(output) as api:
        try:
            opened = api.workflow(resource_settings=ResourceSettings(cores=ALL_CORES), snakefile=Path(path))
            # Variables that the workflow passes on to jobs are not needed here.
            workflow = opened._get_workflow(check_envvars=False)
            opened._workflow_store = workflow
            workflow.include(opened.snakefile, overwrite_default_target=True)
            workflow.check()
        except (Exception, SystemExit) as error:
            report(error, api.print_exception)
            return None
        return [rule_of(rule) for rule in workflow.rules]


def rules_of_workflow(path):
    """Snakemake 7."""
    from snakemake.exceptions import print_exception
    from snakemake.logging import setup_logger
    from snakemake.workflow import Workflow

    path = os.path.abspath(path)
    setup_logger(nocolor=True, quiet=True)
    workflow = Workflow(snakefile=path, cores=ALL_CORES, check_envvars=False)
    try:
        workflow.include(path, overwrite_default_target=True)
        workflow.check()
    except (Exception, SystemExit) as error:
        report(error, lambda error: print_exception(error, workflow.linemaps))
        return None
    return [rule_of(rule) for rule in workflow.rules]


def report(error, print_exception):
    if isinstance(error, SystemExit):
        print(f"the Snakefile ends the program (exit {error.code})", file=sys.stderr)
        return
    try:
        print_exception(error)
    except Exception:
        # Some releases fail to find the line of some errors.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)


def rule_of(rule):
    threads = number(rule.resources.get("_cores"))
    return {
        "name": str(rule.name),
        "benchmark": None if rule.benchmark is None else str(rule.benchmark),
        "threads": threads if threads is not None and threads <= MOST_THREADS else None,
        "mem_mb": memory_mb(rule.resources),
        "mem_mb_per_cpu": number(rule.resources.get("mem_mb_per_cpu")),
        "runtime_minutes": runtime_minutes(rule.resources),
    }


def plain(value):
    """A resource that does not depend on the job; else None."""
    if hasattr(value, "is_evaluable"):
        value = None if value.is_evaluable() else value.value
    return None if callable(value) or isinstance(value, bool) else value


def number(value):
    value = plain(value)
    return value if isinstance(value, (int, float)) and value > 0 else None


def memory_mb(resources):
    """In millions of bytes, as Snakemake counts them."""
    mb = number(resources.get("mem_mb"))
    if mb is not None:
        return mb
    mib = number(resources.get("mem_mib"))
    if mib is not None:
        return mib * 1.048576
    text = plain(resources.get("mem"))
    if not isinstance(text, str):
        return None
    from humanfriendly import InvalidSize, parse_size

    try:
        return parse_size(text) / 1e6
    except InvalidSize:
        return None


def runtime_minutes(resources):
    value = plain(resources.get("runtime"))
    if not isinstance(value, str):
        return number(value)
    from humanfriendly import InvalidTimespan, parse_timespan

    try:
        return parse_timespan(value) / 60
    except InvalidTimespan:
        return None


def end_with_parent(seconds):
    """Ends this process and all that the Snakefile starts: in time, and with the parent."""
    os.setpgrp()
    parent, deadline = os.getppid(), time.monotonic() + seconds

    def watch():
        while os.getppid() == parent and time.monotonic() < deadline:
            time.sleep(0.2)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main():
    end_with_parent(float(sys.argv[2]))
    # Standard output is for the answer only, also in programs that the Snakefile starts.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    path = sys.argv[1]
    import snakemake

    try:
        from snakemake.common import __version__ as version
    except ImportError:
        version = snakemake.__version__
    release = int(version.split(".")[0]) if version[:1].isdigit() else 0
    if release < 7:
        print(f"Snakemake {version} is not supported: 7, 8 and 9 are", file=sys.stderr)
        return 1
    rules = rules_of_workflow(path) if release == 7 else rules_of_api(path)
    if rules is None:
        return 1
    json.dump({"snakemake": version, "rules": rules}, answer)
    answer.close()
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that the Snakefile started must not keep this process alive.
    os._exit(status)
