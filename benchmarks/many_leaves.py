"""A table of 10,000 leaves and 200,000 references: planning compaction jobs, and splitting 100 leaves.

``python -m benchmarks.many_leaves [--leaves 10000] [--files 200000] [--split 100] [--rows 2000]``. The leaves
that are split have real files, which are read for their medians; the other files do not exist, as no plan opens them.
The floor is a bare read and write of the same metadata as Parquet, the least that a commit of `S3StateStore` costs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.million_files import (
    KINDS,
    SCHEMA,
    WIDTH,
    opened,
    publish,
    references,
)
from sleeper_nb.load.ingest import reference_to, write_sorted
from sleeper_nb.load.split import request_of, split_partitions
from sleeper_nb.maintain.compaction_plan import (
    STRATEGIES,
    StrategySettings,
    plan_compaction,
)
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.progress import Silent
from sleeper_nb.storage import paths


def prepare(folder, kind, given):
    """Make the table; the first leaves have real files."""
    store = opened(folder, kind)
    points = [WIDTH * n for n in range(1, given.leaves)]
    tree = PartitionTree.from_split_points(SCHEMA, points, store.clock.new_id)
    store.create("t", SCHEMA, tree)
    each = given.files // given.leaves
    real = {leaf.id for leaf in tree.leaves[: given.split]}
    made = references(tree, given.files).active
    kept = FileReferences.of(made.filter(pa.array([name not in real for name in made["partition_id"].to_pylist()])))
    added = []
    for leaf in tree.leaves[: given.split]:
        low = leaf.region.ranges[0].min or 0
        for number in range(each):
            keys = pa.array(range(low + number, low + number + given.rows * 7, 7), pa.int64())
            rows = pa.table({"key": keys, "value": pa.array(["v"] * len(keys)), "time": keys}).cast(SCHEMA.arrow)
            file = write_sorted(store.storage, paths.data_file(leaf.id, store.clock.new_id()), SCHEMA, [rows])
            added.append(reference_to(file, leaf.id))
    state = replace(store.load(), snapshot_id=2, files=kept.with_added(added, 2, store.clock.now()))
    publish(store, state)
    store.catalog.close()


def seconds(work):
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def run(kind, given):
    with tempfile.TemporaryDirectory() as folder:
        maker = multiprocessing.get_context("spawn").Process(target=prepare, args=(folder, kind, given))
        maker.start()  # apart, so that its memory does not count
        maker.join()
        if maker.exitcode:
            raise SystemExit("the table was not made")
        store = opened(folder, kind)
        head = store.head()
        state = store.load()

        def bare():
            for path in (head.files_path, head.partitions_path):
                table = pq.read_table(store.storage.locate(path))
                pq.write_table(table, str(Path(folder) / "bare.parquet"), compression="zstd")

        floor = min(seconds(bare)[0] for _ in range(3))
        print(f"{kind}: {state.totals().files:,} references in {len(state.tree.leaves):,} leaves; "
              f"bare read and write of its metadata {floor:.2f} s")  # fmt: skip
        for strategy in STRATEGIES:
            took, plan = seconds(lambda s=strategy: plan_compaction(state, s, StrategySettings(), (), store.clock))
            print(f"  plan ({strategy}): {len(plan.jobs):,} jobs in {took:.2f} s, {took / floor:.1f} x the floor")
        rows = given.files // given.leaves * given.rows
        request = request_of(state, rows)
        took, done = seconds(lambda: split_partitions(store, request, dry_run=False, progress=Silent()))
        files = given.split * given.files // given.leaves
        parts = sum(len(leaf.parts) for leaf in done.splits)
        print(f"  split {len(done.splits)} leaves of {files:,} files and {given.split * rows:,} rows into {parts}: "
              f"{took:.2f} s, {took / floor:.1f} x the floor")  # fmt: skip


def main():
    options = argparse.ArgumentParser(description=__doc__)
    for name, default in (("leaves", 10_000), ("files", 200_000), ("split", 100), ("rows", 2000)):
        options.add_argument(f"--{name}", type=int, default=default)
    given = options.parse_args()
    for kind in KINDS:
        run(kind, given)


if __name__ == "__main__":
    main()
