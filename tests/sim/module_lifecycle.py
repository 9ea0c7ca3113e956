"""Applies the Terraform module and its examples to the simulators with the real provider: upgrade, second
plan, destroy.

`python module_lifecycle.py` runs every test in a process of its own, with simulators of its own, and several
at the same time: the provider waits a minute for the life cycle of each bucket. Started by
`scripts/check-terraform`, not by `unittest discover`.
"""

import atexit
import base64
import email
import hashlib
import http.server
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import boto3
import yaml

from account import ACCOUNT_ID, client
from install_script import rendered
from simulators import HERE, Simulators

_ROOT = HERE.parent.parent
_TERRAFORM_S = 900
# Tests that run at the same time. Most of the time, half of them wait.
_AT_ONCE = 2 * (os.cpu_count() or 1)
# A minute of the schedule, ten seconds until MiniStack looks, and a sweep of a program without optimization.
_SWEEP_S = 180
_NAME = "life"
_REGION = "us-east-1"

# A package of the probe in another deployment.
_PACKAGE = {
    "bucket": "ebb-b",
    "key": "config/ebb-probe.tar.gz",
    "queue_url": f"https://sqs.{_REGION}.amazonaws.com/123456789012/ebb-heartbeats",
    "region": _REGION,
    "sha256": "0" * 64,
}

# These hold data, or their names are known to probes and clients. An upgrade must not replace them.
_HOLDERS = (
    "aws_apigatewayv2_api",
    "aws_cloudwatch_log_group",
    "aws_s3_bucket",
    "aws_secretsmanager_secret",
    "aws_sqs_queue",
)

# Lines of a test's output that say what it left out.
_NOTES = ("upgrade from", "no earlier version", "skipped")

# Actions of a plan that delete a resource, in the words of Terraform's JSON.
_LOSSES = ("delete", "replace", "remove")

# moto serves these. MiniStack has no StackSets, and its Auto Scaling ignores a new launch template.
_MOTO_SERVICES = ("autoscaling", "cloudformation", "ec2")
_MINISTACK_SERVICES = ("apigatewayv2", "athena", "budgets", "cloudwatch", "events", "glue", "iam", "lambda", "logs")
_MINISTACK_SERVICES += ("s3", "scheduler", "secretsmanager", "sns", "sqs", "ssm", "sts")

# Changes in a second plan that a simulator causes, by resource type, with their reasons.
_CAUSED_BY_SIMULATOR: dict[str, str] = {}


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(_ROOT), *arguments], capture_output=True, timeout=60)


def _previous_version() -> str | None:
    """The last release; before the first one, the last commit with another module than here.

    None where the clone has no such commit.
    """
    tag = _git("describe", "--tags", "--abbrev=0", "--match", "v*")
    if tag.returncode == 0:
        return tag.stdout.decode().strip()
    for commit in _git("rev-list", "HEAD", "--", "terraform").stdout.decode().split():
        if _git("diff", "--quiet", commit, "--", "terraform").returncode == 1:
            return commit
    return None


