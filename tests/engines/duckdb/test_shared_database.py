"""Statements share a DuckDB that keeps the footers of files; each reads its own rows, and lists no names of others."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

import sleeper_nb as sl

SCHEMA = sl.Schema({"n": "long"}, {}, {"city": "string"})
VERSIONS = 12


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path) as opened:
        table = opened.create_table("trips", SCHEMA)
        for n in range(VERSIONS):
            table.ingest([{"n": n, "city": f"c{n:02}"}])
        yield opened


def asked(session, version, columns="sum(n) AS s, max(city) AS c"):
    return session.sql(f"SELECT {columns} FROM trips VERSION AS OF {version}", engine="duckdb")


def expected(version):
    return [{"s": sum(range(version - 1)), "c": f"c{version - 2:02}"}]


def test_each_result_reads_its_own_version_whenever_it_is_read(session):
    results = {version: asked(session, version) for version in range(2, VERSIONS + 2)}
    for version in reversed(results):
        assert results[version].to_arrow().to_pylist() == expected(version)
    assert results[2].to_arrow().to_pylist() == expected(2)


def test_one_statement_reads_several_versions_and_views(session):
    session.sql("CREATE TEMP VIEW early AS SELECT * FROM trips VERSION AS OF 3", engine="duckdb")
    sql = "SELECT (SELECT count(*) FROM {}) AS a, (SELECT count(*) FROM {}) AS b, (SELECT count(n) FROM early) AS e"
    for a, b in ((4, 7), (7, 4), (4, 4)):
        text = sql.format(f"trips VERSION AS OF {a}", f"trips VERSION AS OF {b}")
        answer = session.sql(text + " WHERE random() >= 0", engine="duckdb").to_arrow().to_pylist()
        assert answer == [{"a": a - 1, "b": b - 1, "e": 2}]


def test_threads_read_the_same_files(session):
    def read(version):
        return asked(session, version).to_arrow().to_pylist() == expected(version)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, [2 + n % VERSIONS for n in range(100)]))


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW ALL TABLES",
        "SELECT table_name FROM information_schema.tables WHERE table_name <> 'trips'",
        "SELECT view_name FROM duckdb_views() WHERE NOT internal",
        "SELECT schema_name FROM duckdb_schemas() WHERE schema_name LIKE '%kept%'",
        "SELECT name FROM sqlite_master",
    ],
)
def test_statements_do_not_list_the_views_of_others(session, sql):
    asked(session, 3).to_arrow()
    assert session.sql(sql, engine="duckdb").to_arrow().num_rows == 0


def test_functions_of_the_search_path_answer_as_without_tables(session):
    sql = "SELECT current_schema() AS a, current_schemas(true) AS b, current_setting('search_path') AS c"
    expected = session.sql(sql, engine="duckdb").to_arrow().to_pylist()
    asked(session, 3).to_arrow()
    assert session.sql(f"{sql} FROM trips LIMIT 1", engine="duckdb").to_arrow().to_pylist() == expected


@pytest.mark.parametrize("name", ["__sleeper_0", "__SLEEPER__0", "__sleeper_1"])
def test_a_name_of_the_user_is_never_taken_for_a_generated_one(session, name):
    session.sql("CREATE TEMP VIEW all_trips AS SELECT * FROM trips", engine="duckdb")
    for table in ("trips", "all_trips"):
        sql = f"WITH {name} AS (SELECT -1 AS n) SELECT max(t.n) AS n FROM {table} AS t WHERE t.n >= 0"
        assert session.sql(sql, engine="duckdb").to_arrow().to_pylist() == [{"n": VERSIONS - 1}]


def test_a_file_that_was_changed_is_not_read_by_a_kept_footer(session, tmp_path):
    whole = session.sql("SELECT sum(n) AS s, max(city) AS c FROM trips", engine="duckdb")
    assert whole.to_arrow().num_rows == 1
    path = next(path for path in tmp_path.rglob("*.parquet") if "data" in path.parts)
    path.write_bytes(path.read_bytes()[:-9] + b"123456789")
    with pytest.raises(sl.StorageError, match=path.name):
        session.sql("SELECT sum(n) AS s, max(city) AS c FROM trips", engine="duckdb").to_arrow()
    path.unlink()
    with pytest.raises(sl.NotFound, match=path.name):
        session.sql("SELECT sum(n) AS s, max(city) AS c FROM trips", engine="duckdb").to_arrow()


def test_a_file_that_is_cut_before_a_result_is_read_is_named(session, tmp_path):
    lazy = asked(session, 4)
    for path in (path for path in tmp_path.rglob("*.parquet") if "data" in path.parts):
        path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(sl.StorageError, match=r"\.parquet has \d+ bytes"):
        lazy.to_arrow()


def test_a_connection_is_closed_with_the_last_reference_to_its_answer(session):
    answer = session.sql("SELECT n FROM trips", engine="duckdb")
    assert repr(answer)
    gone = weakref.ref(answer._rows._connection)
    gc.disable()
    try:
        del answer
        assert gone() is None
    finally:
        gc.enable()


def test_rows_that_are_still_read_keep_their_connection(session):
    many = "SELECT n + 12 * r.range AS x FROM trips, range(1000) AS r ORDER BY x"
    batches = session.sql(many, engine="duckdb").batches()
    first = next(batches).num_rows
    for _ in range(3):
        assert session.sql("SELECT count(n) AS c FROM trips", engine="duckdb").to_dict() == {"c": [VERSIONS]}
    assert 0 < first < 12_000
    assert first + sum(batch.num_rows for batch in batches) == 12_000


def test_threads_read_some_versions_again_and_again(session):
    def read(number):
        version = 2 + number % 3
        return asked(session, version).to_arrow().to_pylist() == expected(version)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(200)))
