"""SQL on Spark reads and never writes, as Spark's own parser judges it."""

import itertools

import pytest

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from tests.support.combinations import some

pytestmark = pytest.mark.spark

WRITES = [
    "INSERT OVERWRITE DIRECTORY '{out}' USING parquet SELECT 1 AS n",
    "INSERT OVERWRITE LOCAL DIRECTORY '{out}' STORED AS TEXTFILE SELECT 1",
    "WITH a AS (SELECT 1 AS n) INSERT OVERWRITE DIRECTORY '{out}' USING parquet SELECT * FROM a",
    "FROM trips INSERT OVERWRITE DIRECTORY '{out}' USING csv SELECT * INSERT OVERWRITE DIRECTORY '{out}2' SELECT *",
    "WITH a AS (SELECT 1) FROM trips INSERT INTO x SELECT * INSERT INTO y SELECT *",
    "EXPLAIN INSERT OVERWRITE DIRECTORY '{out}' USING parquet SELECT 1 AS n",
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
    "SELECT sum(1) OVER w FROM trips WINDOW w AS (ORDER BY reflect('java.lang.System', 'setProperty', 'a', 'b'))",
    "SELECT * FROM trips UNPIVOT (v FOR n IN (reflect('java.lang.System', 'setProperty', 'a', 'b')))",
    "DECLARE OR REPLACE VARIABLE x = reflect('java.lang.System', 'setProperty', 'a', 'b')",
    "SELECT IDENTIFIER('reflect')('java.lang.System', 'setProperty', 'a', 'b')",
    "SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'setProperty', 'a', 'b')",
    "SELECT from_avro(city, '{{}}', map('avroSchemaUrl', '{out}')) FROM trips",
    "CREATE TEMP VIEW x USING jdbc OPTIONS (url 'jdbc:derby:{out};create=true', dbtable 't')",
    "CREATE TEMP VIEW x USING `jdbc` OPTIONS (url 'jdbc:derby:{out};create=true', dbtable 't')",
    "CREATE TEMP VIEW x USING org.apache.spark.sql.jdbc OPTIONS (url 'jdbc:derby:{out};create=true', dbtable 't')",
    "CREATE TEMP VIEW x USING sleeper OPTIONS (table 't', warehouse '{out}')",
    "SELECT * FROM jdbc.`jdbc:derby:{out};create=true`",
    "USE other.schema",
    "USE IDENTIFIER('oth' || 'er')",
    "USE NAMESPACE other.schema",
    "SET CATALOG other",
    "SET CATALOG 'other'",
    "SELECT '${{env:HOME}}'",
    "SELECT '${{system:user.dir}}'",
    "SELECT '${{spark.app.name}}'",
    "RESET",
]

CATALOG = "spark.sql.catalog.other"
KEYS = [
    *(CATALOG, f"{CATALOG}.url", f"{CATALOG}.sessionInitStatement", "spark.sql.defaultCatalog"),
    *("spark.sql.catalog.spark_catalog", "spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"),
    *("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive"),
    *(
        "spark.sql.adaptive.customCostEvaluatorClass",
        "spark.sql.sources.useV1SourceList",
        "spark.sql.variable.substitute",
    ),
    *("spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.debug.maxToStringFields", "hive.x", "x"),
]


@pytest.fixture(scope="module")
def session(spark_engine, tmp_path_factory):
    with sl.connect(tmp_path_factory.mktemp("sql") / "warehouse", spark=spark_engine.session()) as opened:
        schema = sl.Schema({"city": "string"}, {}, {"fare": "double?"})
        opened.create_table("trips", schema, ["m"]).ingest([{"city": "rome", "fare": 1.0}, {"city": "bern"}])
        yield opened


def own_tables(session):
    """What SHOW TABLES lists of Spark's own, without a statement that Spark plans."""
    return session.spark_session._jsparkSession.sessionState().catalog().listTables("default").toString()


@pytest.mark.parametrize("sql", WRITES)
def test_no_door_runs_what_does_more_than_read(session, tmp_path, sql):
    before = own_tables(session)
    text, trips = sql.format(out=tmp_path / "out"), session.table("trips")
    for door in (
        lambda: session.sql(text, engine="spark").to_arrow(),
        lambda: session.sql(text, dry_run=True, engine="spark").explain(),
        lambda: session.sql(f"CREATE OR REPLACE TEMP VIEW v AS {text}", engine="spark"),
        lambda: session.sql(f"SELECT * FROM trips VERSION AS OF ({text})", engine="spark"),
        lambda: trips.scan(where=f"({text}) = 1").to_spark().collect(),
    ):
        with pytest.raises(SleeperError):
            door()
    assert not [*tmp_path.iterdir()]
    assert own_tables(session) == before


