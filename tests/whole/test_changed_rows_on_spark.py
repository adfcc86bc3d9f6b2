"""Statements that change rows give the same rows on Spark as in a table of DuckDB's own."""

from __future__ import annotations

from random import Random
from typing import Any

import duckdb
import pytest

import sleeper_nb as sl
from tests.support.builders import EMBEDDED
from tests.support.row_statements import ON_SPARK, SharedStatementMaker
from tests.whole.test_changed_rows import LAYOUTS, VECTORS, in_order, made_pair

pytestmark = pytest.mark.spark

ROWS = "SELECT i::INT AS k, (i % 5)::INT AS n, CASE WHEN i % 3 > 0 THEN 's' || i END AS s FROM range(40) r(i)"
STATEMENTS = (
    "DELETE FROM t WHERE n = 1 AND s IS NOT NULL",
    "DELETE FROM t WHERE k IN (SELECT k FROM o WHERE n > 30)",
    "UPDATE t SET n = n + 1, s = s || '!' WHERE k > (SELECT avg(k) FROM t)",
    "UPDATE t AS x SET k = x.k + 100, s = NULL WHERE x.k % 7 = 0",
    """MERGE INTO t USING o AS s ON t.k = s.k WHEN MATCHED AND t.n > 2 THEN DELETE WHEN MATCHED AND s.n > 20 THEN
    UPDATE SET n = s.n, s = 'merged' WHEN NOT MATCHED AND s.n > 10 THEN INSERT (k, n) VALUES (s.k, s.n + 1)""",
    """MERGE INTO t USING (SELECT k, n FROM o WHERE k < 20) AS s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = -1
    WHEN NOT MATCHED BY SOURCE AND t.n = 3 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET s = 'left'""",
)


def sorted_rows(table):
    return sorted(repr(row) for row in table.select(["k", "n", "s"]).to_pylist())


@pytest.mark.parametrize(
    "least", [pytest.param("0", id="vectors"), pytest.param("4194304", id="files", marks=pytest.mark.long)]
)
def test_changed_rows_are_those_of_duckdb_s_own_tables(tmp_path, spark_engine, least):
    peer = duckdb.connect()
    with sl.connect(tmp_path, spark=spark_engine.session()) as session:
        properties = {"sleeper.table.deletion.vector.file.bytes.min": least,
                      "sleeper.table.deletion.vector.percent.max": "100"}  # fmt: skip
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"n": "int?", "s": "string?"}), [10, 20],
                                     properties=properties)  # fmt: skip
        session.sql(f"INSERT INTO t {ROWS}")
        session.sql("CREATE TABLE o ROW KEYS (k) AS SELECT (i * 2)::INT AS k, i::INT AS n FROM range(40) r(i)")
        peer.execute(f"CREATE TABLE t AS {ROWS}")
        peer.execute("CREATE TABLE o AS SELECT (i * 2)::INT AS k, i::INT AS n FROM range(40) r(i)")
        for number, statement in enumerate(STATEMENTS):
            before = table.at().resolved.version.rows
            plan = session.sql(statement, engine="spark", dry_run=True) if number % 2 == 0 else None
            done = session.sql(statement, engine="spark")
            changed = peer.execute(statement).fetchall()[0][0]
            assert sorted_rows(table.scan().to_arrow()) == sorted_rows(peer.sql("FROM t").to_arrow_table()), statement
            assert plan is None or plan.counts == done.counts
            assert done.inserted + done.updated + done.deleted == changed
            assert table.at().resolved.version.rows == before + done.inserted - done.deleted
            assert table.maintenance.check(deep=True).ok
        with pytest.raises(sl.errors.InvalidInput, match="several rows of the source match"):
            session.sql(
                "MERGE INTO t USING (SELECT 1 AS k, i AS n FROM o LATERAL VIEW explode(array(1, 2)) e AS i) AS s "
                "ON t.n = -1 WHEN MATCHED THEN UPDATE SET n = s.n", engine="spark",
            )  # fmt: skip


def run_program(folder: Any, spark_engine: Any, layout: str, seed: int, statements: int = 3) -> None:
    """Run some statements on Spark; then hold that it reads each version as DuckDB's table was."""
    random = Random(f"{layout} {seed}")  # noqa: S311 - chooses statements
    vectors, kind = list(VECTORS)[seed % len(VECTORS)], EMBEDDED[seed % len(EMBEDDED)]
    pair = made_pair(folder, random, layout, vectors, kind, ON_SPARK, spark_engine.session())
    with pair.session:
        for _ in range(statements):
            pair.run(SharedStatementMaker(random, list(pair.versions), ON_SPARK).statement())
        for number in pair.versions:
            names = "k, h, n, m, x, s, d, e, y"
            found = pair.session.sql(f"SELECT {names} FROM t VERSION AS OF {number}", engine="spark").to_arrow()
            assert in_order(found) == in_order(pair.peer.sql(f"SELECT {names} FROM t_at_{number}").to_arrow_table())
        pair.compare_versions()


@pytest.mark.parametrize("layout", ["shared"])
def test_generated_statements_on_spark_give_the_rows_of_duckdb_s_own_tables(tmp_path, spark_engine, layout):
    run_program(tmp_path, spark_engine, layout, LAYOUTS.index(layout), statements=2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_generated_statements_on_spark_give_the_rows_of_duckdb_s_own_tables(tmp_path, spark_engine, layout, seed):
    run_program(tmp_path, spark_engine, layout, seed)
