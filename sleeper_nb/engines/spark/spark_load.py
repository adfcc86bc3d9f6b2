"""Bulk imports and compactions on Spark, whose tasks read and write the table's files by themselves.

`bulk_tasks` says how: tasks sort what they read, and hand sorted pieces through Spark's shuffle to one merge for each
leaf. The writer is that of an ingest in process, and checks the order. Tasks return what they wrote, and the driver
commits it at once. A task that is retried, or runs twice at once, writes another file: only what a finished task
returned is committed, and the driver deletes the other files that it can find.

A load has a session of its own, with settings of its own: those of the user's session stay, also for other threads. A
DataFrame is computed in a copy of its own session, as settings like ANSI, the time zone, the parser of times and old
casts decide what its values are, and the session of the engine may have others. Spark hands rows to Python in batches
of 10,000, which costs a fifth more CPU time than larger ones. Batches are limited by bytes as well, so that wide rows
and packed pieces take no more memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pyarrow as pa

from sleeper_nb.clock import Clock
from sleeper_nb.engines.engine import TaskLoad
from sleeper_nb.engines.spark.actions import ENDING_SECONDS, any_stage_again
from sleeper_nb.engines.spark.bulk_tasks import (
    PACKED_DDL,
    RESULT_DDL,
    BulkTasks,
    data_file,
    judged_of,
    references_of,
    result,
)
from sleeper_nb.engines.spark.frames import check_written, hand_over_keys, of_arrow
from sleeper_nb.engines.spark.gateway import frame_of_plan, java_frame, java_session, query_execution
from sleeper_nb.engines.spark.load_frames import (
    MOST_TASKS,
    frame_of,
    numbers_of,
    pieces_of_files,
    rows_of_pieces,
    spark_frame,
)
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.load.bulk_load import progress_text, slice_bytes, times_in_memory
from sleeper_nb.load.conform import conform
from sleeper_nb.load.ingest import IngestSettings
from sleeper_nb.load.load_options import Matching
from sleeper_nb.load.row_checks import NOT_JUDGED
from sleeper_nb.load.sorted_runs import ALL_MERGED, RunFiles, most_runs
from sleeper_nb.load.sources import IngestSource, InMemory, bytes_of, is_spark, read_source
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
    from pyspark.sql import DataFrame, SparkSession


class SparkWriter:
    """Writes the rows of a load to files of the leaves, by tasks of Spark (`bulk_tasks`)."""

    def __init__(self, runtime: SparkRuntime, load: TaskLoad) -> None:
        self._engine, self._load = runtime, load
        self._storage, self._sources, self._settings, self._matching = (
            load.storage,
            load.sources,
            load.settings,
            load.matching,
        )
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
        sources, reached = self._sources, [self._storage]
        reached += [source.storage for source in sources if not isinstance(source, InMemory)]
        checks = tuple(check.picklable() for check in self._load.row_checks(schema))
        rate, may_leave_runs = _Rate(self._engine.clock), self._may_leave_runs()
        new_tasks = partial(BulkTasks, self._storage, schema, tree, self._settings, run_id, checks)

        def action(spark: SparkSession) -> tuple[list[Any], bool]:
            hand_over_keys(spark, reached)
            own = spark_frame(sources) if is_spark(sources) else None
            spark = load_session(spark, slice_bytes(self._settings) // 4, own)
            self.run_files = self._run_files(spark, tree) if may_leave_runs else ALL_MERGED
            rows = self._reports(
                _SortedRows(spark, sources, schema, self._matching, rate.begin(spark)), tree, new_tasks
            )
            check_written(spark, self._storage, {row["filename"] for row in rows if row["rows"]})
            speculation = spark.conf.get("spark.speculation", "false") == "true"
            return rows, speculation or any_stage_again(spark.sparkContext)

        try:
            rows, is_repeated = self._engine.run(action, "bulk import", detail=rate.text)
        except BaseException:
            if self.run_files.most:  # other tasks may still run, and write: the caller deletes their files
                self._engine.clock.sleep(ENDING_SECONDS)
            raise
        self.judged = judged_of(rows, checks)
        for reference, attempt in references_of(rows, tree):
            if is_repeated or attempt:
                # without a merge, an attempt that failed may have written files of any leaf
                self.crowded.add(DATA if self.run_files.most else reference.filename.rpartition("/")[0])
            yield reference

    def _reports(self, rows: _SortedRows, tree: PartitionTree, new_tasks: Callable[..., BulkTasks]) -> list[Any]:
        expected, piece_bytes = _expected_bytes(rows.sources), slice_bytes(self._settings)
        if self.run_files.most:
            at_once = _writing_tasks(rows.spark, tree)
            runs = self.run_files.of_worker(rows.groups * at_once)
            step = new_tasks(merging=0, expected_bytes=expected, runs=runs).write_runs
            return rows.frame(piece_bytes, step, RESULT_DDL, at_once).collect()
        merging = _merging_tasks(rows.spark, tree, self._settings, expected)
        tasks = new_tasks(merging=merging, expected_bytes=expected)
        return tasks.merged(rows.frame(piece_bytes, tasks.cut, PACKED_DDL)).collect()


class _Rate:
    """How many rows a second the tasks of a load have sorted."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._began, self._rows = clock, clock.now(), cast("Any", None)

    def begin(self, spark: SparkSession) -> Callable[[int], None]:
        """Return what tasks call with the number of rows that they sorted; Spark adds them up as tasks end."""
        self._began, self._rows = self._clock.now(), spark.sparkContext.accumulator(0)
        return cast("Callable[[int], None]", self._rows.add)

    def text(self, done: int, total: int) -> str:
        """Return what the progress says after the name of the work, when so many of all tasks are done."""
        rows = 0 if self._rows is None else self._rows.value
        seconds = (self._clock.now() - self._began).total_seconds()
        return progress_text("", rows, seconds, done / total if total else 0) if rows else ""


