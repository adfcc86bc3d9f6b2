"""What changed between two versions: against a counter of rows, for every type, and what is not read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.model.processing import NOTHING, DataProcessing
from sleeper_nb.read import read_rows as reading
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions import row_differences as changes
from sleeper_nb.versions.comparison import VersionComparison, compare
from sleeper_nb.versions.row_differences import comparable_values, difference
from tests.support.builders import (
    EMBEDDED,
    KEYED,
    a_store,
    collect,
    compact,
    ingest,
    leaf_of,
    rows_of,
    scan,
    split,
)
from tests.support.edits import ALWAYS_VECTORS, NEVER_VECTORS
from tests.support.edits import change as change_rows
from tests.support.examples import examples

Rows = Counter[tuple[Any, ...]]
KEYS = st.tuples(st.sampled_from(["a", "b", "c", "d\0", "é"]), st.integers(0, 2))
DATA = st.lists(st.tuples(KEYS, st.sampled_from([None, "x", "y"])), min_size=1, max_size=8)


def counted(rows: pa.Table | pa.RecordBatch) -> Rows:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True)) if rows.num_rows else Counter()


def compared(store: StateStore, a: int, b: int, processing: DataProcessing = NOTHING) -> VersionComparison:
    """Compare two versions by their numbers."""
    versions = {snapshot.id: snapshot for snapshot in store.catalog.snapshots(store.table_id)}
    return compare(store.load(versions[a]), store.load(versions[b]), processing, processing)


def difference_of(store: StateStore, a: int, b: int) -> tuple[Rows, Rows]:
    comparison = compared(store, a, b)
    found = list(changes.stream_changes(comparison, store.storage))
    added, removed = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    for change in found:
        added += counted(change.added)
        removed += counted(change.removed)
    assert changes.count_changes(comparison, store.storage) == (added.total(), removed.total())
    return added, removed


def rows_at(store: StateStore, number: int) -> Rows:
    found = next(s for s in store.catalog.snapshots(store.table_id) if s.id == number)
    return counted(scan(store, found))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ingest"), DATA),
        st.tuples(st.just("compact"), st.sampled_from(["all", "basic"])),
        st.tuples(st.just("split"), st.sampled_from(["b", "c", 1, 2])),
        st.tuples(st.just("change"), st.tuples(st.sampled_from("abc"), st.sampled_from("bcdé"), st.booleans())),
    ),
    min_size=1,
    max_size=8,
)


def done(store: StateStore, steps: Iterable[tuple[str, Any]]) -> None:
    for what, given_ in steps:
        store.clock.sleep(1)
        if what == "ingest":
            ingest(store, [row for key, value in given_ for row in rows_of(key, value=value)])
        elif what == "compact":
            compact(store, given_, batch_size=2)
        elif what == "change":
            deleted, updated, by_vector = given_
            change_rows(
                store,
                delete=lambda row, key=deleted: row["key"] == key and row["n"] > 0,
                update=lambda row, key=updated: {**row, "value": "new"} if row["key"] == key else None,
                settings=ALWAYS_VECTORS if by_vector else NEVER_VECTORS,
            )
        else:
            try:
                split(store, at=given_, key="n" if isinstance(given_, int) else "key")
            except sl.InvalidInput:
                continue


@given(points=st.sets(st.sampled_from(["b", "c"])), steps=STEPS, pick=st.tuples(*[st.integers(0, 99)] * 3))
def test_the_rows_of_one_version_and_the_changes_give_the_rows_of_another(tmp_path_factory, points, steps, pick):
    store = a_store(tmp_path_factory.mktemp("t"), points=sorted(points))
    done(store, steps)
    a, b, c = (1 + each % store.head().id for each in pick)
    added, removed = difference_of(store, a, b)
    assert not added & removed
    assert rows_at(store, a) + added - removed == rows_at(store, b)
    assert rows_at(store, b) + removed - added == rows_at(store, a)
    assert difference_of(store, b, a) == (removed, added)
    more, less = difference_of(store, b, c)
    whole_added, whole_removed = difference_of(store, a, c)
    assert (added + more) - (removed + less) == whole_added
    assert (removed + less) - (added + more) == whole_removed


@examples(100)
@given(old=DATA, new=DATA, size=st.integers(1, 4))
def test_streams_of_any_batches_cancel_each_other_like_counters(old, new, size):
    def batches(data: Any) -> tuple[pa.Table, Iterator[pa.RecordBatch]]:
        rows = [row for key, value in data for row in rows_of(key, value=value)]
        table = pa.Table.from_pylist(sorted(rows, key=lambda row: (row["key"], row["n"])), KEYED.arrow)
        return table, iter(table.to_batches(max_chunksize=size))

    with pytest.MonkeyPatch.context() as patch:  # so that batches are not coalesced and stay small
        patch.setattr("sleeper_nb.versions.row_differences.coalesced", iter)
        (before, one), (after, other) = batches(old), batches(new)
        found = list(difference(one, other, KEYED.arrow, KEYED.sort_order))
    removed = sum((counted(change.removed) for change in found), Counter())
    added = sum((counted(change.added) for change in found), Counter())
    assert removed == counted(before) - counted(after)
    assert added == counted(after) - counted(before)
    for side in ([change.removed for change in found], [change.added for change in found]):
        keys = [(row["key"], row["n"]) for batch in side for row in batch.to_pylist()]
        assert keys == sorted(keys)


NAN = float("nan")
OTHER_NAN = np.frombuffer(np.uint64(0xFFF8000000000001).tobytes(), np.float64)[0]


DOUBLES, WORDS = pa.list_(pa.float64()), pa.list_(pa.list_(pa.string()))
NESTED = pa.list_(pa.map_(pa.int32(), pa.bool_()))
COUNTS, MANY = pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), DOUBLES)
A_THEN_B, B_THEN_A = [("a", 1), ("b", 2)], [("b", 2), ("a", 1)]


@pytest.mark.parametrize(
    ("kind", "values", "groups"),
    [
        (pa.float64(), [NAN, OTHER_NAN, 0.0, -0.0, 1.5, None], [0, 0, 1, 1, 2, 3]),
        (pa.float32(), [NAN, 0.0, -0.0, None, None], [0, 1, 1, 2, 2]),
        (pa.string(), ["a", None, "", "a"], [0, 1, 2, 0]),
        (pa.decimal128(38, 2), [None, 1, 2, 1], [0, 1, 2, 1]),
        (DOUBLES, [[], None, [None], [NAN], [OTHER_NAN], [0.0, 1.0], [-0.0, 1.0]], [0, 1, 2, 3, 3, 4, 4]),
        (WORDS, [[["a"], ["b"]], [["a", "b"]], [["a"], ["b"]], [None], [[]]], [0, 1, 0, 2, 3]),
        (COUNTS, [A_THEN_B, B_THEN_A, [("a", 2)], [], None], [0, 0, 1, 2, 3]),
        (MANY, [[("a", [NAN])], [("a", [OTHER_NAN])], [("a", None)]], [0, 0, 1]),
        (NESTED, [[[(1, True), (2, None)]], [[(2, None), (1, True)]], [[]]], [0, 0, 1]),
    ],
)
def test_values_are_equal_where_people_would_call_them_equal(kind, values, groups):
    for before in (0, 2):  # also as a part of a longer array
        array = pa.array(values[:before] + values, kind).slice(before)
        same = comparable_values(array)
        numbers = same.dictionary_encode(null_encoding="encode").indices.to_pylist()
        assert [numbers.index(number) for number in numbers] == [groups.index(group) for group in groups]
        sizes = pa.table({"v": same}).group_by("v").aggregate([("v", "count")]).num_rows
        assert sizes == len(set(groups))  # what the difference groups by


WIDE = sl.Schema({"k": "int"}, {"at": "timestamp"}, {"f": "double?", "l": "list<double>?", "m": "map<string,long>?"})
ROWS = [
    {"k": 1, "at": 0, "f": math.nan, "l": [math.nan, None], "m": [("a", 1), ("b", None)]},
    {"k": 1, "at": 0, "f": math.nan, "l": [math.nan, None], "m": [("a", 1), ("b", None)]},
    {"k": 2, "at": 2**62, "f": None, "l": None, "m": None},
    {"k": 3, "at": -(2**62), "f": 0.5, "l": [], "m": []},
]


def test_compaction_and_splitting_change_nothing_whatever_the_values(tmp_path):
    store = a_store(tmp_path, WIDE)
    for row in ROWS:
        ingest(store, pa.Table.from_pylist([row], WIDE.arrow))
    start = store.head().id
    compact(store)
    split(store, at=2)
    assert difference_of(store, start, store.head().id) == (Counter(), Counter())
    ingest(store, pa.Table.from_pylist(ROWS[:1], WIDE.arrow))
    compact(store)
    found = [change.added for change in changes.stream_changes(compared(store, start, store.head().id), store.storage)]
    assert sum(batch.num_rows for batch in found) == 1


def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that fills with the names of the data files that are read."""
    names: list[str] = []
    check_files = reading.check_files

    def noted(files: Any, storage: Any, **options: Any) -> None:
        names.extend(file.filename for file in files)
        check_files(files, storage, **options)

    monkeypatch.setattr(reading, "check_files", noted)
    return names


