"""Tasks of Spark that read planned files for themselves, with our own kernel; no row passes through the driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from sleeper_nb.operations.processing.processing import Processor
from sleeper_nb.operations.scanning.reading import asked_fields, leaf_rows
from sleeper_nb.operations.scanning.tasks import FileGroup
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class ReadTask(InputPartition):
    """What one task reads.

    Parameters
    ----------
    groups
        One after the other; rows of several groups never meet.
    processor
        What is done with the rows of each.
    storage
        The table's folder.
    """

    groups: tuple[FileGroup, ...]
    processor: Processor
    storage: Storage

    def rows(self, spark_schema: StructType) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Spark takes them: the columns of its schema, with the Arrow types that it has for them."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(spark_schema, timezone="UTC")
        asked_fields(schema.names, self.processor.schema)  # or raises: a user may give Spark any schema
        for group in self.groups:
            for batch in leaf_rows(group, self.processor, self.storage, columns=schema.names):
                yield batch.cast(schema)


def rows_of(partition: InputPartition, columns: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task; Spark makes one of its own where there is nothing to read."""
    return partition.rows(columns) if isinstance(partition, ReadTask) else iter(())
