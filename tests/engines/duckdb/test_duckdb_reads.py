"""SQL on DuckDB reads and never writes: by DuckDB's own parser, and by the settings of the database that runs it."""

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.duckdb.duckdb_reads import FILE_FUNCTIONS, judged
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError, StorageError
from sleeper_nb.progress import Watch
from sleeper_nb.sql.statement import Statement
from sleeper_nb.widgets.answer_rows import AnswerRows

SCHEMA = sl.Schema({"city": "string"}, {}, {"fare": "double?"})

WRITES = [
    "WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1",
    "WITH a AS MATERIALIZED (COPY (SELECT 1) TO '{out}') SELECT * FROM a",
    "SELECT (WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1)",
    "FROM (WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1)",
    "SELECT 1 UNION ALL (WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1)",
    "SELECT 1 ORDER BY (WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1)",
    "SELECT 1 LIMIT (WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1)",
    "DESCRIBE WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1",
    "SUMMARIZE WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1",
    "WITH a AS (COPY (SELECT 1 AS x, 2 AS y) TO '{out}') PIVOT (SELECT 1 AS x, 2 AS y) ON x USING sum(y)",
    "PIVOT (WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1 AS x, 2 AS y) ON x USING sum(y)",
    "PIVOT (WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1 AS x, 2 AS y) ON x IN (1) USING sum(y)",
    "EXPLAIN WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1",
    "EXPLAIN ANALYZE WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}'",
    "EXPLAIN /* /* */ ANALYZE COPY (SELECT 1) TO '{out}' -- */ */ SELECT 1",
    "EXPLAIN (ANALYZE) PIVOT (WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1 AS x, 2 AS y) ON x USING sum(y)",
    "SELECT 1; COPY (SELECT 1) TO '{out}'",
    "COPY (SELECT 1) TO '{out}'",
    "FROM query('COPY (SELECT 1) TO ''{out}''')",
    "PIVOT (FROM query('SELECT 1 AS x, 2 AS y')) ON x USING sum(y)",
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "EXPORT DATABASE '{out}'",
    "ATTACH '{out}' AS x",
    "CREATE TABLE x AS SELECT 1",
    "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE MACRO m() AS 1",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 1",
    "RESET threads",
    "PRAGMA enable_profiling",
    "PRAGMA profiling_output = '{out}'",
    "CALL enable_logging(storage = 'file', storage_config = {{'path': '{out}'}})",
    "FROM enable_logging('QueryLog')",
    "FROM checkpoint()",
    "FROM duckdb_secrets()",
    "FROM arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)",
    "SELECT nextval('s')",
    "SELECT write_log('x')",
    "SELECT getenv('HOME')",
    "SELECT sleep_ms(1)",
    "SELECT pg_sleep(0)",
    "SELECT set_config('threads', '1', false)",
    "FROM read_text('/proc/self/environ')",
    "FROM read_text('/p*c/self/environ')",
    "FROM read_text('file:///proc/self/environ')",
    "FROM '/proc/self/../self/environ'",
    "SELECT * FROM read_csv('/dev/stdin')",
    "FROM read_blob('/dev/fd/0')",
    "FROM read_text('/sys/kernel/mm/transparent_hugepage/enabled')",
    "PIVOT (FROM read_text('/proc/self/environ')) ON filename USING count(*)",
    "WITH a AS (INSERT INTO trips VALUES ('x', 1) RETURNING city) FROM a",
    "WITH a AS (DELETE FROM trips RETURNING city) FROM a",
    "WITH a AS (UPDATE trips SET fare = 0 RETURNING city) FROM a",
    "VACUUM",
    "USE memory",
    "BEGIN",
    "PREPARE p AS SELECT 1",
    "",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sql")


@pytest.fixture(scope="module")
def session(folder):
    with sl.connect(folder / "warehouse") as opened:
        opened.create_table("trips", SCHEMA, ["m"]).ingest([{"city": "rome", "fare": 1.0}, {"city": "bern"}])
        yield opened


@pytest.fixture
def files(session, folder, monkeypatch):
    """The content of every file of the folder that the test stands in."""
    monkeypatch.chdir(folder)
    session.sql("FROM trips", engine="duckdb").to_arrow()

    def read():
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return read


@pytest.fixture
def doors(session):
    trips = session.table("trips")

    def widget(sql):
        return AnswerRows.of(session.sql(sql, engine="duckdb")).page(0, 2, Watch())

    return [
        lambda sql: session.sql(sql, engine="duckdb").to_arrow(),
        lambda sql: session.sql(sql, engine="duckdb", dry_run=True).explain(),
        lambda sql: session.sql(sql, engine="duckdb").to_duckdb().fetchall(),
        lambda sql: session.sql(sql, engine="duckdb").plot("bar"),
        lambda sql: session.sql(f"CREATE OR REPLACE TEMP VIEW v AS {sql}", engine="duckdb"),
        lambda sql: session.sql(f"FROM trips VERSION AS OF ({sql})", engine="duckdb"),
        trips.inspect.query,
        lambda sql: trips.scan(where=f"({sql or 'SELECT 1;'}) = 1").to_duckdb().fetchall(),
        lambda sql: trips.scan(where=f"({sql}) = 1").to_arrow(),
        lambda sql: trips.scan(where=sql).to_duckdb().fetchall(),
        widget,
    ]


@pytest.mark.parametrize("sql", WRITES)
def test_no_door_runs_what_does_more_than_read(files, doors, folder, sql):
    before, text = files(), sql.format(out=folder / "out.csv")
    for door in doors:
        with pytest.raises(SleeperError):
            door(text)
    assert files() == before


def test_the_statement_that_destroyed_a_warehouse_is_refused_by_name(session):
    with pytest.raises(InvalidInput, match=r"a query cannot contain 'COPY'|A CTE needs a SELECT"):
        session.sql(f"WITH a AS (COPY (SELECT 1) TO '{session.location}/catalog.sqlite') SELECT 1", engine="duckdb")
    assert session.sql("SELECT count(*) AS n FROM trips", engine="duckdb").to_dict() == {"n": [2]}


def test_what_the_parser_might_miss_the_database_itself_refuses(session, folder):
    catalog = f"{session.location}/catalog.sqlite"
    confined = Database().connect_confined([f"{session.location}/x/data"])
    for sql in (
        f"COPY (SELECT 1) TO '{catalog}' (USE_TMP_FILE false, FORMAT csv)",
        f"COPY (SELECT 1) TO '{session.location}/x/data/../../catalog.sqlite' (USE_TMP_FILE false, FORMAT csv)",
        f"COPY (SELECT 1) TO '{folder}/out.csv'",
        f"ATTACH '{folder}/x.duckdb' AS x",
        f"FROM read_blob('{catalog}')",
        "SET enable_external_access = true",
        "SET allowed_paths = ['/']",
        "RESET lock_configuration",
        "FROM 'https://example.com/a.csv'",
    ):
        with pytest.raises(duckdb.Error):
            confined.execute(sql)
    assert session.table("trips").maintenance.check(deep=True).ok


def test_every_table_function_of_this_duckdb_is_known_to_read_or_refused():
    connection = Database().connect()
    found = connection.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'table'")
    effects = ("enable_", "disable_", "create_", "destroy_", "register_", "deregister_", "truncate_", "force_")
    for (name,) in found.fetchall():
        if name.startswith((*effects, "query", "checkpoint", "arrow", "pandas", "python", "json_execute", "seq_")):
            with pytest.raises(InvalidInput, match="cannot call table function"):
                judged(connection, Statement.of(f"FROM {name}()", dialect="duckdb"))


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("FROM 'data.csv'", 2),
        ("FROM './data.csv' JOIN trips USING (city)", 1),
        ('SELECT * FROM "data.csv"', 2),
        ("FROM '{}/data.csv'", 2),
        ("FROM '*.csv'", 3),
        ("FROM read_csv(['data.csv', 'more.csv'], delim = ',')", 3),
        ("FROM read_csv(:path)", 2),
        ("FROM read_csv(:paths)", 3),
        ("WITH a AS (FROM 'data.csv') FROM a", 2),
        ("PIVOT 'data.csv' ON city USING sum(n)", 1),
        ("DESCRIBE 'data.csv'", 2),
        ("SELECT (SELECT max(n) FROM 'data.csv')", 1),
        ("FROM read_text('more.csv')", 1),
        ("FROM glob('*.csv')", 2),
        ("FROM read_parquet('rows.parquet')", 2),
        ("FROM 'rows.parquet'", 2),
        ("FROM parquet_schema('rows.parquet')", 3),
        ("EXPLAIN FROM 'data.csv'", 1),
    ],
)
def test_local_files_are_read_and_a_setting_forbids_it(session, folder, monkeypatch, sql, rows):
    monkeypatch.chdir(folder)
    (folder / "data.csv").write_text("city,n\nrome,1\nparis,2\n")
    (folder / "more.csv").write_text("city,n\noslo,3\n")
    session.sql("FROM trips", engine="duckdb").to_duckdb().write_parquet(
        "rows.parquet", overwrite=True
    )  # a program may write
    asked, params = sql.format(folder), {"path": "data.csv", "paths": ["data.csv", "more.csv"]}
    assert session.sql(asked, engine="duckdb", params=params).to_arrow().num_rows == rows
    assert len(session.sql(asked, engine="duckdb", params=params).to_duckdb().fetchall()) == rows
    with (
        sl.connect(folder / "warehouse", properties={"sleeper.sql.local.files": "false"}) as strict,
        pytest.raises(InvalidInput, match=r"local files here.*\nhint: .*sleeper\.sql\.local\.files"),
    ):
        strict.sql(asked, engine="duckdb", params=params)


