"""Difference of two versions with 1 % new rows and a compaction in between, compared with DuckDB, in one run.

``python -m benchmarks.changes [--rows 1000000] [--rounds 5]``: warm medians of interleaved rounds. Ours is
``table.diff``, and ``table.changes(…).added.to_arrow()``; DuckDB counts ``EXCEPT ALL`` in both directions over the data
files of the two versions, which gives the same answer, and in one direction, as ``added`` needs it. Also printed: a
difference that reads no file, of two versions with only a split between them.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time

import pyarrow as pa

import sleeper_nb as sl
from benchmarks.compaction import SCHEMA, rows_of

FILES = 10


def prepare(folder, rows):
    """Return a table, and the numbers of its versions: before, when 1 % was added and compacted, and split."""
    session = sl.connect(folder)
    table = session.create_table("t", SCHEMA)
    for number in range(FILES):
        table.ingest(rows_of(number, rows // FILES))
    before = table.resolved.snapshot_id
    table.ingest(rows_of(FILES, rows // 100))
    table.compact("all", engine="local")
    after = table.resolved.snapshot_id
    table.split_partitions(at="user-5")
    return table, before, after, table.resolved.snapshot_id


def addresses(table, version):
    storage = table._store.storage
    return [storage.locate(file["filename"]) for file in table.at(version).files()]


def except_all(table, old, new, what):
    """Return a function that asks DuckDB for the rows of the one version that the other has not."""
    import duckdb

    con = duckdb.connect()
    statement = "SELECT {} FROM (SELECT * FROM read_parquet({}) EXCEPT ALL SELECT * FROM read_parquet({}))"
    text = statement.format(what, addresses(table, new), addresses(table, old))
    return lambda: con.sql(text).to_arrow_table()


def ways_of(table, before, after, split, rows):
    """Return the ways to know, each with a test of its answer."""
    new = rows // 100
    added, removed = (except_all(table, *pair, "count(*)") for pair in ((before, after), (after, before)))
    given = except_all(table, before, after, "*")
    return {
        "table.diff": lambda: table.diff(before, after).rows == (new, 0),
        "DuckDB EXCEPT ALL, both ways": lambda: (added()[0][0].as_py(), removed()[0][0].as_py()) == (new, 0),
        "added.to_arrow()": lambda: table.changes(before, after).added.to_arrow().num_rows == new,
        "DuckDB EXCEPT ALL, one way": lambda: given().num_rows == new,
        "table.diff over a split": lambda: table.diff(after, split).rows == (0, 0),
    }


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=5)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table, before, after, split = prepare(folder, arguments.rows)
        ways = ways_of(table, before, after, split, arguments.rows)
        spent = {name: [] for name in ways}
        for number in range(arguments.rounds + 1):
            for name, way in ways.items():
                began = time.perf_counter()
                if not way():
                    raise SystemExit(f"{name} gave another answer")
                if number:  # the first round warms up
                    spent[name].append(time.perf_counter() - began)
    print(
        f"{arguments.rows:,} rows in {FILES} files, {arguments.rows // 100:,} added, then compacted;",
        f"pyarrow {pa.__version__}",
    )
    median = {name: statistics.median(each) for name, each in spent.items()}
    peers = {"table.diff": "DuckDB EXCEPT ALL, both ways", "added.to_arrow()": "DuckDB EXCEPT ALL, one way"}
    for name, seconds in median.items():
        ratio = f"ours / it {seconds / median[peers[name]]:5.2f}" if name in peers else ""
        print(f"  {name:30} {seconds:8.3f} s  {ratio}")
    print(f"  peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f} MiB, all ways together")


if __name__ == "__main__":
    main()
