"""Conditions and joins on keys that are times prune partitions, and no row of the answer, in any time zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import sleeper_nb as sl
from tests.support.combinations import some
from tests.support.examples import examples
from tests.support.time_statements import DAYS, INSTANTS, time_statements

ZONES = ["UTC", "Europe/London", "America/New_York", "Asia/Kathmandu", "+14:00", "WET"]
ZONE = "spark.sql.session.timeZone"


def rows(count: int, step: int) -> list[dict[str, Any]]:
    return [
        {"d": DAYS[n * step % len(DAYS)], "ts": INSTANTS[n * (step + 2) % len(INSTANTS)], "w": n} for n in range(count)
    ]


@dataclass(frozen=True)
class Both:
    """Three tables in a warehouse, one of them with a single file, and the same rows as tables of each engine."""

    session: sl.Session
    plain: duckdb.DuckDBPyConnection
    arrow: dict[str, pa.Table]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("times")
    with sl.connect(folder / "warehouse") as session, duckdb.connect() as plain:
        plain.execute("SET TimeZone = 'UTC'")
        schema = sl.Schema({"d": "date", "ts": "timestamp"}, {}, {"w": "int"})
        t = session.create_table("t", schema, split_points=sorted(DAYS)[1:-1:2])
        for step in (1, 3, 5):
            t.ingest(rows(60, step))
        t.maintenance.split(at="2013-03-10T09:00:00Z", key="ts")  # files that several leaves share
        schema = sl.Schema({"ts": "timestamp", "d": "date"}, {}, {"w": "int"})
        u = session.create_table("u", schema, split_points=sorted(set(INSTANTS))[1::4])
        u.maintenance.split(at=datetime(2013, 3, 31, 1, tzinfo=UTC))
        u.ingest(rows(40, 7))
        u.maintenance.compact("all")
        session.create_table("few", schema).ingest(rows(9, 11))
        arrow = {name: session.table(name).scan().to_arrow() for name in ("t", "u", "few")}
        for name, table in arrow.items():
            plain.register(f"rows_of_{name}", table)
            plain.execute(f"CREATE TABLE plain_{name} AS FROM rows_of_{name}")
        yield Both(session, plain, arrow)


def in_any_order(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


PLAIN = {"t": "plain_t", "u": "plain_u", "few": "plain_few"}
OURS = {"t": "t", "u": "u", "few": "few"}


def check_on_duckdb(both: Both, statement: str) -> None:
    expected = both.plain.sql(statement.format(**PLAIN, tz="TIMESTAMPTZ")).to_arrow_table()
    found = both.session.sql(statement.format(**OURS, tz="TIMESTAMPTZ"), engine="duckdb").to_arrow()
    assert in_any_order(found) == in_any_order(expected)


@examples(60)
@given(time_statements())
def test_duckdb_gives_the_rows_of_its_own_tables(both: Both, statement: str):
    check_on_duckdb(both, statement)


@pytest.mark.long
@settings(max_examples=1000)
@given(time_statements())
def test_duckdb_gives_the_rows_of_its_own_tables_for_many_statements(both: Both, statement: str):
    check_on_duckdb(both, statement)


@pytest.fixture(scope="module")
def spark(spark_engine: Any, both: Both) -> Iterator[SparkSession]:
    session = spark_engine.session()
    zone = session.conf.get(ZONE)
    for name, table in both.arrow.items():
        session.createDataFrame(table).createOrReplaceTempView(f"plain_{name}")
    yield session
    session.conf.set(ZONE, zone)
    for name in both.arrow:
        session.catalog.dropTempView(f"plain_{name}")


@pytest.fixture(scope="module")
def on_spark(both: Both, spark: SparkSession) -> Iterator[Both]:
    with sl.connect(Path(both.session.location).parent, spark=spark) as session:
        yield Both(session, both.plain, both.arrow)


def check_on_spark(both: Both, spark: SparkSession, statement: str, zone: str) -> None:
    spark.conf.set(ZONE, zone)
    expected = spark.sql(statement.format(**PLAIN, tz="TIMESTAMP")).toArrow()
    found = both.session.sql(statement.format(**OURS, tz="TIMESTAMP"), engine="spark").to_arrow()
    assert in_any_order(found) == in_any_order(expected)


@pytest.mark.spark
@examples(10)
@given(time_statements(), st.sampled_from(ZONES))
def test_spark_gives_the_rows_of_its_own_tables_in_every_zone(
    on_spark: Both, spark: SparkSession, statement: str, zone: str
):
    check_on_spark(on_spark, spark, statement, zone)


@pytest.mark.long
@pytest.mark.spark
@settings(max_examples=200)
@given(time_statements(), st.sampled_from(ZONES))
def test_spark_gives_the_rows_of_its_own_tables_for_many_statements(
    on_spark: Both, spark: SparkSession, statement: str, zone: str
):
    check_on_spark(on_spark, spark, statement, zone)


JOINED = [
    ("SELECT a.w, b.w FROM t a JOIN few b ON a.d = b.d", True),
    ("SELECT a.w, b.w FROM t a JOIN few b ON a.d = b.d AND a.ts = b.ts", True),
    ("SELECT w FROM t WHERE d IN (SELECT d FROM few)", True),
    ("SELECT b.w, a.w FROM few b LEFT JOIN t a ON a.d = b.d", True),
    ("SELECT a.w FROM t a JOIN df b ON a.d = b.d", True),
    ("SELECT a.w FROM t a JOIN df b ON a.ts = b.d AND a.d = CAST(b.ts AS DATE)", False),
    ("SELECT a.w FROM t a JOIN few b ON a.d = b.ts", False),
    ("SELECT a.w FROM t a LEFT JOIN few b ON a.d = b.d", False),
]


def check_partitions_of_joined(both: Both, engine: Literal["duckdb", "spark"], statement: str, fewer: bool) -> None:
    frame = both.arrow["few"].slice(0, 3)
    result = both.session.sql(statement, engine=engine, data={"df": frame})
    (read,) = (each for each in result.cost().to_dict()["reads"] if each["source"].startswith("t "))
    assert (read["partitions"] < len(both.session.table("t").at().partition_tree.leaves)) is fewer
    both.plain.register("rows_of_df", frame)
    plain = statement.replace("t a", "plain_t a").replace("FROM t ", "FROM plain_t ").replace("df b", "rows_of_df b")
    expected = both.plain.sql(plain.replace("few", "plain_few")).to_arrow_table()
    assert in_any_order(result.to_arrow()) == in_any_order(expected)


@pytest.mark.parametrize(("statement", "fewer"), JOINED)
def test_duckdb_reads_only_the_partitions_that_times_of_a_small_input_reach(both: Both, statement: str, fewer: bool):
    check_partitions_of_joined(both, "duckdb", statement, fewer)


@pytest.mark.spark
@pytest.mark.parametrize(("statement", "fewer"), some(JOINED, every=3))
def test_spark_reads_only_the_partitions_that_times_of_a_small_input_reach(
    on_spark: Both, spark: SparkSession, statement: str, fewer: bool
):
    spark.conf.set(ZONE, "UTC")
    check_partitions_of_joined(on_spark, "spark", statement, fewer)
