"""Rename, delete and reinitialise as they are typed: on a console, at a terminal that is asked, in a notebook."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import sleeper_nb
from sleeper_nb import cli
from sleeper_nb.errors import InvalidInput, NotFound

MAIN = [sys.executable, "-c", "import sys; from sleeper_nb.cli import main; sys.exit(main())"]
MADE = "mine"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLEEPER_WAREHOUSE", str(tmp_path / "warehouse"))
    (tmp_path / "trips.ddl").write_text("city STRING KEY\nfare DOUBLE NULL\n")
    (tmp_path / "rows.csv").write_text("city,fare\nZagreb,2.5\nAthens,1.5\nLima,\n")
    return tmp_path


@pytest.fixture
def sleeper(folder, capsys):
    """Run a command, and return its code and what it said on each stream."""

    def run(*words):
        code = cli.main(list(words))
        said = capsys.readouterr()
        return code, said.out, said.err

    for words in (
        ("--instance", MADE, "create", "trips", "--splits", "g,n", "--schema", "trips.ddl"),
        ("--instance", MADE, "ingest", "trips", "rows.csv"),
    ):
        assert run(*words)[0] == 0
    return run


def rows(sleeper, name):
    answer = sleeper("--instance", MADE, "sql", "--engine", "duckdb", f"select count(*) as n from {name}")
    return int(answer[1].splitlines()[2])


def test_rename_table_as_the_specification_types_it(sleeper):
    assert sleeper("rename-table", MADE, "trips", "journeys")[0] == 0
    assert rows(sleeper, "journeys") == 3
    code, out, err = sleeper("rename-table", MADE, "trips", "other")
    assert (code, out, "NotFound: no table 'trips'" in err) == (1, "", True)
    assert sleeper("rename-table", MADE, "journeys")[0] == 2
    assert sleeper("rename-table", "nowhere", "journeys", "x")[0] == 1
    assert sleeper("--instance", MADE, "rename", "journeys", "trips")[0] == 0


def test_delete_table_with_force_asks_nobody(sleeper):
    code, out, _ = sleeper("delete-table", MADE, "trips", "--force")
    assert (code, "deleted table trips for good" in out) == (0, True)
    assert "trips" not in sleeper("--instance", MADE, "tables")[1].splitlines()[-1]
    assert sleeper("delete-table", MADE, "trips", "--force")[0] == 1


@pytest.mark.parametrize("words", [("delete-table", MADE, "trips"), ("--instance", MADE, "drop", "trips")])
def test_without_a_terminal_force_is_asked_for_and_nothing_goes(sleeper, words):
    assert sleeper("--instance", MADE, "create-savepoint", "trips", "--name", "kept")[0] == 0
    code, out, err = sleeper(*words)
    assert (code, "would delete table trips" in out) == (1, True)
    assert "ConfirmationNeeded: this deletes table 'trips' for good: 3 rows, " in err
    assert "2 snapshots and 1 savepoint (kept)" in err
    assert " trips --force" in err
    assert rows(sleeper, "trips") == 3


def at_a_terminal(words, typed):
    """Run the command in a process whose terminal types a line behind the prompt; return its code and what it said."""
    mine, its = pty.openpty()
    here = {**os.environ, "PYTHONPATH": str(Path(sleeper_nb.__file__).parents[1])}
    child = subprocess.Popen([*MAIN, *words], stdin=its, stdout=its, stderr=its, start_new_session=True, env=here)
    os.close(its)
    said = b""
    while chunk := _read(mine):
        said += chunk
        if typed is not None and b"delete it for good: " in said:
            os.write(mine, typed)
            typed = None
    os.close(mine)
    return child.wait(30), said.decode()


def _read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end was closed
        return b""


def test_a_terminal_is_asked_for_the_name_of_the_table(sleeper):
    code, said = at_a_terminal(["delete-table", MADE, "trips"], b"no\n")
    assert (code, "would delete table trips for good" in said) == (1, True)
    assert "snapshots" in said
    assert "nothing was changed" in said
    code, said = at_a_terminal(["delete-table", MADE, "trips"], b"trips\n")
    assert (code, "deleted table trips for good" in said) == (0, True)
    assert sleeper("--instance", MADE, "rename", "trips", "x")[0] == 1


def test_an_answer_that_never_comes_deletes_nothing(sleeper):
    assert at_a_terminal(["delete-table", MADE, "trips"], b"\x04")[0] == 1  # end of file
    assert rows(sleeper, "trips") == 3


def test_reinitialise_table_as_the_specification_types_it(sleeper, folder):
    code, out, _ = sleeper("reinitialise-table", MADE, "trips")
    assert (code, "deleted all contents of table trips" in out) == (0, True)
    assert "3, then 3" in out
    (folder / "split-points.txt").write_text("m\n")
    assert sleeper("--instance", MADE, "ingest", "trips", "rows.csv")[0] == 0
    code, out, _ = sleeper("reinitialise-table", MADE, "trips", "true", str(folder / "split-points.txt"), "false")
    assert (code, "3, then 2" in out) == (0, True)
    assert rows(sleeper, "trips") == 0


def test_reinitialise_table_refuses_what_it_cannot_do(sleeper):
    for words, code, expected in (
        (("yes",), 2, "no DELETE PARTITIONS 'yes'\nhint: available: true, false"),
        (("true", "/nowhere/at.all"), 1, "split points file '/nowhere/at.all' does not exist"),
        (("true", "rows.csv", "maybe"), 2, "no BASE64 ENCODED 'maybe'"),
        (("true", "rows.csv", "false", "more"), 2, "cannot use 'more'"),
    ):
        answer = sleeper("reinitialise-table", MADE, "trips", *words)
        assert (answer[0], expected in answer[2]) == (code, True), answer
    assert sleeper("--instance", MADE, "create-savepoint", "trips", "--name", "kept")[0] == 0
    code, _, err = sleeper("reinitialise-table", MADE, "trips")
    assert (code, "1 savepoint (kept) would stay" in err, "--force" in err) == (1, True, True)
    assert rows(sleeper, "trips") == 3
    assert sleeper("reinitialise-table", MADE, "trips", "--force")[0] == 0
    assert rows(sleeper, "trips") == 0


def test_reinitialise_shows_its_plan_first(sleeper):
    shared = ("--instance", MADE, "reinitialise", "trips")
    code, out, _ = sleeper(*shared, "--delete-partitions", "--splits", "m")
    assert (code, "would delete all contents" in out, "3, then 2" in out) == (1, True, True)
    assert rows(sleeper, "trips") == 3
    assert sleeper(*shared, "--splits", "m")[0] == 1
    assert sleeper(*shared, "--delete-partitions", "--splits", "m", "--force")[0] == 0
    assert rows(sleeper, "trips") == 0


@pytest.mark.parametrize("script", [True, False], ids=["script", "verb"])
def test_a_notebook_is_shown_the_plan_and_the_line_to_run(shell, folder, script):
    def run(line, body=None):
        return shell.run_line_magic("sleeper", line) if body is None else shell.run_cell_magic("sleeper", line, body)

    run("use ./warehouse --instance mine")
    run("create trips", "city STRING KEY")
    made = ("rename-table mine", "delete-table mine", "reinitialise-table mine")
    rename, drop, empty = made if script else ("rename", "drop", "reinitialise")
    assert run(f"{rename} trips journeys").name == "journeys"
    plan = run(f"{drop} journeys")
    assert plan.dry_run
    assert f"nothing was changed; %sleeper {drop} journeys --force does it" in repr(plan)
    assert run(f"{empty} journeys").dry_run
    assert not run(f"{empty} journeys --force").dry_run
    assert not run(f"{drop} journeys --force").dry_run
    assert len(run("tables")) == 0


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("delete-table test trips", "delete-table test trips --force"),
        ("delete-table test TRIPS -o 'plan'", "delete-table test TRIPS -o plan --force"),
        ("drop trips", "drop trips --force"),
        ("reinitialise-table test trips", "reinitialise-table test trips --force"),
        ("reinitialise-table test trips true 'my points.txt'",
         "reinitialise-table test trips true 'my points.txt' --force"),
        ("reinitialise trips --dry-run --delete-partitions --splits 'a b'",
         "reinitialise trips --delete-partitions --splits 'a b' --force"),
    ],
)  # fmt: skip
def test_the_line_that_a_plan_shows_does_what_was_asked_and_nothing_else(shell, folder, asked, line):
    def run(line):
        return shell.run_line_magic("sleeper", line)

    (folder / "my points.txt").write_text("m\n")
    shell.push({"rows": [{"city": "lima"}]})
    for instance in ("test", "default"):
        run(f"use ./warehouse --instance {instance}")
        shell.run_cell_magic("sleeper", "create trips", "city STRING KEY")
        run("ingest trips $rows")
    plan = run(asked)
    assert plan.dry_run
    assert f"nothing was changed; %sleeper {line} does it" in repr(plan)
    other = "-table test" in asked
    assert ("of instance test" in plan.grid().title) == other
    done = run(line)
    assert (done.dry_run, "of instance test" in done.grid().title) == (False, other)
    rows = {each.name: each.rows for each in run("instances")}
    assert rows == {"test": 0 if other else 1, "default": 1 if other else 0}


def test_another_instance_of_the_warehouse_is_opened_once_and_none_is_made(shell, folder):
    def run(line):
        return shell.run_line_magic("sleeper", line)

    run("use ./warehouse --instance mine")
    shell.run_cell_magic("sleeper", "create trips", "city STRING KEY")
    run("use ./warehouse --instance other")
    assert run("rename-table mine trips journeys").name == "journeys"
    assert run("rename-table mine journeys trips").name == "trips"
    with pytest.raises(NotFound, match="no instance 'never'"):
        run("delete-table never trips --force")
    assert not (folder / "warehouse" / "never").exists()
    with pytest.raises(InvalidInput):
        run("delete-table mine")
