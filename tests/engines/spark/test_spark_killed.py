"""The process is killed (SIGKILL) while it imports and compacts on Spark: nothing is lost, and a new run completes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from sleeper_nb.clock import Clock, ManualClock
from sleeper_nb.errors import JobDone
from sleeper_nb.maintain.check import check_table
from sleeper_nb.maintain.sweep_orphans import sweep_orphans
from sleeper_nb.progress import Silent
from sleeper_nb.state_store.state_store_base import StateStore
from tests.engines.spark import spark_killed
from tests.support.builders import a_store, ingest, keys_in, on_disk, rows_of, save, scan

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]
BEFORE = sorted("abcmxyz" * 2)
TABLES = ("imported", "compacted")


def prepared(folder: Path) -> None:
    """Make two tables of two leaves, each with two files a leaf and a savepoint."""
    for name in TABLES:
        store = a_store(folder, points=["m"], name=name, table_id=name, clock=Clock())
        for value in ("first", "second"):
            ingest(store, rows_of(*"abcmxyz", value=value))
        save(store, "kept")
        store.catalog.close()


def killed(folder: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.spark.spark_killed", str(folder), *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,  # until its JVM and all workers have ended too
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]


def opened(folder: Path, name: str) -> StateStore:
    """Open a table two hours later, when the claims of the dead have ended."""
    later = ManualClock(Clock().now() + timedelta(hours=2), seed=len(name))
    return a_store(folder, table_id=name, create=False, clock=later)


def check(store: StateStore, rows: list[str]) -> None:
    """Every acknowledged version can be read, and the newest has these rows."""
    report = check_table(store, store.table_id, deep=True, progress=Silent())
    assert report.ok, report
    oldest = store.catalog.snapshots(store.table_id)[::-1][:3]
    assert [(s.id, len(keys_in(scan(store, s)))) for s in oldest] == [(1, 0), (2, 7), (3, 14)]
    (kept,) = store.catalog.savepoints(store.table_id)
    assert keys_in(scan(store, kept)) == BEFORE
    assert keys_in(scan(store)) == rows


def untracked(store: StateStore) -> set[str]:
    tracked = set(store.load().files.table["filename"].to_pylist())
    return {path for path in on_disk(store) if path.startswith("data/")} - tracked


@pytest.mark.spark
@pytest.mark.parametrize("runs", spark_killed.MERGE)
@pytest.mark.parametrize("case", spark_killed.STEPS)
def test_a_kill_during_import_and_compaction_on_spark_loses_nothing_and_a_new_run_completes(
    tmp_path, case, runs, spark_engine
):
    prepared(tmp_path)
    killed(tmp_path, case, runs)
    won = case == "committing"
    imported, compacted = (opened(tmp_path, name) for name in TABLES)
    new = sorted([*BEFORE, *(row["key"] for row in spark_killed.NEW)])
    check(imported, new if won else BEFORE)
    check(compacted, BEFORE)
    assert imported.head().id == 4 if won else 3
    assert compacted.head().id == 3 if won else 4  # one of two jobs was committed
    left = untracked(imported)
    assert bool(left) is not won
    assert untracked(compacted)  # what a task had begun to write

    with pytest.raises(JobDone) if won else contextlib.nullcontext():
        spark_killed.bulk_import(spark_engine, imported, runs)
    spark_killed.compact(spark_engine, compacted)
    check(imported, new)
    check(compacted, BEFORE)
    assert untracked(imported) == left
    assert compacted.head().files == 2

    for store in (imported, compacted):
        lost = untracked(store)
        for path in lost:
            os.utime(store.storage.locate(path), (0, 0))
        swept = sweep_orphans(store, store.table_id, older_than=timedelta(days=1), dry_run=False, progress=Silent())
        assert {file.path for file in swept.files} == lost
        assert not untracked(store)
    check(imported, new)
    check(compacted, BEFORE)
