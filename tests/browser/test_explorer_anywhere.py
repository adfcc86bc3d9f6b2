"""The explorer on a page without a notebook, as VS Code and Colab have it, in Chromium and Firefox."""

from __future__ import annotations

import pytest

from sleeper_nb.widgets import explore
from tests.browser.bare_host import BareHost, Dress
from tests.browser.explorer_page import TABS, ExplorerPage, accessible
from tests.browser.firefox import started
from tests.browser.lab import LONGEST_WAIT, expect, keep_shot
from tests.browser.legible import hard_to_read, nameless
from tests.browser.notebooks import SETUP

pytestmark = pytest.mark.browser
THEMES = ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast", "")
ASKED = "() => asked.filter(each => each.do !== 'cancel').map(each => each.do)"


@pytest.fixture(scope="module")
def session():
    """Return the session of the notebooks of these tests, in this process."""
    names = {}
    exec(SETUP, names)  # noqa: S102
    yield names["session"]
    names["session"].close()


@pytest.fixture
def shown(session, chromium):
    """Show an explorer in Chromium; at the end, nothing was evaluated, and no error was logged."""
    opened = []

    def show(theme="", *, width=1200, **options):
        host = BareHost(explore(session, "flights"), Dress.of(theme) if theme else Dress())
        page = chromium.new_page(viewport={"width": width, "height": 900}, **options)
        page.set_default_timeout(LONGEST_WAIT)
        errors = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        opened.append((host, page, errors))  # first: what it logs says why it was not drawn
        page.goto(host.url)
        explorer = ExplorerPage.of(page)
        expect(explorer.shown).to_contain_text("of 12,000")
        return explorer

    yield show
    for host, page, errors in opened:
        page.close()
        host.close()
        host.widget.close()
        assert errors == []


def test_it_needs_nothing_but_the_contract_of_anywidget_and_leaves_nothing_behind(shown):
    explorer = shown()
    explorer.open("SQL")
    explorer.run("SELECT count(*) AS n FROM flights")
    expect(explorer.cell(1, 1)).to_have_text("12,000")
    explorer.page.evaluate("unmount()")
    expect(explorer.page.locator("#host")).to_be_empty()


@pytest.mark.parametrize("theme", THEMES)
def test_every_tab_can_be_read_and_used_by_everybody(shown, theme):
    explorer = shown(theme)
    for tab in TABS:
        explorer.open(tab)
        expect(explorer.panel.locator("[aria-busy=true]")).to_have_count(0)
        keep_shot(explorer.page, f"anywhere-{tab}-{theme or 'bare'}")
        accessible(explorer.root)
        assert hard_to_read(explorer.root) + nameless(explorer.root) == [], tab


@pytest.mark.parametrize(("theme", "scheme"), [("JupyterLab Light", "light"), ("JupyterLab Dark", "dark")])
def test_in_forced_colours_every_tab_is_there(shown, theme, scheme):
    explorer = shown(theme, forced_colors="active", color_scheme=scheme)
    for tab in TABS:
        explorer.open(tab)
        expect(explorer.panel.locator("[aria-busy=true]")).to_have_count(0)
        if tab == "Rows":
            expect(explorer.bars("dep_delay")).to_be_visible()
        keep_shot(explorer.page, f"forced-{tab}-{scheme}")
    explorer.tab("SQL").focus()
    explorer.page.keyboard.press("Home")
    expect(explorer.tab("Rows")).not_to_have_css("outline-style", "none")


def test_a_click_asks_at_most_two_things_and_a_drag_over_bars_asks_once(shown):
    explorer = shown()
    expect(explorer.bars("dep_delay")).to_be_visible()

    def asked_by(what, done):
        explorer.page.evaluate("() => { asked.length = 0; }")
        what()
        done()
        return explorer.page.evaluate(ASKED)

    def brushed():
        expect(explorer.where).to_contain_text('"dep_delay"')
        expect(explorer.shown).to_contain_text("(12,000 in all)")

    asked = asked_by(lambda: explorer.brush("dep_delay", 0.1, 0.6), brushed)
    assert sorted(asked) in (["cube", "headers", "rows"], ["cube", "headers", "rows", "rows"])
    asked = asked_by(lambda: explorer.brush("dep_delay", 0.1, 0.3), brushed)
    assert "cube" not in asked
    explorer.button("Remove the filter of dep_delay").click()
    expect(explorer.where).to_have_text("")
    for tab in TABS[1:]:
        asked = asked_by(
            lambda tab=tab: explorer.open(tab),
            lambda: expect(explorer.panel.locator("[aria-busy=true]")).to_have_count(0),
        )
        assert len(asked) <= 2, f"{tab}: {asked}"


def test_while_a_handle_moves_only_the_last_version_is_read(shown):
    explorer = shown()
    explorer.page.evaluate("() => { asked.length = 0; }")
    explorer.travel_by_mouse(3)
    expect(explorer.shown).to_contain_text("of 3,600")
    asked = explorer.page.evaluate("() => asked.filter(each => each.do === 'rows').map(each => each.version)")
    assert set(asked) == {3}


def test_nothing_moves_where_the_system_asks_for_that(shown):
    explorer = shown(reduced_motion="reduce")
    moving = """root => [root, ...root.querySelectorAll("*")].filter(each => {
        const style = getComputedStyle(each);
        const seconds = text => Math.max(...text.split(",").map(parseFloat));
        return (style.animationName !== "none" && seconds(style.animationDuration) > 0.01)
            || seconds(style.transitionDuration) > 0.01;
    }).map(each => each.className)"""
    for tab in TABS:
        explorer.open(tab)
        assert explorer.root.evaluate(moving) == [], tab


def test_it_works_in_firefox(session, tmp_path):
    widget = explore(session, "flights")
    host = BareHost(widget, Dress.of("JupyterLab Light"))
    tab = "[...document.querySelectorAll('[role=tab]')].find(each => each.textContent === '{}')"
    shown = "document.querySelector('.sx-rows-shown')?.textContent"
    try:
        with started(tmp_path) as firefox:
            firefox.open(host.url, 1200, 900)
            firefox.until(f"{shown}.includes('of 12,000')")
            keep_shot(firefox, "firefox-rows")
            firefox.click("document.querySelector('[role=slider][aria-label=Version]')")
            firefox.press(*["ArrowLeft"] * 6)
            firefox.until(f"{shown}.includes('of 3,600')")
            for name in TABS:
                firefox.click(tab.format(name))
                firefox.until(f"{tab.format(name)}.ariaSelected === 'true'")
                firefox.until("document.querySelectorAll('[role=tabpanel] [aria-busy=true]').length === 0")
                keep_shot(firefox, f"firefox-{name}")
            firefox.click("document.querySelector('.cm-content')")
            firefox.press("Control+a", *"SELECT 7 AS n", "Control+Enter")
            firefox.until("document.querySelector('[role=grid] [aria-rowindex=\"2\"]')?.textContent.includes('7')")
            keep_shot(firefox, "firefox-answer")
            assert firefox.errors == []
    finally:
        host.close()
        widget.close()
