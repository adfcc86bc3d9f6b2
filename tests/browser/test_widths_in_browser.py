"""The widgets in JupyterLab in Chromium at ordinary widths: every control is whole, and in its widget."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.browser.explorer_page import TABS, ExplorerPage
from tests.browser.lab import expect
from tests.browser.notebooks import SETUP

pytestmark = pytest.mark.browser
MORE = """
flights.create_savepoint("before-the-bookings-of-the-second-half-of-the-year-were-corrected", snapshot=8)
%load_ext sleeper_nb
%sleeper use $session
"""
CUT = """widget => {
    const edge = widget.getBoundingClientRect().right + 1, cut = [];
    const scrolls = each => each !== widget && /auto|scroll/.test(getComputedStyle(each).overflow);
    const hidden = (control, x, y) => {  // a part of the page that scrolls hides it, which is no fault
        for (let each = control.parentElement; each && each !== widget.parentElement; each = each.parentElement) {
            const box = each.getBoundingClientRect();
            if (scrolls(each) && (x < box.left || x > box.right || y < box.top || y > box.bottom)) return true;
        }
        return false;
    };
    const controls = "button, input, select, textarea, [role=tab], [role=slider]";
    for (const control of widget.querySelectorAll(controls)) {
        const box = control.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
        if (!box.width || !control.checkVisibility({checkVisibilityCSS: true}) || hidden(control, x, y)) continue;
        const name = control.ariaLabel || control.title || control.textContent || control.placeholder || control.type;
        const isText = control.textContent.trim() && control.matches("button:not(:has(.sx-cut)), [role=tab]");
        if (!control.closest(".sx-grid") && box.right > edge) cut.push(name);
        else if (isText && control.scrollWidth > control.clientWidth + 1) cut.push(`${name} is cut`);
        const shown = document.elementFromPoint(x, y);
        const isHandle = control.matches(".sx-time-folded [role=slider]");  // below the pill, but dragged anywhere
        if (shown && !isHandle && !control.contains(shown) && !shown.contains(control)) cut.push(`${name} is covered`);
        const least = Math.min(box.width, box.height);
        if (widget.matches(".sx") && least < 24 && control.matches("button:not(.sx-head-name)"))
            cut.push(`${name} is small: ${box.width} x ${box.height}`);
    }
    return cut;
}"""


def whole(opened, name, widget):
    """Hold that every control of a widget is whole, in its widget, and not covered."""
    from playwright.sync_api import TimeoutError as PageTimeout

    opened.shot(name, widget)
    with suppress(PageTimeout):  # the page is laid out anew for the width, and scrolled
        opened.page.wait_for_function(f"e => !({CUT})(e).length", arg=widget.element_handle(), timeout=10_000)
    assert widget.evaluate(CUT) == [], name
    assert widget.evaluate("e => e.scrollWidth <= e.clientWidth + 1"), name


@pytest.mark.parametrize("width", [700, 1100, 1440])
def test_no_control_is_cut_off(cells, width):
    opened = cells(SETUP, MORE, "%sleeper create visits --form", 'explore(session, "flights")', width=width)
    form = opened.page.locator(".sleeper-live.sleeper-create")
    expect(form).to_be_visible()
    whole(opened, f"create-{width}", form)
    explorer = ExplorerPage.of(opened.page)
    expect(explorer.bars("dep_delay")).to_be_visible()
    for tab in TABS:
        explorer.open(tab)
        expect(explorer.panel.locator("[aria-busy=true]")).to_have_count(0)
        whole(opened, f"explorer-{tab}-{width}", explorer.root)
    explorer.run("SELECT carrier, count(*) AS n FROM flights GROUP BY carrier ORDER BY carrier")
    expect(explorer.cell(1, 1)).to_have_text("AA")
    whole(opened, f"explorer-answer-{width}", explorer.root)
    explorer.button("Compare").click()
    explorer.open("Changes")
    expect(explorer.panel.locator("[aria-busy=true]")).to_have_count(0)
    whole(opened, f"explorer-compared-{width}", explorer.root)
