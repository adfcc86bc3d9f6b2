"""Sweep of orphans: delete files in a table's folder that no version ever named.

Writers that crash behind their writing and before their commit leave such files, and so does an ingest of which nobody
could say whether it won. The garbage collector never sees them, as it deletes only what the table once had. A check
finds them: it reads every retained version first, and a file is an orphan only when none names it and it is old enough.

How old a file is, is judged by the time of the storage, which dated it: a computer whose clock is days ahead would
otherwise take the files of a commit that is under way for old ones, and delete them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sleeper_nb.errors import Action, InvalidInput, StorageError
from sleeper_nb.operations.check import check_table
from sleeper_nb.progress import Progress
from sleeper_nb.report import CLEAN_UP, Bytes, Grid, Report, counted, nothing_done
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.places import StoredFile

LEAST_AGE = timedelta(days=1)
"""No commit may be under way for so long."""


@dataclass(frozen=True, slots=True, repr=False)
class OrphanReport(Report):
    """The files that were deleted; of a dry run, that would be."""

    files: tuple[StoredFile, ...]
    dry_run: bool
    prefix: str = ""

    @property
    def bytes(self) -> int:
        """Their bytes."""
        return sum(file.bytes for file in self.files)

    def grid(self) -> Grid:
        """Return one row a file."""
        verb = "would delete" if self.dry_run else "deleted"
        rows = tuple((file.path, Bytes(file.bytes), file.modified) for file in self.files)
        title = f"orphans: {verb} {counted(len(self.files), 'file')}, {Bytes(self.bytes)}"
        footer = nothing_done(CLEAN_UP, self.prefix) if self.dry_run and self.files else ""
        return Grid(("file", "bytes", "written"), rows, title, footer)


def sweep_orphans(
    store: StateStore, name: str, *, older_than: timedelta, dry_run: bool, progress: Progress
) -> OrphanReport:
    """Delete the orphans of a table; a run that was interrupted is done again.

    Raises
    ------
    InvalidInput
        When `older_than` is less than a day.
    StorageError
        When a check finds the table damaged: a version that cannot be read may name what looks like an orphan.
    """
    if older_than < LEAST_AGE:
        hint = "ask for 24 h or more, as a younger file may be of a commit under way"
        raise InvalidInput("orphans must be older than a day", hint=hint)
    report = check_table(store, name, deep=False, progress=progress, orphan_age=older_than)
    if not report.ok:
        raise StorageError(
            f"{name} is damaged, so orphans cannot be told from its files; nothing was deleted",
            hint=(Action(f"check {name}", "table.check()"), " shows what is wrong"),
        )
    orphans = tuple(file for file in report.orphans if paths.is_of_table(file.path))
    if orphans and not dry_run:
        latest = _storage_time(store) - older_than
        orphans = tuple(file for file in orphans if file.modified < latest)
        for file in orphans:
            store.storage.delete(file.path)
    return OrphanReport(orphans, dry_run)


def _storage_time(store: StateStore) -> datetime:
    """Return the time that the storage gives to a file that is written now."""
    # Named as a data file of a partition that no table has: were it left behind, the next sweep would find it.
    probe = paths.data_file("sweep", store.clock.new_id())
    folder = probe.rpartition("/")[0]
    store.storage.write(probe, b"")
    try:
        return next(file.modified for file in store.storage.list(folder) if file.path == probe)
    finally:
        store.storage.delete(probe)
