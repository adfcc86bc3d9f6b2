"""A table of a million files: commit, load and plan, compared with bare Parquet, with a table of few files, and
with one whose files have statistics.

``python -m benchmarks.million_files [--files 1000000] [--leaves 1000] [--few 10000]``. The files themselves do
not exist, as neither a commit nor a plan opens them. Each size runs in its own process, whose peak memory is printed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import Clock, Retry
from sleeper_nb.model.file_reference import FileReference, files_schema
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.statistics import ColumnStatistics, StatisticsColumns
from sleeper_nb.model.transactions import AddFiles
from sleeper_nb.read.file_statistics import exact_bounds
from sleeper_nb.read.predicate import Comparison, Pruning
from sleeper_nb.read.scan_plan import plan_scan, regions_of
from sleeper_nb.state_store.state_stores import open_state_store
from sleeper_nb.storage.filesystem import Storage

SCHEMA = Schema({"key": "long"}, values={"value": "string", "time": "timestamp"})
TIME = StatisticsColumns().fields(SCHEMA)[0]
WIDTH = 1_000_000
ROUNDS = 15
KINDS = ("S3StateStore", "TransactionLogStateStore")


def references(tree, count, with_statistics=False):
    """Return `count` references, as many for each leaf; with statistics of a timestamp, unlike those of other files."""
    leaves = sorted(tree.leaves, key=lambda leaf: leaf.id)
    each = count // len(leaves)
    owner = np.repeat(np.arange(len(leaves)), each)
    ids = np.array([leaf.id for leaf in leaves])
    low = np.array([leaf.region.ranges[0].min or 0 for leaf in leaves])[owner]
    number = len(owner)
    random = np.random.default_rng(7)
    names = [f"data/partition_{ids[o]}/{random.bytes(16).hex()}.parquet" for o in owner]
    columns = {
        "filename": names, "partition_id": ids[owner], "rows": np.full(number, 1000),
        "rows_exact": np.ones(number, bool), "only_this_partition": np.ones(number, bool),
        "bytes": np.full(number, 9000), "job_id": pa.nulls(number, pa.string()),
        "checksum": [random.bytes(16).hex() for _ in owner], "status": np.full(number, "ACTIVE"),
        "added_snapshot": np.full(number, 2), "removed_snapshot": pa.nulls(number, pa.int64()),
        "updated_at": pa.array(np.zeros(number, np.int64)).cast(pa.timestamp("us", tz="UTC")),
        "min_key": low, "max_key": low + WIDTH - 1,
    }  # fmt: skip
    schema = files_schema(SCHEMA)
    table = pa.table({each.name: columns.get(each.name, pa.nulls(number, each.type)) for each in schema}).cast(schema)
    if not with_statistics:
        return FileReferences.of(table)
    begins = random.integers(1_700_000_000_000_000, 1_800_000_000_000_000, number)
    of_time = {
        "min_time": pa.array(begins).cast(pa.timestamp("us", tz="UTC")),
        "max_time": pa.array(begins + 3_600_000_000).cast(pa.timestamp("us", tz="UTC")),
        "nulls_time": pa.array(np.zeros(number, np.int32)),
    }
    for name, values in of_time.items():
        table = table.append_column(name, values)
    return FileReferences.of(table)


def prepare(folder, kind, count, leaves, with_statistics):
    """Make a table with `count` files in a folder."""
    store = opened(folder, kind)
    tree = PartitionTree.from_split_points(SCHEMA, [WIDTH * n for n in range(1, leaves)], store.clock.new_id)
    store.create("t", SCHEMA, tree)
    state = replace(store.load(), snapshot_id=2, files=references(tree, count, with_statistics))
    publish(store, state)
    store.catalog.close()


def publish(store, state):
    """Make a state the table's next snapshot, whatever is in it."""
    metadata = store.history.write(state, None, None)
    files, rows, size = state.totals()
    new = replace(
        store.head(), id=2, commit_id=f"made in {store.table_id}", files=files, rows=rows, bytes=size,
        files_path=metadata.files_path, partitions_path=metadata.partitions_path,
        files_checksum=metadata.files_checksum, partitions_checksum=metadata.partitions_checksum,
    )  # fmt: skip
    if not store.catalog.commit(store.table_id, store.head(), new):
        raise SystemExit("the state was not published")


def opened(folder, kind):
    catalog = SqliteCatalog(Path(folder) / "catalog.sqlite")
    return open_state_store(kind, "t", catalog, Storage(Path(folder) / "t"), Clock(), Retry())


def timed(work, rounds=ROUNDS):
    """Return the median seconds of some calls."""
    times = []
    for number in range(rounds):
        began = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


