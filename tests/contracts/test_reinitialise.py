"""What reinitialising a table holds on every state store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.admin.migrate import migrate_state_store
from sleeper_nb.admin.reinitialise import (
    Fresh,
    ReinitialiseReport,
    reinitialise,
)
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput, StateRuleBroken
from sleeper_nb.maintain.check import check_table
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import SILENT
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions import resolve as versions
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from sleeper_nb.versions.roll_back import roll_back
from tests.support.backends import BACKENDS
from tests.support.builders import (
    KEYED,
    START,
    collect,
    compact,
    ingest,
    keys_in,
    on_disk,
    reachable,
    reopened,
    rows_of,
    save,
    scan,
)

KINDS = [("S3StateStore", "folder"), ("TransactionLogStateStore", "folder"), ("DynamoDBStateStore", "memory")]
OTHER = Schema({"key": "string", "n": "int"}, {"at": "long"}, {"value": "long"})
"""Another schema with the row keys of `KEYED`."""


@pytest.fixture(params=KINDS, ids=" on ".join)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateStore]:
    kind, backend = request.param
    made = BACKENDS[backend](tmp_path).store(kind, clock=ManualClock(START))
    yield made
    made.catalog.close()


def clear(store: StateStore, fresh: Fresh = Fresh(), **options: Any) -> ReinitialiseReport:  # noqa: B008 - frozen
    done = reinitialise(store, "table", fresh, **{"force": True, "dry_run": False, **options})
    store.clock.sleep(60)
    return done


def test_a_table_is_empty_and_older_snapshots_are_gone(store: StateStore):
    ingest(store, rows_of("a", "z"))
    ingest(store, rows_of("b"))
    compact(store)
    tree = store.load().tree
    done = clear(store, author="ann")
    head = store.head()
    assert (done.snapshot, done.rows, done.files, done.snapshots) == (head, 3, 1, 4)
    assert (head.id, head.operation, head.author, head.rows, head.files) == (5, "reinitialise", "ann", 0, 0)
    fresh = reopened(store)
    assert (fresh.load().tree, fresh.load().files.active.num_rows) == (tree, 0)
    assert [s.id for s in store.catalog.snapshots(store.table_id)] == [5]
    collect(store)
    assert on_disk(store) == reachable(store)
    ingest(store, rows_of("c"))
    assert keys_in(scan(reopened(store))) == ["c"]


def test_partitions_are_made_anew_in_the_same_commit(store: StateStore):
    ingest(store, rows_of("a", "z"))
    done = clear(store, Fresh(points=("g", "n")))
    state = reopened(store).load()
    assert (store.head().id, len(state.tree.leaves), done.partitions_after) == (3, 3, 3)
    state.tree.check()
    ingest(store, rows_of("a", "h", "z"))
    assert keys_in(scan(reopened(store))) == ["a", "h", "z"]
    clear(store, Fresh(points=()))
    assert len(reopened(store).load().tree.leaves) == 1


def test_an_empty_table_stays_as_it_is(store: StateStore):
    ingest(store, rows_of("a"))
    clear(store)
    assert clear(store).snapshot is None
    assert store.head().id == 3


def test_a_plan_says_what_the_run_does_and_changes_nothing(store: StateStore):
    ingest(store, rows_of("a"))
    plan = clear(store, Fresh(points=("m",)), dry_run=True)
    assert (plan.rows, plan.snapshots, plan.partitions_after, store.head().id) == (1, 2, 2, 2)
    done = clear(store, Fresh(points=("m",)))
    kept = [(r.rows, r.files, r.bytes, r.snapshots, r.partitions_before, r.partitions_after) for r in (plan, done)]
    assert kept[0] == kept[1]


def test_savepoints_are_named_and_stay_with_force(store: StateStore):
    ingest(store, rows_of("a", "b"))
    saved = save(store, "before")
    with pytest.raises(ConfirmationNeeded, match=r"1 savepoint \(before\) would stay"):
        clear(store, force=False)
    assert store.head().id == 2
    assert clear(store, force=True).savepoints == ("before",)
    collect(store)
    assert keys_in(scan(reopened(store), saved)) == ["a", "b"]
    delete_savepoint(store, saved)
    collect(store)
    assert on_disk(store) == reachable(store)


def test_a_savepoint_can_be_rolled_back_to(store: StateStore):
    ingest(store, rows_of("a", "b"))
    saved = save(store, "before")
    clear(store, Fresh(points=("m",)), force=True)
    roll_back(store, versions.Resolved(saved), dry_run=False)
    assert keys_in(scan(reopened(store))) == ["a", "b"]


def test_another_schema_comes_with_a_new_id_and_old_versions_keep_theirs(store: StateStore):
    ingest(store, rows_of("a", value="old"))
    saved = save(store, "before")
    assert clear(store, Fresh(schema=OTHER), force=True).new_schema
    fresh = reopened(store)
    assert (fresh.load().schema, store.head().schema_id) == (OTHER, 2)
    ingest(store, [{"key": "b", "n": 1, "at": 5, "value": 7}])
    compact(store)
    assert scan(reopened(store)).to_pylist() == [{"key": "b", "n": 1, "at": 5, "value": 7}]
    assert scan(reopened(store), saved).to_pylist() == rows_of("a", value="old")
    with pytest.raises(InvalidInput, match="do not fit the current schema"):
        roll_back(store, versions.Resolved(saved), dry_run=False)
    clear(store, Fresh(schema=KEYED), force=True)
    assert (reopened(store).load().schema, store.head().schema_id) == (KEYED, 3)


def test_row_keys_cannot_change_while_the_partitions_stay(store: StateStore):
    ingest(store, rows_of("a"))
    before = on_disk(store)
    with pytest.raises(StateRuleBroken, match="row keys would change from key string, n int to key string") as caught:
        clear(store, Fresh(schema=Schema({"key": "string"})))
    assert "delete_partitions=True" in caught.value.hint
    assert (store.head().id, on_disk(store)) == (2, before)


def test_row_keys_change_with_the_partitions_and_old_versions_keep_theirs(store: StateStore):
    ingest(store, rows_of("a", "b"))
    ingest(store, rows_of("c"))
    compact(store)  # so that some references have waited for garbage collection before
    saved = save(store, "before")
    other = Schema({"id": "long", "blob": "bytearray", "at": "long"}, {}, {"key": "string"})
    assert clear(store, Fresh(schema=other, points=(100,)), force=True).partitions_after == 2
    rows = [{"id": 1, "blob": b"\xff", "at": 1, "key": "x"}, {"id": 100, "blob": b"", "at": -1, "key": "y"}]
    ingest(store, rows)
    ingest(store, rows)
    compact(store)
    assert scan(reopened(store)).to_pylist() == [rows[0], rows[0], rows[1], rows[1]]
    assert keys_in(scan(reopened(store), saved)) == ["a", "b", "c"]
    with pytest.raises(InvalidInput, match="do not fit the current schema"):
        roll_back(store, versions.Resolved(saved), dry_run=False)
    collect(store)
    assert reachable(store) <= on_disk(store)
    assert check_table(store, "table", deep=True, progress=SILENT).ok
    clear(store, Fresh(schema=KEYED, points=("m",)), force=True)
    ingest(store, rows_of("z"))
    assert keys_in(scan(reopened(store))) == ["z"]
    delete_savepoint(store, saved)
    collect(store)
    assert {path for path in on_disk(store) - reachable(store) if not path.startswith("schema/")} == set()


@pytest.mark.parametrize("to", ["S3StateStore", "TransactionLogStateStore"])
def test_a_table_whose_row_keys_have_changed_can_migrate(store: StateStore, to: str):
    if store.name == to:
        return
    ingest(store, rows_of("a"))
    clear(store, Fresh(schema=Schema({"id": "long"}, {}, {"key": "string"}), points=()))
    ingest(store, [{"id": 5, "key": "x"}])
    migrate_state_store(store, to)
    assert scan(reopened(store)).to_pylist() == [{"id": 5, "key": "x"}]
    collect(store)
    assert on_disk(store) >= reachable(store)


def test_rows_of_the_schema_before_are_not_added_behind_it(store: StateStore):
    commit = store.commit

    def late(change: Any, **options: Any) -> Any:
        other = reopened(store)
        clear(other, Fresh(schema=OTHER))
        return commit(change, **options)

    store.commit = late  # type: ignore[method-assign]
    with pytest.raises(StateRuleBroken, match="columns were changed"):
        ingest(store, rows_of("a"))
    assert reopened(store).load().files.active.num_rows == 0
    assert not any(path.startswith("data/") for path in on_disk(store))


def test_a_lost_race_is_done_again_on_the_newer_state(store: StateStore):
    ingest(store, rows_of("a"))
    commit, raced = store.commit_steps, []

    def overtaken(head: Any, steps: Any) -> Any:
        if not raced:
            raced.append(ingest(reopened(store), rows_of("b")))
        return commit(head, steps)

    store.commit_steps = overtaken  # type: ignore[method-assign]
    clear(store, Fresh(points=("m",)))
    assert (store.head().id, reopened(store).load().files.active.num_rows) == (4, 0)
