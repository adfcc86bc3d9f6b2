"""Splitting leaves: where, when, and what readers, compactions and other writers see of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.catalog.catalog_base import FileClaim
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput, NotFound, StateRuleBroken
from sleeper_nb.load import split as splitting
from sleeper_nb.load.ingest import IngestSettings
from sleeper_nb.load.split import MOST_PARTS, SplitRequest, plan_leaf
from sleeper_nb.maintain.check import check_table
from sleeper_nb.maintain.compact import CLAIM_TIME
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import Silent
from sleeper_nb.read import scan_plan as planning
from sleeper_nb.read.leaf_keys import has_several_keys, leaf_keys
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.data_files import DataFileSettings
from tests.support.builders import (
    EMBEDDED,
    a_store,
    collect,
    compact,
    forget_all_but_newest,
    in_order,
    ingest,
    keys_in,
    on_disk,
    reopened,
    rows_of,
    save,
    scan,
    split,
)


def leaves(store: StateStore) -> list[tuple[str, int]]:
    """Return each leaf's keys, and its rows."""
    state = store.load()
    return [
        (leaf.region.text(state.schema), sum(file.rows for file in state.files.active_in({leaf.id})))
        for leaf in state.tree.leaves
    ]


@pytest.mark.parametrize("kind", EMBEDDED)
def test_a_leaf_with_too_many_rows_is_cut_at_its_median(tmp_path: Path, kind: str):
    store = a_store(tmp_path, kind=kind)
    ingest(store, rows_of(*"acegik"))
    ingest(store, rows_of(*"bdfhjl"))
    before, files = in_order(scan(store).to_pylist()), [path for path in on_disk(store) if path.startswith("data/")]
    done = split(store, 12)
    assert leaves(store) == [("key (-∞, g)", 6), ("key [g, ∞)", 6)]
    assert (done.snapshot.id, done.snapshot.operation, done.snapshot.added_rows) == (4, "split", 0)
    assert in_order(scan(reopened(store)).to_pylist()) == before
    assert [path for path in on_disk(store) if path.startswith("data/")] == files
    assert "1 leaf partition split into 2" in repr(done)


def test_parts_are_cut_until_none_has_too_many_rows(store: StateStore):
    ingest(store, rows_of(*"abcdefghijklmnop"))
    done = split(store, 5)
    assert [rows for _, rows in leaves(store)] == [4, 4, 4, 4]
    assert store.head().id == 3
    assert [rows for leaf in done.splits for _, _, rows in leaf.parts] == [4, 4, 4, 4]
    assert split(store, 5).snapshot is None
    assert "no leaf has 5 rows or more" in repr(split(store, 5))


def test_a_dry_run_is_the_real_run_and_changes_nothing(store: StateStore):
    ingest(store, rows_of(*"abcdef"))
    before = on_disk(store), store.head()
    planned = split(store, 4, dry_run=True)
    assert (on_disk(store), store.head()) == before
    done = split(store, 4)
    words = [[part[1:] for part in leaf.parts] for leaf in planned.splits]
    assert words == [[part[1:] for part in leaf.parts] for leaf in done.splits]
    assert "would be split" in repr(planned)


def test_the_first_row_key_that_can_be_halved_is_taken(store: StateStore):
    ingest(store, rows_of(*(("a", n) for n in range(6))))
    split(store, 6)
    assert leaves(store) == [("n (-∞, 3)", 3), ("n [3, ∞)", 3)]


def test_a_value_that_most_rows_have_is_parted_from_the_others(store: StateStore):
    ingest(store, rows_of("a", "a", "a", "b"))
    split(store, 4)
    assert leaves(store) == [("key (-∞, b)", 3), ("key [b, ∞)", 1)]


def test_a_leaf_whose_rows_have_one_key_stays_and_is_told(store: StateStore):
    ingest(store, rows_of("a", "a", "a"))
    done = split(store, 3)
    assert (done.snapshot, leaves(store)) == (None, [("every key", 3)])
    assert "stays with 3 rows: all of its rows have the same key" in repr(done)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"at": "c"}, [("key (-∞, c)", 2), ("key [c, ∞)", 2)]),
        ({"at": "zz"}, [("key (-∞, zz)", 4), ("key [zz, ∞)", 0)]),
        ({"at": 0, "key": "n"}, [("n (-∞, 0)", 0), ("n [0, ∞)", 4)]),
        ({"at": "1", "key": "n"}, [("n (-∞, 1)", 4), ("n [1, ∞)", 0)]),
    ],
)
def test_a_user_can_say_where(store: StateStore, options: dict[str, Any], expected: Any):
    ingest(store, rows_of(*"abcd"))
    split(store, **options)
    assert leaves(store) == expected


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"at": "m"}, InvalidInput, "does not split any leaf"),
        ({"at": 5}, InvalidInput, "not a value of row key 'key'"),
        ({"at": "x", "key": "n"}, InvalidInput, "not a value of row key 'n'"),
        ({"at": 1, "key": "m"}, NotFound, "no row key 'm'"),
        ({"key": "n"}, InvalidInput, "without a value to split at"),
        ({"at": "a", "partition_id": "nowhere"}, NotFound, "nowhere"),
        ({"at": "a", "partition_id": "root"}, InvalidInput, "not a leaf"),
        ({"threshold": 1}, InvalidInput, "cannot be split at 1 rows"),
    ],
)
def test_what_cannot_be_split_is_an_error_and_changes_nothing(
    tmp_path: Path, options: dict[str, Any], kind: type[Exception], words: str
):
    store = a_store(tmp_path, points=["m"])
    with pytest.raises(kind, match=words):
        split(store, **options)
    assert store.head().id == 1


