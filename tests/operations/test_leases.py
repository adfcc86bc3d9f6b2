from __future__ import annotations

from datetime import timedelta

import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import NotFound, StorageError
from sleeper_nb.operations.versioning.leases import LONG_READ, Leases, ReadGuard
from sleeper_nb.state_store.base import StateStore
from tests.builders import collect, compact, forget_all_but_newest, ingest, rows_of
from tests.faults import Trap, TrappedCatalog, lose_answer

QUARTER = timedelta(minutes=15)


@pytest.fixture
def leases(store: StateStore) -> Leases:
    return Leases(store.catalog, store.clock, "ann", QUARTER)


def held(store: StateStore) -> list[tuple[int, timedelta]]:
    return [(each.snapshot_id, each.until - store.clock.now()) for each in store.catalog.leases(store.table_id)]


def test_readers_of_one_version_share_a_lease_until_the_last_lets_go(store: StateStore, leases: Leases):
    first, second = (leases.hold(store.table_id, 1, "scan") for _ in range(2))
    assert held(store) == [(1, QUARTER)]
    first()
    first()  # again: nothing happens
    assert held(store) == [(1, QUARTER)]
    second()
    assert held(store) == []


def test_a_lease_is_renewed_while_it_is_held(store: StateStore, clock: ManualClock, leases: Leases):
    with leases.held(store.table_id, 1, "scan"):
        clock.advance(timedelta(minutes=10))
        leases.renew()
        assert held(store) == [(1, QUARTER)]
    leases.renew()
    assert held(store) == []


def test_a_lease_that_was_taken_away_is_not_held_any_longer(store: StateStore, leases: Leases):
    let_go = leases.hold(store.table_id, 1, "scan")
    (lease,) = store.catalog.leases(store.table_id)
    assert store.catalog.release_lease(store.table_id, lease)
    leases.renew()
    let_go()
    leases.hold(store.table_id, 1, "scan")  # a new one
    assert len(held(store)) == 1
    leases.close()
    assert held(store) == []


def test_a_catalog_that_fails_once_costs_no_lease(store: StateStore, clock: ManualClock):
    trapped = TrappedCatalog(store.catalog, Trap(1, lose_answer, only=("renew_lease",)))
    leases = Leases(trapped, clock, None, QUARTER)  # type: ignore[arg-type] - a catalog but for its failures
    with leases.held(store.table_id, 1, "scan"):
        clock.advance(timedelta(minutes=5))
        leases.renew()
        assert held(store) == [(1, timedelta(minutes=10))]
        leases.renew()
        assert held(store) == [(1, QUARTER)]


def test_what_has_expired_cannot_be_held(store: StateStore, leases: Leases):
    ingest(store, rows_of("a"))
    forget_all_but_newest(store)
    with pytest.raises(NotFound, match="snapshot 1 has expired"):
        leases.hold(store.table_id, 1, "scan")
    assert held(store) == []


def test_only_long_reads_and_what_is_handed_out_hold_a_version(store: StateStore, leases: Leases):
    def guard(is_old: bool, size: int) -> ReadGuard:
        return ReadGuard(leases, store.table_id, 1, is_old, size)

    with guard(is_old=True, size=LONG_READ - 1).during("scan"):
        assert held(store) == []
    with guard(is_old=False, size=LONG_READ).during("scan"):
        assert held(store) == [(1, QUARTER)]
    assert held(store) == []
    guard(is_old=False, size=LONG_READ - 1).until_closed("relation")
    assert held(store) == []
    guard(is_old=True, size=1).until_closed("relation")
    assert held(store) == [(1, QUARTER)]
    leases.close()
    assert held(store) == []


def test_garbage_collection_leaves_what_a_lease_holds_until_it_ends(store: StateStore, leases: Leases):
    clock = store.clock
    assert isinstance(clock, ManualClock)
    ingest(store, rows_of("a"))
    ingest(store, rows_of("b"))
    number = store.head().id
    compact(store)
    with leases.held(store.table_id, number, "scan"):
        forget_all_but_newest(store)
        assert collect(store).data_files == ()
        clock.advance(2 * QUARTER)
        assert len(collect(store, dry_run=True).data_files) == 2
        assert len(held(store)) == 1  # a dry run ends no lease
        assert len(collect(store).data_files) == 2  # it was not renewed
        assert held(store) == []


def test_a_lost_answer_leaves_a_lease_that_ends_by_itself(store: StateStore, clock: ManualClock):
    trapped = TrappedCatalog(store.catalog, Trap(1, lose_answer, after=True, only=("add_lease",)))
    leases = Leases(trapped, clock, None, QUARTER)  # type: ignore[arg-type] - a catalog but for its failures
    with pytest.raises(StorageError):
        leases.hold(store.table_id, 1, "scan")
    assert held(store) == [(1, QUARTER)]
    clock.advance(QUARTER)
    collect(store)
    assert held(store) == []
