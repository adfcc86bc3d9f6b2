"""The grid of rows in JupyterLab in Chromium: sorted, filtered, searched and paged by mouse, keyboard and touch."""

from __future__ import annotations

import pytest

from tests.browser.lab import expect
from tests.browser.notebooks import SETUP

pytestmark = pytest.mark.browser
STATIC = '<div class="sleeper-static">'
EXPLORE = 'x = explore(session, "flights")\nx'


def grid_of(opened):
    grid = opened.page.locator(".sleeper-grid")
    expect(grid.locator(".sleeper-grid-counts")).to_contain_text("of 12,000 rows")
    return grid


def head(grid, name):
    return grid.locator("th", has=grid.page.get_by_label(f"Filter {name}", exact=True))


def column(grid, number):
    """Return the texts of a column of the page, counted from 1."""
    return grid.locator(f'tbody td[aria-colindex="{number}"]')


def test_rows_are_sorted_filtered_searched_and_paged_by_mouse(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    grid, preview = grid_of(opened), opened.page.locator(".sleeper-preview")
    counts = grid.locator(".sleeper-grid-counts")
    expect(head(grid, "carrier").locator(".sleeper-grid-type")).to_have_text("string · row key")
    expect(head(grid, "dep_delay").locator(".sleeper-grid-nulls")).to_have_text("11 % NULL")
    expect(head(grid, "flight").locator(".sleeper-grid-bar-of")).not_to_have_count(0)
    opened.look("grid")
    head(grid, "dep_delay").get_by_role("button", name="dep_delay", exact=True).click()
    head(grid, "dep_delay").get_by_role("button", name="dep_delay ▲", exact=True).click()
    expect(head(grid, "dep_delay")).to_have_attribute("aria-sort", "descending")
    expect(column(grid, 4).first).to_have_text("2399.5")
    expect(preview).to_contain_text('ORDER BY "dep_delay" DESC NULLS LAST')
    grid.get_by_label("Filter carrier", exact=True).fill("= AA, UA")
    expect(counts).not_to_contain_text("of 12,000")
    expect(preview).to_contain_text("""WHERE "carrier" IN ('AA', 'UA')""")
    bars = head(grid, "dep_delay").locator(".sleeper-grid-bars")
    bars.locator(".sleeper-grid-bar-of").nth(2).click()
    expect(preview).to_contain_text('"dep_delay" > 400 AND "dep_delay" <= 600')
    expect(bars.locator(".sleeper-grid-chosen")).to_have_count(1)
    opened.look("grid-filtered")
    box = bars.bounding_box()
    opened.page.mouse.move(box["x"] + 2, box["y"] + 5)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    opened.page.mouse.up()
    expect(preview).to_contain_text('"dep_delay" <= 1')
    grid.get_by_role("button", name="Clear filters").click()
    expect(counts).to_have_text("first 20 of 12,000 rows")
    grid.get_by_label("Search in all columns of text").fill("LATE")
    expect(counts).to_have_text("first 20 of 2,400 rows")
    grid.get_by_role("button", name="Last page").click()
    expect(counts).to_have_text("rows 2,381–2,400 of 2,400")
    grid.get_by_role("button", name="Previous page").click()
    expect(counts).to_have_text("rows 2,361–2,380 of 2,400")
    grid.get_by_label("Rows on a page").select_option("50")
    expect(grid.locator("tbody tr")).to_have_count(50)
    head(grid, "note").locator(".sleeper-grid-name").click()
    expect(column(grid, 5).first).to_have_text("<b>late</b>")


def test_rows_are_reached_by_keyboard(in_theme):
    opened = in_theme(SETUP, EXPLORE)
    grid, preview = grid_of(opened), opened.page.locator(".sleeper-preview")
    counts, before = grid.locator(".sleeper-grid-counts"), opened.page.locator(".jp-CodeCell").count()
    grid.get_by_label("Rows on a page").focus()
    opened.press("Tab", "PageDown")
    expect(counts).to_have_text("rows 21–40 of 12,000")
    opened.press("Control+End")
    expect(counts).to_have_text("rows 11,981–12,000 of 12,000")
    opened.press("Control+Home")
    expect(counts).to_have_text("first 20 of 12,000 rows")
    opened.press("ArrowRight*3", "ArrowUp*3", "Enter")  # dep_delay: its filter, its bars, its name
    expect(preview).to_contain_text('ORDER BY "dep_delay" NULLS LAST')
    expect(head(grid, "dep_delay").locator(".sleeper-grid-bar-of")).not_to_have_count(0)
    opened.press("ArrowDown", "Enter", "ArrowRight*2", "Shift+ArrowRight", "Enter")
    expect(preview).to_contain_text('"dep_delay" > 400 AND "dep_delay" <= 800')
    opened.press("Delete")
    expect(counts).to_have_text("first 20 of 12,000 rows")
    opened.press("ArrowDown")
    opened.page.keyboard.type("> 2000")
    opened.press("Enter")
    expect(preview).to_contain_text('"dep_delay" > 2000')
    opened.look("grid-keys")
    opened.press("Escape", "End", "Enter")  # the first row; the note
    expect(grid.locator(".sleeper-grid-detail")).to_contain_text("note (string?), row 1")
    opened.press("Escape")
    expect(grid.locator(".sleeper-grid-detail")).to_be_hidden()
    opened.press("a", "b", "d", "d")  # which JupyterLab takes for commands elsewhere
    assert opened.page.locator(".jp-CodeCell").count() == before


def test_a_filter_that_is_no_value_says_so_and_the_rows_stay(cells):
    opened = cells(SETUP, EXPLORE)
    grid = grid_of(opened)
    box = grid.get_by_label("Filter dep_delay", exact=True)
    box.fill("late")
    alert = opened.page.locator(".sleeper-explorer [role=alert]")
    expect(alert).to_contain_text("no double is exactly 'late'")
    expect(grid.locator("tbody tr")).to_have_count(20)
    box.fill("null")
    expect(grid.locator(".sleeper-grid-counts")).to_have_text("first 20 of 1,335 rows")
    expect(alert).to_have_count(0)


NESTED = """
schema = sl.Schema({"k": "int"}, values={"s": "struct<a:list<int>,b:string>", "long": "string", "m": "map<string,int>"})
t = session.create_table("nested", schema)
t.ingest([{"k": 1, "s": {"a": [1, 2, 3], "b": "<i>no</i>"}, "long": "word " * 400, "m": [("x", 1)]}])
y = explore(session, "nested")
y
"""


def test_nested_values_open_as_trees_and_long_text_whole(in_theme):
    opened = in_theme(SETUP, NESTED)
    grid = opened.page.locator(".sleeper-grid")
    detail = grid.locator(".sleeper-grid-detail")
    expect(column(grid, 2).first).to_contain_text("{a: [1, 2, 3]")
    column(grid, 2).first.dblclick()
    expect(detail.locator("details")).to_have_count(2)
    expect(detail).to_contain_text("list of 3")
    expect(detail).to_contain_text("b: <i>no</i>")
    opened.look("grid-tree")
    column(grid, 3).first.click()  # it is longer than its cell
    expect(detail).to_contain_text("word " * 399)


WIDE = """
import pyarrow as pa
names = [f"c{i}" for i in range(2000)]
t = session.create_table("wide", sl.Schema({"k": "int"}, {}, dict.fromkeys(names, "int")))
t.ingest(pa.table({"k": range(30), **{name: range(30) for name in names}}))
y = explore(session, "wide")
y
"""


def test_of_2000_columns_those_in_sight_are_there_and_keys_stay(cells):
    opened = cells(SETUP, WIDE)
    grid = opened.page.locator(".sleeper-grid")
    expect(column(grid, 1).first).to_have_text("0")
    grid.locator("tbody td").first.focus()
    opened.press("ArrowDown", "End")
    expect(column(grid, 2001).nth(1)).to_have_text("1")
    expect(head(grid, "c1999").locator(".sleeper-grid-bar-of")).not_to_have_count(0)
    expect(column(grid, 1).nth(1)).to_be_in_viewport()
    assert grid.locator("th").count() < 30
    opened.press("ArrowUp*3", "ArrowUp", "Shift+ArrowRight*5")
    expect(head(grid, "c1999")).to_have_css("width", "220px")


def test_it_fits_700_pixels_and_is_used_by_touch(server, chromium, cells):
    opened = cells(SETUP, EXPLORE)
    opened.page.set_viewport_size({"width": 700, "height": 900})
    grid = grid_of(opened)
    box = grid.bounding_box()
    assert box["width"] <= 700
    touch = opened.page.context.new_cdp_session(opened.page)
    bars = head(grid, "flight").locator(".sleeper-grid-bars")
    expect(bars.locator(".sleeper-grid-bar-of")).not_to_have_count(0)
    at = opened.box_of(bars)
    point = {"x": at["x"] + 3, "y": at["y"] + 10}
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(opened.page.locator(".sleeper-preview")).to_contain_text('WHERE "flight" <=')
    opened.look("grid-700")


def test_what_was_chosen_stays_in_other_versions_and_in_the_saved_picture(cells):
    opened = cells(SETUP, EXPLORE, 'x.rows = x.rows.sorted_by("flight").sorted_by("flight")\nx')
    grid = opened.page.locator(".sleeper-grid").first
    expect(head(grid, "flight")).to_have_attribute("aria-sort", "descending")
    opened.page.get_by_title("Previous version", exact=True).first.click()
    expect(opened.page.locator(".sleeper-version").first).to_contain_text("snapshot 8")
    expect(head(grid, "flight")).to_have_attribute("aria-sort", "descending")
    saved = [each["data"].get("text/html", "") for each in opened.saved()]
    first, again = (each for each in saved if each.startswith(STATIC))
    assert "<svg" in first
    assert "ORDER BY &quot;flight&quot; DESC" in again
