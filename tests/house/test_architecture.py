import ast
import gc
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted([*ROOT.glob("sleeper_nb/**/*.py"), *ROOT.glob("magics/**/*.py")])


def name(path):
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path):
    """Read a module without a pause for the collector, in which Python 3.11 loses count of how deep it is."""
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_module_says_its_job_first(path):
    assert ast.get_docstring(parsed(path))


def test_no_file_name_occurs_twice():
    names = [path.name for path in MODULES if path.name != "__init__.py"]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_no_class_name_occurs_twice():
    names = [node.name for path in MODULES for node in parsed(path).body if isinstance(node, ast.ClassDef)]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_imports_go_one_way():
    linter = shutil.which("lint-imports", path=str(Path(sys.executable).parent)) or shutil.which("lint-imports")
    answer = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout
