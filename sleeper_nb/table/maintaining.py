"""Maintain a table: compact, split, expire, collect garbage, sweep orphans. No answer of a query changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, Literal

from sleeper_nb.catalog.catalog_base import read_consistently
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.load import split as splitting
from sleeper_nb.load.split import SplitReport
from sleeper_nb.maintain import collect_garbage as garbage
from sleeper_nb.maintain import compact as compaction
from sleeper_nb.maintain import maintain as maintenance
from sleeper_nb.maintain import sweep_orphans as orphans
from sleeper_nb.maintain.check import ORPHAN_AGE
from sleeper_nb.maintain.collect_garbage import GarbageReport
from sleeper_nb.maintain.compact import CompactionReport, JobRunner
from sleeper_nb.maintain.compaction_plan import CompactionJob, StrategySettings
from sleeper_nb.maintain.maintain import MaintenanceReport, MaintenanceStep, Proceed, always
from sleeper_nb.maintain.online import check_online
from sleeper_nb.maintain.sweep_orphans import OrphanReport
from sleeper_nb.model.properties import SPLITTING_THRESHOLD
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import BackgroundJob, Progress, finishing, unchecked
from sleeper_nb.read.job_tracking import JobTracker
from sleeper_nb.storage.data_files import DataFileSettings
from sleeper_nb.table.configuring import check_not_edited
from sleeper_nb.versions import expire as expiry
from sleeper_nb.versions.expire import ExpiryReport, Retention
from sleeper_nb.versions.periodic_savepoints import SavepointSchedule

logger = logging.getLogger(__name__)

CompactionEngine = Literal["auto", "spark", "local"]
SPARK_BYTES = 256 * 2**20
"""From this size of its inputs on, compaction with ``engine="auto"`` goes through Spark."""


def compact(
    table: OpenTable,
    strategy: str | None,
    engine: CompactionEngine,
    *,
    dry_run: bool,
    partition: str | None,
) -> CompactionReport:
    """Merge the files of leaves, and return when that is done."""
    _check_online(table, "compaction", dry_run=dry_run)
    with finishing(table.components.progress) as progress:
        return _compact(table, strategy, engine, progress, unchecked, dry_run=dry_run, partition=partition)


def compact_in_background(
    table: OpenTable, strategy: str | None, engine: CompactionEngine, *, dry_run: bool, partition: str | None
) -> BackgroundJob[CompactionReport]:
    """Start to merge the files of leaves, and return the handle on that work."""
    _check_online(table, "compaction", dry_run=dry_run)
    return table.components.background.start(
        f"compaction of {table.name}",
        lambda watch: _compact(table, strategy, engine, watch, watch.check, dry_run=dry_run, partition=partition),
        table.entry.id,
    )


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
        if engine == "local" or (engine == "auto" and size < SPARK_BYTES):
            return compaction.run_in_process(storage, writing, on_start, check)(jobs, schema)
        from sleeper_nb.engines.spark import spark_compaction

        logger.info("table %s: compacting %d bytes on Spark", table.name, size)
        spark = table.components.engines.spark()
        return spark_compaction.run_on_spark(spark, storage, writing, on_start, check)(jobs, schema)

    return run


def split_partitions(
    table: OpenTable,
    *,
    dry_run: bool,
    at: Any = None,
    key: str | None = None,
    partition: str | None = None,
    threshold: int | None = None,
) -> SplitReport:
    """Split leaves with too many rows, or at a given value of a row key."""
    _check_online(table, "splitting", dry_run=dry_run)
    most = table.properties[SPLITTING_THRESHOLD] if threshold is None else threshold
    request = splitting.request_of(table.store.load(), most, at=at, key=key, partition_id=partition)
    author = table.components.author
    with finishing(table.components.progress) as progress:
        return splitting.split_partitions(table.store, request, dry_run=dry_run, progress=progress, author=author)


def expire_snapshots(
    table: OpenTable,
    *,
    dry_run: bool,
    time_retained: timedelta | None,
    num_retained_min: int | None,
    num_retained_max: int | None,
) -> ExpiryReport:
    """Forget the snapshots that the given retention, or that of the properties, no longer keeps."""
    _check_may_delete(table, "expiry", dry_run=dry_run)
    retention = Retention.of(table.properties, time_retained, num_retained_min, num_retained_max)
    return expiry.expire_snapshots(table.store, retention, dry_run=dry_run)


def collect_garbage(table: OpenTable, *, dry_run: bool, delay: timedelta | None) -> GarbageReport:
    """Delete the files that no version needs, once they are older than `delay`."""
    _check_may_delete(table, "garbage collection", dry_run=dry_run)
    wait = garbage.delay_of(table.properties) if delay is None else delay
    return garbage.collect_garbage(table.store, delay=wait, dry_run=dry_run, author=table.components.author)


def sweep_orphans(table: OpenTable, *, dry_run: bool, older_than: timedelta | None) -> OrphanReport:
    """Delete the files that no version has ever named, once they are older than `older_than`."""
    _check_online(table, "sweeping orphans", dry_run=dry_run)
    age = ORPHAN_AGE if older_than is None else older_than
    with finishing(table.components.progress) as progress:
        return orphans.sweep_orphans(table.store, table.name, older_than=age, dry_run=dry_run, progress=progress)


def maintain(table: OpenTable, *, dry_run: bool, proceed: Proceed = always) -> MaintenanceReport:
    """Do each step of maintenance that is due, as long as `proceed` returns True."""
    _check_may_delete(table, "maintenance", dry_run=dry_run)
    if not dry_run:
        return maintenance.run_steps(table.name, _steps(table), dry_run=False, proceed=proceed)
    plan, _ = read_consistently(
        lambda: maintenance.run_steps(table.name, _steps(table), dry_run=True),
        lambda: (table.store.head(), table.components.catalog.savepoints(table.entry.id)),
    )
    return plan


def _steps(table: OpenTable) -> tuple[MaintenanceStep, ...]:
    def compact_others(dry_run: bool, split_leaves: Collection[str]) -> CompactionReport:
        with finishing(table.components.progress) as progress:
            return _compact(table, None, "auto", progress, unchecked, dry_run=dry_run, skipped=split_leaves)

    return maintenance.steps_of(
        table.store,
        lambda dry_run: split_partitions(table, dry_run=dry_run),
        compact_others,
        SavepointSchedule.of(table.properties),
        Retention.of(table.properties),
        garbage.delay_of(table.properties),
        table.components.author,
    )


def _check_may_delete(table: OpenTable, work: str, *, dry_run: bool) -> None:
    _check_online(table, work, dry_run=dry_run)
    if not dry_run:
        check_not_edited(table)


def _check_online(table: OpenTable, work: str, *, dry_run: bool) -> None:
    if not dry_run:
        check_online(table.components.catalog, table.entry, work)
