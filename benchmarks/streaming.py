"""A stream catches up with 1,000 commits, compared with Spark's reader over the same files as Parquet in one batch.

``python -m benchmarks.streaming [--commits 1000] [--rows 1000] [--leaves 4] [--rounds 3]``: medians of
interleaved rounds on a warm session, into a sink that discards rows. The peer knows its files in advance. Planning is
what the source does in this process: find the files that the commits added, and divide them into tasks.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

import sleeper_nb as sl
from sleeper_nb.engines.spark.frames import columns_text
from sleeper_nb.engines.spark.instance_place import InstancePlace
from sleeper_nb.engines.spark.source import source_of
from sleeper_nb.session import open_source_table

SCHEMA = sl.Schema({"key": "long"}, values={"value": "string"})


def rows(number, count):
    """Return the rows of a commit, spread over all leaves."""
    keys = pa.array([(number + i * 1_000_000 // count) % 1_000_000 for i in range(count)], pa.int64())
    return pa.table({"key": keys, "value": pa.array([f"value {i}" for i in range(count)], pa.string())})


def seconds(work):
    """Return what work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def catch_up(spark, commits, count, **options):
    """Read every append of the table by a stream that begins before the first."""
    with tempfile.TemporaryDirectory() as checkpoint:
        frame = spark.readStream.format("sleeper").options(version="1", **options).load("t")
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        read = sum(progress["numInputRows"] for progress in query.recentProgress)
    if read != commits * count:
        raise SystemExit(f"{read:,} rows were read")


def plan(folder, cores):
    """Plan the same in this process."""
    kind = source_of(InstancePlace(str(folder), "default"), open_source_table, cores, prunes=False)
    reader = kind({"table": "t", "version": "1"}).streamReader(StructType())
    start = reader.initialOffset()
    reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    reader.stop()


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--commits", type=int, default=1000)
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--leaves", type=int, default=4)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--store", default="S3StateStore")
    given = options.parse_args()
    points = [1_000_000 * i // given.leaves for i in range(1, given.leaves)]
    unsynced = {"sleeper.storage.sync": "false"}
    with (
        tempfile.TemporaryDirectory() as name,
        sl.connect(name, properties=unsynced) as session,
    ):
        table = session.create_table("t", SCHEMA, points, state_store=given.store)
        for number in range(given.commits):
            table.ingest(rows(number, given.rows))
        spark = session.spark_session
        folder = Path(session.location) / table.entry.id
        files = [str(folder / file["filename"]) for file in table.inspect.files()]
        parquet = spark.read.schema(columns_text(SCHEMA.fields))
        ways = {
            "Spark's Parquet, one batch": lambda: parquet.parquet(*files).write.format("noop").mode("append").save(),
            "stream, one batch": lambda: catch_up(spark, given.commits, given.rows),
            "stream, 100 commits a batch": lambda: catch_up(
                spark, given.commits, given.rows, maxSnapshotsPerTrigger="100"
            ),
            "planning alone": lambda: plan(name, spark.sparkContext.defaultParallelism),
        }
        times = {way: [] for way in ways}
        for number in range(given.rounds + 1):
            for way, work in ways.items():
                taken = seconds(work)
                if number:  # the first round warms the JVM and the Python workers
                    times[way].append(taken)
    floor = statistics.median(times["Spark's Parquet, one batch"])
    total = given.commits * given.rows
    print(f"{given.commits:,} commits of {given.rows:,} rows, {len(files):,} files, {given.rounds} rounds")
    for way, each in times.items():
        median, seen = statistics.median(each), ", ".join(f"{one:.2f}" for one in each)
        rate = "" if way == "planning alone" else f"{total / median:12,.0f} rows/s"
        print(f"{way:28} {median:7.2f} s {rate}   {median / floor:.2f} x Spark's Parquet   ({seen})")


if __name__ == "__main__":
    main()
