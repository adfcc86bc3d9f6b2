"""An error of an engine shows the user's own line, with a caret below the place."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.query.result import QueryResult
from tests.support.combinations import few_on_spark, some
from tests.support.engines import ENGINES, failed

SCHEMA = sl.Schema({"k": "int"}, {}, {"v": "long", "s": "string"})


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sl.Session]:
    with sl.connect(tmp_path_factory.mktemp("warehouse")) as opened:
        opened.create_table("t", SCHEMA).ingest([{"k": 1, "v": 1, "s": "x"}])
        yield opened


@few_on_spark(
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


READS: Mapping[str, Callable[[QueryResult], object]] = {
    "to_arrow": QueryResult.to_arrow,
    "head": QueryResult.head,
    "repr": repr,
    "html": QueryResult._repr_html_,
    "len": len,
    "iter": list,
    "batches": lambda rows: list(rows.batches()),
    "bar": lambda rows: rows.plot("bar"),
    "hist": lambda rows: rows.plot("hist"),
}


@few_on_spark("way", READS)
def test_an_error_while_rows_are_read_has_its_place_too(session: sl.Session, engine: Any, way: str):
    """However they are read: DuckDB counts lines otherwise in rows that are made of the statement's, as the first."""
    statement = "SELECT k,\n v\nFROM t@2\nWHERE v > 0 AND CAST(s AS INT) = :n"
    result = session.sql(statement, engine=engine, params={"n": 5})
    with pytest.raises(sl.SleeperError) as caught:
        READS[way](result)
    shown, caret = caught.value.place.splitlines()
    assert shown == "LINE 4: WHERE v > 0 AND CAST(s AS INT) = :n"
    assert shown[caret.index("^") :].startswith("CAST(s AS INT)")


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_of_two_lines_that_are_alike_the_right_one_is_shown(session: sl.Session, read: Callable[[QueryResult], object]):
    wrong, right = ("SELECT *", "FROM t", "WHERE"), (") a, (SELECT 1 AS n FROM (VALUES ('1')) v(s) WHERE",)
    condition = "CAST(s AS INT) = 1"
    statement = "\n".join(("SELECT k, n FROM (", *wrong, condition, *right, condition, ") b"))
    with pytest.raises(sl.InvalidInput) as caught:
        read(session.sql(statement, engine="duckdb"))
    assert caught.value.place.splitlines() == [f"LINE 5: {condition}", f"{' ' * len('LINE 5: ')}^"]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_of_rows_that_are_inserted_has_its_place_too(session: sl.Session, engine: Any):
    with pytest.raises(sl.SleeperError) as caught:
        session.sql("INSERT INTO t SELECT k,\n CAST(s AS INT), s FROM t", engine=engine)
    shown, caret = caught.value.place.splitlines()
    assert shown == "LINE 2:  CAST(s AS INT), s FROM t"
    assert shown[caret.index("^") :].startswith("CAST(s AS INT)")


def test_an_error_that_duckdb_finds_in_a_constant_has_its_place(session: sl.Session):
    session.create_table("d", sl.Schema({"k": "int"}, {}, {"day": "date"})).ingest([{"k": 1, "day": date(2026, 1, 1)}])
    with pytest.raises(sl.InvalidInput) as caught:
        session.sql("SELECT * FROM d WHERE day = '2026-02-30'", engine="duckdb").head()
    shown, caret = caught.value.place.splitlines()
    assert shown == "LINE 1: SELECT * FROM d WHERE day = '2026-02-30'"
    assert shown[caret.index("^") :] == "'2026-02-30'"


OVERFLOW = "SELECT k + v * 9223372036854775807 * 12 AS n FROM t"


