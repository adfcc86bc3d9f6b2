"""`SavepointManager`: where a table's savepoints are, and which there are (the proposal of savepoints for Paimon)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import Retained, retained
from sleeper_nb.errors import SAVE_RETAINED, Action, AlreadyExists, ConflictError, NetworkError, NotFound, StorageError
from sleeper_nb.model.files import FileReferences, Totals
from sleeper_nb.model.savepoints import Savepoint, check_savepoint_name
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations.upkeep.full_disk import freeing_space
from sleeper_nb.operations.versioning.resolve import Resolved
from sleeper_nb.report import Bytes, Grid, Listing, Report, counted, nothing_done
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.metadata import ManifestList

# What a version alone keeps: the data files that would be garbage if it were let go.

NOTHING = Totals()


def kept_alone(files: FileReferences, retained: Collection[int]) -> dict[int, Totals]:
    """Return for each retained version the files, their rows and bytes that no other one and no reader of today needs.

    A file is live in the snapshots [added, removed) of its references. It is kept by one version alone when that is the
    only retained one in all of its intervals, and no partition refers to it now. Versions that keep nothing alone are
    left out. Pure; as columns, so a million references stay quick.

    Parameters
    ----------
    files
        Of the current state, which tracks every file until garbage collection has taken it.
    retained
        The numbers of the retained snapshots, and of those that savepoints save.
    """
    waiting = files.ready_for_gc
    if not waiting.num_rows or not retained:
        return {}
    versions = np.array(sorted(set(retained)))
    first = np.searchsorted(versions, waiting["added_snapshot"].to_numpy())
    behind = np.searchsorted(versions, waiting["removed_snapshot"].to_numpy())
    live = behind > first
    found = pa.table(
        {
            "filename": waiting["filename"].filter(pa.array(live)),
            "first": first[live],
            "last": behind[live] - 1,
            "rows": waiting["rows"].filter(pa.array(live)),
            "bytes": waiting["bytes"].filter(pa.array(live)),
        }
    )
    sums = [("first", "min"), ("last", "max"), ("rows", "sum"), ("bytes", "max")]
    each = found.group_by("filename").aggregate(sums)
    alone = pc.and_(
        pc.equal(each["first_min"], each["last_max"]),
        pc.invert(pc.is_in(each["filename"], files.active["filename"].combine_chunks())),
    )
    kept = each.filter(alone).group_by("first_min").aggregate(
        [("filename", "count"), ("rows_sum", "sum"), ("bytes_max", "sum")]
    )  # fmt: skip
    counts = (kept[name].to_pylist() for name in ("filename_count", "rows_sum_sum", "bytes_max_sum"))
    totals = map(Totals, *counts)
    return {int(versions[i]): total for i, total in zip(kept["first_min"].to_pylist(), totals, strict=True)}


# Savepoints: pin a snapshot under an id and a name until it is deleted; and what each alone keeps.


def create_savepoint(
    store: StateStore,
    saved: Resolved,
    *,
    name: str | None,
    message: str | None,
    author: str | None,
    periodic: bool = False,
) -> Savepoint:
    """Save a snapshot: the file ``savepoint/savepoint-<id>`` first, then the row that makes it count.

    The row is added on the condition that the snapshot is still retained, so a savepoint made while snapshots expire
    either fails or keeps its data. A crash in between leaves a file with an id that is never given again.
    """
    if name is not None:
        check_savepoint_name(name)
    snapshot = saved.version
    _check_new(store, snapshot, name)  # before an id is reserved, as ids are never given again
    if isinstance(snapshot, Savepoint):
        return _second(store, snapshot, name=name, message=message, author=author, periodic=periodic)
    metadata = store.savable(snapshot)
    savepoint = Savepoint(
        id=store.catalog.reserve_savepoint_id(store.table_id),
        saved_snapshot_id=snapshot.id,
        schema_id=snapshot.schema_id,
        full_manifest_list=metadata.files_path,
        partitions_path=metadata.partitions_path,
        record_count=snapshot.rows,
        save_time=_to_the_millisecond(store.clock.now()),
        snapshot_time=snapshot.time,
        name=name,
        message=message,
        author=author,
        periodic=periodic,
        log=metadata.log,
        files_checksum=metadata.files_checksum,
        partitions_checksum=metadata.partitions_checksum,
        schema_checksum=snapshot.schema_checksum,
        processing=snapshot.processing,
    )
    try:
        _publish(store, savepoint)
    except ConflictError:  # the snapshot from which its log goes on has expired meanwhile, and the saved one has not
        savepoint = _with_lists_of_its_own(store, savepoint, snapshot)
        _publish(store, savepoint)
    return savepoint


def save_current(store: StateStore, *, name: str | None, message: str | None, author: str | None) -> Savepoint:
    """Save the current version; a newer one when that expires meanwhile. Otherwise as `create_savepoint`."""
    return store.on_head(
        lambda head: create_savepoint(store, Resolved(head), name=name, message=message, author=author)
    )


def _second(
    store: StateStore, first: Savepoint, *, name: str | None, message: str | None, author: str | None, periodic: bool
) -> Savepoint:
    """Save a version whose snapshot has expired and that a savepoint still keeps.

    The new savepoint has metadata files of its own, so that either can be deleted first.
    """
    metadata = store.history.write(store.load(first), None, None)
    try:
        second = replace(
            first,
            id=store.catalog.reserve_savepoint_id(store.table_id),
            full_manifest_list=metadata.files_path,
            partitions_path=metadata.partitions_path,
            files_checksum=metadata.files_checksum,
            partitions_checksum=metadata.partitions_checksum,
            save_time=_to_the_millisecond(store.clock.now()),
            name=name,
            message=message,
            author=author,
            periodic=periodic,
            log=None,
        )
        _publish(store, second, first.id)
    except NotFound:  # deleted meanwhile; of any other failure the outcome may be unknown, and the sweep takes them
        store.history.discard(metadata.paths)
        raise
    return second


def _check_new(store: StateStore, version: Snapshot | Savepoint, name: str | None) -> None:
    """Raise what adding the savepoint would raise."""
    is_snapshot, number = isinstance(version, Snapshot), version.number
    if is_snapshot and store.catalog.snapshot(store.table_id, number) is None:
        raise NotFound(f"snapshot {number} has expired, so it cannot be saved", hint=SAVE_RETAINED)
    if name is not None and store.catalog.is_savepoint_name_used(store.table_id, name):
        raise AlreadyExists(
            f"the savepoint name {name!r} was used before",
            hint="choose another; the name of a deleted savepoint is never given again",
        )


def _to_the_millisecond(time: datetime) -> datetime:
    return time - timedelta(microseconds=time.microsecond % 1000)


def _with_lists_of_its_own(store: StateStore, savepoint: Savepoint, snapshot: Snapshot) -> Savepoint:
    metadata = Metadata.kept(store.materialised(snapshot))
    return replace(
        savepoint,
        full_manifest_list=metadata.files_path,
        partitions_path=metadata.partitions_path,
        log=None,
        files_checksum=metadata.files_checksum,
        partitions_checksum=metadata.partitions_checksum,
    )


def _publish(store: StateStore, savepoint: Savepoint, beside: int | None = None) -> None:
    path = paths.savepoint(savepoint.id)
    try:
        store.storage.write(path, savepoint.to_json().encode())
        store.catalog.add_savepoint(store.table_id, savepoint, beside)
    except BaseException as error:
        # A failure or an interrupt can lose the answer, not the row.
        saved_it = savepoint.id in {kept.id for kept in store.catalog.savepoints(store.table_id)}
        # A request that the network lost may still arrive and name these files; if it does not, a sweep deletes them.
        if not saved_it and not isinstance(error, NetworkError):
            store.storage.delete(path)
            if savepoint.log is not None:
                store.storage.delete(savepoint.log.path)
        if not saved_it or not isinstance(error, StorageError):
            raise


@dataclass(frozen=True, slots=True, repr=False)
class SavepointDeletion(Report):
    """A savepoint that was deleted, and what that lets go of; of a dry run, that would be.

    Parameters
    ----------
    savepoint
        The savepoint.
    others
        What else keeps its version: ``snapshot 7``, ``savepoint 4``; nothing when the version goes with it.
    files, bytes
        Data files that nothing else keeps, which garbage collection may take then.
    dry_run
        Whether this is a plan.
    again
        What is typed to do it: the whole line, where a command was asked for the plan.
    instance
        Whose table it is, where that is not the one that is open.
    """

    savepoint: Savepoint
    others: tuple[str, ...]
    files: int
    bytes: int
    dry_run: bool
    again: str = "--force"
    instance: str = ""
    prefix: str = ""

    @property
    def id(self) -> int:
        """The savepoint's id."""
        return self.savepoint.id

    @property
    def loses_version(self) -> bool:
        """Whether nothing else keeps the version, so that it can never be read again."""
        return not self.others

    def grid(self) -> Grid:
        """Return what becomes of the version and its files."""
        one, would = self.savepoint, "would be " if self.dry_run else ""
        named = f" {one.name!r}" if one.name else ""
        version = f"snapshot {one.saved_snapshot_id}, {counted(one.record_count, 'row')}"
        kept = f"stays: {', '.join(self.others)}" if self.others else f"{would or 'is '}gone: nothing else keeps it"
        freed = f"{counted(self.files, 'data file')}, {Bytes(self.bytes)}" if self.files else "nothing"
        rows = (("saved", version), ("that version", kept), ("frees for garbage collection", freed))
        title = f"savepoint {one.id}{named} {would}deleted"
        return Grid(
            ("", ""), rows, title, nothing_done(Action(self.again, "force=True"), self.prefix) if self.dry_run else ""
        )


