"""The site has a page or an anchor for everything, leads nowhere else, and loads nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest

import sleeper_nb
from docs import python_pages
from docs.__main__ import main
from docs.checks import problems
from docs.markdown import code_blocks, promoted, relinked, sections, slug, with_blocks
from docs.pages import LostLinkError, built, drawn_by_mermaid
from sleeper_nb.commands import COMMANDS
from sleeper_nb.demo import DemoReport
from sleeper_nb.model.properties import INSTANCE_PROPERTIES, PROPERTIES

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FOLDERS_WITH_DOCUMENTS = ("", "benchmarks", "tests", "docs", "docs/decisions", "notebooks")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def documents():
    """The documents of the repository, by their paths in it."""
    return [path.relative_to(ROOT).as_posix() for name in FOLDERS_WITH_DOCUMENTS for path in (ROOT / name).glob("*.md")]


@pytest.fixture(scope="module")
def site():
    """All pages, as `python -m docs` gives them to Sphinx, but for what diagrams look like."""
    return built(draw=drawn_plainly)


def drawn_plainly(source, theme):
    """A picture with the text of a diagram, for machines without the extra `docs`."""
    return f"<svg><title>{theme}</title><text>{source}</text></svg>"


def page(site, name):
    (found,) = (page for page in site.pages if page.name == name)
    return found.text


@pytest.fixture
def repository(tmp_path):
    """A copy of what the pages are made from."""
    for document in documents():
        (tmp_path / document).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / document, tmp_path / document)
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", dirs_exist_ok=True)
    shutil.copy(ROOT / "LICENSE", tmp_path)
    return tmp_path


def test_each_document_is_on_a_page_with_all_its_headings(site):
    for source in documents():
        text = "\n".join(page.text for page in site.pages if page.source == source)
        prose = with_blocks((ROOT / source).read_text(), lambda *_: "")
        assert [title for title in HEADING.findall(prose) if title not in HEADING.findall(text)] == [], source


def test_each_command_has_a_heading_with_its_usage(site):
    commands = "\n".join(page.text for page in site.pages if page.name.startswith("reference/commands-"))
    assert [one.name for one in COMMANDS.commands if f"\n## {one.name}\n" not in commands] == []


def test_each_property_is_a_definition_with_its_effect(site):
    text = page(site, "reference/properties")
    assert not re.search(r"^\|", text, re.MULTILINE), "a table of properties was left"
    for known in (*PROPERTIES.values(), *INSTANCE_PROPERTIES.values()):
        body = text.split(f"~~~{{std:property}} {known.name}\n")[1].split("~~~")[0]
        assert all(part in body for part in (known.effect, known.kind, known.default)), known.name


def test_each_public_name_and_what_its_methods_return_has_one_place(site):
    text = "\n".join(page.text for page in site.pages if page.kind == "rst")
    places = re.findall(r"^\.\. auto(?:class|function):: sleeper_nb(?:\.[a-z_]+)*\.(\w+)$", text, re.MULTILINE)
    assert sorted(places) == sorted({*sleeper_nb.__all__, *python_pages.results(), "Report", "Tabular", "TableReport"})
    assert python_pages.results() >= {"Table", "Scan", "Changes", "QueryResult", "CompactionReport", "MergeBuilder"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_notebook_is_a_page_with_its_texts_code_and_outputs(site, path):
    text = page(site, f"notebooks/{path.stem}")
    for cell in nbformat.read(path, as_version=4).cells:
        assert cell.source.strip() in text
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if not any(kind in data for kind in ("application/vnd.jupyter.widget-view+json", "image/png")):
                assert data.get("text/html", data.get("text/plain", "")).strip() in text
    assert all(f"notebooks/{name}" in site.files for name in re.findall(r"\]\(([^)]+\.png)\)", text))
    assert "image/png" not in path.read_text() or f"{path.stem}_files" in text


def test_one_day_is_the_first_notebook_of_the_site_the_readme_and_the_demo(site):
    assert next(page.name for page in site.pages if page.name.startswith("notebooks/")) == "notebooks/07_one_day"
    linked = re.findall(r"notebooks/(\w+)\.ipynb", (ROOT / "README.md").read_text())
    assert linked[0] == "07_one_day"
    done = DemoReport("warehouse", "demo", (), 12, 1, 0, 1.0)
    assert done.grid().footer.endswith("notebooks/07_one_day.ipynb")


def test_diagrams_are_a_light_and_a_dark_picture(site):
    (diagram,) = (body for kind, body in code_blocks((ROOT / "ARCHITECTURE.md").read_text()) if kind == "mermaid")
    text = page(site, "architecture")
    assert "mermaid" not in {kind for kind, _ in code_blocks(text)}
    for shade, theme in (("light", "default"), ("dark", "dark")):
        name = f"diagrams/architecture-1-{shade}.svg"
        assert f"{name}\n:class: only-{shade}\n" in text
        assert site.files[name].decode() == drawn_plainly(diagram, theme)


def test_mermaid_draws_all_words_without_a_script():
    pytest.importorskip("mermaidx", reason='pip install -e ".[docs]"')
    picture = drawn_by_mermaid('flowchart TD\n  a["the first box"] --> b["another one"]\n', "dark")
    assert picture.startswith("<svg")
    assert "<script" not in picture
    assert {"the", "first", "box", "another", "one"} <= set(re.findall(r"\w+", picture))


def test_the_navigation_has_every_page_once_and_the_index_of_decisions_each_decision(site):
    blocks = code_blocks(page(site, "index"))
    listed = [name for kind, body in blocks if kind == "{toctree}" for name in body.split()]
    names = [name.removeprefix("/") for name in listed if name.startswith("/")]
    names += [f"decisions/{name}" for name in re.findall(r"\((\d{4}-[\w-]+)\.md\)", page(site, "decisions/index"))]
    others = {page.name for page in site.pages} - {"index"}
    assert others <= set(names)
    assert [name for name in others if names.count(name) != 1] == []


def test_a_link_to_what_the_site_lacks_stops_the_build(repository):
    with (repository / "COMPARISON.md").open("a") as document:
        document.write("\n[lost](tests/nowhere.py)\n")
    with pytest.raises(LostLinkError, match=r"COMPARISON.md links to tests/nowhere.py"):
        built(repository, drawn_plainly)


def test_links_lead_from_page_to_page(site):
    assert "](tour.md)" in page(site, "index")
    assert "](reference/types.md)" in page(site, "tour")
    assert "](contributing.md#map-of-the-code)" in page(site, "architecture")
    assert "](notebooks/images/timeline.png)" in page(site, "index")
    assert "notebooks/images/timeline.png" in site.files
    assert "](reference/casts.md#casts)" in page(site, "faq")


def test_links_of_notebooks_lead_to_pages_too(repository):
    path = repository / "notebooks" / NOTEBOOKS[0].name
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_markdown_cell("[next](02_time_travel.ipynb) and [why](../docs/types.md)"))
    nbformat.write(notebook, path)
    text = page(built(repository, drawn_plainly), f"notebooks/{path.stem}")
    assert "[next](02_time_travel.md) and [why](../reference/types.md)" in text


MARKDOWN = """# Title
Before, with `[code](no link)`.

