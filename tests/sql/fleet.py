"""Messages of the probes of a small fleet, in a folder that `ebb sweep` reads.

The messages follow `crates/wire/ebb.v1.proto`. The time of a file is its arrival, so that a sweep stores the rows of
several days. All data is labelled as simulated, and depends on the day only.
"""

import base64
import csv
import importlib
import os
import random
import subprocess
import sys
import tempfile
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import zstandard

_CONTRACT = Path(__file__).resolve().parents[2] / "crates/wire/ebb.v1.proto"
_S = 1_000_000_000
_GIB = 1 << 30
_INTERVAL_S = 600
_A_MESSAGE = 5
DAYS = 3
NODES = 8
# The price of the policy, for a day.
DAY_USD = "8.4"

# Steps: name, request in thousandths of a core and in GiB, usual seconds, memory in GiB, and user.
_STEPS = [
    ("align", 8000, 32, 3000, 12.0, 1001),
    ("call_variants", 4000, 16, 2400, 15.0, 1001),
    ("sort", 2000, 8, 900, 2.0, 1002),
    ("qc 'ü', 100 %", 1000, None, 300, 0.5, 1002),
    ("train", 16000, 64, 5000, 20.0, None),
]

# A folder with the two prices of the fleet makes findings without a cloud.
POLICY = """\
[[prices]]
node = "rack*"
usd_micros_per_hour = 350000

[sizing]
min_runs = 1
"""


