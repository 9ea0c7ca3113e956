"""Gives every node that has a probe the credential its instance role would give.

In AWS an instance's role session is named after the instance (EC2 User Guide,
page "IAM roles for Amazon EC2"), so that `aws:userid` and the `SenderId` of its
messages read `AROA…:i-…`. Here STS AssumeRole with that session name hands out
the same.

`python credentials.py --world DIR/world.json --ministack URL --node-role ARN`
renews the credentials of an existing world, for a role that was made after it.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from account import Account

_SECONDS = 6 * 3600


def attach(account: Account, nodes: list[dict[str, Any]], role_arn: str) -> None:
    """Writes `credentials` into each node of a world file; a silent one gets None."""
    sts = account.client("sts", "us-east-1")
    for node in nodes:
        if node["profile"] == "silent":
            node["credentials"] = None
            continue
        answer = sts.assume_role(RoleArn=role_arn, RoleSessionName=node["instance_id"], DurationSeconds=_SECONDS)
        keys = answer["Credentials"]
        node["credentials"] = {
            "access_key_id": keys["AccessKeyId"],
            "secret_access_key": keys["SecretAccessKey"],
            "session_token": keys["SessionToken"],
            "user_id": answer["AssumedRoleUser"]["AssumedRoleId"],
        }


def main() -> int:
    """Renews the credentials of a world file in place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=Path, required=True)
    parser.add_argument("--ministack", required=True)
    parser.add_argument("--node-role", required=True)
    options = parser.parse_args()
    try:
        world = json.loads(options.world.read_text())
        attach(Account("", options.ministack), world["nodes"], options.node_role)
        options.world.write_text(json.dumps(world, indent=1) + "\n")
    except (OSError, ValueError, BotoCoreError, ClientError) as error:
        print(f"credentials: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