@pytest.mark.parametrize(
    "sql",
    some(
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
            "SET spark.sql.shuffle.partitions = 3",
            "SET spark.sql.adaptive.coalescePartitions.enabled = true",
            "RESET spark.sql.shuffle.partitions",
            "USE default",
            "SELECT '${nothing' || '$' || '{}'",
            "SELECT sum(fare) OVER w FROM trips WINDOW w AS (PARTITION BY city)",
            "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t (n, c)",
            "LIST JARS",
        ],
        every=4,
    ),
)
def test_queries_and_what_describes_are_answered(session, sql):
    session.sql(sql, engine="spark").to_arrow()


@pytest.mark.parametrize("key", KEYS)
def test_sql_changes_no_setting_that_changes_answers(session, key):
    conf = session.spark_session.conf
    before = conf.get(key, None)
    for sql in (f"SET {key}=true", f"SET `{key}`=`true`", f"RESET {key}"):
        with pytest.raises(InvalidInput, match=rf"cannot change setting '{key}'\nhint: .*spark[_.]"):
            session.sql(sql, engine="spark")
    assert conf.get(key, None) == before


def test_the_time_zone_stays(session):
    for sql in ("SET TIME ZONE 'Asia/Tokyo'", "SET TIME ZONE LOCAL", "SET TIME ZONE INTERVAL 9 HOURS"):
        with pytest.raises(InvalidInput, match="from_utc_timestamp"):
            session.sql(sql, engine="spark")


def test_a_catalog_of_the_spark_session_itself_can_be_read(session, tmp_path):
    spark = session.spark_session
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    conf = spark.conf
    jdbc = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    own = {
        "": jdbc,
        ".url": "jdbc:derby:memory:own;create=true",
        ".driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    }
    for name, value in own.items():
        conf.set(f"spark.sql.catalog.own{name}", value)
    assert session.sql("SELECT * FROM own.SYSIBM.SYSDUMMY1", engine="spark").to_arrow().num_rows == 1
    for sql in ("USE own", "USE own.SYSIBM", "SET CATALOG own"):
        with pytest.raises(InvalidInput):
            session.sql(sql, engine="spark")


def _ways(path, form="text"):
    """Every way to name a file."""
    yield f"SELECT * FROM {form}.`{path}`"
    yield f"SELECT * FROM {form} . /* a */ `{path}`"
    yield f"SELECT * FROM {form}./**/`{path}`"
    yield f"SELECT * FROM `{form}`.`{path}`"
    yield f"SELECT * FROM {form.upper()}.`file:{path}`"
    yield f"TABLE {form}.`file://{path}`"
    yield f"SELECT * FROM IDENTIFIER('{form}.`{path}`')"
    yield f"SELECT * FROM IDENTIFIER('{form}.' || '`{path}`')"
    yield f"WITH a AS (SELECT * FROM {form}.`{path}`) SELECT * FROM a"
    yield f"SELECT (SELECT count(*) FROM {form}.`{path}`)"
    yield f"SELECT sum(1) OVER w FROM trips WINDOW w AS (ORDER BY (SELECT count(*) FROM {form}.`{path}`))"
    yield f"VALUES ((SELECT count(*) FROM {form}.`{path}`))"
    yield f"CACHE TABLE {form}.`{path}`"
    yield f"EXPLAIN SELECT * FROM {form}.`{path}`"
    yield f"SELECT * FROM {form}.`/nowhere` WITH (path = '{path}')"
    yield f"CREATE TEMP VIEW given USING {form} OPTIONS (path '{path}')"
    yield f"CREATE TEMP VIEW given USING {form} OPTIONS ('PATH' '{path}')"


def test_no_way_reads_a_file_that_sql_may_not(session, spark_engine, tmp_path):
    place, folder = session.location, tmp_path / "beside"
    folder.mkdir()
    (folder / "link").symlink_to(place)
    (folder / "catalog").symlink_to(f"{place}/catalog.sqlite")
    (folder / "system").symlink_to("/proc/self/environ")
    (folder / "data.csv").write_text("rome\n")
    paths = [f"{place}/catalog.sqlite", f"{place}/*/data/*/*.parquet", f"{place[:-1]}?/config", f"{folder}/link"]
    paths += [
        str(folder),
        f"{folder}/cat*",
        "/proc/self/environ",
        "/p*c/self/environ",
        "/dev/stdin",
        f"{folder}/system",
    ]
    for number, path in enumerate(paths):
        for sql in itertools.islice(_ways(path), 2 if number % 4 else None):  # each place, and each way to some
            with pytest.raises(InvalidInput, match=r"SQL may not read|IDENTIFIER"):
                session.sql(sql, engine="spark")
    with sl.connect(
        tmp_path / "other", spark=spark_engine.session(), properties={"sleeper.sql.local.files": "false"}
    ) as strict:
        strict.create_table("trips", sl.Schema({"city": "string"}))
        for sql in _ways(f"{folder}/data.csv"):
            with pytest.raises(InvalidInput, match=r"may not read local files|IDENTIFIER"):
                strict.sql(sql, engine="spark")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM csv.`s3a://bucket/a.csv`", "only files of this machine"),
        ("SELECT * FROM csv.`http://example.com/a.csv`", "only files of this machine"),
        ("SELECT * FROM org.apache.spark.sql.execution.datasources.csv.CSVFileFormat.`{0}`", None),
        (
            "SELECT * FROM `org.apache.spark.sql.execution.datasources.csv.CSVFileFormat`.`{0}`",
            "cannot read files of format",
        ),
        ("SELECT * FROM csv.`{0}` WITH (ignoreCorruptFiles = true)", "the file option 'ignorecorruptfiles'"),
        (
            "CREATE TEMP VIEW given USING csv OPTIONS (path '{0}', ignoreMissingFiles true)",
            "the file option 'ignoreMissing",
        ),
        ("CREATE TEMP VIEW given USING csv OPTIONS (paths '[\"{0}\"]')", "the file option 'paths'"),
        (
            "CREATE TEMP VIEW given USING xml OPTIONS (path '{0}', rowValidationXSDPath '{0}')",
            "the file option 'rowVal",
        ),
    ],
)
def test_formats_options_and_places_are_listed(session, tmp_path, sql, words):
    (tmp_path / "data.csv").write_text("rome\n")
    with pytest.raises(SleeperError, match=words):
        session.sql(sql.format(tmp_path / "data.csv"), engine="spark")


