"""Statements that change the warehouse, as users type them: what they do on both engines, and what they refuse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.sql import writes
from sleeper_nb.sql.references import OUR_WORDS
from sleeper_nb.storage import paths
from tests.support.combinations import few_on_spark
from tests.support.engines import DUCKDB_FIRST, ENGINES, answer

SCHEMA = sl.Schema({"city": "string"}, {"day": "timestamp"}, {"fare": "int?", "note": "string?"})
ROWS = [("alba", 3), ("oslo", 2), ("rome", 1)]
DAY = "TIMESTAMP '2026-01-01 00:00:00'"


@pytest.fixture
def session(tmp_path, request):
    spark = request.getfixturevalue("spark_engine").session() if "spark" in request.node.keywords else None
    with sl.connect(tmp_path, clock=ManualClock(datetime(2026, 11, 1, 10, tzinfo=UTC)), spark=spark) as opened:
        table = opened.create_table("trips", SCHEMA, ["g", "n"])
        table.ingest([{"city": city, "day": datetime(2026, 1, 1, tzinfo=UTC), "fare": n} for city, n in ROWS])
        table.create_savepoint("first")
        opened._components.clock.advance(timedelta(hours=1))
        yield opened


def fares(session, where="true", table="trips"):
    return answer(session, f"SELECT city, fare FROM {table} WHERE {where} ORDER BY ALL", "duckdb")


def files(session):
    return {file.path for file in session._storage.list() if not file.path.startswith("catalog")}


def test_a_statement_that_may_be_ours_is_told_by_its_first_word():
    foreign = {words.split()[0] for words in writes._FOREIGN}
    assert {*writes._READERS, *foreign, *writes._TRANSACTIONS, *writes._ROW_READERS} == OUR_WORDS


@few_on_spark(
    ("sql", "added"),
    [
        (f"INSERT INTO trips VALUES ('bari', {DAY}, 7, 'x'), ('cork', {DAY}, NULL, NULL)",
         [("bari", 7), ("cork", None)]),
        (f"insert into table Trips (FARE, city, day) values (7, 'bari', {DAY});", [("bari", 7)]),
        ("INSERT INTO trips SELECT concat(city, '2'), day, fare + 10, note FROM trips",
         [("alba2", 13), ("oslo2", 12), ("rome2", 11)]),
        ("INSERT INTO trips BY NAME SELECT fare, day, upper(city) AS CITY FROM trips WHERE fare = :fare",
         [("OSLO", 2)]),
        ("INSERT INTO trips (city, day) (SELECT 'bari', day FROM trips VERSION AS OF 2 WHERE fare = 1)",
         [("bari", None)]),
        ("INSERT INTO trips SELECT 'bari', day, fare, note FROM trips@first WHERE fare < 2", [("bari", 1)]),
        ("WITH few AS (SELECT * FROM trips WHERE fare = 1) INSERT INTO trips SELECT 'bari', day, 5, note FROM few",
         [("bari", 5)]),
        ("INSERT INTO trips WITH few AS (SELECT * FROM trips WHERE fare = 1) SELECT 'bari', day, 5, note FROM few",
         [("bari", 5)]),
        ("/* a */ -- b\nINSERT INTO trips -- c ; B\n  SELECT 'bari', day, 5, '; --' FROM trips WHERE fare = 1 -- d",
         [("bari", 5)]),
        ("INSERT INTO `trips` (`city`, day) SELECT 'bari', day FROM df", [("bari", None)]),
        ("INSERT INTO trips SELECT * FROM trips WHERE fare > 99", []),
    ],
    every=5,
)  # fmt: skip
def test_insert_adds_the_rows_of_a_query(session, engine, sql, added):
    df = pd.DataFrame({"day": pd.to_datetime(["2026-01-01"])})
    made = session.sql(sql, engine=engine, params={"fare": 2}, data={"df": df})
    assert sorted(set(fares(session)) - set(ROWS), key=str) == added
    assert made.to_pandas().to_dict("records") == [
        {"table": "trips", "rows added": len(added), "snapshot": 3 if added else 2, "rows": 3 + len(added)}
    ]
    assert engine in repr(made)


@few_on_spark(
    "sql",
    [
        f"INSERT INTO v VALUES ('a', default, DEFAULT, {DAY}), ('b', 7, DEFAULT, DEFAULT), ('c', DEFAULT, 'x',DEFAULT)",
        (f"WITH w AS (SELECT 1) INSERT INTO v (at, city, n, note) VALUES ({DAY}, 'a', DEFAULT /* DEFAULT */, DEFAULT),"
         "(DEFAULT, 'b', least(7, 8), DEFAULT), (DEFAULT, 'c', DEFAULT, 'x') -- DEFAULT"),
        f"INSERT OVERWRITE v (city, at, n) VALUES ('a', {DAY}, DEFAULT), ('b', DEFAULT, 7), ('c', DEFAULT, DEFAULT)",
    ],
)  # fmt: skip
def test_default_in_the_rows_of_values_is_the_default_of_its_column(session, engine, sql):
    at = datetime(2020, 1, 1, tzinfo=UTC)
    fields = {"n": "int?", "note": {"type": "string?", "default": "it's"}, "at": {"type": "timestamp", "default": at}}
    table = session.create_table("v", sl.Schema({"city": "string"}, {}, fields))
    session.sql(sql, engine=engine, force="OVERWRITE" in sql)
    assert table.scan().to_arrow().to_pylist() == [
        {"city": "a", "n": None, "note": "it's", "at": datetime(2026, 1, 1, tzinfo=UTC)},
        {"city": "b", "n": 7, "note": "it's", "at": at},
        {"city": "c", "n": None, "note": "it's" if "OVERWRITE" in sql else "x", "at": at},
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_insert_reads_the_target_as_it_was(session, engine):
    for rows in (6, 12):
        assert session.sql("INSERT INTO trips SELECT * FROM trips", engine=engine).snapshot.rows == rows


@pytest.mark.parametrize("engine", ENGINES)
def test_a_dry_run_of_an_insert_counts_rows_and_bytes_and_changes_nothing(session, engine):
    before = files(session)
    plan = session.sql("INSERT INTO trips SELECT * FROM trips", engine=engine, dry_run=True)
    assert "would add 3 rows" in repr(plan)
    assert "trips at snapshot 2  3 of 3      2 of 2" in repr(plan)
    assert plan.to_dict()["plan"]["rows"] == 3
    assert files(session) == before
    assert session.table("trips").at().resolved.snapshot_id == 2


@few_on_spark(
    ("sql", "words", "place", "hint"),
    [
        ("INSERT INTO tripps SELECT 1", "no table 'tripps'", "tripps", "'trips'"),
        ("INSERT INTO trips SELECT 1, 2", "table 'trips' has 4 columns, but the query has 2", "SELECT",
         "INSERT INTO trips (…)"),
        ("INSERT INTO trips (city, day) SELECT 1", "the statement names 2 columns, but the query has 1", "SELECT",
         "city, day"),
        ("INSERT INTO trips (city,\n  faer) SELECT 1, 2", "no column 'faer' of table 'trips'", "faer", "'fare'"),
        ("INSERT INTO trips (city, CITY) SELECT 1, 2", "column 'city' occurs twice", "CITY", "once"),
        ("INSERT INTO trips BY NAME SELECT 1 AS cite", "no column 'cite' of table 'trips'", "SELECT", "'city'"),
        ("INSERT INTO trips (city) BY NAME SELECT 1 AS city", "columns or BY NAME, not both", "SELECT", "leave"),
        ("INSERT INTO trips", "a query or VALUES is expected at the end", "", "INSERT INTO t SELECT"),
        ("INSERT INTO SELECT 1", "the name of a table is expected before 'SELECT'", "SELECT", "INSERT INTO t SELECT"),
        ("INSERT INTO trips VERSION AS OF 2 SELECT 1", "cannot be written to at a version", "VERSION",
         "leave the clause out"),
        ("INSERT INTO trips$files SELECT 1", "SQL cannot change table 'trips$files'", "trips$files", "ingest"),
        ("INSERT INTO trips\nSELECT city, day, faer, note FROM trips", "faer", "faer", "fare"),
        ("INSERT INTO trips\nSELECT city, day, fare, note FROM tripps", "no table 'tripps'", "tripps", "'trips'"),
        ("INSERT INTO trips VALUES ('a', DEFAULT, 1, DEFAULT)", "column 'day' has no default", "DEFAULT", "a value"),
        ("INSERT INTO trips (city) VALUES (DEFAULT, 1)", "column 'city' has no default", "DEFAULT", "a value"),
        ("INSERT INTO trips (fare) VALUES (1, DEFAULT)", "names 1 column, but the query has 2", "VALUES", "columns of"),
        ("INSERT INTO trips BY NAME VALUES (DEFAULT)", "VALUES has no column names", "VALUES", "(a, b) VALUES"),
        (f"INSERT INTO trips VALUES ('a', {DAY}, DEFAULT, nope)", "nope", "nope", ""),
        ("INSERT INTO trips SELECT 1; SELECT 2", "a second statement follows", None, "one statement"),
        ("EXPLAIN DROP TABLE trips",
         "EXPLAIN shows the plan of a query, and this statement has none", None, "dry_run=True"),
        ("EXPLAIN DELETE FROM trips WHERE fare < 0", "and this statement has none", None,
         "to see what it would do: dry_run=True"),
        ("EXPLAIN WITH a AS (SELECT 1), b AS (SELECT 2) UPDATE trips SET fare = 1 WHERE fare IN (FROM a)",
         "EXPLAIN shows the plan of a query, and this statement has none", None, "dry_run=True"),
        ("EXPLAIN WITH a AS (SELECT 'x' AS c) MERGE INTO trips USING a ON a.c = city WHEN MATCHED THEN DELETE",
         "and this statement has none", None, "dry_run=True"),
    ],
    every=11,
)  # fmt: skip
def test_a_wrong_statement_is_explained_at_its_place(session, engine, sql, words, place, hint):
    before = files(session)
    with pytest.raises(sl.SleeperError) as caught:
        session.sql(sql, engine=engine)
    assert words in caught.value.message
    assert hint in caught.value.hint
    if place is not None:
        line, caret = caught.value.place.splitlines()
        assert line[len(caret) - 1 :].startswith(place)
    assert files(session) == before


@few_on_spark(
    ("query", "words"),
    [
        ("SELECT city, day, 'x', note FROM trips", "fare"),
        ("SELECT NULL, day, fare, note FROM trips", "city"),
        ("SELECT city, day, 3000000000 + fare, note FROM trips", "fare"),
        ("SELECT city, day, CAST(concat('x', fare) AS int), note FROM trips", "x"),
        ("SELECT DISTINCT city, day, CASE WHEN fare = 1 THEN CAST(city AS int) END, note FROM trips", "rome"),
    ],
)
def test_an_insert_that_fails_leaves_nothing(session, engine, query, words):
    before = files(session)
    with pytest.raises(sl.SleeperError, match=words):
        session.sql(f"INSERT INTO trips {query}", engine=engine)
    assert files(session) == before
    assert session.table("trips").at().resolved.snapshot_id == 2
    assert fares(session) == ROWS


def test_an_error_of_the_query_in_its_last_rows_is_the_query_s_own(session):
    fare = "CASE WHEN i = 299999 THEN error('bad row') ELSE 1 END"
    sql = f"INSERT INTO trips SELECT 'a', now(), {fare}, '' FROM range(300000) r(i)"
    with pytest.raises(sl.InvalidInput, match="bad row"):
        session.sql(sql)
    assert fares(session) == ROWS


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_explain_shows_the_plan_of_the_query(session, engine):
    plan = session.sql("EXPLAIN INSERT INTO trips SELECT * FROM trips", engine=engine)
    assert f"plan of {engine}" in repr(plan)
    assert fares(session) == ROWS


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_create_table_with_columns_makes_an_empty_table(session, engine):
    session.sql(
        "CREATE TABLE visits (place STRING, at TIMESTAMP, n INT NOT NULL, tags ARRAY<STRING>, price DECIMAL(10, 2))\n"
        "USING sleeper "
        "CLUSTER BY (place) SORTED BY (at) SPLITS ('g', 'n') TBLPROPERTIES ('snapshot.time-retained' = '30 d')",
        engine=engine,
    )
    table = session.table("visits")
    assert table.schema == sl.Schema(
        {"place": "string"}, {"at": "timestamp"}, {"n": "int", "tags": "list<string>?", "price": "decimal(10,2)?"}
    )
    assert len(table.at().partition_tree.leaves) == 3
    assert table.at().properties.texts["snapshot.time-retained"] == "30 d"


@few_on_spark(
    ("sql", "words", "place", "hint"),
    [
        ("CREATE TABLE v (a INT)", "table 'v' has no ROW KEYS", "v", "ROW KEYS (…), some of a"),
        ("CREATE TABLE v AS SELECT 1 AS a, 2 AS b", "table 'v' has no ROW KEYS", "v", "CREATE TABLE v ROW KEYS"),
        ("CREATE TABLE v (a INT, PRIMARY KEY (a))", "PRIMARY KEY is not supported", "PRIMARY", "UNIQUE KEYS"),
        ("CREATE TABLE v (a INT PRIMARY KEY)", "PRIMARY KEY is not supported", "PRIMARY", "UNIQUE KEYS"),
        ("CREATE TABLE v PRIMARY KEY (a) AS SELECT 1 AS a", "PRIMARY KEY is not supported", "PRIMARY", "UNIQUE KEYS"),
        ("CREATE TABLE v (a INT, UNIQUE (a)) ROW KEYS (a)", "UNIQUE is not supported", "UNIQUE", "(a) UNIQUE KEYS"),
        ("CREATE TABLE v (a INT) ROW KEYS (a) UNIQUE (a)", "UNIQUE is not supported", "UNIQUE", "(a) UNIQUE KEYS"),
        ("CREATE TABLE v (a INT) ROW KEYS (a) UNIQUE KEYS UNIQUE KEYS", "UNIQUE KEYS occurs twice", "UNIQUE", "once"),
        ("CREATE TABLE v LIKE trips UNIQUE KEYS", "LIKE takes the columns", "trips", "without LIKE"),
        ("ALTER TABLE trips ADD UNIQUE (day)", "UNIQUE is not supported", "UNIQUE", "ADD UNIQUE KEYS"),
        ("CREATE TABLE v (a INT) ROW KEYS (b)", "no column 'b' in the statement", "b)", "a"),
        ("CREATE TABLE v (a INT, A STRING) ROW KEYS (a)", "occurs twice", "a INT", "name"),
        ("CREATE TABLE v (a NUMBR) ROW KEYS (a)", "unknown field type 'NUMBR'", "a NUMBR", "the types are"),
        ("CREATE TABLE v (a INT) ROW KEYS (a) ROW KEYS (a)", "ROW KEYS occurs twice", "ROW KEYS (a)", "once"),
        ("CREATE TABLE v (a INT, b INT DEFAULT 1 NULL DEFAULT 2) ROW KEYS (a)", "DEFAULT occurs twice", "DEFAULT 2",
         "once"),
        ("CREATE TABLE v (a INT COMMENT 'x' COMMENT '') ROW KEYS (a)", "COMMENT occurs twice", "COMMENT ''", "once"),
        ("CREATE TABLE v (a INT, b INT NULL NOT NULL) ROW KEYS (a)", "NULL or NOT NULL occurs twice", "NOT", "once"),
        ("ALTER TABLE trips ADD COLUMN b INT DEFAULT 1 DEFAULT NULL", "DEFAULT occurs twice", "DEFAULT NULL", "once"),
        ("CREATE TABLE v (a INT) PARTITIONED BY (a)", "takes no PARTITIONED", "PARTITIONED", "ROW KEYS"),
        ("CREATE TABLE v (a INT, b) ROW KEYS (a)", "column 'b' has no type", "b)", "b STRING"),
        ("CREATE TABLE v (a INT, b STRUCT<c: INT, d: INT NOT NULL>) ROW KEYS (a)",
         "a field of a struct takes no NOT NULL", "NOT", "INT?"),
        ("CREATE TABLE v (a INT) ROW KEYS (a) WITH (p=3, p=4)", "property 'p' is given twice", "p=4", "once"),
        ("CREATE TABLE v (a INT) ROW KEYS (a) WITH (p=3) WITH ('p'=4)", "property 'p' is given twice", "'p'", "once"),
        ("CREATE TABLE v LIKE trips ROW KEYS (day)", "LIKE takes the columns, keys", "trips", "without LIKE"),
        ("CREATE TABLE v LIKE trips WITH (snapshot.time-retained = '3 d') SORT KEYS (city)", "LIKE takes the columns",
         "trips", "leave them out"),
        ("CREATE TABLE v LIKE trips (a, b, c, d) AS FROM trips", "LIKE takes the columns", "trips", "without LIKE"),
        ("CREATE TABLE v LIKE trips COMMENT 'x' AS SELECT * FROM trips", "LIKE takes", "trips", "without LIKE"),
        ("CREATE OR REPLACE TABLE trips AS SELECT 1 AS a", "table 'trips' has no ROW KEYS", "trips",
         "write CREATE OR REPLACE TABLE trips ROW KEYS (…) AS …, with some of a"),
        ("DESCRIBE HISTORY trips@1", "'trips' has one history, of all its versions", "@1", "leave the clause out"),
        ("CREATE TABLE v (a INT) USING parquet", "is not 'parquet'", "parquet", "USING sleeper"),
        ("CREATE TABLE v (a INT) ROW KEYS (a) SPLITS 4", "needs rows to split", "v", "SPLITS ('g', 'n')"),
        ("CREATE TABLE v (a INT) ROW KEYS a", "( is expected before 'a'", "a", "ROW KEYS (a, b)"),
        ("CREATE TABLE v ROW KEYS (a)", "columns or a query are expected", "", "AS SELECT"),
        ("CREATE TABLE v ROW KEYS (a) AS", "a query is expected after AS", "", "AS SELECT"),
        ("CREATE TABLE trips (a INT) ROW KEYS (a)", "'trips'", "trips", ""),
        ("CREATE TABLE v (a INT) ROW KEYS (a) WITH (no.such = 1)", "no.such", "v", ""),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS v (a INT) ROW KEYS (a)", "contradict each other", "CREATE",
         "leave one"),
    ],
    every=18,
)  # fmt: skip
def test_a_table_that_cannot_be_made_is_explained_and_leaves_nothing(session, engine, sql, words, place, hint):
    before = files(session)
    with pytest.raises(sl.SleeperError) as caught:
        session.sql(sql, engine=engine)
    assert words in caught.value.message
    assert hint in (caught.value.hint or "")
    line, caret = caught.value.place.splitlines()
    assert line[len(caret) - 1 :].startswith(place)
    assert files(session) == before
    assert [table.name for table in session.tables()] == ["trips"]


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_drop_and_truncate_need_force_and_show_their_plan(session, engine):
    for sql in ("DROP TABLE trips", "TRUNCATE trips", "truncate table trips"):
        with pytest.raises(sl.ConfirmationNeeded) as caught:
            session.sql(sql, engine=engine)
        assert repr(caught.value.plan) == repr(session.sql(sql, engine=engine, dry_run=True))
        assert fares(session) == ROWS
    session.sql("TRUNCATE TABLE trips", engine=engine, force=True)
    assert fares(session) == []
    session.sql("DROP TABLE trips", engine=engine, force=True)
    assert len(session.tables()) == 0
    assert "there is no table trips" in repr(session.sql("DROP TABLE IF EXISTS trips", engine=engine))
    with pytest.raises(sl.NotFound, match="no table 'trips'"):
        session.sql("DROP TABLE trips", engine=engine)


def test_a_table_without_its_properties_file_is_there_for_if_exists(session):
    session._storage.delete(paths.table_properties(session._components.catalog.find_table("trips").id))
    with pytest.raises(sl.ConfirmationNeeded):
        session.sql("DROP TABLE IF EXISTS trips")
    report = session.sql("CREATE TABLE IF NOT EXISTS trips (city STRING) ROW KEYS (city)")
    assert "table trips exists already" in repr(report)
    session.sql("DROP TABLE IF EXISTS trips", force=True)
    assert session.table_names() == ()


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_alter_table_changes_columns_in_one_commit(session, engine):
    sql = "ALTER TABLE Trips DROP COLUMN FARE, RENAME COLUMN note TO remark, ADD (tip DOUBLE, fare BIGINT)"
    assert "would alter trips" in repr(session.sql(sql, engine=engine, dry_run=True))
    report = session.sql(sql, engine=engine)
    assert report.snapshot.id == 3
    assert session.table("trips").schema.names == ("city", "day", "remark", "tip", "fare")
    again = "ALTER TABLE trips ADD COLUMN IF NOT EXISTS tip DOUBLE, DROP COLUMN IF EXISTS gone"
    assert "nothing was changed" in repr(session.sql(again, engine=engine))
    session.sql("ALTER TABLE trips DROP COLUMNS (tip, fare)", engine=engine)
    session.sql("ALTER TABLE trips SET TBLPROPERTIES (snapshot.time-retained = '20 d')", engine=engine)
    assert session.table("trips").at().properties.texts["snapshot.time-retained"] == "20 d"
    session.sql("ALTER TABLE trips UNSET TBLPROPERTIES (snapshot.time-retained)", engine=engine)
    assert "snapshot.time-retained" not in session.table("trips").at().properties.texts
    session.sql("ALTER TABLE trips RENAME TO journeys", engine=engine)
    assert [table.name for table in session.tables()] == ["journeys"]


@pytest.mark.parametrize(
    ("sql", "words", "place"),
    [
        ("ALTER TABLE trips DROP COLUMN gone", "no column 'gone' of table 'trips'", "gone"),
        ("ALTER TABLE trips ADD COLUMN a INT, DROP COLUMN a", "column 'a' is in two clauses", "a"),
        ("ALTER TABLE trips RENAME COLUMN note TO x, DROP COLUMN x", "column 'x' is in two clauses", "x"),
        ("ALTER TABLE trips ADD COLUMN a", "column 'a' has no type", "a"),
        ("ALTER TABLE trips RENAME TO x, ADD COLUMN a INT", "a commit of its own", ","),
        ("ALTER TABLE trips CHANGE a", "ADD, RENAME, DROP or ALTER is expected before 'CHANGE'", "CHANGE"),
        ("ALTER TABLE trips RENAME COLUMN a b", "TO is expected before 'b'", "b"),
    ],
)
def test_a_wrong_alter_is_explained_at_its_place(session, sql, words, place):
    with pytest.raises(sl.SleeperError) as caught:
        session.sql(sql)
    assert words in caught.value.message
    line, caret = caught.value.place.splitlines()
    assert line[len(caret) - 1 :].startswith(place)
    assert session.table("trips").schema == SCHEMA


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_describe_history_lists_the_snapshots(session, engine):
    assert [each.id for each in session.sql("DESCRIBE HISTORY trips", engine=engine)] == [2, 1]
    assert [each.id for each in session.sql("desc history Trips limit 1", engine=engine)] == [2]


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_procedures_do_what_commands_do(session, engine):
    def call(text, **options):
        return session.sql(f"CALL sys.{text}", engine=engine, **options)

    assert call("create_savepoint('trips', name => 'fix', message => 'why')").name == "fix"
    call("CREATE_SAVEPOINT(table => :t)", params={"t": "trips"})
    session.sql("INSERT INTO trips SELECT * FROM trips", engine=engine)
    assert "would" in repr(call("rollback('trips', 2)", dry_run=True))
    assert call("rollback('trips', 'fix')").snapshot.id == 4
    with pytest.raises(sl.ConfirmationNeeded):
        call("reinitialise('trips')")
    assert "would expire" in repr(call("expire('trips', time_retained => '1 h', num_retained_min => 1)"))
    assert "would expire" not in repr(
        call("expire('trips', time_retained => '1 h', num_retained_min => 1)", force=True)
    )
    with pytest.raises(sl.ConfirmationNeeded):
        call("purge('trips', 'fare < 1000')")
    assert call("purge('trips', 'fare < 1000')", force=True).complete
    assert "offline" in repr(call("offline('trips')"))
    assert not session.table("trips").maintenance.is_online
    assert "CALL sys.compact(table" in repr(call("help()"))


@pytest.mark.parametrize(
    ("sql", "words", "hint"),
    [
        ("CALL sys.compat('trips')", "no procedure 'sys.compat'", "'sys.compact'"),
        ("CALL compact('trips')", "there is no procedure 'compact'", "CALL sys.compact('t')"),
        ("CALL sys.compact()", "needs the name of a table", "CALL sys.compact(table"),
        ("CALL sys.compact('trips', stratgy => 'all')", "no argument 'stratgy'", "'strategy'"),
        ("CALL sys.compact('trips', table => 'trips')", "argument 'table' is given twice", "CALL sys.compact"),
        ("CALL sys.compact('trips', 'all', 'local', NULL, 5)", "takes 4 arguments, not 5", "CALL sys.compact"),
        ("CALL sys.compact(table => 'trips', 'all')", "an argument without a name follows", "name it too"),
        ("CALL sys.compact('trips', 3)", "strategy", ""),
        ("CALL sys.compact('nope')", "no table 'nope'", "trips"),
        ("CALL sys.compact('trips'", ", is expected at the end", "CALL"),
        ("CALL sys.create_savepoint(:t)", "no parameter 't'", ""),
        ("CALL sys.expire('trips', time_retained => 'soon')", "'soon' is not a duration", "3d"),
        ("CALL sys._opened('trips')", "no procedure 'sys._opened'", ""),
        ("CALL sys.drop('trips', force => 'no')", "argument 'force' is TRUE or FALSE, not 'no'", "force => FALSE"),
        ("CALL sys.drop('trips', force => :p)", "argument 'force' is TRUE or FALSE, not 'no'", "force => FALSE"),
        ("CALL sys.drop('trips', force => 1)", "argument 'force' is TRUE or FALSE, not 1", "force => TRUE"),
        ("CALL sys.drop('trips', force => NULL)", "argument 'force' is TRUE or FALSE, not None", "force => TRUE"),
        ("CALL sys.rollback('trips', 1, dry_run => 'false')", "argument 'dry_run' is TRUE or FALSE", "=> FALSE"),
        ("CALL sys.reinitialise('trips', 'no', force => TRUE)", "delete_partitions takes True or False", ""),
        ("CALL sys.drop(name => 'trips', name => 'other', force => TRUE)", "argument 'name' is given twice",
         "CALL sys.drop"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_explained(session, sql, words, hint):
    with pytest.raises(sl.SleeperError) as caught:
        session.sql(sql, params={"p": "no"} if ":p" in sql else None)
    assert words in caught.value.message
    assert hint in (caught.value.hint or "")
    assert fares(session) == ROWS


@pytest.mark.parametrize("on", ["conflict.city = t.city", "conflict", "(conflict.fare > 0)"])
def test_an_insert_may_join_what_is_named_conflict(session, on):
    other = "(SELECT city, true AS conflict, fare FROM trips WHERE fare = 1) conflict"
    if on == "conflict":
        other = "(SELECT true AS conflict) c"
    session.sql(
        f"INSERT INTO trips (city, day) SELECT 'bari', t.day FROM trips t JOIN {other} ON {on} WHERE t.fare = 1"
    )
    assert fares(session, "city = 'bari'") == [("bari", None)]


@pytest.mark.parametrize("clause", ["(city) DO NOTHING", "DO NOTHING", "ON CONSTRAINT c DO NOTHING"])
def test_an_insert_takes_no_on_conflict(session, clause):
    with pytest.raises(sl.InvalidInput, match="INSERT takes no ON CONFLICT"):
        session.sql(f"INSERT INTO trips SELECT * FROM trips ON CONFLICT {clause}")


def test_a_procedure_has_the_arguments_of_its_method(session):
    import inspect
    from operator import attrgetter

    from sleeper_nb.session.procedures import PROCEDURES

    for each in PROCEDURES:
        owner = session if each.of_session else session.table("trips")
        names = set(inspect.signature(attrgetter(each.method)(owner)).parameters)
        options = {"": set(), "dry_run": {"dry_run"}, "force": {"force", "dry_run"}, "not dry_run": {"dry_run"}}
        given = {*each.arguments, *options[each.confirmation]} - ({"table"} - names)
        assert given <= names, each.name


@few_on_spark(
    ("clauses", "leaves"),
    [
        ("ROW KEYS (City) SORT KEYS (day)", 1),
        ("USING sleeper CLUSTER BY (city) SORTED BY (day) SPLITS ('g', 'n')", 3),
        ("SPLITS 2 ROW KEYS (city) SORT KEYS (day) TBLPROPERTIES (snapshot.time-retained = '30 d')", 2),
        ("ROW KEYS (city) SORT KEYS (day) WITH ('snapshot.time-retained' = '30 d')", 1),
    ],
)
def test_create_table_as_makes_a_table_of_a_query(session, engine, clauses, leaves):
    sql = f"CREATE TABLE copied {clauses} AS SELECT * FROM trips VERSION AS OF 'savepoint.first' WHERE fare >= :least"
    assert "would create copied with 2 rows" in repr(session.sql(sql, engine=engine, params={"least": 2}, dry_run=True))
    assert len(session.tables()) == 1
    made = session.sql(sql, engine=engine, params={"least": 2})
    assert (made.rows, made.snapshot.id) == (2, 1)
    assert fares(session, table="copied") == ROWS[:2]
    copied = session.table("copied")
    assert copied.schema == SCHEMA
    assert len(copied.at().partition_tree.leaves) == leaves
    if "30 d" in clauses:
        assert copied.at().properties.texts["snapshot.time-retained"] == "30 d"


@pytest.mark.parametrize("engine", DUCKDB_FIRST)  # test_rules_on_spark.py has tables of data with rules
def test_a_table_of_a_query_has_the_rules_of_its_statement(session, engine):
    sql = (
        "CREATE TABLE v (city COMMENT 'where', fare NOT NULL, tip INT DEFAULT 0, CONSTRAINT few CHECK (fare < {most})) "
        "ROW KEYS (city) UNIQUE KEYS COMMENT 'of the query' AS SELECT city, fare, 1 FROM trips"
    )
    plan = session.sql(sql.format(most=9), engine=engine, dry_run=True)
    assert "would create v with 3 rows" in repr(plan)
    for most, words in ((3, "few"), ("'x'", "check")):
        with pytest.raises(sl.InvalidInput, match=words):
            session.sql(sql.format(most=most), engine=engine)
    with pytest.raises(sl.InvalidInput, match="unique keys"):
        session.sql(f"{sql.format(most=9)} UNION ALL SELECT city, fare, 1 FROM trips", engine=engine)
    assert [table.name for table in session.tables()] == ["trips"]
    assert session.sql(sql.format(most=9), engine=engine).rows == 3
    tip = sl.Schema({"k": "int"}, {}, {"tip": {"type": "int?", "default": 0}}).values
    value = sl.Schema({"k": "int"}, {}, {"fare": "int"}).values
    key = sl.Schema({"city": {"type": "string", "comment": "where"}}).row_keys
    assert session.table("v").schema == sl.Schema(
        key, (), (*value, *tip), checks={"few": "fare < 9"}, comment="of the query", unique_keys=True
    )


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_a_table_that_exists_is_kept_replaced_or_refused(session, engine):
    again = "TABLE {} trips ROW KEYS (city) AS SELECT city, fare * 10 AS fare FROM trips"
    with pytest.raises(sl.AlreadyExists, match="table 'trips' already exists"):
        session.sql(f"CREATE {again.format('')}", engine=engine)
    assert "nothing was created" in repr(session.sql(f"CREATE {again.format('IF NOT EXISTS')}", engine=engine))
    assert fares(session) == ROWS
    session.sql(f"CREATE OR REPLACE {again.format('')}", engine=engine)
    assert fares(session) == [("alba", 30), ("oslo", 20), ("rome", 10)]
    assert fares(session, table="trips@first") == ROWS


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_create_table_as_takes_names_and_types_of_columns(session, engine):
    query = "SELECT city, fare FROM trips"
    session.sql(f"CREATE TABLE a (place, n) ROW KEYS (place) AS {query}", engine=engine)
    assert session.table("a").schema == sl.Schema({"place": "string"}, {}, {"n": "int?"})
    session.sql(f"CREATE TABLE b (place STRING, n BIGINT NOT NULL) ROW KEYS (place) AS {query}", engine=engine)
    assert session.table("b").schema == sl.Schema({"place": "string"}, {}, {"n": "long"})
    session.sql("CREATE TABLE c LIKE b AS SELECT * FROM b", engine=engine)
    assert session.table("c").schema == session.table("b").schema
    assert len(session.sql("SELECT * FROM a, b, c WHERE a.place = b.place AND b.place = c.place")) == 3


@few_on_spark(
    ("sql", "words", "hint"),
    [
        ("CREATE TABLE v AS SELECT city, fare FROM trips", "table 'v' has no ROW KEYS",
         "write CREATE TABLE v ROW KEYS (…) AS …, with some of city, fare; dry_run=True proposes keys"),
        ("CREATE TABLE v ROW KEYS (city) AS SELECT city, count(*) FROM trips GROUP BY city", "cannot be one of a table",
         "count(*) AS n"),
        ("CREATE TABLE v ROW KEYS (city) AS SELECT city, city FROM trips", "'city' occurs twice", ""),
        ("CREATE TABLE v (k INT, K INT) ROW KEYS (k) AS SELECT 1, 2", "'k' occurs twice", "name it once"),
        ("CREATE TABLE v ROW KEYS (town) AS SELECT city FROM trips", "no column 'town' of the query", "city"),
        ("CREATE TABLE v ROW KEYS (note) AS SELECT note FROM trips", "column 'note' has", "drop those rows"),
        ("CREATE TABLE v (a) ROW KEYS (a) AS SELECT city, fare FROM trips", "names 1 column, but the query has 2",
         "city, fare"),
        ("CREATE TABLE v ROW KEYS (n) SPLITS ('x') AS SELECT fare AS n FROM trips", "split point 'x'", "whole number"),
        ("CREATE TABLE v ROW KEYS (n) AS SELECT CAST(city AS int) AS n FROM trips WHERE fare = 3", "alba", None),
        ("CREATE TABLE v ROW KEYS (n) AS SELECT faer AS n FROM trips", "faer", "fare"),
        ("CREATE TABLE v ROW KEYS (n) WITH (no.such = 1) AS SELECT fare AS n FROM trips", "no.such", ""),
        ("CREATE TABLE 1v ROW KEYS (n) AS SELECT fare AS n FROM trips", "the name of a table is expected", ""),
        ("CREATE TABLE `a b` ROW KEYS (n) AS SELECT fare AS n FROM trips", "'a b' is not a valid table name", ""),
    ],
    every=7,
)  # fmt: skip
def test_a_table_as_that_fails_leaves_no_table_and_no_file(session, engine, sql, words, hint):
    before = files(session)
    with pytest.raises(sl.SleeperError) as caught:
        session.sql(sql, engine=engine)
    assert words in str(caught.value)
    assert hint is None or hint in (caught.value.hint or "")
    assert files(session) == before
    assert [table.name for table in session.tables()] == ["trips"]
    session.sql("CREATE TABLE v ROW KEYS (fare) AS SELECT fare FROM trips", engine="duckdb")


@pytest.mark.parametrize("words", ["ALTER COLUMN FARE TYPE BIGINT", "ALTER fare SET DATA TYPE bigint"])
def test_alter_table_makes_a_column_wider(session, words):
    session.sql(f"ALTER TABLE trips {words}")
    assert session.table("trips").schema.arrow.field("fare").type == "int64"
    session.sql(f"INSERT INTO trips SELECT 'bari', {DAY}, 5000000000, NULL")
    assert fares(session, "fare > 3") == [("bari", 5_000_000_000)]


@pytest.mark.parametrize(
    ("sql", "below"),
    [
        ("UPDATE trips SET fare = 1, city = 'x', FARE = 3", "FARE = 3"),
        ("UPDATE trips AS x SET fare = 1, x.fare = 3", "x.fare"),
        ("MERGE INTO trips USING trips AS s ON false WHEN NOT MATCHED THEN INSERT (fare, Fare) VALUES (1, 2)", "Fare)"),
    ],
)
def test_a_column_gets_one_value(session, sql, below):
    with pytest.raises(sl.InvalidInput, match="gets two values") as caught:
        session.sql(sql, force=True)
    shown, caret = caught.value.place.splitlines()
    assert shown[caret.index("^") :].startswith(below)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE trips SET city = DEFAULT",
        "MERGE INTO trips USING trips AS s ON true WHEN MATCHED THEN UPDATE SET city = DEFAULT",
        "MERGE INTO trips USING trips AS s ON false WHEN NOT MATCHED THEN INSERT (city) VALUES (DEFAULT)",
    ],
)
def test_a_column_without_a_default_that_cannot_be_null_is_not_set_to_one(session, sql):
    with pytest.raises(sl.InvalidInput, match="'city' has no default, and cannot be NULL") as caught:
        session.sql(sql, force=True)
    shown, caret = caught.value.place.splitlines()
    assert shown[caret.index("^") :].startswith("city")


def test_a_table_like_another_takes_rows_splits_and_properties(session):
    session.sql("CREATE TABLE v LIKE trips SPLITS ('m') WITH (snapshot.time-retained = '30 d') AS SELECT * FROM trips")
    made = session.table("v")
    assert made.schema == SCHEMA
    assert len(made.at().partition_tree.leaves) == 2
    assert made.at().properties.texts["snapshot.time-retained"] == "30 d"
    assert fares(session, table="v") == ROWS


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_a_column_gets_another_case(session, engine):
    session.sql("ALTER TABLE trips RENAME COLUMN fare TO FARE", engine=engine)
    session.sql(f"INSERT INTO trips (city, day, fare) SELECT 'bari', {DAY}, 9", engine=engine)
    assert session.table("trips").schema.names == ("city", "day", "FARE", "note")
    assert answer(session, "SELECT FARE FROM trips ORDER BY 1", engine) == [(1,), (2,), (3,), (9,)]


def test_a_struct_has_several_fields(session):
    kind = "STRUCT<a: INT, comment: LIST<STRUCT<c INT?, d DECIMAL(4, 2)>>>"
    session.sql(f"CREATE TABLE v (k INT, s {kind} NOT NULL COMMENT 'x', t STRING) ROW KEYS (k)")
    kind = "struct<a:int,comment:list<struct<c:int?,d:decimal(4,2)>>>"
    fields = {field.name: str(field.type) for field in session.table("v").schema.fields}
    assert fields == {"k": "int", "s": kind, "t": "string"}


@pytest.mark.parametrize("engine", DUCKDB_FIRST)
def test_unique_keys_are_promised_and_taken_back(session, engine):
    def schema(name):
        return session.table(name).schema

    session.sql("CREATE TABLE u (a INT, b INT) ROW KEYS (a) UNIQUE KEYS", engine=engine)
    session.sql("CREATE TABLE w (a INT, b INT) ROW KEYS (a) UNIQUE KEYS AS SELECT 1, 2", engine=engine)
    assert (schema("u").unique_keys, schema("w").unique_keys) == (True, True)
    session.sql("INSERT INTO u VALUES (1, 2)", engine=engine)
    with pytest.raises(sl.InvalidInput, match="1"):
        session.sql("INSERT INTO u VALUES (1, 3)", engine=engine)
    session.sql("ALTER TABLE u DROP UNIQUE KEYS", engine=engine)
    session.sql("INSERT INTO u VALUES (1, 3)", engine=engine)
    assert not schema("u").unique_keys
    with pytest.raises(sl.InvalidInput):
        session.sql("ALTER TABLE u ADD UNIQUE KEYS", engine=engine)
    session.sql("ALTER TABLE w DROP UNIQUE KEYS, ADD COLUMN c INT", engine=engine)
    session.sql("ALTER TABLE w ADD UNIQUE KEYS", engine=engine)
    assert schema("w").unique_keys
