"""Dates and timestamps as row keys: how they are given, written and shown, and what they leave out of a read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.cli import main
from sleeper_nb.errors import InvalidInput
from sleeper_nb.widgets.table_draft import ColumnDraft, TableDraft
from tests.support.builders import EMBEDDED
from tests.support.engines import ENGINES

DATES = {"day": "date"}
INSTANTS = {"ts": "timestamp"}
NEW_YORK = ZoneInfo("America/New_York")


def instant(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "warehouse", instance="demo") as opened:
        yield opened


@pytest.fixture
def run(
    session: sl.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run a line of the console, beside the session."""
    monkeypatch.chdir(tmp_path)

    def called(*words: str, code: int = 0) -> str:
        assert main([*words, "--instance", "demo"]) == code
        printed = capsys.readouterr()
        return printed.out + printed.err

    return called


def by_month(session: sl.Session, keys: dict[str, str], name: str = "t", **options: Any) -> sl.Table:
    """Return a table with a leaf for each month of 2013 and a row for each hour of every tenth day."""
    (key,) = keys
    schema = sl.Schema(keys, {}, {"n": "int"})
    table = session.create_table(name, schema, [f"2013-{month:02}-01" for month in range(2, 13)], **options)
    hours = [instant(2013, 1, 1) + timedelta(days=day, hours=hour) for day in range(0, 365, 10) for hour in range(24)]
    values = hours if keys[key] == "timestamp" else [hour.date() for hour in hours]
    table.ingest(pa.table({key: values, "n": pa.array(range(len(hours)), pa.int32())}))
    return table


# How they are given.

GIVEN = {
    "date": [
        [date(2013, 1, 1), date(9999, 12, 31)],
        ["2013-01-01", "9999-12-31"],
    ],
    "timestamp": [
        [instant(2013, 1, 1), instant(2013, 6, 1, 12, 30, 0, 5)],
        [datetime(2013, 1, 1), datetime(2013, 6, 1, 12, 30, 0, 5)],  # noqa: DTZ001 - UTC is meant
        [date(2013, 1, 1), datetime(2013, 6, 1, 8, 30, 0, 5, NEW_YORK)],
        ["2013-01-01", "2013-06-01T12:30:00.000005Z"],
        ["2013-01-01 00:00:00", "2013-06-01 14:30:00.000005+02:00"],
        ["2012-12-31T19:00-05:00", "2013-06-01 12:30:00.000005 UTC"],
    ],
}  # fmt: skip
CASES = [(kind, points) for kind, every in GIVEN.items() for points in every]


@pytest.mark.parametrize(("kind", "points"), CASES)
def test_split_points_are_values_texts_and_lines_of_files(
    session: sl.Session, tmp_path: Path, kind: str, points: list[Any]
):
    expected = tuple(GIVEN[kind][0])
    made = session.create_table("t", sl.Schema({"k": kind}), points)
    assert made.at(1).state.tree.split_points() == expected
    if all(isinstance(point, str) for point in points):
        (tmp_path / "points.txt").write_text("".join(f"{point}\n" for point in points))
        session.admin.reinitialise("t", delete_partitions=True, splits_file=str(tmp_path / "points.txt"), force=True)
        assert session.table("t").at(2).state.tree.split_points() == expected


@pytest.mark.parametrize(
    ("points", "problem", "hint"),
    [
        (["2013-13-01"], "split point '2013-13-01' is not a value of row key 'k'", "write 2013-01-31"),
        (["2013-01-01T00:00:00Z"], "'2013-01-01T00:00:00Z' is not a value of row key 'k'", "write 2013-01-31"),
        ([instant(2013, 1, 1)], "is not a value of row key 'k'", "the row key is a date, not a datetime"),
        ([20130101], "20130101 is not a value", "the row key is date, not int"),
        (["2013-01-02", "2013-01-01"], "2013-01-01 does not come after 2013-01-02", "increasing order"),
    ],
)
def test_other_split_points_are_refused_with_what_to_write(
    session: sl.Session, points: list[Any], problem: str, hint: str
):
    with pytest.raises(InvalidInput) as error:
        session.create_table("t", sl.Schema({"k": "date"}), points)
    assert problem in error.value.message
    assert hint in str(error.value)
    assert not list(session.tables())


