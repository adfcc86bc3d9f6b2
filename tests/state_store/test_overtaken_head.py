"""An operation on the current version goes on with a newer one when that version expires while it is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.errors import NotFound
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.create_savepoint import save_current
from tests.support.builders import (
    EMBEDDED,
    a_store,
    collect,
    compact,
    forget_all_but_newest,
    ingest,
    reopened,
    rows_of,
    split,
)


class OvertakenCatalog:
    """A catalog whose current snapshot is replaced, and deleted, right after it was returned, a number of times."""

    def __init__(self, real: Catalog, overtake: Callable[[], None], times: int) -> None:
        self._real, self._overtake, self.times = real, overtake, times

    def current(self, table_id: str) -> Snapshot:
        head = self._real.current(table_id)
        if self.times:
            self.times -= 1
            self._overtake()
        return head

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def overtaken(store: StateStore, times: int = 3) -> StateStore:
    """Return another store of the same table, which remembers nothing and is overtaken at each look at the head."""

    def overtake() -> None:
        ingest(store, rows_of("b"))
        store.materialised(store.head())  # so that the log before it is not needed
        forget_all_but_newest(store)
        collect(store)

    return reopened(store, OvertakenCatalog(store.catalog, overtake, times))  # type: ignore[arg-type]


@pytest.fixture(params=EMBEDDED)
def store(tmp_path: Path, request: pytest.FixtureRequest) -> StateStore:
    made = a_store(tmp_path, kind=request.param)
    ingest(made, rows_of("a", "z"))
    return made


def test_the_version_was_gone(store: StateStore):
    other = overtaken(store, 1)
    with pytest.raises(NotFound):
        other.load(other.head())


OPERATIONS: dict[str, Callable[[StateStore], Any]] = {
    "load": lambda store: store.load(),
    "ingest": lambda store: ingest(store, rows_of("d")),
    "compact": compact,
    "split": lambda store: split(store, 2),
    "collect": collect,
    "savepoint": lambda store: save_current(store, name="kept", message=None, author=None),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_goes_on_with_the_newer_version(store: StateStore, name: str):
    other = overtaken(store)
    assert OPERATIONS[name](other) is not None
    assert other.catalog.times == 0  # type: ignore[attr-defined]
    assert reopened(store).load().totals().rows >= 2 + 3


def test_an_operation_that_is_always_overtaken_ends(store: StateStore):
    store.retry = type(store.retry)(max_attempts=4)
    other = overtaken(store, 100)
    with pytest.raises(NotFound):
        other.load()
    assert 4 <= 100 - other.catalog.times <= 4 * 3  # type: ignore[attr-defined]
