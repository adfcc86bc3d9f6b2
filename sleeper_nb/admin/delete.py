"""Delete a table permanently: its rows, metadata, snapshots and savepoints.

Why no session ever sees a half-deleted table, in steps:

1. The catalog forgets the table in one step, which frees its name, and keeps its id in a list of deleted tables. From
   then on no commit, savepoint or lease of the table can succeed; a reader fails at the first missing file, with an
   error that says why. Leases do not stop a deletion: the report names the reads that fail.
2. The table's folder is deleted, then what its state store keeps elsewhere, then its properties, which say where the
   folder was.
3. The catalog forgets the id.

A crash in between leaves the id in the list. The next deletion, or the next maintenance of the instance, completes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from sleeper_nb.admin.property_files import PropertyFiles
from sleeper_nb.catalog.catalog_base import Catalog, TableEntry, free_space_and_retry, read_consistently
from sleeper_nb.clock import Clock
from sleeper_nb.errors import Action, StorageError
from sleeper_nb.model.jobs import Lease
from sleeper_nb.model.savepoints import savepoint_label
from sleeper_nb.report import Bytes, Grid, Report, cell_text, counted, nothing_done
from sleeper_nb.state_store.state_stores import erase_state
from sleeper_nb.storage import paths

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class DeletionReport(Report):
    """What was deleted with a table; of a plan, what would be deleted.

    Parameters
    ----------
    table
        The table's name.
    rows
        Rows in the files of the current version.
    files, bytes
        All files in the table's folder, data and metadata of every version, and their size.
    data_files
        How many of them have rows, of any version.
    snapshots
        How many are retained.
    savepoints
        The name of each, or its id; oldest first.
    leases
        The leases of current readers.
    dry_run
        Whether this is a plan.
    again
        How to do what was planned: the whole line, where a command made the plan.
    instance
        The table's instance, if it is not the open one.
    linked
        Where symbolic links in the table's folder lead: the links are deleted, and what is there stays.
    """

    table: str
    rows: int
    files: int
    bytes: int
    snapshots: int
    savepoints: tuple[str, ...]
    leases: tuple[Lease, ...]
    dry_run: bool
    data_files: int = 0
    again: str = "--force"
    instance: str = ""
    prefix: str = ""
    linked: tuple[str, ...] = ()

    @property
    def needs_confirmation(self) -> bool:
        """Whether it is done only with ``force=True``: always."""
        return True

    @property
    def summary(self) -> str:
        """What is deleted, in one line."""
        parts = [counted(self.rows, "row"), f"{counted(self.files, 'file')} ({Bytes(self.bytes)})"]
        parts += [counted(self.snapshots, "snapshot"), counted(len(self.savepoints), "savepoint")]
        names = f" ({', '.join(self.savepoints)})" if self.savepoints else ""
        failing = f"; reads that fail: {', '.join(self.broken_reads)}" if self.leases else ""
        staying = f"; what stays: {', '.join(self.linked)}, where links lead" if self.linked else ""
        return f"{', '.join(parts[:-1])} and {parts[-1]}{names}{failing}{staying}"

    @property
    def broken_reads(self) -> tuple[str, ...]:
        """Who holds a version of the table and reads it still, what for, and which snapshot: these reads fail."""
        return tuple(
            f"{each.author or 'an unnamed reader'}: {each.purpose} of snapshot {each.snapshot_id}"
            for each in self.leases
        )

    def grid(self) -> Grid:
        """Return what is deleted, a row for each kind."""
        rows: list[tuple[object, ...]] = [
            ("rows", cell_text(self.rows)),
            ("files", f"{cell_text(self.files)}, {self.data_files:,} of them data files"),
            ("bytes", str(Bytes(self.bytes))),
            ("snapshots", cell_text(self.snapshots)),
            ("savepoints", ", ".join(self.savepoints) or "none"),
        ]
        rows += [("read that fails", read) for read in self.broken_reads]
        rows += [("stays: what a link leads to", address) for address in self.linked]
        verb = "would delete" if self.dry_run else "deleted"
        footer = ""
        if self.dry_run:
            footer = nothing_done(Action(self.again, "force=True"), self.prefix)
            if self.savepoints:
                footer = f"{counted(len(self.savepoints), 'savepoint')} would be deleted, too\n{footer}"
        instance = f" of instance {self.instance}" if self.instance else ""
        return Grid(("", ""), tuple(rows), f"{verb} table {self.table}{instance} for good", footer)


def plan_table_deletion(catalog: Catalog, files: PropertyFiles, entry: TableEntry, clock: Clock) -> DeletionReport:
    """Return what deleting a table would delete. The table's metadata is not read, so it may be damaged.

    Parameters
    ----------
    files
        The properties of the instance's tables, which say where each table's folder is.
    """
    now, place = clock.now(), files.place_of(entry.id)
    (stored, snapshots), (head, savepoints, leases) = read_consistently(
        lambda: (place.list(entry.id), catalog.snapshots(entry.id)),
        lambda: (catalog.current(entry.id), catalog.savepoints(entry.id), catalog.leases(entry.id)),
    )
    return DeletionReport(
        table=entry.name,
        rows=head.rows,
        files=len(stored),
        bytes=sum(file.bytes for file in stored),
        snapshots=len(snapshots),
        savepoints=tuple(map(savepoint_label, savepoints)),
        leases=tuple(lease for lease in leases if not lease.has_ended(now)),
        dry_run=True,
        data_files=sum(paths.is_data_file(file.path.removeprefix(f"{entry.id}/")) for file in stored),
        linked=tuple(dict.fromkeys(place.links_in(entry.id).values())),
    )


def delete_table(catalog: Catalog, files: PropertyFiles, entry: TableEntry, clock: Clock) -> None:
    """Delete a table permanently; parameters as of `plan_table_deletion`.

    `NotFound` when it was renamed or deleted in the meantime; nothing was changed. `StorageError` when files could not
    be deleted. The table is deleted all the same, and the next run deletes the files.
    """
    free_space_and_retry(catalog, lambda: catalog.delete_table(entry.id, entry.name))
    logger.info("table %r (%s): deleted from the catalog", entry.name, entry.id)
    try:
        _remove(catalog, files, [entry.id], clock)
    except StorageError as error:
        raise StorageError(
            f"table {entry.name!r} is deleted, but some of its files are still there: {error.message}",
            hint=(Action("maintain", "session.maintain()"), ", or the next deletion of any table, deletes them"),
        ) from error


def finish_deletions(catalog: Catalog, files: PropertyFiles, clock: Clock) -> int:
    """Complete the deletions that were interrupted; return of how many tables."""
    table_ids = catalog.deleted()
    if table_ids:
        logger.info("completing the interrupted deletion of %d tables", len(table_ids))
    _remove(catalog, files, table_ids, clock)
    return len(table_ids)


def _remove(catalog: Catalog, files: PropertyFiles, table_ids: Iterable[str], clock: Clock) -> None:
    for table_id in table_ids:
        place = files.place_of(table_id)
        place.delete_all(table_id)
        erase_state(table_id, catalog, place.below(table_id), clock)
        files.remove(table_id)
        free_space_and_retry(catalog, partial(catalog.forget_deleted, table_id))
        logger.debug("table %s: deleted its folder, state and properties", table_id)
