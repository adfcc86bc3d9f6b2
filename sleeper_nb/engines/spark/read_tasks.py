"""Spark tasks that read planned files by themselves, with our own reader; no row passes through the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from sleeper_nb.engines.spark.spark_errors import without_stack
from sleeper_nb.operations.row_processing import Processor
from sleeper_nb.operations.scanning.read_rows import leaf_rows, selected_fields
from sleeper_nb.operations.scanning.scan_plan import FileGroup
from sleeper_nb.operations.versioning.leases import Leases
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

PURPOSE: Final = "spark"
"""The purpose that the leases of Spark's readers state."""


@dataclass(frozen=True, slots=True)
class TaskLease:
    """A lease that protects a version's files while a task reads them in its own process.

    Parameters
    ----------
    leases
        Opens the leases of the instance, in any process.
    table_id, snapshot_id
        The version.
    """

    leases: Callable[[], AbstractContextManager[Leases]]
    table_id: str
    snapshot_id: int

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the version while a block runs."""
        with self.leases() as leases, leases.held(self.table_id, self.snapshot_id, PURPOSE):
            yield


@dataclass
class ReadTask(InputPartition):
    """What one task reads.

    Parameters
    ----------
    groups
        The groups of files, read one after the other; rows of several groups are never merged.
    processor
        What processes the rows of each.
    storage
        The table's folder.
    lease
        Protects the files during the read; None when another process does, or the read is short.
    """

    groups: tuple[FileGroup, ...]
    processor: Processor
    storage: Storage
    lease: TaskLease | None = None

    def rows(self, spark_schema: StructType) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Spark takes them: the columns of its schema, with Spark's Arrow types."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(spark_schema, timezone="UTC")
        with without_stack():
            selected_fields(schema.names, self.processor.schema)  # or raises: a user may give Spark any schema
        with without_stack(), self.lease.held() if self.lease else nullcontext():
            for group in self.groups:
                for batch in leaf_rows(group, self.processor, self.storage, columns=schema.names):
                    yield batch.cast(schema)


def rows_of(partition: InputPartition, columns: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task; Spark makes a task of its own when there is nothing to read."""
    return partition.rows(columns) if isinstance(partition, ReadTask) else iter(())
