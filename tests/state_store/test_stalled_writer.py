"""A writer that sleeps between its reading and its commit, while the table lives on: it changes nothing any more."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import SleeperError
from sleeper_nb.model.snapshots import SnapshotReference
from sleeper_nb.model.transactions import (
    AddFiles,
    EditCounts,
    EditRows,
    ReplacedReference,
    ReplaceFileReferences,
    Transaction,
)
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.expire import Retention, expire_snapshots
from tests.support.backends import BACKENDS, marks_of
from tests.support.builders import START, a_file, collect, reopened, save
from tests.support.faults import DeadError, Fault, Faulty, FaultyStorage, no_disk

COMMITS, ON_SERVERS = 500, 100
STORES = [
    pytest.param(
        (kind, backend), id=f"{kind} on {backend}", marks=marks_of(kind, backend) if backend == "servers" else ()
    )
    for kind in ("S3StateStore", "TransactionLogStateStore", "DynamoDBStateStore")
    for backend in ("folder", "memory", "servers")
    if (kind, backend) != ("DynamoDBStateStore", "folder")
]


def path_of(name: str) -> str:
    """Return where the table has a file of that name."""
    return f"data/partition_root/{name}.parquet"


LATE: dict[str, Transaction] = {
    "an ingest": AddFiles((a_file(path_of("late")),)),
    "a big ingest": AddFiles(tuple(a_file(f"late{number:03d}") for number in range(150))),  # staged, in DynamoDB
    "a compaction": ReplaceFileReferences(
        "job", "root", (path_of("first"), path_of("second")), a_file(path_of("late"))
    ),
    "a change of rows": EditRows(
        "update", 2, (ReplacedReference("root", path_of("first"), None),), (a_file(path_of("late")),), (),
        EditCounts(updated=1),
    ),
    "a change of many rows": EditRows(
        "merge", 2, (ReplacedReference("root", path_of("second"), None),),
        tuple(a_file(f"late{number:03d}") for number in range(150)), (), EditCounts(inserted=149, updated=1),
    ),
}  # fmt: skip


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateStore]:
    kind, backend = request.param
    made = BACKENDS[backend](tmp_path).store(kind, clock=ManualClock(START))
    yield made
    made.catalog.close()


def names(store: StateStore, version: object = None) -> set[str]:
    return {Path(path).stem for path in reopened(store).load(version).files.active["filename"].to_pylist()}


def stall(store: StateStore, change: Transaction) -> Callable[[], object]:
    """Return the request that would have committed a change, had its writer not fallen asleep."""
    fault = Fault("stalls", 1, rival=lambda: None, only="commit")
    sleeper = reopened(store, Faulty(store.catalog, fault, no_disk), FaultyStorage(store.storage, fault))
    with contextlib.suppress(DeadError):
        sleeper.commit(change)
    assert fault.held is not None
    return fault.held


def live_on(store: StateStore, commits: int) -> set[str]:
    """Commit many times: files come, are merged, and their snapshots expire; return what is in the table then."""
    files = {"first", "second"}
    for number in range(commits):
        name = f"f{number:03d}"
        if len(files) < 5:
            store.commit(AddFiles((a_file(path_of(name)),)))
            files |= {name}
        else:
            store.commit(
                ReplaceFileReferences(
                    f"job{number}", "root", tuple(path_of(each) for each in sorted(files)), a_file(path_of(name))
                )
            )
            files = {name}
        if number % 50 == 49:
            store.clock.sleep(60)
            expire_snapshots(store, Retention(timedelta(0), 2, 2), dry_run=False)
            collect(store)
    return files


@pytest.mark.parametrize("store", STORES, indirect=True)
def test_a_stalled_writer_changes_nothing_once_the_table_has_lived_on(
    store: StateStore, request: pytest.FixtureRequest
):
    store.commit(AddFiles((a_file(path_of("first")), a_file(path_of("second")))))
    kept = save(store, "kept", SnapshotReference(2))
    late = [stall(store, change) for change in LATE.values()]
    files = live_on(store, ON_SERVERS if "servers" in request.node.callspec.id else COMMITS)
    head, retained = store.head(), store.catalog.snapshots(store.table_id)
    for wake in late:
        with contextlib.suppress(SleeperError):
            assert wake() is False
        assert store.head() == head
        assert store.catalog.snapshots(store.table_id) == retained
        assert names(store) == files
        assert names(store, kept) == {"first", "second"}
    store.sweep()
    store.commit(AddFiles((a_file(path_of("more")),)))
    assert names(store) == files | {"more"}
