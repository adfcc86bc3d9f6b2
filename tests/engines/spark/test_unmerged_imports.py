"""Bulk imports by tasks of Spark that leave the merge of their sorted runs to compaction: no shuffle, the same rows."""

from __future__ import annotations

import contextlib
import pickle
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.engines.spark import spark_load
from sleeper_nb.engines.spark.actions import ENDING_SECONDS
from sleeper_nb.engines.spark.bulk_tasks import BulkTasks
from sleeper_nb.engines.spark.frames import reports
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.load import sorted_runs
from sleeper_nb.load.ingest import IngestSettings
from sleeper_nb.load.sources import find_sources
from sleeper_nb.maintain.check import check_table
from sleeper_nb.maintain.service_lease import MAINTENANCE, HeldService
from sleeper_nb.model.properties import IMPORT_MERGE
from sleeper_nb.progress import Silent
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage
from tests.engines.spark.imports import bulk_import
from tests.load.test_bulk_threads import ROWS, SCHEMA, rows_of, sorted_texts, three_files
from tests.support.builders import EMBEDDED, START, a_store, compact, on_disk, scan
from tests.support.combinations import each_value_once

pytestmark = pytest.mark.spark

POINTS = ["a", "a\0", "é"]
TASK_BYTES = 1_600_000
"""With it, the rows of three files are several slices, and no more than may become files."""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return three_files(tmp_path / "in")


@pytest.fixture
def all_rows() -> pa.Table:
    return pa.concat_tables([rows_of(seed=number) for number in range(3)])


@pytest.fixture
def session(tmp_path: Path, spark_engine: Any) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "w", spark=spark_engine.session()) as opened:
        yield opened


def files_of_leaves(store: StateStore) -> Counter[str]:
    return Counter(store.load().files.active["partition_id"].to_pylist())


def data_on_disk(store: StateStore) -> list[str]:
    return [path for path in on_disk(store) if path.startswith("data/")]


@pytest.mark.parametrize(
    ("of", "data"),
    each_value_once(
        list(zip(EMBEDDED, ["one_file_per_leaf", "one_reference_per_leaf"], strict=True)), ["files", "frame", "memory"]
    ),
)
def test_the_rows_are_those_of_the_data_and_one_compaction_merges_the_files(
    tmp_path: Path, files: Path, all_rows: pa.Table, spark_engine: Any, of: tuple[str, str], data: str
) -> None:
    kind, strategy = of
    given = {
        "files": lambda: files,
        "frame": lambda: spark_engine.session().createDataFrame(all_rows).repartition(5),
        "memory": lambda: all_rows,
    }[data]()
    store = a_store(tmp_path, SCHEMA, POINTS, kind=kind)
    settings = IngestSettings(strategy, task_bytes=TASK_BYTES, merge=False)
    made = bulk_import(spark_engine, store, find_sources(given), settings)
    assert (made.snapshot_id, made.rows) == (2, 3 * ROWS)
    assert 2 <= max(files_of_leaves(store).values()) <= 20
    if strategy == "one_reference_per_leaf":
        assert made.snapshot.files == max(files_of_leaves(store).values())
    assert len(data_on_disk(store)) == made.snapshot.files
    assert sorted_texts(scan(store)) == sorted_texts(all_rows)
    assert check_table(store, "table", deep=True, progress=Silent()).ok
    compact(store)
    assert set(files_of_leaves(store).values()) == {1}
    found = scan(store)
    keys = list(zip(*(found[name].to_pylist() for name in SCHEMA.sort_order), strict=True))
    assert keys == sorted(keys)
    assert sorted_texts(found) == sorted_texts(all_rows)


def test_rows_that_are_more_than_they_seemed_are_merged_by_their_tasks(
    tmp_path: Path, files: Path, all_rows: pa.Table, spark_engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_load, "times_in_memory", lambda _: 1)
    monkeypatch.setattr(sorted_runs, "MOST_OF_LEAF", 4)
    store = a_store(tmp_path, SCHEMA, POINTS)
    bulk_import(spark_engine, store, find_sources(files), IngestSettings(task_bytes=80_000, merge=False))
    assert set(files_of_leaves(store).values()) == {6}  # two runs of each of two tasks, and what it merged
    assert sorted_texts(scan(store)) == sorted_texts(all_rows)
    assert check_table(store, "table", deep=True, progress=Silent()).ok


