"""A chart in JupyterLab in Chromium: it is drawn without a network, has tooltips, and can be zoomed."""

from __future__ import annotations

import pytest

from sleeper_nb.display.chart import VEGA_LITE
from tests.browser.lab import expect
from tests.browser.notebooks import SETUP

pytestmark = pytest.mark.browser
MAGICS = "%load_ext sleeper_nb\n%sleeper use $session"
BARS = "%sleeper sql --engine duckdb --plot bar SELECT carrier, count(*) AS n FROM flights GROUP BY carrier ORDER BY 1"
LINE = "%sleeper sql --engine duckdb --plot line SELECT * FROM (VALUES (0, 2), (1, 1), (2, 2)) t(n, v)"
HIST = "%sleeper sql --engine duckdb --plot hist SELECT range AS v FROM range(1000)"
INK = """canvas => {  // how many of its pixels are not those of its corner
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let found = 0;
    for (let i = 0; i < data.length; i += 4)
        found += [0, 1, 2, 3].some(part => data[i + part] !== data[part]);
    return found;
}"""


@pytest.mark.parametrize("line", [BARS, LINE, HIST], ids=["bar", "line", "hist"])
def test_a_chart_is_drawn_with_tooltips_and_nobody_is_asked(in_theme, line):
    opened = in_theme(SETUP, MAGICS, line)
    canvas = opened.page.locator(".jp-RenderedVegaLite canvas")
    expect(canvas).to_be_visible()
    opened.shot(f"chart-{line.split()[5]}", canvas)
    assert canvas.evaluate(INK) > 2000
    box = opened.box_of(canvas)
    before = canvas.evaluate("canvas => canvas.toDataURL()")
    tip = opened.page.locator("#vg-tooltip-element.visible")
    rows = range(46, 56) if line == LINE else (80,)  # around the middle point of the line; near the foot of the bars
    for down, across in ((y, x / 10) for y in rows for x in range(490, 550, 5)):
        opened.page.mouse.move(box["x"] + box["width"] * across / 100, box["y"] + box["height"] * down / 100)
        opened.page.wait_for_timeout(30)
        if tip.count():
            break
    expect(tip).to_be_visible()
    if line != BARS:
        opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        opened.page.mouse.wheel(0, -400)
        opened.page.wait_for_timeout(500)
        assert canvas.evaluate("canvas => canvas.toDataURL()") != before


def test_a_saved_chart_has_its_picture_and_is_not_changed_by_the_page(cells):
    opened = cells(SETUP, MAGICS, BARS)
    expect(opened.page.locator(".jp-RenderedVegaLite canvas")).to_be_visible()
    output = opened.saved()[-1]
    assert set(output["data"]) == {VEGA_LITE, "image/png", "text/plain"}
    assert output["metadata"]["image/png"] == {"width": 720, "height": 300}


WIDTHS = "canvas => [canvas.clientWidth, canvas.closest('.jp-RenderedVegaLite').clientWidth, canvas.clientHeight]"


@pytest.mark.parametrize("width", [700, 1440])
def test_a_chart_is_as_wide_as_its_cell(in_theme, width):
    opened = in_theme(SETUP, MAGICS, BARS, "_.properties(width=400)", width=width)
    for number, line in enumerate((BARS, "narrow")):
        canvas = opened.output(2 + number).locator("canvas")
        expect(canvas).to_be_visible()
        opened.shot(f"chart-{line.split()[0].strip('%')}-{width}", canvas)
        drawn, cell, height = canvas.evaluate(WIDTHS)
        assert height >= 295
        assert (cell - 45 <= drawn <= cell) if line == BARS else drawn <= 400
