"""The explorer's tab for SQL in JupyterLab in Chromium: typed, completed, run, charted, by mouse and by keyboard."""

from __future__ import annotations

import pytest

from tests.browser.conftest import ROOT
from tests.browser.lab import expect
from tests.browser.notebooks import SETUP

pytestmark = pytest.mark.browser
OPEN = 'x = explore(session, "flights")\nx.tab = "sql"\nx'
COUNTS = "SELECT carrier, count(*) AS n FROM flights GROUP BY carrier ORDER BY carrier"
PIECES = """async ({source, text, words}) => {
    const url = URL.createObjectURL(new Blob([source], {type: "text/javascript"}));
    return (await import(url)).piecesOf(text, new Set(words));
}"""


def field(opened):
    return opened.page.get_by_label("Query on DuckDB")


def words(opened):
    return opened.page.locator(".sleeper-sql-editor [role=option]:visible")


def test_a_query_is_written_by_keyboard_with_words_that_are_offered(in_theme):
    opened = in_theme(SETUP, OPEN)
    editor, before = opened.page.locator(".sleeper-sql-editor"), opened.page.locator(".jp-CodeCell").count()
    field(opened).focus()
    opened.press("Control+A")
    opened.page.keyboard.type("sel")
    expect(words(opened)).to_have_text(["SELECT"])
    opened.press("Tab")
    opened.page.keyboard.type(" carr")
    opened.press("Escape", "End")
    opened.page.keyboard.type("ier, 'it''s', 1.5 -- why\nFROM fl")
    expect(words(opened)).to_have_text(["flights"])
    opened.look("sql-words")
    opened.press("ArrowDown", "Enter")
    opened.page.keyboard.type("@half")
    expect(words(opened)).to_have_text(["half-year"])
    opened.press("Tab")
    opened.page.keyboard.type("\nLIMIT 2")
    expect(field(opened)).to_have_value("SELECT carrier, 'it''s', 1.5 -- why\nFROM flights@half-year\nLIMIT 2")
    for kind, texts in {"keyword": ["SELECT", "FROM", "LIMIT"], "text": ["'it''s'"], "comment": ["-- why"]}.items():
        expect(editor.locator(f".sleeper-sql-{kind}")).to_have_text(texts)
    opened.press("Control+Enter")
    answer = opened.page.locator(".sleeper-sql")
    expect(answer).to_contain_text("2 rows · flights at savepoint 1 'half-year'")
    expect(editor.locator(".sleeper-sql-note")).to_have_text("")
    opened.look("sql-answer")
    assert opened.page.locator(".jp-CodeCell").count() == before
    opened.press("Control+Z")  # takes back a letter, not all
    expect(field(opened)).to_have_value("SELECT carrier, 'it''s', 1.5 -- why\nFROM flights@half-year\nLIMIT ")


def test_earlier_queries_come_back(cells):
    opened = cells(SETUP, OPEN)
    answer = opened.page.locator(".sleeper-sql")
    for number in (1, 2):
        field(opened).fill(f"SELECT {number}0 AS n")
        opened.press("Control+Enter")
        expect(answer.locator("td").first).to_have_text(f"{number}0")
    field(opened).fill("SELECT 30")
    opened.press("Alt+ArrowUp*2")
    expect(field(opened)).to_have_value("SELECT 10 AS n")
    opened.press("Alt+ArrowDown*2")
    expect(field(opened)).to_have_value("SELECT 30")
    opened.page.get_by_label("Earlier queries").select_option("SELECT 10 AS n")
    expect(field(opened)).to_have_value("SELECT 10 AS n")
    opened.page.get_by_role("button", name="Run", exact=True).click()
    expect(answer.locator("td").first).to_have_text("10")
    expect(opened.page.get_by_label("Earlier queries").locator("option")).to_have_count(3)


def test_an_answer_has_a_chart_which_stays_in_the_saved_notebook_as_a_picture(in_theme):
    opened = in_theme(SETUP, OPEN, "x")
    explorer = opened.page.locator(".sleeper-explorer").first
    field(opened).first.fill(COUNTS)
    opened.press("Control+Enter")
    expect(explorer).to_contain_text("7 rows")
    explorer.get_by_label("Chart", exact=True).select_option("bar")
    canvas = explorer.locator("canvas")
    expect(canvas).to_be_visible()
    expect(explorer).to_contain_text("--plot bar")
    opened.shot("sql-chart", explorer)  # the menu of Vega has a picture without a name
    explorer.get_by_label("Colours", exact=True).select_option("carrier")
    expect(explorer.locator(".sleeper-error")).to_contain_text("needs two columns")
    explorer.get_by_label("Along x", exact=True).select_option("carrier")
    explorer.get_by_label("Height", exact=True).select_option("n")
    expect(explorer.locator(".sleeper-error")).to_have_count(0)
    opened.run_cell(2)
    kept = [each["data"].get("text/html", "") for each in opened.saved()]
    assert sum("data:image/png;base64," in each for each in kept) == 1


def test_words_are_chosen_by_touch_at_700_pixels(cells):
    opened = cells(SETUP, OPEN)
    opened.page.set_viewport_size({"width": 700, "height": 900})
    field(opened).focus()
    opened.press("Control+A")
    opened.page.keyboard.type("SELECT * FROM flights WHERE dep")
    expect(words(opened)).to_have_text(["dep_delay"])
    opened.look("sql-700")
    at = words(opened).first.bounding_box()
    assert at["x"] + at["width"] <= 700
    touch = opened.page.context.new_cdp_session(opened.page)
    point = {"x": at["x"] + 10, "y": at["y"] + 8}
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(field(opened)).to_have_value("SELECT * FROM flights WHERE dep_delay")


def test_pieces_of_a_statement_are_all_of_it(cells):
    opened = cells("1 + 1")
    source = (ROOT / "sleeper_nb" / "widgets" / "static" / "sql_editor.js").read_text(encoding="utf-8")

    def pieces(text):
        found = opened.page.evaluate(PIECES, {"source": source, "text": text, "words": ["SELECT", "FROM"]})
        assert "".join(each["text"] for each in found) == text
        return [(each["kind"], each["text"]) for each in found if each["kind"]]

    assert pieces("") == []
    assert pieces("select a::int, :late from t -- 'x'\n/* y") == [
        ("keyword", "select"), ("parameter", ":late"), ("keyword", "from"), ("comment", "-- 'x'"), ("comment", "/* y"),
    ]  # fmt: skip
    assert pieces("t1 . .5 1_000 'it''s \"no' \"a \"\" 'b\" 'open") == [
        ("number", ".5"), ("number", "1_000"), ("text", "'it''s \"no'"), ("name", "\"a \"\" 'b\""), ("text", "'open"),
    ]  # fmt: skip
    assert pieces("Größe <b>select</b> 🚀FROM") == [("keyword", "select"), ("keyword", "FROM")]
