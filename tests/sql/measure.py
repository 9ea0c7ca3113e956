"""Times questions about 30 days with DuckDB on two cores: `make bench-lake`.

    tests/sql/measure.py FOLDER     with the lake of bench-lake in FOLDER/lake

Each time contains opening the table. The first run of a question is not counted.
"""

import sys
import time
from datetime import date
from pathlib import Path
from statistics import median

SQL = Path(__file__).resolve().parents[2] / "sql"
sys.path.insert(0, str(SQL))

import ask  # noqa: E402

FIRST, LAST = date(2026, 10, 1), date(2026, 10, 30)
RUNS = 5
GOAL_S = 2.0


def main() -> None:
    """Prints the median time of each question."""
    place = f"file://{Path(sys.argv[1]).resolve()}"
    print(f"DuckDB on the same files, median of {RUNS} runs")
    for name in ("cost_by_step", "node_use_by_day"):
        text = ask.question(SQL / f"{name}.sql", FIRST, LAST)
        seconds = []
        for _ in range(1 + RUNS):
            begin = time.monotonic()
            rows = len(ask.duckdb_engine(place, threads=2)(text).rows)
            seconds.append(time.monotonic() - begin)
        took = median(seconds[1:])
        met = "met" if took <= GOAL_S else "MISSED"
        print(f"  {name}: {rows} rows in {took:.2f} s (at most {GOAL_S:.0f} s) {met}")


main()
