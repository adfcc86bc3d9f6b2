"""What a plan says is what happens: the line that it names does it, and what it says of a version comes true."""

from __future__ import annotations

import io

import pytest

from sleeper_nb import cli


@pytest.fixture
def trips(typed):
    typed("create-savepoint trips --name first")
    typed("ingest trips $rows")
    return typed


def test_the_line_of_a_plan_has_no_force_where_none_is_needed(trips):
    plan = repr(trips("delete-savepoint trips first --dry-run"))
    assert "%sleeper delete-savepoint trips first does it" in plan
    assert "stays until snapshot 1 expires" in plan
    assert "due now" not in plan
    assert "force" not in repr(trips("delete-savepoint trips --name first --dry-run"))


def test_a_plan_says_that_the_version_would_expire_now(trips):
    trips("properties trips snapshot.num-retained.min=1 'snapshot.time-retained=0 s'")
    assert "stays until snapshot 1 expires, which is due now" in repr(trips("delete-savepoint trips first --dry-run"))
    trips("create-savepoint trips@1 --name second")
    assert "stays: savepoint 2" in repr(trips("delete-savepoint trips first --dry-run"))
    trips("delete-savepoint trips second")
    trips("expire trips --force")
    plan = repr(trips("delete-savepoint trips first --dry-run"))
    assert "would be gone: nothing else keeps it" in plan
    assert "%sleeper delete-savepoint trips first --force does it" in plan


def test_in_python_the_plan_names_force_only_where_it_is_needed(trips, shell):
    trips("use ./warehouse")
    table = trips("tables")[0]
    assert "the same without dry_run=True does it" in repr(table.delete_savepoint("first", dry_run=True))


def test_a_rollback_says_which_commits_stay_in_effect(trips):
    trips("alter trips --add-column 'note string?'")
    plan = repr(trips("rollback trips 1 --dry-run"))
    assert "1 snapshot would be undone, and could still be read" in plan
    assert "not undone, and would stay in effect: alter (snapshot 3)" in plan
    assert "stay in effect: alter (snapshot 3)" in repr(trips("rollback trips 1"))


def test_changed_rows_are_counted_where_metadata_has_the_number(trips):
    assert "first 1 of 3 rows" in repr(trips("diff trips 1 --rows --limit 1"))
    assert "no row is shown of 3 rows" in repr(trips("diff trips 1 --rows --limit 0"))
    trips("update trips --set 'fare = fare + 1' --where \"city = 'rome'\"")
    assert "first 1 row; there are more" in repr(trips("diff trips 2 --rows --limit 1"))


def test_a_name_that_differs_only_in_case_makes_no_instance(trips, refused):
    message, hint = refused("use ./warehouse --instance Default")
    assert "there is no instance 'Default'" in message
    assert "but there is 'default'" in message
    assert hint.startswith("open that one: %sleeper use ")
    assert not hint.endswith("--instance Default")


def test_a_new_instance_whose_name_is_near_another_says_so(trips):
    trips("add-instance test")
    opened = trips("use ./warehouse --instance test")
    assert opened.created is None
    near = repr(trips("use ./warehouse --instance tests"))
    assert "new instance at" in near
    assert "did you mean test? %sleeper use ./warehouse --instance test opens it" in near


KEY = "a key is its values alone, in the order of the row keys; or write --where "
NITS = [
    ("show tables", "did you mean %sleeper tables?"),
    ("diff trips 3..4", "write %sleeper diff trips 3 4"),
    ("scan trips city=rome", f'{KEY}"city=rome"'),
    ("scan trips where fare between 1 and 2", f'{KEY}"fare between 1 and 2"'),
    ("sql --limit 3 SELECT 1", "write LIMIT 20 in the statement"),
    ("alter trips --widen fare=double", "did you mean '--column-type'?"),
    ('scan trips --where "fare < 0', 'close it; a quote inside a text goes into the other kind: "it\'s in"'),
]


@pytest.mark.parametrize(("line", "hint"), NITS)
def test_a_slip_is_answered_with_the_line_that_works(refused, line, hint):
    assert refused(line)[1] == hint


def test_the_version_is_shown_in_a_notebook_too(typed):
    assert repr(typed("--version")).startswith("sleeper-nb ")


def test_the_console_reads_a_statement_from_standard_input(trips, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 41 + 1 AS answer\n"))
    assert cli.main(["--warehouse", "warehouse", "sql", "-"]) == 0
    assert "42" in capsys.readouterr().out
    assert cli.main(["--warehose", "warehouse", "tables"]) == 2
    assert "no command '--warehose'" in capsys.readouterr().err
