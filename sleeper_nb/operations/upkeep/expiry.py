"""Expiry: which snapshots are forgotten, so that the garbage collector may take what only they used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations.upkeep.full_disk import freeing_space
from sleeper_nb.report import Grid, Report, counted, nothing_done
from sleeper_nb.state_store.base import StateStore


@dataclass(frozen=True, slots=True)
class Retention:
    """How long snapshots stay, under the table formats' names.

    Parameters
    ----------
    time_retained
        A snapshot stays at least so long (``snapshot.time-retained``).
    num_retained_min
        So many of the newest always stay (``snapshot.num-retained.min``).
    num_retained_max
        Never more than so many stay, however young (``snapshot.num-retained.max``).
    """

    time_retained: timedelta = timedelta(days=7)
    num_retained_min: int = 10
    num_retained_max: int = 2**31 - 1

    @classmethod
    def of(
        cls,
        properties: TableProperties,
        time_retained: timedelta | None = None,
        num_retained_min: int | None = None,
        num_retained_max: int | None = None,
    ) -> Retention:
        """Return what is given, and for each None the table's property."""
        return cls(
            properties["snapshot.time-retained"] if time_retained is None else time_retained,
            properties["snapshot.num-retained.min"] if num_retained_min is None else num_retained_min,
            properties["snapshot.num-retained.max"] if num_retained_max is None else num_retained_max,
        )


@dataclass(frozen=True, slots=True, repr=False)
class ExpiryReport(Report):
    """The snapshots that were forgotten; of a dry run, that would be."""

    expired: tuple[Snapshot, ...]
    kept: int
    dry_run: bool

    def grid(self) -> Grid:
        """Return one row a snapshot."""
        count = len(self.expired)
        verb = "would expire" if self.dry_run else "expired"
        rows = tuple((s.id, s.time, s.operation, s.rows) for s in self.expired)
        footer = nothing_done() if self.dry_run and self.expired else ""
        title = f"{verb} {counted(count, 'snapshot')}, {self.kept:,} kept"
        return Grid(("snapshot", "time", "operation", "rows"), rows, title, footer)


def plan_expiry(snapshots: Sequence[Snapshot], retention: Retention, now: datetime) -> tuple[Snapshot, ...]:
    """Return the snapshots that expire, oldest first, of all that are retained, newest first. Never the current one."""
    expired = [
        snapshot
        for newer, snapshot in enumerate(snapshots)
        if newer >= max(1, retention.num_retained_min)
        and (newer >= retention.num_retained_max or now - snapshot.time > retention.time_retained)
    ]
    return tuple(reversed(expired))


def expire_snapshots(
    store: StateStore, retention: Retention, *, dry_run: bool, until: int | None = None
) -> ExpiryReport:
    """Forget the snapshots that `plan_expiry` names; savepoints and what they need stay.

    Snapshots behind `until` are passed over, as if they were not there yet.
    """
    retained = store.catalog.snapshots(store.table_id)
    snapshots = [snapshot for snapshot in retained if until is None or snapshot.id <= until]
    now = store.clock.now()
    expired = plan_expiry(snapshots, retention, now)
    if not dry_run:
        ids = [snapshot.id for snapshot in expired]
        freeing_space(store.catalog, lambda: store.catalog.expire_snapshots(store.table_id, ids, now))
    return ExpiryReport(expired, len(snapshots) - len(expired), dry_run)
