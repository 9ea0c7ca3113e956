"""EC2: instances with an age, spot prices that look like prices, scores, and reservations.

Follows the EC2 API reference, pages `Instance` (`launchTime`: "The time that
the instance was last launched") and `DescribeSpotPriceHistory` (`SpotPrice`
objects: availability zone, type, product, price, time), `ReservedInstances` and
`GetSpotPlacementScores` (`SpotPlacementScore`: region, score of 1 to 10, always low for
fewer than three types). moto 5.2.5 launches everything now, answers 0.00001 of the year
2006 for every type, and knows neither reservations nor scores.

- POST `/moto-api/ebb/ec2/launch-times` `{"region", "instances": {id: epoch seconds}}`
- POST `/moto-api/ebb/ec2/spot-prices` `{"region", "usd_per_hour": {type: price}}`
- POST `/moto-api/ebb/ec2/reserved-instances` `{"region", "reserved": [ReservedInstances]}`
- POST `/moto-api/ebb/ec2/spot-scores` `{"scores": {region: score}}`
"""

from datetime import datetime, timedelta, timezone
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult
from moto.ec2.models import ec2_backends
from moto.ec2.responses.reserved_instances import ReservedInstances
from moto.ec2.responses.spot_instances import SpotInstances

from .moto_endpoints import Body, register

_spot_usd_per_hour: dict[str, dict[str, float]] = {}
_reserved: dict[str, list[dict[str, Any]]] = {}
_scores: dict[str, int] = {}
# Zones of a region differ by a few per cent; the price stands for hours at a time.
_ZONE_STEP = 0.03
_PRICE_STANDS = timedelta(hours=5)


def _set_launch_times(body: Body) -> None:
    backend = ec2_backends[DEFAULT_ACCOUNT_ID][body["region"]]
    for instance_id, epoch in body["instances"].items():
        instance = backend.get_instance(instance_id)
        instance.launch_time = datetime.fromtimestamp(epoch, timezone.utc).replace(tzinfo=None)


def _set_spot_prices(body: Body) -> None:
    _spot_usd_per_hour[body["region"]] = {k: float(v) for k, v in body["usd_per_hour"].items()}


def _set_reserved(body: Body) -> None:
    _reserved[body["region"]] = body["reserved"]


def _set_scores(body: Body) -> None:
    _scores.update(body["scores"])


def _get_spot_placement_scores(self: SpotInstances) -> ActionResult:
    """Those of the regions asked for; a request says how many machines it is about."""
    assert self._get_param("TargetCapacity") is not None
    enough = len(self._get_param("InstanceTypes", [])) >= 3
    asked = [region for region in self._get_param("RegionNames", []) if region in _scores]
    scores = [{"Region": region, "Score": _scores[region] if enough else 1} for region in asked]
    return ActionResult({"SpotPlacementScores": scores})


def _describe_reserved_instances(self: ReservedInstances) -> ActionResult:
    """Those of the account that the world is in."""
    mine = self.current_account == DEFAULT_ACCOUNT_ID
    return ActionResult({"ReservedInstances": _reserved.get(self.region, []) if mine else []})


def _describe_spot_price_history(self: SpotInstances) -> ActionResult:
    """Newest price a type and zone, for the types that were seeded."""
    prices = _spot_usd_per_hour.get(self.region, {})
    wanted = self._get_param("InstanceTypes", [])
    offers = self.ec2_backend.describe_spot_price_history(wanted, self._filters_from_querystring())
    now = datetime.now(timezone.utc)
    history: list[dict[str, Any]] = []
    for offer in sorted(offers, key=lambda o: (o["InstanceType"], o["Location"])):
        base = prices.get(offer["InstanceType"])
        if base is None:
            continue
        zone = ord(offer["Location"][-1]) - ord("a")
        history.append(
            {
                "InstanceType": offer["InstanceType"],
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": f"{base * (1 + _ZONE_STEP * zone):.6f}",
                "AvailabilityZone": offer["Location"],
                "Timestamp": now - _PRICE_STANDS,
            }
        )
    return ActionResult({"SpotPriceHistory": history})


def install() -> None:
    """Adds the endpoints and replaces the answers."""
    register("ec2/launch-times", _set_launch_times)
    register("ec2/spot-prices", _set_spot_prices)
    register("ec2/reserved-instances", _set_reserved)
    register("ec2/spot-scores", _set_scores)
    SpotInstances.describe_spot_price_history = _describe_spot_price_history
    SpotInstances.get_spot_placement_scores = _get_spot_placement_scores  # type: ignore[attr-defined]
    ReservedInstances.describe_reserved_instances = _describe_reserved_instances
