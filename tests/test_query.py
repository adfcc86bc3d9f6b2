import re
from datetime import UTC, datetime, timedelta

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.report import Display
from tests.support.combinations import few_on_spark
from tests.support.engines import ENGINES, answer

SCHEMA = sl.Schema({"city": "string"}, {"at": "timestamp"}, {"fare": "int?", "note": "string?"})


@pytest.fixture
def session(tmp_path, request):
    spark = request.getfixturevalue("spark_engine").session() if "spark" in request.node.keywords else None
    with sl.connect(tmp_path, clock=ManualClock(datetime(2026, 11, 1, 10, tzinfo=UTC)), spark=spark) as opened:
        table = opened.create_table("trips", SCHEMA, ["g", "n"])  # snapshot 1
        for number, city in enumerate(("rome", "oslo", "alba"), 1):  # snapshots 2 to 4, an hour apart
            opened._components.clock.advance(timedelta(hours=1))
            table.ingest([{"city": city, "at": datetime(2026, 1, 1, tzinfo=UTC), "fare": number, "note": "it's"}])
            if number == 2:
                table.create_savepoint("before-fix")
        table.maintenance.compact("all", engine="local")
        yield opened


@few_on_spark(
    ("clause", "count"),
    [
        ("", 3),
        (" VERSION AS OF 2", 1),
        (" VERSION AS OF '2'", 1),
        (" version as of 'snapshot.3'", 2),
        (" VERSION AS OF 'savepoint.1'", 2),
        (" VERSION AS OF 'savepoint.before-fix'", 2),
        (" FOR VERSION AS OF 4", 3),
        (" FOR SYSTEM_VERSION AS OF 1", 0),
        (" TIMESTAMP AS OF '2026-11-01 11:00:00'", 1),
        (" TIMESTAMP AS OF '2026-11-01 11:59:59.999999'", 1),
        (" TIMESTAMP AS OF '2026-11-01T13:00:00+01:00'", 2),
        (" FOR SYSTEM_TIME AS OF '2026-11-01 12:00:00'", 2),
        (" TIMESTAMP AS OF (TIMESTAMP '2026-11-01 10:00:00' + INTERVAL 2 HOUR)", 2),
        (" TIMESTAMP AS OF :moment", 2),
        ("@3", 2),
    ],
)
def test_every_clause_reads_its_version_on_both_engines(session, engine, clause, count):
    moment = datetime(2026, 11, 1, 12, tzinfo=UTC)
    assert answer(session, f"SELECT count(*) FROM trips{clause}", engine, moment=moment) == [(count,)]


