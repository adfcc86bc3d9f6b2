"""The stream reader under a small copy of Spark's own loop: the batches that a checkpoint knows, in this process."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

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

SCHEMA = sl.Schema({"key": "string"}, values={"x": "long?"})
COLUMNS = StructType().add("key", StringType()).add("x", LongType())


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path, instance="demo") as opened:
        yield opened


@pytest.fixture
def table(session):
    return session.create_table("t", SCHEMA, ["m"])


def add(table, *keys):
    return table.ingest([{"key": key, "x": 1} for key in keys]).snapshot_id


def forget_all_but_newest(table):
    table.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)


class SinkError(Exception):
    """What the query behind the stream raises."""


class Query:
    """A query with ``trigger(availableNow=True)``: ends of batches are logged before they are planned."""

    def __init__(self, folder, **options):
        self.source = source_of(InstancePlace(str(folder), "demo"), open_source_table, 2, prunes=False)
        self.options = {"table": "t", **options}
        self.committed = self.planned = None
        self.given = []
        self.fails_at = None

    def reader(self):
        return self.source(self.options).streamReader(COLUMNS)

    def run(self, **options):
        """Catch up, and return the keys of each batch of this run that has rows."""
        self.options |= options
        before, reader = len(self.given), self.reader()
        with contextlib.closing(Stopped(reader)):
            reader.prepareForTriggerAvailableNow()
            start = self.committed or reader.initialOffset()
            while True:
                limit = reader.getDefaultReadLimit()
                end = self.planned or json.loads(json.dumps(reader.latestOffset(start, limit)))
                if end == start:
                    break
                self.planned = end
                self.batch(reader, start, end)
                start, self.committed, self.planned = end, end, None
        return [keys for keys in self.given[before:] if keys]

    def batch(self, reader, start, end):
        batches = [batch for task in reader.partitions(start, end) for batch in reader.read(task)]
        keys = sorted(key for batch in batches for key in batch["key"].to_pylist())
        if self.fails_at is not None and len(self.given) >= self.fails_at:
            raise SinkError(keys)
        self.given.append(keys)


class Stopped:
    def __init__(self, reader):
        self.close = reader.stop


@pytest.fixture
def query(tmp_path):
    return partial(Query, tmp_path)


def test_first_the_full_state_then_each_append_once(query, table):
    add(table, "a", "z")
    add(table, "b")
    stream = query()
    assert stream.run() == [["a", "b", "z"]]
    assert stream.run() == []
    add(table, "c", "y")
    table.maintenance.compact("all")
    add(table, "d")
    assert stream.run() == [["c", "d", "y"]]


def test_a_region_is_read_of_the_full_state_and_of_each_append(query, table):
    add(table, "a", "n", "z")
    stream = query(**{"scan.region": "key=[b,p)"})
    assert stream.run() == [["n"]]
    add(table, "c", "o", "y")
    table.maintenance.split(at="d")
    add(table, "b", "p")
    add(table, "zz")
    assert stream.run() == [["b", "c", "o"]]


def test_a_region_opens_no_file_of_other_partitions(query, table, tmp_path):
    add(table, "a", "z")
    for file in table.scan(keys="z").plan().files:
        (found,) = tmp_path.rglob(Path(file.filename).name)
        found.unlink()
    assert query(**{"scan.region": "key=(,m)"}).run() == [["a"]]


def test_a_condition_is_applied_to_the_full_state_and_to_each_append(query, table):
    add(table, "a", "n", "z")
    stream = query(**{"scan.where": "key LIKE 'n%' OR length(key) = 2"})
    assert stream.run() == [["n"]]
    add(table, "c", "na", "y")
    table.maintenance.split(at="d")
    add(table, "b", "p")
    add(table, "zz")
    table.maintenance.compact("all")
    assert stream.run() == [["na", "zz"]]


def test_a_condition_opens_no_file_whose_keys_or_statistics_exclude_it(session, query, tmp_path):
    """Of the full state and of later appends: the files of other rows are gone."""
    table = session.create_table("s", SCHEMA, ["m"], properties={"sleeper.table.statistics.columns": "x"})

    def add_and_delete(**rows):
        before = {*tmp_path.rglob("data/**/*.parquet")}
        table.ingest([{"key": key, "x": value} for key, value in rows.items()])
        for path in {*tmp_path.rglob("data/**/*.parquet")} - before:
            path.unlink()

    table.ingest([{"key": "a", "x": 7}])
    add_and_delete(z=7)
    add_and_delete(a=1)
    stream = query(table="s", **{"scan.where": "key < 'b' AND x = 7"})
    assert stream.run() == [["a"]]
    add_and_delete(b=7, y=7)
    add_and_delete(aa=1)
    assert stream.run() == []
    table.ingest([{"key": "ab", "x": 7}])
    assert stream.run() == [["ab"]]


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("key = 'a' AND", "cannot read the condition"),
        ("nothing = 1", "nothing"),
        ("x > random()", "another value later"),
        ("current_date > DATE '2026-01-01'", "another value later"),
        ("key IN (SELECT 'a')", "a subquery"),
        ("", "condition"),
    ],
)
def test_a_condition_that_a_stream_cannot_have_is_an_error_before_it_starts(query, table, where, problem):
    with pytest.raises(sl.SleeperError, match=problem):
        query(**{"scan.where": where}).source({"table": "t", "scan.where": where}).schema()


def test_a_condition_means_the_columns_that_a_stream_was_started_with(session, table, tmp_path):
    """A later column takes the name of another: its statistics say nothing about the condition."""
    table = session.create_table("s", SCHEMA, properties={"sleeper.table.statistics.columns": "x"})
    table.ingest([{"key": "a", "x": 1}])
    made = source_of(InstancePlace(str(tmp_path), "demo"), open_source_table, 2, prunes=False)
    source = made({"table": "s", "scan.where": "x = 1"})
    source.schema()
    with contextlib.closing(Stopped(reader := source.streamReader(COLUMNS))):

        def given(start, end):
            return [row for task in reader.partitions(start, end) for b in reader.read(task) for row in b.to_pylist()]

        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert given(start, end) == [{"key": "a", "x": 1}]
        table.set_properties({"sleeper.table.statistics.columns": "none"})
        table.alter(rename_columns={"x": "old"})
        table.alter({"x": "long?"})
        table.set_properties({"sleeper.table.statistics.columns": "x"})
        table.ingest([{"key": "b", "old": 1, "x": 9}, {"key": "c", "old": 9, "x": 1}])
        start, end = end, reader.latestOffset(end, ReadAllAvailable())
        assert given(start, end) == [{"key": "b", "x": 1}]


def test_a_stream_keeps_the_columns_that_it_was_started_with(session, table, tmp_path):
    """Files of before and after an alteration, of which it was told nothing."""
    table.ingest([{"key": "a", "x": 1}])
    made = source_of(InstancePlace(str(tmp_path), "demo"), open_source_table, 2, prunes=False)
    source = made({"table": "t"})
    assert source.schema() == "`key` string, `x` bigint"
    with contextlib.closing(Stopped(reader := source.streamReader(COLUMNS))):

        def given(start, end):
            read = [batch for task in reader.partitions(start, end) for batch in reader.read(task)]
            return sorted((row["key"], row["x"]) for batch in read for row in batch.to_pylist())

        def end_now(start):
            return reader.latestOffset(start, ReadAllAvailable())

        begin = reader.initialOffset()
        first = end_now(begin)
        table.alter({"x": "string?"}, {"x": "y"})
        table.ingest([{"key": "b", "y": 2, "x": "other"}])
        second = end_now(first)
        table.alter(drop_columns=["y"])
        table.ingest([{"key": "c", "x": "other"}])
        table.maintenance.compact("all")
        third = end_now(second)
        expected = [("a", 1), ("b", 2), ("c", None)]
        assert [given(begin, first), given(first, second), given(second, third)] == [[row] for row in expected]
        assert given(begin, third) == expected


@pytest.mark.parametrize("option", ["scan.snapshot-id", "scan.savepoint-id", "scan.timestamp", "version"])
def test_each_version_option_is_where_a_stream_begins(query, table, option):
    add(table, "a")
    table.create_savepoint("early")
    second = table.history()[0].time
    add(table, "b")
    add(table, "c")
    text = {"scan.snapshot-id": "2", "scan.savepoint-id": "early", "scan.timestamp": str(second), "version": "2"}
    assert query(**{option: text[option], "maxSnapshotsPerTrigger": "1"}).run() == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize(
    ("limit", "batches"),
    [
        ({}, [["a", "b", "b", "c", "d", "e"]]),
        ({"maxSnapshotsPerTrigger": "2"}, [["a", "b", "b"], ["c", "d"], ["e"]]),
        ({"maxRowsPerTrigger": "2"}, [["a"], ["b", "b"], ["c", "d"], ["e"]]),
        ({"maxFilesPerTrigger": "3"}, [["a", "b", "b", "c"], ["d", "e"]]),
    ],
)
def test_limits_bound_a_batch_and_only_appends_count(query, table, limit, batches):
    for keys in ("a", "bb", "c", "d", "e"):
        add(table, *keys)
        table.maintenance.compact("all")
    assert query(**{"scan.snapshot-id": "1"}, **limit).run() == batches


def test_the_first_batch_is_given_again_as_it_was_whatever_was_appended_meanwhile(query, table):
    add(table, "a")
    stream = query()
    stream.fails_at = 0
    with pytest.raises(SinkError, match="'a'"):
        stream.run()
    add(table, "b")  # no part of the full state, though Spark asks once more where the stream begins
    stream.fails_at = None
    assert stream.run() == [["a"], ["b"]]


def test_an_expired_start_is_an_error_that_names_the_earliest(query, table):
    add(table, "a")
    table.create_savepoint("early")
    add(table, "b")
    newest = add(table, "c")
    forget_all_but_newest(table)
    with pytest.raises(sl.NotFound, match="no snapshot 1 of table 't'") as caught:
        query(**{"scan.snapshot-id": "1"}).run()
    assert str(newest) in caught.value.hint
    with pytest.raises(sl.NotFound, match="snapshot 3 of table 't' has expired before") as caught:
        query(**{"scan.savepoint-id": "early"}).run()
    assert f"at snapshot {newest} or a later one" in caught.value.hint
    assert query(**{"scan.snapshot-id": str(newest)}).run() == [["a", "b", "c"]]


def test_a_savepoint_of_an_expired_snapshot_is_a_start_where_nothing_behind_it_has_expired(query, table):
    add(table, "a")
    table.create_savepoint("early")
    table.maintenance.compact("all")
    add(table, "b")
    table.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    table.create_savepoint("late")
    add(table, "c")
    table.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    table.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
    stream = query(**{"scan.savepoint-id": "late"}, maxSnapshotsPerTrigger="1")
    assert stream.run() == [["a", "b"], ["c"]]


def test_a_checkpoint_whose_next_snapshots_have_expired_is_an_error_and_never_a_gap(query, table):
    add(table, "a")
    stream = query()
    stream.run()
    add(table, "b")
    add(table, "c")
    forget_all_but_newest(table)
    with pytest.raises(sl.NotFound, match="snapshot 3 of table 't' has expired before the stream read it"):
        stream.run()
    assert stream.given == [["a"]]


def test_a_planned_batch_whose_snapshots_expire_is_an_error_and_never_a_gap(query, table):
    add(table, "a")
    stream = query()
    stream.run()
    add(table, "b")
    stream.fails_at = 1
    with pytest.raises(SinkError):
        stream.run()
    add(table, "c")
    forget_all_but_newest(table)
    with pytest.raises(sl.NotFound, match="snapshot 3 of table 't' has expired before the stream read it"):
        stream.run()


def test_what_was_read_may_expire(query, table):
    add(table, "a")
    stream = query()
    stream.run()
    table.maintenance.compact("all")
    assert stream.run() == []
    forget_all_but_newest(table)
    add(table, "b")
    assert stream.run() == [["b"]]


def test_the_checkpoint_of_another_table_is_an_error(query, session, table):
    add(table, "a")
    stream = query()
    stream.run()
    session.create_table("new", SCHEMA)
    with pytest.raises(sl.StateRuleBroken, match="belongs to an earlier table named 'new'"):
        stream.run(table="new")


def test_aggregations_combine_within_the_full_state_and_within_each_append(session, tmp_path):
    schema = sl.Schema({"key": "string"}, {"at": "timestamp"}, {"x": "long"})
    properties = {"sleeper.table.aggregations": "sum(x)", "sleeper.table.filters": "ageOff(at,86400000)"}
    table = session.create_table("t", schema, properties=properties)
    now = datetime.now(UTC)

    def put(*ages):
        table.ingest([{"key": "k", "at": now - timedelta(days=days), "x": 1} for days in ages])

    for ages in ((0, 0, 3), (0,), (0, 0, 3), (0,), (5,)):
        put(*ages)
    reader = Query(tmp_path, version="3").reader()
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert sorted(x for task in tasks for batch in reader.read(task) for x in batch["x"].to_pylist()) == [1, 2, 3]
    reader.stop()


def test_a_mark_of_a_delete_is_given_in_an_append_and_hides_its_key_in_the_full_state(session, tmp_path):
    """The stream's columns are key and x; rows whose x is 2 mark deletes."""
    schema = sl.Schema({"key": "string"}, {}, {"x": "long", "gone": "boolean?"})
    properties = {
        "sleeper.table.aggregations": "last(*,x)", "sleeper.table.aggregations.delete.column": "gone",
    }  # fmt: skip
    table = session.create_table("t", schema, properties=properties)
    for load in ([("a", 1), ("b", 1)], [("a", 2)], [("b", 2), ("c", 1)]):
        table.ingest([{"key": key, "x": x, "gone": x == 2} for key, x in load])
    reader = Query(tmp_path, version="3").reader()
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    found = [(row["key"], row["x"]) for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    assert sorted(found) == [("b", 1), ("b", 2), ("c", 1)]
    reader.stop()


def test_a_batch_that_is_long_holds_what_it_reads_until_the_next_one(query, table, monkeypatch):
    monkeypatch.setattr(leases, "LONG_READ", 1)
    add(table, "a")
    compacted = add(table, "b")
    table.maintenance.compact("all")
    last = add(table, "c")
    reader = query(version="2").reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    tasks = reader.partitions(start, end)
    assert [(each.snapshot_id, each.purpose) for each in table.inspect.leases()] == [
        (2, "spark"),  # the full state
        (compacted, "spark"),  # the only one in which its file is active, but for the full state
        (last, "spark"),
    ]
    forget_all_but_newest(table)
    table.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
    given = [key for task in tasks for batch in reader.read(task) for key in batch["key"].to_pylist()]
    assert sorted(given) == ["a", "b", "c"]
    reader.commit(end)
    assert list(table.inspect.leases()) == []
    reader.stop()


def test_a_short_batch_holds_nothing(query, table):
    add(table, "a")
    reader = query().reader()
    start = reader.initialOffset()
    reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert list(table.inspect.leases()) == []
    reader.stop()


def test_an_empty_range_has_no_tasks_and_offsets_go_on_where_nothing_is_appended(query, table):
    add(table, "a")
    reader = query().reader()
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert reader.partitions(end, end) == []
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    add(table, "b")
    table.maintenance.compact("all")
    later = reader.latestOffset(end, ReadAllAvailable())
    assert later["snapshot"] == reader.reportLatestOffset()["snapshot"] == table.history()[0].id
    reader.stop()


def test_available_now_reads_nothing_that_comes_later(query, table):
    add(table, "a")
    reader = query(maxSnapshotsPerTrigger="1").reader()
    reader.prepareForTriggerAvailableNow()
    add(table, "b")
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert reader.latestOffset(end, limit) == end
    reader.stop()


steps = st.one_of(
    st.tuples(st.just("ingest"), st.lists(st.sampled_from("abmyz"), min_size=1, max_size=4)),
    st.sampled_from([("compact",), ("split", "b"), ("split", "y"), ("collect",), ("migrate",), ("run",), ("run",)]),
    st.tuples(st.just("fail"), st.integers(0, 2)),
    st.tuples(st.just("rollback"), st.integers(1, 4)),
)


@given(
    done=st.lists(steps, max_size=12),
    store=st.sampled_from(["S3StateStore", "TransactionLogStateStore"]),
    limit=st.sampled_from([{}, {"maxSnapshotsPerTrigger": "1"}, {"maxRowsPerTrigger": "3"}]),
    start=st.sampled_from([{}, {"version": "1"}]),
)
def test_whatever_happens_to_the_table_and_the_query_every_row_is_given_once(done, store, limit, start):
    with tempfile.TemporaryDirectory() as folder, sl.connect(folder, instance="demo") as session:
        table = session.create_table("t", SCHEMA, ["m"], state_store=store)
        stream = Query(folder, **limit, **start, **{"streaming.skip-rollbacks": "true"})
        expected: Counter[str] = Counter()
        begun = bool(start)
        for step in [*done, ("run",)]:
            if not begun and step[0] in {"run", "fail"}:
                expected, begun = Counter(table.scan().to_arrow()["key"].to_pylist()), True
            if step[0] == "ingest":
                expected.update(step[1])
            do(session, stream, step)
        assert Counter(key for keys in stream.given for key in keys) == expected


def do(session, stream, step):
    table = session.table("t")
    match step:
        case "ingest", keys:
            add(table, *keys)
        case ("compact",):
            table.maintenance.compact("all", engine="local")
        case "split", at:
            with contextlib.suppress(sl.InvalidInput):
                table.maintenance.split(at=at)
        case ("collect",):
            table.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
        case ("migrate",):
            stores = {"S3StateStore": "TransactionLogStateStore", "TransactionLogStateStore": "S3StateStore"}
            session.admin.migrate("t", stores[table._store.head().state_store])
        case "rollback", back:
            table.rollback(version=max(1, table.history()[0].id - back))
        case ("run",):
            stream.run()
        case "fail", batches:
            stream.fails_at = len(stream.given) + batches
            with contextlib.suppress(SinkError):
                stream.run()
            stream.fails_at = None
