from __future__ import annotations

import json
from typing import Any

import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import AlreadyExists, InvalidInput, NotFound, StorageError
from sleeper_nb.model.snapshots import SavepointReference, SnapshotReference
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from sleeper_nb.versions.resolve import resolve
from tests.support.builders import (
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
)
from tests.support.faults import Trap, TrappedCatalog, TrappedStorage, interrupt, lose_answer


def test_a_savepoint_is_a_file_and_a_row_that_say_the_same(store: StateStore, clock: ManualClock):
    made = ingest(store, rows_of("a", "b"))
    one = save(store, "fix")
    body = json.loads(store.storage.read("savepoint/savepoint-1"))
    assert (one.id, one.saved_snapshot_id, one.record_count, one.snapshot_time) == (1, 2, 2, made.time)
    assert (body["id"], body["savedSnapshotId"], body["recordCount"], body["name"]) == (1, 2, 2, "fix")
    assert body["fullManifestList"] == made.files_path
    assert store.catalog.savepoints(store.table_id) == (one,)


def test_a_savepoint_keeps_its_rows_whatever_expires(store: StateStore):
    ingest(store, rows_of("a"))
    ingest(store, rows_of("b"))
    one = save(store)
    compact(store)
    forget_all_but_newest(store)
    collect(store)
    assert keys_in(scan(reopened(store), one)) == ["a", "b"]
    delete_savepoint(store, one)
    collect(store)
    collect(store)
    forget_all_but_newest(store)
    collect(store)
    assert on_disk(store) == reachable(store)


def test_deleting_one_of_two_savepoints_of_a_version_deletes_only_its_file(store: StateStore):
    ingest(store, rows_of("a"))
    one, two = save(store), save(store)
    forget_all_but_newest(store)
    before = on_disk(store)
    delete_savepoint(store, one)
    collect(store)
    assert before - on_disk(store) >= {"savepoint/savepoint-1"}
    assert keys_in(scan(reopened(store), two)) == ["a"]


def test_an_older_snapshot_can_be_saved_and_an_expired_one_only_while_a_savepoint_keeps_it(store: StateStore):
    ingest(store, rows_of("a"))
    ingest(store, rows_of("b"))
    found = resolve(store.catalog, store.table_id, "table", SnapshotReference(2))
    assert save(store, "old", SnapshotReference(2)).record_count == 1
    forget_all_but_newest(store)
    assert save(store, "again", SavepointReference("old")).saved_snapshot_id == 2
    from sleeper_nb.versions.create_savepoint import create_savepoint

    with pytest.raises(NotFound, match="expired"):  # it expired after it was found
        create_savepoint(store, found, name="late", message=None, author=None)
    kept = {path for path in on_disk(store) if path.startswith("savepoint/")}
    assert kept == {"savepoint/savepoint-1", "savepoint/savepoint-2"}


def test_names_and_ids_are_given_once_for_ever(store: StateStore):
    delete_savepoint(store, save(store, "fix"))
    with pytest.raises(AlreadyExists, match="fix"):
        save(store, "fix")
    with pytest.raises(InvalidInput):
        save(store, "1")
    assert save(store).id == 2  # what was refused has spent none
    assert {path for path in on_disk(store) if path.startswith("savepoint/")} == {"savepoint/savepoint-2"}


@pytest.mark.parametrize("call", ["write", "add_savepoint"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("fault", [interrupt, lose_answer])
def test_a_fault_leaves_a_whole_savepoint_or_none(store: StateStore, call: str, after: bool, fault: Any):
    before = on_disk(store)
    trap = Trap(1, fault, after=after, only=(call,))
    failing = reopened(store, TrappedCatalog(store.catalog, trap), TrappedStorage(store.storage, trap))
    landed = call == "add_savepoint" and after
    if landed and fault is lose_answer:
        assert save(failing, "fix").id == 1
    else:
        with pytest.raises((KeyboardInterrupt, StorageError)):
            save(failing, "fix")
    assert [s.name for s in store.catalog.savepoints(store.table_id)] == (["fix"] if landed else [])
    assert on_disk(store) - before == ({"savepoint/savepoint-1"} if landed else set())