def test_sql_opens_no_other_files_than_those_that_were_allowed(session, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "data").mkdir()
    (folder / "data" / "more.csv").write_text("7,secret\n")
    (folder / "data.csv").write_text("city,n\nrome,1\n")
    for call in ("FROM 'd*'", "FROM read_csv('d*')"):  # DuckDB reads no files of a folder that a glob matches
        assert session.sql(call, engine="duckdb").to_arrow().to_pylist() == [{"city": "rome", "n": 1}]
    with sl.connect(folder / "warehouse", properties={"sleeper.sql.local.files": "false"}) as strict:
        for sql in ("FROM './data'", "FROM './data/'", "FROM '.'"):
            with pytest.raises(InvalidInput) as caught:
                strict.sql(sql, engine="duckdb")
            assert "secret" not in str(caught.value)
            assert "several formats" not in str(caught.value)


def test_a_view_over_a_file_is_read_too(session, folder):
    (folder / "data.csv").write_text("city,n\nrome,1\n")
    session.sql(f"CREATE TEMP VIEW given AS FROM '{folder}/data.csv'", engine="duckdb")
    assert session.sql("FROM trips JOIN given USING (city)", engine="duckdb").to_arrow().num_rows == 1


WIDER = "k,v\n" + "".join(f"{n},x\n" if n < 98 else f"{n},x,y\n" for n in range(3000))


