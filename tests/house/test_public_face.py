"""The faces use what every Python user has; the import contract does not look at imports for annotations, this does."""

from __future__ import annotations

import ast
import importlib
import inspect
import tomllib
from pathlib import Path

import pytest

import sleeper_nb
from docs.python_pages import homes, results
from sleeper_nb import public_types

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
(CONTRACT,) = (each for each in CONTRACTS if each["name"].startswith("the faces use"))


def files_of(module):
    path = ROOT / module.replace(".", "/")
    return sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


FILES = [file for module in CONTRACT["source_modules"] for file in files_of(module)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_a_face_imports_nothing_below_the_public_face_and_touches_no_private_part(file):
    tree = ast.parse(file.read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    below = tuple(CONTRACT["forbidden_modules"])
    assert [name for name in imported if name in below or name.startswith(tuple(f"{each}." for each in below))] == []
    touched = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert touched.isdisjoint({"components", "_components", "store"})


def test_the_contract_has_no_exceptions():
    assert "ignore_imports" not in CONTRACT


@pytest.mark.parametrize("name", public_types.__all__)
def test_a_public_type_is_where_it_is_said_to_be(name):
    (home,) = (module for module, names in public_types._HOMES.items() if name in names.split())
    assert getattr(public_types, name) is getattr(importlib.import_module(f"sleeper_nb.{home}"), name)


def members_without_docstring(cls):
    for name, member in inspect.getmembers(cls):
        is_ours = inspect.isfunction(member) or inspect.ismethod(member) or isinstance(member, property)
        if is_ours and not name.startswith("_") and not inspect.getdoc(member):
            yield name


def test_each_member_of_a_class_in_the_reference_has_a_docstring():
    known = homes()
    classes = sorted(name for name in {*sleeper_nb.__all__, *results()} if name in known)
    found = {
        name: list(members_without_docstring(getattr(importlib.import_module(known[name]), name))) for name in classes
    }
    assert {name: missing for name, missing in found.items() if missing} == {}
