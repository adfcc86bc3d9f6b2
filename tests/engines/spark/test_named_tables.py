"""Tables by name in a program's own Spark session: ``spark.table``, and SQL with ``VERSION AS OF``."""

from __future__ import annotations

import warnings
from datetime import timedelta

import pytest

import sleeper_nb as sl
from tests.support.builders import in_order
from tests.support.combinations import some

pytestmark = pytest.mark.spark

SCHEMA = sl.Schema({"key": "string"}, {"n": "int"}, {"x": "double?"})


def rows(*keys):
    return [{"key": key, "n": n, "x": None if n % 2 else n / 3} for n, key in enumerate(keys)]


@pytest.fixture
def table(session):
    made = session.create_table("flights", SCHEMA, ["b", "d"])
    made.ingest(rows(*"abcdef"))
    made.create_savepoint("early")
    made.ingest(rows("a", "z"))
    return made


@pytest.fixture
def spark(spark_engine):
    return spark_engine.session()


def content(frame):
    return in_order(frame.toArrow().to_pylist())


def scanned(table, **version):
    return in_order(table.scan(**version).to_arrow().to_pylist())


def count(spark, sql):
    return spark.sql(f"SELECT count(*) FROM {sql}").collect()[0][0]


def error_of(action):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own
        action()
    return str(caught.value)


def test_a_name_is_the_current_version_in_every_way_of_reading(spark, table):
    assert content(spark.table("flights")) == scanned(table)
    for frame in spark.table("FLIGHTS"), spark.read.table("default.flights"), spark.sql("SELECT * FROM flights"):
        assert frame.inputFiles() == spark.table("flights").inputFiles()


def test_each_query_reads_the_version_that_is_current_then(spark, table):
    before, frame = len(scanned(table)), spark.table("flights")
    spark.sql("CREATE TEMP VIEW over AS SELECT key FROM flights")
    try:
        table.ingest(rows("new"))
        assert frame.count() == before
        assert spark.table("flights").count() == count(spark, "flights") == count(spark, "over") == before + 1
    finally:
        spark.catalog.dropTempView("over")


def test_a_table_that_is_created_renamed_altered_or_deleted_later_is_followed(spark, session, table):
    session.create_table("later", SCHEMA).ingest(rows("a"))
    assert count(spark, "later") == 1
    session.rename_table("later", "latest")
    session.table("latest").alter({"y": "int?"})
    assert spark.table("latest").columns == ["key", "n", "x", "y"]
    session.drop_table("latest", force=True)
    assert "latest" in error_of(lambda: spark.table("latest"))
    assert not spark.catalog.tableExists("latest")


@pytest.mark.parametrize(
    "clause",
    some(
        ["VERSION AS OF 2", "VERSION AS OF 'snapshot.2'", "VERSION AS OF 'savepoint.early'", "FOR VERSION AS OF 2"],
    ),
)
def test_sql_reads_a_version(spark, table, clause):
    assert content(spark.sql(f"SELECT * FROM flights {clause}")) == scanned(table, version=2)


def test_sql_reads_a_moment(spark, table):
    before = table.history()[0].time - timedelta(microseconds=1)
    assert content(spark.sql(f"SELECT * FROM flights TIMESTAMP AS OF '{before}'")) == scanned(table, version=2)
    assert count(spark, "flights TIMESTAMP AS OF current_timestamp()") == 8
    assert spark.read.option("versionAsOf", 2).table("flights").count() == 6


def test_two_versions_in_one_statement(spark, table):
    joined = "flights a LEFT ANTI JOIN flights VERSION AS OF 'savepoint.early' b ON a.key = b.key AND a.n = b.n"
    assert [row.key for row in spark.sql(f"SELECT a.key FROM {joined}").collect()] == ["z"]


def test_spark_s_own_reader_reads_the_files(spark, table):
    plan = spark.table("flights")._jdf.queryExecution().toString()
    assert "parquet" in plan.casefold()
    assert "Python" not in plan


def test_filters_apply_when_the_query_is_made(spark, session):
    schema = sl.Schema({"key": "string"}, values={"at": "timestamp"})
    table = session.create_table("t", schema, properties={"sleeper.table.filters": "ageOff(at,86400000)"})
    now = session._components.clock.now()
    table.ingest([{"key": "new", "at": now}, {"key": "old", "at": now - timedelta(days=3)}])
    assert [row.key for row in spark.table("t").collect()] == ["new"]


