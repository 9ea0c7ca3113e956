#!/usr/bin/env python3
"""Computes profiles of steps, node hours and shares of costs with Spark, from the tables of the lake.

    sql/daily_fold.py file:///srv/ebb file:///srv/fold --day 2026-11-24
    spark-submit --packages io.delta:delta-spark_2.13:4.0.0 --py-files sql/ask.py sql/daily_fold.py \\
      --reader delta s3a://NAME s3a://OTHER/fold

It writes Parquet below the second place: `node_hours` and `cost_shares` of the day, and `step_profiles` of the 14 days
up to it. Each run replaces the results of its day. Run it for a day after the tasks of that day have ended. The package of
Delta Lake must belong to the version of Spark.
"""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import ask

_FOLDER = Path(__file__).resolve().parent

# As many days as the advice of a sweep uses.
PROFILE_DAYS = 14


def results(spark: Any, day: date, profile_days: int = PROFILE_DAYS) -> dict[str, Any]:
    """The three results as frames with the column `day`, by name."""
    from pyspark.sql import functions

    first = day - timedelta(days=profile_days - 1)
    profiles = spark.sql(ask.question(_FOLDER / "fold/step_profiles.sql", first, day))
    shares = (_FOLDER / "fold/cost_shares.sql").read_text()
    return {
        "node_hours": spark.sql(ask.question(_FOLDER / "idle_node_hours.sql", day, day)),
        "step_profiles": profiles.withColumn("day", functions.lit(day)),
        "cost_shares": spark.sql(shares, args={"first": day, "last": day}),
    }


def fold(spark: Any, out: str, day: date, profile_days: int = PROFILE_DAYS) -> None:
    """Writes the results of a day in place of earlier ones."""
    for name, frame in results(spark, day, profile_days).items():
        writer = frame.write.mode("overwrite").partitionBy("day").option("partitionOverwriteMode", "dynamic")
        writer.parquet(f"{out.rstrip('/')}/{name}")


def _cluster_session(place: str) -> Any:
    """The session of spark-submit, which has the package of Delta Lake."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("ebb daily fold").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    # The tables that the job reads; a lake may lack others.
    for table in ("heartbeats", "steps"):
        spark.read.format("delta").load(f"{place.rstrip('/')}/lake/{table}").createOrReplaceTempView(table)
    return spark


def main(arguments: Sequence[str]) -> None:
    """Runs the job."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("place", help="place of the sweep, or s3a:// and the name of the bucket")
    parser.add_argument("out", help="place for the results")
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    parser.add_argument("--day", type=date.fromisoformat, default=yesterday, help="UTC date [default: yesterday]")
    parser.add_argument(
        "--reader",
        choices=("files", "delta"),
        default="files",
        help="files: Parquet files of the newest version, on this machine; delta: the package of Delta Lake",
    )
    options = parser.parse_args(arguments)
    session = {"files": ask.spark_session, "delta": _cluster_session}[options.reader]
    spark = session(options.place)
    fold(spark, options.out, options.day)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