def _expected_bytes(sources: Sequence[IngestSource]) -> int:
    """Return about how many bytes of rows sources have in memory; of DataFrames, as far as Spark's optimizer knows."""
    if is_spark(sources):
        plan = query_execution(spark_frame(sources)).optimizedPlan()
        size = int(str(plan.stats().sizeInBytes()))
        return size if size < _MOST_BELIEVED else 0
    return times_in_memory(bytes_of(sources))


_MOST_BELIEVED = 1 << 40
"""Spark's optimizer multiplies the sizes of tables that are joined: a larger estimate tells nothing."""


def _merging_tasks(spark: SparkSession, tree: PartitionTree, settings: IngestSettings, expected: int) -> int:
    """Return how many tasks merge: one for each leaf, or as many as there are cores for much data in few leaves."""
    if not settings.file_per_leaf:
        return 1
    at_once = spark.sparkContext.defaultParallelism if expected >= settings.task_bytes else 1
    return max(len(tree.leaves), at_once)


def _writing_tasks(spark: SparkSession, tree: PartitionTree) -> int:
    """Return how many tasks write sorted runs as files: as many as there are cores, if a leaf may get that many."""
    return max(1, min(spark.sparkContext.defaultParallelism, most_runs(len(tree.leaves))))


_FirstStep: TypeAlias = Callable[[Iterable[pa.Table], Callable[[int], None]], Iterator[pa.RecordBatch]]
"""What a task makes of conformed rows; it calls the second argument with the number of rows that it sorted."""


