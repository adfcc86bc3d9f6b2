"""`TableInspect`: what the current version of a table is made of, and who works on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import read_consistently, retained
from sleeper_nb.display.listings import Pictured
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.model.jobs import Job, Lease
from sleeper_nb.model.savepoints import RetainedVersions
from sleeper_nb.read.job_tracking import LISTED_JOBS, Which, jobs_of, list_jobs
from sleeper_nb.report import Listing
from sleeper_nb.table_at import Inspect, TableAt, current_version

if TYPE_CHECKING:
    from sleeper_nb.maintain.status import TableStatus


class TableInspect(Inspect):
    """Lists what a table's current version has, its jobs and its readers; made by `Table.inspect`."""

    def __init__(self, table: OpenTable) -> None:
        self._opened = table

    def _at(self) -> TableAt:
        return current_version(self._opened)

    def files(self) -> Pictured[dict[str, Any]]:
        """Return the files that the current version reads, as `Inspect.files` does."""
        catalog, table_id, now = self._opened.store.catalog, self._opened.entry.id, self._opened.store.clock.now()
        # A compaction that commits in between would leave its old inputs without the claim on them.
        at, claims = read_consistently(self._at, lambda: catalog.claims(table_id, now))
        return self._files(at, claims)

    @checked
    def jobs(self, which: Which = "all", *, limit: int = LISTED_JOBS) -> Listing[Job]:
        """Return the newest runs of the table's jobs, newest first: compactions, bulk imports, ingests with a job id.

        Parameters
        ----------
        which
            ``"all"``, ``"running"``, or ``"failed"``: those that failed, and those whose process is gone.
        limit
            The most runs to return. Records are kept for 7 days.
        """
        catalog, now = self._opened.store.catalog, self._opened.store.clock.now()
        pairs = [(self._opened.entry, run) for run in jobs_of(catalog, self._opened.entry.id, which, limit, now)]
        return list_jobs(f"jobs of {self._opened.name}", pairs, now, with_table=False)

    def versions(self) -> RetainedVersions:
        """Return the snapshots and the savepoints that can be read, of one moment."""
        return retained(self._opened.store.catalog, self._opened.entry.id)

    def has_changed(self) -> bool:
        """Return whether the table was renamed, dropped, paused, or got other properties since it was opened.

        This costs one request to the catalog.
        """
        opened = self._opened.entry
        now = self._opened.store.catalog.entry(opened.id)
        return now is None or now != opened or now.properties_checksum != opened.properties_checksum

    def status(self) -> TableStatus:
        """Return the table's state, what is due, and what to do next. Nothing is changed, and Spark is not started."""
        from sleeper_nb.maintain.status import Housekeeping, table_status
        from sleeper_nb.table.configuring import property_notes
        from sleeper_nb.table.publishing import with_published

        current = table_status(self._opened.store, self._opened.name, Housekeeping.of(self._opened.properties))
        notes = property_notes(self._opened, self._opened.store.load(current.snapshot))
        return with_published(self._opened, replace(current, notes=notes))

    def leases(self) -> Listing[Lease]:
        """Return the versions that long readers hold, oldest first; garbage collection keeps their files."""
        held, now = self._opened.store.catalog.leases(self._opened.entry.id), self._opened.store.clock.now()
        cells = tuple((e.id, e.snapshot_id, e.purpose, e.author, e.since, e.until, e.has_ended(now)) for e in held)
        columns = ("lease", "snapshot", "reader", "who", "since", "until", "ended")
        return Listing(held, columns, cells, f"leases of {self._opened.name}")
