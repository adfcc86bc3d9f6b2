"""``%config SleeperMagics`` and ``-o`` as a user types them: both are of every command that they fit."""

from __future__ import annotations

import pytest

import sleeper_nb as sl
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.candidates import Candidates, CommandCompleter
from sleeper_nb.commands.command import OUTPUT
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.help import describe
from sleeper_nb.commands.known_names import SessionNames
from sleeper_nb.errors import InvalidInput


@pytest.fixture
def run(cell, shell):
    cell("%sleeper use ./warehouse")
    cell("%%sleeper create numbers --splits 20\nn INT KEY")
    shell.user_ns["rows"] = [{"n": n} for n in range(40)]
    cell("%sleeper ingest numbers $rows")
    return cell


ANSWERS = (
    "%sleeper scan numbers",
    "%sleeper sql --engine duckdb SELECT * FROM numbers",
    "%sleeper diff numbers 1 2 --rows",
)


@pytest.mark.parametrize("line", ANSWERS)
def test_display_rows_say_how_many_rows_are_shown(run, line):
    assert len(run(line).grid().rows) == 20
    run("%config SleeperMagics.display_rows = 3")
    answer = run(line)
    assert len(answer.grid().rows) == 3
    assert answer.grid().footer.startswith(("first 3 of ", "first 3 rows; "))
    assert answer.to_arrow().num_rows == 40


def test_display_rows_are_one_at_least_and_a_thousand_at_most(shell):
    magics = shell.magics_manager.registry["SleeperMagics"]
    for wrong in (0, 1001, "many"):
        with pytest.raises(Exception, match="display_rows"):
            magics.display_rows = wrong


@pytest.mark.parametrize("line", ANSWERS[:2])
def test_without_the_footer_two_runs_say_the_same(run, line):
    assert run(line).grid().footer.endswith(" s")
    run("%config SleeperMagics.footer = False")
    footer = run(line).grid().footer
    assert footer.endswith(" B")
    assert "numbers at snapshot 2" in footer
    assert "2/2 partitions, 2/2 files, at most " in footer


def test_a_scan_says_how_many_rows_there_are_where_metadata_tell(run):
    assert run("%sleeper scan numbers").grid().footer.startswith("first 20 of 40 rows · numbers at snapshot 2 · ")
    assert run("%sleeper scan numbers --limit 30").grid().footer.startswith("first 20 of 30 rows · ")
    assert run("%sleeper scan numbers --where 'n < 30'").grid().footer.startswith("first 20 rows; there are more · ")
    assert run("%sleeper scan numbers --limit 5").grid().footer.startswith("5 rows · ")
    assert (
        run("%sleeper scan numbers 7").grid().footer.startswith("1 row · numbers at snapshot 2 · 1/2 partitions, 1/2 f")
    )


@pytest.mark.parametrize(
    "line",
    [
        "tables -o kept",
        "history numbers --output kept",
        "scan -o kept numbers --limit 2",
        "compact numbers --dry-run --output=kept",
        "inspect -o kept numbers select count(*) from files",
        "sql -o kept --engine duckdb select 1",
        "help -o kept compact",
    ],
)
def test_every_command_keeps_its_value_under_a_name(run, shell, line):
    answer = run(f"%sleeper {line}")
    assert answer is not None
    assert shell.user_ns["kept"] is answer


def test_a_value_is_kept_of_a_cell_and_by_assignment_too(run, shell):
    run("%%sleeper create -o made other\nk STRING KEY")
    run("told = %sleeper describe other")
    assert (shell.user_ns["made"].name, shell.user_ns["told"].to_dict()["table"]["table"]) == ("other", "other")


def test_nothing_is_done_for_a_name_that_cannot_be_one(run, shell):
    with pytest.raises(InvalidInput, match="'a-b' is not a valid variable name"):
        run("%%sleeper create -o a-b other\nk STRING KEY")
    with pytest.raises(InvalidInput, match="needs a whole number"):
        run("%sleeper scan -o kept numbers --limit x")
    assert "kept" not in shell.user_ns
    assert [table.name for table in run("%sleeper tables")] == ["numbers"]


def test_help_names_it_in_a_notebook_only_and_no_command_has_one_of_its_own():
    for command in COMMANDS.commands:
        assert "-o, --output VAR" in describe(command, "%sleeper").grid().text()
        assert "--output" not in describe(command, "sleeper").grid().text()
        assert not {"-o", "--output"} & set(command.options)


def test_the_tab_key_offers_it_behind_any_command_and_nothing_behind_itself():
    completer = CommandCompleter(SessionNames(Context("notebook", sl.connect)), (OUTPUT,))
    assert completer.complete("tables --o") == Candidates("--o", ("--output",))
    assert completer.complete("tables -o ").words == ()
