"""Periodic savepoints: create one when the last is old enough, and delete those that are too old or too many.

No process runs in the background, so a savepoint is created when something happens: a load saves the version that it
made, and maintenance saves the current version. In between, nothing changes that would need saving. Compaction and
splitting create none, because they change no row. Only maintenance deletes periodic savepoints.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sleeper_nb.errors import SleeperError
from sleeper_nb.model.properties import SAVEPOINT_INTERVAL, SAVEPOINT_TIME, SAVEPOINTS_RETAINED, TableProperties
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.report import Grid, Report, counted
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.create_savepoint import create_savepoint
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from sleeper_nb.versions.resolve import Resolved

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SavepointSchedule:
    """When periodic savepoints are created and deleted."""

    # the age of the last periodic savepoint at which another is due (``savepoint.create-interval``); None for never
    interval: timedelta | None = None
    num_retained_max: int = 2**31 - 1  # the most periodic savepoints that are kept (``savepoint.num-retained.max``)
    # how long one is kept at least (``savepoint.time-retained``): it is deleted when it, and the version that the next
    # one saves, are older. None keeps it for ever.
    time_retained: timedelta | None = None

    @classmethod
    def of(cls, properties: TableProperties) -> SavepointSchedule:
        return cls(properties[SAVEPOINT_INTERVAL], properties[SAVEPOINTS_RETAINED], properties[SAVEPOINT_TIME])


@dataclass(frozen=True, slots=True, repr=False)
class PeriodicSavepoint(Report):
    """The savepoint that was due and was created; of a dry run, that would be created.

    Parameters
    ----------
    snapshot_id
        The snapshot that it saves; None when no savepoint was due.
    """

    snapshot_id: int | None
    savepoint: Savepoint | None
    dry_run: bool

    @property
    def summary(self) -> str:
        """What was done, in a few words; empty when nothing was due."""
        if self.snapshot_id is None:
            return ""
        made = "would save" if self.savepoint is None else f"savepoint {self.savepoint.id} saves"
        return f"{made} snapshot {self.snapshot_id}"

    def grid(self) -> Grid:
        return Grid((), (), footer=self.summary or "no savepoint is due")


@dataclass(frozen=True, slots=True, repr=False)
class RetiredSavepoints(Report):
    """The periodic savepoints that were deleted, oldest first; of a dry run, that would be deleted."""

    savepoints: tuple[Savepoint, ...]
    dry_run: bool

    @property
    def summary(self) -> str:
        """What was done, in a few words; empty when nothing was due."""
        if not self.savepoints:
            return ""
        deleted = "would delete" if self.dry_run else "deleted"
        return f"{deleted} {counted(len(self.savepoints), 'periodic savepoint')}"

    def grid(self) -> Grid:
        rows = tuple((kept.id, kept.saved_snapshot_id, kept.save_time) for kept in self.savepoints)
        return Grid(("savepoint", "snapshot", "save time"), rows, self.summary or "no savepoint is due for deletion")


@dataclass(frozen=True, slots=True)
class SavedAfter:
    """What became of the savepoint that was due after a load or a change of rows."""

    # the savepoint; None when none was due, or it could not be created. The rows are in the table all the same, and
    # the next load or maintenance tries again.
    savepoint: Savepoint | None = None
    note: str = ""  # the outcome, in one sentence; "" when none was due


def is_due(savepoints: Sequence[Savepoint], head: Snapshot, interval: timedelta | None, now: datetime) -> bool:
    """Return whether a savepoint of the head is due: it has none, and the last periodic one is older than the interval.

    A savepoint created by hand does not delay it, because that may save any old version and be deleted at any time.
    Pure.
    """
    if interval is None or any(saved.saved_snapshot_id == head.id for saved in savepoints):
        return False
    return all(now - saved.save_time >= interval for saved in savepoints if saved.periodic)


def plan_retirement(
    savepoints: Sequence[Savepoint], schedule: SavepointSchedule, now: datetime, *, coming: Snapshot | None = None
) -> tuple[Savepoint, ...]:
    """Return the periodic savepoints to delete, oldest first. Pure.

    A savepoint answers for the moments up to the version that the next one saves, so it is deleted when that version is
    older than the retained time. Savepoints created by hand are never deleted, nor is the newest periodic one: its age
    says when the next is due, and on a table without new commits it is the last one that keeps the past; without it,
    each run would create it again. `coming` is the snapshot that a dry run would save before.
    """
    newest_first = sorted((each for each in savepoints if each.periodic), key=lambda each: each.id, reverse=True)
    limit, retired = schedule.time_retained, []
    # when the versions that newer ones save were committed; it can be after `now`, where clocks were set back
    newer_commits = [] if coming is None else [coming.time]
    for savepoint in newest_first:
        if newer_commits:
            is_old = limit is not None and now - savepoint.save_time > limit and now - min(newer_commits) >= limit
            if is_old or len(newer_commits) >= schedule.num_retained_max:
                retired.append(savepoint)
        newer_commits.append(savepoint.committed)
    return tuple(reversed(retired))


def save_if_due(
    store: StateStore, head: Snapshot, interval: timedelta | None, now: datetime, *, dry_run: bool, author: str | None
) -> PeriodicSavepoint:
    """Save a snapshot if a savepoint is due, or only report it.

    Two sessions that do this at the same time may both create one: it costs a file of a few lines and is deleted in its
    turn.
    """
    if not is_due(store.catalog.savepoints(store.table_id), head, interval, now):
        return PeriodicSavepoint(None, None, dry_run)
    savepoint = None
    if not dry_run:
        savepoint = create_savepoint(store, Resolved(head), name=None, message=None, author=author, periodic=True)
    return PeriodicSavepoint(head.id, savepoint, dry_run)


class SavepointKeeper:
    """Creates and deletes the periodic savepoints of a table, in one run of its maintenance."""

    def __init__(
        self, store: StateStore, schedule: SavepointSchedule, head: Snapshot, now: datetime, author: str | None
    ) -> None:
        self._store, self._schedule, self._head, self._now, self._author = store, schedule, head, now, author
        self._coming: Snapshot | None = None

    def save(self, *, dry_run: bool) -> PeriodicSavepoint:
        """Save the head if a savepoint is due, or only report it."""
        interval = self._schedule.interval
        report = save_if_due(self._store, self._head, interval, self._now, dry_run=dry_run, author=self._author)
        is_planned = dry_run and report.snapshot_id is not None
        self._coming = self._head if is_planned else None  # after a real run it is among the savepoints
        return report

    def retire(self, *, dry_run: bool) -> RetiredSavepoints:
        """Delete the savepoints that `plan_retirement` names; an interrupted run can be repeated."""
        savepoints = self._store.catalog.savepoints(self._store.table_id)
        retired = plan_retirement(savepoints, self._schedule, self._now, coming=self._coming)
        if not dry_run:
            for savepoint in retired:
                delete_savepoint(self._store, savepoint)
        return RetiredSavepoints(retired, dry_run)


def save_after(store: StateStore, made: Snapshot, interval: timedelta | None, author: str | None) -> SavedAfter:
    """Save the snapshot that a load or a change of rows made, if a savepoint is due.

    The rows are in the table before this begins. So a failure here goes into the note and is not raised: a caller that
    saw an error would load the rows again.
    """
    if interval is None:
        return SavedAfter()
    try:
        report = save_if_due(store, made, interval, store.clock.now(), dry_run=False, author=author)
    except Exception as error:  # noqa: BLE001 - whatever it is, the rows are loaded
        why = error.message if isinstance(error, SleeperError) else repr(error)
        logger.warning("table %s: periodic savepoint of snapshot %d failed: %s", store.table_id, made.id, why)
        return SavedAfter(note=f"the savepoint that was due could not be created: {why}. The next load tries again")
    return SavedAfter(report.savepoint, report.summary)
