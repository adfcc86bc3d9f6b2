"""`Maintenance`: what keeps a table quick and small, and tells how it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Literal

from sleeper_nb.catalog.base import TableEntry
from sleeper_nb.components import Components
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.properties import SPLITTING_THRESHOLD, TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations import (
    checking,
    compaction,
    expiry,
    findings,
    garbage,
    job_listing,
    maintaining,
    orphans,
    splitting,
    status,
)
from sleeper_nb.operations.online import check_online
from sleeper_nb.operations.strategies import StrategySettings
from sleeper_nb.operations.tracking import JobTracker
from sleeper_nb.progress import Progress
from sleeper_nb.report import Listing
from sleeper_nb.state_store.base import StateStore

SPARK_BYTES = 256 * 2**20
"""From this size on, files that are ingested go through Spark, and compaction on ``engine="auto"`` runs there."""


class Maintenance:
    """The part of `Table` that changes no row: compaction, expiry, garbage, orphans; status and check."""

    name: str
    entry: TableEntry
    properties: TableProperties
    _store: StateStore
    _components: Components

    def set_online(self, online: bool = True) -> None:
        """Say whether maintenance may work on the table.

        Offline, it is read and ingested as ever; compaction, splitting, expiry, garbage collection and the sweep of
        orphans refuse, but for their dry runs. What runs already is not stopped. Sleeper's ``sleeper.table.online``.
        """
        self._components.catalog.set_online(self.entry.id, online)

    def _check_online(self, work: str, dry_run: bool) -> None:
        if not dry_run:
            check_online(self._components.catalog, self.entry.id, self.name, work)

    def compact(
        self,
        strategy: str | None = None,
        *,
        engine: Literal["auto", "spark", "local"] = "auto",
        dry_run: bool = False,
        partition: str | None = None,
    ) -> compaction.CompactionReport:
        """Merge the files of leaves; no row changes, and every older version still reads the old files.

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
        """
        if engine not in {"auto", "spark", "local"}:
            raise InvalidInput(f"no engine {engine!r}", hint="the engines are auto, spark and local")
        self._check_online("compacted", dry_run)
        tracker = JobTracker(self._store, self._components.author)
        with self._watched() as progress:
            return compaction.compact(
                self._store,
                self._runner(engine, lambda job: tracker.began(job.id)),
                strategy=strategy or self.properties["sleeper.table.compaction.strategy.class"],
                settings=StrategySettings.of(self.properties),
                dry_run=dry_run,
                progress=progress,
                author=self._components.author,
                partition_id=partition,
                tracker=tracker,
            )

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

    def _runner(self, engine: str, begun: Callable[[compaction.CompactionJob], None]) -> compaction.Runner:
        local = compaction.run_in_process(self._store.storage, begun)

        def run(jobs: Sequence[compaction.CompactionJob], schema: Schema) -> Any:
            size = sum(file.bytes for job in jobs for file in job.inputs)
            in_reach = self._store.storage.local  # of the Spark that we start
            if engine == "local" or (engine == "auto" and (size < SPARK_BYTES or not in_reach)):
                return local(jobs, schema)
            from sleeper_nb.engines.spark import pipeline

            return pipeline.run_on_spark(self._components.spark(), self._store.storage, begun)(jobs, schema)

        return run

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

    def status(self) -> status.TableStatus:
        """Return how the table is, what waits, and what to do next. Nothing is changed, and no Spark is started."""
        return status.table_status(self._store, self.name, status.Housekeeping.of(self.properties))

    def check(self, deep: bool = False) -> findings.CheckReport:
        """Look for anything that is wrong with a retained version or its files; change nothing.

        Parameters
        ----------
        deep
            Also read every data file: its rows, their order and their keys.
        """
        with self._watched() as progress:
            return checking.check_table(self._store, self.name, deep=deep, progress=progress)

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
        retention = expiry.Retention.of(self.properties, time_retained, num_retained_min, num_retained_max)
        return expiry.expire_snapshots(self._store, retention, dry_run=dry_run)

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
        wait = garbage.delay_of(self.properties) if delay is None else delay
        return garbage.collect_garbage(self._store, delay=wait, dry_run=dry_run, author=self._components.author)

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

    def maintain(self, dry_run: bool = False) -> maintaining.MaintenanceReport:
        """Do what is due now: compaction as the strategy proposes, then expiry, then garbage collection.

        A step that fails does not stop the others; the report tells of it, and its `failed` has the errors. Each step
        goes by the table's properties.

        Parameters
        ----------
        dry_run
            Only return what would be done.
        """
        self._check_online("maintained", dry_run)
        steps = maintaining.steps_of(
            self._store,
            lambda dry_run: self.compact(dry_run=dry_run),
            expiry.Retention.of(self.properties),
            garbage.delay_of(self.properties),
            self._components.author,
        )
        return maintaining.run_steps(self.name, steps, dry_run=dry_run)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[Progress]:
        """Give what shows the progress of long work, and clear it away behind the work, however that ends."""
        try:
            yield self._components.progress
        finally:
            self._components.progress.finish()
