"""A table as a process of Spark opened it: what the data source plans a read with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sleeper_nb.engines.spark.read_tasks import PURPOSE, ReadTask, TaskLease
from sleeper_nb.engines.spark.source_options import InstancePlace
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import VersionReference
from sleeper_nb.operations.row_processing import Processor
from sleeper_nb.operations.scanning.scan_plan import (
    PlannedLeaf,
    groups_of,
    merged_groups,
    packed,
)
from sleeper_nb.operations.versioning import resolve as versions
from sleeper_nb.operations.versioning.leases import Leases, ReadGuard
from sleeper_nb.operations.versioning.resolve import Resolved
from sleeper_nb.state_store.state_store_base import StateStore


@dataclass(frozen=True, slots=True)
class SourceTable:
    """An open table.

    Parameters
    ----------
    name
        The table's, as it is spelt.
    store
        Its versions.
    properties
        Returns its properties of now.
    leases
        Those of this process; they are released with the instance.
    leases_elsewhere
        Opens the leases of another process, there.
    close
        Lets go of the instance.
    """

    name: str
    store: StateStore
    properties: Callable[[], TableProperties]
    leases: Leases
    leases_elsewhere: Callable[[], AbstractContextManager[Leases]]
    close: Callable[[], None]

    def resolve(self, asked: VersionReference | None) -> Resolved:
        """Return the version that a reference names; errors as `sleeper_nb.operations.versioning.versions.resolve`."""
        return versions.resolve(self.store.catalog, self.store.table_id, self.name, asked)

    def processing(self, schema: Schema, recorded: str | None) -> DataProcessing:
        """Return what is done now with rows of a version that records how they are processed."""
        return DataProcessing.of(self.properties().processed_as(recorded), schema, self.store.clock.now())

    def guard(self, snapshot_id: int, size: int) -> ReadGuard:
        """Return what keeps a version's files while this process, or one that lives as long, reads so many bytes."""
        return ReadGuard(self.leases, self.store.table_id, snapshot_id, is_old=True, bytes=size, table=self.name)

    def handed_on(self, snapshot_id: int, size: int) -> TaskLease | None:
        """Return what keeps a version's files while tasks read them, when that takes long.

        The process that plans ends before they begin: it takes a lease that ends by itself, and each task one of its
        own.
        """
        if not self.guard(snapshot_id, size).is_long:
            return None
        self.leases.take(self.store.table_id, snapshot_id, PURPOSE)
        return TaskLease(self.leases_elsewhere, self.store.table_id, snapshot_id)

    def tasks(
        self,
        leaves: Iterable[PlannedLeaf],
        schema: Schema,
        recorded: str | None,
        parallelism: int,
        lease: TaskLease | None = None,
    ) -> list[ReadTask]:
        """Return what Spark's tasks read of some leaves; a leaf may be there twice, then its parts never meet."""
        processor = Processor.of(self.processing(schema, recorded), schema)
        apart = processor.processing.only_filters
        parts = packed(groups_of(leaves, file_by_file=apart), parallelism)
        return [
            ReadTask(merged_groups(part) if apart else part, processor, self.store.storage, lease) for part in parts
        ]


Opener = Callable[[InstancePlace, str], SourceTable]
"""Opens a table of an instance by its name, in any process; importable, as it travels there."""
