"""What `ebb tune` writes for AWS is what AWS takes, by boto3's models and the simulators.

Only what is marked REPLACE-WITH is replaced, as a user would.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from botocore.exceptions import ParamValidationError

from account import Account
from filled import filled

# Where nothing else of the tests is.
_REGION = "sa-east-1"
_PROGRAM = os.environ.get("EBB_PROGRAM", "")


@unittest.skipUnless(_PROGRAM and Path(_PROGRAM).exists(), "EBB_PROGRAM names no built `ebb`")
class Texts(unittest.TestCase):
    def read(self, form: str) -> list[dict[str, Any]]:
        """All values of a form that the demo account gives."""
        command = [_PROGRAM, "tune", "--demo", "--format", form]
        value = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
        values = value if isinstance(value, list) else [value]
        self.assertTrue(values)
        return values

    def client(self, service: str) -> Any:
        return filled().client(service, _REGION)

    def moto_iam(self) -> Any:
        """IAM of moto's half, which only its Batch looks at."""
        return Account(filled().sim.moto_url, filled().sim.ministack_url).moto_iam()

    def instance_profile(self) -> str:
        """The ARN of an instance profile, and a role beside it."""
        iam, named = self.moto_iam(), {"InstanceProfileName": "texts"}
        try:
            return iam.get_instance_profile(**named)["InstanceProfile"]["Arn"]
        except iam.exceptions.NoSuchEntityException:
            iam.create_role(RoleName="texts", AssumeRolePolicyDocument="{}")
            return iam.create_instance_profile(**named)["InstanceProfile"]["Arn"]

    def network(self) -> tuple[str, str]:
        """A subnet and a security group."""
        ec2 = self.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.0.0/24")["Subnet"]["SubnetId"]
        return subnet, ec2.create_security_group(GroupName="texts", Description="texts", VpcId=vpc)["GroupId"]

    def batch_script(self, steps: list[dict[str, Any]]) -> str:
        """The script for the first steps of the demo account, changed as given."""
        report = json.loads(subprocess.run([_PROGRAM, "scan", "--demo", "--format", "json"], capture_output=True).stdout)
        report["steps"] = [step | changed for step, changed in zip(report["steps"], steps)]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(report, file)
            file.flush()
            command = [_PROGRAM, "tune", "--report", file.name, "--format", "batch"]
            return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout.decode()

    @unittest.skipUnless(shutil.which("aws") and shutil.which("jq"), "needs the AWS CLI and jq")
    def test_the_script_changes_the_request_of_job_definitions_and_nothing_else(self):
        batch = self.client("batch")
        container = {
            "image": "public.ecr.aws/docker/library/busybox:stable",
            "command": ["sh", "-c", "echo 'a \"b\" $c'"],
            "jobRoleArn": "arn:aws:iam::123456789012:role/job",
            "executionRoleArn": "arn:aws:iam::123456789012:role/execution",
            "volumes": [{"name": "data", "host": {"sourcePath": "/data"}}],
            "mountPoints": [{"sourceVolume": "data", "containerPath": "/data", "readOnly": True}],
            "environment": [{"name": "MODE", "value": "a=b,c"}],
            "resourceRequirements": [
                {"type": "GPU", "value": "1"},
                {"type": "VCPU", "value": "16"},
                {"type": "MEMORY", "value": "57344"},
            ],
        }
        kept = {
            "type": "container",
            "parameters": {"input": "s3://bucket/x"},
            "retryStrategy": {"attempts": 5},
            "timeout": {"attemptDurationSeconds": 3600},
            "platformCapabilities": ["EC2"],
            "propagateTags": True,
            "tags": {"team": "rna"},
        }
        old = {"image": container["image"], "command": ["true"], "vcpus": 8, "memory": 32768}
        batch.register_job_definition(jobDefinitionName="texts-align", containerProperties=old, **kept)
        batch.register_job_definition(jobDefinitionName="texts-align", containerProperties=container, **kept)
        batch.register_job_definition(jobDefinitionName="texts-old", type="container", containerProperties=old)
        asks = {"cores": 16_000, "memory": 57_344 << 20}
        should = {"cores": 3_000, "memory": 6_656 << 20}
        step = {"region": _REGION, "account": None, "asks": asks, "should_ask": should}
        changed = [
            step | {"step": f"arn:aws:batch:{_REGION}:123456789012:job-definition/texts-align:1"},
            step | {"step": "texts-old", "should_ask": should | {"cores": None}},
            step | {"step": "texts-missing"},
            step | {"step": "texts-other", "account": "999999999999"},
        ]
        environment = os.environ | {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_ENDPOINT_URL": filled().sim.moto_url,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_PAGER": "",
        }
        script = self.batch_script(changed)
        ran = subprocess.run(["sh"], input=script, env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(ran.returncode, 1, "two of four cannot be changed: " + ran.stderr)
        self.assertIn("texts-missing: failed", ran.stderr)
        self.assertIn("there is no active job definition", ran.stderr)
        self.assertIn("texts-other: skipped", ran.stderr)
        made = ran.stdout.split()
        self.assertEqual(len(made), 2, ran.stdout + ran.stderr)
        by_arn = {one["jobDefinitionArn"]: one for one in batch.describe_job_definitions()["jobDefinitions"]}
        align, of_old = (by_arn[arn] for arn in made)
        self.assertEqual(align["revision"], 3)
        for name, value in kept.items():
            self.assertEqual(align[name], value, name)
        for name, value in container.items():
            if name != "resourceRequirements":
                self.assertEqual(align["containerProperties"][name], value, name)
        requirements = {one["type"]: one["value"] for one in align["containerProperties"]["resourceRequirements"]}
        self.assertEqual(requirements, {"GPU": "1", "VCPU": "3", "MEMORY": "6656"})
        self.assertEqual(of_old["containerProperties"]["vcpus"], 8)
        self.assertNotEqual(of_old["containerProperties"].get("memory"), 32768)
        requirements = {one["type"]: one["value"] for one in of_old["containerProperties"]["resourceRequirements"]}
        self.assertEqual(requirements, {"MEMORY": "6656"})

    def test_the_script_deletes_what_a_registration_refuses(self):
        """By boto3's models: what a description has and a registration does not."""
        model = self.client("batch").meta.service_model
        described = model.operation_model("DescribeJobDefinitions").output_shape
        described = described.members["jobDefinitions"].member.members
        registered = model.operation_model("RegisterJobDefinition").input_shape.members
        deleted = re.search(r"del\((\.\w+(, \.\w+)+)\)", self.batch_script([{}]))
        self.assertEqual({name.strip(" .") for name in deleted[1].split(",")}, set(described) - set(registered))

    def test_batch_makes_the_compute_environments(self):
        batch, (subnet, group) = self.client("batch"), self.network()
        for environment in self.read("batch-environment"):
            resources = environment["computeResources"]
            resources |= {"subnets": [subnet], "securityGroupIds": [group], "instanceRole": self.instance_profile()}
            # AWS takes its service-linked role where none is named; moto asks for one.
            role = self.moto_iam().get_role(RoleName="texts")["Role"]["Arn"]
            made = batch.create_compute_environment(**environment, serviceRole=role)
            name = made["computeEnvironmentName"]
            told = batch.describe_compute_environments(computeEnvironments=[name])["computeEnvironments"][0]
            self.assertEqual(told["computeResources"]["instanceTypes"], resources["instanceTypes"])

    def test_batch_takes_the_update_of_an_environment(self):
        report = json.loads(subprocess.run([_PROGRAM, "scan", "--demo", "--format", "json"], capture_output=True).stdout)
        [told] = report["targets"]["environments"]
        # The saving of the demo account is not tested here.
        told |= {"saving_a_month_usd": "1.00", "refused": None}
        told["now"]["market"] = "on_demand"
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(report, file)
            file.flush()
            command = [_PROGRAM, "tune", "--report", file.name, "environment", told["name"]]
            command += ["--format", "batch-environment"]
            update = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
        batch, (subnet, group) = self.client("batch"), self.network()
        profile = self.instance_profile()
        resources = {"type": "EC2", "minvCpus": 0, "maxvCpus": 8, "instanceTypes": told["allowed"]}
        resources |= {"subnets": [subnet], "securityGroupIds": [group], "instanceRole": profile}
        role = self.moto_iam().get_role(RoleName="texts")["Role"]["Arn"]
        name = update["computeEnvironment"]
        batch.create_compute_environment(
            computeEnvironmentName=name, type="MANAGED", computeResources=resources, serviceRole=role
        )
        self.assertEqual(batch.update_compute_environment(**update)["computeEnvironmentName"], name)
        with self.assertRaises(ParamValidationError):
            batch.update_compute_environment(**(update | {"computeResources": {"instanceTypes": "m5"}}))

    def test_ec2_takes_the_launch_templates_and_the_groups_that_use_them(self):
        ec2, scaling, (subnet, _) = self.client("ec2"), self.client("autoscaling"), self.network()
        pairs = zip(self.read("launch-template"), self.read("asg"), strict=True)
        for number, (version, group) in enumerate(pairs):
            template, name = f"texts-{number}", f"texts-{number}"
            first = {"ImageId": "ami-12345678", "InstanceType": "m5.4xlarge"}
            ec2.create_launch_template(LaunchTemplateName=template, LaunchTemplateData=first)
            version["LaunchTemplateName"] = template
            made = ec2.create_launch_template_version(**version)["LaunchTemplateVersion"]
            self.assertEqual(made["LaunchTemplateData"]["InstanceType"], version["LaunchTemplateData"]["InstanceType"])
            self.assertIn("simulated", made["VersionDescription"])
            given = {"LaunchTemplateName": template, "Version": "1"}
            size = {"MinSize": 0, "MaxSize": 0, "VPCZoneIdentifier": subnet}
            scaling.create_auto_scaling_group(AutoScalingGroupName=name, LaunchTemplate=given, **size)
            self.assertTrue(group["AutoScalingGroupName"].startswith("SIMULATED-REPLACE-WITH"))
            group["AutoScalingGroupName"] = name
            policy = group["MixedInstancesPolicy"]
            policy["LaunchTemplate"]["LaunchTemplateSpecification"]["LaunchTemplateName"] = template
            scaling.update_auto_scaling_group(**group)
            told = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"][0]
            wanted = policy["LaunchTemplate"]["Overrides"]
            self.assertEqual(told["MixedInstancesPolicy"]["LaunchTemplate"]["Overrides"], wanted)

    def test_the_model_refuses_what_is_not_so(self):
        """boto3's models do look: a wrong type and a missing name are told."""
        for change in ({"computeResources": {"minvCpus": "none"}}, {"type": None}):
            environment = self.read("batch-environment")[0] | change
            with self.assertRaises(Exception) as refused:
                self.client("batch").create_compute_environment(**environment)
            self.assertEqual(type(refused.exception).__name__, "ParamValidationError")


if __name__ == "__main__":
    unittest.main()
