"""On Spark, the keys of small inputs prune partitions and files of a large table, and change no answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings

import sleeper_nb as sl
from sleeper_nb.engines.duckdb import dynamic_pruning
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from tests.support.combinations import some
from tests.support.examples import examples
from tests.support.joined_statements import joined_statements

pytestmark = pytest.mark.spark

SCHEMA = sl.Schema({"k": "int", "s": "string"}, {}, {"v": "int?", "w": "long"})
WORDS = ["", "a", "ab", "b'c", "é", "\U0010ffff"]
FEW = [(3, None, "a", 3), (3, None, "a", 3), (17, 3, "ab", 40), (29, 17, "", 29), (90, 5, "b'c", 2**40)]
FRAME = pa.table({
    "k": pa.array([5, 5, None, 2**40, 33], pa.int64()),
    "v": pa.array([1, 33, None, 3, 5], pa.int8()),
    "s": pa.array(["a", None, "é", "ab", ""]),
    "w": pa.array([33, 2, 3, None, 2**62], pa.int64()),
})  # fmt: skip


def rows(numbers: range) -> list[dict[str, Any]]:
    return [{"k": n * 7 % 41, "s": WORDS[n % len(WORDS)], "v": None if n % 3 == 0 else n % 17, "w": n} for n in numbers]


@dataclass(frozen=True)
class Inputs:
    """A large table and small ones in a warehouse, a variable, and the same rows as tables of DuckDB."""

    session: sl.Session
    plain: duckdb.DuckDBPyConnection

    def answer(self, statement: str, **options: Any) -> sl.QueryResult:
        return self.session.sql(statement, engine="spark", data={"df": FRAME}, **options)

    def expected(self, statement: str) -> pa.Table:
        return self.plain.sql(statement.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")).to_arrow_table()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, spark_engine: SparkRuntime) -> Iterator[Inputs]:
    folder = tmp_path_factory.mktemp("joined") / "warehouse"
    with sl.connect(folder, spark=spark_engine.session()) as session, duckdb.connect() as plain:
        big = session.create_table("big", SCHEMA, split_points=[4, 8, 12, 16, 20, 24, 28, 32, 36])
        for part in range(5):
            big.ingest(rows(range(part * 41, part * 41 + 41)))
        big.maintenance.split(at=6)  # files that two leaves share
        session.create_table("few", SCHEMA).ingest([dict(zip("kvsw", row, strict=True)) for row in FEW])
        session.create_table("nothing", SCHEMA)
        arrow = {name: session.table(name).scan().to_arrow() for name in ("big", "few", "nothing")}
        for name, table in (arrow | {"df": FRAME}).items():
            plain.register(f"rows_of_{name}", table)
            plain.execute(f"CREATE TABLE {name} AS FROM rows_of_{name}")
        yield Inputs(session, plain)


def in_any_order(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def check(inputs: Inputs, result: sl.QueryResult, statement: str) -> None:
    assert in_any_order(result.to_arrow()) == in_any_order(inputs.expected(statement))


def found_by(inputs: Inputs, statement: str) -> list[str]:
    """Return the rows; the kind of error for a statement that Spark does not run."""
    try:
        return in_any_order(inputs.answer(statement).to_arrow())
    except sl.SleeperError as error:
        return [type(error).__name__]


def check_with_and_without_keys(inputs: Inputs, drawn: str) -> None:
    """Compare the rows of a statement that was drawn for DuckDB with those that Spark finds without reading keys."""
    names = {"big": "big", "few": "few", "none": "nothing", "df": "df"}
    statement = drawn.format(**names).replace("SEMI JOIN", "LEFT SEMI JOIN").replace("ANTI JOIN", "LEFT ANTI JOIN")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dynamic_pruning, "MANY_FILES", 10**9)
        expected = found_by(inputs, statement)
    assert found_by(inputs, statement) == expected


@examples(5)
@given(joined_statements())
def test_keys_of_small_inputs_change_no_answer(inputs: Inputs, statement: str):
    check_with_and_without_keys(inputs, statement)


@pytest.mark.long
@settings(max_examples=60)
@given(joined_statements())
def test_keys_of_small_inputs_change_no_answer_of_many_statements(inputs: Inputs, statement: str):
    check_with_and_without_keys(inputs, statement)


PRUNED = [
    ("SELECT a.w FROM big a JOIN few b ON a.k = b.k", 4),
    ("SELECT a.w FROM few b JOIN big a USING (k)", 4),
    ("SELECT a.w FROM big a, few b WHERE a.k = b.k AND b.s = 'ab'", 1),
    ("SELECT w FROM big WHERE k IN (SELECT k FROM few)", 4),
    ("SELECT w FROM big WHERE k IN (SELECT v FROM few WHERE s <> 'x')", 3),
    ("SELECT w FROM big a WHERE EXISTS (SELECT 1 FROM few b WHERE a.k = b.k AND a.w > b.w)", 4),
    ("SELECT b.s, a.w FROM few b LEFT JOIN big a ON a.k = b.k", 4),
    ("SELECT b.s, a.w FROM big a RIGHT JOIN few b ON a.k = b.k AND a.w > 3", 4),
    ("SELECT b.k, b.w FROM few b LEFT ANTI JOIN big a ON a.k = b.k WHERE true", 4),
    ("SELECT b.s, (SELECT max(w) FROM big a WHERE a.k = b.k) AS w FROM few b", 4),
    ("SELECT k, n, b.v FROM (SELECT k, max(w) AS n FROM big GROUP BY k) JOIN few b USING (k)", 4),
    ("SELECT a.w FROM big a JOIN big c ON a.k = c.k JOIN few b ON c.k = b.k", 4),
    ("SELECT a.w FROM big a JOIN df b ON a.k = b.k", 2),
    ("SELECT a.w FROM big a JOIN df b ON a.k = b.v", 3),
    ("SELECT a.w FROM big a JOIN nothing b ON a.k = b.k", 0),
    ("SELECT a.w FROM big a JOIN (SELECT k FROM few UNION SELECT k FROM df) b ON a.k = b.k", 6),
    ("SELECT a.w FROM (SELECT * FROM big UNION ALL SELECT * FROM big) a JOIN few b ON a.k = b.k", 4),
    ("SELECT w FROM big JOIN (SELECT DISTINCT k FROM few ORDER BY k LIMIT 2) c USING (k)", 4),
    ("SELECT a.w FROM big a JOIN few b ON a.s = b.s AND a.k = b.w", 3),
]
WHOLE = [
    "SELECT a.w FROM big a LEFT JOIN few b ON a.k = b.k WHERE true",
    "SELECT a.w FROM big a FULL JOIN few b ON a.k = b.k",
    "SELECT a.w FROM big a LEFT ANTI JOIN few b ON a.k = b.k",
    "SELECT w FROM big WHERE k NOT IN (SELECT k FROM few)",
    "SELECT v FROM few WHERE v NOT IN (SELECT k FROM big)",
    "SELECT w FROM big WHERE k IN (SELECT k FROM few) OR v = 3",
    "SELECT a.w FROM big a JOIN few b ON a.k < b.k",
    "SELECT a.w FROM big a JOIN few b ON a.k = b.k + 1",
    "SELECT a.w FROM big a JOIN few b ON a.k = b.k OR a.v = b.v",
    "SELECT a.w FROM big a JOIN few b ON a.v = b.k",
    "SELECT a.w FROM (SELECT * FROM big ORDER BY w LIMIT 5) a JOIN few b ON a.k = b.k",
    "SELECT n FROM (SELECT k, row_number() OVER (ORDER BY w) AS n FROM big) a JOIN few b ON a.k = b.k",
    "SELECT n FROM (SELECT k, 1 AS n FROM big GROUP BY ROLLUP (k)) a JOIN few b ON a.k IS NOT DISTINCT FROM b.v",
    "SELECT a.w FROM big a JOIN few b ON CAST(a.k AS DOUBLE) = b.k",
    "SELECT a.w FROM big a JOIN few b ON a.k = b.k WHERE a.w > (SELECT min(w) FROM big)",
]


def partitions(result: sl.QueryResult) -> set[int]:
    return {each["partitions"] for each in result.cost().to_dict()["reads"] if each["source"].startswith("big")}


@pytest.mark.parametrize(("statement", "expected"), some(PRUNED, every=7))
def test_only_partitions_with_the_keys_of_a_small_input_are_read(inputs: Inputs, statement: str, expected: int):
    result = inputs.answer(statement)
    assert partitions(result) == {expected}
    check(inputs, result, statement)


@pytest.mark.parametrize("statement", some(WHOLE, every=6))
def test_where_other_rows_count_too_all_partitions_are_read(inputs: Inputs, statement: str):
    result = inputs.answer(statement)
    assert len(inputs.session.table("big").at().partition_tree.leaves) in partitions(result)
    check(inputs, result, statement)


@pytest.mark.parametrize(
    "statement",
    some(
        [
            "SELECT monotonically_increasing_id() AS n FROM big a JOIN few b ON a.k = b.k",
            "SELECT a.w FROM (SELECT *, rand(1) AS r FROM big) a JOIN few b ON a.k = b.k WHERE r >= 0",
        ]
    ),
)
def test_a_statement_whose_values_depend_on_other_rows_is_not_pruned(inputs: Inputs, statement: str):
    assert partitions(inputs.answer(statement)) == {len(inputs.session.table("big").at().partition_tree.leaves)}


def test_the_answer_says_which_keys_were_read_and_a_dry_run_reads_none(inputs: Inputs):
    statement = "SELECT a.w FROM big a JOIN few b ON a.k = b.k WHERE b.w < :most AND a.k >= 0"
    result = inputs.answer(statement, params={"most": 30})
    assert "keys of few: 2 values" in repr(result)
    assert "(keys of few: 2 values)" in repr(result.cost())
    dry = inputs.answer(statement, params={"most": 30}, dry_run=True)
    assert "keys of few would be read first" in repr(dry.cost())
    assert partitions(dry) == {len(inputs.session.table("big").at().partition_tree.leaves)}


def test_a_statement_that_asks_for_the_time_reads_keys_too(inputs: Inputs):
    statement = "SELECT a.w FROM big a JOIN few b ON a.k = b.k WHERE b.w < {}"
    result = inputs.answer(statement.format("unix_timestamp()"))
    assert partitions(result) == {3}
    check(inputs, result, statement.format("2000000000"))


def test_a_view_and_a_spark_data_frame_can_be_joined(inputs: Inputs):
    inputs.answer("CREATE OR REPLACE TEMP VIEW some AS SELECT k FROM few WHERE w > 35")
    assert partitions(inputs.answer("SELECT w FROM big JOIN some USING (k)")) == {2}
    frame = inputs.session.table("few").scan().to_spark()
    result = inputs.session.sql("SELECT a.w FROM big a JOIN f b ON a.k = b.k", engine="spark", data={"f": frame})
    check(inputs, result, "SELECT a.w FROM big a JOIN few b ON a.k = b.k")
