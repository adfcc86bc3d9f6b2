"""Delete a savepoint, and plan it first: which files only this savepoint keeps.

The catalog row is deleted first, then the file ``savepoint/savepoint-<id>``. Data files that nothing else keeps are
garbage from then on.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.catalog.catalog_base import free_space_and_retry, retained
from sleeper_nb.errors import Action, StorageError
from sleeper_nb.model.file_reference import Totals
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.savepoints import RetainedVersions, Savepoint, savepoint_label, savepoints_by_snapshot
from sleeper_nb.report import Bytes, Grid, Report, counted, nothing_done
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.versions.expire import Retention, plan_expiry

logger = logging.getLogger(__name__)

NOTHING_KEPT = Totals()


@dataclass(frozen=True, slots=True, repr=False)
class SavepointDeletion(Report):
    """A savepoint that was deleted, and what it alone kept; of a dry run, what would be deleted.

    Parameters
    ----------
    savepoint
        The savepoint.
    others
        What else keeps its version: ``snapshot 7``, ``savepoint 4``; empty when the version is lost with it.
    files, bytes
        Data files that nothing else keeps; garbage collection can then delete them.
    dry_run
        Whether this is a plan.
    again
        How to do what was planned: the whole line, where a command made the plan.
    is_due
        Whether the properties no longer keep the version's snapshot, so that it expires with the next expiry.
    instance
        The table's instance, if it is not the open one.
    """

    savepoint: Savepoint
    others: tuple[str, ...]
    files: int
    bytes: int
    dry_run: bool
    again: str = "--force"
    instance: str = ""
    prefix: str = ""
    is_due: bool = False

    @property
    def id(self) -> int:
        """The savepoint's id."""
        return self.savepoint.id

    @property
    def loses_version(self) -> bool:
        """Whether nothing else keeps the version, so that it can never be read again."""
        return not self.others

    @property
    def needs_confirmation(self) -> bool:
        """Whether it is done only with ``force=True``."""
        return self.loses_version

    def grid(self) -> Grid:
        """Return what happens to the version and its files."""
        savepoint, would = self.savepoint, "would be " if self.dry_run else ""
        name = f" {savepoint.name!r}" if savepoint.name else ""
        version = f"snapshot {savepoint.saved_snapshot_id}, {counted(savepoint.record_count, 'row')}"
        freed = f"{counted(self.files, 'data file')}, {Bytes(self.bytes)}" if self.files else "nothing"
        rows = (("saved", version), ("that version", self._fate()), ("frees for garbage collection", freed))
        title = f"savepoint {savepoint.id}{name} {would}deleted"
        in_python = "force=True" if self.needs_confirmation else "the same without dry_run=True"
        footer = nothing_done(Action(self.again, in_python), self.prefix) if self.dry_run else ""
        return Grid(("", ""), rows, title, footer)

    def _fate(self) -> str:
        if self.loses_version:
            return f"{'would be' if self.dry_run else 'is'} gone: nothing else keeps it"
        savepoints = [each for each in self.others if each.startswith("savepoint")]
        if savepoints:
            return f"stays: {', '.join(savepoints)}"
        due = ", which is due now" if self.is_due else ""
        return f"stays until {self.others[0]} expires{due}"


def plan_savepoint_deletion(
    store: StateStore, savepoint: Savepoint, retention: Retention | None = None
) -> SavepointDeletion:
    """Return what deleting a savepoint would give up. Nothing is changed.

    `retention` says which snapshots the properties keep; all when None.
    """
    number, now = savepoint.saved_snapshot_id, retained(store.catalog, store.table_id)
    keepers = [f"snapshot {snapshot.id}" for snapshot in now.snapshots if snapshot.id == number]
    keepers += [
        f"savepoint {other.id}"
        for other in now.savepoints
        if other.saved_snapshot_id == number and other.id != savepoint.id
    ]
    # the metadata is read only when the version would be lost
    freed = NOTHING_KEPT if keepers else kept_by_each(store, now).get(savepoint.id, NOTHING_KEPT)
    expiring = () if retention is None else plan_expiry(now.snapshots, retention, store.clock.now())
    is_due = any(snapshot.id == number for snapshot in expiring)
    return SavepointDeletion(savepoint, tuple(keepers), freed.files, freed.bytes, dry_run=True, is_due=is_due)


