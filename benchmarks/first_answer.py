"""Seconds from a cold Python to the first answer of SQL: ours without and with Spark, and bare DuckDB on the files.

``python -m benchmarks.first_answer [--rounds 5]``: each variant is a process of its own, on a table of one million and
of ten million rows; medians of interleaved rounds of the seconds and of the CPU time of all threads, and the ratio of
the seconds to bare DuckDB. The CPU time is the figure to compare on a machine that does other work.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import sleeper_nb as sl
from benchmarks.compaction import SCHEMA, rows_of

ROOT = Path(__file__).parents[1]
QUESTION = "SELECT city, count(*) AS n FROM {} GROUP BY city ORDER BY city"
BARE = """
import sys, duckdb
duckdb.sql(sys.argv[2].format(f"read_parquet('{sys.argv[1]}/*/data/**/*.parquet')")).to_arrow_table()
"""
OURS = """
import sys
import sleeper_nb as sl
sl.connect(sys.argv[1]).sql(sys.argv[2].format("t"), engine=sys.argv[3]).to_arrow()
"""


def seconds(code: str, *arguments: str) -> tuple[float, float]:
    """Return how long a process took to its answer, and its CPU time."""
    timed = code + "\nimport time; print('ended', time.clock_gettime(time.CLOCK_MONOTONIC), time.process_time())"
    began = time.clock_gettime(time.CLOCK_MONOTONIC)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", timed, *arguments], env=environment, check=True, capture_output=True, text=True
    )
    ended, cpu = map(float, done.stdout.rpartition("ended ")[2].split())
    return ended - began, cpu


def main(rounds: int) -> None:
    """Print the medians for each size."""
    for rows in (1_000_000, 10_000_000):
        with tempfile.TemporaryDirectory() as folder:
            with sl.connect(f"{folder}/warehouse") as session:
                table = session.create_table("t", SCHEMA)
                for number in range(rows // 1_000_000):
                    table.ingest(rows_of(number, 1_000_000))
            ways = {
                "bare DuckDB": (BARE, f"{folder}/warehouse/default"),
                "ours, auto": (OURS, f"{folder}/warehouse", "auto"),
                "ours, spark": (OURS, f"{folder}/warehouse", "spark"),
            }
            taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
            for _ in range(rounds):
                for name, (code, where, *engine) in ways.items():
                    taken[name].append(seconds(code, where, QUESTION, *engine))
            medians = {
                name: [statistics.median(each) for each in zip(*times, strict=True)] for name, times in taken.items()
            }
            floor = medians["bare DuckDB"][0]
            for name, (took, cpu) in medians.items():
                print(f"{rows:>11,} rows  {name:<12} {took:6.2f} s  {took / floor:5.2f} ×  CPU {cpu:5.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    main(parser.parse_args().rounds)
