"""All answers of a session share one DuckDB, and none of them sees what another one named."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

import sleeper_nb as sl
from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.duckdb_reads import JudgedQueries
from sleeper_nb.errors import InvalidInput, SessionClosed
from sleeper_nb.sql.statement import Statement

THREADS = Path("/proc/self/task")
SCHEMA = sl.Schema({"city": "string"}, {}, {"fare": "double?"})


def asked(connection, sql):
    return relations.query(
        connection, relations.parsed(lambda: connection, Statement.of(sql, dialect="duckdb"), JudgedQueries())
    )


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path) as opened:
        opened.create_table("trips", SCHEMA, ["m"]).ingest([{"city": "rome", "fare": 1.0}, {"city": "bern"}])
        yield opened


@pytest.mark.skipif(not THREADS.is_dir(), reason="only Linux lists the threads of a process")
def test_answers_that_are_kept_add_no_threads_and_can_be_read_behind_the_session(session):
    def ask():
        return session.sql("SELECT count(*) FROM trips", engine="duckdb")

    first, relation = ask(), session.table("trips").scan().to_duckdb()
    assert first.to_arrow().column(0).to_pylist() == [2]
    threads = {*THREADS.iterdir()}
    kept = [ask() for _ in range(20)]
    assert {*THREADS.iterdir()} - threads == set()
    session.close()
    assert {answer.to_arrow().column(0)[0].as_py() for answer in [*kept, first]} == {2}
    assert len(relation.fetchall()) == 2


def test_names_are_those_of_one_connection_also_of_rows_from_arrow(session):
    database = Database()
    one, other = database.connect(), database.connect()
    relations.name_rows(one, "t", one.from_arrow(SCHEMA.arrow.empty_table()))
    relations.name_rows(other, "t", other.sql("SELECT 7 AS n"))
    assert asked(one, "FROM t").columns == ["city", "fare"]
    assert asked(other, "FROM t").fetchall() == [(7,)]
    with pytest.raises(InvalidInput, match="t does not exist"):
        asked(database.connect(), "FROM t")


def test_a_table_that_a_program_makes_on_a_relation_hides_none_of_ours(session):
    session.table("trips").scan().to_duckdb().limit(1).create("trips")
    assert session.sql("SELECT count(*) FROM trips", engine="duckdb").to_arrow().column(0).to_pylist() == [2]


def test_a_variable_is_no_table_and_times_are_shown_in_utc():
    rows = SCHEMA.arrow.empty_table()
    connection = Database().connect()
    assert rows.num_rows == 0
    with pytest.raises(InvalidInput, match="rows does not exist"):
        asked(connection, "FROM rows")
    shown = asked(connection, "SELECT (TIMESTAMPTZ '2026-11-01 10:00:00+02')::VARCHAR").fetchall()
    assert shown == [("2026-11-01 08:00:00+00",)]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '{}/rows.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{}/rows.csv'",
        "EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO '{}/rows.csv'",
        "/* SELECT */ EXPORT DATABASE '{}'",
        "ATTACH '{}/x.duckdb' AS x",
        "SET threads = 1",
        "PRAGMA threads = 1",
        "IMPORT DATABASE '{}'",
        "EXPLAIN",
        "",
    ],
)
def test_a_statement_that_does_not_read_is_refused_before_it_does_anything(session, tmp_path, sql):
    before = {*tmp_path.iterdir()}
    with pytest.raises(InvalidInput, match=r"no query.*\nhint: begin with SELECT|there is no COPY"):
        session.sql(sql.format(tmp_path), engine="duckdb")
    assert {*tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "sql",
    [
        "PIVOT trips ON city USING sum(fare)",
        "SUMMARIZE trips",
        "DESC trips",
        "VALUES (1)",
        "((SELECT city FROM trips) UNION (SELECT '')) -- COPY",
        "EXPLAIN FROM trips",
        "EXPLAIN ANALYZE (FROM trips)",
        "EXPLAIN (ANALYZE, FORMAT json) FROM trips",
        "EXPLAIN (SELECT 1)",
    ],
)
def test_whatever_reads_is_answered(session, sql):
    assert session.sql(sql, engine="duckdb").to_arrow().num_rows


def test_two_databases_share_nothing():
    Database().connect().execute("CREATE TABLE t (n INT)")
    with pytest.raises(duckdb.CatalogException):
        Database().connect().sql("FROM t")


def test_relations_of_one_thread_are_joined_and_each_thread_has_its_own(session):
    trips = session.table("trips")
    session.create_table("towns", sl.Schema({"city": "string"}, {}, {"name": "string"})).ingest(
        [{"city": "rome", "name": "Roma"}, {"city": "oslo", "name": "Oslo"}]
    )
    towns, old = session.table("towns").scan().to_duckdb(), trips.at(2).scan(["city"]).to_duckdb()
    joined = trips.scan().to_duckdb().join(towns, "city").join(old, "city")
    assert joined.select("city", "name", "fare").fetchall() == [("rome", "Roma", 1.0)]
    assert trips.scan().to_duckdb().union(trips.scan(where="fare > 0").to_duckdb()).count("*").fetchall() == [(3,)]
    files = session.duckdb_connection.from_arrow(trips.inspect.files())
    assert files.cross(towns).count("*").fetchall() == [(4,)]

    def read(_):
        return [len(session.table("trips").scan().to_duckdb().fetchall()) for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(read, range(4))] == [[2] * 20] * 4


def test_a_connection_that_a_program_closes_is_replaced(session):
    first = session.table("trips").scan().to_duckdb()
    assert len(first.fetchall()) == 2
    session.duckdb_connection.close()
    assert len(session.table("trips").scan().to_duckdb().fetchall()) == 2
    connection = session.duckdb_connection
    assert connection is session.duckdb_connection
    connection.execute("SELECT * FROM range(3) t(n) ORDER BY n")
    assert connection.fetchone() == (0,)
    session.table("trips").scan().to_duckdb()
    assert connection.fetchall() == [(1,), (2,)]  # making a relation ends no result
    session.close()
    with pytest.raises(SessionClosed):
        session.duckdb_connection  # noqa: B018


def test_a_relation_reads_only_the_columns_and_row_groups_that_are_needed(session):
    table = session.create_table("many", SCHEMA, ["b", "c", "d"])
    table.ingest([{"city": city, "fare": 1.0} for city in "abcd"])
    rows = table.scan().to_duckdb().filter("city = 'b'").aggregate("sum(fare)")
    assert rows.fetchall() == [(1.0,)]
    ((_, read),) = session.duckdb_connection.execute(f"EXPLAIN ANALYZE {rows.sql_query()}").fetchall()
    assert re.search(r"Row Groups Scanned: 1 / 4\b", read)  # each file's footer says what its row groups hold
    assert "city" not in table.scan().to_duckdb().select("fare").explain()
