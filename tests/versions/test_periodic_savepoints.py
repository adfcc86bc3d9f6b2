"""Savepoints that are made and retired without being asked for, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.maintain.maintain import NOTHING_DUE
from sleeper_nb.versions.periodic_savepoints import (
    SavepointSchedule,
    is_due,
    plan_retirement,
)
from tests.support.builders import START, savepoint, snapshot
from tests.support.faults import Trap, TrappedCatalog, TrappedStorage, interrupt, lose_answer

SCHEMA = sl.Schema({"city": "string"})
DAY = timedelta(days=1)
ROME = [{"city": "rome"}]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def session(tmp_path: Path, clock: ManualClock) -> Iterator[sl.Session]:
    with sl.connect(tmp_path, clock=clock, author="ann") as opened:
        yield opened


def made(session: sl.Session, **properties: str) -> sl.Table:
    return session.create_table("trips", SCHEMA, properties={"savepoint.create-interval": "1 d", **properties})


def saved(table: sl.Table) -> list[int]:
    """The snapshots that savepoints save."""
    return [one.saved_snapshot_id for one in table.savepoints()]


# The rules.

MANUAL, PERIODIC = False, True
points = st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=9)


def listed(points: list[tuple[bool, int]]) -> list[sl.Savepoint]:
    """Savepoints of snapshots 1, 2, 3 …: whether each is periodic, and how many hours after `START` it was made."""
    return [
        savepoint(number, snapshot(number), save_time=START + timedelta(hours=hours), periodic=periodic)
        for number, (periodic, hours) in enumerate(points, 1)
    ]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=6), st.integers(0, 35), st.integers(0, 30))
@example([(PERIODIC, 0), (PERIODIC, 2)], 0, 1)  # the clock was set back, and the newest saves a version of the future
def test_every_moment_that_is_retained_is_answered_by_the_same_savepoint(
    points: list[tuple[bool, int]], lasting: int, now: int
):
    """Where all snapshots have expired, the closest savepoint before a moment answers for it."""
    there = [replace(one, snapshot_time=one.save_time) for one in listed(sorted(points, key=lambda point: point[1]))]
    schedule = SavepointSchedule(time_retained=timedelta(hours=lasting))
    gone = {one.id for one in plan_retirement(there, schedule, START + timedelta(hours=now))}
    left = [one for one in there if one.id not in gone]

    def answer(savepoints: list[sl.Savepoint], moment: int) -> int | None:
        at = START + timedelta(hours=moment)
        return max((one.id for one in savepoints if one.committed <= at), default=None)

    for moment in range(max(0, now - lasting), 31):
        assert answer(left, moment) == answer(there, moment)


@pytest.mark.parametrize(
    ("points", "hours", "due"),
    [
        ([], 0, True),
        ([(PERIODIC, 0)], 1.99, False),
        ([(PERIODIC, 0)], 2, True),
        ([(PERIODIC, 0), (MANUAL, 2)], 2, True),  # made by hand, perhaps of an old version: puts nothing off
        ([(PERIODIC, 0), (PERIODIC, 1)], 2, False),
        ([(PERIODIC, 5)], 2, False),  # the clock was set back
    ],
)
def test_a_savepoint_is_due_when_the_last_periodic_one_is_as_old_as_the_interval(points: Any, hours: float, due: bool):
    now = START + timedelta(hours=hours)
    assert is_due(listed(points), snapshot(99), timedelta(hours=2), now) == due
    assert not is_due(listed(points), snapshot(99), None, now)


@pytest.mark.parametrize("kind", [MANUAL, PERIODIC])
def test_no_savepoint_is_due_of_a_version_that_has_one(kind: bool):
    assert not is_due(listed([(kind, 0)]), snapshot(1), timedelta(hours=2), START + DAY)


@pytest.mark.parametrize(
    ("points", "schedule", "retired"),
    [
        ([(PERIODIC, 0), (PERIODIC, 1), (PERIODIC, 2)], SavepointSchedule(), []),
        ([(PERIODIC, 0), (PERIODIC, 1), (PERIODIC, 2)], SavepointSchedule(num_retained_max=2), [1]),
        ([(PERIODIC, 0), (MANUAL, 1), (PERIODIC, 2)], SavepointSchedule(num_retained_max=1), [1]),
        ([(MANUAL, 0), (MANUAL, 1)], SavepointSchedule(num_retained_max=1, time_retained=timedelta(0)), []),
        ([(PERIODIC, 0), (PERIODIC, 1), (PERIODIC, 2)], SavepointSchedule(time_retained=timedelta(hours=9)), [1]),
        ([(PERIODIC, 0), (PERIODIC, 1)], SavepointSchedule(time_retained=timedelta(hours=10)), []),
        ([(PERIODIC, 0)], SavepointSchedule(time_retained=timedelta(0)), []),
    ],
)
def test_worked_examples_of_retirement(points: Any, schedule: SavepointSchedule, retired: list[int]):
    plan = plan_retirement(listed(points), schedule, START + timedelta(hours=10))
    assert [one.id for one in plan] == retired


@given(points, st.integers(1, 5), st.none() | st.integers(0, 9), st.integers(0, 1))
def test_the_newest_periodic_savepoint_and_those_made_by_hand_are_never_retired(
    points: list[tuple[bool, int]], most: int, hours: int | None, coming: int
):
    there = listed(points)
    schedule = SavepointSchedule(None, most, None if hours is None else timedelta(hours=hours))
    retired = plan_retirement(there, schedule, START + timedelta(hours=9), coming=snapshot(99) if coming else None)
    periodic = [one for one in there if one.periodic]
    assert all(one.periodic for one in retired)
    left = [one for one in periodic if one not in retired]
    assert len(left) + coming <= most
    assert coming or periodic[-1:] == left[-1:]
    assert left == periodic[len(retired) :] or hours is not None


# A table's own.


def test_a_load_saves_what_it_made_when_the_last_savepoint_is_old_enough(session: sl.Session, clock: ManualClock):
    table = made(session)
    first = table.ingest(ROME)
    assert (saved(table), first.savepoint) == ([2], table.savepoints()[0])
    assert (first.savepoint.periodic, first.savepoint.author, first.savepoint.name) == (True, "ann", None)
    assert "savepoint 1 saves snapshot 2" in repr(first)
    assert table.ingest(ROME).savepoint is None
    clock.advance(DAY)
    table.maintenance.compact("all", engine="local")
    assert saved(table) == [2]  # no row has changed
    table.ingest(ROME)
    assert saved(table) == [2, 5]


@pytest.mark.spark
def test_a_bulk_import_saves_what_it_made(tmp_path: Path, clock: ManualClock, spark_engine: Any):
    with sl.connect(tmp_path, clock=clock, spark=spark_engine.session()) as session:
        table = made(session)
        assert table.bulk_import(ROME).savepoint.saved_snapshot_id == 2
        assert saved(table) == [2]


def test_a_load_that_was_done_before_and_a_dry_run_save_nothing(session: sl.Session, clock: ManualClock):
    table = made(session)
    table.ingest(ROME, job_id="one")
    clock.advance(DAY)
    table.ingest(ROME, job_id="one")
    table.ingest(ROME, dry_run=True)
    assert saved(table) == [2]


@pytest.mark.parametrize("call", ["savepoints", "reserve_savepoint_id", "add_savepoint", "write"])
def test_a_savepoint_that_cannot_be_made_neither_fails_nor_repeats_the_load_and_is_told(
    session: sl.Session, call: str, caplog: pytest.LogCaptureFixture
):
    table, trap = made(session), Trap(1, lose_answer, only=(call,))
    store = table._store
    catalog, storage = store.catalog, store.storage
    store.catalog, store.storage = TrappedCatalog(catalog, trap), TrappedStorage(storage, trap)
    loaded = table.ingest(ROME, job_id="once")
    store.catalog, store.storage = catalog, storage
    assert (loaded.snapshot_id, loaded.savepoint) == (2, None)
    assert "the savepoint that was due could not be created: the connection broke" in repr(loaded)
    logged = [record.getMessage() for record in caplog.records if record.name.endswith("periodic_savepoints")]
    assert logged == [f"table {table.entry.id}: periodic savepoint of snapshot 2 failed: the connection broke"]
    assert (table.scan().count(), saved(table)) == (1, [])
    table.ingest(ROME)
    assert saved(table) == [3]


def test_status_says_that_a_savepoint_is_due(session: sl.Session, clock: ManualClock):
    table = made(session)
    table.ingest(ROME)
    assert "maintain" not in [step.command for step in table.inspect.status().next_steps]
    table.ingest(ROME)
    clock.advance(DAY)
    assert [step.command for step in table.inspect.status().next_steps] == ["maintain"]
    assert "table.maintain(): a periodic savepoint is due" in repr(table.inspect.status())
    table.maintain()
    assert "maintain" not in [step.command for step in table.inspect.status().next_steps]


def test_an_interrupt_while_the_savepoint_is_made_leaves_the_load(session: sl.Session):
    table = made(session)
    real = table._store.catalog
    table._store.catalog = TrappedCatalog(real, Trap(1, interrupt, only=("add_savepoint",)))
    with pytest.raises(KeyboardInterrupt):
        table.ingest(ROME)
    table._store.catalog = real
    assert (table.scan().count(), saved(table)) == (1, [])


def test_maintenance_saves_the_current_version_when_no_load_did(session: sl.Session, clock: ManualClock):
    table = made(session)
    assert table.maintain()["create-savepoint"].snapshot_id == 1
    table.ingest(ROME)
    assert saved(table) == [1]
    clock.advance(DAY)
    assert table.maintain(dry_run=True)["create-savepoint"].summary == "would save snapshot 2"
    assert saved(table) == [1]
    assert table.maintain()["create-savepoint"].summary == "savepoint 2 saves snapshot 2"
    clock.advance(DAY)
    assert table.maintain()["create-savepoint"].summary == ""  # it is saved
    assert saved(table) == [1, 2]


def retired(report: Any) -> list[int]:
    return [one.id for one in report["delete-savepoint"].savepoints]


def test_maintenance_retires_what_is_too_old_or_too_many_and_says_so(session: sl.Session, clock: ManualClock):
    limits = {"savepoint.num-retained.max": "2", "savepoint.time-retained": "60 h"}
    table = made(session, **limits, **{"sleeper.table.compaction.files.batch.size": "99"})
    table.create_savepoint("mine")
    for _ in range(3):
        table.ingest(ROME)
        clock.advance(DAY)
    assert saved(table) == [1, 2, 3, 4]
    plan, done = table.maintain(dry_run=True), table.maintain()
    assert plan["delete-savepoint"].summary == "would delete 1 periodic savepoint"
    assert done["delete-savepoint"].summary == "deleted 1 periodic savepoint"
    assert retired(plan) == retired(done) == [2]
    clock.advance(2 * DAY)
    assert (retired(table.maintain()), saved(table)) == ([3], [1, 4])
    clock.advance(99 * DAY)
    assert (table.maintain().steps[-1].summary, saved(table)) == (
        NOTHING_DUE,
        [1, 4],
    )  # the newest, on a table that rests
    assert table.maintenance.check(deep=True).ok


def test_the_list_says_which_were_made_periodically(session: sl.Session):
    table = made(session)
    table.create_savepoint("mine", "why")
    table.ingest(ROME)
    shown = table.savepoints().to_dict()
    assert (shown["made"], shown["author"]) == (["by hand", "periodically"], ["ann", "ann"])
    assert shown["message"] == ["why", None]
