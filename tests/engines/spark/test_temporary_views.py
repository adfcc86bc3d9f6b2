"""Statements on Spark name frames by temporary views, which leave nothing behind and end nothing that is kept."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession, functions

import sleeper_nb as sl
from sleeper_nb.engines.spark.gateway import own_views

pytestmark = pytest.mark.spark


@pytest.fixture
def spark(spark_engine) -> SparkSession:
    return spark_engine.session()


@pytest.fixture
def warehouse(tmp_path, spark):
    with sl.connect(tmp_path, spark=spark) as session:
        for name, column in (("a", "v"), ("b", "longer_name")):
            session.create_table(name, sl.Schema({"k": "long"}, {}, {column: "double"})).ingest([{"k": 1, column: 2.5}])
        yield session


def test_a_frame_that_the_user_has_cached_stays_cached(warehouse, spark):
    mine = spark.range(5).cache()
    try:
        for _ in range(2):
            rows = warehouse.sql("SELECT sum(id) AS s FROM mine", engine="spark", data={"mine": mine}).to_arrow()
            assert rows.to_pylist() == [{"s": 10}]
        assert mine.storageLevel.useMemory
        assert "InMemoryTableScan" in mine._jdf.queryExecution().executedPlan().toString()
    finally:
        mine.unpersist()


def test_a_command_in_a_frame_is_not_run_again(warehouse, spark):
    before = spark.sql("SHOW TABLES")
    shown = before.collect()
    for _ in range(2):
        rows = warehouse.sql("SELECT * FROM before WHERE tableName > ''", engine="spark", data={"before": before})
        assert rows.to_arrow()["tableName"].to_pylist() == [each.tableName for each in shown]
        made = warehouse.sql(
            "SELECT count(*) AS n FROM before JOIN a ON a.k = 1", engine="spark", data={"before": before}
        )
        assert made.to_arrow()["n"].to_pylist() == [len(shown)]


def test_the_rows_of_a_chart_are_computed_once(warehouse, spark):
    computed = spark.sparkContext.accumulator(0)

    @functions.udf("double")
    def noted(value):
        computed.add(1)
        return float(value % 10)

    frame = spark.range(20_000).select("id", noted("id").alias("v"))
    made = warehouse.sql("SELECT * FROM frame", engine="spark", data={"frame": frame}).plot("line")
    assert made.notes[0].startswith("20,000 rows: least, mean and greatest v")
    assert computed.value <= 2 * 20_000  # once to count rows, once for the chart; it was three times


def test_commands_show_the_columns_of_their_own_table(warehouse):
    for name, column in (("a", "v"), ("b", "longer_name")):
        assert warehouse.sql(f"SELECT k FROM {name}", engine="spark").to_arrow().num_rows == 1
        described = warehouse.sql(f"DESCRIBE {name}", engine="spark").to_arrow()
        assert described["col_name"].to_pylist() == ["k", column]


def test_explain_shows_the_plan_of_its_own_table(warehouse):
    warehouse.sql("SELECT k FROM a", engine="spark").to_arrow()
    plan = warehouse.sql("EXPLAIN EXTENDED SELECT * FROM b", engine="spark").to_arrow()["plan"][0].as_py()
    assert "longer_name" in plan
    assert "[k#" in plan


@pytest.mark.parametrize("statement", ["SELECT a.v, b.longer_name FROM a JOIN b USING (k)", "DESCRIBE a"])
def test_no_view_is_left(warehouse, spark, statement):
    before = own_views(spark)
    warehouse.sql(statement, engine="spark").to_arrow()
    with pytest.raises(sl.SleeperError):
        warehouse.sql("SELECT nothing FROM a JOIN b USING (k)", engine="spark").to_arrow()
    assert own_views(spark) == before
