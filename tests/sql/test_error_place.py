"""An error of an engine shows the user's own line, with a caret below the place."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from tests.support.engines import ENGINES

SCHEMA = sl.Schema({"k": "int"}, {}, {"v": "long", "s": "string"})


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "warehouse") as opened:
        opened.create_table("t", SCHEMA).ingest([{"k": 1, "v": 1, "s": "x"}])
        yield opened


def failed(session: sl.Session, statement: str, engine: Any, **params: object) -> sl.SleeperError:
    """Return the error of a statement, be it when it is bound or when rows are read."""
    with pytest.raises(sl.SleeperError) as caught:
        session.sql(statement, engine=engine, params=params).to_arrow()
    return caught.value


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("statement", "line", "below"),
    [
        ("SELECT z FROM t", 1, "z FROM"),
        ("SELECT k,\n  nope(k)\nFROM t VERSION AS OF 2 WHERE k = 3", 2, "nope"),
        ("SELEC 1", 1, "SELEC"),
        ("SELECT * FROM tt", 1, "tt"),
        ("SELECT t.k FROM t@2 JOIN t AS u\nON t.k = u.z WHERE t.v = :x", 2, "u.z"),
        ("WITH c AS (SELECT * FROM t TIMESTAMP AS OF '2100-01-01 00:00:00') SELECT c.z FROM c", 1, "c.z"),
        ("SELECT k FROM t /* LINE 9 */ WHERE\tk = z", 1, "z"),
        ("SELECT k\tFROM t WHERE s = 'é 漢字' AND\tv = z", 1, "z"),
    ],
)
def test_the_line_is_the_one_that_was_written(session: sl.Session, engine: Any, statement: str, line: int, below: str):
    error = failed(session, statement, engine, x=1)
    shown, caret = error.place.splitlines()
    assert shown == f"LINE {line}: {statement.splitlines()[line - 1]}".replace("\t", " ")
    assert shown[caret.index("^") :].startswith(below)
    assert "__sleeper" not in str(error)
    assert str(error).splitlines()[1:3] == [shown, caret]
    assert "pos 0" not in str(error)


def test_a_long_line_is_shown_around_the_place(session: sl.Session):
    many = ", ".join(f"k + {n}" for n in range(40))
    shown, caret = failed(session, f"SELECT {many}, zz FROM t@2 ORDER BY {many}", "duckdb").place.splitlines()
    assert shown.startswith("LINE 1: …")
    assert shown.endswith("…")
    assert len(shown) < 120
    assert shown[caret.index("^") :].startswith("zz FROM t@2")


def test_an_error_while_rows_are_read_has_its_place_too(session: sl.Session):
    error = failed(session, "SELECT k FROM t@2 WHERE CAST(s AS INT) = 5", "duckdb")
    shown, caret = error.place.splitlines()
    assert shown == "LINE 1: SELECT k FROM t@2 WHERE CAST(s AS INT) = 5"
    assert shown[caret.index("^") :].startswith("CAST(s AS INT)")


def test_a_place_that_is_not_in_the_statement_is_left_out(session: sl.Session):
    session.sql("CREATE TEMP VIEW fails AS SELECT CAST(s AS INT) AS n FROM t", engine="duckdb")
    assert failed(session, "SELECT n FROM fails", "duckdb").place == ""
    assert failed(session, "SELECT k FROM t VERSION AS OF 99", "duckdb").place == ""


def test_the_place_survives_pickle_and_is_shown_by_ipython(session: sl.Session):
    error = failed(session, "SELECT z FROM t", "duckdb")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own
    assert error._render_traceback_()[1:3] == error.place.splitlines()
