"""The explorer's tab for SQL without a browser: what runs, what is offered, which queries it remembers, its charts."""

from __future__ import annotations

import json

import pytest

import sleeper_nb as sl
from sleeper_nb.display.chart import VEGA_LITE
from sleeper_nb.widgets import explore
from sleeper_nb.widgets.sql_model import BY_TYPES, ChartChoice
from tests.widgets.conftest import HOSTILE, shown

COUNTS = "SELECT carrier, count(*) AS n FROM flights@3 GROUP BY carrier ORDER BY carrier"


@pytest.fixture
def explorer(session):
    made = explore(session, "flights")
    made.tab = "sql"
    return made


def send(explorer, action, **content):
    """Do what the page does when it sends a message."""
    editor = explorer._sql.editor
    editor._handle_custom_msg(json.loads(json.dumps({"do": action, **content})), [])
    json.dumps([editor.shown, editor.offered, editor.keywords])  # as it goes to the page
    return editor


def offered(explorer, before, after=""):
    editor = send(explorer, "complete", before=before, text=before + after, ask=7)
    assert editor.offered["ask"] == 7
    return editor.offered["words"]


def drawn(explorer):
    return [output["data"] for output in explorer._sql._drawn.outputs]


def test_what_is_typed_is_kept_and_run_with_the_wish_to_run_it(explorer):
    editor = send(explorer, "type", text="SELECT 1")
    assert (explorer.statement, explorer.preview.text) == ("SELECT 1", "not run yet")
    send(explorer, "run", text=COUNTS)
    assert explorer.statement == COUNTS
    assert explorer.preview.line == f"%%sleeper sql --engine duckdb\n{COUNTS}"
    rows = [row.split() for row in explorer.preview.text.splitlines()[2:5]]
    assert rows == [["AA", "30"], ["DL", "30"], ["WN", "30"]]
    assert "3 rows · flights at snapshot 3 · duckdb" in shown(explorer._sql)
    assert editor.shown["ran"] == 1


def test_the_answer_stays_under_its_own_line_while_the_next_query_is_typed(explorer):
    send(explorer, "run", text=COUNTS)
    send(explorer, "type", text="SELECT 2")
    assert explorer.preview.line.endswith(COUNTS)
    assert COUNTS in shown(explorer._sql)
    explorer.version = 2
    assert explorer.statement == "SELECT 2"
    assert "30" not in explorer._sql._answer.value


def test_the_page_keeps_its_text_unless_a_program_sets_another(explorer):
    before = explorer._sql.editor.shown["serial"]
    editor = send(explorer, "run", text="SELECT 3")
    assert editor.shown["serial"] == before
    explorer.statement = "SELECT 4"
    assert (editor.shown["serial"], editor.shown["text"]) == (before + 1, "SELECT 4")


def test_a_query_that_fails_says_so_and_is_remembered(explorer):
    send(explorer, "run", text="SELECT * FROM flihgts")
    assert 'role="alert"' in shown(explorer._sql)
    assert "did you mean 'flights'?" in explorer.preview.text
    send(explorer, "run", text=" ")
    send(explorer, "run", text=COUNTS)
    send(explorer, "run", text="SELECT * FROM flihgts")
    assert explorer._sql.editor.shown["history"] == ["SELECT * FROM flihgts", COUNTS]
    assert explorer.chart is None


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM flights WHERE carrier = 'AA'", "nothing was changed"),
        ("UPDATE flights SET note = 'x' WHERE carrier = 'AA'", "what would change in snapshot 4"),
        ("INSERT INTO flights SELECT * FROM flights@3", "would add 90 rows"),
        ("CREATE TABLE copied ROW KEYS (carrier) AS SELECT * FROM flights@4", "would create copied with 180 rows"),
        ("CREATE TABLE made (k INT) ROW KEYS (k)", "made"),
        ("DROP TABLE airports", "nothing was changed; --force does it"),
        ("DESCRIBE HISTORY flights", "ingest"),
    ],
)
def test_a_statement_that_changes_tables_shows_its_plan_and_changes_nothing(session, explorer, statement, says):
    send(explorer, "run", text="SELECT * FROM flihgts")
    tables, before = session.tables().to_arrow(), session.table("flights").at().resolved
    explorer.plot = ChartChoice("bar", x="carrier")
    send(explorer, "run", text=statement)
    assert says in explorer._sql._answer.value
    assert 'role="alert"' not in shown(explorer)
    assert explorer.preview.line == f"%%sleeper sql --engine duckdb --dry-run\n{statement}"
    assert (drawn(explorer), explorer._sql._choices.children) == ([], ())
    assert (session.tables().to_arrow(), session.table("flights").at().resolved) == (tables, before)
    send(explorer, "run", text=COUNTS)
    assert len(drawn(explorer)) == 1
    assert 'role="alert"' not in shown(explorer)


