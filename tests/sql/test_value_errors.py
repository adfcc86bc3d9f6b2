"""An error about a value says what to write instead, in words that can be typed; one about a version shows its line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from tests.support.engines import ENGINES, failed

SCHEMA = sl.Schema({"city": "string"}, {"n": "int"}, {"day": "date", "fare": "double"})


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sl.Session]:
    with sl.connect(tmp_path_factory.mktemp("warehouse")) as opened:
        rows = [{"city": "Hull", "n": n, "day": date(2026, 1, 1 + n), "fare": 1.5 * n} for n in range(9)]
        opened.create_table("t", SCHEMA).ingest(rows)
        yield opened


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("SELECT n % 0 FROM t", "divide by NULLIF(n, 0), which is NULL for an n of zero"),
        ("SELECT * FROM t WHERE day > '2026-02-30'", "February 2026 has 28 days"),
        ("SELECT * FROM t WHERE day > '2026-13-01'", "write a day as DATE '2026-01-31'"),
        ("SELECT make_date(2024, 2, 30)", "February 2024 has 29 days"),
        ("SELECT CAST('2026-04-31 10:00:00' AS TIMESTAMP)", "April 2026 has 30 days"),
        ("SELECT CAST('2026-02-10 25:00:00' AS TIMESTAMP)", "write a time as TIMESTAMP '2026-01-31 12:00:00'"),
        ("SELECT * FROM t WHERE day > 'yesterday'", "write a day as DATE '2026-01-31'"),
        ("SELECT CAST('noon' AS TIMESTAMP)", "write a time as TIMESTAMP '2026-01-31 12:00:00'"),
        ("SELECT * FROM t WHERE n = 'abc'", "write a value of type INTEGER; TRY_CAST(… AS INTEGER) is NULL for any"),
        ("SELECT * FROM t WHERE city = 5", "TRY_CAST(city AS INTEGER) is NULL for such a text; to compare texts"),
        ('SELECT * FROM (SELECT city AS "a b" FROM t) WHERE "a b" = 5', 'TRY_CAST("a b" AS INTEGER) is NULL'),
        ("SELECT n * 2000000000 FROM t", "convert one of the values first: CAST(… AS BIGINT)"),
        ("SELECT CAST(300 + n AS TINYINT) FROM t", "convert to a wider type, such as BIGINT or DOUBLE"),
        ("SELECT date_trunc('mnth', day) FROM t", "write year, quarter, month, week, day or hour"),
        ("SELECT (SELECT n FROM t)", "take one row: max(…), or ORDER BY … LIMIT 1"),
        ("SELECT n FROM t UNION SELECT 1, 2", "select as many columns on both sides"),
        ("SELECT strptime(city, '%Y') FROM t", "TRY_STRPTIME is NULL for a text in another format"),
    ],
)
def test_duckdb_says_what_to_write_instead(session: sl.Session, statement: str, hint: str):
    error = failed(session, statement, "duckdb")
    assert isinstance(error, sl.InvalidInput)
    assert (error.hint or "").startswith(hint)
    assert "SET " not in str(error)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("statement", "message", "hint"),
    [
        ("SELECT n % 0 FROM t", "Spark: Remainder by zero", "try_mod is NULL for such a value"),
        ("SELECT n * 2000000000 * 3 FROM t", "Spark: ", "try_multiply is NULL for such a value"),
        (
            "SELECT CAST(city AS INT) FROM t",
            'Spark: The value \'Hull\' of the type "STRING" cannot be cast to "INT" because it is malformed',
            "try_cast is NULL for such a value",
        ),
        (
            "SELECT (SELECT n FROM t)",
            "Spark: More than one row returned by a subquery used as an expression",
            "the whole error is its __cause__",
        ),
        ("SELECT fair FROM t", "A column, variable, or function parameter with name `fair`", "did you mean fare?"),
    ],
)
def test_spark_says_what_to_write_instead(session: sl.Session, statement: str, message: str, hint: str):
    error = failed(session, statement, "spark")
    assert isinstance(error, sl.InvalidInput)
    assert error.message.startswith(message)
    assert (error.hint or "").startswith(hint)
    assert "spark.sql.ansi" not in str(error)
    assert error.place


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("statement", "below"),
    [
        ("SELECT *\nFROM t VERSION AS OF 99", "VERSION AS OF 99"),
        ("SELECT *\nFROM t@nope AS x WHERE x.n = 5", "@nope"),
        ("SELECT *\nFROM t TIMESTAMP AS OF '2026-02-30'", "TIMESTAMP AS OF"),
        ("SELECT *\nFROM t VERSION AS OF (NULL)", "VERSION AS OF (NULL)"),
        ("SELECT *\nFROM tt@2", "tt@2"),
        ("WITH c AS (SELECT 1)\nSELECT * FROM t AS x, c, tt VERSION AS OF 1", "tt VERSION"),
        ("SELECT *\nFROM t@1$files", "@1$files"),
        ("INSERT INTO t\nSELECT * FROM t VERSION AS OF 99", "VERSION AS OF 99"),
        ("DELETE FROM t WHERE\nn IN (SELECT n FROM t VERSION AS OF 99)", "VERSION AS OF 99"),
    ],
)
def test_an_unknown_version_or_table_shows_its_line(session: sl.Session, engine: Any, statement: str, below: str):
    shown, caret = failed(session, statement, engine).place.splitlines()
    assert shown == f"LINE 2: {statement.splitlines()[1]}"
    assert shown[caret.index("^") :].startswith(below)


def test_what_is_wrong_in_a_view_shows_where_the_view_is_named(tmp_path: Path):
    with sl.connect(tmp_path / "warehouse") as session:
        session.create_table("gone", SCHEMA)
        session.sql("CREATE TEMP VIEW late AS SELECT * FROM gone VERSION AS OF 1", engine="duckdb")
        session.drop_table("gone", force=True)
        error = failed(session, "SELECT *\nFROM late AS x", "duckdb")
        assert error.place.splitlines() == ["LINE 2: FROM late AS x", "             ^"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_condition_without_an_end_is_said_to_be_one(session: sl.Session, engine: Any):
    error = failed(session, "DELETE FROM t WHERE n >", engine)
    assert "is not finished" in error.message
    assert ")" not in error.message
