"""Plans of the Terraform module, read from `terraform show -json`.

They are made with the real provider; only the caller's identity is simulated.
"""

import json
import os
import shutil
import subprocess
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from account import ACCOUNT_ID
from policies import Policy
from simulators import HERE

ROOT = HERE.parent.parent

# Where a resource of the provider holds a policy.
_HOLDERS = {
    "aws_iam_policy": "policy",
    "aws_iam_role": "assume_role_policy",
    "aws_iam_role_policy": "policy",
    "aws_s3_bucket_policy": "policy",
    "aws_sns_topic_policy": "policy",
    "aws_sqs_queue": "policy",
}

# Source: AWS STS API reference, page `GetCallerIdentity`.
_IDENTITY = f"""<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<GetCallerIdentityResult><Arn>arn:aws:iam::{ACCOUNT_ID}:root</Arn><UserId>{ACCOUNT_ID}</UserId>
<Account>{ACCOUNT_ID}</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"""


@dataclass(frozen=True)
class Plan:
    """The resources of one plan, by address."""

    resources: dict[str, dict[str, Any]]

    def values(self, kind: str) -> list[dict[str, Any]]:
        """The planned values of all resources of one type."""
        return [resource["values"] for resource in self.resources.values() if resource["type"] == kind]

    def policies(self) -> dict[str, Policy]:
        """Every policy, by the address of what holds it."""
        found = {}
        for address, resource in self.resources.items():
            if resource["type"] in _HOLDERS:
                text = resource["values"].get(_HOLDERS[resource["type"]])
                if text is None:
                    raise AssertionError(f"{address}: the plan does not show its policy")
                found[address] = json.loads(text)
        return found


class _Identity(BaseHTTPRequestHandler):
    """Answers every call with the identity of the account."""

    def do_POST(self) -> None:
        body = _IDENTITY.encode()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""


@contextmanager
def _sts() -> Iterator[str]:
    """The URL of an STS that knows one caller."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Identity)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _terraform(folder: Path, *arguments: str) -> str:
    command = [str(ROOT / "scripts/terraform"), f"-chdir={folder}", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ)
    if ended.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def _configuration(variants: list[dict[str, Any]], member: dict[str, Any], sts: str) -> dict[str, Any]:
    """A configuration with the module once for each variant, and with the module of a member account."""
    provider = {
        "region": "us-east-1",
        "access_key": "test",
        "secret_key": "test",
        "skip_credentials_validation": True,
        "skip_metadata_api_check": True,
        "endpoints": {"sts": sts},
    }
    common = {"source": "./ebb", "sweeper_package": "sweeper.zip", "tune_package": "tune.zip"}
    modules = {f"ebb_{number}": common | variables for number, variables in enumerate(variants)}
    return {
        "provider": {"aws": provider},
        "module": modules | {"member": {"source": "./ebb/modules/member"} | member},
    }


def _resources(module: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The resources of a module and of the modules in it."""
    yield from module.get("resources", [])
    for child in module.get("child_modules", []):
        yield from _resources(child)


def planned(variants: dict[str, dict[str, Any]], member: dict[str, Any]) -> dict[str, Plan]:
    """The plan of each variant, by its name, as if its module were named `ebb`. Each contains the role of a
    member account. Terraform makes them as one plan, because each start of the provider takes seconds."""
    with tempfile.TemporaryDirectory() as path, _sts() as sts:
        folder = Path(path)
        # Terraform copies an absolute path without its parent.
        shutil.copytree(ROOT / "terraform", folder / "ebb", ignore=shutil.ignore_patterns(".terraform*"))
        for name in ("sweeper.zip", "tune.zip"):
            zipfile.ZipFile(folder / name, "w").close()
        configuration = _configuration(list(variants.values()), member, sts)
        (folder / "main.tf.json").write_text(json.dumps(configuration))
        _terraform(folder, "init", "-backend=false", "-input=false", "-no-color")
        _terraform(folder, "plan", "-input=false", "-no-color", "-out=plan")
        shown = json.loads(_terraform(folder, "show", "-json", "plan"))
    modules = {one["address"]: one for one in shown["planned_values"]["root_module"]["child_modules"]}

    def plan(address: str) -> Plan:
        own = {one["address"].replace(address, "module.ebb", 1): one for one in _resources(modules[address])}
        return Plan(own | {one["address"]: one for one in _resources(modules["module.member"])})

    return {name: plan(f"module.ebb_{number}") for number, name in enumerate(variants)}
