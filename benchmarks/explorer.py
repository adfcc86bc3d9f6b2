"""Open the explorer on a table of 100,000 files, and answer for its tabs; compared with one scan and bare Parquet.

``python -m benchmarks.explorer [--files 100000] [--leaves 1000] [--rounds 5]``: medians. Opening is what a
notebook waits for: the widget with its first 100 rows, and the static picture, in a session that has read nothing yet.
The floors are `scan --limit 20` in such a session, and a read of the Parquet file that lists the files. Only the files
of the first leaf exist, with one row each; no other is opened.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from IPython.utils.capture import capture_output

import sleeper_nb as sl
from benchmarks.million_files import SCHEMA, WIDTH, publish, references
from sleeper_nb.model.files import FileReferences
from sleeper_nb.widgets import explore
from sleeper_nb.widgets.request_lanes import RequestLanes


def prepare(folder, files, leaves):
    """Make a table with so many files; return where its metadata lies."""
    with sl.connect(folder) as session:
        store = session.create_table("t", SCHEMA, [WIDTH * n for n in range(1, leaves)])._store
        state, one_row = store.load(), pa.BufferOutputStream()
        pq.write_table(pa.table({"key": [0], "value": ["v"], "time": [0]}, schema=SCHEMA.arrow), one_row)
        made = references(state.tree, files, with_statistics=False).table
        sizes = pa.array([one_row.tell()] * made.num_rows, pa.int64())
        made = made.set_column(made.schema.get_field_index("bytes"), made.schema.field("bytes"), sizes)
        publish(store, replace(state, snapshot_id=2, files=FileReferences.of(made)))
        for reference in store.load().files.active_in([state.tree.leaves[0].id]):
            path = Path(store.storage.locate(reference.filename))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(one_row.getvalue())
        return store.storage.locate(store.head().files_path)


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def scan(folder):
    with sl.connect(folder) as session:
        session.table("t").at(2).scan(limit=20).grid()


def measured(folder):
    """Return the seconds of opening, and of each tab that is opened next."""
    with sl.connect(folder) as session, capture_output():
        opened = []

        def open_it():
            opened.append(explore(session, "t"))
            opened[0]._ipython_display_()

        found = {"open": seconds(open_it)}
        answers, explorer = [], opened[0]
        lanes = RequestLanes(explorer.methods, answers.append, background=lambda work: work())
        shown = {"table": "t", "version": 2}
        query = {"filters": [], "sorts": [], "search": ""}
        requests = {
            "keyspace": shown, "history": {"table": "t", "first": 0, "count": 100}, "schema": shown,
            "rows": {**shown, "query": query, "first": 0, "count": 100, "columns": ["key"]},
            "leaf": {**shown, "leaf": session.table("t").at().partition_tree.leaves[0].id},
        }  # fmt: skip
        for do, asked in requests.items():
            found[do] = seconds(lambda do=do, asked=asked: lanes.take({"id": 1, "topic": do, "do": do, **asked}))
            if "ok" not in answers[-1]:
                raise SystemExit(answers[-1])
        return found


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=100_000)
    options.add_argument("--leaves", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        metadata = prepare(folder, given.files, given.leaves)
        measured(folder)  # imports and the like
        rounds, scans, reads = [], [], []
        for _ in range(given.rounds):
            rounds.append(measured(folder))
            scans.append(seconds(lambda: scan(folder)))
            reads.append(seconds(lambda: pq.read_table(metadata)))
    floors = {"scan --limit 20": statistics.median(scans), "bare Parquet": statistics.median(reads)}
    print(f"{given.files:,} files in {given.leaves:,} leaves; medians of {given.rounds} rounds")
    print("  floors: " + ", ".join(f"{name} {cost:.3f} s" for name, cost in floors.items()))
    for what in rounds[0]:
        cost = statistics.median(each[what] for each in rounds)
        print(f"  {what:16} {cost:6.3f} s   " + "   ".join(f"{cost / f:5.2f} x {name}" for name, f in floors.items()))


if __name__ == "__main__":
    main()
