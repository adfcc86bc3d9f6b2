"""`Table`: a table at its current version, and everything that changes it."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, overload

from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import TableEntry, retained, steady
from sleeper_nb.display.listings import Pictured
from sleeper_nb.display.timeline_picture import timeline, timeline_lines
from sleeper_nb.engines.components import Components
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput, NotFound, SleeperError
from sleeper_nb.model.evolution import AddColumn, DropColumn, RenameColumn, SchemaChange
from sleeper_nb.model.jobs import Job, JobKind, Lease, check_job_id
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.processing import PROCESSING_PROPERTIES, DataProcessing
from sleeper_nb.model.properties import (
    INGEST_STRATEGY,
    SAVEPOINT_INTERVAL,
    SPLITTING_THRESHOLD,
    TABLE_SCHEMA,
    TableProperties,
    schema_line,
)
from sleeper_nb.model.savepoints import Savepoint, savepoint_label, savepoints_by_snapshot
from sleeper_nb.model.schema import Field, Schema, fields_of
from sleeper_nb.model.snapshots import (
    SavepointReference,
    Snapshot,
    VersionReference,
    parse_moment,
    parse_reference,
    parse_version,
)
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import SetProcessing
from sleeper_nb.operations import check as checking
from sleeper_nb.operations import compact as compaction
from sleeper_nb.operations import findings, status
from sleeper_nb.operations import job_tracking as job_listing
from sleeper_nb.operations import job_tracking as tracking
from sleeper_nb.operations import split as splitting
from sleeper_nb.operations.administration import alter as altering
from sleeper_nb.operations.administration import property_files, property_listing
from sleeper_nb.operations.administration import property_files as property_state
from sleeper_nb.operations.administration.alter import AlterReport
from sleeper_nb.operations.compaction_plan import CompactionJob, StrategySettings
from sleeper_nb.operations.job_tracking import JobTracker
from sleeper_nb.operations.loading import ingest, sources
from sleeper_nb.operations.loading.conform import A_TABLE
from sleeper_nb.operations.loading.ingest import IngestPlan, plan_ingest
from sleeper_nb.operations.loading.source_files import CsvFormat
from sleeper_nb.operations.loading.sources import IngestSource
from sleeper_nb.operations.row_processing import Processor
from sleeper_nb.operations.scanning.export import ExportReport
from sleeper_nb.operations.scanning.scan_plan import ScanPlan
from sleeper_nb.operations.upkeep import collect_garbage as garbage
from sleeper_nb.operations.upkeep import expire as expiry
from sleeper_nb.operations.upkeep import maintain as maintaining
from sleeper_nb.operations.upkeep import sweep_orphans as orphans
from sleeper_nb.operations.upkeep.online import check_online
from sleeper_nb.operations.versioning import periodic_savepoints as periodic
from sleeper_nb.operations.versioning import resolve as versions
from sleeper_nb.operations.versioning import roll_back as rollback
from sleeper_nb.operations.versioning import row_changes as changes
from sleeper_nb.operations.versioning.comparison import VersionComparison, compare
from sleeper_nb.operations.versioning.create_savepoint import create_savepoint, save_current
from sleeper_nb.operations.versioning.delete_savepoint import (
    SavepointDeletion,
    delete_savepoint,
    plan_savepoint_deletion,
)
from sleeper_nb.operations.versioning.diff import Diff, diff
from sleeper_nb.operations.versioning.leases import ReadGuard, guarded
from sleeper_nb.operations.versioning.periodic_savepoints import SavepointSchedule
from sleeper_nb.operations.versioning.resolve import Resolved
from sleeper_nb.operations.versioning.roll_back import RollbackReport
from sleeper_nb.operations.versioning.savepoint_manager import SavepointManager, list_savepoints
from sleeper_nb.progress import BackgroundJob, Progress, unchecked
from sleeper_nb.report import CONFIRM, Answer, Grid, Listing, Report, Stacked
from sleeper_nb.sql.statement import BoundSource
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.data_files import DataFileSettings
from sleeper_nb.version import Changes, Scan, TableAt

# `Oversight`: how a table is and shall be, what runs on it, and whether anything may.

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
        values = property_listing.table_values(self.properties, names)
        return property_listing.list_values(values, f"properties of {self.name}")

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
        hand = property_state.manual_edit_note(
            files.content(self.entry.id), files.recorded(self.entry.id), self.name, path
        )
        found = property_state.pending_settings(files.of_entry(self.entry), self._store.load(), self.name, path)
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
        note = property_state.manual_edit_note(files.content(self.entry.id), recorded, self.name, path)
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


# `Loading`: what adds rows to a table, in process or through Spark, or says what it would add.


class Loading(Oversight):
    """The part of `Table` that adds rows."""

    @overload
    def ingest(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: Literal[False] = False,
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
    ) -> Snapshot: ...

    @overload
    def ingest(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: Literal[True],
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
    ) -> IngestPlan: ...

    @checked
    def ingest(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: bool = False,
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
    ) -> Snapshot | IngestPlan:
        """Add rows: in process when they are in memory or small, through Spark otherwise.

        Parameters
        ----------
        data
            pandas, Arrow, Polars, DuckDB or Spark rows, a list of dictionaries; the path, folder, glob or ``s3://``
            address of Parquet, CSV or JSON files (objects by line, or one array); or a list of any of these. Files of
            256 MiB and more in all, and Spark DataFrames, go through Spark.
        message
            What history shows of it.
        job_id
            A name for this work, such as ``2026-11-21/flights``: the same again adds nothing, however often it is run,
            by whom, and wherever an earlier run failed. Ids are kept as long as the table is. A job that had no rows
            to add has not used its id.
        dry_run
            Only return what would be done: rows, leaves, files, and every difference between data and schema.
        delimiter
            What separates the values of CSV files: one character, or ``"tab"``; a comma when None, a tab in ``.tsv``.
        null_text
            What stands for NULL in CSV files, without quotes; nothing when None.
        header
            Whether the first line of CSV files names the columns; otherwise they are the table's, in its order.

        Returns
        -------
        The snapshot that holds the rows; the current one when there were none. Of a job that was done before, a
        `MadeBefore` says so: the snapshot that it made then, or the current one where that has expired. When the
        property ``savepoint.create-interval`` asked for a savepoint, a `LoadedAndSaved` says what became of it. For a
        dry run the plan.

        Raises
        ------
        InvalidInput
            When a column is missing, unknown, has a value that its type cannot hold exactly, or nulls where it must
            not. Nothing is added. A dry run returns all such differences instead.
        """
        given = sources.gather(data, self._store.storage, CsvFormat(delimiter, null_text, header))
        through_spark = sources.is_spark(given) or sources.bytes_of(given) >= SPARK_BYTES
        if dry_run:
            return self._plan(given, through_spark=through_spark)
        with self._named():
            if through_spark:
                return self._saved_if_due(self._import(given, message, job_id))
            return self._saved_if_due(self._once("ingest", job_id, lambda: self._ingest(given, message, job_id)))

    @overload
    def bulk_import(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: Literal[False] = False,
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
    ) -> Snapshot: ...

    @overload
    def bulk_import(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: Literal[True],
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
    ) -> IngestPlan: ...

    @checked
    def bulk_import(
        self,
        data: Any,
        *,
        message: str | None = None,
        job_id: str | None = None,
        dry_run: bool = False,
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
    ) -> Snapshot | IngestPlan:
        """Add rows through Spark, whatever their size; as `ingest` otherwise."""
        given = sources.gather(data, self._store.storage, CsvFormat(delimiter, null_text, header))
        if dry_run:
            return self._plan(given, through_spark=True)
        with self._named():
            return self._saved_if_due(self._import(given, message, job_id))

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Put the name of the table into the hint of an error of its data."""
        try:
            yield
        except InvalidInput as error:
            error.hint = error.hint and error.hint.replace(A_TABLE, shlex.quote(self.name))
            raise

    def _plan(self, given: Sequence[IngestSource], *, through_spark: bool) -> IngestPlan:
        plan = self._made_plan(given, through_spark=through_spark)
        told = tuple(
            replace(each, change=each.change.replace(A_TABLE, shlex.quote(self.name))) for each in plan.differences
        )
        return replace(plan, differences=told)

    def _made_plan(self, given: Sequence[IngestSource], *, through_spark: bool) -> IngestPlan:
        state, strategy = self._store.load(), self.properties[INGEST_STRATEGY]
        if not sources.is_spark(given):
            return plan_ingest(state, given, strategy=strategy, through_spark=through_spark)
        from sleeper_nb.engines.spark import pipeline as loading

        return loading.plan_frame(self._components.engines.spark(), state, given, strategy=strategy)

    def _ingest(self, given: Sequence[IngestSource], message: str | None, job_id: str | None) -> Snapshot:
        with self._watched() as progress:
            progress.update("reading")
            schema = self._store.load().schema
            rows, notes = sources.rows_and_notes(given, schema)
            progress.update(f"writing {rows.num_rows:,} rows")
            made = ingest.ingest_arrow(
                self._store,
                rows,
                message=message,
                author=self._components.author,
                job_id=job_id,
                settings=ingest.IngestSettings.of(self.properties),
                rows_schema=schema,
            )
            if notes:
                progress.finish("; ".join(notes))
            return made

    def _import(self, given: Sequence[IngestSource], message: str | None, job_id: str | None) -> Snapshot:
        def add() -> Snapshot:
            from sleeper_nb.engines.spark import pipeline

            return pipeline.bulk_import(
                self._components.engines.spark(),
                self._store,
                given,
                message=message,
                author=self._components.author,
                job_id=job_id,
                settings=ingest.IngestSettings.of(self.properties),
                progress=self._components.progress,
            )

        if job_id is None:
            return self._tracked("bulk-import", self._components.clock.new_id(), add)
        return self._once("bulk-import", job_id, add)

    def _once(self, kind: JobKind, job_id: str | None, add: Callable[[], Snapshot]) -> Snapshot:
        """Add rows, but not again under a job id that has added some; what has no id is not told of as a job."""
        if job_id is None:
            return add()
        return tracking.added_once(self._store, check_job_id(job_id), lambda: self._tracked(kind, job_id, add))

    def _tracked(self, kind: JobKind, job_id: str, add: Callable[[], Snapshot]) -> Snapshot:
        return tracking.tracked(self._store, kind, job_id, self._components.author, add)

    def _saved_if_due(self, loaded: Snapshot) -> Snapshot:
        path = self._components.property_files.path(self.entry.id)
        for note in property_state.pending_settings(self.properties, self._store.load(), self.name, path):
            self._components.progress.finish(f"note: {note}")
        interval = self.properties[SAVEPOINT_INTERVAL]
        return periodic.saved_if_due(self._store, loaded, interval, self._components.author)


