"""CloudWatch: GetMetricData in the protocol that newer SDKs speak.

Follows the Smithy specification, page "Smithy RPC v2 CBOR protocol": POST to
`/service/GraniteServiceVersion20100801/operation/GetMetricData` with a CBOR
body. moto 5.2.5 knows the older query and JSON protocols alone and answers 404.
"""

import re
from datetime import datetime, timezone
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.parsers import RpcV2CBORParser
from botocore.serialize import RpcV2CBORSerializer
from moto.cloudwatch import urls
from moto.cloudwatch.models import cloudwatch_backends
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.exceptions import ServiceException

_OPERATION = "GetMetricData"
_PATH = "{0}/service/GraniteServiceVersion20100801/operation/" + _OPERATION
_HEADERS = {"content-type": "application/cbor", "smithy-protocol": "rpc-v2-cbor"}


def _decode(body: bytes) -> dict[str, Any]:
    parser = RpcV2CBORParser()
    return parser.parse_data_item(parser.get_peekable_stream_from_bytes(body))


def _encode(answer: dict[str, Any]) -> bytes:
    model = ServiceModel(Loader().load_service_model("cloudwatch", "service-2"))
    encoded = bytearray()
    shape = model.operation_model(_OPERATION).output_shape
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


def _respond(request: Any, full_url: str, headers: Any) -> tuple[int, dict[str, str], bytes]:
    scope = re.search(r"Credential=[^/]+/\d+/([^/]+)/", request.headers.get("Authorization", ""))
    asked = _decode(request.get_data())
    backend = cloudwatch_backends[DEFAULT_ACCOUNT_ID][scope.group(1) if scope else "us-east-1"]
    try:
        results = backend.get_metric_data(
            queries=asked["MetricDataQueries"],
            start_time=_plain(asked["StartTime"]),
            end_time=_plain(asked["EndTime"]),
            scan_by=asked.get("ScanBy", "TimestampDescending"),
        )
    except ServiceException as error:
        # One text item in a map of one: {"__type": code}.
        code = error.code.encode()
        return 400, _HEADERS, b"\xa1\x66__type\x78" + bytes([len(code)]) + code
    told = [_result(result) for result in results]
    return 200, _HEADERS, _encode({"MetricDataResults": told})


def install() -> None:
    """Serves the operation; call before the server starts."""
    urls.url_paths[_PATH] = _respond