def plan_deletion(store: StateStore, savepoint: Savepoint) -> SavepointDeletion:
    """Return what deleting a savepoint would let go of. Nothing is changed."""
    number, now = savepoint.saved_snapshot_id, retained(store.catalog, store.table_id)
    others = [kept for kept in now.savepoints if kept.id != savepoint.id]
    keeping = [f"snapshot {number}"] if number in {snapshot.id for snapshot in now.snapshots} else []
    keeping += [f"savepoint {kept.id}" for kept in others if kept.saved_snapshot_id == number]
    # only then is there anything to look for in the metadata
    freed = NOTHING if keeping else kept_by_each(store, now).get(savepoint.id, NOTHING)
    return SavepointDeletion(savepoint, tuple(keeping), freed.files, freed.bytes, dry_run=True)


def kept_by_each(store: StateStore, now: Retained) -> dict[int, Totals]:
    """Return for the id of each savepoint the data files that would be garbage without it."""
    state, savepoints = store.load(now.current), now.savepoints
    snapshots = {snapshot.id for snapshot in now.snapshots}
    saved = Counter(kept.saved_snapshot_id for kept in savepoints)
    alone = kept_alone(state.files, snapshots | saved.keys())
    last = {kept.id: kept.saved_snapshot_id for kept in savepoints if saved[kept.saved_snapshot_id] == 1}
    freed = {key: alone.get(number, NOTHING) for key, number in last.items() if number not in snapshots}
    return {kept.id: freed.get(kept.id, NOTHING) for kept in savepoints}


