"""The contract of a catalog: which tables exist, which snapshot of each is current, and who may change that.

Below the contract stands what is done with any catalog: `read_consistently`, which reads again until two reads agree,
`retained`, the versions of a table at one moment, `free_space_and_retry` on a full disk, and `check_online`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from sleeper_nb.catalog.checked_rows import CatalogRows
from sleeper_nb.clock import Clock
from sleeper_nb.errors import (
    CHECK,
    CHOOSE_RETAINED,
    SAVE_RETAINED,
    Action,
    AlreadyExists,
    ConflictError,
    DiskFull,
    NotFound,
    StateRuleBroken,
)
from sleeper_nb.model.jobs import Job, Lease, ServiceLease
from sleeper_nb.model.savepoints import RetainedVersions, Savepoint
from sleeper_nb.model.snapshots import Snapshot

logger = logging.getLogger(__name__)

TABLE_ID_DIGITS = 8
"""The id of a new table has so many hexadecimal digits; the policies of `docs/aws-roles.md` count on it."""


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table in the index: its id never changes, its name can."""

    id: str
    name: str
    online: bool = True
    # what is recorded of the table's properties file: its checksum as a command last wrote it, and lines that a commit
    # set; None where nothing was recorded
    properties_checksum: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PropertiesNote:
    """A new record of a table's properties file; it counts only if the record still is the `expected` one."""

    expected: str | None
    text: str


@dataclass(frozen=True, slots=True)
class FileClaim:
    """A compaction job's claim on files of one partition; until it ends, no other job can claim them."""

    job_id: str
    partition_id: str
    filenames: tuple[str, ...]
    until: datetime


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """How much one commit can hold: the number of snapshots, and the bytes of one entry of the transaction log.

    A snapshot with a job id counts as two.
    """

    snapshots: int
    entry_bytes: int


# Errors that every catalog raises.


def table_exists(name: str) -> AlreadyExists:
    return AlreadyExists(f"table {name!r} already exists", hint="choose another name")


def unknown_table(name: str) -> NotFound:
    return NotFound(f"no table {name!r}", hint="it was renamed or deleted in the meantime")


def unknown_table_id(table_id: str) -> NotFound:
    return NotFound(f"no table with id {table_id!r}", hint="it was deleted in the meantime")


def snapshot_not_kept(snapshot_id: int) -> NotFound:
    return NotFound(f"snapshot {snapshot_id} has expired", hint=CHOOSE_RETAINED)


def snapshot_not_saved(snapshot_id: int) -> NotFound:
    return NotFound(f"snapshot {snapshot_id} has expired, so it cannot be saved", hint=SAVE_RETAINED)


def savepoint_deleted(savepoint_id: int) -> NotFound:
    return NotFound(
        f"savepoint {savepoint_id} was deleted in the meantime, so its version cannot be saved again",
        hint=SAVE_RETAINED,
    )


def savepoint_name_used(name: str | None) -> AlreadyExists:
    return AlreadyExists(
        f"the savepoint name {name!r} was used before",
        hint="choose another; the name of a deleted savepoint cannot be used again",
    )


def checkpoint_expired(snapshot_id: int) -> ConflictError:
    return ConflictError(f"snapshot {snapshot_id} has expired in the meantime", hint="save full metadata instead")


def log_was_cut(after: int) -> NotFound:
    return NotFound(f"the transaction log was cut after snapshot {after}", hint="read a retained snapshot")


def no_checkpoint(at: int) -> NotFound:
    return NotFound(f"no metadata of snapshot {at} is left", hint="it has expired; read a retained snapshot")