def test_system_tables_have_names_too(spark, table):
    assert spark.table("`flights$snapshots`").count() == 3
    assert count(spark, "`flights$savepoints`") == 1


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("flights VERSION AS OF 99", "no snapshot 99 of table 'flights'; hint: available: 1–3"),
        ("flights VERSION AS OF 'savepoint.late'", "no savepoint 'late' of table 'flights'; hint: available: early"),
        ("`flights$nope`", "no system table 'nope' of table 'flights'; hint: available: savepoints, snapshots, files"),
        (
            "flights TIMESTAMP AS OF '2001-01-01'",
            "no version of table 'flights' as old as 2001-01-01 00:00:00 UTC; hint",
        ),
    ],
)
def test_an_error_is_one_line(spark, table, sql, error):
    shown = error_of(lambda: spark.sql(f"SELECT * FROM {sql}"))
    assert shown.startswith(error)
    assert len(shown.splitlines()) == 1


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO flights VALUES ('a', 1, 2)", "INSERT OVERWRITE flights VALUES ('a', 1, 2)", "DELETE FROM flights"],
)
def test_sql_of_spark_writes_to_no_table(spark, table, statement):
    error = error_of(lambda: spark.sql(statement))
    assert error == (
        "SQL of Spark cannot write to table 'flights'; "
        'hint: run the statement as session.sql("…", engine="spark"); or append a DataFrame: '
        'df.write.format("sleeper").option("table", "flights").mode("append").save()'
    )
    assert len(table.history()) == 3


def test_spark_lists_and_describes_tables(spark, table):
    assert [row.tableName for row in spark.sql("SHOW TABLES").collect()] == ["flights"]
    assert [each.name for each in spark.catalog.listTables()] == ["flights"]
    assert (spark.catalog.tableExists("flights"), spark.catalog.tableExists("nope")) == (True, False)
    assert [row.col_name for row in spark.sql("DESCRIBE flights").collect()] == ["key", "n", "x"]


def test_a_view_of_the_program_s_own_wins_and_a_warning_says_so(spark_engine, tmp_path):
    spark = spark_engine.session()
    with sl.connect(tmp_path / "own") as made:
        made.create_table("flights", SCHEMA).ingest(rows(*"abc"))
    spark.sql("CREATE TEMP VIEW flights AS SELECT 1 AS own")
    try:
        with pytest.warns(UserWarning, match="Spark has a table or view of its own named 'flights'"):
            session = sl.connect(tmp_path / "own", spark=spark)
        with session, warnings.catch_warnings():
            warnings.simplefilter("error")  # once is enough
            assert session.spark_session.table("flights").columns == ["own"]
            assert session.sql("SELECT count(*) AS n FROM flights", engine="spark").to_pandas()["n"][0] == 3
            spark.catalog.dropTempView("flights")
            assert session.spark_session.table("flights").count() == 3
    finally:
        spark.catalog.dropTempView("flights")


def test_a_table_of_spark_s_own_that_is_made_later_wins_and_a_warning_says_so(spark, table):
    with pytest.warns(UserWarning, match="outside the warehouse"):
        spark.sql("CREATE TABLE flights (own INT) USING parquet")
    try:
        with pytest.warns(UserWarning, match=r"spark.read.format\(\"sleeper\"\).load\('flights'\)"):
            assert spark.table("flights").columns == ["own"]
        assert "Time travel" in error_of(lambda: spark.sql("SELECT * FROM flights VERSION AS OF 2"))
        assert spark.read.format("sleeper").load("flights").count() == 8
    finally:
        spark.sql("DROP TABLE flights")
    assert spark.table("flights").count() == 8


def test_a_table_that_a_program_makes_with_spark_is_outside_the_warehouse_and_a_warning_says_so(spark, table):
    words = r"'mine' is a table of Spark's own, outside the warehouse: to make one in it, write session\.sql"
    try:
        for make in (
            lambda: spark.sql("CREATE TABLE mine (k INT) USING parquet"),
            lambda: spark.sql("CREATE TABLE mine USING parquet AS SELECT 1 AS k"),
            lambda: spark.range(3).write.saveAsTable("mine"),
        ):
            with pytest.warns(UserWarning, match=words):
                make()
            spark.sql("DROP TABLE mine")
        with warnings.catch_warnings(record=True) as caught:
            spark.sql("CREATE VIEW kept AS SELECT 1 AS k")
            spark.sql("CREATE TEMP VIEW mine AS SELECT 1 AS k")
        assert caught == []
    finally:
        spark.sql("DROP VIEW IF EXISTS kept")
        spark.catalog.dropTempView("mine")


