"""The explorer in JupyterLab in Chromium: used by mouse and by keyboard, in both themes, saved, and opened again."""

from __future__ import annotations

import pytest

from tests.browser.conftest import ROOT
from tests.browser.lab import expect
from tests.browser.notebooks import SETUP

pytestmark = pytest.mark.browser
EXPLORE = 'x = explore(session, "flights")\nx'
LINES = {
    "Schema": "%sleeper describe flights@9 --fields",
    "Rows": "%sleeper scan flights@9",
    "Partitions": "%sleeper partitions flights@9",
    "Files": "%sleeper files flights@9",
    "History": "%sleeper history flights",
    "Savepoints": "%sleeper savepoints flights",
    "SQL": "%%sleeper sql --engine duckdb",
}


def test_every_tab_and_version_is_reached_by_mouse(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    explorer = opened.page.locator(".sleeper-explorer")
    label, preview = explorer.locator(".sleeper-version"), explorer.locator(".sleeper-preview")
    expect(label).to_contain_text("snapshot 9")
    expect(explorer.get_by_role("tablist")).to_have_css("flex-wrap", "wrap")
    expect(explorer.get_by_role("tab").first).to_have_css("min-width", "0px")
    expect(explorer.get_by_text("Savepoints", exact=True).first).to_have_css("overflow", "visible")
    for title, line in LINES.items():
        explorer.locator(".lm-TabBar-tab", has_text=title).click()
        expect(preview).to_contain_text(line)
        opened.look(f"explorer-{title.lower()}")
    explorer.locator("button", has_text="Run").click()
    expect(preview).to_contain_text("20 rows · flights at snapshot 9 · duckdb")
    opened.look("explorer-sql-answer")
    track = explorer.locator(".noUi-base")
    box = track.bounding_box()
    track.click(position={"x": box["width"] * 2 / 8, "y": 1})
    expect(label).to_contain_text("snapshot 3")
    expect(label).to_contain_text("ingest +2,400 rows · savepoint half-year")
    explorer.get_by_title("Next version", exact=True).click()
    expect(label).to_contain_text("snapshot 4")
    explorer.get_by_title("Previous version", exact=True).click()
    expect(label).to_contain_text("snapshot 3")
    explorer.locator(".lm-TabBar-tab", has_text="Partitions").click()
    expect(preview).to_contain_text("%sleeper partitions flights@3")
    picture = explorer.locator(".sleeper-map svg[role=img]")
    box = opened.box_of(picture)
    opened.page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + box["height"] - 10)  # the third of four leaves
    expect(explorer.locator(".sleeper-found")).to_contain_text('%sleeper scan flights@3 --region "carrier=[MQ,UA)"')
    expect(explorer.locator(".sleeper-range option:checked")).to_contain_text("carrier [MQ, UA)")
    opened.look("explorer-range")
    opened.page.locator(".sleeper-tables select").select_option("airports")
    expect(label).to_contain_text("snapshot 1")
    expect(explorer.locator(".noUi-handle")).to_have_count(0)
    opened.look("explorer-one-version")
    opened.page.locator(".sleeper-tables select").select_option("flights")
    expect(explorer.locator(".noUi-handle")).to_have_attribute("aria-valuenow", "8.0")


def test_everything_is_reached_by_keyboard(in_theme):
    opened = in_theme(SETUP, 'explore(session, "airports")')
    explorer = opened.page.locator(".sleeper-explorer")
    label, preview = explorer.locator(".sleeper-version"), explorer.locator(".sleeper-preview")
    expect(label).to_contain_text("snapshot 1")
    opened.page.get_by_label("Tables", exact=True).focus()
    opened.press("Tab*2", "Enter")  # Previous, Next
    expect(label).to_contain_text("snapshot 9")
    opened.press("Tab*2", "ArrowLeft*6")  # Refresh, the slider
    expect(label).to_contain_text("snapshot 3")
    expect(preview).to_contain_text("%sleeper scan flights@3")
    opened.press("Tab", "Enter")
    expect(label).to_contain_text("snapshot 2")
    opened.press("Tab", "Enter*7")
    expect(label).to_contain_text("snapshot 9")
    opened.press("Tab", "ArrowLeft")  # the tabs, of which rows are open
    for title, line in LINES.items():
        opened.press("Enter")
        expect(preview).to_contain_text(line)
        expect(explorer.locator(".lm-TabBar-tab.lm-mod-current")).to_have_text(title)
        opened.press("ArrowRight")
    opened.press("ArrowRight*2", "Enter", "Tab*4", "Enter*2")  # partitions; the line, the list, Previous, Next
    expect(explorer.locator(".sleeper-found")).to_contain_text('%sleeper scan flights@9 --region "carrier=[DL,MQ)"')
    opened.look("keys-range")
    explorer.locator(".lm-TabBar-tab", has_text="SQL").click()
    query = opened.page.get_by_label("Query on DuckDB")
    for asked in ("UA", "AA", "DL"):  # each at once behind the answer before
        query.focus()
        opened.press("Control+A")
        opened.page.keyboard.type(f"SELECT carrier FROM flights WHERE carrier = '{asked}' LIMIT 1")
        opened.press("Tab", "Enter")
        expect(preview.locator(".sleeper-sql td").first).to_have_text(asked)
    opened.look("keys-sql")