def test_only_the_named_leaf_is_split(tmp_path: Path):
    store = a_store(tmp_path, points=["m"])
    ingest(store, rows_of(*"abxy"))
    right = store.load().tree.leaves[1].id
    split(store, 2, partition_id=right)
    assert leaves(store) == [("key (-∞, m)", 2), ("key [m, y)", 1), ("key [y, ∞)", 1)]


def test_every_reader_and_compaction_sees_only_the_rows_of_its_leaf(store: StateStore):
    for n in range(3):
        ingest(store, rows_of(*((key, n) for key in "abcd")))
    split(store, at="c")
    assert keys_in(scan(store, keys=["b"])) == ["b"] * 3
    assert keys_in(scan(store, region={"key": ("b", "d")})) == ["b"] * 3 + ["c"] * 3
    left, right = store.load().tree.leaves
    assert len(compact(store, partition_id=left.id).jobs) == 1
    assert [file.only_this_partition for file in store.load().files.active_in({left.id})] == [True]
    assert [file.only_this_partition for file in store.load().files.active_in({right.id})] == [False] * 3
    assert keys_in(scan(store)) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3 + ["d"] * 3
    assert check_table(store, "t", deep=True, progress=Silent()).ok


def test_whole_leaves_are_counted_without_reading_and_parts_of_them_are_read(store: StateStore):
    ingest(store, rows_of(*"abcd"))
    split(store, at="c")
    state = store.load()
    region = planning.regions_of(state.schema, region={"key": ("c", None)})
    assert (planning.plan_scan(state).rows, planning.plan_scan(state, region).rows) == (4, 2)
    part = planning.regions_of(state.schema, keys=["d"])
    assert planning.plan_scan(state, part).rows is None
    assert list(planning.plan_scan(state).by_region_and_deletions()) == [
        (leaf.region, False) for leaf in state.tree.leaves
    ]


def test_a_file_stays_while_one_leaf_uses_it_and_goes_when_none_does(store: StateStore):
    ingest(store, rows_of(*"abcd"))
    (file,) = store.load().files.active["filename"].to_pylist()
    split(store, at="c")
    for i, leaf in enumerate(store.load().tree.leaves):
        compact(store, partition_id=leaf.id)
        forget_all_but_newest(store)
        collect(store)
        assert (file in on_disk(store)) == (i == 0)
    assert keys_in(scan(store)) == [*"abcd"]


def test_older_versions_are_read_as_they_were(store: StateStore):
    ingest(store, rows_of(*"abcd"))
    saved = save(store)
    split(store, at="c")
    compact(store)
    forget_all_but_newest(store)
    collect(store)
    assert keys_in(scan(reopened(store), saved)) == [*"abcd"]
    assert len(reopened(store).load(saved).tree.leaves) == 1


def test_a_file_that_lies_in_one_new_leaf_alone_is_read_without_a_filter(store: StateStore):
    ingest(store, rows_of(*"ab"))
    ingest(store, rows_of(*"cd"))
    split(store, at="c")
    assert store.load().files.active["only_this_partition"].to_pylist() == [True, True]
    assert compact(store).jobs == ()


def test_a_leaf_whose_files_a_compaction_has_is_left_for_later(store: StateStore, clock: ManualClock):
    ingest(store, rows_of(*"abcd"))
    names = tuple(store.load().files.active["filename"].to_pylist())
    claim = FileClaim("other", "root", names, clock.now() + CLAIM_TIME)
    assert store.catalog.claim_files(store.table_id, claim, clock.now())
    done = split(store, 4)
    assert (done.snapshot, len(done.left)) == (None, 1)
    assert "compaction job other has its files" in repr(done)
    clock.advance(CLAIM_TIME)
    assert split(store, 4).snapshot is not None


def test_rows_that_come_while_a_leaf_is_read_are_split_too(store: StateStore, monkeypatch: pytest.MonkeyPatch):
    ingest(store, rows_of(*"abcd"))
    rival, read = reopened(store), leaf_keys
    came: list[Any] = []

    def slow(*given: Any, **options: Any) -> Any:
        if not came:
            came.append(ingest(rival, rows_of(*"bx")))
        return read(*given, **options)

    monkeypatch.setattr(splitting, "leaf_keys", slow)
    done = split(store, 4)
    assert done.snapshot.id == came[0].id + 1
    assert keys_in(scan(store)) == ["a", "b", "b", "c", "d", "x"]
    assert sum(rows for _, rows in leaves(store)) == 6


