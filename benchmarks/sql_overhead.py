"""What ``%%sleeper sql --engine duckdb`` adds to bare DuckDB over the same files, as a cell of a shell.

``python -m benchmarks.sql_overhead [--rows 1000000] [--rounds 40]``: each round runs every variant in random
order; printed are medians, the median of the differences within a round, and the difference of the least times, which
varies least on a busy machine. Each variant ends with the first rows in Arrow. The floors are bare DuckDB with a new
database for each statement, and with one that is kept open, as ours is.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import sleeper_nb as sl
from benchmarks.compaction import SCHEMA, rows_of
from sleeper_nb.display.preview import DEFAULT_DISPLAY

QUERIES = {
    "one number": "SELECT count(*) AS n FROM {}",
    "a group by": "SELECT city, count(*) AS n, min(key) AS least FROM {} GROUP BY city ORDER BY city",
    "a condition": "SELECT * FROM {} WHERE key > :least ORDER BY key LIMIT 5",
}
OURS, OWN, KEPT = "%%sleeper sql", "bare, a database each", "bare, one database"
WARMED_UP = 3


def ways(folder: str, session: sl.Session) -> dict[str, Callable[[str], pa.Table]]:
    """Return what runs a statement of `QUERIES`, by what it is called."""
    import duckdb
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    os.environ["IPYTHONDIR"] = f"{folder}/ipython"
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    shell.run_line_magic("load_ext", "sleeper_nb")
    shell.push({"session": session, "least": "user-6"})
    shell.run_cell("opened = %sleeper use $session").raise_error()
    files = [str(path) for path in Path(folder, "w").rglob("data/**/*.parquet")]

    def ours(query: str) -> pa.Table:
        return shell.run_cell_magic("sleeper", "sql --engine duckdb", query.format("t")).head()

    def bare(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
        params = {"least": "user-6"} if ":least" in query else None
        rows = connection.sql(query.format(f"read_parquet({files})").replace(":least", "$least"), params=params)
        return rows.limit(DEFAULT_DISPLAY.rows + 1).to_arrow_table()

    def own(query: str) -> pa.Table:
        with duckdb.connect() as connection:
            return bare(connection, query)

    kept = duckdb.connect()
    return {OURS: ours, OWN: own, KEPT: lambda query: bare(kept, query)}


def measured(run: dict[str, Callable[[str], pa.Table]], query: str, rounds: int) -> dict[str, list[float]]:
    """Return for each way the milliseconds of every round."""
    chosen, found = random.Random(7), {name: [] for name in run}  # noqa: S311 - the same order each run
    for number in range(rounds + WARMED_UP):
        answers = []
        for name in chosen.sample(list(run), len(run)):
            began = time.perf_counter()
            answers.append(run[name](query).to_pydict())
            if number >= WARMED_UP:
                found[name].append(1000 * (time.perf_counter() - began))
        if answers != [answers[0]] * len(answers):
            raise SystemExit(f"the answers differ: {answers}")
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=40)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, sl.connect(f"{folder}/w") as session:
        table = session.create_table("t", SCHEMA, ["user-3", "user-5", "user-7"])
        table.ingest(rows_of(0, given.rows))
        run = ways(folder, session)
        for called, query in QUERIES.items():
            found = measured(run, query, given.rounds)
            print(f"{called}: {query}   {given.rows:,} rows in 4 files, {given.rounds} rounds")
            for name, times in found.items():
                adds = statistics.median(a - b for a, b in zip(found[OURS], times, strict=True))
                ratio = statistics.median(found[OURS]) / statistics.median(times)
                print(
                    f"  {name:22} {statistics.median(times):6.1f} ms   ours / it {ratio:5.2f}"
                    f"   ours − it {adds:+6.1f} ms   of the least times {min(found[OURS]) - min(times):+6.1f} ms"
                )


if __name__ == "__main__":
    main()
