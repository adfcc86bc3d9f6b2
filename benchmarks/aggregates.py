"""Aggregates of all rows, as SQL on both engines, compared with the stock engine on the same Parquet files.

``python -m benchmarks.aggregates [--rows 10000000] [--leaves 16] [--rounds 7] [--engines duckdb,spark]``: each
variant is a process of its own that stays open, so both are warm; the rounds alternate between ours and the stock
engine, in random order. Printed are medians and their ratio, and the ratio of the least times, which varies least on a
busy machine. Every round compares the answers.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

import sleeper_nb as sl
from benchmarks.compaction import SCHEMA, rows_of
from benchmarks.turns import taking_turns

STATEMENTS = {
    "sums of columns": "SELECT count(*) AS n, sum(number) AS s, min(price) AS low, max(price) AS high FROM {}",
    "a group by": "SELECT city, count(*) AS n, sum(number) AS s FROM {} GROUP BY city ORDER BY city",
    "a condition": "SELECT count(*) AS n, sum(number) AS s FROM {} WHERE price > 120",
    "text keys": "SELECT count(*) AS n, max(length(key)) AS longest FROM {} WHERE key LIKE '%77'",
    "distinct values": "SELECT count(DISTINCT number) AS n FROM {}",
}
WARMED_UP = 3


def files_of(folder: str) -> list[str]:
    """Return the data files of the table."""
    return sorted(map(str, Path(folder).glob("default/*/data/**/*.parquet")))


def ours(folder: str, engine: str) -> Callable[[str], pa.Table]:
    """Return what runs a statement in a session of ours."""
    session = sl.connect(folder)
    return lambda statement: session.sql(statement.format("t"), engine=engine).to_arrow()


def stock(folder: str, engine: str) -> Callable[[str], pa.Table]:
    """Return what runs a statement on the stock engine, on one open database or session."""
    if engine == "duckdb":
        import duckdb

        database = duckdb.connect()
        return lambda text: database.sql(text.format(f"read_parquet({files_of(folder)})")).to_arrow_table()
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[*]").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.read.parquet(*files_of(folder)).createOrReplaceTempView("bare")
    return lambda text: spark.sql(text.format("bare")).toArrow()


def answer(make: Callable[[str, str], Callable[[str], pa.Table]], folder: str, engine: str, pipe: Connection) -> None:
    """Run statements that arrive, and send back the seconds and the rows of each."""
    run = make(folder, engine)
    while statement := pipe.recv():
        began = time.perf_counter()
        rows = run(statement)
        pipe.send((time.perf_counter() - began, rows.to_pydict()))


def measured(pipes: dict[str, Connection], statement: str, rounds: int) -> dict[str, list[float]]:
    """Return for each process the milliseconds of every round."""
    chosen, times = random.Random(7), {name: list[float]() for name in pipes}  # noqa: S311 - the same order each run
    for number in range(rounds + WARMED_UP):
        answers = []
        for name in chosen.sample(list(pipes), len(pipes)):
            pipes[name].send(statement)
            seconds, rows = pipes[name].recv()
            answers.append(rows)
            if number >= WARMED_UP:
                times[name].append(1000 * seconds)
        if answers != [answers[0]] * len(answers):
            raise SystemExit(f"the answers differ: {answers}")
    return times


def compare(folder: str, engine: str, rounds: int) -> None:
    """Print the ratios on one engine."""
    print(f"{engine:20}{'ours':>10}{'stock':>10}{'ratio':>8}{'of least':>10}")
    makers = {"ours": (ours, folder, engine), "stock": (stock, folder, engine)}
    with taking_turns(answer, makers) as pipes:
        for called, statement in STATEMENTS.items():
            mine, theirs = measured(pipes, statement, rounds).values()
            own, other = statistics.median(mine), statistics.median(theirs)
            least = min(mine) / min(theirs)
            print(f"  {called:18}{own:7.0f} ms{other:7.0f} ms{own / other:8.2f}{least:10.2f}", flush=True)


def main() -> None:
    """Make the table and print the ratios."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--leaves", type=int, default=16)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--engines", default="duckdb,spark")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with sl.connect(folder) as session:
            rows = pa.concat_tables([rows_of(number, given.rows // 10) for number in range(10)])
            session.create_table("t", SCHEMA, data=rows, leaves=given.leaves)
            del rows
        print(f"{given.rows:,} rows in {len(files_of(folder))} files, {given.rounds} rounds")
        for engine in given.engines.split(","):
            compare(folder, engine, given.rounds)


if __name__ == "__main__":
    main()
