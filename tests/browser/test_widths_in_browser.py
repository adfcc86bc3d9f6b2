"""The widgets in JupyterLab in Chromium at ordinary widths: every control is whole, and in its widget."""

from __future__ import annotations

from contextlib import suppress

import pytest

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
    for (const control of widget.querySelectorAll("button, input, select, textarea, .lm-TabBar-tab")) {
        const box = control.getBoundingClientRect();
        if (!box.width || control.closest(".sleeper-leaves")) continue;
        const name = control.title || control.textContent || control.placeholder || control.type;
        if (box.right > edge || control.scrollWidth > control.clientWidth + 1) cut.push(name);
        const shown = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
        if (shown && !control.contains(shown) && !shown.contains(control)) cut.push(`${name} is covered`);
    }
    for (const tab of widget.querySelectorAll(".lm-TabBar-tabLabel"))
        if (tab.scrollWidth > tab.clientWidth + 1) cut.push(tab.textContent);
    return cut;
}"""


@pytest.mark.parametrize("width", [700, 1100])
def test_no_control_is_cut_off(cells, width):
    from playwright.sync_api import TimeoutError as PageTimeout

    opened = cells(
        SETUP,
        MORE,
        'explore(session, "flights")',
        'timeline(session, "flights")',
        "%sleeper create visits --form",
        "%sleeper sql --interactive --engine duckdb SELECT * FROM flights",
    )
    opened.page.set_viewport_size({"width": width, "height": 1000})
    for name in ("explorer", "timeline", "create", "pager"):
        widget = opened.page.locator(f".sleeper-live.sleeper-{name}")
        expect(widget).to_be_visible()
        widget.evaluate('e => e.scrollIntoView({block: "start"})')
        opened.shot(f"{name}-{width}", widget)
        with suppress(PageTimeout):  # the page is laid out anew for the width, and scrolled
            opened.page.wait_for_function(f"e => !({CUT})(e).length", arg=widget.element_handle(), timeout=10_000)
        assert widget.evaluate(CUT) == [], name
