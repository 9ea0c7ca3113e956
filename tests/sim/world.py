"""A simulated account as a pure function of a seed.

`generate(seed)` gives the same `World` for ever; nothing here talks to a
simulator or reads a clock. Times are ages in seconds. Ids that the cloud hands
out do not exist yet: instances are named by `key`, jobs by `name`.

What behaves how (`profile`) is apart from what is waste (`planted`): an exempt
node is as quiet as an idle one.
"""

import random
from dataclasses import dataclass, field, replace
from typing import Iterator

from catalogue import GENERAL_TYPES, GIB, GPU_TYPES, OWNERS, PROJECTS, REGIONS, SERVICES, TOOLS, WORKER_TYPE

HOUR = 3600
DAY = 24 * HOUR

IDLE_NODE = "idle_node"
STUCK_BATCH_JOB = "stuck_batch_job"
OVERPROVISIONED_STEP = "overprovisioned_step"

BLOCKED_REASONS = (
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job resource requirement (vCPU/memory/GPU) is higher than "
    "that can be met by the CE(s) attached to the job queue.",
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - The job queue's compute environments have reached their "
    "maxvCpus setting and cannot meet the job resource requirement.",
    "MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS - The compute environment's service role has a permission issue.",
)


@dataclass(frozen=True)
class Step:
    """What one job's container really uses."""

    cpu_cores: float
    memory_bytes: int
    disk_bytes_per_second: int


@dataclass(frozen=True)
class Job:
    """A Batch job; its job definition has the same name."""

    name: str
    status: str
    vcpus: int
    memory_bytes: int
    created_age_s: int
    started_age_s: int | None = None
    stopped_age_s: int | None = None
    exit_code: int | None = None
    status_reason: str | None = None
    worker: str | None = None
    task_id: str | None = None
    step: Step | None = None
    stays_young: int | None = None
    """Age in seconds that the job keeps: it stands for the newest of a queue that moves."""


@dataclass(frozen=True)
class Node:
    """An EC2 instance. `member` is `alone`, `asg`, `batch` or `probe`."""

    key: str
    name: str
    region: str
    type_name: str
    member: str
    profile: str
    age_s: int
    owner: str
    project: str
    lifecycle: str = "on-demand"
    state: str = "running"
    standby: bool = False
    agent_connected: bool = True
    quiet_after_s: int = 0
    """Second of the generator's clock from which a quiet node has background only."""


@dataclass(frozen=True)
class Volume:
    """An EBS volume, attached to `node` or to nothing."""

    region: str
    size_gib: int
    node: str | None


@dataclass(frozen=True)
class Planted:
    """One piece of waste. `resource` is a node's key, a job's name, or a step's name."""

    kind: str
    variant: str | None
    resource: str


@dataclass
class World:
    """The whole account, before any simulator has seen it."""

    seed: int
    batch_region: str
    asg_region: str
    nodes: list[Node] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    volumes: list[Volume] = field(default_factory=list)
    addresses: list[tuple[str, str | None]] = field(default_factory=list)
    """Elastic addresses as (region, key of the node or None when idle)."""
    planted: list[Planted] = field(default_factory=list)


def generate(seed: int, waste: bool = True) -> World:
    """The account of a seed, with its waste or (`waste=False`) without any."""
    rng = random.Random(f"ebb-{seed}")
    world = World(seed, batch_region=rng.choice(sorted(REGIONS)), asg_region=rng.choice(sorted(REGIONS)))
    _add_nodes(world, rng, waste)
    _add_jobs(world, rng, waste)
    _add_storage(world, rng, waste)
    return world


def _node(world: World, rng: random.Random, region: str, member: str, profile: str, **facts: object) -> Node:
    number = len(world.nodes)
    service = rng.choice(SERVICES)
    values: dict[str, object] = {
        "type_name": rng.choice(GENERAL_TYPES),
        "age_s": rng.randint(2 * HOUR, 40 * DAY),
        "owner": rng.choice(OWNERS),
        "project": rng.choice(PROJECTS),
        "lifecycle": "spot" if rng.random() < 0.25 else "on-demand",
        **facts,
    }
    node = Node(f"node-{number:02}", f"{service}-{number:02}", region, member=member, profile=profile, **values)
    world.nodes.append(node)
    return node


