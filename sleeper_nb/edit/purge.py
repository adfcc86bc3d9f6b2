"""Purge rows: delete them, and everything that still has them: older versions, savepoints and data files.

A deletion alone leaves the rows in files: older versions use them, and a deletion vector only names positions. Why no
retained version has a file with such a row after a purge, in steps:

1. All rows of a data file count, also those that a vector hides and those of other leaves. The deletion writes every
   file of the current version that has such a row again, in one commit. This version is clean: what others append
   later is not part of the purge.
2. The current state tracks each file with the versions that use it. The files that older versions use are searched,
   and all snapshots up to the newest with such a file expire: without gaps, so that no moment in time is answered by
   an older version than the one that was current. So do savepoints of such versions. A version that is read from older
   metadata (`SavedLog`) counts with all versions from there on, as that metadata has the least and greatest keys of
   files.
3. Before that, the oldest snapshot that stays gets metadata of its own, so that the transaction log is cut before it.
   References that were removed have no keys and no statistics, so its metadata has none of the files that go.
4. Garbage is collected without the usual delay, from storage too. Only the lease of a reader keeps files; they are
   reported, and the next run deletes them.
5. If a rollback brought such a file back meanwhile, all of it is done again.
6. What is published for other engines goes before the files do, as its metadata has least and greatest keys of files,
   and its leases keep files of versions that expired. The clean version can be published again.
7. What may quote a key or a value goes: the reasons of jobs, copies of metadata in this machine's cache, and what the
   catalog's own file still has of rows that it deleted. Texts that have a value of the condition (`quoted_values`), and
   files of rows that loads kept back, are named: they are the user's, or part of what stays.

Each step leaves a state in which the next run does the rest, so an interrupted purge is finished by repeating it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.catalog.catalog_base import free_space_and_retry, retained
from sleeper_nb.edit.edit_list import EditList
from sleeper_nb.edit.quoted_values import quoting
from sleeper_nb.edit.row_editor import ATTEMPTS, ChangeReport, RowEditor
from sleeper_nb.errors import Action, ConflictError, InvalidInput, NotFound, StateRuleBroken, StorageError
from sleeper_nb.load.quarantine import noted_files
from sleeper_nb.maintain.collect_garbage import (
    GarbageReport,
    collect_garbage,
    collectable_files,
    versions_kept,
)
from sleeper_nb.model.evolution import for_later_files, mapped
from sleeper_nb.model.file_reference import stored_files, to_values
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.jobs import KEPT_JOBS, Lease
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.savepoints import RetainedVersions, Savepoint, savepoint_label
from sleeper_nb.model.snapshots import EPOCH, Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.publish.published import unpublish, versions_to_unpublish
from sleeper_nb.read.job_tracking import forget_reasons
from sleeper_nb.report import Bytes, Grid, TableReport, cell_text, counted, duration_text, notes_line, nothing_done
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.versions.delete_savepoint import delete_savepoint
from sleeper_nb.versions.resolve import number_ranges

logger = logging.getLogger(__name__)

T = TypeVar("T")
Search = Callable[[TableState, TableState], Collection[str]]
"""Returns the data files of a state (the second) with rows to purge; what a condition reads besides is of the first."""

_AT_ONCE = timedelta.min
"""No delay at all: also for files that a writer whose clock is ahead took out of use."""
_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, repr=False)
class PurgeReport(TableReport):
    """What a purge did; of a dry run, what it would do.

    Parameters
    ----------
    change
        The deletion from the current version.
    clean
        The snapshot from which on no version had such a row; None of a dry run.
    expired
        The snapshots that expired, oldest first.
    holding
        Those of them that had a file with such a row; the others expired with them, so that history has no gaps.
    savepoints
        The savepoints that were deleted.
    data_files, bytes
        The data files that were deleted, and their bytes: all that no version needs any more.
    metadata_files
        How many metadata files were deleted, which can have keys of rows; None of a dry run.
    unread
        How many of the data files were not searched: the table has other keys or types now, or no version needed them.
    readers
        The leases of readers that keep files with such rows: repeat the purge when they have ended.
    others
        The addresses of files with such rows that were added where they were: they are forgotten, never deleted.
    linked
        The links behind which some of the files are: nothing is deleted there, so the purge would be refused.
    strays
        How many data files in the table's folder belong to no version: of writers that stopped, or still write.
    reasons
        How many reasons of jobs were removed, as they may quote a row.
    quoting
        The texts that stay, and the split points, that have a value of the condition.
    quarantined
        The files of rows that loads kept back, by the messages of versions and the records of jobs; not searched.
    log_kept
        Whether another session prevented that the catalog's log, which has deleted rows, was cut.
    unpublished
        The versions that other engines could read: all that was published goes, when any file goes.
    note
        Why the clean version could not be published again; empty when it was, or no property asks for it.
    dry_run
        Whether nothing was changed.
    again
        How to do what was planned: the whole line, where a command made the plan.
    """

    change: ChangeReport
    clean: int | None
    expired: tuple[Snapshot, ...]
    holding: tuple[int, ...]
    savepoints: tuple[Savepoint, ...]
    data_files: tuple[str, ...]
    bytes: int
    metadata_files: int | None
    unread: int
    readers: tuple[Lease, ...]
    others: tuple[str, ...]
    strays: int
    quoting: tuple[str, ...]
    quarantined: tuple[str, ...]
    dry_run: bool
    linked: tuple[str, ...] = ()
    reasons: int = 0
    log_kept: bool = False
    unpublished: tuple[int, ...] = ()
    note: str = ""
    again: str = ""
    prefix: str = ""

    @property
    def operation(self) -> str:
        """What is done, for confirmations."""
        return "purge"

    @property
    def table(self) -> str:
        """The table's name."""
        return self.change.table

    @property
    def deleted(self) -> int:
        """Rows that were deleted from the current version."""
        return self.change.deleted

    @property
    def complete(self) -> bool:
        """Whether no file with such a row is left in the table's folder, as far as versions name its files."""
        return not (self.dry_run or self.readers)

    @property
    def needs_confirmation(self) -> bool:
        """Whether more goes than rows of the current version."""
        return bool(self.expired or self.savepoints or self.unpublished or self.change.is_about_all_rows)

    def cells(self) -> tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]:
        """Return one row with the counts."""
        columns = ("table", "operation", "deleted", "snapshots", "savepoints", "data files", "bytes", "readers",
                   "files of others")  # fmt: skip
        counts = (len(self.expired), len(self.savepoints), len(self.data_files), Bytes(self.bytes), len(self.readers))
        return columns, ((self.table, self.operation, self.deleted, *counts, len(self.others)),)

    def grid(self) -> Grid:
        """Return what goes, and what stays and why."""
        title = f"purge of {self.table}: " + ("what would be deleted" if self.dry_run else "what was deleted")
        return Grid(("what", "count", "which"), tuple(self._lines()), title, self._footer())

    def _lines(self) -> Iterator[tuple[object, ...]]:
        yield "rows", self.deleted, f"of snapshot {self.change.since}"
        rest = len(self.expired) - len(self.holding)
        numbers = ", ".join(number_ranges(each.id for each in self.expired))
        files_in = f"; files with such rows are in {', '.join(number_ranges(self.holding))}" if rest else ""
        yield "snapshots", len(self.expired), numbers + files_in
        yield "savepoints", len(self.savepoints), ", ".join(map(savepoint_label, self.savepoints))
        if self.unpublished:
            copies = "other engines may have copies of their metadata"
            yield "published versions", len(self.unpublished), f"{', '.join(number_ranges(self.unpublished))}: {copies}"
        unread = f", {self.unread:,} of them not searched" if self.unread else ""
        yield "data files", len(self.data_files), f"{Bytes(self.bytes)}{unread}"
        if self.metadata_files is not None:
            yield "metadata files", self.metadata_files, ""
        if self.reasons:
            yield "reasons of jobs", self.reasons, ""
        if self.quoting:
            yield "stay: texts with such a value", len(self.quoting), ", ".join(self.quoting)
        if self.quarantined:
            yield "stay: rows kept back by loads", len(self.quarantined), f"{', '.join(self.quarantined)}: not searched"
        if self.others:
            yield "stay: files of others", len(self.others), ", ".join(self.others)
        if self.linked:
            yield "stay: files behind links", len(self.linked), f"{', '.join(self.linked)}: the purge is refused"
        if self.readers:
            yield "stay: files of readers", len(self.readers), "; ".join(map(_reader_text, self.readers))

    def _footer(self) -> str:
        strays = ""
        if self.strays:
            sweep = Action(f"sweep-orphans {self.table}", "table.maintenance.sweep_orphans(dry_run=False)")
            files = counted(self.strays, "data file")
            strays = f"{files} of no version, not searched: {sweep.text(self.prefix)} when no writer is at work"
        if self.dry_run:
            in_python = "force=True" if self.needs_confirmation else "the same without dry_run=True"
            action = Action("") if self.linked else Action(self.again, in_python)
            end = nothing_done(action, self.prefix)
            readers = "queries that still read these versions fail" if self.expired or self.savepoints else ""
            return notes_line(strays, readers, "copies elsewhere, such as exports, stay", end)
        again = "repeat it when the readers have ended" if self.readers else ""
        if self.log_kept:
            log = "other sessions keep deleted rows in the catalog's write-ahead log"
            again = notes_line(again, f"{log}: repeat the purge when they are closed")
        clean = f"from snapshot {self.clean} on, no version has a file with such a row"
        return notes_line(clean, again, strays, self.note, duration_text(self.change.seconds))