def delete_savepoint(store: StateStore, savepoint: Savepoint) -> None:
    """Delete a savepoint: its row first, then its file; what only it kept is then garbage.

    Raises
    ------
    StorageError
        When the file could not be deleted. The savepoint is gone all the same.
    """
    catalog, now = store.catalog, store.clock.now()
    freeing_space(catalog, lambda: catalog.delete_savepoint(store.table_id, savepoint.id, now))
    try:
        store.storage.delete(paths.savepoint(savepoint.id))
    except StorageError as error:
        raise StorageError(
            f"savepoint {savepoint.name or savepoint.id} is deleted, but its file is still there: {error.message}",
            hint=(Action("sweep-orphans T", "table.sweep_orphans()"), " deletes the file once it is old enough"),
        ) from error


def list_savepoints(store: StateStore, table: str, *, with_bytes: bool) -> Listing[Savepoint]:
    """Return the savepoints of a table, oldest first; with what each alone keeps, if that is wanted."""
    if with_bytes:
        now = retained(store.catalog, store.table_id)
        found, alone = now.savepoints, kept_by_each(store, now)
    else:
        found, alone = store.catalog.savepoints(store.table_id), {}
    cells = []
    for one in found:
        made = "periodically" if one.periodic else "by hand"
        said = (one.id, one.name, one.saved_snapshot_id, one.record_count, one.save_time, made, one.author, one.message)
        kept = alone.get(one.id, NOTHING)
        cells.append((*said, kept.files, Bytes(kept.bytes)) if with_bytes else said)
    columns: tuple[str, ...] = ("savepoint", "name", "snapshot", "rows", "save time", "made", "author", "message")
    columns += ("keeps alone: files", "bytes") if with_bytes else ()
    return Listing(found, columns, tuple(cells), f"savepoints of {table}")


