"""A list of snapshots that lacks the current one is not all: what deletes by it deletes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sleeper_nb.admin.migrate import migrate_state_store
from sleeper_nb.errors import StorageError
from sleeper_nb.maintain.sweep_orphans import sweep_orphans
from sleeper_nb.progress import SILENT
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.expire import Retention, expire_snapshots
from tests.support.builders import a_store, collect, compact, ingest, on_disk, reopened, rows_of


class Forgetful:
    """A catalog that shows no snapshots, or not the newest."""

    def __init__(self, real: Any, shown: slice) -> None:
        self._real, self._shown = real, shown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def snapshots(self, table_id: str) -> Any:
        return self._real.snapshots(table_id)[self._shown]

    def audit(self, table_id: str) -> Any:
        rows = self._real.audit(table_id)
        return replace(rows, snapshots=rows.snapshots[self._shown])


STEPS: dict[str, Callable[[StateStore], object]] = {
    "gc": collect,
    "expire": lambda store: expire_snapshots(store, Retention(timedelta(0), 1), dry_run=False),
    "sweep": lambda store: sweep_orphans(store, "table", older_than=timedelta(days=1), dry_run=False, progress=SILENT),
    "migrate": lambda store: migrate_state_store(store, "S3StateStore"),
}


@pytest.mark.parametrize("shown", [slice(0), slice(1, None)], ids=["none", "all but the newest"])
@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_deleted_by_a_list_without_the_current_snapshot(tmp_path, clock, step, shown):
    store = a_store(tmp_path, kind="TransactionLogStateStore", clock=clock)
    for keys in ("ab", "cd"):
        ingest(store, rows_of(*keys))
    compact(store)
    clock.advance(timedelta(days=9))
    before, kept = on_disk(store), store.catalog.snapshots(store.table_id)
    short = reopened(store, catalog=Forgetful(store.catalog, shown))  # type: ignore[arg-type]
    short.successor = lambda name: reopened(short) if name == short.name else _as(short, name)
    with pytest.raises(StorageError, match=r"lacks the current one|is damaged"):
        STEPS[step](short)
    assert on_disk(store) == before
    assert store.catalog.snapshots(store.table_id) == kept
    store.catalog.close()


def _as(store: StateStore, name: str) -> StateStore:
    return a_store(
        None,
        kind=name,
        create=False,
        catalog=store.catalog,
        storage=store.storage,
        clock=store.clock,  # type: ignore[arg-type]
    )
