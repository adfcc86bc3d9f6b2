"""What Spark's plan says of joins: which keys of one input the rows of another must have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sleeper_nb.engines.spark import frames
from sleeper_nb.engines.spark.frame_joins import joined_keys_in
from sleeper_nb.engines.spark.spark_pushdown import EmptyFrame
from sleeper_nb.model.schema import Schema
from sleeper_nb.read.join_rules import JoinedKey
from sleeper_nb.sql.statement import Statement
from tests.support.combinations import some

pytestmark = pytest.mark.spark

SCHEMA = Schema({"k": "int", "s": "string"}, {}, {"v": "int?", "w": "long"})
LOWER = "SELECT s COLLATE UTF8_LCASE AS s"
OTHER = pa.table({"k": pa.array([], pa.int64()), "a b": pa.array([], pa.struct([("x", pa.int32())]))})


@pytest.fixture
def spark(spark_engine: Any) -> SparkSession:
    session: SparkSession = spark_engine.session()
    return session


def keys(spark: SparkSession, statement: str) -> set[tuple[str, ...]]:
    """Return, for each scan of the large table, its keys and whose values they have."""
    of_table = [(each.name, frames.type_text(each.type)) for each in SCHEMA.fields]
    columns = {"big": of_table, "few": of_table, "df": spark.createDataFrame(OTHER).dtypes}
    stand_ins = {name: EmptyFrame.of(at, "__none_", each) for at, (name, each) in enumerate(columns.items())}
    empty = {name: each.frame(spark) for name, each in stand_ins.items()}
    rows = frames.query(spark, Statement.of(statement, dialect="spark"), empty)
    found = joined_keys_in(rows, stand_ins)
    return {tuple(map(_text, scan)) for scan in found.get("big", ())}


def _text(key: JoinedKey) -> str:
    of = sorted(f"{each.table}.{each.column}" for each in key.of)
    return f"{SCHEMA.names[key.column]} of {', '.join(of)}"


@pytest.mark.parametrize(
    ("statement", "expected"),
    some([
        ("SELECT a.w FROM big a JOIN few b ON a.k = b.k", {("k of few.0",)}),
        ("SELECT a.w FROM big a JOIN few b ON a.k = b.w", {("k of few.3",)}),
        ("SELECT a.w FROM big a JOIN df b USING (k)", {("k of df.0",)}),
        ("SELECT a.w FROM big a JOIN few b ON a.k = b.k AND b.s <=> a.s", {("k of few.0", "s of few.1")}),
        ("SELECT w FROM big WHERE k IN (SELECT v FROM few)", {("k of few.2",)}),
        ("SELECT b.v, a.w FROM few b LEFT JOIN big a ON a.k = b.k", {("k of few.0",)}),
        ("SELECT b.v, a.w FROM few b RIGHT JOIN big a ON a.k = b.k", {()}),
        ("SELECT b.v FROM few b LEFT ANTI JOIN big a ON a.k = b.k", {("k of few.0",)}),
        ("SELECT a.v FROM big a LEFT ANTI JOIN few b ON a.k = b.k", {()}),
        ("SELECT b.v FROM few b FULL JOIN big a ON a.k = b.k", {()}),
        ("SELECT n FROM (SELECT k, max(v) AS n FROM big GROUP BY k) a JOIN few b ON a.k = b.k", {("k of few.0",)}),
        ("SELECT a.v FROM (SELECT * FROM big LIMIT 5) a JOIN few b ON a.k = b.k", {()}),
        ("SELECT a.v FROM (SELECT * FROM big TABLESAMPLE (5 PERCENT)) a JOIN few b ON a.k = b.k", {()}),
        ("SELECT a.v FROM big a JOIN few b ON a.k = b.k WHERE a.w > (SELECT max(w) FROM big)", {("k of few.0",), ()}),
        ("SELECT a.v FROM big a JOIN (SELECT k FROM few UNION ALL SELECT w FROM few) b ON a.k = b.k",
         {("k of few.0, few.3",)}),
        ("SELECT a.v FROM big a JOIN (SELECT k FROM few UNION ALL SELECT 3) b ON a.k = b.k", {()}),
        ("SELECT a.v, rand(3) FROM big a JOIN few b ON a.k = b.k", set()),
        ("SELECT a.v FROM big a JOIN few b ON a.s = b.s COLLATE UTF8_LCASE", {()}),
        (f"WITH a AS ({LOWER} FROM big), b AS ({LOWER} FROM few) SELECT 1 FROM a JOIN b USING (s)", {()}),
        ("SELECT a.v FROM big a JOIN few b ON a.k = CAST(b.w AS INT)", {()}),
    ]),
)  # fmt: skip
def test_a_plan_says_which_keys_a_scan_needs(spark: SparkSession, statement: str, expected: set[tuple[str, ...]]):
    assert keys(spark, statement) == expected