class HasStore(Protocol):
    """What a manager of savepoints is made of: a table (`sleeper_nb.table.Table`)."""

    @property
    def store(self) -> StateStore: ...  # noqa: D102 - what keeps the table's versions


class SavepointManager:
    """Finds the savepoints of one table: ``SavepointManager(table)``, or ``table.savepoint_manager``.

    The rows of the catalog are the truth: a file ``savepoint/savepoint-<id>`` without a row is of a creation that
    crashed, or of a deletion, and its savepoint does not exist. The file is written before the row and removed after
    it, so every savepoint that exists has its file, for tools that know nothing of the catalog.

    Parameters
    ----------
    table
        The table.
    """

    def __init__(self, table: HasStore) -> None:
        store = table.store
        self._catalog, self._table_id = store.catalog, store.table_id
        self.files = store.storage
        self.manifest_list = ManifestList(store.storage)

    def savepoint_directory(self) -> str:
        """Return the folder of the savepoints' files: an absolute path, or ``s3://bucket/…``."""
        return self.files.locate(paths.SAVEPOINTS)

    @checked
    def savepoint_path(self, savepoint_id: int) -> str:
        """Return the qualified path of a savepoint's file, whether the savepoint exists or not."""
        return self.files.locate(paths.savepoint(savepoint_id))

    @checked
    def savepoint(self, savepoint_id: int) -> Savepoint:
        """Return a savepoint.

        Raises
        ------
        NotFound
            When it does not exist, or no more; the hint says which do.
        """
        found = self._all()
        for savepoint in found:
            if savepoint.id == savepoint_id:
                return savepoint
        raise NotFound.of("savepoint", savepoint_id, [savepoint.id for savepoint in found])

    @checked
    def savepoint_exists(self, savepoint_id: int) -> bool:
        """Return whether a savepoint was made and not deleted."""
        return any(savepoint.id == savepoint_id for savepoint in self._all())

    def earliest_savepoint_id(self) -> int | None:
        """Return the least id of all savepoints; None when there is no savepoint."""
        return min((savepoint.id for savepoint in self._all()), default=None)

    def latest_savepoint_id(self) -> int | None:
        """Return the greatest id of all savepoints; None when there is no savepoint."""
        return max((savepoint.id for savepoint in self._all()), default=None)

    def _all(self) -> tuple[Savepoint, ...]:
        return self._catalog.savepoints(self._table_id)
