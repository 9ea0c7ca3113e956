"""What goes wrong in a real account, before moto: a WSGI layer around its server.

It refuses, throttles or hangs by account, region and service; forgets one resource
between two calls; answers in small pages; and keeps a list of the calls. Codes follow
the EC2 API reference, page "Error codes" (`UnauthorizedOperation`,
`RequestLimitExceeded`), the Batch and ECS references, page "Common errors"
(`AccessDeniedException`, `ThrottlingException`), and the ECS Developer Guide, page "API
failure reasons" (`MISSING`); pages the `NextToken` or `nextToken` of each operation.

- POST `/moto-api/ebb/faults` `{"faults": [{"kind": "refuse" | "throttle" | "hang" |
  "vanish", "region"?, "service"?, "action"?, "account"?, "times"?, "seconds"?,
  "resource"?}],
  "pages"?}` replaces what was set before; every list comes in so many pages
- GET `/moto-api/ebb/calls` `[{"service", "region", "account", "action", "token"}]`
"""

import io
import json
import re
import threading
import time
import xml.etree.ElementTree as ElementTree
from typing import Any, Callable, Iterable
from urllib.parse import parse_qs, urlencode

from moto.iam.models import get_account_id_from

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# The list that an operation answers, by the path or name that asks for it.
_XML_LISTS = {
    "DescribeInstances": "reservationSet",
    "DescribeVolumes": "volumeSet",
    "DescribeSnapshots": "snapshotSet",
    "DescribeImages": "imagesSet",
    "DescribeSpotPriceHistory": "spotPriceHistorySet",
    "DescribeInstanceTypeOfferings": "instanceTypeOfferingSet",
    "DescribeInstanceTypes": "instanceTypeSet",
}
_JSON_LISTS = {
    "DescribeComputeEnvironments": "computeEnvironments",
    "DescribeJobQueues": "jobQueues",
    "ListJobs": "jobSummaryList",
    "ListContainerInstances": "containerInstanceArns",
    "ListTasks": "taskArns",
    "ListAccounts": "Accounts",
    "GetProducts": "PriceList",
    "GetSavingsPlansUtilizationDetails": "SavingsPlansUtilizationDetails",
}
# Batch names its operations in lower case.
_BATCH = {name.lower(): name for name in (*_JSON_LISTS, "DescribeJobs", "GetJobQueueSnapshot")}
_SCOPE = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/")


