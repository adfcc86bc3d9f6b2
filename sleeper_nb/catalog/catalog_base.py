"""Several answers of a catalog that were all true at one moment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from sleeper_nb.catalog.checked_rows import CatalogRows
from sleeper_nb.clock import Clock
from sleeper_nb.errors import CHECK, SAVE_RETAINED, ConflictError, NotFound
from sleeper_nb.model.jobs import Job, Lease
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot

# The contract of a catalog: which tables there are, which snapshot of each is current, and who may change that.


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table in the index: its id never changes, its name can.

    Parameters
    ----------
    id, name
        The table's.
    online
        Whether maintenance may work on it.
    properties_checksum
        Of the file with its properties, as it was written last by a command; None where none was recorded.
    """

    id: str
    name: str
    online: bool = True
    properties_checksum: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A compaction job's claim on files of one partition, until a moment; the files are in no other job before it."""

    job_id: str
    partition_id: str
    filenames: tuple[str, ...]
    until: datetime


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """How much one commit can hold: snapshots in all, and bytes of one entry of the transaction log.

    A snapshot with the id of a job counts as two.
    """

    snapshots: int
    entry_bytes: int


def deleted_meanwhile(savepoint_id: int) -> NotFound:
    """Return the error of a second savepoint of a version when the one that kept the version is gone."""
    return NotFound(
        f"savepoint {savepoint_id} was deleted meanwhile, so its version cannot be saved again",
        hint=SAVE_RETAINED,
    )


def lost_checkpoint(snapshot_id: int) -> ConflictError:
    """Return the error of a savepoint whose log goes on from a snapshot that has expired."""
    return ConflictError(f"snapshot {snapshot_id} has expired meanwhile", hint="save full metadata instead")