def test_an_instant_that_a_zone_has_twice_is_refused_with_both(session: sl.Session):
    with pytest.raises(InvalidInput, match=r"write '2013-10-27 00:30:00 UTC' or '2013-10-27 01:30:00 UTC'"):
        session.create_table("t", sl.Schema({"k": "timestamp"}), ["2013-10-27 01:30:00 Europe/London"])


def test_declarations_have_times_of_toml_or_texts(session: sl.Session, tmp_path: Path):
    (tmp_path / "tables.toml").write_text(
        """
        [tables.days]
        schema = "day DATE KEY, n INT"
        split-points = [2013-01-01, "2014-01-01"]
        [tables.instants]
        schema = "ts TIMESTAMP KEY"
        split-points = [2013-01-01, 2013-01-01T12:00:00+01:00, 2013-01-02T00:00:00, "2013-01-03"]
        """
    )
    session.admin.apply(tmp_path / "tables.toml")
    assert session.table("days").at(1).state.tree.split_points() == (date(2013, 1, 1), date(2014, 1, 1))
    assert session.table("instants").at(1).state.tree.split_points() == (
        instant(2013, 1, 1), instant(2013, 1, 1, 11), instant(2013, 1, 2), instant(2013, 1, 3),
    )  # fmt: skip


def test_commands_take_and_show_iso_text(run: Callable[..., str], session: sl.Session, tmp_path: Path):
    (tmp_path / "schema.ddl").write_text("ts TIMESTAMP KEY, n INT")
    run("create", "t", "--splits", "2013-01-01T00:00:00Z,2013-07-01", "--schema", "schema.ddl")
    session.table("t").ingest([{"ts": instant(2013, 3, 1, 12), "n": 1}, {"ts": instant(2013, 8, 1), "n": 2}])
    assert "ts [2013-01-01T00:00:00Z, 2013-07-01T00:00:00Z)" in run("partitions", "t")
    run("split", "t", "--at", "2013-03-01 12:00:00.5")
    points = "2013-01-01T00:00:00Z\n2013-03-01T12:00:00.500000Z\n2013-07-01T00:00:00Z\n"
    run("partitions", "t", "--to", "points.txt")
    assert (tmp_path / "points.txt").read_text() == points
    run("create", "again", "--splits-file", "points.txt", "--schema", "schema.ddl")
    assert session.table("again").at(1).state.tree.split_points() == session.table("t").at(3).state.tree.split_points()
    assert "2013-03-01 12:00:00 UTC" in run("scan", "t", "2013-03-01T12:00:00Z")
    assert "1 row" in run("scan", "t", "--region", "ts=[2013-01-01,2013-07-01)")
    assert "ts = 2013-03-01T12:00:00.500000Z" in run("diff", "t", "2", "3")
    assert "2013-03-01 12:00:00 UTC" in run("files", "t")


def test_the_form_reads_split_points_of_times():
    draft = TableDraft("t", (ColumnDraft("day", "date", "row key"),), "2013-01-01, 2014-01-01")
    assert draft.problems(()) == ()
    (problem,) = replace(draft, splits="2013-13-01").problems(())
    assert "'2013-13-01' is not a value of row key 'day'" in problem.message


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_pictures_show_iso_text(session: sl.Session, kind: str):
    table = by_month(session, {"k": kind})
    end = "T00:00:00Z" if kind == "timestamp" else ""
    for shown in (
        repr(table.inspect.partitions()),
        table.inspect.partitions()._repr_html_(),
        repr(table.inspect.files()),
    ):
        assert f"2013-03-01{end}" in shown or f"2013-03-01{' 00:00:00 UTC' if end else ''}" in shown
        assert "datetime" not in shown
    cost = session.sql("SELECT n FROM t WHERE k >= DATE '2013-12-01'", engine="duckdb").cost()
    assert f"k [2013-12-01{end}, ∞)" in repr(cost)


# Keys and regions.


