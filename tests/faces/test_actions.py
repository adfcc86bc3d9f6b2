"""A hint names what to run; the magics, the console and Python each show how to type it there."""

from __future__ import annotations

import ast
import pickle
import re
import shlex
from pathlib import Path

import pytest

import sleeper_nb
from sleeper_nb import cli, demo
from sleeper_nb.commands import COMMANDS
from sleeper_nb.errors import Action, InvalidInput, NotFound, SleeperError, hint_text, show_for
from sleeper_nb.query import QueryResult

DELETE = Action("drop trips --force", "session.drop_table('trips', force=True)")
FORCE = Action("--force", "force=True")


@pytest.mark.parametrize(
    ("hint", "prefix", "text"),
    [
        (DELETE, "%sleeper", "%sleeper drop trips --force"),
        (DELETE, "sleeper", "sleeper drop trips --force"),
        (DELETE, "", "session.drop_table('trips', force=True)"),
        (FORCE, "%sleeper", "--force"),
        (FORCE, "", "force=True"),
        (Action("why"), "", "why"),
        ("free some space", "sleeper", "free some space"),
        (("add ", FORCE, " or ", DELETE), "%sleeper", "add --force or %sleeper drop trips --force"),
        (("add ", FORCE), "", "add force=True"),
    ],
)
def test_an_action_is_written_as_its_face_types_it(hint, prefix, text):
    error = SleeperError("no", hint=hint)
    error.prefix = prefix
    assert error.hint == hint_text(hint, prefix) == text
    assert str(error) == f"no\nhint: {text}"
    assert error._render_traceback_()[1] == f"hint: {text}"


def test_an_error_without_a_hint_has_none():
    for hint in (None, "", ()):
        error = SleeperError("no", hint=hint)
        assert (error.hint, str(error), error.hint_parts) == (None, "no", ())


def test_an_action_survives_a_pickle_and_is_passed_on():
    error = pickle.loads(pickle.dumps(InvalidInput("no", hint=("try ", DELETE))))  # noqa: S301
    again = NotFound("still no", hint=(*error.hint_parts, "; and look"))
    again.prefix = "sleeper"
    assert error.hint == f"try {DELETE.python}"
    assert again.hint == "try sleeper drop trips --force; and look"


def test_causes_are_shown_for_the_same_face():
    error, between = SleeperError("last", hint=FORCE), ValueError("between")
    error.__cause__, between.__cause__ = between, InvalidInput("first", hint=DELETE)
    show_for(error, "sleeper")
    assert error.hint == "--force"
    assert error.__cause__.__cause__.hint == "sleeper drop trips --force"


ROOT = Path(sleeper_nb.__file__).parent
LOWER = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if path.relative_to(ROOT).parts[0] not in {"commands", "widgets", "cli.py", "errors.py", "__init__.py"}
]


