"""Conditions of a statement prune partitions and files, on both engines, and the answer says how many are read."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sleeper_nb as sl
from tests.support.combinations import some
from tests.support.engines import DUCKDB_FIRST, ENGINES, answer

SCHEMA = sl.Schema({"k": "int", "s": "string"}, {}, {"v": "long"})


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    """Ten leaves of a file each, with a hundred keys; and a second table with two leaves."""
    with sl.connect(tmp_path / "warehouse") as opened:
        t = opened.create_table("t", SCHEMA, split_points=list(range(100, 1000, 100)))
        t.ingest([{"k": n, "s": f"s{n % 7}", "v": n} for n in range(1000)])
        u = opened.create_table("u", SCHEMA, split_points=[500])
        u.ingest([{"k": n, "s": "u", "v": n} for n in range(0, 1000, 50)])
        yield opened


def read(result: sl.QueryResult) -> list[str]:
    """Return ``partitions of all`` for each source."""
    return [str(dict(each)["partitions"]) for each in result.cost().to_dict()["reads"]]


BOTH = [
    ("SELECT v FROM t WHERE k = 5", ["1"], 1),
    ("SELECT v FROM t WHERE 5 = k", ["1"], 1),
    ("SELECT v FROM t WHERE k < 5 OR k >= 995", ["2"], 10),
    ("SELECT v FROM t WHERE k BETWEEN 100 AND 299", ["2"], 200),
    ("SELECT v FROM t WHERE k IN (5, 105, 905)", ["3"], 3),
    (f"SELECT v FROM t WHERE k IN ({', '.join(map(str, range(50, 150, 4)))})", ["2"], 25),
    ("SELECT v FROM t WHERE NOT (k <> 5)", ["1"], 1),
    ("SELECT v FROM t WHERE k = 2 + 3", ["1"], 1),
    ("SELECT v FROM t WHERE (k, s) < (5, 's5')", ["10"], 5),
    ("SELECT v FROM t WHERE k = 5 AND s LIKE 's5%'", ["1"], 1),
    ("SELECT v FROM t WHERE k IS NULL", ["0"], 0),
    ("SELECT v FROM t WHERE v = 5 OR k = 5", ["10"], 1),
    ("SELECT v FROM t WHERE abs(k) = 5", ["10"], 1),
    ("SELECT v FROM t", ["10"], 1000),
    ("WITH a AS (SELECT * FROM t) SELECT v FROM a WHERE k = 5", ["1"], 1),
    ("WITH a AS (SELECT * FROM t) SELECT v FROM a WHERE k = 5 UNION ALL SELECT v FROM a WHERE k = 905", ["2"], 2),
    ("SELECT k FROM (SELECT v AS k, k AS v FROM t) WHERE v = 5", ["1"], 1),
    ("SELECT k FROM (SELECT v AS k, k AS v FROM t) WHERE k = 5", ["10"], 1),
    ("SELECT a.v FROM t a JOIN u b ON a.k = b.k WHERE b.k = 550", ["1", "1"], 1),
    ("SELECT a.v FROM t a LEFT JOIN u b ON a.k = b.k WHERE a.k < 100", ["1", "1"], 100),
    ("SELECT v FROM t WHERE k IN (SELECT k FROM u WHERE k = 50)", ["10", "1"], 1),
    ("SELECT a.v FROM t a JOIN t b ON a.k = b.v WHERE a.k = 250", ["1", "10"], 1),
    ("SELECT k, count(*) FROM t GROUP BY k HAVING k = 5", ["1"], 1),
    ("SELECT v FROM t VERSION AS OF 2 WHERE k = 5", ["1"], 1),
    ("SELECT v FROM t WHERE k = 5 ORDER BY v LIMIT 3", ["1"], 1),
    ("WITH c AS (SELECT * FROM t) SELECT k, (SELECT sum(v) FROM c) p FROM c WHERE k = 5", ["10"], 1),
    ("WITH c AS (SELECT * FROM t) SELECT k FROM c WHERE k = 5 AND EXISTS (SELECT 1 FROM c WHERE k = 905)", ["2"], 1),
    ("WITH c AS (SELECT * FROM t) SELECT k FROM c WHERE k = (SELECT max(k) FROM c WHERE k < 250)", ["10"], 1),
    ("SELECT k, (SELECT count(*) FROM u WHERE k >= 500) n FROM t WHERE k = 5", ["1", "1"], 1),
    ("SELECT v FROM (SELECT * FROM t ORDER BY k LIMIT 5) WHERE k = 1", ["10"], 1),
]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_statement_reads_only_the_partitions_that_its_conditions_reach(session: sl.Session, engine: Any):
    for number, (statement, partitions, rows) in enumerate(BOTH):
        result = session.sql(statement, engine=engine)
        assert read(result) == partitions, statement
        if engine == "duckdb" or number % 4 == 0:  # both engines read what one plan says
            assert result.to_arrow().num_rows == rows, statement


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_a_long_chain_of_conditions_runs_whether_it_is_planned_or_not(session: sl.Session, engine: Any):
    for alternatives in (50, 1200):
        chain = " OR ".join(f"(k = {n} AND s = 's{n % 7}')" for n in range(alternatives))
        assert answer(session, f"SELECT count(*) FROM t WHERE {chain}", engine) == [(min(alternatives, 1000),)]


@pytest.mark.parametrize("engine", ENGINES)
def test_parameters_views_and_the_dry_run_count(session: sl.Session, engine: Any):
    result = session.sql("SELECT v FROM t WHERE k >= :low AND k < :low + 10", engine=engine, params={"low": 300})
    assert read(result) == ["1"]
    assert result.to_arrow().num_rows == 10
    session.sql("CREATE TEMP VIEW few AS SELECT * FROM t WHERE k < 300", engine=engine)
    assert read(session.sql("SELECT * FROM few", engine=engine)) == ["3"]
    assert answer(session, "SELECT v FROM few WHERE k > 298", engine) == [(299,)]
    assert read(session.sql("SELECT v FROM few WHERE k > 298", engine=engine)) == ["1"]
    assert "1/10 partitions, 1/10 files" in repr(session.sql("SELECT v FROM t WHERE k = 7", engine=engine))
    assert "1 of 10" in repr(session.sql("SELECT v FROM t WHERE k = 7", engine=engine).cost())


@pytest.mark.parametrize(
    ("statement", "partitions"),
    [
        ("SELECT v FROM t WHERE k + 1 = 6", ["1"]),
        ("SELECT v FROM t WHERE 905 - k = 5", ["1"]),
        ("SELECT v FROM t WHERE (k, s) = (5, 's5')", ["1"]),
        ("SELECT v FROM t WHERE (s, k) = ('s5', 2 + 3)", ["1"]),
        ("SELECT v FROM t WHERE (k, s) IN ((1, 's1'), (901, 's5'))", ["2"]),
        ("SELECT v FROM t WHERE starts_with(s, 's1') AND k = 8", ["1"]),
        ("EXPLAIN SELECT v FROM t WHERE k = 7", ["1"]),
        ("SELECT v FROM t WHERE k = 7 USING SAMPLE 50%", ["10"]),
        ("SELECT v FROM (SELECT * FROM t USING SAMPLE 50%) WHERE k = 7", ["10"]),
        ("SELECT v FROM t POSITIONAL JOIN (SELECT k AS z FROM u) WHERE k = 7", ["10", "2"]),
        ("SELECT v FROM t WHERE k = 7 OR error('no') IS NULL", ["10"]),
        ("SELECT list_filter([k], lambda x: x = 5) FROM t", ["10"]),
        ("SELECT v FROM t WHERE list_contains([5], k)", ["1"]),
        ("SELECT v FROM t WHERE xor(k, 1) = 4", ["10"]),
    ],
)
def test_what_only_duckdb_has_is_pruned_or_left_alone(session: sl.Session, statement: str, partitions: list[str]):
    assert read(session.sql(statement, engine="duckdb")) == partitions


def test_text_in_a_condition_is_never_read_as_a_condition(session: sl.Session):
    """DuckDB's plan has texts as they are, with their line breaks."""
    for text in ("x\n(__standin0_0_0 = 5)\n", "')\n(k = 5)\n('", "optional: (k = 5)", "it's"):
        for condition in ("v = 7 AND s <> :text", "s = :text OR v = 7", "s <> :text AND lower(s) <> :text AND v = 7"):
            result = session.sql(f"SELECT v FROM t WHERE {condition}", engine="duckdb", params={"text": text})
            assert result.to_arrow()["v"].to_pylist() == [7]