@pytest.mark.parametrize(
    ("keys", "rows"),
    [
        ([instant(2013, 1, 1, 5)], 1), ("2013-01-01T05:00:00Z", 1), (datetime(2013, 1, 1, 5), 1),  # noqa: DTZ001
        (datetime(2013, 1, 1, 0, tzinfo=NEW_YORK), 1), (date(2013, 1, 11), 1), (["2013-01-11", "2013-01-12"], 1),
    ],
)  # fmt: skip
def test_keys_of_a_scan_are_instants_however_they_are_given(session: sl.Session, keys: Any, rows: int):
    table = by_month(session, INSTANTS)
    assert table.scan(keys=keys).to_arrow().num_rows == rows
    assert len({file.filename for file in table.scan(keys=keys).plan().files}) == 1


REGIONS: list[tuple[Any, int]] = [
    ("ts=[2013-01-01,2013-01-02)", 24), ("ts=(2013-01-01,2013-01-02]", 23), ("ts=2013-01-01T01:00:00Z", 1),
    ("ts=[2013-01-01T01:00:00+01:00,2013-01-01T03:00:00Z)", 3), ("ts=['2013-12-27 00:00:00',]", 24),
    ({"ts": ("2013-01-01", instant(2013, 1, 2))}, 24), ({"ts": (date(2013, 12, 27), None)}, 24),
    ({"ts": (None, datetime(2013, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))))}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("region", "rows"), REGIONS)
def test_regions_of_times(session: sl.Session, region: Any, rows: int):
    scan = by_month(session, INSTANTS).scan(region=region)
    assert scan.to_arrow().num_rows == scan.count() == rows
    assert len(scan.plan().files) <= 1


def test_a_region_of_dates_ends_at_the_last_day_that_there_is(session: sl.Session):
    table = session.create_table("t", sl.Schema({"day": "date"}), ["0001-01-02", "9999-12-31"])
    table.ingest([{"day": day} for day in (date.min, date(2013, 1, 1), date.max)])
    assert [len(table.scan(region=f"day={text}").to_arrow()) for text in (
        "[9999-12-31,9999-12-31]", "9999-12-31", "[,0001-01-01]", "(0001-01-01,9999-12-31)",
    )] == [1, 1, 1, 1]  # fmt: skip
    with pytest.raises(InvalidInput, match="its lower bound is the greatest value"):
        table.scan(region="day=(9999-12-31,]")


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_partitions_of_a_table_that_is_made_from_a_time_series_are_even(session: sl.Session, kind: str):
    hours = pa.array([n * n % 2**22 * 3600 for n in range(20_000)], pa.timestamp("s", "UTC"))  # more and more seldom
    data = pa.table({"k": hours.cast(pa.date32()) if kind == "date" else hours, "n": range(20_000)})
    table = session.create_table("t", data, row_keys=["k"], leaves=8)
    assert str(table.at(1).schema.row_keys[0].type) == kind
    rows = [leaf["rows"] for leaf in table.inspect.partitions()]
    assert (len(rows), sum(rows)) == (8, 20_000)
    assert max(rows) <= 1.5 * 20_000 / 8
    table.maintenance.split(threshold=1_000)  # at medians
    assert max(leaf["rows"] for leaf in table.inspect.partitions()) < 1_000


# What a key cannot be.


@pytest.mark.parametrize("store", EMBEDDED)
@pytest.mark.parametrize(("kind", "value"), [("date", 2932897), ("date", -719163), ("timestamp", 2**63 - 1)])
def test_times_beyond_the_years_1_to_9999_are_refused_and_nothing_is_left(
    session: sl.Session, tmp_path: Path, store: str, kind: str, value: int
):
    table = session.create_table("t", sl.Schema({"k": kind}, {}, {"v": f"{kind}?"}), state_store=store)
    kind_of, plain = table.at(1).schema.arrow.field("k").type, pa.int32() if kind == "date" else pa.int64()
    good, bad = pa.array([0, 1], plain).cast(kind_of), pa.array([0, value], plain).cast(kind_of)
    before = sorted(tmp_path.rglob("*"))
    pq.write_table(pa.table({"k": bad}), tmp_path / "bad.parquet")
    for rows in (pa.table({"k": bad}), tmp_path / "bad.parquet"):
        with pytest.raises(InvalidInput, match=f"column 'k', row 2: the {kind} is out of range") as error:
            table.ingest(rows)
        assert "a row key lies in the years 1 to 9999" in str(error.value)
        assert "out of range" in repr(table.ingest(rows, dry_run=True))
    (tmp_path / "bad.parquet").unlink()
    assert sorted(tmp_path.rglob("*")) == before
    table.ingest(pa.table({"k": good, "v": bad}))  # values may lie there
    assert table.scan().count() == 2


