"""AWS's Price List: a WSGI layer around moto's server, which has no such service.

Follows the Price List API reference, page `GetProducts` (JSON 1.1, filters of type
`TERM_MATCH`; `moto_faults` cuts pages), and the AWS Billing user guide, page "Reading the
service price list files", for what a product looks like. Each type comes in dedicated
tenancy too, which a filter must keep out. A region with a list has Fargate's price of x86
too, by the usage types that `AmazonECS` names it by, beside that of Fargate Spot, and some of
storage and of addresses (EBS user guide, "Understand codes for Amazon EBS in billing and usage
reports"; gp3's throughput by the GiB a second).

- POST `/moto-api/ebb/prices` `{region: {type: USD an hour}}` what the list then has
"""

import json
from typing import Any, Callable, Iterable

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_TARGET = "AWSPriceListService.GetProducts"


class Prices:
    """The layer; one for a server."""

    def __init__(self, app: App):
        self._app = app
        self._listed: dict[str, dict[str, float]] = {}

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == "/moto-api/ebb/prices":
            self._listed = _body(environ)
            return _answer(start, {})
        if environ.get("HTTP_X_AMZ_TARGET") != _TARGET:
            return self._app(environ, start)
        asked = _body(environ)
        wanted = {one["Field"]: one["Value"] for one in asked.get("Filters", [])}
        service = asked.get("ServiceCode")
        products = [one for one in self._products() if one["serviceCode"] == service and _fits(one, wanted)]
        return _answer(start, {"FormatVersion": "aws_v1", "PriceList": [json.dumps(one) for one in products]})

    def _products(self) -> Iterable[dict[str, Any]]:
        for region, types in self._listed.items():
            yield from _fargate(region)
            yield from _storage(region)
            for kind, usd in types.items():
                yield _product(region, kind, "Shared", usd)
                yield _product(region, kind, "Dedicated", usd * 1.06)


def _fits(product: dict[str, Any], wanted: dict[str, str]) -> bool:
    has = {"productFamily": product["product"]["productFamily"], **product["product"]["attributes"]}
    return all(has.get(field) == value for field, value in wanted.items())


def _storage(region: str) -> Iterable[dict[str, Any]]:
    told = [
        ("AmazonEC2", "Storage", "EBS:VolumeUsage.gp3", "GB-Mo", 0.078),
        ("AmazonEC2", "System Operation", "EBS:VolumeP-IOPS.gp3", "IOPS-Mo", 0.0048),
        ("AmazonEC2", "Provisioned Throughput", "EBS:VolumeP-Throughput.gp3", "GiBps-mo", 39.936),
        ("AmazonEC2", "Storage Snapshot", "EBS:SnapshotUsage", "GB-Mo", 0.049),
        ("AmazonVPC", "VpcPublicIPv4Address", "PublicIPv4:InUseAddress", "Hrs", 0.006),
        ("AmazonVPC", "VpcPublicIPv4Address", "PublicIPv4:IdleAddress", "Hrs", 0.004),
    ]
    for service, family, usage, unit, price in told:
        attributes = {"regionCode": region, "usagetype": usage}
        if service == "AmazonVPC":
            attributes["group"] = "VPCPublicIPv4Address"
        rate = {"unit": unit, "pricePerUnit": {"USD": f"{price:.10f}"}}
        yield {
            "product": {"productFamily": family, "attributes": attributes, "sku": "SKU"},
            "serviceCode": service,
            "terms": {"OnDemand": {"SKU.JRTCKXETXF": {"priceDimensions": {"SKU.JRTCKXETXF.6YS6EN2CT7": rate}}}},
        }


def _fargate(region: str) -> Iterable[dict[str, Any]]:
    usd = {
        "USE1-SpotUsage-Fargate-vCPU-Hours:perCPU": 0.013,
        "USE1-Fargate-vCPU-Hours:perCPU": 0.05,
        "USE1-Fargate-GB-Hours": 0.005,
    }
    for usage, price in usd.items():
        attributes = {"regionCode": region, "usagetype": usage}
        rate = {"unit": "hours", "pricePerUnit": {"USD": f"{price:.10f}"}}
        yield {
            "product": {"productFamily": "Compute", "attributes": attributes, "sku": "SKU"},
            "serviceCode": "AmazonECS",
            "terms": {"OnDemand": {"SKU.JRTCKXETXF": {"priceDimensions": {"SKU.JRTCKXETXF.6YS6EN2CT7": rate}}}},
        }


def _product(region: str, kind: str, tenancy: str, usd: float) -> dict[str, Any]:
    attributes = {
        "instanceType": kind,
        "regionCode": region,
        "tenancy": tenancy,
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    rate = {"unit": "Hrs", "beginRange": "0", "endRange": "Inf", "pricePerUnit": {"USD": f"{usd:.10f}"}}
    term = {"effectiveDate": "2026-11-01T00:00:00Z", "priceDimensions": {"SKU.JRTCKXETXF.6YS6EN2CT7": rate}}
    return {
        "product": {"productFamily": "Compute Instance", "attributes": attributes, "sku": "SKU"},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {"SKU.JRTCKXETXF": term}},
    }


def _body(environ: dict[str, Any]) -> dict[str, Any]:
    return json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))


def _answer(start: Callable[..., Any], told: dict[str, Any]) -> Iterable[bytes]:
    body = json.dumps(told).encode()
    start("200 OK", [("Content-Type", "application/x-amz-json-1.1"), ("Content-Length", str(len(body)))])
    return [body]