class Faults:
    """The layer; one for a server."""

    def __init__(self, app: App):
        self._app = app
        self._lock = threading.Lock()
        self._faults: list[dict[str, Any]] = []
        self._pages = 1
        self._calls: list[dict[str, Any]] = []
        self._rendered: dict[bytes, tuple[dict[str, Any], bytes]] = {}

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if path == "/moto-api/ebb/faults":
            return self._set(json.loads(body), start)
        if path == "/moto-api/ebb/calls":
            return _answer(start, 200, "application/json", json.dumps(self._calls).encode())
        call = self._call(environ, path, body)
        if call is not None and call["token"] is not None:
            body = _from_the_first(call, body)
            environ["CONTENT_LENGTH"] = str(len(body))
        environ["wsgi.input"] = io.BytesIO(body)
        if call is None:
            return self._app(environ, start)
        for fault in self._due(call):
            if fault["kind"] == "hang":
                time.sleep(fault.get("seconds", 5))
            elif fault["kind"] != "vanish":
                return _refusal(start, call, fault["kind"])
        return self._paged(environ, start, call)

    def _set(self, body: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            self._faults = body["faults"]
            self._pages = body.get("pages", 1)
            self._calls = []
        return _answer(start, 200, "application/json", b"{}")

    def _call(self, environ: dict[str, Any], path: str, body: bytes) -> dict[str, Any] | None:
        scope = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
        if scope is None:
            return None
        key, region, service = scope.groups()
        action, token = action_of(environ, path, body)
        call = {"service": service, "region": region, "account": get_account_id_from(key), "action": action, "token": token}
        with self._lock:
            self._calls.append(call)
        return call

    def _due(self, call: dict[str, Any]) -> list[dict[str, Any]]:
        """The faults that this call meets; those with a number of times wear out."""
        due = []
        with self._lock:
            for fault in self._faults:
                names = ("region", "service", "action", "account")
                if all(fault.get(name) in (None, call[name]) for name in names) and fault.get("times", 1) > 0:
                    if "times" in fault:
                        fault["times"] -= 1
                    due.append(fault)
        return due

    def _paged(self, environ: dict[str, Any], start: Callable[..., Any], call: dict[str, Any]) -> Iterable[bytes]:
        told, answer = self._whole(environ, call)
        good = told["status"].startswith("200")
        for fault in self._matching(call):
            if good and fault["kind"] == "vanish":
                answer = _vanished(answer, call, fault.get("resource"))
        if good and self._pages > 1:
            answer = _page(answer, call, self._pages)
        headers = [(k, v) for k, v in told["headers"] if k.lower() not in ("content-length", "x-amz-crc32")]
        start(told["status"], [*headers, ("Content-Length", str(len(answer)))])
        return [answer]

    def _whole(self, environ: dict[str, Any], call: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """What moto answers. Its machine types are the same in all regions and never change, and
        it takes five seconds to write them, so each request for them is answered once."""
        body = environ["wsgi.input"].getvalue()
        if body in self._rendered:
            return self._rendered[body]
        told: dict[str, Any] = {}

        def kept(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            told.update(status=status, headers=headers)

        answer = b"".join(self._app(environ, kept))
        if call["action"] == "DescribeInstanceTypes":
            self._rendered[body] = (told, answer)
        return told, answer

    def _matching(self, call: dict[str, Any]) -> list[dict[str, Any]]:
        names = ("region", "service", "action", "account")
        return [f for f in self._faults if all(f.get(n) in (None, call[n]) for n in names)]


def action_of(environ: dict[str, Any], path: str, body: bytes) -> tuple[str, str | None]:
    """The name of the operation, and the token of its page."""
    target = environ.get("HTTP_X_AMZ_TARGET")
    if target is not None or path.startswith("/v1/"):
        # A large body is packed, and none of those has pages.
        asked = json.loads(body) if body[:1] == b"{" else {}
        name = target.rsplit(".", 1)[-1] if target else path.rsplit("/", 1)[-1]
        token = asked.get("nextToken") or asked.get("NextToken") 
        return _BATCH.get(name, name), token
    form = parse_qs(body.decode(errors="replace"))
    return form.get("Action", [path.rsplit("/", 1)[-1]])[0], form.get("NextToken", [None])[0]


def _from_the_first(call: dict[str, Any], body: bytes) -> bytes:
    """The same request without its token: moto tells everything, and the page is cut here."""
    if call["service"] == "ec2":
        form = {k: v for k, v in parse_qs(body.decode()).items() if k != "NextToken"}
        return urlencode(form, doseq=True).encode()
    asked = {k: v for k, v in json.loads(body).items() if k.lower() != "nexttoken"}
    return json.dumps(asked).encode()


def _refusal(start: Callable[..., Any], call: dict[str, Any], kind: str) -> Iterable[bytes]:
    throttled = kind == "throttle"
    if call["service"] == "ec2":
        code = "RequestLimitExceeded" if throttled else "UnauthorizedOperation"
        text = f"<Response><Errors><Error><Code>{code}</Code><Message>made to fail</Message></Error></Errors></Response>"
        return _answer(start, 503 if throttled else 403, "text/xml", text.encode())
    code = "ThrottlingException" if throttled else "AccessDeniedException"
    text = json.dumps({"__type": code, "message": "made to fail"})
    return _answer(start, 400 if throttled else 403, "application/json", text.encode(), [("x-amzn-ErrorType", code)])


def _vanished(answer: bytes, call: dict[str, Any], resource: str | None) -> bytes:
    """The first container instance has left the cluster since it was listed, or EC2 knows
    an instance no more that ECS still has."""
    if call["action"] == "DescribeInstances" and resource is not None:
        root = ElementTree.fromstring(answer)
        space = root.tag[: root.tag.index("}") + 1]
        all_there = root.find(f"{space}reservationSet")
        for reservation in list(all_there):
            if any(one.text == resource for one in reservation.iter(f"{space}instanceId")):
                all_there.remove(reservation)
        return ElementTree.tostring(root)
    if call["action"] != "DescribeContainerInstances" or resource is not None:
        return answer
    told = json.loads(answer)
    gone, *told["containerInstances"] = told["containerInstances"]
    told["failures"] = [{"arn": gone["containerInstanceArn"], "reason": "MISSING"}]
    return json.dumps(told).encode()


def _page(answer: bytes, call: dict[str, Any], pages: int) -> bytes:
    begin = int(call["token"] or 0)
    name = call["action"]
    if name in _XML_LISTS and call["service"] == "ec2":
        root = ElementTree.fromstring(answer)
        space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
        if space:
            ElementTree.register_namespace("", space[1:-1])
        found = root.find(f"{space}{_XML_LISTS[name]}")
        items = [] if found is None else list(found)
        if len(items) < pages:
            return answer
        size = -(-len(items) // pages)
        for item in items[:begin] + items[begin + size :]:
            found.remove(item)
        for old in root.findall(f"{space}nextToken"):
            root.remove(old)
        if begin + size < len(items):
            ElementTree.SubElement(root, f"{space}nextToken").text = str(begin + size)
        return ElementTree.tostring(root)
    if name in _JSON_LISTS:
        told = json.loads(answer)
        items = told.get(_JSON_LISTS[name], [])
        size = max(1, -(-len(items) // pages))
        told[_JSON_LISTS[name]] = items[begin : begin + size]
        large = ("ListAccounts", "GetProducts", "GetSavingsPlansUtilizationDetails")
        token = "NextToken" if name in large else "nextToken"
        told.pop(token, None)
        if begin + size < len(items):
            told[token] = str(begin + size)
        return json.dumps(told).encode()
    return answer


def _answer(
    start: Callable[..., Any], status: int, kind: str, body: bytes, more: list[tuple[str, str]] | None = None
) -> Iterable[bytes]:
    start(f"{status} made", [("Content-Type", kind), ("Content-Length", str(len(body))), *(more or [])])
    return [body]