@pytest.mark.spark
@pytest.mark.parametrize("read", some([*READS.values(), QueryResult.explain], every=3))
def test_an_error_that_spark_finds_while_it_plans_is_ours_with_its_place(
    session: sl.Session, read: Callable[[QueryResult], object]
):
    result = session.sql(OVERFLOW, engine="spark")
    if read is len:
        assert read(result) == 1  # Spark does not compute the column
        return
    with pytest.raises(sl.SleeperError, match="overflow") as caught:
        read(result)
    shown, caret = caught.value.place.splitlines()
    assert shown == f"LINE 1: {OVERFLOW}"
    assert shown[caret.index("^") :].startswith("v * 9")


@pytest.mark.spark
def test_the_place_in_another_frame_of_spark_is_not_shown_in_the_statement(session: sl.Session):
    frame = session.spark_session.sql("SELECT CAST('x' || id AS INT) AS n FROM range(3)")
    statement = "SELECT CAST(k AS STRING) AS s, frame.n FROM t, frame"
    with pytest.raises(sl.SleeperError, match="malformed") as caught:
        session.sql(statement, engine="spark", data={"frame": frame}).to_arrow()
    assert caught.value.place == ""


@few_on_spark(
    ("read", "value"),
    [
        (read, value)
        for read in (QueryResult.to_arrow, QueryResult.head)
        for value in (
            "y\nLINE 1: SELECT k, CAST\n        ^\n", "\n== SQL (line 1, position 1) ==\nSELECT", "line 1 pos 8"
        )
    ],
)  # fmt: skip
def test_the_text_of_a_value_is_no_place(
    session: sl.Session, engine: Any, read: Callable[[QueryResult], Any], value: str
):
    statement = "SELECT k, CAST(:value || s AS INT) AS n FROM t"
    with pytest.raises(sl.SleeperError) as caught:
        read(session.sql(statement, engine=engine, params={"value": value}))
    shown, caret = caught.value.place.splitlines()
    assert shown == f"LINE 1: {statement}"
    assert shown[caret.index("^") :].startswith("CAST(:value")


@pytest.mark.spark
@pytest.mark.parametrize("text", ["line 1 pos 8", "\nbad (line 1, pos 3)"])
def test_what_a_user_raises_on_spark_is_shown_as_it_is(session: sl.Session, text: str):
    error = failed(session, "SELECT k, raise_error(:text) FROM t", "spark", text=text)
    assert text.strip() in error.message
    assert error.place in {"", f"LINE 1: SELECT k, raise_error(:text) FROM t\n{' ' * 18}^"}


def test_the_caret_is_below_its_place_after_wide_characters(session: sl.Session):
    shown, caret = failed(session, "SELECT '日本語' AS j, CAST(s AS INT) FROM t", "duckdb").place.splitlines()
    assert caret == " " * len("LINE 1: SELECT '") + "\u3000" * 3 + " " * len("' AS j, ") + "^"
    assert shown[len(caret) - 1 :].startswith("CAST(s")


@pytest.mark.parametrize("joined", ["👩\u200d👩\u200d👧", "🇩🇪", "👍🏽"])
def test_after_characters_of_unknown_width_no_place_is_shown(session: sl.Session, joined: str):
    assert failed(session, f"SELECT '{joined}', CAST(s AS INT) FROM t", "duckdb").place == ""
    assert failed(session, f"SELECT '{joined}',\nCAST(s AS INT) FROM t", "duckdb").place.startswith("LINE 2")
    assert failed(session, f"SELECT CAST(s AS INT), '{joined}' FROM t", "duckdb").place.startswith("LINE 1")


def test_a_place_that_is_not_in_the_statement_is_left_out(session: sl.Session):
    session.sql("CREATE TEMP VIEW fails AS SELECT CAST(s AS INT) AS n FROM t", engine="duckdb")
    assert failed(session, "SELECT n FROM fails", "duckdb").place == ""


def test_the_place_survives_pickle_and_is_shown_by_ipython(session: sl.Session):
    error = failed(session, "SELECT z FROM t", "duckdb")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own
    assert error._render_traceback_()[1:3] == error.place.splitlines()
