"""The rows of an answer in the grid: fetched when they come into sight, charts of them, and what stays in a file."""

from __future__ import annotations

import pytest
from IPython.utils.capture import capture_output

import sleeper_nb as sl
from sleeper_nb.widgets import pages
from tests.widgets.conftest import HOSTILE, Page

NUMBERS = "SELECT range AS n, range % 3 AS part FROM range(1500)"


@pytest.fixture
def answer(session):
    return pages(session.sql(NUMBERS, engine="duckdb"), NUMBERS)


def test_the_first_rows_come_with_it_and_the_others_when_they_are_asked_for(answer):
    assert answer.start["mode"] == "answer"
    (first,) = answer.start["answers"].values()
    assert [each["name"] for each in first["columns"]] == ["n", "part"]
    assert (len(first["rows"]), first["last"]) == (100, False)
    page = Page(answer)
    assert page.ask("page", first=1450, count=100)["rows"][-1] == ["1499", "2"]
    assert page.ask("page", first=1400, count=100)["total"] == 1500
    assert page.ask("cell", row=7, column="n") == {"tree": {"text": "7"}}


def test_it_is_drawn_as_a_chart(answer):
    chart = Page(answer).ask("chart", mark="bar", x="part", y="n", color="")
    assert chart["mark"] == "bar"
    assert len(chart["points"]) == 3
    assert NUMBERS in chart["line"]


def test_what_only_the_explorer_answers_is_refused(answer):
    assert "cannot answer 'tables'" in Page(answer).failure("tables")["message"]


def test_closing_it_gives_the_answer_back(answer):
    page = Page(answer)
    answer.close()
    assert "run the statement again" in page.failure("page", first=0, count=10)["hint"]


def test_an_answer_without_rows_is_shown_too(session):
    answer = pages(session.sql("SELECT carrier FROM flights WHERE false", engine="duckdb"))
    (first,) = answer.start["answers"].values()
    assert (first["rows"], first["last"], first["total"]) == ([], True, 0)
    assert [each["name"] for each in first["columns"]] == ["carrier"]


def test_an_error_of_the_first_rows_fails_the_cell(session):
    with pytest.raises(sl.InvalidInput, match="bad row"):
        pages(session.sql("SELECT error('bad row') AS n", engine="duckdb"))


def test_it_is_the_value_of_its_command_and_its_first_rows_stay(shell):
    with capture_output() as said:
        shell.run_cell("%sleeper use ./w").raise_error()
        shell.run_cell("%%sleeper create t\nn INT KEY, note STRING").raise_error()
        shell.user_ns["rows"] = [{"n": n, "note": HOSTILE} for n in range(5)]
        shell.run_cell("%sleeper ingest t $rows").raise_error()
    with capture_output() as said:
        answer = shell.run_cell("%sleeper sql --interactive --engine duckdb -o kept SELECT * FROM t ORDER BY n")
        answer.raise_error()
    kept, live = said.outputs
    assert kept.data["text/plain"].endswith("5 rows · t at snapshot 2 · duckdb")
    assert "<script" not in kept.data["text/html"]
    assert live.data["text/plain"] == "ResultPages('5 rows · t at snapshot 2 · duckdb')"
    assert shell.user_ns["kept"] is answer.result
    for more in ("--as pandas", "--plot bar", "--dry-run", "--explain"):
        with pytest.raises(sl.InvalidInput, match="pages through the rows"):
            shell.run_line_magic("sleeper", f"sql --interactive {more} --engine duckdb SELECT 1")