@pytest.mark.spark
def test_spark_refuses_them_too(session: sl.Session, spark_engine: Any, tmp_path: Path):
    with sl.connect(tmp_path / "warehouse", instance="demo", spark=spark_engine.session()) as on_spark:
        table = on_spark.create_table("t", sl.Schema({"k": "timestamp"}))
        pq.write_table(pa.table({"k": pa.array([0, 2**62], pa.timestamp("us", "UTC"))}), tmp_path / "bad.parquet")
        with pytest.raises(InvalidInput, match="the timestamp is out of range"):
            table.bulk_import(tmp_path / "bad.parquet")
        assert table.scan().count() == 0


# What they leave out.

BOTH = [
    ("day = DATE '2013-03-02'", "ts = TIMESTAMP '2013-03-02 00:00:00'", 1),
    ("day >= DATE '2013-11-02'", "ts >= TIMESTAMP '2013-11-02 00:00:00'", 2),
    ("day > DATE '2013-11-30'", "ts > TIMESTAMP '2013-11-30 23:59:59.999999'", 1),
    ("day <= DATE '2013-01-31'", "ts <= TIMESTAMP '2013-01-31 23:59:59'", 1),
    ("day BETWEEN DATE '2013-02-10' AND DATE '2013-04-10'",
     "ts BETWEEN TIMESTAMP '2013-02-10 00:00:00' AND TIMESTAMP '2013-04-10 00:00:00'", 3),
    ("day IN (DATE '2013-02-10', DATE '2013-09-10')",
     "ts IN (TIMESTAMP '2013-02-10 00:00:00', TIMESTAMP '2013-09-10 01:00:00')", 2),
    ("day < DATE '1500-01-01'", "ts < TIMESTAMP '1500-01-01 00:00:00'", 1),
    ("day >= DATE '2013-11-01' + INTERVAL '1' DAY", "ts >= TIMESTAMP '2013-11-01 00:00:00' + INTERVAL '1' DAY", 2),
    ("day >= '2013-11-02'", "ts >= '2013-11-02 00:00:00'", 2),
    ("day >= :since", "ts >= :since", 2),
    ("day IS NULL", "ts IS NULL", 0),
]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("keys", [DATES, INSTANTS])
def test_conditions_read_only_the_partitions_that_they_reach(
    session: sl.Session, spark_engine: Any, tmp_path: Path, keys: dict[str, str], engine: Any
):
    by_month(session, keys)
    spark = spark_engine.session() if engine == "spark" else None
    values: dict[str, Any] = {"since": date(2013, 11, 2) if keys is DATES else instant(2013, 11, 2)}
    with sl.connect(tmp_path / "warehouse", instance="demo", spark=spark) as reader:
        whole = {"df": reader.table("t").scan().to_arrow()}
        conditions = [on_days if keys is DATES else on_instants for on_days, on_instants, _ in BOTH]
        kept = ", ".join(f"{condition} AS kept_{number}" for number, condition in enumerate(conditions))
        plain = reader.sql(f"SELECT n, {kept} FROM df", engine=engine, params=values, data=whole).to_arrow().to_pylist()
        for number, (condition, (_, _, partitions)) in enumerate(zip(conditions, BOTH, strict=True)):
            params = values if ":since" in condition else {}
            result = reader.sql(f"SELECT n FROM t WHERE {condition}", engine=engine, params=params)
            (read,) = result.cost().to_dict()["reads"]
            assert read["partitions"] == partitions, condition
            expected = sorted(row["n"] for row in plain if row[f"kept_{number}"])
            assert sorted(result.to_dict()["n"]) == expected, condition
        (key,) = keys
        ends = reader.sql(f"SELECT min({key}), max({key}), count(*), count({key}) FROM t", engine=engine)
        read_ends = reader.sql(
            f"SELECT min({key}), max({key}), count(*), count({key}) FROM df", engine=engine, data=whole
        )
        assert "metadata" in repr(ends)
        assert ends.to_arrow().to_pylist() == read_ends.to_arrow().to_pylist()


