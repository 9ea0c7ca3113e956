"""The receiver refuses what Slack refuses and keeps what it accepts."""

import json
import tempfile
import threading
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from slack_receiver import refusal, server


def section(characters: int) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": "x" * characters}}


def actions(block_id: str, elements: int) -> dict[str, Any]:
    button = {"type": "button", "action_id": "a", "text": {"type": "plain_text", "text": "x"}}
    return {"type": "actions", "block_id": block_id, "elements": [button] * elements}


class SlackTest(unittest.TestCase):
    def test_limits_are_those_of_slack(self):
        divider = {"type": "divider"}
        cases: list[tuple[Any, str | None]] = [
            ({"text": "hello"}, None),
            ({"blocks": [divider] * 50}, None),
            ({"blocks": [divider] * 51}, "invalid_blocks"),
            ({"blocks": [section(3000)]}, None),
            ({"blocks": [section(3001)]}, "invalid_blocks"),
            ({"blocks": [section(0)]}, "invalid_blocks"),
            ({"blocks": [section(3000)] * 4}, None),
            ({"blocks": [section(3000)] * 4, "text": "x"}, "msg_blocks_too_long"),
            ({"blocks": [{"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}]}, "invalid_blocks"),
            ({"blocks": [{"type": "nonsense"}]}, "invalid_blocks"),
            ({"blocks": [actions("a", 3), actions("b", 3)]}, None),
            ({"blocks": [actions("a", 3), actions("a", 3)]}, "invalid_blocks"),
            ({"blocks": [actions("a" * 256, 3)]}, "invalid_blocks"),
            ({"blocks": [actions("a", 0)]}, "invalid_blocks"),
            ({"blocks": [actions("a", 26)]}, "invalid_blocks"),
            ({}, "no_text"),
            ([], "invalid_payload"),
        ]
        for body, expected in cases:
            with self.subTest(expected=expected, body=str(body)[:60]):
                self.assertEqual(refusal(body), expected)

    def test_accepted_bodies_are_files_and_refused_ones_are_not(self):
        with tempfile.TemporaryDirectory() as folder:
            receiver = server(0, Path(folder))
            self.addCleanup(receiver.server_close)
            threading.Thread(target=receiver.serve_forever, daemon=True).start()
            self.addCleanup(receiver.shutdown)
            url = f"http://127.0.0.1:{receiver.server_address[1]}/services/T0/B0/x"
            body = {"text": "3 nodes idle"}
            with urllib.request.urlopen(url, json.dumps(body).encode()) as answer:
                self.assertEqual(answer.read(), b"ok")
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(url, b"not json")
            self.assertEqual((refused.exception.code, refused.exception.read()), (400, b"invalid_payload"))
            refused.exception.close()
            kept = [json.loads(path.read_text()) for path in sorted(Path(folder).iterdir())]
            self.assertEqual(kept, [body])


if __name__ == "__main__":
    unittest.main()
