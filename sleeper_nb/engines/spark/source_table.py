"""A table that a process of Spark opened: the data source plans its reads with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol

from sleeper_nb.engines.components import OpenTable
from sleeper_nb.engines.spark.instance_place import InstancePlace
from sleeper_nb.engines.spark.read_tasks import PURPOSE, FeedColumns, FeedTask, ReadTask, TaskLease
from sleeper_nb.engines.spark.source_options import SourceOptions
from sleeper_nb.engines.spark.wanted_rows import WantedRows
from sleeper_nb.load.bulk_load import WrittenLoad
from sleeper_nb.load.load_report import LoadReport
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import VersionReference
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


class TableOwner(Protocol):
    """The session of a Spark process that opened a table; what the data source asks of it."""

    @property
    def table(self) -> OpenTable:
        """The table."""

    @property
    def place(self) -> InstancePlace:
        """Where its instance is, for other processes."""

    def properties(self) -> TableProperties:
        """Return the current properties of the table."""

    def add_written(self, load: WrittenLoad, write: Callable[[], Iterable[FileReference]]) -> LoadReport:
        """Add files that tasks wrote: `write` yields references to them. Returns what an ingest does."""

    def record_failure(self, job_id: str, began: datetime, reason: str) -> None:
        """Record that files were written for a job, but not added."""

    def close(self) -> None:
        """Close the session, which releases its leases."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """An open table.

    Parameters
    ----------
    owner
        Opened it.
    leases_elsewhere
        Opens the leases of an instance in another process; importable, as it is pickled.
    """

    owner: TableOwner
    leases_elsewhere: Callable[[InstancePlace], AbstractContextManager[Leases]]

    @property
    def name(self) -> str:
        """The table's name."""
        return self.owner.table.name

    @property
    def store(self) -> StateStore:
        """The store that keeps its versions."""
        return self.owner.table.store

    @property
    def leases(self) -> Leases:
        """The leases of this process."""
        return self.owner.table.components.leases

    def resolve(self, reference: VersionReference | None) -> Resolved:
        """Return the version that a reference names; errors as `sleeper_nb.versions.resolve.resolve`."""
        return versions.resolve(self.store.catalog, self.store.table_id, self.name, reference)

    def wanted(self, options: SourceOptions, schema: Schema) -> WantedRows:
        """Return which rows options want of the table as it is read with a schema; errors as `WantedRows.of`."""
        return WantedRows.of(options, schema, self.owner.table.components.engines)

    def processor(self, schema: Schema, recorded: str | None) -> Processor:
        """Return what processes the rows of a version now; `recorded` is what the version says about it."""
        processing = DataProcessing.of(self.owner.properties().processed_as(recorded), schema, self.store.clock.now())
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
        return TaskLease(partial(self.leases_elsewhere, self.owner.place), self.store.table_id, snapshot_id)

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