def text_of(node):
    """A literal or f-string, with a word for each value; None for any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "word" for part in node.values)
    return None


def texts_with(word, paths):
    """The modules that have a word, so that few of many are parsed: path and content."""
    return ((path, text) for path in paths if word in (text := path.read_text(encoding="utf-8")))


def actions():
    """Every action that the package names: where, the line and the Python."""
    for path, text in texts_with("Action(", sorted(ROOT.rglob("*.py"))):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Action" and text_of(node.args[0]):
                python = text_of(node.args[1]) if len(node.args) > 1 else ""
                yield f"{path.name}:{node.lineno}", text_of(node.args[0]), python
    for path, text in texts_with("OnTable(", sorted(ROOT.rglob("*.py"))):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "OnTable":
                command, rest, python = map(text_of, node.args)
                yield f"{path.name}:{node.lineno}", f"{command} word {rest}", python


def test_what_each_action_says_can_be_typed():
    """In one test, as the whole package is parsed for it: a case each would have every worker do that."""
    names = {name for command in COMMANDS.commands for name in command.options}
    found = list(actions())
    assert len(found) > 100
    for where, line, python in found:
        try:
            check_action(line, python, names)
        except Exception as error:
            error.add_note(f"{where}: {line}")
            raise


def check_action(line, python, options):
    words = line.removesuffix(" &").replace("{value}", "word").replace("--to word", "--to S3StateStore")
    words = words.replace("…", "--dry-run" if words.startswith("alter") else "word").replace("--id word", "--id 1")
    if words.startswith(("word ", "--word ")):  # put together from values, as the next steps of `status`
        pass
    elif words.startswith("-"):
        assert words.split()[0] in options
    else:
        assert COMMANDS.parse_line(words)
    for owner, method in re.findall(r"\b(table|session|result|sleeper_nb|sleeper_nb\.demo)\.(\w+)\(", python or ""):
        homes = {"table": sleeper_nb.Table, "session": sleeper_nb.Session, "sleeper_nb": sleeper_nb}
        homes |= {"result": QueryResult, "sleeper_nb.demo": demo}
        assert callable(getattr(homes[owner], method))


def test_lower_layers_name_actions_and_never_lines_of_one_face():
    known = {"the whole error is its __cause__; in a notebook, %sleeper why shows it"}
    wrong = []
    for path, source in texts_with("hint=", LOWER):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                texts = [text_of(each) for each in (node.value, *getattr(node.value, "elts", ()))]
                wrong += [
                    f"{path.name}: {text}"
                    for text in texts
                    if text and text not in known and "sleeper.toml" not in text
                    and re.search(r"%sleeper|(^|\s)--[a-z]|\bsleeper [a-z]+ ", text)
                ]  # fmt: skip
    assert not wrong


def in_python(folder, call):
    with sleeper_nb.connect(folder / "w") as session:
        return call(session)


FACES = [
    (
        "compact trips",
        lambda s: s.table("trips").maintenance.compact(),
        "%sleeper online trips puts it online; --dry-run shows what would be done",
        "table.maintenance.online() puts it online; dry_run=True shows what would be done",
    ),
    (
        "ingest trips more.csv",
        lambda s: s.table("trips").ingest("more.csv"),
        'leave it out with --ignore-extra, or add it: %sleeper alter trips --add-column "driver string?", or',
        "leave it out with ignore_extra=True, or add it: table.alter({'driver': 'string?'}), or with its type",
    ),
    (
        "properties trips sleeper.table.name=x",
        lambda s: s.table("trips").set_properties({"sleeper.table.name": "x"}),
        "%sleeper rename trips x",
        "session.rename_table('trips', 'x')",
    ),
    (
        "alter trips",
        lambda s: s.table("trips").alter(),
        'add one: --add-column "note string?"',
        "add one: add_columns={'note': 'string?'}",
    ),
    (
        "apply wrong.toml",
        lambda s: s.admin.apply("wrong.toml"),
        "write that name, or: %sleeper rename trips …",
        "write that name, or: session.rename_table('trips', …)",
    ),
    (
        "scan trips --where city=lima",
        lambda s: s.table("trips").scan(where="city=lima").to_arrow(),
        "if lima is a text, write it in quotes: --where \"city = 'lima'\"",
        "if lima is a text, write it in quotes: where=\"city = 'lima'\"",
    ),
]


@pytest.fixture
def warehouse(tmp_path, monkeypatch):
    """A folder with a warehouse of one offline table, and files that do not fit it."""
    monkeypatch.chdir(tmp_path)
    with sleeper_nb.connect(tmp_path / "w") as session:
        table = session.create_table("trips", sleeper_nb.Schema({"city": "string"}, {}, {"fare": "long?"}))
        table.ingest([{"city": "lima", "fare": 1}])
        table.maintenance.offline()
    (tmp_path / "more.csv").write_text("city,driver\noslo,Ada\n")
    (tmp_path / "wrong.toml").write_text('[tables.Trips]\nschema = "city STRING KEY, fare LONG NULL"\n')
    return tmp_path


@pytest.mark.parametrize(("line", "call", "typed", "python"), FACES, ids=[face[0] for face in FACES])
def test_each_face_shows_the_line_that_is_typed_there(warehouse, shell, capsys, line, call, typed, python):
    with pytest.raises(SleeperError) as caught:
        in_python(warehouse, call)
    assert python in str(caught.value)
    assert "%sleeper" not in str(caught.value)

    shell.run_line_magic("sleeper", "use ./w")
    with pytest.raises(SleeperError) as caught:
        shell.run_line_magic("sleeper", line)
    assert typed in str(caught.value)
    assert python not in str(caught.value)

    capsys.readouterr()
    assert cli.main(["--warehouse", "w", *shlex.split(line)]) == 1
    assert typed.replace("%sleeper", "sleeper") in capsys.readouterr().err


def test_a_report_names_actions_as_its_face_types_them(warehouse, shell, capsys):
    with sleeper_nb.connect(warehouse / "w") as session:
        table = session.table("trips")
        assert "table.maintenance.online(): it is offline" in repr(table.inspect.status())
        table.set_properties({"snapshot.num-retained.max": "1", "snapshot.num-retained.min": "1"})
        assert "nothing was changed; dry_run=False does it" in repr(table.maintenance.expire())
        assert "prefix" not in table.inspect.status().to_dict()
    shell.run_line_magic("sleeper", "use ./w")
    assert "%sleeper online trips: it is offline" in repr(shell.run_line_magic("sleeper", "status trips"))
    assert "nothing was changed; --force does it" in repr(shell.run_line_magic("sleeper", "expire trips"))
    capsys.readouterr()
    assert cli.main(["--warehouse", "w", "status", "trips"]) == 0
    shown = capsys.readouterr().out
    assert "sleeper online trips: it is offline" in shown
    assert "%" not in shown
