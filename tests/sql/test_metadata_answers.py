"""A statement that only counts the rows of a table is answered from metadata, exactly when that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.engines.duckdb import relations

SCHEMA = sl.Schema(row_keys={"a": "string"}, values={"b": "int?"})
COUNTS = (
    "SELECT count(*) FROM t",
    "select COUNT ( * )\nAS n from T ;",
    'SELECT count(*) AS "two words" FROM t',
    "SELECT count(*) AS n FROM t VERSION AS OF 2",
    "SELECT count(*) FROM t@1",
    "SELECT count(*) FROM t -- all of them",
)
OTHERS = (
    "SELECT count(*) FROM t WHERE a > 'b'",
    "SELECT count(*) FILTER (WHERE a > 'b') FROM t",
    "SELECT count(*) + 1 FROM t",
    "SELECT count(b) FROM t",
    "SELECT DISTINCT count(*) FROM t",
    "SELECT count(*) FROM t LIMIT 0",
    "SELECT count(*) OVER () FROM t",
    "SELECT count(*) FROM t, t",
    "SELECT a, count(*) FROM t GROUP BY a",
    "SELECT count(*) FROM t TABLESAMPLE 50%",
    "FROM t SELECT count(*)",
    "SELECT (SELECT count(*) FROM t)",
    "WITH c AS (SELECT count(*) AS n FROM t) SELECT n FROM c",
    "SELECT count(*) FROM t$snapshots",
)


@pytest.fixture
def session(tmp_path: Path):
    with sl.connect(tmp_path) as opened:
        table = opened.create_table("t", SCHEMA)
        table.ingest([{"a": key, "b": 1} for key in "abcde"])
        table.ingest([{"a": key, "b": None} for key in "xyz"])
        yield opened


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the data files that DuckDB is told to read."""
    told: list[str] = []
    real = relations.parquet

    def noted(connection, storage, files, *more, **options):
        told.extend(files)
        return real(connection, storage, files, *more, **options)

    monkeypatch.setattr(relations, "parquet", noted)
    return told


@pytest.mark.parametrize("statement", COUNTS)
def test_a_count_of_all_rows_opens_no_data_file(session: sl.Session, reads: list[str], statement: str):
    result = session.sql(statement, engine="duckdb")
    answer = result.to_arrow()
    assert reads == []
    assert "counted in metadata · 0/1 partitions, 0/" in repr(result)
    assert result.cost().bytes == 0
    bare = statement.removesuffix(" -- all of them").rstrip("; ")
    by_reading = session.sql(f"{bare} WHERE true", engine="duckdb").to_arrow()
    assert answer == by_reading
    assert result.to_duckdb().to_arrow_table() == by_reading


@pytest.mark.parametrize("statement", OTHERS)
def test_every_other_statement_reads(session: sl.Session, statement: str):
    assert "metadata" not in repr(session.sql(statement, engine="duckdb"))


def test_rows_that_only_reading_can_count_are_read(session: sl.Session):
    summed = sl.Schema(row_keys={"a": "string"}, values={"b": "int"})
    table = session.create_table("s", summed, properties={"sleeper.table.aggregations": "sum(b)"})
    for _ in range(2):
        table.ingest([{"a": key, "b": 1} for key in "ab"])
    result = session.sql("SELECT count(*) AS n FROM s", engine="duckdb")
    assert result.to_dict() == {"n": [2]}
    assert "metadata" not in repr(result)


def test_a_file_that_two_partitions_share_is_counted_once(session: sl.Session):
    session.table("t").maintenance.split(at="c")
    assert session.sql("SELECT count(*) AS n FROM t", engine="duckdb").to_dict() == {"n": [8]}


@pytest.mark.spark
@pytest.mark.parametrize("statement", [each.replace('"', "`") for each in COUNTS])
def test_spark_counts_in_metadata_as_it_counts_by_reading(tmp_path: Path, spark_engine, statement: str):
    with sl.connect(tmp_path, spark=spark_engine.session()) as session:
        session.create_table("t", SCHEMA, ["c"]).ingest([{"a": key, "b": 1} for key in "abcde"])
        result = session.sql(statement, engine="spark")
        assert "counted in metadata · 0/2 partitions, 0/" in repr(result)
        bare = statement.removesuffix(" -- all of them").rstrip("; ")
        by_reading = session.sql(f"{bare} WHERE true", engine="spark")
        assert result.to_arrow() == by_reading.to_arrow()
        assert repr(result.to_spark().schema) == repr(by_reading.to_spark().schema)
        assert "metadata" not in repr(session.sql(f"{bare} LIMIT 5", engine="spark"))


@pytest.mark.parametrize(
    "value",
    ["'infinity'::DATE", "'-infinity'::DATE", "'-infinity'::TIMESTAMP", "'infinity'::TIMESTAMPTZ",
     "TIMESTAMP '290000-01-01'", "DATE '9999-12-31'", "TIMESTAMP '0001-01-01'"],
)  # fmt: skip
def test_infinite_dates_have_a_least_and_a_greatest(session, value):
    session.sql(f"CREATE TABLE far ROW KEYS (k) AS SELECT 1 k, {value} v")
    for ends in ("min", "max"):
        answered = session.sql(f"SELECT {ends}(v) AS v FROM far").to_arrow()
        assert answered.equals(session.sql(f"SELECT {ends}(v) AS v FROM far WHERE k > 0").to_arrow())
