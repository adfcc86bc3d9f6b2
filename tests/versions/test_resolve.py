from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import NotFound
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import (
    Moment,
    SavepointReference,
    SnapshotReference,
    parse_version,
)
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.resolve import Resolved, resolve
from tests.support.builders import START, ingest, rows_of, save


@pytest.fixture
def table(store: StateStore, clock: ManualClock) -> StateStore:
    """Snapshots 1 to 6 a minute apart; 3 is saved as savepoint 1 `fix`."""
    for number in range(2, 7):
        clock.advance(timedelta(minutes=1))
        ingest(store, rows_of(("a", number)))
        if number == 3:
            save(store, "fix")
    return store


def find(table: StateStore, asked: Any) -> Resolved:
    return resolve(table.catalog, table.table_id, "flights", asked)


def at(minutes: float) -> Moment:
    return Moment(START + timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("words", "number"),
    [(None, 6), (2, 2), ("2", 2), ("snapshot.2", 2), ("savepoint.1", 3), ("savepoint.fix", 3)],
)
def test_every_spelling_finds_its_version(table: StateStore, words: Any, number: int):
    found = find(table, None if words is None else parse_version(words))
    assert found.snapshot_id == table.load(found.version).snapshot_id == number


@pytest.mark.parametrize(("minutes", "number"), [(0, 1), (0.99, 1), (1, 2), (2.5, 3), (5, 6), (10**6, 6)])
def test_a_moment_finds_the_newest_version_at_or_before_it(table: StateStore, minutes: float, number: int):
    assert find(table, at(minutes)).snapshot_id == number


def test_where_snapshots_expired_the_closest_savepoint_before_answers(table: StateStore):
    table.catalog.expire_snapshots(table.table_id, [1, 2, 3, 4], START)
    found = find(table, at(3.5))
    assert found.snapshot_id == 3
    assert str(found) == (
        "savepoint 1 'fix', snapshot 3 (1 min 30 s before 2026-01-01 00:03:30 UTC, for which no snapshot is retained)"
    )
    assert find(table, at(4)).snapshot_id == 5
    assert find(table, SnapshotReference(3)).snapshot_id == 3


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (START + timedelta(minutes=2), "(at 2026-01-01 00:02:00 UTC, for which no snapshot is retained)"),
        (START + timedelta(minutes=3), "(1 min before 2026-01-01 00:03:00 UTC,"),
        (START + timedelta(minutes=4) - timedelta(microseconds=1), "(2 min before 2026-01-01 00:03:59.999999 UTC,"),
    ],
)
def test_a_savepoint_that_stands_in_says_how_long_before_it_is(table: StateStore, moment: datetime, said: str):
    table.catalog.expire_snapshots(table.table_id, [1, 2, 3, 4], START)
    found = find(table, Moment(moment))
    assert isinstance(found.version, Savepoint)
    assert said in str(found)


@pytest.mark.parametrize(("minutes", "number"), [(0, 1), (1, 2), (4, 5), (5, 6)])
def test_a_commit_counts_from_its_own_microsecond_on(table: StateStore, minutes: int, number: int):
    moment = START + timedelta(minutes=minutes)
    assert find(table, Moment(moment)).snapshot_id == number
    if number > 1:
        assert find(table, Moment(moment - timedelta(microseconds=1))).snapshot_id == number - 1


def test_before_the_first_commit_there_is_nothing_and_the_error_names_the_earliest(table: StateStore):
    with pytest.raises(NotFound, match=r"as old as 2025-12-31 23:59:59.999999 UTC") as error:
        find(table, Moment(START - timedelta(microseconds=1)))
    assert error.value.hint == "the earliest that can be reached is 2026-01-01 00:00:00 UTC"


def test_a_version_is_found_without_reading_all_of_history(table: StateStore, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(SqliteCatalog, "snapshots", refuse)
    assert find(table, SnapshotReference(2)).snapshot_id == 2
    assert find(table, SavepointReference("fix")).snapshot_id == 3
    assert find(table, at(3.5)).snapshot_id == 4


@pytest.mark.parametrize("number", [0, -1, 7, 2**63, 10**30])
def test_a_number_that_no_snapshot_has_is_not_found(table: StateStore, number: int):
    with pytest.raises(NotFound, match=f"no snapshot {number} of"):
        find(table, SnapshotReference(number))


def test_what_is_not_there_is_answered_with_what_is(table: StateStore):
    table.catalog.expire_snapshots(table.table_id, [1, 2, 4], START)
    asked = [SnapshotReference(2), SavepointReference("fxi"), SavepointReference(9), at(1)]
    said = []
    for one in asked:
        with pytest.raises(NotFound, match="flights") as error:
            find(table, one)
        said.append(error.value.hint)
    assert said == [
        "the earliest is 3; available: 3, 5–6",
        "did you mean 'fix'?",
        "available: fix, savepoint.1",
        "the earliest that can be reached is 2026-01-01 00:02:00 UTC",
    ]


def test_a_snapshot_itself_is_found_before_its_savepoint(table: StateStore):
    assert str(find(table, at(2))) == "snapshot 3 (newest at 2026-01-01 00:02:00 UTC)"
    assert str(find(table, None)) == "snapshot 6"


def test_a_table_that_is_gone_is_not_found(table: StateStore):
    assert isinstance(table.catalog, SqliteCatalog)
    for reference in (None, SnapshotReference(1), Moment(START), SavepointReference("kept")):
        with pytest.raises(NotFound, match=r"no (table|savepoint)"):
            resolve(table.catalog, "other", "other", reference)