def _reader_text(lease: Lease) -> str:
    reader = lease.author or "an unnamed reader"
    return f"{reader} reads snapshot {lease.snapshot_id} until {cell_text(lease.until)}"


# What goes. Pure.


@dataclass(frozen=True, slots=True)
class Holders:
    """What keeps some data files from being deleted.

    Retained snapshots that use one of them (`holding`), and all snapshots up to the newest of these, oldest first;
    savepoints that use one, or whose metadata has its keys; leases on versions that use one.
    """

    holding: tuple[int, ...]
    snapshots: tuple[Snapshot, ...]
    savepoints: tuple[Savepoint, ...]
    readers: tuple[Lease, ...]


def holders_of(files: Collection[str], tracked: pa.Table, kept: RetainedVersions, leases: Iterable[Lease]) -> Holders:
    """Return what keeps some files, by the references that the current state tracks."""
    rows = tracked.filter(pc.is_in(tracked["filename"], pa.array(sorted(files), pa.string())))
    added, removed = _lives(rows)

    def uses(first: int, last: int) -> bool:
        return bool(((added <= last) & (removed > first)).any())

    holding = tuple(sorted(each.id for each in kept.snapshots if uses(each.id, each.id)))
    return Holders(
        holding,
        tuple(each for each in reversed(kept.snapshots) if holding and each.id <= holding[-1]),
        tuple(each for each in kept.savepoints if uses(each.log.after if each.log else each.number, each.number)),
        tuple(each for each in leases if uses(each.snapshot_id, each.snapshot_id)),
    )


