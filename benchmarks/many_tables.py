"""How long listing many tables takes, as a ratio to SQLite's own read of the same rows.

``python -m benchmarks.many_tables [--tables 1000 10000] [--rounds 3]``: the least CPU seconds of several rounds.
All tables but one are copies of its catalog rows, as nothing else of them is read.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import sleeper_nb as sl

ALL = "SELECT * FROM tables JOIN snapshots ON table_id = tables.id AND snapshots.id = current_snapshot"


def cpu(work, rounds):
    """Return the least CPU seconds that work takes."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def filled(folder, tables):
    """Make a warehouse of so many tables; return its catalog's file."""
    with sl.connect(folder) as session:
        session.create_table("t0", sl.Schema({"k": "long"}))
    (path,) = Path(folder).rglob("catalog.sqlite")
    with closing(sqlite3.connect(path)) as catalog, catalog:
        for name, of_id, of_commit in (("tables", 0, 4), ("snapshots", 0, 2)):
            (row,) = catalog.execute(f"SELECT * FROM {name}").fetchall()
            copies = []
            for i in range(1, tables):
                copy = list(row)
                copy[of_id], copy[of_commit] = f"id{i}", f"commit{i}"
                if name == "tables":
                    copy[1] = f"t{i}"
                else:
                    copy[-1] = None  # the checksum of the row: rows of earlier releases have none
                copies.append(copy)
            catalog.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", copies)
    return path


def measure(tables, rounds):
    """Print what the lists of so many tables take."""
    with tempfile.TemporaryDirectory() as folder:
        path = filled(folder, tables)
        with closing(sqlite3.connect(path)) as catalog:
            floor = cpu(lambda: catalog.execute(ALL).fetchall(), rounds)
        with sl.connect(folder) as session:
            found = {"tables": lambda: repr(session.tables()), "jobs": session.inspect.jobs}
            print(f"{tables:,} tables: sqlite {floor:.3f} s")
            for name, work in found.items():
                seconds = cpu(work, rounds)
                print(f"    {name:10} {seconds:.3f} s  {seconds / floor:.1f} ×")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for tables in arguments.tables:
        measure(tables, arguments.rounds)


if __name__ == "__main__":
    main()
