"""What every catalog holds of the leases of readers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.errors import NotFound
from sleeper_nb.model.jobs import Lease
from tests.contracts.test_catalog import LATER, catalog, commit, opened
from tests.support.builders import START, savepoint, snapshot

__all__ = ["catalog", "opened"]

LEASE = Lease("a", 1, START, START + timedelta(minutes=15), "scan", "ann")


def test_a_lease_comes_back_as_it_was_given(catalog: Catalog, opened):
    other = Lease("b", 1, START - timedelta(minutes=1), START, "sql")
    catalog.add_lease("t", LEASE)
    catalog.add_lease("t", other)
    assert opened().leases("t") == (other, LEASE)
    assert catalog.leases("u") == ()


def test_only_a_version_that_is_kept_can_be_held(catalog: Catalog):
    commit(catalog, 2)
    catalog.expire_snapshots("t", [1], LATER)
    for number in (1, 3):
        with pytest.raises(NotFound, match=f"snapshot {number} has expired"):
            catalog.add_lease("t", replace(LEASE, snapshot_id=number))
    assert catalog.leases("t") == ()


def test_a_version_that_a_savepoint_keeps_can_be_held_until_that_is_deleted(catalog: Catalog):
    number = catalog.reserve_savepoint_id("t")
    catalog.add_savepoint("t", savepoint(number, snapshot(1)))
    commit(catalog, 2)
    catalog.expire_snapshots("t", [1], LATER)
    catalog.add_lease("t", LEASE)
    catalog.delete_savepoint("t", number, LATER)
    assert catalog.leases("t") == (LEASE,)  # what is held stays held
    second = replace(LEASE, id="second")
    catalog.add_lease("t", second)  # and others may hold it for as long
    for lease in (LEASE, second):
        assert catalog.release_lease("t", lease)
    with pytest.raises(NotFound):
        catalog.add_lease("t", replace(LEASE, id="late"))


def test_a_lease_is_renewed_only_as_it_was_read(catalog: Catalog):
    catalog.add_lease("t", LEASE)
    assert catalog.renew_lease("t", LEASE, LATER)
    assert catalog.leases("t") == (replace(LEASE, until=LATER),)
    assert not catalog.release_lease("t", LEASE)
    assert catalog.release_lease("t", replace(LEASE, until=LATER))
    assert catalog.leases("t") == ()
    assert not catalog.renew_lease("t", replace(LEASE, until=LATER), LATER)
    assert catalog.leases("t") == ()


def test_garbage_is_noted_once_and_forgotten(catalog: Catalog, opened):
    catalog.add_garbage("t", ["x", "y"], START)
    catalog.add_garbage("t", ["y", "z"], LATER)
    assert dict(opened().garbage("t")) == {"x": START, "y": START, "z": LATER}
    catalog.forget_garbage("t", ["x", "z"])
    assert [path for path, _ in catalog.garbage("t")] == ["y"]
