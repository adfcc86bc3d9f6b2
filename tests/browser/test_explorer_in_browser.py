"""The explorer in JupyterLab in Chromium: used by mouse and by keyboard, in both themes, saved, and opened again."""

from __future__ import annotations

import pytest

from tests.browser.conftest import ROOT
from tests.browser.notebooks import SETUP, notebook_of

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_the_slider_moved_by_keyboard_changes_the_preview(lab, tmp_path, theme):
    from playwright.sync_api import expect

    opened = lab(notebook_of(tmp_path / "explore.ipynb", SETUP, 'x = explore(session, "flights")\nx'))
    opened.theme(theme)
    opened.run_all(seconds=60)
    page, short = opened.page, theme.rpartition(" ")[2].lower()
    label = page.locator(".sleeper-explorer .sleeper-version")
    preview = page.locator(".sleeper-explorer .sleeper-preview")
    expect(label).to_contain_text("snapshot 9")
    expect(preview).to_contain_text("%sleeper scan flights@9 --limit 20")
    opened.shot(f"explorer-{short}-rows")
    page.locator(".sleeper-explorer .noUi-handle").focus()
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    expect(label).to_contain_text("snapshot 3")
    expect(label).to_contain_text("ingest +2,400 rows · savepoint half-year")
    expect(preview).to_contain_text("flights at snapshot 3")
    page.locator(".sleeper-explorer .lm-TabBar-tab", has_text="Partitions").click()
    expect(preview).to_contain_text("%sleeper partitions flights@3")
    expect(preview.locator("svg[role=img]").first).to_be_visible()
    opened.shot(f"explorer-{short}-partitions")
    page.locator(".sleeper-explorer .lm-TabBar-tab", has_text="Files").click()
    expect(preview).to_contain_text("files of flights at snapshot 3")
    opened.shot(f"explorer-{short}-files")
    page.locator(".sleeper-explorer .lm-TabBar-tab", has_text="History").click()
    expect(preview).to_contain_text("history of flights")
    opened.shot(f"explorer-{short}-history")
    page.locator(".sleeper-tables select").select_option("airports")
    expect(label).to_contain_text("snapshot 1")
    expect(page.locator(".sleeper-explorer .noUi-handle")).to_have_count(0)
    opened.shot(f"explorer-{short}-one-version")
    page.locator(".sleeper-tables select").select_option("flights")
    expect(page.locator(".sleeper-explorer .noUi-handle")).to_have_attribute("aria-valuenow", "8.0")
    assert page.title() != "broken"
    assert opened.hosts == {"127.0.0.1"}


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_everything_is_reached_by_keyboard(lab, tmp_path, theme):
    from playwright.sync_api import expect

    opened = lab(notebook_of(tmp_path / "keys.ipynb", SETUP, 'explore(session, "airports")'))
    opened.theme(theme)
    opened.run_all(seconds=60)
    page, short = opened.page, theme.rpartition(" ")[2].lower()
    explorer, preview = page.locator(".sleeper-explorer"), page.locator(".sleeper-explorer .sleeper-preview")
    expect(explorer.locator(".sleeper-version")).to_contain_text("snapshot 1")
    page.get_by_label("Tables", exact=True).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # Previous, Next
    page.keyboard.press("Enter")
    expect(explorer.locator(".sleeper-version")).to_contain_text("snapshot 9")
    for _ in range(3):  # Refresh, the slider, the tabs
        page.keyboard.press("Tab")
    for title, line in (("Partitions", "%sleeper partitions flights@9"), ("Files", "%sleeper files flights@9")):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(preview).to_contain_text(line)
        expect(explorer.locator(".lm-TabBar-tab.lm-mod-current")).to_have_text(title)
    opened.shot(f"keys-{short}-files")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    for _ in range(3):  # the list, Previous, Next
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(explorer.locator(".sleeper-found")).to_contain_text('%sleeper scan flights@9 --region "carrier=[DL,MQ)"')
    opened.shot(f"keys-{short}-range")
    explorer.locator(".lm-TabBar-tab", has_text="SQL").click()
    page.get_by_label("Query on DuckDB").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("SELECT carrier, count(*) AS n FROM flights GROUP BY 1 ORDER BY carrier = 'UA' DESC")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(preview.locator(".sleeper-sql td").first).to_have_text("UA")
    expect(preview).to_contain_text("7 rows · flights at snapshot 9 · duckdb")
    opened.shot(f"keys-{short}-sql")
    for asked in ("AA", "DL"):  # at once behind the answer before
        page.get_by_label("Query on DuckDB").focus()
        page.keyboard.press("Control+A")
        page.keyboard.type(f"SELECT carrier FROM flights WHERE carrier = '{asked}' LIMIT 1")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(preview.locator(".sleeper-sql td").first).to_have_text(asked)
    assert opened.hosts == {"127.0.0.1"}


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_a_click_into_the_picture_of_partitions_shows_its_rows(lab, tmp_path, theme):
    from playwright.sync_api import expect

    opened = lab(notebook_of(tmp_path / "click.ipynb", SETUP, 'explore(session, "flights")'))
    opened.theme(theme)
    opened.run_all(seconds=60)
    page, short = opened.page, theme.rpartition(" ")[2].lower()
    explorer = page.locator(".sleeper-explorer")
    explorer.locator(".lm-TabBar-tab", has_text="Partitions").click()
    picture = explorer.locator(".sleeper-map svg[role=img]")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + box["height"] - 10)  # the third of four leaves
    expect(explorer.locator(".sleeper-found")).to_contain_text('%sleeper scan flights@9 --region "carrier=[MQ,UA)"')
    expect(explorer.locator(".sleeper-range option:checked")).to_contain_text("carrier [MQ, UA)")
    opened.shot(f"click-{short}")
    assert opened.unexpected() == []


