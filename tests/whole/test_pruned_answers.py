"""A statement whose conditions prune partitions and files gives the rows that a table of the engine gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import sleeper_nb as sl
from tests.support.combinations import some
from tests.support.examples import examples
from tests.support.statements import NUMBERS, TEXTS, quoted, statements
from tests.support.statements import tests_on as conditions_on

SCHEMA = sl.Schema({"k": "int", "s": "string"}, {"d": "date"}, {"v": "int?", "w": "long"})
SPLITS = [3, 7, 11, 20, 28]
WORDS = ["", "a", "ab", "abcd", "b'c", "é", "\U0010ffff", "zz", "a,b", "null"]


def rows(numbers: range, step: int) -> list[dict[str, Any]]:
    return [
        {
            "k": n * step % 31, "s": WORDS[n % len(WORDS)], "d": date(2026, 1, 1) + timedelta(days=n % 40),
            "v": None if n % 3 == 0 else n % 17, "w": n,
        }
        for n in numbers
    ]  # fmt: skip


@dataclass(frozen=True)
class Both:
    """The tables in a warehouse, and the same rows as tables of each engine."""

    session: sl.Session
    plain: duckdb.DuckDBPyConnection
    arrow: dict[str, pa.Table]

    def names(self, **tables: str) -> dict[str, str]:
        return {"t": "t", "u": "u", "old": "t VERSION AS OF 3", **tables}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("pruned")
    with sl.connect(folder / "warehouse") as session, duckdb.connect() as plain:
        by_values = {"sleeper.table.statistics.columns": "d,v,w"}
        t = session.create_table("t", SCHEMA, split_points=SPLITS, properties=by_values)
        for part in range(4):
            t.ingest(rows(range(part * 40, part * 40 + 40), 7))
            t.ingest(rows(range(300 + part * 2, 302 + part * 2), 7))
        t.maintenance.compact("all", partition=t.at().partition_tree.leaves[0].id)
        t.ingest(rows(range(200, 230), 5))
        t.maintenance.split(at=5)  # files that two leaves share
        u = session.create_table("u", SCHEMA, split_points=[10, 20], properties=by_values)
        u.ingest(rows(range(25), 3))
        arrow = {"t": t.scan().to_arrow(), "u": u.scan().to_arrow(), "old": t.at(3).scan().to_arrow()}
        for name, table in arrow.items():
            plain.register(f"rows_of_{name}", table)
            plain.execute(f"CREATE TABLE plain_{name} AS FROM rows_of_{name}")
        yield Both(session, plain, arrow)


def in_any_order(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def answer(both: Both, statement: str, engine: Any) -> sl.QueryResult:
    return both.session.sql(statement.format(**both.names()), engine=engine)


def check_on_duckdb(both: Both, statement: str) -> None:
    plain = both.plain.sql(statement.format(t="plain_t", u="plain_u", old="plain_old")).to_arrow_table()
    assert in_any_order(answer(both, statement, "duckdb").to_arrow()) == in_any_order(plain)


@examples(60)
@given(statements())
def test_duckdb_gives_the_rows_of_its_own_tables(both: Both, statement: str):
    check_on_duckdb(both, statement)


@pytest.mark.long
@settings(max_examples=1000)
@given(statements())
def test_duckdb_gives_the_rows_of_its_own_tables_for_thousands_of_statements(both: Both, statement: str):
    check_on_duckdb(both, statement)


KEY_TESTS = st.lists(
    st.one_of(
        st.builds(lambda sign, n: f"k {sign} {n}", st.sampled_from(["=", "<", ">="]), NUMBERS),
        st.builds(lambda low, high: f"k BETWEEN {low} AND {high}", NUMBERS, NUMBERS),
        st.builds(lambda many: f"k IN ({', '.join(map(str, many))})", st.lists(NUMBERS, min_size=1, max_size=14)),
        st.builds(lambda many: f"s IN ({', '.join(map(quoted, many))})", st.lists(TEXTS, min_size=1, max_size=4)),
        st.builds(lambda low, high: f"s BETWEEN {quoted(low)} AND {quoted(high)}", TEXTS, TEXTS),
        st.sampled_from(["v IN (1, 3)", "3 IN (k, v)", "5 IN (k)", "k IN (3, v)", "k IN (3, NULL)", "3 BETWEEN v AND k",
                         "k IN (3, 3, 4294967299)", "k NOT IN (3, 5)", "s IN ('a', NULL)", "k IN (2, 3.0)"]),
    ),
    min_size=1, max_size=3,
).map(" AND ".join)  # fmt: skip
"""Conditions of which most are exactly some ranges of row keys, so that no row is tested."""
CHOSEN = st.sampled_from([
    ({}, "true"), ({"keys": [3, 5, 5, 20]}, "k IN (3, 5, 20)"), ({"region": {"k": (4, 21)}}, "k >= 4 AND k < 21"),
    ({"keys": [(3, "a"), (3, "ab")]}, "k = 3 AND s IN ('a', 'ab')"), ({"limit": 10**6}, "true"),
])  # fmt: skip


@examples(120)
@given(st.one_of(KEY_TESTS, KEY_TESTS, conditions_on("")), CHOSEN)
def test_a_scan_with_a_condition_gives_the_rows_that_sql_gives(
    both: Both, where: str, chosen: tuple[dict[str, Any], str]
):
    options, also = chosen
    plain = both.plain.sql(f"SELECT * FROM plain_t WHERE ({where}) AND {also}").to_arrow_table()
    assert in_any_order(both.session.table("t").scan(where=where, **options).to_arrow()) == in_any_order(plain)


@pytest.fixture(scope="module")
def spark(spark_engine: Any, both: Both) -> Iterator[SparkSession]:
    session = spark_engine.session()
    for name, table in both.arrow.items():
        session.createDataFrame(table).createOrReplaceTempView(f"plain_{name}")
    yield session
    for name in both.arrow:
        session.catalog.dropTempView(f"plain_{name}")


@pytest.fixture(scope="module")
def on_spark(tmp_path_factory: pytest.TempPathFactory, both: Both, spark: SparkSession) -> Iterator[Both]:
    with sl.connect(Path(both.session.location).parent, spark=spark) as session:
        yield Both(session, both.plain, both.arrow)


def check_on_spark(both: Both, spark: SparkSession, statement: str) -> None:
    plain = spark.sql(statement.format(t="plain_t", u="plain_u", old="plain_old")).toArrow()
    assert in_any_order(answer(both, statement, "spark").to_arrow()) == in_any_order(plain)


@pytest.mark.spark
@examples(10)
@given(statements())
def test_spark_gives_the_rows_of_its_own_tables(on_spark: Both, spark: SparkSession, statement: str):
    check_on_spark(on_spark, spark, statement)


@pytest.mark.long
@pytest.mark.spark
@settings(max_examples=60)
@given(statements())
def test_spark_gives_the_rows_of_its_own_tables_for_many_statements(
    on_spark: Both, spark: SparkSession, statement: str
):
    check_on_spark(on_spark, spark, statement)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("where", "partitions"),
    some(
        [
            ("k IN (3, 5, 20) AND v IN (1, 3, 4294967299)", 3),
            ("k BETWEEN 3 AND 6 AND abs(v) < 9", 2),
            ("k IN (3, 20)", 2),
            ("s IN ('a', 'ab')", 7),
            ("k IN (3, NULL)", 7),
        ]
    ),
)
def test_a_scan_with_a_condition_gives_the_same_rows_as_a_frame_of_spark(on_spark: Both, where: str, partitions: int):
    scan = on_spark.session.table("t").scan(where=where)
    plain = on_spark.plain.sql(f"SELECT * FROM plain_t WHERE {where}").to_arrow_table()
    assert in_any_order(scan.to_spark().toArrow()) == in_any_order(plain)
    assert len(scan.plan().leaves) == partitions
