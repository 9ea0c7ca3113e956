"""Compute Optimizer, Cost Optimization Hub and the Spot Instance Advisor's public file: a
WSGI layer around moto's server.

Follows the Compute Optimizer API reference, page `GetEC2InstanceRecommendations`, and
the Cost Optimization Hub reference, page `ListRecommendations`. moto 5.2.5 has neither
service. Until something is said they are not switched on: `OptInRequiredException`, and
`AccessDeniedException` for an account that is not enrolled.

Newer SDKs speak to the first in CBOR (Smithy specification, page "Smithy RPC v2 CBOR
protocol"), to the second in JSON.

- POST `/moto-api/ebb/advisers` `{"optimizer"?: [InstanceRecommendation],
  "hub"?: [Recommendation]}`
- POST `/moto-api/ebb/spot-advisor` what GET `/spot-advisor-data.json` then answers
"""

import json
import re
import struct
from typing import Any, Callable, Iterable

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_SCOPE = re.compile(r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/")
_OFF = {
    "compute-optimizer": ("OptInRequiredException", "You are not registered for Compute Optimizer."),
    "cost-optimization-hub": ("AccessDeniedException", "Account is not enrolled for recommendations."),
}


class Advisers:
    """The layer; one for a server."""

    def __init__(self, app: App):
        self._app = app
        self._said: dict[str, list[dict[str, Any]]] = {}
        self._spot: dict[str, Any] = {}

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == "/moto-api/ebb/advisers":
            self._said = json.loads(_body(environ))
            return _answer(start, "200 OK", {}, environ)
        if environ.get("PATH_INFO") == "/moto-api/ebb/spot-advisor":
            self._spot = json.loads(_body(environ))
            return _answer(start, "200 OK", {}, environ)
        if environ.get("PATH_INFO") == "/spot-advisor-data.json":
            return _answer(start, "200 OK", self._spot, environ)
        scope = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
        region, service = scope.groups() if scope else ("", "")
        if service not in _OFF:
            return self._app(environ, start)
        name = "optimizer" if service == "compute-optimizer" else "hub"
        if name not in self._said:
            code, words = _OFF[service]
            return _answer(start, "400 Bad Request", {"__type": code, "message": words}, environ)
        said = self._said[name]
        if name == "optimizer":
            here = [one for one in said if f":{region}:" in one["instanceArn"]]
            return _answer(start, "200 OK", {"instanceRecommendations": here, "errors": []}, environ)
        wanted = json.loads(_body(environ)).get("filter", {}).get("regions")
        here = [one for one in said if one["region"] in wanted]
        return _answer(start, "200 OK", {"items": here}, environ)


def _body(environ: dict[str, Any]) -> bytes:
    return environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))


def _packed(told: Any) -> bytes:
    """As much of CBOR as these answers need."""
    if isinstance(told, str):
        return _head(3, len(told.encode())) + told.encode()
    if isinstance(told, dict):
        return _head(5, len(told)) + b"".join(_packed(k) + _packed(v) for k, v in told.items())
    if isinstance(told, list):
        return _head(4, len(told)) + b"".join(map(_packed, told))
    if isinstance(told, int):
        return _head(0, told)
    return b"\xfb" + struct.pack(">d", told)


def _head(kind: int, number: int) -> bytes:
    return bytes([kind << 5 | 25]) + number.to_bytes(2, "big")


def _answer(
    start: Callable[..., Any], status: str, told: dict[str, Any], environ: dict[str, Any]
) -> Iterable[bytes]:
    packed = environ.get("HTTP_SMITHY_PROTOCOL") == "rpc-v2-cbor"
    body = _packed(told) if packed else json.dumps(told).encode()
    kind = "application/cbor" if packed else "application/x-amz-json-1.0"
    more = [("smithy-protocol", "rpc-v2-cbor")] if packed else []
    start(status, [("Content-Type", kind), ("Content-Length", str(len(body))), *more])
    return [body]
