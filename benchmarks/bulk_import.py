"""Bulk import of a Parquet file into many leaves, compared with Spark's own range partitioning, sort and write.

``python -m benchmarks.bulk_import [--rows 10000000] [--leaves 16] [--rounds 3] [--strategy one_file_per_leaf]``:
both alternate in one warm session. The peer samples the keys and writes a folder; ours knows its split points, checks
the order, writes statistics and a page index, and commits.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import sleeper_nb as sl
from benchmarks.ingest import (
    PROPERTY,
    SCHEMA,
    STRATEGIES,
    seconds,
    split_points,
    unsorted_rows,
)


def write_input(path: Path, count: int) -> None:
    """Write unsorted rows in parts, so that they need not be in memory at once."""
    with pq.ParquetWriter(path, SCHEMA.arrow, compression="zstd") as writer:
        for seed, start in enumerate(range(0, count, 1_000_000)):
            writer.write_table(unsorted_rows(min(1_000_000, count - start), seed), row_group_size=500_000)


def by_spark_alone(spark, source: Path, target: Path, leaves: int) -> None:
    shutil.rmtree(target, ignore_errors=True)
    keys = SCHEMA.sort_order
    frame = spark.read.parquet(str(source)).repartitionByRange(leaves, *keys).sortWithinPartitions(*keys)
    frame.write.option("compression", "zstd").parquet(str(target))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--leaves", type=int, default=16)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--strategy", choices=STRATEGIES, default=STRATEGIES[0])
    given = options.parse_args()
    config = {"spark.sleeper.jit": "full"}
    with tempfile.TemporaryDirectory() as name, sl.connect(Path(name) / "warehouse", spark_config=config) as session:
        source, target = Path(name) / "rows.parquet", Path(name) / "peer"
        write_input(source, given.rows)
        points = split_points(given.leaves)
        table = session.create_table("t", SCHEMA, points, properties={PROPERTY: given.strategy})
        ways = {
            "Spark alone": lambda: by_spark_alone(session.spark().session(), source, target, given.leaves),
            given.strategy: lambda: table.bulk_import(str(source)),
        }
        times = {name: [] for name in ways}
        for number in range(given.rounds + 1):
            for way, work in ways.items():
                taken = seconds(work)
                print(f"round {number}: {way:24} {taken:6.2f} s", flush=True)
                if number:  # the first round warms the JVM and the Python workers
                    times[way].append(taken)
            if table.scan().count() != given.rows * (number + 1):
                raise SystemExit("rows are missing")
    floor = statistics.median(times["Spark alone"])
    print(f"{given.rows:,} rows into {given.leaves} leaves, {given.rounds} rounds")
    for way, each in times.items():
        print(f"{way:24} {statistics.median(each):6.2f} s   {statistics.median(each) / floor:.2f} x Spark alone")


if __name__ == "__main__":
    main()
