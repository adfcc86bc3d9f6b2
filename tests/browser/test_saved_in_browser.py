"""Notebooks of the project as their readers open them, without a kernel: as HTML of nbconvert, and on a bare page."""

from __future__ import annotations

import html
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest

import sleeper_nb as sl
from tests.browser.conftest import ROOT
from tests.browser.lab import expect
from tests.browser.legible import hard_to_read, nameless
from tests.browser.notebooks import notebook_of

pytestmark = pytest.mark.browser
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
BARE = "<style>body {{ background: {}; color: {}; font: 13px sans-serif }}</style>"
"""What an editor gives to an output that knows none of JupyterLab's colours."""


def outputs(path: Path) -> list[str]:
    """Return the HTML of every answer in a notebook."""
    cells = nbformat.read(path, as_version=4).cells
    bundles = (output.get("data", {}) for cell in cells for output in cell.get("outputs", ()))
    return [bundle["text/html"] for bundle in bundles if "text/html" in bundle]


@pytest.fixture
def opened(chromium, tmp_path):
    """Open a page from a file, and tell which hosts it asked; it reaches none."""
    page = chromium.new_page(viewport={"width": 1000, "height": 1000})
    asked: set[str] = set()

    def refuse(route):
        asked.add(urlsplit(route.request.url).hostname or "")
        route.abort()

    page.route("http*://**", refuse)

    def open_text(text):
        asked.clear()
        (tmp_path / "page.html").write_text(text)
        page.goto((tmp_path / "page.html").as_uri())
        return page, frozenset(asked)

    yield open_text
    page.close()


@pytest.mark.parametrize(("theme", "first"), [("light", 0), ("dark", 1)])
def test_answers_of_a_notebook_are_there_in_html_of_nbconvert_and_fetch_nothing(opened, theme, first):
    nbconvert = pytest.importorskip("nbconvert")
    exporter = nbconvert.HTMLExporter(theme=theme)
    _, of_its_own = opened(exporter.from_notebook_node(nbformat.v4.new_notebook())[0])
    for path in NOTEBOOKS[first::2]:
        page, asked = opened(exporter.from_filename(str(path))[0])
        assert asked == of_its_own, path.name
        answers = page.locator(".jp-RenderedHTML:has(table), .jp-RenderedHTML:has(svg)")
        assert answers.count() >= sum("<svg" in text or "<table" in text for text in outputs(path)) > 0
        for number in range(answers.count()):
            answer = answers.nth(number)
            assert answer.is_visible()
            assert hard_to_read(answer) + nameless(answer) == [], (path.name, number)


@pytest.mark.parametrize(("ground", "ink", "first"), [("#ffffff", "#3b3b3b", 1), ("#1f1f1f", "#cccccc", 0)])
def test_answers_can_be_read_where_nothing_is_known_of_jupyterlab(opened, ground, ink, first):
    for path in NOTEBOOKS[first::2]:
        page, asked = opened(BARE.format(ground, ink) + "".join(f"<section>{text}</section>" for text in outputs(path)))
        assert not asked
        body = page.locator("body")
        assert hard_to_read(body) + nameless(body) == [], path.name


@pytest.fixture
def strangers(tmp_path):
    """Return a notebook that another person has run: its answers were saved, and it is not trusted here."""
    schema = sl.Schema({"city": "string"}, {}, {"fare": "double"})
    with sl.connect(tmp_path / "warehouse") as session:
        table = session.create_table("trips", schema, ["g", "p"])
        table.ingest([{"city": city, "fare": len(city)} for city in ("bern", "oslo", "lisbon", "rome")])
        chart = session.sql("SELECT city, fare FROM trips", engine="duckdb").plot("bar")
        answers = [table.inspect.partitions(), table.inspect.files(), table.history(), table.scan()]
        bundles = [{"text/html": answer._repr_html_()} for answer in answers]
        bundles.append(chart._repr_mimebundle_()[0])
    path = notebook_of(tmp_path / "strangers.ipynb", *["answer"] * len(bundles))
    notebook = nbformat.read(path, as_version=4)
    for cell, bundle in zip(notebook.cells, bundles, strict=True):
        cell.outputs = [nbformat.v4.new_output("display_data", bundle)]
    nbformat.write(notebook, path)
    return path


@pytest.mark.usefixtures("new_page")  # Vega draws with no width what is drawn before the notebook is shown
def test_pictures_of_a_notebook_that_is_not_trusted_are_there_and_their_words_are_not_strewn(lab, strangers, theme):
    opened = lab(strangers)
    opened.set_theme(theme)
    outputs = opened.page.locator(".jp-RenderedHTML")
    expect(outputs).to_have_count(4)
    assert opened.page.locator(".jp-RenderedHTML svg").count() == 0  # JupyterLab takes them away
    for number in range(4):
        output = outputs.nth(number)
        opened.look(f"strangers-{number}", output)
        expect(output.locator("table, img").last).to_be_visible()
        assert "snapshot 1 ·" not in output.inner_text()
    pictures = opened.page.locator(".jp-RenderedHTML img")
    expect(pictures).to_have_count(3)
    for number in range(3):
        expect(pictures.nth(number)).to_be_visible()
        size = pictures.nth(number).evaluate("image => image.complete && image.naturalWidth && image.clientWidth")
        assert size > 600
    expect(opened.page.locator(".jp-RenderedVegaLite canvas")).to_be_visible()  # drawn from the same data, as ever


def test_a_chart_is_a_picture_where_there_is_no_vega(opened, strangers):
    nbconvert = pytest.importorskip("nbconvert")
    page, _ = opened(nbconvert.HTMLExporter().from_filename(str(strangers))[0])
    picture = page.locator(".jp-RenderedImage img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == 1440


def test_each_widget_left_its_picture():
    saved = "".join(text for path in NOTEBOOKS for text in outputs(path))
    assert saved.count('class="sleeper-static"') >= 5
    for words in ("%%sleeper create", "half-year", "Compaction of flights", "files of flights at snapshot 7"):
        assert words in html.unescape(saved)
