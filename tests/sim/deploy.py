"""Makes by calls of the API what the Terraform module makes, under the same names.

`python deploy.py --variables demo.tfvars.json --out outputs.json` takes the
module's variables and writes its outputs. It is for tests of what comes after a
deployment: the provider watches a bucket's life cycle for 55 s, and that the
module itself is right is shown where it is applied.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from account import ACCOUNT_ID, client

_ROUTES = (
    "GET /v1/costs",
    "GET /v1/decisions",
    "GET /v1/environments",
    "GET /v1/environments/{environment}/recommendation",
    "GET /v1/explain/{resource}",
    "GET /v1/findings",
    "GET /v1/findings/{finding}",
    "GET /v1/metrics",
    "GET /v1/nodes",
    "GET /v1/nodes/{node}/activity",
    "GET /v1/nodes/{node}/recommendation",
    "GET /v1/openapi.json",
    "GET /v1/pipelines",
    "GET /v1/pipelines/{pipeline}/recommendation",
    "GET /v1/prices",
    "GET /v1/probes",
    "GET /v1/recommendations",
    "GET /v1/report",
    "GET /v1/runs",
    "GET /v1/runs/{run}",
    "GET /v1/steps",
    "GET /v1/steps/{step}/recommendation",
    "GET /v1/steps/{step}/tasks",
    "GET /v1/texts/{form}",
    "POST /v1/findings/{finding}/dismiss",
    "POST /v1/findings/{finding}/reopen",
    "POST /v1/findings/{finding}/snooze",
    "POST /v1/pages/link",
    "POST /v1/slack/actions",
)

# Only with a secret that signs cookies.
_PAGES = (
    "GET /",
    "GET /assets/{asset}",
    "GET /costs",
    "GET /data/{path+}",
    "GET /findings",
    "GET /findings/{finding}",
    "GET /live",
    "GET /nodes",
    "GET /nodes/{node}",
    "GET /open",
    "GET /probes",
    "GET /runs",
    "GET /runs/{run}",
    "GET /runs/{run}/timeline.json",
    "GET /runs/{run}/usage.json",
    "GET /search",
    "GET /steps",
    "GET /steps/{step}",
    "POST /findings/{finding}/dismiss",
    "POST /findings/{finding}/reopen",
    "POST /findings/{finding}/snooze",
)


class Deployment:
    """One deployment in MiniStack."""

    def __init__(self, variables: dict[str, Any]) -> None:
        self.variables = variables
        self.platform = variables["platform_endpoint"]
        self.region = variables["region"]
        self.bucket = f"ebb-{ACCOUNT_ID}-{self.region}"

    def _client(self, service: str) -> Any:
        return client(service, self.region, self.platform)

    def make(self) -> dict[str, str]:
        """Makes everything and answers the module's outputs."""
        s3 = self._client("s3")
        s3.create_bucket(Bucket=self.bucket)
        s3.put_object(Bucket=self.bucket, Key="config/policy.toml", Body=self.variables["policy_toml"].encode())
        sqs = self._client("sqs")
        queue, dead = (sqs.create_queue(QueueName=f"ebb-{n}")["QueueUrl"] for n in ("heartbeats", "dead-letters"))
        role = self._role("ebb-node")
        secret = self._client("secretsmanager").create_secret(
            Name="ebb/slack-webhook", SecretString=self.variables["slack_webhook_url"]
        )
        common = {"EBB_BUCKET": self.bucket, **self.variables.get("extra_environment", {})}
        sweeper = {
            "EBB_QUEUE_URL": queue,
            "EBB_DEAD_LETTER_QUEUE_URL": dead,
            "EBB_POLICY_KEY": "config/policy.toml",
            "EBB_REGIONS": ",".join(self.variables["regions"]),
            "EBB_SHARD": "0",
            "EBB_SHARDS": "1",
            "EBB_SLACK_WEBHOOK_SECRET_ARN": secret["ARN"],
            "EBB_EMAIL_FROM": self.variables["email_from"],
            "EBB_EMAIL_TO": ",".join(self.variables["email_to"]),
        }
        self._function("ebb-sweeper", self.variables["sweeper_package"], 300, common | sweeper)
        pages = {"EBB_PAGES_SECRET": self.variables["pages_secret"]} if self._pages() else {}
        tune = self._function("ebb-tune", self.variables["tune_package"], 29, common | pages)
        return {
            "bucket": self.bucket,
            "queue_url": queue,
            "dead_letter_queue_url": dead,
            "api_url": f"{self.platform}/_aws/execute-api/{self._api(tune)}/$default",
            "node_role_arn": role,
            "sweeper_function_name": "ebb-sweeper",
            "tune_function_name": "ebb-tune",
        }

    def _pages(self) -> tuple[str, ...]:
        return _PAGES if self.variables.get("pages_secret") else ()

    def _role(self, name: str) -> str:
        trust = json.dumps({"Version": "2012-10-17", "Statement": []})
        return self._client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]

    def _function(self, name: str, package: str, timeout: int, environment: dict[str, str]) -> str:
        key = f"packages/{name}.zip"
        self._client("s3").upload_file(package, self.bucket, key)
        made = self._client("lambda").create_function(
            FunctionName=name,
            Runtime="provided.al2023",
            Role=self._role(name),
            Handler="bootstrap",
            Timeout=timeout,
            MemorySize=1024,
            Code={"S3Bucket": self.bucket, "S3Key": key},
            Environment={"Variables": environment},
        )
        return made["FunctionArn"]

    def _api(self, function: str) -> str:
        gateway = self._client("apigatewayv2")
        api = gateway.create_api(Name="ebb-tune", ProtocolType="HTTP")["ApiId"]
        integration = gateway.create_integration(
            ApiId=api, IntegrationType="AWS_PROXY", IntegrationUri=function, PayloadFormatVersion="2.0"
        )["IntegrationId"]
        for route in _ROUTES + self._pages():
            gateway.create_route(ApiId=api, RouteKey=route, Target=f"integrations/{integration}")
        gateway.create_stage(ApiId=api, StageName="$default", AutoDeploy=True)
        return api


def main() -> int:
    """Reads variables, makes, writes outputs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variables", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    try:
        outputs = Deployment(json.loads(options.variables.read_text())).make()
        options.out.write_text(json.dumps(outputs, indent=1) + "\n")
    except (OSError, ValueError, BotoCoreError, ClientError) as error:
        print(f"deploy: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
