"""Prints the rules of a Snakefile as one JSON object; for Snakemake 7, 8 and 9.

Its arguments are the path of the Snakefile, the seconds that this may take, and options of
the run: `--profile`, `--workflow-profile` and `--configfile`. The Snakefile is executed as
Snakemake executes it to parse it; no rule runs. Output of the Snakefile goes to standard
error.
"""

import sys

# As in the program `snakemake`, modules do not come from the working directory.
if sys.path[:1] == [""]:
    del sys.path[0]

import argparse
import dataclasses
import inspect
import json
import os
import re
import signal
import threading
import time
from pathlib import Path

# A rule may ask for a part of all cores. Such a part is not a number of threads. This is
# more cores than any rule asks for by number.
ALL_CORES = 1_000_000
MOST_THREADS = 10_000

# The resources of a profile that matter here.
RESOURCES = {"mem", "mem_mb", "mem_mib", "mem_gb", "mem_mb_per_cpu", "runtime"}


class Refused(Exception):
    """A file that Snakemake itself would not accept."""


def unknown(wildcards, input):
    """A value that depends on the job."""
    raise NotImplementedError


class Run:
    """The options of a run: its profiles and files of configuration."""

    def __init__(self, release, snakefile, given):
        self.release = release
        self.threads, self.resources, self.defaults = {}, {}, {}
        self.configfiles = []
        self.is_unknown = False
        self.notes = []
        self.rules_with_mem = []
        for file in self.profile_files(snakefile, given):
            self.add(file)
        if given.configfile:
            self.configfiles = given.configfile

    def profile_files(self, snakefile, given):
        """The files in the order in which Snakemake reads them."""
        by_default = os.environ.get("SNAKEMAKE_PROFILE")
        profiles = given.profile or ([by_default] if by_default else [])
        for profile in profiles:
            if profile == "none":
                continue
            file = self.profile_file(profile)
            if file is None:
                raise Refused(f"the profile {profile} has no config.yaml")
            yield file
        # The section of a workflow profile replaces that of another profile.
        if self.has_workflow_profiles():
            yield from self.workflow_profile(snakefile, given.workflow_profile)

    def has_workflow_profiles(self):
        """Snakemake 7.29 and later."""
        if self.release > 7:
            return True
        from snakemake import get_argument_parser

        options = (action.option_strings for action in get_argument_parser()._actions)
        return any("--workflow-profile" in names for names in options)

    def workflow_profile(self, snakefile, name):
        """Source: `parse_args` in `snakemake/cli.py`, in Snakemake 7 `main` in `__init__.py`."""
        if name == "none":
            return
        default = Path("profiles") / (name or "default")
        candidates = [default, Path(snakefile).parent / default]
        if name or self.release > 8:
            candidates.insert(0, Path(name or "default"))
        found = next((path for path in candidates if path.exists()), None)
        file = None if found is None else self.profile_file(found)
        if file is not None:
            yield file
        elif name:
            raise Refused(f"the workflow profile {name} has no config.yaml")

    def profile_file(self, profile):
        """The file of a profile, which depends on the release; None if there is none."""
        if self.release == 7:
            from snakemake import get_profile_file

            return get_profile_file(str(profile), "config.yaml")
        from snakemake.cli import get_profile_dir

        found = get_profile_dir(str(profile))
        return None if found is None else found[1]

    def add(self, file):
        import yaml

        try:
            content = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise Refused(f"failed to read the profile {file}: {error}") from error
        if content is None:
            return
        if not isinstance(content, dict):
            raise Refused(f"the profile {file} has no sections")
        if content.get("__use_yte__") or any(str(key).startswith("?") for key in content):
            self.is_unknown = True
            self.notes.append(f"the present requests are unknown: the profile {file} is a template of YTE")
            return
        self.notes.append(f"the present requests include the profile {file}")
        # A section replaces that of an earlier profile.
        if content.get("set-threads") is not None:
            threads = pairs(content["set-threads"])
            self.threads = {rule: usable("threads", value) for rule, value in threads}
        if content.get("set-resources") is not None:
            self.resources = {}
            for rule, name, value in resources_of(content["set-resources"]):
                if name in RESOURCES:
                    self.resources.setdefault(rule, {})[name] = usable(name, value)
        defaults = content.get("default-resources", content.get("default-res"))
        if defaults is not None:
            defaults = pairs(defaults)
            self.defaults = {name: usable(name, value) for name, value in defaults if name in RESOURCES}
        files = content.get("configfile", content.get("configfiles"))
        if isinstance(files, list):
            self.configfiles = [str(name) for name in files]
        elif files is not None:
            in_profile = Path(file).parent / str(files)
            self.configfiles = [str(in_profile if in_profile.exists() else files)]

    def default_resources(self):
        """As the release takes them; None if there are none."""
        if not self.defaults:
            return None
        try:
            from snakemake.resources import DefaultResources
        except ImportError:
            return self.defaults
        resources = DefaultResources(mode="bare")
        resources.parsed.update(self.defaults)
        return resources


