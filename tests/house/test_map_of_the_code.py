"""The documents for newcomers agree with the tree: the map of the code, the layers, the markers and the links."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCUMENTS = ("README.md", "COMPARISON.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md")


def folders_and_root_modules():
    """Return every folder of the code with Python files, and every module at the root of the package."""
    files = [*ROOT.glob("sleeper_nb/**/*.py"), *ROOT.glob("magics/**/*.py")]
    modules = [file.with_suffix("") for file in ROOT.glob("sleeper_nb/*.py") if file.name != "__init__.py"]
    return {path.relative_to(ROOT).as_posix() for path in (*(file.parent for file in files), *modules)}


def test_the_map_names_every_folder_and_root_module_and_nothing_else():
    section = (ROOT / "CONTRIBUTING.md").read_text().split("### Map of the code\n")[1].split("```")[1]
    entries = [line.split(maxsplit=1) for line in section.strip().splitlines()]
    assert [entry for entry in entries if len(entry) != 2] == [], "each entry says what is there"
    assert sorted(name for name, _ in entries) == sorted(folders_and_root_modules())


def test_the_layers_of_the_architecture_page_are_those_of_the_import_contract():
    rows = re.findall(r"^\| \d+ \| (.+?) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    layers = PYPROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    assert [re.findall(r"`(\w+)`", row) for row in rows] == [
        [name.strip().removeprefix("sleeper_nb.") for name in layer.split("|")] for layer in layers
    ]


def test_the_drawing_has_every_folder_and_module_of_the_import_contract():
    drawing = (ROOT / "ARCHITECTURE.md").read_text().split("```mermaid\n")[1].split("```")[0]
    layers = PYPROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    names = {name.strip().rpartition(".")[2] for layer in layers for name in layer.split("|")}
    assert names <= set(re.findall(r"\w+", drawing))


def test_every_file_that_the_architecture_page_names_is_there():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    files = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("sleeper_nb/**/*.py")}
    named = re.findall(r"`([\w/]+\.py)`", text)
    assert [name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)] == []


def test_each_marker_is_explained_to_contributors():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    markers = [line.partition(":")[0] for line in PYPROJECT["tool"]["pytest"]["ini_options"]["markers"]]
    assert [marker for marker in markers if f"| `{marker}` |" not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_files_that_are_there(document):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / document).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_into_a_document_lead_to_one_of_its_headings(document):
    links = re.findall(r"\]\(([^)#:]*)#([^)]*)\)", (ROOT / document).read_text())
    lost = [link for link in links if link[1] not in headings((ROOT / document).parent / (link[0] or document))]
    assert lost == []


def headings(path):
    """Return the headings of a document as links name them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "COMPARISON.md"])
def test_the_readme_leads_to_the_other_documents_in_one_click(document):
    assert f"]({document})" in (ROOT / "README.md").read_text()