def test_files_of_both_versions_are_not_read(tmp_path, monkeypatch):
    store = a_store(tmp_path, points=["m"])
    ingest(store, rows_of("a", "z"))
    before = ingest(store, rows_of("b")).id
    read = opened(monkeypatch)
    split(store, at="b")
    collect(store)
    assert difference_of(store, before, store.head().id) == (Counter(), Counter())
    assert difference_of(store, 1, 1) == (Counter(), Counter())
    assert read == []
    after = ingest(store, rows_of("a", "c")).id
    assert changes.count_changes(compared(store, before, after), store.storage) == (2, 0)
    assert read == []  # metadata tells how many rows were added
    assert difference_of(store, before, after)[0] == counted(pa.Table.from_pylist(rows_of("a", "c"), KEYED.arrow))
    assert len(read) == 2  # only the new ones


def test_of_a_compaction_only_its_own_leaf_is_read(tmp_path, monkeypatch):
    store = a_store(tmp_path, points=["m"])
    for key in ("a", "b"):
        ingest(store, rows_of(key))
    ingest(store, rows_of("z"))
    before = store.head().id
    compact(store)
    read = opened(monkeypatch)
    assert difference_of(store, before, store.head().id) == (Counter(), Counter())
    assert len(set(read)) == 3  # two inputs and their output


