from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.operations.upkeep.expiry import Retention, expire_snapshots, plan_expiry
from sleeper_nb.state_store.base import StateStore
from tests.builders import START, ingest, keys_in, on_disk, reopened, rows_of, save, scan, snapshot

HISTORY = [snapshot(number) for number in range(6, 0, -1)]  # one a second, newest first


def kept(retention: Retention, seconds: float = 10) -> list[int]:
    gone = plan_expiry(HISTORY, retention, START + timedelta(seconds=seconds))
    return [s.id for s in reversed(HISTORY) if s not in gone]


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        (Retention(), [1, 2, 3, 4, 5, 6]),
        (Retention(timedelta(0), 1), [6]),
        (Retention(timedelta(0), 0), [6]),
        (Retention(timedelta(0), 3), [4, 5, 6]),
        (Retention(timedelta(seconds=6), 1), [4, 5, 6]),
        (Retention(timedelta(days=1), 1, 2), [5, 6]),
        (Retention(timedelta(days=1), 4, 2), [3, 4, 5, 6]),
        (Retention(timedelta.max, 1), [1, 2, 3, 4, 5, 6]),
    ],
)
def test_worked_examples(retention: Retention, expected: list[int]):
    assert kept(retention) == expected


@given(st.integers(0, 8), st.integers(0, 8), st.integers(0, 12), st.integers(0, 12))
def test_the_newest_stay_and_expiry_takes_from_the_oldest(least: int, most: int, seconds: int, now: int):
    left = kept(Retention(timedelta(seconds=seconds), least, most), now)
    assert left == [1, 2, 3, 4, 5, 6][-len(left) :]
    assert len(left) >= max(1, min(least, 6))


def test_a_dry_run_names_what_the_run_forgets_and_readers_of_the_rest_go_on(store: StateStore):
    for key in "abc":
        ingest(store, rows_of(key))
    one = save(store, None)
    retention = Retention(timedelta(0), 1)
    store.clock.advance(timedelta(seconds=1))
    before = on_disk(store)
    planned = expire_snapshots(store, retention, dry_run=True)
    assert [s.id for s in store.catalog.snapshots(store.table_id)] == [4, 3, 2, 1]
    done = expire_snapshots(store, retention, dry_run=False)
    assert planned.expired == done.expired
    assert ([s.id for s in done.expired], done.kept) == ([1, 2, 3], 1)
    assert expire_snapshots(store, retention, dry_run=False).expired == ()
    assert on_disk(store) == before  # files go with the garbage
    assert keys_in(scan(reopened(store), one)) == ["a", "b", "c"]
    assert "would expire 3" in repr(planned)
