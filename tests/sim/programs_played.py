"""Lets each program make its calls once in a simulated account, which records them.

The programs are the built ones: the probe of a node, the functions with the roles of the deployment, started
by a schedule and by an API, and the command line. Each has its own credentials, as `extensions/calls.py`
describes. Terraform is not used, because the policies come from a plan.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3

from account import ACCOUNT_ID, Account, client
from deploy import Deployment
from extensions.calls import VARIABLE
from module_plans import ROOT
from simulators import HERE, Simulators

REGION = "us-east-1"

# Another account of the organization, in which the sweep takes the role of members.
MEMBER = "210987654321"
SEED_SESSION = "seed"
CONTACTS = "ebb"
COST_EXPORT = "ebb-bills"
FROM = "ebb@example.org"

_SEED = 1
_PATIENCE_S = 120
_ONE = {"ImageId": "ami-0ebb0000000000001", "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}

# Names in `ebb-probe check` of the requirements on a machine, as opposed to the cloud.
_OF_THE_MACHINE = ("capabilities", "kernel types", "cgroups", "kernel half")

# Finished tasks go to the bucket only if they do not fit in a message of the queue (64 KiB).
_TASKS = 800

_WEBHOOK = """
[[webhooks]]
name = "tickets"
template = "generic"
"""

_ON_MOTO = ("BATCH", "CLOUDWATCH", "COMPUTE_OPTIMIZER", "COST_EXPLORER", "COST_OPTIMIZATION_HUB", "EC2", "ECS", "PRICING")


class _Receiver(BaseHTTPRequestHandler):
    """In place of Slack and of the webhooks: accepts each message."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""


class Skipped(Exception):
    """This machine cannot run a program, and why."""


def _add_storage(client_of: Any, launched: dict[str, Any]) -> None:
    """A snapshot, and an image of the launched instance."""
    ec2 = client_of("ec2")
    ec2.create_snapshot(VolumeId=ec2.create_volume(AvailabilityZone=f"{REGION}a", Size=8)["VolumeId"])
    ec2.create_image(InstanceId=launched["Instances"][0]["InstanceId"], Name="image")


def _add_jobs(client_of: Any) -> tuple[str, str]:
    """A queue of Batch with a job: its id, and the cluster of the queue."""
    policy = json.dumps({"Version": "2012-10-17", "Statement": []})
    role = client_of("iam").create_role(RoleName="batch", AssumeRolePolicyDocument=policy)["Role"]["Arn"]
    batch = client_of("batch")
    made = batch.create_compute_environment(computeEnvironmentName="one", type="UNMANAGED", serviceRole=role)
    order = [{"order": 1, "computeEnvironment": made["computeEnvironmentArn"]}]
    batch.create_job_queue(jobQueueName="one", priority=1, state="ENABLED", computeEnvironmentOrder=order)
    needs = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}]
    container = {"image": "debian", "command": ["true"], "resourceRequirements": needs}
    batch.register_job_definition(jobDefinitionName="one", type="container", containerProperties=container)
    job = batch.submit_job(jobName="one", jobQueue="one", jobDefinition="one")["jobId"]
    [environment] = batch.describe_compute_environments(computeEnvironments=["one"])["computeEnvironments"]
    return job, environment["ecsClusterArn"]


def _add_task(client_of: Any, cluster: str, instance: str) -> None:
    """A task on the instance, which belongs to the cluster."""
    ecs = client_of("ecs")
    identity = json.dumps({"instanceId": instance, "region": REGION})
    made = ecs.register_container_instance(cluster=cluster, instanceIdentityDocument=identity)
    container = {"name": "one", "image": "debian", "cpu": 64, "memory": 64}
    ecs.register_task_definition(family="one", containerDefinitions=[container])
    arn = made["containerInstance"]["containerInstanceArn"]
    ecs.start_task(cluster=cluster, taskDefinition="one", containerInstances=[arn])


