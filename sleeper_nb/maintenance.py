"""`Maintenance`: what keeps a table quick and small, and tells how it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Literal

from sleeper_nb.components import Components
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations import checking, compaction, expiry, findings, garbage, orphans, status
from sleeper_nb.operations.strategies import StrategySettings
from sleeper_nb.progress import Progress
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.storage.data_file_settings import DataFileSettings

SPARK_BYTES = 256 * 2**20
"""From this size on, files that are ingested go through Spark, and compaction on ``engine="auto"`` runs there."""


class Maintenance:
    """The part of `Table` that changes no row: compaction, expiry, garbage, orphans; status and check."""

    name: str
    properties: TableProperties
    _store: StateStore
    _components: Components

    def compact(
        self,
        strategy: str | None = None,
        *,
        engine: Literal["auto", "spark", "local"] = "auto",
        dry_run: bool = False,
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
        """
        if engine not in {"auto", "spark", "local"}:
            raise InvalidInput(f"no engine {engine!r}", hint="the engines are auto, spark and local")
        properties = self.properties
        settings = StrategySettings(
            properties["sleeper.table.compaction.files.batch.size"],
            properties["sleeper.table.compaction.strategy.sizeratio.ratio"],
        )
        with self._watched() as progress:
            return compaction.compact(
                self._store,
                self._runner(engine),
                strategy=strategy or properties["sleeper.table.compaction.strategy.class"],
                settings=settings,
                dry_run=dry_run,
                progress=progress,
                author=self._components.author,
            )

    def _runner(self, engine: str) -> compaction.Runner:
        writing = DataFileSettings.of(self.properties)
        local = compaction.run_in_process(self._store.storage, writing)

        def run(jobs: Sequence[compaction.CompactionJob], schema: Schema) -> Any:
            size = sum(file.bytes for job in jobs for file in job.inputs)
            in_reach = self._store.storage.local  # of the Spark that we start
            if engine == "local" or (engine == "auto" and (size < SPARK_BYTES or not in_reach)):
                return local(jobs, schema)
            from sleeper_nb.engines.spark import pipeline

            return pipeline.run_on_spark(self._components.spark(), self._store.storage, writing)(jobs, schema)

        return run

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
        age = checking.ORPHAN_AGE if older_than is None else older_than
        with self._watched() as progress:
            return orphans.sweep_orphans(self._store, self.name, older_than=age, dry_run=dry_run, progress=progress)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[Progress]:
        """Give what shows the progress of long work, and clear it away behind the work, however that ends."""
        try:
            yield self._components.progress
        finally:
            self._components.progress.finish()