def files_used_at(number: int, tracked: pa.Table) -> set[str]:
    """Return the data files that a version uses, by the references that the current state tracks."""
    added, removed = _lives(tracked)
    return set(tracked["filename"].filter(pa.array((added <= number) & (removed > number))).to_pylist())


def files_before(clean: int, tracked: pa.Table) -> pa.Table:
    """Return the references to data files that were there before a clean version, which does not use them."""
    older = tracked.filter(pc.less(tracked["added_snapshot"], clean))["filename"].unique()
    return _without(tracked.filter(pc.is_in(tracked["filename"], older)), files_used_at(clean, tracked))


def _without(references: pa.Table, names: Collection[str]) -> pa.Table:
    return references.filter(pc.invert(pc.is_in(references["filename"], pa.array(list(names), pa.string()))))


def _lives(references: pa.Table) -> tuple[_Numbers, _Numbers]:
    """Return the first snapshot of each reference, and the first one after it."""
    forever = pa.scalar(np.iinfo(np.int64).max, pa.int64())
    return references["added_snapshot"].to_numpy(), pc.fill_null(references["removed_snapshot"], forever).to_numpy()


def whole_files(state: TableState, names: Collection[str], now: TableState) -> TableState:
    """Return some data files of a version as one partition: with the rows of all leaves, and with deleted ones.

    They have the columns of the current state, where older rows may lack values that are required now.

    Raises
    ------
    InvalidInput
        When the files cannot be read with these columns.
    """
    is_same = state.schema_id == now.schema_id
    readable = now.schema if is_same else mapped(state.schema, for_later_files(now.schema))
    active = state.files.active
    chosen = active.filter(pc.is_in(active["filename"], pa.array(sorted(names), pa.string())))
    root = replace(state.tree.root, child_ids=(), dimension=-1)
    references = {
        each.filename: replace(each, partition_id=root.id, rows_exact=False, only_this_partition=True, deletions=None)
        for each in to_values(chosen)
    }
    empty = FileReferences.of(active.slice(0, 0))
    files = empty.with_added(references.values(), state.snapshot_id, EPOCH)
    return replace(state, schema=readable, tree=PartitionTree((root,)), files=files)


