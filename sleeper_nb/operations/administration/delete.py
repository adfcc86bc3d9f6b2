"""Deletion of a table, for good: its rows, its metadata, its snapshots and savepoints.

Why nobody ever sees a half-deleted table, in steps:

1. The catalog forgets the table in one step, which frees its name, and keeps its id among those that were deleted.
   From then on no commit, savepoint or lease of it can win; who reads it is told so by the first file that is missing.
2. Its folder goes, then what its state store keeps elsewhere, then its properties, which say where the folder was.
3. The catalog forgets the id.

A crash in between leaves an id with the catalog. Whoever deletes next, or maintains the instance, does the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from sleeper_nb.catalog.catalog_base import Catalog, TableEntry, steady
from sleeper_nb.clock import Clock
from sleeper_nb.errors import Action, StorageError
from sleeper_nb.model.jobs import Lease
from sleeper_nb.operations.administration.property_files import PropertyFiles
from sleeper_nb.operations.upkeep.full_disk import freeing_space
from sleeper_nb.report import Bytes, Grid, Report, cell_text, counted, nothing_done
from sleeper_nb.state_store.registry import erase_state


@dataclass(frozen=True, slots=True, repr=False)
class DeletionReport(Report):
    """What went with a table; of a plan, what would go.

    Parameters
    ----------
    table
        Its name.
    rows
        Of the current version, in files.
    files, bytes
        All in its folder: data and metadata of every version.
    snapshots
        How many are retained.
    savepoints
        The name of each, or its id; oldest first.
    leases
        Of those who read the table now.
    dry_run
        Whether this is a plan.
    again
        What is typed to do it: the whole line, where a command was asked for the plan.
    instance
        Whose table it is, where that is not the one that is open.
    """

    table: str
    rows: int
    files: int
    bytes: int
    snapshots: int
    savepoints: tuple[str, ...]
    leases: tuple[Lease, ...]
    dry_run: bool
    again: str = "--force"
    instance: str = ""
    prefix: str = ""

    @property
    def summary(self) -> str:
        """What goes, in one line."""
        parts = [counted(self.rows, "row"), f"{counted(self.files, 'file')} ({Bytes(self.bytes)})"]
        parts += [counted(self.snapshots, "snapshot"), counted(len(self.savepoints), "savepoint")]
        named = f" ({', '.join(self.savepoints)})" if self.savepoints else ""
        return f"{', '.join(parts[:-1])} and {parts[-1]}{named}"

    def grid(self) -> Grid:
        """Return what goes, a row for each kind of it."""
        rows: list[tuple[object, ...]] = [
            ("rows", cell_text(self.rows)),
            ("files", cell_text(self.files)),
            ("bytes", str(Bytes(self.bytes))),
            ("snapshots", cell_text(self.snapshots)),
            ("savepoints", ", ".join(self.savepoints) or "none"),
        ]
        rows += [("reader", f"{e.author or 'somebody'}: {e.purpose} of snapshot {e.snapshot_id}") for e in self.leases]
        verb = "would delete" if self.dry_run else "deleted"
        footer = ""
        if self.dry_run:
            footer = nothing_done(Action(self.again, "force=True"), self.prefix)
            if self.savepoints:
                footer = f"{counted(len(self.savepoints), 'savepoint')} would go too, for good\n{footer}"
        of = f" of instance {self.instance}" if self.instance else ""
        return Grid(("", ""), tuple(rows), f"{verb} table {self.table}{of} for good", footer)


def plan_deletion(catalog: Catalog, files: PropertyFiles, entry: TableEntry, clock: Clock) -> DeletionReport:
    """Return what the deletion of a table takes away; its metadata is not read, so it may be damaged.

    Parameters
    ----------
    catalog, clock
        The instance's.
    files
        The properties of the instance's tables, which say where each one lies.
    entry
        The table.
    """
    now, place = clock.now(), files.place_of(entry.id)
    (stored, snapshots), (head, savepoints, leases) = steady(
        lambda: (place.list(entry.id), catalog.snapshots(entry.id)),
        lambda: (catalog.current(entry.id), catalog.savepoints(entry.id), catalog.leases(entry.id)),
    )
    return DeletionReport(
        table=entry.name,
        rows=head.rows,
        files=len(stored),
        bytes=sum(file.bytes for file in stored),
        snapshots=len(snapshots),
        savepoints=tuple(point.name or str(point.id) for point in savepoints),
        leases=tuple(lease for lease in leases if not lease.has_ended(now)),
        dry_run=True,
    )


def delete_table(catalog: Catalog, files: PropertyFiles, entry: TableEntry, clock: Clock) -> None:
    """Delete a table for good; parameters as of `plan_deletion`.

    Raises
    ------
    NotFound
        When it was renamed or deleted meanwhile; nothing was changed.
    StorageError
        When files could not be deleted. The table is gone all the same, and the next run deletes the rest.
    """
    freeing_space(catalog, lambda: catalog.delete_table(entry.id, entry.name))
    try:
        _remove(catalog, files, [entry.id], clock)
    except StorageError as error:
        raise StorageError(
            f"table {entry.name!r} is deleted, but some of its files are still there: {error.message}",
            hint=(Action("maintain", "session.maintain()"), ", or the next deletion of any table, deletes them"),
        ) from error


def finish_deletions(catalog: Catalog, files: PropertyFiles, clock: Clock) -> int:
    """Delete what runs that did not end have left of deleted tables; return of how many tables."""
    left = catalog.deleted()
    _remove(catalog, files, left, clock)
    return len(left)


def _remove(catalog: Catalog, files: PropertyFiles, table_ids: Iterable[str], clock: Clock) -> None:
    for table_id in table_ids:
        place = files.place_of(table_id)
        place.delete_all(table_id)
        erase_state(table_id, catalog, place.below(table_id), clock)
        files.remove(table_id)
        freeing_space(catalog, partial(catalog.forget_deleted, table_id))