class Catalog(ABC):
    """The lightweight consistency layer; every method is atomic, and what it acknowledged survives a crash.

    A catalog holds rows, no rules and no file metadata. All times are UTC. Every method raises `StorageError` when
    the outcome is not known; `has_commit` then returns whether a commit succeeded.
    """

    limits: CommitLimits

    @abstractmethod
    def create_table(self, entry: TableEntry, first: Snapshot) -> None:
        """Add a table with its first snapshot; `AlreadyExists` when the name (ignoring case) or the id is taken."""

    @abstractmethod
    def rename_table(self, table_id: str, old: str, new: str) -> None:
        """Rename a table.

        `AlreadyExists` when another table has the new name, ignoring case; `NotFound` when the table does not have the
        old name (any more).
        """

    @abstractmethod
    def delete_table(self, table_id: str, name: str) -> None:
        """Delete a table in one step; its name is free from then on, and `deleted` lists its id.

        No commit, savepoint or lease can be added to it afterwards. `NotFound` when the table does not have that name
        (any more).
        """

    @abstractmethod
    def deleted(self) -> tuple[str, ...]:
        """Return the ids of deleted tables that may have left rows in the catalog or files in storage."""

    @abstractmethod
    def forget_deleted(self, table_id: str) -> None:
        """Delete the remaining rows of a deleted table, and last its id; a second call does nothing."""

    @abstractmethod
    def set_online(self, table_id: str, online: bool) -> None:
        """Set whether maintenance may work on a table; `NotFound` when the table was deleted."""

    @abstractmethod
    def note_properties(self, table_id: str, note: PropertiesNote) -> bool:
        """Record a table's properties file; return False when another record than the expected one is there.

        `NotFound` when the table was deleted.
        """

    @abstractmethod
    def tables(self) -> tuple[TableEntry, ...]:
        """Return all tables, by name."""

    @abstractmethod
    def find_table(self, name: str) -> TableEntry | None:
        """Return the table with a name, ignoring case; None when there is none. The cost is constant."""

    @abstractmethod
    def entry(self, table_id: str) -> TableEntry | None:
        """Return the table with an id; None when there is none. The cost is constant."""

    def has_table(self, table_id: str) -> bool:
        """Return whether a table exists: it was created and not deleted."""
        return self.entry(table_id) is not None

    @abstractmethod
    def current(self, table_id: str) -> Snapshot:
        """Return the newest snapshot; `NotFound` when the table was deleted."""

    @abstractmethod
    def current_of_all(self) -> dict[str, Snapshot]:
        """Return the newest snapshot of each table by the table's id, in a few reads for any number of tables.

        A table whose newest snapshot is missing, as in a damaged catalog, is left out.
        """

    @abstractmethod
    def commit(
        self,
        table_id: str,
        expected: Snapshot,
        *new: Snapshot,
        log: Sequence[bytes] = (),
        properties: PropertiesNote | None = None,
    ) -> bool:
        """Make the last of `new` current if `expected` still is; return whether that succeeded.

        The record of the properties file changes in the same step; when it is not the expected one, nothing changes.

        All of `new`, in the order of their ids, become visible in one step, as do their entries of the transaction log:
        one for each, or none at all. Nothing changes either when a job id among them has made a snapshot before.
        """

    def commit_lock(self, table_id: str, clock: Clock) -> AbstractContextManager[None]:  # noqa: ARG002 - used by subclasses
        """Return a context manager that holds an advisory lock of the table, so that fewer commits are lost.

        Correctness does not depend on it: a catalog may have no locks, or stop waiting for one after a while.
        """
        return nullcontext()

    @abstractmethod
    def log(self, table_id: str, after: int, until: int) -> tuple[bytes, ...]:
        """Return the entries of the transaction log of the snapshots `after` < id <= `until`, in order.

        `NotFound` when one is missing: the log was cut after a `checkpoint`, or a snapshot has no entry.
        """

    @abstractmethod
    def whole_log(self, table_id: str) -> dict[int, bytes]:
        """Return all entries of the transaction log by snapshot id, for a check."""

    @abstractmethod
    def checkpoint(self, table_id: str, at: int) -> Snapshot:
        """Return the newest snapshot at or before `at` that has its full metadata as Parquet.

        It may have expired while a retained snapshot is still read from it. `NotFound` when there is none.
        """

    @abstractmethod
    def materialise(self, table_id: str, snapshot: Snapshot) -> bool:
        """Record the Parquet metadata of a snapshot that had none; return False when it has some or has expired.

        The snapshot given is the retained one, with the paths and checksums of the files.
        """

    @abstractmethod
    def audit(self, table_id: str) -> CatalogRows:
        """Return the rows that the versions of a table depend on, including damaged ones, for a check.

        Every other method raises `CatalogDamaged` for a snapshot or savepoint whose row was changed after it was
        written. `NotFound` when the table was deleted.
        """

    @abstractmethod
    def has_commit(self, table_id: str, commit_id: str) -> bool:
        """Return whether a retained snapshot has the commit id."""

    @abstractmethod
    def snapshots(self, table_id: str) -> tuple[Snapshot, ...]:
        """Return the retained snapshots, newest first."""

    @abstractmethod
    def expire_snapshots(self, table_id: str, ids: Collection[int], now: datetime) -> None:
        """Delete snapshots, never the current one; metadata files that nothing else names become garbage at `now`.

        Full metadata from which a retained snapshot is read stays, hidden, until no snapshot needs it; the transaction
        log is cut after it. Unknown ids are ignored, so a second call does nothing.
        """

    @abstractmethod
    def snapshot(self, table_id: str, snapshot_id: int) -> Snapshot | None:
        """Return a retained snapshot; None when it has expired or never existed. The cost is constant."""

    @abstractmethod
    def snapshot_as_of(self, table_id: str, moment: datetime) -> Snapshot | None:
        """Return the newest retained snapshot that was committed at or before a moment; None when there is none."""

    @abstractmethod
    def savepoints(self, table_id: str) -> tuple[Savepoint, ...]:
        """Return the savepoints, oldest first."""

    @abstractmethod
    def reserve_savepoint_id(self, table_id: str) -> int:
        """Return the id for a new savepoint: one more than the greatest ever returned, so none is returned twice."""

    @abstractmethod
    def is_savepoint_name_used(self, table_id: str, name: str) -> bool:
        """Return whether a savepoint of the table has, or once had, a name."""

    @abstractmethod
    def add_savepoint(self, table_id: str, savepoint: Savepoint, extra_of: int | None = None) -> None:
        """Add a savepoint under a reserved id if its snapshot is still retained.

        Its metadata is the snapshot's own, or that of an older retained snapshot together with a log. `NotFound` when
        the snapshot has expired, `ConflictError` when only the older one has, `AlreadyExists` when the name was used
        before, even by a deleted savepoint.

        For a snapshot that has expired, `extra_of` is the id of a savepoint that keeps it: that savepoint must still
        exist. The new savepoint has metadata of its own, since either may be deleted first.
        """

    @abstractmethod
    def delete_savepoint(self, table_id: str, savepoint_id: int, now: datetime) -> None:
        """Delete a savepoint except its id and name; metadata files that nothing else names become garbage at `now`."""

    @abstractmethod
    def garbage(self, table_id: str) -> tuple[tuple[str, datetime], ...]:
        """Return files that nothing names any more and that may still exist, each with the time since when.

        A data file among them is garbage only when no state tracks it: it is listed before the state drops it.
        """

    @abstractmethod
    def add_garbage(self, table_id: str, paths: Collection[str], now: datetime) -> None:
        """List files as garbage since `now`; a file that is listed already keeps its earlier time."""

    @abstractmethod
    def forget_garbage(self, table_id: str, paths: Collection[str]) -> None:
        """Remove files from the list of garbage after they were deleted from storage."""

    @abstractmethod
    def add_lease(self, table_id: str, lease: Lease) -> None:
        """Add a reader's lease on a version; `NotFound` when no snapshot, savepoint or other lease keeps it any more.

        A process that deletes the version afterwards, and then reads the leases, sees this lease.
        """

    @abstractmethod
    def leases(self, table_id: str) -> tuple[Lease, ...]:
        """Return all leases, oldest first, including those that have ended but were not released."""

    @abstractmethod
    def renew_lease(self, table_id: str, lease: Lease, until: datetime) -> bool:
        """Extend a lease; return False when it was released, or no longer ends when `lease` says."""

    @abstractmethod
    def release_lease(self, table_id: str, lease: Lease) -> bool:
        """Remove a lease; return False when it was released, or no longer ends when `lease` says."""

    @abstractmethod
    def claim_files(self, table_id: str, claim: FileClaim, now: datetime, job: Job | None = None) -> bool:
        """Claim all files for a job, or none; return False when another job's claim on one has not ended by `now`.

        The record of the job, when given, is written in the same step.
        """

    @abstractmethod
    def claims(self, table_id: str, now: datetime) -> tuple[FileClaim, ...]:
        """Return the claims that have not ended by `now`."""

    @abstractmethod
    def release_claim(self, table_id: str, job_id: str) -> None:
        """Remove a job's claim, if it has one."""

    @abstractmethod
    def put_job(self, table_id: str, job: Job) -> None:
        """Write the record of a job's run, replacing an older record of the same run."""

    @abstractmethod
    def jobs(self, table_id: str, limit: int) -> tuple[Job, ...]:
        """Return the newest runs of jobs, newest first."""

    @abstractmethod
    def prune_jobs(self, table_id: str, before: datetime, keep: int) -> None:
        """Delete the records of runs created before a moment, and all but the newest `keep`."""

    @abstractmethod
    def snapshot_of_job(self, table_id: str, job_id: str) -> int | None:
        """Return the id of the snapshot that a job has made, retained or not; None when it has made none.

        Of a job that was remembered, the snapshot that it was remembered with. Ids are kept as long as their
        table is.
        """

    @abstractmethod
    def job_ids(self, table_id: str) -> tuple[str, ...]:
        """Return the ids of all jobs for which `snapshot_of_job` has a snapshot, sorted."""

    @abstractmethod
    def remember_jobs(self, table_id: str, job_ids: Sequence[str], snapshot_id: int) -> None:
        """Remember ids of jobs that have nothing more to add, with a snapshot; those that are known stay."""

    @abstractmethod
    def take_service(self, lease: ServiceLease, now: datetime) -> ServiceLease:
        """Take the lease of a service, or renew it, and return the lease that is held afterwards.

        That is `lease`, unless another owner's has not ended by `now`.
        """

    @abstractmethod
    def service(self, name: str) -> ServiceLease | None:
        """Return the lease of a service, including one that has ended; None when it was released or never taken."""

    @abstractmethod
    def release_service(self, lease: ServiceLease) -> None:
        """Remove the lease of a service if `lease` has its owner."""

    def file_faults(self) -> tuple[str, ...]:
        """Return the faults of the catalog's own file, such as an index without a row; a server has no such file."""
        return ()

    def keep_room(self) -> None:  # noqa: B027 - a server's disk is not ours
        """Fill up the disk space in reserve for the work that frees space on a full disk."""

    def give_up_room(self) -> bool:
        """Give up some of the reserved disk space; return False when nothing is left."""
        return False

    def overwrite_deleted(self) -> bool:
        """Overwrite deleted rows that the catalog's own file still has; False when another session prevents that."""
        return True

    @property
    def identity(self) -> object:
        """Equal for two open catalogs that are the same one; None where that is unknown.

        A catalog whose file was deleted differs from the one that was created in its place.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Close all connections; the catalog cannot be used afterwards."""


