"""`ebb serve` keeps to its own OpenAPI document: schemathesis finds nothing, and no
answer has a field that the document does not tell."""

import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from program import PROGRAM, ROOT, needs_program

_SECONDS = 45
_EXAMPLES = 30
_SLACK_SECRET = "a secret of this test"

# Names that are there, for what is made up is answered with 404 and goes no deeper.
_CONFIG = """
[parameters]
"path.pipeline" = "assembly"
"path.environment" = "align"
"""

# All that could be a fault; that a made-up id of a finding is not found is none.
_WARNINGS = "base_url_mismatch,validation_mismatch,missing_deserializer,unsupported_regex,unresolvable_reference"


class Server:
    """`ebb serve` of the demo account, on a free port of loopback."""

    def __init__(self) -> None:
        command = [PROGRAM, "serve", "--demo", "--port", "0"]
        environment = os.environ | {"EBB_SLACK_SIGNING_SECRET": _SLACK_SECRET}
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self._child.stdout is not None
        self.url = self._child.stdout.readline().split()[0].removesuffix("/")
        self.document_url = self._child.stdout.readline().split()[0]

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:
            return json.load(answer)

    def close(self) -> None:
        self._child.terminate()
        self._child.communicate(timeout=10)


@needs_program
class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)
        cls.document = cls.server.get("/v1/openapi.json")

    def _schemathesis(self, document: str, *more: str) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "schemathesis.toml"
            config.write_text(_CONFIG)
            command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)]
            run = [*command, "run", document, "--url", self.server.url]
            # On loopback everybody sees the pages, so the server makes no links and the path does not
            # exist. Tests of the API's crate call it with a secret.
            run += ["--exclude-path", "/v1/pages/link"]
            fixed = ["--seed", "1", "--no-color", "--max-time", str(_SECONDS)]
            # How fast this machine makes up data says nothing of the API.
            fixed += ["--suppress-health-check", "all", "--warnings", _WARNINGS]
            return subprocess.run([*run, *fixed, *more], cwd=folder, capture_output=True, text=True, timeout=240)

    def test_schemathesis_finds_nothing(self):
        ran = self._schemathesis(self.server.document_url, "--max-examples", str(_EXAMPLES))
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("No issues found", ran.stdout)

    def test_schemathesis_does_find_an_untruth(self):
        lie = json.loads(json.dumps(self.document))
        lie["components"]["schemas"]["Prices"]["properties"]["as_of"] = {"type": "integer"}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lie.json"
            path.write_text(json.dumps(lie))
            ran = self._schemathesis(str(path), "--include-path", "/v1/prices", "--phases", "coverage")
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)

    def test_what_is_deployed_has_the_routes_of_the_document(self):
        told = {f"{verb.upper()} {path}" for path, verbs in self.document["paths"].items() for verb in verbs}
        for name in ("terraform/api.tf", "tests/sim/deploy.py"):
            # A test of the API compares the routes of the pages.
            routed = re.findall(r'"((?:GET|POST) /v1/[^"]*)"', (ROOT / name).read_text())
            self.assertEqual(set(routed), told, name)

    def test_no_answer_has_a_field_that_the_document_lacks(self):
        finding = self.server.get("/v1/recommendations?kind=overprovisioned_step")["items"][0]
        self._decide(finding["finding"], "dismiss", {"reason": "a course"})
        names = {"{step}": finding["resourceId"], "{node}": "i-0a3c5e7f9b1d2e468"}
        names |= {"{pipeline}": "assembly", "{environment}": "align"}
        names |= {"{finding}": urllib.parse.quote(finding["finding"], safe="")}
        names |= {"{resource}": finding["resourceId"]}
        names |= {"{run}": self.server.get("/v1/runs")["items"][0]["run"]}
        for path, operations in self.document["paths"].items():
            if "get" not in operations:
                continue
            content = operations["get"]["responses"]["200"]["content"]
            if "text/plain" in content:
                continue
            answer = self.server.get(re.sub(r"{\w+}", lambda found: names[found[0]], path))
            schema = content["application/json"]["schema"]
            # The document has only the head of a whole report, which has further fields.
            is_open = path == "/v1/report"
            schema = schema | {"components": self.document["components"]} if is_open else self._strict(schema)
            errors = Draft202012Validator(schema, format_checker=FormatChecker()).iter_errors(answer)
            self.assertEqual([f"{path}: {e.json_path}: {e.message[:200]}" for e in errors], [])
            self.assertTrue(answer.get("items", True), f"{path} shows nothing")

    def test_a_decision_is_answered_as_the_document_says(self):
        finding = self.server.get("/v1/findings")["items"][0]["id"]
        for act, body in (("snooze", {"reason": "a course", "until": "2999-01-01"}), ("reopen", {})):
            told = self._decide(finding, act, body)
            schema = self._strict({"$ref": "#/components/schemas/Decided"})
            Draft202012Validator(schema, format_checker=FormatChecker()).validate(told)
            self.assertEqual(told["holds"], act != "reopen")

    def test_a_button_of_slack_is_answered_as_the_document_says(self):
        finding = self.server.get("/v1/findings")["items"][1]["id"]
        block = f"ebb-{hashlib.sha256(finding.encode()).hexdigest()}"
        action = {"action_id": "ebb_snooze", "block_id": block}
        payload = {"type": "block_actions", "user": {"id": "U0TEST"}, "actions": [action]}
        body = urllib.parse.urlencode({"payload": json.dumps(payload)}).encode()
        operation = self.document["paths"]["/v1/slack/actions"]["post"]["responses"]
        at = int(time.time())
        for secret, status in ((_SLACK_SECRET + "x", 401), (_SLACK_SECRET, 200), (_SLACK_SECRET, 409)):
            told, answer = self._press(body, secret, at)
            self.assertEqual(told, status, answer)
            (content,) = operation[str(status)]["content"].values()
            schema = self._strict(content["schema"])
            Draft202012Validator(schema, format_checker=FormatChecker()).validate(answer)
        self.assertEqual(self._decide(finding, "reopen", {})["holds"], False)

    def _press(self, body: bytes, secret: str, at: int) -> tuple[int, Any]:
        """The answer to a request that is signed as Slack signs it."""
        signed = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
        headers = {"X-Slack-Request-Timestamp": str(at), "X-Slack-Signature": f"v0={signed}"}
        asked = urllib.request.Request(f"{self.server.url}/v1/slack/actions", body, headers)
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as problem:
            with problem:
                return problem.code, json.load(problem)

    def _decide(self, finding: str, act: str, body: dict[str, Any]) -> Any:
        url = f"{self.server.url}/v1/findings/{urllib.parse.quote(finding, safe='')}/{act}"
        asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return json.load(answer)

    def _strict(self, schema: Any) -> Any:
        """The schema with its references put in and no further fields allowed."""
        if isinstance(schema, list):
            return [self._strict(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            named = self.document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
            if "properties" in schema:
                # A variant adds its tag to the fields of its type.
                properties = named.get("properties", {}) | schema["properties"]
                required = [*named.get("required", []), *schema["required"]]
                named = named | {"properties": properties, "required": required}
            return self._strict(named)
        strict = {key: self._strict(value) for key, value in schema.items()}
        if "properties" in strict:
            strict.setdefault("additionalProperties", False)
        return strict


if __name__ == "__main__":
    unittest.main()
