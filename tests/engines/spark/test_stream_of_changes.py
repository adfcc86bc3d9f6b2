"""A stream at snapshots that changed rows: it stops, skips them, or gives all changes with their kind."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from datetime import timedelta
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructType

import sleeper_nb as sl
from sleeper_nb.engines.spark.instance_place import InstancePlace
from sleeper_nb.engines.spark.source import source_of
from sleeper_nb.session import open_source_table
from sleeper_nb.versions import leases
from tests.support.builders import EMBEDDED

SCHEMA = sl.Schema({"k": "string"}, values={"x": "long?"})
COLUMNS = StructType().add("k", StringType()).add("x", LongType())
FEED = StructType([*COLUMNS.fields]).add("_change_type", StringType()).add("_commit_version", LongType())
CHANGES = {"streaming.changes": "true"}


class Feed:
    """Reads what a stream has given since the last call."""

    def __init__(self, folder: Any, columns: StructType | None = None, **options: str) -> None:
        made = source_of(InstancePlace(str(folder), "demo"), open_source_table, 2, prunes=False)
        self.source = made({"table": "t", **options})
        if columns is None:
            self.source.schema()
        self.reader = self.source.streamReader(columns or FEED)
        self.at: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.reader.stop()

    def rows(self) -> list[tuple[Any, ...]]:
        start = self.at or self.reader.initialOffset()
        end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        tasks = self.reader.partitions(start, end)
        self.at = end
        found = [tuple(row.values()) for task in tasks for b in self.reader.read(task) for row in b.to_pylist()]
        return sorted(found, key=lambda row: (row[-1], row[0], row[-2] == "update_postimage"))


@pytest.fixture(params=EMBEDDED)
def table(request, tmp_path):
    with sl.connect(tmp_path, instance="demo") as session:
        table = session.create_table("t", SCHEMA, ["m"], state_store=request.param)
        put(table, a=1, b=1, x=1, y=1)
        yield table


def put(table: sl.Table, **rows: int) -> None:
    table.ingest([{"k": key, "x": value} for key, value in rows.items()])


def changes_of_each_kind(table: sl.Table) -> dict[str, Any]:
    new = [{"k": "a", "x": 2}, {"k": "c", "x": 2}]
    merge = table.merge(new).when_matched_update_all().when_not_matched_insert_all()
    return {
        "delete": lambda: table.delete("k = 'a'"),
        "update": lambda: table.update({"x": "x + 1"}, "k = 'a'"),
        "upsert": lambda: table.upsert(new),
        "merge": merge.execute,
        "overwrite": lambda: table.overwrite(new, where="k < 'm'"),
    }


@pytest.mark.parametrize("kind", ["delete", "update", "upsert", "merge", "overwrite"])
def test_a_stream_stops_at_a_change_of_rows_or_skips_it_when_told(table, tmp_path, kind):
    with Feed(tmp_path, COLUMNS) as plain, Feed(tmp_path, COLUMNS, **{"streaming.skip-changes": "true"}) as skipping:
        everything = [("a", 1), ("b", 1), ("x", 1), ("y", 1)]
        assert sorted(plain.rows()) == sorted(skipping.rows()) == everything
        changes_of_each_kind(table)[kind]()
        put(table, z=1)
        with pytest.raises(sl.StateRuleBroken, match=f"snapshot 3 of table 't' has operation '{kind}'") as caught:
            plain.rows()
        for option in ("streaming.changes=true", "streaming.skip-changes=true", "rows that they inserted"):
            assert option in caught.value.hint
        assert skipping.rows() == [("z", 1)]


EXPECTED = {
    "delete": [("a", 1, "delete", 3)],
    "update": [("a", 1, "update_preimage", 3), ("a", 2, "update_postimage", 3)],
    "upsert": [("a", 1, "update_preimage", 3), ("a", 2, "update_postimage", 3), ("c", 2, "insert", 3)],
    "merge": [("a", 1, "update_preimage", 3), ("a", 2, "update_postimage", 3), ("c", 2, "insert", 3)],
    "overwrite": [
        ("a", 1, "update_preimage", 3), ("a", 2, "update_postimage", 3), ("b", 1, "delete", 3), ("c", 2, "insert", 3),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_stream_of_changes_gives_each_row_with_its_kind(table, tmp_path, kind):
    with Feed(tmp_path, **CHANGES) as feed:
        assert feed.rows() == [(key, 1, "insert", 2) for key in "abxy"]
        changes_of_each_kind(table)[kind]()
        table.maintenance.compact("all")
        put(table, z=1)
        assert Counter(feed.rows()) == Counter([*EXPECTED[kind], ("z", 1, "insert", table.history()[0].id)])
        assert feed.rows() == []


def test_a_stream_of_changes_gives_what_a_rollback_changed(table, tmp_path):
    with Feed(tmp_path, **CHANGES) as feed:
        feed.rows()
        table.delete("k = 'a'")
        put(table, z=1)
        table.rollback(2)
        found = feed.rows()
        assert found == [("a", 1, "delete", 3), ("z", 1, "insert", 4), ("a", 1, "insert", 5), ("z", 1, "delete", 5)]


def test_a_stream_of_changes_keeps_its_columns_and_its_region(table, tmp_path):
    table.maintenance.split(at="b")  # the leaves share a file
    with Feed(tmp_path, **CHANGES, **{"scan.region": "k=[a,y)"}) as feed:
        assert [row[0] for row in feed.rows()] == ["a", "b", "x"]
        table.alter({"w": "long?"}, {"x": "v"})
        table.update({"v": "7", "w": "7"}, "k IN ('a', 'b', 'y')")
        assert feed.rows() == [
            ("a", 1, "update_preimage", 5), ("a", 7, "update_postimage", 5),
            ("b", 1, "update_preimage", 5), ("b", 7, "update_postimage", 5),
        ]  # fmt: skip


def test_a_stream_of_changes_gives_those_that_meet_a_condition(table, tmp_path):
    with Feed(tmp_path, **CHANGES, **{"scan.where": "x = 1 AND k < 'y'"}) as feed:
        assert [row[0] for row in feed.rows()] == ["a", "b", "x"]
        table.update({"x": "2"}, "k IN ('a', 'y')")
        table.delete("k = 'b'")
        put(table, c=1, d=2)
        assert [row[:3] for row in feed.rows()] == [("a", 1, "delete"), ("b", 1, "delete"), ("c", 1, "insert")]


def test_limits_count_the_rows_of_changes(table, tmp_path):
    with Feed(tmp_path, maxRowsPerTrigger="4", **CHANGES) as feed:
        feed.rows()
        table.update({"x": "2"}, "k < 'c'")
        put(table, z=1)
        assert [len(feed.rows()) for _ in range(3)] == [4, 1, 0]


def test_a_change_whose_version_before_has_expired_is_an_error_and_never_a_gap(table, tmp_path):
    table.delete("k = 'a'")
    table.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    with Feed(tmp_path, version="3", **CHANGES) as feed:
        assert [row[0] for row in feed.rows()] == ["b", "x", "y"]
        table.delete("k = 'b'")
        table.delete("k = 'x'")
        table.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=2)
        with pytest.raises(sl.NotFound, match="snapshot 3 of table 't' has expired before the stream read it"):
            feed.rows()


def test_a_batch_of_changes_that_is_long_holds_both_versions(table, tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "LONG_READ", 1)
    with Feed(tmp_path, version="2", **CHANGES) as feed:
        feed.rows()
        table.update({"x": "2"}, "k = 'a'")
        end = feed.reader.latestOffset(feed.at, ReadAllAvailable())
        tasks = feed.reader.partitions(feed.at, end)
        assert {each.snapshot_id for each in table.inspect.leases()} == {2, 3}
        assert sum(b.num_rows for task in tasks for b in feed.reader.read(task)) == 2
        feed.reader.commit(end)
        assert list(table.inspect.leases()) == []


def test_what_cannot_be_a_stream_of_changes_is_refused(table, tmp_path):
    with pytest.raises(sl.InvalidInput, match=r"streaming\.changes and streaming\.skip-changes exclude each other"):
        Feed(tmp_path, **CHANGES, **{"streaming.skip-changes": "true"})
    feed = Feed(tmp_path, **CHANGES)
    with pytest.raises(sl.InvalidInput, match=r"option streaming\.changes is only for streams"):
        feed.source.reader(FEED)
    table.alter({"_Change_Type": "string?"})
    with pytest.raises(sl.InvalidInput, match="column '_Change_Type' has the name of a column"):
        Feed(tmp_path, **CHANGES)


def test_a_table_that_combines_rows_has_no_stream_of_changes(tmp_path):
    with sl.connect(tmp_path, instance="demo") as session:
        schema = sl.Schema({"k": "string"}, values={"x": "long"})
        session.create_table("t", schema, properties={"sleeper.table.aggregations": "sum(x)"})
        with Feed(tmp_path, **CHANGES) as feed, pytest.raises(sl.InvalidInput, match="table 't' combines rows by"):
            feed.rows()


STEPS = st.one_of(
    st.tuples(st.just("put"), st.dictionaries(st.sampled_from("abmyz"), st.integers(0, 3), min_size=1)),
    st.tuples(st.just("delete"), st.sampled_from("abmyz")),
    st.tuples(st.just("update"), st.sampled_from("abmyz")),
    st.tuples(st.just("upsert"), st.dictionaries(st.sampled_from("abmyz"), st.integers(0, 3), min_size=1)),
    st.tuples(st.just("rollback"), st.integers(1, 3)),
    st.sampled_from([("compact",), ("split", "b"), ("split", "y"), ("read",)]),
)
CONDITIONS = [None, "x = 1", "k < 'c' AND x > 1", "x IN (0, 3) OR k = 'm'", "k LIKE 'z%'", "x % 2 = 0"]


@pytest.mark.parametrize("store", EMBEDDED)
@given(steps=st.lists(STEPS, max_size=10), share=st.sampled_from(["0", "100"]), where=st.sampled_from(CONDITIONS))
def test_the_changes_that_a_stream_gave_make_the_table(store, steps, share, where):
    """Those that meet a condition make the rows that meet it."""
    properties = {
        "sleeper.table.deletion.vector.percent.max": share, "sleeper.table.deletion.vector.file.bytes.min": "0",
        "sleeper.table.statistics.columns": "x",
    }  # fmt: skip
    some = {} if where is None else {"scan.where": where}
    with tempfile.TemporaryDirectory() as folder, sl.connect(folder, instance="demo") as session:
        table = session.create_table("t", SCHEMA, ["m"], state_store=store, properties=properties)
        rows: Counter[Any] = Counter()
        with Feed(folder, **CHANGES, **some) as feed:
            for step in [*steps, ("read",)]:
                done(table, step)
                if step == ("read",):
                    for key, value, kind, _ in feed.rows():
                        rows[key, value] += 1 if kind in {"insert", "update_postimage"} else -1
                    expected = Counter((row["k"], row["x"]) for row in table.scan(where=where).to_arrow().to_pylist())
                    assert {row: n for row, n in rows.items() if n} == expected


def done(table: sl.Table, step: tuple[Any, ...]) -> None:
    match step:
        case "put", rows:
            put(table, **rows)
        case "delete", key:
            table.delete(f"k = '{key}'")
        case "update", key:
            table.update({"x": "x + 1"}, f"k = '{key}'")
        case "upsert", rows:
            table.upsert([{"k": key, "x": value} for key, value in rows.items()])
        case "rollback", back:
            table.rollback(max(1, table.history()[0].id - back))
        case ("compact",):
            table.maintenance.compact("all", engine="local")
        case "split", at:
            with contextlib.suppress(sl.InvalidInput):
                table.maintenance.split(at=at)