def contract() -> ModuleType:
    """The classes of the wire contract, which the compiler of Protocol Buffers generates."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{_CONTRACT.parent}", f"--python_out={folder}"]
        subprocess.run([*command, str(_CONTRACT)], check=True)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("ebb.v1_pb2")
        finally:
            sys.path.remove(folder)


class Node:
    """The probe of one node since its boot, an hour before the first day."""

    def __init__(self, place: Path, wire: Any, number: int, boot: datetime) -> None:
        self.place, self.wire, self.boot_time = place, wire, boot
        self.name = _name(number)
        self.random = random.Random(number)
        self.number = number
        self.cores = 16 if number < 4 else 8
        self.boot, self.probe_start = (str(uuid.UUID(int=n << 64 | number + 1, version=4)) for n in (1, 2))
        self.objects = 0
        self.keys = 0

    def sent(self, clock_ns: int) -> Any:
        """The clocks of the node when it sends."""
        wall = self.boot_time + timedelta(microseconds=clock_ns // 1000)
        return self.wire.Sent(boot=self.boot, clock_ns=clock_ns, wall_us=_micros(wall))

    def write(self, key: str, content: bytes, clock_ns: int) -> None:
        """Writes an object that arrives when it is sent."""
        path = self.place / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        arrival = self.boot_time.timestamp() + clock_ns / _S
        os.utime(path, (arrival, arrival))

    def send_heartbeats(self, heartbeats: list[Any]) -> None:
        """Sends a message of the queue."""
        end = heartbeats[-1].end_ns + _S
        message = self.wire.Heartbeats(sent=self.sent(end), heartbeats=heartbeats)
        body = b"ebb.heartbeat/1.7\n" + base64.b64encode(_packed(message))
        self.write(f"heartbeats/v1/AROALOCAL:{self.name}/{end:020}.msg", body, end)

    def send_steps(self, steps: list[Any], clock_ns: int) -> None:
        """Sends an object of finished tasks."""
        self.objects += 1
        batch = self.wire.Steps(
            sent=self.sent(clock_ns), node=self.name, boot=self.boot, probe_start=self.probe_start,
            sequence=self.objects, origin=self.wire.ORIGIN_SIMULATED, steps=steps,
        )  # fmt: skip
        key = f"ingest/v1/AROALOCAL:{self.name}/{self.boot}/{self.probe_start}/{self.objects:08}.steps.zst"
        self.write(key, b"ebb.steps/1.7\n" + _packed(batch), clock_ns)

    def task(self, started_ns: int) -> Any:
        """A finished task; some are slow, some end for lack of memory, some are of unknown users."""
        draw, wire = self.random, self.wire
        name, millicores, gib, usual_s, memory, user = draw.choice(_STEPS)
        wall_ns = int(usual_s * draw.uniform(0.8, 1.2) * (4 if draw.random() < 0.05 else 1) * _S)
        peak = int(memory * draw.uniform(0.7, 1.1) * _GIB)
        is_killed = gib is not None and peak > gib * _GIB
        used = draw.uniform(0.2, 0.7)
        cpu_ns = int(wall_ns * used * millicores / 1000)
        self.keys += 1
        step = wire.Step(
            kind=wire.STEP_KIND_CONTAINER, key=f"{self.number:04x}{self.keys:060x}", name=name,
            started_ns=started_ns, observed_ns=started_ns + wall_ns, last_progress_ns=started_ns + wall_ns,
            processes=draw.randint(1, 9), cpu_ns=cpu_ns, peak_milli_cores=millicores,
            requested_milli_cores=millicores, disk_read_bytes=draw.randint(0, 1 << 34),
        )  # fmt: skip
        if gib is not None:
            step.requested_memory_bytes = gib * _GIB
        # A probe that started after the task knows no peak.
        if draw.random() < 0.95:
            step.peak_memory_bytes = min(peak, (gib or 1 << 20) * _GIB)
            # A cost does not use the first one, which contains the page cache.
            sources = (wire.MEMORY_SOURCE_CGROUP_PEAK, wire.MEMORY_SOURCE_PROCESSES_SAMPLED)
            step.peak_memory_source = draw.choice(sources)
        if is_killed:
            step.end = wire.END_KIND_OUT_OF_MEMORY
        else:
            step.end, step.end_code = wire.END_KIND_EXITED, draw.choice([0] * 19 + [1])
        step.tools.add(name="bwa", processes=1, cpu_ns=cpu_ns // 2)
        self.describe(step, name, user, wall_ns)
        return step

    def describe(self, step: Any, name: str, user: int | None, wall_ns: int) -> None:
        """Adds what a probe without its kernel half does not see."""
        wire, draw = self.wire, self.random
        step.detail.scheduler_labels.labels.add(key="step", value=name)
        if user is not None:
            step.detail.user = user
        if name != "train":
            step.detail.run.launcher = "nextflow"
            step.detail.run.key = f"run-{step.started_ns // (86400 * _S)}-{user}"
            step.detail.run.pipeline = "germline"
        left = wall_ns
        for state in (wire.TASK_STATE_DISK, wire.TASK_STATE_NETWORK, wire.TASK_STATE_RUNNING):
            time_ns = draw.randint(0, left // 2)
            left -= time_ns
            step.detail.states.add(state=state, samples=1 + time_ns // (10 * _S), time_ns=time_ns)

    def interval(self, sequence: int, tasks: list[Any]) -> Any:
        """The heartbeat of an interval, with the CPU time of the tasks that ran in it."""
        wire, draw = self.wire, self.random
        start, end = sequence * _INTERVAL_S * _S, (sequence + 1) * _INTERVAL_S * _S
        cpu = sum(_overlap(task, start, end) for task in tasks)
        # The last node samples procfs: it knows neither disk nor network.
        is_masked = self.number == 7
        usage = wire.Usage(cpu_ns=cpu, processes_started=draw.randint(0, 9))
        coverage = wire.Coverage(cpu=1_000_000, memory=1_000_000, disk=1_000_000, network=1_000_000)
        if is_masked:
            coverage = wire.Coverage(cpu=1_000_000, memory=900_000)
        else:
            usage.disk_bytes = cpu // 1000 if cpu else 0
            usage.network_bytes = 0
        if self.number == 6 and sequence % 50 == 0:
            usage = wire.Usage(processes_started=0)
            coverage = wire.Coverage()
        lost = self.number * sequence // 40 if self.number > 4 else 0
        return wire.Heartbeat(
            node=self.name, boot=self.boot, probe_start=self.probe_start, sequence=sequence, start_ns=start, end_ns=end,
            wall_at_end_us=_micros(self.boot_time + timedelta(seconds=(sequence + 1) * _INTERVAL_S)),
            origin=wire.ORIGIN_SIMULATED, coverage=coverage, workload=usage,
            hardware=wire.Hardware(milli_cores=self.cores * 1000, memory_bytes=64 * _GIB, gpus=0),
            background=wire.Usage(cpu_ns=_S, disk_bytes=0, network_bytes=0),
            probe=wire.ProbeCost(cpu_ns=_S // 100, events_lost=lost, records_dropped=lost // 9),
            detail=wire.NodeDetail(version="0.2.0", memory_used_bytes=8 * _GIB),
        )  # fmt: skip

    def lane(self, end_ns: int) -> list[Any]:
        """Tasks one after another, until a time."""
        tasks, at = [], 3600 * _S
        while (task := self.task(at)).observed_ns <= end_ns:
            tasks.append(task)
            at = task.observed_ns + int(self.random.uniform(0, 3600) * _S)
            # The first node is idle from its second day on.
            if self.number == 0 and at > 86400 * _S:
                break
        return tasks

    def run(self, until: datetime) -> int:
        """Writes all messages until a time; returns the number of tasks."""
        end_ns = int((until - self.boot_time).total_seconds()) * _S
        # Tasks overlap on three nodes, and sometimes request more than the node has.
        lanes = 2 if self.number in (1, 2, 3) else 1
        tasks = [task for _ in range(lanes) for task in self.lane(end_ns)]
        tasks.sort(key=lambda task: task.observed_ns)
        for begin in range(0, len(tasks), 10):
            batch = tasks[begin : begin + 10]
            self.send_steps(batch, batch[-1].observed_ns + _S)
        heartbeats = [self.interval(n, tasks) for n in range(end_ns // (_INTERVAL_S * _S))]
        for begin in range(0, len(heartbeats), _A_MESSAGE):
            self.send_heartbeats(heartbeats[begin : begin + _A_MESSAGE])
        return len(tasks)


def _name(number: int) -> str:
    return f"rack{1 + number // 4}-{number}"


def _packed(message: Any) -> bytes:
    return zstandard.compress(message.SerializeToString())


def _micros(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000)


def _overlap(task: Any, start: int, end: int) -> int:
    """The part of the CPU time of a task that is in an interval, if the task used the same all the time."""
    both = min(task.observed_ns, end) - max(task.started_ns, start)
    return max(both, 0) * task.cpu_ns // (task.observed_ns - task.started_ns)


def write_bill(folder: Path, now: datetime, nodes: int = NODES) -> None:
    """Writes a bill in FOCUS of the whole days of the fleet."""
    folder.mkdir()
    midnight = datetime(now.year, now.month, now.day, tzinfo=UTC)
    with (folder / "bill.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["ChargePeriodStart", "ChargePeriodEnd", "EffectiveCost", "BillingCurrency", "ServiceName",
                       "ServiceCategory", "ChargeCategory", "ResourceId"])  # fmt: skip
        for start in (midnight - timedelta(days=back) for back in range(DAYS, 0, -1)):
            for number in range(nodes):
                period = [start.isoformat(), (start + timedelta(days=1)).isoformat()]
                rows.writerow([*period, DAY_USD, "USD", "Racks", "Compute", "Usage", _name(number)])


def write(place: Path, now: datetime, nodes: int = NODES) -> int:
    """Writes the messages of a fleet of the last days; returns the number of tasks."""
    wire = contract()
    boot = datetime(now.year, now.month, now.day, tzinfo=UTC) - timedelta(days=DAYS, hours=1)
    policy = place / "config/policy.toml"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text(POLICY)
    return sum(Node(place, wire, number, boot).run(now) for number in range(nodes))


def make_lake(folder: Path, program: str, now: datetime, has_bill: bool = False) -> tuple[str, int]:
    """Makes a lake by two sweeps, so that its tables have versions; returns its place and the number of tasks."""
    later, place = folder / "later", folder / "lab's"
    # `ebb lake query` refuses a URL with escapes.
    url = f"file://{place}"
    tasks = write(later, now)
    if has_bill:
        write_bill(folder / "bill", now)
        with (later / "config/policy.toml").open("a") as policy:
            policy.write(f'\n[costs]\nexport = "{folder / "bill"}"\n')
    # When a sweep writes the hours of the day before.
    middle = now.timestamp() - 6 * 3600
    for is_late in (False, True):
        for file in [path for path in later.rglob("*") if path.is_file()]:
            if is_late or file.stat().st_mtime < middle or file.suffix == ".toml":
                target = place / file.relative_to(later)
                target.parent.mkdir(parents=True, exist_ok=True)
                file.rename(target)
        subprocess.run([program, "sweep", "--lake", url], check=True, stdout=subprocess.PIPE)
    return url, tasks
