"""Defaults, CHECKs and unique keys where Spark loads: a bulk import, and ``df.write.format("sleeper")``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import sleeper_nb as sl
from sleeper_nb.engines.spark.spark_errors import explain
from sleeper_nb.errors import InvalidInput

pytestmark = pytest.mark.spark

DDL = "id STRING KEY, n INT DEFAULT 5, fare DOUBLE NULL, note STRING NULL DEFAULT 'x', CHECK (fare >= 0), UNIQUE KEYS"


@pytest.fixture
def spark(spark_engine):
    return spark_engine.session()


@pytest.fixture
def table(session):
    return session.create_table("t", sl.Schema.from_ddl(DDL), ["h", "p"])


def frame_of(spark: Any, rows: list[tuple[str, Any]], names: tuple[str, str] = ("id", "fare")) -> Any:
    """Return rows as a frame that needs no Python process of Spark, as one of tuples would."""
    return spark.createDataFrame(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))))


def load_by(way: str, spark: Any, table: sl.Table, rows: list[tuple[str, float | None]], folder: Path) -> None:
    frame = frame_of(spark, rows)
    if way == "write":
        frame.write.format("sleeper").option("table", "t").mode("append").save()
    elif way == "parquet":
        parquet.write_table(pa.table({"id": [r[0] for r in rows], "fare": [r[1] for r in rows]}), folder / "x.parquet")
        table.bulk_import(str(folder / "x.parquet"))
    elif way == "csv":
        lines = [f"{key},{'' if fare is None else fare}" for key, fare in rows]
        (folder / "x.csv").write_text("\n".join(["id,fare", *lines, ""]))
        table.bulk_import(str(folder / "x.csv"))
    else:
        table.bulk_import(frame)


def files_of(table: sl.Table) -> set[Path]:
    return set(Path(table._store.storage.root).rglob("data/**/*.parquet"))


@pytest.mark.parametrize("way", ["frame", "parquet", "csv", "write"])
def test_spark_keeps_the_rules_of_a_table(spark, table, tmp_path, way):
    load_by(way, spark, table, [("a", 1.0), ("k", None), ("z", 0.0)], tmp_path)
    expected = [{"id": key, "n": 5, "fare": fare, "note": "x"} for key, fare in (("a", 1.0), ("k", None), ("z", 0.0))]
    assert table.scan().to_arrow().to_pylist() == expected
    before = files_of(table)
    for rows, words in (
        ([("b", 1.0), ("c", -1.0)], r"check 'check_1' \(fare >= 0\) fails for fare = -1.0"),
        ([("b", 1.0), ("k", 2.0)], "the row key id = 'k' is in the table already"),
        ([("q", 1.0), ("q", 2.0)], "the row key id = 'q' occurs 2 times in the rows"),
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own, for a write
            load_by(way, spark, table, rows, tmp_path)
        error = explain(caught.value)
        assert isinstance(error, InvalidInput), error
        with pytest.raises(InvalidInput, match=words):
            raise error
    assert table.scan().to_arrow().to_pylist() == expected
    assert files_of(table) == before


def test_a_dry_run_of_a_frame_names_the_check(spark, table):
    frame = frame_of(spark, [("a", -1.0), ("b", 1.0)])
    (difference,) = table.ingest(frame, dry_run=True).plan.differences
    assert "check 'check_1' (fare >= 0) fails for fare = -1.0" in difference.problem


def test_forgiving_imports_and_tables_of_data_keep_the_rules(spark_engine, tmp_path):
    columns = "id STRING KEY, fare DOUBLE NULL DEFAULT 0, n INT DEFAULT 7"
    schema = sl.Schema.from_ddl(f"{columns}, CHECK (fare >= 0), UNIQUE KEYS")
    spark = spark_engine.session()
    good = frame_of(spark, [("a", "1.5"), ("b", "2")], ("ID", "FARE"))
    bad = frame_of(spark, [("c", "-1"), ("d", "-2")], ("ID", "FARE"))
    forgiven = {"by_name": True, "cast": True}
    with sl.connect(tmp_path / "house") as session:
        (difference,) = session.admin.plan_table("t", schema, data=bad, **forgiven).differences
        assert (difference.column, difference.values) == ("check check_1", 2)
        for data in (bad, good.union(good)):
            with pytest.raises(sl.SleeperError):
                session.create_table("t", schema, data=data, **forgiven)
        table = session.create_table("t", schema, data=good, **forgiven)
        for data in (bad, good):
            with pytest.raises(sl.SleeperError):
                table.bulk_import(data, **forgiven)
        (difference,) = table.bulk_import(bad, dry_run=True, **forgiven).plan.differences
        assert difference.values == 2
        table.bulk_import(frame_of(spark, [("e", 1)], ("ID", "N")), **forgiven)
        rows = table.scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["fare"], row["n"]) for row in rows] == [("a", 1.5, 7), ("b", 2.0, 7), ("e", 0.0, 1)]