def test_a_column_may_have_any_name(session: sl.Session):
    for name in ("order", "current_date", "__standin0_0_0", "true", "Optional", "select"):
        table = session.create_table(f"of_{name}", sl.Schema({"k": "int", name: "int"}), split_points=[10])
        table.ingest([{"k": n, name: -n} for n in range(20)])
        statement = f'SELECT k FROM of_{name} WHERE "{name}" = -15 AND k > 3'
        assert answer(session, statement, "duckdb") == [(15,)]
        assert answer(session, f'SELECT k FROM of_{name} WHERE k = 15 AND "{name}" < 3', "duckdb") == [(15,)]


def test_the_time_of_a_statement_is_one_however_often_it_is_read(session: sl.Session):
    result = session.sql(
        "SELECT now() AS n, current_date AS d, localtimestamp AS l FROM t WHERE k = 1", engine="duckdb"
    )
    assert result.to_arrow() == result.to_arrow()
    assert result.to_arrow().column_names == ["n", "d", "l"]
    unnamed = session.sql("SELECT now(), current_date FROM t WHERE k = 1", engine="duckdb").to_arrow()
    assert unnamed.column_names == ["now()", "current_date"]
    statement = "SELECT v FROM t WHERE k = year(current_date) - year(today()) + 5"
    result = session.sql(statement, engine="duckdb")
    assert read(result) == ["1"]
    assert result.to_arrow()["v"].to_pylist() == [5]