def test_more_files_than_there_should_be_are_merged_and_the_import_says_so(
    session: sl.Session, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_load, "times_in_memory", lambda _: 10**10)
    table = session.create_table("t", SCHEMA, POINTS)
    plan = table.bulk_import(files, engine="spark", merge=False, dry_run=True).plan
    loaded = table.bulk_import(files, engine="spark", merge=False)
    assert plan.files == loaded.snapshot.added_files == 3
    words = "sorted runs will be merged anyway: each leaf would get about "
    assert any(note.startswith(words) for note in plan.notes)
    assert loaded.runs.startswith(words)
    assert "files (limit 20)" in repr(loaded)


def test_the_report_says_what_is_left_to_merge(session: sl.Session, files: Path, all_rows: pa.Table) -> None:
    table = session.create_table("t", SCHEMA, POINTS, properties={"sleeper.table.expect": "n < 8; x > -1"})
    plan = table.bulk_import(files, engine="spark", merge=False, dry_run=True).plan
    loaded = table.bulk_import(files, engine="spark", merge=False)
    assert repr(loaded).endswith(
        "up to 2 files of each leaf, which compaction merges: table.maintenance.compact('all')"
    )
    assert plan.files == loaded.snapshot.added_files == 6
    other = session.create_table("other", SCHEMA, POINTS, properties={"sleeper.table.expect": "n < 8; x > -1"})
    counts = dict(other.bulk_import(all_rows, engine="local").snapshot.broken_expectations)
    assert counts["n < 8"] > 0
    assert dict(loaded.snapshot.broken_expectations) == counts


class Waiting(ManualClock):
    """A clock whose waits take no time; it notes which files there are when it waits."""

    def __init__(self, store: StateStore) -> None:
        super().__init__(START)
        self.store, self.seen = store, list[str]()

    def sleep(self, seconds: float) -> None:
        self.seen += data_on_disk(self.store)
        super().sleep(seconds)


def test_rows_that_do_not_fit_add_nothing_and_leave_no_file(
    tmp_path: Path, files: Path, spark_engine: SparkRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_load, "_writing_tasks", lambda *_: 1)  # so that it writes files before it fails
    bad = rows_of().set_column(1, "n", pa.array([1] * (ROWS - 1) + [2**40]))
    pq.write_table(bad, files / "2.parquet", row_group_size=3_000)
    store = a_store(tmp_path, SCHEMA, POINTS)
    clock = Waiting(store)
    engine = SparkRuntime(spark_engine.session(), clock=clock, progress=Silent())
    with pytest.raises(sl.InvalidInput, match=r"2\.parquet"):
        bulk_import(engine, store, find_sources(files), IngestSettings(task_bytes=TASK_BYTES, merge=False))
    assert (clock.slept, bool(clock.seen)) == ([ENDING_SECONDS], True)
    assert store.head().id == 1
    assert not data_on_disk(store)


class Holding(Storage):
    """A folder in which a task says so, and stops for good, when it writes its third file."""

    def __init__(self, place: Any, bell: Path) -> None:
        super().__init__(place)
        self.bell, self.files = bell, 0

    @contextlib.contextmanager
    def output(self, path: str) -> Iterator[Any]:
        self.files += 1
        with super().output(path) as stream:
            yield stream
            if self.files == 3:
                self.bell.write_text(path)
                signal.pause()