@pytest.mark.parametrize("statement", [
    "SELECT * FROM '{}'", "CREATE TABLE made ROW KEYS (k) AS SELECT * FROM '{}'",
    "INSERT INTO trips SELECT v, k FROM '{}' WHERE k < 0", 'SELECT count(*) FROM "{}"', "DESCRIBE '{}'", "TABLE '{}'",
])  # fmt: skip
def test_no_line_of_a_file_in_sql_is_left_out(session, folder, statement):
    (folder / "w.csv").write_text(WIDER)
    before = len(session.tables())
    with pytest.raises(
        InvalidInput, match=r"line 100 has 3 values, but there are 2 columns.*w\.csv.*\nhint: .*read_csv"
    ):
        session.sql(statement.format(folder / "w.csv"), engine="duckdb")
    assert len(session.tables()) == before
    (folder / "w.csv").write_text(WIDER.replace(",y", ""))
    session.sql(statement.format(folder / "w.csv"), engine="duckdb")


def test_calls_that_guess_leave_out_no_line_and_no_field(session, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "w.csv").write_text(WIDER)
    (folder / "late.json").write_text("".join('{"k": 1%s}\n' % (', "z": 2' * (n > 21_000)) for n in range(21_010)))
    for sql, rows in (
        ("SELECT count(*) FROM read_csv('w.csv', header = true)", 3000),
        ("SELECT count(*) FROM read_csv('w.csv', header = false, skip = 99)", 2902),
        ("SELECT count(z) FROM read_json('late.json')", 9),
        ("SELECT count(z) FROM 'late.json'", 9),
    ):
        assert session.sql(sql, engine="duckdb").to_arrow().column(0).to_pylist() == [rows]


