"""S3: a node writes only under its own `ingest/v1/<aws:userid>/`.

In AWS this is one statement in the node role's IAM policy, which allows
`s3:PutObject` on `…/ingest/v1/${aws:userid}/*` and nothing else: see the IAM
User Guide, page "IAM policy elements: Variables and tags", and the S3 API
reference, page "Error responses", `AccessDenied`. MiniStack evaluates policies
only together with signatures of every caller, so that one statement is enforced
here for every role session. The account's own key stands for an administrator,
whom the node role's policy does not bind.
"""

import re
from urllib.parse import unquote

from . import ministack_caller
from .ministack_caller import App, Receive, Scope, Send

_INGEST = re.compile(r"/ingest/v1/(?P<owner>[^/]*)")

_DENIED = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
)


def _is_refused(scope: Scope) -> bool:
    """True for a write by a role session under another identity's prefix."""
    if scope["type"] != "http" or scope["method"] not in ("PUT", "POST"):
        return False
    headers = dict(scope["headers"])
    if b"/s3/aws4_request" not in headers.get(b"authorization", b"") and b"X-Amz-Credential" not in scope.get(
        "query_string", b""
    ):
        return False
    place = _INGEST.search(unquote(scope["path"]))
    if place is None or not ministack_caller.is_role_session():
        return False
    return place["owner"] != ministack_caller.user_id()


def guard_ingest(app: App) -> App:
    """Wraps an ASGI application with the refusal."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_refused(scope):
            await app(scope, receive, send)
            return
        more = True
        while more:
            message = await receive()
            more = message["type"] == "http.request" and message.get("more_body", False)
        headers = [(b"content-type", b"application/xml"), (b"content-length", str(len(_DENIED)).encode())]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": _DENIED})

    return guarded
