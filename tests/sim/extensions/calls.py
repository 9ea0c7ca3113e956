"""Records each signed call to a simulator as one line of JSON.

Where the variable `EBB_CALLS` names a folder, each server writes a file there.
The line of a call holds what IAM evaluates: the access key, the action, the
resource, the region, and the keys of conditions that the request contains. The
resource is `*` where the action has none, or where moto has the service.

The access key names the caller, so each program needs its own. The line of a
session holds the role behind a key that STS or Lambda handed out. moto receives
keys of MiniStack, so a reader takes the sessions of all files together.
"""

import json
import os
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path

VARIABLE = "EBB_CALLS"


@dataclass(frozen=True)
class Call:
    """One call, as IAM sees it. `action` is None where it could not be derived."""

    key: str
    action: str | None
    resource: str
    region: str
    context: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Session:
    """The session of a role: `arn:aws:sts::ACCOUNT:assumed-role/ROLE/NAME`, and its `aws:userid` if known."""

    session_key: str
    principal: str
    user_id: str | None


class Recorder:
    """Appends calls to one file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lock = threading.Lock()

    @classmethod
    def wanted(cls, server: str) -> "Recorder | None":
        """The recorder of a server, where the environment asks for one."""
        folder = os.environ.get(VARIABLE)
        return cls(Path(folder) / f"{server}-{os.getpid()}.jsonl") if folder else None

    def record(self, line_of: Call | Session) -> None:
        """Writes a line, which is complete when the server is killed."""
        line = json.dumps(asdict(line_of), sort_keys=True) + "\n"
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(line)
