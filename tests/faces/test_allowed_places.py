"""Files outside the warehouse are allowed by the line that the error names: notebook, console, Python."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb import cli
from sleeper_nb.errors import NotAllowed

LINES = re.compile(r'write (data-paths = \[.*?\]) and (warehouse = ".*?") into sleeper.toml')
PLACE = "sleeper.table.data.path"


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "the lake"
    folder.mkdir()
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), folder / "sorted.parquet")
    return folder


@pytest.fixture
def typed(cell, lake):
    cell("%sleeper use ./warehouse")
    cell("%%sleeper create t\nid INT KEY")
    return cell


def refused(typed, line):
    with pytest.raises(NotAllowed) as caught:
        typed(f"%sleeper {line}")
    return caught.value.hint


def line_in(hint):
    return re.search(r"%sleeper use .*? --data-path ('[^']*'|\S+)(?=, or)", hint)[0]


def test_the_line_of_the_hint_lets_files_be_added_where_they_are(typed, lake, tmp_path):
    hint = refused(typed, "add-files t 'the lake/sorted.parquet'")
    use = f"%sleeper use {tmp_path}/warehouse --data-path '{lake}'"
    assert hint.startswith(f"if you trust it: {use}, or write data-paths = ")
    typed(line_in(hint))
    assert typed("%sleeper add-files t 'the lake/sorted.parquet'").rows == 2
    assert typed("%sleeper scan t").to_arrow().num_rows == 2


def test_the_line_of_the_hint_lets_a_table_have_its_files_elsewhere(typed, lake):
    line = f"create u --set {PLACE}='{lake}'\nid INT KEY"
    with pytest.raises(NotAllowed) as caught:
        typed(f"%%sleeper {line}")
    typed(line_in(caught.value.hint))
    assert typed(f"%%sleeper {line}").name == "u"


def test_places_can_be_relative_several_and_for_the_open_warehouse(typed, lake, tmp_path):
    opened = typed("%sleeper use --data-path './the lake' --data-path other")
    assert opened.session._components.property_files.permissions.data_paths == (str(lake), str(tmp_path / "other"))
    assert opened.tables == ("t",)
    assert typed("%sleeper add-files t 'the lake/sorted.parquet'").rows == 2


def test_a_session_of_python_is_given_the_places(typed, shell, lake):
    with sl.connect("warehouse") as session:
        shell.push({"mine": session})
        typed(f"%sleeper use $mine --data-path '{lake}'")
        assert typed("%sleeper add-files t 'the lake/sorted.parquet'").rows == 2


def test_the_lines_of_the_file_that_the_hint_names_allow_it(typed, lake):
    hint = refused(typed, "add-files t 'the lake/sorted.parquet'")
    Path("sleeper.toml").write_text("\n".join(LINES.search(hint).groups()))
    typed("%sleeper use ./warehouse")
    assert typed("%sleeper add-files t 'the lake/sorted.parquet'").rows == 2


def test_the_console_writes_it_into_the_file(typed, lake, capsys):
    line = ["--warehouse", "./warehouse", "add-files", "t", "the lake/sorted.parquet"]
    assert cli.main(line)
    hint = capsys.readouterr().err
    assert cli.main(shlex.split(re.search(r"sleeper (use .*? --data-path ('[^']*'|\S+)), or", hint)[1]))
    error = capsys.readouterr().err
    assert "--data-path ends with this command" in error
    assert LINES.search(error).groups() == LINES.search(hint).groups()
    Path("sleeper.toml").write_text("\n".join(LINES.search(hint).groups()))
    assert cli.main(line) == 0


def test_an_instance_is_named_too(typed, lake, tmp_path):
    typed("%sleeper use ./warehouse --instance other")
    typed("%%sleeper create t\nid INT KEY")
    hint = refused(typed, "add-files t 'the lake/sorted.parquet'")
    assert f"%sleeper use {tmp_path}/warehouse --instance other --data-path '{lake}'" in hint
    typed(line_in(hint))
    assert typed("%sleeper add-files t 'the lake/sorted.parquet'").rows == 2


def test_python_names_the_method_and_the_argument(typed, lake):
    with sl.connect("warehouse") as session, pytest.raises(NotAllowed) as caught:
        session.table("t").add_files(lake / "sorted.parquet")
    assert caught.value.hint.startswith(f'if you trust it: session.allow(data_paths=["{lake}"]), or ')
