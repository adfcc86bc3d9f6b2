"""Expiry: which snapshots are forgotten, so that the garbage collector may take what only they used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations.upkeep.full_disk import freeing_space
from sleeper_nb.report import CLEAN_UP, Grid, Report, counted, nothing_done
from sleeper_nb.state_store.state_store_base import StateStore


@dataclass(frozen=True, slots=True)
class Retention:
    """How long snapshots stay, under the table formats' names.

    Parameters
    ----------
    time_retained
        Every moment that is no older can be read as it was: a snapshot expires when its successor is older
        (``snapshot.time-retained``).
    num_retained_min
        So many of the newest always stay (``snapshot.num-retained.min``).
    num_retained_max
        Never more than so many stay, however young (``snapshot.num-retained.max``).

    Raises
    ------
    InvalidInput
        When the time is negative, a number is less than 1, or the most is less than the least.
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
                hint="give both, the most no less than the least",
            )

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
    prefix: str = ""

    def grid(self) -> Grid:
        """Return one row a snapshot."""
        count = len(self.expired)
        verb = "would expire" if self.dry_run else "expired"
        rows = tuple((s.id, s.time, s.operation, s.rows) for s in self.expired)
        footer = nothing_done(CLEAN_UP, self.prefix) if self.dry_run and self.expired else ""
        title = f"{verb} {counted(count, 'snapshot')}, {self.kept:,} kept"
        return Grid(("snapshot", "time", "operation", "rows"), rows, title, footer)


def plan_expiry(snapshots: Sequence[Snapshot], retention: Retention, now: datetime) -> tuple[Snapshot, ...]:
    """Return the snapshots that expire, oldest first, of all that are retained, newest first. Never the current one.

    A snapshot answers for the moments from its own to that of its successor, so it is needed until the successor's is
    where the time that is retained begins, or before.
    """
    expired: list[Snapshot] = []
    succeeded: datetime | None = None  # the earliest moment of those that are newer, as a clock may have gone back
    for newer, snapshot in enumerate(snapshots):
        old = succeeded is not None and now - succeeded >= retention.time_retained
        if newer >= retention.num_retained_max or (old and newer >= retention.num_retained_min):
            expired.append(snapshot)
        succeeded = snapshot.time if succeeded is None else min(succeeded, snapshot.time)
    return tuple(reversed(expired))


def expire_snapshots(
    store: StateStore, retention: Retention, *, dry_run: bool, until: int | None = None
) -> ExpiryReport:
    """Forget the snapshots that `plan_expiry` names; savepoints and what they need stay.

    Snapshots behind `until` are passed over, as if they were not there yet.
    """
    snapshots = [snapshot for snapshot in store.retained() if until is None or snapshot.id <= until]
    now = store.clock.now()
    expired = plan_expiry(snapshots, retention, now)
    if not dry_run:
        ids = [snapshot.id for snapshot in expired]
        freeing_space(store.catalog, lambda: store.catalog.expire_snapshots(store.table_id, ids, now))
    return ExpiryReport(expired, len(snapshots) - len(expired), dry_run)
