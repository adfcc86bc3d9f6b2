"""What a savepoint holds on every state store: it reads the same rows whatever becomes of its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from sleeper_nb.admin.migrate import migrate_state_store
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import AlreadyExists
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.metadata import ManifestList
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from sleeper_nb.versions.savepoint_manager import SavepointManager
from tests.support.backends import BACKENDS, BESIDE, Backend, marks_of
from tests.support.builders import (
    TABLE,
    collect,
    compact,
    forget_all_but_newest,
    ingest,
    on_disk,
    reachable,
    reopened,
    rows_hash,
    rows_of,
    save,
    split,
)

BACKENDS_OF = {
    "S3StateStore": ("folder", "memory", "moto", "servers"),
    "TransactionLogStateStore": ("folder", "memory", "moto", "servers"),
    "DynamoDBStateStore": ("memory", "moto", "servers"),
}
STORES = [
    pytest.param((kind, backend), id=f"{kind} on {backend}",
                 marks=marks_of(kind, backend) if backend in BESIDE else ())
    for kind, backends in BACKENDS_OF.items()
    for backend in backends
]  # fmt: skip


@pytest.fixture(params=STORES)
def opened(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> tuple[StateStore, Backend]:
    kind, name = request.param
    backend = BACKENDS[name](tmp_path)
    return backend.store(kind, points=["m"], clock=clock), backend


@pytest.fixture
def store(opened: tuple[StateStore, Backend]) -> Iterator[StateStore]:
    yield opened[0]
    opened[0].catalog.close()


@pytest.fixture
def saved(store: StateStore) -> Savepoint:
    """A savepoint of three files in two leaves."""
    ingest(store, rows_of("a", "x", value="first"))
    ingest(store, rows_of("b"))
    return save(store, "before")


def expire(store: StateStore) -> None:
    ingest(store, rows_of("c"))
    forget_all_but_newest(store)


def collect_garbage(store: StateStore) -> None:
    expire(store)
    collect(store)
    collect(store)


def merge(store: StateStore) -> None:
    compact(store)
    collect_garbage(store)


def cut(store: StateStore) -> None:
    split(store, 2)
    merge(store)


def rename(store: StateStore) -> None:
    store.catalog.rename_table(TABLE, "table", "other")
    merge(store)


def migrate(store: StateStore) -> None:
    """Move to another state store, and let go of all that the first one has had."""
    kinds = ["TransactionLogStateStore", "S3StateStore"]
    migrate_state_store(store, next(kind for kind in kinds if kind != store.name))
    merge(store)


def all_of_them(store: StateStore) -> None:
    for change in (merge, cut, rename, migrate):
        change(store)


@pytest.mark.parametrize("change", [expire, collect_garbage, merge, cut, rename, migrate, all_of_them])
def test_a_savepoint_reads_the_same_rows_after(store: StateStore, saved: Savepoint, change: Callable[..., None]):
    before = rows_hash(store, saved)
    change(store)
    fresh = reopened(store)
    assert [kept for kept in fresh.catalog.savepoints(TABLE) if kept.name == "before"] == [saved]
    assert saved.saved_snapshot_id not in {s.id for s in fresh.catalog.snapshots(TABLE)}
    assert rows_hash(fresh, saved) == before
    assert rows_hash(fresh) != before
    assert reachable(store) <= on_disk(store)


def test_a_savepoint_keeps_partitions_and_schema_as_they_were(store: StateStore, saved: Savepoint):
    before = reopened(store).load(saved)
    cut(store)
    after = reopened(store).load(saved)
    assert (after.tree, after.schema) == (before.tree, before.schema)
    assert len(store.load().tree.leaves) > len(after.tree.leaves)


def test_deleting_one_of_two_on_the_same_snapshot_deletes_nothing(store: StateStore, saved: Savepoint):
    other = save(store)
    before = rows_hash(store, saved)
    merge(store)
    collect(store)
    there = on_disk(store)
    delete_savepoint(store, saved)
    collect(store)
    own = {"savepoint/savepoint-1", *([saved.log.path] if saved.log else [])}
    assert there - on_disk(store) == own
    assert rows_hash(store, other) == before
    delete_savepoint(store, other)
    forget_all_but_newest(store)
    assert len(collect(store).data_files) == 2  # the third, alone in its leaf, was not rewritten


def test_ids_and_names_are_never_given_again(store: StateStore, saved: Savepoint):
    delete_savepoint(store, saved)
    with pytest.raises(AlreadyExists, match="'before' was used before"):
        save(store, "before")
    assert save(store).id == 2  # the one that was refused has spent none


def test_the_manager_finds_what_the_catalog_says_and_no_other_file(
    store: StateStore, opened: tuple[StateStore, Backend]
):
    manager = SavepointManager(SimpleNamespace(_store=store))
    assert (manager.earliest_savepoint_id(), manager.latest_savepoint_id()) == (None, None)
    one, two, three = save(store), save(store, "two"), save(store)
    delete_savepoint(store, one)
    store.storage.write("savepoint/savepoint-9", b"of a creation that crashed")
    assert (manager.earliest_savepoint_id(), manager.latest_savepoint_id()) == (2, 3)
    assert [manager.savepoint_exists(number) for number in (1, 2, 3, 9)] == [False, True, True, False]
    assert (manager.savepoint(2), manager.savepoint(3)) == (two, three)
    assert manager.savepoint_directory() == f"{opened[1].storage(TABLE).root}/savepoint"
    assert Savepoint.from_path(manager.files, manager.savepoint_path(2)) == two


def logged_at(savepoint: Savepoint, manifests: ManifestList) -> tuple[int, int, int, int]:
    """Return the numbers of files added and deleted by the list, and by the log behind it."""
    found = savepoint.data_manifests(manifests)
    assert [one.file_name for one in found] == [
        savepoint.full_manifest_list,
        *([savepoint.log.path] if savepoint.log else []),
    ]
    assert [one.file_size for one in found] == [manifests._storage.size(one.file_name) for one in found]
    assert found[-1].schema_id == savepoint.schema_id
    numbers = [number for one in found for number in (one.num_added_files, one.num_deleted_files)]
    return (*numbers, 0, 0)[:4]


def test_the_list_of_all_data_files_is_one_parquet_file_or_one_and_the_log_behind_it(
    store: StateStore, saved: Savepoint
):
    compact(store)  # a leaf with one file is not rewritten
    after = save(store)
    manifests = SavepointManager(SimpleNamespace(_store=store)).manifest_list
    if store.name == "TransactionLogStateStore":
        assert logged_at(saved, manifests) == (0, 0, 3, 0)
        assert logged_at(after, manifests) == (0, 0, 2, 0)
        return
    assert logged_at(saved, manifests) == (3, 0, 0, 0)
    assert logged_at(after, manifests) == (2, 2, 0, 0)
    with store.storage.input(saved.full_manifest_list) as stream:
        listed = pq.read_table(stream)["filename"].to_pylist()
    assert sorted(listed) == sorted(store.load(saved).files.active["filename"].to_pylist())
