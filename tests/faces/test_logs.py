"""`SLEEPER_LOG` and `%config SleeperMagics.log` show logs on stderr, once, and never through the root logger."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from traitlets import TraitError

import sleeper_nb as sl
from sleeper_nb import cli, logs
from sleeper_nb.errors import InvalidInput

LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z WARNING sleeper_nb\.somewhere: try 2 of 3 on trips at snapshot 7\n"
LOG = "import logging; logging.getLogger('sleeper_nb.somewhere')"
WARN = f"{LOG}.warning('try %d of %d on %s at snapshot %d', 2, 3, 'trips', 7)"


@pytest.fixture(autouse=True)
def quiet_again(monkeypatch):
    monkeypatch.delenv("SLEEPER_LOG", raising=False)
    yield
    logs.show(logs.OFF)


def process(folder: Path, level: str | None, *words: str) -> subprocess.CompletedProcess[str]:
    known = {"PYTHONPATH": str(Path(__file__).parents[2])} | ({} if level is None else {"SLEEPER_LOG": level})
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder, env={**os.environ, **known}, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("level", "shown"), [(None, False), ("", False), ("off", False), ("error", False),
                                             ("warning", True), ("DEBUG", True)])  # fmt: skip
def test_the_environment_shows_the_logs_of_a_program(tmp_path, level, shown):
    ended = process(tmp_path, level, "-c", f"import sleeper_nb; {WARN}")
    assert (ended.stdout, ended.returncode) == ("", 0)
    assert re.fullmatch(LINE if shown else "", ended.stderr)


def test_the_environment_shows_the_logs_of_a_console_command(tmp_path):
    script = f"from sleeper_nb import cli; {WARN}; raise SystemExit(cli.main(['use', './w']))"
    ended = process(tmp_path, "info", "-c", script)
    assert ended.returncode == 0
    assert re.match(LINE, ended.stderr)
    assert "warehouse  ./w" in ended.stdout


def test_a_wrong_level_of_the_console_is_an_error_that_names_the_levels(tmp_path):
    ended = process(tmp_path, "loud", "-m", "sleeper_nb", "tables")
    said = "InvalidInput: SLEEPER_LOG cannot be 'loud'\nhint: set it to debug, info, warning, error or off\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (cli.MISUSED, "", said)


def test_a_wrong_level_is_an_error_in_python_and_when_the_magics_are_loaded(tmp_path, shell, monkeypatch):
    monkeypatch.setenv("SLEEPER_LOG", "loud")
    with pytest.raises(InvalidInput, match=r"SLEEPER_LOG cannot be 'loud'\nhint: .*debug, info, warning, error"):
        sl.connect(tmp_path / "w")
    shell.run_line_magic("unload_ext", "sleeper_nb")
    with pytest.raises(InvalidInput, match="SLEEPER_LOG"):
        shell.run_line_magic("load_ext", "sleeper_nb")
    monkeypatch.setenv("SLEEPER_LOG", "info")
    shell.run_line_magic("reload_ext", "sleeper_nb")


def test_a_setting_of_the_magics_shows_the_logs(cell, shell, capsys):
    cell(WARN)
    cell("%config SleeperMagics.log = 'info'")
    cell("%config SleeperMagics.log = 'warning'")
    capsys.readouterr()
    shell.run_cell(WARN)
    assert re.fullmatch(LINE, capsys.readouterr().err)
    shell.run_cell("logging.getLogger('sleeper_nb.somewhere').info('routine')")
    shell.run_cell("%config SleeperMagics.log = 'off'")
    shell.run_cell(WARN)
    assert capsys.readouterr().err == ""
    magics = shell.magics_manager.registry["SleeperMagics"]
    with pytest.raises(TraitError, match="'off', 'debug', 'info', 'warning', 'error'"):
        magics.log = "loud"


def test_the_environment_is_the_first_value_of_the_setting(shell, monkeypatch, capsys):
    shell.run_line_magic("unload_ext", "sleeper_nb")
    monkeypatch.setenv("SLEEPER_LOG", "error")
    shell.run_line_magic("load_ext", "sleeper_nb")
    assert shell.magics_manager.registry["SleeperMagics"].log == "error"


def test_unloading_the_magics_ends_what_they_showed(shell, capsys):
    shell.run_cell("%config SleeperMagics.log = 'info'")
    shell.run_line_magic("unload_ext", "sleeper_nb")
    shell.run_cell(WARN)
    assert capsys.readouterr().err == ""


def test_a_record_that_the_root_logger_shows_is_shown_once_and_the_root_is_left_alone(tmp_path):
    script = f"import logging; logging.basicConfig(format='root %(message)s'); import sleeper_nb; {WARN}"
    script += "; root = logging.getLogger(); print(root.level, len(root.handlers))"
    ended = process(tmp_path, "info", "-c", script)
    assert ended.stderr == "root try 2 of 3 on trips at snapshot 7\n"
    assert ended.stdout == "30 1\n"


def test_a_program_that_configures_the_loggers_itself_is_left_alone(capsys):
    logger = logging.getLogger("sleeper_nb")
    logger.setLevel(logging.ERROR)
    try:
        logs.start({})
        logs.show(logs.OFF)
        assert logger.level == logging.ERROR
        assert sum(isinstance(handler, logging.NullHandler) for handler in logger.handlers) == 1
    finally:
        logger.setLevel(logging.NOTSET)