class OfKind:
    """A table of one kind with many files, and the work that is measured."""

    def __init__(self, folder, kind, count, leaves, with_statistics):
        self.folder, self.kind, self.with_statistics = folder, kind, with_statistics
        in_process(prepare, folder, kind, count, leaves, with_statistics).join()
        self.store = opened(folder, kind)
        self.path = self.store.storage.locate(self.store.head().files_path)
        self.number = leaves // 2

    @cached_property
    def leaf(self):
        """The leaf at work; the first use loads the table, which stays in memory."""
        return self.store.load().tree.leaves[self.number]

    @property
    def low(self):
        return self.leaf.region.ranges[0].min or 0

    def load(self, _number):
        opened(self.folder, self.kind).load()

    def commit(self, number):
        name = f"data/partition_{self.leaf.id}/{number:032x}.parquet"
        of_time = (ColumnStatistics("time", "timestamp", number, number, 0),) if self.with_statistics else ()
        ends = (self.low,), (self.low + 1,)
        self.store.commit(AddFiles((FileReference(name, self.leaf.id, 1, 1, *ends, statistics=of_time),)))

    def plan(self, number):
        plan_scan(self.store.load(), regions_of(SCHEMA, keys=self.low + number))


def in_process(work, *arguments):
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    return process


def run(kind, count, leaves, with_statistics, results):
    """Measure one table: medians, and the peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        table = OfKind(folder, kind, count, leaves, with_statistics)
        found = {"load": timed(table.load, 5)}
        table.commit(99)  # the first one looks at all names once
        found["commit"], found["plan"] = timed(table.commit), timed(table.plan)
        if with_statistics:
            state, asked = table.store.load(), Comparison("time", "=", datetime.fromtimestamp(1_750_000_000, UTC))
            found["plan of a time"] = timed(lambda _: plan_scan(state, pruning=Pruning.of(asked, SCHEMA)), 5)
            found["least and greatest"] = timed(lambda _: exact_bounds(state, TIME))
        found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        # the floors come last: their memory is not ours
        found["read"] = timed(lambda _: pq.read_table(table.path), 5)
        rows = pq.read_table(table.path)
        bare = str(Path(folder) / "bare.parquet")
        found["write"] = timed(lambda _: pq.write_table(rows, bare, compression="zstd"), 5)
        results.put(found)


def run_in_turns(kind, count, leaves, rounds, results):
    """Measure a table without statistics and one with them in turns: the least times and CPU times of each."""
    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as told:
        tables = [OfKind(folder, kind, count, leaves, folder is told) for folder in (plain, told)]
        found = {}
        for what in ("load", "commit", "plan"):
            times = {table: [] for table in tables}
            for number in range(rounds + 1):
                for table in (tables, tables[::-1])[number % 2]:
                    clocks = time.perf_counter(), time.process_time()
                    getattr(table, what)(number)
                    spent = time.perf_counter() - clocks[0], time.process_time() - clocks[1]
                    if number:  # the first commit looks at all names once
                        times[table].append(spent)
            found[what] = [tuple(map(min, zip(*times[table], strict=True))) for table in tables]
        results.put(found)


def measured(work, *arguments):
    """Return what some work finds in a process of its own."""
    results = multiprocessing.get_context("spawn").Queue()
    process = in_process(work, *arguments, results)
    found = results.get(timeout=600)
    process.join()
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=1_000_000)
    options.add_argument("--few", type=int, default=10_000)
    options.add_argument("--leaves", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=ROUNDS, help="of the turns with and without statistics")
    given = options.parse_args()
    for kind in KINDS:
        few, many, told = (
            measured(run, kind, count, given.leaves, with_statistics)
            for count, with_statistics in ((given.few, False), (given.files, False), (given.files, True))
        )
        print(f"{kind}: {given.files:,} files in {given.leaves:,} leaves; in brackets {given.few:,} files")
        for what in ("commit", "load", "plan"):
            print(f"  {what:8} {many[what] * 1e3:8.1f} ms   ({few[what] * 1e3:.1f} ms, {many[what] / few[what]:.1f} x)")
        print(f"  commit / bare Parquet write {many['commit'] / many['write']:.2f} ({many['write'] * 1e3:.0f} ms)")
        print(f"  load / bare Parquet read    {many['load'] / many['read']:.2f} ({many['read'] * 1e3:.0f} ms)")
        print(f"  peak memory {many['memory']:.0f} MiB")
        print(f"  with statistics of a timestamp, in brackets without; in turns, the least of {given.rounds} rounds:")
        for what, ((time_, cpu), (told_time, told_cpu)) in measured(
            run_in_turns, kind, given.files, given.leaves, given.rounds
        ).items():
            ratios = f"{told_time / time_:.2f} x, CPU {told_cpu / cpu:.2f} x"
            print(f"    {what:18} {told_time * 1e3:8.1f} ms ({time_ * 1e3:.1f} ms, {ratios})")
        print(f"    {'peak memory':18} {told['memory']:8.0f} MiB ({told['memory'] / many['memory']:.2f} x)")
        for what in ("plan of a time", "least and greatest"):
            print(f"    {what:18} {told[what] * 1e3:8.1f} ms")


if __name__ == "__main__":
    main()
