"""ECS: container instances whose agent can be lost, and the tasks of Batch jobs.

Follows the ECS API reference, pages `ContainerInstance` (`agentConnected`,
`runningTasksCount`), `Task` (`taskArn`, `containerInstanceArn`, `startedAt`)
and the ECS Developer Guide, page "Amazon Resource Names (ARNs) and IDs": ids
are 32 hexadecimal digits. moto 5.2.5 has agents that are always connected and
ids with dashes.

- POST `/moto-api/ebb/ecs/container-instances` `{"region", "cluster",
  "agentConnected": {EC2 instance id: true or false}}`
"""

from datetime import datetime, timezone
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ecs.models import ContainerInstance, Task, ecs_backends
from moto.moto_api import state_manager

from .moto_endpoints import Body, register

_NEVER = {"progression": "manual", "times": 2**31}

_init_container_instance = ContainerInstance.__init__


def _container_instance_with_plain_id(self: ContainerInstance, *args: Any, **kwargs: Any) -> None:
    _init_container_instance(self, *args, **kwargs)
    self.id = self.id.replace("-", "")


def _set_agents(body: Body) -> None:
    backend = ecs_backends[DEFAULT_ACCOUNT_ID][body["region"]]
    cluster = backend._get_cluster(body["cluster"])
    registered = {c.ec2_instance_id: c for c in backend.container_instances[cluster.name].values()}
    for instance_id, connected in body["agentConnected"].items():
        registered[instance_id].agent_connected = bool(connected)


def start_batch_task(region: str, worker_arn: str, task_id: str, job: Any, status: str) -> str:
    """Starts the task of a Batch job on a worker and returns its ARN.

    A finished job's task is gone after an hour in ECS, so it gets only an ARN.
    """
    backend = ecs_backends[DEFAULT_ACCOUNT_ID][region]
    cluster_name, worker_id = worker_arn.split("/")[-2:]
    cluster = backend._get_cluster(cluster_name)
    worker = backend.container_instances[cluster_name][worker_id]
    family = f"{job.job_definition.name}-{job.job_definition.revision}"
    if family not in backend.task_definitions:
        container = {"name": "default", "image": job.job_definition.container_properties["image"], "memory": 128}
        backend.register_task_definition(family, [container])
    definition = backend.describe_task_definition(family)
    task = Task(cluster, definition, worker_arn, None, backend=backend, group=f"family:{family}", launch_type="EC2")
    task.id = task_id
    if status in ("STARTING", "RUNNING"):
        task.status = "RUNNING" if status == "RUNNING" else "PENDING"
        task.created_at = job.job_created_at.astimezone(timezone.utc)
        if status == "RUNNING":
            task.started_at = job.job_started_at.astimezone(timezone.utc)
            worker.running_tasks_count += 1
        else:
            task.pull_started_at = datetime.now(timezone.utc)
            worker.pending_tasks_count += 1
        backend.tasks.setdefault(cluster_name, {})[task.task_arn] = task
    return task.task_arn


def install() -> None:
    """Adds the endpoint, plain ids, and tasks that stay as they are."""
    ContainerInstance.__init__ = _container_instance_with_plain_id
    state_manager.set_transition("ecs::task", _NEVER)
    register("ecs/container-instances", _set_agents)
