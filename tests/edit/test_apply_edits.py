"""Deletion vectors and rewritten files: what every reader and every later operation sees of a change of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import ConflictError
from sleeper_nb.load.ingest import IngestSettings
from sleeper_nb.maintain.check import check_table
from sleeper_nb.progress import Silent
from sleeper_nb.state_store.state_store_base import StateStore
from tests.support.builders import (
    EMBEDDED,
    a_store,
    collect,
    compact,
    forget_all_but_newest,
    ingest,
    on_disk,
    reachable,
    reopened,
    rows_of,
    scan,
    split,
)
from tests.support.edits import ALWAYS_VECTORS, NEVER_VECTORS, change
from tests.support.examples import examples


def rows_in(store: StateStore, version: Any = None) -> list[tuple[str, int, str | None]]:
    at = None if version is None else store.catalog.snapshot(store.table_id, version)
    return [tuple(row.values()) for row in scan(store, at).to_pylist()]


def is_sound(store: StateStore) -> bool:
    return check_table(store, "table", deep=True, progress=Silent()).ok


@pytest.mark.parametrize("kind", EMBEDDED)
@pytest.mark.parametrize("how", [ALWAYS_VECTORS, NEVER_VECTORS], ids=["vectors", "files"])
def test_rows_go_change_and_come_in_one_snapshot(tmp_path: Path, kind: str, how):
    store = a_store(tmp_path, points=["g"], kind=kind)
    ingest(store, rows_of(*"abcdef"))
    ingest(store, rows_of(*"ghijkl"))
    before = rows_in(store)
    done = change(
        store,
        delete=lambda row: row["key"] in "bk",
        update=lambda row: {**row, "value": "new"} if row["key"] in "ah" else None,
        insert=rows_of("z"),
        settings=how,
    )
    assert (done.inserted, done.updated, done.deleted, done.files) == (1, 2, 2, 2)
    after = rows_in(store)
    assert [key for key, _, value in after if value == "new"] == ["a", "h"]
    assert "".join(key for key, _, _ in after) == "acdefghijlz"
    assert done.snapshot is not None
    assert (done.snapshot.rows, done.snapshot.added_rows, done.snapshot.operation) == (11, -1, "merge")
    assert (done.snapshot.inserted_rows, done.snapshot.updated_rows, done.snapshot.deleted_rows) == (1, 2, 2)
    assert bool(done.vectors) == (how is ALWAYS_VECTORS)
    again = reopened(store)
    assert rows_in(again) == after
    assert rows_in(again, 3) == before
    assert is_sound(again)


@pytest.mark.parametrize("kind", EMBEDDED)
def test_a_compaction_folds_vectors_and_old_vectors_are_garbage(tmp_path: Path, kind: str):
    store = a_store(tmp_path, kind=kind)
    ingest(store, rows_of(*"abcdef"))
    for letter in "bd":
        change(store, delete=lambda row, letter=letter: row["key"] == letter)
    left = rows_in(store)
    jobs = compact(store, "basic").jobs
    assert [len(job.inputs) for job in jobs] == [1]
    assert rows_in(store) == left == [row for row in rows_in(store, 2) if row[0] not in "bd"]
    assert store.load().files.active["deletion_file"].null_count == 1
    forget_all_but_newest(store)
    collect(store)
    assert on_disk(store) == reachable(store)
    assert is_sound(store)


@pytest.mark.parametrize("kind", EMBEDDED)
def test_old_vectors_of_a_file_in_use_are_garbage(tmp_path: Path, kind: str):
    store = a_store(tmp_path, kind=kind)
    ingest(store, rows_of(*"abcdef"))
    for letter in "bd":
        change(store, delete=lambda row, letter=letter: row["key"] == letter)
    forget_all_but_newest(store)
    before = len(on_disk(store))
    assert len(collect(store).data_files) == 1  # the first vector: the data file and the second are in use
    assert len(on_disk(store)) < before
    assert "".join(key for key, _, _ in rows_in(reopened(store))) == "acef"
    assert is_sound(store)


def test_a_file_that_leaves_share_loses_rows_in_the_right_leaf(tmp_path: Path):
    store = a_store(tmp_path)
    ingest(store, rows_of(*"abcdefghijkl"))
    split(store, 4)
    assert len(store.load().tree.leaves) > 2
    change(store, delete=lambda row: row["key"] in "al")
    change(store, delete=lambda row: row["key"] == "f")
    assert "".join(key for key, _, _ in rows_in(store)) == "bcdeghijk"
    split(store, 2)
    assert "".join(key for key, _, _ in rows_in(store)) == "bcdeghijk"
    compact(store)
    assert "".join(key for key, _, _ in rows_in(store)) == "bcdeghijk"
    assert is_sound(store)


def test_a_change_and_a_compaction_at_once_lose_nothing(tmp_path: Path):
    store = a_store(tmp_path)
    for word in ("abc", "bcd"):
        ingest(store, rows_of(*word))
    done = change(store, delete=lambda row: row["key"] == "b", meanwhile=_once(lambda: compact(store)))
    assert done.deleted == 2
    assert "".join(key for key, _, _ in rows_in(store)) == "accd"
    assert is_sound(store)


def test_appends_conflict_only_with_changes_that_watch_their_leaves(tmp_path: Path):
    store = a_store(tmp_path)
    ingest(store, rows_of(*"abc"))
    change(store, delete=lambda row: row["key"] == "b", meanwhile=_once(lambda: ingest(store, rows_of("b"))))
    assert "".join(key for key, _, _ in rows_in(store)) == "abc"  # the row that came meanwhile stays
    change(
        store, delete=lambda row: row["key"] == "b", meanwhile=_once(lambda: ingest(store, rows_of("b"))), watch=True
    )
    assert "".join(key for key, _, _ in rows_in(store)) == "ac"


def test_a_change_that_always_loses_gives_up_and_leaves_nothing(tmp_path: Path):
    store = a_store(tmp_path)
    ingest(store, rows_of(*"abc"))

    def another() -> None:
        change(store, update=lambda row: {**row, "n": row["n"] + 1} if row["key"] == "b" else None)

    with pytest.raises(ConflictError, match="during each of 10 attempts"):
        change(store, delete=lambda row: row["key"] == "b", meanwhile=another)
    forget_all_but_newest(store)
    collect(store)
    assert on_disk(store) == reachable(store)


def _once(action):
    """Return a function that calls another the first time only."""
    waiting = [action]
    return lambda: waiting.pop()() if waiting else None


KEYS = st.text("abcdefgh", min_size=1, max_size=2)
STEPS = st.one_of(
    st.tuples(st.just("ingest"), st.lists(KEYS, min_size=1, max_size=8)),
    st.tuples(st.sampled_from(["delete", "update", "rekey"]), st.sets(KEYS, min_size=1, max_size=4)),
    st.tuples(st.sampled_from(["compact", "basic", "split", "collect", "rollback"]), st.integers(1, 9)),
)


@examples(60)
@given(
    steps=st.lists(STEPS, min_size=2, max_size=12),
    kind=st.sampled_from(EMBEDDED),
    how=st.sampled_from([ALWAYS_VECTORS, NEVER_VECTORS]),
    shared=st.booleans(),
)
def test_any_order_of_operations_keeps_the_rows_of_a_plain_list(tmp_path_factory, steps, kind, how, shared):
    store = a_store(tmp_path_factory.mktemp("t"), points=["c", "f"], kind=kind)
    writing = IngestSettings("one_reference_per_leaf" if shared else "one_file_per_leaf")
    model: dict[int, list[tuple[str, int, str | None]]] = {1: []}
    for step, what in steps:
        rows = model[max(model)]
        if step == "ingest":
            new = rows_of(*what)
            ingest(store, new, settings=writing)
            rows = rows + [tuple(row.values()) for row in new]
        elif step == "delete":
            change(store, delete=lambda row, what=what: row["key"] in what, settings=how)
            rows = [row for row in rows if row[0] not in what]
        elif step == "update":
            change(store, update=lambda row, w=what: {**row, "value": "u"} if row["key"] in w else None, settings=how)
            rows = [(*row[:2], "u") if row[0] in what else row for row in rows]
        elif step == "rekey":
            change(store, update=lambda row, w=what: {**row, "key": "g" + row["key"]} if row["key"] in w else None,
                   settings=how)  # fmt: skip
            rows = [("g" + row[0], *row[1:]) if row[0] in what else row for row in rows]
        elif step == "split":
            split(store, what + 1)
        elif step == "collect":
            collect(store)
        elif step in {"compact", "basic"}:
            compact(store, "all" if step == "compact" else "basic")
        model[store.head().id] = sorted(rows, key=str)
        assert sorted(rows_in(store), key=str) == model[max(model)]
    for version, rows in model.items():
        assert sorted(rows_in(reopened(store), version), key=str) == rows
    assert is_sound(store)


def test_vectors_are_tracked_files(tmp_path: Path):
    store = a_store(tmp_path)
    ingest(store, rows_of(*"abc"))
    change(store, delete=lambda row: row["key"] == "b")
    vector = store.load().files.active_in({store.load().tree.root.id})[0].deletions
    assert vector is not None
    assert store.load().files.knows(vector.filename)
    assert store.load().files.untracked([vector.filename, "data/none.parquet"]) == {"data/none.parquet"}