# Reading several things at one moment.

READ_ATTEMPTS = 20

T = TypeVar("T")
Around = TypeVar("Around")


def read_consistently(read: Callable[[], T], around: Callable[[], Around]) -> tuple[T, Around]:
    """Return the results of two reads that were true at the same moment.

    `around` is read before and after `read`. When both results are equal, they also held while `read` ran; otherwise
    both are read again. This needs no lock, and no writer waits for a reader.

    `ConflictError` when `around` changed during each of 20 attempts.
    """
    before = around()
    for _ in range(READ_ATTEMPTS):
        result, after = read(), around()
        if after == before:
            return result, after
        logger.debug("the catalog changed while it was read; reading again")
        before = after
    raise ConflictError(
        f"the table changed during each of {READ_ATTEMPTS} reads of its metadata",
        hint="run it again when fewer writers commit at once",
    )


def retained(catalog: Catalog, table_id: str) -> RetainedVersions:
    """Return the snapshots and savepoints of a table at one moment; `NotFound` when the table was deleted."""
    snapshots, savepoints = read_consistently(lambda: catalog.snapshots(table_id), lambda: catalog.savepoints(table_id))
    if not snapshots:
        catalog.current(table_id)  # raises: a table that exists has a snapshot
        raise NotFound("no snapshot of the table is left in the catalog", hint=(CHECK, " shows what is damaged"))
    return RetainedVersions(snapshots, savepoints)


