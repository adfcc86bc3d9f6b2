"""Bulk import casts by the same rule as every load: exactly, or refused; Spark itself casts nothing."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.load.ingest import ingest_arrow
from tests.support.casts import REFUSED, cases, expected, not_utf8, same
from tests.support.combinations import some

pytestmark = pytest.mark.spark

KNOWN = {pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
         pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.decimal128(38, 5)}  # fmt: skip
CASES = [case for case in cases() if case.sample.arrow in KNOWN and case.depth in {"", "list"}]


@pytest.fixture
def session(tmp_path: Path, spark_engine: Any):
    with sl.connect(tmp_path / "w", spark=spark_engine.session()) as opened:
        yield opened


@pytest.mark.parametrize("depth", ["", pytest.param("list", marks=pytest.mark.long)])
def test_a_spark_frame_is_cast_exactly_or_refused(session: sl.Session, spark_engine: Any, depth: str):
    chosen = [case for case in CASES if case.depth == depth]
    schema = sl.Schema({"k": "int"}, {}, {case.name: f"{case.field}?" for case in chosen})
    columns = {case.name: case.column for case in chosen}
    rows = pa.table({"k": pa.array([1], pa.int32()), **columns})
    spark = spark_engine.session()
    plan = session.create_table("all", schema).bulk_import(spark.createDataFrame(rows), dry_run=True).plan
    refused = {difference.column for difference in plan.differences}
    wanted = {case.name: expected(case.sample, case.target) for case in chosen}
    assert refused == {name for name, value in wanted.items() if value is REFUSED}
    kept = [case for case in chosen if case.name not in refused]
    smaller = sl.Schema({"k": "int"}, {}, {case.name: f"{case.field}?" for case in kept})
    table = session.create_table("kept", smaller)
    table.bulk_import(spark.createDataFrame(rows.select(["k", *(case.name for case in kept)])))
    (file,) = Path(session.location).rglob("data/**/*.parquet")
    (got,) = pq.read_table(file, partitioning=None).to_pylist()
    assert [case for case in kept if not same(got[case.name], case.wrapped(wanted[case.name]))] == []


@pytest.mark.parametrize(
    ("key", "sort", "rows"),
    [
        ("int", "long", "values (1.0D, '7'), (5.0D, '8')"),
        ("string", "date", "values (X'61', '2026-01-01'), (X'7A', '2026-01-02')"),
    ],
)
def test_keys_of_another_type_find_their_leaf(session: sl.Session, spark_engine: Any, key: str, sort: str, rows: str):
    point = {"int": 3, "string": "m"}[key]
    table = session.create_table("t", sl.Schema({"k": key}, {"s": sort}), [point])
    table.bulk_import(spark_engine.session().sql(f"select * from {rows} as t(k, s)"))
    assert [file["rows"] for file in table.inspect.files()] == [1, 1]
    assert table.maintenance.check(deep=True).findings == ()


@pytest.mark.parametrize("values", some(["(1.5D)", "('0x1')", "(null)", "(cast(3000000000 as bigint))"]))
def test_a_key_that_does_not_fit_is_refused_with_its_value(session: sl.Session, spark_engine: Any, values: str):
    table = session.create_table("t", sl.Schema({"k": "int"}), [3])
    with pytest.raises(sl.InvalidInput, match="column 'k'"):
        table.bulk_import(spark_engine.session().sql(f"select * from values {values} as t(k)"))
    assert table.at().resolved.snapshot_id == 1


def test_a_parquet_file_of_other_types_names_the_row(session: sl.Session, tmp_path: Path):
    table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"m": "decimal(10,2)?"}))
    for value in (1.24, 1.239):
        pq.write_table(pa.table({"k": pa.array([1, 2], pa.int32()), "m": [1.5, value]}), tmp_path / f"{value}.parquet")
    with pytest.raises(sl.InvalidInput, match=r"column 'm', row 2: 1.239 \(double\) cannot become decimal\(10,2\)"):
        table.bulk_import(tmp_path / "1.239.parquet")
    table.bulk_import(tmp_path / "1.24.parquet")
    assert table.scan().to_arrow()["m"].to_pylist() == [Decimal("1.50"), Decimal("1.24")]


def test_text_that_is_not_utf8_is_refused_by_an_import_and_by_a_query(session: sl.Session, tmp_path: Path):
    schema = sl.Schema({"k": "string"}, {}, {"v": "string?"})
    table = session.create_table("t", schema)
    pq.write_table(pa.table({"k": ["a"], "v": not_utf8(b"\xff")}), tmp_path / "in.parquet")
    (tmp_path / "in.json").write_bytes(b'{"k":"a"}\n{"k":"b","v":"\xff"}\n')
    with pytest.raises(sl.InvalidInput, match=r"column 'v', row 1: the text b'\\xff' is not UTF-8"):
        table.bulk_import(tmp_path / "in.parquet")
    with pytest.raises(sl.InvalidInput, match=r"column 'v', line 2: the text b'\\xff' is not UTF-8"):
        table.bulk_import(tmp_path / "in.json")
    older = session.create_table("x", schema)
    ingest_arrow(older._store, pq.read_table(tmp_path / "in.parquet").cast(schema.arrow))  # as older builds wrote it
    with pytest.raises(sl.InvalidInput, match="column 'v' has text that is not UTF-8"):
        session.sql("select v from x", engine="spark").to_pandas()
