"""Sweep orphans: delete files in a table's folder that no version ever named.

A writer that crashes between writing and committing leaves such files, and so does an ingest whose outcome is unknown.
Garbage collection never deletes them, because it deletes only what the table once had. A check finds them: it reads
every retained version first, and a file is an orphan only when no version names it and it is old enough.

The age of a file is measured by the clock of the storage, which dated it: a computer whose clock is days ahead would
otherwise take the files of a commit in progress for old ones, and delete them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from sleeper_nb.errors import Action, InvalidInput, StorageError
from sleeper_nb.maintain.check import check_table
from sleeper_nb.progress import Progress
from sleeper_nb.report import CLEAN_UP, Bytes, Grid, TableReport, counted, nothing_done
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.places import StoredFile

logger = logging.getLogger(__name__)

LEAST_AGE = timedelta(days=1)
"""No commit takes this long."""


@dataclass(frozen=True, slots=True, repr=False)
class OrphanReport(TableReport):
    """The files that were deleted; of a dry run, that would be deleted."""

    files: tuple[StoredFile, ...]
    dry_run: bool
    prefix: str = ""

    @property
    def bytes(self) -> int:
        """The total size of the files."""
        return sum(file.bytes for file in self.files)

    def grid(self) -> Grid:
        """Return a row for each file."""
        verb = "would delete" if self.dry_run else "deleted"
        rows = tuple((file.path, Bytes(file.bytes), file.modified) for file in self.files)
        title = f"orphans: {verb} {counted(len(self.files), 'file')}, {Bytes(self.bytes)}"
        footer = nothing_done(CLEAN_UP, self.prefix) if self.dry_run and self.files else ""
        return Grid(("file", "bytes", "written"), rows, title, footer)


def sweep_orphans(
    store: StateStore, name: str, *, older_than: timedelta, dry_run: bool, progress: Progress
) -> OrphanReport:
    """Delete the orphans of a table; an interrupted run can be repeated.

    `InvalidInput` when `older_than` is less than one day. `StorageError` when the check finds the table damaged: a
    version that cannot be read may name what looks like an orphan.
    """
    if older_than < LEAST_AGE:
        hint = "give 24 h or more: a younger file may belong to a commit in progress"
        raise InvalidInput("orphans must be older than a day", hint=hint)
    report = check_table(store, name, deep=False, progress=progress, orphan_age=older_than)
    if not report.ok:
        raise StorageError(
            f"table {name!r} is damaged, so its orphans cannot be identified; nothing was deleted",
            hint=(Action(f"check {name}", "table.maintenance.check()"), " shows what is wrong"),
        )
    orphans = tuple(file for file in report.orphans if paths.is_of_table(file.path))
    latest = (_storage_time(store) if orphans and not dry_run else store.clock.now()) - older_than
    # a file that is being moved into the table is older than its name there
    orphans = tuple(f for f in orphans if f.modified < latest and store.storage.is_settled(f.path, latest))
    if orphans and not dry_run:
        for file in orphans:
            store.storage.delete(file.path)
        size = sum(file.bytes for file in orphans)
        logger.info("table %s: deleted %d orphans, %d bytes", store.table_id, len(orphans), size)
    return OrphanReport(orphans, dry_run)


def _storage_time(store: StateStore) -> datetime:
    # Named like a data file of a partition that no table has: if it is left over, the next sweep finds it.
    probe = paths.data_file("sweep", store.clock.new_id())
    folder = probe.rpartition("/")[0]
    store.storage.write(probe, b"")
    try:
        return next(file.modified for file in store.storage.list(folder) if file.path == probe)
    finally:
        store.storage.delete(probe)
