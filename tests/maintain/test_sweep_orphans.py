"""The sweep of orphans deletes what no version ever named, once it is old, and nothing else."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from sleeper_nb.clock import Clock
from sleeper_nb.errors import InvalidInput, StorageError
from sleeper_nb.load.ingest import ingest_arrow
from sleeper_nb.maintain.sweep_orphans import OrphanReport, sweep_orphans
from sleeper_nb.progress import Silent
from sleeper_nb.state_store.state_store_base import StateStore
from tests.support.builders import (
    EMBEDDED,
    a_store,
    compact,
    ingest,
    keys_in,
    on_disk,
    reopened,
    rows_of,
    save,
    scan,
)
from tests.support.faults import Trap, TrappedCatalog, lose_answer


@pytest.fixture(params=EMBEDDED)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StateStore:
    """A table with files that are in use, out of use, and of a savepoint."""
    made = a_store(tmp_path, kind=request.param, clock=Clock())
    for key in "abcd":
        ingest(made, rows_of(key))
    save(made, "kept")
    compact(made)
    return made


def make_old(store: StateStore) -> None:
    for path in on_disk(store):
        os.utime(store.storage.locate(path), (0, 0))


def sweep(store: StateStore, *, dry_run: bool = False, older_than: timedelta = timedelta(days=3)) -> OrphanReport:
    return sweep_orphans(store, "table", older_than=older_than, dry_run=dry_run, progress=Silent())


def test_files_of_an_ingest_that_failed_without_an_answer_go_once_they_are_old(store: StateStore):
    before = on_disk(store)
    catalog = TrappedCatalog(store.catalog, Trap(None, lose_answer))
    catalog.commit = catalog.has_commit = lambda *_, **__: lose_answer()
    with pytest.raises(StorageError):
        ingest_arrow(reopened(store, catalog), scan(store))
    (left,) = {path for path in on_disk(store) - before if path.startswith("data/")}
    assert sweep(store).files == ()
    make_old(store)
    planned = sweep(store, dry_run=True)
    assert left in {file.path for file in planned.files}
    assert left in on_disk(store)
    assert sweep(store).files == planned.files
    assert on_disk(store) == before
    assert keys_in(scan(reopened(store))) == ["a", "b", "c", "d"]
    assert sweep(store).files == ()


def test_a_damaged_table_is_left_alone(store: StateStore):
    make_old(store)
    store.storage.write("data/partition_root/stray.parquet", b"x")
    make_old(store)
    first = sorted(path for path in on_disk(store) if path.startswith("data/") and "stray" not in path)
    for path in first:
        store.storage.delete(path)
    before = on_disk(store)
    with pytest.raises(StorageError, match="damaged"):
        sweep(store)
    assert on_disk(store) == before


def test_young_files_cannot_be_asked_for(store: StateStore):
    with pytest.raises(InvalidInput, match="older than a day"):
        sweep(store, older_than=timedelta(hours=23))
