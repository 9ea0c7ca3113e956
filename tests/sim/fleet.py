"""Fills EC2 and Auto Scaling: instances, their ages, volumes and addresses."""

from account import Account
from catalogue import REGIONS, SIMULATED, SOLD, spot_advisor, usd_per_hour
from world import Node, World

_IMAGE = "ami-0ebb0000000000001"
_GROUP = "web-render"


def launch(account: Account, world: World, now: float) -> dict[str, str]:
    """Launches every node and answers instance id by node key."""
    ids = _launch_group(account, world)
    for node in world.nodes:
        if node.member != "asg":
            ids[node.key] = _launch_one(account, node)
    for region in REGIONS:
        here = [n for n in world.nodes if n.region == region]
        ages = {ids[n.key]: now - n.age_s for n in here}
        account.extend("ec2/launch-times", {"region": region, "instances": ages})
        stopped = [ids[n.key] for n in here if n.state == "stopped"]
        if stopped:
            account.client("ec2", region).stop_instances(InstanceIds=stopped)
        prices = {name: round(usd_per_hour(name, region, "spot"), 6) for name in SOLD}
        account.extend("ec2/spot-prices", {"region": region, "usd_per_hour": prices})
    account.extend("spot-advisor", spot_advisor())
    return ids


def _tags(node: Node) -> list[dict[str, str]]:
    tags = {"Name": node.name, "Owner": node.owner, "Project": node.project}
    if node.standby:
        tags["ebb:standby"] = "true"
    if node.member in ("batch", "probe"):
        tags["AWSBatchServiceTag"] = "batch"
    # The one node that is not: a real probe measures this machine for it.
    if node.member != "probe":
        tags |= SIMULATED
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _launch_one(account: Account, node: Node) -> str:
    market = {"InstanceMarketOptions": {"MarketType": "spot"}} if node.lifecycle == "spot" else {}
    answer = account.client("ec2", node.region).run_instances(
        ImageId=_IMAGE,
        InstanceType=node.type_name,
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": _tags(node)}],
        **market,
    )
    return answer["Instances"][0]["InstanceId"]


def _launch_group(account: Account, world: World) -> dict[str, str]:
    """The autoscaling group; it launches its instances itself."""
    nodes = [n for n in world.nodes if n.member == "asg"]
    ec2 = account.client("ec2", world.asg_region)
    scaling = account.client("autoscaling", world.asg_region)
    template = {"ImageId": _IMAGE, "InstanceType": nodes[0].type_name}
    ec2.create_launch_template(LaunchTemplateName=_GROUP, LaunchTemplateData=template)
    tags = [{**tag, "PropagateAtLaunch": True} for tag in _tags(nodes[0]) if tag["Key"] != "Name"]
    scaling.create_auto_scaling_group(
        AutoScalingGroupName=_GROUP,
        LaunchTemplate={"LaunchTemplateName": _GROUP, "Version": "$Latest"},
        MinSize=len(nodes),
        MaxSize=len(nodes) + 2,
        DesiredCapacity=len(nodes),
        AvailabilityZones=[f"{world.asg_region}a"],
        Tags=tags,
    )
    group = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[_GROUP])["AutoScalingGroups"][0]
    launched = sorted(member["InstanceId"] for member in group["Instances"])
    ids = dict(zip((n.key for n in nodes), launched, strict=True))
    for node in nodes:
        ec2.create_tags(Resources=[ids[node.key]], Tags=[{"Key": "Name", "Value": node.name}])
    return ids


def add_storage(account: Account, world: World, ids: dict[str, str]) -> list[str]:
    """Creates volumes and elastic addresses, attached or left alone; answers the idle
    addresses. The volumes are too young to be called waste."""
    for number, volume in enumerate(world.volumes):
        ec2 = account.client("ec2", volume.region)
        tags = [{"ResourceType": "volume", "Tags": [{"Key": "Name", "Value": f"data-{number:02}"}]}]
        made = ec2.create_volume(
            AvailabilityZone=_zone(ec2, ids, volume.node, volume.region),
            Size=volume.size_gib,
            VolumeType="gp3",
            TagSpecifications=tags,
        )
        if volume.node is not None:
            ec2.attach_volume(Device="/dev/sdf", InstanceId=ids[volume.node], VolumeId=made["VolumeId"])
    idle = []
    for region, key in world.addresses:
        ec2 = account.client("ec2", region)
        address = ec2.allocate_address(Domain="vpc")["AllocationId"]
        ec2.create_tags(Resources=[address], Tags=[{"Key": k, "Value": v} for k, v in SIMULATED.items()])
        if key is None:
            idle.append(address)
        else:
            ec2.associate_address(AllocationId=address, InstanceId=ids[key])
    return idle


def _zone(ec2, ids: dict[str, str], key: str | None, region: str) -> str:
    if key is None:
        return f"{region}a"
    found = ec2.describe_instances(InstanceIds=[ids[key]])
    return found["Reservations"][0]["Instances"][0]["Placement"]["AvailabilityZone"]
