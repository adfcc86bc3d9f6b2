"""`SessionInspect`: the jobs and schemas of all tables, and how far jobs are."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sleeper_nb.arguments import checked
from sleeper_nb.errors import SleeperError
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import BackgroundJob
from sleeper_nb.read.job_tracking import LISTED_JOBS, Which, jobs_of, list_jobs, newest_jobs
from sleeper_nb.report import Listing
from sleeper_nb.session.table_opener import TableOpener

if TYPE_CHECKING:
    from sleeper_nb.session.job_progress import JobProgress

logger = logging.getLogger(__name__)


class SessionInspect:
    """Lists what all tables of an instance have; made by `Session.inspect`."""

    def __init__(self, tables: TableOpener, instance: str) -> None:
        self._tables, self._instance = tables, instance

    @checked
    def jobs(self, which: Which = "all", *, limit: int = LISTED_JOBS) -> Listing[Job]:
        """Return the newest runs of the jobs of all tables, newest first; otherwise as `Table.inspect.jobs`."""
        catalog, now = self._tables.components.catalog, self._tables.components.clock.now()
        runs = ((entry, job) for entry in catalog.tables() for job in jobs_of(catalog, entry.id, which, limit, now))
        return list_jobs(f"jobs of {self._instance}", newest_jobs(runs, limit), now, with_table=True)

    @checked
    def job_progress(
        self, table: str | None = None, work: BackgroundJob[Any] | None = None, since: datetime | None = None
    ) -> JobProgress:
        """Return what tells how far jobs are, whichever process runs them, and stops those of this session.

        Parameters
        ----------
        table
            The table whose jobs are watched; those of all tables when None.
        work
            Work in the background, as ``table.maintenance.start_compaction`` returns it: watched until it ends.
            None watches all jobs that run.
        since
            Jobs created at or after this moment count even when they have ended; when None, those of `work`, or those
            from now on.
        """
        from sleeper_nb.session.job_progress import JobProgress

        entry = None if table is None else self._tables.entry(table)
        return JobProgress(self._tables, self._instance, entry, work, since)

    @property
    def identity(self) -> object:
        """Equal for two sessions that have the same instance open, by whatever address; None where that is unknown."""
        return self._tables.components.catalog.identity

    def schemas(self) -> Iterator[tuple[str, Schema]]:
        """Yield the name and the current schema of each table; a table whose schema cannot be read is left out."""
        catalog = self._tables.components.catalog
        heads = catalog.current_of_all()
        for entry in catalog.tables():
            if entry.id not in heads:
                continue
            head = heads[entry.id]
            try:
                yield entry.name, self._tables.store_of(entry).schema(head.schema_id, head.schema_checksum)
            except SleeperError as error:
                logger.debug("the schema of table %s cannot be read: %s", entry.name, error.message)
