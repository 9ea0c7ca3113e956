"""Lambda: a function acts with a session of its role, named after the function.

Follows the Lambda Developer Guide, page "Defining Lambda function permissions
with an execution role". Without a check of signatures, MiniStack 1.5.33 lets
every function act as the account.
"""

import hashlib
from typing import Any

from ministack.core import lambda_runtime
from ministack.services import lambda_svc, sts


def _session(config: dict[str, Any]) -> dict[str, str]:
    """The credentials of a function; the same ones at each start."""
    role, name = config["Role"], config["FunctionName"]
    account, role_name = role.split(":")[4], role.rsplit("/", 1)[-1]
    digest = hashlib.sha256(f"{role}:{name}".encode()).hexdigest().upper()
    key = f"ASIA{digest[:16]}"
    session = {
        "Arn": f"arn:aws:sts::{account}:assumed-role/{role_name}/{name}",
        "UserId": f"AROA{digest[16:32]}:{name}",
        "SecretAccessKey": digest,
        "SessionToken": digest,
    }
    sts.register_session(key, session)
    return {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": digest, "AWS_SESSION_TOKEN": digest}


def install() -> None:
    """Replaces the credentials in both modules that hand them out."""
    lambda_runtime.execution_credentials = _session
    lambda_svc.execution_credentials = _session
