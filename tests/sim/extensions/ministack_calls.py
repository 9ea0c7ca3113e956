"""MiniStack: the calls that it serves, and those that EventBridge Scheduler makes.

MiniStack derives the IAM action and the resource of a request for its own
policies, which need a signature of every caller. The same functions derive them
here, and nothing is enforced.
"""

import json
import re
from typing import Any
from urllib.parse import parse_qs

from ministack.core import iam_actions
from ministack.core.responses import get_account_id
from ministack.core.router import detect_service, extract_access_key_id, extract_region

from .calls import Call, Recorder, Session
from .ministack_caller import App, Receive, Scope, Send

_SIGNED = re.compile(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/")

# Source: "Actions, resources, and condition keys for Amazon SQS".
_BATCHES = {
    "sqs:ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
    "sqs:DeleteMessageBatch": "sqs:DeleteMessage",
    "sqs:SendMessageBatch": "sqs:SendMessage",
}


def record_calls(app: App, recorder: Recorder) -> App:
    """Wraps an ASGI application so that each signed request is recorded before it is served."""

    async def recorded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        # The package of a function has 100 MB, in parts of 64 KB.
        parts = []
        more = True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            more = message["type"] == "http.request" and message.get("more_body", False)
        body = b"".join(parts)
        for call in _calls(scope, body):
            recorder.record(call)
        rest = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> dict[str, Any]:
            return rest.pop() if rest else await receive()

        await app(scope, again, send)

    return recorded


def record_sessions(recorder: Recorder) -> None:
    """Records each session of a role when it begins."""
    from ministack.services import sts

    original = sts.register_session

    def register(access_key: str, session: dict[str, Any]) -> None:
        recorder.record(Session(access_key, session["Arn"], session["UserId"]))
        original(access_key, session)

    sts.register_session = register


def record_scheduler(recorder: Recorder) -> None:
    """Records the invocations of schedules. MiniStack makes them without a request."""
    from ministack.services import eventbridge

    original = eventbridge._invoke_target

    def invoke(target: dict[str, Any], event: dict[str, Any], rule: dict[str, Any], view: Any = None) -> Any:
        if event.get("Source") == "aws.scheduler":
            role = target["RoleArn"]
            session = f"arn:aws:sts::{role.split(':')[4]}:assumed-role/{role.rsplit('/', 1)[-1]}/scheduler"
            recorder.record(Session(role, session, None))
            recorder.record(Call(role, "lambda:InvokeFunction", target["Arn"], event["Region"]))
        return original(target, event, rule, view)

    eventbridge._invoke_target = invoke


def _calls(scope: Scope, body: bytes) -> list[Call]:
    headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    key = extract_access_key_id(headers, query)
    if not key:
        return []
    method, path = scope["method"], scope["path"]
    params = query
    if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        params = {**parse_qs(body.decode("latin-1"), keep_blank_values=True), **query}
    service = detect_service(method, path, headers, params)
    region = extract_region(headers)
    action = iam_actions.extract_iam_action(service, method, path, headers, body, params) or _other(headers)
    resource = iam_actions.extract_resource_arn(service, method, path, headers, body, params, region, get_account_id())
    asked = [(action, resource)]
    if action == "ses:SendEmail":
        asked = [(action, f"arn:aws:ses:{region}:{get_account_id()}:{used}") for used in _used_to_send(json.loads(body))]
    if service == "s3":
        asked += iam_actions.s3_additional_checks(method, path, headers, body, params)
    context = _context(action, params, body)
    return [Call(key, _BATCHES.get(one, one), arn, region, context) for one, arn in asked]


def _other(headers: dict[str, str]) -> str | None:
    """The action of a service that MiniStack does not have: as it is signed, and the name of the operation."""
    service = _SIGNED.search(headers.get("authorization", ""))
    target = headers.get("x-amz-target", "").rpartition(".")[2]
    return f"{service[1]}:{target}" if service and target else None


def _used_to_send(mail: dict[str, Any]) -> list[str]:
    """The resources of a mail. A configuration set is on none of them."""
    contacts = mail.get("ListManagementOptions", {}).get("ContactListName")
    return [f"identity/{_sender(mail)}", *([f"contact-list/{contacts}"] if contacts else [])]


def _sender(mail: dict[str, Any]) -> str:
    return mail["FromEmailAddress"].rpartition("<")[2].rstrip(">")


def _context(action: str | None, params: dict[str, list[str]], body: bytes) -> dict[str, str]:
    """The keys of conditions that the request contains."""
    if action == "s3:ListBucket" and "prefix" in params:
        return {"s3:prefix": params["prefix"][0]}
    if action == "ses:SendEmail":
        return {"ses:FromAddress": _sender(json.loads(body))}
    return {}
