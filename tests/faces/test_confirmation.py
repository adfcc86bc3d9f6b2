"""The one rule of what deletes (`ConfirmationNeeded`), at every door: Python, magics, a console, a terminal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import sleeper_nb as sl
from docs.reference_page import page
from magics.sleeper import SleeperMagics
from sleeper_nb import cli
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import ConfirmationNeeded
from sleeper_nb.report import Report

SCHEMA = sl.Schema({"city": "string"}, values={"fare": "long?"})


@dataclass(frozen=True)
class Deletion:
    """One thing that deletes: in Python, as it is typed, and what is typed at a terminal to confirm it."""

    python: Callable[..., Report]
    typed: str
    name: str = ""
    cleans: bool = False
    asks: str = "delete it for good"


DELETIONS = {
    "table": Deletion(lambda s, **o: s.drop_table("t", **o), "drop t", "t"),
    "table by script": Deletion(lambda s, **o: s.drop_table("t", **o), "delete-table default t", "t"),
    "contents": Deletion(lambda s, **o: s.admin.reinitialise("t", **o), "reinitialise t", "t"),
    "contents by script": Deletion(lambda s, **o: s.admin.reinitialise("t", **o), "reinitialise-table default t", "t"),
    "last hold": Deletion(
        lambda s, **o: s.table("t").delete_savepoint("old", **o), "delete-savepoint t --name old", "old"
    ),
    "last hold by id": Deletion(
        lambda s, **o: s.table("t").delete_savepoint(1, **o), "delete-savepoint t --id 1", "old"
    ),
    "purge": Deletion(
        lambda s, **o: s.table("t").maintenance.purge("true", **o), "purge t --where true",
        "t", asks="delete all of this for good",
    ),
    "new values": Deletion(
        lambda s, **o: s.table("t").update({"fare": "1"}, **o), "update t --set fare=1", "t", asks="update all its rows"
    ),
    "new rows": Deletion(
        lambda s, **o: s.table("t").overwrite("new.csv", **o), "overwrite t new.csv", "t", asks="replace all its rows"
    ),
    "expire": Deletion(lambda s, **o: s.table("t").maintenance.expire(**o), "expire t", cleans=True),
    "collect": Deletion(lambda s, **o: s.table("t").maintenance.collect_garbage(**o), "collect-garbage t", cleans=True),
    "gc": Deletion(lambda s, **o: s.table("t").maintenance.collect_garbage(**o), "collect-garbage t", cleans=True),
    "sweep": Deletion(lambda s, **o: s.table("t").maintenance.sweep_orphans(**o), "sweep-orphans t", cleans=True),
}  # fmt: skip


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A warehouse in which each of the deletions has something to delete."""
    folder = tmp_path_factory.mktemp("made")
    clock = ManualClock()
    with sl.connect(folder / "w", clock=clock) as session:
        table = session.create_table("t", SCHEMA, properties={"snapshot.num-retained.min": "1"})
        table.ingest([{"city": "rome", "fare": 1}])
        table.create_savepoint("old")
        for _ in range(2):
            table.ingest([{"city": "bern", "fare": 2}])
        table.maintenance.compact("all", engine="local")
        clock.advance(timedelta(days=30))
        table.ingest([{"city": "oslo", "fare": 3}])
        clock.advance(timedelta(days=30))
        table.maintenance.expire(dry_run=False)
        for _ in range(2):
            table.ingest([{"city": "lima", "fare": 4}])
        clock.advance(timedelta(days=30))
        table.set_properties({"snapshot.num-retained.max": "1"})
        table.maintenance.compact("all", engine="local")
        clock.advance(timedelta(days=30))
        stray = folder / "w" / "default" / table.entry.id / "data" / "partition_x" / "stray.parquet"
        stray.parent.mkdir()
        stray.write_bytes(b"x")
        os.utime(stray, (0, 0))
    return folder