# `Altering`: what changes the columns of a table.


class Altering(Oversight):
    """The part of `Table` that changes its columns."""

    @checked
    def alter(
        self,
        add_columns: Mapping[str, str] | Iterable[Field] | None = None,
        rename_columns: Mapping[str, str] | None = None,
        drop_columns: Iterable[str] = (),
        *,
        dry_run: bool = False,
        message: str | None = None,
    ) -> AlterReport:
        """Add, rename and drop value columns, by one commit that reads and writes no data file.

        Older versions keep their columns, and so do queries of them; `at` with ``schema="current"`` reads them with
        those of now. Loads and compactions that run meanwhile are not disturbed.

        Parameters
        ----------
        add_columns
            Names with their types, which must be nullable: ``{"note": "string?"}``. Null in the rows that there are.
        rename_columns
            Names of now, each with the new one.
        drop_columns
            Names. They go first, then others are renamed, then new ones are added: so a name can be given anew.
        dry_run
            Only return what would change.
        message
            What history shows of it.

        Raises
        ------
        NotFound
            When there is no such column; the nearest is named.
        AlreadyExists
            When the new name is taken, in any case of its letters.
        InvalidInput
            When no change is given; when a key is named, or a column that the table's filters or aggregations use; or
            when a new column is not nullable. Nothing is changed by this or any other error.
        """
        changes: list[SchemaChange] = [DropColumn(name) for name in drop_columns]
        changes += [RenameColumn(name, to) for name, to in (rename_columns or {}).items()]
        changes += [AddColumn(field) for field in fields_of({} if add_columns is None else add_columns)]
        components, schema = self._components, self._store.load().schema
        report = altering.alter(
            self._store,
            self.name,
            changes,
            DataProcessing.of(self._properties_now, schema, components.clock.now()),
            dry_run=dry_run,
            author=components.author,
            message=message,
        )
        if report.snapshot is not None:  # what `reinitialise` compares with; a crash here is mended by the next change
            now = {TABLE_SCHEMA: schema_line(self._store.load().schema)}
            components.property_files.change(self.entry.id, now, lambda _: None)
        return report


