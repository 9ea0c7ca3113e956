"""Applies the Terraform module to MiniStack with the real provider: upgrade, second plan, destroy. The
StackSet of the roles in member accounts goes to moto, because MiniStack has no StackSets.

Started by `scripts/check-terraform`, not by `unittest discover`: the provider waits a minute for
the life cycle of the bucket, and meanwhile the other checks of the module run.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import boto3

from account import ACCOUNT_ID, client
from install_script import rendered
from simulators import HERE, Simulators

_ROOT = HERE.parent.parent
_TERRAFORM_S = 240
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

# Actions of a plan that delete a resource, in the words of Terraform's JSON.
_LOSSES = ("delete", "replace", "remove")

# Changes in a second plan that MiniStack causes, by resource type, with their reasons.
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
    """A root folder with a module, its state, and a MiniStack."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.folder = folder
        self.endpoint = endpoint
        for name in ("sweeper.zip", "tune.zip"):
            zipfile.ZipFile(folder / name, "w").close()

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
        self._init(modules)

    def use_members(self, module: Path, **variables: Any) -> None:
        """Takes only the StackSet of member accounts, and initializes it."""
        shutil.copytree(module, self.folder / "ebb", ignore=shutil.ignore_patterns(".terraform*"))
        self._init({"members": {"source": "./ebb/modules/member-stack-set"} | variables})

    def _init(self, modules: dict[str, Any]) -> None:
        """Writes the root with these modules."""
        services = ("apigatewayv2", "athena", "budgets", "cloudformation", "cloudwatch", "glue", "iam", "lambda", "logs")
        services += ("s3", "scheduler", "secretsmanager", "sns", "sqs", "ssm", "sts")
        provider = {
            "region": _REGION,
            "access_key": "test",
            "secret_key": "test",
            "s3_use_path_style": True,
            "skip_credentials_validation": True,
            "skip_metadata_api_check": True,
            "endpoints": dict.fromkeys(services, self.endpoint),
        }
        root = {"provider": {"aws": provider}, "module": modules}
        (self.folder / "main.tf.json").write_text(json.dumps(root))
        self.run("init", "-backend=false", "-input=false")

    def run(self, *arguments: str) -> str:
        """Runs terraform; an error is a failure of the test."""
        command = [str(_ROOT / "scripts/terraform"), f"-chdir={self.folder}", *arguments]
        command.append("-no-color")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("TF_", "AWS_"))}
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_TERRAFORM_S, env=environment)
        if ended.returncode != 0:
            raise AssertionError(f"{' '.join(arguments)}: {ended.stdout[-3000:]}{ended.stderr}")
        return ended.stdout

    def changes(self) -> dict[str, str]:
        """The planned action of each resource that a plan would change."""
        lines = self.run("plan", "-input=false", "-out=plan", "-json").splitlines()
        planned = [entry["change"] for line in lines if (entry := json.loads(line))["type"] == "planned_change"]
        return {change["resource"]["addr"]: change["action"] for change in planned}

    def client(self, service: str) -> Any:
        """A client of MiniStack."""
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        return boto3.client(service, region_name=_REGION, endpoint_url=self.endpoint, **keys)

    def remains(self) -> dict[str, list[str]]:
        """Names of this deployment that the simulator still has, by service."""
        iam, logs, alarms = self.client("iam"), self.client("logs"), self.client("cloudwatch")
        found = {
            "alarms": [alarm["AlarmName"] for alarm in alarms.describe_alarms()["MetricAlarms"]],
            "apis": [api["Name"] for api in self.client("apigatewayv2").get_apis()["Items"]],
            "buckets": [bucket["Name"] for bucket in self.client("s3").list_buckets()["Buckets"]],
            "databases": [entry["Name"] for entry in self.client("glue").get_databases()["DatabaseList"]],
            "dashboards": [entry["DashboardName"] for entry in alarms.list_dashboards()["DashboardEntries"]],
            "documents": [entry["Name"] for entry in self.client("ssm").list_documents()["DocumentIdentifiers"]],
            "functions": [entry["FunctionName"] for entry in self.client("lambda").list_functions()["Functions"]],
            "groups": [group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]],
            "policies": [policy["PolicyName"] for policy in iam.list_policies(Scope="Local")["Policies"]],
            "queues": self.client("sqs").list_queues().get("QueueUrls", []),
            "roles": [role["RoleName"] for role in iam.list_roles()["Roles"]],
            "schedules": [entry["Name"] for entry in self.client("scheduler").list_schedules()["Schedules"]],
            "secrets": [entry["Name"] for entry in self.client("secretsmanager").list_secrets()["SecretList"]],
            "workgroups": [entry["Name"] for entry in self.client("athena").list_work_groups()["WorkGroups"]],
            "topics": [topic["TopicArn"] for topic in self.client("sns").list_topics()["Topics"]],
        }
        ours = {kind: [name for name in names if _NAME in name] for kind, names in found.items()}
        return {kind: names for kind, names in ours.items() if names}


@cache
def _simulators() -> Simulators:
    sim = Simulators()
    unittest.addModuleCleanup(sim.close)
    return sim


def setUpModule() -> None:
    """Without terraform there is nothing to apply."""
    if shutil.which("terraform") is None:
        raise unittest.SkipTest("terraform is not here (scripts/setup test gets it)")