@pytest.mark.parametrize(
    ("form", "text"),
    [("csv", "k,v\n1,a\n2,b,lost\n"), ("json", '{"k": 1}\n{"k": 2'), ("xml", "<r><k>1</k></r><r><k>")],
)
def test_files_of_text_need_a_word_on_what_does_not_fit(session, tmp_path, form, text):
    """Spark would drop values beyond the columns, and make NULL of a line that it cannot read."""
    path = tmp_path / f"rows.{form}"
    path.write_text(text)
    said = r"Spark makes NULL of what it cannot read in '.*', a \w+ file\nhint: .*mode = 'FAILFAST'"
    for sql in (
        f"SELECT * FROM {form}.`{path}`",
        f"WITH a AS (SELECT * FROM {form.upper()}.`{path}` WHERE true) SELECT * FROM a",
        f"CREATE TEMP VIEW given USING {form} OPTIONS (path '{path}', rowTag 'r')",
    ):
        with pytest.raises(InvalidInput, match=said) as refused:
            session.sql(sql, engine="spark")
        assert ("write FROM" in str(refused.value)) == (form != "xml")
    options = "mode = 'FAILFAST', rowTag = 'r', header = true"
    with pytest.raises(SleeperError):
        session.sql(f"SELECT * FROM {form}.`{path}` WITH ({options})", engine="spark").to_arrow()


def test_local_files_are_read_and_a_setting_forbids_it(session, spark_engine, tmp_path):
    (tmp_path / "data.csv").write_text("rome\nparis\n")
    given = f"csv.`{tmp_path}/data.csv`"
    strictly = f"path '{tmp_path}/data.csv', mode 'FAILFAST'"
    assert session.sql(f"SELECT * FROM {given} WITH (mode = 'FAILFAST')", engine="spark").to_arrow().num_rows == 2
    session.sql(f"CREATE TEMP VIEW given USING csv OPTIONS ({strictly}, header true)", engine="spark")
    assert session.sql("SELECT * FROM given", engine="spark").to_arrow().column_names == ["rome"]
    session.sql("DROP VIEW given", engine="spark")
    with pytest.raises(NotFound):
        session.sql("SELECT * FROM given", engine="spark").to_arrow()
    with pytest.raises(InvalidInput, match="a file of the instance"):
        session.sql(f"SELECT * FROM binaryFile.`{session.location}/catalog.sqlite`", engine="spark")
    strict = sl.connect(
        tmp_path / "other", spark=spark_engine.session(), properties={"sleeper.sql.local.files": "false"}
    )
    with strict:
        for sql in (f"SELECT * FROM {given}", f"CREATE TEMP VIEW given USING csv OPTIONS (path '{tmp_path}/data.csv')"):
            with pytest.raises(InvalidInput, match="may not read local files here"):
                strict.sql(sql, engine="spark")
        assert strict.sql("SELECT 1 AS one", engine="spark").to_dict() == {"one": [1]}
