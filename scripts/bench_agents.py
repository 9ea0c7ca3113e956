"""Programs that watch a machine, the probe and what a person would install instead of
it: how each is had and started, and what it costs. Peers come from apt and PyPI,
unpacked under EBB_CACHE, not installed."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

CACHE = Path(os.environ.get("EBB_CACHE", Path.home() / ".cache/ebb"))
LOOK_SECONDS = 10
BPFTRACE = """
tracepoint:sched:sched_process_fork { @forks = count(); }
tracepoint:sched:sched_process_exec { @execs[comm] = count(); }
tracepoint:sched:sched_process_exit { @ends[comm] = count(); }
interval:s:10 { print(@forks); print(@execs); print(@ends); clear(@forks); clear(@execs); clear(@ends); }
"""


def say(text):
    print(f"bench-probe: {text}", file=sys.stderr)


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


class Agent:
    """A running program that watches the machine."""

    def __init__(self, name, version, process, port=None):
        self.name, self.version, self.process, self.port = name, version, process, port
        # With nothing but sleepers, many execs, and both in containers.
        self.samples = {"idle": [], "execs": [], "contained_idle": [], "contained_execs": []}
        self.resident, self.in_kernel = [], []

    def alive(self):
        return self.process.poll() is None

    def tasks(self):
        """Its threads and its children's, as far as they live."""
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
        family = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= more
        for pid in family:
            yield from Path(f"/proc/{pid}/task").glob("*")

    def sum(self, read):
        total = 0
        for task in self.tasks():
            try:
                total += read(task)
            except OSError:
                continue
        return total

    def cpu_ns(self):
        return self.sum(lambda task: int((task / "schedstat").read_text().split()[0]))

    def resident_mb(self):
        def of_leader(task):
            text = (task / "status").read_text() if task.name == task.parent.parent.name else ""
            found = re.search(r"VmRSS:\s+(\d+)", text)
            return int(found.group(1)) * 1024 if found else 0
        return self.sum(of_leader) / 1e6

    def fdinfo(self, key):
        """The sum of one number over its maps or programs, each counted once."""
        found = {}
        for info in Path(f"/proc/{self.process.pid}/fdinfo").iterdir():
            try:
                text = info.read_text()
            except OSError:
                continue
            fields = dict(re.findall(r"^(\w+):\s*(\S+)$", text, re.M))
            identity = ("prog", fields.get("prog_id")) if "prog_id" in fields else ("map", fields.get("map_id"))
            if key in fields and identity[1]:
                # A map keeps its programs' and a link its program's id: memory counts once.
                found[identity] = max(found.get(identity, 0), int(fields[key]))
        return sum(found.values())

    def scrape(self):
        if self.port:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10).read()
            except OSError as error:
                say(f"{self.name} was not scraped: {error}")

    def stop(self):
        """Ends it and its children, which are a session of their own."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def unpack(package):
    """An apt package with what it needs and the machine lacks, in a folder."""
    folder = CACHE / "bench-peers" / package
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        planned = output("apt-get", "install", "-s", "--no-install-recommends", package)
        needed = re.findall(r"^Inst (\S+)", planned, re.M) or [package]
        output("apt-get", "download", "-q", *needed, cwd=folder)
        for archive in folder.glob("*.deb"):
            output("dpkg", "-x", str(archive), str(folder))
            archive.unlink()
        (folder / "done").write_text("")
    libraries = ":".join(str(path) for path in (folder / "usr/lib").glob("*-linux-gnu"))
    return folder, {**os.environ, "LD_LIBRARY_PATH": libraries}


def node_exporter(folder, scratch):
    port = free_port()
    return port, [folder / "usr/bin/prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}"]


def process_exporter(folder, scratch):
    port, groups = free_port(), scratch / "groups.yml"
    groups.write_text('process_names:\n  - name: "{{.Comm}}"\n    cmdline:\n    - ".+"\n')
    return port, [folder / "usr/bin/prometheus-process-exporter", f"-config.path={groups}",
                  f"-web.listen-address=127.0.0.1:{port}"]


def atop(folder, scratch):
    return None, [folder / "usr/bin/atop", "-w", scratch / "atop.raw", str(LOOK_SECONDS)]


def bpftrace(folder, scratch):
    return None, [folder / "usr/bin/bpftrace", "-e", BPFTRACE]


def netdata(folder, scratch):
    """As it is installed, but every 10 s, with its state in a folder, and telling nobody."""
    here = scratch / "netdata"
    places = {"config": "etc", "cache": "cache", "lib": "lib", "log": "log", "home": "home"}
    for place in places.values():
        (here / place).mkdir(parents=True)
    (here / "etc/.opt-out-from-anonymous-statistics").touch()
    usr, port = folder / "usr", free_port()
    lines = ["[global]", "run as user = root", "[db]", f"update every = {LOOK_SECONDS}",
             "[web]", f"bind to = 127.0.0.1:{port}", "[directories]",
             *(f"{name} = {here / place}" for name, place in places.items()),
             f"stock config = {usr}/lib/netdata/conf.d", f"web = {usr}/share/netdata/web",
             f'plugins = "{usr}/lib/netdata/plugins.d"']
    (here / "netdata.conf").write_text("\n".join(lines) + "\n")
    return None, [usr / "sbin/netdata", "-D", "-c", here / "netdata.conf"]


def resource_tracker(folder, scratch):
    """All processes and the system, as its own examples do it of one process."""
    code = ("from resource_tracker import ResourceTracker; import signal\n"
            f"tracker = ResourceTracker(pid=1, interval={LOOK_SECONDS}, discover_cloud=False)\n"
            "tracker.start()\nsignal.pause()\n")
    return None, [sys.executable, "-c", code]


def pypi(package):
    folder = CACHE / "bench-peers" / package
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        output(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, package)
        (folder / "done").write_text("")
    return folder, {**os.environ, "PYTHONPATH": str(folder)}


def peers(scratch):
    """Starts each peer that can be had here; those that cannot, with the reason."""
    wanted = [
        ("prometheus-node-exporter", unpack, node_exporter),
        ("prometheus-process-exporter", unpack, process_exporter),
        ("atop", unpack, atop),
        ("netdata", unpack, netdata),
        ("bpftrace", unpack, bpftrace),
        ("resource-tracker", pypi, resource_tracker),
    ]
    started, absent = [], []
    for name, get, command in wanted:
        try:
            folder, env = get(name)
            port, words = command(folder, scratch)
            version = apt_version(name) if get is unpack else pypi_version(folder)
            said = (scratch / f"{name}.log").open("w")
            process = subprocess.Popen([str(word) for word in words], env={**env, "DO_NOT_TRACK": "1"},
                                       stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                       start_new_session=True)
            started.append(Agent(name, version, process, port))
        except (OSError, subprocess.CalledProcessError) as error:
            absent.append((name, str(getattr(error, "stderr", None) or error).strip().splitlines()[-1]))
    return started, absent


def why_ended(agent, scratch):
    lines = (scratch / f"{agent.name}.log").read_text(errors="replace").strip().splitlines()
    return f"it ended at its start: {lines[-1] if lines else 'it said nothing'}"


def pypi_version(folder):
    return next(folder.glob("*.dist-info")).name.split("-")[1].removesuffix(".dist")


def apt_version(package):
    return re.search(r"Candidate: ([\d.]+)", output("apt-cache", "policy", package)).group(1)
