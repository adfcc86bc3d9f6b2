"""The documents for newcomers agree with the tree: the map of the code, the layers, the markers and the links."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md")


def packages():
    """Return every folder of the code that has Python files, as the map writes it."""
    files = [*ROOT.glob("sleeper_nb/**/*.py"), *ROOT.glob("magics/**/*.py")]
    return {f"{file.parent.relative_to(ROOT).as_posix()}/" for file in files}


def root_modules():
    return {f"sleeper_nb/{file.name}" for file in ROOT.glob("sleeper_nb/*.py") if file.name != "__init__.py"}


def test_the_map_names_every_folder_and_root_module_and_nothing_else():
    section = (ROOT / "CONTRIBUTING.md").read_text().split("### Map of the code\n")[1].split("```")[1]
    entries = [line.split(maxsplit=1) for line in section.strip().splitlines()]
    assert all(len(entry) == 2 for entry in entries), "each entry has one line that says what is there"
    names = [name for name, _ in entries]
    assert sorted(names) == sorted(packages() | root_modules())


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


def test_the_architecture_is_one_click_from_the_readme():
    assert "](ARCHITECTURE.md)" in (ROOT / "README.md").read_text()
