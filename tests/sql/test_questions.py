"""The questions in `sql/` have the same rows on every engine, on a lake that `ebb sweep` made."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import sqlglot
from deltalake import DeltaTable
from sqlglot import exp

import fleet

SQL = Path(__file__).resolve().parents[2] / "sql"
sys.path.insert(0, str(SQL))

import ask  # noqa: E402

PROGRAM = os.environ["EBB_PROGRAM"]
QUESTIONS = sorted(SQL.glob("*.sql"))
NOW = datetime.now(UTC)
TODAY = NOW.date()
# A test that begins before midnight has findings of the next day.
FIRST, LAST = TODAY - timedelta(days=fleet.DAYS + 1), TODAY + timedelta(days=1)


# Source: "Spark Overview" of Spark 4.1.
_JAVA = 17
NO_JAVA = f"no Java {_JAVA} or later for Spark (run scripts/setup test)"


def has_java() -> bool:
    """Whether Spark starts here."""
    if shutil.which("java") is None:
        return False
    output = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', output)
    return version is not None and int(version[1]) >= _JAVA


def plain(value: Any) -> Any:
    """A value as every engine can have it: dates and times as text in UTC, whole numbers as int."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT.*Z", value):
        return datetime.fromisoformat(value).astimezone(UTC).isoformat()
    return value


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are equal; floating-point numbers to a billionth."""
    one, other = plain(one), plain(other)
    numbers = (int, float)
    if isinstance(one, float) and isinstance(other, numbers) or isinstance(other, float) and isinstance(one, numbers):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return type(one) is type(other) and one == other


def difference(one: ask.Result, other: ask.Result) -> str | None:
    """The first difference of two results; None if all rows are the same in the same order."""
    if one.columns != other.columns:
        return f"{one.columns} and {other.columns}"
    if len(one.rows) != len(other.rows):
        return f"{len(one.rows)} and {len(other.rows)} rows"
    for number, rows in enumerate(zip(one.rows, other.rows, strict=True)):
        if not all(map(is_same, *rows)):
            return f"row {number}: {rows[0]} and {rows[1]}"
    return None


class Questions(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.place, cls.tasks = fleet.make_lake(Path(folder.name), PROGRAM, NOW, has_bill=True)
        cls.duckdb = staticmethod(ask.engine("duckdb", cls.place, FIRST, LAST))

    def result(self, name: str) -> list[dict[str, Any]]:
        found = self.duckdb(ask.question(SQL / f"{name}.sql", FIRST, LAST))
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    def check(self, engine: ask.Engine) -> None:
        """Compares every row of every question with DuckDB."""
        self.assertEqual(len(QUESTIONS), 12)
        for path in QUESTIONS:
            with self.subTest(path.name):
                text = ask.question(path, FIRST, LAST)
                expected = self.duckdb(text)
                self.assertGreater(len(expected.rows), 0)
                self.assertIsNone(difference(expected, engine(text)))

    def test_polars_has_the_same_rows(self) -> None:
        self.check(ask.engine("polars", self.place, FIRST, LAST))

    def test_ebb_has_the_same_rows(self) -> None:
        self.check(ask.engine("ebb", self.place, FIRST, LAST))

    @unittest.skipUnless(has_java(), NO_JAVA)
    def test_spark_has_the_same_rows(self) -> None:
        self.check(ask.engine("spark", self.place, FIRST, LAST))

    def test_athena_parses_the_questions_and_means_the_same(self) -> None:
        """Athena is not here: sqlglot reads each question as Athena does, and DuckDB runs its translation."""

        def translated(text: str) -> ask.Result:
            return self.duckdb(sqlglot.transpile(text, read="athena", write="duckdb", error_level=_RAISE)[0])

        self.check(translated)
        for path in QUESTIONS:
            check_reserved_words(self, sqlglot.parse_one(path.read_text(), read="athena", error_level=_RAISE))

    def test_the_views_of_athena_name_the_fields_of_the_lists_in_order(self) -> None:
        fields = {field.name: field.type for field in DeltaTable(ask.location(self.place, "steps")).schema().fields}
        detail = {field.name: field.type for field in fields["detail"].fields}
        states = [field.name for field in detail["states"].element_type.fields]
        views = [sqlglot.parse_one(text, read="athena", error_level=_RAISE) for text in ask.statements("athena")]
        for view in views:
            self.assertIsInstance(view, exp.Create)
            check_reserved_words(self, view)
        unnest = next(view.find(exp.Unnest) for view in views if view.find(exp.Unnest))
        self.assertEqual([column.name for column in unnest.args["alias"].columns], states)
        # Without the list, the view is the same text as in DuckDB.
        self.assertEqual(_select(views[0]), _select(sqlglot.parse_one(ask.statements("duckdb")[0], read="duckdb")))

    def test_glue_has_the_columns_of_the_tables(self) -> None:
        catalog = json.loads((SQL.parent / "terraform/modules/athena/catalog.json").read_text())
        for table in ask.TABLES:
            schema = json.loads(DeltaTable(ask.location(self.place, table)).schema().to_json())
            columns = [{"name": field["name"], "type": glue_type(field["type"])} for field in schema["fields"]]
            self.assertEqual(columns, catalog["tables"][table]["columns"], table)

    def test_each_question_begins_with_its_columns(self) -> None:
        for path in QUESTIONS:
            with self.subTest(path.name):
                text = path.read_text()
                self.assertRegex(text, r"\A-- Question: [^\n]+\?\n-- Columns:\n")
                found = self.duckdb(ask.question(path, FIRST, LAST))
                self.assertEqual(re.findall(r"^--   (\w+) ", text, re.M), found.columns)

    def test_the_answers_are_those_of_the_fleet(self) -> None:
        users = self.result("cpu_by_user")
        self.assertEqual(sum(row["tasks"] for row in users), self.tasks)
        self.assertEqual({row["user_id"] for row in users}, {1001, 1002, -1})
        memory = {row["step_name"]: row for row in self.result("memory_requests")}
        self.assertEqual(sum(row["tasks"] for row in memory.values()), self.tasks)
        self.assertIsNone(memory["qc 'ü', 100 %"]["requested_bytes"])
        self.assertLess(memory["align"]["measured_tasks"], memory["align"]["tasks"])
        idle = {(row["node"], row["day"]): row for row in self.result("idle_node_hours")}
        yesterday = TODAY - timedelta(days=1)
        self.assertTrue(is_same(idle["rack1-0", yesterday]["idle_hours"], 24.0))
        self.assertTrue(is_same(idle["rack1-0", yesterday]["idle_core_hours"], 24.0 * 16))
        # A probe that observes neither disk nor network makes nothing idle.
        self.assertEqual(idle["rack2-7", yesterday]["idle_hours"], 0)
        self.assertGreater(idle["rack2-7", yesterday]["unknown_hours"], 0)
        self.assertEqual([row["step_name"] for row in self.result("oom_kills")], ["call_variants"])
        losses = {row["node"]: row["events_lost"] for row in self.result("probe_losses")}
        self.assertEqual([node for node, lost in losses.items() if lost], ["rack2-7", "rack2-6", "rack2-5"])
        self.assertIn("idle_node", {row["kind"] for row in self.result("findings_by_owner")})
        costs = self.result("cost_by_step")
        self.assertEqual({row["step_name"] for row in costs}, {*memory, None})
        parts = ("tasks_usd", "unused_usd", "other_usd")
        billed = sum(row[part] for row in costs for part in parts)
        self.assertAlmostEqual(billed, fleet.DAYS * fleet.NODES * float(fleet.DAY_USD), places=6)
        # A day is written six hours after its end.
        use = {(row["day"], row["node"]): row for row in self.result("node_use_by_day")}
        newest = max(day for day, _ in use)
        self.assertGreaterEqual(newest, TODAY - timedelta(days=2))
        row = use[newest, "rack1-0"]
        idle_hours = row["observed_hours"] - row["active_hours"]
        self.assertAlmostEqual(row["observed_hours"], 24, places=4)
        self.assertGreater(idle_hours, 0)
        self.assertEqual(row["unpriced_hours"], 0)
        self.assertAlmostEqual(row["idle_usd"], idle_hours / 24 * float(fleet.DAY_USD), places=4)

    def test_an_earlier_version_has_the_rows_of_its_sweep(self) -> None:
        import polars

        location = ask.location(self.place, "steps")
        newest = DeltaTable(location).version()
        counts = [len(polars.read_delta(location, version=version)) for version in range(newest + 1)]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-1], self.tasks)
        self.assertIn(True, [0 < count < self.tasks for count in counts])
        escaped = location.replace("'", "''")
        for version, count in enumerate(counts):
            found = self.duckdb(f"SELECT COUNT(*) FROM delta_scan('{escaped}', version => {version})")
            self.assertEqual(found.rows, [(count,)])


_RAISE = sqlglot.ErrorLevel.RAISE


def _select(view: exp.Expression) -> str:
    return view.expression.sql(dialect="duckdb")


def check_reserved_words(case: unittest.TestCase, tree: exp.Expression) -> None:
    """A reserved word of Athena is no name of a column."""
    reserved = sqlglot.Dialect.get_or_raise("trino").generator_class.RESERVED_KEYWORDS
    case.assertGreater(len(reserved), 10)
    case.assertEqual([name.name for name in tree.find_all(exp.Identifier) if name.name.lower() in reserved], [])


def glue_type(delta: Any) -> str:
    """The type in Glue of a type in the schema of a Delta table."""
    if isinstance(delta, str):
        return {"long": "bigint", "integer": "int"}.get(delta, delta)
    if delta["type"] == "array":
        return f"array<{glue_type(delta['elementType'])}>"
    return "struct<" + ",".join(f"{field['name']}:{glue_type(field['type'])}" for field in delta["fields"]) + ">"


class Comparison(unittest.TestCase):
    def test_a_difference_is_noticed(self) -> None:
        row = (date(2026, 11, 1), "a", 1, 0.5, None)
        same = ask.Result(["x"], [("2026-11-01", "a", 1, 0.5 + 1e-12, None)])
        self.assertIsNone(difference(ask.Result(["x"], [row]), same))
        for at, other in [(0, "2026-11-02"), (1, "A"), (2, 2), (2, None), (3, 0.5001), (4, 0), (4, "")]:
            changed = ask.Result(["x"], [row[:at] + (other,) + row[at + 1 :]])
            self.assertIsNotNone(difference(ask.Result(["x"], [row]), changed))
        self.assertIsNotNone(difference(same, ask.Result(["y"], same.rows)))
        self.assertIsNotNone(difference(same, ask.Result(["x"], same.rows * 2)))
        two = [(1,), (2,)]
        self.assertIsNotNone(difference(ask.Result(["x"], two), ask.Result(["x"], two[::-1])))


if __name__ == "__main__":
    unittest.main()
