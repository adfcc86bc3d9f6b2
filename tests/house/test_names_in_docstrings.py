"""Dotted names and paths of modules in backticks in docstrings exist: in this package, or in an installed one."""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"(?<![`.])`([\w/]+\.py|[A-Za-z_]\w*(?:\.\w+)+)`(?!`)")
WITH_BODY = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def trees():
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "sleeper_nb").rglob("*.py")}


@cache
def names_in(tree):
    """The names that some code defines, imports or sets, also as attributes."""
    nodes = list(ast.walk(tree))
    names = {node.name for node in nodes if isinstance(node, WITH_BODY)}
    names |= {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}


def statements(tree):
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            yield node
            yield from statements(node)


@cache
def classes():
    return {node.name: node for tree in trees().values() for node in statements(tree) if isinstance(node, ast.ClassDef)}


def members(name):
    """The names in a class and in the classes of this package that it extends."""
    bases = [part.id for base in classes()[name].bases for part in ast.walk(base) if isinstance(part, ast.Name)]
    return names_in(classes()[name]).union(*(members(base) for base in bases if base in classes() and base != name))


def modules_named(name):
    """The modules with a dotted name, from the package's root or without the folders before it."""
    ends = [f"/{name.replace('.', '/')}{end}" for end in (".py", "/__init__.py")]
    return [tree for path, tree in trees().items() if any(path.as_posix().endswith(end) for end in ends)]


def exists(name):
    if (ROOT / name).exists():  # a document
        return True
    if name.endswith(".py"):
        return any(path.as_posix().endswith(f"/{name}") for path in trees())
    if modules_named(name):
        return True
    parts = name.split(".")
    for part, following in pairwise(parts):
        if part in classes():
            return following in members(part)  # and what comes after that is of another class
    owner = modules_named(name.rpartition(".")[0])
    if owner or parts[0] == "sleeper_nb":
        return any(parts[-1] in names_in(tree) for tree in owner)
    return importlib.util.find_spec(parts[0]) is not None


def named_in_docstrings():
    """Each name with the place of the docstring that has it; strings below an attribute are docstrings, too."""
    for path, tree in trees().items():
        for node in statements(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                for name in NAMED.findall(node.value.value):
                    yield name, f"{path.relative_to(ROOT)}:{node.lineno}"


def test_names_in_docstrings_exist():
    assert [f"{place}: {name}" for name, place in named_in_docstrings() if not exists(name)] == []