class Stage:
    """The account with a deployment, and the programs."""

    def __init__(self, programs: Path, folder: Path, calls: Path, sim: Simulators, receiver: str) -> None:
        self.programs, self.folder, self.calls, self.sim, self.receiver = programs, folder, calls, sim, receiver
        self.policy = (ROOT / "tests/demo/policy.toml").read_text() + _WEBHOOK
        self.world: dict[str, Any] = {}
        self.outputs: dict[str, str] = {}

    def client(self, service: str) -> Any:
        """A client of MiniStack as the administrator."""
        return client(service, REGION, self.sim.ministack_url)

    def fill(self) -> None:
        """Fills the account, as the demo does."""
        command = [sys.executable, str(HERE / "seed.py"), "--seed", str(_SEED), "--out", str(self.folder)]
        command += ["--moto", self.sim.moto_url, "--ministack", self.sim.ministack_url]
        subprocess.run([*command, "--node-role", f"arn:aws:iam::{ACCOUNT_ID}:role/ebb-node"], check=True, timeout=180)
        self.world = json.loads((self.folder / "world.json").read_text())
        home = partial(client, region=REGION, url=self.sim.moto_url)
        # The built-in catalogue knows every type of the seed.
        _add_storage(home, home("ec2").run_instances(**_ONE | {"InstanceType": "m99.large"}))
        types = {node["instance_type"]: 0.1 for node in self.world["nodes"]}
        self.extend("prices", dict.fromkeys(self.world["regions"], types))
        organizations = home("organizations")
        organizations.create_organization(FeatureSet="ALL")
        organizations.create_account(Email="third@example.org", AccountName="third")
        self._fill_member(home("sts"))

    def _fill_member(self, sts: Any) -> None:
        """Another account with one resource of each kind."""
        role = f"arn:aws:iam::{MEMBER}:role/ebb-member"
        given = sts.assume_role(RoleArn=role, RoleSessionName=SEED_SESSION)["Credentials"]
        member = partial(
            boto3.client,
            region_name=REGION,
            endpoint_url=self.sim.moto_url,
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
        )
        launched = member("ec2").run_instances(**_ONE)
        _add_storage(member, launched)
        job, cluster = _add_jobs(member)
        waiting = {"jobId": job, "status": "RUNNABLE", "createdAt": time.time() - 60}
        self.extend("batch/jobs", {"account": MEMBER, "region": REGION, "jobs": [waiting]})
        _add_task(member, cluster, launched["Instances"][0]["InstanceId"])

    def extend(self, path: str, body: dict[str, Any]) -> None:
        """Calls an endpoint of `extensions/` in moto."""
        Account(self.sim.moto_url, self.sim.ministack_url).extend(path, body)

    def deploy(self) -> None:
        """Creates the deployment with every setting that has a permission, and its schedule."""
        topic = self.client("sns").create_topic(Name="events")["TopicArn"]
        mail = self.client("sesv2")
        mail.create_email_identity(EmailIdentity=FROM)
        secrets = {
            "events-webhook": {"url": self.receiver, "key": "whsec_" + "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="},
            "webhooks": {"tickets": {"url": self.receiver}},
        }
        arns = {name: self._secret(name, value) for name, value in secrets.items()}
        environment = {
            "RUST_LOG": "info",
            # MiniStack has these too, with one account.
            "AWS_ENDPOINT_URL_ORGANIZATIONS": self.sim.moto_url,
            "AWS_ENDPOINT_URL_STS": self.sim.moto_url,
            "AWS_ENDPOINT_URL_PRICING": self.sim.moto_url,
            "EBB_ACCOUNTS": MEMBER,
            "EBB_ACCOUNT_ROLE": "ebb-member",
            "EBB_EMAIL_CONTACT_LIST": CONTACTS,
            "EBB_EVENTS_SECRET_ARN": arns["events-webhook"],
            "EBB_SPOT_ADVISOR_URL": f"{self.sim.moto_url}/spot-advisor-data.json",
            "EBB_TOPIC_ARN": topic,
            "EBB_WEBHOOKS_SECRET_ARN": arns["webhooks"],
        }
        self.outputs = Deployment(
            {
                "platform_endpoint": self.sim.ministack_url,
                "region": REGION,
                "regions": self.world["regions"],
                "policy_toml": self.policy,
                "slack_webhook_url": self.receiver,
                "sweeper_package": self._package("ebb-sweeper"),
                "tune_package": self._package("ebb-tune"),
                "email_from": FROM,
                "email_to": ["team@example.org"],
                "extra_environment": environment,
            }
        ).make()

    def change(self, **environment: str) -> None:
        """Sets variables of the sweeper."""
        functions = self.client("lambda")
        before = functions.get_function_configuration(FunctionName="ebb-sweeper")["Environment"]["Variables"]
        functions.update_function_configuration(
            FunctionName="ebb-sweeper", Environment={"Variables": before | environment}
        )

    def _secret(self, name: str, value: Any) -> str:
        made = self.client("secretsmanager").create_secret(Name=f"ebb/{name}", SecretString=json.dumps(value))
        return made["ARN"]

    def _package(self, name: str) -> str:
        """A package that starts the program where it is, so that nothing is compressed."""
        package = self.folder / f"{name}.zip"
        entry = zipfile.ZipInfo("bootstrap")
        entry.external_attr = 0o100755 << 16
        with zipfile.ZipFile(package, "w") as archive:
            archive.writestr(entry, f"#!/bin/sh\nexec '{self.programs / name}'\n")
        return str(package)

    def environment(self, access_key: str, secret_key: str = "test", token: str = "") -> dict[str, str]:
        """The variables of a program with these credentials."""
        moto = {f"AWS_ENDPOINT_URL_{service}": self.sim.moto_url for service in _ON_MOTO}
        keys = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}
        if token:
            keys["AWS_SESSION_TOKEN"] = token
        return {
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": self.sim.ministack_url,
            "AWS_REGION": REGION,
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "HOME": str(self.folder),
            "PATH": os.environ["PATH"],
            **moto,
            **keys,
        }

    def calls_of_sessions(self) -> int:
        """How many calls of roles are recorded. The calls of this test have the key of the administrator."""
        lines = (line for path in self.calls.glob("*.jsonl") for line in path.read_text().splitlines())
        return sum(json.loads(line).get("key", "test") != "test" for line in lines)

    def has(self, bucket: str, prefix: str) -> bool:
        """Whether the bucket has an object with this prefix."""
        return bool(self.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents"))

    def tail(self, name: str) -> str:
        """The end of the output of a program."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]

    @contextmanager
    def running(self, name: str, *command: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        """A program that runs until the end of the block."""
        with (self.folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield child
            if child.poll() not in (None, 0):
                raise RuntimeError(f"{name} ended with {child.returncode}: {self.tail(name)}")
        finally:
            child.terminate()
            child.wait(timeout=20)

    def command(self, name: str, *arguments: str) -> None:
        """Runs a command of `ebb` with an access key of its own."""
        environment = self.environment(f"ebb-{name}")
        ended = subprocess.run(
            [str(self.programs / "ebb"), name, *arguments], env=environment, capture_output=True, text=True, timeout=_PATIENCE_S
        )
        if ended.returncode != 0:
            raise RuntimeError(f"ebb {name}: {ended.stdout[-2000:]}{ended.stderr}")


def play_node(stage: Stage) -> str:
    """The probe as a service: heartbeats, a finished task, and its rules; then its update. Answers the instance."""
    node = next(one for one in stage.world["nodes"] if one["instance_id"] == stage.world["probe_node"])
    given = node["credentials"]
    environment = stage.environment(given["access_key_id"], given["secret_access_key"], given["session_token"])
    config = stage.folder / "probe.toml"
    bucket = stage.outputs["bucket"]
    config.write_text(
        f'queue_url = "{stage.outputs["queue_url"]}"\nbucket = "{bucket}"\nregion = "{REGION}"\n'
        f'spool_dir = "{stage.folder / "spool"}"\ninterval_seconds = 2\nsample_seconds = 1\nsteps_seconds = 10\n'
        f'[update]\nmanifest = "s3://{bucket}/config/ebb-probe-update/manifest.json"\npublic_key = "{_public_key()}"\n'
    )
    probe = str(stage.programs / "ebb-probe")
    check = subprocess.run([probe, "check", "--config", str(config)], env=environment, capture_output=True, text=True)
    if check.returncode != 0:
        lacking = [line.removeprefix("LACKS").strip() for line in check.stdout.splitlines() if line.startswith("LACKS")]
        if lacking and all(line.startswith(_OF_THE_MACHINE) for line in lacking):
            raise Skipped("; ".join(lacking))
        raise RuntimeError(f"ebb-probe check: {check.stdout}{check.stderr}")
    with stage.running("probe", probe, "run", "--config", str(config), environment=environment):
        time.sleep(3)
        _run_tasks()
        until = time.monotonic() + 60
        while not stage.has(bucket, "ingest/"):
            if time.monotonic() > until:
                raise RuntimeError(f"the probe stored no finished task: {stage.tail('probe')}")
            time.sleep(0.5)
    # There is no manifest, so the update ends after it has asked for one.
    subprocess.run([probe, "update", "--dry-run", "--config", str(config)], env=environment, capture_output=True, timeout=60)
    return node["instance_id"]


def _public_key() -> str:
    """Any key: no signature is read."""
    return "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"


def _run_tasks() -> None:
    """Runs short tasks in containers of ECS; together they are too many for a message of the queue."""
    lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    trees = [line[1] for line in lines if line[2] == "cgroup" and "memory" in line[3].split(",")]
    trees += [line[1] for line in lines if line[2] == "cgroup2"]
    tasks = [Path(trees[0]) / "ecs" / os.urandom(16).hex() for _ in range(_TASKS)]
    containers = [task / ("c" * 64) for task in tasks]
    try:
        for container in containers:
            container.mkdir(parents=True)
    except OSError as error:
        raise Skipped(f"no cgroups can be created: {error}") from error
    try:
        # The process moves first, as a container runtime does it.
        starts = 'for one; do sh -c "echo \\$\\$ > $one/cgroup.procs && exec sleep 4" & done; wait'
        subprocess.run(["sh", "-c", starts, "sh", *map(str, containers)], check=True, timeout=60)
    finally:
        for folder in [*containers, *tasks]:
            folder.rmdir()
        # It may still contain the cgroup of another task.
        with suppress(OSError):
            tasks[0].parent.rmdir()


def play_schedule(stage: Stage) -> None:
    """A schedule that is due starts the sweeper, which also enters a listed account. Waits for its end."""
    # The role in the other account is used for market data that the own account refuses.
    markets = ("DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory", "GetSpotPlacementScores")
    refusals = [{"kind": "refuse", "account": ACCOUNT_ID, "action": action} for action in markets]
    stage.extend("faults", {"faults": refusals})
    stage.client("scheduler").create_schedule(
        Name="ebb-sweep",
        ScheduleExpression=f"at({datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%S})",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={
            "Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT_ID}:function:ebb-sweeper",
            "RoleArn": f"arn:aws:iam::{ACCOUNT_ID}:role/ebb-schedule",
        },
    )
    until = time.monotonic() + _PATIENCE_S
    bucket, before = stage.outputs["bucket"], -1
    while before < (calls := stage.calls_of_sessions()) or not stage.has(bucket, "reports/latest/report.json"):
        if time.monotonic() > until:
            raise RuntimeError(f"the schedule led to no report within {_PATIENCE_S} s")
        before = calls
        # A sweep waits for seconds between two attempts of a refused call.
        time.sleep(10)


def _invoke(stage: Stage, function: str, event: dict[str, Any]) -> Any:
    """The answer of a function. The client of boto would repeat a slow call."""
    request = urllib.request.Request(
        f"{stage.sim.ministack_url}/2015-03-31/functions/{function}/invocations",
        json.dumps(event).encode(),
        {"Authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/lambda/aws4_request, Signature=0"},
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        body = answer.read().decode()
        if answer.headers.get("x-amz-function-error"):
            raise RuntimeError(f"{function} failed: {body}")
    return json.loads(body)


def play_sweeper(stage: Stage) -> None:
    """Sweeps with findings, data that is none, and all channels; then in all accounts and regions, with bills
    from files."""
    bucket, queue = stage.outputs["bucket"], stage.outputs["queue_url"]
    stage.client("sqs").send_message(QueueUrl=queue, MessageBody="no heartbeat")
    stage.client("s3").put_object(Bucket=bucket, Key="ingest/v1/AROA1:i-0abc/b/p/1.steps.zst", Body=b"no steps")
    stage.client("s3").create_bucket(Bucket=COST_EXPORT)
    stage.client("s3").put_object(Bucket=COST_EXPORT, Key="cur/ebb/bill.csv", Body=b"no,bill\n1,2\n")
    fleet = [str(stage.programs / "ebb-fleet"), "--world", str(stage.folder), "--queue-url", queue, "--bucket", bucket]
    with stage.running("fleet", *fleet, "--past", "60", environment=stage.environment("test")):
        time.sleep(10)
        _invoke(stage, "ebb-sweeper", {})
    stage.extend("faults", {"faults": []})
    exported = f'{stage.policy}\n[costs]\nexport = "s3://{COST_EXPORT}/cur/ebb"\n'
    stage.client("s3").put_object(Bucket=bucket, Key="config/policy.toml", Body=exported.encode())
    stage.change(EBB_ACCOUNTS="organization", EBB_REGIONS="")
    _invoke(stage, "ebb-sweeper", {})


def play_tune(stage: Stage) -> None:
    """The pages of the API that read each folder, and a decision."""

    def ask(path: str) -> Any:
        try:
            with urllib.request.urlopen(stage.outputs["api_url"] + path, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.code} {error.read().decode()}") from error

    finding = ask("/v1/findings")["items"][0]
    ask(f"/v1/explain/{finding['resource']['id']}")
    for path in ("/v1/prices", "/v1/report", "/v1/runs"):
        ask(path)
    # MiniStack has no route for an id with a slash, so the function gets the event without its API.
    path = f"/v1/findings/{quote(finding['id'], safe='')}/dismiss"
    event = {
        "version": "2.0",
        "rawPath": path,
        "headers": {"content-type": "application/json"},
        "requestContext": {"http": {"method": "POST", "path": path}},
        "body": json.dumps({"reason": "a test"}),
        "isBase64Encoded": False,
    }
    reply = _invoke(stage, "ebb-tune", event)
    if reply["statusCode"] != 200:
        raise RuntimeError(f"{path}: {reply}")


def play(programs: Path, folder: Path, calls: Path) -> tuple[str | None, str]:
    """Plays all programs. Answers the instance of the real probe, or None and why it did not run."""
    previous = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(calls)
    with ExitStack() as stack:
        receiver = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
        stack.callback(receiver.server_close)
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        stack.callback(receiver.shutdown)
        sim = Simulators()
        stack.callback(sim.close)
        stage = Stage(programs, folder, calls, sim, f"http://127.0.0.1:{receiver.server_port}")
        steps = time.monotonic()

        def done(what: str) -> None:
            nonlocal steps
            print(f"check-rights: {what}: {time.monotonic() - steps:.0f} s", flush=True)
            steps = time.monotonic()

        stage.fill()
        stage.deploy()
        done("account and deployment")
        node, reason = None, ""
        try:
            node = play_node(stage)
        except Skipped as skipped:
            reason = str(skipped)
        done("probe")
        play_schedule(stage)
        done("schedule")
        play_sweeper(stage)
        done("sweeper")
        play_tune(stage)
        done("API")
        region = stage.world["batch"]["region"]
        stage.command("scan", "--format", "json")
        stage.command("doctor", "account", "--region", region)
        done("ebb scan and doctor")
    if previous is None:
        del os.environ[VARIABLE]
    else:
        os.environ[VARIABLE] = previous
    return node, reason
