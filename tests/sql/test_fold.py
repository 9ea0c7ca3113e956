"""The Spark job has the results of a sweep, on a lake that `ebb sweep` made."""

import csv
import io
import json
import subprocess
import tempfile
import unittest
from collections import defaultdict
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fleet
from test_questions import FIRST, LAST, NO_JAVA, NOW, PROGRAM, SQL, TODAY, ask, difference, has_java, plain

import daily_fold

_PRICE_USD = 0.35


def ebb(command: str, place: str, *arguments: str) -> str:
    """The output of a command of `ebb`."""
    whole = [PROGRAM, command, "--lake", place, *arguments]
    return subprocess.run(whole, check=True, stdout=subprocess.PIPE, text=True).stdout


@unittest.skipUnless(has_java(), NO_JAVA)
class Fold(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.place, cls.tasks = fleet.make_lake(cls.folder, PROGRAM, NOW)
        cls.spark = ask.spark_session(cls.place)

    def rows(self, frame: Any) -> list[dict[str, Any]]:
        return [row.asDict() for row in frame.collect()]

    def test_profiles_are_those_of_the_advice(self) -> None:
        advice = json.loads(ebb("tune", self.place, "--format=json"))["steps"]
        profiles = self.rows(daily_fold.results(self.spark, TODAY)["step_profiles"])
        self.assertEqual(sum(row["tasks"] for row in profiles), self.tasks)
        self.assertEqual([row["step_name"] for row in profiles], sorted(step["step"] for step in advice))
        for row in profiles:
            [step] = [step for step in advice if step["step"] == row["step_name"]]
            counts = ("tasks", "failed_tasks", "killed_tasks", "sampled_tasks", "peak_max_bytes")
            names = ("runs", "failed", "oom_kills", "samples", "peak_memory")
            self.assertEqual([row[name] for name in counts], [step[name] for name in names])
            wall = step["mean_wall"]
            self.assertAlmostEqual(row["mean_seconds"], wall["secs"] + wall["nanos"] / 1e9, delta=1e-6)
            self.assertEqual(int(row["mean_cores"] * 1000), step["mean_cores"])
            self.assertEqual(plain(row["last_end"].astimezone())[:19], step["last_seen"][:19])

    def test_node_hours_are_those_of_ebb(self) -> None:
        frame = daily_fold.results(self.spark, TODAY - timedelta(days=1))["node_hours"]
        yesterday = TODAY - timedelta(days=1)
        text = ask.question(SQL / "idle_node_hours.sql", yesterday, yesterday)
        expected = ask.engine("ebb", self.place, FIRST, LAST)(text)
        found = ask.Result(frame.columns, [tuple(row) for row in frame.collect()])
        self.assertEqual(len(found.rows), 8)
        self.assertIsNone(difference(expected, found))

    def test_shares_times_the_price_are_the_costs(self) -> None:
        costs = list(csv.DictReader(io.StringIO(ebb("costs", self.place, "--by=step", "--format=csv"))))
        for days_ago in (1, 2):
            day = TODAY - timedelta(days=days_ago)
            shares: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
            by_node: dict[str, float] = defaultdict(float)
            for row in self.rows(daily_fold.results(self.spark, day)["cost_shares"]):
                self.assertEqual(row["day"], day)
                shares[row["step_name"]][0] += row["used_node_hours"] * _PRICE_USD
                shares[row["step_name"]][1] += row["unused_node_hours"] * _PRICE_USD
                by_node[row["node"]] += row["used_node_hours"] + row["unused_node_hours"]
            expected = {row["step"]: row for row in costs if row["kind"] == "tasks" and row["day"] == str(day)}
            self.assertEqual(shares.keys(), expected.keys())
            for step, row in expected.items():
                # A sweep rounds the cost of each task to a millionth.
                rounding = (int(row["tasks"]) + 8) * 1e-6
                self.assertAlmostEqual(shares[step][0], float(Decimal(row["used_usd"])), delta=rounding, msg=step)
                self.assertAlmostEqual(shares[step][1], float(Decimal(row["unused_usd"])), delta=rounding, msg=step)
            self.assertLessEqual(max(by_node.values()), 24 + 1e-9)

    def test_a_second_run_replaces_its_day_only(self) -> None:
        out = self.folder / "fold"

        def stored(name: str) -> list[tuple[date, int]]:
            days = self.spark.read.parquet(str(out / name)).groupBy("day").count().collect()
            return sorted((row["day"], row["count"]) for row in days)

        yesterday = TODAY - timedelta(days=1)
        daily_fold.fold(self.spark, str(out), yesterday - timedelta(days=1))
        daily_fold.fold(self.spark, str(out), yesterday)
        once = {name: stored(name) for name in ("node_hours", "step_profiles", "cost_shares")}
        self.assertEqual({len(days) for days in once.values()}, {2})
        daily_fold.fold(self.spark, str(out), yesterday)
        self.assertEqual({name: stored(name) for name in once}, once)


if __name__ == "__main__":
    unittest.main()