def test_what_is_only_asked_for_as_removed_is_not_read_where_nothing_can_be(tmp_path, monkeypatch):
    store = a_store(tmp_path)
    ingest(store, rows_of("a"))
    read = opened(monkeypatch)
    assert list(changes.stream_changes(compared(store, 1, 2), store.storage, ("removed",))) == []
    assert read == []


def test_a_leaf_that_gave_its_part_of_a_shared_file_away_is_compared(tmp_path):
    """The other part of the file is in both versions still, and says nothing of this one."""
    store = a_store(tmp_path)
    ingest(store, rows_of("a", "z"))
    split(store, at="m")
    start = store.head().id
    leaf = leaf_of(store.load().tree, ("a", 0)).id
    ingest(store, rows_of("b"))
    compact(store, partition_id=leaf)
    added, removed = difference_of(store, start, store.head().id)
    assert (added, removed) == (counted(pa.Table.from_pylist(rows_of("b"), KEYED.arrow)), Counter())


@pytest.fixture
def table(tmp_path):
    schema = sl.Schema({"k": "string"}, {}, {"n": "long"})
    with sl.connect(tmp_path, clock=ManualClock()) as session:
        yield session.create_table("t", schema, ["m"])


def rows(*pairs):
    return [{"k": k, "n": n} for k, n in pairs]


def test_all_readers_give_the_same_rows(table):
    table.ingest(rows(("a", 1), ("z", 1)))
    table.ingest(rows(("a", 2), ("a", 2), ("z", 2)))
    found = table.changes(2)
    assert found.added.count() == 3
    assert found.removed.count() == 0
    for read in (found.added.to_arrow().to_pylist(), found.added.to_pandas().to_dict("records"),
                 found.added.to_polars().to_dicts()):  # fmt: skip
        assert read == rows(("a", 2), ("a", 2), ("z", 2))
    assert found.added.to_arrow().schema == table.schema.arrow
    back = table.changes(3, 2)
    assert back.removed.to_arrow() == found.added.to_arrow()
    assert back.added.count() == 0
    assert found.to_dict() == {"added": {"k": ["a", "a", "z"], "n": [2, 2, 2]}, "removed": {"k": [], "n": []}}


def test_both_kinds_come_in_key_order_with_their_kind(table):
    table.ingest(rows(("a", 1), ("b", 1), ("z", 1)))
    first = table.at().resolved.snapshot_id
    other = table.ingest(rows(("b", 2), ("c", 2))).snapshot_id
    table.maintenance.compact("all", engine="local")
    assert table.changes(first).rows().to_arrow().to_pylist() == [
        {"change": "added", "k": "b", "n": 2}, {"change": "added", "k": "c", "n": 2}]  # fmt: skip
    assert table.changes(other, first).rows(1).to_arrow().to_pylist() == [{"change": "removed", "k": "b", "n": 2}]
    assert table.changes(other, first).rows(1).count() == 1
    assert "first 1 of 2 rows · added and removed" in repr(table.changes(other, first).rows(1))
    assert "\n2 rows · added and removed" in repr(table.changes(other, first).rows(2))
    assert repr(table.changes(first, other)).endswith(
        "2 rows · added and removed from snapshot 2 to snapshot 3 of t · reads 1/3 files"
    )
    with pytest.raises(sl.InvalidInput, match="the limit -1 is negative"):
        table.changes(1).rows(-1)