class InterruptedByBell(Silent):
    """A watcher that is interrupted, as by the stop button, once there is a file."""

    def __init__(self, bell: Path) -> None:
        self.bell = bell

    def update(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002 - the watcher's own form
        if self.bell.exists():
            raise KeyboardInterrupt


def test_an_interrupt_leaves_no_file(tmp_path: Path, files: Path, spark_engine: SparkRuntime) -> None:
    bell = tmp_path / "bell"
    made = a_store(tmp_path, SCHEMA, POINTS)
    store = a_store(tmp_path, create=False, catalog=made.catalog, storage=Holding(made.storage.place, bell))
    clock = Waiting(store)
    engine = SparkRuntime(spark_engine.session(), clock=clock, progress=InterruptedByBell(bell))
    with pytest.raises(KeyboardInterrupt):
        bulk_import(engine, store, find_sources(files), IngestSettings(task_bytes=TASK_BYTES, merge=False))
    assert (clock.slept, bool(clock.seen)) == ([ENDING_SECONDS], True)
    assert store.head().id == 1
    assert not [path for path in data_on_disk(store) if path.endswith(".parquet")]


def test_files_of_an_attempt_that_failed_are_deleted_whatever_their_leaf(
    tmp_path: Path, files: Path, all_rows: pa.Table, spark_engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = a_store(tmp_path, SCHEMA, POINTS)
    left = paths.data_file("gone", "RUN-other")

    def second_attempts(frame: Any) -> list[Any]:
        found = reports(frame)
        run = found[0].references[0].filename.rpartition("/")[2].partition("-")[0]
        store.storage.write(left.replace("RUN", run), b"what a first attempt wrote")
        return [replace(each, attempt=1) for each in found]

    monkeypatch.setattr(spark_load, "reports", second_attempts)
    made = bulk_import(spark_engine, store, find_sources(files), IngestSettings(task_bytes=TASK_BYTES, merge=False))
    assert len(data_on_disk(store)) == made.snapshot.files
    assert sorted_texts(scan(store)) == sorted_texts(all_rows)


def test_attempts_of_a_task_write_different_files(tmp_path: Path) -> None:
    store = a_store(tmp_path, SCHEMA, POINTS)
    state = store.load()
    tasks = BulkTasks(store.storage, state.schema, state.tree, IngestSettings(), "run", (), runs=1)
    names = [
        {
            reference.filename
            for report in tasks.write_runs([rows_of(100)])
            for reference in pickle.loads(report["report"][0].as_py()).references  # noqa: S301 - ours
        }
        for _ in range(2)
    ]
    assert [len(each) for each in names] == [3, 3]
    assert not names[0] & names[1]


@pytest.mark.parametrize("data", ["files", pytest.param("frame", marks=pytest.mark.long)])
def test_auto_leaves_few_files_to_a_maintenance_that_runs_as_a_service(
    session: sl.Session, files: Path, spark_engine: Any, data: str
) -> None:
    given: Any = files
    if data == "frame":
        frame = spark_engine.session().read.parquet(str(files))
        given = frame.withColumn("n", frame.n + 0)  # so that it is not just the files
    tables = {value: session.create_table(value, SCHEMA, POINTS, properties={IMPORT_MERGE: value})
              for value in ("auto", "true")}  # fmt: skip
    added = []
    lease = HeldService(session._components.catalog, session._components.clock, MAINTENANCE, "a test")
    for is_maintained in (False, True, False):
        if is_maintained:
            assert lease.take() is None
        imported = tables.values() if is_maintained else [tables["auto"]]  # other tests merge without a maintenance
        added.append([table.bulk_import(given, engine="spark").snapshot.added_files for table in imported])
        if is_maintained:
            assert tables["auto"].bulk_import(
                given, engine="local" if data == "files" else "spark"
            ).snapshot.added_files == (3 if data == "files" else 6)
            lease.release()
    assert added == [[3], [6, 3], [3]]


def test_auto_merges_where_a_leaf_would_get_many_files(
    session: sl.Session, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_load, "times_in_memory", lambda _: 13 * (32 << 20))
    lease = HeldService(session._components.catalog, session._components.clock, MAINTENANCE, "a test")
    assert lease.take() is None
    try:
        loaded = session.create_table("t", SCHEMA, POINTS).bulk_import(files, engine="spark")
    finally:
        lease.release()
    assert loaded.snapshot.added_files == 3
    assert "compact" not in repr(loaded)
    assert "merged" not in repr(loaded)