def test_typing_narrows_a_long_list_and_a_click_on_a_group_of_ranges_chooses_its_first(cells):
    more = 'for i in range(20):\n    session.create_table(f"add-{i}", schema)\n'
    many = 'session.create_table("many", sl.Schema({"k": "int"}), list(range(199)))'
    opened = cells(SETUP, more + many, 'explore(session, "many")')
    explorer, before = opened.page.locator(".sleeper-explorer"), opened.page.locator(".jp-CodeCell").count()
    opened.look("filter", explorer)
    explorer.get_by_label("Filter").first.focus()
    opened.page.keyboard.type("dd-1")  # of which JupyterLab would make: delete the cell
    expect(explorer.locator(".sleeper-tables option")).to_have_count(11)
    expect(explorer.locator(".sleeper-tables")).to_contain_text("11 of 23 tables")
    assert opened.page.locator(".jp-CodeCell").count() == before
    opened.look("filter-narrowed", explorer)
    explorer.locator(".lm-TabBar-tab", has_text="Partitions").click()
    expect(explorer.locator(".sleeper-leaves button")).to_have_count(50)
    picture = explorer.locator(".sleeper-map svg[role=img]")
    box = opened.box_of(picture)
    opened.page.mouse.click(box["x"] + box["width"] * 1.5 / 50, box["y"] + box["height"] - 10)  # 50 groups of 4
    expect(explorer.locator(".sleeper-range option:checked")).to_contain_text("k [3, 4)")
    opened.look("filter-ranges", explorer)


def test_python_moves_both_views_and_a_saved_notebook_keeps_static_pictures(cells):
    opened = cells(SETUP, EXPLORE, 'x.version = "savepoint.half-year"\nx')
    page, handles = opened.page, opened.page.locator(".sleeper-explorer .noUi-handle")
    expect(handles).to_have_count(2)
    for i in range(2):
        expect(handles.nth(i)).to_have_attribute("aria-valuenow", "2.0")
    statics = page.locator(".sleeper-static")
    for static in statics.all():
        expect(static).to_be_hidden()
    static, live = opened.saved()[-2:]
    assert "<svg" in static["data"]["text/html"]
    assert static["data"]["text/plain"] == "flights at snapshot 3: 3,600 rows, 6 files, 4 partitions"
    assert live["data"]["text/plain"] == "Explorer(table='flights', version=3)"
    opened.stop_kernel()
    page.reload()
    expect(statics).to_have_count(2)
    for static in statics.all():
        expect(static).to_be_visible()
    opened.look("explorer-reopened", statics.last)


@pytest.mark.long  # its lines run with the other notebooks, and the tests above use the same explorer
def test_notebook_01_runs_in_the_browser(lab):
    notebook = ROOT / "notebooks" / "01_first_table.ipynb"
    if not notebook.exists():
        pytest.skip("notebooks/01_first_table.ipynb is not there")
    opened = lab(notebook)
    opened.set_theme("Light")
    opened.run_all(seconds=240)
    explorer = opened.page.locator(".sleeper-explorer").last
    label, preview = explorer.locator(".sleeper-version"), explorer.locator(".sleeper-preview")
    opened.shot("notebook-01", explorer)
    before, rows = label.inner_text(), preview.inner_text()
    explorer.locator(".noUi-handle").focus()
    opened.press("ArrowLeft")
    expect(label).not_to_have_text(before)
    expect(preview).not_to_have_text(rows)
    opened.shot("notebook-01-earlier", explorer)
