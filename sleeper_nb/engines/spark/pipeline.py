"""Bulk import and compaction on Spark, whose tasks read and write the table's files by themselves.

`bulk_tasks` says how a bulk import works: tasks sort what they read, and hand sorted pieces through Spark's shuffle to
one merge for each leaf. Files are read by the code of an ingest in process, so that there are the same values and the
same errors. The writer is the same too, and checks the order. Tasks return what they wrote, and the driver commits it
at once. A task that is retried, or runs twice at once, writes another file: only what a finished task returned is
committed, and the driver deletes the other files that it can find.
"""

from __future__ import annotations

import logging
import pickle
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.actions import ENDING_SECONDS, any_stage_again
from sleeper_nb.engines.spark.bulk_tasks import PACKED_DDL, BulkTasks
from sleeper_nb.engines.spark.engine import SparkEngine
from sleeper_nb.engines.spark.frames import (
    check_written,
    columns_text,
    hand_over_keys,
    of_arrow,
    schema_for_spark,
)
from sleeper_nb.engines.spark.load_sessions import in_session, load_session
from sleeper_nb.engines.spark.task_results import RESULT_DDL, data_file, judged_of, references_of, result
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.compact import JobRunner, ignore_start, run_job
from sleeper_nb.operations.compaction_plan import CompactionJob
from sleeper_nb.operations.loading.bulk_load import part_bytes, progress_text, slice_bytes, times_in_memory
from sleeper_nb.operations.loading.casts import JUDGED
from sleeper_nb.operations.loading.conform import (
    Conformed,
    Difference,
    RawColumns,
    compare,
    conform,
    grouped,
    no_place,
)
from sleeper_nb.operations.loading.file_formats import pieces_of, pieces_to_read
from sleeper_nb.operations.loading.ingest import (
    IngestPlan,
    IngestSettings,
    plan_of_counts,
    rows_by_leaf,
)
from sleeper_nb.operations.loading.key_sample import KeySample, some_of
from sleeper_nb.operations.loading.matching import EXACT, Matching
from sleeper_nb.operations.loading.parquet_files import BATCH_ROWS, RowGroups
from sleeper_nb.operations.loading.row_checks import NOT_JUDGED, JudgedRows, OpenedChecks, RowCheck, opened_checks
from sleeper_nb.operations.loading.run_files import ALL_MERGED, RunFiles, most_runs
from sleeper_nb.operations.loading.source_files import SourceFile
from sleeper_nb.operations.loading.sources import (
    IngestSource,
    InMemory,
    bytes_of,
    is_spark,
    read_source,
)
from sleeper_nb.operations.row_processing import Processor
from sleeper_nb.progress import unchecked
from sleeper_nb.storage.data_files import AS_DEFAULT, DataFile, DataFileSettings
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.paths import DATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

_TASK_BYTES = 128 << 20
"""About how much of a Parquet file one task reads."""
_MOST_TASKS = 1000
_FOOTERS_AT_ONCE = 16


def frame_of(
    spark: SparkSession, sources: Sequence[IngestSource], schema: Schema, matching: Matching = EXACT
) -> DataFrame:
    """Return the rows of all sources; a DataFrame of Spark may have other types than the schema's."""
    if is_spark(sources):
        return _data_frame(sources)
    files = [source for source in sources if isinstance(source, SourceFile)]
    # Spark reads nanoseconds as whole numbers, and refuses string views: conform first, as in process.
    frames = [
        of_arrow(spark, read_source(source, schema, matching).table(schema))
        for source in sources
        if isinstance(source, InMemory)
    ]
    return reduce(lambda left, right: left.unionAll(right), [*_by_tasks(spark, files, schema, matching), *frames])


def _data_frame(sources: Sequence[IngestSource]) -> DataFrame:
    """Return the DataFrame that sources are; callers ask `is_spark` first."""
    (source,) = sources
    assert isinstance(source, InMemory)  # noqa: S101 - no file is a DataFrame
    return source.data  # type: ignore[no-any-return]


def schema_of_frame(sources: Sequence[IngestSource]) -> pa.Schema:
    """Return the Arrow schema of a Spark DataFrame; no row is computed."""
    return _data_frame(sources).limit(0).toArrow().schema


def first_rows(sources: Sequence[IngestSource], rows: int) -> tuple[InMemory, ...]:
    """Return the first rows of a Spark DataFrame as an Arrow table."""
    return (InMemory(_data_frame(sources).limit(rows).toArrow()),)


