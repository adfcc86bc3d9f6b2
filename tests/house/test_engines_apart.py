"""Only the engines know which engines there are: what is above them asks for what an engine can do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import sleeper_nb
from sleeper_nb.engines.engine import ENGINES

ROOT = Path(sleeper_nb.__file__).parents[1]
FOLDERS = tuple(f"sleeper_nb.engines.{name}" for name in ENGINES)
KNOWING = {
    "sleeper_nb/sql/dialects.py",  # what the engines write differently, as values
    "sleeper_nb/session/session.py",  # public: spark_session, duckdb_connection
    "sleeper_nb/session/connecting.py",  # opens a warehouse in a process of Spark
    "sleeper_nb/session/diagnosis.py",  # what each engine needs of the machine
    "sleeper_nb/commands/load.py",  # ingest --spark
}
PRIVATE = re.compile("_[a-z]")
_BRANCHES = (ast.Compare, ast.IfExp, ast.Dict, ast.MatchValue)


def places(path: Path) -> Iterator[str]:
    """Yield where a module imports an engine, branches on its name, or takes it from `Engines`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(FOLDERS):
            yield f"{node.lineno}: imports {node.module}"
        elif isinstance(node, ast.Attribute) and node.attr in ENGINES and ast.unparse(node.value).endswith("engines"):
            yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, _BRANCHES) or (isinstance(node, ast.Subscript) and ast.unparse(node.value) != "Literal"):
            yield from (f"{each.lineno}: {each.value!r}" for each in _operands(node))


def _operands(branch: ast.AST) -> Iterator[ast.Constant]:
    """Yield the names of engines that a branch compares, chooses or looks up, in tuples and sets too."""
    for each in ast.iter_child_nodes(branch):
        if isinstance(each, ast.Constant) and each.value in ENGINES:
            yield each
        elif isinstance(each, ast.Tuple | ast.Set | ast.List):
            yield from _operands(each)


def test_few_modules_outside_the_engines_know_one():
    found = {}
    for path in (*ROOT.glob("sleeper_nb/**/*.py"), *ROOT.glob("magics/**/*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("sleeper_nb/engines/") and (known := list(places(path))):
            found[name] = known
    assert len(KNOWING) <= 6
    assert found.keys() == KNOWING, {name: found.get(name) for name in found.keys() ^ KNOWING}


def reached_into(path: Path) -> set[str]:
    """Return the private members that a module takes of anything but itself, by a dot or by `getattr`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(ast.Name("self" | "cls")):
                continue
            case ast.Attribute(attr=name) | ast.Call(ast.Name("getattr" | "setattr"), [_, ast.Constant(str(name)), *_]):
                found |= {name} if PRIVATE.match(name) else set()
    return found


def test_one_module_reaches_into_pyspark():
    reached = {path.name: reached_into(path) for path in ROOT.glob("sleeper_nb/engines/spark/*.py")}
    assert {name: members for name, members in reached.items() if members} == {"gateway.py": reached["gateway.py"]}


def test_each_way_to_know_an_engine_is_found(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        "from sleeper_nb.engines.spark import frames\nself.engines.spark.runtime()\n"
        "if name in {'duckdb', 'other'}: ...\n"
        "name = 'spark' if large else 'local'\nwords = {'duckdb': 1}\nwords['duckdb']\nmatch name:\n"
        "    case 'spark': ...\n"
        "def f(engine: Literal['spark'] = 'duckdb', *, dialect: str | None = None): ...\n"
    )
    assert [each.partition(":")[0] for each in sorted(places(module))] == ["1", "2", "3", "4", "5", "6", "8"]