class Deployment:
    """A root folder, its state, and the simulators."""

    def __init__(self, folder: Path, region: str = _REGION) -> None:
        self.folder = folder
        self.root = folder
        self.region = region
        sim = _simulators()
        self.endpoints = dict.fromkeys(_MINISTACK_SERVICES, sim.ministack_url)
        self.endpoints |= dict.fromkeys(_MOTO_SERVICES, sim.moto_url)
        for name in ("sweeper.zip", "tune.zip"):
            zipfile.ZipFile(folder / name, "w").close()
        (folder / "probe.tar.gz").write_bytes(b"probe")
        self.before = self.listed()

    def use(self, module: Path, **variables: Any) -> None:
        """Takes another version of the module, and initializes it."""
        shutil.rmtree(self.folder / "ebb", ignore_errors=True)
        shutil.copytree(module, self.folder / "ebb", ignore=shutil.ignore_patterns(".terraform*"))
        ebb = {
            "source": "./ebb",
            "name": _NAME,
            "sweeper_package": "sweeper.zip",
            "tune_package": "tune.zip",
            "slack_webhook_url": "https://hooks.example.org/ebb",
            "policy_toml": "",
        }
        modules: dict[str, Any] = {"ebb": ebb | variables}
        # Nodes that exist already; earlier versions have no such module.
        if (module / "modules/probe").exists():
            modules["probe"] = {"source": "./ebb/modules/probe", "name": _NAME, "package": _PACKAGE}
            modules["probe"]["targets"] = {"tag:team": ["research"], "InstanceIds": ["*"]}
        outputs = {"user_data": {"value": "${module.probe.user_data}"}} if "probe" in modules else {}
        self._init("main.tf.json", {"module": modules, "output": outputs})

    def use_members(self, module: Path, **variables: Any) -> None:
        """Takes only the StackSet of member accounts, and initializes it."""
        shutil.copytree(module, self.folder / "ebb", ignore=shutil.ignore_patterns(".terraform*"))
        self._init("main.tf.json", {"module": {"members": {"source": "./ebb/modules/member-stack-set"} | variables}})

    def use_example(self, module: Path, example: str, variables: dict[str, Any]) -> None:
        """Takes an example of a version of the module as it is, but for the endpoints of the provider."""
        shutil.rmtree(self.folder / "ebb", ignore_errors=True)
        shutil.copytree(module, self.folder / "ebb", ignore=shutil.ignore_patterns(".terraform*"))
        self.root = self.folder / "ebb/examples" / example
        (self.root / "x.auto.tfvars.json").write_text(json.dumps(variables))
        state = {"backend": {"local": {"path": str(self.folder / "terraform.tfstate")}}}
        self._init("x_override.tf.json", {"terraform": state})

    def _init(self, file: str, content: dict[str, Any]) -> None:
        """Writes a file of the root with the provider, and initializes."""
        provider = {
            "region": self.region,
            "access_key": "test",
            "secret_key": "test",
            "s3_use_path_style": True,
            "skip_credentials_validation": True,
            "skip_metadata_api_check": True,
            "endpoints": self.endpoints,
        }
        (self.root / file).write_text(json.dumps({"provider": {"aws": provider}} | content))
        self.run("init", "-input=false")

    def run(self, *arguments: str) -> str:
        """Runs terraform; an error is a failure of the test."""
        command = [str(_ROOT / "scripts/terraform"), f"-chdir={self.root}", *arguments]
        command.append("-no-color")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("TF_", "AWS_"))}
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_TERRAFORM_S, env=environment)
        if ended.returncode != 0:
            raise AssertionError(f"{' '.join(arguments)}: {ended.stdout[-3000:]}{ended.stderr}")
        return ended.stdout

    def apply(self) -> None:
        """Applies without a look at the plan."""
        self.run("apply", "-auto-approve", "-input=false")

    def destroy(self) -> None:
        """Destroys everything in the state."""
        self.run("destroy", "-auto-approve", "-input=false", "-refresh=false")

    def changes(self) -> dict[str, str]:
        """The planned action of each resource that a plan would change."""
        lines = self.run("plan", "-input=false", "-out=plan", "-json").splitlines()
        planned = [entry["change"] for line in lines if (entry := json.loads(line))["type"] == "planned_change"]
        return {change["resource"]["addr"]: change["action"] for change in planned}

    def client(self, service: str) -> Any:
        """A client of the simulator that has the service."""
        return client(service, self.region, self.endpoints[service])

    def listed(self) -> dict[str, set[str]]:
        """Names of everything in the simulators, by kind."""
        iam, cloudwatch, ssm = self.client("iam"), self.client("cloudwatch"), self.client("ssm")
        budgets = self.client("budgets").describe_budgets(AccountId=ACCOUNT_ID)
        autoscaling, cloudformation = self.client("autoscaling"), self.client("cloudformation")
        return {
            "alarms": {alarm["AlarmName"] for alarm in cloudwatch.describe_alarms()["MetricAlarms"]},
            "apis": {api["Name"] for api in self.client("apigatewayv2").get_apis()["Items"]},
            "associations": {entry["AssociationName"] for entry in ssm.list_associations()["Associations"]},
            "budgets": {entry["BudgetName"] for entry in budgets.get("Budgets", [])},
            "buckets": {bucket["Name"] for bucket in self.client("s3").list_buckets()["Buckets"]},
            "dashboards": {entry["DashboardName"] for entry in cloudwatch.list_dashboards()["DashboardEntries"]},
            "databases": {entry["Name"] for entry in self.client("glue").get_databases()["DatabaseList"]},
            "documents": {entry["Name"] for entry in ssm.list_documents()["DocumentIdentifiers"]},
            "functions": {entry["FunctionName"] for entry in self.client("lambda").list_functions()["Functions"]},
            "groups of machines": {
                group["AutoScalingGroupName"] for group in autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"]
            },
            "instance profiles": {entry["InstanceProfileName"] for entry in iam.list_instance_profiles()["InstanceProfiles"]},
            "launch templates": {
                entry["LaunchTemplateName"] for entry in self.client("ec2").describe_launch_templates()["LaunchTemplates"]
            },
            "log groups": {group["logGroupName"] for group in self.client("logs").describe_log_groups()["logGroups"]},
            "policies": {policy["PolicyName"] for policy in iam.list_policies(Scope="Local")["Policies"]},
            "queues": set(self.client("sqs").list_queues().get("QueueUrls", [])),
            "roles": {role["RoleName"] for role in iam.list_roles()["Roles"]},
            "rules": {rule["Name"] for rule in self.client("events").list_rules()["Rules"]},
            "schedules": {entry["Name"] for entry in self.client("scheduler").list_schedules()["Schedules"]},
            "secrets": {entry["Name"] for entry in self.client("secretsmanager").list_secrets()["SecretList"]},
            "stack sets": {entry["StackSetName"] for entry in cloudformation.list_stack_sets(Status="ACTIVE")["Summaries"]},
            "topics": {topic["TopicArn"] for topic in self.client("sns").list_topics()["Topics"]},
            "workgroups": {entry["Name"] for entry in self.client("athena").list_work_groups()["WorkGroups"]},
        }

    def remains(self) -> dict[str, set[str]]:
        """Names of everything that was not there before, by kind."""
        new = {kind: names - self.before[kind] for kind, names in self.listed().items()}
        return {kind: names for kind, names in new.items() if names}


