"""CloudWatch: GetMetricData and ListMetrics in the protocol that newer SDKs speak.

Follows the Smithy specification, page "Smithy RPC v2 CBOR protocol": POST to
`/service/GraniteServiceVersion20100801/operation/OPERATION` with a CBOR
body. moto 5.2.5 knows the older query and JSON protocols alone and answers 404.
ListMetrics follows its page of the CloudWatch API reference: a dimension of the filter
may be a name alone, and `RecentlyActive` is `PT3H`. Its pages hold one metric instead
of 500, so that they are seen to be asked for.
"""

import re
from datetime import datetime, timedelta, timezone
from typing import Any, Callable

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.parsers import RpcV2CBORParser
from botocore.serialize import RpcV2CBORSerializer
from moto.cloudwatch import urls
from moto.cloudwatch.models import cloudwatch_backends
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.exceptions import ServiceException

_PATH = "{0}/service/GraniteServiceVersion20100801/operation/"
_METRICS_A_PAGE = 1
_HEADERS = {"content-type": "application/cbor", "smithy-protocol": "rpc-v2-cbor"}


def _decode(body: bytes) -> dict[str, Any]:
    parser = RpcV2CBORParser()
    return parser.parse_data_item(parser.get_peekable_stream_from_bytes(body))


def _encode(operation: str, answer: dict[str, Any]) -> bytes:
    model = ServiceModel(Loader().load_service_model("cloudwatch", "service-2"))
    encoded = bytearray()
    shape = model.operation_model(operation).output_shape
    RpcV2CBORSerializer()._serialize_data_item(encoded, answer, shape)
    return bytes(encoded)


def _plain(when: datetime) -> datetime:
    """UTC without saying so, as moto keeps times."""
    return when.astimezone(timezone.utc).replace(tzinfo=None)


def _result(result: dict[str, Any]) -> dict[str, Any]:
    return {
        "Id": result["id"],
        "Label": result["label"],
        "Timestamps": [when.replace(tzinfo=timezone.utc) for when in result["timestamps"]],
        "Values": [float(value) for value in result["values"]],
        "StatusCode": result["status_code"],
    }


def _get_metric_data(backend: Any, asked: dict[str, Any]) -> dict[str, Any]:
    results = backend.get_metric_data(
        queries=asked["MetricDataQueries"],
        start_time=_plain(asked["StartTime"]),
        end_time=_plain(asked["EndTime"]),
        scan_by=asked.get("ScanBy", "TimestampDescending"),
    )
    return {"MetricDataResults": [_result(result) for result in results]}


def _list_metrics(backend: Any, asked: dict[str, Any]) -> dict[str, Any]:
    since = datetime.min
    if asked.get("RecentlyActive") == "PT3H":
        since = _plain(datetime.now(timezone.utc)) - timedelta(hours=3)
    wanted = {(on["Name"], on.get("Value")) for on in asked.get("Dimensions", [])}
    found = set()
    for one in backend.get_all_metrics():
        dimensions = {on.name: on.value for on in one.dimensions}
        is_wanted = (
            asked.get("Namespace") in (None, one.namespace)
            and asked.get("MetricName") in (None, one.name)
            and all(name in dimensions and value in (None, dimensions[name]) for name, value in wanted)
            and one.timestamp.replace(tzinfo=None) >= since
        )
        if is_wanted:
            found.add((one.namespace, one.name, tuple(sorted(dimensions.items()))))
    first = int(asked.get("NextToken") or 0)
    last = first + _METRICS_A_PAGE
    metrics = [
        {"Namespace": namespace, "MetricName": name, "Dimensions": [{"Name": n, "Value": v} for n, v in dimensions]}
        for namespace, name, dimensions in sorted(found)[first:last]
    ]
    return {"Metrics": metrics} | ({"NextToken": str(last)} if last < len(found) else {})


_OPERATIONS: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
    "GetMetricData": _get_metric_data,
    "ListMetrics": _list_metrics,
}


def _respond(request: Any, full_url: str, headers: Any) -> tuple[int, dict[str, str], bytes]:
    scope = re.search(r"Credential=[^/]+/\d+/([^/]+)/", request.headers.get("Authorization", ""))
    operation = full_url.rsplit("/", 1)[-1]
    backend = cloudwatch_backends[DEFAULT_ACCOUNT_ID][scope.group(1) if scope else "us-east-1"]
    try:
        told = _OPERATIONS[operation](backend, _decode(request.get_data()))
    except ServiceException as error:
        # One text item in a map of one: {"__type": code}.
        code = error.code.encode()
        return 400, _HEADERS, b"\xa1\x66__type\x78" + bytes([len(code)]) + code
    return 200, _HEADERS, _encode(operation, told)


def install() -> None:
    """Serves the operations; call before the server starts."""
    for operation in _OPERATIONS:
        urls.url_paths[_PATH + operation] = _respond