@pytest.mark.parametrize(
    "condition",
    [
        "day < DATE '10000-01-01'", "day < 'infinity'", "day > '-infinity'", "day > DATE '0044-03-15 (BC)'",
        "day < TIMESTAMP '2013-01-01 12:00:00'", "day < TIMESTAMPTZ '2013-01-01 12:00:00-11'", "day <= current_date",
        "day = DATE '10000-01-01'", "day + 1 > DATE '2013-12-27'", "day <> DATE '2013-01-01'",
    ],
)  # fmt: skip
def test_values_that_no_key_has_and_other_types_lose_no_row(session: sl.Session, condition: str):
    table = by_month(session, DATES)
    whole = {"df": table.scan().to_arrow()}
    found = session.sql(f"SELECT n FROM t WHERE {condition}", engine="duckdb").to_dict()["n"]
    assert sorted(found) == sorted(session.sql(f"SELECT n FROM df WHERE {condition}", data=whole).to_dict()["n"])
    assert table.scan(where=condition).count() == len(found)


@pytest.mark.parametrize("keys", [DATES, INSTANTS])
def test_lazy_frames_and_data_sets_have_the_same_rows(session: sl.Session, keys: dict[str, str]):
    pl = pytest.importorskip("polars")
    table, (key,) = by_month(session, keys), keys
    for since in (date(2013, 11, 2), instant(2013, 11, 2)) if keys is INSTANTS else (date(2013, 11, 2),):
        lazy = table.scan().to_polars(lazy=True).filter(pl.col(key) >= since)
        literal = pa.scalar(
            instant(2013, 11, 2) if keys is INSTANTS else since, table.at(1).schema.arrow.field(key).type
        )
        expected = table.scan().to_arrow().filter(pc.field(key) >= literal)["n"].to_pylist()
        assert sorted(lazy.collect()["n"].to_list()) == expected
        assert table.scan().to_dataset().to_table(filter=pc.field(key) >= literal)["n"].to_pylist() == expected


def test_keys_of_a_small_table_limit_a_large_one(session: sl.Session):
    for name, keys in (("days", DATES), ("instants", INSTANTS)):
        (key,) = keys
        table = by_month(session, keys, name)
        for month in range(1, 13):
            for day in (3, 4, 5):
                table.ingest(
                    [{key: date(2013, month, day) if keys is DATES else instant(2013, month, day), "n": -month}]
                )
    schema = sl.Schema({"id": "int"}, {}, {"day": "date?", "ts": "timestamp?"})
    few = session.create_table("few", schema)
    days = [date(2013, 2, 3), date(2013, 9, 4), None]
    few.ingest(
        [{"id": i, "day": day, "ts": day and instant(day.year, day.month, day.day)} for i, day in enumerate(days)]
    )
    beyond = pa.table({
        "id": pa.array([9], pa.int32()), "day": pa.array([2932897], pa.int32()).cast(pa.date32()),
        "ts": pa.array([2**62], pa.timestamp("us", "UTC")),
    })  # fmt: skip
    few.ingest(beyond)
    frame = {"df": few.scan().to_arrow(), "naive": pa.table({"ts": [datetime(2013, 2, 3)]})}  # noqa: DTZ001
    for statement, rows, partitions in (
        ("SELECT n FROM days JOIN few USING (day)", 2, 2), ("SELECT n FROM instants JOIN few USING (ts)", 2, 2),
        ("SELECT n FROM days WHERE day IN (SELECT day FROM df)", 2, 2),
        ("SELECT n FROM instants JOIN df USING (ts)", 2, 2),
        ("SELECT n FROM instants a JOIN few b ON a.ts = b.day", 2, 12),
        ("SELECT n FROM instants JOIN naive USING (ts)", 1, 1),
    ):  # fmt: skip
        result = session.sql(statement, engine="duckdb", data=frame)
        assert result.to_arrow().num_rows == rows, statement
        assert max(each["partitions"] for each in result.cost().to_dict()["reads"]) == partitions, statement


