"""What needs a Spark of its own: tasks that fail, run twice, are killed, or have little memory.

Run by `test_spark_alone`:

``python -m tests.engines.spark.spark_alone FOLDER mishaps|lost-shuffle|little-memory``
"""

from __future__ import annotations

import contextlib
import resource
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext

from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.frames import of_arrow
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.load.ingest import DEFAULT_INGEST, IngestSettings
from sleeper_nb.load.sources import find_sources
from sleeper_nb.maintain.check import check_table
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import Silent
from sleeper_nb.storage.filesystem import Storage
from tests.engines.spark import imports
from tests.engines.spark.spark_killed import compact
from tests.support.builders import a_store, ingest, keys_in, on_disk, reopened, rows_of, scan
from tests.support.faults import kill

SMALL = {"spark.master": "local[2,3]", "spark.driver.memory": "1g"}  # a task may be tried three times
CONFIGS = {
    "mishaps": {**SMALL, "spark.speculation": "true"},
    "lost-shuffle": SMALL,
    "little-memory": {**SMALL, "spark.memory.fraction": "0.02"},
}
MOST_PARTS = 2  # as many as there are cores
MIXED = "azby"
"""Keys of which each half has one of each leaf."""
UNMERGED = IngestSettings(merge=False)


class Unlucky(Storage):
    """A folder in which the first task to finish a data file loses its answer, or has a twin that finished it too.

    Or its worker, the process that runs it, is killed before so many files of the task are closed; in one case with
    all that Spark's shuffle has stored, as when a machine is lost: then tasks before it run again, and count anew.
    """

    def __init__(self, place, case, files=1, shuffled=None):
        super().__init__(place)
        self.case, self.files, self.shuffled = case, files, shuffled

    @contextlib.contextmanager
    def output(self, path):
        with super().output(path) as stream:
            yield stream
            self.files -= path.startswith("data/")
            if self.case == "killed" and self.files == 0 and self._strikes(path):
                for stored in self.shuffled.rglob("shuffle_*") if self.shuffled else ():
                    stored.unlink()
                kill()
        if self.case != "killed" and self._strikes(path):
            assert TaskContext.get() is not None, "no task has written this file"
            if self.case == "retry":
                raise OSError("the answer is lost")
            shutil.copy(self.locate(path), self.locate(path.replace(".parquet", "twin.parquet")))

    def _strikes(self, path):
        marker = Path(self.root).parent / "unlucky"
        strikes = path.startswith("data/") and not marker.exists()
        if strikes:
            marker.touch()
        return strikes


def unlucky(folder, engine, case, settings=DEFAULT_INGEST, files=1):
    """Every row is there once, and no file that the table does not name."""
    store = a_store(folder, points=["m"], storage=Unlucky(folder / "table", case, files), clock=Clock())
    made = imports.bulk_import(engine, store, find_sources(rows_of(*MIXED)), settings)
    assert (folder / "unlucky").exists()
    assert (made.rows, keys_in(scan(store))) == (len(MIXED), sorted(MIXED))
    each = 2 if settings.merge is False else 1  # of two tasks, which have rows of both leaves
    assert made.snapshot.files == 2 * each, made
    data = {path for path in on_disk(store) if path.startswith("data/")}
    assert data == set(store.load().files.active["filename"].to_pylist()), data


def lost_shuffle(folder, engine, settings, files):
    """A task whose worker is killed finds no shuffle any more: Spark runs its stage again, and no other file is left.

    Without a merge, the shuffle is one of the DataFrame; the task has written a file of the first leaf before.
    """
    is_merged = settings.merge is None
    storage = Unlucky(folder / "table", "killed", files, Path(engine.session().conf.get("spark.local.dir")))
    # Spark gives up where the merge of another leaf has ended: the second stage would not see the same pieces again
    store = a_store(folder, points=[] if is_merged else ["m"], storage=storage, clock=Clock())
    frame = of_arrow(engine.session(), pa.Table.from_pylist(rows_of(*MIXED), schema=store.load().schema.arrow))
    made = imports.bulk_import(engine, store, find_sources(frame if is_merged else frame.repartition(1)), settings)
    assert (folder / "unlucky").exists()
    assert (made.snapshot.files, keys_in(scan(store))) == (files, sorted(MIXED))
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


def little_memory(folder, engine):
    """A leaf of far more rows than a task has memory for is sorted in runs, and merged by several tasks."""
    count, task_bytes = 600_000, 4 << 20
    keys = np.random.default_rng(1).integers(0, 2**62, count)
    rows = pa.table({"key": keys, "text": pa.array([f"{key:0100d}" for key in keys])})
    pq.write_table(rows, folder / "rows.parquet", row_group_size=20_000, compression="none")
    settings = IngestSettings(task_bytes=task_bytes)
    store = a_store(folder, Schema({"key": "long"}, {}, {"text": "string"}), clock=Clock())
    made = imports.bulk_import(engine, store, find_sources(str(folder / "rows.parquet")), settings)
    assert made.rows == count
    assert 1 < made.snapshot.files <= MOST_PARTS, made.snapshot.files
    report = check_table(store, "table", deep=True, progress=Silent())
    assert report.ok, report
    frame = engine.session().createDataFrame(rows.slice(0, 60_000))
    assert imports.bulk_import(engine, store, find_sources(frame), settings).rows == 60_000
    most = max(engine.session().sparkContext.parallelize(range(2), 2).map(peak_bytes).collect())
    assert most < 600 << 20, most
    other = a_store(folder / "other", Schema({"key": "long"}, {}, {"text": "string"}), clock=Clock())
    shared = replace(settings, strategy="one_reference_per_leaf")
    assert imports.bulk_import(engine, other, find_sources(rows), shared).snapshot.files == 1


def peak_bytes(_):
    """Return the most memory that this worker has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main(folder, case):
    config = {**CONFIGS[case], "spark.sleeper.archive": "false", "spark.local.dir": f"{folder}/spark"}
    engine = SparkRuntime(config=config, clock=Clock(), progress=Silent())
    try:
        if case == "little-memory":
            little_memory(Path(folder), engine)
        elif case == "lost-shuffle":
            for name, settings, files in (("unmerged", UNMERGED, 2), ("merged", DEFAULT_INGEST, 1)):
                lost_shuffle(Path(folder) / name, engine, settings, files)
        else:
            for mishap in ("retry", "twice", "killed"):
                unlucky(Path(folder) / mishap, engine, mishap)
                unlucky(Path(folder) / f"{mishap}-unmerged", engine, mishap, UNMERGED, files=2)
            killed_worker_of_a_compaction(Path(folder) / "compaction", engine)
    finally:
        engine.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
