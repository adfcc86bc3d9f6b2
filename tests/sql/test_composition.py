"""A query composed of parts of a statement: it reads what they name, and its errors show the user's own line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.edit.row_edit import DeleteRows, MergeRows, UpdateColumns, UpdateRows
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import Given, Slice, Written
from sleeper_nb.query import Queries
from sleeper_nb.sql.binding import lookup_in
from sleeper_nb.sql.statement import Around, Composition, Piece, Statement, in_brackets
from sleeper_nb.sql.tokens import tokenize
from sleeper_nb.sql.writes import read_writing_statement
from tests.support.engines import ENGINES


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sl.Session]:
    with sl.connect(tmp_path_factory.mktemp("warehouse")) as opened:
        table = opened.create_table("t", sl.Schema({"k": "int"}, {}, {"v": "long", "s": "string"}))
        for k in range(1, 5):
            table.ingest([{"k": k, "v": 10 * k, "s": "x" * k}])
        opened.create_table("o", sl.Schema({"k": "int"}, {}, {"v": "long"})).ingest([{"k": 2, "v": 7}])
        opened.table("o").ingest([{"k": 3, "v": 8}])
        yield opened


def found(session: sl.Session, sql: str, engine: Any, **parameters: object) -> list[tuple[Any, ...]]:
    """The rows that a statement changes, and the new values of an update or merge, as an engine finds them."""
    statement = Statement.of(sql, dialect="spark" if engine == "spark" else "duckdb")
    composed = Composition(tuple(pieces(read_writing_statement(statement).change)))
    queries = Queries(
        engine=engine,
        parameters=parameters,
        lookup=lookup_in(session._tables.version),
        tables=session._tables.names,
        engines=session._components.engines,
        clock=session._components.clock,
        views=session._views,
    )
    return sorted(tuple(row.values()) for row in queries.run(composed).to_arrow().to_pylist())


def pieces(change: DeleteRows | UpdateRows | MergeRows) -> Iterator[Piece]:
    if change.named_queries is not None:
        yield change.named_queries.text
    action = change.clauses[0].action if isinstance(change, MergeRows) else change
    target = f"`{change.target.name}`"
    yield f"SELECT {target}.k AS `found k`"
    if isinstance(action, UpdateRows | UpdateColumns):
        for each in action.assignments:
            yield from (",", Around("CAST((", each.value, ") AS INT)"), f"AS `{each.column.text}`")
    table = change.target.table
    yield from ("FROM", Slice(table.text, table.at, change.written), "AS", target)
    if isinstance(change, MergeRows):
        yield from ("JOIN", change.source.relation, "ON", in_brackets(change.condition))
        if change.clauses[0].condition is not None:
            yield from ("WHERE", in_brackets(change.clauses[0].condition))
    elif change.condition is not None:
        yield from ("WHERE", in_brackets(change.condition))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("DELETE FROM t", [(1,), (2,), (3,), (4,)]),
        ("DELETE FROM t WHERE k > :least OR k = 1", [(1,), (4,)]),
        ("DELETE FROM t AS x WHERE x.k IN (SELECT k FROM o VERSION AS OF 2) -- c", [(2,)]),
        ("DELETE FROM t -- a\nWHERE k IN (SELECT k FROM o) /* b */ AND -- c\nv < 100", [(2,), (3,)]),
        ("WITH a AS (SELECT k FROM o@2), b AS (SELECT k + 1 AS k FROM a) DELETE FROM t WHERE k IN (SELECT k FROM b)",
         [(3,)]),
        ("DELETE FROM t WHERE k IN (SELECT k FROM kept)", [(2,)]),
        ("UPDATE t AS u SET v = (SELECT max(v) FROM o@2), k = u.k + :least WHERE u.s = 'xx'", [(2, 7, 5)]),
        ("MERGE INTO t USING o VERSION AS OF 2 ON t.k >= o.k AND true WHEN MATCHED AND t.k < 4 THEN UPDATE SET v = o.v",
         [(2, 7), (3, 7)]),
        ("WITH a AS (SELECT * FROM o) MERGE INTO t AS x USING (SELECT k, v + :least AS v FROM a) AS s(k, w)\n\
ON x.k = s.k WHEN MATCHED THEN UPDATE SET v = x.v + s.w", [(2, 30), (3, 41)]),
    ],
)  # fmt: skip
def test_versions_parameters_and_views_are_read_as_written(session, engine, sql, rows):
    session.sql("CREATE OR REPLACE TEMP VIEW kept AS SELECT k FROM o@2", engine=engine)
    assert found(session, sql, engine, least=3) == rows


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("sql", "line", "below"),
    [
        ("DELETE FROM t\nWHERE k = 1\n  AND zz = 2", 3, "zz = 2"),
        ("DELETE FROM t\nWHERE k IN (SELECT zz FROM o@2)", 2, "zz FROM"),
        ("DELETE FROM t WHERE nope(k) = 1", 1, "nope"),
        ("UPDATE t SET v = k,\n  k = t.zz\nWHERE k = 1", 2, "t.zz"),
        ("WITH a AS (SELECT zz FROM o)\nUPDATE t SET k = 1 WHERE k IN (SELECT zz FROM a)", 1, "zz FROM o"),
        ("MERGE INTO t USING\n(SELECT zz FROM o@2) AS s ON t.k = s.k WHEN MATCHED THEN DELETE", 2, "zz FROM"),
        ("MERGE INTO t USING o\nON t.k = o.zz WHEN MATCHED THEN DELETE", 2, "o.zz"),
        ("MERGE INTO t USING oo ON t.k = oo.k WHEN MATCHED THEN DELETE", 1, "oo ON"),
        ("MERGE INTO t USING o ON t.k = o.k WHEN MATCHED\nAND o.k = zz THEN UPDATE SET v = 1", 2, "zz THEN"),
    ],
)
def test_an_error_shows_the_user_s_own_line(session, engine, sql, line, below):
    error = failed(session, sql, engine)
    shown, caret = error.place.splitlines()
    assert shown == f"LINE {line}: {sql.splitlines()[line - 1]}"
    assert shown[caret.index("^") :].startswith(below)
    assert "__sleeper" not in str(error)


def failed(session, sql, engine):
    with pytest.raises(sl.SleeperError) as caught:
        found(session, sql, engine)
    return caught.value


def test_a_word_too_many_after_a_condition_is_shown(session):
    shown, caret = failed(session, "DELETE FROM t WHERE k = 1 banana", "duckdb").place.splitlines()
    assert shown[caret.index("^") :] == "banana"


def test_an_error_of_a_cast_around_a_value_is_shown_at_the_value(session):
    shown, caret = failed(session, "UPDATE t SET v = 1, k = s || 'x' WHERE v = 10", "duckdb").place.splitlines()
    assert shown[caret.index("^") :].startswith("s || 'x'")


def test_an_error_of_text_that_the_user_did_not_write_has_no_place(session):
    written = Written("DELETE FROM t WHERE k = 1", "duckdb")
    query = Composition(("SELECT nope(k) FROM t WHERE", in_brackets(Slice("k = 1", 20, written)))).query("duckdb")
    assert query.text == "SELECT nope(k) FROM t WHERE (k = 1)"
    places = [query.origin.place_of(query.text.index(each)) for each in ("nope", "t WHERE", "(k = 1", "k = 1", "1)")]
    assert places == [None, None, (written, 20), (written, 20), (written, 24)]
    assert query.origin.place_of(len(query.text) - 1) == (written, 20)


def test_a_part_that_another_engine_reads_otherwise_is_refused():
    statement = Statement.of(r"UPDATE t SET a = 'it\'s', b = 'it\'s'", dialect="spark")
    value = read_writing_statement(statement).change.assignments[0].value
    assert value.text == r"'it\'s'"
    composition = Composition(("SELECT", value, "FROM t"))
    assert composition.query("spark").text == r"SELECT 'it\'s' FROM t"
    with pytest.raises(InvalidInput, match="no part of the statement as duckdb reads it") as caught:
        composition.query("duckdb")
    assert "engine" in caught.value.hint


def test_python_values_are_parameters_with_names_that_the_user_has_not():
    composition = Composition(("SELECT", Given(5), ",", Given("a")))
    query, values = composition.of("duckdb", {"sleeper_value_1"})
    assert query.text == "SELECT :sleeper_value_0 , :sleeper_value_2"
    assert values == {"sleeper_value_0": 5, "sleeper_value_2": "a"}


@given(st.text(alphabet="ab1 ()'\",.-/*\n:@é", max_size=40), st.data(), st.sampled_from(["duckdb", "spark"]))
def test_parts_stay_byte_for_byte_and_their_places_are_known(text, data, dialect):
    try:
        statement = Statement.of(text, dialect=dialect)
    except InvalidInput:
        return
    if not statement.tokens:
        return
    ends = data.draw(st.lists(st.integers(0, len(statement.tokens) - 1), min_size=2, max_size=2).map(sorted))
    part = statement.between(ends[0], ends[1] + 1)
    try:
        query = Composition(("SELECT", "`a b`", ",", Around("CAST(", part, " AS INT)"), part)).query(dialect)
    except InvalidInput:
        return
    assert query.text.count(part.text) >= 2
    assert query.tokens == tokenize(query.text, dialect=dialect)
    for span in query.origin.spans:
        assert query.text[span.part_at : span.part_at + len(part.text)] == part.text
        for offset in range(len(part.text)):
            written, place = query.origin.place_of(span.part_at + offset)
            assert (written.text, place) == (statement.text, part.at + offset)
            assert text[place] == query.text[span.part_at + offset]
