"""`%sleeper` without `%load_ext`: the startup file that `autoload` writes, and what a restarted kernel says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.utils.capture import capture_output

from sleeper_nb.commands.setting_up import STARTUP_FILE, STARTUP_LINES
from sleeper_nb.errors import AlreadyExists, InvalidInput, StorageError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def file(tmp_path):
    return tmp_path / "ipython" / "profile_default" / "startup" / STARTUP_FILE


def test_a_notebook_turns_it_on_and_off_and_names_the_file(cell, file):
    off = cell("%sleeper autoload status")
    assert (off.to_dict(), file.exists()) == ({"autoload": False, "file": str(file)}, False)
    assert "to write it: %sleeper autoload on" in repr(off)
    for note in ("wrote the file", "the file is there"):
        on = repr(cell("%sleeper autoload"))
        assert str(file) in on
        assert note in on
        assert "to undo: %sleeper autoload off" in on
        assert file.read_text() == STARTUP_LINES
    assert cell("%sleeper autoload status").is_on
    assert "deleted the file" in repr(cell("%sleeper autoload off"))
    assert not file.exists()
    assert "there was no such file" in repr(cell("%sleeper autoload off"))


def test_the_console_does_the_same_in_the_default_profile(sleeper, file):
    code, out, err = sleeper("autoload", "on")
    assert (code, err, str(file) in out, "to undo: sleeper autoload off" in out) == (0, "", True, True)
    assert file.read_text() == STARTUP_LINES
    assert "autoload  on" in sleeper("autoload", "status")[1]
    assert "autoload  off" in sleeper("autoload", "off")[1]
    assert not file.exists()


@pytest.mark.parametrize("text", ["", "import mine\n", f"{STARTUP_LINES}import mine\n"])
def test_a_file_of_the_users_is_never_changed(cell, file, text):
    file.write_text(text)
    for state in ("on", "off"):
        with pytest.raises(AlreadyExists, match="it may be yours\nhint: rename or delete it yourself, then %sleeper"):
            cell(f"%sleeper autoload {state}")
    status = cell("%sleeper autoload status")
    assert (status.is_on, "other lines than autoload writes" in repr(status)) == (False, True)
    assert file.read_text() == text


def test_a_profile_that_cannot_be_written_to_is_an_error(cell, file, folder):
    file.parent.rename(folder / "elsewhere")
    file.parent.write_text("a file, where a folder should be")
    with pytest.raises(StorageError, match=f"cannot change {file}"):
        cell("%sleeper autoload")


def test_a_folder_of_ipython_that_cannot_be_written_to_is_an_error(sleeper, folder):
    (folder / "ipython").write_text("a file, where a folder should be")
    code, out, err = sleeper("autoload")
    assert (code, out) == (1, "")
    assert f"StorageError: IPython dir '{folder}/ipython' is not a writable location" in err


@pytest.fixture
def started(shell, cell, file):
    """A shell as it is after a start with the file."""
    cell("%sleeper autoload")
    shell.run_line_magic("unload_ext", "sleeper_nb")
    names = {*shell.user_ns}
    shell.safe_execfile(str(file), shell.user_ns, raise_exceptions=True)
    assert {*shell.user_ns} - names <= {"__file__"}
    assert "sleeper_nb" not in shell.extension_manager.loaded
    return shell


def completed(shell, text):
    with provisionalcompleter():
        return [text[: each.start] + each.text for each in shell.Completer.completions(text, len(text))]


@pytest.mark.parametrize("source", ["%sleeper help", "%%sleeper help\n\n", "x = %sleeper tour --folder data"])
def test_the_first_use_loads_the_extension(started, source):
    with capture_output() as said:
        started.run_cell(source).raise_error()
    assert said.stderr == ""
    assert "sleeper_nb" in started.extension_manager.loaded
    assert completed(started, "%sleeper ta") == ["%sleeper tables"]
    assert len(started.Completer.custom_matchers) == 1


def test_the_first_tab_after_it_loads_the_extension_and_the_next_one_completes(started):
    assert "print" in completed(started, "prin")
    assert "sleeper_nb" not in started.extension_manager.loaded
    completed(started, "%sleeper ta")
    assert "sleeper_nb" in started.extension_manager.loaded
    for typed in ("%sleeper ta", "%%sleeper ta", "x = %sleeper ta"):
        assert completed(started, typed) == [f"{typed}bles"]
    assert len(started.Completer.custom_matchers) == 1


def test_a_notebook_that_loads_it_anyway_is_not_disturbed(started):
    started.run_line_magic("load_ext", "sleeper_nb")
    started.run_cell("x = %sleeper help").raise_error()
    assert completed(started, "%sleeper ta") == ["%sleeper tables"]


@pytest.mark.processes
def test_ipython_starts_with_it_and_imports_nothing_of_ours(file, sleeper):
    sleeper("autoload")
    loaded = "import sys; print([name for name in sys.modules if name.startswith('sleeper_nb')])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(file.parents[2])}
    for source, expected in ((loaded, "[]"), ("get_ipython().run_cell('%sleeper help tables')", "list the tables")):
        ran = subprocess.run(
            [sys.executable, "-m", "IPython", "--no-banner", "-c", source],
            env=environment, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert expected in ran.stdout
        assert ran.stderr == ""


def hint(cell):
    with pytest.raises(InvalidInput, match="no warehouse is open") as caught:
        cell("%sleeper tables")
    return caught.value.hint


def test_a_restarted_kernel_says_which_warehouse_to_open(cell, folder, monkeypatch):
    assert hint(cell) == "%sleeper use ./warehouse"
    (folder / "sleeper.toml").write_text('warehouse = "./b"')
    assert hint(cell) == f"%sleeper use {folder / 'b'}"
    monkeypatch.setenv("SLEEPER_WAREHOUSE", "s3://bucket/w")
    assert hint(cell) == "%sleeper use s3://bucket/w"