def sample_keys(
    engine: SparkEngine, sources: Sequence[IngestSource], schema: Schema, size: int, *, matching: Matching = EXACT
) -> KeySample:
    """Return a sample of the row keys of data that Spark reads, and count its rows, in one pass over the keys.

    Each task keeps a share of the sample that is the same for all, and the driver weighs the shares by their rows.
    """
    keys_only, most = Schema(schema.row_keys), max(_LEAST_SHARE, size // 8)
    reached = [source.storage for source in sources if isinstance(source, SourceFile)]

    def action(spark: SparkSession) -> list[tuple[int, pa.Table]]:
        hand_over_keys(spark, reached)
        frame = _checked_frame(spark, sources, schema, matching).select(*(f"`{name}`" for name in keys_only.names))

        def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows, kept = 0, keys_only.arrow.empty_table()
            for batch in batches:
                rows += batch.num_rows
                # a batch keeps as large a share as all batches before it, so that early rows have no more weight
                part = some_of(
                    conform(pa.Table.from_batches([batch]), keys_only), -(-most * batch.num_rows // max(rows, 1))
                )
                kept = some_of(pa.concat_tables([kept, part]), most)
            yield pa.RecordBatch.from_pydict({"rows": [rows], "keys": [_as_stream(kept)]}, schema=_SAMPLED)

        answers = frame.mapInArrow(task, "rows long, keys binary").collect()
        return [(row["rows"], pa.ipc.open_stream(bytes(row["keys"])).read_all()) for row in answers]

    parts = engine.run(action, "sampling keys")
    total = sum(rows for rows, _ in parts)
    shares = [some_of(keys, max(1, size * rows // total)) for rows, keys in parts if rows]
    return KeySample(pa.concat_tables([keys_only.arrow.empty_table(), *shares]), total)


_LEAST_SHARE = 2_000
"""Keys that each task keeps at least."""
_SAMPLED = pa.schema([("rows", pa.int64()), ("keys", pa.binary())])


def _as_stream(rows: pa.Table) -> bytes:
    """Return rows in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def cast_frame(frame: DataFrame, schema: Schema, matching: Matching = EXACT) -> DataFrame:
    """Return the rows with the table's names and types, by our own rules in Python tasks if they have others.

    Spark would cast by itself, and with loss, wherever it compares a key with a split point.
    """
    from pyspark.sql.types import StructType

    rows = columns_text(schema.fields)
    wanted = {
        field.name: field.dataType.simpleString() for field in cast("StructType", StructType.fromDDL(rows)).fields
    }
    actual = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    judged = any(field.type.holds(*JUDGED) for field in schema.fields)
    is_as_wanted = matching == EXACT and not judged
    if is_as_wanted and all(actual.get(name, kind) == kind for name, kind in wanted.items()):
        return frame

    for_spark = schema_for_spark(schema)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from conform(pa.Table.from_batches([batch]), schema, matching).cast(for_spark).to_batches()

    return frame.mapInArrow(task, rows)


def plan_frame(
    engine: SparkEngine,
    state: TableState,
    sources: Sequence[IngestSource],
    matching: Matching = EXACT,
    *,
    strategy: str,
    checks: Sequence[RowCheck] = (),
) -> IngestPlan:
    """Return what an import of a Spark DataFrame would do; each task looks at its own rows."""
    schema, tree = state.schema, state.tree
    in_tasks = [check.picklable() for check in checks]

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with opened_checks(in_tasks) as opened:
            for batch in batches:
                yield _looked_at(_compared(pa.Table.from_batches([batch]), schema, matching), opened, schema, tree)

    def action(spark: SparkSession) -> tuple[list[Any], Conformed]:
        frame = frame_of(spark, sources, schema, matching)
        of_names = _compared(frame.limit(0).toArrow(), schema, matching)
        return frame.mapInArrow(task, "leaf string, rows long, difference binary, judged binary").collect(), of_names

    answers, of_names = engine.run(action, "planning the import")
    return _summed(answers, of_names, state, strategy)


_LOOKED_AT = pa.schema(
    [("leaf", pa.string()), ("rows", pa.int64()), ("difference", pa.binary()), ("judged", pa.binary())]
)


def _looked_at(rows: Conformed, checks: OpenedChecks, schema: Schema, tree: PartitionTree) -> pa.RecordBatch:
    """Return what a task says about some rows: their number, each difference, and how many are for each leaf."""
    differences = rows.differences or tuple(checks.differences(rows.table(schema)))
    answers: list[dict[str, Any]] = [{"rows": rows.rows}]
    answers += [{"difference": pickle.dumps(each)} for each in differences]
    if not differences:
        answers.append({"judged": pickle.dumps(checks.judged(rows.table(schema)))})
        keys = pa.table({key.name: rows.columns[key.name] for key in schema.row_keys})
        answers += [{"leaf": leaf, "rows": n} for leaf, n in rows_by_leaf(keys, tree, schema).items()]
    return pa.RecordBatch.from_pylist(answers, schema=_LOOKED_AT)


def _summed(answers: Iterable[Any], of_names: Conformed, state: TableState, strategy: str) -> IngestPlan:
    """Return the plan of an import, of what its tasks say and of how the names of the columns compare."""
    total = 0
    by_leaf: Counter[str] = Counter()
    of_values: list[Difference] = []
    judged = JudgedRows()
    for row in answers:
        if row["leaf"] is not None:
            by_leaf[row["leaf"]] += row["rows"]
        elif row["difference"] is not None:
            of_values.append(pickle.loads(row["difference"]))  # noqa: S301 - our own tasks made it
        elif row["judged"] is not None:
            judged = judged.plus(pickle.loads(row["judged"]))  # noqa: S301 - as above
        else:
            total += row["rows"]
    named = {each.column for each in of_names.differences}
    order = {name: place for place, name in enumerate(state.schema.names)}
    more = grouped(sorted((d for d in of_values if d.column not in named), key=lambda d: order.get(d.column, -1)))
    plan = plan_of_counts(state, total, by_leaf, [*of_names.differences, *more], strategy=strategy, through_spark=True)
    return replace(plan, notes=of_names.notes, broken=tuple(judged.broken.values()))


def _compared(rows: pa.Table, schema: Schema, matching: Matching) -> Conformed:
    return compare(RawColumns.of(rows, no_place, partial(matching.names, schema=schema)), schema, matching)


def _by_tasks(
    spark: SparkSession, files: Sequence[SourceFile], schema: Schema, matching: Matching
) -> Iterator[DataFrame]:
    """Yield a frame of the conformed rows of files, read by Python tasks; nothing when there is no file."""
    pieces, for_spark = _pieces(files), schema_for_spark(schema)
    if not pieces:
        return

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _read(batches, pieces, schema, matching):
            yield from rows.cast(for_spark).to_batches(BATCH_ROWS)

    yield _numbers(spark, pieces).mapInArrow(task, columns_text(schema.fields))


_FilePiece: TypeAlias = tuple[SourceFile, RowGroups | None]
"""A file, and the row groups of it that a task reads; None for the whole file."""


def _pieces(files: Sequence[SourceFile], most_bytes: int = _TASK_BYTES) -> list[_FilePiece]:
    """Return what each task reads."""

    def pieces(file: SourceFile) -> list[_FilePiece]:
        return [(file, row_groups) for row_groups in pieces_to_read(file, most_bytes)]

    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        return [piece for found in pool.map(pieces, files) for piece in found]


def _numbers(spark: SparkSession, pieces: Sequence[_FilePiece], most: int = _MOST_TASKS) -> DataFrame:
    return spark.range(len(pieces), numPartitions=min(len(pieces), most)).toDF("number")


def _read(
    batches: Iterable[pa.RecordBatch], pieces: Sequence[_FilePiece], schema: Schema, matching: Matching
) -> Iterator[pa.Table]:
    """Yield the rows of the pieces whose numbers a task gets."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            file, row_groups = pieces[number]
            yield from pieces_of(file, schema, row_groups, matching)


class SparkWriter:
    """Writes the rows of a load to files of the leaves, by tasks of Spark (`bulk_tasks`).

    Parameters
    ----------
    storage
        The table's folder.
    sources, matching
        What is loaded, and how columns become those of the table.
    settings
        How files are written, and how much memory each task takes.
    row_checks
        Returns the CHECKs and expectations of a table, which each task evaluates for its rows.
    is_maintained
        Returns whether the table is compacted without anybody asking.
    """

    def __init__(
        self,
        engine: SparkEngine,
        storage: Storage,
        sources: Sequence[IngestSource],
        matching: Matching,
        settings: IngestSettings,
        row_checks: Callable[[Schema], Sequence[RowCheck]],
        is_maintained: Callable[[], bool] = lambda: False,
    ) -> None:
        self._engine, self._storage, self._sources, self._settings = engine, storage, sources, settings
        self._matching, self._row_checks, self._is_maintained = matching, row_checks, is_maintained
        self.crowded: set[str] = set()  # folders in which several attempts may have written
        self.judged, self.run_files = NOT_JUDGED, ALL_MERGED

    def planned(self, _: Schema, tree: PartitionTree) -> RunFiles:
        """Return which runs `write` would make files; nothing is written."""
        if not self._may_leave_runs():
            return ALL_MERGED
        return self._engine.run(partial(self._run_files, tree=tree), "planning the import")

    def _may_leave_runs(self) -> bool:
        merge = self._settings.merge
        return merge is False or (merge is None and self._is_maintained())

    def _run_files(self, spark: SparkSession, tree: PartitionTree) -> RunFiles:
        expected, is_asked = _expected_bytes(self._sources), self._settings.merge is False
        if not (expected or is_asked):
            return ALL_MERGED  # of unknown size
        runs = RunFiles.of(expected, slice_bytes(self._settings), _writing_tasks(spark, tree), len(tree.leaves))
        return runs if is_asked else runs.if_few()

    def write(self, run_id: str, schema: Schema, tree: PartitionTree) -> Iterator[FileReference]:
        """Write all rows to files whose names begin with an id, and yield the references to them."""
        sources, reached = self._sources, [self._storage]
        reached += [source.storage for source in sources if isinstance(source, SourceFile)]
        checks = tuple(check.picklable() for check in self._row_checks(schema))
        rate, may_leave_runs = _Rate(self._engine.clock), self._may_leave_runs()
        new_tasks = partial(BulkTasks, self._storage, schema, tree, self._settings, run_id, checks)

        def action(spark: SparkSession) -> tuple[list[Any], bool]:
            hand_over_keys(spark, reached)
            own = _data_frame(sources) if is_spark(sources) else None
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
        """Let tasks write the files, and return their reports."""
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
        plan = _data_frame(sources)._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - PySpark has no other way
        size = int(str(plan.stats().sizeInBytes()))
        return size if size < _MOST_BELIEVED else 0
    return times_in_memory(bytes_of(sources))


_MOST_BELIEVED = 1 << 40
"""Spark's optimizer multiplies the sizes of tables that are joined: a larger estimate tells nothing."""


def _merging_tasks(spark: SparkSession, tree: PartitionTree, settings: IngestSettings, expected: int) -> int:
    """Return how many tasks merge: one for each leaf, or as many as there are cores for much data in few leaves."""
    if not settings.file_per_leaf:
        return 1
    at_once = spark.sparkContext.defaultParallelism if expected >= part_bytes(settings) else 1
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
    sorted_rows
        Gets the number of rows of each slice.
    """

    spark: SparkSession
    sources: Sequence[IngestSource]
    schema: Schema
    matching: Matching
    sorted_rows: Callable[[int], None]

    @property
    def groups(self) -> int:
        """How many groups of tasks there are: one for all files, and one for each source in memory or of Spark."""
        return len({0 if isinstance(source, SourceFile) else id(source) for source in self.sources})

    def frame(self, piece_bytes: int, step: _FirstStep, ddl: str, at_once: int = _MOST_TASKS) -> DataFrame:
        """Return what a step makes of all rows.

        Parameters
        ----------
        piece_bytes
            About how much of a file a task reads at once.
        step, ddl
            The step, and Spark's columns of what it yields.
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
        pieces = _pieces([source for source in self.sources if isinstance(source, SourceFile)], piece_bytes)

        def of_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from step(_read(batches, pieces, schema, matching), sorted_rows)

        def of_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from step((conform(pa.Table.from_batches([batch]), schema) for batch in batches), sorted_rows)

        in_memory = [
            _in_tasks(of_arrow(self.spark, read_source(source, schema, matching).table(schema)), at_once)
            for source in self.sources
            if isinstance(source, InMemory)
        ]
        of_pieces = [_numbers(self.spark, pieces, at_once).mapInArrow(of_files, ddl)] if pieces else []
        frames = [*of_pieces, *(rows.mapInArrow(of_rows, ddl) for rows in in_memory)]
        return reduce(lambda left, right: left.unionAll(right), frames)


def _in_tasks(frame: DataFrame, most: int) -> DataFrame:
    """Return a frame that at most so many tasks compute; Spark's own number where any will do."""
    return frame if most == _MOST_TASKS else frame.coalesce(most)


def _checked_frame(
    spark: SparkSession, sources: Sequence[IngestSource], schema: Schema, matching: Matching = EXACT
) -> DataFrame:
    """Return the rows to import; columns are checked before any row is read, values by each task."""
    frame = frame_of(spark, sources, schema, matching)
    is_conformed = not is_spark(sources)  # by tasks, which already gave the table's names
    of_frame = EXACT if is_conformed else matching
    conform(frame.limit(0).toArrow(), schema, of_frame)
    return cast_frame(frame, schema, of_frame)


def run_on_spark(
    engine: SparkEngine,
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
