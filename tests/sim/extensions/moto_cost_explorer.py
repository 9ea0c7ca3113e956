"""Cost Explorer: cost by resource, service and tag and day, for the last 14 days.

Follows the Cost Explorer API reference, pages `GetCostAndUsageWithResources` and
`GetCostAndUsage` (keys of tag groups are `Tag$value`): daily or hourly, `Filter` required, at most two `GroupBy`, 14 days back, pages
by `NextPageToken`, `Estimated` for open days; amounts are decimal strings. moto
5.2.5 answers 500, and nothing of its own. Filters are understood as far as `SERVICE`,
`RECORD_TYPE` and `RESOURCE_ID` with `And` and `Not`; anything else is refused rather than ignored.

`GetSavingsPlansUtilizationDetails` (its page: grouped by plan) tells what was put there, and
`DataUnavailableException` where nothing was; `moto_faults` makes pages of it.

- POST `/moto-api/ebb/ce/savings-plans` `{"plans": [SavingsPlansUtilizationDetail]}`
- POST `/moto-api/ebb/ce/resource-costs` `{"costs": [{"date", "resourceId",
  "region", "usd", "service"?, "tags"?, "recordType"?}]}`, usage of EC2 compute unless it says otherwise; a
  service's rows without a resource have the id `NoResourceId`.
"""

import json
from datetime import date, datetime, timedelta, timezone
from typing import Any, Callable

from moto.ce.responses import CostExplorerResponse
from moto.core.exceptions import JsonRESTError

from .moto_endpoints import Body, register

EC2_SERVICE = "Amazon Elastic Compute Cloud - Compute"
_DAYS_KEPT = 14
_GROUPS_PER_PAGE = 500
_METRICS = {"AmortizedCost", "BlendedCost", "NetAmortizedCost", "NetUnblendedCost", "UnblendedCost"}
_DIMENSIONS: dict[str, Callable[[Body], str]] = {
    "RESOURCE_ID": lambda row: row["resourceId"],
    "REGION": lambda row: row["region"],
    "SERVICE": lambda row: row["service"],
    "RECORD_TYPE": lambda row: row["recordType"],
}

_rows: list[Body] = []
_plans: list[Body] = []


class ValidationException(JsonRESTError):
    """What Cost Explorer answers to a request that it cannot serve."""

    def __init__(self, message: str):
        super().__init__("ValidationException", message)


def _add_costs(body: Body) -> None:
    for row in body["costs"]:
        plain = {k: row[k] for k in ("resourceId", "region", "usd")}
        more = {"service": row.get("service", EC2_SERVICE), "tags": row.get("tags", {})}
        more["recordType"] = row.get("recordType", "Usage")
        _rows.append({"date": date.fromisoformat(row["date"]), **plain, **more})


def _matches(expression: Body, row: Body) -> bool:
    if "And" in expression:
        return all(_matches(part, row) for part in expression["And"])
    if "Not" in expression:
        return not _matches(expression["Not"], row)
    if list(expression) != ["Dimensions"]:
        raise ValidationException(f"the simulator knows And, Not and Dimensions, not {', '.join(expression)}")
    dimension = expression["Dimensions"]
    if dimension["Key"] not in _DIMENSIONS:
        raise ValidationException(f"the simulator does not filter by {dimension['Key']}")
    return _DIMENSIONS[dimension["Key"]](row) in dimension["Values"]


def _period(request: Body) -> tuple[date, date]:
    period = request["TimePeriod"]
    start, end = (date.fromisoformat(period[k][:10]) for k in ("Start", "End"))
    today = datetime.now(timezone.utc).date()
    if start >= end:
        raise ValidationException("Start date (and hour) should be before end date (and hour)")
    if start < today - timedelta(days=_DAYS_KEPT):
        raise ValidationException("Cannot retrieve resource level data from more than 14 days ago")
    return start, end


def _key(by: Body, row: Body) -> str:
    if by["Type"] == "TAG":
        return f"{by['Key']}${row['tags'].get(by['Key'], '')}"
    return _DIMENSIONS[by["Key"]](row)


def _groups(rows: list[Body], keys: list[Body], metrics: list[str]) -> list[Body]:
    sums: dict[tuple[str, ...], float] = {}
    for row in rows:
        group = tuple(_key(by, row) for by in keys)
        sums[group] = sums.get(group, 0.0) + row["usd"]
    return [{"Keys": list(group), "Metrics": _amounts(usd, metrics)} for group, usd in sorted(sums.items())]


