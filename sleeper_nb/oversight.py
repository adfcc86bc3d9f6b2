"""`Oversight`: how a table is and shall be, what runs on it, and whether anything may."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from sleeper_nb.arguments import checked
from sleeper_nb.catalog.base import TableEntry
from sleeper_nb.components import Components
from sleeper_nb.errors import ConfirmationNeeded, NotFound, SleeperError
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.leases import Lease
from sleeper_nb.model.processing import PROCESSING_PROPERTIES, DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import SetProcessing
from sleeper_nb.operations.administration import property_files, property_listing, property_state
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
        files = self._components.property_files
        property_files.check_changes(self.name, self.properties, changes)
        new = {name: text for name, text in changes.items() if name in PROCESSING_PROPERTIES}

        def recorded(found: TableProperties) -> None:
            self._check_fit(found)
            if new:
                self._record_processing(lambda state: _with(found.processed_as(state.processing), new).processing)

        self.properties = files.change(self.entry.id, changes, recorded)
        return self.property_values(changes)

    def accept_properties(self) -> Listing[property_listing.PropertyValue]:
        """Take over the file of the table's properties as it is, after it was changed by hand; return what it sets.

        Filters, iterator and aggregations count from a new snapshot on; older versions keep theirs.

        Raises
        ------
        InvalidInput, NotFound
            When the file cannot be read, or does not fit the schema. Nothing is changed then.
        """
        files = self._components.property_files
        found = files.of_entry(self.entry)
        self._check_fit(found)
        self._record_processing(lambda _: found.processing)
        files.accept(self.entry.id)
        self.properties = found
        return self.property_values([name for name in found.defined if name in found.texts])

    def property_notes(self) -> tuple[str, ...]:
        """Return what the file of the table's properties says that does not count, and whether it was changed by hand.

        It is read anew.
        """
        files = self._components.property_files
        path = files.path(self.entry.id)
        hand = property_state.edited(files.content(self.entry.id), files.recorded(self.entry.id), self.name, path)
        found = property_state.waiting(files.of_entry(self.entry), self._store.load(), self.name, path)
        return (*([hand] if hand else []), *found)

    def _property_findings(self) -> Iterator[findings.Finding]:
        """Yield what is wrong with the file of the properties; an unreadable current version is found elsewhere."""
        means = "what the file says and what the table does differ"
        try:
            self._components.property_files.of_entry(self.entry)
            self._store.load()
        except SleeperError as error:
            if self._components.property_files.path(self.entry.id) in error.message:
                yield findings.Finding("properties", error.message, "", means)
            return
        yield from (findings.Finding("properties", note, "", means) for note in self.property_notes())

    @property
    def _properties_now(self) -> TableProperties:
        """The properties, with the filters, iterator and aggregations that the current version records."""
        return self.properties.processed_as(self._store.load().processing)

    def _check_fit(self, properties: TableProperties) -> None:
        """Raise when properties do not fit the table's schema."""
        schema, now = self._store.load().schema, self._components.clock.now()
        Processor.of(DataProcessing.of(properties, schema, now), schema)

    def _record_processing(self, new: Callable[[TableState], str]) -> None:
        """Commit how rows are processed from now on, unless that is so already."""
        if new(state := self._store.load()) != state.processing:
            self._store.commit(lambda state: SetProcessing(new(state)), author=self._components.author)

    def _check_properties(self, dry_run: bool) -> None:
        """Raise before versions or files are deleted by properties that may be damaged, such as those of a cut file."""
        files = self._components.property_files
        path, recorded = files.path(self.entry.id), files.recorded(self.entry.id)
        note = property_state.edited(files.content(self.entry.id), recorded, self.name, path)
        if note is not None and not dry_run:
            raise ConfirmationNeeded(
                f"{path} was changed by hand, or damaged: nothing is deleted by what it says",
                hint=f"look through it, then: properties {self.name} --accept",
            )

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
        found = status.table_status(self._store, self.name, status.Housekeeping.of(self.properties))
        return replace(found, notes=self.property_notes())

    @checked
    def check(self, deep: bool = False) -> findings.CheckReport:
        """Look for anything that is wrong with a retained version or its files; change nothing.

        Parameters
        ----------
        deep
            Also read every data file: its rows, their order and their keys.
        """
        with self._watched() as progress:
            report = checking.check_table(self._store, self.name, deep=deep, progress=progress)
        return replace(report, findings=(*report.findings, *self._property_findings()))

    @contextlib.contextmanager
    def _watched(self) -> Iterator[Progress]:
        """Give what shows the progress of long work, and clear it away behind the work, however that ends."""
        try:
            yield self._components.progress
        finally:
            self._components.progress.finish()


def _with(properties: TableProperties, changes: Mapping[str, str | None]) -> TableProperties:
    texts = {**properties.texts, **changes}
    return replace(properties, texts={name: text for name, text in texts.items() if text is not None})
