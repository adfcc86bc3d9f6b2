"""The command table: what is typed becomes a command with its arguments, or an error that says what to type."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.command import option
from sleeper_nb.commands.context import Context, split_reference
from sleeper_nb.commands.help import WIDTH, describe, overview
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from sleeper_nb.model.snapshots import (
    SavepointReference,
    SnapshotReference,
    parse_moment,
)
from sleeper_nb.report import escaped

ROOT = Path(__file__).parents[2]


def parsed(line, body=None):
    found = COMMANDS.parse_line(line, body)
    return found.command.name, found.arguments


def refused(line, body=None):
    with pytest.raises(SleeperError) as caught:
        COMMANDS.parse_line(line, body)
    assert len(str(caught.value).splitlines()) <= 3
    return caught.value


@pytest.mark.parametrize("command", COMMANDS.commands, ids=lambda command: command.name)
def test_every_command_has_help_and_examples_that_parse(command):
    assert command.summary
    assert all(argument.help for argument in command.arguments)
    assert command.examples
    for example in command.examples:
        line, _, body = example.partition("\n")
        assert COMMANDS.parse_line(line, body).command is command
    for example in command.on_console:
        assert COMMANDS.parse_argv(example.split()).command is command
    for prefix in ("%sleeper", "sleeper"):
        shown = describe(command, prefix).grid().text()
        assert command.summary in shown
        assert all((f"sleeper {each}" in shown) == (prefix == "sleeper") for each in command.on_console)
        assert all(argument.names[-1] in shown or argument.usage in shown for argument in command.arguments)
    assert command.summary.startswith(command.brief)


@pytest.mark.parametrize("prefix", ["%sleeper", "sleeper"])
def test_help_reads_well_at_80_columns(prefix):
    pages = {command.name: describe(command, prefix) for command in COMMANDS.commands}
    for name, page in {**pages, "": overview(COMMANDS.groups, prefix)}.items():
        wide = [line for line in repr(page).splitlines() if len(line) > WIDTH]
        assert not wide, (name, wide)
    for command in COMMANDS.commands:
        words = " ".join(repr(pages[command.name]).split())
        assert " ".join(command.summary.split()) in words
        assert f"usage {prefix} {command.name}" in words
        assert "examples" in words
        assert all(" ".join(argument.help.split()) in words for argument in command.arguments)
    assert pages["compact"].to_dict()["--dry-run"] == "show the plan and change nothing"


@pytest.mark.parametrize("command", COMMANDS.commands, ids=lambda command: command.name)
def test_dash_h_is_the_help_of_each_command(command):
    for line in (f"{command.name} -h", f"{command.name} --help"):
        name, arguments = parsed(line)
        assert (name, arguments.command) == ("help", command.name)
    assert COMMANDS.parse_argv([command.name, "-h"]).arguments.command == command.name


@pytest.mark.parametrize("prefix", ["%sleeper", "sleeper"])
def test_help_shows_the_commands_by_group(prefix):
    page = overview(COMMANDS.groups, prefix)
    shown, in_a_notebook = repr(page), page._repr_html_()
    assert sum(len(group.commands) for group in COMMANDS.groups) == len(COMMANDS.commands)
    for group in COMMANDS.groups:
        section = shown.partition(f"{group.title}\n")[2].partition("\n\n")[0]
        names = [line.split()[0].rstrip(",") for line in section.splitlines() if line[2] != " "]
        assert names == [command.name for command in group.commands]
        assert escaped(group.title) in in_a_notebook
    assert ("Options of every command" in shown) == (prefix == "sleeper")
    assert page.to_dict()["rename"] == "rename a table"


@pytest.mark.parametrize("prefix", ["%sleeper", "sleeper"])
def test_each_command_has_one_line_in_the_list(prefix):
    lines = repr(overview(COMMANDS.groups, prefix)).splitlines()
    for command in COMMANDS.commands:
        assert sum(line.split("  ")[1:2] == [command.name] and line.endswith(command.brief) for line in lines) == 1


def test_names_of_commands_are_given_once_and_no_word_of_one_is_the_name_of_another():
    names = [command.name for command in COMMANDS.commands]
    assert sorted(names) == sorted(set(names))
    for command in COMMANDS.commands:
        assert len(set(command.words)) == len(command.words)
        assert not set(command.words) & set(names)


def test_names_of_the_issue_are_all_there():
    wanted = "use create ingest tables describe compact history create-savepoint savepoints delete-savepoint files "
    wanted += (
        "partitions split inspect sql expire collect-garbage sweep-orphans migrate status check explore scan export "
    )
    wanted += "demo tour help jobs offline online maintain rollback leases diff why timeline alter "
    wanted += "rename drop reinitialise rename-table delete-table reinitialise-table properties "
    wanted += "templates add-table instances add-instance set-online set-offline apply split-points"
    wanted += " add-files profile delete purge update upsert overwrite completion autoload doctor publish unpublish"
    assert set(wanted.split()) == {command.name for command in COMMANDS.commands}


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("tabels", "did you mean 'tables'?"),
        ("optimize", "did you mean 'compact'?"),
        ("VACUUM", "did you mean 'collect-garbage'?"),
        ("select * from x", "did you mean 'sql'?"),
        ("merge t", "did you mean 'upsert' or 'compact'?"),
        ("remove t", "did you mean 'drop'?"),
        ("drop-table default t", "did you mean 'drop'?"),
        ("insert-overwrite t", "did you mean 'overwrite'?"),
        ("qqqq", "help lists the commands"),
        ("flights history", "the command comes first: history flights"),
    ],
)
def test_an_unknown_command_names_the_nearest(typed, hint):
    error = refused(typed)
    assert isinstance(error, NotFound)
    assert error.hint == hint


@pytest.mark.parametrize(
    ("typed", "message", "hint"),
    [
        ("compact t --enginee spark", "compact has no option '--enginee'", "did you mean '--engine'?"),
        ("compact t --dryrun", "compact has no option '--dryrun'", "did you mean '--dry-run'?"),
        ("compact t --engine=sparc", "--engine cannot be 'sparc'", "did you mean 'spark'?"),
        ("tables x", "tables cannot use 'x'", "usage: tables"),
        ("ingest t", "ingest needs data, or --watch", "usage: ingest T SRC… [options]; for the options: ingest -h"),
        ("ingest t a -m", "ingest -m needs a value", "usage: ingest T SRC… [options]; for the options: ingest -h"),
        ("scan t --limit x", "scan --limit needs a whole number, not 'x'", "usage: scan T[@REF]"),
        (
            "ingest t 'a",
            "a quote is not closed: 'a",
            'close it; a quote inside a text goes into the other kind: "it\'s in"',
        ),
        ("history", "history needs a table", "usage: history T"),
        ("create t --state-store S3StateStore", "create has no option '--state-store'",
         "write --set sleeper.table.statestore.classname=NAME"),
        ("export t", "export needs a file or folder to write", "usage: export T[@REF] TO"),
        ("rollback t to 3", "rollback cannot use '3'", "usage: rollback T[@REF] [REF]"),
        ("sql --engine duckdb", "sql needs a query", "usage: sql [options] "),
        ("sql --enjine duckdb select 1", "sql has no option '--enjine'", "did you mean '--engine'?"),
        ("inspect", "inspect needs a table", "usage: inspect T[@REF] SQL"),
        ("create t --from a --keys k --types v=int --types w=int", "create has --types twice", "give --types once"),
        ("sql --engine duckdb --engine spark select 1", "sql has --engine twice", "give --engine once"),
        ("ingest t a -m x -m y", "ingest has -m twice", "give -m once"),
    ],
)  # fmt: skip
def test_a_wrong_argument_says_what_is_right(typed, message, hint):
    error = refused(typed)
    assert isinstance(error, InvalidInput)
    assert error.message == message
    assert error.hint.startswith(hint)


def test_a_migration_needs_a_state_store_that_there_is(tmp_path):
    error = refused("migrate t --to S4StateStore")
    assert error.message == "no state store 'S4StateStore'"
    assert error.hint.startswith("did you mean 'S3StateStore'")
    with sl.connect(tmp_path) as session:
        session.create_table("t", sl.Schema({"k": "string"}, {}, {}))
        context = Context("console", connect=sl.connect, session=session)
        with pytest.raises(InvalidInput, match="t has S3StateStore\nhint: sleeper migrate t --to TransactionLog"):
            COMMANDS.parse_line("migrate t").run(context)
        assert COMMANDS.parse_line("migrate t --to TransactionLogStateStore").run(context).operation == "migrate"
        assert COMMANDS.parse_line("status t").run(context).prefix == "sleeper"


def test_a_cell_body_is_only_for_commands_that_take_one():
    assert refused("tables", "what\n").message == "tables takes no lines below it"
    assert parsed("tables", " \n")[0] == "tables"
    assert parsed("create t", "a INT KEY\n")[1].body == "a INT KEY\n"


def test_quotes_are_those_of_a_shell():
    assert parsed("""ingest t "a b/c.csv" d\\ e.csv -m "it's in" """)[1].source == ["a b/c.csv", "d e.csv"]
    assert parsed("""ingest t a -m "it's in" """)[1].message == "it's in"
    assert parsed("""ingest t -m 'say "x"' a b""")[1].message == 'say "x"'
    assert parsed("""scan t --where "a = 'x y' and b > 1" """)[1].where == "a = 'x y' and b > 1"
    assert parsed("scan t '' -5")[1].key == ["", "-5"]
    assert parsed("create-savepoint t -m ''")[1].message == ""


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("origin='dest'", "origin='dest'"),
        ("\"origin = 'dest'\"", "origin = 'dest'"),
        ("'origin = 1'", "origin = 1"),
        ("\"a b\"='c d'", "\"a b\"='c d'"),
        ("origin='it''s'", "origin='it''s'"),
        ('"a = \\"b\\""', 'a = "b"'),
        ("'a'='b'", "'a'='b'"),
    ],
)
@pytest.mark.parametrize("form", ["update t {} {} --dry-run", "update t {}={} --dry-run"])
def test_quotes_inside_a_value_of_sql_are_sqls_own(typed, value, form):
    assert parsed(form.format("--where", typed))[1].where == value
    assert parsed(form.format("--set", typed))[1].set == [value]
    assert parsed(form.format("--set", typed))[1].dry_run


RAW = (
    "select 'it''s', \"a b\", [1, 2], x -> x + 1, m['k'], $$ it's $$, '{y} $z'  -- it's -o a comment",
    "-- a comment first\nselect 1",
    "select -1 --engineer -- --engine",
    "select '--plot hist', \"--output\" /* --engine spark */",
    "select '\\n'   ,   2",
    "SELECT /* ' */ 1",
)


@pytest.mark.parametrize("statement", RAW)
def test_sql_is_never_touched(statement):
    assert parsed(f"sql {statement}")[1].statement == statement
    name, arguments = parsed(f"sql -o x --engine duckdb {statement}")
    assert (name, arguments.output, arguments.engine, arguments.statement) == ("sql", "x", "duckdb", statement)
    assert parsed("sql --engine=duckdb", statement)[1].statement == statement
    assert parsed(f"inspect t@12 {statement}")[1].statement == statement
    words = ["sql", "--engine", "duckdb", statement]
    assert COMMANDS.parse_argv(words).arguments.statement == statement


@pytest.mark.parametrize(
    ("typed", "name", "hint"),
    [
        ("sql SELECT count(*) FROM t --plot hist", "--plot", "--plot hist"),
        ("sql SELECT 1 --as=pandas", "--as", "--as=pandas"),
        ("sql --engine duckdb select 1 --output x --dry-run", "--output", "--output x --dry-run"),
        ("inspect t select 1 --output x", "--output", "--output x"),
        ("sql select 1 --help", "--help", "--help"),
    ],
)
def test_an_option_after_the_sql_is_told_where_to_stand(typed, name, hint):
    error = refused(typed)
    assert isinstance(error, InvalidInput)
    assert error.message == f"{name} after the SQL begins a comment"
    assert error.hint == f"write {hint} before the statement"
    assert parsed("sql", f"{typed}\n")[1].statement == f"{typed}\n"


def test_options_behind_a_statement_of_the_console_are_options():
    found = COMMANDS.parse_argv(["sql", "SELECT count(*) FROM t@4", "--engine", "duckdb", "--as", "pandas"]).arguments
    assert (found.statement, found.engine, vars(found)["as"]) == ("SELECT count(*) FROM t@4", "duckdb", "pandas")
    found = COMMANDS.parse_argv(["sql", "SELECT a, b FROM t", "-x", "b", "--plot=hist"]).arguments
    assert (found.statement, found.x, found.plot) == ("SELECT a, b FROM t", "b", "hist")
    found = COMMANDS.parse_argv(["sql", "SELECT", "a", "-x", "FROM", "t", "--engine", "duckdb"]).arguments
    assert (found.statement, found.engine) == ("SELECT a -x FROM t", "duckdb")
    found = COMMANDS.parse_argv(["inspect", "t", "select 1", "--warehouse", "w"], (option("--warehouse", text="w"),))
    assert (found.arguments.statement, found.arguments.warehouse) == ("select 1", "w")
    assert COMMANDS.parse_argv(["sql", "select 1", "--help"]).command.name == "help"
    with pytest.raises(InvalidInput, match=r"after the SQL .*\nhint: write --plot hist before the statement"):
        COMMANDS.parse_argv(["sql", "SELECT 1 --plot hist"])
    with pytest.raises(InvalidInput, match="sql has no option '--limit'"):
        COMMANDS.parse_argv(["sql", "SELECT 1", "--limit", "2"])


PLOT = "--plot [line|bar|hist|scatter|area]"


@pytest.mark.parametrize(
    ("typed", "message", "hint"),
    [
        ("sql --plot hist --as pandas select 1", "--as gives all rows, but --plot draws a chart", "give one of them"),
        ("sql --interactive --as pandas select 1", "--as gives all rows, but --interactive pages through the rows",
         "give one of them"),
        ("sql --dry-run --plot bar select 1", "--plot draws a chart, but --dry-run reads no row", "give one of them"),
        ("scan t --explain --limit 1 --as pandas", "--as gives all rows, but --explain reads no row",
         "give one of them"),
        ("scan t 1 --explain --as arrow", "--as gives all rows, but --explain reads no row", "give one of them"),
        ("sql -x k select 1", "-x needs --plot", f"leave it out, or write sql {PLOT} -x COLUMN"),
        ("sql -y k --as pandas select 1", "-y needs --plot", f"leave it out, or write sql {PLOT} -y C"),
    ],
)  # fmt: skip
def test_options_that_contradict_each_other_are_an_error(typed, message, hint):
    error = refused(typed)
    assert isinstance(error, InvalidInput)
    assert error.message == message
    assert error.hint.startswith(hint)


@pytest.mark.parametrize(
    ("typed", "plot", "x", "statement"),
    [
        ("sql --plot SELECT a, b FROM t", "", None, "SELECT a, b FROM t"),
        ("sql --plot area SELECT a, b FROM t", "area", None, "SELECT a, b FROM t"),
        ("sql --plot -x a FROM t", "", "a", "FROM t"),
        ("sql --plot (SELECT line FROM t)", "", None, "(SELECT line FROM t)"),
        ("sql --plot bar FROM bar", "bar", None, "FROM bar"),
        ("sql --plot with a AS (SELECT 1) FROM a", "", None, "with a AS (SELECT 1) FROM a"),
    ],
)
def test_the_kind_of_a_chart_can_be_left_out(typed, plot, x, statement):
    name, found = parsed(typed)
    assert (name, found.plot, found.x, found.statement) == ("sql", plot, x, statement)
    words = ["sql", *typed.removesuffix(statement).split()[1:], statement]
    console = COMMANDS.parse_argv(words).arguments
    assert (console.plot, console.x, console.statement) == (plot, x, statement)


def test_a_chart_of_a_cell_or_after_a_statement_of_the_console_needs_no_kind():
    assert parsed("sql --plot", "SELECT 1")[1].plot == ""
    found = COMMANDS.parse_argv(["sql", "SELECT a, b FROM t", "--plot", "--log", "x"]).arguments
    assert (found.plot, found.log, found.statement) == ("", "x", "SELECT a, b FROM t")
    assert parsed("sql SELECT 1")[1].plot is None


def test_options_that_go_together_are_none():
    assert parsed("sql --dry-run --explain --engine duckdb select 1")[1].explain
    assert parsed("sql --plot bar -x a -y b select 1")[1].y == "b"


def test_sql_of_the_line_stands_before_that_of_the_cell():
    assert parsed("sql -o x select a", "from t\n")[1].statement == "select a\nfrom t\n"


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("flights", None),
        ("flights@12", SnapshotReference(12)),
        ("flights@v12", SnapshotReference(12)),
        ("flights@savepoint.1", SavepointReference(1)),
        ("flights@before-fix", SavepointReference("before-fix")),
        ("flights@2026-11-01T10:00", parse_moment("2026-11-01 10:00:00")),
    ],
)
def test_a_version_stands_behind_an_at_sign(text, reference):
    assert split_reference(text) == ("flights", reference)


def test_an_empty_or_unwanted_version_is_an_error():
    with pytest.raises(InvalidInput, match="no version follows @"):
        split_reference("flights@")
    context = Context("console", connect=sl.connect)
    with pytest.raises(InvalidInput, match="works on the current version"):
        context.table("flights@12")
    with pytest.raises(InvalidInput, match=r"no warehouse is open\nhint: sleeper_nb\.connect"):
        context.table("flights")


def typed_in(text):
    """The commands of a document: lines and cells of magics, and lines of a console."""
    for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL):
        if block.startswith("%%sleeper "):
            line, _, body = block.removeprefix("%%sleeper ").partition("\n")
            yield line, body
        else:
            lines = (line.removeprefix("$ ") for line in block.splitlines())
            yield from ((found[1], None) for line in lines if (found := re.match(r"%?sleeper (.*)", line)))
    for inline in re.findall(r"`%?sleeper ([^`…]*)`", text):
        yield inline, None


@pytest.mark.parametrize("document", ["README.md", "docs/tour.md"])
def test_every_command_of_the_document_parses(document):
    for line, body in typed_in((ROOT / document).read_text()):
        word = line.split()[0]
        if word != "COMMAND":
            assert COMMANDS.parse_line(line, body).command


def test_a_line_leaves_nothing_for_the_next_one():
    _, first = parsed("update t --set a=1 --where c=3 -m one")
    first.set.append("changed")
    _, again = parsed("update t --where d=4")
    assert (again.set, again.where, again.message) == ([], "d=4", None)
    again.set.append("changed")
    assert parsed("update t --set a=1 --set b=2")[1].set == ["a=1", "b=2"]
    assert parsed("update t --where d=4")[1].set == []