def test_lines_that_end_in_different_ways_are_read_and_named_by_a_call(session, folder):
    (folder / "w.csv").write_bytes(b"k,v\r\n1,2\n")
    assert session.sql(f"SELECT * FROM '{folder}/w.csv'", engine="duckdb").to_arrow().to_pylist() == [{"k": 1, "v": 2}]
    call = f"read_csv('{folder}/w.csv', columns = {{k: 'INT', v: 'INT'}}, auto_detect = false, header = true)"
    with pytest.raises(InvalidInput, match="hint: where lines of a CSV file end in different ways, CRLF and LF,"):
        session.sql(f"FROM {call}", engine="duckdb").to_arrow()


def test_a_file_that_is_not_utf_8_is_read_as_the_hint_says(session, folder):
    for text, encoding in (("k,v\nGenève,1\n", "latin-1"), ("k,é\na,1\n", "latin-1"), ("k,v\na,1\n", "utf-16")):
        (folder / "w.csv").write_bytes(text.encode(encoding))
        with pytest.raises((InvalidInput, StorageError)) as error:
            session.sql(f"FROM '{folder}/w.csv'", engine="duckdb").to_arrow()
        assert "say its encoding: read_csv('" in error.value.hint
        assert f"'{encoding}'" in error.value.hint
        read = session.sql(f"FROM read_csv('{folder}/w.csv', encoding = '{encoding}')", engine="duckdb").to_arrow()
        assert read.rename_columns(["k", "v"]).to_pylist() == [{"k": text.split("\n")[1][:-2], "v": 1}]
    with pytest.raises(InvalidInput, match="hint: it reads utf-8, latin-1 and utf-16: save the file as one of them"):
        session.sql(f"FROM read_csv('{folder}/w.csv', encoding = 'cp1252')", engine="duckdb").to_arrow()


def test_each_file_of_a_glob_is_read_once_and_no_hidden_one(session, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "g").mkdir()
    texts = {"a[1].csv": "k,v\n1,1", "a1.csv": "k,v\n2,2", "b.tsv": "k\tv\n3\t3", "_c.csv": "k,v\n9,9"}
    for name, text in texts.items():
        (folder / "g" / name).write_text(text)
    for name, k in {"a[1]": 1, "a1": 2, "_c": 9}.items():
        pq.write_table(pa.table({"k": [k]}), folder / f"g/{name}.parquet")
        (folder / f"g/{name}.json").write_text(f'{{"k": {k}}}')
    for source, keys in (
        ("'g/*.?sv'", [1, 2, 3]),
        ("'g/*.csv'", [1, 2]),
        ("'g/a[1].csv'", [1]),
        ("'g/a[1].parquet'", [1]),
        ("'g/_*.parquet'", [9]),
        ("'g/a*.parquet'", [1, 2]),
        ("'g/?[1c].parquet'", [2]),
        ("read_csv('g/*.csv')", [1, 2]),
        ("read_csv(['g/*.csv'])", [1, 2]),
        ("read_csv('g/_*.csv')", [9]),
        ("read_csv('g/_c.csv')", [9]),
        ("read_parquet('g/*.parquet')", [1, 2]),
        ("read_parquet(['g/a1.parquet', 'g/*.parquet'])", [1, 2, 2]),
        ("read_json(['g/*.json'])", [1, 2]),
        ("(SELECT regexp_extract(content, '[0-9]')::INT AS k FROM read_text('g/*.json'))", [1, 2]),
        ("(SELECT octet_length(content) - 7 AS k FROM read_blob(['g/*.json']))", [1, 1]),
    ):
        read = session.sql(f"SELECT k FROM {source} ORDER BY k", engine="duckdb").to_arrow()
        assert (source, read.column(0).to_pylist()) == (source, keys)
    objects = session.sql("SELECT count(*) FROM read_json_objects('g/*.json')", engine="duckdb").to_arrow()
    assert objects.column(0).to_pylist() == [2]
    for call in ("read_csv((('g/*.csv')))", "read_csv(list_value('g/*.csv'))", "read_csv(:path)"):
        with pytest.raises(InvalidInput, match=r"SQL may not open '.*_c\.csv'\nhint: .* hidden ones by name"):
            session.sql(f"FROM {call}", params={"path": "g/*.csv"} if ":" in call else {}, engine="duckdb").to_arrow()