@pytest.fixture
def house(template, tmp_path, monkeypatch):
    shutil.copytree(template / "w", tmp_path / "w", copy_function=shutil.copy2)
    (tmp_path / "new.csv").write_text("city,fare\nkiev,9\n")
    monkeypatch.setenv("SLEEPER_WAREHOUSE", str(tmp_path / "w"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "w"


def state(house) -> Any:
    """What is there: the tables, their versions and savepoints, and all files."""
    files = {str(path.relative_to(house)) for path in house.rglob("*") if path.is_file() and "catalog" not in path.name}
    with sl.connect(house) as session:
        tables = [(t.name, [s.id for s in t.history()], [p.id for p in t.savepoints()]) for t in session.tables()]
    return tables, files


def contents(plan: Report) -> dict[str, Any]:
    """What a plan says, without how long it took."""
    return plan.to_dict() | {"seconds": None}


def in_python(house, deletion: Deletion, *words: str) -> Report:
    with sl.connect(house) as session:
        force = {"dry_run": False} if deletion.cleans else {"force": True}
        options = {"--force": force, "--dry-run": {"dry_run": True}}
        return deletion.python(session, **{k: v for word in words for k, v in options[word].items()})


def in_a_notebook(house, deletion: Deletion, *words: str) -> Report:
    shell = InteractiveShell.instance()
    SleeperMagics.install(shell)
    try:
        shell.run_line_magic("sleeper", f"use {house}")
        return shell.run_line_magic("sleeper", " ".join((deletion.typed, *words)))
    finally:
        SleeperMagics.uninstall(shell)


def on_a_console(house, deletion: Deletion, *words: str) -> int:
    return cli.main([*deletion.typed.split(), *words])


@pytest.mark.parametrize("what", DELETIONS)
def test_python_deletes_with_force_plans_when_dry_and_otherwise_raises_its_plan(house, what):
    deletion, before = DELETIONS[what], state(house)
    plan = in_python(house, deletion, "--dry-run")
    assert plan.dry_run
    if deletion.cleans:
        assert in_python(house, deletion).to_dict() == plan.to_dict()
    else:
        with pytest.raises(ConfirmationNeeded) as error:
            in_python(house, deletion)
        assert contents(error.value.plan) == contents(plan)
        assert "force=True" in error.value.hint
        assert "force=True" in repr(plan)
        with sl.connect(house) as session:
            assert deletion.python(session, force=True, dry_run=True).dry_run
    assert state(house) == before
    done = in_python(house, deletion, "--force")
    assert not done.dry_run
    assert state(house) != before


@pytest.mark.parametrize("what", DELETIONS)
def test_a_magic_shows_its_plan_until_force(house, what):
    deletion, before = DELETIONS[what], state(house)
    for words in ((), ("--dry-run",)):
        plan = in_a_notebook(house, deletion, *words)
        assert plan.dry_run
        assert "--force" in repr(plan)
    assert state(house) == before
    assert not in_a_notebook(house, deletion, "--force").dry_run
    assert state(house) != before


@pytest.mark.parametrize("what", [what for what in DELETIONS if what != "contents by script"])
def test_a_console_without_a_terminal_prints_its_plan_and_what_to_type(house, what, capsys):
    deletion, before = DELETIONS[what], state(house)
    assert on_a_console(house, deletion, "--dry-run") == 0
    dry = capsys.readouterr()
    code = on_a_console(house, deletion)
    shown = capsys.readouterr()
    assert shown.out == dry.out
    assert f"{deletion.typed} --force" in shown.out if not deletion.cleans else "--force" in shown.out
    assert code == (0 if deletion.cleans else 1)
    assert ("ConfirmationNeeded" in shown.err, f"sleeper {deletion.typed} --force" in shown.err) == (
        not deletion.cleans,
    ) * 2
    assert state(house) == before
    assert on_a_console(house, deletion, "--force") == 0
    assert state(house) != before


@pytest.mark.parametrize("what", [what for what in DELETIONS if not DELETIONS[what].cleans])
def test_a_terminal_is_asked(house, what, monkeypatch, capsys):
    deletion, before, asked = DELETIONS[what], state(house), []
    monkeypatch.setattr(cli, "_is_watched", lambda: True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, code in (("", 1), ("no", 1), (deletion.name, 0)):
        monkeypatch.setattr(cli, "_ask", lambda text, answer=answer: asked.append(text) or answer)
        assert state(house) == before
        assert on_a_console(house, deletion) == code
    assert len(asked) == 3
    assert f"Type {deletion.name} to {deletion.asks}: " in asked[0]
    assert state(house) != before


def test_the_script_of_sleeper_that_has_no_question_does_what_its_line_says(house, capsys):
    with sl.connect(house) as session:
        session.table("t").delete_savepoint("old", force=True)
    assert on_a_console(house, DELETIONS["contents by script"]) == 0
    with sl.connect(house) as session:
        assert session.table("t").scan().count() == 0


def test_a_savepoint_that_is_not_the_last_to_keep_its_version_goes_at_once(house):
    with sl.connect(house) as session:
        table = session.table("t")
        with pytest.raises(ConfirmationNeeded, match="only savepoint 'old' keeps"):
            table.delete_savepoint("old")
        table.create_savepoint("kept")
        assert table.delete_savepoint("kept").others
        assert [point.name for point in table.savepoints()] == ["old"]


def test_the_rule_is_written_down_once_and_shown_in_the_reference():
    text = page()
    assert "## Deleting" in text
    assert "`ConfirmationNeeded` is raised" in text
