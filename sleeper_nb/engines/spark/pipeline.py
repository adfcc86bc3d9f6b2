"""The data pipeline on Spark: bulk import and compaction, whose tasks read and write the table's files by themselves.

Bulk import: every row gets the number of its leaf by native expressions that mirror the partition tree; one Spark
partition per leaf (no hashing, so no two leaves share one); sorted there by Spark, which spills what is too big for
memory; written by the same writer as in process, as a stream, which checks the order. Tasks return what they wrote, and
the driver commits it at once. A task that is tried again, or run twice at once, writes another file: only what a
finished task returned is committed, and files of the others are deleted where the driver can know of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.loading import cast_frame, frame_of
from sleeper_nb.engines.spark.reach import check_written, hand_over_keys
from sleeper_nb.engines.spark.session import SparkEngine
from sleeper_nb.engines.spark.written_files import data_file, result, result_ddl
from sleeper_nb.errors import OutcomeUnknown
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import Partition, PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.operations.compacting.compaction import Runner, run_job, untold
from sleeper_nb.operations.compacting.job_plan import CompactionJob
from sleeper_nb.operations.loading.conforming import conform
from sleeper_nb.operations.loading.ingest import (
    AS_USUAL,
    IngestSettings,
    add_written,
    discard_files,
    references_to,
    write_sorted,
)
from sleeper_nb.operations.loading.load_summary import summary
from sleeper_nb.operations.loading.source_files import SourceFile
from sleeper_nb.operations.loading.sources import Source, bytes_of, notes_of
from sleeper_nb.operations.processing.processing import Processor
from sleeper_nb.progress import SILENT, Progress, unchecked
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
    sources: Sequence[Source],
    *,
    message: str | None = None,
    author: str | None = None,
    job_id: str | None = None,
    settings: IngestSettings = AS_USUAL,
    progress: Progress = SILENT,
) -> Snapshot:
    """Import data through Spark in one commit; nothing is added when any row does not fit the table.

    The last line of the progress says how many rows a second, and which leaf got far more than its share.
    """
    run_id, began = store.clock.new_id(), store.clock.now()
    reached = [store.storage, *(source.storage for source in sources if isinstance(source, SourceFile))]
    references: list[FileReference] = []
    crowded: set[str] = set()  # folders in which several attempts may have written

    def write(schema: Schema, tree: PartitionTree) -> Iterator[FileReference]:
        def action(spark: SparkSession) -> tuple[list[Any], bool]:
            hand_over_keys(spark, reached)
            frame = _checked_frame(spark, sources, schema)
            rows = _write(spark, frame, schema, tree, store.storage, run_id, settings)
            return rows, spark.conf.get("spark.speculation", "false") == "true"

        rows, speculation = engine.run(action, "bulk import", expected_bytes=bytes_of(sources))
        for reference, attempt in _references(rows, schema, tree):
            references.append(reference)
            if speculation or attempt:
                crowded.add(reference.filename.rpartition("/")[0])
            yield reference

    try:
        made = add_written(store, write, message=message, author=author, job_id=job_id)
    except OutcomeUnknown:
        raise  # the files may be in the table: they must stay
    except BaseException:
        _discard(store, run_id, ["data"], keep=())
        raise
    _discard(store, run_id, sorted(crowded), keep={reference.filename for reference in references})
    progress.finish("; ".join(_said(store, sources, references, began)))
    return made


def _said(
    store: StateStore, sources: Sequence[Source], references: Sequence[FileReference], began: datetime
) -> Iterator[str]:
    """Yield the summary of an import, and what it changed."""
    state = store.load()
    if line := summary(references, state.tree, state.schema, (store.clock.now() - began).total_seconds()):
        yield line
    yield from notes_of(sources, state.schema)


def _checked_frame(spark: SparkSession, sources: Sequence[Source], schema: Schema) -> DataFrame:
    """Return the rows to import; names and kinds of columns are checked before any is read, values by each task."""
    frame = frame_of(spark, sources, schema)
    conform(frame.limit(0).toArrow(), schema)
    return cast_frame(frame, schema)


def run_on_spark(
    engine: SparkEngine,
    storage: Storage,
    writing: DataFileSettings = AS_DEFAULT,
    begun: Callable[[CompactionJob], None] = untold,
    check: Callable[[], None] = unchecked,
) -> Runner:
    """Return the runner that makes each compaction job one Spark task; jobs run side by side."""

    def run(jobs: Sequence[CompactionJob], schema: Schema) -> Generator[tuple[CompactionJob, DataFile | None]]:
        compacted = partial(_compacted, schema=schema, storage=storage, writing=writing, begun=begun)
        actions = [partial(compacted, job=job) for job in jobs]
        size = sum(file.bytes for job in jobs for file in job.inputs)
        return engine.run_each(actions, "compaction", expected_bytes=size, check=check)

    return run


def _compacted(
    spark: SparkSession,
    job: CompactionJob,
    schema: Schema,
    storage: Storage,
    writing: DataFileSettings,
    begun: Callable[[CompactionJob], None],
) -> tuple[CompactionJob, DataFile | None]:
    begun(job)
    process = Processor.of(job.processing, schema)  # here, as an iterator may be known to the notebook alone

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield result(run_job(job, schema, storage, writing, process=process), schema)

    hand_over_keys(spark, [storage])
    (row,) = spark.range(1, numPartitions=1).mapInArrow(task, result_ddl(schema)).collect()
    made = data_file(row, schema)
    check_written(spark, storage, [made.filename] if made else ())
    return job, made


def _write(
    spark: SparkSession,
    frame: DataFrame,
    schema: Schema,
    tree: PartitionTree,
    storage: Storage,
    run_id: str,
    settings: IngestSettings,
) -> list[Any]:
    """Write the rows to files of their leaves, and return what each task tells of its file."""
    leaves, root = [leaf.id for leaf in tree.leaves], tree.root.id

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        batches = iter(batches)
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        folder = leaves[first.column(_LEAF)[0].as_py()] if settings.file_per_leaf else root
        # A task may be tried again, or run twice at once: each attempt writes a file of its own.
        name = paths.data_file(folder, f"{run_id}-{Clock().new_id()}")
        counts: Counter[int] = Counter()
        rows = (_conformed(batch, schema, counts) for batch in chain([first], batches))
        file = write_sorted(storage, name, schema, rows, settings.writing)
        context = TaskContext.get()
        yield result(file, schema, counts, context.attemptNumber() if context else 0)

    order = [f"`{name}`" for name in schema.sort_order]
    numbered = frame.withColumn(_LEAF, _leaf_number(tree, schema))
    parted = numbered.repartitionById(len(leaves), _LEAF) if settings.file_per_leaf else numbered.repartition(1)
    told = parted.sortWithinPartitions(*order).mapInArrow(task, result_ddl(schema)).collect()
    check_written(spark, storage, {row["filename"] for row in told if row["rows"]})
    return told


def _conformed(batch: pa.RecordBatch, schema: Schema, counts: Counter[int]) -> pa.Table:
    """Return a batch's rows without the number of their leaf, which is counted."""
    for each in pc.value_counts(batch.column(_LEAF)).to_pylist():
        counts[each["values"]] += each["counts"]
    return conform(pa.Table.from_batches([batch]).drop_columns([_LEAF]), schema)


