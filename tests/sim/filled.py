"""One filled pair of simulators for all tests of a run, and clients for it."""

import atexit
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import boto3

from simulators import HERE, Simulators

_SEED = 7
_MOTO_SERVICES = ("autoscaling", "batch", "ce", "cloudwatch", "ec2", "ecs")


@dataclass(frozen=True)
class Filled:
    """Running simulators, what the seed wrote about them, and when they were filled."""

    sim: Simulators
    out: Path
    world: dict[str, Any]
    planted: list[dict[str, Any]]
    at: datetime

    def client(self, service: str, region: str = "us-east-1", node: dict[str, Any] | None = None) -> Any:
        """A client as the administrator, or with a node's credential."""
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        if node is not None:
            given = node["credentials"]
            keys = {"aws_access_key_id": given["access_key_id"], "aws_secret_access_key": given["secret_access_key"]}
            keys["aws_session_token"] = given["session_token"]
        url = self.sim.moto_url if service in _MOTO_SERVICES else self.sim.ministack_url
        return boto3.client(service, region_name=region, endpoint_url=url, **keys)

    def resources(self, kind: str, variant: str | None = None) -> list[str]:
        """What was planted of one kind."""
        return [p["resource"] for p in self.planted if p["kind"] == kind and p["variant"] == variant]


def seed(out: Path, moto: str, ministack: str) -> subprocess.CompletedProcess[str]:
    """Runs `seed.py` as the demo does."""
    command = [sys.executable, str(HERE / "seed.py"), "--seed", str(_SEED), "--out", str(out)]
    command += ["--moto", moto, "--ministack", ministack]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@cache
def filled() -> Filled:
    """Starts and fills at the first call; ends with the process."""
    sim = Simulators()
    atexit.register(sim.close)
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    out = Path(folder.name)
    ended = seed(out, sim.moto_url, sim.ministack_url)
    if ended.returncode != 0:
        raise RuntimeError(ended.stderr)
    world, planted = (json.loads((out / name).read_text()) for name in ("world.json", "planted.json"))
    return Filled(sim, out, world, planted, datetime.now(timezone.utc))