def test_files_in_sql_have_the_values_that_a_table_made_of_them_has(session, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for year in (2025, 2026):
        (folder / f"p/year={year}").mkdir(parents=True)
    (folder / "p/year=2025/a.csv").write_text(
        '\nk,c,d,t\n1,,2020-01-02,2020-01-01 10:00\n2,"",,2020-01-01T10:00:00+01:00\n'
    )
    (folder / "p/year=2026/b.csv").write_text("k,e\n3,true\n")
    (folder / "p/year=2026/_c.csv").write_text("k,e\n4,true\n")
    made = session.create_table("of_parts", "p/*/*.csv", row_keys=["k"]).scan().to_arrow()
    read = session.sql("SELECT * FROM 'p/*/*.csv' ORDER BY k", engine="duckdb")
    assert "1 file left out, as its name or folder begins with . or _" in repr(read)
    assert read.to_arrow().select(made.column_names).to_pylist() == made.to_pylist()
    calls = session.sql("SELECT count(*) AS n FROM read_csv('p/*6/*.csv')", engine="duckdb")
    assert calls.to_arrow()["n"].to_pylist() == [1]
    assert session.sql("FROM read_csv('p/year=2025/a.csv')", engine="duckdb").to_arrow().num_rows == 2
    (folder / "late.csv").write_text("k,v\n" + f"1,{'x' * 1000}\n" * 9000 + "01,2\n")
    with pytest.raises(InvalidInput, match=r"column 'k', line 9,002: '01' .* cannot become long"):
        session.sql("SELECT max(k) FROM 'late.csv'", engine="duckdb").to_arrow()
    (folder / "wide.csv").write_text("k,v\n" + f"1,{'x' * 1000}\n" * 9000 + "1,2,3\n")
    with pytest.raises(InvalidInput, match="line 9,002 has 3 values, but there are 2 columns"):
        session.sql("SELECT max(k) FROM 'wide.csv'", engine="duckdb").to_arrow()
    assert session.sql("SELECT late.v FROM 'late.csv' LIMIT 1", engine="duckdb").to_arrow().num_rows == 1


def test_sql_reads_no_file_without_names_and_none_of_a_lake_table(session, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "n.csv").write_text("1,x\n2,y\n")
    with pytest.raises(InvalidInput, match=r"may have no column names: '1', 'x'\nhint: .*header = false\)"):
        session.sql("FROM 'n.csv'", engine="duckdb")
    assert session.sql("FROM read_csv('n.csv', header = false)", engine="duckdb").to_arrow().num_rows == 2
    (folder / "lake/_delta_log").mkdir(parents=True)
    (folder / "lake/a.csv").write_text("k\n1\n")
    for source in ("'lake/*.csv'", "read_csv('lake/*.csv')", "read_csv(:path)", "'*/*.csv'"):
        with pytest.raises(InvalidInput, match="lake is a Delta table"):
            session.sql(f"FROM {source}", engine="duckdb", params={"path": "lake/*.csv"})
    assert session.sql("FROM 'lake/a.csv'", engine="duckdb").to_arrow().num_rows == 1


@pytest.mark.parametrize("name", ["catalog.sqlite", "config/instance.properties", "*/data/*/*.parquet"])
@pytest.mark.parametrize("function", sorted(FILE_FUNCTIONS - {"glob"}))
def test_the_files_of_an_instance_are_read_by_no_function(session, folder, monkeypatch, function, name):
    monkeypatch.chdir(folder)
    if not (folder / "link").exists():
        (folder / "link").symlink_to(session.location)
    for place in (session.location, "warehouse/default", "link", f"file://{session.location}"):
        with pytest.raises(InvalidInput, match=r"a file of the instance.*\nhint: read the table by its name"):
            session.sql(f"FROM {function}('{place}/{name}')", engine="duckdb")


def test_files_of_the_operating_system_are_no_data_also_behind_links(session, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "environ").symlink_to("/proc/self/environ")
    (folder / "self").symlink_to("/proc/self")
    for name in ("environ", "env*", "self/environ", f"{folder}/self/environ", "./self/../self/environ"):
        with pytest.raises(InvalidInput, match="a file of the operating system"):
            session.sql(f"FROM read_text('{name}')", engine="duckdb")


def test_what_does_not_fit_into_memory_goes_to_a_private_folder(session, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / ".tmp").mkdir(exist_ok=True)
    (folder / ".tmp" / "secret.txt").write_text("secret")
    with pytest.raises(SleeperError, match="may not open"):
        session.sql("FROM read_text('.tmp/secret' || '.txt')", engine="duckdb").to_arrow()
    spill = Path(session.sql("SELECT current_setting('temp_directory') AS d", engine="duckdb").to_dict()["d"][0])
    assert not spill.exists()
    assert spill.parent.stat().st_mode & 0o077 == 0
    confined = Database().connect_confined(())
    place = Path(confined.execute("SELECT current_setting('temp_directory')").fetchone()[0])
    assert place != spill
    (folder / ".tmp" / "secret.txt").unlink()
    (folder / ".tmp").rmdir()


@pytest.mark.parametrize("signs", ["()", "[]", "{}"])
def test_brackets_have_one_limit_at_every_door(session, signs):
    trips, (opening, closing) = session.table("trips"), signs
    for deep, end in ((300, closing), (20_000, closing), (20_000, ""), (20_000, "'")):
        text = f"fare = {opening * deep}1{end * deep if end == closing else end}"
        for door in (
            lambda text=text: trips.scan(where=text),
            lambda text=text: session.sql(f"FROM trips WHERE {text}", engine="duckdb"),
            lambda text=text: session.sql(f"SELECT * FROM trips WHERE {text}", engine="spark"),
        ):
            with pytest.raises(InvalidInput, match=r"more than 200 brackets|never closed") as error:
                door()
            assert len(str(error.value)) < 400
    assert trips.scan(where=f"fare = {'(' * 150}1{')' * 150}").count() == 1


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("FROM 'nosuch.csv'", "nosuch.csv"),
        ("FROM read_csv('https://example.com/a.csv')", "example.com/a.csv"),
        ("FROM read_csv('a' || '.csv')", "SQL may not open 'a.csv'"),
        ("FROM read_cvs('a.csv')", "did you mean read_csv"),
        ("SELECT FROM FROM", "syntax error"),
        (f"SELECT {'(' * 150}1{')' * 150} {'+ 1' * 20_000}", "deep|nested|depth"),
    ],
)
def test_what_cannot_be_read_says_why(session, sql, words):
    with pytest.raises(SleeperError, match=words):
        session.sql(sql, engine="duckdb").to_arrow()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT city, row_number() OVER (ORDER BY fare) FROM trips QUALIFY true",
        "FROM trips SELECT city, COLUMNS('f.*') GROUP BY ALL",
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) FROM n",
        "SELECT [x + 1 FOR x IN [1, 2] IF x > 1], {'a': 1}, MAP {'k': 2}, list_transform([1], lambda x: x)",
        "FROM trips t ASOF JOIN trips u ON t.city >= u.city",
        "FROM trips USING SAMPLE 100 PERCENT (bernoulli)",
        "FROM trips TABLESAMPLE reservoir(10)",
        "SELECT DISTINCT ON (city) * EXCLUDE (fare) FROM trips ORDER BY city LIMIT 50%",
        "FROM trips POSITIONAL JOIN trips t",
        "SELECT TRY_CAST('x' AS INT), 1::DECIMAL(4, 2), 'a' COLLATE NOCASE, INTERVAL 1 DAY, DATE '2026-11-01'",
        "UNPIVOT trips ON fare INTO NAME n VALUE v",
        "FROM trips PIVOT (sum(fare) FOR city IN ('rome', 'bern'))",
        "FROM range(3), LATERAL (SELECT range + 1)",
        'SELECT unnest([1, 2]), "copy" FROM (SELECT 1 AS "copy")',
        "PIVOT (SELECT city, fare, 'x--y' AS \"a.b\" FROM trips) ON city USING sum(fare) AS n -- COPY",
        "SELECT count(*) FILTER (WHERE fare > 0), grouping(city) FROM trips GROUP BY CUBE (city)",
        "SELECT * FROM trips WHERE city IN (SELECT city FROM trips) AND EXISTS (FROM trips) OR fare BETWEEN 1 AND 2",
        "SHOW ALL TABLES",
        "FROM duckdb_settings()",
        f"SELECT 1 WHERE 1 IN ({', '.join(map(str, range(5000)))})",
        f"SELECT {' + '.join(['1'] * 300)}",
    ],
)
def test_queries_of_every_kind_are_answered(session, sql):
    session.sql(sql, engine="duckdb").to_arrow()