def _leaf_number(tree: PartitionTree, schema: Schema) -> Column:
    """Return the expression that walks the tree for a row and gives the place of its leaf in `tree.leaves`."""
    from pyspark.sql import functions as f

    places = {leaf.id: place for place, leaf in enumerate(tree.leaves)}

    def number(node: Partition) -> Column:
        if node.is_leaf:
            return f.lit(places[node.id])
        left, right = (number(tree[child]) for child in node.child_ids)
        key = f.col(f"`{schema.row_keys[node.dimension].name}`")
        return f.when(key < f.lit(tree.split_point(node)), left).otherwise(right)

    return number(tree.root)


def _references(rows: Sequence[Any], schema: Schema, tree: PartitionTree) -> Iterator[tuple[FileReference, int]]:
    """Yield the reference that each leaf gets, and how often the task that wrote its file was begun before."""
    of_file = attrgetter("filename")
    for _, group in groupby(sorted(rows, key=of_file), of_file):
        told = list(group)
        file = data_file(told[0], schema)
        assert file is not None  # noqa: S101 - a task without rows tells nothing
        for reference in references_to(file, {tree.leaves[row["leaf"]].id: row["leaf_rows"] for row in told}):
            yield reference, told[0]["attempt"]


def _discard(store: StateStore, run_id: str, folders: Iterable[str], *, keep: Iterable[str]) -> None:
    """Delete what tasks of an import wrote in some folders and the table does not have."""
    found = [f.path for folder in folders for f in store.storage.list(folder) if f"/{run_id}-" in f.path]
    if lost := set(found) - set(keep):
        discard_files(store, lost)