# Free space on a full disk: such work may use the space that the catalog keeps in reserve.


def free_space_and_retry(catalog: Catalog, work: Callable[[], T]) -> T:
    """Do work that leads to less being stored; when the disk is full, give up the reserve and try again.

    `DiskFull` when the reserve was not enough. The work must be done completely or not at all, so it can be repeated.
    """
    while True:
        try:
            done = work()
        except DiskFull:
            if not catalog.give_up_room():
                raise
            logger.warning("the disk is full: using the catalog's reserve to free space")
        else:
            catalog.keep_room()
            return done


# Check the online flag of a table: maintenance leaves an offline table alone; it can still be read and loaded.


def is_online(catalog: Catalog, table_id: str) -> bool:
    """Return whether a table is online now; `NotFound` when the table was deleted."""
    entry = catalog.entry(table_id)
    if entry is None:
        raise unknown_table_id(table_id)
    return entry.online


def check_online(catalog: Catalog, table: TableEntry, work: str) -> None:
    """Raise `StateRuleBroken` when a table is offline, which is read again; `work` is refused: ``"compaction"``."""
    if not is_online(catalog, table.id):
        name = table.name
        online, dry_run = Action(f"online {name}", "table.maintenance.online()"), Action("--dry-run", "dry_run=True")
        raise StateRuleBroken(
            f"table {name!r} is offline: {work} is not allowed",
            hint=(online, " puts it online; ", dry_run, " shows what would be done"),
        )
