"""What one waits for in a notebook: the explorer on large things, a page of a million rows, a chart of ten million.

``python -m benchmarks.views [--rounds 5] [--only explorer pages charts]``: medians. Opening the explorer is the widget
with its first rows and the static picture, in a session that has read nothing yet; its floor is `scan --limit 20` in
such a session. The floor of a page and of a chart is DuckDB alone on the same files, warm: the rows of the page, and
a histogram. A chart is drawn with its picture.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

import duckdb
import numpy as np
import pyarrow as pa
from IPython.utils.capture import capture_output

import sleeper_nb as sl
from benchmarks.many_tables import filled
from sleeper_nb.demo import flights
from sleeper_nb.progress import Watch
from sleeper_nb.widgets import explore
from sleeper_nb.widgets.open_tables import OpenTables
from sleeper_nb.widgets.row_grid_query import GridQuery, GridSort

CHARTS = {"line": ("at", "v"), "area": ("at", "v"), "scatter": ("v", "w"), "hist": ("v", None), "bar": ("word", "w")}


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median(work, rounds):
    work()
    return statistics.median(seconds(work) for _ in range(rounds))


def flights_of_2013(folder):
    data = pa.Table.from_pandas(flights(), preserve_index=False)
    data = data.filter(pa.compute.is_valid(data["dep_delay"]))
    chosen = data.select(["carrier", "flight", "time_hour", "origin", "dest", "dep_delay"])
    with sl.connect(folder) as session:
        table = session.create_table("t", data=chosen, row_keys=["carrier", "flight"])
        table.create_savepoint("first")


def many_columns(folder):
    names = [f"c{i}" for i in range(2000)]
    with sl.connect(folder) as session:
        table = session.create_table("t", sl.Schema({"k": "long"}, {}, dict.fromkeys(names, "double")))
        table.ingest(pa.table({"k": range(1000), **{name: np.random.default_rng(1).random(1000) for name in names}}))


def many_tables(folder):
    filled(folder, 10_000)


def many_partitions(folder):
    with sl.connect(folder) as session:
        table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"v": "long"}), list(range(1, 50_000)))
        table.ingest(pa.table({"k": range(1000), "v": range(1000)}))


def open_it(folder):
    with sl.connect(folder) as session, capture_output():
        explorer = explore(session, None if session._components.catalog.find_table("t") is None else "t")
        explorer._ipython_display_()


def scan_it(folder):
    with sl.connect(folder) as session:
        name = session._components.catalog.tables()[0].name
        session.table(name).scan(limit=20).grid().text()


def explorers(rounds):
    for prepare in (flights_of_2013, many_columns, many_tables, many_partitions):
        with tempfile.TemporaryDirectory() as folder:
            prepare(folder)
            opening = median(lambda folder=folder: open_it(folder), rounds)
            floor = median(lambda folder=folder: scan_it(folder), rounds)
        print(f"  {prepare.__name__:18} {opening:6.3f} s   {opening / floor:5.2f} x scan --limit 20 ({floor:.3f} s)")


def numbers(session, rows):
    random = np.random.default_rng(1)
    schema = sl.Schema({"k": "long"}, {}, {"at": "timestamp", "v": "double", "w": "double", "word": "string"})
    table = session.create_table("t", schema, [rows * n // 8 for n in range(1, 8)])
    for part in np.array_split(np.arange(rows), max(1, rows // 2_500_000)):
        at = pa.array(1_700_000_000_000_000 + part * 1_000_000, pa.timestamp("us"))
        words = pa.array([f"w{i}" for i in range(2000)]).take(pa.array(random.integers(0, 2000, len(part))))
        table.ingest(pa.table({
            "k": part, "at": at, "v": random.normal(size=len(part)), "w": random.random(len(part)), "word": words,
        }))  # fmt: skip


def data_files(session):
    table = session.table("t")
    return [str(table._store.storage.locate(row["filename"])) for row in table.inspect.files()]


def pages(rounds):
    with tempfile.TemporaryDirectory() as folder, sl.connect(folder) as session, duckdb.connect() as bare:
        numbers(session, 1_000_000)
        files = data_files(session)
        model = OpenTables(session).rows("t", 2)
        queries = {
            "first page": (GridQuery(rows=50), "LIMIT 50"),
            "page in the middle": (GridQuery(rows=50, first=500_000), "ORDER BY k LIMIT 50 OFFSET 500000"),
            "last page": (GridQuery(rows=50, first=999_950), "ORDER BY k LIMIT 50 OFFSET 999950"),
            "sorted by a column": (GridQuery(rows=50, sorts=(GridSort("v"),)), "ORDER BY v LIMIT 50"),
        }
        for name, (query, rest) in queries.items():
            cost = median(lambda query=query: model.page(query, Watch()), rounds)
            text = f"SELECT * FROM read_parquet({files!r}) {rest}"
            floor = median(lambda text=text: bare.sql(text).to_arrow_table(), rounds)
            print(f"  {name:18} {1000 * cost:6.0f} ms   {cost / floor:5.2f} x DuckDB ({1000 * floor:.0f} ms)")


def charts(rounds):
    with tempfile.TemporaryDirectory() as folder, sl.connect(folder) as session, duckdb.connect() as bare:
        numbers(session, 10_000_000)
        text = f"SELECT floor(v * 5), count(*) FROM read_parquet({data_files(session)!r}) GROUP BY 1"
        floor = median(lambda: bare.sql(text).to_arrow_table(), rounds)
        for kind, (x, y) in CHARTS.items():
            ask = lambda kind=kind, x=x, y=y: session.sql("SELECT * FROM t", engine="duckdb").plot(kind, x, y)  # noqa: E731
            points = median(ask, rounds)
            drawn = median(lambda ask=ask: ask()._repr_mimebundle_(), rounds)
            print(f"  {kind:8} {points:6.3f} s, drawn {drawn:6.3f} s   {drawn / floor:5.2f} x DuckDB ({floor:.3f} s)")


def main():
    parts = {"explorer": explorers, "pages": pages, "charts": charts}
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    given = options.parse_args()
    for name in given.only:
        print(f"{name}: medians of {given.rounds} rounds")
        parts[name](given.rounds)


if __name__ == "__main__":
    main()
