"""State stores by their names: one that a table was migrated to is opened when it is asked for, and none is kept."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from sleeper_nb.errors import NotFound
from sleeper_nb.model.properties import STATE_STORES
from sleeper_nb.model.transactions import MigrateStateStore
from sleeper_nb.state_store.state_stores import state_store_named
from tests.support.builders import EMBEDDED, a_store, ingest, rows_of


@pytest.mark.parametrize("kind", EMBEDDED)
def test_a_store_that_nobody_has_any_more_takes_its_states_along(tmp_path: Path, kind: str):
    store = a_store(tmp_path, kind=kind)
    ingest(store, rows_of("a"))
    (other,) = {*EMBEDDED} - {kind}
    store.commit(MigrateStateStore(other))
    ingest(store, rows_of("b"))
    gone = [weakref.ref(each) for each in (store, store.named(other), store.load().files)]
    store.catalog.close()
    gc.disable()  # a million references must not wait for it
    try:
        del store
        assert [each() for each in gone] == [None] * 3
    finally:
        gc.enable()


def test_the_store_of_another_class_is_always_the_same(tmp_path: Path):
    store = a_store(tmp_path)
    assert store.named("S3StateStore") is store
    assert store.named("TransactionLogStateStore") is store.named("TransactionLogStateStore")
    with pytest.raises(NotFound) as error:
        store.named("TransactionLogStatStore")
    assert "TransactionLogStateStore" in (error.value.hint or "")
    assert [state_store_named(name).name for name in STATE_STORES] == [*STATE_STORES]
