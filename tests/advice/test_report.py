"""Reports keep to their published schema, and have no field that it does not tell."""

import copy
import json
import unittest
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from program import ROOT, ebb, needs_program

_SCHEMA = json.loads((ROOT / "crates/report/schema/report.schema.json").read_text())

# What a deployment's report has and a scan's has not; a test of Rust holds it to be one.
_HISTORY = json.loads((ROOT / "crates/report/schema/history.example.json").read_text())


def _strict(schema: Any) -> Any:
    """The same with no further fields allowed."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        strict.setdefault("additionalProperties", False)
    return strict


def _errors(report: Any) -> list[str]:
    validator = Draft202012Validator(_strict(_SCHEMA), format_checker=FormatChecker())
    return [f"{e.json_path}: {e.message[:200]}" for e in validator.iter_errors(report)]


@needs_program
class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.report = json.loads(ebb("scan", "--demo", "--format", "json"))

    def test_the_schema_is_one(self):
        Draft202012Validator.check_schema(_SCHEMA)

    def test_a_scan_keeps_to_it(self):
        self.assertTrue(self.report["findings"] and self.report["timeline"]["nodes"])
        judged = {bool(job["not_judged"]) for job in self.report["fargate"]["jobs"]}
        self.assertEqual(judged, {True, False})
        self.assertEqual(_errors(self.report), [])

    def test_a_report_with_a_history_keeps_to_it(self):
        self.assertTrue(all(_HISTORY[part] for part in ("life", "set_aside", "resolved", "trend")))
        self.assertEqual(_errors({**self.report, "history": _HISTORY}), [])

    def test_an_untruth_is_seen(self):
        def check(change, expect: str) -> None:
            report = copy.deepcopy(self.report)
            change(report)
            self.assertIn(expect, " ".join(_errors(report)))

        check(lambda report: report["findings"][0].update(kind="Lazy"), "'Lazy' does not match")
        check(lambda report: report["totals"].pop("spent_usd"), "'spent_usd' is a required property")
        check(lambda report: report["totals"].update(spent_usd=21686577), "is not of type 'string'")
        check(lambda report: report.update(more=1), "'more' was unexpected")


if __name__ == "__main__":
    unittest.main()