def test_python_moves_the_slider_and_sees_where_it_is(lab, tmp_path):
    from playwright.sync_api import expect

    cells = (SETUP, 'x = explore(session, "flights")\nx', 'x.version = "savepoint.half-year"', "x")
    opened = lab(notebook_of(tmp_path / "python.ipynb", *cells))
    opened.run_all(seconds=60)
    handles = opened.page.locator(".sleeper-explorer .noUi-handle")
    expect(handles).to_have_count(2)
    for i in range(2):
        expect(handles.nth(i)).to_have_attribute("aria-valuenow", "2.0")
    assert opened.unexpected() == []


def test_a_saved_notebook_keeps_a_static_picture(lab, tmp_path):
    from playwright.sync_api import expect

    opened = lab(notebook_of(tmp_path / "saved.ipynb", SETUP, 'explore(session, "flights")'))
    opened.run_all(seconds=60)
    page = opened.page
    expect(page.locator(".sleeper-explorer")).to_be_visible()
    expect(page.locator(".sleeper-static")).to_be_hidden()
    static, live = opened.saved()[-2:]
    assert "<svg" in static["data"]["text/html"]
    assert static["data"]["text/plain"] == "flights at snapshot 9: 12,000 rows, 4 files, 4 partitions"
    assert live["data"]["text/plain"] == "Explorer(table='flights', version=9)"
    opened.stop_kernel()
    page.reload()
    expect(page.locator(".sleeper-static")).to_be_visible()
    opened.shot("explorer-reopened")


def test_notebook_01_runs_in_the_browser(lab):
    from playwright.sync_api import expect

    notebook = ROOT / "notebooks" / "01_first_table.ipynb"
    if not notebook.exists():
        pytest.skip("notebooks/01_first_table.ipynb is not there")
    opened = lab(notebook)
    opened.theme("JupyterLab Light")
    opened.run_all(seconds=240)
    assert opened.unexpected() == []
    page = opened.page
    explorer = page.locator(".sleeper-explorer").last
    label, preview = explorer.locator(".sleeper-version"), explorer.locator(".sleeper-preview")
    explorer.scroll_into_view_if_needed()
    opened.shot("notebook-01")
    before, rows = label.inner_text(), preview.inner_text()
    explorer.locator(".noUi-handle").focus()
    page.keyboard.press("ArrowLeft")
    expect(label).not_to_have_text(before)
    expect(preview).not_to_have_text(rows)
    opened.shot("notebook-01-earlier")
    assert opened.hosts == {"127.0.0.1"}
