"""Structs, short numbers, UUIDs, times and widened columns on Spark: shown as the page says, read and written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sleeper_nb as sl
from tests.support.combinations import some
from tests.support.types_page import ROWS
from tests.support.widened import EXPECTED, NEW, OLD, SCHEMA, WIDER, WITH_FIELDS

pytestmark = pytest.mark.spark


@pytest.fixture
def spark(spark_engine: Any) -> SparkSession:
    return spark_engine.session()


@pytest.fixture
def session(tmp_path: Path, spark: SparkSession) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "w", spark=spark) as opened:
        yield opened


@pytest.fixture
def table(session: sl.Session, tmp_path: Path) -> sl.Table:
    """A table with a column of every type: a row of values, and one of nulls."""
    fields = {f"c{number}": f"{kind}?" for number, kind in enumerate(ROWS)}
    made = session.create_table("t", sl.Schema({"k": "int"}, {}, fields))
    cells = ", ".join(f'"c{number}": {row["JSON"]}' for number, row in enumerate(ROWS.values()))
    (tmp_path / "in.json").write_text(f'{{"k": 1, {cells}}}\n{{"k": 2}}\n', encoding="utf-8")
    made.ingest(tmp_path / "in.json")
    return made


def rows(frame: Any, schema: sl.Schema) -> list[dict[str, Any]]:
    """Return the rows of a frame in Arrow's types of a table, by key."""
    return frame.toArrow().cast(schema.arrow).sort_by("k").to_pylist()


def test_spark_shows_the_types_of_the_page(table: sl.Table):
    assert [kind for _, kind in table.scan().to_spark().dtypes[1:]] == [row["Spark"] for row in ROWS.values()]


def test_each_way_into_spark_gives_the_values(
    table: sl.Table, session: sl.Session, spark: SparkSession, tmp_path: Path
):
    expected = table.scan().to_arrow().to_pylist()
    source = spark.read.format("sleeper").option("warehouse", str(tmp_path / "w")).option("table", "t")
    frames = {
        "scan": table.scan().to_spark(),
        "condition": table.scan(where="k > 0").to_spark(),
        "sql": session.sql("SELECT * FROM t", engine="spark").to_spark(),
        "source": source.load(),
        "named": spark.table("t"),
    }
    assert {name: rows(frame, table.schema) == expected for name, frame in frames.items()} == dict.fromkeys(
        frames, True
    )


def test_each_way_from_spark_keeps_the_values(table: sl.Table, session: sl.Session, tmp_path: Path):
    expected = table.scan().to_arrow().to_pylist()
    table.export(tmp_path / "out.parquet")
    frame = table.scan().to_spark()
    writes = {
        "frame": lambda made: made.ingest(frame),
        "import": lambda made: made.bulk_import(frame),
        "file": lambda made: made.bulk_import(tmp_path / "out.parquet"),
        "append": lambda made: frame.write.format("sleeper").option("warehouse", str(tmp_path / "w"))
        .option("table", made.name).mode("append").save(),
    }  # fmt: skip
    for name, write in writes.items():
        made = session.create_table(name, table.schema)
        write(made)
        assert session.table(name).scan().to_arrow().to_pylist() == expected, name
    made.ingest([{"k": 3}])
    made.maintenance.compact("all", engine="spark")
    assert made.scan().to_arrow().to_pylist() == [*expected, {**expected[1], "k": 3}]


@pytest.mark.parametrize(
    ("sql", "words"),
    some(
        [
            ("SELECT 1 AS k, 'no uuid' AS u, NULL AS a", "column 'u': 'no uuid' \\(string\\) cannot become uuid"),
            ("SELECT 1 AS k, NULL AS u, named_struct('n', 1) AS a", "column 'a.zip' is missing"),
            (
                "SELECT 1 AS k, NULL AS u, named_struct('zip', CAST(NULL AS STRING), 'n', 1) AS a",
                "column 'a.zip' is NULL",
            ),
            (
                "SELECT 1 AS k, NULL AS u, named_struct('zip', 'x', 'n', 300) AS a",
                "column 'a.n': 300 .* become tinyint",
            ),
        ]
    ),
)
def test_wrong_values_of_spark_are_refused_with_their_path(
    session: sl.Session, spark: SparkSession, sql: str, words: str
):
    schema = sl.Schema({"k": "int"}, {}, {"u": "uuid?", "a": "struct<zip:string,n:tinyint?>?"})
    table = session.create_table("t", schema)
    for load in (table.ingest, table.bulk_import):
        with pytest.raises(sl.InvalidInput, match=words):
            load(spark.sql(sql))
    assert table.scan().to_arrow().num_rows == 0


