"""The styles of widgets name no class inside JupyterLab: these are not public, and change with its versions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

WIDGETS = Path(__file__).parents[2] / "sleeper_nb" / "widgets"
INSIDE = re.compile(r"\.(?:lm|jp|p)-[A-Za-z][\w-]*")
FILES = [*WIDGETS.rglob("*.py"), *WIDGETS.rglob("*.css"), *WIDGETS.rglob("*.js")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_style_names_no_class_inside_jupyterlab(path):
    assert INSIDE.findall(path.read_text(encoding="utf-8")) == []


def test_classes_inside_jupyterlab_are_found_and_variables_are_not():
    assert INSIDE.findall(".ours > .lm-TabBar-tab { color: var(--jp-ui-font-color1) }") == [".lm-TabBar-tab"]