@pytest.mark.parametrize(
    "time",
    [
        "now()", "get_current_timestamp()", "transaction_timestamp()", "current_timestamp", "current_time", "LocalTime",
        "localtimestamp", "current_localtime()", "current_localtimestamp()", "get_current_time()", "main.now()",
    ],
)  # fmt: skip
def test_each_way_to_ask_for_the_time_gives_the_moment_of_the_statement(session: sl.Session, time: str):
    session.sql(f"CREATE OR REPLACE TEMP VIEW at AS SELECT {time} AS moment FROM t WHERE k = 1", engine="duckdb")
    result = session.sql(f"SELECT {time} AS own, moment FROM at WHERE moment IS NOT NULL", engine="duckdb")
    (first,), (second,) = result.to_arrow().to_pylist(), result.to_arrow().to_pylist()
    assert first == second
    assert first["own"] == first["moment"]


def test_a_pivot_that_finds_its_columns_has_one_moment(session: sl.Session):
    statement = "PIVOT (SELECT v, localtimestamp AS m FROM t WHERE k < 5) ON m USING count(*)"
    result = session.sql(statement, engine="duckdb")
    assert result.to_arrow().column_names == result.to_duckdb().columns


def test_a_time_of_the_catalog_leaves_no_partition_out(session: sl.Session):
    """No macro takes its place, so its value may be another when rows are read."""
    result = session.sql("SELECT v FROM t WHERE k = year(system.main.now()) - year(now()) + 5", engine="duckdb")
    assert result.to_arrow()["v"].to_pylist() == [5]
    assert read(result) == ["10"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("condition", "partitions"),
    some(
        [
            ("k = year(current_date) - year(now()) + 5", "1"),
            ("k < 7 AND k >= unix_timestamp() - unix_timestamp(current_timestamp()) + 5", "1"),
            ("k = (SELECT day(localtimestamp()) - day(now()) + 905)", "1"),
            ("s <= date_format(current_date - 7, 'yyyy') AND k > 995", "1"),
            ("v = second(now())", "10"),
        ]
    ),
)
def test_functions_of_the_time_leave_out_partitions_on_spark(session: sl.Session, condition: str, partitions: str):
    result = session.sql(f"SELECT now() AS n, unix_micros(now()) AS m, v FROM t WHERE {condition}", engine="spark")
    assert read(result) == [partitions]
    found = result.to_arrow()
    assert result.to_arrow() == found
    assert found.column_names == ["n", "m", "v"]


@pytest.mark.spark
def test_on_spark_the_time_of_an_answer_is_that_by_which_its_files_were_chosen(session: sl.Session):
    statement = "SELECT k, unix_micros(now()) % 1000 AS now FROM t WHERE k = unix_micros(now()) % 1000"
    for _ in range(2):
        (row,) = session.sql(statement, engine="spark").to_arrow().to_pylist()
        assert row["k"] == row["now"]
    unnamed = session.sql("SELECT now(), current_date FROM t WHERE k < 5 AND now() IS NOT NULL", engine="spark")
    assert unnamed.to_arrow().column_names == ["now()", "current_date()"]
    df = pa.table({"k": [5, 6]})
    joined = "SELECT v, now() AS n FROM t JOIN df USING (k) JOIN df b USING (k) WHERE k < unix_timestamp()"
    result = session.sql(joined, engine="spark", data={"df": df})
    assert sorted(result.to_arrow()["v"].to_pylist()) == [5, 6]


