#!/usr/bin/env python3
"""Runs one of the questions in this folder on an engine, over the lake of a deployment.

    sql/ask.py duckdb file:///srv/ebb sql/oom_kills.sql
    sql/ask.py polars s3://NAME sql/cpu_by_user.sql --from 2026-11-01 --to 2026-11-30

The engines are duckdb, polars, spark and ebb. The packages are those of tests/sql/requirements.txt; ebb needs the
program `ebb`, or its path in EBB_PROGRAM. For a bucket, polars and ebb take credentials from the environment.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

_FOLDER = Path(__file__).resolve().parent
TABLES = ("heartbeats", "steps", "findings", "costs", "node_hours")

# The days of every question, which are the only text that differs between two runs.
_DAYS = re.compile(r"BETWEEN date\('[0-9-]+'\) AND date\('[0-9-]+'\)")


class Result(NamedTuple):
    """Names of columns, and rows in the order of the query."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


# Runs the text of a question.
Engine = Callable[[str], Result]


def question(path: Path, first: date, last: date) -> str:
    """The text of a question for the days from `first` to `last`."""
    text, count = _DAYS.subn(f"BETWEEN date('{first}') AND date('{last}')", path.read_text())
    if count == 0:
        raise ValueError(f"{path} has no days: BETWEEN date('...') AND date('...')")
    return text


def location(place: str, table: str) -> str:
    """The folder of a table, as a path if it is on this machine: engines do not read escapes of a URL."""
    path = f"{place.rstrip('/')}/lake/{table}"
    return unquote(urlsplit(path).path) if path.startswith("file://") else path


def tables(place: str) -> list[str]:
    """The tables that a lake has: `costs` needs a bill, and `node_hours` a whole day."""
    if "://" in place and not place.startswith("file://"):
        from deltalake import DeltaTable

        return [table for table in TABLES if DeltaTable.is_deltatable(location(place, table))]
    return [table for table in TABLES if Path(location(place, table), "_delta_log").is_dir()]


def statements(engine: str) -> list[str]:
    """The statements that create the views of an engine."""
    text = (_FOLDER / f"views/{engine}.sql").read_text()
    return [part.strip() for part in text.split(";") if part.strip()]


def view_statements(engine: str, place: str) -> list[str]:
    """The statements that create the views of a lake; all views read `steps`."""
    return statements(engine) if "steps" in tables(place) else []


def duckdb_engine(place: str, threads: int | None = None) -> Engine:
    """DuckDB with its Delta extension, from the package of Python or from the network."""
    import duckdb

    connection = duckdb.connect()
    if threads is not None:
        connection.execute(f"SET threads = {threads}")
    extension = _duckdb_extension()
    connection.execute(f"LOAD '{extension}'" if extension else "INSTALL delta; LOAD delta")
    for table in tables(place):
        folder = location(place, table).replace("'", "''")
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM delta_scan('{folder}')")
    for statement in view_statements("duckdb", place):
        connection.execute(statement)
    return lambda sql: _of_arrow(connection.execute(sql).to_arrow_table())


def _duckdb_extension() -> Path | None:
    try:
        import duckdb_extension_delta as package
    except ImportError:
        return None
    return next(Path(package.__file__).parent.rglob("delta.duckdb_extension"), None)


def polars_engine(place: str) -> Engine:
    """Polars, which reads Delta tables with the package deltalake."""
    import polars

    context = polars.SQLContext({table: polars.scan_delta(location(place, table)) for table in tables(place)})
    for statement in view_statements("polars", place):
        context.execute(statement)
    return lambda sql: _of_arrow(context.execute(sql, eager=True).to_arrow())


def spark_session(place: str) -> Any:
    """A Spark on this machine with the tables as views.

    It reads the Parquet files that the newest version of each table lists. With the package of Delta Lake for Spark,
    `spark.read.format("delta").load(...)` does the same.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("ebb")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for table in tables(place):
        spark_files(spark, location(place, table)).createOrReplaceTempView(table)
    return spark


def spark_files(spark: Any, folder: str, version: int | None = None) -> Any:
    """The rows of a version of a table, the newest by default, from its Parquet files."""
    from deltalake import DeltaTable
    from pyspark.sql.types import StructType

    table = DeltaTable(folder, version=version)
    # Delta stores a schema as Spark writes it. Earlier files lack the columns that were added since.
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    base = folder.replace("s3://", "s3a://", 1)
    files = [f"{base}/{path}" for path in table.get_add_actions(flatten=True)["path"].to_pylist()]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", base).parquet(*files)


def spark_engine(place: str) -> Engine:
    """Spark on this machine."""
    spark = spark_session(place)
    for statement in view_statements("spark", place):
        spark.sql(statement)
    return lambda sql: _of_arrow(spark.sql(sql).toArrow())


def ebb_engine(place: str, first: date, last: date) -> Engine:
    """`ebb lake query`, which runs SQLite."""
    program = os.environ.get("EBB_PROGRAM", "ebb")
    views = "\n".join(statements("ebb"))

    def run(sql: str) -> Result:
        # A statement has one WITH, so only the questions that name a view get it.
        text = f"{views}\n{sql}" if re.search("task_(details|states)", sql) else sql
        command = [program, "lake", "query", "--lake", place, f"--from={first}", f"--to={last}"]
        command += ["--limit=1000000", "--format=json", "--", text]
        answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        columns = answer["columns"]
        return Result(columns, [tuple(row[column] for column in columns) for row in answer["rows"]])

    return run


def _of_arrow(table: Any) -> Result:
    columns = table.column_names
    return Result(columns, [tuple(row[column] for column in columns) for row in table.to_pylist()])


def engine(name: str, place: str, first: date, last: date) -> Engine:
    """The engine of a name over the lake of a place, such as `file:///srv/ebb`."""
    if name == "ebb":
        return ebb_engine(place, first, last)
    return {"duckdb": duckdb_engine, "polars": polars_engine, "spark": spark_engine}[name](place)


def main(arguments: Sequence[str]) -> None:
    """Runs a question and writes its rows as CSV."""
    about, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("engine", choices=("duckdb", "polars", "spark", "ebb"), help="engine that runs the question")
    parser.add_argument("place", help="place of the sweep, or s3:// and the name of the bucket")
    parser.add_argument("file", type=Path, help="file with the question")
    today = datetime.now(UTC).date()
    month_ago = today - timedelta(days=29)
    parser.add_argument("--from", dest="first", type=date.fromisoformat, default=month_ago, help="first UTC date")
    parser.add_argument("--to", dest="last", type=date.fromisoformat, default=today, help="last UTC date")
    options = parser.parse_args(arguments)
    is_bucket = "://" in options.place and not options.place.startswith("file://")
    if is_bucket and options.engine in ("duckdb", "spark"):
        parser.error(f"this script reads a bucket with polars or ebb; for {options.engine} see docs/src/lake.md")
    text = question(options.file, options.first, options.last)
    try:
        result = engine(options.engine, options.place, options.first, options.last)(text)
    except subprocess.CalledProcessError as error:
        # The program has written the reason.
        sys.exit(error.returncode)
    writer = csv.writer(sys.stdout)
    writer.writerow(result.columns)
    writer.writerows(result.rows)


if __name__ == "__main__":
    main(sys.argv[1:])
