"""What needs a Spark of its own: tasks that fail, run twice, are killed, or have little memory.

Run by `test_spark_alone`:

``python -m tests.engines.spark.spark_alone FOLDER mishaps|little-memory``
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark import pipeline
from sleeper_nb.engines.spark.engine import SparkEngine
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.check import check_table
from sleeper_nb.operations.loading.sources import find_sources
from sleeper_nb.progress import Silent
from sleeper_nb.storage.filesystem import Storage
from tests.engines.spark.spark_killed import compact
from tests.support.builders import a_store, ingest, keys_in, on_disk, reopened, rows_of, scan
from tests.support.faults import kill

SMALL = {"spark.master": "local[2,3]", "spark.driver.memory": "1g"}  # a task may be tried three times
CONFIGS = {
    "mishaps": {**SMALL, "spark.speculation": "true"},
    "little-memory": {**SMALL, "spark.memory.fraction": "0.02"},
}


class Unlucky(Storage):
    """A folder in which the first task to finish a data file loses its answer, or has a twin that finished it too.

    Or its worker, the process that runs it, is killed before the file is closed.
    """

    def __init__(self, place, case):
        super().__init__(place)
        self.case = case

    @contextlib.contextmanager
    def output(self, path):
        with super().output(path) as stream:
            yield stream
            marker = Path(self.root).parent / "unlucky"
            if self.case == "killed" and path.startswith("data/") and not marker.exists():
                marker.touch()
                kill()

    def size(self, path):
        found = super().size(path)
        marker = Path(self.root).parent / "unlucky"
        if self.case != "killed" and path.startswith("data/") and not marker.exists():
            marker.touch()
            if self.case == "retry":
                raise OSError("the answer is lost")
            shutil.copy(self.locate(path), self.locate(path.replace(".parquet", "twin.parquet")))
        return found


def unlucky(folder, engine, case):
    """Every row is there once, and no file that the table does not name."""
    store = a_store(folder, points=["m"], storage=Unlucky(folder / "table", case), clock=Clock())
    made = pipeline.bulk_import(engine, store, find_sources(rows_of("a", "b", "y", "z")))
    assert (folder / "unlucky").exists()
    assert (made.added_rows, keys_in(scan(store))) == (4, ["a", "b", "y", "z"])
    data = {path for path in on_disk(store) if path.startswith("data/")}
    assert data == set(store.load().files.active["filename"].to_pylist()), data


def killed_worker_of_a_compaction(folder, engine):
    """The task of a job whose worker is killed is run again: every row is there once, and no other file is left."""
    store = a_store(folder, points=["m"], clock=Clock())
    for _ in range(2):
        ingest(store, rows_of("a", "b", "y", "z"))
    unlucky_store = reopened(store, storage=Unlucky(store.storage.place, "killed"))
    report = compact(engine, unlucky_store)
    assert (folder / "unlucky").exists()
    assert (len(report.jobs), len(report.refused)) == (2, 0)
    assert keys_in(scan(store)) == sorted("abyz" * 2)
    data = {path for path in on_disk(store) if path.startswith("data/")}
    assert data == set(store.load().files.table["filename"].to_pylist()), data


def spilled(session):
    """Return the bytes of memory that Spark's tasks gave up by writing rows to disk."""
    context = session.sparkContext
    every, no = context._jvm.java.util.ArrayList(), False
    quantiles = context._gateway.new_array(context._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(every, no, no, quantiles, every)
    return sum(stages.apply(i).memoryBytesSpilled() for i in range(stages.size()))


def little_memory(folder, engine):
    """A leaf of far more rows than a task has memory for is sorted on disk and written as a stream."""
    count = 600_000
    keys = np.random.default_rng(1).integers(0, 2**62, count)
    rows = pa.table({"key": keys, "text": pa.array([f"{key:0100d}" for key in keys])})
    store = a_store(folder, Schema({"key": "long"}, {}, {"text": "string"}), clock=Clock())
    made = pipeline.bulk_import(engine, store, find_sources(rows))
    assert (made.added_rows, made.files) == (count, 1)
    assert spilled(engine.session()) > 50 * 2**20, spilled(engine.session())
    report = check_table(store, "table", deep=True, progress=Silent())
    assert report.ok, report


def main(folder, case):
    engine = SparkEngine(config={**CONFIGS[case], "spark.sleeper.archive": "false"}, clock=Clock(), progress=Silent())
    try:
        if case == "little-memory":
            little_memory(Path(folder), engine)
        else:
            for mishap in ("retry", "twice", "killed"):
                unlucky(Path(folder) / mishap, engine, mishap)
            killed_worker_of_a_compaction(Path(folder) / "compaction", engine)
    finally:
        engine.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
