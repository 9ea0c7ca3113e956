"""moto: the calls that it serves, recorded by a WSGI layer around its server."""

import io
import re
from typing import Any, Callable, Iterable
from urllib.parse import parse_qs

from moto.sts.models import sts_backends

from .calls import Call, Recorder, Session
from .moto_faults import action_of

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_SCOPE = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/")

# IAM has the name with which a call is signed, except for these.
_NAMESPACES = {"monitoring": "cloudwatch"}


class RecordedCalls:
    """The layer; one for a server."""

    def __init__(self, app: App, recorder: Recorder) -> None:
        self._app = app
        self._recorder = recorder
        self._known: set[str] = set()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        scope = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
        if scope is not None:
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            environ["wsgi.input"] = io.BytesIO(body)
            key, region, service = scope.groups()
            action = action_of(environ, environ.get("PATH_INFO", ""), body)[0]
            resource = parse_qs(body.decode("latin-1")).get("RoleArn", ["*"])[0] if service == "sts" else "*"
            name = f"{_NAMESPACES.get(service, service)}:{action}"
            self._recorder.record(Call(key, name, resource, region))
            session = None if key in self._known else _session(key)
            if session is not None:
                self._known.add(key)
                self._recorder.record(Session(key, session, None))
        return self._app(environ, start)


def _session(key: str) -> str | None:
    """The ARN of a session that moto itself handed out."""
    for account in list(sts_backends.values()):
        for backend in list(account.values()):
            found = backend.get_assumed_role_from_access_key(key)
            if found is not None:
                return found.arn
    return None
