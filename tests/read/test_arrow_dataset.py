"""Scans as PyArrow data sets: the rows of the scan, never others, and only the files that a filter needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import dataset as ds

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from sleeper_nb.scan import Scan
from tests.support.builders import START
from tests.support.garbage import young_garbage
from tests.support.value_pools import KEYS, VALUES

SCHEMA = sl.Schema({"k": "int"}, {"s": "string"}, {"v": "long?", "x": "double?"})


def rows(keys: Sequence[int]) -> list[dict[str, Any]]:
    return [{"k": k, "s": f"s{k}", "v": None if k % 3 == 0 else k, "x": k / 4} for k in keys]


def in_any_order(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def check(scan: Scan) -> ds.Dataset:
    """Compare the data set of a scan with its rows, in every way of reading it."""
    data, expected = scan.to_dataset(), scan.to_arrow()
    assert isinstance(data, ds.Dataset)
    assert data.schema == expected.schema
    assert data.to_table().schema == expected.schema
    assert in_any_order(data.to_table()) == in_any_order(expected)
    assert data.count_rows() == expected.num_rows
    return data


def key_files(data: ds.Dataset, condition: ds.Expression | None = None) -> int:
    """Return how many files a filter leaves."""
    return len([each for each in data.get_fragments(filter=condition) if hasattr(each, "path")])


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "warehouse") as opened:
        yield opened


@pytest.fixture
def table(session: sl.Session) -> sl.Table:
    """Return a table with two files in each of five leaves."""
    made = session.create_table("t", SCHEMA, split_points=[10, 20, 30, 40])
    made.ingest(rows(range(50)))
    made.ingest(rows(range(0, 50, 2)))
    return made


def test_a_filter_on_row_keys_opens_only_the_files_that_may_hold_them(table: sl.Table, tmp_path: Path):
    data = check(table.scan())
    assert isinstance(data, ds.FileSystemDataset)
    assert key_files(data) == 10
    k = ds.field("k")
    conditions = [
        (k == 5, 2),
        (k > 35, 4),
        (k.isin([5, 45]), 4),
        ((k >= 12) & (k < 18), 2),
        (k > 99, 0),
        (k + 1 == 6, 10),
    ]
    for condition, files in conditions:
        assert key_files(data, condition) == files
        assert in_any_order(data.to_table(filter=condition)) == in_any_order(table.scan().to_arrow().filter(condition))
    for path in (tmp_path / "warehouse").rglob("data/**/*.parquet"):
        if path.as_posix() not in {each.path for each in data.get_fragments(filter=k == 5)}:
            path.unlink()
    assert data.to_table(columns=["v"], filter=k == 5).to_pylist() == [{"v": 5}]
    assert duckdb.sql("SELECT v FROM data WHERE k = 5").fetchall() == [(5,)]
    assert pl.scan_pyarrow_dataset(data).filter(pl.col("k") == 5).select("v").collect().to_dicts() == [{"v": 5}]
    with pytest.raises(FileNotFoundError):
        data.to_table()


TIMES = sl.Schema({"k": "int"}, {"s": "string"}, {"at": "timestamp?", "day": "date?", "n": "int?"})


def times(number: int) -> pa.Table:
    at = datetime(2013, number, 1, tzinfo=UTC)
    some = [at, None, at + timedelta(days=9)]
    return pa.table({
        "k": pa.array([1, 2, 3], pa.int32()), "s": [f"s{number}"] * 3, "at": pa.array(some, pa.timestamp("us", "UTC")),
        "day": pa.array([None] * 3 if number == 6 else [at.date()] * 3, pa.date32()),
        "n": pa.array(range(3), pa.int32()),
    })  # fmt: skip


def test_a_filter_on_columns_with_statistics_opens_only_the_files_that_may_meet_it(session: sl.Session):
    table = session.create_table("times", TIMES)
    for number in range(1, 7):
        table.ingest(times(number))
    data, everything = check(table.scan()), table.scan().to_arrow()
    at, day, s = ds.field("at"), ds.field("day"), ds.field("s")
    moment = pa.scalar(datetime(2013, 3, 10, tzinfo=UTC), pa.timestamp("us", "UTC"))
    for condition, files in (
        (at == moment, 1),
        (at > moment, 3),
        (at.is_null(), 6),
        (day == date(2013, 3, 1), 1),
        (day > date(2013, 4, 30), 1),
        (day.is_null(), 1),
        (day.is_valid(), 5),
        (day.isin([date(2013, 1, 1), date(2013, 5, 1)]), 2),
        (s == "s4", 1),
        ((s == "s4") & (day == date(2013, 3, 1)), 0),
        (ds.field("n") == 1, 6),
    ):
        assert key_files(data, condition) == files, condition
        assert in_any_order(data.to_table(filter=condition)) == in_any_order(everything.filter(condition)), condition
        assert data.count_rows(filter=condition) == everything.filter(condition).num_rows
    count = everything.filter(day >= date(2013, 4, 1)).num_rows
    assert duckdb.sql("SELECT count(*) FROM data WHERE day >= DATE '2013-04-01'").fetchall() == [(count,)]
    lazy = pl.scan_pyarrow_dataset(data)
    assert lazy.filter(pl.col("day") >= date(2013, 4, 1)).collect().height == count
    assert lazy.filter(pl.col("at").is_null()).collect().height == 6


def test_only_the_columns_of_the_scan_are_there_and_only_those_asked_for_are_read(table: sl.Table):
    data = check(table.scan(["x", "k"]))
    assert data.schema.names == ["x", "k"]
    assert key_files(data, ds.field("k") == 5) == 2
    hidden = check(table.scan(["v"]))
    assert hidden.schema.names == ["v"]
    with pytest.raises(NotFound, match="column 'y'"):
        table.scan(["y"])


def test_libraries_take_it(table: sl.Table):
    data, expected = check(table.scan()), table.scan().to_arrow()
    values = [row["v"] or 0 for row in expected.to_pylist() if row["k"] >= 40]
    assert duckdb.sql("SELECT count(*), sum(v) FROM data WHERE k >= 40").fetchall() == [(len(values), sum(values))]
    lazy = pl.scan_pyarrow_dataset(data)
    assert lazy.filter(pl.col("k") >= 40).collect().height == 15
    assert data.scanner(filter=ds.field("v") > 40).to_table().num_rows == expected.filter(ds.field("v") > 40).num_rows
    assert data.head(3).num_rows == 3
    assert isinstance(data, ds.FileSystemDataset)
    assert len(data.files) == 10


def test_a_statement_and_a_load_take_it(table: sl.Table, session: sl.Session):
    data = table.scan().to_dataset()
    count = session.sql("SELECT count(*) AS n FROM data", engine="duckdb", data={"data": data})
    assert count.to_arrow().to_pylist() == [{"n": 75}]
    copy = session.create_table("copy", SCHEMA)
    copy.ingest(data)
    assert in_any_order(copy.scan().to_arrow()) == in_any_order(table.scan().to_arrow())


def test_files_that_a_split_left_to_several_leaves_are_read_once_and_whole(session: sl.Session):
    table = session.create_table("shared", SCHEMA)
    table.ingest(rows(range(100)))
    table.ingest(rows(range(30)))
    for point in (50, 25):
        table.maintenance.split(at=point)
    data = check(table.scan())
    assert isinstance(data, ds.FileSystemDataset)
    assert key_files(data) == 2
    assert key_files(data, ds.field("k") == 80) == 1


def test_rows_of_a_file_that_counts_in_part_are_those_of_the_scan(session: sl.Session):
    table = session.create_table("cut", SCHEMA)
    table.ingest(rows(range(100)))
    table.maintenance.split(at=50)
    table.ingest(rows(range(60, 70)))
    report = table.maintenance.compact("size-ratio")
    table.maintenance.compact("all")
    check(table.scan())
    assert report is not None
    for scan in (
        table.scan(keys=[3, 77]),
        table.scan(region={"k": (20, 60)}),
        table.scan(["v"], keys=[64]),
        table.scan(keys=[999]),
    ):
        data = check(scan)
        assert in_any_order(data.to_table(filter=ds.field("v") > 40)) == in_any_order(
            scan.to_arrow().filter(ds.field("v") > 40)
        )
        lazy = pl.scan_pyarrow_dataset(data).filter(pl.col("v") > 40).collect()
        assert lazy.height == scan.to_arrow().filter(ds.field("v") > 40).num_rows
        assert len(duckdb.sql("FROM data WHERE v > 40").fetchall()) == lazy.height


def test_a_file_that_only_one_of_its_leaves_still_reads_gives_no_row_of_the_others(session: sl.Session):
    table = session.create_table("half", SCHEMA)
    table.ingest(rows(range(100)))
    table.maintenance.split(at=50)
    table.ingest(rows(range(60, 70)))
    table.ingest(rows(range(70, 80)))
    table.set_properties({"sleeper.table.compaction.files.batch.size": "3"})
    assert len(table.maintenance.compact("basic").jobs) == 1
    assert (
        len({file["filename"] for file in table.inspect.files()}) == 2
    )  # the merged file of one leaf, and the first file, of which the other leaf still reads half
    data = check(table.scan())
    assert isinstance(data, ds.UnionDataset)
    assert data.to_table(filter=ds.field("k") == 65).num_rows == 2
    assert data.to_table(filter=ds.field("k") == 5).num_rows == 1


def test_altered_columns_are_those_of_the_version_or_refused(session: sl.Session):
    table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"n": "int?", "gone": "string?"}))
    table.ingest([{"k": 1, "n": 1, "gone": "a"}])
    table.alter({"more": "list<long>?"}, drop_columns=["gone"])
    table.ingest([{"k": 2, "n": 2, "more": [1, None]}])
    data = check(table.scan())
    assert data.to_table(filter=ds.field("n") == 2).num_rows == 1
    assert data.to_table(filter=ds.field("more").is_null()).to_pylist() == [{"k": 1, "n": 1, "more": None}]
    check(table.at(2).scan())
    check(table.at(2, schema="current").scan(["k", "n"]))
    table.alter({"gone": "long?"}, {"n": "number"})
    with pytest.raises(InvalidInput, match=r"cannot rename column 'number'(?s:.*)to_arrow\(\)"):
        table.scan().to_dataset()
    check(table.scan(["k", "more"]))
    with pytest.raises(InvalidInput, match="cannot rename column 'gone'"):  # older files have another column 'gone'
        table.scan(["gone"]).to_dataset()


def test_a_scan_that_a_data_set_cannot_express_is_refused(table: sl.Table, session: sl.Session):
    for scan, what in ((table.scan(where="v > 3"), "condition"), (table.scan(limit=3), "limit")):
        with pytest.raises(InvalidInput, match=rf"cannot apply the {what} of the scan(?s:.*)to_arrow\(\)"):
            scan.to_dataset()
    combined = session.create_table(
        "sums", sl.Schema({"k": "int"}, {}, {"n": "long"}), properties={"sleeper.table.aggregations": "sum(n)"}
    )
    combined.ingest([{"k": 1, "n": 1}])
    with pytest.raises(InvalidInput, match=r"sum\(n\)(?s:.*)to_arrow\(\)"):
        combined.scan().to_dataset()


def test_a_table_without_rows_is_an_empty_data_set(session: sl.Session):
    table = session.create_table("none", SCHEMA, split_points=[5])
    assert check(table.scan()).to_table(filter=ds.field("k") == 5).num_rows == 0


def test_a_file_that_is_gone_or_cut_is_named(table: sl.Table, tmp_path: Path):
    file = next((tmp_path / "warehouse").rglob("data/**/*.parquet"))
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(SleeperError, match=file.name):
        table.scan().to_dataset()
    file.unlink()
    with pytest.raises(NotFound, match=file.name):
        table.scan().to_dataset()


def test_the_files_of_an_older_version_are_kept_until_the_session_is_closed(tmp_path: Path):
    clock, kept = ManualClock(START), {"snapshot.time-retained": "1 h", "snapshot.num-retained.min": "1"}
    with young_garbage() as drop_garbage, sl.connect(tmp_path, clock=clock) as session:
        table = session.create_table("t", SCHEMA, properties=kept)
        table.ingest(rows(range(5)))
        table.ingest(rows(range(5)))
        data = table.at(3).scan().to_dataset()
        table.maintenance.compact("all", engine="local")
        for _ in range(10):
            clock.advance(timedelta(minutes=10))
            session._components.leases.renew()
        drop_garbage()
        table.maintenance.expire(dry_run=False)
        assert table.maintenance.collect_garbage(dry_run=False).data_files == ()
        assert data.count_rows() == 10
    with sl.connect(tmp_path, clock=clock) as session:
        assert len(session.table("t").maintenance.collect_garbage(dry_run=False).data_files) == 2


@st.composite
def programs(draw: st.DrawFn) -> tuple[sl.Schema, list[tuple[str, Any]]]:
    """A table, and loads, splits and compactions of it."""
    kinds = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=2))
    values = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3))
    schema = sl.Schema(
        {f"k{i}": kind for i, kind in enumerate(kinds)}, {}, {f"v{i}": f"{kind}?" for i, kind in enumerate(values)}
    )
    row = st.fixed_dictionaries(
        {f"k{i}": st.sampled_from(KEYS[kind]) for i, kind in enumerate(kinds)}
        | {f"v{i}": st.one_of(st.none(), st.sampled_from(VALUES[kind])) for i, kind in enumerate(values)}
    )
    at = draw(st.integers(0, len(kinds) - 1))
    split = st.tuples(st.just(f"k{at}"), st.sampled_from(KEYS[kinds[at]]))
    step = st.one_of(
        st.tuples(st.just("ingest"), st.lists(row, min_size=1, max_size=8)),
        st.tuples(st.just("split"), split),
        st.tuples(st.just("compact"), st.sampled_from(["all", "basic", "size-ratio"])),
    )
    first = st.tuples(st.just("ingest"), st.lists(row, min_size=1, max_size=8))
    return schema, [draw(first), *draw(st.lists(step, min_size=2, max_size=7))]


@given(programs(), st.data())
def test_any_version_of_any_table_is_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, program: tuple[sl.Schema, list[tuple[str, Any]]], data: st.DataObject
):
    schema, steps = program
    with sl.connect(tmp_path_factory.mktemp("any")) as session:
        table = session.create_table("t", schema, properties={"sleeper.table.compaction.files.batch.size": "2"})
        for what, value in steps:
            if what == "ingest":
                table.ingest(value)
            elif what == "compact":
                table.maintenance.compact(value, engine="local")
            else:
                try:
                    table.maintenance.split(at=value[1], key=value[0])
                except InvalidInput:  # the least value, at which nothing can be split
                    continue
        for snapshot in table.history():
            check(table.at(snapshot.id).scan())
        key = schema.row_keys[0]
        pool = KEYS[str(key.type)]
        check(table.scan(keys=data.draw(st.lists(st.sampled_from(pool), min_size=1))))
        everything, as_dataset = table.scan().to_arrow(), table.scan().to_dataset()
        timed = [each for each in schema.values if str(each.type) in {"date", "timestamp"}]
        for column, kinds in ((key, KEYS), *((each, VALUES) for each in timed)):
            field, drawn = ds.field(column.name), data.draw(st.sampled_from(kinds[str(column.type)]))
            value = pa.scalar(drawn, column.type.arrow)
            for condition in (field == value, field > value, field <= value, field.is_null()):
                assert in_any_order(as_dataset.to_table(filter=condition)) == in_any_order(everything.filter(condition))
