"""Compaction on Spark: each job is one task, which writes the new file; the driver commits it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from sleeper_nb.engines.spark.frames import check_written, hand_over_keys
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.engines.spark.task_results import RESULT_DDL, data_file, result
from sleeper_nb.maintain.compact import JobRunner, ignore_start, run_job
from sleeper_nb.maintain.compaction_plan import CompactionJob
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import unchecked
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.storage.data_files import AS_DEFAULT, DataFile, DataFileSettings
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_on_spark(
    engine: SparkRuntime,
    storage: Storage,
    writing: DataFileSettings = AS_DEFAULT,
    on_start: Callable[[str], None] = ignore_start,
    check: Callable[[], None] = unchecked,
) -> JobRunner:
    """Return the runner that makes each compaction job one Spark task; jobs run side by side."""

    def run(jobs: Sequence[CompactionJob], schema: Schema) -> Generator[tuple[CompactionJob, DataFile | None]]:
        compacted = partial(_compacted, schema=schema, storage=storage, writing=writing, on_start=on_start)
        actions = [partial(compacted, job=job) for job in jobs]
        return engine.run_each(actions, "compaction", check=check)

    return run


def _compacted(
    spark: SparkSession,
    job: CompactionJob,
    schema: Schema,
    storage: Storage,
    writing: DataFileSettings,
    on_start: Callable[[str], None],
) -> tuple[CompactionJob, DataFile | None]:
    on_start(job.id)
    process = Processor.of(job.processing, schema)  # here: only the notebook may have an iterator's code

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield result(run_job(job, schema, storage, writing, process=process))

    hand_over_keys(spark, [storage])
    (row,) = spark.range(1, numPartitions=1).mapInArrow(task, RESULT_DDL).collect()
    made = data_file(row)
    check_written(spark, storage, [made.filename] if made else ())
    return job, made