def test_the_catalog_of_another_library_stays_and_a_warning_says_so(spark, tmp_path):
    before = spark.conf.get("spark.sql.catalog.spark_catalog", "builtin")
    spark.conf.set("spark.sql.catalog.spark_catalog", "org.example.Catalog")
    try:
        with pytest.warns(UserWarning, match=r"as its catalog is org\.example\.Catalog: write spark\.read\.format"):
            sl.connect(tmp_path / "w", spark=spark).close()
        assert spark.conf.get("spark.sql.catalog.spark_catalog") == "org.example.Catalog"
    finally:
        spark.conf.set("spark.sql.catalog.spark_catalog", before)


def test_names_are_those_of_the_session_that_was_asked_last_until_it_is_closed(spark, session, table, tmp_path):
    with sl.connect(tmp_path / "other", spark=spark) as other:
        other.create_table("flights", SCHEMA).ingest(rows("only"))
        assert count(spark, "flights") == 1
        assert count(session.spark_session, "flights") == 8
        assert count(other.spark_session, "flights") == 1
    assert "flights" in error_of(lambda: spark.table("flights"))
    assert count(session.spark_session, "flights") == 8


def test_the_format_is_that_of_the_session_that_was_asked_last(spark_engine, tmp_path):
    with (
        sl.connect(tmp_path / "one", spark=spark_engine.session()) as one,
        sl.connect(tmp_path / "two", spark=spark_engine.session()) as two,
    ):
        for session, key in ((one, "1"), (two, "2")):
            session.create_table("u", SCHEMA).ingest(rows(key))
        for session, key in ((two, "2"), (one, "1")):
            spark = session.spark_session
            assert spark.table("u").collect()[0]["key"] == key
            assert spark.read.format("sleeper").load("u").collect()[0]["key"] == key
        one.spark_session.sql("SELECT 'new' AS key, 1 AS n, 1.5D AS x").write.format("sleeper").mode("append").save("u")
        assert (one.table("u").scan().count(), two.table("u").scan().count()) == (2, 1)


def test_names_work_in_the_batches_of_a_stream(spark, table, tmp_path):
    found = []

    def look(batch, _):
        found.append(batch.sparkSession.sql("SELECT count(*) AS n FROM flights").collect()[0].n)

    stream = spark.readStream.format("sleeper").load("flights")
    options = {"checkpointLocation": str(tmp_path / "checkpoint")}
    stream.writeStream.options(**options).foreachBatch(look).trigger(availableNow=True).start().awaitTermination()
    assert found == [8]


def test_what_a_program_has_cached_stays_cached_until_the_table_changes(spark, table):
    spark.catalog.cacheTable("flights")
    try:
        assert "InMemory" in spark.table("flights")._jdf.queryExecution().toString()
        table.ingest(rows("new"))
        assert count(spark, "flights") == 9
    finally:
        spark.catalog.clearCache()


def test_names_of_sql_of_the_session_are_unchanged(session, spark, table):
    for sql in ("flights", "default.flights"):
        answer = session.sql(f"SELECT count(*) AS n FROM {sql}", engine="spark").to_pandas()["n"][0]
        assert answer == 8
    with pytest.raises(sl.ConfirmationNeeded):
        session.sql("DELETE FROM flights", engine="spark")


def test_a_view_over_a_table_of_another_session_is_refused_with_the_place_of_the_table(spark, session, table, tmp_path):
    with sl.connect(tmp_path / "other", spark=spark) as other:
        for name in ("elsewhere", "flights"):
            other.create_table(name, SCHEMA).ingest(rows("only"))
            other.spark_session.sql(f"CREATE OR REPLACE TEMP VIEW over_other AS SELECT key FROM {name}")
            assert other.sql("SELECT key FROM over_other", engine="spark").to_dict() == {"key": ["only"]}
            with pytest.raises(sl.NotFound, match=f"'{name}' is a table of {other.location}, which") as caught:
                session.sql("SELECT * FROM over_other", engine="spark").to_arrow()
            assert "\nhint: read it, and views of it, with that session" in str(caught.value)
    spark.catalog.dropTempView("over_other")


def test_sql_of_a_session_finds_no_table_of_another_instance(spark, session, table, tmp_path):
    with sl.connect(tmp_path / "other", spark=spark) as other:
        other.create_table("elsewhere", SCHEMA).ingest(rows("only"))
        assert count(spark, "elsewhere") == 1
        for sql in ("SELECT * FROM elsewhere", "SELECT * FROM default.elsewhere", "DESCRIBE elsewhere"):
            with pytest.raises(sl.NotFound, match=r"no table (or view )?'(default\.)?elsewhere'"):
                session.sql(sql, engine="spark")
        with pytest.raises(sl.NotFound, match="no table 'flights'"):
            other.sql("SELECT * FROM flights", engine="spark")
        assert other.sql("SELECT count(*) AS n FROM default.elsewhere", engine="spark").to_pandas()["n"][0] == 1
        assert count(spark, "elsewhere") == 1
