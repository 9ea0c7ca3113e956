"""Batch: jobs that stay in the state they were put in, on a known worker.

Follows the Batch API reference, pages `JobDetail` (`createdAt`, `startedAt`,
`stoppedAt`, `statusReason`, `attempts`), `ContainerDetail`
(`containerInstanceArn`, `taskArn`, `resourceRequirements`, `exitCode`),
`AttemptDetail` and `GetJobQueueSnapshot` (the first 100 RUNNABLE jobs); reasons of blocked jobs after the Batch User Guide, page "Jobs
stuck in a RUNNABLE status". moto 5.2.5 either runs Docker or jumps to
SUCCEEDED, and writes "TBD" for the worker.

- POST `/moto-api/ebb/batch/jobs` `{"account"?, "region", "jobs": [{"jobId", "status",
  "createdAt", "startedAt"?, "stoppedAt"?, "statusReason"?, "exitCode"?,
  "containerInstanceArn"?, "taskId"?, "staysYoungSeconds"?}]}`, times in epoch
  seconds. A job that is put on a worker gets its ECS task there, as Batch would
  start it. One that stays young was always created so many seconds ago: it
  stands for the newest job of a queue that moves.
"""

import json
import time
from datetime import datetime, timedelta
from typing import Any

from moto.batch import urls
from moto.batch.responses import BatchResponse
from moto.batch.models import Job, batch_backends
from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_api import state_manager

from . import moto_ecs
from .moto_endpoints import Body, register

_FINISHED = ("SUCCEEDED", "FAILED")
_STATES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", *_FINISHED)
# moto advances a state by itself unless it is configured to wait for this number of ticks.
_NEVER = {"progression": "manual", "times": 2**31}

_describe = Job.describe
_describe_short = Job.describe_short


def _put(job: Job, region: str, change: Body) -> None:
    """Writes one requested state into moto's job."""
    if change["status"] not in _STATES:
        raise ValueError(f"status {change['status']} is none of {', '.join(_STATES)}")
    job.status = change["status"]
    job.job_created_at = datetime.fromtimestamp(change["createdAt"])
    if "startedAt" in change:
        job.job_started_at = datetime.fromtimestamp(change["startedAt"])
        job.log_stream_name = job._stream_name
    if change["status"] in _FINISHED:
        job.job_stopped = True
        job.job_stopped_at = datetime.fromtimestamp(change["stoppedAt"])
        job.exit_code = change.get("exitCode")
    job.job_stopped_reason = change.get("statusReason")
    job.ebb_stays_young = change.get("staysYoungSeconds")
    if "containerInstanceArn" in change:
        worker = change["containerInstanceArn"]
        job.ebb_worker = {
            "containerInstanceArn": worker,
            "taskArn": moto_ecs.start_batch_task(region, worker, change["taskId"], job, change["status"]),
        }


def _put_jobs(body: Body) -> None:
    backend = batch_backends[body.get("account", DEFAULT_ACCOUNT_ID)][body["region"]]
    for change in body["jobs"]:
        job = backend.get_job_by_id(change["jobId"])
        if job is None:
            raise ValueError(f"no job {change['jobId']} in {body['region']}")
        _put(job, body["region"], change)


def _attempt(job: Job, result: Body) -> Body:
    """`AttemptDetail` of a finished job; a running attempt is not listed."""
    container: dict[str, Any] = {**job.ebb_worker, "logStreamName": job.log_stream_name, "networkInterfaces": []}
    if job.exit_code is not None:
        container["exitCode"] = job.exit_code
    attempt = {"container": container, "startedAt": result["startedAt"], "stoppedAt": result["stoppedAt"]}
    if job.job_stopped_reason is not None:
        attempt["statusReason"] = job.job_stopped_reason
    return attempt


def _describe_short_with_age(self: Job) -> Body:
    age = getattr(self, "ebb_stays_young", None)
    if age is not None:
        self.job_created_at = datetime.now() - timedelta(seconds=age)
    return _describe_short(self)


def _describe_with_worker(self: Job) -> Body:
    result = _describe(self)
    container = result.get("container")
    if container is None or self.job_definition.container_properties is None:
        return result
    properties = self.job_definition.container_properties
    container["image"] = properties.get("image")
    container["resourceRequirements"] = properties.get("resourceRequirements", [])
    container["vcpus"] = int(container["vcpus"])
    container.setdefault("networkInterfaces", [])
    worker = getattr(self, "ebb_worker", None)
    if worker is not None:
        container.update(worker)
        result["attempts"] = [_attempt(self, result)] if self.job_stopped else []
    if self.job_stopped and self.exit_code is not None:
        container["exitCode"] = self.exit_code
    return result


def _get_job_queue_snapshot(self: BatchResponse) -> str:
    queue = self._get_param("jobQueue")
    waiting = self.batch_backend.list_jobs(queue, None, "RUNNABLE")
    told = [_describe(job) for job in sorted(waiting, key=lambda job: job.job_created_at)][:100]
    jobs = [{"jobArn": job["jobArn"], "earliestTimeAtPosition": job["createdAt"]} for job in told]
    return json.dumps({"frontOfQueue": {"jobs": jobs, "lastUpdatedAt": int(time.time() * 1000)}})


def install() -> None:
    """Holds jobs where they are put and adds the endpoint."""
    # A moto job is a thread that runs Docker; it is never started here.
    Job.start = lambda self: None
    Job.describe = _describe_with_worker
    Job.describe_short = _describe_short_with_age
    state_manager.set_transition("batch::job", _NEVER)
    BatchResponse.getjobqueuesnapshot = _get_job_queue_snapshot
    urls.url_paths["{0}/v1/getjobqueuesnapshot$"] = BatchResponse.dispatch
    register("batch/jobs", _put_jobs)
