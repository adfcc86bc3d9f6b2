"""A table's life: load, query, compact, split, look up, change, travel in time and roll back, with many rows.

``python -m benchmarks.end_to_end [--rows 100000000] [--leaves 64] [--loads 4] [--keep FOLDER]``: one process, no Spark.
The input is written first, in parts, and loaded in as many bulk imports. Printed for each step: seconds, CPU seconds,
millions of rows a second where all rows are worked on, the files of the table afterwards, and the most memory that the
process had up to then. After each step the number of rows is checked, and after the rollback the sum of a column too.

A hundred million rows take about 3 GB for the input and 8 GB for the table, whose old versions stay.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import sleeper_nb as sl
from benchmarks.bulk_import import FILES, write_input
from benchmarks.ingest import SCHEMA, split_points

LOOKUPS = 50
ALL_ROWS = "SELECT count(*), sum(number), max(amount), count(DISTINCT place) FROM t"
EVERY = 1000
"""One row of so many is updated, all over the table."""


class Steps:
    """Runs the steps on a table, and prints what each took."""

    def __init__(self, table: sl.Table) -> None:
        self.table = table

    def run(self, name: str, work: Callable[[], Any], rows: int, *, worked_on: int = 0) -> Any:
        """Run a step, after which the table has so many rows; return what it returns."""
        wall, cpu = time.perf_counter(), time.process_time()
        found = work()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        actual = self.table.scan().count()
        if actual != rows:
            raise SystemExit(f"{name}: {actual:,} rows instead of {rows:,}")
        rate = f"{worked_on / wall / 1e6:6.2f} M rows/s" if worked_on else " " * 15
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
        files = len({file["filename"] for file in self.table.inspect.files()})
        print(f"{name:34} {wall:8.2f} s  CPU {cpu:8.2f} s  {rate}  {files:5,} files  peak {peak:6,.0f} MB", flush=True)
        return found

    def lookups(self, name: str, keys: list[str], rows: int) -> None:
        """Look keys up, one after the other, and print the median and the slowest."""
        taken = []

        def each() -> None:
            for key in keys:
                began = time.perf_counter()
                assert self.table.scan(keys=key).to_arrow().num_rows
                taken.append(1000 * (time.perf_counter() - began))

        self.run(name, each, rows)
        print(f"{'':34} median {statistics.median(taken):.1f} ms, slowest {max(taken):.1f} ms", flush=True)


def write_parts(folder: Path, rows: int, leaves: int, loads: int) -> list[Path]:
    """Write the input of each load to a folder; rows that are there stay."""
    parts = [folder / f"{rows}-{number}-of-{loads}" for number in range(loads)]
    for number, part in enumerate(parts):
        if not part.exists():
            begun = part.with_suffix(".begun")
            shutil.rmtree(begun, ignore_errors=True)
            write_input(begun, rows // loads, leaves, first=number * FILES)
            begun.rename(part)
    return parts


def some_keys(part: Path) -> list[str]:
    """Return keys of some rows."""
    file = pq.ParquetFile(next(iter(sorted(part.iterdir()))))
    keys = file.read_row_group(0, ["key"])["key"].to_pylist()
    return random.Random(1).sample(keys, min(LOOKUPS, len(keys)))  # noqa: S311 - not for secrets


def life(session: sl.Session, parts: list[Path], given: argparse.Namespace) -> None:
    """Run all steps."""
    table = session.create_table("t", SCHEMA, split_points(given.leaves))
    steps, a_load = Steps(table), given.rows // given.loads // FILES * FILES
    total = given.loads * a_load
    query = lambda: session.sql(ALL_ROWS).to_arrow().to_pylist()  # noqa: E731

    for number, part in enumerate(parts, 1):
        steps.run(
            f"load {number} of {given.loads}",
            lambda part=part: table.bulk_import(str(part)),
            number * a_load,
            worked_on=a_load,
        )
    loaded = steps.run("query over all rows", query, total, worked_on=total)
    keys = some_keys(parts[0])
    steps.lookups(f"{len(keys)} lookups, {given.loads} files a leaf", keys, total)
    steps.run("compact", lambda: table.maintenance.compact("all"), total, worked_on=total)
    steps.run("query over all rows, compacted", query, total, worked_on=total)
    steps.lookups(f"{len(keys)} lookups, compacted", keys, total)

    most = max(2, total // given.leaves * 3 // 4)
    steps.run("split each leaf", lambda: table.maintenance.split(threshold=most), total)
    print(f"{'':34} {len(table.inspect.partitions()):,} leaves", flush=True)
    steps.lookups(f"{len(keys)} lookups, split", keys, total)

    before = table.at().resolved.snapshot_id
    low, high = f"{2**47:012x}", f"{2**47 + 2**48 // 100:012x}"
    in_range = table.scan(region={"key": (low, high)}).count()
    steps.run("delete a range of 1 %", lambda: table.delete(f"key >= '{low}' AND key < '{high}'"), total - in_range)
    left = total - in_range
    steps.run(
        f"update one row of {EVERY:,}", lambda: table.update({"amount": "amount + 1"}, f"number % {EVERY} = 7"), left
    )
    steps.lookups(f"{len(keys)} lookups, changed", [key for key in keys if not low <= key < high], left)
    steps.run("count the rows before the changes", lambda: table.at(before).scan().count(), left)
    steps.run("roll back", lambda: table.rollback(before), total)
    if steps.run("query over all rows, rolled back", query, total, worked_on=total) != loaded:
        raise SystemExit("the rollback did not bring the same rows back")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=100_000_000)
    options.add_argument("--leaves", type=int, default=64)
    options.add_argument("--loads", type=int, default=4)
    options.add_argument("--keep", type=Path, help="where the input stays for the next run")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        parts = write_parts(given.keep or Path(name) / "input", given.rows, given.leaves, given.loads)
        size = sum(file.stat().st_size for part in parts for file in part.iterdir())
        print(f"{given.rows:,} rows, {size >> 20:,} MB, {given.leaves} leaves, {os.cpu_count()} cores", flush=True)
        with sl.connect(Path(name) / "table") as session:
            life(session, parts, given)


if __name__ == "__main__":
    main()