# Doing it.


@dataclass(frozen=True, slots=True)
class _Found:
    """The table at one moment, and the files that must go.

    `files` are those that kept versions use and that have rows to purge, or cannot be searched; `unread` are those that
    cannot be searched, and the files that no version needs; `published` are versions that other engines can read.
    """

    state: TableState
    kept: RetainedVersions
    leases: tuple[Lease, ...]
    files: frozenset[str]
    unread: frozenset[str]
    published: tuple[int, ...] = ()

    @property
    def unpublished(self) -> tuple[int, ...]:
        """The published versions that go: all, when a file goes."""
        return self.published if self.deletes_files else ()

    @property
    def deletes_files(self) -> bool:
        return bool(self.files or self.unread)

    @property
    def holders(self) -> Holders:
        return holders_of(self.files | self.unread, self.state.files.table, self.kept, self.leases)

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(sorted(filter(paths.is_foreign, self.files)))

    @property
    def sizes(self) -> dict[str, int]:
        files = stored_files(self.state.files.table)
        return dict(zip(files["filename"].to_pylist(), files["bytes"].to_pylist(), strict=True))

    def collectable(self, now: datetime) -> tuple[str, ...]:
        """Return the table's own data files that nothing needs once the versions with such files are gone."""
        gone = self.holders
        snapshots = [each for each in self.kept.snapshots if each not in gone.snapshots]
        savepoints = [each for each in self.kept.savepoints if each not in gone.savepoints]
        versions = versions_kept(snapshots, savepoints, self.leases, now)
        names = set(collectable_files(self.state, versions, now, _AT_ONCE))
        if not gone.readers:
            names |= self.files
        return tuple(sorted(name for name in names if not paths.is_foreign(name)))


