"""Spark tasks that read planned files by themselves, with our own reader; no row passes through the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from sleeper_nb.engines.spark.spark_errors import without_stack
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.schema import Schema
from sleeper_nb.read.read_rows import leaf_rows, opened_condition, selected_fields
from sleeper_nb.read.row_condition import Condition
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.read.scan_plan import FileGroup
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions.comparison import VersionComparison
from sleeper_nb.versions.leases import Leases
from sleeper_nb.versions.row_images import KindNames, stream_images

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

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
        """Hold the version while a block runs."""
        with self.leases() as leases, leases.held(self.table_id, self.snapshot_id, PURPOSE):
            yield


@dataclass(frozen=True, slots=True)
class FeedColumns:
    """The two columns that a stream of changes has after those of the table; the names are those of Delta's feed.

    Parameters
    ----------
    snapshot_id
        The snapshot that made the changes.
    """

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
    processor
        What processes the rows of each.
    lease
        Protects the files during the read; None when another process does, or the read is short.
    feed
        What a stream of changes adds to each row, which is an inserted one; None for other reads.
    where
        Only rows that meet it; it can be pickled.
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
    feed
        What is added to each row.
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
