"""What DuckDB's plan says of conditions prunes files, and never changes an answer."""

import datetime as dt

import duckdb
import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.engines.duckdb.duckdb_reads import JudgedQueries
from sleeper_nb.errors import InvalidInput
from sleeper_nb.sql.statement import Statement

VALUES = {"v": "string?", "day": "date", "s": "struct<k int>", "Big": "long?", "seen": "timestamp", "é": "double?"}
SCHEMA = sl.Schema({"k": "int"}, {}, VALUES)
ROWS = pa.table(
    {
        "k": [*range(-20, 20)],
        "v": [None if n % 7 == 0 else f"it's {n}" for n in range(40)],
        "day": [dt.date(2026, 1, 1) + dt.timedelta(n) for n in range(40)],
        "s": [{"k": -n} for n in range(40)],
        "Big": [None if n % 9 == 0 else 2**40 + n for n in range(40)],
        "seen": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=6 * n) for n in range(40)],
        "é": [None if n % 8 == 0 else float("nan") if n % 7 == 0 else n / 4 for n in range(40)],
    },
    schema=SCHEMA.arrow,
)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with sl.connect(tmp_path_factory.mktemp("it's a warehouse")) as session:
        session.create_table("t", SCHEMA, [-10, 0, 10]).ingest(ROWS)
        yield session


CONDITIONS = [
    ("SELECT * FROM t WHERE k = 5", {}, 1),
    ("SELECT * FROM t WHERE -15 < k AND k <= -12", {}, 1),
    ("SELECT * FROM t WHERE K BETWEEN 3 AND 12 ORDER BY k LIMIT 4", {}, 2),
    ("SELECT count(*) FROM t WHERE k IN (-20, 5, 5) OR k = 19", {}, 3),
    ("SELECT v FROM t WHERE k IS NULL", {}, 0),
    ("SELECT v FROM t WHERE k = 5 AND k = 6", {}, 0),
    ("SELECT v FROM t WHERE k >= :low AND v = :text AND big > :big", {"low": 11, "text": "it's 33", "big": 2**40}, 1),
    ("SELECT v AS k FROM t WHERE k = 5", {}, 1),  # the column, not the alias
    ("SELECT * FROM t AS k WHERE k = 5", {}, 1),
    ("SELECT s.k FROM t AS s WHERE k = 5", {}, 1),
    ("FROM t WHERE v = 'it''s 3' AND k < 0", {}, 2),
    ("EXPLAIN SELECT * FROM t WHERE k = 5", {}, 1),
    ("SELECT * FROM t WHERE day = '2026-01-05'", {}, 1),
    ("SELECT * FROM t WHERE day BETWEEN DATE '2026-01-29' AND '2026-02-03' AND k > -15", {}, 2),
    ("SELECT * FROM t WHERE day IN ('2026-01-01', DATE '2026-02-09')", {}, 2),
    ("SELECT * FROM t WHERE '2026-01-03 18:00:00' <= seen AND seen < DATE '2026-01-05'", {}, 1),
    ("SELECT * FROM t WHERE seen = TIMESTAMP '2026-01-03 18:00:00'", {}, 1),
    ("SELECT * FROM t WHERE seen >= '2026-01-08 00:00:00.5'::TIMESTAMPTZ", {}, 2),
    ("SELECT * FROM t WHERE é > 5", {}, 4),
    ("SELECT * FROM t WHERE -0.5 < é AND 1e1 > é AND k < -12", {}, 1),
    ("SELECT * FROM t WHERE seen IN ('2026-01-03 18:00:00', TIMESTAMP '2026-01-05 00:00:00')", {}, 1),
    ("SELECT * FROM t WHERE seen BETWEEN '2026-01-03 18:00:00' AND DATE '2026-01-04'", {}, 1),
    ("SELECT * FROM t WHERE day > TIMESTAMP '2026-01-05 10:00:00'", {}, 4),
    ("SELECT * FROM t WHERE day >= '2026-1-5' AND day < '0044-03-15 (BC)'", {}, 4),
    ("SELECT * FROM t WHERE day < :day", {"day": dt.date(2026, 1, 5)}, 1),
    ("SELECT * FROM t WHERE seen < :seen", {"seen": dt.datetime(2026, 1, 5, 3, tzinfo=dt.UTC)}, 2),
    ("SELECT * FROM t WHERE seen < '2026-01-05 01:00:00+01'", {}, 2),
    ("SELECT * FROM t WHERE day = TRY_CAST('2026-01-05' AS DATE)", {}, 1),
    ("SELECT * FROM t WHERE day > '0000-01-01'", {}, 4),
    ("SELECT * FROM t WHERE seen = DATE '2026-01-05 18:00:00'", {}, 1),
    ("SELECT * FROM t WHERE seen >= DATE '2026-01-08 18:00:00' AND seen < '2026-01-08 12:00:00'::DATE + 1", {}, 2),
    ("SELECT * FROM t WHERE seen <= '2026-01-03 17:59:59.7'::TIMESTAMP(0)", {}, 2),
    ("SELECT * FROM t WHERE day = DATE '2026-01-05 18:00:00'", {}, 1),
    ("SELECT * FROM t WHERE é > :least OR k = 3", {"least": 9.5}, 4),
    ("SELECT * FROM t WHERE é <= :least", {"least": float("nan")}, 4),
    ("SELECT * FROM t WHERE é = '2.5'", {}, 4),
    ("SELECT * FROM t WHERE é > k", {}, 4),
    ("SELECT * FROM t WHERE k = '5'", {}, 1),
    ("SELECT * FROM t WHERE k = :key", {"key": "5"}, 1),
    ("SELECT * FROM t WHERE k = :key", {"key": True}, 1),
    ("SELECT * FROM t WHERE k < :key", {"key": 2**70}, 4),
    ("SELECT * FROM t WHERE k > 3000000000", {}, 4),
    ("SELECT * FROM t WHERE k <= :key", {"key": None}, 4),
    ("SELECT * FROM t WHERE k + 1 = 6", {}, 1),
    ("SELECT * FROM t WHERE NOT k > -15", {}, 1),
    ("SELECT * FROM t WHERE t.k = 5", {}, 1),
    ("SELECT * FROM t WHERE s.k = -5", {}, 4),
    ("SELECT * FROM t AS x(v, k) WHERE v = 5", {}, 1),  # other names of the columns
    ("SELECT * FROM t AS x(v, k) WHERE k = 'it''s 3'", {}, 4),
    ("SELECT (SELECT count(*) FROM t) AS n FROM t WHERE k = 5", {}, 4),
    ("SELECT * FROM t WHERE k = 5 UNION ALL FROM t WHERE k = 15", {}, 2),
    ("WITH w AS (FROM t) SELECT * FROM w WHERE k = 5", {}, 1),
    ("SELECT k, count(*) FROM t WHERE k > 0 GROUP BY k HAVING k < 5", {}, 1),
    ("SELECT a.k FROM t AS a, t AS b WHERE a.k = 5 AND b.k = 15", {}, 2),
    ("SELECT * FROM t WHERE v COLLATE NOCASE = 'IT''S 3'", {}, 4),
    ("SELECT * FROM t WHERE k = 5 AND v IN (SELECT v FROM t WHERE k > 0)", {}, 3),
]


