"""AWS's own documented examples, answered over the wire on loopback.

`python examples.py` serves for each call of Ebb's the example responses that botocore
carries (`examples-1.json`, from the API references), prints one line `told {...}` with the
calls that have none, and ends when its input ends. Nothing is simulated: which example of a
call is told is set by POST `/moto-api/ebb/example` `{"n"}`, and a page that is asked for by
its token is the same without a next one.
"""

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from botocore.loaders import Loader
from botocore.exceptions import DataNotFoundError
from moto.core.serialize import SERIALIZERS
from moto.core.utils import get_service_model

# By the name that signs a request: botocore's name, and what Ebb calls.
_CALLS = {
    "ec2": (
        "ec2",
        "DescribeRegions DescribeInstances DescribeVolumes DescribeAddresses DescribeSnapshots DescribeImages "
        "DescribeSpotPriceHistory DescribeInstanceTypeOfferings DescribeInstanceTypes DescribeReservedInstances "
        "GetSpotPlacementScores",
    ),
    "batch": (
        "batch",
        "DescribeComputeEnvironments DescribeJobQueues ListJobs DescribeJobs GetJobQueueSnapshot",
    ),
    "ecs": ("ecs", "ListContainerInstances DescribeContainerInstances ListTasks DescribeTasks"),
    "monitoring": ("cloudwatch", "GetMetricData ListMetrics"),
    "ce": ("ce", "GetCostAndUsage GetCostAndUsageWithResources GetSavingsPlansUtilizationDetails"),
    "compute-optimizer": ("compute-optimizer", "GetEC2InstanceRecommendations"),
    "cost-optimization-hub": ("cost-optimization-hub", "ListRecommendations"),
    "organizations": ("organizations", "ListAccounts"),
    "sts": ("sts", "AssumeRole GetCallerIdentity"),
    "pricing": ("pricing", "GetProducts"),
}
_SCOPE = re.compile(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/")
_chosen = {"n": 0}


def _examples(service: str) -> dict[str, list[dict[str, Any]]]:
    loader = Loader()
    version = loader.determine_latest_version(service, "service-2")
    try:
        told = loader.load_service_model(service, "examples-1", version)
    except DataNotFoundError:
        return {}
    return {name: [one.get("output") or {} for one in each] for name, each in told["examples"].items()}


_EXAMPLES = {signed: _examples(service) for signed, (service, _) in _CALLS.items()}


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if self.path == "/moto-api/ebb/example":
            _chosen.update(json.loads(body))
            return self._send(200, {}, b"{}")
        scope = _SCOPE.search(self.headers.get("Authorization", ""))
        signed = scope.group(1) if scope else ""
        name = self._operation(signed, body)
        examples = _EXAMPLES.get(signed, {}).get(name, [])
        if not examples:
            return self._send(400, {}, f"there is no example of {signed}:{name}".encode())
        told = dict(examples[_chosen["n"] % len(examples)])
        if "NextToken" in body or "nextToken" in body:
            told = {key: value for key, value in told.items() if key.lower() != "nexttoken"}
        operation = get_service_model(_CALLS[signed][0]).operation_model(name)
        protocol = operation.service_model.metadata["protocol"]
        answer = SERIALIZERS[protocol](operation).serialize(told)
        text = answer["body"]
        self._send(answer["status_code"], answer["headers"], text if isinstance(text, bytes) else text.encode())

    def _operation(self, signed: str, body: str) -> str:
        target = self.headers.get("X-Amz-Target")
        if target:
            return target.rsplit(".", 1)[-1]
        if signed == "batch":
            names = _CALLS[signed][1].split()
            return {name.lower(): name for name in names}.get(self.path.rsplit("/", 1)[-1], self.path)
        return parse_qs(body).get("Action", [""])[0]

    def _send(self, status: int, headers: Any, body: bytes) -> None:
        self.send_response(status)
        for name, value in dict(headers).items():
            if name.lower() != "content-length":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def main() -> None:
    """Serves, tells, waits."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    calls = [(signed, name) for signed, (_, names) in _CALLS.items() for name in names.split()]
    told = {
        "moto": f"http://127.0.0.1:{server.server_port}",
        "without": sorted(f"{signed}:{name}" for signed, name in calls if not _EXAMPLES[signed].get(name)),
        "most": max(len(_EXAMPLES[signed].get(name, [])) for signed, name in calls),
    }
    print("told " + json.dumps(told), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
