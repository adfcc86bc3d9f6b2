"""Eight processes append to one table at once: commits per second of our state stores and their peers, in one run.

``python -m benchmarks.contention [--processes 8] [--appends 25] [--rows 1000] [--only NAME] [--servers]``
exits with 1 when a commit or a row is missing. The floor is the same number of bare conditional updates of the
catalog, without Parquet.
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

import pytest

import sleeper_nb as sl
from benchmarks.writers import ON_SERVERS, WRITERS, Ours, rows

ALL = {**WRITERS, **ON_SERVERS}
USUAL = [name for name in WRITERS if name != "PyIceberg"]  # which takes minutes: --only PyIceberg


def append(name, folder, worker, appends, count, ready, ended):
    data = [rows(worker, number, count) for number in range(appends)]
    with ALL[name].opened(folder) as write:
        write(rows(worker, appends, count))  # what is opened and imported on first use is not what is asked
        ready.wait()
        for each in data:
            try:
                write(each)
            except Exception as error:
                if isinstance(ALL[name], Ours):
                    raise
                print(f"{name}: {type(error).__name__}", file=sys.stderr)
        ended.put(time.perf_counter())


def commit_only(_name, folder, worker, commits, _count, ready, ended):
    with sl.connect(folder) as session:
        table, catalog = session.table("t"), session._components.catalog
        ready.wait()
        for number in range(commits):
            while True:
                head = catalog.current(table.entry.id)
                time_ = head.time + timedelta(microseconds=1)
                new = replace(head, id=head.id + 1, commit_id=f"{worker}-{number}", time=time_)
                if catalog.commit(table.entry.id, head, new):
                    break
        ended.put(time.perf_counter())


def timed(work, name, folder, given):
    context = multiprocessing.get_context("spawn")
    ready, ended = context.Barrier(given.processes + 1, timeout=300), context.Queue()
    workers = [
        context.Process(target=work, args=(name, folder, worker, given.appends, given.rows, ready, ended))
        for worker in range(given.processes)
    ]
    for worker in workers:
        worker.start()
    ready.wait()
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        sys.exit("a worker failed")
    return max(ended.get() for _ in workers) - began  # without the time that processes take to end


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--processes", type=int, default=8)
    options.add_argument("--appends", type=int, default=25)
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--only", action="append", choices=list(ALL))
    options.add_argument("--servers", action="store_true", help="also on DynamoDB Local and versitygw")
    given = options.parse_args()
    total, rates, wrong = given.processes * given.appends, {}, False
    print(f"{given.processes} processes x {given.appends} appends of {given.rows} rows")
    for name in [*(given.only or USUAL), *(ON_SERVERS if given.servers else ())]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                ALL[name].create(Path(folder))
            except pytest.skip.Exception as missing:
                print(f"{name:36} skipped: {missing}")
                continue
            rates[name] = total / timed(append, name, Path(folder), given)
            commits, count = ALL[name].landed(Path(folder))
        expected = total + given.processes
        short = f"{commits} of {expected} landed, {count:,} rows"
        wrong |= isinstance(ALL[name], Ours) and (commits, count) != (expected, expected * given.rows)
        ratio = f"{rates[name] / rates['Lance']:5.2f} x Lance" if "Lance" in rates else ""
        print(f"{name:36} {rates[name]:6.0f} commits/s   {short}   {ratio}")
    with tempfile.TemporaryDirectory() as folder:
        Ours("S3StateStore").create(Path(folder))
        floor = total / timed(commit_only, "", Path(folder), given)
    print(f"{'bare conditional updates':36} {floor:6.0f} commits/s")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
