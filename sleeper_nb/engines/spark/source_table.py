"""A table that a process of Spark opened: the data source plans its reads with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from sleeper_nb.engines.spark.instance_place import InstancePlace
from sleeper_nb.engines.spark.read_tasks import PURPOSE, FeedColumns, FeedTask, ReadTask, TaskLease
from sleeper_nb.engines.spark.source_options import SourceOptions
from sleeper_nb.engines.spark.wanted_rows import WantedRows
from sleeper_nb.load.bulk_load import WrittenLoad
from sleeper_nb.load.load_report import LoadReport
from sleeper_nb.load.row_checks import RowCheck
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import VersionReference
from sleeper_nb.read.row_condition import Condition
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.read.scan_plan import (
    PlannedLeaf,
    groups_of,
    merged_groups,
    packed,
)
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions import resolve as versions
from sleeper_nb.versions.comparison import VersionComparison
from sleeper_nb.versions.leases import Leases, ReadGuard
from sleeper_nb.versions.resolve import Resolved

AddWritten = Callable[[WrittenLoad, Callable[[], Iterable[FileReference]]], LoadReport]
"""Calls a function that yields references to the files of a load, and adds them; returns what an ingest does."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """An open table.

    Parameters
    ----------
    properties
        Returns its current properties.
    leases
        The leases of this process; they are released with the instance.
    leases_elsewhere
        Opens the leases of another process, in that process.
    add_written
        Adds files that tasks wrote.
    record_failure
        Records a job that failed: its id, when it began, and the reason.
    row_checks
        Returns the CHECKs and expectations of the table with a schema, parsed and bound.
    condition
        Returns a user's condition, checked against a schema, if it is the same for a row at any time.
    """

    name: str
    store: StateStore
    properties: Callable[[], TableProperties]
    leases: Leases
    leases_elsewhere: Callable[[], AbstractContextManager[Leases]]
    add_written: AddWritten
    record_failure: Callable[[str, datetime, str], None]
    row_checks: Callable[[Schema], tuple[RowCheck, ...]]
    condition: Callable[[str, Schema], Condition]
    close: Callable[[], None]

    def resolve(self, reference: VersionReference | None) -> Resolved:
        """Return the version that a reference names; errors as `sleeper_nb.versions.resolve.resolve`."""
        return versions.resolve(self.store.catalog, self.store.table_id, self.name, reference)

    def wanted(self, options: SourceOptions, schema: Schema) -> WantedRows:
        """Return which rows options want of the table as it is read with a schema; errors as `WantedRows.of`."""
        return WantedRows.of(options, schema, self.condition)

    def processor(self, schema: Schema, recorded: str | None) -> Processor:
        """Return what processes the rows of a version now; `recorded` is what the version says about it."""
        processing = DataProcessing.of(self.properties().processed_as(recorded), schema, self.store.clock.now())
        return Processor.of(processing, schema)

    def guard(self, snapshot_id: int, size: int) -> ReadGuard:
        """Return what protects a version's files while this process, or one that lives as long, reads `size` bytes."""
        return ReadGuard(self.leases, self.store.table_id, snapshot_id, is_old=True, bytes=size, table=self.name)

    def lease_for_tasks(self, snapshot_id: int, size: int) -> TaskLease | None:
        """Return a lease that protects a version's files while tasks read them; None when the read is short.

        The process that plans ends before the tasks begin: it takes a lease that expires by itself, and each task takes
        one of its own.
        """
        if not self.guard(snapshot_id, size).is_long:
            return None
        self.leases.take(self.store.table_id, snapshot_id, PURPOSE)
        return TaskLease(self.leases_elsewhere, self.store.table_id, snapshot_id)

    def tasks(
        self,
        leaves: Iterable[PlannedLeaf],
        processor: Processor,
        parallelism: int,
        wanted: WantedRows,
        lease: TaskLease | None = None,
        feed: FeedColumns | None = None,
    ) -> list[ReadTask]:
        """Return the tasks that read what is wanted of some leaves.

        A leaf can come twice, then its parts are never merged. With `feed`, the rows get the columns of a stream of
        changes.
        """
        apart = processor.processing.only_filters
        parts = packed(groups_of(wanted.chosen(leaves), file_by_file=apart), parallelism)
        return [
            ReadTask(merged_groups(part) if apart else part, processor, self.store.storage, lease, feed, wanted.where)
            for part in parts
        ]

    def change_tasks(self, comparison: VersionComparison, parallelism: int, feed: FeedColumns) -> Iterator[FeedTask]:
        """Yield the tasks that read what a snapshot changed, one for each core."""
        size = max(1, -(-len(comparison.regions) // parallelism))
        for begin in range(0, len(comparison.regions), size):
            part = comparison.of(comparison.regions[begin : begin + size])
            yield FeedTask(part, self.store.storage, feed)


Opener = Callable[[InstancePlace, str], SourceTable]
"""Opens a table of an instance by its name, in any process; importable, as it is pickled."""
