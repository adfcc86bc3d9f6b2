"""Leases of readers in the SQLite catalog, each step within a transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import fields
from datetime import datetime
from typing import Any

from sleeper_nb.errors import NotFound
from sleeper_nb.model.leases import Lease
from sleeper_nb.model.snapshots import from_micros, to_micros

_LEASE = tuple(field.name for field in fields(Lease))
SELECT = f"SELECT {', '.join(_LEASE)} FROM leases WHERE table_id = ? ORDER BY since, id"  # noqa: S608 - our own names
_IS_KEPT = """
SELECT EXISTS (SELECT 1 FROM snapshots WHERE table_id = :table AND id = :id AND NOT expired)
  OR EXISTS (SELECT 1 FROM savepoints WHERE table_id = :table AND saves = :id AND body NOT NULL)
  OR EXISTS (SELECT 1 FROM leases WHERE table_id = :table AND snapshot_id = :id)
"""


def add(run: sqlite3.Connection, table_id: str, lease: Lease) -> None:
    """Add a lease on the condition that its version is kept."""
    (kept,) = run.execute(_IS_KEPT, {"table": table_id, "id": lease.snapshot_id}).fetchone()
    if not kept:
        raise NotFound(f"snapshot {lease.snapshot_id} has expired", hint="choose one that history or savepoints shows")
    values = (to_micros(value) if isinstance(value := getattr(lease, name), datetime) else value for name in _LEASE)
    marks = ", ?" * len(_LEASE)
    run.execute(f"INSERT INTO leases (table_id, {', '.join(_LEASE)}) VALUES (?{marks})", (table_id, *values))  # noqa: S608


def renew(run: sqlite3.Connection, table_id: str, lease: Lease, until: datetime) -> bool:
    """Let a lease end later; return False when it is gone, or renewed by another."""
    statement = "UPDATE leases SET until = ? WHERE table_id = ? AND id = ? AND until = ?"
    return bool(run.execute(statement, (to_micros(until), table_id, lease.id, to_micros(lease.until))).rowcount)


def release(run: sqlite3.Connection, table_id: str, lease: Lease) -> bool:
    """End a lease; return False when it is gone, or renewed since it was read."""
    statement = "DELETE FROM leases WHERE table_id = ? AND id = ? AND until = ?"
    return bool(run.execute(statement, (table_id, lease.id, to_micros(lease.until))).rowcount)


def to_lease(row: tuple[Any, ...]) -> Lease:
    """Return what a row of `SELECT` holds."""
    values = dict(zip(_LEASE, row, strict=True))
    times = {name: from_micros(values[name]) for name in ("since", "until")}
    return Lease(**{**values, **times})