def test_old_rows_leave_a_table_that_is_partitioned_by_time(session: sl.Session):
    year = int(timedelta(days=365).total_seconds() * 1000)
    table = by_month(session, INSTANTS, properties={"sleeper.table.filters": f"ageOff(ts,{year})"})
    now = session._components.clock.now()
    table.ingest([{"ts": now, "n": -1}])
    assert table.scan().to_arrow()["n"].to_pylist() == [-1]
    assert session.sql("SELECT min(n) AS n, count(*) AS c FROM t").to_dict() == {"n": [-1], "c": [1]}
    table.maintenance.compact("all")
    assert table.scan(region="ts=[,2014-01-01)").count() == 0


def test_changes_of_a_span_of_time(session: sl.Session):
    table = by_month(session, INSTANTS)
    table.ingest([{"ts": instant(2013, 2, 2), "n": -1}, {"ts": instant(2013, 6, 2), "n": -2}])
    assert table.changes(2, 3, region="ts=[2013-02-01,2013-03-01)").added.to_arrow()["n"].to_pylist() == [-1]
    table.rollback(2)
    assert table.changes(3, 4, keys=[date(2013, 6, 2)]).removed.to_arrow()["n"].to_pylist() == [-2]


# Spark.


@pytest.mark.spark
@pytest.mark.parametrize("keys", [DATES, INSTANTS])
def test_spark_imports_compacts_and_reads_them_as_this_process_does(
    session: sl.Session, spark_engine: Any, tmp_path: Path, keys: dict[str, str]
):
    (key,), spark = keys, spark_engine.session()
    early = [date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(1883, 11, 18), date.max]
    values = [instant(day.year, day.month, day.day, 23, 59, 59, 999999) for day in early] if keys is INSTANTS else early
    rows = pa.table({key: values, "n": pa.array(range(len(values)), pa.int32())})
    expected = by_month(session, keys, "expected")
    expected.ingest(rows)
    with sl.connect(tmp_path / "warehouse", instance="demo", spark=spark) as reader:
        table = by_month(reader, keys)
        table.maintenance.split(at="1582-10-10")
        table.bulk_import(rows)
        assert not table.maintenance.check(deep=True).findings
        ends = [(each[f"min_{key}"], each[f"max_{key}"]) for each in table.inspect.files()]
        assert min(low for low, _ in ends) == values[0]
        assert max(high for _, high in ends) == values[-1]
        table.maintenance.compact("all", engine="spark")
        assert not table.maintenance.check(deep=True).findings
        assert table.scan().to_arrow() == expected.scan().to_arrow()
        for engine in ("duckdb", "spark"):
            count = reader.sql(f"SELECT count(*) AS c FROM t WHERE {key} < DATE '1582-10-10'", engine=engine)
            assert count.to_dict() == {"c": [2]}
        table.maintenance.split(at="2013-06-15")  # a part of a file is read by its keys
        ordered = reader.sql(f"SELECT n FROM t ORDER BY {key}, n", engine="spark").to_dict()["n"]
        assert ordered == reader.sql(f"SELECT n FROM expected ORDER BY {key}, n", engine="duckdb").to_dict()["n"]


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_the_data_source_reads_regions_and_filters_of_times(
    session: sl.Session, spark_engine: Any, tmp_path: Path, zone: str
):
    from pyspark.sql import functions as f

    by_month(session, INSTANTS)
    spark = spark_engine.session()
    before = spark.conf.get("spark.sql.session.timeZone")
    with sl.connect(tmp_path / "warehouse", instance="demo", spark=spark):
        try:
            spark.conf.set("spark.sql.session.timeZone", zone)
            loaded = spark.read.format("sleeper").option("table", "t")
            some = loaded.option("scan.region", "ts=[2013-02-10T05:00:00Z,2013-02-11)").load()
            assert some.count() == 19
            whole = spark.read.format("sleeper").load("t")
            micros = int(instant(2013, 12, 27, 5).timestamp()) * 1_000_000
            assert whole.filter(f.col("ts") >= f.timestamp_micros(f.lit(micros))).count() == 19
            assert whole.filter("ts >= DATE '2013-12-27'").count() == (24 if zone == "UTC" else 19)
        finally:
            spark.conf.set("spark.sql.session.timeZone", before)
