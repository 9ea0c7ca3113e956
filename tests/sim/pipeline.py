"""Fills Batch and ECS: environment, queue, workers, and jobs in every state."""

import json
from dataclasses import dataclass, field
from typing import Any

from account import Account
from catalogue import SIMULATED
from world import Job, World

_ENVIRONMENT = "genomics"
_QUEUE = "genomics-queue"
_MIB = 1024**2


@dataclass
class Pipeline:
    """What the cloud called the Batch side of the world."""

    region: str
    queue: str
    cluster_arn: str
    container_instances: dict[str, str] = field(default_factory=dict)
    """Container instance ARN by node key."""
    job_ids: dict[str, str] = field(default_factory=dict)
    """Job id by job name."""


def build(account: Account, world: World, ids: dict[str, str], now: float) -> Pipeline:
    """Creates everything and puts each job in its state."""
    batch = account.client("batch", world.batch_region)
    pipeline = _environment(account, world, batch)
    _register_workers(account, world, ids, pipeline)
    running = None
    measured = next(n.key for n in world.nodes if n.member == "probe")
    for job in world.jobs:
        depends = [{"jobId": running}] if job.status == "PENDING" and running else []
        job_id = _submit(batch, job, depends, {} if job.worker == measured else SIMULATED)
        pipeline.job_ids[job.name] = job_id
        running = job_id if job.status == "RUNNING" else running
    states = [_state(job, pipeline, now) for job in world.jobs]
    account.extend("batch/jobs", {"region": world.batch_region, "jobs": states})
    return pipeline


def _environment(account: Account, world: World, batch: Any) -> Pipeline:
    trust = {"Version": "2012-10-17", "Statement": []}
    role = account.moto_iam().create_role(RoleName="batch-service", AssumeRolePolicyDocument=json.dumps(trust))
    ec2 = account.client("ec2", world.batch_region)
    subnets = [s["SubnetId"] for s in ec2.describe_subnets()["Subnets"]]
    groups = [g["GroupId"] for g in ec2.describe_security_groups()["SecurityGroups"]]
    # No vCPUs wanted: moto would launch nameless workers of its own.
    resources = {
        "type": "EC2",
        "minvCpus": 0,
        "maxvCpus": 256,
        "desiredvCpus": 0,
        "instanceTypes": ["m6i.8xlarge"],
        "subnets": subnets,
        "securityGroupIds": groups[:1],
        "instanceRole": f"arn:aws:iam::{role['Role']['Arn'].split(':')[4]}:instance-profile/ecsInstanceRole",
    }
    account.moto_iam().create_instance_profile(InstanceProfileName="ecsInstanceRole")
    made = batch.create_compute_environment(
        computeEnvironmentName=_ENVIRONMENT,
        type="MANAGED",
        state="ENABLED",
        computeResources=resources,
        serviceRole=role["Role"]["Arn"],
    )
    order = [{"order": 1, "computeEnvironment": made["computeEnvironmentArn"]}]
    batch.create_job_queue(jobQueueName=_QUEUE, state="ENABLED", priority=1, computeEnvironmentOrder=order)
    found = batch.describe_compute_environments(computeEnvironments=[_ENVIRONMENT])["computeEnvironments"][0]
    return Pipeline(world.batch_region, _QUEUE, found["ecsClusterArn"])


def _register_workers(account: Account, world: World, ids: dict[str, str], pipeline: Pipeline) -> None:
    ecs = account.client("ecs", world.batch_region)
    workers = [n for n in world.nodes if n.member in ("batch", "probe")]
    for node in workers:
        identity = json.dumps({"instanceId": ids[node.key], "region": node.region})
        made = ecs.register_container_instance(cluster=pipeline.cluster_arn, instanceIdentityDocument=identity)
        pipeline.container_instances[node.key] = made["containerInstance"]["containerInstanceArn"]
    agents = {ids[node.key]: node.agent_connected for node in workers}
    body = {"region": world.batch_region, "cluster": pipeline.cluster_arn, "agentConnected": agents}
    account.extend("ecs/container-instances", body)


def _submit(batch: Any, job: Job, depends: list[dict[str, str]], tags: dict[str, str]) -> str:
    container = {
        "image": "public.ecr.aws/docker/library/debian:12-slim",
        "command": [job.name],
        "resourceRequirements": [
            {"type": "VCPU", "value": str(job.vcpus)},
            {"type": "MEMORY", "value": str(job.memory_bytes // _MIB)},
        ],
    }
    batch.register_job_definition(jobDefinitionName=job.name, type="container", containerProperties=container)
    named = {"jobName": job.name, "jobQueue": _QUEUE, "jobDefinition": job.name}
    made = batch.submit_job(**named, dependsOn=depends, tags=tags)
    return made["jobId"]


def _state(job: Job, pipeline: Pipeline, now: float) -> dict[str, Any]:
    state: dict[str, Any] = {
        "jobId": pipeline.job_ids[job.name],
        "status": job.status,
        "createdAt": now - job.created_age_s,
    }
    if job.started_age_s is not None:
        state["startedAt"] = now - job.started_age_s
    if job.stopped_age_s is not None:
        state["stoppedAt"] = now - job.stopped_age_s
    if job.worker is not None:
        state["containerInstanceArn"] = pipeline.container_instances[job.worker]
        state["taskId"] = job.task_id
    optional = {
        "statusReason": job.status_reason,
        "exitCode": job.exit_code,
        "staysYoungSeconds": job.stays_young,
    }
    return state | {key: value for key, value in optional.items() if value is not None}
