"""Periodic savepoints: made when the last one is old enough, by a load or by maintenance; retired by maintenance alone.

No process runs beside the notebook, so a savepoint is made when something happens: a load saves the version that it has
made, and maintenance saves the current one. In between nothing changes that would need saving. Compaction and splitting
make none: they change no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta

from sleeper_nb.errors import SleeperError
from sleeper_nb.model.jobs import MadeBefore
from sleeper_nb.model.properties import (
    SAVEPOINT_INTERVAL,
    SAVEPOINT_TIME,
    SAVEPOINTS_RETAINED,
    TableProperties,
)
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations.versioning.create_savepoint import create_savepoint
from sleeper_nb.operations.versioning.delete_savepoint import delete_savepoint
from sleeper_nb.operations.versioning.resolve import Resolved
from sleeper_nb.report import Grid, Report, counted
from sleeper_nb.state_store.state_store_base import StateStore


@dataclass(frozen=True, slots=True)
class SavepointSchedule:
    """When savepoints are made and retired without being asked for.

    Parameters
    ----------
    interval
        How old the last periodic savepoint becomes before another is made (``savepoint.create-interval``); None
        makes none.
    num_retained_max
        How many periodic savepoints stay at most (``savepoint.num-retained.max``).
    time_retained
        How long one stays at least (``savepoint.time-retained``): it goes when it and what the next one saves are
        older. None for ever.
    """

    interval: timedelta | None = None
    num_retained_max: int = 2**31 - 1
    time_retained: timedelta | None = None

    @classmethod
    def of(cls, properties: TableProperties) -> SavepointSchedule:
        """Return what a table's properties say."""
        return cls(*(properties[name] for name in (SAVEPOINT_INTERVAL, SAVEPOINTS_RETAINED, SAVEPOINT_TIME)))


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


@dataclass(frozen=True, slots=True, repr=False)
class RetiredSavepoints(Report):
    """The periodic savepoints that were deleted, oldest first; of a dry run, that would be."""

    savepoints: tuple[Savepoint, ...]
    dry_run: bool

    @property
    def said(self) -> str:
        """What was done, in a few words; empty when nothing was due."""
        if not self.savepoints:
            return ""
        deleted = "would delete" if self.dry_run else "deleted"
        return f"{deleted} {counted(len(self.savepoints), 'periodic savepoint')}"

    def grid(self) -> Grid:
        """Return one row a savepoint."""
        rows = tuple((kept.id, kept.saved_snapshot_id, kept.save_time) for kept in self.savepoints)
        return Grid(("savepoint", "snapshot", "save time"), rows, self.said or "no savepoint is to be retired")


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class LoadedAndSaved(Snapshot):
    """The snapshot that a load made, and what became of the savepoint that was due then.

    Parameters
    ----------
    savepoint
        The savepoint of the snapshot; None when it could not be made. The rows are there all the same, and the next
        load or maintenance tries again.
    note
        What happened, in one sentence.
    """

    savepoint: Savepoint | None
    note: str

    def grid(self) -> Grid:
        """Return the snapshot as a card, with the note below."""
        return replace(Snapshot.grid(self), footer=self.note)


def is_due(savepoints: Sequence[Savepoint], head: Snapshot, interval: timedelta | None, now: datetime) -> bool:
    """Return whether a savepoint of the head is due: it has none, and the last periodic one is older than the interval.

    One that was made by hand does not put it off, as it may save any old version, and be deleted at any time. Pure.
    """
    if interval is None or any(saved.saved_snapshot_id == head.id for saved in savepoints):
        return False
    return all(now - saved.save_time >= interval for saved in savepoints if saved.periodic)


