"""Fills the two simulators with the world of a seed.

`python seed.py --seed N --moto URL --ministack URL --out DIR [--no-waste]
[--node-role ARN]` writes `DIR/world.json`, from which simulated nodes take what
they do, and `DIR/planted.json`, which names the waste and is for the last check
only. Without `--node-role` a role `ebb-node` is made in MiniStack for them.
Exit status 1 when a simulator is not there or refuses.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

import bills
import credentials
import fleet
import pipeline
from account import ACCOUNT_ID, Account, SimulatorError
from catalogue import GPU_TYPES, TYPES
from world import IDLE_NODE, OVERPROVISIONED_STEP, Job, Node, World, generate


def _say(text: str) -> None:
    print(f"seed: {text}", flush=True)


def _step(job: Job, job_id: str) -> dict[str, Any]:
    """A step as its cgroup shows it: named by the ECS task."""
    used = job.step
    return {
        "step_id": job.task_id,
        "job_id": job_id,
        "job_name": job.name,
        "requested_vcpus": job.vcpus,
        "requested_memory_bytes": job.memory_bytes,
        "cpu_cores": used.cpu_cores if used else None,
        "memory_bytes": used.memory_bytes if used else None,
        "disk_bytes_per_second": used.disk_bytes_per_second if used else None,
        "started_age_seconds": job.started_age_s,
        "stopped_age_seconds": job.stopped_age_s,
        "exit_code": job.exit_code,
    }


def _node_entry(node: Node, instance_id: str, jobs: list[Job], job_ids: dict[str, str]) -> dict[str, Any]:
    mine = [job for job in jobs if job.worker == node.key]
    return {
        "instance_id": instance_id,
        "region": node.region,
        "instance_type": node.type_name,
        "name": node.name,
        "profile": node.profile,
        "quiet_after_seconds": node.quiet_after_s,
        "vcpus": TYPES[node.type_name].vcpus,
        "memory_bytes": TYPES[node.type_name].memory_bytes,
        "gpus": 1 if node.type_name in GPU_TYPES else 0,
        "age_seconds": node.age_s,
        "steps": [_step(j, job_ids[j.name]) for j in mine if j.status == "RUNNING"],
        "finished_steps": [_step(j, job_ids[j.name]) for j in mine if j.status in ("SUCCEEDED", "FAILED")],
    }


def _planted(world: World, ids: dict[str, str], job_ids: dict[str, str]) -> list[dict[str, str | None]]:
    """Waste by the names that a report uses: instance id, job id, or step name."""
    found = []
    for item in world.planted:
        if item.kind == OVERPROVISIONED_STEP:
            resource = item.resource
        elif item.kind == IDLE_NODE or item.variant == "agent_disconnected":
            resource = ids[item.resource]
        else:
            resource = job_ids[item.resource]
        found.append({"kind": item.kind, "variant": item.variant, "resource": resource})
    return found


def fill(account: Account, world: World, role_arn: str | None) -> tuple[dict[str, Any], list[dict[str, str | None]]]:
    """Fills the simulators; answers the contents of the two files."""
    now = time.time()
    account.fix_ids(world.seed)
    ids = fleet.launch(account, world, now)
    _say(f"{len(ids)} instances in {len({n.region for n in world.nodes})} regions")
    addresses = fleet.add_storage(account, world, ids)
    made = pipeline.build(account, world, ids, now)
    _say(f"{len(made.job_ids)} Batch jobs on {len(made.container_instances)} workers in {world.batch_region}")
    bills.add_costs(account, world, ids, now)
    bills.add_metrics(account, world, ids, now)
    running = [n for n in world.nodes if n.state == "running"]
    nodes = [_node_entry(n, ids[n.key], world.jobs, made.job_ids) for n in running]
    credentials.attach(account, nodes, role_arn or _make_role(account))
    _say(f"credentials for {sum(1 for n in nodes if n['credentials'])} nodes")
    about = {
        "seed": world.seed,
        "account_id": ACCOUNT_ID,
        "regions": sorted({n.region for n in world.nodes}),
        "batch": {"region": made.region, "queue": made.queue, "cluster_arn": made.cluster_arn},
        "probe_node": ids[next(n.key for n in world.nodes if n.member == "probe")],
        "nodes": nodes,
    }
    idle = [{"kind": "idle_address", "variant": None, "resource": address} for address in addresses]
    return about, _planted(world, ids, made.job_ids) + idle


def _make_role(account: Account) -> str:
    iam = account.client("iam", "us-east-1")
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
    return iam.create_role(RoleName="ebb-node", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--moto", required=True)
    parser.add_argument("--ministack", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--no-waste", action="store_true")
    parser.add_argument("--node-role")
    return parser.parse_args()


def main() -> int:
    """Fills, then writes both files."""
    options = _options()
    started = time.monotonic()
    world = generate(options.seed, waste=not options.no_waste)
    try:
        about, planted = fill(Account(options.moto, options.ministack), world, options.node_role)
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "world.json").write_text(json.dumps(about, indent=1) + "\n")
        (options.out / "planted.json").write_text(json.dumps(planted, indent=1) + "\n")
    except (OSError, SimulatorError, BotoCoreError, ClientError) as error:
        print(f"seed: {error}", file=sys.stderr)
        return 1
    _say(f"seed {options.seed} stands after {time.monotonic() - started:.1f} s, written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
