"""Bulk imports and compactions on Spark, whose tasks read and write the table's files by themselves.

`bulk_tasks` says how: tasks sort what they read, and hand sorted pieces through Spark's shuffle to one merge for each
leaf. The writer is that of an ingest in process, and checks the order. Tasks return what they wrote, and the driver
commits it at once. A task that is retried, or runs twice at once, writes another file: only what a finished task
returned is committed, and the driver deletes the other files that it can find.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from sleeper_nb.engines.engine import TaskLoad
from sleeper_nb.engines.spark.actions import ENDING_SECONDS, any_stage_again
from sleeper_nb.engines.spark.bulk_tasks import PACKED_DDL, BulkTasks, WrittenByTask
from sleeper_nb.engines.spark.frames import REPORT_DDL, check_written, hand_over_keys, report, reports
from sleeper_nb.engines.spark.gateway import query_execution
from sleeper_nb.engines.spark.load_frames import RowsOfLoad, spark_frame
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.load.bulk_load import slice_bytes, times_in_memory
from sleeper_nb.load.row_checks import NOT_JUDGED, JudgedRows, no_rows_judged
from sleeper_nb.load.sorted_runs import ALL_MERGED, RunFiles, most_runs
from sleeper_nb.load.sources import IngestSource, bytes_of, is_spark
from sleeper_nb.maintain.compact import JobRunner, ignore_start, run_job
from sleeper_nb.maintain.compaction_plan import CompactionJob
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import unchecked
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.storage.data_files import AS_DEFAULT, DataFile, DataFileSettings
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.paths import DATA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkWriter:
    """Writes the rows of a load to files of the leaves, by tasks of Spark (`bulk_tasks`)."""

    def __init__(self, runtime: SparkRuntime, load: TaskLoad) -> None:
        self._engine, self._load = runtime, load
        self._storage, self._sources, self._settings = load.storage, load.sources, load.settings
        self.crowded: set[str] = set()  # folders in which several attempts may have written
        self.judged, self.run_files = NOT_JUDGED, ALL_MERGED

    def planned(self, _: Schema, tree: PartitionTree) -> RunFiles:
        """Return which runs `write` would make files; nothing is written."""
        if not self._may_leave_runs():
            return ALL_MERGED
        return self._engine.run(partial(self._run_files, tree=tree), "planning the import")

    def _may_leave_runs(self) -> bool:
        merge = self._settings.merge
        return merge is False or (merge is None and self._load.is_maintained)

    def _run_files(self, spark: SparkSession, tree: PartitionTree) -> RunFiles:
        expected, is_asked = _expected_bytes(self._sources), self._settings.merge is False
        if not (expected or is_asked):
            return ALL_MERGED  # of unknown size
        runs = RunFiles.of(expected, slice_bytes(self._settings), _writing_tasks(spark, tree), len(tree.leaves))
        return runs if is_asked else runs.if_few()

    def write(self, run_id: str, schema: Schema, tree: PartitionTree) -> Iterator[FileReference]:
        """Write all rows to files whose names begin with an id, and yield the references to them."""
        rows = RowsOfLoad(self._sources, schema, self._load.matching)
        checks = tuple(check.picklable() for check in self._load.row_checks(schema))
        tasks = BulkTasks(self._storage, schema, tree, self._settings, run_id, checks)

        def action(spark: SparkSession) -> tuple[list[WrittenByTask], bool]:
            hand_over_keys(spark, [self._storage, *rows.storages])
            self.run_files = self._run_files(spark, tree) if self._may_leave_runs() else ALL_MERGED
            made = self._reports(spark, rows, tasks)
            check_written(spark, self._storage, {each.filename for task in made for each in task.references})
            speculation = spark.conf.get("spark.speculation", "false") == "true"
            return made, speculation or any_stage_again(spark.sparkContext)

        try:
            made, is_repeated = self._engine.run(action, "bulk import")
        except BaseException:
            if self.run_files.most:  # other tasks may still run, and write: the caller deletes their files
                self._engine.clock.sleep(ENDING_SECONDS)
            raise
        self.judged = reduce(JudgedRows.plus, (task.judged for task in made), no_rows_judged(checks))
        for task in made:
            for reference in task.references:
                if is_repeated or task.attempt:
                    # without a merge, an attempt that failed may have written files of any leaf
                    self.crowded.add(DATA if self.run_files.most else reference.filename.rpartition("/")[0])
                yield reference

    def _reports(self, spark: SparkSession, rows: RowsOfLoad, tasks: BulkTasks) -> list[WrittenByTask]:
        tasks = replace(tasks, expected_bytes=_expected_bytes(rows.sources))
        piece_bytes = slice_bytes(self._settings)
        if self.run_files.most:
            at_once = _writing_tasks(spark, tasks.tree)
            writing = replace(tasks, runs=self.run_files.of_worker(rows.groups * at_once))
            return reports(rows.frame(spark, writing.write_runs, REPORT_DDL, piece_bytes, at_once))
        cutting = replace(tasks, merging=_merging_tasks(spark, tasks))
        return reports(cutting.merged(rows.frame(spark, cutting.cut, PACKED_DDL, piece_bytes)))


def _expected_bytes(sources: Sequence[IngestSource]) -> int:
    """Return about how many bytes of rows sources have in memory; of DataFrames, as far as Spark's optimizer knows."""
    if is_spark(sources):
        plan = query_execution(spark_frame(sources)).optimizedPlan()
        size = int(str(plan.stats().sizeInBytes()))
        return size if size < _MOST_BELIEVED else 0
    return times_in_memory(bytes_of(sources))


_MOST_BELIEVED = 1 << 40
"""Spark's optimizer multiplies the sizes of tables that are joined: a larger estimate tells nothing."""


def _merging_tasks(spark: SparkSession, tasks: BulkTasks) -> int:
    """Return how many tasks merge: one for each leaf, or as many as there are cores for much data in few leaves."""
    if not tasks.settings.file_per_leaf:
        return 1
    at_once = spark.sparkContext.defaultParallelism if tasks.expected_bytes >= tasks.settings.task_bytes else 1
    return max(len(tasks.tree.leaves), at_once)


def _writing_tasks(spark: SparkSession, tree: PartitionTree) -> int:
    """Return how many tasks write sorted runs as files: as many as there are cores, if a leaf may get that many."""
    return max(1, min(spark.sparkContext.defaultParallelism, most_runs(len(tree.leaves))))


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
            yield report(run_job(job, schema, storage, writing, process=process))

    hand_over_keys(spark, [storage])
    (made,) = reports(spark.range(1, numPartitions=1).mapInArrow(task, REPORT_DDL))
    check_written(spark, storage, [made.filename] if made else ())
    return job, made
