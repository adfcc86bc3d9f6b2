"""Frames over files never hide that a file is gone, and have the rows and types of ours."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrameReader

import sleeper_nb as sl


@pytest.fixture
def spark(spark_engine):
    return spark_engine.session()


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["gone", "emptied"])
@pytest.mark.spark
def test_a_file_that_is_gone_is_an_error_also_for_a_statement_that_was_run_before(session: sl.Session, damage):
    table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"v": "long"}))
    table.ingest([{"k": 1, "v": 2}])
    statement = "SELECT sum(v) AS v FROM t WHERE v > 1"
    assert session.sql(statement, engine="spark").to_arrow().to_pylist() == [{"v": 2}]
    not_read = session.sql(statement, engine="spark")
    (path,) = Path(session.location).rglob("data/**/*.parquet")
    damage(path)
    for read in (lambda: session.sql(statement, engine="spark").to_arrow(), not_read.to_arrow):
        with pytest.raises((sl.NotFound, sl.StorageError), match=r"no file|bytes"):
            read()


@pytest.mark.parametrize("deleted", [False, True], ids=["plain", "with deleted rows"])
@pytest.mark.spark
def test_a_file_that_goes_while_spark_lists_it_is_an_error(session: sl.Session, monkeypatch, deleted):
    properties = {
        "sleeper.table.deletion.vector.percent.max": "100",
        "sleeper.table.deletion.vector.file.bytes.min": "0",
    }
    table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"v": "long"}), properties=properties)
    table.ingest([{"k": 1, "v": 2}, {"k": 2, "v": 3}])
    table.ingest([{"k": 3, "v": 4}])
    if deleted:
        table.delete("k = 2")
    read = DataFrameReader.parquet

    def listed_without_the_last(reader, *paths):  # as Spark does with one that it does not find any more
        Path(paths[-1]).unlink()
        return read(reader, *(paths[:-1] or paths))

    monkeypatch.setattr(DataFrameReader, "parquet", listed_without_the_last)
    with pytest.raises(sl.NotFound, match="no file"):
        session.sql("SELECT * FROM t", engine="spark").to_arrow()


@pytest.mark.spark
def test_rows_that_come_and_go_are_seen_by_the_same_statement(session: sl.Session):
    table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"v": "long"}))
    statement = "SELECT a.v + b.v AS v FROM t a JOIN t b ON a.k = b.k WHERE a.v > 0 ORDER BY v"

    def values():
        return [row["v"] for row in session.sql(statement, engine="spark").to_arrow().to_pylist()]

    table.ingest([{"k": 1, "v": 2}])
    assert values() == [4]
    table.ingest([{"k": 2, "v": 5}])
    assert values() == [4, 10]
    table.delete("k = 1", engine="duckdb")
    assert values() == [10]
    table.rollback(1)
    assert values() == []


@pytest.mark.spark
def test_results_over_the_same_files_are_joined_as_any_two_frames(session: sl.Session):
    table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"v": "long"}))
    table.ingest([{"k": 1, "v": 2}, {"k": 2, "v": 5}])
    one, other = (session.sql("SELECT * FROM t", engine="spark").to_spark() for _ in "ab")
    both = one.join(other, one.k < other.k).select(one.v, other.v.alias("w"))
    assert [tuple(row) for row in both.collect()] == [(2, 5)]
    assert sorted(one.join(other, "k").select(one.v, other.v).collect()) == [(2, 2), (5, 5)]


def test_a_setting_that_changes_types_changes_no_rows_of_ours(session: sl.Session, spark):
    table = session.create_table("t", sl.Schema({"at": "timestamp"}, {}, {}))
    table.ingest([{"at": datetime(2026, 1, 1, 12, tzinfo=UTC)}])

    def types():
        return session.sql("SELECT * FROM t", engine="spark").to_spark().dtypes

    before = types()
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        assert types() == before
        table.ingest([{"at": datetime(2026, 1, 2, 12, tzinfo=UTC)}])
        assert types() == before
    finally:
        spark.conf.unset("spark.sql.timestampType")