def _amounts(usd: float, metrics: list[str]) -> Body:
    return {metric: {"Amount": f"{usd:.10f}", "Unit": "USD"} for metric in metrics}


def _days(request: Body) -> list[Body]:
    """One `ResultByTime` a day of the period."""
    start, end = _period(request)
    keys = request.get("GroupBy", [])
    metrics = request.get("Metrics", ["UnblendedCost"])
    known = [by["Type"] == "TAG" or by["Key"] in _DIMENSIONS for by in keys]
    if len(keys) > 2 or not all(known):
        raise ValidationException(f"cannot group by {', '.join(by['Key'] for by in keys)}")
    if not set(metrics) <= _METRICS:
        raise ValidationException(f"unknown metric in {', '.join(metrics)}")
    today = datetime.now(timezone.utc).date()
    results = []
    for day in (start + timedelta(days=n) for n in range((end - start).days)):
        wanted = request.get("Filter")
        rows = [r for r in _rows if r["date"] == day and (wanted is None or _matches(wanted, r))]
        results.append(
            {
                "TimePeriod": {"Start": day.isoformat(), "End": (day + timedelta(days=1)).isoformat()},
                "Total": {} if keys else _amounts(sum(r["usd"] for r in rows), metrics),
                "Groups": _groups(rows, keys, metrics) if keys else [],
                # The bill of a day closes only after the day does.
                "Estimated": day >= today - timedelta(days=1),
            }
        )
    return results


def _page(results: list[Body], offset: int) -> Body:
    """Results from the group `offset` on, at most one page of groups."""
    flat = [(day, group) for day in results for group in day["Groups"]]
    if len(flat) <= _GROUPS_PER_PAGE:
        return {"ResultsByTime": results}
    window = flat[offset : offset + _GROUPS_PER_PAGE]
    days = [{**day, "Groups": [g for d, g in window if d is day]} for day in results]
    page: dict[str, Any] = {"ResultsByTime": [day for day in days if day["Groups"]]}
    if offset + _GROUPS_PER_PAGE < len(flat):
        page["NextPageToken"] = str(offset + _GROUPS_PER_PAGE)
    return page


def _get_cost_and_usage_with_resources(self: CostExplorerResponse) -> str:
    request = json.loads(self.body)
    if request.get("Granularity") != "DAILY":
        raise ValidationException("the simulator has DAILY granularity only")
    if "Filter" not in request:
        raise ValidationException("Filter is required: group by or filter by RESOURCE_ID with a SERVICE")
    page = _page(_days(request), int(request.get("NextPageToken") or 0))
    return json.dumps({**page, "GroupDefinitions": request.get("GroupBy", []), "DimensionValueAttributes": []})


def _get_cost_and_usage(self: CostExplorerResponse) -> str:
    request = json.loads(self.body)
    if request.get("Granularity") != "DAILY":
        raise ValidationException("the simulator has DAILY granularity only")
    page = _page(_days(request), int(request.get("NextPageToken") or 0))
    return json.dumps({**page, "GroupDefinitions": request.get("GroupBy", []), "DimensionValueAttributes": []})


def _get_savings_plans_utilization_details(self: CostExplorerResponse) -> str:
    request = json.loads(self.body)
    if request["TimePeriod"]["Start"] >= request["TimePeriod"]["End"]:
        raise ValidationException("Start date should be before end date")
    if not _plans:
        raise JsonRESTError("DataUnavailableException", "There is no data of Savings Plans")
    return json.dumps({"SavingsPlansUtilizationDetails": _plans, "TimePeriod": request["TimePeriod"]})


def _set_plans(body: Body) -> None:
    _plans[:] = body["plans"]


def install() -> None:
    """Adds the calls and the endpoint that fills them."""
    CostExplorerResponse.get_cost_and_usage = _get_cost_and_usage
    CostExplorerResponse.get_cost_and_usage_with_resources = _get_cost_and_usage_with_resources
    CostExplorerResponse.get_savings_plans_utilization_details = _get_savings_plans_utilization_details
    register("ce/resource-costs", _add_costs)
    register("ce/savings-plans", _set_plans)
