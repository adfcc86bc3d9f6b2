"""`Maintenance`: what keeps a table quick and small."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, Literal, overload

from sleeper_nb.arguments import checked
from sleeper_nb.background import BackgroundJob
from sleeper_nb.catalog.steady import steady
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import SPLITTING_THRESHOLD
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.compacting import compaction
from sleeper_nb.operations.compacting.job_plan import CompactionJob
from sleeper_nb.operations.compacting.strategies import StrategySettings
from sleeper_nb.operations.health import checking
from sleeper_nb.operations.partitioning import splitting
from sleeper_nb.operations.tracking.tracking import JobTracker
from sleeper_nb.operations.upkeep import expiry, garbage, maintaining, orphans
from sleeper_nb.operations.versioning.periodic import SavepointSchedule
from sleeper_nb.oversight import SPARK_BYTES, Oversight
from sleeper_nb.progress import Progress, unchecked
from sleeper_nb.storage.data_file_settings import DataFileSettings


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
    ) -> compaction.Runner:
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

        def steps() -> tuple[maintaining.Step, ...]:
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
