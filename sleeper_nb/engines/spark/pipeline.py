"""The data pipeline on Spark: bulk import and compaction, whose tasks read and write the table's files by themselves.

Bulk import: every row gets the number of its leaf by native expressions that mirror the partition tree; one Spark
partition per leaf (no hashing, so no two leaves share one); sorted there by Spark; written by the same writer as in
process, which checks the order. Tasks return what they wrote, and the driver commits it at once. A task that is tried
again writes another file, and only what a finished task returned is committed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.frames import check_reach, columns_text
from sleeper_nb.engines.spark.session import SparkEngine
from sleeper_nb.errors import OutcomeUnknown
from sleeper_nb.model.partitions import Partition, PartitionTree
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.types import FieldType
from sleeper_nb.operations.compaction import CompactionJob, Runner, run_job
from sleeper_nb.operations.ingest import add_written, discard_files, write_sorted
from sleeper_nb.operations.sources import conform, find_files, size_of, to_arrow
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.data_file_settings import DataFileSettings
from sleeper_nb.storage.data_files import AS_DEFAULT, DataFile
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LEAF = "__sleeper_leaf"


def bulk_import(
    engine: SparkEngine,
    store: StateStore,
    data: Any,
    *,
    message: str | None = None,
    author: str | None = None,
    writing: DataFileSettings = AS_DEFAULT,
) -> Snapshot:
    """Import data through Spark in one commit; nothing is added when any row does not fit the table."""
    check_reach(store.storage)
    job_id, size = store.clock.new_id(), size_of(data)

    def write(schema: Schema, tree: PartitionTree) -> Iterator[tuple[str, DataFile]]:
        def action(spark: SparkSession) -> list[Any]:
            frame = _frame(spark, data, schema)
            # Names and kinds of columns are checked before any row is read; values are checked by each task.
            conform(frame.limit(0).toArrow(), schema)
            return _written(frame, schema, tree, store.storage, job_id, writing).collect()

        for row in engine.run(action, "bulk import", expected_bytes=size):
            yield tree.leaves[row["leaf"]].id, _data_file(row, schema)

    try:
        return add_written(store, write, message=message, author=author)
    except OutcomeUnknown:
        raise  # the files may be in the table: they must stay
    except BaseException:
        _discard(store, job_id)
        raise


def run_on_spark(engine: SparkEngine, storage: Storage, writing: DataFileSettings = AS_DEFAULT) -> Runner:
    """Return the runner that makes each compaction job one Spark task; jobs run side by side."""
    check_reach(storage)

    def run(jobs: Sequence[CompactionJob], schema: Schema) -> Generator[tuple[CompactionJob, DataFile | None]]:
        actions = [partial(_compacted, job=job, schema=schema, storage=storage, writing=writing) for job in jobs]
        size = sum(file.bytes for job in jobs for file in job.inputs)
        return engine.run_each(actions, "compaction", expected_bytes=size)

    return run


def _compacted(
    spark: SparkSession, job: CompactionJob, schema: Schema, storage: Storage, writing: DataFileSettings
) -> tuple[CompactionJob, DataFile | None]:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield _result(0, run_job(job, schema, storage, writing), schema)

    one = spark.range(1, numPartitions=1)
    (row,) = one.mapInArrow(task, columns_text(_result_fields(schema))).collect()
    return job, _data_file(row, schema) if row["rows"] else None


def _frame(spark: SparkSession, data: Any, schema: Schema) -> DataFrame:
    if type(data).__module__.startswith("pyspark."):
        return data  # type: ignore[no-any-return]
    if isinstance(data, str):
        files = [str(path) for path in find_files(data)]
        if all(name.endswith(".parquet") for name in files):
            return spark.read.parquet(*files)
    # Spark takes nanoseconds for whole numbers, and views of strings not at all: conform first, as in process.
    return spark.createDataFrame(conform(to_arrow(data, schema), schema))


def _written(
    frame: DataFrame, schema: Schema, tree: PartitionTree, storage: Storage, job_id: str, writing: DataFileSettings
) -> DataFrame:
    leaves = [leaf.id for leaf in tree.leaves]

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batches = iter(batches)
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        number = first.column(_LEAF)[0].as_py()
        # A task may be tried again, or run twice at once: each attempt writes a file of its own.
        name = paths.data_file(leaves[number], f"{job_id}-{Clock().new_id()}")
        rows = (conform(_without_leaf(batch), schema) for batch in _chain(first, batches))
        yield _result(number, write_sorted(storage, name, schema, rows, writing), schema)

    order = [f"`{name}`" for name in schema.sort_order]
    numbered = frame.withColumn(_LEAF, _leaf_number(tree, tree.root, schema))
    return (
        numbered.repartitionById(len(leaves), _LEAF)
        .sortWithinPartitions(*order)
        .mapInArrow(task, columns_text(_result_fields(schema)))
    )


def _chain(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _without_leaf(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch]).drop_columns([_LEAF])


def _leaf_number(tree: PartitionTree, node: Partition, schema: Schema) -> Column:
    """Return the expression that walks the tree for a row and gives the place of its leaf in `tree.leaves`."""
    from pyspark.sql import functions as f

    if node.is_leaf:
        return f.lit(tree.leaves.index(node))
    left, right = (_leaf_number(tree, tree[child], schema) for child in node.child_ids)
    key = f.col(f"`{schema.row_keys[node.dimension].name}`")
    return f.when(key < f.lit(tree.split_point(node)), left).otherwise(right)


def _result_fields(schema: Schema) -> list[Field]:
    """Return the columns in which a task tells what it wrote."""
    whole = [Field(name, FieldType("long")) for name in ("leaf", "rows", "bytes")]
    keys = [Field(f"{end}_{key.name}", key.type) for end in ("min", "max") for key in schema.row_keys]
    return [*whole, Field("filename", FieldType("string")), *keys]


def _result(number: int, file: DataFile | None, schema: Schema) -> pa.RecordBatch:
    row: dict[str, Any] = {"leaf": number, "rows": 0}
    if file is not None:
        row |= {"filename": file.filename, "rows": file.rows, "bytes": file.bytes}
        row |= {f"min_{key.name}": value for key, value in zip(schema.row_keys, file.min_key, strict=True)}
        row |= {f"max_{key.name}": value for key, value in zip(schema.row_keys, file.max_key, strict=True)}
    columns = pa.schema([pa.field(field.name, field.type.arrow) for field in _result_fields(schema)])
    return pa.RecordBatch.from_pylist([row], schema=columns)


def _data_file(row: Any, schema: Schema) -> DataFile:
    least, greatest = (
        tuple(bytes(v) if isinstance(v := row[f"{end}_{key.name}"], bytearray) else v for key in schema.row_keys)
        for end in ("min", "max")
    )
    return DataFile(row["filename"], row["rows"], row["bytes"], least, greatest)


def _discard(store: StateStore, job_id: str) -> None:
    """Delete what the tasks of a failed import wrote and the table does not have."""
    written = [f.path for f in store.storage.list("data") if f"/{job_id}-" in f.path]
    discard_files(store, written)