@cache
def _simulators() -> Simulators:
    sim = Simulators()
    atexit.register(sim.close)
    return sim


def setUpModule() -> None:
    """Without terraform there is nothing to apply."""
    if shutil.which("terraform") is None:
        raise unittest.SkipTest("terraform is not here (scripts/setup test gets it)")


class Applied(unittest.TestCase):
    """A test that applies two versions of a root one after the other."""

    maxDiff = None

    def folder(self) -> Path:
        """A new folder, deleted at the end."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Path(folder.name)

    def previous(self) -> Path | None:
        """The module before, unpacked; None where git does not have it."""
        version = _previous_version()
        if version is None:
            print("no earlier version in this clone, so no upgrade", file=sys.stderr)
            return None
        packed = _git("archive", version, "terraform")
        self.assertEqual(packed.returncode, 0, packed.stderr)
        folder = self.folder()
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True, timeout=60)
        print(f"upgrade from {version[:12]}", file=sys.stderr)
        return folder / "terraform"

    def upgrade(self, deployment: Deployment) -> None:
        """Applies the root; nothing that holds data is replaced."""
        planned = deployment.changes()
        lost = {a for a, action in planned.items() if action in _LOSSES and _type_of(a) in _HOLDERS}
        self.assertEqual(lost, set(), "the upgrade deletes what holds data")
        deployment.run("apply", "-input=false", "plan")

    def check_second_plan(self, deployment: Deployment, caused: dict[str, str]) -> None:
        """A second plan has only the changes that a simulator causes, and each of these."""
        second = deployment.changes()
        unexpected = {a: action for a, action in second.items() if _type_of(a) not in caused}
        self.assertEqual(unexpected, {}, "a second plan has changes")
        self.assertEqual({_type_of(a) for a in second}, set(caused), "an exception is out of date")


class Lifecycle(Applied):
    """The module with everything on."""

    def test_upgrade_second_plan_and_destroy(self):
        deployment = Deployment(self.folder())
        before = self.previous()
        if before is not None:
            deployment.use(before)
            deployment.apply()

        every = {"dashboard": True, "monthly_budget_usd": 50, "alarm_emails": ["ops@example.org"]}
        every |= {"athena": True}
        deployment.use(_ROOT / "terraform", **every)
        self.upgrade(deployment)

        self.check_alarms(deployment)
        self.check_install(deployment)
        self.check_user_data(deployment)
        self.check_athena(deployment)
        self.check_second_plan(deployment, _CAUSED_BY_SIMULATOR)

        # A bucket with data stays, because bucket_force_destroy is not set.
        [bucket] = deployment.remains()["buckets"]
        deployment.client("s3").put_object(Bucket=bucket, Key="lake/row", Body=b"1")
        with self.assertRaisesRegex(AssertionError, "BucketNotEmpty"):
            deployment.destroy()
        self.assertEqual(deployment.remains(), {"buckets": {bucket}})

    def check_alarms(self, deployment: Deployment) -> None:
        """There are eight, and the sweeper publishes each metric of the namespace Ebb."""
        alarms = deployment.client("cloudwatch").describe_alarms(AlarmNamePrefix=_NAME)["MetricAlarms"]
        self.assertEqual(len(alarms), 8)
        ours = {alarm["MetricName"]: alarm for alarm in alarms if alarm["Namespace"] == "Ebb"}
        published = (_ROOT / "sweeper-lambda/src/metrics.rs").read_text()
        for metric, alarm in ours.items():
            self.assertIn(f'"{metric}"', published)
            self.assertEqual(alarm["Dimensions"], [{"Name": "FunctionName", "Value": f"{_NAME}-sweeper"}])
        silent = ours["ProbesSilent"]
        self.assertEqual((silent["Threshold"], silent["TreatMissingData"]), (5, "notBreaching"))

    def check_install(self, deployment: Deployment) -> None:
        """The document runs the script of test_install_script.py, and the association names its version."""
        ssm = deployment.client("ssm")
        document = ssm.get_document(Name=f"{_NAME}-install-probe")
        [step] = json.loads(document["Content"])["mainSteps"]
        self.assertEqual(step["action"], "aws:runShellScript")
        self.assertEqual(step["precondition"], {"StringEquals": ["platformType", "Linux"]})
        self.assertEqual("\n".join(step["inputs"]["runCommand"]), rendered(_PACKAGE).strip())
        self.assertEqual(set(json.loads(document["Content"])), {"schemaVersion", "description", "mainSteps"})

    def check_user_data(self, deployment: Deployment) -> None:
        """cloud-init writes the script of test_install_script.py to a file and runs it."""
        message = email.message_from_string(deployment.run("output", "-raw", "user_data"))
        self.assertEqual(message.get_content_type(), "multipart/mixed")
        [part] = message.get_payload()
        self.assertEqual((part.get_content_type(), part.defects + message.defects), ("text/cloud-config", []))
        text = part.get_payload()
        self.assertTrue(text.startswith("#cloud-config\n"), text)
        config = yaml.safe_load(text)
        [file] = config.pop("write_files")
        self.assertEqual(file, {"path": file["path"], "permissions": "0700", "content": rendered(_PACKAGE)})
        self.assertEqual(config, {"runcmd": [["sh", file["path"]]]})

    def check_athena(self, deployment: Deployment) -> None:
        """The tables and the saved queries are those of the catalog, and the workgroup has its limit."""
        catalog = json.loads((_ROOT / "terraform/modules/athena/catalog.json").read_text())
        tables = deployment.client("glue").get_tables(DatabaseName=_NAME)["TableList"]
        for table in tables:
            stored = [*table["PartitionKeys"], *table["StorageDescriptor"]["Columns"]]
            columns = [{"name": column["Name"], "type": column["Type"]} for column in stored]
            self.assertEqual(columns, catalog["tables"][table["Name"]]["columns"])
            self.assertEqual(table["Parameters"]["spark.sql.sources.provider"], "delta")
        self.assertEqual({table["Name"] for table in tables}, set(catalog["tables"]))
        athena = deployment.client("athena")
        configuration = athena.get_work_group(WorkGroup=_NAME)["WorkGroup"]["Configuration"]
        self.assertTrue(configuration["EnforceWorkGroupConfiguration"])
        self.assertEqual(configuration["BytesScannedCutoffPerQuery"], 20_000_000_000)
        ids = athena.list_named_queries(WorkGroup=_NAME)["NamedQueryIds"]
        self.assertEqual(len(ids), len(catalog["queries"]))


class Examples(Applied):
    """Each example as a user applies it: an upgrade, a second plan, and a destroy that leaves nothing."""

    # The region in the examples.
    region = "eu-central-1"

    def check(self, example: str, look: Callable[[Deployment], None] | None = None, **variables: Any) -> None:
        """The whole life of an example without data; `variables` are those that it requires, and `look` is at
        what was applied.
        """
        deployment = Deployment(self.folder(), self.region)
        packages = {"sweeper_package": "sweeper.zip", "tune_package": "tune.zip", "probe_package": "probe.tar.gz"}
        variables |= {name: str(deployment.folder / file) for name, file in packages.items()}
        before = self.previous()
        if before is not None and (before / "examples" / example).exists():
            deployment.use_example(before, example, variables)
            deployment.apply()
        deployment.use_example(_ROOT / "terraform", example, variables)
        self.upgrade(deployment)
        self.assertNotEqual(deployment.remains(), {})
        if look is not None:
            look(deployment)
        self.check_second_plan(deployment, _CAUSED_BY_SIMULATOR)
        deployment.destroy()
        self.assertEqual(deployment.remains(), {})

    def test_minimal(self):
        self.check("minimal")

    def test_complete(self):
        self.check("complete", slack_webhook_url="https://hooks.example.org/ebb")

    def test_existing_fleet(self):
        sim = _simulators()
        ec2 = client("ec2", self.region, sim.moto_url)
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
        trust = json.dumps({"Version": "2012-10-17", "Statement": []})
        client("iam", self.region, sim.ministack_url).create_role(RoleName="batch", AssumeRolePolicyDocument=trust)
        machines = {"image_id": "ami-0123456789abcdef0", "subnet_ids": [subnet], "instance_profile": "worker"}
        self.check("existing-fleet", self.check_targets, node_roles=["batch"], ecs_groups=["gpu-cluster"], **machines)

    def check_targets(self, deployment: Deployment) -> None:
        """Systems Manager installs on instances with a tag, and on container instances of ECS."""
        found = deployment.client("ssm").list_associations()["Associations"]
        targets = {one["AssociationName"]: one["Targets"] for one in found}
        by_team = [{"Key": "tag:team", "Values": ["research"]}]
        by_group = [{"Key": "tag:aws:autoscaling:groupName", "Values": ["gpu-cluster"]}]
        self.assertEqual(targets, {"ebb-install-probe": by_team, "ebb-ecs-install-probe": by_group})

    def test_member(self):
        self.check("member", sweeper_role_arn=f"arn:aws:iam::{ACCOUNT_ID}:role/ebb-sweeper")

    def test_multi_account(self):
        unit, _ = _unit_with_accounts(self.region)
        self.check("multi-account", organization_id="o-a1b2c3d4e5", organizational_unit_ids=[unit])

    def test_every_example_has_a_test(self):
        # The demo applies `simulated`.
        examples = {path.name for path in (_ROOT / "terraform/examples").iterdir()} - {"simulated"}
        for example in examples:
            self.assertTrue(hasattr(self, f"test_{example.replace('-', '_')}"), example)


class Release(Applied):
    """Packages by the address of a release on this machine, with their checksums."""

    files = {
        "sweeper": "ebb-sweeper-0.2.0-aarch64.zip",
        "tune": "ebb-tune-0.2.0-aarch64.zip",
        "probe": "ebb-probe-0.2.0-linux-aarch64.tar.gz",
    }

    def serve(self, folder: Path) -> tuple[str, list[str]]:
        """The address of a server of a folder, and the paths that were requested from it."""
        requested: list[str] = []

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_request(self, *_: Any) -> None:
                requested.append(self.path)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}/", requested

    def test_packages_of_a_release_are_downloaded_and_verified(self):
        deployment, folder = Deployment(self.folder()), self.folder()
        checksums = {}
        for name, file in self.files.items():
            with zipfile.ZipFile(folder / file, "w") as package:
                package.writestr("bootstrap", name)
            checksums[name] = hashlib.sha256((folder / file).read_bytes())
        url, requested = self.serve(folder)
        good = {name: checksum.hexdigest() for name, checksum in checksums.items()}
        release = {"url": url, "version": "0.2.0", "sha256": good | {"tune": "0" * 64}}
        local = {"sweeper_package": None, "tune_package": None}

        deployment.use(_ROOT / "terraform", release=release, **local)
        self.assertNotEqual(deployment.changes(), {})
        self.assertEqual(requested, [], "a plan needs no package")
        targets = [f"-target=module.ebb.{one}" for one in ("aws_lambda_function.sweeper", "aws_lambda_function.tune")]
        targets.append("-target=module.ebb.aws_s3_object.probe")
        with self.assertRaisesRegex(AssertionError, f"its SHA-256 is {good['tune']}, and sha256 of the release has 000"):
            deployment.run("apply", "-auto-approve", "-input=false", *targets)
        self.assertNotIn("functions", deployment.remains())
        [bucket] = deployment.remains()["buckets"]
        s3 = deployment.client("s3")
        self.assertNotIn("Contents", s3.list_objects_v2(Bucket=bucket))

        deployment.use(_ROOT / "terraform", release=release | {"sha256": good}, **local)
        deployment.apply()
        for name in ("sweeper", "tune"):
            function = deployment.client("lambda").get_function_configuration(FunctionName=f"{_NAME}-{name}")
            self.assertEqual(base64.b64decode(function["CodeSha256"]), checksums[name].digest())
            self.assertEqual(function["Architectures"], ["arm64"])
        stored = s3.get_object(Bucket=bucket, Key="config/ebb-probe.tar.gz")["Body"].read()
        self.assertEqual(hashlib.sha256(stored).hexdigest(), good["probe"])
        # As on another machine, which has no file.
        shutil.rmtree(deployment.root / ".terraform/ebb-0.2.0")
        self.check_second_plan(deployment, _CAUSED_BY_SIMULATOR)


class Schedule(Applied):
    """Nobody invokes the sweeper but the schedule of the module; MiniStack's scheduler looks every ten seconds."""

    def test_the_schedule_starts_a_sweep_that_reports(self):
        target = Path(os.environ.get("CARGO_TARGET_DIR", _ROOT / "target"))
        program = target / f"{platform.machine()}-unknown-linux-gnu/debug/ebb-sweeper"
        if not program.exists():
            print("skipped: ebb-sweeper is not built (make build)", file=sys.stderr)
            self.skipTest("ebb-sweeper is not built")
        deployment = Deployment(self.folder())
        package = str(deployment.folder / "built.zip")
        subprocess.run([_ROOT / "scripts/package", program, package], check=True, stdout=subprocess.DEVNULL, timeout=120)
        every_minute = {"sweep_interval_minutes": 1, "schedule_state": "ENABLED", "regions": [_REGION]}
        prices = {"EBB_SPOT_ADVISOR_URL": f"{_simulators().moto_url}/spot-advisor-data.json"}
        others = {"alarms": False, "slack_webhook_url": None, "extra_environment": prices}
        deployment.use(_ROOT / "terraform", sweeper_package=package, **every_minute, **others)
        deployment.apply()

        [bucket] = deployment.remains()["buckets"]
        s3 = deployment.client("s3")
        until = time.monotonic() + _SWEEP_S
        while not (reports := s3.list_objects_v2(Bucket=bucket, Prefix="reports/").get("Contents", [])):
            self.assertLess(time.monotonic(), until, "no report: " + self.log(deployment))
            time.sleep(1)
        keys = [report["Key"] for report in reports]
        self.assertTrue(any(re.match(r"reports/\d{4}-", key) for key in keys), keys)

    def log(self, deployment: Deployment) -> str:
        """The end of the log of the sweeper."""
        logs = deployment.client("logs")
        found = logs.filter_log_events(logGroupName=f"/aws/lambda/{_NAME}-sweeper")["events"]
        return "\n".join(event["message"] for event in found[-20:])