# `Maintenance`: what keeps a table quick and small.


class Maintenance(Oversight):
    """The part of `Table` that changes no row: compaction, splitting, expiry, garbage, orphans."""

    @overload
    def compact(
        self,
        strategy: str | None = None,
        *,
        engine: Literal["auto", "spark", "local"] = "auto",
        dry_run: bool = False,
        partition: str | None = None,
        background: Literal[False] = False,
    ) -> compaction.CompactionReport: ...

    @overload
    def compact(
        self,
        strategy: str | None = None,
        *,
        engine: Literal["auto", "spark", "local"] = "auto",
        dry_run: bool = False,
        partition: str | None = None,
        background: bool,
    ) -> compaction.CompactionReport | BackgroundJob[compaction.CompactionReport]: ...

    @checked
    def compact(
        self,
        strategy: str | None = None,
        *,
        engine: Literal["auto", "spark", "local"] = "auto",
        dry_run: bool = False,
        partition: str | None = None,
        background: bool = False,
    ) -> compaction.CompactionReport | BackgroundJob[compaction.CompactionReport]:
        """Merge the files of leaves; no answer changes, and every older version still reads the old files.

        Rows that the table's filters drop are left out for good, and rows of equal keys are combined, if its properties
        say so (`sleeper_nb.model.processing`).

        Parameters
        ----------
        strategy
            ``"size-ratio"``, ``"basic"`` or ``"all"``; None is the table's property.
        engine
            ``"spark"`` runs each job as a Spark task, ``"local"`` in process, ``"auto"`` by the size of the inputs.
        dry_run
            Only return what would be merged.
        partition
            Only the leaf with this id.
        background
            Return at once, with a handle: ``done``, ``result()``, ``cancel()``. It ends with the session.
        """
        if engine not in {"auto", "spark", "local"}:
            raise InvalidInput(f"no engine {engine!r}", hint="the engines are auto, spark and local")
        self._check_online("compacted", dry_run)

        def work(progress: Progress, check: Callable[[], None] = unchecked) -> compaction.CompactionReport:
            return self._compact(progress, strategy, engine, dry_run=dry_run, partition_id=partition, check=check)

        if background:
            title = f"compaction of {self.name}"
            return self._components.background.start(title, lambda watch: work(watch, watch.check), self.entry.id)
        with self._watched() as progress:
            return work(progress)

    def _compact(
        self,
        progress: Progress,
        strategy: str | None = None,
        engine: str = "auto",
        *,
        check: Callable[[], None] = unchecked,
        **options: Any,
    ) -> compaction.CompactionReport:
        tracker = JobTracker(self._store, self._components.author)

        def begun(job: CompactionJob) -> None:
            check()
            tracker.began(job.id)

        return compaction.compact(
            self._store,
            self._runner(engine, begun, check),
            strategy=strategy or self.properties["sleeper.table.compaction.strategy.class"],
            settings=StrategySettings.of(self.properties),
            progress=progress,
            author=self._components.author,
            tracker=tracker,
            processing=DataProcessing.of(self._properties_now, self._store.load().schema, self._components.clock.now()),
            **options,
        )

    @checked
    def split_partitions(
        self,
        dry_run: bool = False,
        *,
        at: Any = None,
        key: str | None = None,
        partition: str | None = None,
        threshold: int | None = None,
    ) -> splitting.SplitReport:
        """Cut leaves with too many rows at the median of a row key, in one commit; no data file is rewritten.

        The first row key that has a median other than its least value is taken; the parts are cut again until each has
        fewer rows than the threshold (Sleeper's rule, which cuts once a run).

        Parameters
        ----------
        dry_run
            Only return what would be split.
        at
            Split here instead, whatever the rows: every leaf whose keys lie on both sides of the value.
        key
            The row key that `at` is a value of; the first when None.
        partition
            Only the leaf with this id.
        threshold
            Rows of a leaf that are too many; None is the property ``sleeper.table.partition.splitting.threshold``.

        Raises
        ------
        InvalidInput, NotFound
            When the value splits no leaf, or the row key or partition is unknown. Nothing is changed.
        """
        self._check_online("split", dry_run)
        most = self.properties[SPLITTING_THRESHOLD] if threshold is None else threshold
        request = splitting.request_of(self._store.load(), most, at=at, key=key, partition_id=partition)
        with self._watched() as progress:
            author = self._components.author
            return splitting.split_partitions(self._store, request, dry_run=dry_run, progress=progress, author=author)

    def _runner(
        self, engine: str, begun: Callable[[CompactionJob], None], check: Callable[[], None]
    ) -> compaction.JobRunner:
        storage, writing = self._store.storage, DataFileSettings.of(self.properties)
        local = compaction.run_in_process(storage, writing, begun, check)

        def run(jobs: Sequence[CompactionJob], schema: Schema) -> Any:
            size = sum(file.bytes for job in jobs for file in job.inputs)
            if engine == "local" or (engine == "auto" and size < SPARK_BYTES):
                return local(jobs, schema)
            from sleeper_nb.engines.spark import pipeline

            spark = self._components.engines.spark()
            return pipeline.run_on_spark(spark, storage, writing, begun, check)(jobs, schema)

        return run

    @checked
    def expire_snapshots(
        self,
        dry_run: bool = True,
        *,
        time_retained: timedelta | None = None,
        num_retained_min: int | None = None,
        num_retained_max: int | None = None,
    ) -> expiry.ExpiryReport:
        """Forget old snapshots; by default only say which.

        What is None is the table's property: ``snapshot.time-retained`` (7 d), ``snapshot.num-retained.min`` (10) and
        ``snapshot.num-retained.max``. Savepoints stay, and so do the files that they need.
        """
        self._check_online("rid of snapshots", dry_run)
        self._check_properties(dry_run)
        retention = expiry.Retention.of(self.properties, time_retained, num_retained_min, num_retained_max)
        return expiry.expire_snapshots(self._store, retention, dry_run=dry_run)

    @checked
    def collect_garbage(self, dry_run: bool = True, *, delay: timedelta | None = None) -> garbage.GarbageReport:
        """Delete files that no version can need any more; by default only say which.

        Parameters
        ----------
        dry_run
            Only return what would be deleted.
        delay
            How long a file stays after nothing refers to it; None is the property
            ``sleeper.table.gc.delay.minutes`` (15).
        """
        self._check_online("rid of garbage", dry_run)
        self._check_properties(dry_run)
        wait = garbage.delay_of(self.properties) if delay is None else delay
        return garbage.collect_garbage(self._store, delay=wait, dry_run=dry_run, author=self._components.author)

    @checked
    def sweep_orphans(self, dry_run: bool = True, *, older_than: timedelta | None = None) -> orphans.OrphanReport:
        """Delete files that no version ever named, of writers that crashed or failed; by default only say which.

        Parameters
        ----------
        dry_run
            Only return what would be deleted.
        older_than
            A younger file may be of a commit that is under way; None is 3 days, and a day is the least.
        """
        self._check_online("rid of orphans", dry_run)
        age = checking.ORPHAN_AGE if older_than is None else older_than
        with self._watched() as progress:
            return orphans.sweep_orphans(self._store, self.name, older_than=age, dry_run=dry_run, progress=progress)

    @checked
    def maintain(self, dry_run: bool = False) -> maintaining.MaintenanceReport:
        """Do what is due now: splitting, compaction as the strategy proposes, a savepoint, expiry, garbage collection.

        Last, periodic savepoints that have had their time, or that are too many, are deleted.

        A step that fails does not stop the others; the report tells of it, and its `failed` has the errors. Each step
        goes by the table's properties. Leaves that a run splits are compacted by the next one.

        Parameters
        ----------
        dry_run
            Only return what would be done.
        """
        self._check_online("maintained", dry_run)
        self._check_properties(dry_run)

        def compact(dry_run: bool, but: Collection[str]) -> compaction.CompactionReport:
            with self._watched() as progress:
                return self._compact(progress, dry_run=dry_run, but=but)

        def steps() -> tuple[maintaining.MaintenanceStep, ...]:
            return maintaining.steps_of(
                self._store,
                self.split_partitions,
                compact,
                SavepointSchedule.of(self.properties),
                expiry.Retention.of(self.properties),
                garbage.delay_of(self.properties),
                self._components.author,
            )

        if not dry_run:
            return maintaining.run_steps(self.name, steps(), dry_run=False)
        catalog = self._components.catalog
        plan, _ = steady(
            lambda: maintaining.run_steps(self.name, steps(), dry_run=True),
            lambda: (self._store.head(), catalog.savepoints(self.entry.id)),
        )
        return plan


