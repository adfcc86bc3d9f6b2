"""A table that a process of Spark opened: the data source plans its reads with it, as tasks.

The tasks read planned files by themselves, with our own reader; no row passes through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.sql.datasource import InputPartition

from sleeper_nb.engines.components import Engines, OpenTable
from sleeper_nb.engines.spark.instance_place import InstancePlace
from sleeper_nb.engines.spark.source_options import SourceOptions
from sleeper_nb.engines.spark.spark_errors import without_stack
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.load.bulk_load import WrittenLoad
from sleeper_nb.load.load_report import LoadReport
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import VersionReference
from sleeper_nb.model.state import TableState
from sleeper_nb.read.file_statistics import columns_of
from sleeper_nb.read.predicate import ALWAYS_TRUE, Condition, Predicate, Pruning, inclusive_projection
from sleeper_nb.read.read_rows import leaf_rows, opened_condition, selected_fields
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.read.scan_plan import (
    FileGroup,
    PlannedLeaf,
    groups_of,
    merged_groups,
    packed,
    regions_of,
    within_region,
)
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions import resolve as versions
from sleeper_nb.versions.comparison import ComparedRows, VersionComparison
from sleeper_nb.versions.leases import Leases, ReadGuard
from sleeper_nb.versions.resolve import Resolved
from sleeper_nb.versions.row_images import KindNames, stream_images

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


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
    leases_elsewhere
        Opens the leases of an instance in another process; importable, as it is pickled.
    """

    owner: TableOwner
    leases_elsewhere: Callable[[InstancePlace], AbstractContextManager[Leases]]

    @property
    def name(self) -> str:
        return self.owner.table.name

    @property
    def store(self) -> StateStore:
        return self.owner.table.store

    @property
    def leases(self) -> Leases:
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


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Which rows are wanted of a table that is read with a schema.

    Parameters
    ----------
    where
        Only rows that meet it, after the table's filters, iterator and aggregations; it can be pickled.
    """

    schema: Schema
    region: Region | None
    where: Condition | None

    @classmethod
    def of(cls, options: SourceOptions, schema: Schema, engines: Engines) -> WantedRows:
        """Return what options want.

        Raises
        ------
        InvalidInput, NotFound
            When the region or the condition does not fit the schema.
        """
        regions = regions_of(schema, region=options.region)
        where = None if options.where is None else engines.condition(options.where, schema, repeatable=True).picklable()
        return cls(schema, None if regions is None else regions[0], where)

    @property
    def predicate(self) -> Predicate:
        """What a row must meet at least to meet the condition."""
        return ALWAYS_TRUE if self.where is None else self.where.predicate

    def pruning(self, state: TableState, *, by_row: bool = True) -> Pruning:
        """Return what can be pruned of a version, as no row in it meets the condition.

        Statistics are used only `by_row`, where no row changes through others before the condition, and where the
        version's columns are those of the schema: a stream keeps the columns that it was started with, and a column
        that was added later can have the name of another.
        """
        tested = columns_of(self.predicate)
        own, theirs = (
            {field.name: field.column for field in schema.fields if field.name in tested}
            for schema in (self.schema, state.schema)
        )
        return Pruning(
            inclusive_projection(self.predicate, self.schema),
            self.predicate if by_row and own == theirs else ALWAYS_TRUE,
        )

    def chosen(self, leaves: Iterable[PlannedLeaf]) -> Iterator[PlannedLeaf]:
        """Yield the leaves that the region reaches, each file restricted to it."""
        yield from leaves if self.region is None else within_region(leaves, self.region)

    @property
    def compared(self) -> ComparedRows:
        """The same rows, for a comparison of two versions."""
        reached = inclusive_projection(self.predicate, self.schema)
        return ComparedRows(None if self.region is None else [self.region], reached, self.where)


PURPOSE: Final = "spark"
"""The purpose that the leases of Spark's readers state."""
CHANGE_TYPE: Final = "_change_type"
"""The column with the kind of a change: ``insert``, ``delete``, ``update_preimage`` or ``update_postimage``."""
COMMIT_VERSION: Final = "_commit_version"
"""The column with the snapshot that made a change."""
KINDS: Final = KindNames(removed="delete", added="insert")


