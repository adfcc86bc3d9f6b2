"""SQL on Spark reads and never writes, as Spark's own parser judges it."""

import pytest

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError

pytestmark = pytest.mark.spark

WRITES = [
    "INSERT OVERWRITE DIRECTORY '{out}' USING parquet SELECT 1 AS n",
    "INSERT OVERWRITE LOCAL DIRECTORY '{out}' STORED AS TEXTFILE SELECT 1",
    "WITH a AS (SELECT 1 AS n) INSERT OVERWRITE DIRECTORY '{out}' USING parquet SELECT * FROM a",
    "FROM trips INSERT OVERWRITE DIRECTORY '{out}' USING csv SELECT * INSERT OVERWRITE DIRECTORY '{out}2' SELECT *",
    "WITH a AS (SELECT 1) FROM trips INSERT INTO x SELECT * INSERT INTO y SELECT *",
    "EXPLAIN INSERT OVERWRITE DIRECTORY '{out}' USING parquet SELECT 1 AS n",
    "EXPLAIN EXTENDED CREATE TABLE x AS SELECT 1",
    "/* SELECT */ CREATE TABLE x AS SELECT 1",
    "CREATE /* a */ TABLE x AS SELECT 1",
    "CREATE TABLE x (n INT) USING parquet LOCATION '{out}'",
    "CREATE EXTERNAL TABLE x (n INT) STORED AS parquet LOCATION '{out}'",
    "REPLACE TABLE x AS SELECT 1",
    "CREATE VIEW x AS SELECT 1",
    "CREATE GLOBAL TEMP VIEW x AS SELECT 1",
    "CACHE TABLE x AS SELECT reflect('java.lang.System', 'getProperty', 'java.home')",
    "INSERT INTO x VALUES (1)",
    "LOAD DATA INPATH '{out}' INTO TABLE x",
    "MERGE INTO x USING trips ON x.n = 1 WHEN MATCHED THEN DELETE",
    "DELETE FROM x",
    "UPDATE x SET n = 1",
    "TRUNCATE TABLE x",
    "DROP TABLE x",
    "DROP VIEW nothing",
    "ALTER TABLE x ADD COLUMN n INT",
    "ANALYZE TABLE x COMPUTE STATISTICS",
    "MSCK REPAIR TABLE x",
    "COMMENT ON TABLE x IS 'a'",
    "CREATE DATABASE x LOCATION '{out}'",
    "DROP DATABASE x",
    "CREATE FUNCTION f AS 'a.B' USING JAR '{out}.jar'",
    "CREATE TEMPORARY FUNCTION f AS 'a.B' USING JAR '{out}.jar'",
    "CREATE TEMPORARY FUNCTION f(n INT) RETURNS INT RETURN n",
    "ADD JAR '{out}.jar'",
    "ADD FILE '{out}'",
    "CALL system.f()",
    "EXECUTE IMMEDIATE 'CREATE TABLE x AS SELECT 1'",
    "BEGIN SELECT 1; CREATE TABLE x AS SELECT 1; END",
    "SELECT TRANSFORM (city) USING 'tee {out}' AS (c) FROM trips",
    "FROM trips MAP city USING 'tee {out}' AS c",
    "WITH a AS (SELECT TRANSFORM (city) USING 'tee {out}' AS (c) FROM trips) SELECT 1",
    "SELECT (WITH a AS (SELECT TRANSFORM (city) USING 'tee {out}' AS (c) FROM trips) SELECT max(c) FROM a)",
    "EXPLAIN SELECT TRANSFORM (city) USING 'tee {out}' AS (c) FROM trips",
    "DESCRIBE SELECT TRANSFORM (city) USING 'tee {out}' AS (c) FROM trips",
    "SELECT reflect('java.lang.System', 'setProperty', 'a', 'b')",
    "SELECT `Java_Method`('java.lang.System', 'setProperty', 'a', 'b')",
    "SELECT system.builtin.try_reflect('java.lang.System', 'setProperty', 'a', 'b')",
    "SELECT 1 WHERE EXISTS (SELECT reflect('java.lang.System', 'setProperty', 'a', 'b'))",
    "WITH a AS (SELECT reflect('java.lang.System', 'setProperty', 'a', 'b')) SELECT 1",
    "SELECT 1 ORDER BY reflect('java.lang.System', 'setProperty', 'a', 'b')",
    "VALUES (reflect('java.lang.System', 'setProperty', 'a', 'b'))",
]


