"""A bulk import forgives what an ingest in process forgives: the same rows, and the same differences."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import sleeper_nb as sl

pytestmark = pytest.mark.spark

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SCHEMA = sl.Schema({"vendor": "int"}, {"pickup_time": "timestamp"}, {"tag": "string?", "paid": "boolean?"})
FORGIVEN = {"ignore_extra": True, "cast": True, "by_name": True}
ROWS = pa.table({
    "Vendor": [1, 5], "Pickup Time": pa.array([AT, AT], pa.timestamp("us", "UTC")), "tag": [1.5, 2.0],
    "paid": ["yes", "no"], "more": [1, 2],
})  # fmt: skip


@pytest.fixture
def table(tmp_path: Path, spark_engine: Any):
    with sl.connect(tmp_path / "warehouse") as session:
        yield session.create_table("trips", SCHEMA, [2])


def inputs(folder: Path) -> dict[str, Any]:
    (folder / "in/tag=x").mkdir(parents=True)
    parquet.write_table(ROWS, folder / "rows.parquet", row_group_size=1)
    ROWS.to_pandas().to_csv(folder / "rows.csv", index=False)
    parquet.write_table(ROWS.drop_columns(["tag"]), folder / "in/tag=x/rows.parquet")
    return {"parquet": folder / "rows.parquet", "csv": folder / "rows.csv", "folders": folder / "in", "memory": ROWS}


def rows(table: Any) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["vendor"])


@pytest.mark.parametrize("kind", ["parquet", "csv", "folders", "memory", "frame"])
def test_an_import_forgives_what_an_ingest_forgives(table, tmp_path: Path, spark_engine: Any, kind: str):
    given = inputs(tmp_path)
    data = spark_engine.session().createDataFrame(ROWS) if kind == "frame" else given[kind]
    with pytest.raises(sl.InvalidInput, match="missing column 'vendor'") as error:
        table.bulk_import(data)
    assert "by_name=True" in (error.value.hint or "")
    plan = table.bulk_import(data, dry_run=True, **FORGIVEN).plan
    assert (plan.rows, plan.differences, [leaf.rows for leaf in plan.leaves]) == (2, (), [1, 1])
    assert "skipped, not in the table: more" in repr(plan)
    table.bulk_import(data, **FORGIVEN)
    imported = rows(table)
    table.rollback(version=1)
    table.ingest(given.get(kind, ROWS), **FORGIVEN)
    assert imported == rows(table)
    assert [row["paid"] for row in imported] == [True, False]


def test_a_dry_run_of_a_frame_counts_values_over_tasks(table, spark_engine: Any):
    wrong = ROWS.set_column(3, "paid", [["maybe", "perhaps"]])
    frame = spark_engine.session().createDataFrame(wrong).repartition(2)
    (difference,) = table.bulk_import(frame, dry_run=True, **FORGIVEN).plan.differences
    assert (difference.column, difference.count) == ("paid", "2")
