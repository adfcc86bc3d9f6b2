"""One key, and a range of 10,000 rows, out of 10 M rows in 16 leaves; compared with peers in one run.

``python -m benchmarks.lookups [--rows 10000000] [--leaves 16] [--rounds 40]``: warm medians of interleaved
rounds, and the bytes that one lookup reads (from Linux). DuckDB reads our Parquet files; delta-rs has the same rows,
also sorted by key, in as many files; Lance has a B-tree index on the key. All return an Arrow table of all columns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import sleeper_nb as sl
from benchmarks.compaction import SCHEMA, rows_of

RANGE = 10_000


def key(number):
    return f"user-{number:09}"


def rows(count, first):
    """Return rows with consecutive keys."""
    keys = pa.array([key(number) for number in range(first, first + count)])
    return rows_of(first, count).set_column(0, "key", keys)


def ours(folder, parts):
    session = sl.connect(folder)
    table = session.create_table("t", SCHEMA, [part["key"][0].as_py() for part in parts[1:]])
    table.ingest(pa.concat_tables(parts))

    def lookup(low, high):
        if high is None:
            return table.scan(keys=low).to_arrow()
        return table.scan(region={"key": (low, high)}).to_arrow()

    return lookup


def condition(low, high):
    return f"key = '{low}'" if high is None else f"key >= '{low}' AND key < '{high}'"


def duckdb(folder):
    import duckdb

    files = [str(path) for path in folder.glob("*/*/data/**/*.parquet")]
    con = duckdb.connect()
    return lambda low, high: con.sql(
        f"SELECT * FROM read_parquet({files}) WHERE {condition(low, high)}"
    ).to_arrow_table()


def delta(folder, parts):
    import deltalake
    import pyarrow.compute as pc

    for part in parts:
        deltalake.write_deltalake(str(folder), part, mode="append")
    field = pc.field("key")

    def lookup(low, high):
        wanted = field == low if high is None else (field >= low) & (field < high)
        return deltalake.DeltaTable(str(folder)).to_pyarrow_dataset().to_table(filter=wanted)

    return lookup


def lance(folder, parts):
    import lance

    data = lance.write_dataset(pa.concat_tables(parts), str(folder))
    data.create_scalar_index("key", "BTREE")
    return lambda low, high: data.to_table(filter=condition(low, high))


def bytes_read():
    return int(Path("/proc/self/io").read_text().partition("rchar: ")[2].partition("\n")[0])


def measured(lookups, count, width, rounds):
    """Return for each way the median seconds and bytes of looking up `width` rows."""
    random = np.random.default_rng(width)
    found = {name: [] for name in lookups}
    for number in range(rounds + 3):
        first = int(random.integers(0, count - width))
        low, high = key(first), key(first + width) if width > 1 else None
        for name, lookup in lookups.items():
            read, began = bytes_read(), time.perf_counter()
            table = lookup(low, high)
            spent = time.perf_counter() - began
            if number >= 3:  # the first ones warm up
                found[name].append((spent, bytes_read() - read))
            if table.num_rows != width:
                raise SystemExit(f"{name} found {table.num_rows} rows")
    return {name: [statistics.median(each) for each in zip(*pairs, strict=True)] for name, pairs in found.items()}


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--leaves", type=int, default=16)
    options.add_argument("--rounds", type=int, default=40)
    given = options.parse_args()
    each = given.rows // given.leaves
    with tempfile.TemporaryDirectory() as name:
        parts = [rows(each, each * number) for number in range(given.leaves)]
        folder = Path(name)
        lookups = {
            "ours": ours(folder / "ours", parts), "DuckDB, our files": duckdb(folder / "ours"),
            "delta-rs": delta(folder / "delta", parts), "Lance, B-tree": lance(folder / "lance", parts),
        }  # fmt: skip
        del parts
        for width in (1, RANGE):
            print(f"{width:,} of {given.rows:,} rows in {given.leaves} leaves, {given.rounds} rounds")
            found = measured(lookups, each * given.leaves, width, given.rounds)
            mine = found["ours"][0]
            for way, (seconds, size) in found.items():
                ratio, read = mine / seconds, size / 2**10
                print(f"  {way:18} {seconds * 1e3:8.1f} ms  ours / it {ratio:5.2f}  read {read:8,.0f} KiB")


if __name__ == "__main__":
    main()
