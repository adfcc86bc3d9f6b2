"""A purge leaves no file, version or savepoint with a row that it is about, on every state store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sleeper_nb.clock import ManualClock
from sleeper_nb.edit.purge import PurgeReport
from sleeper_nb.errors import ConflictError
from sleeper_nb.maintain.check import check_table
from sleeper_nb.model.jobs import Lease
from sleeper_nb.model.snapshots import SnapshotReference
from sleeper_nb.progress import Silent
from sleeper_nb.state_store import state_stores
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.resolve import resolve
from sleeper_nb.versions.roll_back import roll_back
from tests.support.backends import BACKENDS, Tables
from tests.support.builders import (
    START,
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
    split,
)
from tests.support.edits import ALWAYS_VECTORS, NEVER_VECTORS, Row, change, purge_of, rows_in_files

PERSONAL = "of a person"


def is_personal(row: Row) -> bool:
    return row["value"] == PERSONAL


def check_is_gone(store: StateStore) -> None:
    """Hold that nothing has a row of a person, and that nothing else is broken."""
    fresh = reopened(store)
    assert not [row for row in rows_in_files(fresh) if is_personal(row)]
    versions = [*fresh.catalog.snapshots(fresh.table_id), *fresh.catalog.savepoints(fresh.table_id)]
    for version in versions:
        assert not [row for row in scan(reopened(store), version).to_pylist() if is_personal(row)]
    assert reachable(fresh) <= on_disk(fresh)
    assert not fresh.catalog.garbage(fresh.table_id)
    assert check_table(fresh, "table", deep=True, progress=Silent()).ok


def purge(store: StateStore) -> PurgeReport:
    """Purge the rows of a person; the plan says what is then done."""
    before = on_disk(store)
    plan = purge_of(reopened(store), is_personal).plan()
    assert on_disk(store) == before
    done = purge_of(reopened(store), is_personal).run()
    assert (plan.deleted, plan.expired, plan.savepoints) == (done.deleted, done.expired, done.savepoints)
    assert set(plan.data_files) <= set(done.data_files)
    assert done.complete
    assert not before & set(done.data_files) & on_disk(store)
    for report in (plan, done):
        assert all(text in repr(report) for text in ("rows", "snapshots", "savepoints", "data files"))
        assert "<table" in report._repr_html_()
    return done


def with_personal_rows(store: StateStore) -> None:
    ingest(store, rows_of(*"abcd", value="open") + rows_of("s", value=PERSONAL))


def test_rows_of_the_current_version_go_from_all_that_has_them(store: StateStore):
    ingest(store, rows_of(*"xyz", value="open"))
    save(store, "early")
    with_personal_rows(store)
    save(store, "late")
    done = purge(store)
    check_is_gone(store)
    assert (done.deleted, done.clean, done.holding) == (1, 4, (3,))
    assert [each.id for each in done.expired] == [1, 2, 3]
    assert [each.name for each in done.savepoints] == ["late"]
    assert keys_in(scan(store)) == list("abcdxyz")
    assert keys_in(scan(store, store.catalog.savepoints(store.table_id)[0])) == list("xyz")


def test_rows_that_a_vector_hides_go_too(store: StateStore):
    with_personal_rows(store)
    change(store, delete=is_personal, settings=ALWAYS_VECTORS)
    done = purge(store)
    check_is_gone(store)
    assert (done.deleted, keys_in(scan(store))) == (0, list("abcd"))


def test_rows_that_an_earlier_delete_and_a_compaction_took_away_go_too(store: StateStore):
    with_personal_rows(store)
    change(store, delete=is_personal, settings=NEVER_VECTORS)
    ingest(store, rows_of(*"xyz", value="open"))
    compact(store)
    done = purge(store)
    check_is_gone(store)
    assert (done.clean, [each.id for each in done.expired]) == (5, [1, 2])
    assert [each.id for each in store.catalog.snapshots(store.table_id)][-1] == 3


def test_a_file_that_leaves_share_is_written_again_for_each(store: StateStore):
    with_personal_rows(store)
    split(store, at="c", key="key")
    done = purge(store)
    check_is_gone(store)
    assert done.deleted == 1
    assert keys_in(scan(store)) == list("abcd")


def test_files_that_only_wait_for_their_delay_go_at_once(store: StateStore):
    with_personal_rows(store)
    change(store, delete=is_personal, settings=NEVER_VECTORS)
    forget_all_but_newest(store)
    assert [row for row in rows_in_files(store) if is_personal(row)]
    purge(store)
    check_is_gone(store)


def test_nothing_else_goes_when_no_file_has_such_a_row(store: StateStore):
    ingest(store, rows_of(*"abcd", value="open"))
    save(store, "kept")
    done = purge(store)
    assert (done.deleted, done.expired, done.savepoints, done.data_files) == (0, (), (), ())
    assert not done.needs_confirmation
    assert len(store.catalog.snapshots(store.table_id)) == 2


def test_a_second_purge_has_nothing_to_do(store: StateStore):
    with_personal_rows(store)
    purge(store)
    again = purge(store)
    assert (again.deleted, again.expired, again.savepoints, again.data_files) == (0, (), (), ())


def test_files_of_a_reader_stay_until_its_lease_ends(store: StateStore):
    with_personal_rows(store)
    now = store.clock.now()
    lease = Lease("reader", store.head().id, now, now + timedelta(minutes=15), "sql", "ann")
    store.catalog.add_lease(store.table_id, lease)
    done = purge_of(store, is_personal).run()
    assert (done.complete, [each.author for each in done.readers]) == (False, ["ann"])
    assert "ann reads snapshot 2 until" in repr(done)
    assert "repeat it when the readers have ended" in repr(done)
    assert [row for row in rows_in_files(store) if is_personal(row)]
    store.clock.sleep(20 * 60)
    purge(store)
    check_is_gone(store)


def test_rows_that_others_append_meanwhile_are_not_part_of_it(store: StateStore):
    with_personal_rows(store)
    left = ["", "late"]

    def append() -> None:
        if store.head().operation == "delete" and left.pop():
            ingest(reopened(store), rows_of("late", value=PERSONAL))

    done = purge_of(reopened(store), is_personal, append).run()
    assert (done.deleted, done.clean) == (1, 3)
    assert keys_in(scan(store)) == [*"abcd", "late"]
    assert [row["key"] for row in rows_in_files(store) if is_personal(row)] == ["late"]


def test_a_purge_starts_again_when_a_rollback_brings_a_file_back(store: StateStore):
    with_personal_rows(store)
    done_once: list[int] = []

    def restore() -> None:
        if store.head().operation == "delete" and not done_once:
            done_once.append(1)
            to = resolve(store.catalog, store.table_id, "table", SnapshotReference(2))
            roll_back(reopened(store), to, dry_run=False)

    done = purge_of(reopened(store), is_personal, restore).run()
    check_is_gone(store)
    assert (done_once, done.deleted, done.clean) == ([1], 2, 5)


def test_a_purge_gives_up_when_its_rows_are_always_brought_back(store: StateStore):
    with_personal_rows(store)

    def restore() -> None:
        if store.head().operation == "delete":
            to = resolve(store.catalog, store.table_id, "table", SnapshotReference(store.head().id - 1))
            roll_back(reopened(store), to, dry_run=False)

    with pytest.raises(ConflictError, match="brought rows of table 'table' back"):
        purge_of(reopened(store), is_personal, restore).run()
    purge(store)
    check_is_gone(store)


def test_keys_of_purged_rows_leave_the_metadata(store: StateStore):
    ingest(store, rows_of(*"abcd", value="open"))
    with_one = rows_of("zz-their-key", value=PERSONAL)
    ingest(store, with_one)
    change(store, delete=is_personal, settings=NEVER_VECTORS)
    ingest(store, rows_of(*"xyz", value="open"))
    save(store, "later")
    purge(store)
    for path in on_disk(store):
        assert b"zz-their-key" not in store.storage.read(path)
        if path.startswith("statestore/") and path.endswith(".parquet"):
            with store.storage.input(path) as stream:
                assert "zz-their-key" not in str(pq.read_table(stream).to_pylist())
    entries = store.catalog.whole_log(store.table_id)
    assert not [entry for entry in entries.values() if b"zz-their-key" in entry]


# Generated histories.

KEYS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("ingest"), KEYS, st.booleans()),
    st.tuples(st.just("delete"), st.sampled_from("abcdefgh"), st.booleans()),
    st.tuples(st.just("hide")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("split"), st.sampled_from("bcdefgh")),
    st.tuples(st.just("save")),
    st.tuples(st.just("drop savepoint")),
    st.tuples(st.just("roll back"), st.integers(0, 9)),
    st.tuples(st.just("expire"), st.integers(0, 9)),
    st.tuples(st.just("collect")),
)


def split_where_possible(store: StateStore, at: str) -> None:
    if at not in store.load().tree.split_points():
        split(store, at=at, key="key")


def roll_back_to(store: StateStore, pick: int) -> None:
    kept = store.catalog.snapshots(store.table_id)
    to = resolve(store.catalog, store.table_id, "table", SnapshotReference(kept[pick % len(kept)].id))
    roll_back(store, to, dry_run=False)


def expire_up_to(store: StateStore, pick: int) -> None:
    kept = store.catalog.snapshots(store.table_id)
    ids = [each.id for each in kept[pick % len(kept) + 1 :]]
    store.catalog.expire_snapshots(store.table_id, ids, store.clock.now())


def drop_savepoint(store: StateStore) -> None:
    for each in store.catalog.savepoints(store.table_id)[:1]:
        store.catalog.delete_savepoint(store.table_id, each.id, store.clock.now())


DO: dict[str, Callable[..., object]] = {
    "ingest": lambda store, keys, personal: ingest(store, rows_of(*keys, value=PERSONAL if personal else "open")),
    "delete": lambda store, key, vector: change(
        store, delete=lambda row: row["key"] == key, settings=ALWAYS_VECTORS if vector else NEVER_VECTORS
    ),
    "hide": lambda store: change(store, delete=is_personal),
    "compact": compact,
    "split": split_where_possible,
    "save": save,
    "drop savepoint": drop_savepoint,
    "roll back": roll_back_to,
    "expire": expire_up_to,
    "collect": collect,
}


def contents(store: StateStore) -> dict[int, list[Row]]:
    """Return the rows of every version that is kept."""
    versions = [*store.catalog.snapshots(store.table_id), *store.catalog.savepoints(store.table_id)]
    return {each.number: scan(reopened(store), each).to_pylist() for each in versions}


@example([("ingest", ["a", "h"], True), ("split", "d"), ("hide",), ("save",), ("compact",)])
@given(st.lists(STEPS, min_size=1, max_size=12))
def test_after_any_history_a_purge_leaves_no_such_row_and_all_others(tables: Tables, steps: list[tuple[object, ...]]):
    kind = tables.kind
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_stores, "CHECKPOINT_EVERY", 3)
        backend = BACKENDS["memory" if kind == "DynamoDBStateStore" else "folder"](Path(folder))
        store = Tables(kind, backend).opened(clock=ManualClock(START))
        try:
            for name, *arguments in steps:
                DO[str(name)](store, *arguments)
                store.clock.sleep(1)
            before = contents(store)
            done = purge(store)
            check_is_gone(store)
            after = contents(store)
            assert scan(store).to_pylist() == [row for row in before[max(before)] if not is_personal(row)]
            assert all(after[number] == before[number] for number in before.keys() & after.keys())
            assert not purge(store).expired
            assert done.clean is not None
        finally:
            store.catalog.close()
