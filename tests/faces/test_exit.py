"""How a process that used DuckDB ends: its error stream is empty, whatever it left open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

_OPEN = """
import sys, threading, sleeper_nb as sl
session = sl.connect("warehouse")
table = session.create_table("t", sl.Schema(row_keys={"a": "string"}, values={"b": "int"}))
table.ingest([{"a": "x", "b": 1}])
relation = table.scan().to_duckdb()
answer = session.sql("SELECT * FROM t", engine="duckdb")
print(relation, answer)
"""
# A thread that waits past the end of the interpreter refers to the session.
_IN_A_THREAD = """
waiting = threading.Thread(target=threading.Event().wait, daemon=True)
waiting.session = session
waiting.start()
"""
_SCRIPTS = {
    "left open": _IN_A_THREAD + "kept = [session, relation, answer]\nkept.append(kept)",
    "closed": "session.close()\ndef leave(mine):\n    sys.exit(3)\nleave(relation)",
}
_CELLS = """\
%load_ext sleeper_nb
%sleeper use ./warehouse
%sleeper create t --form
%sleeper sql --engine duckdb SELECT 1 AS a
result = %sleeper sql --engine duckdb SELECT 2 AS a
relation = result.to_duckdb()
relation
session = get_ipython().magics_manager.registry["SleeperMagics"].context.session
print(session.sql("SELECT 3 AS a", engine="duckdb"))
"""


@pytest.mark.parametrize("end", _SCRIPTS)
def test_a_script_ends_in_silence(tmp_path: Path, end: str):
    ended = _run(tmp_path, sys.executable, "-c", _OPEN + _SCRIPTS[end])
    assert "x" in ended.stdout
    assert (ended.stderr, ended.returncode) == ("", 3 if end == "closed" else 0)


def test_an_exception_at_the_end_is_all_that_a_script_says(tmp_path: Path):
    failing = 'session.sql("SELECT nope", engine="duckdb")'
    ended = _run(tmp_path, sys.executable, "-c", _OPEN + failing)
    assert "nanobind" not in ended.stderr
    *_, message, line, caret, hint = ended.stderr.splitlines()
    assert '"nope"' in message
    assert (line, caret) == ("LINE 1: SELECT nope", "               ^")
    assert hint.startswith("hint: ")


def test_ipython_ends_in_silence(tmp_path: Path):
    (tmp_path / "cells.ipy").write_text(f"{_CELLS}%sleeper sql --engine duckdb SELECT nope\n")
    ended = _run(tmp_path, sys.executable, "-m", "IPython", "--no-banner", "cells.ipy")
    assert ended.stdout.strip()
    assert ended.stderr == ""


def test_a_command_of_ipython_ends_in_silence(tmp_path: Path):
    run = "; ".join(f"get_ipython().run_cell({line!r}, store_history=True)" for line in _CELLS.splitlines())
    ended = _run(tmp_path, sys.executable, "-m", "IPython", "--no-banner", "-c", run)
    assert "a" in ended.stdout
    assert ended.stderr == ""


def test_the_console_command_ends_in_silence(tmp_path: Path):
    for words in (["use", "warehouse"], ["sql", "--engine", "duckdb", "SELECT 1 AS a"]):
        ended = _run(tmp_path, sys.executable, "-m", "sleeper_nb", *words)
        assert ended.stdout
        assert (ended.stderr, ended.returncode) == ("", 0)


@pytest.mark.spark
def test_a_script_with_spark_ends_in_silence(tmp_path: Path):
    on_spark = 'print(session.sql("SELECT count(*) FROM t").to_arrow())\n'
    ended = _run(tmp_path, sys.executable, "-c", _OPEN + on_spark + _IN_A_THREAD)
    assert "1" in ended.stdout
    assert (ended.stderr, ended.returncode) == ("", 0)


@pytest.mark.spark
def test_ipython_ends_in_silence_after_python_workers_of_spark_ran(tmp_path: Path):
    cells = (
        "%load_ext sleeper_nb\n%sleeper use ./warehouse\nreport = %sleeper doctor --cluster\nprint(report.ok)\nexit\n"
    )
    ended = _run(tmp_path, sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", typed=cells)
    assert "True" in ended.stdout
    assert ended.stderr == ""


def _run(folder: Path, *words: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    known = {"PYTHONPATH": root, "IPYTHONDIR": str(folder / "ipython"), "SLEEPER_PROGRESS": "off"}
    return subprocess.run(
        words,
        input=typed,
        cwd=folder,
        env={**os.environ, **known},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