def pairs(section):
    """The names and values of a section, which is a mapping or a list of `name=value`."""
    if isinstance(section, dict):
        return [(str(name), value) for name, value in section.items()]
    entries = section if isinstance(section, list) else [section]
    return [str(entry).split("=", 1) for entry in entries if "=" in str(entry)]


def resources_of(section):
    """Rules, resources and values of a section: nested mappings or a list of `rule:name=value`."""
    if isinstance(section, dict):
        for rule, values in section.items():
            for name, value in pairs(values):
                yield str(rule), name, value
        return
    for key, value in pairs(section):
        rule, _, name = key.partition(":")
        yield rule, name, value


# As `ebb tune --format snakemake` writes a value for each attempt.
BY_ATTEMPT = re.compile(r"\[(\d+)(?:, \d+)*\]\[min\(attempt, \d+\) - 1\]")


def usable(name, value):
    """A value of a profile, that of the first attempt; `unknown` if it is no plain number, size or time."""
    if isinstance(value, str):
        value = value.strip().strip("'\"")
        by_attempt = BY_ATTEMPT.fullmatch(value)
        value = by_attempt[1] if by_attempt else value
        if value.isdecimal():
            value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        known = {"mem": megabytes_of_text, "runtime": minutes_of_text}.get(name)
        if known is not None and known(value) is not None:
            return value
    return unknown


def settings(kind, **wanted):
    """A settings object with those of the values that this release knows."""
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in wanted.items() if name in known})


def rules_of_api(path, run):
    """Snakemake 8 and later."""
    from snakemake.api import SnakemakeApi

    try:
        from snakemake.settings.types import ConfigSettings, OutputSettings, ResourceSettings
    except ImportError:
        from snakemake.settings import ConfigSettings, OutputSettings, ResourceSettings

    output = settings(OutputSettings, nocolor=True, dryrun=True, enable_file_logging=False)
    with SnakemakeApi(output) as api:
        try:
            resources = ResourceSettings(
                cores=ALL_CORES,
                overwrite_threads=run.threads,
                overwrite_resources=run.resources,
                default_resources=run.default_resources(),
            )
            config = ConfigSettings(configfiles=[Path(file) for file in run.configfiles])
            opened = api.workflow(resource_settings=resources, config_settings=config, snakefile=Path(path))
            # Variables that the workflow passes on to jobs are not needed here.
            workflow = opened._get_workflow(check_envvars=False)
            opened._workflow_store = workflow
            workflow.include(opened.snakefile, overwrite_default_target=True)
            workflow.check()
        except (Exception, SystemExit) as error:
            report(error, api.print_exception, run)
            return None
        return [rule_of(rule, run) for rule in workflow.rules]


def rules_of_workflow(path, run):
    """Snakemake 7."""
    from snakemake.exceptions import print_exception
    from snakemake.io import load_configfile
    from snakemake.logging import setup_logger
    from snakemake.utils import update_config
    from snakemake.workflow import Workflow

    path = os.path.abspath(path)
    setup_logger(nocolor=True, quiet=True)
    linemaps = {}
    try:
        config = {}
        for file in run.configfiles:
            update_config(config, load_configfile(file))
        workflow = Workflow(
            snakefile=path,
            cores=ALL_CORES,
            check_envvars=False,
            overwrite_config=config,
            overwrite_configfiles=[os.path.abspath(file) for file in run.configfiles],
            overwrite_threads=run.threads,
            overwrite_resources=run.resources,
            default_resources=run.default_resources(),
        )
        linemaps = workflow.linemaps
        workflow.include(path, overwrite_default_target=True)
        workflow.check()
    except (Exception, SystemExit) as error:
        report(error, lambda error: print_exception(error, linemaps), run)
        return None
    return [rule_of(rule, run) for rule in workflow.rules]


def report(error, print_exception, run):
    if isinstance(error, SystemExit):
        print(f"the Snakefile ends the program (exit {error.code})", file=sys.stderr)
    else:
        try:
            print_exception(error)
        except Exception:
            # Some releases fail to find the line of some errors.
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
    is_about_config = isinstance(error, (KeyError, SystemExit)) or "config" in str(error).lower()
    if is_about_config and not run.configfiles:
        print("if the configuration of the run is missing, add --configfile FILE", file=sys.stderr)


def rule_of(rule, run):
    resources = {} if run.is_unknown else rule.resources
    if run.release < 9 and "mem" in resources and number(resources["mem"]) is None:
        run.rules_with_mem.append(str(rule.name))
    threads = number(resources.get("_cores"))
    return {
        "name": str(rule.name),
        "benchmark": None if rule.benchmark is None else str(rule.benchmark),
        "threads": threads if threads is not None and threads <= MOST_THREADS else None,
        "mem_mb": memory_mb(resources),
        "mem_mb_per_cpu": number(resources.get("mem_mb_per_cpu")),
        "runtime_minutes": runtime_minutes(resources),
    }


class Accessed(BaseException):
    """A function needs the wildcards of a job."""


class NoWildcards:
    """Wildcards of no job: each access fails and is recorded."""

    def __init__(self, accesses):
        object.__setattr__(self, "_accesses", accesses)

    def _fail(self, *arguments, **named):
        object.__getattribute__(self, "_accesses").append(True)
        raise Accessed

    __getattribute__ = __getattr__ = __getitem__ = __iter__ = __len__ = __contains__ = __bool__ = _fail
    __eq__ = __ne__ = __hash__ = __str__ = __repr__ = __format__ = __call__ = _fail


def first_attempt(function):
    """The result for the first attempt; None if it may depend on the job."""
    accesses = []
    try:
        wildcards, *others = inspect.signature(function).parameters.values()
        takes_one = wildcards.kind in (wildcards.POSITIONAL_ONLY, wildcards.POSITIONAL_OR_KEYWORD)
        if not takes_one or any(parameter.name != "attempt" for parameter in others):
            return None
        value = function(NoWildcards(accesses), **{parameter.name: 1 for parameter in others})
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return None if accesses else value


def plain(value):
    """A resource of the first attempt that does not depend on the job; else None."""
    if hasattr(value, "is_evaluable"):
        value = value._evaluator if value.is_evaluable() else value.value
    if callable(value):
        value = first_attempt(value)
    return None if isinstance(value, bool) else value


def number(value):
    value = plain(value)
    return value if isinstance(value, (int, float)) and value > 0 else None


def memory_mb(resources):
    """In millions of bytes, as Snakemake counts them."""
    if "mem_mb_per_cpu" in resources and number(resources["mem_mb_per_cpu"]) is None:
        # The memory per core is what counts, and it is unknown.
        return None
    mem = plain(resources.get("mem"))
    sizes = [name for name in resources if name in ("mem", "mem_mb")]
    # Snakemake 7 and 8 read them in this order, and a text in mem replaces mem_mb.
    is_replaced = sizes == ["mem_mb", "mem"] and not isinstance(mem, (int, float))
    if is_replaced:
        return megabytes_of_text(mem) if isinstance(mem, str) else None
    mb = number(resources.get("mem_mb"))
    if mb is not None:
        return mb
    mib = number(resources.get("mem_mib"))
    if mib is not None:
        return mib * 1.048576
    if mem is not None:
        return megabytes_of_text(mem) if isinstance(mem, str) else number(mem)
    gb = number(resources.get("mem_gb"))
    return None if gb is None else gb * 1000


def megabytes_of_text(text):
    from humanfriendly import InvalidSize, parse_size

    try:
        return parse_size(text) / 1e6
    except InvalidSize:
        return None


def runtime_minutes(resources):
    value = plain(resources.get("runtime"))
    return minutes_of_text(value) if isinstance(value, str) else number(value)


def minutes_of_text(text):
    from humanfriendly import InvalidTimespan, parse_timespan

    try:
        return parse_timespan(text) / 60
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


def options(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", action="append", default=[])
    parser.add_argument("--workflow-profile")
    parser.add_argument("--configfile", action="append", default=[])
    return parser.parse_args(arguments)


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
    try:
        run = Run(release, path, options(sys.argv[3:]))
    except Refused as error:
        print(error, file=sys.stderr)
        return 1
    rules = rules_of_workflow(path, run) if release == 7 else rules_of_api(path, run)
    if rules is None:
        return 1
    if run.rules_with_mem:
        names = ", ".join(run.rules_with_mem[:5]) + (", ..." if len(run.rules_with_mem) > 5 else "")
        run.notes.append(
            f"Snakemake {version} can replace mem_mb of a profile by mem of the rule; write mem_mb in the rules {names}"
        )
    json.dump({"snakemake": version, "rules": rules, "notes": run.notes}, answer)
    answer.close()
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that the Snakefile started must not keep this process alive.
    os._exit(status)
