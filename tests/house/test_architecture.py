import ast
import gc
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted([*ROOT.glob("sleeper_nb/**/*.py"), *ROOT.glob("magics/**/*.py")])


@cache
def parsed(path):
    """Read a module without a pause for the collector, in which Python 3.11 loses count of how deep it is."""
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def test_no_file_name_occurs_twice():
    names = [path.name for path in MODULES if path.name != "__init__.py"]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_no_class_name_occurs_twice():
    names = [node.name for path in MODULES for node in parsed(path).body if isinstance(node, ast.ClassDef)]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_no_method_of_a_table_reads_a_statement():
    """Python builds changes of rows as values; only what a user writes is parsed, one expression at a time."""
    readers = ("read_writing_statement", "read_delete", "read_update", "read_merge", "read_insert")
    methods = [path for path in MODULES if path.parent.name == "table"]
    assert [path.name for path in methods if any(name in path.read_text() for name in readers)] == []
