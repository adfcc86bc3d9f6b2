"""Leases of readers in DynamoDB.

A lease is written first, then its version is looked at: when that is still kept, whoever forgets it later and then
reads the leases finds this one. So a garbage collection that misses the version among those kept sees the lease. It
releases those that have ended before it reads the others: as long as another reader's lease is there, the files are.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime

from sleeper_nb.catalog.dynamodb.items import DELETED, LEASE, SNAPSHOT, Item, numbered
from sleeper_nb.catalog.dynamodb.rows import Rows
from sleeper_nb.catalog.dynamodb.savepoints import listed as savepoints
from sleeper_nb.errors import NotFound
from sleeper_nb.model.leases import Lease
from sleeper_nb.model.snapshots import from_micros, to_micros


def add(rows: Rows, lease: Lease) -> None:
    """Add a lease on the condition that its version is kept."""
    values = {field.name: getattr(lease, field.name) for field in fields(lease)}
    times = {"since": to_micros(lease.since), "until": to_micros(lease.until)}
    rows.write_each({LEASE + lease.id: {**values, **times}})
    if not _is_kept(rows, lease):
        rows.write_each({}, [LEASE + lease.id])
        hint = "choose one that history or savepoints shows"
        raise NotFound(f"snapshot {lease.snapshot_id} has expired", hint=hint)


def _is_kept(rows: Rows, lease: Lease) -> bool:
    if rows.get(DELETED) is not None:
        return False
    found = rows.get(numbered(SNAPSHOT, lease.snapshot_id))
    if found is not None and not found.get("expired"):
        return True
    if any(savepoint.saved_snapshot_id == lease.snapshot_id for savepoint in savepoints(rows)):
        return True
    return any(other.snapshot_id == lease.snapshot_id and other.id != lease.id for other in listed(rows))


def listed(rows: Rows) -> tuple[Lease, ...]:
    """Return all leases, oldest first."""
    return tuple(sorted(map(_to_lease, rows.query(LEASE)), key=lambda lease: (lease.since, lease.id)))


def renew(rows: Rows, lease: Lease, until: datetime) -> bool:
    """Let a lease end later; return False when it is gone, or renewed by another."""
    change = rows.update(
        LEASE + lease.id,
        "SET #until = :later",
        "#until = :until",
        later=to_micros(until),
        until=to_micros(lease.until),
    )
    lost = rows.db.transact([change])
    return lost is None or (lost.items[0] or {}).get("until") == to_micros(until)


def release(rows: Rows, lease: Lease) -> bool:
    """End a lease; return False when it is gone, or renewed since it was read."""
    part = rows.delete(LEASE + lease.id, "#until = :until", until=to_micros(lease.until))
    return rows.db.transact([part]) is None


def _to_lease(item: Item) -> Lease:
    values: Item = {field.name: item.get(field.name) for field in fields(Lease)}
    return Lease(**{**values, "since": from_micros(item["since"]), "until": from_micros(item["until"])})