class Lifecycle(unittest.TestCase):
    maxDiff = None

    def deployment(self) -> Deployment:
        """A new root folder, deleted at the end."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Deployment(Path(folder.name), _simulators().ministack_url)

    def previous(self) -> Path | None:
        """The module before, unpacked; None where git does not have it."""
        version = _previous_version()
        if version is None:
            return None
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        packed = _git("archive", version, "terraform")
        self.assertEqual(packed.returncode, 0, packed.stderr)
        subprocess.run(["tar", "-x", "-C", folder.name], input=packed.stdout, check=True, timeout=60)
        print(f"module_lifecycle: upgrade from {version}", file=sys.stderr)
        return Path(folder.name) / "terraform"

    def test_upgrade_second_plan_and_destroy(self):
        deployment = self.deployment()
        before = self.previous()
        if before is None:
            print("module_lifecycle: no earlier version in this clone, so no upgrade", file=sys.stderr)
        else:
            deployment.use(before)
            deployment.run("apply", "-auto-approve", "-input=false")

        every = {"dashboard": True, "monthly_budget_usd": 50, "alarm_emails": ["ops@example.org"]}
        every |= {"athena": True}
        deployment.use(_ROOT / "terraform", **every)
        planned = deployment.changes()
        lost = {a for a, action in planned.items() if action in _LOSSES and _type_of(a) in _HOLDERS}
        self.assertEqual(lost, set(), "the upgrade deletes what holds data")
        deployment.run("apply", "-input=false", "plan")

        self.assertEqual(len(deployment.remains()["alarms"]), 7)
        self.check_install(deployment)
        self.check_athena(deployment)
        second = deployment.changes()
        unexpected = {a: action for a, action in second.items() if _type_of(a) not in _CAUSED_BY_SIMULATOR}
        self.assertEqual(unexpected, {}, "a second plan has changes")
        self.assertEqual({_type_of(a) for a in second}, set(_CAUSED_BY_SIMULATOR), "an exception is out of date")

        # A bucket with data stays, because bucket_force_destroy is not set.
        [bucket] = deployment.remains()["buckets"]
        deployment.client("s3").put_object(Bucket=bucket, Key="lake/row", Body=b"1")
        with self.assertRaisesRegex(AssertionError, "BucketNotEmpty"):
            deployment.run("destroy", "-auto-approve", "-input=false", "-refresh=false")
        self.assertEqual(deployment.remains(), {"buckets": [bucket]})

    def check_install(self, deployment: Deployment) -> None:
        """The document runs the script of test_install_script.py, and the association names its version."""
        ssm = deployment.client("ssm")
        document = ssm.get_document(Name=f"{_NAME}-install-probe")
        [step] = json.loads(document["Content"])["mainSteps"]
        self.assertEqual(step["action"], "aws:runShellScript")
        self.assertEqual(step["precondition"], {"StringEquals": ["platformType", "Linux"]})
        self.assertEqual("\n".join(step["inputs"]["runCommand"]), rendered(_PACKAGE).strip())
        self.assertEqual(set(json.loads(document["Content"])), {"schemaVersion", "description", "mainSteps"})


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


class MemberStackSet(unittest.TestCase):
    """The submodule creates the role in each account of the units, in an organization of moto."""

    role = f"arn:aws:iam::{ACCOUNT_ID}:role/ebb-sweeper"

    def client(self, service: str) -> Any:
        """A client of moto."""
        return client(service, _REGION, _simulators().moto_url)

    def unit_with_accounts(self) -> tuple[str, list[str]]:
        """A unit of a new organization, and the accounts in it; another account is in no unit."""
        organizations = self.client("organizations")
        organizations.create_organization(FeatureSet="ALL")
        [root] = organizations.list_roots()["Roots"]
        unit = organizations.create_organizational_unit(ParentId=root["Id"], Name="research")["OrganizationalUnit"]["Id"]
        names = ("one", "two", "outside")
        statuses = [organizations.create_account(Email=f"{name}@example.org", AccountName=name) for name in names]
        accounts = [status["CreateAccountStatus"]["AccountId"] for status in statuses]
        for account in accounts[:2]:
            organizations.move_account(AccountId=account, SourceParentId=root["Id"], DestinationParentId=unit)
        return unit, accounts[:2]

    def roles_in(self, account: str) -> dict[str, Any]:
        """The roles of another account, by name; moto's session of a role there."""
        sts = self.client("sts")
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
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        unit, accounts = self.unit_with_accounts()
        deployment = Deployment(Path(folder.name), _simulators().moto_url)
        members = {"sweeper_role_arn": self.role, "external_id": "ebb", "organizational_unit_ids": [unit]}
        members |= {"iam_path": "/readers/", "permissions_boundary_name": "teams/boundary"}
        deployment.use_members(_ROOT / "terraform", **members)
        deployment.run("apply", "-auto-approve", "-input=false")

        found = self.client("cloudformation").list_stack_instances(StackSetName="ebb-member")["Summaries"]
        self.assertEqual({instance["Account"] for instance in found}, set(accounts))
        for account in accounts:
            role = self.roles_in(account)["ebb-member"]
            [statement] = role["AssumeRolePolicyDocument"]["Statement"]
            self.assertEqual(statement["Principal"], {"AWS": self.role})
            self.assertEqual(statement["Condition"], {"StringEquals": {"sts:ExternalId": "ebb"}})
            self.assertEqual(role["Arn"], f"arn:aws:iam::{account}:role/readers/ebb-member")
            boundary = f"arn:aws:iam::{account}:policy/teams/boundary"
            self.assertEqual(role["PermissionsBoundary"]["PermissionsBoundaryArn"], boundary)
        # moto does not implement the deletion by units (moto 5.2.5), so there is no destroy here.


def _type_of(address: str) -> str:
    return next(part for part in address.split(".") if part.startswith("aws_"))


if __name__ == "__main__":
    unittest.main()
