"""Cost of reading a table of many columns: CPU seconds, and the ratio to DuckDB's own read of the same file.

``python -m benchmarks.wide_tables [--columns 500 2000] [--rows 1000] [--rounds 3]``: the least of several rounds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import sleeper_nb as sl


def cpu(work, rounds):
    """Return the least CPU seconds that work takes."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def wide(columns, rows, folder):
    """Return a session and a table of doubles, with one file."""
    random, names = np.random.default_rng(1), [f"c{i}" for i in range(columns)]
    session = sl.connect(folder)
    table = session.create_table("t", sl.Schema({"k": "long"}, {}, dict.fromkeys(names, "double")))
    data = pa.table({"k": np.arange(rows), **{name: random.random(rows) for name in names}})
    began = time.process_time()
    table.ingest(data)
    return session, table, time.process_time() - began


def measure(columns, rows, rounds):
    """Print what each way to read a table of so many columns takes."""
    with tempfile.TemporaryDirectory() as folder:
        session, table, load = wide(columns, rows, folder)
        (path,) = Path(folder).rglob("data/**/*.parquet")
        peer = cpu(lambda: duckdb.connect().sql(f"FROM '{path}'").to_arrow_table(), rounds)
        found = {
            "scan": cpu(lambda: table.scan().to_arrow(), rounds),
            "scan with a condition": cpu(lambda: table.scan(where="c0 > 0.5").to_arrow(), rounds),
            "to_duckdb": cpu(lambda: table.scan().to_duckdb().to_arrow_table(), rounds),
            "sql": cpu(lambda: session.sql("SELECT * FROM t", engine="duckdb").to_arrow(), rounds),
            "first rows, as HTML": cpu(lambda: table.scan()._repr_html_(), rounds),
        }
        table.ingest(table.scan().to_arrow())
        both = cpu(lambda: table.scan().to_arrow(), rounds)
        merge = cpu(lambda: table.maintenance.compact("all", engine="local"), 1)
        session.close()
    print(f"{columns:,} columns: duckdb {peer:.3f} s · ingest {load:.3f} s · compaction of two files {merge:.3f} s")
    for name, seconds in {**found, "scan of two files": both}.items():
        print(f"    {name:22} {seconds:.3f} s  {seconds / peer:.1f} ×")


def main():
    """Measure each number of columns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--columns", type=int, nargs="+", default=[250, 500, 1000, 2000])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    measure(10, given.rows, 1)  # imports
    for columns in given.columns:
        measure(columns, given.rows, given.rounds)


if __name__ == "__main__":
    main()