## First part
[a](one.md) and [`b`](two.md#x) and ![p](p.png)
````text
## no heading
```
[c](no-link.md)
````
### Below
~~~{raw} html
# none
~~~
## Second
```x``` is no fence.
"""


def test_documents_are_cut_at_headings_outside_of_code():
    first, (one, two) = sections(MARKDOWN)
    assert (first.title, one.title, two.title) == ("Title", "First part", "Second")
    assert one.anchors == ("first-part", "below")
    assert "\n## Below\n" in promoted(one)
    assert "\n## no heading\n" in promoted(one)
    assert "\n# none\n" in promoted(one)


def test_only_links_outside_of_code_are_replaced():
    targets = []
    text = relinked(MARKDOWN, lambda target: targets.append(target) or f"<{target}>")
    assert targets == ["one.md", "two.md#x", "p.png"]
    assert "[`b`](<two.md#x>)" in text
    assert "`[code](no link)`" in text
    assert "[c](no-link.md)" in text


def test_blocks_are_found_with_their_languages():
    assert list(code_blocks(MARKDOWN)) == [("text", "## no heading\n```\n[c](no-link.md)\n"), ("{raw}", "# none\n")]
    assert slug("What `$x` costs: 1 GiB?") == "what-x-costs-1-gib"


GOOD = """<html><link rel="stylesheet" href="a.css"><a href="https://example.org">out</a><a href="b.html#there">in</a>
<a href="#here">up</a><p id="here"></p><img src="data:image/png;base64,aaaa"></html>"""


@pytest.fixture
def pages(tmp_path):
    (tmp_path / "a.html").write_text(GOOD)
    (tmp_path / "a.css").write_text("p { background: url(data:image/png;base64,aaaa) }")
    (tmp_path / "b.html").write_text('<p id="there"></p>')
    return tmp_path


def test_a_site_that_is_whole_has_no_problem(pages):
    assert problems(pages) == []


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.html", '<a href="c.html">', "a.html: a link to c.html, which is no file of the site"),
        ("a.html", '<a href="b.html#x">', "a.html: a link to b.html#x, but b.html has no such anchor"),
        ("a.html", '<a href="#x">', "a.html: a link to #x, but a.html has no such anchor"),
        ("a.html", '<script src="https://cdn/x.js">', "a.html: it loads https://cdn/x.js from the network"),
        ("a.html", '<script src="//cdn/x.js">', "a.html: it loads //cdn/x.js from the network"),
        ("a.html", '<link rel="preload icon" href="http://x/i">', "a.html: it loads http://x/i from the network"),
        ("a.html", "<style>@import 'https://x/f.css';</style>", "a.html: it loads https://x/f.css from the network"),
        ("a.html", '<p style="background: url(https://x/p)">', "a.html: it loads https://x/p from the network"),
        ("a.html", '<img src="gone.png">', "a.html: it loads gone.png, which is no file of the site"),
        ("a.css", 'a { src: url("https://x/f.woff") }', "a.css: it loads https://x/f.woff from the network"),
    ],
)
def test_what_is_wrong_with_a_site_is_found(pages, name, content, problem):
    with (pages / name).open("a") as file:
        file.write(content)
    assert problems(pages) == [problem]


def test_without_the_extra_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sphinx", None)
    assert main([]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "the site needs sphinx, which is not installed",
        'hint: pip install -e ".[docs]"',
    ]


def test_ci_builds_the_site_with_the_command_that_contributors_read():
    assert "$python -m docs\n" in (ROOT / ".ci" / "run").read_text()
    assert "python -m docs" in (ROOT / "CONTRIBUTING.md").read_text()