def test_an_error_of_an_action_goes_with_the_next_answer(explorer):
    send(explorer, "drop", table="flights")
    assert "cannot do" in explorer._error.value
    send(explorer, "run", text=COUNTS)
    assert explorer._error.value == ""


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("SELECT * FROM fl", ["flights"]),
        ("SELECT * FROM flights WHERE car", ["carrier"]),
        ("SELECT flights.", ["carrier", "flight", "note"]),
        ("SELECT flights.no", ["note"]),
        ("SELECT * FROM flights@h", ["half-year"]),
        ("SELECT * FROM flights@", ["half-year", "4", "3", "2", "1"]),
        ("SELECT * FROM flights$sn", ["snapshots"]),
        ("sel", ["SELECT"]),
        ("SELECT * FROM a", ["airports", "ALL", "AND", "ANTI", "ANY", "AS", "ASC", "ASOF"]),
        ("SELECT * FROM us", ["USING", '"us-flights"']),
        ("SELECT * FROM nothing.", []),
        ("SELECT * FROM nothing@", []),
        ("SELECT :", []),
        ("SELECT ", []),
        ("", []),
        (HOSTILE, []),
    ],
)
def test_words_are_offered_for_the_end_of_what_is_typed(session, explorer, before, words):
    session.create_table("us-flights", sl.Schema(row_keys={"k": "int"}, values={}))
    assert sorted(offered(explorer, before)) == sorted(words)


def test_a_word_of_any_length_is_a_word(explorer):
    assert offered(explorer, f"SELECT * FROM flights WHERE {'a' * 200_000}") == []
    assert offered(explorer, f"SELECT '{'a ' * 100_000}' FROM fl") == ["flights"]


def test_columns_are_those_of_tables_that_are_named_anywhere(explorer):
    assert offered(explorer, "SELECT car", " FROM flights") == ["carrier"]
    assert offered(explorer, "SELECT fa", " FROM airports") == ["faa", "FALSE"]


def test_a_message_that_is_none_is_an_error_on_the_page(explorer):
    send(explorer, "drop", table="flights")
    assert "the field for SQL cannot do &#x27;drop&#x27;" in explorer._error.value


def test_a_chart_of_the_answer_is_drawn_and_its_line_gives_the_same(session, explorer, shell):
    send(explorer, "run", text=COUNTS)
    assert (drawn(explorer), explorer.chart) == ([], None)
    explorer._sql._controls["kind"].value = "bar"
    assert (explorer.chart.kind, explorer.chart.x, explorer.chart.y) == ("bar", "carrier", "n")
    (data,) = drawn(explorer)
    assert {VEGA_LITE, "image/png"} <= data.keys()
    assert explorer.preview.line == f"%%sleeper sql --engine duckdb --plot bar\n{COUNTS}"
    for name, column in (("x", "carrier"), ("y", "n"), ("color", "carrier")):
        explorer._sql._controls[name].value = column
    assert explorer.plot == ChartChoice("bar", "carrier", "n", "carrier")
    shell.run_cell("%load_ext sleeper_nb").raise_error()
    shell.run_cell(f"%sleeper use {session.location.rpartition('/')[0]}").raise_error()
    answer = shell.run_cell(explorer.preview.line)
    answer.raise_error()
    assert answer.result.to_dict() == explorer.chart.to_dict()


def test_a_chart_is_drawn_again_for_the_next_answer_and_forgets_columns_that_are_gone(explorer):
    send(explorer, "run", text=COUNTS)
    explorer.plot = ChartChoice("bar", x="carrier", y="n")
    send(explorer, "run", text="SELECT flight, count(*) AS many FROM flights GROUP BY flight")
    assert (explorer.plot, explorer.chart.kind) == (ChartChoice("bar"), "bar")
    explorer.plot = ChartChoice(BY_TYPES)
    assert explorer.chart.kind == "scatter"
    explorer.plot = ChartChoice("hist", x="many", y="many")
    assert (explorer.plot.y, explorer.chart.kind) == ("", "hist")
    explorer.plot = ChartChoice()
    assert (drawn(explorer), explorer.chart) == ([], None)


def test_a_chart_that_cannot_be_drawn_says_why_and_the_rows_stay(explorer):
    send(explorer, "run", text="SELECT note, carrier FROM flights LIMIT 3")
    explorer.plot = ChartChoice("line")
    assert 'role="alert"' in explorer._sql._failure.value
    assert "3 rows" in explorer._sql._answer.value
    with pytest.raises(sl.NotFound, match="bar"):
        explorer.plot = ChartChoice("pie")
    explorer.plot = ChartChoice()
    assert explorer._sql._failure.value == ""


def test_the_saved_notebook_keeps_the_rows_and_the_picture_of_the_chart(explorer):
    send(explorer, "run", text=f"SELECT '{HOSTILE.strip().replace(chr(39), '')}' AS \"<b>x</b>\", 5 AS n")
    explorer.plot = ChartChoice("bar")
    assert explorer.chart.x == "<b>x</b>"
    kept = explorer._static()
    assert "data:image/png;base64," in kept.html
    assert "--plot bar" in kept.html
    assert "<script" not in kept.html
    assert "<b>x" not in kept.html
    explorer.tab = "files"
    assert "data:image/png" not in explorer._static().html


def test_columns_with_names_of_several_words_are_one_word_of_the_line(explorer):
    send(explorer, "run", text='SELECT carrier AS "the carrier", 1 AS n, 2 AS n FROM flights LIMIT 2')
    explorer.plot = ChartChoice("bar", x="the carrier")
    assert "--plot bar -x 'the carrier'" in explorer.preview.line
    assert explorer.chart.x == "the carrier"
