"""How the seed talks to the two simulators: clients and extension endpoints."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

ACCOUNT_ID = "123456789012"
_MINISTACK_SERVICES = ("iam", "sts")


class SimulatorError(Exception):
    """A simulator refused what the seed asked of it."""


@dataclass(frozen=True)
class Account:
    """The two simulators that together are one AWS account."""

    moto_url: str
    ministack_url: str

    @cache
    def client(self, service: str, region: str) -> Any:
        """A boto3 client as the account's own administrator."""
        url = self.ministack_url if service in _MINISTACK_SERVICES else self.moto_url
        return client(service, region, url)

    @cache
    def moto_iam(self) -> Any:
        """IAM of moto's half, which only its Batch looks at."""
        return client("iam", "us-east-1", self.moto_url)

    def extend(self, path: str, body: dict[str, Any]) -> None:
        """Calls an endpoint of `extensions/` in moto."""
        self._post(f"{self.moto_url}/moto-api/ebb/{path}", json.dumps(body).encode())

    def fix_ids(self, seed: int) -> None:
        """Makes the ids that moto hands out from here on a function of the seed."""
        self._post(f"{self.moto_url}/moto-api/seed?a={seed}", b"")

    @staticmethod
    def _post(url: str, body: bytes) -> None:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
        try:
            urllib.request.urlopen(request, timeout=20).close()
        except urllib.error.HTTPError as error:
            raise SimulatorError(f"POST {url}: {error.code} {error.read().decode()[:500]}") from error
        except urllib.error.URLError as error:
            raise SimulatorError(f"POST {url}: {error.reason}") from error


def client(service: str, region: str, url: str) -> Any:
    """A boto3 client as the administrator, for one of the simulators."""
    return boto3.client(
        service,
        region_name=region,
        endpoint_url=url,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"max_attempts": 2}, connect_timeout=5, read_timeout=30),
    )
