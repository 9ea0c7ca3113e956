"""Reports keep to their published schema, and have no field that it does not tell."""

import copy
import json
import unittest
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from program import ROOT, ebb, needs_program

_SCHEMA = json.loads((ROOT / "crates/report/schema/report.schema.json").read_text())

# Parts that only the report of a deployment has. A test of Rust checks this example.
_HISTORY = json.loads((ROOT / "crates/report/schema/history.example.json").read_text())


def _extended(schema: Any) -> set[str]:
    """References beside further properties, as of evidence beside its type."""
    if isinstance(schema, list):
        return set().union(*map(_extended, schema))
    if not isinstance(schema, dict):
        return set()
    own = {schema["$ref"]} if "$ref" in schema and "properties" in schema else set()
    return own.union(*map(_extended, schema.values()))


def _strict(schema: Any, loose: set[str], place: str = "#") -> Any:
    """The same with no further fields allowed. Those of a reference in `loose` count where it is."""
    if isinstance(schema, list):
        return [_strict(one, loose, f"{place}/{at}") for at, one in enumerate(schema)]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value, loose, f"{place}/{key}") for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema and place not in loose:
        strict.setdefault("unevaluatedProperties", False)
    return strict


def _errors(report: Any) -> list[str]:
    validator = Draft202012Validator(_strict(_SCHEMA, _extended(_SCHEMA)), format_checker=FormatChecker())
    return [f"{e.json_path}: {e.message[:300]}" for e in validator.iter_errors(report)]


@needs_program
class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.report = json.loads(ebb("scan", "--demo", "--format", "json"))

    def test_the_schema_is_one(self):
        Draft202012Validator.check_schema(_SCHEMA)

    def test_a_scan_keeps_to_it(self):
        self.assertTrue(self.report["findings"] and self.report["timeline"]["nodes"])
        judged = {bool(job["not_evaluated"]) for job in self.report["fargate"]["jobs"]}
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

        check(lambda report: report["findings"][0].update(kind="Lazy"), "'Lazy' is not valid")
        check(lambda report: report["totals"].pop("spent_usd"), "'spent_usd' is a required property")
        check(lambda report: report["totals"].update(spent_usd=21686577), "is not of type 'string'")
        check(lambda report: report.update(more=1), "'more' was unexpected")
        evidence = "'more': 1} is not valid under any"
        check(lambda report: report["findings"][0]["evidence"].update(more=1), evidence)


if __name__ == "__main__":
    unittest.main()