@pytest.mark.parametrize("engine", ENGINES)
def test_two_versions_of_one_table_meet_in_one_statement(session, engine):
    sql = """
        WITH old AS (SELECT * FROM trips VERSION AS OF 2) -- FROM trips VERSION AS OF 99
        SELECT trips.city, old.fare, 'VERSION AS OF 7' FROM trips LEFT JOIN old ON old.city = trips.city ORDER BY 1
    """
    assert answer(session, sql, engine) == [
        ("alba", None, "VERSION AS OF 7"),
        ("oslo", None, "VERSION AS OF 7"),
        ("rome", 1, "VERSION AS OF 7"),
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_parameters_are_values_and_never_text(session, engine):
    sql = "SELECT city FROM trips WHERE note = :note AND fare >= :fare ORDER BY city"
    assert answer(session, sql, engine, note="it's", fare=2) == [("alba",), ("oslo",)]
    assert answer(session, sql, engine, note="' OR 1=1 --", fare=0) == []
    with pytest.raises(sl.NotFound, match="no parameter 'fare'") as caught:
        answer(session, sql, engine, note="x", fair=1)
    assert caught.value.hint == "did you mean 'fair'?"


@few_on_spark(
    ("sql", "kind", "words", "hint"),
    [
        ("SELECT * FROM tripps", sl.NotFound, "no table 'tripps'", "did you mean 'trips'?"),
        ("SELECT * FROM tripps VERSION AS OF 2", sl.NotFound, "no table 'tripps'", "did you mean 'trips'?"),
        ("SELECT * FROM trips VERSION AS OF 99", sl.NotFound, "no snapshot 99", "available: 1–5"),
        (
            "SELECT * FROM trips VERSION AS OF 'savepoint.befor-fix'",
            sl.NotFound,
            "no savepoint",
            "did you mean 'before-fix'?",
        ),
        ("SELECT * FROM trips TIMESTAMP AS OF '2020-01-01'", sl.NotFound, "no version", "2026-11-01 10:00:00"),
        ("SELECT * FROM trips VERSION AS OF 'v'", sl.NotFound, "no savepoint 'v'", "available: before-fix"),
        (
            "SELECT * FROM trips VERSION AS OF '2026-11-01'",
            sl.InvalidInput,
            "no version '2026-11-01'",
            "for a time, write TIMESTAMP AS OF '2026-11-01'",
        ),
        ("SELECT * FROM trips TIMESTAMP AS OF 'soon'", sl.InvalidInput, "'soon' is not a time", "2026-11-01 10:00:00"),
        (
            "INSERT INTO trips VALUES (1)",
            sl.InvalidInput,
            "has 4 columns, but the query has 1",
            "INSERT INTO trips (…)",
        ),
        ("SELECT * FROM main.trips", sl.NotFound, "no table 'main.trips'", "did you mean 'trips'?"),
        (
            "CREATE VIEW v AS SELECT * FROM trips",
            sl.InvalidInput,
            "permanent views are not supported",
            "CREATE TEMP VIEW v AS",
        ),
        ("SELECT frae FROM trips", sl.SleeperError, "frae", ""),
        ("SELEC 1", sl.SleeperError, "SELEC", ""),
    ],
)
def test_a_wrong_statement_is_explained(session, engine, sql, kind, words, hint):
    with pytest.raises(kind) as caught:
        session.sql(sql, engine=engine).to_arrow()
    assert words in caught.value.message
    assert hint in (caught.value.hint or "")
    assert str(caught.value).count("\n") <= 2 + len(caught.value.place.splitlines())


def test_a_statement_of_another_database_says_how_rows_change_here(session):
    with pytest.raises(sl.InvalidInput) as caught:
        session.sql("INSERT OR REPLACE INTO trips VALUES (1)", engine="duckdb")
    assert "MERGE INTO" in caught.value.hint


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        (
            "SELECT substring(1, 2, 3, 4) FROM trips",
            r'Candidate functions: "substring"\(.* length BIGINT\) -> VARCHAR; "substring"\(.*\) -> VARCHAR',
        ),
        ("SELECT sum(city) FROM trips", r"Candidate functions: sum\(.*\) -> \w+; sum\(.*; sum\(.*; and \d more"),
        ("SELECT fair FROM trips", 'did you mean "fare".*'),
    ],
)
def test_a_hint_of_duckdb_has_what_it_speaks_of(session, sql, hint):
    with pytest.raises(sl.InvalidInput) as caught:
        session.sql(sql, engine="duckdb").to_arrow()
    assert re.fullmatch(hint, caught.value.hint)


