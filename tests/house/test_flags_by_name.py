"""A flag that deletes, overwrites or only plans is given by name: `table.maintain(True)` does not say which it is."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
from pathlib import Path

import pytest

import sleeper_nb
from docs.python_pages import homes, results
from sleeper_nb.report import Report

ROOT = Path(__file__).parents[2]
FLAGS = frozenset({"force", "purge", "dry_run", "overwrite", "delete_partitions"})
OF_PYSPARK = {("sleeper_nb/engines/spark/source.py", "writer")}
"""Functions that override those of a library, which passes the flag by position."""


@pytest.mark.parametrize("folder", sorted({path.parent for path in (ROOT / "sleeper_nb").rglob("*.py")}), ids=str)
def test_no_function_takes_such_a_flag_by_position(folder):
    found = []
    for path in sorted(folder.glob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                name = getattr(node, "name", "lambda")
                by_position = {each.arg for each in (*node.args.posonlyargs, *node.args.args)}
                if by_position & FLAGS and (file, name) not in OF_PYSPARK:
                    found.append(f"{file}:{node.lineno} {name}")
    assert found == []


def parameters_of(cls):
    """Yield the parameters of a public class; an answer of a dry run says so, but users do not make one."""
    is_answer = issubclass(cls, Report) and dataclasses.is_dataclass(cls)
    for name, member in inspect.getmembers(cls, lambda member: inspect.isfunction(member) or inspect.ismethod(member)):
        if not name.startswith("_") or (name == "__init__" and not is_answer):
            for each in inspect.signature(member).parameters.values():
                yield f"{cls.__name__}.{name}", each


def test_no_public_class_takes_such_a_flag_by_position():
    known = homes()
    names = sorted(name for name in {*sleeper_nb.__all__, *results()} if name in known)
    classes = filter(inspect.isclass, (getattr(importlib.import_module(known[name]), name) for name in names))
    of_flags = [(name, each) for cls in classes for name, each in parameters_of(cls) if each.name in FLAGS]
    assert len(of_flags) > 20
    assert [name for name, each in of_flags if each.kind is not each.KEYWORD_ONLY] == []
