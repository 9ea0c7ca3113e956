"""What rights.py reports, for calls and policies that are made up."""

import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import rights
from account import ACCOUNT_ID
from extensions.calls import Call, Recorder, Session
from rights import Made, Policies

_BUCKET = f"arn:aws:s3:::ebb-{ACCOUNT_ID}-us-east-1"
_SESSION = f"arn:aws:sts::{ACCOUNT_ID}:assumed-role/ebb-node/i-0abc"

# A node may write under its own name.
_RULES = Policies(
    {
        "ebb-node": {
            "Statement": [
                {"Effect": "Allow", "Action": "s3:PutObject", "Resource": f"{_BUCKET}/ingest/${{aws:userid}}/*"},
                {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{_BUCKET}/config/*"},
            ]
        }
    },
    {_BUCKET: {"Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"{_BUCKET}/config/secret"}]}},
)


def _made(action: str | None, key: str, program: str = "ebb-node") -> Made:
    return Made(program, "i-0abc", ACCOUNT_ID, "AROA1:i-0abc", Call("ASIA1", action, f"{_BUCKET}/{key}", "us-east-1"))


_PUT = _made("s3:PutObject", "ingest/AROA1:i-0abc/1")
_GET = _made("s3:GetObject", "config/rules.toml")


class Refused(unittest.TestCase):
    def check(self, made: Made, expect: str | None) -> None:
        """The one line about this call, or none."""
        lines = rights.refused(_RULES, [made])
        self.assertEqual(len(lines), 0 if expect is None else 1, lines)
        if expect is not None:
            self.assertIn(expect, lines[0])

    def test_a_call_that_its_policy_does_not_allow(self):
        self.check(_PUT, None)
        self.check(_made("s3:PutObject", "ingest/AROA2:i-0abd/1"), "not allowed: ebb-node (i-0abc): s3:PutObject on arn:aws:s3")
        self.check(_made("s3:DeleteObject", "ingest/AROA1:i-0abc/1"), "s3:DeleteObject")

    def test_a_call_that_the_policy_of_the_bucket_denies(self):
        self.check(_made("s3:GetObject", "config/secret"), "not allowed")

    def test_an_unknown_caller_or_action(self):
        self.check(replace(_PUT, program="ebb-other"), "no policy is known for the caller")
        self.check(_made(None, "x"), "the action of a call is not known")

    def test_only_the_identity_needs_no_permission(self):
        self.check(_made("sts:GetCallerIdentity", "x"), None)
        self.check(_made("sts:AssumeRole", "x"), "not allowed")


class Unused(unittest.TestCase):
    def check(self, made: list[Made], exceptions: list[dict[str, str]], expect: list[str]) -> None:
        """The beginnings of all lines."""
        lines = rights.unused(_RULES, made, exceptions, set())
        self.assertEqual(len(lines), len(expect), lines)
        for line, begin in zip(lines, expect):
            self.assertTrue(line.startswith(begin), line)

    def exception(self, **values: str) -> dict[str, str]:
        """An exception for reading the rules."""
        return {"program": "ebb-node", "action": "s3:GetObject", "resource": "*/config/*", "reason": "none"} | values

    def test_a_right_without_a_call(self):
        self.check([_PUT, _GET], [], [])
        self.check([_PUT], [], ["never used: ebb-node: s3:GetObject on arn:aws:s3"])
        self.check([_PUT, replace(_GET, program="ebb-tune")], [], ["never used: ebb-node: s3:GetObject"])
        self.check([_PUT], [self.exception()], [])

    def test_an_exception_that_is_out_of_date(self):
        self.check([_PUT, _GET], [self.exception()], ["an exception is out of date"])
        self.check([_PUT, _GET], [self.exception(resource="*/other/*")], ["an exception names no right"])

    def test_a_program_that_could_not_run_is_left_out(self):
        self.assertEqual(rights.unused(_RULES, [], [self.exception()], {"ebb-node"}), [])

    def test_each_exception_has_a_reason(self):
        for one in rights.exceptions():
            self.assertGreater(len(one["reason"]), 20, one)


class Recording(unittest.TestCase):
    def read(self, *lines: Any) -> list[Made]:
        """The calls of a recording in two files."""
        with tempfile.TemporaryDirectory() as path:
            for number, line in enumerate(lines):
                Recorder(Path(path) / f"{number % 2}.jsonl").record(line)
            return rights.read(Path(path))

    def test_a_session_of_another_file_names_the_caller(self):
        call = Call("ASIA1", "ec2:DescribeInstances", "*", "us-east-1")
        [made] = self.read(call, Session("ASIA1", _SESSION, "AROA1:i-0abc"))
        self.assertEqual(made, Made("ebb-node", "i-0abc", ACCOUNT_ID, "AROA1:i-0abc", call))

    def test_the_key_of_the_command_line_names_its_command(self):
        [made] = self.read(Call("ebb-scan", "ec2:DescribeInstances", "*", "us-east-1"))
        self.assertEqual((made.program, made.session), ("ebb", "scan"))

    def test_the_administrator_is_left_out_and_an_unknown_key_is_not(self):
        calls = [Call(key, "s3:PutObject", "*", "us-east-1") for key in ("test", "ASIA2")]
        [made] = self.read(*calls)
        [line] = rights.refused(_RULES, [made])
        self.assertIn("no policy is known for the caller of ASIA2", line)


if __name__ == "__main__":
    unittest.main()