def delete_savepoint(store: StateStore, savepoint: Savepoint) -> None:
    """Delete a savepoint.

    `StorageError` when its file could not be deleted. The savepoint is deleted all the same.
    """
    catalog, now = store.catalog, store.clock.now()
    free_space_and_retry(catalog, lambda: catalog.delete_savepoint(store.table_id, savepoint.id, now))
    logger.info(
        "table %s: deleted savepoint %d of snapshot %d", store.table_id, savepoint.id, savepoint.saved_snapshot_id
    )
    try:
        store.storage.delete(paths.savepoint(savepoint.id))
    except StorageError as error:
        raise StorageError(
            f"savepoint {savepoint_label(savepoint)} is deleted, but its file is still there: {error.message}",
            hint=(
                Action("sweep-orphans T", "table.maintenance.sweep_orphans()"),
                " deletes the file once it is old enough",
            ),
        ) from error


def kept_by_each(store: StateStore, now: RetainedVersions) -> dict[int, Totals]:
    """Return for the id of each savepoint the data files that would be garbage without it."""
    snapshots = {snapshot.id for snapshot in now.snapshots}
    saved = savepoints_by_snapshot(now.savepoints)
    alone = kept_alone(store.load(now.current).files, snapshots | saved.keys())
    kept = dict.fromkeys((savepoint.id for savepoint in now.savepoints), NOTHING_KEPT)
    for number, savepoints in saved.items():
        if number not in snapshots and len(savepoints) == 1:
            kept[savepoints[0].id] = alone.get(number, NOTHING_KEPT)
    return kept


def kept_alone(files: FileReferences, retained: Collection[int]) -> dict[int, Totals]:
    """Return for each retained version the files, rows and bytes that no other version and no current reader needs.

    A file is live in the snapshots [added, removed) of its references. One version keeps it alone when that is the only
    retained version in all of its intervals, and no partition refers to the file now. Versions that keep nothing alone
    are left out. The files are those of the current state, which tracks each until garbage collection has deleted it.
    Pure; computed on columns, so a million references take well under a second.
    """
    waiting = files.ready_for_gc
    if not waiting.num_rows or not retained:
        return {}
    versions = np.array(sorted(set(retained)))
    # positions in `versions` of each reference's interval: first (inclusive) to end (exclusive)
    first = np.searchsorted(versions, waiting["added_snapshot"].to_numpy())
    end = np.searchsorted(versions, waiting["removed_snapshot"].to_numpy())
    is_live = end > first
    live = pa.table(
        {
            "filename": waiting["filename"].filter(pa.array(is_live)),
            "first": first[is_live],
            "last": end[is_live] - 1,
            "rows": waiting["rows"].filter(pa.array(is_live)),
            "bytes": waiting["bytes"].filter(pa.array(is_live)),
        }
    )
    by_file = live.group_by("filename").aggregate(
        [("first", "min"), ("last", "max"), ("rows", "sum"), ("bytes", "max")]
    )
    in_one_version = pc.equal(by_file["first_min"], by_file["last_max"])
    is_used_now = pc.is_in(by_file["filename"], files.active["filename"].combine_chunks())
    alone = by_file.filter(pc.and_(in_one_version, pc.invert(is_used_now)))
    sums = [("filename", "count"), ("rows_sum", "sum"), ("bytes_max", "sum")]
    by_version = alone.group_by("first_min").aggregate(sums)
    return {
        int(versions[row["first_min"]]): Totals(row["filename_count"], row["rows_sum_sum"], row["bytes_max_sum"])
        for row in by_version.to_pylist()
    }