def test_a_column_of_the_users_keeps_its_name(tmp_path):
    with sl.connect(tmp_path) as session:
        t = session.create_table("t", sl.Schema({"Change": "int"}))
        t.ingest([{"Change": 7}])
        assert t.changes(1).rows().to_arrow().to_pylist() == [{"_change": "added", "Change": 7}]


def test_any_words_name_the_versions(table):
    table.ingest(rows(("a", 1)))
    table.create_savepoint("before")
    table.ingest(rows(("b", 1)))
    for name in (2, "2", "v2", "snapshot.2", "savepoint.1", "before"):
        assert table.changes(name).added.to_arrow().to_pylist() == rows(("b", 1))
    with pytest.raises(sl.NotFound, match="no savepoint 'befor'"):
        table.changes("befor")
    assert table.changes("before", "before").count() == (0, 0)


def test_an_expired_version_is_compared_through_its_savepoint(table):
    table.ingest(rows(("a", 1)))
    table.create_savepoint("kept")
    table.ingest(rows(("b", 1)))
    table.maintenance.compact("all", engine="local")
    table._store.clock.advance(timedelta(days=30))
    table.maintenance.expire(dry_run=False, num_retained_min=1)
    table.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
    report = table.diff("kept")
    assert report.rows == (1, 0)
    assert repr(report).startswith("t: from savepoint 1 'kept', snapshot 2 to snapshot")


SUMS = {"sleeper.table.aggregations": "sum(n)"}


def test_rows_are_compared_as_queries_give_them(tmp_path):
    """A common file says nothing where its rows are combined with those of others."""
    with sl.connect(tmp_path) as session:
        t = session.create_table("t", sl.Schema({"k": "string"}, {}, {"n": "long"}), properties=SUMS)
        t.ingest(rows(("a", 1), ("b", 1)))
        t.ingest(rows(("a", 2)))
        assert t.changes(2).rows().to_arrow().to_pylist() == [
            {"change": "removed", "k": "a", "n": 1}, {"change": "added", "k": "a", "n": 3}]  # fmt: skip
        t.maintenance.compact("all", engine="local")
        assert t.changes(3).count() == (0, 0)
        assert t.diff(2).rows == (1, 1)


def test_no_row_becomes_too_old_between_two_versions(tmp_path):
    clock = ManualClock()
    with sl.connect(tmp_path, clock=clock) as session:
        schema = sl.Schema({"k": "string"}, {}, {"at": "timestamp"})
        t = session.create_table("t", schema, properties={"sleeper.table.filters": "ageOff(at,1000)"})
        t.ingest([{"k": k, "at": clock.now()} for k in "ab"])
        t.ingest([{"k": "c", "at": clock.now() + timedelta(seconds=5)}])
        t.maintenance.compact("all", engine="local")
        found = t.changes(2)
        assert found.count() == (1, 0)
        clock.advance(timedelta(seconds=2))
        assert found.count() == (1, 0)  # as of when it was asked
        assert t.changes(2).count() == (1, 0)
        assert t.changes(1).count() == (1, 0)


def test_a_report_has_rows_files_and_splits(table):
    table.ingest(rows(("a", 1), ("b", 1)))
    table.ingest(rows(("c", 1)))
    table.maintenance.split(at="b")
    table.maintenance.compact("all", engine="local")
    report = table.diff(2)
    assert (report.rows_added, report.rows_removed) == (1, 0)
    assert [(split.key, split.point) for split in report.splits] == [("k", "b")]
    assert sum(f.rows for f in report.files_added) == report.after.rows == 3
    assert sum(f.rows for f in report.files_removed) == report.before.rows == 2
    back = table.diff(report.after.resolved.snapshot_id, 2)
    assert (back.rows, back.files_added, back.files_removed) == ((0, 1), report.files_removed, report.files_added)
    assert (back.splits, back.splits_undone) == ((), report.splits)
    told = report.to_dict()
    assert told["before"]["snapshot"] == 2
    assert told["splits"] == [{"partition_id": report.splits[0].partition_id, "key": "k", "point": "b"}]
    assert "1 partition split at k = b" in repr(report)
    assert "1 partition no longer split at k = b" in repr(back)
    assert "no row was added or removed" in repr(table.diff(report.after.resolved.snapshot_id))
    html = report._repr_html_()
    assert html == report._repr_html_()
    assert "<script" not in html


