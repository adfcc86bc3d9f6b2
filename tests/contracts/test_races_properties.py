"""Two changes of a table's properties at once, in every order of their steps: the file has the lines of both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.admin.alter import alter
from sleeper_nb.admin.property_files import PropertyFiles
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.errors import NetworkError
from sleeper_nb.model.evolution import AddColumn
from sleeper_nb.model.processing import NOTHING
from sleeper_nb.model.properties import TABLE_SCHEMA, InstanceProperties, TableProperties, schema_line
from sleeper_nb.model.schema import Field, parse_type
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local import LocalPlace
from tests.support.builders import TABLE
from tests.support.faults import TrappedStorage
from tests.support.interleavings import Gate, Outcome, Stage, Template, explore

KEPT_FOR, FEWEST, MOST = "snapshot.time-retained", "snapshot.num-retained.min", "snapshot.num-retained.max"
Work = Callable[[Stage, Gate | None], Any]


def files_of(stage: Stage, gate: Gate | None = None) -> PropertyFiles:
    home = Storage(LocalPlace(stage.folder, sync=False))
    if gate is not None:
        home = TrappedStorage(home, gate)  # type: ignore[arg-type]
    return PropertyFiles(home, InstanceProperties({}), catalog=stage.catalog(gate))


def altered(column: str, line: str, value: str) -> Work:
    """Return what adds a column, and sets a line of the properties file with the same commit."""

    def work(stage: Stage, gate: Gate | None) -> None:
        added = AddColumn(Field(column, parse_type("string"), nullable=True))
        with files_of(stage, gate).with_commit(TABLE, {line: value}, takes_schema=True) as announce:
            alter(stage.opened(gate), "table", [added], NOTHING, dry_run=False, announce=announce)

    return work


def set_line(stage: Stage, gate: Gate | None) -> None:
    files_of(stage, gate).change(TABLE, {FEWEST: "5"})


def accepted(stage: Stage, gate: Gate | None) -> None:
    files_of(stage, gate).accept(TABLE)


def found(stage: Stage) -> TableProperties:
    """Return the properties as the next process that opens the table has them; hold that its file is in order."""
    files, store = files_of(stage), stage.opened()
    properties = files.of_entry(store.catalog.tables()[0])
    assert properties.texts == files.of_table(TABLE).texts
    assert not files.is_edited(TABLE)
    assert properties.text(TABLE_SCHEMA) == schema_line(store.load().schema)
    return properties


@pytest.fixture(params=["memory", "sqlite"])
def template(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Template:
    """A table with a properties file; no catalog has a lock, which the contract allows."""
    monkeypatch.setattr(SqliteCatalog, "commit_lock", lambda *_: contextlib.nullcontext())

    def prepare(store: StateStore) -> None:
        home = Storage(LocalPlace(Path(store.storage.root).parent, sync=False))
        files = PropertyFiles(home, InstanceProperties({}), catalog=store.catalog)
        files.add(TABLE, f"{TABLE_SCHEMA}={schema_line(store.load().schema)}\n")
        files.accept(TABLE)

    return Template(tmp_path, "TransactionLogStateStore", request.param, prepare)


ONE = altered("one", KEPT_FOR, "3 d")
OTHERS: Mapping[str, tuple[Work, Mapping[str, str]]] = {
    "alter": (altered("two", MOST, "70"), {MOST: "70"}),
    "set": (set_line, {FEWEST: "5"}),
    "accept": (accepted, {}),
}


@pytest.mark.parametrize("switches", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("other", OTHERS)
def test_lines_of_two_changes_at_once_are_both_in_the_file(template: Template, other: str, switches: int):
    work, lines = OTHERS[other]

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        for outcome in outcomes.values():
            if outcome.error is not None:
                raise outcome.error
        assert {KEPT_FOR: "3 d", **lines}.items() <= found(stage).texts.items()

    explore(template.copy, {"one": ONE, "other": work}, check, most_switches=switches)


def test_a_change_whose_commit_never_came_leaves_nothing_and_is_in_nobodys_way(template: Template):
    with template.copy() as stage:
        before = files_of(stage).recorded(TABLE)
        with contextlib.suppress(NetworkError), files_of(stage).with_commit(TABLE, {KEPT_FOR: "9 d"}) as announce:
            announce(stage.opened().head())
            raise NetworkError("the process lost its catalog")
        assert files_of(stage).recorded(TABLE) == before
        ONE(stage, None)
        assert found(stage).text(KEPT_FOR) == "3 d"
