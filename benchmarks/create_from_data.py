"""Create a table from data, compared with the load alone: an ingest into a table that has its schema and partitions.

``python -m benchmarks.create_from_data [--rows 1000000 5000000] [--leaves 16] [--rounds 5]``: medians of interleaved
rounds. ``create`` makes schema, partitions and rows from an Arrow table, ``create --from`` from one Parquet file,
``CTAS`` from a query of DuckDB over that file. The load alone takes the same input. ``sample`` is the estimate of the
split points alone, from the file.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

import sleeper_nb as sl
from benchmarks.ingest import SCHEMA, seconds, split_points, unsorted_rows

KEYS, SORT = [field.name for field in SCHEMA.row_keys], [field.name for field in SCHEMA.sort_keys]


def load_alone(data, leaves):
    """Return the seconds of an ingest into an empty table that is there."""
    with tempfile.TemporaryDirectory() as warehouse, sl.connect(warehouse) as session:
        table = session.create_table("t", SCHEMA, split_points=split_points(leaves))
        return seconds(lambda: table.ingest(data() if callable(data) else data))


def create(data, leaves):
    """Return the seconds in which a table is made of data, and how even its leaves are."""
    with tempfile.TemporaryDirectory() as warehouse, sl.connect(warehouse) as session:
        took = seconds(lambda: session.create_table("t", data=data, row_keys=KEYS, sort_keys=SORT, leaves=leaves))
        rows = [leaf["rows"] for leaf in session.table("t").inspect.partitions()]
        return took, max(rows) * len(rows) / sum(rows)


def create_as_select(path, leaves):
    """Return the seconds of ``CREATE TABLE … AS SELECT``."""
    keys, sort = ", ".join(KEYS), ", ".join(SORT)
    query = f"CREATE TABLE t ROW KEYS ({keys}) SORT KEYS ({sort}) SPLITS {leaves} AS SELECT * FROM '{path}'"
    with tempfile.TemporaryDirectory() as warehouse, sl.connect(warehouse) as session:
        return seconds(lambda: session.sql(query, engine="duckdb"))


def sample(path, leaves):
    """Return the seconds of an estimate of split points."""
    with tempfile.TemporaryDirectory() as warehouse, sl.connect(warehouse) as session:
        return seconds(lambda: session.admin.split_points(str(path), KEYS, leaves))


def measured(rows, leaves, rounds):
    """Print the medians for one number of rows."""
    data = unsorted_rows(rows, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(data, path)
        took = {
            name: []
            for name in ("load", "create", "load of a file", "create --from", "load of a query", "CTAS", "sample")
        }
        for _ in range(rounds):
            took["load"].append(load_alone(data, leaves))
            seconds_of, evenness = create(data, leaves)
            took["create"].append(seconds_of)
            took["load of a file"].append(load_alone(str(path), leaves))
            took["create --from"].append(create(str(path), leaves)[0])
            took["load of a query"].append(load_alone(lambda: duckdb.sql(f"FROM '{path}'").to_arrow_table(), leaves))
            took["CTAS"].append(create_as_select(path, leaves))
            took["sample"].append(sample(path, leaves))
    medians = {name: statistics.median(each) for name, each in took.items()}
    print(f"{rows:,} rows, {leaves} leaves; the fullest leaf has {evenness:.2f} × its share")
    for name, floor in (
        ("create", "load"),
        ("create --from", "load of a file"),
        ("CTAS", "load of a query"),
        ("sample", "load of a file"),
    ):
        print(
            f"{name:14} {medians[name]:6.2f} s"
            f"   {medians[name] / medians[floor]:5.2f} × {floor} ({medians[floor]:.2f} s)"
        )


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 5_000_000])
    options.add_argument("--leaves", type=int, default=16)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    for rows in given.rows:
        measured(rows, given.leaves, given.rounds)


if __name__ == "__main__":
    main()