def test_a_time_that_no_day_has_is_refused_through_spark(session: sl.Session, spark: SparkSession, tmp_path: Path):
    table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"at": "time?"}))
    late = pa.array([1, 90_000_000_000], pa.int64()).cast(pa.time64("us"))
    pq.write_table(pa.table({"k": pa.array([0, 1], pa.int32()), "at": late}), tmp_path / "late.parquet")
    with pytest.raises(sl.InvalidInput, match="column 'at', row 2, is 90,000,000,000 microseconds after midnight"):
        table.bulk_import(tmp_path / "late.parquet")
    assert table.scan().to_arrow().num_rows == 0


def test_a_session_without_times_says_which_setting_they_need(session: sl.Session, spark: SparkSession):
    table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"at": "time?"}))
    table.ingest([{"k": 1}])
    spark.conf.set("spark.sql.timeType.enabled", "false")
    try:
        with pytest.raises(
            sl.InvalidInput, match=r"no type for times of day\nhint: set spark\.sql\.timeType\.enabled=true"
        ):
            session.sql("SELECT * FROM t", engine="spark").to_arrow()
    finally:
        spark.conf.set("spark.sql.timeType.enabled", "true")


def test_spark_reads_older_files_with_wider_types(session: sl.Session, spark: SparkSession, tmp_path: Path):
    table = session.create_table("t", SCHEMA)
    table.ingest(OLD)
    table.alter(WITH_FIELDS, types=WIDER)
    table.ingest(NEW)
    for _ in range(2):
        assert rows(table.scan().to_spark(), table.schema) == EXPECTED
        assert rows(spark.table("t").where("n >= 1"), table.schema) == EXPECTED
        source = spark.read.format("sleeper").option("warehouse", str(tmp_path / "w")).option("table", "t")
        assert rows(source.load(), table.schema) == EXPECTED
        found = session.sql("SELECT max(n) AS n, max(d) AS d, min(f) AS f FROM t", engine="spark").to_arrow()
        assert found.to_pylist() == [{"n": 2**40, "d": Decimal("123456.789"), "f": 0.1}]
        table.maintenance.compact("all", engine="spark")
    assert table.at(2).scan().to_spark().toArrow().schema.field("n").type == pa.int32()


def test_intervals_of_months_arrive_as_their_texts(session: sl.Session):
    months = "INTERVAL '1-2' YEAR TO MONTH"
    sql = f"SELECT {months} AS c, make_interval(1, 2) AS c, array({months}) AS l, INTERVAL '1' DAY AS d, 7 AS n"
    result = session.sql(sql, engine="spark")
    assert [column[0].as_py() for column in result.to_arrow().columns] == [
        months, "1 years 2 months", f"[{months}]", timedelta(days=1), 7,
    ]  # fmt: skip
    assert months in repr(result)


def test_a_column_without_a_type_in_arrow_is_refused_by_each_load(session: sl.Session):
    frame = session.sql("SELECT 1 AS k, INTERVAL '1-2' YEAR TO MONTH AS c", engine="spark").to_spark()
    table = session.create_table("known", sl.Schema({"k": "int"}, values={"c": "string"}))
    loads = (
        partial(session.create_table, "of_months", frame, row_keys=["k"]),
        partial(session.admin.plan_table, "of_months", frame, row_keys=["k"]),
        partial(table.ingest, frame),
        partial(table.ingest, frame, dry_run=True),
        partial(table.bulk_import, frame),
    )
    for load in loads:
        with pytest.raises(sl.InvalidInput) as refused:
            load()
        message = "column 'c' cannot be loaded: Arrow has no type for Spark's interval year to month"
        assert refused.value.message == message
        assert str(refused.value.hint).startswith("cast it to text first: CAST(`c` AS string)")
