"""Start a watch of a folder: what it asks the table, and how it loads a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import InvalidInput
from sleeper_nb.load.load_options import LoadOptions
from sleeper_nb.load.load_report import LoadReport
from sleeper_nb.load.quarantine import new_address
from sleeper_nb.load.source_files import SourceFile
from sleeper_nb.table import loading
from sleeper_nb.table.folder_watch import DoneLoad, FolderWatch, WatchedFolder, quarantine_of


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What a user wants to watch; parameters as of `Table.watch`, and `jobs`, with which job ids begin."""

    folder: WatchedFolder
    every: timedelta
    quarantine: str | None
    skips_bad: bool
    message: str | None
    jobs: str

    def __post_init__(self) -> None:
        if self.every <= timedelta(0):
            raise InvalidInput(
                f"a watch cannot look every {self.every}", hint="give a time longer than 0, such as 10 s"
            )
        if self.quarantine is not None:
            quarantine_of(self.folder, self.quarantine, "")


def watch(table: OpenTable, request: WatchRequest, options: LoadOptions) -> FolderWatch:
    """Return the watch that a user wants, ready to run."""

    def load(file: SourceFile, name: str, job_id: str) -> LoadReport:
        kept = None if request.quarantine is None else quarantine_of(request.folder, request.quarantine, name)
        kept = None if kept is None else new_address(kept, table.store.storage)
        message = f"{request.message}: {name}" if request.message else name
        return loading.load(
            table, file.address, options, message=message, job_id=job_id, dry_run=False, quarantine=kept
        )

    return FolderWatch(
        table.name,
        request.folder,
        load,
        _done(table),
        lambda job_id: table.store.catalog.remember_jobs(table.store.table_id, [job_id], table.store.head().id),
        request.jobs,
        request.skips_bad,
        request.every,
        table.components.clock,
        table.components.progress,
    )


def _done(table: OpenTable) -> Callable[[str], DoneLoad | None]:
    """Return what tells which snapshot a job id has made; the history is read again for snapshots that are new."""
    catalog, table_id = table.store.catalog, table.store.table_id
    times: dict[int, datetime] = {}

    def done(job_id: str) -> DoneLoad | None:
        made = catalog.snapshot_of_job(table_id, job_id)
        if made is None:
            return None
        if made not in times and made > max(times, default=0):
            times.update({each.id: each.time for each in catalog.snapshots(table_id)})
        return DoneLoad(made, times.get(made))

    return done