def test_a_leaf_that_another_split_meanwhile_is_refused(store: StateStore, monkeypatch: pytest.MonkeyPatch):
    ingest(store, rows_of(*"abcd"))
    rival, read = reopened(store), leaf_keys
    done: list[Any] = []

    def slow(*given: Any, **options: Any) -> Any:
        found = read(*given, **options)
        if not done:
            done.append(None)
            done[0] = split(rival, 4)
        return found

    monkeypatch.setattr(splitting, "leaf_keys", slow)
    with pytest.raises(StateRuleBroken, match="other writers"):
        split(store, 4)
    assert leaves(store) == [("key (-∞, c)", 2), ("key [c, ∞)", 2)]


KEYS = Schema({"s": "string", "b": "bytearray", "i": "int", "l": "long"})
rows = st.fixed_dictionaries(
    {
        "s": st.sampled_from(["", "a", "z", "é", "\uffff", "\U0001f600"]),
        "b": st.sampled_from([b"", b"\0", b"\x7f", b"\x80", b"\xff"]),
        "i": st.sampled_from([-(2**31), -1, 0, 2**31 - 1]),
        "l": st.sampled_from([-(2**63), 0, 2**63 - 1]),
    }
)


@given(st.lists(st.lists(rows, min_size=1, max_size=9), min_size=1, max_size=4), st.integers(2, 5), st.booleans())
def test_a_large_leaf_is_split_by_its_row_groups_and_its_rows_are_counted(
    tmp_path_factory: pytest.TempPathFactory, data: Any, threshold: int, by_row_groups: bool
):
    store = a_store(tmp_path_factory.mktemp("t"), KEYS)
    for each in data:
        ingest(store, each, settings=IngestSettings(writing=DataFileSettings(row_group_rows=2)))
    state = store.load()
    (leaf,) = state.tree.leaves
    references = state.files.active_in({leaf.id})
    keys = leaf_keys(store.storage, KEYS, leaf, references, 3 if by_row_groups else 1000)
    plan = plan_leaf(state, leaf, references, keys, SplitRequest(threshold), store.clock.new_id)
    everything = [tuple(row[name] for name in KEYS.names) for each in data for row in each]
    assert has_several_keys(store.storage, KEYS, leaf, references) == (len(set(everything)) > 1)
    if isinstance(plan, splitting.Unsplit):
        assert len(set(everything)) == 1 or keys.rows(leaf.region) < threshold
        return
    tree = state.tree.with_splits(plan.splits)
    for part, (_, _, rows) in zip(tree.leaves, plan.parts, strict=True):
        assert rows == sum(key in part.region for key in everything)
        assert by_row_groups or rows < threshold or len({key for key in everything if key in part.region}) == 1
    store.commit(splitting.SplitPartitions(plan.splits, plan.references))
    assert len(scan(store)) == len(everything)
    state = store.load()
    for part in state.tree.leaves:
        here = {key for key in everything if key in part.region}
        assert has_several_keys(store.storage, KEYS, part, state.files.active_in({part.id})) == (len(here) > 1)
    store.catalog.close()


def planned(store: StateStore, rows: Any, sampled: int, threshold: int) -> Any:
    """Load rows, and return the plan that splits their leaf by a sample of their keys."""
    ingest(store, rows, settings=IngestSettings(writing=DataFileSettings(row_group_rows=10)))
    state = store.load()
    (leaf,) = state.tree.leaves
    references = state.files.active_in({leaf.id})
    keys = leaf_keys(store.storage, state.schema, leaf, references, sampled)
    return plan_leaf(state, leaf, references, keys, SplitRequest(threshold), store.clock.new_id)


def test_a_large_leaf_of_one_first_key_is_cut_by_its_second_into_no_more_parts_than_it_needs(store: StateStore):
    plan = planned(store, rows_of(*(("a", n) for n in range(1000))), sampled=200, threshold=300)
    assert isinstance(plan, splitting.LeafSplit)
    assert 4 <= len(plan.parts) <= 8
    assert sum(rows for _, _, rows in plan.parts) == 1000
    assert all(rows < 300 for _, _, rows in plan.parts)


def test_few_rows_that_differ_are_found_in_a_large_leaf_although_the_sample_has_one_key(store: StateStore):
    plan = planned(store, rows_of(*["a"] * 95, *"bcdef"), sampled=20, threshold=50)
    assert isinstance(plan, splitting.LeafSplit)
    assert [rows for _, _, rows in plan.parts] == [95, 5]


def test_no_leaf_is_cut_into_more_parts_than_one_run_makes(store: StateStore):
    ingest(store, rows_of(*((f"{n:04d}", 0) for n in range(MOST_PARTS * 3))))
    split(store, 2)
    assert len(leaves(store)) == MOST_PARTS
    split(store, 2)
    assert len(leaves(store)) == MOST_PARTS * 3