class Table(Loading, Maintenance, Altering, Report):
    """A table: every call reads or changes its current version.

    Made by `Session.create_table` and `Session.table`. A table has versions: each read takes one with `at`, and all of
    its answer comes from that version. Two calls may read two versions; to ask several things of one version, keep
    what `at` returns.
    """

    def __init__(
        self, entry: TableEntry, store: StateStore, components: Components, properties: TableProperties
    ) -> None:
        self.entry, self.properties = entry, properties
        self._store, self._components = store, components
        self.name = entry.name

    @property
    def resolved(self) -> Resolved:
        """The current version, looked up each time."""
        return Resolved(self._store.head())

    @property
    def state(self) -> TableState:
        """The partitions and file references of the current version."""
        return self.at().state

    @property
    def schema(self) -> Schema:
        """The schema of the current version."""
        return self.at().schema

    @property
    def partitions(self) -> PartitionTree:
        """The partition tree of the current version."""
        return self.at().partitions

    @property
    def processing(self) -> DataProcessing:
        """The filters, iterator and aggregations that queries apply to the rows."""
        return self.at().processing

    @property
    def online(self) -> bool:
        """Whether maintenance may work on the table; offline, it can still be read and loaded."""
        return self.at().online

    @property
    def store(self) -> StateStore:
        """What keeps the versions of the table, for readers that plan by themselves."""
        return self._store

    @property
    def state_store(self) -> str:
        """The class that keeps the table's metadata, as the current snapshot says."""
        return self._store.head().state_store

    @checked
    def at(
        self,
        version: int | str | None = None,
        *,
        timestamp: datetime | str | None = None,
        schema: Literal["own", "current"] = "own",
    ) -> TableAt:
        """Return the table at one version.

        Parameters
        ----------
        version
            What can stand behind ``@``: ``12``, ``"snapshot.12"``, a savepoint's name, or ``"savepoint.3"``.
        timestamp
            The newest version at or before a moment; without a zone it is UTC.
        schema
            ``"own"`` reads the version with the schema that it had; ``"current"`` with the one of now.
        """
        return self.at_reference(_reference(version, timestamp), schema)

    @checked
    def at_reference(self, asked: VersionReference | None, schema: Literal["own", "current"] = "own") -> TableAt:
        """Return the table at a version that was parsed already; at the current one when None. Otherwise as `at`."""
        found = versions.resolve(self._components.catalog, self.entry.id, self.name, asked)
        at = TableAt(self.name, found, self._store, self._components, self.properties)
        # The current version has the current schema: looking that up again could find a later one.
        return at.in_schema("own" if asked is None and schema == "current" else schema)

    @checked
    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        keys: Any = None,
        region: Mapping[str, tuple[Any, Any]] | str | None = None,
        limit: int | None = None,
        version: int | str | None = None,
        timestamp: datetime | str | None = None,
        schema: Literal["own", "current"] = "own",
    ) -> Scan:
        """Return rows, not read yet: of the current version, or of the one that `version` or `timestamp` names.

        Those three are as `at` takes them, the other parameters as `TableAt.scan` does.
        """
        at = self.at(version, timestamp=timestamp, schema=schema)
        return at.scan(columns, where, keys=keys, region=region, limit=limit)

    @checked
    def snapshots(self, limit: int | None = None) -> Pictured[Snapshot]:
        """Return the retained snapshots, newest first, below a picture of them all and of the savepoints.

        Parameters
        ----------
        limit
            List so many at most, the newest.

        Raises
        ------
        InvalidInput
            When the limit is less than 1.
        """
        if limit is not None and limit < 1:
            raise InvalidInput(f"cannot list {limit} snapshots", hint="give a limit of 1 or more")
        kept = retained(self._components.catalog, self.entry.id)
        found, points = kept.snapshots, kept.savepoints
        saved = savepoints_by_snapshot(points)
        cells = tuple(
            (s.id, s.time, s.operation, s.added_files, s.removed_files, s.added_rows, s.rows, s.files,
             s.references, ", ".join(map(savepoint_label, saved.get(s.id, ()))), s.message)
            for s in found[:limit]
        )  # fmt: skip
        columns = ("snapshot", "time", "operation", "+files", "−files", "+rows", "rows", "files",
                   "references", "savepoint", "message")  # fmt: skip
        cut = f"the newest {len(cells):,} of {len(found):,} snapshots" if len(cells) < len(found) else ""
        listing = Listing(found[:limit], columns, cells, f"history of {self.name}", cut)
        picture, lines = (draw(found, points, name=self.name) for draw in (timeline, timeline_lines))
        return Pictured(listing, picture, lines)

    @checked
    def export(
        self,
        destination: str | Path,
        file_format: Literal["parquet", "csv", "tsv"] | None = None,
        *,
        delimiter: str | None = None,
        null_text: str | None = None,
        header: bool = True,
        columns: Sequence[str] | None = None,
        where: str | None = None,
    ) -> ExportReport:
        """Write the rows of the current version to files, as `TableAt.export` does."""
        return self.at().export(
            destination, file_format, columns=columns, where=where,
            delimiter=delimiter, null_text=null_text, header=header,
        )  # fmt: skip

    def plan(self) -> ScanPlan:
        """Return what a query of the whole current version opens."""
        return self.at().plan()

    def fields(self) -> Listing[Field]:
        """Return the fields of the current version: their roles and types, and which may be null."""
        return self.at().fields()

    def files(self) -> Pictured[dict[str, Any]]:
        """Return the files that the current version reads, as `TableAt.files` does."""
        catalog, now = self._components.catalog, self._components.clock.now()
        # A compaction that commits in between would leave its old inputs without the claim on them.
        at, claims = steady(self.at, lambda: catalog.assignments(self.entry.id, now))
        return at.files_beside(claims)

    def leaves(self) -> Pictured[dict[str, Any]]:
        """Return the leaf partitions of the current version, as `TableAt.leaves` does."""
        return self.at().leaves()

    def source(self) -> BoundSource:
        """Return the rows of the current version as SQL reads them."""
        return self.at().source()

    @checked
    def system_table(self, suffix: str) -> BoundSource:
        """Return the rows of a system table at the current version, as `TableAt.system_table` does."""
        return self.at().system_table(suffix)

    @checked
    def inspect(self, sql: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Ask DuckDB about the metadata of the current version, as `TableAt.inspect` does."""
        return self.at().inspect(sql, params)

    def card(self) -> Stacked:
        """Return the newest commit, what the table is there, and its first ten rows."""
        return self.at().card()

    def grid(self) -> Grid:
        """Return what the current version is, in a few lines."""
        return self.at().grid()

    def to_dict(self) -> dict[str, Any]:
        """Return the schema and the totals of the current version."""
        return self.at().to_dict()

    @property
    def savepoint_manager(self) -> SavepointManager:
        """What finds savepoints by their ids, and their files (the proposal of savepoints for Paimon)."""
        return SavepointManager(self)

    @checked
    def savepoints(self, with_bytes: bool = False) -> Listing[Savepoint]:
        """Return the savepoints, oldest first.

        Parameters
        ----------
        with_bytes
            Show the data files that each alone keeps, and their bytes: what deleting it would free. This reads the
            current metadata.
        """
        return list_savepoints(self._store, self.name, with_bytes=with_bytes)

    @checked
    def create_savepoint(
        self, name: str | None = None, message: str | None = None, snapshot: int | str | None = None
    ) -> Savepoint:
        """Keep a version until it is deleted, whatever expires.

        Parameters
        ----------
        name
            A name that starts with a letter, was never used before in this table, and means no other version, as
            ``v1`` and ``savepoint.1`` do.
        message
            Why it was made.
        snapshot
            The snapshot to save; the current one when None.
        """
        author = self._components.author
        if snapshot is None:
            return save_current(self._store, name=name, message=message, author=author)
        found = self.at_reference(_reference(snapshot, None)).resolved
        return create_savepoint(self._store, found, name=name, message=message, author=author)

    @checked
    def rollback(
        self,
        version: int | str | None = None,
        *,
        timestamp: datetime | str | None = None,
        dry_run: bool = False,
        message: str | None = None,
    ) -> RollbackReport:
        """Make the table what it was at a version, by one more snapshot; history goes on, and no file is rewritten.

        Rows, files and partitions are those of then; properties and columns stay. What others commit meanwhile is
        undone too. An ingest with a job id stays done: the same load is given another id to be taken in again.

        Parameters
        ----------
        version
            What can stand behind ``@``: ``12``, ``"snapshot.12"``, a savepoint's name, or ``"savepoint.3"``.
        timestamp
            Instead: the newest version at or before a moment.
        dry_run
            Only return what would change.
        message
            What history shows of it; None names the version.
        """
        asked = _reference(version, timestamp)
        if asked is None:
            raise InvalidInput("no version to roll back to", hint=f"%sleeper history {self.name} shows them")
        return self.rollback_to(asked, dry_run=dry_run, message=message)

    @checked
    def rollback_to(
        self, asked: VersionReference, *, dry_run: bool = False, message: str | None = None
    ) -> RollbackReport:
        """Roll back to a version that was parsed already; otherwise as `rollback`."""
        found = self.at_reference(asked).resolved
        author = self._components.author
        return rollback.roll_back(self._store, found, dry_run=dry_run, author=author, message=message)

    @checked
    def delete_savepoint(
        self, savepoint: int | str | SavepointReference, dry_run: bool = False, *, force: bool = False
    ) -> SavepointDeletion:
        """Delete a savepoint by its id or name; they are never given again.

        Parameters
        ----------
        savepoint
            ``3``, ``"before-fix"``, ``"savepoint.3"``; a `SavepointReference` for what is a name and nothing else.
        dry_run
            Only return what would go with it.
        force
            Do it also when nothing else keeps the version, which can then never be read again.

        Raises
        ------
        ConfirmationNeeded
            When nothing else keeps the version, and neither `force` nor `dry_run` is set; it has the plan.
        """
        asked: VersionReference
        if isinstance(savepoint, SavepointReference):
            asked = savepoint
        else:
            asked = parse_version(savepoint if str(savepoint).startswith("savepoint.") else f"savepoint.{savepoint}")
        found = self.at_reference(asked).resolved.version
        assert isinstance(found, Savepoint)  # noqa: S101 - a savepoint's reference resolves to nothing else
        plan = plan_savepoint_deletion(self._store, found)
        if dry_run:
            return plan
        if plan.loses_version and not force:
            gone = f"this deletes snapshot {found.saved_snapshot_id} of table {self.name!r} for good"
            kept = f"nothing but savepoint {found.name or found.id!r} keeps it"
            raise ConfirmationNeeded(f"{gone}: {kept}", hint=CONFIRM, plan=plan)
        delete_savepoint(self._store, found)
        return replace(plan, dry_run=False)

    @checked
    def changes(self, from_version: int | str, to_version: int | str | None = None) -> Changes:
        """Return the rows that were added and removed from one version to another, not read yet.

        Compaction, splitting, garbage collection and migration change no rows. The rows are those that queries give at
        the moment of this call; in the other order of the versions, added and removed change places.

        Parameters
        ----------
        from_version, to_version
            What can stand behind ``@``: ``12``, ``"snapshot.12"``, ``"savepoint.3"``, a savepoint's name, or a time
            such as ``"2026-11-01 10:00"``, which is UTC. The current version when `to_version` is None.

        Raises
        ------
        NotFound
            When there is no such version, naming those that there are.
        """
        before, after = self._at(from_version), self._at(to_version)
        comparison, guards = self._comparison(before, after), _guards(before, after)
        return Changes(self.name, before.resolved, after.resolved, comparison, self._store.storage, guards)

    @checked
    def diff(self, a: int | str, b: int | str | None = None) -> Diff:
        """Return what changed from one version to another: rows, columns, files and partitions, by number and name.

        Rows are counted exactly. Where files were only added, as by ingests, metadata tells; where both versions have
        files that the other has not, as behind a compaction, those are read and compared. Versions and errors are those
        of `changes`.
        """
        before, after = self._at(a), self._at(b)
        comparison, progress = self._comparison(before, after), self._components.progress
        try:
            with guarded(_guards(before, after), "diff"):
                rows = changes.count_changes(comparison, self._store.storage, progress=progress)
        finally:
            progress.finish()
        return diff(
            self.name,
            (before.resolved, before.state),
            (after.resolved, after.state),
            rows,
            processed=after.is_processed,
        )

    def _at(self, version: int | str | None) -> TableAt:
        return self.at_reference(None if version is None else parse_reference(version))

    def _comparison(self, before: TableAt, after: TableAt) -> VersionComparison:
        now = self._components.clock.now()  # one for both: no row may become too old between them
        processing = (
            DataProcessing.of(self.properties.processed_as(each.state.processing), each.schema, now)
            for each in (before, after)
        )
        return compare(before.state, after.state, *processing)


def _guards(*versions: TableAt) -> tuple[ReadGuard, ...]:
    return tuple(each.guard(each.state.totals().bytes) for each in versions)


def _reference(version: int | str | None, timestamp: datetime | str | None) -> VersionReference | None:
    if version is not None and timestamp is not None:
        raise InvalidInput("a version and a timestamp were given", hint="give one of them")
    if timestamp is not None:
        return parse_moment(timestamp)
    return None if version is None else parse_reference(version)
