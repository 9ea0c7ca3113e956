"""The seam for the simulator's own endpoints under `/moto-api/ebb/…`.

AWS has no call to age an instance or to hold a Batch job in RUNNABLE; these
endpoints stand for the time and the events that would lead there. They are used
by `seed.py` only. Each takes a JSON object by POST and answers 200, or 400 with
`{"error": …}`.
"""

import json
from typing import Any, Callable

from moto.moto_api._internal import urls

Body = dict[str, Any]


def register(path: str, handler: Callable[[Body], None]) -> None:
    """Serves `handler` at `/moto-api/ebb/<path>`; call before the server starts."""

    def respond(request: Any, full_url: str, headers: Any) -> tuple[int, dict[str, str], str]:
        try:
            handler(json.loads(request.get_data()))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            return 400, {}, json.dumps({"error": f"{type(error).__name__}: {error}"})
        return 200, {}, "{}"

    urls.url_paths["{0}/moto-api/ebb/" + path] = respond
