"""A crash (kill -9) before or after any call that changes something: the last commit stays, and a new run completes."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from sleeper_nb.admin.migrate import migrate_state_store
from sleeper_nb.clock import ManualClock
from sleeper_nb.edit.apply_edits import EditSettings
from sleeper_nb.errors import JobDone
from sleeper_nb.load import bulk_load
from sleeper_nb.load.bulk_load import BulkLoad, ThreadsWriter
from sleeper_nb.load.ingest import IngestSettings
from sleeper_nb.load.load_options import EXACT
from sleeper_nb.load.sources import find_sources
from sleeper_nb.maintain import sweep_orphans as orphans
from sleeper_nb.maintain.check import check_table
from sleeper_nb.model.file_reference import stored_files
from sleeper_nb.model.snapshots import SavepointReference
from sleeper_nb.progress import Silent
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions import expire as expiry
from sleeper_nb.versions import resolve as versions
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from sleeper_nb.versions.roll_back import roll_back
from tests.support.builders import (
    START,
    a_store,
    collect,
    compact,
    forget_all_but_newest,
    ingest,
    keys_in,
    on_disk,
    reachable,
    reopened,
    rows_of,
    save,
    scan,
    split,
)
from tests.support.combinations import each_value_once
from tests.support.edits import ALWAYS_VECTORS, NEVER_VECTORS, Row, change, purge_of, rows_in_files
from tests.support.faults import Trap, TrappedCatalog, TrappedStorage, kill

BEFORE = sorted("abcmxyz" * 2)
EXPIRE_ALL = expiry.Retention(timedelta(0), 1, 1)


def prepared(folder: Path) -> None:
    """Make a table with a history, files out of use, savepoints, and garbage among its metadata."""
    store = a_store(folder, points=["m"])
    ingest(store, rows_of(*"abcmxyz", value="first"))
    compact(store)
    ingest(store, rows_of(*"abcmxyz", value="second"))
    save(store, "kept")
    compact(store)
    forget_all_but_newest(store)
    save(store, "doomed")
    for name in ("one", "two"):
        orphan = f"data/partition_root/{name}.parquet"
        store.storage.write(orphan, b"of a writer that crashed")
        os.utime(store.storage.locate(orphan), (0, 0))
    store.catalog.close()


def delete_doomed(store: StateStore) -> None:
    for savepoint in store.catalog.savepoints(store.table_id):
        if savepoint.name == "doomed":
            delete_savepoint(store, savepoint)


def save_again(store: StateStore) -> None:
    if "again" not in {savepoint.name for savepoint in store.catalog.savepoints(store.table_id)}:
        save(store, "again")


def ingest_and_compact(store: StateStore) -> None:
    ingest(store, rows_of("a", "z", value="third"))
    compact(store)


def migrate_once(store: StateStore) -> None:
    if store.head().state_store != "TransactionLogStateStore":
        migrate_state_store(store, "TransactionLogStateStore")


def roll_back_to_kept(store: StateStore) -> None:
    to = versions.resolve(store.catalog, store.table_id, "table", SavepointReference("kept"))
    roll_back(store, to, dry_run=False)


def split_once(store: StateStore) -> None:
    if len(store.load().tree.leaves) == 2:
        split(store, at="c", key="key")


def sweep(store: StateStore) -> None:
    day = timedelta(days=1)
    orphans.sweep_orphans(store, "table", older_than=day, dry_run=False, progress=Silent())
    assert not {path for path in on_disk(store) if path.endswith(("one.parquet", "two.parquet"))}


def is_first(row: Row) -> bool:
    return row["value"] == "first"


def change_once(store: StateStore, how: EditSettings) -> None:
    """Delete a key, change the value of another in both leaves, and insert two, by a job that has an id."""
    with suppress(JobDone):
        change(
            store,
            delete=lambda row: row["key"] == "b",
            update=lambda row: {**row, "value": "changed"} if row["key"] in "cx" else None,
            insert=rows_of("e", "w"),
            settings=how,
            job_id="change",
        )


def load_unmerged_once(store: StateStore) -> None:
    """Load four rows by threads, as two files of each leaf, by a job that has an id."""
    with pytest.MonkeyPatch.context() as patch, suppress(JobDone):
        patch.setattr(bulk_load, "threads_of_machine", lambda: 2)
        patch.setattr(bulk_load, "BATCH_ROWS", 2)
        patch.setattr(bulk_load, "slice_bytes", lambda _: 20)
        sources = find_sources(rows_of(*"dwdw", value="new"))
        settings = IngestSettings(merge=False)
        writer = ThreadsWriter(store.storage, sources, EXACT, settings, lambda _: (), store.clock, Silent())
        load = BulkLoad(store, sources, EXACT, writer)
        load.imported(job_id="load")
        assert load.runs_note == "up to 2 files of each leaf, which compaction merges"


WORK: dict[str, Callable[[StateStore], object]] = {
    "ingest": lambda store: ingest(store, rows_of("d", "w", value="new")),
    "load without a merge": load_unmerged_once,
    "compact": ingest_and_compact,
    "split": split_once,
    "savepoint": save_again,
    "delete savepoint": delete_doomed,
    "expire": lambda store: expiry.expire_snapshots(store, EXPIRE_ALL, dry_run=False),
    "garbage": collect,
    "sweep": sweep,
    "migrate": migrate_once,
    "rollback": roll_back_to_kept,
    "change with vectors": partial(change_once, how=ALWAYS_VECTORS),
    "change without vectors": partial(change_once, how=NEVER_VECTORS),
    "purge": lambda store: purge_of(store, is_first).run(),
}
LOSSLESS = [work for work in WORK if work != "purge"]
"""What keeps the rows that it is not about, and each version that is retained."""

ADDED = {"ingest": "dw", "compact": "az"}
"""The keys that a run adds."""
CHANGED = sorted([*(key for key in BEFORE if key != "b"), "e", "w"])
ONCE = {
    "change with vectors": CHANGED,
    "change without vectors": CHANGED,
    "load without a merge": sorted([*BEFORE, *"dwdw"]),
}
"""The keys after work of a job that has an id, however often it is tried."""


def after(work: str, keys: list[str]) -> list[str]:
    """Return the keys of the table once a run has followed."""
    return ONCE[work] if work in ONCE else sorted([*keys, *ADDED.get(work, "")])


def opened(folder: Path, seed: int) -> StateStore:
    """Open the table a day later; each process draws other ids."""
    return a_store(folder, clock=ManualClock(START + timedelta(days=1), seed), create=False)


def crash(folder: Path, work: str, at: int, is_after: bool) -> int:
    """Do some work in a child that is killed at a call; return its exit code."""

    # Forked by a server that has imported everything and runs no threads: quick, and safe beside Arrow's threads.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["pytest", "datafusion", "pyarrow.parquet", "tests.whole.test_crash"])
    child = server.Process(target=_run, args=(folder, work, at, is_after))
    child.start()
    child.join()
    assert child.exitcode in {0, -signal.SIGKILL}
    return child.exitcode


def _run(folder: Path, work: str, at: int, is_after: bool) -> None:
    store = opened(folder, 1)
    trap = Trap(at, kill, after=is_after)
    WORK[work](reopened(store, TrappedCatalog(store.catalog, trap), TrappedStorage(store.storage, trap)))
    os._exit(0)  # the work is done; what follows is the tests' own business


def check(store: StateStore) -> list[str]:
    """Hold what must hold after a crash at any point, and return the keys in the table."""
    assert reachable(store) <= on_disk(store)
    kept = [s for s in store.catalog.savepoints(store.table_id) if s.name == "kept"]
    for version in (*store.catalog.snapshots(store.table_id), *store.catalog.savepoints(store.table_id)):
        assert len(keys_in(scan(reopened(store), version))) >= len(BEFORE)
    assert check_table(store, "table", deep=True, progress=Silent()).ok
    assert keys_in(scan(store, kept[0])) == BEFORE
    ids = [s.id for s in store.catalog.snapshots(store.table_id)]
    assert ids == list(range(ids[0], ids[0] - len(ids), -1))
    return keys_in(scan(store))


@pytest.mark.parametrize(("work", "is_after"), each_value_once(LOSSLESS, [False, True]))
def test_a_crash_at_any_call_loses_nothing_and_running_again_completes(work: str, is_after: bool, tmp_path: Path):
    prepared(tmp_path / "prepared")
    for at in range(1, 99):
        folder = tmp_path / str(at)
        shutil.copytree(tmp_path / "prepared", folder)
        code = crash(folder, work, at, is_after)
        store = opened(folder, 2)
        found = check(store)
        assert found in (BEFORE, after(work, BEFORE))  # all of a commit, or nothing
        store.clock.advance(timedelta(hours=2))  # claims of the dead end
        WORK[work](store)
        assert check(store) == after(work, found)
        if work in ONCE:
            check_orphans(store)
        complete(store)
        store.catalog.close()
        shutil.rmtree(folder)
        if code == 0:
            assert at > 1
            return
    pytest.fail("the work never ended")


@pytest.mark.parametrize("is_after", [True, pytest.param(False, marks=pytest.mark.long)], ids=["after", "before"])
def test_a_purge_that_is_killed_at_any_call_is_finished_by_running_it_again(is_after: bool, tmp_path: Path):
    prepared(tmp_path / "prepared")
    for at in range(1, 99):
        folder = tmp_path / str(at)
        shutil.copytree(tmp_path / "prepared", folder)
        code = crash(folder, "purge", at, is_after)
        store = opened(folder, 2)
        assert keys_in(scan(store)) in (BEFORE, BEFORE[::2])
        assert reachable(store) <= on_disk(store)
        assert check_table(store, "table", deep=True, progress=Silent()).ok
        assert purge_of(store, is_first).run().complete
        assert not [row for row in rows_in_files(store) if is_first(row)]
        for version in (*store.catalog.snapshots(store.table_id), *store.catalog.savepoints(store.table_id)):
            assert {row["value"] for row in scan(reopened(store), version).to_pylist()} == {"second"}
        assert check_table(store, "table", deep=True, progress=Silent()).ok
        complete(store)
        store.catalog.close()
        shutil.rmtree(folder)
        if code == 0:
            assert at > 1
            return
    pytest.fail("the purge never ended")


def check_orphans(store: StateStore) -> None:
    """Hold that a sweep finds what crashed work wrote, and nothing that a version or the collector needs."""
    data = {path for path in on_disk(store) if path.startswith("data/")}
    for path in data:
        os.utime(store.storage.locate(path), (0, 0))
    needed = reachable(store) | {*stored_files(store.load().files.table)["filename"].to_pylist()}
    swept = orphans.sweep_orphans(store, "table", older_than=timedelta(days=1), dry_run=False, progress=Silent())
    assert {file.path for file in swept.files} == data - needed
    assert data & on_disk(store) == data & needed


def complete(store: StateStore) -> None:
    """Clean everything up; what is left beside what is needed are files that no snapshot ever named."""
    compact(store)
    expiry.expire_snapshots(store, EXPIRE_ALL, dry_run=False)
    while collect(store).data_files:
        expiry.expire_snapshots(store, EXPIRE_ALL, dry_run=False)
    collect(store)
    assert not store.catalog.garbage(store.table_id)
    assert not store.load().files.ready_for_gc.num_rows or store.catalog.savepoints(store.table_id)
    assert reachable(store) <= on_disk(store)
    assert keys_in(scan(store))[:1] == ["a"]