@dataclass(frozen=True, slots=True)
class TaskLease:
    """A lease that protects a version's files while a task reads them in its own process.

    Parameters
    ----------
    leases
        Opens the leases of the instance, in any process.
    """

    leases: Callable[[], AbstractContextManager[Leases]]
    table_id: str
    snapshot_id: int

    @contextmanager
    def held(self) -> Iterator[None]:
        with self.leases() as leases, leases.held(self.table_id, self.snapshot_id, PURPOSE):
            yield


@dataclass(frozen=True, slots=True)
class FeedColumns:
    """The two columns that a stream of changes has after those of the table; the names are those of Delta's feed."""

    snapshot_id: int

    @staticmethod
    def added_to(columns: str, schema: Schema) -> str:
        """Return Spark's DDL with both columns; raise when the table has a column of such a name."""
        taken = next((name for name in schema.names if name.casefold() in {CHANGE_TYPE, COMMIT_VERSION}), None)
        if taken is not None:
            raise InvalidInput(
                f"column {taken!r} has the name of a column that a stream of changes adds", hint="rename the column"
            )
        return f"{columns}, `{CHANGE_TYPE}` string, `{COMMIT_VERSION}` bigint"

    def added(self, rows: pa.RecordBatch, names: Sequence[str], kind: str = KINDS.added) -> pa.RecordBatch:
        """Return rows with some columns, among them both; the kind is added where the rows have none."""
        import pyarrow as pa

        columns = {name: rows[name] for name in rows.schema.names}
        columns.setdefault(CHANGE_TYPE, pa.repeat(pa.scalar(kind), rows.num_rows))
        columns[COMMIT_VERSION] = pa.repeat(pa.scalar(self.snapshot_id, pa.int64()), rows.num_rows)
        for name in names:
            if name not in columns:
                raise NotFound.of("column", name, list(columns))
        return pa.RecordBatch.from_arrays([columns[name] for name in names], names=list(names))


@dataclass
class ReadTask(InputPartition):
    """What one task reads.

    Parameters
    ----------
    groups
        The groups of files, read one after the other; rows of several groups are never merged.
    lease
        Protects the files during the read; None when another process does, or the read is short.
    feed
        What a stream of changes adds to each row, which is an inserted one; None for other reads.
    """

    groups: tuple[FileGroup, ...]
    processor: Processor
    storage: Storage
    lease: TaskLease | None = None
    feed: FeedColumns | None = None
    where: Condition | None = None

    def rows(self, spark_schema: StructType) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Spark takes them: the columns of its schema, with Spark's Arrow types."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(spark_schema, timezone="UTC")
        names = schema.names
        if self.feed is not None:
            names = [name for name in names if name not in {CHANGE_TYPE, COMMIT_VERSION}]
            names = names or [self.processor.schema.row_keys[0].name]
        with without_stack():
            selected_fields(names, self.processor.schema)  # or raises: a user may give Spark any schema
        held = self.lease.held() if self.lease else nullcontext()
        with without_stack(), held, opened_condition(self.where) as test:
            for group in self.groups:
                for batch in leaf_rows(group, self.processor, self.storage, where=test, columns=names):
                    rows = batch if self.feed is None else self.feed.added(batch, schema.names)
                    yield rows.cast(schema)


@dataclass
class FeedTask(InputPartition):
    """The rows that a snapshot changed in some regions, each with its kind; read by one task.

    Parameters
    ----------
    comparison
        Of the snapshot with the one before.
    """

    comparison: VersionComparison
    storage: Storage
    feed: FeedColumns

    def rows(self, spark_schema: StructType) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Spark takes them: the columns of its schema, with Spark's Arrow types."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(spark_schema, timezone="UTC")
        with without_stack():
            for batch in stream_images(self.comparison, self.storage, CHANGE_TYPE, KINDS):
                yield self.feed.added(batch, schema.names).cast(schema)


def rows_of(partition: InputPartition, columns: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task; Spark makes a task of its own when there is nothing to read."""
    return partition.rows(columns) if isinstance(partition, ReadTask | FeedTask) else iter(())