def plan_retirement(
    savepoints: Sequence[Savepoint], schedule: SavepointSchedule, now: datetime, *, coming: Snapshot | None = None
) -> tuple[Savepoint, ...]:
    """Return the periodic savepoints that are retired, oldest first. Pure.

    A savepoint answers for the moments up to what the next one saves, so one that is old enough goes when that is older
    than the time that is retained. Never one that was made by hand. Never the newest periodic one either: it tells when
    the next is due, and on a table that rests it is the last that holds its past; without it, each run would make it
    anew.

    Parameters
    ----------
    savepoints
        All that there are.
    schedule
        How many stay, and how long.
    now
        The moment as of which they are old.
    coming
        The snapshot that another one is about to save.
    """
    newest_first = sorted((kept for kept in savepoints if kept.periodic), key=lambda kept: -kept.id)
    lasting, retired = schedule.time_retained, []
    succeeded = now if coming is None else coming.time  # when what the next one saves was committed
    for newer, kept in enumerate(newest_first, int(coming is not None)):
        old = lasting is not None and now - kept.save_time > lasting and now - succeeded >= lasting
        if newer and (old or newer >= schedule.num_retained_max):
            retired.append(kept)
        succeeded = min(succeeded, kept.committed)
    return tuple(reversed(retired))


def save_if_due(
    store: StateStore, head: Snapshot, interval: timedelta | None, now: datetime, *, dry_run: bool, author: str | None
) -> PeriodicSavepoint:
    """Save a snapshot when that is due, or only say so.

    Two that do this at the same moment may both make one: it costs a file of a few lines, and is retired in its turn.
    """
    if not is_due(store.catalog.savepoints(store.table_id), head, interval, now):
        return PeriodicSavepoint(None, None, dry_run)
    made = None
    if not dry_run:
        made = create_savepoint(store, Resolved(head), name=None, message=None, author=author, periodic=True)
    return PeriodicSavepoint(head.id, made, dry_run)


class SavepointKeeper:
    """Makes and retires the periodic savepoints of a table, in one run of its maintenance.

    Parameters
    ----------
    store, schedule
        The table's.
    head
        What is saved when that is due.
    now
        The moment as of which savepoints are due and old.
    author
        Who history says it was.
    """

    def __init__(
        self, store: StateStore, schedule: SavepointSchedule, head: Snapshot, now: datetime, author: str | None
    ) -> None:
        self._store, self._schedule, self._head, self._now, self._author = store, schedule, head, now, author
        self._coming: Snapshot | None = None

    def save(self, dry_run: bool) -> PeriodicSavepoint:
        """Save the head when that is due, or only say so."""
        interval = self._schedule.interval
        report = save_if_due(self._store, self._head, interval, self._now, dry_run=dry_run, author=self._author)
        self._coming = (
            self._head if dry_run and report.snapshot_id is not None else None
        )  # the run itself finds it among the others
        return report

    def retire(self, dry_run: bool) -> RetiredSavepoints:
        """Delete the savepoints that `plan_retirement` names; a run that was interrupted is done again."""
        there = self._store.catalog.savepoints(self._store.table_id)
        retired = plan_retirement(there, self._schedule, self._now, coming=self._coming)
        for savepoint in () if dry_run else retired:
            delete_savepoint(self._store, savepoint)
        return RetiredSavepoints(retired, dry_run)


def saved_if_due(store: StateStore, loaded: Snapshot, interval: timedelta | None, author: str | None) -> Snapshot:
    """Return what a load made, saved when a savepoint is due.

    The rows are in the table before this begins. So whatever fails here is told by the note of what is returned, and
    not raised: whoever saw an error would load the rows again.
    """
    if interval is None or isinstance(loaded, MadeBefore):
        return loaded
    try:
        report = save_if_due(store, loaded, interval, store.clock.now(), dry_run=False, author=author)
        savepoint, note = report.savepoint, report.said
    except Exception as error:  # noqa: BLE001 - of whatever kind: the load stands
        why = error.message if isinstance(error, SleeperError) else repr(error)
        savepoint, note = None, f"the savepoint that was due could not be made: {why}. The next load tries again"
    if not note:
        return loaded
    values = {field.name: getattr(loaded, field.name) for field in fields(Snapshot)}
    return LoadedAndSaved(**values, savepoint=savepoint, note=note)
