"""Conditions on Spark have the rows that they have on DuckDB, where Spark's readers of files alone would lose some."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

import sleeper_nb as sl
from tests.support.combinations import some

pytestmark = pytest.mark.spark


@pytest.fixture
def spark(spark_engine: Any) -> Any:
    return spark_engine.session()


def both(session: sl.Session, condition: str, table: str = "t") -> tuple[list[Any], list[Any]]:
    statement = f"SELECT k FROM {table} WHERE {condition} ORDER BY k"
    return tuple(session.sql(statement, engine=each).to_arrow()["k"].to_pylist() for each in ("spark", "duckdb"))


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_both_zeros_are_one_number(session: sl.Session, zero: float):
    rows = {"k": pa.array(range(6), pa.int64()), "d": pa.array([zero, 1.5] * 3)}
    session.create_table("t", sl.Schema({"k": "long"}, {}, {"d": "double"})).ingest(pa.table(rows))
    for condition in ("d = 0", "d >= 0.0", "d <= 0.0", "d IN (0, 7)", "d = -0e0", "d BETWEEN 0 AND 1"):
        on_spark, on_duckdb = both(session, condition)
        assert on_spark == on_duckdb, condition
        assert {0, 2, 4} <= set(on_spark), condition


def test_a_deletion_on_spark_finds_both_zeros(session: sl.Session):
    table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"d": "double"}))
    table.ingest(pa.table({"k": pa.array(range(4), pa.int64()), "d": [-0.0, 1.5, 0.0, 1.5]}))
    assert session.sql("DELETE FROM t WHERE d = 0", engine="spark").deleted == 2


@pytest.mark.parametrize(
    "day", some([date(1582, 10, 5), date(1582, 10, 4), date(1582, 10, 10), date(1582, 10, 15)], every=4)
)
def test_days_that_the_calendar_of_1582_left_out_are_found(session: sl.Session, day: date):
    at = datetime(day.year, day.month, day.day, tzinfo=UTC)
    schema = sl.Schema({"k": "long"}, {}, {"day": "date", "moment": "timestamp"})
    session.create_table("t", schema).ingest([{"k": 1, "day": day, "moment": at}])
    for condition in (f"day = DATE '{day}'", f"day >= DATE '{day}'", f"moment >= TIMESTAMP '{day} 00:00:00'"):
        assert both(session, condition) == ([1], [1])


@pytest.mark.parametrize(
    "name", some(["IDENTIFIER('t')", "identifier ('t')", "IDENTIFIER('default.t')", "IDENTIFIER(:p)"], every=3)
)
def test_a_name_that_is_computed_is_refused_as_its_version_would_be_unknown(session: sl.Session, name: str):
    session.create_table("t", sl.Schema({"k": "long"}))
    for statement in (f"SELECT * FROM {name}", f"SELECT (SELECT count(*) FROM {name}) FROM t WHERE k > 1"):
        with pytest.raises(sl.InvalidInput, match="does not accept computed names"):
            session.sql(statement, engine="spark", params={"p": "t"} if ":p" in name else None)


def test_a_command_that_reads_a_table_runs_once(session: sl.Session):
    session.create_table("t", sl.Schema({"k": "long"})).ingest(pa.table({"k": pa.array(range(20), pa.int64())}))

    def run(statement: str) -> list[dict[str, Any]]:
        return session.sql(statement, engine="spark").to_arrow().to_pylist()

    run("DECLARE OR REPLACE VARIABLE times INT DEFAULT 0")
    try:
        run("SET VAR times = times + 1 + (SELECT CAST(count(*) AS INT) FROM t WHERE k < 10)")
        assert run("SELECT times") == [{"times": 11}]
    finally:
        run("DROP TEMPORARY VARIABLE times")


def test_a_new_session_of_one_spark_is_used_with_a_warning_about_the_format(tmp_path, spark):
    with sl.connect(tmp_path / "a", spark=spark) as first:
        first.create_table("t", sl.Schema({"k": "long"})).ingest([{"k": 1}])
        other = spark.newSession()
        with pytest.warns(UserWarning, match=r"format\(\"sleeper\"\) of this Spark session stays"):
            opened = sl.connect(tmp_path / "b", spark=other)
        with opened as second:
            second.create_table("t", sl.Schema({"k": "long"})).ingest([{"k": 2}])
            assert second.sql("SELECT k FROM t", engine="spark").to_arrow()["k"].to_pylist() == [2]
        assert first.sql("SELECT k FROM t", engine="spark").to_arrow()["k"].to_pylist() == [1]
