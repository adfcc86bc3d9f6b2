"""How long it takes to look at and to check a table of many versions and as many files.

``python -m benchmarks.many_versions [--versions 1000 3000]``: CPU seconds; each version is a load of one row.
Floors in the same run: Arrow reads every metadata file, and DuckDB counts the rows of every data file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

import sleeper_nb as sl
from sleeper_nb import widgets


def cpu(work):
    """Return the CPU seconds that work takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(versions, kind):
    """Print how long common questions take on a table of so many versions."""
    with tempfile.TemporaryDirectory() as folder, sl.connect(folder) as session:
        table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"v": "long?"}), state_store=kind)
        load = cpu(lambda: [table.ingest([{"k": i, "v": i}]) for i in range(versions)])
        metadata = list(Path(folder).rglob("statestore/**/*.parquet"))
        reading = cpu(lambda: [pq.read_table(path) for path in metadata])
        data = [str(path) for path in Path(folder).rglob("data/**/*.parquet")]
        counting = cpu(lambda: duckdb.connect().read_parquet(data).count("*").fetchall())
        print(f"{kind}, {versions:,} versions: load {load:.1f} s")
        print(f"    floors: {len(metadata):,} metadata files {reading:.2f} s, count over data files {counting:.2f} s")
        table.describe()  # imports what is imported once
        check = cpu(table.maintenance.check)
        print(f"    check         {check:.2f} s  {check / reading:.1f} × the metadata files")
        print(f"    timeline      {cpu(lambda: widgets.timeline(session, 't')):.2f} s")
        count = cpu(lambda: session.sql("SELECT count(*) FROM t", engine="duckdb").to_arrow())
        print(f"    count(*)      {count:.2f} s  {count / counting:.2f} × the count over data files")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", type=int, nargs="*", default=[1000, 3000])
    arguments = parser.parse_args()
    for versions in arguments.versions:
        for kind in ("S3StateStore", "TransactionLogStateStore"):
            measure(versions, kind)


if __name__ == "__main__":
    main()
