"""Savepoints of a table whose state is in a log keep the log since its full metadata, and not all lists anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import AlreadyExists, NotFound
from sleeper_nb.maintain.check import check_table
from sleeper_nb.progress import SILENT
from sleeper_nb.state_store import history
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from tests.support.backends import BACKENDS, BESIDE
from tests.support.builders import (
    TABLE,
    collect,
    forget_all_but_newest,
    ingest,
    on_disk,
    reachable,
    reopened,
    rows_hash,
    rows_of,
    save,
)
from tests.support.faults import Trap, TrappedCatalog


@pytest.fixture(params=[pytest.param(name, marks=BESIDE.get(name, ())) for name in ("folder", "memory", "servers")])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[StateStore]:
    opened = BACKENDS[request.param](tmp_path).store("TransactionLogStateStore", points=["m"], clock=clock)
    for key in "abx":
        ingest(opened, rows_of(key))
    yield opened
    opened.catalog.close()


def metadata_of(store: StateStore) -> set[str]:
    return {path for path in on_disk(store) if path.startswith("statestore/")}


def test_only_the_log_is_written(store: StateStore):
    before = metadata_of(store)
    one = save(store)
    assert one.log is not None
    assert metadata_of(store) - before == {one.log.path}
    assert (one.log.after, one.saved_snapshot_id) == (1, 4)
    assert store.storage.read(one.log.path).count(b"\n") == 3
    assert reachable(store) <= on_disk(store)


def test_what_it_keeps_goes_only_with_it(store: StateStore):
    one, two = save(store), save(store)
    rows = rows_hash(store, one)
    store.materialised(store.head())  # so that the log is cut behind it
    forget_all_but_newest(store)
    collect(store)
    collect(store)
    assert store.catalog.snapshots(TABLE)[-1].id == 4
    with pytest.raises(NotFound):
        store.catalog.log(TABLE, 1, 4)
    assert rows_hash(store, one) == rows_hash(store, two) == rows
    assert check_table(reopened(store), "t", deep=True, progress=SILENT).ok
    delete_savepoint(store, one)
    collect(store)
    assert rows_hash(store, two) == rows
    assert one.log.path not in on_disk(store)
    delete_savepoint(store, two)
    collect(store)
    assert not {two.log.path, two.full_manifest_list, two.partitions_path} & on_disk(store)
    assert metadata_of(store) == reachable(store) & metadata_of(store)


def expire_first(store: StateStore) -> None:
    rival = reopened(store)
    rival.materialised(rival.catalog.snapshot(TABLE, 3))  # what older ones are no longer read through
    rival.catalog.expire_snapshots(TABLE, [1, 2], rival.clock.now())


def test_full_metadata_is_saved_when_the_log_is_cut_before_it_is_read(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
):
    log = store.catalog.log

    def cut_before(*asked: Any) -> tuple[bytes, ...]:
        monkeypatch.setattr(store.catalog, "log", log)
        expire_first(store)
        return log(*asked)

    monkeypatch.setattr(store.catalog, "log", cut_before)
    assert save(store).log is None
    assert reachable(store) <= on_disk(store)


def test_full_metadata_is_saved_when_the_snapshot_before_the_log_expires_meanwhile(store: StateStore):
    trap = Trap(1, lambda: expire_first(store), only=("add_savepoint",))
    one = save(reopened(store, TrappedCatalog(store.catalog, trap)))
    assert (one.id, one.log) == (1, None)
    assert one == store.catalog.savepoints(TABLE)[0]
    assert not any(path.startswith("statestore/log/") for path in on_disk(store))
    assert reachable(store) <= on_disk(store)


def test_full_metadata_is_saved_when_the_snapshot_before_the_log_has_expired(store: StateStore):
    store.catalog.expire_snapshots(TABLE, [1], store.clock.now())
    one = save(store)
    assert one.log is None
    assert reachable(store) <= on_disk(store)


def test_full_metadata_is_saved_rather_than_a_long_log(store: StateStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(history, "SAVED_LOG_BYTES", 10)
    assert save(store).log is None


def test_a_refused_savepoint_leaves_no_log(store: StateStore):
    save(store, "fix")
    ingest(store, rows_of("c"))
    before = on_disk(store)
    with pytest.raises(AlreadyExists):
        save(store, "fix")
    assert on_disk(store) == before