@pytest.fixture(scope="module")
def session(spark_engine, tmp_path_factory):
    with sl.connect(tmp_path_factory.mktemp("sql") / "warehouse", spark=spark_engine.session()) as opened:
        schema = sl.Schema({"city": "string"}, {}, {"fare": "double?"})
        opened.create_table("trips", schema, ["m"]).ingest([{"city": "rome", "fare": 1.0}, {"city": "bern"}])
        yield opened


@pytest.mark.parametrize("sql", WRITES)
def test_no_door_runs_what_does_more_than_read(session, tmp_path, sql):
    before = {name.tableName for name in session.spark().session().sql("SHOW TABLES").collect()}
    text, trips = sql.format(out=tmp_path / "out"), session.table("trips")
    for door in (
        lambda: session.sql(text).to_arrow(),
        lambda: session.sql(text, dry_run=True).explain(),
        lambda: session.sql(f"CREATE OR REPLACE TEMP VIEW v AS {text}"),
        lambda: session.sql(f"SELECT * FROM trips VERSION AS OF ({text})"),
        lambda: trips.scan(where=f"({text}) = 1").to_spark().collect(),
    ):
        with pytest.raises(SleeperError):
            door()
    assert not [*tmp_path.iterdir()]
    assert {name.tableName for name in session.spark().session().sql("SHOW TABLES").collect()} == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT city FROM trips UNION ALL SELECT city FROM trips UNION SELECT 'a'",
        "(SELECT 1) EXCEPT (SELECT 2)",
        "FROM trips SELECT city",
        "FROM trips |> WHERE fare > 0 |> SELECT city",
        "VALUES (1), (2)",
        "TABLE trips",
        "WITH a AS (SELECT * FROM trips), b AS (SELECT * FROM a) SELECT * FROM b JOIN a USING (city)",
        "SELECT transform(array(1, 2), x -> x + 1), 'USING reflect' AS reflect, map(1, 2)",
        "SELECT * FROM trips PIVOT (sum(fare) FOR city IN ('rome', 'bern'))",
        "SELECT /*+ BROADCAST(t) */ * FROM trips TABLESAMPLE (100 PERCENT) t LATERAL VIEW explode(array(1)) u AS v",
        "SHOW DATABASES",
        "SHOW FUNCTIONS LIKE 'abs'",
        "DESCRIBE trips",
        "DESCRIBE FUNCTION abs",
        "DESCRIBE QUERY SELECT * FROM trips",
        "EXPLAIN SELECT * FROM trips",
        "EXPLAIN EXTENDED WITH a AS (SELECT 1) SELECT * FROM a",
        "SET spark.sql.session.timeZone",
        "LIST JARS",
    ],
)
def test_queries_and_what_describes_are_answered(session, sql):
    session.sql(sql).to_arrow()


def test_local_files_are_read_and_a_setting_forbids_it(session, spark_engine, tmp_path):
    (tmp_path / "data.csv").write_text("rome\nparis\n")
    given = f"csv.`{tmp_path}/data.csv`"
    assert session.sql(f"SELECT * FROM {given}").to_arrow().num_rows == 2
    session.sql(f"CREATE TEMP VIEW given USING csv OPTIONS (path '{tmp_path}/data.csv', header true)")
    assert session.sql("SELECT * FROM given").to_arrow().column_names == ["rome"]
    session.sql("DROP VIEW given")
    with pytest.raises(NotFound):
        session.sql("SELECT * FROM given").to_arrow()
    with pytest.raises(InvalidInput, match="a file of the instance"):
        session.sql(f"SELECT * FROM binaryFile.`{session.location}/catalog.sqlite`")
    strict = sl.connect(
        tmp_path / "other", spark=spark_engine.session(), properties={"sleeper.sql.local.files": "false"}
    )
    with strict:
        for sql in (f"SELECT * FROM {given}", f"CREATE TEMP VIEW given USING csv OPTIONS (path '{tmp_path}/data.csv')"):
            with pytest.raises(InvalidInput, match="may not read local files here"):
                strict.sql(sql)
        assert strict.sql("SELECT 1 AS one").to_dict() == {"one": [1]}
