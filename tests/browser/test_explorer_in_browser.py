"""The explorer in JupyterLab in Chromium: every tab by mouse and by keyboard alone, in the themes of JupyterLab."""

from __future__ import annotations

import re

import nbformat
import pytest

import sleeper_nb as sl
from sleeper_nb.widgets import timeline
from sleeper_nb.widgets.static_picture import static_bundle
from tests.browser.conftest import ROOT
from tests.browser.explorer_page import TABS, ExplorerPage, accessible
from tests.browser.lab import expect
from tests.browser.notebooks import BAD_LOAD, SETUP, notebook_of

pytestmark = pytest.mark.browser
STATIC = '<div class="sleeper-static">'
EXPLORE = 'x = explore(session, "flights")\nx'
LINES = {
    "Rows": "VERSION AS OF 9",
    "Changes": "%sleeper diff flights 8 9",
    "Schema": "%sleeper describe flights@9",
    "Partitions": "%sleeper partitions flights@9",
    "History": "%sleeper history flights",
}


def explorer_of(opened):
    explorer = ExplorerPage.of(opened.page)
    expect(explorer.version).to_have_attribute("aria-valuenow", "9")
    return explorer


def cells_of(opened):
    return opened.page.locator(".jp-CodeCell").count()


def test_every_tab_is_opened_by_mouse(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    explorer = explorer_of(opened)
    expect(explorer.shown).to_contain_text("of 12,000")
    expect(explorer.bars("dep_delay")).to_be_visible()
    for tab in TABS:
        explorer.open(tab)
        if tab in LINES:
            expect(explorer.line).to_contain_text(LINES[tab])
        expect(explorer.panel.locator("[aria-busy=true]")).to_have_count(0)
        opened.look(f"explorer-{tab.lower()}", explorer.root)
        accessible(explorer.root)
    explorer.run("SELECT carrier, count(*) AS n FROM flights GROUP BY carrier ORDER BY carrier")
    expect(explorer.cell(1, 1)).to_have_text("AA")
    opened.look("explorer-sql-answer", explorer.root)
    explorer.open("Schema")
    lines = "totals => new Set(totals.map(each => each.offsetTop)).size"
    assert explorer.panel.locator(".sx-totals > div").evaluate_all(lines) == 1
    explorer.open("Changes")
    expect(explorer.panel).to_contain_text("4 files were rewritten as 1.")
    explorer.button("Show files").click()
    expect(explorer.panel.get_by_role("row")).to_have_count(6)
    explorer.root.get_by_role("option", name="airports").click()
    expect(explorer.version).to_have_attribute("aria-valuenow", "1")
    explorer.open("Rows")
    expect(explorer.panel).to_contain_text("airports has no rows")
    opened.look("explorer-no-rows", explorer.root)
    accessible(explorer.root)


def test_everything_is_reached_by_keyboard_alone(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    explorer, before = explorer_of(opened), cells_of(opened)
    expect(explorer.shown).to_contain_text("of 12,000")
    explorer.tables.focus()
    opened.press("Home", "Enter")
    expect(explorer.version).to_have_attribute("aria-valuenow", "1")
    opened.press("End", "Enter")
    expect(explorer.version).to_have_attribute("aria-valuenow", "9")
    opened.press("Tab*3")  # Compare, Full screen, the handle
    expect(explorer.version).to_be_focused()
    opened.press("ArrowLeft*6")
    expect(explorer.version).to_have_attribute("aria-valuenow", "3")
    expect(explorer.version).to_have_attribute("aria-valuetext", re.compile("snapshot 3, .* UTC, ingest"))
    expect(explorer.line).to_contain_text("VERSION AS OF 3")
    opened.press("End", "Shift+ArrowLeft")
    expect(explorer.compared).to_have_attribute("aria-valuenow", "8")
    opened.press("Delete")
    expect(explorer.compared).to_have_count(0)
    explorer.tab("Changes").focus()
    opened.press("Home")
    for tab in TABS:
        expect(explorer.tab(tab)).to_have_attribute("aria-selected", "true")
        if tab in LINES:
            expect(explorer.line).to_contain_text(LINES[tab])
        opened.press("ArrowRight")
    expect(explorer.tab("Rows")).to_be_focused()
    opened.press("a", "b", "d", "d")  # commands of JupyterLab, elsewhere
    assert cells_of(opened) == before
    opened.look("explorer-keys", explorer.root)


def test_a_handle_is_dragged_to_travel_and_a_second_one_to_compare(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    explorer = explorer_of(opened)
    explorer.travel_by_mouse(3)
    expect(explorer.version).to_have_attribute("aria-valuenow", "3")
    expect(explorer.shown).to_contain_text("of 3,600")
    expect(explorer.line).to_contain_text("VERSION AS OF 3")
    opened.look("explorer-travelled", explorer.root)
    explorer.button("Go to newest").click()
    expect(explorer.shown).to_contain_text("of 12,000")
    explorer.button("Compare").click()
    expect(explorer.compared).to_be_visible()
    explorer.travel_by_mouse(2, handle=explorer.compared)
    expect(explorer.compared).to_have_attribute("aria-valuenow", "2")
    explorer.open("Changes")
    expect(explorer.line).to_contain_text("%sleeper diff flights 2 9")
    expect(explorer.panel.get_by_role("button", name="added")).to_contain_text("10,800")
    opened.look("explorer-compared", explorer.root)
    explorer.button("Stop comparing").click()
    expect(explorer.compared).to_have_count(0)


def test_rows_are_sorted_filtered_brushed_and_searched_by_mouse(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    explorer = explorer_of(opened)
    expect(explorer.bars("dep_delay")).to_be_visible()
    explorer.button("Sort by dep_delay").click()
    expect(explorer.header("dep_delay")).to_have_attribute("aria-sort", "ascending")
    explorer.button("Sort by dep_delay").click()
    expect(explorer.header("dep_delay")).to_have_attribute("aria-sort", "descending")
    expect(explorer.cell(1, 4)).to_have_text("2399.5")
    explorer.brush("dep_delay", 0.1, 0.4)
    expect(explorer.where).to_contain_text('"dep_delay" > ')
    expect(explorer.shown).to_contain_text("(12,000 in all)")
    opened.look("explorer-brushed", explorer.root)
    explorer.filter("carrier", "= AA, UA")
    expect(explorer.where).to_contain_text("""IN ('AA', 'UA')""")
    accessible(explorer.root)
    explorer.button("Clear all").click()
    expect(explorer.shown).to_contain_text("of 12,000")
    expect(explorer.where).to_have_text("")
    explorer.root.get_by_role("searchbox", name="Search the text columns").fill("LATE")
    expect(explorer.shown).to_contain_text("of 2,400")
    explorer.button("Remove the filter of any text").click()
    explorer.menu("dep_delay").get_by_role("button", name="Only rows without a value").click()
    expect(explorer.shown).to_contain_text("of 1,335")
    expect(explorer.cell(1, 4)).to_have_text("NULL")
    explorer.button("Open in SQL").click()
    expect(explorer.editor).to_contain_text('WHERE "dep_delay" IS NULL')
    opened.press("Control+Enter")


def test_rows_are_reached_by_keyboard(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    explorer, before = explorer_of(opened), cells_of(opened)
    expect(explorer.bars("dep_delay")).to_be_visible()
    explorer.grid.focus()
    opened.press("Control+End")
    expect(explorer.shown).to_contain_text("–12,000 of")
    expect(explorer.cell(12_000, 1)).to_have_text("WN")
    opened.press("Control+Home", "ArrowRight*3", "ArrowUp")
    expect(explorer.button("Sort by dep_delay")).to_be_focused()
    opened.press("Enter")
    expect(explorer.header("dep_delay")).to_have_attribute("aria-sort", "ascending")
    opened.press("Tab", "Tab")  # its menu, its bars
    expect(explorer.bars("dep_delay")).to_be_focused()
    opened.press("ArrowRight*2", "Shift+ArrowRight", "Enter")
    expect(explorer.where).to_contain_text('"dep_delay" > ')
    opened.press("Escape")
    expect(explorer.where).to_have_text("")
    explorer.button("Sort by dep_delay").focus()
    opened.press("Alt+ArrowDown")
    opened.page.keyboard.type("> 2000")
    opened.press("Enter")
    expect(explorer.where).to_contain_text('"dep_delay" > 2000')
    explorer.grid.focus()
    opened.press("ArrowRight", "Enter")
    value = explorer.root.get_by_role("region", name="Value of note")
    expect(value).to_contain_text("row 1")
    opened.press("Escape")
    expect(value).to_have_count(0)
    opened.press("a", "b", "d", "d")  # which JupyterLab takes for commands elsewhere
    assert cells_of(opened) == before


def test_a_filter_that_is_no_value_says_so_and_the_rows_stay(cells):
    opened = cells(SETUP, EXPLORE)
    explorer = explorer_of(opened)
    expect(explorer.cell(1, 1)).to_have_text("AA")
    explorer.filter("dep_delay", "late")
    alert = explorer.root.get_by_role("alert")
    expect(alert).to_contain_text("no double is exactly 'late'")
    explorer.filter("dep_delay", "null")
    expect(explorer.shown).to_contain_text("of 1,335")
    expect(alert).to_have_count(0)


NESTED = """
schema = sl.Schema({"k": "int"}, values={"s": "struct<a:list<int>,b:string>", "long": "string", "m": "map<string,int>"})
t = session.create_table("nested", schema)
t.ingest([{"k": 1, "s": {"a": [1, 2, 3], "b": "<i>no</i>"}, "long": "word " * 400, "m": [("x", 1)]}])
explore(session, "nested")
"""


def test_nested_values_open_as_trees_and_long_text_whole(in_theme):
    opened = in_theme(SETUP, NESTED)
    explorer = ExplorerPage.of(opened.page)
    expect(explorer.cell(1, 2)).to_contain_text("{a: [1, 2, 3]")
    explorer.cell(1, 2).dblclick()
    value = explorer.root.get_by_role("region", name="Value of s")
    expect(value.locator("details")).to_have_count(1)
    expect(value).to_contain_text("list of 3")
    expect(value).to_contain_text("<i>no</i>")
    opened.look("explorer-tree", explorer.root)
    accessible(explorer.root)
    explorer.cell(1, 3).dblclick()
    expect(explorer.root.get_by_role("region", name="Value of long")).to_contain_text("word " * 399)


WIDE = """
import pyarrow as pa
names = [f"c{i}" for i in range(2000)]
t = session.create_table("wide", sl.Schema({"k": "int"}, {}, dict.fromkeys(names, "int")))
t.ingest(pa.table({"k": range(30), **{name: range(30) for name in names}}))
explore(session, "wide")
"""


def test_of_2000_columns_those_in_sight_are_there_and_keys_stay(cells):
    opened = cells(SETUP, WIDE)
    explorer = ExplorerPage.of(opened.page)
    expect(explorer.cell(1, 1)).to_have_text("0")
    explorer.grid.focus()
    opened.press("ArrowDown", "End")
    expect(explorer.cell(2, 2001)).to_have_text("1")
    expect(explorer.bars("c1999")).to_be_visible()
    expect(explorer.cell(2, 1)).to_be_in_viewport()
    assert explorer.root.get_by_role("columnheader").count() < 40
    width = int(explorer.root.get_by_role("separator", name="Width of c1999").get_attribute("aria-valuenow"))
    explorer.root.get_by_role("separator", name="Width of c1999").focus()
    opened.press("ArrowRight*2")
    expect(explorer.header("c1999")).to_have_css("width", f"{width + 32}px")


def test_bars_are_chosen_by_touch(cells):
    opened = cells(SETUP, EXPLORE, width=700)
    explorer = explorer_of(opened)
    expect(explorer.bars("flight")).to_be_visible()
    box = opened.box_of(explorer.bars("flight"))
    touch = opened.page.context.new_cdp_session(opened.page)
    point = {"x": box["x"] + 3, "y": box["y"] + 10}
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(explorer.where).to_contain_text('"flight" <=')


def test_what_was_typed_stays_in_other_versions_and_in_the_saved_picture(cells):
    opened = cells(SETUP, EXPLORE, "x")
    explorer = ExplorerPage.of(opened.page, 0)
    expect(explorer.bars("flight")).to_be_visible()
    explorer.button("Sort by flight").click()
    explorer.filter("carrier", "= UA")
    expect(explorer.where).to_contain_text("'UA'")
    explorer.version.focus()
    opened.press("ArrowLeft*6")
    expect(explorer.line).to_contain_text("VERSION AS OF 3")
    expect(explorer.where).to_contain_text("'UA'")
    expect(explorer.header("flight")).to_have_attribute("aria-sort", "ascending")
    opened.run_cell(2)
    kept = [each["data"].get("text/html", "") for each in opened.saved()]
    again = [each for each in kept if each.startswith(STATIC)][-1]
    assert "UA" in again
    assert "&lt;b&gt;late" in again


def test_partitions_lead_to_their_rows(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    explorer = explorer_of(opened)
    explorer.open("Partitions")
    expect(explorer.panel).to_contain_text("4 partitions")
    explorer.panel.get_by_role("option").nth(2).dblclick()
    expect(explorer.tab("Rows")).to_have_attribute("aria-selected", "true")
    expect(explorer.where).to_contain_text("'MQ'")
    expect(explorer.cell(1, 1)).to_have_text("MQ")


def test_history_shows_and_compares_versions(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    explorer = explorer_of(opened)
    explorer.open("History")
    commits = explorer.panel.get_by_role("list", name="Commits, newest first")
    expect(commits).to_contain_text("<script>document.title = 'broken'</script>")
    commits.get_by_text("half-year").click()
    expect(explorer.version).to_have_attribute("aria-valuenow", "3")
    commits.get_by_role("button", name="Compare 2 with the shown snapshot 3").click()
    expect(explorer.tab("Changes")).to_have_attribute("aria-selected", "true")
    expect(explorer.line).to_contain_text("%sleeper diff flights 2 3")


def test_a_bad_load_is_rolled_back_and_that_is_undone(in_theme):
    opened = in_theme(SETUP, BAD_LOAD)
    explorer = ExplorerPage.of(opened.page)
    expect(explorer.tab("Changes")).to_have_attribute("aria-selected", "true")
    expect(explorer.line).to_contain_text("%sleeper diff flights 9 12")
    expect(explorer.panel.get_by_role("button", name="added")).to_contain_text("800")
    expect(explorer.panel.get_by_role("button", name="removed")).to_contain_text("1")
    expect(explorer.panel.get_by_role("button", name="changed")).to_contain_text("23")
    explorer.panel.get_by_role("button", name="Columns", exact=True).click()
    explorer.panel.get_by_role("button", name="Rows", exact=True).click()
    expect(explorer.grid).to_contain_text("<b>wrong</b>")
    cut = "places => places.filter(each => each.scrollWidth > each.clientWidth).map(each => each.textContent)"
    assert explorer.grid.locator(".sx-cell-differs > *").evaluate_all(cut) == []
    opened.look("timeline", explorer.root)
    accessible(explorer.root)
    for part, seen in {
        "Columns": "dep_delay",
        "Files": "Partition",
        "Partitions": "carrier",
        "Rows": "<b>wrong</b>",
    }.items():
        explorer.panel.get_by_role("button", name=part).focus()
        opened.press("Enter")
        expect(explorer.panel).to_contain_text(seen)
        assert explorer.panel.locator("dt").evaluate_all(cut) == []
        opened.look(f"timeline-{part}", explorer.root)
        accessible(explorer.root)
    explorer.button("Roll back to 9…").click()
    plan = explorer.root.get_by_role("region", name="Roll back flights to snapshot 9")
    expect(plan).to_contain_text("%sleeper rollback flights 9")
    expect(explorer.button("Roll back to 9…")).to_be_disabled()
    expect(explorer.grid).to_have_count(0)
    opened.look("timeline-plan", explorer.root)
    accessible(explorer.root)
    plan.get_by_role("button", name="Roll back", exact=True).click()
    done = explorer.root.get_by_role("status").filter(has_text="snapshot 9")
    expect(done).to_be_visible()
    expect(explorer.version).to_have_attribute("aria-valuenow", "13")
    expect(explorer.panel).to_contain_text("Rolled back to 9 · −799 rows")
    expect(explorer.button("Roll back to 9…")).to_be_disabled()
    opened.look("timeline-rolled-back", explorer.root)
    explorer.button("Undo…").click()
    again = explorer.root.get_by_role("region", name="Roll back flights to snapshot 12")
    again.get_by_role("button", name="Roll back", exact=True).click()
    expect(explorer.version).to_have_attribute("aria-valuenow", "14")
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    explorer.button("Copy the command", exact=True).last.click()
    assert opened.page.evaluate("navigator.clipboard.readText()").startswith("%sleeper ")


def test_a_savepoint_is_made_by_keyboard(in_theme):
    opened = in_theme(SETUP, 'timeline(session, "flights")')
    explorer, before = explorer_of(opened), cells_of(opened)
    explorer.button("Name snapshot 9…").focus()
    opened.press("Enter")
    expect(explorer.root.get_by_label("Name of the savepoint")).to_be_focused()
    opened.page.keyboard.type("good")
    plan = explorer.root.get_by_role("region", name="savepoint")
    expect(plan).to_contain_text("--name good")
    expect(plan.get_by_role("button", name="savepoint")).to_be_enabled()
    opened.press("Enter")
    expect(explorer.root.get_by_role("status").filter(has_text="good")).to_be_visible()
    assert cells_of(opened) == before


def test_a_query_is_written_by_keyboard_with_words_that_are_offered(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    explorer, before = explorer_of(opened), cells_of(opened)
    explorer.open("SQL")
    explorer.write("")
    words = explorer.root.get_by_role("listbox", name="Completions").get_by_role("option")
    opened.page.keyboard.type("SELECT carr")
    opened.press("Control+Space")
    expect(words.first).to_contain_text("carrier")
    opened.look("sql-words", explorer.root)
    opened.press("Enter")
    opened.page.keyboard.type(", 'it''s', 1.5 -- why\nFROM fl")
    words.get_by_text("flights").click()
    opened.page.keyboard.type("\nLIMIT 2")
    opened.press("Escape", "Control+Enter")
    expect(explorer.cell(1, 1)).to_have_text("AA")
    expect(explorer.cell(1, 2)).to_have_text("it's")
    opened.look("sql-answer", explorer.root)
    accessible(explorer.root)
    assert cells_of(opened) == before


def test_an_error_is_underlined_at_its_place_and_a_change_is_a_plan_that_is_not_run(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    explorer = explorer_of(opened)
    explorer.open("SQL")
    explorer.run("SELECT carrier, dep_dela\nFROM flights")
    alert = explorer.root.get_by_role("alert")
    expect(alert).to_contain_text("dep_dela")
    expect(alert).to_contain_text("dep_delay")
    expect(explorer.root.locator(".cm-lintRange-error")).to_have_text("dep_dela")
    opened.look("sql-error", explorer.root)
    accessible(explorer.root)
    for statement, words in {
        "DELETE FROM flights WHERE carrier = 'UA'": "rows",
        "UPDATE flights SET dep_delay = 0 WHERE carrier = 'UA'": "rows",
        "DROP TABLE flights": "flights",
    }.items():
        explorer.run(statement)
        plan = explorer.panel.get_by_role("region")
        expect(plan).to_contain_text(statement.split()[0])
        expect(plan).to_contain_text(words)
        expect(alert).to_have_count(0)
        opened.look(f"sql-{statement.split()[0].lower()}", explorer.root)
    accessible(explorer.root)
    explorer.run("SELECT count(*) AS n FROM flights")
    expect(explorer.cell(1, 1)).to_have_text("12,000")


def test_an_answer_has_a_chart_and_earlier_statements_come_back(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    explorer = explorer_of(opened)
    explorer.open("SQL")
    explorer.run("SELECT 10 AS n")
    expect(explorer.cell(1, 1)).to_have_text("10")
    explorer.run("SELECT carrier, count(*) AS n FROM flights GROUP BY carrier ORDER BY carrier")
    expect(explorer.cell(1, 1)).to_have_text("AA")
    explorer.button("Chart").click()
    chart = explorer.panel.locator("figure").first
    expect(chart.locator("svg rect").first).to_be_visible()
    opened.look("sql-chart", explorer.root)
    accessible(explorer.root)
    explorer.root.get_by_role("combobox", name="Type", exact=True).select_option("Dots")
    expect(explorer.root.get_by_role("alert")).to_contain_text("column 'carrier' is string")
    explorer.root.get_by_role("combobox", name="Type", exact=True).select_option("Bars")
    expect(chart.locator("svg rect").first).to_be_visible()
    explorer.button("Recent queries").click()
    explorer.root.get_by_role("menuitem", name="SELECT 10 AS n").click()
    expect(explorer.editor).to_contain_text("SELECT 10 AS n")
    explorer.editor.click()
    opened.press("Control+Enter")
    explorer.button("Table").click()
    expect(explorer.cell(1, 1)).to_have_text("10")


def test_an_answer_of_sql_is_read_in_the_same_grid(in_theme):
    opened = in_theme(
        SETUP,
        "%load_ext sleeper_nb\n%sleeper use $session",
        "%sleeper sql --interactive --engine duckdb SELECT carrier FROM flights ORDER BY 1 DESC LIMIT 150",
    )
    explorer = ExplorerPage.of(opened.page)
    expect(explorer.cell(1, 1)).to_have_text("WN")
    explorer.grid.focus()
    opened.press("Control+End")  # of the rows that are known
    expect(explorer.grid).to_have_attribute("aria-rowcount", "151")
    opened.press("Control+End")
    expect(explorer.cell(150, 1)).to_have_text("WN")
    opened.look("sql-interactive", explorer.root)
    accessible(explorer.root)


def test_python_and_the_page_follow_each_other(cells):
    opened = cells(
        SETUP,
        EXPLORE,
        'x.version = "savepoint.half-year"',
        "print(x.version, x.table)",
    )
    explorer = ExplorerPage.of(opened.page)
    expect(explorer.version).to_have_attribute("aria-valuenow", "3")
    explorer.version.focus()
    opened.press("ArrowLeft")
    expect(explorer.version).to_have_attribute("aria-valuenow", "2")
    expect(explorer.line).to_contain_text("VERSION AS OF 2")
    opened.run_cell(3)
    expect(opened.output(3)).to_contain_text("2 flights")


def test_rows_are_kept_in_a_variable(cells):
    opened = cells(SETUP, EXPLORE, "len(found)")
    explorer = explorer_of(opened)
    explorer.filter("carrier", "= AA")
    expect(explorer.where).to_contain_text("'AA'")
    explorer.button("Save as DataFrame…").click()
    dialog = explorer.root.get_by_role("dialog", name="Save as DataFrame")
    dialog.get_by_label("Variable").fill("found")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("status")).to_contain_text("found")
    opened.run_cell(2)
    expect(opened.output(2)).to_contain_text("1")


def test_a_saved_notebook_keeps_a_static_picture(cells):
    opened = cells(SETUP, EXPLORE)
    explorer_of(opened)
    statics = opened.page.locator(".sleeper-static")
    for static in statics.all():
        expect(static).to_be_hidden()
    static, live = opened.saved()[-2:]
    assert "<svg" in static["data"]["text/html"]
    assert "12,000" in static["data"]["text/plain"]
    assert live["data"]["text/plain"].startswith("Explorer(")
    opened.stop_kernel()
    opened.page.reload()
    expect(statics).to_have_count(1)
    expect(statics.first).to_be_visible()
    opened.look("explorer-reopened", statics.last)


def test_in_a_notebook_that_is_not_trusted_the_change_is_read_without_colours_and_pictures(lab, tmp_path, theme):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("fares", sl.Schema({"k": "int"}, values={"fare": "double", "note": "string?"}))
        table.ingest([{"k": k, "fare": k / 2} for k in range(40)])
        table.update({"fare": "-fare"}, "k = 3")
        table.ingest([{"k": 100, "fare": 9000.0, "note": "<b>wrong</b>"}])
        widget = timeline(session, "fares")
        widget.before = 2
        bundle = static_bundle(widget.picture())
    path = notebook_of(tmp_path / "strangers.ipynb", "answer")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].outputs = [nbformat.v4.new_output("display_data", bundle)]
    nbformat.write(notebook, path)
    opened = lab(path)
    opened.set_theme(theme)
    kept = opened.page.locator(".sleeper-static")
    expect(kept).to_contain_text("added")
    expect(kept).to_contain_text("-1.5")
    expect(kept).to_contain_text("<b>wrong</b>")
    assert kept.locator("svg").count() == 0
    opened.look("timeline-strangers", kept)


@pytest.mark.long  # its lines run with the other notebooks, and the tests above use the same explorer
def test_notebook_01_runs_in_the_browser(lab):
    notebook = ROOT / "notebooks" / "01_first_table.ipynb"
    if not notebook.exists():
        pytest.skip("notebooks/01_first_table.ipynb is not there")
    opened = lab(notebook)
    opened.set_theme("Light")
    opened.run_all(seconds=240)
    explorer = ExplorerPage.of(opened.page)
    opened.shot("notebook-01", explorer.root)
    line = explorer.line.inner_text()
    explorer.version.focus()
    opened.press("ArrowLeft")
    expect(explorer.line).not_to_have_text(line)
    opened.shot("notebook-01-earlier", explorer.root)
