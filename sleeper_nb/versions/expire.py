"""Expire: forget old snapshots, so that garbage collection can delete the files that only they used."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sleeper_nb.catalog.catalog_base import free_space_and_retry
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.report import CLEAN_UP, Grid, TableReport, counted, nothing_done
from sleeper_nb.state_store.state_store_base import StateStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long snapshots are retained, under the names that other table formats use.

    `InvalidInput` when the time is negative, a number is less than 1, or the maximum is less than the minimum.

    Parameters
    ----------
    time_retained
        The table can be read as of any moment that is no older: a snapshot expires when its successor is older than
        this (``snapshot.time-retained``).
    num_retained_min
        How many of the newest snapshots are always retained (``snapshot.num-retained.min``).
    num_retained_max
        The most snapshots that are retained, however young (``snapshot.num-retained.max``).
    """

    time_retained: timedelta = timedelta(days=7)
    num_retained_min: int = 10
    num_retained_max: int = 2**31 - 1

    def __post_init__(self) -> None:
        if self.time_retained < timedelta(0):
            raise InvalidInput(f"time_retained cannot be {self.time_retained}", hint="give a time of 0 or longer")
        for name in ("num_retained_min", "num_retained_max"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} cannot be {getattr(self, name)}", hint="keep 1 snapshot or more")
        if self.num_retained_max < self.num_retained_min:
            raise InvalidInput(
                f"num_retained_max is {self.num_retained_max}, less than num_retained_min, "
                f"which is {self.num_retained_min}",
                hint="set both, the maximum at least as large as the minimum",
            )

    @classmethod
    def of(
        cls,
        properties: TableProperties,
        time_retained: timedelta | None = None,
        num_retained_min: int | None = None,
        num_retained_max: int | None = None,
    ) -> Retention:
        """Return a retention of these values; for each None, the table's property."""
        return cls(
            properties["snapshot.time-retained"] if time_retained is None else time_retained,
            properties["snapshot.num-retained.min"] if num_retained_min is None else num_retained_min,
            properties["snapshot.num-retained.max"] if num_retained_max is None else num_retained_max,
        )


@dataclass(frozen=True, slots=True, repr=False)
class ExpiryReport(TableReport):
    """The snapshots that expired, oldest first; of a dry run, that would expire."""

    expired: tuple[Snapshot, ...]
    kept: int
    dry_run: bool
    prefix: str = ""

    @property
    def summary(self) -> str:
        """What was done, in a few words; empty when nothing was due."""
        return self._verb_and_count() if self.expired else ""

    def _verb_and_count(self) -> str:
        verb = "would expire" if self.dry_run else "expired"
        return f"{verb} {counted(len(self.expired), 'snapshot')}"

    def grid(self) -> Grid:
        """Return a row for each snapshot."""
        rows = tuple((s.id, s.time, s.operation, s.rows) for s in self.expired)
        footer = nothing_done(CLEAN_UP, self.prefix) if self.dry_run and self.expired else ""
        title = f"{self._verb_and_count()}, {self.kept:,} kept"
        return Grid(("snapshot", "time", "operation", "rows"), rows, title, footer)


def plan_expiry(snapshots: Sequence[Snapshot], retention: Retention, now: datetime) -> tuple[Snapshot, ...]:
    """Return the snapshots that expire, oldest first. Never the current one. Pure.

    A snapshot answers for the moments from its own commit to that of its successor, so it is needed until the successor
    is as old as the retained time. Those given are all that are retained, newest first.
    """
    expired: list[Snapshot] = []
    next_commit: datetime | None = None  # the earliest of all newer commits, because a clock may have gone back
    for newer_count, snapshot in enumerate(snapshots):
        is_old = next_commit is not None and now - next_commit >= retention.time_retained
        if newer_count >= retention.num_retained_max or (is_old and newer_count >= retention.num_retained_min):
            expired.append(snapshot)
        next_commit = snapshot.time if next_commit is None else min(next_commit, snapshot.time)
    return tuple(reversed(expired))


def expire_snapshots(
    store: StateStore, retention: Retention, *, dry_run: bool, until: int | None = None
) -> ExpiryReport:
    """Forget the snapshots that `plan_expiry` names; savepoints, and the files they need, are kept.

    Snapshots after `until` are ignored, as if they were not committed yet.
    """
    snapshots = [snapshot for snapshot in store.retained() if until is None or snapshot.id <= until]
    now = store.clock.now()
    expired = plan_expiry(snapshots, retention, now)
    if not dry_run:
        ids = [snapshot.id for snapshot in expired]
        free_space_and_retry(store.catalog, lambda: store.catalog.expire_snapshots(store.table_id, ids, now))
        level = logging.INFO if ids else logging.DEBUG
        logger.log(
            level, "table %s: expired %d snapshots, %d kept", store.table_id, len(ids), len(snapshots) - len(ids)
        )
    return ExpiryReport(expired, len(snapshots) - len(expired), dry_run)