@dataclass(frozen=True, slots=True, eq=False)
class PurgeOfRows:
    """A purge of rows of one table.

    `deletion` takes the rows from the current version, and `search` finds such rows in files. `values` are the texts of
    the values in its condition, which `properties` of the table may quote.
    """

    deletion: RowEditor
    search: Search
    values: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def _store(self) -> StateStore:
        return self.deletion.store

    @property
    def _change(self) -> RowEditor:
        """The deletion, which also writes the files again in which such rows are hidden."""
        return replace(self.deletion, find=self._edits)

    def _edits(self, state: TableState) -> EditList:
        whole = whole_files(state, state.files.active["filename"].to_pylist(), state)
        edits = self.deletion.find(state)
        # a row that others add meanwhile must not stay, whatever the table's isolation is
        return replace(edits, purged=frozenset(self.search(state, whole)), ignores_added=False)

    def plan(self) -> PurgeReport:
        """Return what the purge would do; nothing is changed."""
        listed = self._listed()  # before the versions, so that what others commit in between is not taken for a stray
        found, change = self._at_one_moment(
            lambda kept, state: (self._searched(kept, state, None), self._change.plan_on(state))
        )
        names, sizes = found.collectable(self._store.clock.now()), found.sizes
        gone = found.holders
        staying = [each for each in found.kept.snapshots if each not in gone.snapshots]
        saved = [each for each in found.kept.savepoints if each not in gone.savepoints]
        return PurgeReport(
            change=change,
            clean=None,
            expired=gone.snapshots,
            holding=gone.holding,
            savepoints=gone.savepoints,
            data_files=names,
            bytes=sum(sizes[name] for name in names),
            metadata_files=None,
            unread=len(found.unread),
            readers=gone.readers,
            others=found.others,
            linked=self._linked({*names, *found.files}),
            strays=self._strays(found.state, listed),
            quoting=self._quoting(RetainedVersions(tuple(staying), tuple(saved)), found.state),
            quarantined=self._quarantined(found.kept),
            unpublished=found.unpublished,
            dry_run=True,
        )

    def check_links(self) -> None:
        """Raise `StorageError` when files to delete are reached through a link: the purge could never delete them."""
        if self._store.storage.links_in("") and (linked := self.plan().linked):
            raise StorageError(
                f"files of table {self.deletion.table!r} with such rows are reached through {linked[0]}, "
                "and nothing is deleted through a link; nothing was changed",
                hint="replace the link with the folder that it points to, then run the purge again",
            )

    def run(self, *, message: str | None = None, author: str | None = None) -> PurgeReport:
        """Purge the rows. A run can be interrupted at any point; the next one finishes it.

        Raises
        ------
        ConflictError
            When other writers changed the same rows, or brought files with them back, during each of several attempts.
        StorageError
            When a file could not be deleted.
        """
        clock, reports = self._store.clock, list[PurgeReport]()
        began = clock.now()
        for number in range(ATTEMPTS):
            if number:
                self._store.retry.wait(clock, number - 1)
            try:
                report = self._run(message, author)
            except StateRuleBroken as error:  # a rollback uses files again that were about to be deleted
                logger.info("table %s: the purge starts again: %s", self._store.table_id, error.message)
                continue
            reports.append(report)
            if report.clean is not None:
                done = _joined(reports, (clock.now() - began).total_seconds())
                return replace(done, reasons=forget_reasons(self._store), log_kept=not self._erase_copies())
        raise ConflictError(
            f"others brought rows of table {self.deletion.table!r} back during each of {ATTEMPTS} attempts",
            hint="run it again when no other process rolls the table back",
        )

    def _run(self, message: str | None, author: str | None) -> PurgeReport:
        """Delete the rows and all that has them; `clean` of the report is None when a rollback brought files back."""
        store, progress = self._store, self.deletion.progress
        change = self._change.run(message=message, author=author)
        clean = change.since if change.snapshot is None else change.snapshot.id
        found = self._at_one_moment(lambda kept, state: self._searched(kept, state, clean))
        gone = found.holders
        if found.deletes_files:  # also where nothing is published: an interrupted publication may have left keys
            unpublish(store)
        is_back = bool(gone.holding) and gone.holding[-1] >= clean  # what others restored has to be deleted first
        garbage = NO_GARBAGE
        if not is_back:
            progress.update(f"expiring {counted(len(gone.snapshots), 'snapshot')}")
            self._forget(gone)
            progress.update("deleting files")
            garbage = collect_garbage(store, delay=_AT_ONCE, dry_run=False, author=author)
        listed, state = self._listed(), store.load()
        names = found.files | found.unread
        left = holders_of(names, state.files.table, self._kept(), self._leases())
        is_left = len(state.files.untracked(names)) < len(names) and not left.readers
        if not is_back:
            self._check_deleted(found, state, listed)
        return PurgeReport(
            change=change,
            clean=None if is_left or left.holding or left.savepoints else clean,
            expired=() if is_back else gone.snapshots,
            holding=() if is_back else gone.holding,
            savepoints=() if is_back else gone.savepoints,
            data_files=garbage.data_files,
            bytes=garbage.bytes,
            metadata_files=len(garbage.metadata_files),
            unread=len(found.unread),
            readers=left.readers,
            others=found.others,
            strays=self._strays(state, listed),
            quoting=self._quoting(self._kept(), state),
            quarantined=self._quarantined(found.kept),
            unpublished=found.unpublished,
            dry_run=False,
        )

    def _erase_copies(self) -> bool:
        """Delete copies in the cache, and overwrite the catalog's deleted rows; return False when some stay."""
        self._store.storage.cache.clear()
        return self._store.catalog.overwrite_deleted()

    # What stays, and is named.

    def _quoting(self, kept: RetainedVersions, state: TableState) -> tuple[str, ...]:
        return quoting(self.values, self._store, kept, state, self.properties)

    def _quarantined(self, kept: RetainedVersions) -> tuple[str, ...]:
        """Return the files of kept-back rows that the history names, or the records of jobs."""
        jobs = self._store.catalog.jobs(self._store.table_id, KEPT_JOBS)
        return noted_files([*(each.message for each in kept.snapshots), *(each.reason for each in jobs)])

    # What must go.

    def _at_one_moment(self, read: Callable[[RetainedVersions, TableState], T]) -> T:
        """Return what is read of the versions that are kept and of the current one; again if some expire meanwhile."""
        for _ in range(ATTEMPTS):
            kept = self._kept()
            try:
                return read(kept, self._store.load(kept.current))
            except NotFound as error:
                if self._kept() == kept:
                    raise
                logger.info("table %s: the purge searches again: %s", self._store.table_id, error.message)
        raise ConflictError(
            f"versions of table {self.deletion.table!r} expired during each of {ATTEMPTS} searches", hint="run it again"
        )

    def _searched(self, kept: RetainedVersions, state: TableState, clean: int | None) -> _Found:
        """Search the files of all versions that are kept: those from before a clean one, and not in it."""
        leases = self._leases()
        published = versions_to_unpublish(self._store)
        files: set[str] = set()
        unread: set[str] = set()
        references = state.files.table
        unseen = references if clean is None else files_before(clean, references)
        versions: list[Snapshot | Savepoint] = [*kept.snapshots, *kept.savepoints]
        versions.sort(key=lambda each: -each.number)
        for number, version in enumerate(versions, 1):
            self.deletion.progress.update("searching versions", number, len(versions))
            new = files_used_at(version.number, unseen)
            if not new:
                continue
            unseen = _without(unseen, new)
            try:
                searched = whole_files(self._store.load(version), new, state)
            except InvalidInput as error:
                logger.info("table %s: files of snapshot %d: %s", self._store.table_id, version.number, error.message)
                unread |= new
                continue
            files |= {*self.search(state, searched)}
        unneeded = unseen.filter(pc.is_valid(unseen["removed_snapshot"]))["filename"].to_pylist()
        gone = frozenset(unread.union(unneeded))
        return _Found(state, kept, leases, frozenset(files | unread), gone, published)

    def _kept(self) -> RetainedVersions:
        return retained(self._store.catalog, self._store.table_id)

    def _leases(self) -> tuple[Lease, ...]:
        """Return the leases of readers; those of published versions are released by the purge."""
        now = self._store.clock.now()
        leases = self._store.catalog.leases(self._store.table_id)
        return tuple(each for each in leases if not (each.has_ended(now) or each.is_published))

    def _linked(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the links, with their targets, through which data files or metadata, which has keys, are reached."""
        storage, of_metadata = self._store.storage, {*paths.FOLDERS} - {paths.DATA}
        return tuple(
            f"the link {storage.locate(link)} to {target}"
            for link, target in sorted(storage.links_in("").items())
            if link in of_metadata or any(f"{name}/".startswith(f"{link}/") for name in names)
        )

    # How it goes.

    def _forget(self, gone: Holders) -> None:
        """Expire snapshots, and delete savepoints; cut the transaction log after the last of the snapshots."""
        store, catalog = self._store, self._store.catalog
        ids = [each.id for each in gone.snapshots]
        oldest = next(each for each in reversed(store.retained()) if each.id > max(ids, default=0))
        if not store.named(oldest.state_store).keeps_history_itself:
            store.materialised(oldest)
        now = store.clock.now()
        free_space_and_retry(catalog, lambda: catalog.expire_snapshots(store.table_id, ids, now))
        for savepoint in gone.savepoints:
            delete_savepoint(store, savepoint)

    def _listed(self) -> set[str]:
        return {each.path for each in self._store.storage.list(paths.DATA) if paths.is_data_file(each.path)}

    def _strays(self, state: TableState, listed: set[str]) -> int:
        """Return how many files the state does not track, and garbage collection does not know."""
        noted = {path for path, _ in self._store.catalog.garbage(self._store.table_id)}
        return len(state.files.untracked(listed - noted))

    def _check_deleted(self, found: _Found, state: TableState, listed: set[str]) -> None:
        left = state.files.untracked((found.files | found.unread) & listed)
        if left:
            raise StorageError(
                f"{counted(len(left), 'data file')} of table {self.deletion.table!r} cannot be deleted: {min(left)}",
                hint="check the permissions of its folder, then run it again",
            )


NO_GARBAGE = GarbageReport((), (), 0, 0, dry_run=False)


def _joined(reports: list[PurgeReport], seconds: float) -> PurgeReport:
    """Return what several attempts did, of which the last succeeded."""
    last = reports[-1]
    made = next((each.change for each in reports if each.change.snapshot is not None), last.change)
    deleted = sum(each.change.deleted for each in reports)
    return replace(
        last,
        change=replace(made, counts=replace(made.counts, deleted=deleted), seconds=seconds),
        expired=tuple(each for report in reports for each in report.expired),
        holding=tuple(each for report in reports for each in report.holding),
        savepoints=tuple(each for report in reports for each in report.savepoints),
        data_files=tuple(each for report in reports for each in report.data_files),
        bytes=sum(each.bytes for each in reports),
        metadata_files=sum(each.metadata_files or 0 for each in reports),
        quarantined=tuple(dict.fromkeys(each for report in reports for each in report.quarantined)),
        unpublished=tuple(sorted({each for report in reports for each in report.unpublished})),
    )