def _add_nodes(world: World, rng: random.Random, waste: bool) -> None:
    regions = sorted(REGIONS)
    asg_type = rng.choice(("m5.xlarge", "c5.xlarge", "m6i.xlarge"))
    asg = {"type_name": asg_type, "owner": rng.choice(OWNERS), "project": "web", "lifecycle": "on-demand"}
    for place in range(rng.randint(3, 5)):
        profile = _idle_profile(waste) if place == 0 else rng.choice(("busy", "light", "bursty"))
        node = _node(world, rng, world.asg_region, "asg", profile, quiet_after_s=rng.randint(0, 5), **asg)
        if place == 0 and waste:
            world.planted.append(Planted(IDLE_NODE, None, node.key))
    batch = {"type_name": WORKER_TYPE, "owner": "batch", "project": "genome-42"}
    _node(world, rng, world.batch_region, "probe", "probe", **batch, lifecycle="on-demand")
    workers = rng.randint(3, 6)
    disconnected = rng.randint(1, workers) if waste else None
    for place in range(1, workers + 1):
        connected = place != disconnected
        # Older than the longest job that runs on it.
        age = {"age_s": rng.randint(13 * HOUR, 40 * DAY)}
        node = _node(world, rng, world.batch_region, "batch", "busy", **batch, **age, agent_connected=connected)
        if not connected:
            world.planted.append(Planted(STUCK_BATCH_JOB, "agent_disconnected", node.key))
    for _ in range(rng.randint(1, 4)):
        node = _node(world, rng, rng.choice(regions), "alone", _idle_profile(waste), quiet_after_s=rng.randint(0, 8))
        if waste:
            world.planted.append(Planted(IDLE_NODE, None, node.key))
    _add_hard_cases(world, rng, regions)
    total = rng.randint(44, 60)
    for place in range(total - len(world.nodes)):
        profile = rng.choice(("busy", "busy", "busy", "light", "light", "bursty"))
        _node(world, rng, regions[place % len(regions)], "alone", profile)


def _idle_profile(waste: bool) -> str:
    return "quiet" if waste else "busy"


def _add_hard_cases(world: World, rng: random.Random, regions: list[str]) -> None:
    """Nodes that a careless rule would call idle, or could not judge."""
    plain = {"quiet_after_s": 0, "lifecycle": "on-demand"}
    _node(world, rng, rng.choice(regions), "alone", "quiet", type_name=rng.choice(GPU_TYPES), **plain)
    _node(world, rng, rng.choice(regions), "alone", "gappy", **plain)
    for _ in range(rng.randint(1, 2)):
        _node(world, rng, rng.choice(regions), "alone", "quiet", standby=True, **plain)
    for _ in range(rng.randint(1, 2)):
        _node(world, rng, rng.choice(regions), "alone", "silent")
    for _ in range(rng.randint(3, 6)):
        _node(world, rng, rng.choice(regions), "alone", "silent", state="stopped", lifecycle="on-demand")
    for _ in range(rng.randint(2, 3)):
        _node(world, rng, rng.choice(regions), "alone", "busy", age_s=rng.randint(180, 720))


def _task_id(rng: random.Random) -> str:
    return f"{rng.getrandbits(128):032x}"


def _fitting(rng: random.Random, name: str, worker: str) -> Job:
    """A running job that uses nearly all that it asked for."""
    vcpus, gib = rng.choice(((2, 4), (4, 8), (4, 16)))
    step = Step(round(vcpus * rng.uniform(0.88, 0.97), 2), int(gib * GIB * rng.uniform(0.82, 0.9)), 4_000_000)
    return _running(rng, name, worker, vcpus, gib, step)


def _running(rng: random.Random, name: str, worker: str, vcpus: int, gib: int, step: Step) -> Job:
    started = rng.randint(HOUR, 12 * HOUR)
    return Job(
        name,
        "RUNNING",
        vcpus,
        gib * GIB,
        created_age_s=started + rng.randint(60, 900),
        started_age_s=started,
        worker=worker,
        task_id=_task_id(rng),
        step=step,
    )


