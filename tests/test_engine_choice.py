"""The engine that answers SQL when a user names none, and why; the line below the rows says both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.engines.components import Engines
from sleeper_nb.query import queries
from tests.support.combinations import some

SCHEMA = sl.Schema({"k": "int"}, {}, {"v": "long", "many": "list<int>?"})
ROWS = [{"k": n, "v": n, "many": [n, n]} for n in range(10)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, spark_engine: Any) -> Iterator[sl.Session]:
    """A session on the Spark session of the tests, which runs already."""
    folder = tmp_path_factory.mktemp("auto")
    with sl.connect(folder / "warehouse", spark=spark_engine.session()) as opened:
        opened.create_table("t", SCHEMA, split_points=[5]).ingest(ROWS)
        yield opened


@pytest.fixture
def without_spark(tmp_path: Path) -> Iterator[sl.Session]:
    """A session that starts no Spark unless a statement needs it."""
    with sl.connect(tmp_path / "warehouse") as opened:
        opened.create_table("t", SCHEMA, split_points=[5]).ingest(ROWS)
        yield opened


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT v FROM t WHERE k = 3",
        "SELECT count(*) FROM t",
        "SELECT * EXCLUDE (v) FROM t QUALIFY row_number() OVER (ORDER BY k) = 1",
        "WITH a AS (SELECT * FROM t VERSION AS OF 1) SELECT count(*) FROM a WHERE k > 1",
        "DESCRIBE t",
        "SUMMARIZE t",
        "SELECT 1",
        "SHOW TABLES",
    ],
)
def test_duckdb_answers_what_it_can_and_spark_is_not_started(without_spark: sl.Session, statement: str):
    result = without_spark.sql(statement)
    assert result.engine == "duckdb"
    assert result.to_arrow().num_rows > 0
    assert not without_spark._spark_engine().started


def test_the_line_below_the_rows_says_which_engine_and_why(without_spark: sl.Session):
    result = without_spark.sql("SELECT v FROM t WHERE k = 3")
    assert "t at snapshot 2 · duckdb (auto: tables of less than 4 GiB) · 1/2 partitions" in repr(result)
    assert "duckdb (auto: tables of less than 4 GiB) would run it" in repr(result.cost())
    assert result.cost().to_dict()["why"] == "tables of less than 4 GiB"
    named = without_spark.sql("SELECT v FROM t WHERE k = 3", engine="duckdb")
    assert "t at snapshot 2 · duckdb · 1/2 partitions" in repr(named)
    assert named.cost().to_dict()["why"] is None


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("SELEC v FROM t", "SELEC"),
        ("SELECT nothing(k) FROM t", "nothing"),
        ("SELECT absent FROM t", "absent"),
        ("SELECT * FROM tt", "tt"),
        ("SELECT 'open FROM t", "quote"),
        ("SELECT * FROM t VERSION AS OF 99", "99"),
        ("INSERT INTO t SELECT 1", "t"),
        ("DROP VIEW absent", "absent"),
        ("SELECT k FROM t WHERE div = 3", "div"),
        ("SELECT k FROM t WHER regexp = 1", "regexp"),
        ("SELECT kk, array(SELECT 1) FROM t", "kk"),
        ("SELECT lit(1)", "lit"),
        ("DESCRIBE function", "function"),
        ("SET threads=1", "SQL cannot change setting 'threads'"),
        ("SET memory_limit = '1GB'", "SQL cannot change setting 'memory_limit'"),
        ("SET spark.sql.ansi.enabled = false", "SQL cannot change setting 'spark.sql.ansi.enabled'"),
        ("SET `spark.sql.ansi.enabled` = false;", "SQL cannot change setting 'spark.sql.ansi.enabled'"),
        ("RESET threads", "SQL cannot change setting 'threads'"),
        ("RESET", "SQL cannot reset all settings"),
    ],
)
def test_a_mistake_is_an_error_at_once_and_starts_no_spark(without_spark: sl.Session, statement: str, problem: str):
    with pytest.raises(sl.SleeperError, match=problem):
        without_spark.sql(statement)
    assert not without_spark._spark_engine().started


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("SELECT k FROM t LATERAL VIEW explode(many) AS one", "LATERAL VIEW is Spark's SQL"),
        ("SELECT k div 2 AS half FROM t", "DIV is Spark's SQL"),
    ],
)
def test_duckdb_says_what_is_spark_s_sql(without_spark: sl.Session, statement: str, why: str):
    with pytest.raises(sl.InvalidInput) as caught:
        without_spark.sql(statement, engine="duckdb")
    assert sl.errors.hint_text(caught.value.hint_parts, "%sleeper") == f"{why}: --engine spark"


def test_spark_says_what_is_duckdb_s_sql_before_it_starts(without_spark: sl.Session):
    with pytest.raises(sl.InvalidInput, match="SUMMARIZE is DuckDB's SQL") as caught:
        without_spark.sql("SUMMARIZE t", engine="spark")
    assert "duckdb" in str(caught.value.hint_parts)
    assert not without_spark._spark_engine().started


@pytest.mark.spark
@pytest.mark.parametrize(
    ("statement", "message", "place"),
    [
        ("SELECT k, FROM t WHERE", "near 't'", "LINE 1: SELECT k, FROM t WHERE\n                       ^"),
        ("SELECT k FROM t WHERE many = abc", "`abc` cannot be resolved", ""),
    ],
)
def test_spark_s_errors_name_what_was_typed(session: sl.Session, statement: str, message: str, place: str):
    with pytest.raises(sl.InvalidInput) as caught:
        session.sql(statement, engine="spark").to_arrow()
    assert message in caught.value.message
    assert place in caught.value.place
    if not place:
        assert caught.value.hint == "a text goes in single quotes: 'abc'"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("statement", "why"),
    some(
        [
            ("SELECT date_format(DATE '2026-11-01', 'y') AS a FROM t", "DuckDB has no function date_format"),
            ("SELECT * FROM explode(sequence(1, 2))", "DuckDB has no function explode"),
            ("SELECT k FROM t LATERAL VIEW explode(many) AS one", "LATERAL VIEW is Spark's SQL"),
            ("SELECT k FROM t SORT BY k", "SORT BY is Spark's SQL"),
            ("SELECT a.k FROM t a LEFT ANTI JOIN t b ON a.k = b.k + 1", "LEFT ANTI is Spark's SQL"),
            ("SELECT k <=> 3 AS same FROM t", "<=> is Spark's SQL"),
            ("SELECT k div 2 AS half FROM t", "DIV is Spark's SQL"),
            ("SELECT 'it\\'s' AS a", "its texts are written as in Spark's SQL"),
            ("SELECT CAST(array(1) AS array<int>) AS a", "ARRAY ( is Spark's SQL"),
            ("SHOW FUNCTIONS", "SHOW FUNCTIONS is Spark's SQL"),
            ("SET spark.sql.shuffle.partitions", "SET is for Spark"),
        ],
        every=4,
    ),
)
def test_a_statement_in_spark_s_sql_runs_on_spark(session: sl.Session, statement: str, why: str):
    result = session.sql(statement)
    assert result.engine == "spark"
    assert result.to_arrow().num_rows > 0
    assert f"spark (auto: {why})" in repr(result)


@pytest.mark.spark
def test_files_of_a_format_are_read_as_spark_names_them(session: sl.Session, tmp_path: Path):
    path = tmp_path / "rows.csv"
    path.write_text("a\nb\n")
    assert "spark (auto: csv.`…` is Spark's SQL)" in repr(
        session.sql(f"SELECT * FROM csv.`{path}` WITH (mode = 'FAILFAST')")
    )
    session.sql(f"CREATE TEMP VIEW in_csv USING csv OPTIONS (path '{path}', header true, mode 'FAILFAST')")
    assert session.sql("SELECT a FROM in_csv").to_dict() == {"a": ["b"]}
    session.sql("DROP VIEW in_csv")


@pytest.mark.spark
def test_views_are_read_and_dropped_on_the_engine_that_keeps_them(session: sl.Session):
    session.sql("CREATE TEMP VIEW quick AS SELECT k FROM t WHERE k < 3")
    session.sql("CREATE TEMP VIEW odd AS SELECT named_struct('k', k) AS s FROM t WHERE k % 2 = 1")
    assert session.sql("SELECT count(*) AS n FROM quick").engine == "duckdb"
    read = session.sql("SELECT s.k FROM Odd")
    assert read.to_dict() == {"k": [1, 3, 5, 7, 9]}
    assert "spark (auto: Spark keeps view Odd)" in repr(read)
    session.spark_session.range(2).createOrReplaceTempView("of_spark")
    assert session.sql("SELECT count(*) AS n FROM of_spark").to_dict() == {"n": [2]}
    session.sql("DROP VIEW of_spark")
    for name in ("quick", "odd", "of_spark"):
        session.sql(f"DROP VIEW IF EXISTS {name}")
        with pytest.raises(sl.NotFound, match=name):
            session.sql(f"SELECT * FROM {name}")


def counted(rows: pa.Table) -> Counter[tuple[str, ...]]:
    """Return the rows, in any order; a sum of DuckDB has a wider type."""
    return Counter(tuple(map(str, row.values())) for row in rows.to_pylist())


LARGE = pytest.mark.parametrize(
    ("statement", "engine"),
    [
        ("SELECT sum(v) AS v FROM t", "spark"),
        ("SELECT a.k, count(*) AS n FROM t a JOIN t b ON a.k = b.k WHERE a.v <> 3 GROUP BY a.k", "spark"),
        ("SELECT max(v) AS v FROM t VERSION AS OF 2 WHERE k IN (1, 2)", "spark"),
        ("SELECT count(*) AS n FROM t", "duckdb"),  # from metadata
        ("DESCRIBE t", "duckdb"),
        ("SELECT * FROM t LIMIT 1", "duckdb"),
        ("SELECT * FROM t ORDER BY v", "duckdb"),
        ('SELECT count(*) AS n FROM t WHERE "k" = 1', "duckdb"),
        ("SELECT k / 2 AS half FROM t", "duckdb"),
        ("SELECT log(v + 1) AS l FROM t", "duckdb"),
        ("SELECT k FROM t WHERE k = 2 ^ 1", "duckdb"),
        ("SELECT many[1] AS m FROM t", "duckdb"),
        ("SELECT DISTINCT ON (v) k FROM t", "duckdb"),  # which Spark cannot read
    ],
)


@pytest.mark.spark
@LARGE
def test_much_to_read_goes_to_spark_if_spark_answers_the_same(
    session: sl.Session, monkeypatch: pytest.MonkeyPatch, statement: str, engine: Any
):
    small = session.sql(statement).to_arrow()
    monkeypatch.setattr(queries, "LARGE_GIB", 1e-9)
    large = session.sql(statement)
    assert large.engine == engine
    assert counted(large.to_arrow()) == counted(small)
    if engine == "spark":
        assert "spark (auto: it reads " in repr(large)


@pytest.mark.spark
def test_a_view_of_duckdb_is_read_by_duckdb_however_large(session: sl.Session, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(queries, "LARGE_GIB", 1e-9)
    session.sql("CREATE TEMP VIEW all_of_t AS FROM t")
    kept = session.sql("SELECT sum(v) AS v FROM all_of_t")
    assert (kept.engine, kept.to_dict()) == ("duckdb", {"v": [45]})
    assert "duckdb (auto: it keeps a view of the statement)" in repr(kept)
    session.sql("DROP VIEW all_of_t")


def test_without_java_much_to_read_stays_on_duckdb(without_spark: sl.Session, monkeypatch: pytest.MonkeyPatch):
    def no_java(*_: object) -> None:
        raise sl.EngineError("no Java was found")

    monkeypatch.setattr(queries, "LARGE_GIB", 1e-9)
    monkeypatch.setattr("sleeper_nb.engines.spark.spark_runtime.active_session", lambda: None)
    monkeypatch.setattr("sleeper_nb.engines.spark.spark_runtime.SparkRuntime._started_session", no_java)
    result = without_spark.sql("SELECT sum(v) AS v FROM t")
    assert (result.engine, result.to_dict()) == ("duckdb", {"v": [45]})
    assert "but Spark does not run it)" in repr(result)


@pytest.mark.spark
def test_a_name_is_one_view_whichever_engine_keeps_it(session: sl.Session, tmp_path: Path):
    on_spark = "SELECT nvl2(NULL, 1, 2) AS a"
    session.sql("CREATE TEMP VIEW v AS SELECT 1 AS a")
    session.sql(f"CREATE OR REPLACE TEMP VIEW v AS {on_spark}")
    assert (session.sql("SELECT a FROM v").to_dict(), session.sql("SELECT a FROM v").engine) == ({"a": [2]}, "spark")
    with pytest.raises(sl.AlreadyExists):
        session.sql("CREATE TEMP VIEW v AS SELECT 99 AS a")
    session.sql("CREATE TEMP VIEW IF NOT EXISTS v AS SELECT 99 AS a")
    assert session.sql("SELECT a FROM v").to_dict() == {"a": [2]}
    with pytest.raises(sl.NotFound, match="view 'v' is kept by spark"):
        session.sql("SELECT a FROM v", engine="duckdb")
    session.sql("CREATE OR REPLACE TEMP VIEW v AS SELECT 3 AS a")
    assert session.sql("SELECT a FROM v").to_dict() == {"a": [3]}
    path = tmp_path / "rows.csv"
    path.write_text("a\n4\n")
    session.sql(f"CREATE OR REPLACE TEMP VIEW v USING csv OPTIONS (path '{path}', header true, mode 'FAILFAST')")
    assert session.sql("SELECT a FROM v").to_dict() == {"a": ["4"]}
    for _ in range(2):
        session.sql("DROP VIEW IF EXISTS v")
        with pytest.raises(sl.NotFound, match="no table 'v'"):
            session.sql("SELECT a FROM v")


@pytest.mark.spark
def test_a_function_that_was_registered_on_spark_is_found(session: sl.Session):
    session.spark_session.udf.register("plus_one", lambda n: n + 1, "int")
    assert session.sql("SELECT plus_one(k) AS k FROM t WHERE k = 3").to_dict() == {"k": [4]}


def test_an_error_of_duckdb_names_the_other_engine(without_spark: sl.Session):
    with pytest.raises(sl.InvalidInput) as caught:
        without_spark.sql("SELECT lpad('a', 3) FROM t")
    assert "Candidate functions" in str(caught.value.hint)
    assert str(caught.value.hint).endswith('name the engine: engine="spark"')


@pytest.mark.spark
@pytest.mark.parametrize("statement", ["SET spark.sql.shuffle.partitions = 7", "CLEAR CACHE", "DECLARE VARIABLE n = 1"])
def test_a_dry_run_changes_nothing_in_the_spark_session(session: sl.Session, statement: str):
    before = session.spark_session.conf.get("spark.sql.shuffle.partitions")
    with pytest.raises(sl.InvalidInput, match="changes the Spark session"):
        session.sql(statement, dry_run=True)
    assert session.spark_session.conf.get("spark.sql.shuffle.partitions") == before


def test_a_warehouse_that_names_a_cluster_asks_the_cluster(tmp_path: Path):
    with sl.connect(tmp_path / "warehouse", spark_config={"spark.master": "spark://host:7077"}) as session:
        assert session._components.engines.spark.cluster == "spark://host:7077"
        assert isinstance(session._components.engines, Engines)
    with sl.connect(tmp_path / "warehouse", spark_config={"spark.master": "local[2]"}) as session:
        assert not session._components.engines.spark.cluster