def test_bytes_prune_and_system_tables_beside_a_table_do_not_hinder_it(session: sl.Session):
    blobs = session.create_table("blobs", sl.Schema({"b": "bytearray"}), split_points=[b"\x10", b"\x80"])
    blobs.ingest([{"b": bytes([n])} for n in (1, 17, 200)])
    result = session.sql(r"SELECT b FROM blobs WHERE b = '\x11'::BLOB", engine="duckdb")
    assert read(result) == ["1"]
    assert result.to_arrow()["b"].to_pylist() == [b"\x11"]
    both = 'SELECT count(*) FROM t, "t$files" f WHERE k = 7 AND f.rows > 0'
    assert answer(session, both, "duckdb") == [(10,)]
    assert read(session.sql(both, engine="duckdb"))[0] == "1"


def test_a_scan_prunes_by_alternatives_lists_and_beginnings(session: sl.Session):
    table = session.table("t")
    for where, partitions, rows in (
        ("k = 5 OR k = 905", 2, 2),
        ("k IN (5, 6, 905)", 2, 3),
        ("k IN (5, 6, 905) AND s LIKE 's5%'", 2, 1),
        ("k < 100 OR v > 990", 10, 109),
        ("NOT (k >= 100)", 1, 100),
        ("k = year(current_date) - year(today()) + 5", 10, 1),
    ):
        scan = table.scan(where=where)
        assert len(scan.plan().leaves) == partitions, where
        assert scan.count() == rows, where
    assert len(table.scan(keys=[5, 905], where="k = 5 OR k = 300").plan().leaves) == 1


def test_files_of_one_leaf_are_left_out_by_their_keys(session: sl.Session):
    table = session.create_table("one_leaf", SCHEMA)
    for first in range(0, 100, 10):
        table.ingest([{"k": n, "s": "a", "v": n} for n in range(first, first + 10)])
    result = session.sql("SELECT v FROM one_leaf WHERE k IN (5, 95)", engine="duckdb")
    assert "1/1 partitions, 2/10 files" in repr(result)
    assert sorted(result.to_arrow()["v"].to_pylist()) == [5, 95]


def test_rows_that_are_combined_are_combined_whole(tmp_path: Path):
    with sl.connect(tmp_path / "sums") as session:
        schema = sl.Schema({"k": "int"}, {}, {"n": "long"})
        table = session.create_table("t", schema, properties={"sleeper.table.aggregations": "sum(n)"})
        for part in range(3):
            table.ingest([{"k": k, "n": 1} for k in range(part * 5, part * 5 + 10)])
        assert answer(session, "SELECT n FROM t WHERE k = 7", "duckdb") == [(2,)]
        assert answer(session, "SELECT count(*) FROM t WHERE n = 2", "duckdb") == [(10,)]
        assert answer(session, "SELECT k FROM t WHERE n = 2 AND k < 7 ORDER BY k", "duckdb") == [(5,), (6,)]


@pytest.mark.parametrize(
    "condition",
    [
        "k = CASE current_database() WHEN 'memory' THEN 5 ELSE 905 END",
        "k = CASE WHEN current_setting('threads')::INT > 0 THEN 5 ELSE 905 END",
        "k < 1000 AND age(TIMESTAMP '2020-01-01') > INTERVAL 1 DAY",
        "k = coalesce(getvariable('x')::INT, 5)",
    ],
)
def test_a_function_that_each_execution_computes_anew_prunes_nothing(session: sl.Session, condition: str):
    result = session.sql(f"SELECT v FROM t WHERE {condition}", engine="duckdb")
    assert read(result) == ["10"]
    assert "another execution may give" in repr(result.cost())


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_a_very_large_statement_is_planned_once(session: sl.Session, engine: Any):
    many = list(range(0, 40_000, 2))
    listed = session.sql(f"SELECT v FROM t WHERE k IN ({', '.join(map(str, many * 2))})", engine=engine)
    assert read(listed) == ["10"]
    assert "more than 200,000 characters" in repr(listed.cost())
    assert listed.to_arrow().num_rows == 500
    test = "list_contains(:many, k)" if engine == "duckdb" else "array_contains(:many, k)"
    bound = session.sql(f"SELECT v FROM t WHERE {test}", engine=engine, params={"many": many})
    assert "parameter 'many' has more than 10,000 values" in repr(bound.cost())
    assert bound.to_arrow().num_rows == 500


@pytest.mark.parametrize("engine", ENGINES)
def test_statements_of_many_threads_read_their_own_tables(session: sl.Session, engine: Any):
    def total(name: str, key: int) -> int:
        return int(answer(session, f"SELECT sum(v) FROM {name} WHERE k <= {key}", engine)[0][0])

    asked = [(name, key) for key in (0, 50, 550, 950) for name in "tu"] * 2
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda each: total(*each), asked))
    assert found == [sum(range(0, key + 1, 1 if name == "t" else 50)) for name, key in asked]