class Catalog(ABC):
    """The lightweight consistency layer; every method is atomic, and what it acknowledged survives a crash.

    A catalog holds rows, no rules and no metadata of files. All times are UTC. Every method raises `StorageError` when
    the outcome is not known; `has_commit` then tells whether a commit won.
    """

    limits: CommitLimits

    @abstractmethod
    def create_table(self, entry: TableEntry, first: Snapshot) -> None:
        """Add a table with its first snapshot; `AlreadyExists` when the name, in any case, or the id is taken."""

    @abstractmethod
    def rename_table(self, table_id: str, old: str, new: str) -> None:
        """Give a table another name.

        `AlreadyExists` when another table has the new name, in any case; `NotFound` when the table has not the old one
        (any more).
        """

    @abstractmethod
    def delete_table(self, table_id: str, name: str) -> None:
        """Forget a table of a name, in one step; its name is free from then on, and its id among `deleted`.

        Nothing more is committed to it, no savepoint and no lease is added. `NotFound` when the table has not that name
        (any more).
        """

    @abstractmethod
    def deleted(self) -> tuple[str, ...]:
        """Return the ids of deleted tables of which something may be left, in the catalog or in storage."""

    @abstractmethod
    def forget_deleted(self, table_id: str) -> None:
        """Forget what is left of a deleted table, and last that it was there; a second call does nothing."""

    @abstractmethod
    def set_online(self, table_id: str, online: bool) -> None:
        """Say whether maintenance may work on a table; `NotFound` when the table is gone."""

    @abstractmethod
    def note_properties(self, table_id: str, checksum: str) -> None:
        """Note the checksum of the file with a table's properties; `NotFound` when the table is gone."""

    @abstractmethod
    def tables(self) -> tuple[TableEntry, ...]:
        """Return all tables, by name."""

    @abstractmethod
    def find_table(self, name: str) -> TableEntry | None:
        """Return the table of a name, in any case; None when there is none. It costs the same among any number."""

    @abstractmethod
    def entry(self, table_id: str) -> TableEntry | None:
        """Return the table of an id; None when there is none. It costs the same among any number."""

    def has_table(self, table_id: str) -> bool:
        """Return whether a table is there: it was made, and not deleted."""
        return self.entry(table_id) is not None

    @abstractmethod
    def current(self, table_id: str) -> Snapshot:
        """Return the newest snapshot; `NotFound` when the table is gone."""

    @abstractmethod
    def current_of_all(self) -> dict[str, Snapshot]:
        """Return the newest snapshot of each table, by the table's id, in a few reads however many tables there are.

        A table whose newest snapshot is missing, as in a damaged catalog, is left out.
        """

    @abstractmethod
    def commit(self, table_id: str, expected: Snapshot, *new: Snapshot, log: Sequence[bytes] = ()) -> bool:
        """Make the last of `new` current on the condition that `expected` still is; return whether it was.

        All of `new`, in order of their ids, appear in one step, as do their entries of the transaction log: one for
        each, or none at all. When the id of the job of one has made a snapshot before, nothing is changed either.
        """

    def turn(self, table_id: str, clock: Clock) -> AbstractContextManager[None]:  # noqa: ARG002 - for others
        """Return a block that is done when it is this process's turn to commit, so that fewer tries are lost.

        Nothing depends on it: turns may be none, or be passed over after a while.
        """
        return nullcontext()

    @abstractmethod
    def log(self, table_id: str, after: int, until: int) -> tuple[bytes, ...]:
        """Return the entries of the transaction log of the snapshots `after` < id <= `until`, in order.

        `NotFound` when one is missing: the log was cut behind `checkpoint`, or a snapshot has no entry.
        """

    @abstractmethod
    def whole_log(self, table_id: str) -> dict[int, bytes]:
        """Return all entries of the transaction log by the numbers of their snapshots, for a check."""

    @abstractmethod
    def checkpoint(self, table_id: str, at: int) -> Snapshot:
        """Return the newest snapshot at or before `at` that has its full metadata as Parquet.

        It may have expired, while a retained one is still read through it. `NotFound` when there is none.
        """

    @abstractmethod
    def materialise(self, table_id: str, snapshot: Snapshot) -> bool:
        """Note the full metadata of a snapshot that had none as Parquet; return False when it has some, or is gone.

        The snapshot is the retained one with the paths and checksums of the files.
        """

    @abstractmethod
    def audit(self, table_id: str) -> CatalogRows:
        """Return the rows that the versions of a table depend on, damaged ones too, for a check.

        Every other method raises `CatalogDamaged` for a snapshot or savepoint whose row was changed after it was
        written. `NotFound` when the table is gone.
        """

    @abstractmethod
    def has_commit(self, table_id: str, commit_id: str) -> bool:
        """Return whether a retained snapshot carries the commit id."""

    @abstractmethod
    def snapshots(self, table_id: str) -> tuple[Snapshot, ...]:
        """Return the retained snapshots, newest first."""

    @abstractmethod
    def expire_snapshots(self, table_id: str, ids: Collection[int], now: datetime) -> None:
        """Forget snapshots; metadata files that nothing else names become garbage since `now`. Never the current one.

        Full metadata through which a retained snapshot is read stays, hidden, until none is; the transaction log is cut
        behind it. An id that is gone already is passed over, so a second call does nothing.
        """

    @abstractmethod
    def snapshot(self, table_id: str, snapshot_id: int) -> Snapshot | None:
        """Return a retained snapshot; None when it has expired or never was. It costs the same among any number."""

    @abstractmethod
    def snapshot_as_of(self, table_id: str, moment: datetime) -> Snapshot | None:
        """Return the newest retained snapshot that was committed at or before a moment; None when there is none."""

    @abstractmethod
    def savepoints(self, table_id: str) -> tuple[Savepoint, ...]:
        """Return the savepoints, oldest first."""

    @abstractmethod
    def reserve_savepoint_id(self, table_id: str) -> int:
        """Return an id for a new savepoint: one more than the greatest ever returned; it is never returned again."""

    @abstractmethod
    def is_savepoint_name_used(self, table_id: str, name: str) -> bool:
        """Return whether a savepoint of the table has or ever had a name."""

    @abstractmethod
    def add_savepoint(self, table_id: str, savepoint: Savepoint, beside: int | None = None) -> None:
        """Add a savepoint under a reserved id, on the condition that its snapshot is still retained.

        The metadata that it names is the snapshot's own, or that of an older retained snapshot, and a log. `NotFound`
        when the snapshot is gone, `ConflictError` when only the older one is, `AlreadyExists` when the name was ever
        used, also by a deleted savepoint.

        Of a snapshot that has expired, `beside` is the id of a savepoint that keeps it: the condition is then that this
        savepoint still exists. The metadata of the new one is its own, as either may be deleted first.
        """

    @abstractmethod
    def delete_savepoint(self, table_id: str, savepoint_id: int, now: datetime) -> None:
        """Forget a savepoint but for its id and name; metadata files that nothing else names become garbage."""

    @abstractmethod
    def garbage(self, table_id: str) -> tuple[tuple[str, datetime], ...]:
        """Return the files that nothing names any more and that may be there yet, each with the moment since when.

        A data file among them counts only when no state tracks it: it is noted before the state forgets it.
        """

    @abstractmethod
    def add_garbage(self, table_id: str, paths: Collection[str], now: datetime) -> None:
        """Note files as garbage since `now`; of one that is noted already the older moment stays."""

    @abstractmethod
    def forget_garbage(self, table_id: str, paths: Collection[str]) -> None:
        """Forget files that were deleted from storage."""

    @abstractmethod
    def add_lease(self, table_id: str, lease: Lease) -> None:
        """Hold a version for a reader; `NotFound` when no snapshot, savepoint or other lease keeps it any more.

        Who then forgets the version, and reads the leases after that, finds the lease.
        """

    @abstractmethod
    def leases(self, table_id: str) -> tuple[Lease, ...]:
        """Return all leases, oldest first, those too that have ended and were not released."""

    @abstractmethod
    def renew_lease(self, table_id: str, lease: Lease, until: datetime) -> bool:
        """Let a lease end later; return False when it is gone, or ends at another moment than `lease` says."""

    @abstractmethod
    def release_lease(self, table_id: str, lease: Lease) -> bool:
        """End a lease; return False when it is gone, or ends at another moment than `lease` says."""

    @abstractmethod
    def assign(self, table_id: str, assignment: Assignment, now: datetime, job: Job | None = None) -> bool:
        """Claim files for a job, all or none; return False when another job's claim on one has not ended by `now`.

        The record of the job, when one is given, is written in the same step.
        """

    @abstractmethod
    def assignments(self, table_id: str, now: datetime) -> tuple[Assignment, ...]:
        """Return the claims that have not ended by `now`."""

    @abstractmethod
    def release(self, table_id: str, job_id: str) -> None:
        """End a job's claim; nothing happens when there is none."""

    @abstractmethod
    def put_job(self, table_id: str, job: Job) -> None:
        """Write the record of a run of a job, in place of an older one of the same run."""

    @abstractmethod
    def jobs(self, table_id: str, limit: int) -> tuple[Job, ...]:
        """Return the newest runs of jobs, newest first."""

    @abstractmethod
    def prune_jobs(self, table_id: str, before: datetime, keep: int) -> None:
        """Forget runs that were created before a moment, and all but so many of the newest."""

    @abstractmethod
    def snapshot_of_job(self, table_id: str, job_id: str) -> int | None:
        """Return which snapshot the job of an id has made, retained or not; None when it has made none.

        Ids are kept as long as their table is.
        """

    def file_faults(self) -> tuple[str, ...]:
        """Return what is wrong with the catalog's own file, such as an index without a row; a server has none."""
        return ()

    def keep_room(self) -> None:  # noqa: B027 - a server's disk is not ours
        """Keep some room on the disk in reserve, for the work that frees space on a full one."""

    def give_up_room(self) -> bool:
        """Give up some of the room that is kept in reserve; return False when there is none."""
        return False

    @property
    def identity(self) -> object:
        """What two open catalogs have in common when they are one; None where that cannot be told.

        A catalog whose files were deleted is not the one that was made in their place.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Let go of connections; the catalog cannot be used afterwards."""