@dataclass(frozen=True, slots=True)
class _SortedRows:
    """The rows of a load, which tasks read, sort and hand on.

    Parameters
    ----------
    sources, schema, matching
        What is loaded; columns are compared with the schema before any row is read.
    """

    spark: SparkSession
    sources: Sequence[IngestSource]
    schema: Schema
    matching: Matching
    sorted_rows: Callable[[int], None]

    @property
    def groups(self) -> int:
        """How many groups of tasks there are: one for all files, and one for each source in memory or of Spark."""
        return len({id(source) if isinstance(source, InMemory) else 0 for source in self.sources})

    def frame(self, piece_bytes: int, step: _FirstStep, ddl: str, at_once: int = MOST_TASKS) -> DataFrame:
        """Return what a step makes of all rows.

        Parameters
        ----------
        piece_bytes
            About how much of a file a task reads at once.
        at_once
            The most tasks of each group.
        """
        schema, matching, sorted_rows = self.schema, self.matching, self.sorted_rows
        if is_spark(self.sources):
            frame = in_session(frame_of(self.spark, self.sources, schema, matching), self.spark)
            conform(frame.limit(0).toArrow(), schema, matching)

            def of_frame(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                rows = (conform(pa.Table.from_batches([batch]), schema, matching) for batch in batches)
                yield from step(rows, sorted_rows)

            return _in_tasks(frame, at_once).mapInArrow(of_frame, ddl)
        pieces = pieces_of_files([each for each in self.sources if not isinstance(each, InMemory)], piece_bytes)

        def of_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from step(rows_of_pieces(batches, pieces, schema, matching), sorted_rows)

        def of_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from step((conform(pa.Table.from_batches([batch]), schema) for batch in batches), sorted_rows)

        in_memory = [
            _in_tasks(of_arrow(self.spark, read_source(source, schema, matching).table(schema)), at_once)
            for source in self.sources
            if isinstance(source, InMemory)
        ]
        of_pieces = [numbers_of(self.spark, pieces, at_once).mapInArrow(of_files, ddl)] if pieces else []
        frames = [*of_pieces, *(rows.mapInArrow(of_rows, ddl) for rows in in_memory)]
        return reduce(lambda left, right: left.unionAll(right), frames)


def _in_tasks(frame: DataFrame, most: int) -> DataFrame:
    """Return a frame that at most so many tasks compute; Spark's own number where any will do."""
    return frame if most == MOST_TASKS else frame.coalesce(most)


logger = logging.getLogger(__name__)

_BATCH_ROWS: Final = 65_536
_ROWS, _BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"


def load_session(spark: SparkSession, batch_bytes: int, frame: DataFrame | None = None) -> SparkSession:
    """Return a session with the settings and views of another, except for the most that a batch of rows may have.

    The other is that of `frame`, which decides what its values are; `spark` for other rows.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:  # the JVM knows the session: PySpark may name another for a frame that the JVM made
        other = java_session(spark) if frame is None else java_frame(frame).sparkSession()
        own = _wrapped(spark, other.cloneSession())
    except (Py4JError, PySparkException) as error:
        logger.debug(
            "a Spark that cannot copy its session loads with the batches that it has: %s", type(error).__name__
        )
        return spark if frame is None else frame.sparkSession
    own.conf.set(_ROWS, _BATCH_ROWS)
    own.conf.set(_BYTES, batch_bytes)
    return own


def _wrapped(spark: SparkSession, session: Any) -> SparkSession:
    """Return a session of the JVM as PySpark has it; `pyspark.RDD.toDF` stays that of the user's session."""
    from pyspark import RDD
    from pyspark.sql import SparkSession

    before = RDD.toDF
    try:
        return SparkSession(spark.sparkContext, session)
    finally:
        RDD.toDF = before  # type: ignore[method-assign]  # PySpark gives it to the latest session


def in_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Return a DataFrame as one of `spark`, a copy of its session: its plan is computed with the settings of that."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if frame.sparkSession is spark:
        return frame
    try:
        # not the analyzed plan: a command would run again
        return frame_of_plan(spark, java_frame(frame).logicalPlan())
    except (Py4JError, PySparkException, TypeError) as error:
        logger.debug("Spark computes a DataFrame with the settings of its session: %s", type(error).__name__)
        return frame


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