def _unit_with_accounts(region: str) -> tuple[str, list[str]]:
    """A unit of a new organization in moto, and the accounts in it; another account is in no unit."""
    organizations = client("organizations", region, _simulators().moto_url)
    organizations.create_organization(FeatureSet="ALL")
    [root] = organizations.list_roots()["Roots"]
    unit = organizations.create_organizational_unit(ParentId=root["Id"], Name="research")["OrganizationalUnit"]["Id"]
    names = ("one", "two", "outside")
    statuses = [organizations.create_account(Email=f"{name}@example.org", AccountName=name) for name in names]
    accounts = [status["CreateAccountStatus"]["AccountId"] for status in statuses]
    for account in accounts[:2]:
        organizations.move_account(AccountId=account, SourceParentId=root["Id"], DestinationParentId=unit)
    return unit, accounts[:2]


class MemberStackSet(Applied):
    """The submodule creates the role in each account of the units, in an organization of moto."""

    role = f"arn:aws:iam::{ACCOUNT_ID}:role/ebb-sweeper"

    def roles_in(self, account: str) -> dict[str, Any]:
        """The roles of another account, by name; moto's session of a role there."""
        sts = client("sts", _REGION, _simulators().moto_url)
        role = f"arn:aws:iam::{account}:role/OrganizationAccountAccessRole"
        keys = sts.assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
        iam = boto3.client(
            "iam",
            region_name=_REGION,
            endpoint_url=_simulators().moto_url,
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["SessionToken"],
        )
        # A list lacks the boundaries.
        names = [found["RoleName"] for found in iam.list_roles()["Roles"]]
        return {name: iam.get_role(RoleName=name)["Role"] for name in names}

    def test_accounts_of_the_unit_get_the_role(self):
        unit, accounts = _unit_with_accounts(_REGION)
        deployment = Deployment(self.folder())
        members = {"sweeper_role_arn": self.role, "external_id": "ebb", "organizational_unit_ids": [unit]}
        members |= {"iam_path": "/readers/", "permissions_boundary_name": "teams/boundary"}
        deployment.use_members(_ROOT / "terraform", **members)
        deployment.apply()

        found = deployment.client("cloudformation").list_stack_instances(StackSetName="ebb-member")["Summaries"]
        self.assertEqual({instance["Account"] for instance in found}, set(accounts))
        for account in accounts:
            role = self.roles_in(account)["ebb-member"]
            [statement] = role["AssumeRolePolicyDocument"]["Statement"]
            self.assertEqual(statement["Principal"], {"AWS": self.role})
            self.assertEqual(statement["Condition"], {"StringEquals": {"sts:ExternalId": "ebb"}})
            self.assertEqual(role["Arn"], f"arn:aws:iam::{account}:role/readers/ebb-member")
            boundary = f"arn:aws:iam::{account}:policy/teams/boundary"
            self.assertEqual(role["PermissionsBoundary"]["PermissionsBoundaryArn"], boundary)
        self.check_second_plan(deployment, _CAUSED_BY_SIMULATOR)
        deployment.destroy()
        for account in accounts:
            self.assertNotIn("ebb-member", self.roles_in(account))


