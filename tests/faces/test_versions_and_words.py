"""A version is taken wherever one makes sense, and a word that is nearly right is told what to type instead."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.session import connect

ROWS = [{"city": name, "fare": fare} for fare, name in enumerate(["athens", "lima", "zagreb"])]
MADE = (
    "%sleeper use ./warehouse",
    "%%sleeper create trips --splits g\ncity STRING KEY\nfare INT NULL",
    "%sleeper ingest trips $rows",
    "%sleeper create-savepoint trips --name before-fix",
    "%sleeper ingest trips $rows",
)


@pytest.fixture
def run(cell, shell):
    """Run a cell of a shell with a table of three snapshots, and return its value, or raise its error."""

    shell.push({"rows": ROWS})
    for source in MADE:
        cell(source)
    return cell


def test_a_version_behind_the_table_is_the_one_to_roll_back_to(run):
    assert run("%sleeper rollback trips@before-fix --dry-run").dry_run
    assert run("%sleeper rollback trips@2 -m why").snapshot.id == 4
    with pytest.raises(InvalidInput, match="trips@2 names a version, and '3' is another"):
        run("%sleeper rollback trips@2 3")
    with pytest.raises(InvalidInput, match="rollback needs a version") as caught:
        run("%sleeper rollback trips")
    assert caught.value.hint == "%sleeper rollback trips 12, or a savepoint's name; %sleeper history trips lists them"


def test_a_version_behind_the_table_is_the_one_to_save(run):
    assert run("%sleeper create-savepoint trips@1 --name empty").saved_snapshot_id == 1
    assert run("%sleeper create-savepoint trips@before-fix").saved_snapshot_id == 2
    assert run("%sleeper create-savepoint trips --snapshot 2").saved_snapshot_id == 2
    assert run("%sleeper create-savepoint trips").saved_snapshot_id == 3
    with pytest.raises(InvalidInput, match="trips@1 names a version, and '2' is another"):
        run("%sleeper create-savepoint trips@1 --snapshot 2")


def test_both_versions_of_a_diff_may_stand_behind_the_table(run):
    wanted = repr(run("%sleeper diff trips 2 3"))
    assert repr(run("%sleeper diff trips@2 trips@3")) == wanted
    assert repr(run("%sleeper diff trips@before-fix 3")) == repr(run("%sleeper diff trips trips@before-fix"))


def test_a_diff_of_a_table_that_combines_rows_says_what_each_number_counts(run):
    said = "before and after count rows in files; added and removed count rows that queries return"
    assert said not in repr(run("%sleeper diff trips 2 3"))
    run("%%sleeper create sums --set sleeper.table.aggregations=sum(fare)\ncity STRING KEY\nfare INT")
    run("%sleeper ingest sums $rows")
    run("%sleeper ingest sums $rows")
    found = run("%sleeper diff sums 2 3")
    assert found.grid().rows[0] == ("rows", 3, 6, 2, 2)  # but for the one whose sum is 0 again
    assert said in repr(found)
    assert said[1:] in found._repr_html_()  # on a page it begins as a sentence does


def test_rows_of_a_scan_are_given_as_a_library_has_them(run):
    assert run('%sleeper scan trips@2 --where "fare > 0" --as pandas').to_dict("list") == {
        "city": ["lima", "zagreb"],
        "fare": [1, 2],
    }
    assert run("%sleeper scan trips lima --columns fare --as arrow").to_pydict() == {"fare": [1, 1]}
    with pytest.raises(InvalidInput, match="no form 'panda'"):
        run("%sleeper scan trips --as panda")


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("ingest trips rows", "no data file 'rows'", "write $rows for the variable"),
        ("use $number", "$number is a int, not a warehouse", "give a session, or the address of a warehouse"),
        ("use s3:/bucket/x", "cannot open s3:/bucket/x", "give a folder, or s3://bucket/prefix"),
        ("use ./tables.toml", "./tables.toml is a file, not a folder", "give the folder of a warehouse, or a new one"),
        (
            "jobs --limit 0",
            "jobs --limit 0 would list nothing",
            "write --limit 1 or more; without it, the newest are listed",
        ),
        ("sql --as panda SELECT 1", "no form 'panda'", "did you mean 'pandas'?"),
        ("properties trips gc.delay", "no property 'gc.delay'", "did you mean 'sleeper.table.gc.delay.minutes'?"),
        (
            "properties trips snapshot.time-retained=30 d",
            "the value of snapshot.time-retained has spaces, so it needs quotes",
            'write "snapshot.time-retained=30 d"',
        ),
        (
            "properties trips sleeper.table.gc.delay.minutes = 30",
            "the value of sleeper.table.gc.delay.minutes has spaces, so it needs quotes",
            'write "sleeper.table.gc.delay.minutes = 30"',
        ),
        ("completion", "completion needs SHELL", "usage: completion bash|zsh|fish"),
        (
            "export trips trips.xlsx",
            "the format of 'trips.xlsx' cannot be written",
            "end it in .parquet or .csv or .tsv, or give a folder",
        ),
        (
            "sql --engine duckdb SELECT * FROM trips.snapshots",
            "no table 'trips.snapshots'",
            "write trips$snapshots",
        ),
        ("sql --engine duckdb SELECT t.fair FROM trips t", "no column 'fair' of 't'", "did you mean 'fare'?"),
    ],
)
def test_a_wrong_word_is_told_what_to_type(run, shell, line, message, hint):
    shell.push({"number": 5})
    Path("tables.toml").write_text("")
    with pytest.raises((InvalidInput, NotFound)) as caught:
        run(f"%sleeper {line}")
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_savepoint_is_offered_by_words_that_name_it_and_no_snapshot(run):
    run("%sleeper create-savepoint trips")
    with pytest.raises(NotFound, match="no savepoint 'latest' of table 'trips'") as caught:
        run("%sleeper describe trips@latest")
    assert caught.value.hint.startswith("the name of a table alone is its newest version; available: ")
    offered = caught.value.hint.partition("available: ")[2].split(", ")
    assert offered == ["before-fix", "savepoint.1", "savepoint.2"]
    shown = [run(f"%sleeper describe trips@{word}").to_dict()["table"]["version"] for word in offered]
    assert shown == [2, 2, 3]


def test_a_savepoint_cannot_have_a_name_that_means_another_version(run):
    for name, meant in [("savepoint.1", "savepoint.1"), ("v1", "snapshot.1"), ("snapshot.1", "snapshot.1")]:
        with pytest.raises(InvalidInput, match=f"{name!r} is not a valid savepoint name: it refers to {meant}"):
            run(f"%sleeper create-savepoint trips --name {name}")
    for name in ("latest", "Current", "head", "now"):
        with pytest.raises(InvalidInput, match="would expect a version that changes"):
            run(f"%sleeper create-savepoint trips --name {name}")
    assert [point.name for point in run("%sleeper savepoints trips")] == ["before-fix"]


@pytest.mark.parametrize("word", ["'before-fix'", "'savepoint.before-fix'", "before-fix", "'v2'"])
def test_sql_takes_a_savepoint_by_its_name_alone(run, word):
    result = run(f"%sleeper sql SELECT * FROM trips VERSION AS OF {word}")
    assert result.sources[0].resolved.snapshot_id == 2
    with pytest.raises(NotFound, match="no savepoint 'nope' of table 'trips'") as caught:
        run("%sleeper sql SELECT * FROM trips VERSION AS OF 'nope'")
    assert caught.value.hint.startswith("available: before-fix, savepoint.1")


@pytest.mark.parametrize("written", ["trips before-fix", "trips@before-fix", "trips savepoint.1", "trips@savepoint.1"])
def test_a_savepoint_is_named_alike_by_every_command(run, written):
    saved = run("%sleeper savepoints trips")[0].saved_snapshot_id
    assert run(f"%sleeper rollback {written} --dry-run").dry_run
    assert run(f"%sleeper diff {written}").before.resolved.snapshot_id == saved
    assert run(f"%sleeper delete-savepoint {written} --dry-run").savepoint.id == 1
    run(f"%sleeper delete-savepoint {written} --force")
    assert len(run("%sleeper savepoints trips")) == 0


@pytest.mark.parametrize("word", ["before-fix", "savepoint.before-fix", "savepoint.1"])
def test_a_savepoint_is_named_alike_by_every_method(run, word):
    run("%sleeper savepoints trips")
    with connect("./warehouse") as session:
        table = session.table("trips")
        saved = table.savepoints()[0].saved_snapshot_id
        assert table.at(word).resolved.snapshot_id == saved
        assert table.rollback(word, dry_run=True).dry_run
        assert table.scan(version=word).to_arrow() == table.scan(version=saved).to_arrow()
        assert table.diff(word).before.resolved.snapshot_id == saved
        assert table.create_savepoint(snapshot=word).saved_snapshot_id == saved
        assert table.delete_savepoint(word, dry_run=True).savepoint.id == 1


@pytest.mark.parametrize("word", ["1", "v1", "snapshot.1", "2026-11-01"])
def test_what_means_a_snapshot_deletes_no_savepoint(run, word):
    with pytest.raises(InvalidInput, match="is not a savepoint") as caught:
        run(f"%sleeper delete-savepoint trips {word} --force")
    assert "delete-savepoint trips NAME, or savepoint.1" in caught.value.hint
    for both in ("before-fix --id 1", "--id 1 --name before-fix"):
        with pytest.raises(InvalidInput, match="name one savepoint"):
            run(f"%sleeper delete-savepoint trips {both} --force")


@pytest.mark.parametrize("name", ["savepoint.1", "1", "savepoint.2"])
def test_a_name_to_delete_is_no_id(run, name):
    run("%sleeper create-savepoint trips")
    with pytest.raises(NotFound, match=f"no savepoint '{name}'"):
        run(f"%sleeper delete-savepoint trips --name {name} --force")
    assert [point.id for point in run("%sleeper savepoints trips")] == [1, 2]
    with pytest.raises(NotFound, match="no savepoint 'before-fax' of table 'trips'") as caught:
        run("%sleeper delete-savepoint trips --name before-fax")
    assert caught.value.hint == "did you mean 'before-fix'?"


@pytest.mark.parametrize(("name", "other"), [("savepoint.1", 2), ("v1", 1), ("snapshot.1", 1)])
def test_a_savepoint_of_an_older_release_is_read_and_deleted_whatever_its_name(run, name, other):
    """Older releases gave names that mean another version."""
    made = run("%sleeper create-savepoint trips")
    with connect("./warehouse") as session:
        catalog, table_id = session._components.catalog, session.table("trips").entry.id
        catalog.add_savepoint(table_id, replace(made, id=catalog.reserve_savepoint_id(table_id), name=name))
    assert run(f"%sleeper describe trips@{name}").to_dict()["table"]["version"] == other
    assert run(f"%sleeper describe trips@savepoint.{name}").to_dict()["table"]["version"] == 3
    with pytest.raises(NotFound) as caught:
        run("%sleeper describe trips@latest")
    assert f"savepoint.{name}" in caught.value.hint.partition("available: ")[2].split(", ")
    run(f"%sleeper delete-savepoint trips --name {name} --force")
    assert [point.id for point in run("%sleeper savepoints trips")] == [1, 2]


def test_a_savepoint_that_is_left_as_it_is_says_so(run):
    run("%sleeper create-savepoint trips@2 --name kept")
    again = run("%sleeper create-savepoint trips --name kept --if-not-exists")
    assert repr(again) == "savepoint 'kept' exists already, of snapshot 2; nothing was made"


def test_an_empty_instance_names_the_others_as_it_may_be_misspelt(run):
    assert "other instances  default" in repr(run("%sleeper use ./warehouse --instance defalt"))
    assert "other instances" not in repr(run("%sleeper use ./warehouse"))


def test_a_cell_without_a_command_is_told_where_it_stands(run):
    with pytest.raises(InvalidInput, match="%%sleeper needs a command") as caught:
        run("%%sleeper\nSELECT * FROM trips")
    assert caught.value.hint == "write %%sleeper sql, and the query below it"
    with pytest.raises(InvalidInput, match="at least one row key") as caught:
        run("%%sleeper create t\ncity STRING")
    assert caught.value.hint.startswith("write KEY after a column: id STRING KEY")


def test_a_column_that_the_table_lacks_is_left_out_or_added(run, shell):
    shell.push({"more": [{"city": "oslo", "driver": "Ada"}]})
    plan = run("%sleeper ingest trips $more --dry-run")
    adding = 'leave it out with --ignore-extra, or add it: %sleeper alter trips --add-column "driver string?"'
    assert adding in repr(plan)


def test_the_console_command_runs_as_a_module_too(tmp_path):
    done = subprocess.run([sys.executable, "-m", "sleeper_nb", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sleeper-nb ")
