"""A local receiver for a Slack incoming webhook that keeps Slack's limits.

`python slack_receiver.py --port P --out DIR` takes `POST /…` on loopback,
answers `ok` as Slack does and writes each accepted body to
`DIR/message-NNN.json`. Refusals follow Slack's documentation, pages "Sending
messages using incoming webhooks" (error names), "Blocks" (50 blocks a message),
"Section block" (3,000 characters a text, 2,000 a field, 10 fields), "Header
block" (150), "Context block" (10 elements) and "Actions block" (25 elements; a
block id has at most 255 characters and is unique in a message). The ceiling on the whole was
observed, not documented: about 12,000 characters pass and 13,200 fail.
"""

import argparse
import json
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
MAX_BLOCKS = 50
MAX_SECTION_CHARACTERS = 3000
MAX_FIELDS = 10
MAX_FIELD_CHARACTERS = 2000
MAX_HEADER_CHARACTERS = 150
MAX_CONTEXT_ELEMENTS = 10
MAX_ACTIONS = 25
MAX_BLOCK_ID_CHARACTERS = 255
MAX_CHARACTERS = 12_000
_TYPES = {"actions", "context", "divider", "header", "image", "rich_text", "section"}


def refusal(body: Any) -> str | None:
    """Slack's error text for a body, or None when it would be posted."""
    if not isinstance(body, dict):
        return "invalid_payload"
    blocks = body.get("blocks", [])
    if not isinstance(blocks, list) or not all(isinstance(b, dict) and b.get("type") in _TYPES for b in blocks):
        return "invalid_blocks"
    if not blocks and not body.get("text"):
        return "no_text"
    ids = [block["block_id"] for block in blocks if "block_id" in block]
    if len(ids) != len(set(ids)) or any(not 1 <= len(one) <= MAX_BLOCK_ID_CHARACTERS for one in ids):
        return "invalid_blocks"
    if len(blocks) > MAX_BLOCKS or any(_is_bad(block) for block in blocks):
        return "invalid_blocks"
    if _characters(blocks) + len(body.get("text", "")) > MAX_CHARACTERS:
        return "msg_blocks_too_long"
    return None


def _is_bad(block: dict[str, Any]) -> bool:
    text = block.get("text")
    length = len(text.get("text", "")) if isinstance(text, dict) else 0
    if block["type"] == "header":
        return not 1 <= length <= MAX_HEADER_CHARACTERS or text.get("type") != "plain_text"
    if block["type"] == "context":
        return not 1 <= len(block.get("elements", [])) <= MAX_CONTEXT_ELEMENTS
    if block["type"] == "actions":
        return not 1 <= len(block.get("elements", [])) <= MAX_ACTIONS
    if block["type"] != "section":
        return False
    fields = block.get("fields", [])
    if text is None:
        return not fields or _are_bad_fields(fields)
    return not 1 <= length <= MAX_SECTION_CHARACTERS or _are_bad_fields(fields)


def _are_bad_fields(fields: list[dict[str, Any]]) -> bool:
    return len(fields) > MAX_FIELDS or any(len(f.get("text", "")) > MAX_FIELD_CHARACTERS for f in fields)


def _characters(value: Any) -> int:
    """Characters of all texts in a structure of blocks."""
    if isinstance(value, list):
        return sum(_characters(item) for item in value)
    if isinstance(value, dict):
        return sum(len(v) if k == "text" and isinstance(v, str) else _characters(v) for k, v in value.items())
    return 0


def server(port: int, folder: Path) -> ThreadingHTTPServer:
    """A receiver that is bound and not yet serving; port 0 takes a free one."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = threading.Lock()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                body = json.loads(raw)
                error = refusal(body)
            except ValueError:
                error = "invalid_payload"
            if error is None:
                with lock:
                    number = len(list(folder.glob("message-*.json"))) + 1
                    (folder / f"message-{number:03}.json").write_text(json.dumps(body, indent=1) + "\n")
            else:
                print(f"slack: refused with {error}, {len(raw)} bytes", file=sys.stderr, flush=True)
            self._answer(200 if error is None else 400, error or "ok")

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are written as files; a line each would only repeat them."""

    return ThreadingHTTPServer((HOST, port), Receiver)


def main() -> None:
    """Parses port and folder, serves until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    server(options.port, options.out).serve_forever()


if __name__ == "__main__":
    main()
