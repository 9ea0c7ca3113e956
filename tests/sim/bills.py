"""Fills Cost Explorer and CloudWatch, for which the seed has no clock of its own."""

import random
from datetime import datetime, time, timedelta, timezone
from typing import Any

from account import Account
from catalogue import REGIONS, usd_per_hour
from world import Node, World

_DAYS = 14
_PERIOD_S = 300
_HOURS_OF_METRICS = 2
# Share of the list price that remains after the account's savings plan.
_NET_SHARE = {"on-demand": 0.82, "spot": 1.0}
# (mean CPU in per cent, bytes a second in and out) by profile.
_LOAD = {
    "busy": (72.0, 2_000_000),
    "probe": (40.0, 500_000),
    "silent": (55.0, 900_000),
    "bursty": (18.0, 300_000),
    "light": (6.0, 60_000),
    "quiet": (0.6, 300),
    "gappy": (0.6, 300),
}


# Costs of other services of the account a day, and a cost without a resource.
_OTHER_SERVICES = {"Amazon Simple Storage Service": 3.1415926535, "Amazon Elastic Block Store": 0.8, "Amazon SageMaker": 1.25}
_NO_RESOURCE_USD = 0.07
# A part of S3 that has the tag of Ebb's resources, as if its tag were an active cost allocation tag.
_EBB_USD = 0.021


def add_costs(account: Account, world: World, ids: dict[str, str], now: float) -> None:
    """Bills each instance for the hours of each day that it has lived, and other services."""
    costs = [row for node in world.nodes for row in _cost_rows(node, ids[node.key], now)]
    today = datetime.fromtimestamp(now, timezone.utc).date()
    for day in (today - timedelta(days=back) for back in range(_DAYS, 0, -1)):
        nobody = {"date": day.isoformat(), "resourceId": "NoResourceId", "region": "us-east-1"}
        costs.append({**nobody, "usd": _NO_RESOURCE_USD})
        costs += [{**nobody, "service": name, "usd": usd} for name, usd in _OTHER_SERVICES.items()]
        costs.append({**nobody, "service": "Amazon Simple Storage Service", "usd": _EBB_USD, "tags": {"application": "ebb"}})
    account.extend("ce/resource-costs", {"costs": costs})


def _cost_rows(node: Node, instance_id: str, now: float) -> list[dict[str, Any]]:
    if node.state == "stopped":
        return []
    hourly = usd_per_hour(node.type_name, node.region, node.lifecycle) * _NET_SHARE[node.lifecycle]
    today = datetime.fromtimestamp(now, timezone.utc).date()
    rows = []
    for day in (today - timedelta(days=back) for back in range(_DAYS, -1, -1)):
        start = datetime.combine(day, time(), timezone.utc).timestamp()
        # The bill lags: it knows nothing of the last six hours.
        lived = min(start + 86400, now - 6 * 3600) - max(start, now - node.age_s)
        if lived > 0:
            usd = round(hourly * lived / 3600, 8)
            rows.append({"date": day.isoformat(), "resourceId": instance_id, "region": node.region, "usd": usd})
            rows[-1]["tags"] = {"Project": node.project}
    return rows


def add_metrics(account: Account, world: World, ids: dict[str, str], now: float) -> None:
    """Five-minute CPU and network metrics of running instances, two hours back."""
    rng = random.Random(f"metrics-{world.seed}")
    last = int(now) // _PERIOD_S * _PERIOD_S
    for region in REGIONS:
        data: list[dict[str, Any]] = []
        for node in world.nodes:
            if node.region == region and node.state == "running":
                data += _datums(rng, node, ids[node.key], last)
        watch = account.client("cloudwatch", region)
        for start in range(0, len(data), 1000):
            watch.put_metric_data(Namespace="AWS/EC2", MetricData=data[start : start + 1000])


def _datums(rng: random.Random, node: Node, instance_id: str, last: int) -> list[dict[str, Any]]:
    cpu, bytes_per_second = _LOAD[node.profile]
    dimensions = [{"Name": "InstanceId", "Value": instance_id}]
    oldest = max(_HOURS_OF_METRICS * 3600, _PERIOD_S)
    periods = range(_PERIOD_S, min(oldest, node.age_s) + 1, _PERIOD_S)
    data = []
    for back in periods:
        when = datetime.fromtimestamp(last - back, timezone.utc)
        shake = rng.uniform(0.9, 1.1)
        network = bytes_per_second * _PERIOD_S * shake / 2
        values = {"CPUUtilization": cpu * shake, "NetworkIn": network, "NetworkOut": network}
        for name, value in values.items():
            unit = "Percent" if name == "CPUUtilization" else "Bytes"
            data.append({"MetricName": name, "Dimensions": dimensions, "Timestamp": when, "Value": value, "Unit": unit})
    return data
