"""Two accounts in five regions of one simulator, for whoever looks at several.

`python accounts.py` starts and fills the simulators as `filled.py` does, adds a second
account of an organization with instances, a volume, a snapshot and an image in each
region, prints one line `told {...}` and ends when its input ends.
"""

import json
import sys
from datetime import datetime, timedelta, timezone
from typing import Any

import boto3

from account import ACCOUNT_ID
from filled import filled

REGIONS = ("us-east-1", "eu-central-1", "us-west-2", "eu-west-1", "ap-southeast-2")
MEMBER_ROLE = "ebb-member"
_INSTANCES = 3


def _client(service: str, region: str, keys: dict[str, str]) -> Any:
    return boto3.client(service, region_name=region, endpoint_url=filled().sim.moto_url, **keys)


def _second_account(home: dict[str, str]) -> str:
    organizations = _client("organizations", "us-east-1", home)
    organizations.create_organization(FeatureSet="ALL")
    for name in ("second", "closed"):
        asked = organizations.create_account(Email=f"{name}@example.org", AccountName=name)
        account = asked["CreateAccountStatus"]["AccountId"]
        if name == "second":
            second = account
        else:
            organizations.close_account(AccountId=account)
    return second


def _session(home: dict[str, str], account: str) -> dict[str, str]:
    arn = f"arn:aws:iam::{account}:role/{MEMBER_ROLE}"
    given = _client("sts", "us-east-1", home).assume_role(RoleArn=arn, RoleSessionName="seed")["Credentials"]
    return {
        "aws_access_key_id": given["AccessKeyId"],
        "aws_secret_access_key": given["SecretAccessKey"],
        "aws_session_token": given["SessionToken"],
    }


def _fill(region: str, keys: dict[str, str]) -> list[str]:
    ec2 = _client("ec2", region, keys)
    ids = []
    for _ in range(_INSTANCES):
        launched = ec2.run_instances(ImageId="ami-0ebb0000000000001", InstanceType="m5.large", MinCount=1, MaxCount=1)
        ids.append(launched["Instances"][0]["InstanceId"])
    for _ in range(_INSTANCES):
        volume = ec2.create_volume(AvailabilityZone=f"{region}a", Size=8)["VolumeId"]
        ec2.create_snapshot(VolumeId=volume)
        ec2.create_image(InstanceId=ids[0], Name=f"image-{volume}")
    return ids


def _other_queue(keys: dict[str, str]) -> None:
    """An environment and a queue more, so that there is a second page of both; each account
    has one of the same name."""
    region = filled().world["batch"]["region"]
    policy = json.dumps({"Version": "2012-10-17", "Statement": []})
    made = _client("iam", region, keys).create_role(RoleName="other", AssumeRolePolicyDocument=policy)
    role = made["Role"]["Arn"]
    batch = _client("batch", region, keys)
    made = batch.create_compute_environment(computeEnvironmentName="other", type="UNMANAGED", serviceRole=role)
    order = [{"order": 1, "computeEnvironment": made["computeEnvironmentArn"]}]
    batch.create_job_queue(jobQueueName="other", priority=1, state="ENABLED", computeEnvironmentOrder=order)


def _watched(home: dict[str, str]) -> dict[str, str]:
    """A node without a probe that tells of its credits, and whose agent tells of its memory
    and two GPUs, the first of which works: the last half hour, by the dimensions that the
    CloudWatch agent sends by default and once rolled up. Container Insights tells of two
    tasks of one family there."""
    node = next(n for n in filled().world["nodes"] if n["profile"] == "silent")
    here = [{"Name": "InstanceId", "Value": node["instance_id"]}]
    image = [{"Name": "ImageId", "Value": "ami-0ebb0000000000001"}, *here]
    gpus = [[{"Name": "index", "Value": str(n)}, {"Name": "name", "Value": "Tesla T4"}, *image] for n in range(2)]
    family = [{"Name": "ClusterName", "Value": "web"}, {"Name": "TaskDefinitionFamily", "Value": "api"}]
    # Of two tasks the busier uses half of a vCPU; bytes are a second.
    insights = {"CpuUtilized": 512, "CpuReserved": 1024, "MemoryUtilized": 1024, "MemoryReserved": 4096}
    insights |= {"NetworkRxBytes": 10, "NetworkTxBytes": 20}
    told = {
        "ECS/ContainerInsights": [
            *((name, family, value) for name, value in insights.items()),
            ("CpuUtilized", family, 1),
            ("CpuUtilized", family[:1], 2048),
        ],
        "AWS/EC2": [("CPUCreditBalance", here, 0.25), ("CPUSurplusCreditBalance", here, 0)],
        "CWAgent": [
            ("mem_used_percent", here, 37.5),
            ("mem_used_percent", image, 37.5),
            ("nvidia_smi_utilization_gpu", gpus[0], 80),
            ("nvidia_smi_utilization_gpu", gpus[1], 0),
            ("nvidia_smi_memory_used", gpus[0], 4096),
            ("nvidia_smi_memory_used", gpus[1], 3),
        ],
    }
    now = datetime.now(timezone.utc)
    watch = _client("cloudwatch", node["region"], home)
    for namespace, metrics in told.items():
        data = [
            {"MetricName": name, "Dimensions": on, "Timestamp": now - timedelta(minutes=5 * back), "Value": value}
            for name, on, value in metrics
            for back in range(1, 7)
        ]
        watch.put_metric_data(Namespace=namespace, MetricData=data)
    return {"node": node["instance_id"], "region": node["region"]}


def _billed(home: dict[str, str]) -> list[dict[str, Any]]:
    """What each of the last 14 days cost in all, as the bill itself sums it up."""
    today = datetime.now(timezone.utc).date()
    period = {"Start": (today - timedelta(days=14)).isoformat(), "End": today.isoformat()}
    asked = {"TimePeriod": period, "Granularity": "DAILY", "Metrics": ["NetAmortizedCost"]}
    days = _client("ce", "us-east-1", home).get_cost_and_usage(**asked)["ResultsByTime"]
    return [
        {
            "day": day["TimePeriod"]["Start"],
            "usd": day["Total"]["NetAmortizedCost"]["Amount"],
            "estimated": day["Estimated"],
        }
        for day in days
    ]


def main() -> None:
    """Fills, tells, waits."""
    home = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    second = _second_account(home)
    keys = _session(home, second)
    _other_queue(home)
    _other_queue(keys)
    told = {
        "moto": filled().sim.moto_url,
        "home": ACCOUNT_ID,
        "second": second,
        "role": MEMBER_ROLE,
        "regions": REGIONS,
        "instances": {region: _fill(region, keys) for region in REGIONS},
        "watched": _watched(home),
        "billed": _billed(home),
        "world": filled().world,
    }
    print("told " + json.dumps(told), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
