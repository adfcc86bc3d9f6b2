"""Deleting a table against everything else that may be done to it, in every order of their steps, on both catalogs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.admin.delete import delete_table
from sleeper_nb.admin.property_files import PropertyFiles
from sleeper_nb.admin.reinitialise import Fresh, reinitialise
from sleeper_nb.catalog.catalog_base import TableEntry
from sleeper_nb.errors import AlreadyExists, NotFound
from sleeper_nb.model.jobs import Lease
from sleeper_nb.model.properties import InstanceProperties
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local import LocalPlace
from tests.support.builders import TABLE, ingest, keys_in, rows_of, save, scan, snapshot
from tests.support.faults import TrappedStorage
from tests.support.interleavings import Gate, Outcome, Stage, Template, explore

WHERE = [("S3StateStore", "sqlite"), ("DynamoDBStateStore", "memory")]


@pytest.fixture(params=WHERE, ids=" on ".join)
def template(request: pytest.FixtureRequest, tmp_path: Path) -> Template:
    def prepare(store: StateStore) -> None:
        ingest(store, rows_of("a"))

    return Template(tmp_path, *request.param, prepare)


def deleted(stage: Stage, gate: Gate) -> None:
    home = TrappedStorage(Storage(LocalPlace(stage.folder, sync=False)), gate)  # type: ignore[arg-type]
    files = PropertyFiles(home, InstanceProperties({}))
    delete_table(stage.catalog(gate), files, TableEntry(TABLE, "table"), stage.clock)


def loaded(stage: Stage, gate: Gate) -> Any:
    return ingest(stage.opened(gate), rows_of("b"))


def saved(stage: Stage, gate: Gate) -> Any:
    return save(stage.opened(gate), "kept")


def emptied(stage: Stage, gate: Gate) -> Any:
    return reinitialise(stage.opened(gate), "table", Fresh(points=("m",)), force=True, dry_run=False)


def leased(stage: Stage, gate: Gate) -> None:
    now = stage.clock.now()
    stage.catalog(gate).add_lease(TABLE, Lease("l", 2, now, now + timedelta(hours=1), "scan"))


def renamed(stage: Stage, gate: Gate) -> None:
    stage.catalog(gate).rename_table(TABLE, "table", "new")


def check_gone(stage: Stage) -> None:
    catalog = stage.catalog()
    assert (catalog.tables(), catalog.deleted(), catalog.snapshots(TABLE)) == ((), (), ())
    assert [file.path for file in Storage(LocalPlace(stage.folder)).list(TABLE)] == []


@pytest.mark.parametrize(("other", "switches"), [(loaded, 2), (saved, 2), (emptied, 1), (leased, 2)])
def test_what_a_deletion_overtakes_fails_cleanly_and_leaves_nothing(
    template: Template, other: Callable[[Stage, Gate], Any], switches: int
):
    ends = set()

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        error = outcomes["other"].error
        assert outcomes["delete"].error is None
        assert error is None or isinstance(error, NotFound), repr(error)
        ends.add(type(error))
        check_gone(stage)

    explore(template.copy, {"delete": deleted, "other": other}, check, most_switches=switches)
    assert ends == {type(None), NotFound}


def test_of_two_deletions_one_wins_and_nothing_is_left(template: Template):
    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        errors = [outcome.error for outcome in outcomes.values() if outcome.error is not None]
        assert [type(error) for error in errors] == [NotFound]
        check_gone(stage)

    explore(template.copy, {"one": deleted, "two": deleted}, check, most_switches=2)


def test_of_a_deletion_and_a_rename_one_wins(template: Template):
    ends = set()

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        lost = [name for name, outcome in outcomes.items() if outcome.error is not None]
        assert len(lost) == 1
        assert isinstance(outcomes[lost[0]].error, NotFound)
        ends.add(lost[0])
        if lost == ["rename"]:
            check_gone(stage)
        else:
            assert [entry.name for entry in stage.catalog().tables()] == ["new"]
            assert keys_in(scan(stage.opened())) == ["a"]

    explore(template.copy, {"delete": deleted, "rename": renamed}, check)
    assert ends == {"delete", "rename"}


def test_of_two_renames_to_one_name_one_wins(template: Template):
    def second(stage: Stage, gate: Gate) -> None:
        stage.catalog(gate).rename_table("u", "second", "new")

    def made(stage: Stage) -> Stage:
        stage.catalog().create_table(TableEntry("u", "second"), snapshot(1, "second"))
        return stage

    @contextlib.contextmanager
    def two() -> Iterator[Stage]:
        with template.copy() as stage:
            yield made(stage)

    def check(stage: Stage, outcomes: Mapping[str, Outcome]) -> None:
        lost = [outcome.error for outcome in outcomes.values() if outcome.error is not None]
        assert [type(error) for error in lost] == [AlreadyExists]
        named = {entry.name for entry in stage.catalog().tables()}
        assert named in ({"new", "table"}, {"new", "second"})

    explore(two, {"one": renamed, "two": second}, check)
