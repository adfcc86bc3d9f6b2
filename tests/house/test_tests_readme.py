"""The table of faults and operations in `tests/README.md`: it is whole, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from itertools import chain
from pathlib import Path

HERE = Path(__file__).parents[1]
OPERATIONS = (
    "create", "ingest", "bulk import", "compact locally", "compact on Spark", "split", "savepoint", "rollback",
    "expire", "garbage", "sweep", "migrate", "rename", "delete", "alter", "properties", "change rows", "reads",
)  # fmt: skip
FAULTS = (
    "kill -9", "answer cut, reset, delayed or dropped", "lost response", "full disk", "read-only", "folder gone",
    "symlinks", "flipped bits", "swapped or emptied files", "stalled writer", "clocks apart",
    "races of two processes or threads",
)  # fmt: skip


def rows_of(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without the line under its header."""
    section = (HERE / "README.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [rows[0], *rows[2:]]


def table() -> dict[str, dict[str, list[str]]]:
    header, *rows = rows_of("Faults and operations")
    return {row[0]: dict(zip(header[1:], (re.split(r",\s*", cell) for cell in row[1:]), strict=True)) for row in rows}


def by_code() -> dict[str, list[str]]:
    _, *rows = rows_of("Tests by code")
    codes = [code for code, _ in rows]
    assert sorted(codes) == sorted(set(codes))
    return {code: re.findall(r"`([^`]+)`", tests) for code, tests in rows}


def names_in(path: Path) -> set[str]:
    """Return the names of the tests in a file: functions, and classes as Hypothesis makes them."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def test_the_table_has_each_fault_and_each_operation():
    found = table()
    assert tuple(found) == FAULTS
    assert all(tuple(row) == OPERATIONS for row in found.values())


def test_each_cell_names_tests_or_says_none_and_each_code_is_used():
    used = list(chain.from_iterable(cell for row in table().values() for cell in row.values()))
    assert all(used)
    assert set(used) - {"none"} == set(by_code())


def test_each_test_that_is_named_exists():
    named = list(chain.from_iterable(by_code().values()))
    assert len(named) > 50
    assert all(by_code().values())
    missing = []
    for one in named:
        path, _, name = one.partition("::")
        if not (HERE / path).is_file() or name not in names_in(HERE / path) or not name.lower().startswith("test"):
            missing.append(one)
    assert not missing