@few_on_spark(
    ("sql", "words"),
    [
        (
            "CREATE TEMP TABLE v AS SELECT * FROM trips",
            r"'v' would be in no warehouse\nhint: write CREATE TABLE v ROW KEYS",
        ),
        ("-- copy\nCREATE TEMPORARY TABLE v (n INT)", "'v' would be in no warehouse"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "permanent views are not supported"),
    ],
)
def test_sql_makes_nothing_that_is_in_no_warehouse(session, engine, sql, words):
    with pytest.raises(sl.InvalidInput, match=words):
        session.sql(sql, engine=engine)
    with pytest.raises(sl.NotFound):
        session.sql("SELECT * FROM v", engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_result_says_what_it_read_and_how_much_there_is(session, engine):
    result = session.sql("SELECT * FROM trips VERSION AS OF 'savepoint.before-fix'", engine=engine)
    said = rf"2 rows · trips at savepoint 1 'before-fix', snapshot 3 · {engine} · 3/3 partitions, 2/2 files, at most "
    assert re.search(rf"{said}\d\.\d KiB · 0\.00 s$", repr(result))
    result.display = Display(rows=1, timed=False)
    assert re.search(r"first 1 row; there are more · .* at most \d\.\d KiB$", repr(result))
    many = session.sql("SELECT a.city FROM trips a, trips b, trips c, trips d", engine=engine)
    assert "first 20 rows; there are more" in repr(many)
    assert many.to_pandas().shape == (81, 1)
    assert many.to_polars().shape == (81, 1)
    assert many.head(3).num_rows == 3
    assert many.head(30).num_rows == 30


@few_on_spark("statement", ["SHOW TABLES", " show  tables ;\n"])
def test_show_tables_shows_those_of_the_warehouse(session, engine, statement):
    found = session.sql(statement, engine=engine).to_arrow()
    assert found.to_pydict() == {"table_name": [table.name for table in session.tables()]}


def test_show_tables_of_an_empty_warehouse_shows_none(tmp_path):
    with sl.connect(tmp_path) as empty:
        assert empty.sql("SHOW TABLES").to_arrow().num_rows == 0


@pytest.mark.spark
def test_a_statement_without_columns_is_not_said_to_have_rows(session):
    assert str(session.sql("CLEAR CACHE")).startswith("no rows · spark (auto: CLEAR is for Spark) · ")


@pytest.mark.parametrize("engine", ENGINES)
def test_types_come_back_alike(session, engine):
    (row,) = session.sql("SELECT * FROM trips WHERE city = 'rome'", engine=engine).to_arrow().to_pylist()
    assert row == {"city": "rome", "at": datetime(2026, 1, 1, tzinfo=UTC), "fare": 1, "note": "it's"}


def test_an_unknown_engine_is_refused(session):
    with pytest.raises(sl.InvalidInput, match="engine is one of 'auto', 'spark', 'duckdb', not the string 'trino'"):
        session.sql("SELECT 1", engine="trino")


def test_another_query_does_not_disturb_an_open_result(session):
    first = session.sql("SELECT count(*) FROM trips", engine="duckdb")
    second = session.sql("SELECT count(*) FROM trips VERSION AS OF 2", engine="duckdb")
    assert (first.to_arrow()[0][0].as_py(), second.to_arrow()[0][0].as_py()) == (3, 1)


@pytest.mark.spark
def test_an_answer_of_spark_that_has_no_type_in_arrow_is_told_how_to_be_cast(session):
    with pytest.raises(sl.InvalidInput, match="Arrow has no type for a column of Spark's answer") as caught:
        session.sql("SELECT array() AS e", engine="spark").to_arrow()
    assert caught.value.hint == "cast it: CAST(array() AS array<string>)"


@pytest.mark.parametrize("statement", ["DESCRIBE trips", "desc trips version as of 2;", "describe table trips"])
def test_describe_says_which_columns_are_keys_and_never_null(session, statement):
    told = session.sql(statement, engine="duckdb").to_pandas()
    assert told["null"].tolist() == ["NO", "NO", "YES", "YES"]
    assert told["key"].fillna("").tolist() == ["row key", "sort key", "", ""]
    assert told.columns.tolist() == ["column_name", "column_type", "null", "key", "default", "extra"]
    assert session.sql("DESCRIBE SELECT city FROM trips", engine="duckdb").to_pandas()["null"].tolist() == ["YES"]


@pytest.mark.spark
def test_describe_on_spark_says_which_columns_are_keys_and_never_null(session):
    comments = session.sql("DESCRIBE trips", engine="spark").to_pandas()["comment"].fillna("").tolist()
    assert comments == ["row key, not null", "sort key, not null", "", ""]