def _type_of(address: str) -> str:
    return next((part for part in address.split(".") if part.startswith("aws_")), address)


class Started:
    """A test in a process of its own."""

    def __init__(self, test: str) -> None:
        self.test = test
        self.began = time.monotonic()
        self.output = tempfile.TemporaryFile("w+")
        command = [sys.executable, "-m", "unittest", f"module_lifecycle.{test}"]
        self.process = subprocess.Popen(command, cwd=HERE, stdout=self.output, stderr=subprocess.STDOUT)

    def report(self) -> bool:
        """Prints the result; whether the test passed."""
        took = f"{time.monotonic() - self.began:.0f} s"
        self.output.seek(0)
        text = self.output.read()
        if self.process.returncode != 0:
            print(f"{self.test} failed after {took}:\n{text}")
            return False
        print(": ".join([f"{self.test} in {took}", *(line for line in text.splitlines() if line.startswith(_NOTES))]))
        return True

    def end(self) -> None:
        """Interrupts the test, which ends its simulators."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()


def main() -> int:
    """Runs every test, several at the same time."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cases = [case for case in globals().values() if isinstance(case, type) and issubclass(case, Applied)]
    names = [(case, name) for case in cases for name in unittest.TestLoader().getTestCaseNames(case)]
    waiting = [f"{case.__name__}.{name}" for case, name in names]
    running: list[Started] = []
    passed = True
    try:
        while waiting or running:
            while waiting and len(running) < _AT_ONCE:
                running.append(Started(waiting.pop(0)))
            time.sleep(0.2)
            for ended in [one for one in running if one.process.poll() is not None]:
                running.remove(ended)
                passed &= ended.report()
    finally:
        for one in running:
            one.end()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
