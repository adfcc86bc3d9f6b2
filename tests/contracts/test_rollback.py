"""What a rollback holds on every state store, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sleeper_nb.admin.migrate import migrate_state_store
from sleeper_nb.errors import StateRuleBroken, StorageError
from sleeper_nb.maintain import collect_garbage as garbage
from sleeper_nb.model.snapshots import SnapshotReference
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions import resolve as versions
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from sleeper_nb.versions.roll_back import RollbackReport, roll_back
from tests.support.backends import Tables
from tests.support.builders import (
    NOW,
    collect,
    compact,
    forget_all_but_newest,
    in_order,
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
from tests.support.faults import Trap, TrappedCatalog, TrappedStorage, lose_answer


def back(store: StateStore, number: int, **options: Any) -> RollbackReport:
    to = versions.resolve(store.catalog, store.table_id, "table", SnapshotReference(number))
    return roll_back(store, to, dry_run=options.pop("dry_run", False), **options)


def version(store: StateStore, number: int) -> Any:
    return versions.resolve(store.catalog, store.table_id, "table", SnapshotReference(number)).version


def rows(store: StateStore, number: int | None = None) -> list[str]:
    fresh = reopened(store)
    return in_order(scan(fresh, None if number is None else version(store, number)).to_pylist())


def test_a_rollback_adds_a_snapshot_and_the_table_is_what_it_was(store: StateStore):
    ingest(store, rows_of("a", "b"))
    ingest(store, rows_of("wrong"))
    compact(store)
    done = back(store, 2, message="a wrong load", author="ann")
    head = store.head()
    assert (head.id, head.operation, head.message, head.author) == (5, "rollback", "a wrong load", "ann")
    assert (head.rows, head.files, head.added_files, head.removed_files, head.added_rows) == (2, 1, 1, 1, -1)
    assert done.snapshot == head
    assert (done.rows_before, done.rows_after, [s.id for s in done.undone]) == (3, 2, [4, 3])
    assert rows(store) == in_order(rows_of("a", "b"))
    for number, keys in ((2, "ab"), (3, ["a", "b", "wrong"]), (4, ["a", "b", "wrong"]), (5, "ab")):
        assert rows(store, number) == in_order(rows_of(*keys))


def test_back_and_forth_and_every_version_stays_as_it_was(store: StateStore):
    """Files that are used, left and used again are live in several intervals of snapshots."""
    expected: dict[int, list[str]] = {1: []}

    def note(_done: Any) -> None:
        expected[store.head().id] = rows(store)

    note(ingest(store, rows_of("a", "m")))
    note(ingest(store, rows_of("b", "z")))
    note(compact(store))
    note(back(store, 2))
    note(ingest(store, rows_of("c")))
    note(compact(store))
    note(back(store, 4))
    note(compact(store))
    note(back(store, 6))
    note(compact(store))
    note(back(store, 1))
    note(back(store, 7))
    assert {number: rows(store, number) for number in expected} == expected
    assert expected[5] == expected[2]
    assert expected[8] == expected[4]


def test_a_split_is_rolled_back_with_its_leaves(store: StateStore):
    ingest(store, rows_of(*"abcdef"))
    split(store, 2)
    ingest(store, rows_of("g"))
    after = store.head().id
    parts = store.load().tree
    done = back(store, 2)
    assert (done.partitions_before, done.partitions_after) == (len(parts.leaves), 1)
    assert reopened(store).load().tree.leaves == (store.load().tree.root,)
    assert rows(store) == in_order(rows_of(*"abcdef"))
    split(store, at="d")  # a tree of its own from here on
    assert [leaf.region.ranges[0].max for leaf in reopened(store).load().tree.leaves] == ["d", None]
    ingest(store, rows_of("c", "x"))
    assert rows(store) == in_order(rows_of(*"abcdef", "c", "x"))
    back(store, after)
    assert reopened(store).load().tree == parts
    assert rows(store) == in_order(rows_of(*"abcdefg"))


def test_a_dry_run_says_the_same_and_changes_nothing(store: StateStore):
    ingest(store, rows_of("a"))
    before = on_disk(store)
    planned = back(store, 1, dry_run=True)
    assert (planned.removed_files, planned.rows_after, planned.snapshot) == (1, 0, None)
    assert (planned.files_before, planned.files_after) == (1, 0)
    assert (store.head().id, on_disk(store)) == (2, before)


def test_rolling_back_twice_is_done_once(store: StateStore):
    ingest(store, rows_of("a"))
    back(store, 1)
    again = back(store, 1)
    assert again.is_nothing
    assert again.snapshot is None
    assert store.head().id == 3


def test_a_savepoint_is_rolled_back_to_when_its_snapshot_has_expired(store: StateStore):
    ingest(store, rows_of("a"))
    kept = save(store, "good")
    ingest(store, rows_of("b"))
    compact(store)
    forget_all_but_newest(store)
    collect(store)
    done = back(store, kept.saved_snapshot_id)
    assert str(done.to) == "savepoint 1 'good', snapshot 2"
    assert rows(store) == in_order(rows_of("a"))


def test_what_a_rollback_leaves_is_garbage_in_the_end(store: StateStore):
    ingest(store, rows_of("a"))
    ingest(store, rows_of("b"))
    back(store, 2)
    for _ in range(3):
        forget_all_but_newest(store)
        collect(store)
    assert on_disk(store) == reachable(store)
    assert rows(store) == in_order(rows_of("a"))


def test_a_commit_that_came_between_is_undone_too(store: StateStore):
    ingest(store, rows_of("a"))
    rival = reopened(store)

    def overtake() -> None:
        ingest(rival, rows_of("late"))

    mine = reopened(store, TrappedCatalog(store.catalog, Trap(1, overtake, only=("commit",))))
    back(mine, 1)
    assert [s.operation for s in store.catalog.snapshots(store.table_id)] == ["rollback", "ingest", "ingest", "create"]
    assert rows(store) == []


def test_an_ingest_into_a_leaf_that_was_rolled_back_says_so(store: StateStore):
    ingest(store, rows_of("a", "z"))
    split(store, at="m")
    rival = reopened(store)
    trap = Trap(1, lambda: back(rival, 2) and None, only=("commit",))
    with pytest.raises(StateRuleBroken, match="was removed by a rollback"):
        ingest(reopened(store, TrappedCatalog(store.catalog, trap)), rows_of("b"))
    assert rows(store) == in_order(rows_of("a", "z"))


@pytest.mark.parametrize("after", [False, True])
def test_a_lost_answer_is_one_rollback_or_none(store: StateStore, after: bool):
    ingest(store, rows_of("a"))
    trap = Trap(1, lose_answer, after=after, only=("commit",))
    mine = reopened(store, TrappedCatalog(store.catalog, trap))
    if after:
        assert back(mine, 1).snapshot == store.head()
    else:
        with pytest.raises(StorageError):
            back(mine, 1)
    assert rows(store) == ([] if after else in_order(rows_of("a")))


def test_a_table_that_was_rolled_back_moves_to_another_store(tables: Tables, store: StateStore):
    if tables.kind == "DynamoDBStateStore" or tables.backend.dynamodb is None:
        pytest.skip("the other way round is what is tested, on a catalog that has both")
    ingest(store, rows_of("a"))
    ingest(store, rows_of("b"))
    back(store, 2)
    migrate_state_store(store, "DynamoDBStateStore")
    back(store, 3)
    compact(store)
    back(store, 2)
    assert rows(store) == in_order(rows_of("a"))
    migrate_state_store(store, tables.kind)
    assert [rows(store, n) for n in (3, 6, 7)] == [in_order(rows_of(*keys)) for keys in ("ab", "ab", "ab")]


STEPS = [("commit", False), ("commit", True), ("add_garbage", False), ("add_garbage", True), ("delete", False),
         ("delete", True), ("forget_garbage", False), ("forget_garbage", True)]  # fmt: skip


def collectable(store: StateStore) -> int:
    """Make a version whose files nothing keeps but a savepoint that is just being deleted; return its number."""
    ingest(store, rows_of("a"))
    kept = save(store)
    ingest(store, rows_of("b"))
    compact(store)
    forget_all_but_newest(store)
    return kept.saved_snapshot_id


@pytest.mark.parametrize(("step", "after"), STEPS)
def test_a_rollback_between_two_steps_of_a_garbage_collection_is_whole_or_refused(
    store: StateStore, step: str, after: bool
):
    number = collectable(store)
    rival = reopened(store)
    to = versions.resolve(store.catalog, store.table_id, "table", SnapshotReference(number))
    rival.load(to.version)
    delete_savepoint(store, store.catalog.savepoints(store.table_id)[0])
    outcome: list[Any] = []

    def roll() -> None:
        try:
            outcome.append(roll_back(rival, to, dry_run=False))
        except StateRuleBroken as error:
            outcome.append(error)

    trap = Trap(1, roll, after=after, only=(step,))
    mine = reopened(store, TrappedCatalog(store.catalog, trap), TrappedStorage(store.storage, trap))
    collected = _collected(lambda: garbage.collect_garbage(mine, delay=NOW, dry_run=False))
    (done,) = outcome
    if isinstance(done, StateRuleBroken):
        assert "cannot roll back to" in done.message
        assert keys_in(scan(reopened(store))) == ["a", "b"]
        assert not isinstance(collected, StateRuleBroken)
    else:
        assert keys_in(scan(reopened(store))) == ["a"]
    for _ in range(3):  # nothing is lost, and nothing is left
        forget_all_but_newest(store)
        collect(store)
    assert on_disk(store) == reachable(store)
    assert store.catalog.garbage(store.table_id) == ()


def test_a_file_that_a_rollback_used_for_a_while_is_not_collected_by_an_older_plan(store: StateStore):
    """The snapshot of the rollback needs it, though nothing uses it any more when the collection commits."""
    number = collectable(store)
    rival = reopened(store)
    to, newest = (
        versions.resolve(store.catalog, store.table_id, "table", SnapshotReference(each))
        for each in (number, store.head().id)
    )
    rival.load(to.version)
    delete_savepoint(store, store.catalog.savepoints(store.table_id)[0])

    def there_and_back() -> None:
        roll_back(rival, to, dry_run=False)
        roll_back(rival, newest, dry_run=False)

    mine = reopened(store, TrappedCatalog(store.catalog, Trap(1, there_and_back, after=True, only=("add_garbage",))))
    with pytest.raises(StateRuleBroken, match="used again in the meantime"):
        garbage.collect_garbage(mine, delay=NOW, dry_run=False)
    restored = next(s for s in store.catalog.snapshots(store.table_id) if s.operation == "rollback")
    assert rows(store, restored.id - 1) == in_order(rows_of("a"))
    assert reachable(store) <= on_disk(store)


def _collected(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except StateRuleBroken as error:
        return error
