"""`create_savepoint` on tables of 10, 10,000 and 1,000,000 files: its time must not grow with them.

``python -m benchmarks.savepoints [--rounds 15] [--saves 9]``: medians of a session's `table.create_savepoint()`,
the sizes in turn. On `S3StateStore` the metadata is already written. `TransactionLogStateStore` writes the log since
its last full metadata; the bare Parquet write of that metadata is printed for comparison.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

import sleeper_nb as sl
from benchmarks.million_files import SCHEMA, WIDTH, publish, references
from sleeper_nb.model.transactions import AddFiles, to_entry

SIZES = (10, 10_000, 1_000_000)
KINDS = ("S3StateStore", "TransactionLogStateStore")


def table_of(session, kind, count):
    """Return a table with `count` files, whose head a log store has only as an entry of its log."""
    leaves = min(1000, count)
    points = [WIDTH * n for n in range(1, leaves)]
    table = session.create_table(f"t{count}", SCHEMA, points, state_store=kind)
    store = table._store
    publish(store, replace(store.load(), snapshot_id=2, files=references(store.load().tree, count)))
    return table


def next_head(table):
    """Make one more version of a log, without its full metadata, as a commit that adds nothing would."""
    store, head = table._store, table._store.head()
    now = store.clock.now()
    new = replace(head, id=head.id + 1, commit_id=store.clock.new_id(), time=now, files_path=None, partitions_path=None)
    assert store.catalog.commit(store.table_id, head, new, log=[to_entry(AddFiles(()), new.id, now)])
    store.load()  # the writer has it in its cache


def saved(table, count):
    """Return the seconds of each of some savepoints."""
    times = []
    for _ in range(count):
        if table.history(1)[0].state_store == "TransactionLogStateStore":
            next_head(table)
        began = time.perf_counter()
        table.create_savepoint()
        times.append(time.perf_counter() - began)
    return times


def bare_write(table, folder):
    """Return the seconds of writing the same references as Parquet, and nothing else."""
    rows = table._store.load().files.table
    began = time.perf_counter()
    pq.write_table(rows, Path(folder) / "bare.parquet", compression="zstd")
    return time.perf_counter() - began


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--saves", type=int, default=9)
    given = options.parse_args()
    for kind in KINDS:
        with contextlib.ExitStack() as opened:
            folder = opened.enter_context(tempfile.TemporaryDirectory())
            session = opened.enter_context(sl.connect(folder))
            tables = {size: table_of(session, kind, size) for size in SIZES}
            times = {size: [] for size in SIZES}
            floors = {size: [] for size in SIZES}
            rounds = given.rounds if kind == KINDS[0] else 1
            for table in tables.values():
                saved(table, 3)
            for _ in range(rounds):
                for size, table in tables.items():
                    times[size] += saved(table, given.saves if size < SIZES[-1] or rounds > 1 else 3)
                    floors[size].append(bare_write(table, folder))
            least = statistics.median(times[SIZES[0]])
            print(f"{kind}: create_savepoint")
            for size in SIZES:
                median, floor = statistics.median(times[size]), statistics.median(floors[size])
                floor_text = f"   bare Parquet write of its references {floor * 1e3:.1f} ms" if rounds == 1 else ""
                print(f"  {size:9,} files {median * 1e3:8.2f} ms   {median / least:5.2f} x the first{floor_text}")


if __name__ == "__main__":
    main()
