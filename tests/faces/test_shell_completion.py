"""The Tab key in bash, zsh and fish: what `sleeper completion` prints, and what its script asks for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.shell_completion import SCRIPTS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLEEPER_WAREHOUSE", raising=False)
    return tmp_path


@pytest.fixture
def warehouse(folder):
    """A folder with a warehouse of two tables and a savepoint, and another instance."""
    schema = sl.Schema({"city": "string"}, {"pickup": "timestamp"}, {"fare": "double", "tip": "double"})
    with sl.connect(folder / "warehouse") as session:
        session.create_table("trips", schema).create_savepoint("before-fix")
        session.create_table("zones", sl.Schema({"zone": "int"}))
    with sl.connect(folder / "warehouse", "test") as session:
        session.create_table("tried", sl.Schema({"n": "int"}))
    (folder / "rows.csv").write_text("Town,Fare\n")
    return folder


@pytest.fixture
def offered(sleeper):
    """Return what a shell is answered; no error is ever shown."""

    def ask(line, shell="fish"):
        code, out, err = sleeper("--complete", shell, line)
        assert (code, err) == (0, "")
        first, *words = out.removesuffix("\n").split("\n")
        assert first in {"words", "files"}
        return words if first == "words" else first

    return ask


LINES = [
    ("sleeper des", ["describe"]),
    ("sleeper help expl", ["explore"]),
    ("/usr/bin/sleeper completion ", ["bash", "zsh", "fish"]),
    ("sleeper --w", ["--warehouse"]),
    ("sleeper describe ", ["trips", "zones"]),
    ("sleeper describe TR", ["trips"]),
    ("sleeper files trips@", ["trips@before-fix", "trips@savepoint.1", "trips@1"]),
    ("sleeper rollback trips be", ["before-fix"]),
    ("sleeper delete-savepoint trips --name b", ["before-fix"]),
    ("sleeper scan trips --co", ["--columns"]),
    ("sleeper scan trips --warehouse x --inst", ["--instance"]),
    ("sleeper compact trips --engine s", ["spark"]),
    ("sleeper compact trips --engine=s", ["--engine=spark"]),
    ("sleeper scan trips --columns city,f", ["city,fare"]),
    ("sleeper upsert trips rows.csv --on p", ["pickup"]),
    ('sleeper scan trips --where "fare > 0 AND c', ["fare > 0 AND city"]),
    ("sleeper delete trips --where 'fare>", ["fare>city", "fare>pickup", "fare>fare", "fare>tip"]),
    ('sleeper update trips --set "t', ["tip"]),
    ("sleeper scan trips --region ", ["city="]),
    ("sleeper create t --from rows.csv --keys T", ["Town"]),
    ("sleeper properties trips savepoint.num", ["savepoint.num-retained.max"]),
    ('sleeper sql "SELECT fa FROM tr', ["SELECT fa FROM trips"]),
    ('sleeper sql "SELECT avg(fare) FROM trips GROUP BY c', ["SELECT avg(fare) FROM trips GROUP BY city"]),
    ("sleeper rename-table ", ["default", "test"]),
    ("sleeper rename-table test ", ["tried"]),
    ("sleeper --instance test describe ", ["tried"]),
    ("sleeper describe --instance=test ", ["tried"]),
    ("sleeper --warehouse nowhere describe ", []),
    ("sleeper ingest trips ro", "files"),
    ("sleeper use ", "files"),
    ("sleeper scan trips --limit ", []),
    ("sleeper describe nothing@", []),
    ("sleeper nonsense ", []),
    ("sleeper scan trips lima", []),
]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_a_shell_is_offered_what_exists(warehouse, offered, line, expected):
    assert offered(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sleeper des", ["describe "]),
        ("sleeper files trips@be", ["@before-fix "]),
        ("sleeper compact trips --engine=s", ["spark "]),
        ("sleeper scan trips --columns city,f", ["city,fare"]),
        ("sleeper scan trips --where fare>c", ["city"]),
        ('sleeper scan trips --where "fare > 0 AND (c', ["fare > 0 AND (city", "fare > 0 AND (city "]),
        ('sleeper describe "tr', ["trips"]),
        ("sleeper ingest trips ro", "files"),
    ],
)
def test_bash_gets_the_part_that_it_replaces(warehouse, offered, line, expected):
    """Bash begins a new part at characters such as @ and =, and closes a quote after an only word."""
    assert offered(line, "bash") == expected


def test_bash_is_answered_by_its_own_rule_of_where_a_part_begins(warehouse, sleeper):
    assert sleeper("--complete", "bash", "sleeper files trips@be", " \n=")[1] == "words\ntrips@before-fix \n"


def test_zsh_gets_how_much_it_replaces_and_whether_the_word_goes_on(warehouse, offered):
    assert offered("sleeper files trips@be", "zsh") == ["2", "end", "before-fix"]
    assert offered('sleeper scan trips --where "fare > 0 AND c', "zsh") == ["1", "on", "city"]
    assert offered("sleeper nonsense ", "zsh") == []


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_asking_creates_and_changes_nothing(folder, offered, warehouse):
    before = contents(folder)
    for line, _ in LINES:
        for shell in SCRIPTS:
            offered(line, shell)
    assert contents(folder) == before


def test_asking_without_a_warehouse_makes_none(folder, offered):
    for line, _ in LINES:
        offered(line)
    assert not [*folder.iterdir()]


def test_what_another_process_has_just_committed_is_offered(warehouse, offered):
    with sl.connect(warehouse / "warehouse") as session:
        session.create_table("newest", sl.Schema({"n": "int"}))
        assert offered("sleeper describe n") == ["newest"]


def test_columns_of_a_table_with_files_elsewhere_are_offered(warehouse, offered):
    elsewhere = {"sleeper.table.data.path": str(warehouse / "big")}
    with sl.connect(warehouse / "warehouse", data_paths=[warehouse / "big"]) as session:
        session.create_table("far", sl.Schema({"mile": "int"}), properties=elsewhere)
    assert offered("sleeper scan far --columns ") == ["mile"]


def test_a_damaged_warehouse_offers_commands_only(warehouse, offered):
    (warehouse / "warehouse" / "default" / "catalog.sqlite").write_bytes(b"nothing")
    assert offered("sleeper describe ") == []
    assert offered("sleeper des") == ["describe"]


def test_a_wrong_settings_file_offers_nothing(warehouse, offered):
    (warehouse / "sleeper.toml").write_text("warehouse = ")
    assert offered("sleeper describe ") == []


def test_a_warehouse_that_is_not_in_a_folder_is_not_asked(folder, offered, monkeypatch):
    monkeypatch.setenv("SLEEPER_WAREHOUSE", "s3://bucket/warehouse")
    assert offered("sleeper describe ") == []
    assert offered("sleeper scan trips --where c") == []
    assert offered("sleeper des") == ["describe"]


@pytest.mark.parametrize("arguments", [(), ("bash",), ("bash", ""), ("bash", "sleeper"), ("tcsh", "sleeper ", "", "")])
def test_a_wrong_question_has_an_answer(sleeper, folder, arguments):
    code, out, err = sleeper("--complete", *arguments)
    assert (code, err) == (0, "")
    assert out.startswith("words\n")


def test_each_shell_has_a_script(sleeper, folder):
    assert COMMANDS.find("completion").arguments[0].choices == tuple(SCRIPTS)
    for shell, script in SCRIPTS.items():
        assert sleeper("completion", shell) == (0, script, "")
    code, _, err = sleeper("completion", "tcsh")
    assert (code, "no shell 'tcsh'\nhint: available: bash, zsh, fish" in err) == (2, True)


@pytest.fixture
def in_shell(warehouse):
    """Return a function that runs a script of a shell in which `sleeper` is this one."""
    program = warehouse / "bin" / "sleeper"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -P -m sleeper_nb "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(warehouse)}

    def run(*words):
        if not shutil.which(words[0]):
            pytest.skip(f"{words[0]} is not installed")
        ran = subprocess.run(
            words, cwd=warehouse, env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        assert ran.stderr == ""
        return ran.stdout

    return run


BASH = """
eval "$(sleeper completion bash)"
complete -p sleeper
ask() {{ COMP_LINE=$1 COMP_POINT=${{#1}}; _sleeper_complete sleeper; printf '<%s>' "${{COMPREPLY[@]}}"; echo; }}
ask 'sleeper des'
ask 'sleeper scan trips --where "fare > 0 AND '
cd /; ask 'sleeper --warehouse {folder}/warehouse files trips@b'
"""


@pytest.mark.processes
def test_bash_completes(in_shell, warehouse):
    assert in_shell("bash", "--norc", "-c", BASH.format(folder=warehouse)).splitlines() == [
        "complete -o nospace -F _sleeper_complete sleeper",
        "<describe >",
        "<fare > 0 AND city><fare > 0 AND pickup><fare > 0 AND fare><fare > 0 AND tip>",
        "<@before-fix >",
    ]


@pytest.mark.processes
def test_fish_completes(in_shell):
    ask = "sleeper completion fish | source; complete -C'sleeper scan trips@b'"
    assert in_shell("fish", "--no-config", "-c", ask) == "trips@before-fix\n"


@pytest.mark.processes
def test_zsh_reads_the_script(in_shell):
    known = 'compdef() { echo $@ }; eval "$(sleeper completion zsh)"; echo $functions[_sleeper] | wc -l'
    assert in_shell("zsh", "-f", "-c", known).split()[:2] == ["_sleeper", "sleeper"]
