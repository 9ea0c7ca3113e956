"""What `ebb tune` writes for AWS is what AWS takes, by boto3's models and the simulators.

Only what is marked REPLACE-WITH is replaced, as a user would.
"""

import json
import os
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
        """All values of a form that the kept account gives."""
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

    def test_batch_registers_the_job_definitions(self):
        batch = self.client("batch")
        for definition in self.read("batch"):
            definition["containerProperties"]["image"] = "public.ecr.aws/docker/library/busybox:stable"
            made = batch.register_job_definition(**definition)
            told = batch.describe_job_definitions(jobDefinitions=[made["jobDefinitionArn"]])["jobDefinitions"][0]
            wanted = definition["containerProperties"]["resourceRequirements"]
            self.assertCountEqual(told["containerProperties"]["resourceRequirements"], wanted)
            self.assertEqual(told["tags"], {"ebb:simulated": "true"})

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
        # Whether the kept account's saves anything is not what is looked at.
        told["saving_a_month_usd"] = "1.00"
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