def test_a_json_file_in_sql_has_the_types_and_values_that_a_table_made_of_it_has(session, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "a.json").write_text(
        '{"k": 1, "u": "7F0C2D1E-0000-0000-0000-00000000000A", "At time": "2026-01-01 10:00:00",'
        ' "s": {"a": [1, 2.5]}}\n'
        '{"k": 2, "d": 1, "e": null}\n{"k": 9007199254740993, "d": 0.1}\n'
    )
    made = session.create_table("of_json", "a.json", row_keys=["k"], by_name=True, types={"e": "string?"})
    made = made.scan().to_arrow().rename_columns({"At_time": "At time"})
    read = session.sql("SELECT * FROM 'a.json' ORDER BY k", engine="duckdb").to_arrow()
    assert read.column_names == ["k", "u", "At time", "s", "d", "e"]
    assert read.select(made.column_names).to_pylist() == made.to_pylist()
    both = session.sql("WITH a AS (FROM 'a.json') SELECT k FROM a JOIN a AS b USING (k) WHERE a.d > 0", engine="duckdb")
    assert sorted(both.to_arrow()["k"].to_pylist()) == [2, 9007199254740993]


@pytest.mark.parametrize("names", [["file"], ["file", "file_"], ["file_", "File", "fi le", "fi_le"], ["_", "file "]])
def test_a_json_file_in_sql_may_have_columns_of_any_names(session, folder, names):
    row = {name: number for number, name in enumerate(names)}
    (folder / "names.json").write_text(f"{json.dumps(row)}\n{json.dumps(row)}\n")
    assert session.sql(f"FROM '{folder}/names.json'", engine="duckdb").to_arrow().to_pylist() == [row, row]


