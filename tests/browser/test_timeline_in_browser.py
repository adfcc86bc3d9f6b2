"""The timeline in JupyterLab in Chromium: handles, views, plans and copies by keyboard and by mouse, in both themes."""

from __future__ import annotations

import nbformat
import pytest
from sleeper_nb.widgets.timeline_widget import Timeline

import sleeper_nb as sl
from sleeper_nb.widgets.live import static_bundle
from tests.browser.lab import expect
from tests.browser.notebooks import SETUP, notebook_of

pytestmark = pytest.mark.browser
TIMELINE = 'x = timeline(session, "flights")\nx'
BAD_LOAD = """
flights.update({"dep_delay": "-dep_delay", "note": "'<b>wrong</b>'"}, "carrier = 'UA' AND flight < 180")
flights.delete("flight = 110")
flights.ingest([{"carrier": "ZZ", "flight": i, "origin": "LGA", "dep_delay": 9000.0 + i, "note": None}
                for i in range(800)])
x = timeline(session, "flights")
x.before = 9
x
"""


def test_two_handles_compare_two_versions(in_theme):
    opened = in_theme(SETUP, TIMELINE)
    line = opened.page.locator(".sleeper-timeline")
    label, difference = line.locator(".sleeper-version"), line.locator(".sleeper-difference")
    expect(label).to_contain_text("snapshot 8")
    expect(label).to_contain_text("→ snapshot 9")
    handles = line.locator(".noUi-handle")
    expect(handles).to_have_count(2)
    handles.nth(0).focus()
    opened.press("ArrowLeft*5")
    expect(difference).to_contain_text("%sleeper diff flights 3 9")
    handles.nth(1).focus()
    opened.press("ArrowLeft")
    expect(difference).to_contain_text("%sleeper diff flights 3 8")
    expect(difference).to_contain_text("first 200 of 8,400 rows that differ")
    opened.look("timeline")
    expect(opened.page.locator(".sleeper-static")).to_be_hidden()
    width = line.locator(".noUi-base").bounding_box()["width"]
    handles.nth(0).drag_to(line.locator(".noUi-base"), target_position={"x": width * 3 / 8, "y": 1})
    expect(difference).to_contain_text("%sleeper diff flights 4 8")
    for title, compared in (
        ("Previous version on the left", "3 8"),
        ("Next version on the left", "4 8"),
        ("Next version on the right", "4 9"),
        ("Previous version on the right", "4 8"),
    ):
        line.get_by_title(title).click()
        expect(difference).to_contain_text(f"%sleeper diff flights {compared}")
    handles.nth(1).focus()
    opened.press("Tab", "Enter")
    expect(difference).to_contain_text("%sleeper diff flights 3 8")
    opened.press("Tab*3", "Enter")
    expect(difference).to_contain_text("%sleeper diff flights 3 9")


def test_a_bad_load_is_seen_and_rolled_back_by_mouse(in_theme):
    opened = in_theme(SETUP, BAD_LOAD)
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    line = opened.page.locator(".sleeper-timeline")
    difference, plan = line.locator(".sleeper-difference"), line.locator(".sleeper-plan")
    expect(difference).to_contain_text("+800 added")
    opened.look("timeline-bad-load")
    difference.get_by_role("button", name="changed 23").click()
    expect(difference.locator("ins").first).to_be_visible()
    expect(difference.locator("ins").nth(1)).to_have_text("<b>wrong</b>")
    opened.look("timeline-changed")
    difference.get_by_role("button", name="Columns", exact=True).click()
    expect(difference.locator("svg[role=img]")).to_have_count(5)
    opened.look("timeline-columns")
    difference.get_by_role("button", name="Files and partitions").click()
    expect(difference).to_contain_text("with other files, of 4")
    opened.look("timeline-files")
    difference.get_by_role("button", name="Copy").click()
    expect(difference.get_by_text("copied")).to_be_visible()
    assert opened.page.evaluate("navigator.clipboard.readText()") == "%sleeper diff flights 9 12"
    line.get_by_role("button", name="Roll back…").click()
    expect(plan).to_contain_text("would roll back to snapshot 9")
    expect(plan).to_contain_text("%sleeper rollback flights 9")
    opened.look("timeline-plan")
    plan.get_by_role("button", name="Roll back to snapshot 9").click()
    expect(line).to_contain_text("snapshot 13: rolled back to snapshot 9")
    expect(line.locator(".sleeper-version")).to_contain_text("→ snapshot 13")
    expect(difference).to_contain_text("%sleeper diff flights 12 13")
    expect(difference).to_contain_text("−800 removed")
    opened.look("timeline-rolled-back")


