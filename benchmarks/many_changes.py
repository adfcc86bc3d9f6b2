"""What a change of one row costs when a table has ten versions, and when it has a thousand: ours, and delta-rs.

``python -m benchmarks.many_changes [--versions 1000] [--rows 100000] [--files 8]``: milliseconds (median of ten updates
of one row, by key), after the first versions and at the end; each version before was such an update.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time

import pyarrow as pa

KINDS = ("S3StateStore", "TransactionLogStateStore", "delta-rs")


def rows_of(first, end):
    """Return rows with the keys of a range."""
    return pa.table({"k": pa.array(range(first, end), pa.int64()), "v": pa.array(range(first, end), pa.int64())})


def ours(kind, place, rows, files):
    """Return what updates one row of a table of ours."""
    import sleeper_nb as sl

    session = sl.connect(place)
    schema = sl.Schema({"k": "long"}, {}, {"v": "long"})
    table = session.create_table("t", schema, state_store=kind, split_points=_splits(rows, files))
    table.ingest(rows_of(0, rows))
    return lambda number: table.update({"v": "v + 1"}, f"k = {number % rows}")


def delta(_kind, place, rows, files):
    """Return what updates one row of a table of delta-rs, opened once."""
    from deltalake import DeltaTable, write_deltalake

    edges = [0, *_splits(rows, files), rows]
    for first, end in itertools.pairwise(edges):
        write_deltalake(place, rows_of(first, end), mode="append")
    table = DeltaTable(place)
    return lambda number: table.update({"v": "v + 1"}, predicate=f"k = {number % rows}")


def _splits(rows, files):
    return [rows * number // files for number in range(1, files)]


def measure(kind, versions, rows, files):
    """Return the median milliseconds of ten updates at the start and at the end."""
    with tempfile.TemporaryDirectory() as place:
        update = (delta if kind == "delta-rs" else ours)(kind, place, rows, files)
        took = []
        for number in range(versions):
            began = time.perf_counter()
            update(number * 7919)
            took.append(1000 * (time.perf_counter() - began))
    return statistics.median(took[5:15]), statistics.median(took[-10:])


def main():
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=8)
    given = parser.parse_args()
    print(f"{'':28}{'10 versions':>14}{given.versions:>8,} versions{'ratio':>8}")
    for kind in KINDS:
        first, last = measure(kind, given.versions, given.rows, given.files)
        print(f"{kind:28}{first:11.1f} ms{last:14.1f} ms{last / first:8.2f}", flush=True)


if __name__ == "__main__":
    main()