AGE, COMBINED = "sleeper.table.filters", "sleeper.table.aggregations"


@pytest.mark.parametrize(
    ("processing", "changes", "before", "after"),
    [
        ({COMBINED: "sum(a),max(b)"}, {"rename_columns": {"a": "x"}}, [(1, 6, 2)], [(1, 1, 2), (1, 5, 2)]),
        ({COMBINED: "sum(a),max(b)"}, {"drop_columns": ["a"]}, [(1, 2)], [(1, 2), (1, 2)]),
        (
            {COMBINED: "sum(a),max(b)"},
            {"add_columns": {"x": "int?"}},
            [(1, 6, 2, None)],
            [(1, 1, 2, None), (1, 5, 2, None)],
        ),
        ({AGE: "ageOff(a,1000)"}, {"drop_columns": ["a"]}, [], [(1, 2), (1, 2)]),
        # The column that the filter names then is another one now.
        ({AGE: "ageOff(b,1000)"}, {"drop_columns": ["b"], "rename_columns": {"a": "b"}}, [], [(1, 1), (1, 5)]),
    ],
    ids=str,
)
def test_each_version_is_processed_as_it_was_and_compared_in_the_newer_columns(
    tmp_path, processing, changes, before, after
):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"a": "long", "b": "long"}))
        table.ingest([{"k": 1, "a": 1, "b": 2}, {"k": 1, "a": 5, "b": 2}])
        table.set_properties(processing)
        then = table.at().resolved.snapshot_id
        table.set_properties(dict.fromkeys(processing))
        table.alter(**changes)
        for versions, lost, won in (((then, None), before, after), ((then + 2, then), after, before)):
            found = table.changes(*versions)
            removed, added = (
                Counter(tuple(row.values()) for row in side.to_arrow().to_pylist())
                for side in (found.removed, found.added)
            )
            assert removed == Counter(lost) - Counter(won)
            assert added == Counter(won) - Counter(lost)
            assert table.diff(*versions).rows == found.count() == (added.total(), removed.total())


def test_a_filter_of_one_name_on_two_columns_is_not_one_filter(tmp_path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"a": "long", "b": "long"}))
        table.ingest([{"k": 1, "a": 10**15, "b": 0}, {"k": 2, "a": 0, "b": 10**15}])
        table.set_properties({AGE: "ageOff(a,1000)"})
        then = table.at().resolved.snapshot_id
        table.set_properties({AGE: None})
        table.alter(drop_columns=["a"], rename_columns={"b": "a"})
        table.set_properties({AGE: "ageOff(a,1000)"})
        found = table.changes(then)
        assert found.removed.to_arrow().to_pylist() == [{"k": 1, "a": 0}]
        assert found.added.to_arrow().to_pylist() == [{"k": 2, "a": 10**15}]


@pytest.mark.parametrize("kind", EMBEDDED)
def test_of_a_file_in_both_versions_only_rows_at_positions_that_differ_are_read(tmp_path, kind):
    store = a_store(tmp_path, kind=kind)
    ingest(store, rows_of(*"abcdef"))
    for letter in "bd":
        change_rows(store, delete=lambda row, letter=letter: row["key"] == letter)
    first, last = (Counter({(letter, 0, None): 1}) for letter in "bd")
    assert difference_of(store, 2, 3) == (Counter(), first)
    assert difference_of(store, 3, 4) == (Counter(), last)
    assert difference_of(store, 4, 2) == (first + last, Counter())
    (region,) = compared(store, 3, 4).regions
    sides = [(each.deletions.rows, each.only.rows) for each in (*region.before.files, *region.after.files)]
    assert sides == [(1, 2), (2, 1)]
    (region,) = compared(store, 2, 4).regions
    assert [(each.deletions, each.only.rows) for each in region.before.files] == [(None, 2)]
    assert not region.after.files


@pytest.mark.parametrize("kind", EMBEDDED)
def test_leaves_that_share_a_file_can_delete_rows_of_it_each(tmp_path, kind):
    store = a_store(tmp_path, kind=kind)
    ingest(store, rows_of(*"abcdef"))
    split(store, at="d")
    for letter in "be":
        change_rows(store, delete=lambda row, letter=letter: row["key"] == letter)
    assert len({file.deletions for file in plan_scan(store.load()).files}) == 2
    assert difference_of(store, 2, 5) == (Counter(), Counter([("b", 0, None), ("e", 0, None)]))
    files = plan_scan(store.load()).files
    together = pa.Table.from_batches(reading.merged(files, KEYED, store.storage), KEYED.arrow)
    assert together["key"].to_pylist() == [*"acdf"]