def test_a_savepoint_is_made_by_keyboard(in_theme):
    opened = in_theme(SETUP, TIMELINE)
    line = opened.page.locator(".sleeper-timeline")
    plan, before = line.locator(".sleeper-plan"), opened.page.locator(".jp-CodeCell").count()
    expect(line.locator(".sleeper-difference")).to_contain_text("no row differs")
    line.get_by_role("button", name="Refresh").focus()
    opened.press("Tab*2", "Enter")
    expect(plan).to_contain_text("would pin snapshot 9: 12,000 rows")
    opened.press("Tab*2", "Enter")  # the other version
    expect(plan).to_contain_text("would pin snapshot 8: 12,000 rows")
    opened.press("Tab")
    opened.page.keyboard.type("good")
    expect(plan).to_contain_text("%sleeper create-savepoint flights@8 --name good")
    expect(plan.get_by_role("button", name="Create savepoint good")).to_be_visible()
    opened.look("timeline-savepoint")
    opened.press("Tab*2", "Enter")  # Copy, then the button
    expect(line).to_contain_text("savepoint good pins snapshot 8")
    expect(line.locator(".sleeper-version")).to_contain_text("savepoint good")
    assert opened.page.locator(".jp-CodeCell").count() == before


def test_views_are_opened_by_keyboard(in_theme):
    opened = in_theme(SETUP, BAD_LOAD)
    difference = opened.page.locator(".sleeper-timeline .sleeper-difference")
    expect(difference).to_contain_text("+800 added")
    difference.get_by_role("button", name="Copy").focus()
    opened.press("Tab*2", "Enter")
    expect(difference.locator("svg[role=img]")).to_have_count(5)
    opened.press("Tab", "Enter")
    expect(difference).to_contain_text("with other files, of 4")
    opened.press("Shift+Tab*2", "Enter")
    expect(difference).to_contain_text("first 200 of")
    opened.press("Tab*5", "Enter")
    expect(difference).to_contain_text("removed row")


def test_it_fits_700_pixels(cells):
    opened = cells(SETUP, BAD_LOAD)
    opened.page.set_viewport_size({"width": 700, "height": 1000})
    line = opened.page.locator(".sleeper-timeline")
    difference = line.locator(".sleeper-difference")
    expect(difference).to_contain_text("+800 added")
    for view in ("Changed rows", "Columns", "Files and partitions"):
        difference.get_by_role("button", name=view).click()
        expect(difference.locator("table").first).to_be_visible()
        opened.look(f"timeline-700-{view.split()[0].lower()}")
        assert line.evaluate("e => e.scrollWidth <= e.clientWidth + 1"), view
    line.get_by_role("button", name="Create savepoint…").click()
    expect(line.locator(".sleeper-plan")).to_contain_text("would pin")
    opened.look("timeline-700-plan")
    assert line.evaluate("e => e.scrollWidth <= e.clientWidth + 1")


def test_what_is_saved_shows_the_change(cells):
    opened = cells(SETUP, BAD_LOAD)
    expect(opened.page.locator(".sleeper-difference")).to_contain_text("+800 added")
    saved = [each["data"].get("text/html", "") for each in opened.saved()]
    (kept,) = (each for each in saved if each.startswith('<div class="sleeper-static">'))
    assert "first 20 of" in kept
    assert "distinct values" in kept
    assert "&lt;b&gt;wrong" in kept


def test_in_a_notebook_that_is_not_trusted_the_change_is_read_without_colours_and_pictures(lab, tmp_path, theme):
    schema = sl.Schema({"k": "int"}, values={"fare": "double", "note": "string?"})
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("fares", schema)
        table.ingest([{"k": k, "fare": k / 2} for k in range(40)])
        table.update({"fare": "-fare"}, "k = 3")
        table.ingest([{"k": 100, "fare": 9000.0, "note": "<b>wrong</b>"}])
        widget = Timeline(session, "fares", background=lambda work: work())
        widget.before = 2
        bundle = static_bundle(widget._static())
    path = notebook_of(tmp_path / "strangers.ipynb", "answer")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].outputs = [nbformat.v4.new_output("display_data", bundle)]
    nbformat.write(notebook, path)
    opened = lab(path)
    opened.set_theme(theme)
    kept = opened.page.locator(".sleeper-static")
    expect(kept).to_contain_text("+ added")
    expect(kept).to_contain_text("1.5 → -1.5")
    expect(kept).to_contain_text("<b>wrong</b>")
    expect(kept).to_contain_text("distinct values")
    assert kept.locator("svg").count() == 0
    opened.look("timeline-strangers", kept)
