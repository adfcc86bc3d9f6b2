"""Conditions on value columns prune files by their statistics, and metadata answers what they tell."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput, NotFound
from tests.support.engines import ENGINES

STATISTICS = "sleeper.table.statistics.columns"
SCHEMA = sl.Schema(
    {"k": "int"}, {"so": "string"}, {"ts": "timestamp?", "day": "date", "n": "int?", "b": "bytearray", "x": "double"}
)
MONTHS = 6


def month(number: int) -> pa.Table:
    begin = datetime(2013, number, 1, tzinfo=UTC)
    return pa.table(
        {
            "k": pa.array([1, 2, 3], pa.int32()), "so": [f"m{number}"] * 3,
            "ts": pa.array([begin, None, begin + timedelta(days=9)], pa.timestamp("us", "UTC")),
            "day": [begin.date()] * 3, "n": pa.array([number, None, number + 10], pa.int32()),
            "b": [bytes([number])] * 3, "x": [0.5, 1.5, float("nan")],
        }
    )  # fmt: skip


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    """A table with a file for each month, and statistics of all columns that can have them."""
    with sl.connect(tmp_path / "warehouse") as opened:
        table = opened.create_table("t", SCHEMA, properties={STATISTICS: "so,ts,day,n,b"})
        for number in range(1, MONTHS + 1):
            table.ingest(month(number))
        yield opened


def files(result: sl.QueryResult) -> int:
    ((_, reads),) = [(each, dict(each)) for each in result.cost().to_dict()["reads"]]
    return int(reads["files"])


CONDITIONS = [
    ("day = DATE '2013-03-01'", 1),
    ("day >= DATE '2013-05-01'", 2),
    ("day IN (DATE '2013-01-01', DATE '2013-06-01')", 2),
    ("day BETWEEN DATE '2013-02-01' AND DATE '2013-03-15'", 2),
    ("ts < TIMESTAMP '2013-02-01 00:00:00'", 1),
    ("ts >= TIMESTAMP '2013-06-10 00:00:00'", 1),
    ("ts >= TIMESTAMP '2013-06-10 00:00:01'", 0),
    ("n = 12", 5),
    ("n > 15 OR day = DATE '2013-01-01'", 2),
    ("n > 15 OR x > 1", 6),
    ("n > 15 AND x > 1", 1),
    ("n IS NULL", 6),
    ("day IS NULL", 0),
    ("so = 'm4'", 1),
    ("so < 'm3'", 2),
    ("so LIKE 'm5%'", 1),
    ("x = 0.5", 6),
    ("k = 1 AND day = DATE '2013-03-01'", 1),
]


@pytest.mark.parametrize("engine", ENGINES)
def test_conditions_on_value_columns_read_only_files_that_can_meet_them(session: sl.Session, engine: Any):
    everything = session.table("t").scan().to_arrow()
    kept = ", ".join(f"{condition} AS kept_{number}" for number, (condition, _) in enumerate(CONDITIONS))
    plain = session.sql(f"SELECT k, n, {kept} FROM df ORDER BY k, n", engine=engine, data={"df": everything})
    rows = plain.to_arrow().to_pylist()
    for number, (condition, count) in enumerate(CONDITIONS):
        result = session.sql(f"SELECT k, n FROM t WHERE {condition} ORDER BY k, n", engine=engine)
        assert files(result) == count, condition
        expected = [{"k": row["k"], "n": row["n"]} for row in rows if row[f"kept_{number}"]]
        assert result.to_arrow().to_pylist() == expected, condition


def test_scans_and_lazy_frames_leave_out_the_same_files(session: sl.Session):
    table = session.table("t")
    for condition, count in CONDITIONS:
        if "TIMESTAMP" in condition:
            continue
        scan = table.scan(where=condition)
        assert len(scan.plan().files) == count, condition
        read = session.sql(f"SELECT count(*) AS c FROM t WHERE {condition}", engine="duckdb").to_dict()["c"]
        assert [scan.count()] == read, condition
    pl = pytest.importorskip("polars")
    lazy = table.scan().to_polars(lazy=True).filter(pl.col("day") == date(2013, 3, 1))
    assert lazy.collect().height == 3


def test_a_zone_of_the_statement_counts(session: sl.Session):
    result = session.sql("SELECT k FROM t WHERE ts < TIMESTAMPTZ '2013-02-01 02:00:00+02'", engine="duckdb")
    assert files(result) == 1
    assert result.to_arrow().num_rows == 2
    assert files(session.sql("SELECT k FROM t WHERE ts < TIMESTAMPTZ '2013-02-01 00:00:00-02'", engine="duckdb")) == 2


@pytest.mark.spark
def test_the_time_zone_of_the_spark_session_counts(tmp_path: Path, spark_engine: Any):
    spark = spark_engine.session()
    zone = spark.conf.get("spark.sql.session.timeZone")
    with sl.connect(tmp_path, spark=spark) as session:
        table = session.create_table("t", SCHEMA)
        for number in (1, 6, 11):
            table.ingest(month(number))
        try:
            for name, condition, count, rows in (
                ("America/New_York", "ts < TIMESTAMP '2013-05-31 20:00:00'", 1, 2),
                ("America/New_York", "ts <= TIMESTAMP '2013-05-31 20:00:00'", 2, 3),
                ("America/New_York", "ts > TIMESTAMP '2013-11-03 01:30:00'", 1, 1),
                ("America/New_York", "ts > TIMESTAMP '2013-11-03 02:30:00'", 1, 1),
                ("+02:00", "ts < TIMESTAMP '2013-06-01 02:00:00'", 1, 2),
                ("UTC", "ts < TIMESTAMP '2013-06-01 00:00:00'", 1, 2),
            ):
                spark.conf.set("spark.sql.session.timeZone", name)
                result = session.sql(f"SELECT k FROM t WHERE {condition}", engine="spark")
                assert (files(result), result.to_arrow().num_rows) == (count, rows), (name, condition)
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)


def test_the_statement_says_which_statistics_it_used(session: sl.Session):
    cost = repr(session.sql("SELECT k FROM t WHERE day >= DATE '2013-05-01'", engine="duckdb").cost())
    assert "files by their day" in cost
    assert "files by" not in repr(session.sql("SELECT k FROM t WHERE x > 1", engine="duckdb").cost())


AGGREGATES = [
    "SELECT count(*), count(n), count(day) FROM t",
    "SELECT min(ts), max(ts), min(day), MAX(day) AS last FROM t",
    "SELECT min(n), max(N), min(so), max(so), min(b), max(b), min(k), max(k) FROM t AS u",
    "SELECT max(day) FROM t VERSION AS OF 3",
]


@pytest.mark.parametrize("engine", ENGINES)
def test_least_and_greatest_values_are_answered_by_metadata_as_by_reading(session: sl.Session, engine: Any):
    for statement in AGGREGATES:
        result = session.sql(statement, engine=engine)
        assert files(result) == 0
        assert "metadata" in repr(result)
        read = session.sql(f"{statement} WHERE x IS NOT NULL", engine=engine)
        assert files(read) > 0
        answer, expected = result.to_arrow(), read.to_arrow()
        assert answer.to_pylist() == expected.to_pylist(), statement
        assert answer.schema.remove_metadata() == expected.schema.remove_metadata(), statement


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT min(x) FROM t", "SELECT min(n), sum(n) FROM t", "SELECT min(n + 1) FROM t", "SELECT min(u.n) FROM t u",
        "SELECT min(DISTINCT n) FROM t", "SELECT max(n) FROM t WHERE k <> 9", "SELECT max(n) FROM t LIMIT 1",
        "SELECT k, max(n) FROM t GROUP BY k", "SELECT min(n) FILTER (k = 1) FROM t", "SELECT min(n, 2) FROM t",
    ],
)  # fmt: skip
def test_every_other_aggregate_is_read(session: sl.Session, statement: str):
    result = session.sql(statement, engine="duckdb")
    assert "metadata" not in repr(result)
    assert files(result) == MONTHS


def test_words_that_are_values_are_not_taken_for_columns(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        schema = sl.Schema({"k": "int"}, {}, {"null": "int?", "true": "int?"})
        table = session.create_table("t", schema, properties={STATISTICS: "null,true"})
        table.ingest([{"k": 1, "null": 7, "true": 7}, {"k": 2, "null": None, "true": 9}])
        for statement in ("SELECT count(null), min(null), count(true), max(true) FROM t", 'SELECT max("true") FROM t'):
            read = session.sql(f"{statement} WHERE k < 9", engine="duckdb").to_arrow()
            assert session.sql(statement, engine="duckdb").to_arrow() == read


def test_a_column_that_is_not_there_is_the_engines_error(session: sl.Session):
    with pytest.raises(InvalidInput, match='column "nn" not found'):
        session.sql("SELECT min(nn) FROM t")


def test_an_empty_table_has_no_least_value(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        session.create_table("t", SCHEMA)
        answer = session.sql("SELECT min(k), max(so), count(n) FROM t").to_arrow()
        assert answer.to_pylist() == [{"min(k)": None, "max(so)": None, "count(n)": 0}]


def test_rows_that_are_combined_or_changed_before_the_condition_are_all_read(tmp_path: Path):
    schema = sl.Schema({"k": "int"}, {}, {"n": "int"})
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", schema, properties={STATISTICS: "n", "sleeper.table.aggregations": "sum(n)"})
        table.ingest([{"k": 1, "n": 5}])
        table.ingest([{"k": 1, "n": 7}, {"k": 2, "n": 1}])
        for condition in ("n = 12", "n > 6"):
            result = session.sql(f"SELECT k, n FROM t WHERE {condition}", engine="duckdb")
            assert result.to_arrow().to_pylist() == [{"k": 1, "n": 12}]
            assert table.scan(where=condition).to_arrow().to_pylist() == [{"k": 1, "n": 12}]
        assert session.sql("SELECT max(n) AS n FROM t", engine="duckdb").to_dict() == {"n": [12]}


def test_old_rows_that_a_filter_drops_are_not_in_metadata_answers(tmp_path: Path):
    schema = sl.Schema({"k": "int"}, {}, {"at": "timestamp"})
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", schema, properties={"sleeper.table.filters": "ageOff(at,1000)"})
        table.ingest(pa.table({"k": pa.array([1], pa.int32()), "at": pa.array([0], pa.timestamp("us", "UTC"))}))
        assert session.sql('SELECT min("at") AS m, count(*) AS c FROM t').to_dict() == {"m": [None], "c": [0]}


def test_compactions_splits_rollbacks_and_other_stores_keep_statistics(session: sl.Session):
    table = session.table("t")
    table.maintenance.split(at=2)
    assert len({file.filename for file in table.scan(where="day = DATE '2013-03-01'").plan().files}) == 1
    assert "metadata" not in repr(session.sql("SELECT max(day) FROM t"))  # a file's greatest may be of the other leaf
    table.maintenance.compact("all")
    assert len(table.scan(where="day = DATE '2012-03-01'").plan().files) == 0
    assert "metadata" in repr(session.sql("SELECT max(day) FROM t"))
    session.admin.migrate("t", "TransactionLogStateStore")
    table = session.table("t")
    table.ingest(month(9))
    table.rollback(5)
    assert len(table.scan(where="day = DATE '2013-03-01'").plan().files) == 1
    assert session.sql("SELECT max(day) AS d FROM t").to_dict() == {"d": [date(2013, 4, 1)]}


def test_the_property_decides_from_the_next_file_on(session: sl.Session):
    table = session.table("t")
    table.set_properties({STATISTICS: "none"})
    table.ingest(month(7))
    assert len(table.scan(where="day = DATE '2013-03-01'").plan().files) == 2
    table.set_properties({STATISTICS: "auto"})
    table.maintenance.compact("all")
    assert len(table.scan(where="day = DATE '2012-03-01'").plan().files) == 0
    assert len(table.scan(where="n = 500").plan().files) == 1


def test_a_column_without_statistics_cannot_be_named_and_a_named_one_stays(session: sl.Session):
    table = session.table("t")
    with pytest.raises(InvalidInput, match="'x' is double, which has no statistics"):
        table.set_properties({STATISTICS: "x"})
    with pytest.raises(NotFound, match="'dya'"):
        session.create_table("u", SCHEMA, properties={STATISTICS: "dya"})
    with pytest.raises(InvalidInput, match=f"column 'n' is named by the table's {STATISTICS}"):
        table.alter(rename_columns={"n": "m"})
    table.set_properties({STATISTICS: "auto"})
    table.alter(rename_columns={"n": "m", "day": "date_of"})
    assert len(table.scan(where="m = 3").plan().files) == 3
    assert len(table.scan(where="date_of = DATE '2013-03-01'").plan().files) == 1
    table.alter(drop_columns=["m"])
    table.alter(add_columns={"m": "int?"})
    assert len(table.scan(where="m = 3").plan().files) == MONTHS
    assert session.sql("SELECT count(m) AS c FROM t").to_dict() == {"c": [0]}


def test_the_files_of_a_version_show_their_statistics(session: sl.Session):
    shown = session.sql("SELECT min_day, max_day, nulls_n, min_so FROM t$files ORDER BY min_day").to_arrow().to_pylist()
    assert shown[0] == {"min_day": date(2013, 1, 1), "max_day": date(2013, 1, 1), "nulls_n": 1, "min_so": "m1"}
    assert "max day" in repr(session.table("t").inspect.files())


@pytest.mark.spark
def test_files_of_a_bulk_import_and_of_a_compaction_on_spark_have_statistics(tmp_path: Path, spark_engine: Any):
    with sl.connect(tmp_path, spark=spark_engine.session()) as session:
        table = session.create_table("t", SCHEMA, properties={STATISTICS: "so,ts,day,n,b"})
        for number in (1, 2):
            table.bulk_import(month(number))
        result = session.sql("SELECT min(day), max(ts), min(so), max(b), count(n) FROM t", engine="duckdb")
        read = session.sql(
            "SELECT min(day), max(ts), min(so), max(b), count(n) FROM t WHERE x < 9 OR x > 1", engine="duckdb"
        )
        assert "metadata" in repr(result)
        assert result.to_arrow().to_pylist() == read.to_arrow().to_pylist()
        assert len(table.scan(where="n = 1").plan().files) == 1
        table.maintenance.compact("all", engine="spark")
        assert len(table.scan(where="n = 20").plan().files) == 0