@pytest.mark.parametrize(("statement", "params", "files"), CONDITIONS)
def test_a_condition_prunes_files_and_answers_the_same(session, statement, params, files):
    result = session.sql(statement, params=params, engine="duckdb")
    assert max(read["files"] for read in result.cost().to_dict()["reads"]) <= files
    if not statement.startswith("EXPLAIN"):
        assert rows_of(result) == expected(statement, params)


def rows_of(result):
    return sorted(map(repr, result.to_arrow().to_pylist()))


def expected(statement, params):
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", ROWS)
        text = statement
        for name in params:
            text = text.replace(f":{name}", f"${name}")
        return sorted(map(repr, connection.sql(text, params=params or None).to_arrow_table().to_pylist()))


@pytest.mark.parametrize("day", ["2026-02-30", "2026-13-01"])
def test_a_day_that_there_is_not_is_named(session, day):
    with pytest.raises(sl.SleeperError, match=day):
        session.sql(f"SELECT * FROM t WHERE day = '{day}'", engine="duckdb").to_arrow()


def test_a_sample_is_of_the_whole_table(session):
    whole = session.sql("SELECT count(*) AS n FROM t TABLESAMPLE 100 PERCENT WHERE k = 5", engine="duckdb")
    assert whole.to_arrow()["n"].to_pylist() == [1]


class TestRememberedStatements:
    def test_a_statement_is_judged_once(self):
        queries, connection = JudgedQueries(), duckdb.connect()
        first = queries.of(lambda: connection, Statement.of("SELECT 1", dialect="duckdb"))
        connection.close()
        assert queries.of(lambda: connection, Statement.of("SELECT 1", dialect="duckdb")) is first

    def test_what_is_refused_is_refused_again(self):
        queries = JudgedQueries()
        with duckdb.connect() as connection:
            for _ in range(2):
                with pytest.raises(InvalidInput):
                    queries.of(lambda: connection, Statement.of("DROP TABLE t", dialect="duckdb"))

    def test_only_the_last_ones_are_kept(self):
        queries = JudgedQueries()
        with duckdb.connect() as connection:
            first = queries.of(lambda: connection, Statement.of("SELECT 0", dialect="duckdb"))
            for number in range(1, 257):
                queries.of(lambda: connection, Statement.of(f"SELECT {number}", dialect="duckdb"))
            assert queries.of(lambda: connection, Statement.of("SELECT 0", dialect="duckdb")) is not first


@pytest.mark.parametrize(("column", "alias"), [("é", "É"), ("strasse", "straße"), ("σας", "σασ")])
def test_names_are_the_same_only_where_duckdb_says_so(tmp_path, column, alias):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({column: "int"}), [10, 20, 30])
        table.ingest([{column: n} for n in range(40)])
        found = session.sql(f"SELECT {column} + 30 AS {alias} FROM t WHERE {alias} = 35", engine="duckdb")
        assert found.to_arrow().to_pylist() == [{alias: 35}]
        with pytest.raises(InvalidInput):
            table.scan(where=f"{alias} = 5").count()


def test_whole_numbers_may_have_any_number_of_digits(session):
    huge = "9" * 5_000
    assert (
        session.sql(f"SELECT count(*) AS n FROM t WHERE k < {huge}", engine="duckdb").to_arrow()["n"][0].as_py() == 40
    )
    assert session.table("t").scan(where=f"k < {huge}").count() == 40


def test_each_key_is_found_in_its_own_file(tmp_path):
    schema = sl.Schema({"k": "string"}, {}, {"n": "long"})
    keys = [f"key {number:03}" for number in range(100)]
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", schema, split_points=keys[10::10])
        table.ingest([{"k": key, "n": number} for number, key in enumerate(keys)])
        for number, key in enumerate(keys):
            found = session.sql(f"SELECT n FROM t WHERE k = '{key}' OR n = {number // 10 + 990}", engine="duckdb")
            assert found.to_dict() == {"n": [number]}
            found = session.sql(f"SELECT n, {number % 7} AS one FROM t WHERE k = '{key}'", engine="duckdb")
            assert found.to_dict() == {"n": [number], "one": [number % 7]}
            assert found.cost().to_dict()["reads"][0]["partitions"] == 1