def _add_jobs(world: World, rng: random.Random, waste: bool) -> None:
    names = _names(rng)
    workers = [n.key for n in world.nodes if n.member == "batch"]
    _add_probe_jobs(world, rng, next(n.key for n in world.nodes if n.member == "probe"), waste)
    # Every worker does some work: a worker with nothing to do is another finding.
    for worker in workers:
        world.jobs.append(_fitting(rng, next(names), worker))
    if waste:
        _plant_jobs(world, rng, names, workers)
    _add_other_states(world, rng, names, workers)


def _names(rng: random.Random) -> Iterator[str]:
    """Job names without end and without repeats."""
    number = rng.randint(10, 20)
    while True:
        yield f"{rng.choice(TOOLS)}-{number}"
        number += rng.randint(1, 3)


def _add_probe_jobs(world: World, rng: random.Random, probe: str, waste: bool) -> None:
    """The pipeline that a real probe watches; what it uses is measured, not told."""
    asked = {"demo-cpu": (1, 2), "demo-disk": (1, 1), "demo-short": (1, 1)}
    if waste:
        asked |= {"demo-overasked": (16, 32), "demo-silent": (1, 2)}
        world.planted.append(Planted(OVERPROVISIONED_STEP, None, "demo-overasked"))
        world.planted.append(Planted(STUCK_BATCH_JOB, "no_progress", "demo-silent"))
    for name, (vcpus, gib) in asked.items():
        world.jobs.append(
            Job(name, "RUNNING", vcpus, gib * GIB, 300, started_age_s=240, worker=probe, task_id=_task_id(rng))
        )


def _plant_jobs(world: World, rng: random.Random, names: Iterator[str], workers: list[str]) -> None:
    for _ in range(rng.randint(1, 2)):
        job = _running(rng, next(names), rng.choice(workers), 2, 4, Step(0.0, 300 * 1024**2, 0))
        world.jobs.append(job)
        world.planted.append(Planted(STUCK_BATCH_JOB, "no_progress", job.name))
    # At most one to a worker, so that what was asked for fits on it.
    for worker in rng.sample(workers, rng.randint(1, 3)):
        vcpus, gib = rng.choice((8, 12, 16)), rng.choice((32, 48, 64))
        used = Step(round(rng.uniform(1.0, 3.0), 2), int(rng.uniform(2, 6) * GIB), 2_000_000)
        job = _running(rng, next(names), worker, vcpus, gib, used)
        world.jobs.append(job)
        world.planted.append(Planted(OVERPROVISIONED_STEP, None, job.name))
    for reason in rng.sample(BLOCKED_REASONS, rng.randint(1, 2)):
        job = Job(next(names), "RUNNABLE", 64, 512 * GIB, rng.randint(HOUR, 20 * HOUR), status_reason=reason)
        world.jobs.append(job)
        world.planted.append(Planted(STUCK_BATCH_JOB, "runnable_blocked", job.name))


def _add_other_states(world: World, rng: random.Random, names: Iterator[str], workers: list[str]) -> None:
    for status in ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING"):
        world.jobs.append(Job(next(names), status, 2, 4 * GIB, created_age_s=5, stays_young=5))
    for status, count in (("SUCCEEDED", rng.randint(3, 8)), ("FAILED", rng.randint(1, 3))):
        for _ in range(count):
            job = _fitting(rng, next(names), rng.choice(workers))
            stopped = rng.randint(600, job.started_age_s or HOUR)
            failed = status == "FAILED"
            finished = replace(
                job,
                status=status,
                stopped_age_s=stopped,
                exit_code=1 if failed else 0,
                status_reason="Essential container in task exited",
            )
            world.jobs.append(finished)


def _add_storage(world: World, rng: random.Random, waste: bool) -> None:
    standing = [n for n in world.nodes if n.member == "alone"]
    for node in rng.sample(standing, rng.randint(6, 10)):
        world.volumes.append(Volume(node.region, rng.choice((50, 100, 500)), node.key))
    for _ in range(rng.randint(3, 6)):
        world.volumes.append(Volume(rng.choice(sorted(REGIONS)), rng.choice((20, 200, 1000)), None))
    running = [n for n in standing if n.state == "running"]
    for node in rng.sample(running, rng.randint(2, 4)):
        world.addresses.append((node.region, node.key))
    if waste:
        for _ in range(rng.randint(1, 3)):
            world.addresses.append((rng.choice(standing).region, None))