@pytest.mark.parametrize(("values", "problem"), [
    ("1.0 9007199254740993", "several types: double, and 9007199254740993 in line 2"),
    ("1.0 123456789012345678901234567890", "column 'v'"),
    ("1.0 1e400", "column 'v', line 2: 1e400 .*"),
    ("1 [2]", "column 'v'"),
    ('1,"V":2', "have the same name"),
    ('1 2,"v":3', "line 2: a name occurs twice"),
    ('LONG "x","z":2', "unknown column 'z'"),
    ("", "has no columns"),
])  # fmt: skip
def test_a_json_value_in_sql_that_a_load_refuses_is_refused(session, folder, values, problem):
    rows = "".join(f'{{"v":{each}}}\n' for each in values.split())
    (folder / "a.json").write_text(rows.replace("LONG", f'"{"x" * (9 << 20)}"'))  # the types are of the first 8 MiB
    with pytest.raises(InvalidInput, match=f"{problem}.*\nhint: .*read_json") as caught:
        session.sql(f"SELECT * FROM '{folder}/a.json'", engine="duckdb").to_arrow()
    assert "a.json', columns = {" in caught.value.hint
    assert "a.json" in caught.value.message


def test_a_column_that_differs_from_its_folder_is_refused_in_sql(session, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "h/k=1").mkdir(parents=True)
    pq.write_table(pa.table({"k": [1, 2]}), folder / "h/k=1/a.parquet")
    (folder / "h/k=1/a.csv").write_text("k,v\n1,1\n2,2\n")
    (folder / "h/k=1/a.json").write_text('{"k": 1}\n{"k": 2}\n')
    for ending in ("csv", "json", "parquet"):
        with pytest.raises(InvalidInput, match="column 'k' is in the file too, with other values than its folder k=1"):
            session.sql(f"FROM 'h/*/*.{ending}'", engine="duckdb").to_arrow()
    (folder / "h/k=1/a.csv").write_text("k,v\n1,1\n1,2\n")
    assert session.sql("SELECT k FROM 'h/*/*.csv'", engine="duckdb").to_arrow()["k"].to_pylist() == [1, 1]


@pytest.mark.parametrize("name", ["p.dat", "z1.zip", "nh.txt"])
def test_a_file_whose_name_does_not_say_its_format_is_refused_in_sql(session, folder, monkeypatch, name):
    (folder / name).write_text("k\n1\n")
    monkeypatch.chdir(folder)
    for path in (name, folder / name):
        with pytest.raises(InvalidInput, match=f"cannot read '{path}'.* format") as caught:
            session.sql(f"SELECT * FROM '{path}'", engine="duckdb")
        assert "read_csv" in caught.value.hint
        assert "create --from" in caught.value.hint


def test_a_missing_table_is_no_file_of_an_unknown_format(session):
    with pytest.raises(NotFound, match=r"no table 'no\.such'"):
        session.sql('SELECT * FROM "no.such"', engine="duckdb")
