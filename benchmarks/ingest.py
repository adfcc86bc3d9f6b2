"""In-process ingest of unsorted rows into a few leaves, compared with Arrow's sort and write of the same rows.

``python -m benchmarks.ingest [--rows 1000000] [--leaves 4] [--rounds 5]``: medians of interleaved rounds. Arrow
writes one Parquet file. Ours also checks the order, writes statistics and a page index, and commits.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sleeper_nb as sl

STRATEGIES = ("one_file_per_leaf", "one_reference_per_leaf")
PROPERTY = "sleeper.table.ingest.file.writing.strategy"
SCHEMA = sl.Schema(
    {"key": "string"},
    {"at": "timestamp"},
    {"number": "long", "amount": "double", "place": "string", "flag": "boolean?"},
)


def unsorted_rows(count: int, seed: int = 1) -> pa.Table:
    """Return rows whose keys are 12 hexadecimal digits, each some three times."""
    random = np.random.default_rng(seed)
    keys = pa.array([f"{number:012x}" for number in random.integers(0, 2**48, max(1, count // 3))])
    columns = {
        "key": keys.take(pa.array(random.integers(0, len(keys), count))),
        "at": pa.array(random.integers(0, 2**50, count)).cast(pa.timestamp("us", tz="UTC")),
        "number": random.integers(0, 10**6, count),
        "amount": random.normal(100, 20, count).round(2),
        "place": pa.array([f"place {number}" for number in range(1000)]).take(random.integers(0, 1000, count)),
        "flag": pa.array(random.integers(0, 2, count)).cast(pa.bool_()),
    }
    return pa.table(columns).cast(SCHEMA.arrow)


def split_points(leaves: int) -> list[str]:
    """Return the keys that cut what `unsorted_rows` gives into leaves of one size."""
    return [f"{number * 2**48 // leaves:012x}" for number in range(1, leaves)]


def seconds(work):
    gc.collect()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--leaves", type=int, default=4)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    rows = unsorted_rows(given.rows)
    order = [(name, "ascending") for name in SCHEMA.sort_order]
    with tempfile.TemporaryDirectory() as name, sl.connect(Path(name) / "warehouse") as session:
        tables = {
            strategy: session.create_table(
                strategy, SCHEMA, split_points(given.leaves), properties={PROPERTY: strategy}
            )
            for strategy in STRATEGIES
        }
        peer = Path(name) / "peer.parquet"
        ways = {"pyarrow": lambda: pq.write_table(rows.sort_by(order), peer, compression="zstd")}
        ways |= {name: lambda table=table: table.ingest(rows) for name, table in tables.items()}
        times = {name: [] for name in ways}
        for number in range(given.rounds + 1):
            for way, work in ways.items():
                taken = seconds(work)
                if number:  # the first round warms caches
                    times[way].append(taken)
    print(f"{given.rows:,} rows into {given.leaves} leaves, {given.rounds} rounds")
    floor = statistics.median(times["pyarrow"])
    for way, each in times.items():
        median, all_of_them = statistics.median(each), ", ".join(f"{second:.2f}" for second in each)
        print(f"{way:24} {median:6.2f} s   {median / floor:.2f} x pyarrow   ({all_of_them})")


if __name__ == "__main__":
    main()
