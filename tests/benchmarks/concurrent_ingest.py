"""Eight processes ingest into one table at once: commits per second, against the floor of bare conditional updates.

``python -m tests.benchmarks.concurrent_ingest [--processes 8] [--ingests 25]`` exits with 1 when a snapshot, a file or
a row is missing. The floor is the same number of commits to the catalog alone, by as many processes: no Parquet.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import sleeper_nb as sl

ROWS = 100


def ingest(folder: str, worker: int, ingests: int, ready: multiprocessing.synchronize.Barrier) -> None:
    rows = [{"key": f"{worker}-{i}", "value": i} for i in range(ROWS)]
    with sl.connect(folder) as session:
        table = session.table("shared")
        ready.wait()
        for _ in range(ingests):
            table.ingest(rows)


def commit_only(folder: str, worker: int, commits: int, ready: multiprocessing.synchronize.Barrier) -> None:
    with sl.connect(folder) as session:
        table, catalog = session.table("bare"), session.components.catalog
        ready.wait()
        for number in range(commits):
            while True:
                head = catalog.current(table.entry.id)
                time_ = head.time + timedelta(microseconds=1)
                new = replace(head, id=head.id + 1, commit_id=f"{worker}-{number}", time=time_)
                if catalog.commit(table.entry.id, head, new):
                    break


def timed(work: object, folder: str, processes: int, each: int) -> float:
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(processes + 1)
    workers = [context.Process(target=work, args=(folder, n, each, ready)) for n in range(processes)]
    for worker in workers:
        worker.start()
    ready.wait()
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - began
    if any(worker.exitcode for worker in workers):
        sys.exit("a worker failed")
    return seconds


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--processes", type=int, default=8)
    options.add_argument("--ingests", type=int, default=25)
    given = options.parse_args()
    total = given.processes * given.ingests
    with tempfile.TemporaryDirectory() as folder:
        schema = sl.Schema({"key": "string"}, values={"value": "int"})
        with sl.connect(folder) as session:
            session.create_table("shared", schema)
            session.create_table("bare", schema)
        floor = timed(commit_only, folder, given.processes, given.ingests)
        seconds = timed(ingest, folder, given.processes, given.ingests)
        with sl.connect(folder) as session:
            table = session.table("shared")
            head = table.snapshots()[0]
            rows = table.scan(where="value >= 0").count()
            on_disk = len(list(Path(folder).rglob("data/**/*.parquet")))
    print(f"{given.processes} processes x {given.ingests} ingests of {ROWS} rows: {seconds:.2f} s")
    print(f"commits per second: {total / seconds:.0f}; bare conditional updates: {total / floor:.0f}")
    print(f"ratio to the floor: {seconds / floor:.2f}")
    print(f"snapshots {head.id - 1}, files {head.files} ({on_disk} on disk), rows {rows:,}")
    return 0 if (head.id - 1, head.files, on_disk, rows) == (total, total, total, total * ROWS) else 1


if __name__ == "__main__":
    sys.exit(main())
