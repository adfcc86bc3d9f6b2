"""A change of rows that fails at any step: all of it is in the table or nothing, and its job may be run again.

A step is a change in the catalog, by one request, or of a file. Nothing that a dead process does has an effect.
"""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.errors import OutcomeUnknown, SleeperError, StorageError
from sleeper_nb.model.file_reference import stored_files
from tests.servers.memory import MemoryDynamoDB
from tests.support.builders import data_files, reachable
from tests.support.faults import DeadError, Fault
from tests.support.row_changes import PROPERTIES, ROW_CHANGES, Numbers
from tests.whole.test_crash_administration import KINDS, Place

SCHEMA = sl.Schema({"key": "string"}, values={"n": "long"})
SEVERE = ("dies after", "loses its answer", "loses all answers", "is down")
DAY = timedelta(days=1)
FREE_SPACE = "free some space, then run it again"


def prepared(folder: Path, kind: str) -> Place:
    """Make a table of two leaves, with a deletion vector and files that the leaves share."""
    place = Place(folder, MemoryDynamoDB() if kind == "DynamoDBStateStore" else None)
    folder.mkdir()
    with place.opened() as session:
        table = session.create_table("t", SCHEMA, state_store=kind, properties=PROPERTIES)
        for keys in ("abefgnoyz", "dhmrs"):
            table.ingest([{"key": key, "n": number} for number, key in enumerate(keys)])
        table.delete("key IN ('d', 'g')")
        table.maintenance.split(at="m")
        assert any(each["deletion_file"] for each in table.at().state.files.active.to_pylist())
    return place


def numbers(table: sl.Table, version: int | None = None) -> Numbers:
    rows = table.scan(version=version).to_arrow().to_pylist()
    found = {row["key"]: row["n"] for row in rows}
    assert len(found) == len(rows)  # nothing is doubled
    return found


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Place]:
    return {kind: prepared(tmp_path_factory.mktemp("places") / kind, kind) for kind in KINDS}


def hold_and_run_again(session: sl.Session, work: str, before: Numbers, said: str) -> None:
    """Hold that a table is as before a change or after it, and that the job completes when it runs again, once."""
    table, change = session.table("t"), ROW_CHANGES[work]
    after, head = change.after(before), table.at().resolved.snapshot_id
    assert numbers(table) == (after if said == "done" else before if said == "not done" else numbers(table))
    assert numbers(table) in (before, after)
    was_done = numbers(table) == after
    assert table.maintenance.check(deep=True).findings == ()
    for _ in range(2):
        report = change.run(table)
        assert report.snapshot is not None
        assert numbers(table) == after
        assert table.at().resolved.snapshot_id == head + (not was_done)
    hold_leftovers(table)
    for snapshot in table.history():
        assert snapshot.rows == len(numbers(table, snapshot.id))
    assert table.maintenance.check(deep=True).findings == ()


def hold_leftovers(table: sl.Table) -> None:
    """Hold that a sweep finds exactly the files that no version names."""
    store = table._store
    for path in data_files(store):
        os.utime(store.storage.locate(path), (0, 0))
    needed = reachable(store) | {*stored_files(store.load().files.table)["filename"].to_pylist()}
    left = data_files(store) - needed
    assert {file.path for file in table.maintenance.sweep_orphans(dry_run=False, older_than=DAY).files} == left
    assert data_files(store) <= needed


def attempted(session: sl.Session, work: str) -> str:
    """Run a change; return what a caller knows of it."""
    try:
        ROW_CHANGES[work].run(session.table("t"))
    except (OutcomeUnknown, DeadError):
        return "unknown"
    except SleeperError:
        return "not done"
    return "done"


def try_every_step(place: Place, folder: Path, work: str, kind: str, every: int = 1) -> None:
    with place.opened() as session:
        before = numbers(session.table("t"))
    for at in count(1, every):
        copy = place.copied(folder / str(at))
        fault = Fault(kind, at, rival=lambda: None)
        with copy.opened(fault, seed=1) as session:
            said = attempted(session, work)
        with copy.opened(seed=2) as session:
            hold_and_run_again(session, work, before, said)
        shutil.rmtree(copy.folder)
        if fault.calls < at:
            break
    assert at > 3


@pytest.mark.parametrize("work", ["delete with a vector", "merge"])
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
def test_a_change_whose_answers_are_lost_is_done_or_not_and_runs_again(
    places: dict[str, Place], tmp_path: Path, work: str, every: int
):
    try_every_step(places["TransactionLogStateStore"], tmp_path, work, "loses its answer", every)


@pytest.mark.long
@pytest.mark.parametrize("store", KINDS)
@pytest.mark.parametrize("kind", SEVERE)
@pytest.mark.parametrize("work", ROW_CHANGES)
def test_a_change_that_fails_at_any_step_is_done_or_not_and_runs_again(
    places: dict[str, Place], tmp_path: Path, work: str, kind: str, store: str
):
    try_every_step(places[store], tmp_path, work, kind)


@pytest.mark.parametrize("step", [4_200, pytest.param(700, marks=pytest.mark.long)])
@pytest.mark.parametrize("work", ROW_CHANGES)
def test_a_full_disk_leaves_the_rows_as_they_were(places: dict[str, Place], tmp_path: Path, work: str, step: int):
    copy = places["S3StateStore"].copied(tmp_path / "house")
    with copy.opened(seed=1) as session:
        before, files = numbers(session.table("t")), data_files(session.table("t")._store)
        head = session.table("t").at().resolved.snapshot_id
    said = set()
    for room in range(0, 100_000, step):
        with copy.opened(seed=2 + room, room=room) as session:
            table = session.table("t")
            try:
                ROW_CHANGES[work].run(table)
            except StorageError as error:
                said.add((error.message.partition(" for ")[0], error.hint))
                assert (numbers(table), data_files(table._store)) == (before, files)
                assert table.at().resolved.snapshot_id == head
                assert not table.inspect.leases()
            else:
                break
    assert said == {("no space left", FREE_SPACE)}
    with copy.opened(seed=1) as session:
        hold_and_run_again(session, work, before, "done")
