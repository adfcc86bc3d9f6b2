from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import NotFound, StorageError
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.leases import (
    LONG_READ,
    RELEASING,
    Leases,
    ReadGuard,
)
from tests.support.builders import (
    KEYED,
    collect,
    compact,
    forget_all_but_newest,
    ingest,
    rows_of,
)
from tests.support.faults import Trap, TrappedCatalog, lose_answer
from tests.support.garbage import young_garbage

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


def test_a_lease_that_was_lost_or_could_not_be_renewed_is_logged(
    store: StateStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
):
    trapped = TrappedCatalog(store.catalog, Trap(1, lose_answer, only=("renew_lease",)))
    leases = Leases(trapped, clock, None, QUARTER)  # type: ignore[arg-type] - a catalog but for its failures
    release = leases.hold(store.table_id, 1, "scan")
    leases.renew()
    (lease,) = store.catalog.leases(store.table_id)
    store.catalog.release_lease(store.table_id, lease)
    leases.renew()
    release()
    table = f"table {store.table_id}: the lease on snapshot 1"
    logged = [(record.levelname, record.getMessage()) for record in caplog.records if "lease" in record.name]
    assert logged == [
        ("WARNING", f"{table} could not be renewed: the connection broke"),
        ("WARNING", f"{table} was lost"),
    ]


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


def released(drop_garbage: Callable[[], int]) -> None:
    """Drop what is unreachable, and wait for the threads that release the leases of it."""
    drop_garbage()
    for thread in threading.enumerate():
        if thread.name == RELEASING:
            thread.join()


def test_a_relation_keeps_its_files_for_as_long_as_it_or_one_made_of_it_is_alive(tmp_path: Path, clock: ManualClock):
    with young_garbage() as drop_garbage, sl.connect(tmp_path, clock=clock) as session:
        kept = {"snapshot.time-retained": "1 h", "snapshot.num-retained.min": "1"}
        table = session.create_table("t", KEYED, properties=kept)
        table.ingest(rows_of("a"))
        table.ingest(rows_of("b"))
        relation = table.scan(["key"], "key >= 'a'").to_duckdb()
        derived = relation.filter("key = 'a'")
        del relation
        released(drop_garbage)
        assert [lease.snapshot_id for lease in table.inspect.leases()] == [3]
        table.maintenance.compact("all", engine="local")
        for _ in range(10):
            clock.advance(timedelta(minutes=10))
            session._components.leases.renew()
        table.maintenance.expire(dry_run=False)
        assert table.maintenance.collect_garbage(dry_run=False).data_files == ()
        assert derived.fetchall() == [("a",)]
        del derived
        released(drop_garbage)
        assert list(table.inspect.leases()) == []
        assert len(table.maintenance.collect_garbage(dry_run=False).data_files) == 2


def test_a_relation_of_files_that_are_gone_is_an_error_that_names_one(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", KEYED)
        table.ingest(rows_of("a"))
        scan, result = table.scan(), session.sql("SELECT * FROM t", engine="duckdb")
        for file in tmp_path.rglob("data/**/*.parquet"):
            file.unlink()
        again = partial(session.sql, "SELECT * FROM t", engine="duckdb")
        for read in (scan.to_duckdb, again, scan.to_arrow, result.to_arrow):
            with pytest.raises(NotFound, match=r"no file .*\.parquet"):
                read()
