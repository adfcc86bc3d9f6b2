"""`Maintenance`: compact, split, expire, collect garbage, sweep orphans, check; purge, which alone changes rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import check_online, is_online, read_consistently
from sleeper_nb.edit.purge import PurgeReport
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import Action, InvalidInput, NotFound
from sleeper_nb.load import split as splitting
from sleeper_nb.load.split import SplitReport
from sleeper_nb.maintain import collect_garbage as garbage
from sleeper_nb.maintain import compact as compaction
from sleeper_nb.maintain.check import ORPHAN_AGE, check_table
from sleeper_nb.maintain.collect_garbage import GarbageReport
from sleeper_nb.maintain.compact import CompactionReport, JobRunner
from sleeper_nb.maintain.compaction_plan import CompactionJob, StrategySettings
from sleeper_nb.maintain.findings import CheckReport
from sleeper_nb.maintain.maintain import MaintenanceReport, Proceed, Step, always, run_steps
from sleeper_nb.maintain.sweep_orphans import OrphanReport, sweep_orphans
from sleeper_nb.model.jobs import Lease
from sleeper_nb.model.properties import ICEBERG, SPLITTING_THRESHOLD
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import BackgroundJob, Progress, finishing, unchecked
from sleeper_nb.query import EngineName
from sleeper_nb.read.job_tracking import JobTracker
from sleeper_nb.storage.data_files import DataFileSettings
from sleeper_nb.table.configuring import check_not_edited, property_findings
from sleeper_nb.table.edit_methods import EditMethods
from sleeper_nb.table.publishing import catch_up, published_findings
from sleeper_nb.versions.expire import ExpiryReport, Retention, expire_snapshots
from sleeper_nb.versions.periodic_savepoints import SavepointKeeper, SavepointSchedule

logger = logging.getLogger(__name__)

CompactionEngine = Literal["auto", "spark", "local"]
TASK_BYTES = 256 * 2**20
"""From this size of its inputs on, compaction with ``engine="auto"`` goes through Spark."""
_TICK = timedelta(microseconds=1)
"""The least delay of garbage collection in a run of maintenance: files of this very run are too young."""


class Maintenance:
    """Compacts, splits and cleans up one table; made by `Table.maintenance`."""

    def __init__(self, table: OpenTable) -> None:
        self._table = table

    @checked
    def compact(
        self,
        strategy: str | None = None,
        *,
        engine: CompactionEngine = "auto",
        dry_run: bool = False,
        partition: str | None = None,
    ) -> CompactionReport:
        """Merge the files of leaves; no query result changes, and older versions still read the old files.

        Rows that the table's filters drop are removed for good, and rows of equal keys are combined, if its properties
        say so (`sleeper_nb.model.processing`).

        Parameters
        ----------
        strategy
            ``"size-ratio"``, ``"basic"`` or ``"all"``; the table's property when None.
        engine
            ``"spark"`` runs each job as a Spark task, ``"local"`` in process, ``"auto"`` by the size of the inputs.
        dry_run
            Only return what would be merged.
        partition
            Only the leaf with this id.
        """
        table = self._table
        _check_online(table, "compaction", dry_run=dry_run)
        with finishing(table.components.progress) as progress:
            return _compact(table, strategy, engine, progress, unchecked, dry_run=dry_run, partition=partition)

    @checked
    def start_compaction(
        self, strategy: str | None = None, *, engine: CompactionEngine = "auto", partition: str | None = None
    ) -> BackgroundJob[CompactionReport]:
        """Start what `compact` does in the background, and return at once; the parameters are those of `compact`.

        Returns
        -------
        A handle: ``done``, ``result()``, ``cancel()``. The work ends with the session.
        """
        table = self._table
        _check_online(table, "compaction", dry_run=False)
        return table.components.background.start(
            f"compaction of {table.name}",
            lambda watch: _compact(table, strategy, engine, watch, watch.check, dry_run=False, partition=partition),
            table.entry.id,
            table.components.clock.now(),
        )

    @checked
    def split(
        self,
        *,
        dry_run: bool = False,
        at: Any = None,
        key: str | None = None,
        partition: str | None = None,
        threshold: int | None = None,
    ) -> SplitReport:
        """Split leaves with too many rows at the median of a row key, in one commit; no data file is rewritten.

        The first row key whose median differs from its least value is used; the parts are split again until each has
        fewer rows than the threshold (Sleeper's rule, which splits once a run).

        Parameters
        ----------
        dry_run
            Only return what would be split.
        at
            Instead, split here whatever the rows: every leaf whose keys lie on both sides of the value.
        key
            The row key that `at` is a value of; the first when None.
        partition
            Only the leaf with this id.
        threshold
            A leaf with so many rows is split; the property ``sleeper.table.partition.splitting.threshold`` when None.

        Raises
        ------
        InvalidInput, NotFound
            When the value splits no leaf, or the row key or partition is unknown. Nothing is changed.
        """
        table = self._table
        _check_online(table, "splitting", dry_run=dry_run)
        most = table.properties[SPLITTING_THRESHOLD] if threshold is None else threshold
        request = splitting.request_of(table.store.load(), most, at=at, key=key, partition_id=partition)
        author = table.components.author
        with finishing(table.components.progress) as progress:
            return splitting.split_partitions(table.store, request, dry_run=dry_run, progress=progress, author=author)

    @checked
    def expire(
        self,
        *,
        dry_run: bool = True,
        time_retained: timedelta | None = None,
        num_retained_min: int | None = None,
        num_retained_max: int | None = None,
    ) -> ExpiryReport:
        """Expire old snapshots; by default only return which.

        What is None is the table's property: ``snapshot.time-retained`` (7 d), ``snapshot.num-retained.min`` (10) and
        ``snapshot.num-retained.max``. Savepoints stay, and so do the files that they need.
        """
        _check_may_delete(self._table, "expiry", dry_run=dry_run)
        retention = Retention.of(self._table.properties, time_retained, num_retained_min, num_retained_max)
        return expire_snapshots(self._table.store, retention, dry_run=dry_run)

    @checked
    def collect_garbage(self, *, dry_run: bool = True, delay: timedelta | None = None) -> GarbageReport:
        """Delete files that no version needs any more; by default only return which.

        Parameters
        ----------
        dry_run
            Only return what would be deleted.
        delay
            How long a file stays after the last reference to it; the property ``sleeper.table.gc.delay.minutes`` (15)
            when None.
        """
        table = self._table
        _check_may_delete(table, "garbage collection", dry_run=dry_run)
        wait = garbage.delay_of(table.properties) if delay is None else delay
        return garbage.collect_garbage(table.store, delay=wait, dry_run=dry_run, author=table.components.author)

    @checked
    def sweep_orphans(self, *, dry_run: bool = True, older_than: timedelta | None = None) -> OrphanReport:
        """Delete files that no version ever named, left by failed writers; by default only return which.

        Parameters
        ----------
        dry_run
            Only return what would be deleted.
        older_than
            Younger files stay, as a commit under way may need them: 3 days when None, and at least a day.
        """
        table = self._table
        _check_online(table, "sweeping orphans", dry_run=dry_run)
        age = ORPHAN_AGE if older_than is None else older_than
        with finishing(table.components.progress) as progress:
            return sweep_orphans(table.store, table.name, older_than=age, dry_run=dry_run, progress=progress)

    @checked
    def purge(
        self,
        where: str | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        engine: EngineName = "duckdb",
        message: str | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> PurgeReport:
        """Delete rows for good, as privacy asks for, with the versions, savepoints and files that have them.

        Gone are every data file that has such a row, also one that was deleted before, every snapshot up to the newest
        that uses such a file, and every savepoint that does. Files go at once, without the usual delay: queries that
        read an older version then fail, unless they hold a lease, whose files the report names. To finish an
        interrupted purge, repeat it.

        The reasons of jobs and this machine's cache of metadata go too, and SQLite's write-ahead log is cut. Files that
        were added where they are, files of rows that loads kept back, exports, copies that a bucket with versioning
        keeps, messages of versions that stay, and split points of partitions stay; the report names those that it
        knows.

        Parameters
        ----------
        where, params, data, engine
            As those of `Table.delete`; the condition cannot read the table itself, nor columns that were dropped.
        message
            As that of `Table.ingest`.
        dry_run
            Change nothing; return what would be deleted.
        force
            Confirm that versions, savepoints or all rows are deleted.

        Raises
        ------
        ConfirmationNeeded
            When versions, savepoints or all rows would be deleted, and no `force`; it has the plan.
        InvalidInput
            When the condition is wrong.
        StateRuleBroken
            When the table is offline.
        StorageError
            When files to be deleted are reached through a symbolic link; nothing was changed.
        """
        deletion = EditMethods(self._table, engine, params, data).delete(where)
        return deletion.purge(dry_run=dry_run, force=force, message=message)

    @checked
    def check(self, deep: bool = False) -> CheckReport:
        """Check every retained version and its files for damage; change nothing.

        Parameters
        ----------
        deep
            Also read every data file: its rows, their order and their keys.
        """
        with finishing(self._table.components.progress) as progress:
            report = check_table(self._table.store, self._table.name, deep=deep, progress=progress)
        findings = *report.findings, *property_findings(self._table), *published_findings(self._table)
        return replace(report, findings=findings)

    @checked
    def release_lease(self, lease: str) -> Lease:
        """End a lease by its id and return it; a reader that still needs it may find a file gone.

        Raises
        ------
        NotFound
            When there is no such lease, or its reader has just renewed it.
        InvalidInput
            When it keeps a version that is published for other engines: `Table.unpublish` releases those.
        """
        catalog = self._table.store.catalog
        held = {each.id: each for each in catalog.leases(self._table.entry.id)}
        if lease in held and held[lease].is_published:
            hint = Action(f"unpublish {self._table.name}", "table.unpublish()"), " releases all published versions"
            raise InvalidInput(f"lease {lease!r} keeps a version that is published for other engines", hint=hint)
        if lease not in held or not catalog.release_lease(self._table.entry.id, held[lease]):
            raise NotFound.of("lease", lease, [*held], where=f" of table {self._table.name!r}")
        return held[lease]

    @property
    def is_online(self) -> bool:
        """Whether maintenance may work on the table; offline, it can still be read and loaded."""
        return is_online(self._table.components.catalog, self._table.entry.id)

    def online(self) -> None:
        """Include the table in maintenance again."""
        self._table.components.catalog.set_online(self._table.entry.id, online=True)

    def offline(self) -> None:
        """Exclude the table from maintenance.

        It can be read and loaded as usual. Compaction, splitting, expiry, garbage collection, the sweep of orphans and
        purges refuse to run, except as dry runs; those that run already are not stopped. This is Sleeper's
        ``sleeper.table.online``.
        """
        self._table.components.catalog.set_online(self._table.entry.id, online=False)


def _compact(
    table: OpenTable,
    strategy: str | None,
    engine: CompactionEngine,
    progress: Progress,
    check: Callable[[], None],
    *,
    dry_run: bool,
    partition: str | None = None,
    skipped: Collection[str] = (),
) -> CompactionReport:
    """Merge files; `check` is called with each job and batch, and ends the work when it raises.

    Leaves whose ids are `skipped` are not compacted.
    """
    tracker = JobTracker(table.store, table.components.author)
    return compaction.compact(
        table.store,
        _job_runner(table, engine, tracker.began, check),
        strategy=strategy or table.properties["sleeper.table.compaction.strategy.class"],
        settings=StrategySettings.of(table.properties),
        progress=progress,
        author=table.components.author,
        tracker=tracker,
        properties=table.properties,
        dry_run=dry_run,
        partition_id=partition,
        excluded=skipped,
    )


def _job_runner(
    table: OpenTable, engine: CompactionEngine, on_start: Callable[[str], None], check: Callable[[], None]
) -> JobRunner:
    """Return what runs compaction jobs: in process, or on Spark; ``auto`` decides by the size of the inputs."""
    storage, writing = table.store.storage, DataFileSettings.of(table.properties)

    def run(jobs: Sequence[CompactionJob], schema: Schema) -> Any:
        size = sum(file.bytes for job in jobs for file in job.inputs)
        if engine == "local" or (engine == "auto" and size < TASK_BYTES):
            return compaction.run_in_process(storage, writing, on_start, check)(jobs, schema)
        tasks = table.components.engines.with_tasks
        logger.info("table %s: compacting %d bytes on %s", table.name, size, tasks.title)
        return tasks.compaction(storage, writing, on_start, check)(jobs, schema)

    return run


def maintain(table: OpenTable, *, dry_run: bool, proceed: Proceed = always) -> MaintenanceReport:
    """Do each step of maintenance that is due, as long as `proceed` returns True."""
    _check_may_delete(table, "maintenance", dry_run=dry_run)
    if not dry_run:
        return run_steps(table.name, _Run(table, dry_run=False).steps(), dry_run=False, proceed=proceed)
    plan, _ = read_consistently(
        lambda: run_steps(table.name, _Run(table, dry_run=True).steps(), dry_run=True),
        lambda: (table.store.head(), table.components.catalog.savepoints(table.entry.id)),
    )
    return plan


class _Run:
    """The steps of one run of maintenance.

    What is due is decided at the start: a later step does not work on what an earlier one has just made. Snapshots of
    the run itself do not make older ones expire; files that the run replaces, and leaves that it creates, are left to
    the next run. So a dry run shows exactly what the run does, and each run does a bounded amount of work.
    """

    def __init__(self, table: OpenTable, *, dry_run: bool) -> None:
        self._table, self._dry_run = table, dry_run
        self._began, self._head = table.store.clock.now(), table.store.head()
        schedule, author = SavepointSchedule.of(table.properties), table.components.author
        self._keeper = SavepointKeeper(table.store, schedule, self._head, self._began, author)
        self._split_leaves: set[str] = set()
        self._expired: list[int] = []

    def steps(self) -> Iterator[Step]:
        """Yield the steps in order: those that make versions come before those that delete them.

        What the run makes itself is published by the next one, except for a savepoint; so are the files collected that
        only a deleted savepoint kept.
        """
        table, dry_run = self._table, self._dry_run
        yield "split", self._split
        yield "compact", self._compact
        yield "create-savepoint", lambda: self._keeper.save(dry_run=dry_run)
        if table.properties[ICEBERG] != "off":
            yield "publish", lambda: catch_up(table, self._head, dry_run=dry_run)
        yield "expire", self._expire
        yield "collect-garbage", self._collect
        yield "delete-savepoint", lambda: self._keeper.retire(dry_run=dry_run)

    def _split(self) -> SplitReport:
        report = Maintenance(self._table).split(dry_run=self._dry_run)
        for each in report.splits:  # a dry run still finds the old leaf, a real run finds the new ones
            self._split_leaves.add(each.partition_id)
            self._split_leaves.update(part for part, _, _ in each.parts)
        return report

    def _compact(self) -> CompactionReport:
        with finishing(self._table.components.progress) as progress:
            skipped, dry_run = self._split_leaves, self._dry_run
            return _compact(self._table, None, "auto", progress, unchecked, dry_run=dry_run, skipped=skipped)

    def _expire(self) -> ExpiryReport:
        retention = Retention.of(self._table.properties)
        report = expire_snapshots(self._table.store, retention, dry_run=self._dry_run, until=self._head.id)
        self._expired += [snapshot.id for snapshot in report.expired]
        return report

    def _collect(self) -> GarbageReport:
        delay = max(garbage.delay_of(self._table.properties), _TICK)
        return garbage.collect_garbage(
            self._table.store, delay=delay, dry_run=self._dry_run, author=self._table.components.author,
            now=self._began, forgotten=self._expired,
        )  # fmt: skip


def _check_may_delete(table: OpenTable, work: str, *, dry_run: bool) -> None:
    _check_online(table, work, dry_run=dry_run)
    if not dry_run:
        check_not_edited(table)


def _check_online(table: OpenTable, work: str, *, dry_run: bool) -> None:
    if not dry_run:
        check_online(table.components.catalog, table.entry, work)
