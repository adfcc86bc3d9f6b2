"""Savepoints that maintenance makes: one at least every so often, of what the table is then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations.versioning.savepoints import create_savepoint
from sleeper_nb.operations.versioning.versions import Resolved
from sleeper_nb.report import Grid, Report
from sleeper_nb.state_store.base import StateStore

MESSAGE = "savepoint.create-interval"
"""What history says of such a savepoint: the property that asks for it."""


@dataclass(frozen=True, slots=True, repr=False)
class PeriodicSavepoint(Report):
    """The savepoint that was due; of a dry run, that would be made.

    Parameters
    ----------
    snapshot_id
        What it saves; None when none was due.
    savepoint
        The savepoint; None for a dry run.
    """

    snapshot_id: int | None
    savepoint: Savepoint | None
    dry_run: bool

    @property
    def said(self) -> str:
        """What was done, in a few words; empty when nothing was due."""
        if self.snapshot_id is None:
            return ""
        made = "would save" if self.savepoint is None else f"savepoint {self.savepoint.id} saves"
        return f"{made} snapshot {self.snapshot_id}"

    def grid(self) -> Grid:
        """Return the line."""
        return Grid((), (), footer=self.said or "no savepoint is due")


def is_due(savepoints: tuple[Savepoint, ...], head: Snapshot, interval: timedelta | None, now: datetime) -> bool:
    """Return whether a savepoint of the head is due: it has none, and the last one is older than the interval. Pure."""
    if interval is None or any(saved.saved_snapshot_id == head.id for saved in savepoints):
        return False
    return all(now - saved.save_time >= interval for saved in savepoints)


def save_if_due(
    store: StateStore, head: Snapshot, interval: timedelta | None, now: datetime, *, dry_run: bool, author: str | None
) -> PeriodicSavepoint:
    """Save a snapshot when that is due, or only say so."""
    if not is_due(store.catalog.savepoints(store.table_id), head, interval, now):
        return PeriodicSavepoint(None, None, dry_run)
    made = None
    if not dry_run:
        made = create_savepoint(store, Resolved(head), name=None, message=MESSAGE, author=author)
    return PeriodicSavepoint(head.id, made, dry_run)