MOST_LOOKS = 20

T = TypeVar("T")
Around = TypeVar("Around")


def steady(read: Callable[[], T], around: Callable[[], Around]) -> tuple[T, Around]:
    """Return two answers that were true at the same moment.

    `around` is read before and after `read`. When both times give the same, that was also the answer while `read` ran;
    otherwise both are read again. This needs no lock, and no writer waits for a reader.

    Raises
    ------
    ConflictError
        When `around` changed during each of 20 looks.
    """
    before = around()
    for _ in range(MOST_LOOKS):
        found, after = read(), around()
        if after == before:
            return found, after
        before = after
    raise ConflictError(
        f"the table changed during each of {MOST_LOOKS} looks at its metadata",
        hint="run it again when fewer writers commit at once",
    )


@dataclass(frozen=True, slots=True)
class Retained:
    """The versions of a table that can be read at one moment.

    Parameters
    ----------
    snapshots
        The retained snapshots, newest first; the first is the current one.
    savepoints
        The savepoints, oldest first.
    """

    snapshots: tuple[Snapshot, ...]
    savepoints: tuple[Savepoint, ...]

    @property
    def current(self) -> Snapshot:
        """The current snapshot."""
        return self.snapshots[0]


def retained(catalog: Catalog, table_id: str) -> Retained:
    """Return the snapshots and savepoints of a table at one moment.

    Raises
    ------
    NotFound
        When the table was deleted.
    """
    snapshots, savepoints = steady(lambda: catalog.snapshots(table_id), lambda: catalog.savepoints(table_id))
    if not snapshots:
        catalog.current(table_id)  # raises: a table that exists has a snapshot
        raise NotFound("no snapshot of the table is left in the catalog", hint=(CHECK, " shows what is damaged"))
    return Retained(snapshots, savepoints)
