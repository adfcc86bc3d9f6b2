"""`Oversight`: how a table is and shall be, what runs on it, and whether anything may."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from sleeper_nb.arguments import checked
from sleeper_nb.catalog.base import TableEntry
from sleeper_nb.components import Components
from sleeper_nb.errors import NotFound
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.leases import Lease
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.operations.administration import property_files, property_listing
from sleeper_nb.operations.health import checking, findings, status
from sleeper_nb.operations.processing.processing import Processor
from sleeper_nb.operations.tracking import job_listing
from sleeper_nb.operations.upkeep.online import check_online
from sleeper_nb.progress import Progress
from sleeper_nb.report import Listing
from sleeper_nb.state_store.base import StateStore

SPARK_BYTES = 256 * 2**20
"""From this size on, files that are ingested go through Spark, and compaction on ``engine="auto"`` runs there."""


class Oversight:
    """The part of `Table` that tells how it is, and that is told how to be."""

    name: str
    entry: TableEntry
    properties: TableProperties
    _store: StateStore
    _components: Components

    @checked
    def set_online(self, online: bool = True) -> None:
        """Say whether maintenance may work on the table.

        Offline, it is read and ingested as ever; compaction, splitting, expiry, garbage collection and the sweep of
        orphans refuse, but for their dry runs. What runs already is not stopped. Sleeper's ``sleeper.table.online``.
        """
        self._components.catalog.set_online(self.entry.id, online)

    @checked
    def property_values(self, names: Iterable[str] = ()) -> Listing[property_listing.PropertyValue]:
        """Return the properties with their values, their defaults, and who set them; all when none is named."""
        values = property_listing.values_of(self.properties, names)
        return property_listing.listing(values, f"properties of {self.name}")

    @checked
    def set_properties(self, changes: Mapping[str, str | None]) -> Listing[property_listing.PropertyValue]:
        """Set properties of the table, all or none, and return those that were named.

        Comments, order and other lines of its file stay as they are. Of two changes at once the later may take back
        the earlier. They count for this object and for every `Session.table` from now on; how often commits are tried
        counts with the next session.

        Parameters
        ----------
        changes
            Texts by the names of properties; None unsets one, so that the instance's value or the default counts.

        Raises
        ------
        NotFound
            When there is no such property; the nearest is named.
        InvalidInput
            When a value is none of its property or does not fit the schema, or when the property is never changed by
            itself, as the state store's class: the hint says what to type instead. Nothing is changed then.
        """
        files, schema = self._components.property_files, self._store.load().schema
        now = self._components.clock.now()
        property_files.check_changes(self.name, self.properties, changes)
        self.properties = files.change(
            self.entry.id, changes, lambda found: Processor.of(DataProcessing.of(found, schema, now), schema)
        )
        return self.property_values(changes)

    def _check_online(self, work: str, dry_run: bool) -> None:
        if not dry_run:
            check_online(self._components.catalog, self.entry.id, self.name, work)

    @checked
    def jobs(self, which: job_listing.Which = "all", *, limit: int = job_listing.SHOWN) -> Listing[Job]:
        """Return the newest runs of the table's jobs, newest first: compactions, bulk imports, ingests with a job id.

        Parameters
        ----------
        which
            ``"all"``, ``"running"``, or ``"failed"``: those that failed, and those whose process is gone.
        limit
            How many at most. Records are kept for 7 days.
        """
        now = self._components.clock.now()
        found = job_listing.jobs_of(self._components.catalog, self.entry.id, which, limit, now)
        pairs = [(self.entry, job) for job in found]
        return job_listing.listing(f"jobs of {self.name}", pairs, now, with_table=False)

    def leases(self) -> Listing[Lease]:
        """Return the versions that long readers hold, oldest first; garbage collection leaves their files."""
        found = self._components.catalog.leases(self.entry.id)
        now = self._components.clock.now()
        cells = tuple((e.id, e.snapshot_id, e.purpose, e.author, e.since, e.until, e.has_ended(now)) for e in found)
        columns = ("lease", "snapshot", "reader", "who", "since", "until", "ended")
        return Listing(found, columns, cells, f"leases of {self.name}")

    @checked
    def release_lease(self, lease: str) -> Lease:
        """End a lease by its id and return it; a reader that needs it still may find a file gone.

        Raises
        ------
        NotFound
            When there is none, or its reader has just renewed it.
        """
        found = self._components.catalog.leases(self.entry.id)
        named = next((each for each in found if each.id == lease), None)
        if named is None or not self._components.catalog.release_lease(self.entry.id, named):
            raise NotFound.of("lease", lease, [each.id for each in found], where=f" of table {self.name!r}")
        return named

    def status(self) -> status.TableStatus:
        """Return how the table is, what waits, and what to do next. Nothing is changed, and no Spark is started."""
        return status.table_status(self._store, self.name, status.Housekeeping.of(self.properties))

    @checked
    def check(self, deep: bool = False) -> findings.CheckReport:
        """Look for anything that is wrong with a retained version or its files; change nothing.

        Parameters
        ----------
        deep
            Also read every data file: its rows, their order and their keys.
        """
        with self._watched() as progress:
            return checking.check_table(self._store, self.name, deep=deep, progress=progress)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[Progress]:
        """Give what shows the progress of long work, and clear it away behind the work, however that ends."""
        try:
            yield self._components.progress
        finally:
            self._components.progress.finish()
