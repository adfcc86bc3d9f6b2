"""The keys of small inputs prune partitions and files of a large table, and change no answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings

import sleeper_nb as sl
from tests.support.examples import examples
from tests.support.joined_statements import joined_statements

SCHEMA = sl.Schema({"k": "int", "s": "string"}, {}, {"v": "int?", "w": "long"})
WORDS = ["", "a", "ab", "b'c", "é", "\U0010ffff"]
FEW = [(3, None, "a", 3), (3, None, "a", 3), (17, 3, "ab", 40), (29, 17, "", 29), (90, 5, "b'c", 2**40)]
FRAME = pa.table({
    "k": pa.array([5, 5, None, 2**40, 33], pa.int64()),
    "v": pa.array([1, 33, None, 3, 5], pa.int8()),
    "s": pa.array(["a", None, "é", "ab", ""]),
    "w": pa.array([33, 2, 3, None, 2**63], pa.uint64()),
})  # fmt: skip


def rows(numbers: range) -> list[dict[str, Any]]:
    return [{"k": n * 7 % 41, "s": WORDS[n % len(WORDS)], "v": None if n % 3 == 0 else n % 17, "w": n} for n in numbers]


@dataclass(frozen=True)
class Inputs:
    """A large table and small ones in a warehouse, a variable, and the same rows as tables of DuckDB."""

    session: sl.Session
    plain: duckdb.DuckDBPyConnection

    def answer(self, statement: str, **options: Any) -> sl.QueryResult:
        names = {"big": "big", "few": "few", "none": "nothing", "df": "df"}
        return self.session.sql(statement.format(**names), engine="duckdb", data={"df": FRAME}, **options)

    def expected(self, statement: str) -> pa.Table:
        names = {"big": "plain_big", "few": "plain_few", "none": "plain_nothing", "df": "plain_df"}
        return self.plain.sql(statement.format(**names)).to_arrow_table()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inputs]:
    with sl.connect(tmp_path_factory.mktemp("joined") / "warehouse") as session, duckdb.connect() as plain:
        big = session.create_table("big", SCHEMA, split_points=[4, 8, 12, 16, 20, 24, 28, 32, 36])
        for part in range(5):
            big.ingest(rows(range(part * 41, part * 41 + 41)))
        big.maintenance.split(at=6)  # files that two leaves share
        session.create_table("few", SCHEMA).ingest([dict(zip("kvsw", row, strict=True)) for row in FEW])
        session.create_table("nothing", SCHEMA)
        arrow = {name: session.table(name).scan().to_arrow() for name in ("big", "few", "nothing")}
        for name, table in (arrow | {"df": FRAME}).items():
            plain.register(f"rows_of_{name}", table)
            plain.execute(f"CREATE TABLE plain_{name} AS FROM rows_of_{name}")
        yield Inputs(session, plain)


def in_any_order(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def check(inputs: Inputs, statement: str) -> None:
    assert in_any_order(inputs.answer(statement).to_arrow()) == in_any_order(inputs.expected(statement))


@examples(100)
@given(joined_statements())
def test_keys_of_small_inputs_change_no_answer(inputs: Inputs, statement: str):
    check(inputs, statement)


@pytest.mark.long
@settings(max_examples=2000)
@given(joined_statements())
def test_keys_of_small_inputs_change_no_answer_of_thousands_of_statements(inputs: Inputs, statement: str):
    check(inputs, statement)


PRUNED = [
    ("SELECT a.w FROM {big} a JOIN {few} b ON a.k = b.k", 4),
    ("SELECT a.w FROM {few} b JOIN {big} a USING (k)", 4),
    ("SELECT a.w FROM {big} a NATURAL JOIN (SELECT k FROM {few})", 4),
    ("SELECT a.w FROM {big} a, {few} b WHERE a.k = b.k AND b.s = 'ab'", 1),
    ("SELECT w FROM {big} WHERE k IN (SELECT k FROM {few})", 4),
    ("SELECT w FROM {big} WHERE k IN (SELECT v FROM {few} WHERE s <> 'x')", 3),
    ("SELECT b.s, a.w FROM {few} b LEFT JOIN {big} a ON a.k = b.k", 4),
    ("SELECT b.s, a.w FROM {big} a RIGHT JOIN {few} b ON a.k = b.k AND a.w > 3", 4),
    ("SELECT * FROM {few} b ANTI JOIN {big} a ON a.k = b.k", 4),
    ("SELECT b.s, (SELECT max(w) FROM {big} a WHERE a.k = b.k) AS w FROM {few} b", 4),
    ("SELECT * FROM (SELECT k, sum(w) FROM {big} GROUP BY k) JOIN {few} USING (k)", 4),
    ("SELECT a.w FROM {big} a JOIN {few} b ON a.k = b.k LEFT JOIN {df} c ON c.k = a.k", 4),
    ("SELECT a.w FROM {big} a JOIN {big} c ON a.k = c.k JOIN {few} b ON c.k = b.k", 4),
    ("SELECT a.w FROM {big} a JOIN {df} b ON a.k = b.k", 2),
    ("SELECT a.w FROM {big} a JOIN {df} b ON a.k = b.v", 3),
    ("SELECT a.w FROM {big} a JOIN {none} b ON a.k = b.k", 0),
    ("SELECT a.w FROM {big} a JOIN (SELECT k FROM {few} UNION SELECT k FROM {df}) b USING (k)", 6),
    ("WITH c AS (SELECT DISTINCT k FROM {few} ORDER BY k LIMIT 2) SELECT w FROM {big} JOIN c USING (k)", 4),
]
WHOLE = [
    "SELECT a.w FROM {big} a LEFT JOIN {few} b ON a.k = b.k",
    "SELECT a.w FROM {big} a FULL JOIN {few} b ON a.k = b.k",
    "SELECT a.w FROM {big} a ANTI JOIN {few} b ON a.k = b.k",
    "SELECT w FROM {big} a WHERE EXISTS (SELECT 1 FROM {few} b WHERE a.k = b.k AND a.w > b.w)",
    "SELECT w FROM {big} WHERE k NOT IN (SELECT k FROM {few})",
    "SELECT v FROM {few} WHERE v NOT IN (SELECT k FROM {big})",
    "SELECT w FROM {big} WHERE k IN (SELECT k FROM {few}) OR v = 3",
    "SELECT a.w FROM {big} a JOIN {few} b ON a.k < b.k",
    "SELECT a.w FROM {big} a JOIN {few} b ON a.k = b.k + 1",
    "SELECT a.w FROM {big} a JOIN {few} b ON a.k = b.k OR a.v = b.v",
    "SELECT a.w FROM {big} a JOIN {few} b ON a.v = b.k",
    "SELECT a.w FROM (SELECT * FROM {big} ORDER BY w LIMIT 5) a JOIN {few} b USING (k)",
    "SELECT a.w FROM {big} a JOIN {few} b ON TRY_CAST(a.k AS TINYINT) IS NOT DISTINCT FROM b.v",
    "SELECT n FROM (SELECT k, row_number() OVER (ORDER BY w) AS n FROM {big}) JOIN {few} USING (k)",
    "SELECT a.w FROM (SELECT * FROM {big} USING SAMPLE 5 ROWS) a JOIN {few} b USING (k)",
    "SELECT n FROM (SELECT k, 1 AS n FROM {big} GROUP BY ROLLUP (k)) a JOIN {few} b ON a.k IS NOT DISTINCT FROM b.v",
]


def partitions(result: sl.QueryResult) -> set[int]:
    return {each["partitions"] for each in result.cost().to_dict()["reads"] if each["source"].startswith("big")}


@pytest.mark.parametrize(("statement", "expected"), PRUNED)
def test_only_partitions_with_the_keys_of_a_small_input_are_read(inputs: Inputs, statement: str, expected: int):
    assert partitions(inputs.answer(statement)) == {expected}
    check(inputs, statement)


@pytest.mark.parametrize("statement", WHOLE)
def test_where_other_rows_count_too_all_partitions_are_read(inputs: Inputs, statement: str):
    everything = len(inputs.session.table("big").at().partition_tree.leaves)
    assert partitions(inputs.answer(statement)) == {everything}
    if "SAMPLE" not in statement:
        check(inputs, statement)


def test_the_answer_says_which_keys_were_read_and_a_dry_run_reads_none(inputs: Inputs):
    statement = "SELECT a.w FROM {big} a JOIN {few} b ON a.k = b.k WHERE b.w < :most AND a.k >= 0"
    result = inputs.answer(statement, params={"most": 30})
    assert "keys of few: 2 values" in repr(result)
    assert "(keys of few: 2 values)" in repr(result.cost())
    dry = inputs.answer(statement, params={"most": 30}, dry_run=True)
    assert "keys of few would be read first" in repr(dry.cost())
    assert partitions(dry) == {len(inputs.session.table("big").at().partition_tree.leaves)}


def test_the_first_rows_of_a_common_table_that_is_used_twice_are_shown(inputs: Inputs):
    result = inputs.answer("WITH c AS (SELECT k, w FROM {big}) SELECT a.w FROM c a JOIN c b ON a.w = b.w")
    assert result.head(7).num_rows == 7
    assert result.head(0).num_rows == 0
    assert result.head(10**6) == result.to_arrow()
    assert "there are more" in repr(result) or "rows ·" in repr(result)


def test_more_keys_than_can_be_told_apart_are_ranges(inputs: Inputs):
    many = pa.table({"k": pa.array([*range(5_000_000, 5_150_000), 38], pa.int64())})
    result = inputs.session.sql("SELECT w FROM big JOIN many USING (k)", engine="duckdb", data={"many": many})
    assert "keys of many: more than 100,000 values" in repr(result)
    assert partitions(result) == {1}
    assert result.to_arrow().num_rows == 5
    some = pa.table({"k": pa.array([*range(5_000_000, 5_003_000), 3, 38], pa.int64())})
    result = inputs.session.sql("SELECT w FROM big JOIN some USING (k)", engine="duckdb", data={"some": some})
    assert partitions(result) == {2}
    assert result.to_arrow().num_rows == 10
