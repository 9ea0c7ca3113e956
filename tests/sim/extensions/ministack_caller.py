"""Who signed the request that MiniStack is serving.

MiniStack resolves credentials only when it checks signatures, which would need
a policy for every caller. The additions beside this file need only the caller's
`aws:userid`, as described in the IAM User Guide, page "IAM policy elements:
Variables and tags", table "Where you can use principal values".
"""

from contextvars import ContextVar
from typing import Any, Awaitable, Callable
from urllib.parse import parse_qs

from ministack.core.iam_evaluator import resolve_caller_identity
from ministack.core.router import extract_access_key_id

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_access_key: ContextVar[str] = ContextVar("ebb_caller_access_key", default="")


def user_id() -> str | None:
    """`aws:userid` of the caller: `AROA…:<session>` for an assumed role, the
    account id for the account's own key, None for a key that is not known."""
    identity = resolve_caller_identity(_access_key.get())
    return (identity or {}).get("userId") or None


def is_role_session() -> bool:
    """True when the caller's credential was handed out by STS."""
    identity = resolve_caller_identity(_access_key.get())
    return bool(identity and identity.get("session"))


def remember_caller(app: App) -> App:
    """Wraps an ASGI application so that `user_id` answers for each request."""

    async def with_caller(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
            _access_key.set(extract_access_key_id(headers, query) or "")
        await app(scope, receive, send)

    return with_caller
