"""Bulk import and compaction on Spark, whose tasks read and write the table's files by themselves.

How a bulk import works:

1. Spark's own reader reads plain local Parquet files of one schema. CSV, JSON, buckets, and what Spark reads
   differently from Arrow (nanoseconds, unsigned numbers, columns that only some files have) are read by a task for each
   file or range of row groups, with the code of an ingest in process: the same values, and the same errors.
2. Every row gets the number of its leaf by native expressions that mirror the partition tree. Each leaf is one Spark
   partition (no hashing, so no two leaves share one), which Spark sorts, and spills when it is too big for memory.
3. The same writer as in process writes the sorted rows as a stream, and checks their order.
4. Tasks return what they wrote, and the driver commits it at once. A task that is retried, or runs twice at once,
   writes another file: only what a finished task returned is committed, and the driver deletes the other files that it
   can find.
"""

from __future__ import annotations

import json
import logging
import pickle
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial, reduce
from itertools import chain, groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.engine import SparkEngine
from sleeper_nb.engines.spark.frames import (
    check_written,
    columns_text,
    exact_reader,
    hand_over_keys,
    jvm_opens,
    key_literal,
    of_arrow,
    schema_for_spark,
)
from sleeper_nb.errors import OutcomeUnknown
from sleeper_nb.model.files import FileReference
from sleeper_nb.model.keys import KeyValue, key_from_json, key_to_json
from sleeper_nb.model.partitions import Partition, PartitionTree
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.statistics import from_text, to_text
from sleeper_nb.operations.compact import JobRunner, ignore_start, run_job
from sleeper_nb.operations.compaction_plan import CompactionJob
from sleeper_nb.operations.loading.casts import JUDGED
from sleeper_nb.operations.loading.conform import (
    Conformed,
    Difference,
    RawColumns,
    compare,
    conform,
    grouped,
    no_place,
    raise_first,
)
from sleeper_nb.operations.loading.file_formats import pieces_of
from sleeper_nb.operations.loading.ingest import (
    DEFAULT_INGEST,
    IngestPlan,
    IngestSettings,
    discard_run,
    load_summary,
    plan_of_counts,
    references_to,
    rows_by_leaf,
    write_and_commit,
    write_sorted,
)
from sleeper_nb.operations.loading.key_sample import KeySample, holds_keys, rows_of_parquet, sample_of_parquet, some_of
from sleeper_nb.operations.loading.matching import EXACT, Matching
from sleeper_nb.operations.loading.parquet_files import BATCH_ROWS, open_parquet
from sleeper_nb.operations.loading.row_checks import OpenedChecks, RowCheck, opened_checks
from sleeper_nb.operations.loading.source_files import SourceFile
from sleeper_nb.operations.loading.sources import (
    IngestSource,
    InMemory,
    bytes_of,
    is_spark,
    notes_of,
    read_source,
)
from sleeper_nb.operations.row_processing import Processor
from sleeper_nb.operations.split_before_import import LeavesWanted, SplitBefore, split_before
from sleeper_nb.progress import SILENT, Progress, unchecked
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.data_files import AS_DEFAULT, DataFile, DataFileSettings
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

logger = logging.getLogger(__name__)

_TASK_BYTES = 128 << 20
"""About how much of a Parquet file one task reads."""
_MOST_TASKS = 1000
_FOOTERS_AT_ONCE = 16


def frame_of(
    spark: SparkSession, sources: Sequence[IngestSource], schema: Schema, matching: Matching = EXACT
) -> DataFrame:
    """Return the rows of all sources; Spark's own reader may give other types than the schema's."""
    if is_spark(sources):
        (source,) = sources
        assert isinstance(source, InMemory)  # noqa: S101 - no file is a DataFrame
        return source.data  # type: ignore[no-any-return]
    files = [source for source in sources if isinstance(source, SourceFile)]
    footers = _footers(files)
    if matching == EXACT and len(files) == len(sources) and _read_alike(files, footers, schema):
        return exact_reader(spark).parquet(*[file.address for file in files])
    logger.debug("%d files are read by Python tasks, not by Spark's own reader", len(files))
    # Spark reads nanoseconds as whole numbers, and refuses string views: conform first, as in process.
    frames = [
        of_arrow(spark, read_source(source, schema, matching).table(schema))
        for source in sources
        if isinstance(source, InMemory)
    ]
    return reduce(
        lambda left, right: left.unionAll(right), [*_by_tasks(spark, files, footers, schema, matching), *frames]
    )


def schema_of_frame(sources: Sequence[IngestSource]) -> pa.Schema:
    """Return the Arrow schema of a Spark DataFrame; no row is computed."""
    (source,) = sources
    assert isinstance(source, InMemory)  # noqa: S101 - callers ask `is_spark` first
    return source.data.limit(0).toArrow().schema


def first_rows(sources: Sequence[IngestSource], rows: int) -> tuple[InMemory, ...]:
    """Return the first rows of a Spark DataFrame as an Arrow table."""
    (source,) = sources
    assert isinstance(source, InMemory)  # noqa: S101 - callers ask `is_spark` first
    return (InMemory(source.data.limit(rows).toArrow()),)


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

    parts = engine.run(action, "sampling keys", expected_bytes=bytes_of(sources))
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
        return frame.mapInArrow(task, "leaf string, rows long, difference binary").collect(), of_names

    answers, of_names = engine.run(action, "planning the import")
    return _summed(answers, of_names, state, strategy)


_LOOKED_AT = pa.schema([("leaf", pa.string()), ("rows", pa.int64()), ("difference", pa.binary())])


def _looked_at(rows: Conformed, checks: OpenedChecks, schema: Schema, tree: PartitionTree) -> pa.RecordBatch:
    """Return what a task says about some rows: their number, each difference, and how many are for each leaf."""
    differences = rows.differences or tuple(checks.differences(rows.table(schema)))
    answers: list[dict[str, Any]] = [{"rows": rows.rows}]
    answers += [{"difference": pickle.dumps(each)} for each in differences]
    if not differences:
        keys = pa.table({key.name: rows.columns[key.name] for key in schema.row_keys})
        answers += [{"leaf": leaf, "rows": n} for leaf, n in rows_by_leaf(keys, tree, schema).items()]
    return pa.RecordBatch.from_pylist(answers, schema=_LOOKED_AT)


def _summed(answers: Iterable[Any], of_names: Conformed, state: TableState, strategy: str) -> IngestPlan:
    """Return the plan of an import, of what its tasks say and of how the names of the columns compare."""
    total = 0
    by_leaf: Counter[str] = Counter()
    of_values: list[Difference] = []
    for row in answers:
        if row["leaf"] is not None:
            by_leaf[row["leaf"]] += row["rows"]
        elif row["difference"] is not None:
            of_values.append(pickle.loads(row["difference"]))  # noqa: S301 - our own tasks made it
        else:
            total += row["rows"]
    named = {each.column for each in of_names.differences}
    order = {name: place for place, name in enumerate(state.schema.names)}
    more = grouped(sorted((d for d in of_values if d.column not in named), key=lambda d: order.get(d.column, -1)))
    plan = plan_of_counts(state, total, by_leaf, [*of_names.differences, *more], strategy=strategy, through_spark=True)
    return replace(plan, notes=of_names.notes)


def _compared(rows: pa.Table, schema: Schema, matching: Matching) -> Conformed:
    return compare(RawColumns.of(rows, no_place, partial(matching.names, schema=schema)), schema, matching)


def _footers(files: Sequence[SourceFile]) -> dict[str, tuple[pa.Schema, int]]:
    """Return the schema and the number of row groups of each Parquet file, by address."""

    def look(file: SourceFile) -> tuple[pa.Schema, int]:
        with open_parquet(file) as opened:
            return opened.schema_arrow, opened.num_row_groups

    parquet = [file for file in files if file.format == "parquet"]
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        return dict(zip((file.address for file in parquet), pool.map(look, parquet), strict=True))


def _read_alike(files: Sequence[SourceFile], footers: dict[str, tuple[pa.Schema, int]], schema: Schema) -> bool:
    """Return whether Spark's own reader gives the rows of all files with the table's types and values."""
    if not files or len(footers) < len({file.address for file in files}):
        return False
    first, *others = (schema for schema, _ in footers.values())
    names = [name.casefold() for name in first.names]
    return (
        all(jvm_opens(file.address) and not file.folder_values for file in files)
        and all(other.equals(first) for other in others)
        and len(set(names)) == len(names)
        and all(_alike(field.type) for field in first)
        and all(first.field(f.name).type == f.type.arrow for f in schema.fields if f.name in first.names)
        and not any(f.type.holds(*JUDGED) for f in schema.fields)
    )


def _alike(kind: pa.DataType) -> bool:
    """Return whether Spark and Arrow read the same values of an Arrow type."""
    types = pa.types
    if types.is_list(kind):
        return _alike(kind.value_type)
    if types.is_struct(kind):
        return all(_alike(part.type) for part in kind)
    if types.is_map(kind):
        return _alike(kind.key_type) and _alike(kind.item_type)
    if types.is_timestamp(kind):
        return kind.unit in {"ms", "us"}
    plain = (
        types.is_signed_integer, types.is_float32, types.is_float64, types.is_boolean, types.is_date32, types.is_string,
        types.is_large_string, types.is_binary, types.is_large_binary, types.is_decimal128,
    )  # fmt: skip
    return any(test(kind) for test in plain)


def _by_tasks(
    spark: SparkSession,
    files: Sequence[SourceFile],
    footers: dict[str, tuple[pa.Schema, int]],
    schema: Schema,
    matching: Matching,
) -> Iterator[DataFrame]:
    """Yield a frame of the conformed rows of files, read by Python tasks; nothing when there is no file."""
    pieces, for_spark = [piece for file in files for piece in _pieces(file, footers)], schema_for_spark(schema)
    if not pieces:
        return

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                file, row_groups = pieces[number]
                for rows in pieces_of(file, schema, row_groups, matching):
                    yield from rows.cast(for_spark).to_batches(BATCH_ROWS)

    numbers = spark.range(len(pieces), numPartitions=min(len(pieces), _MOST_TASKS))
    yield numbers.mapInArrow(task, columns_text(schema.fields))


def _pieces(file: SourceFile, footers: dict[str, tuple[pa.Schema, int]]) -> Iterator[tuple[SourceFile, range | None]]:
    """Yield the ranges of row groups of a file that tasks read; None for the whole file."""
    if file.address not in footers:
        yield file, None
        return
    groups = footers[file.address][1]
    count = max(1, min(groups, -(-file.bytes // _TASK_BYTES)))
    for start, end in pairwise(round(i * groups / count) for i in range(count + 1)):
        yield file, range(start, end) if count > 1 else None


# How a Spark task reports to the driver the data file that it wrote: one row for each leaf with rows in it.


def _result_fields() -> list[Field]:
    whole = [Field(name, FieldType("long")) for name in ("leaf", "leaf_rows", "attempt", "rows", "bytes")]
    texts = [Field(name, FieldType("string")) for name in ("filename", "checksum", "statistics", "min_key", "max_key")]
    return [*whole, *texts]


_RESULT_FIELDS: Final = _result_fields()
RESULT_DDL: Final = columns_text(_RESULT_FIELDS)
"""Spark's columns of `result`; keys are JSON, as PySpark returns timestamps in the time zone of this process."""


def result(file: DataFile | None, leaf_rows: Mapping[int, int] | None = None, attempt: int = 0) -> pa.RecordBatch:
    """Return the report of a task: its file, None when it had no rows, and how many rows of which leaf it has.

    Parameters
    ----------
    file
        What the task wrote.
    leaf_rows
        By the index of each leaf in the tree's leaves; None where the driver knows it.
    attempt
        How often the task was started before.
    """
    row: dict[str, Any] = {"rows": 0, "attempt": attempt, "leaf": 0, "leaf_rows": 0}
    if file is not None:
        row |= {"filename": file.filename, "rows": file.rows, "bytes": file.bytes, "checksum": file.checksum}
        row["statistics"] = to_text(file.statistics)
        row |= {"min_key": _key_text(file.min_key), "max_key": _key_text(file.max_key)}
    columns = pa.schema([pa.field(field.name, field.type.arrow) for field in _RESULT_FIELDS])
    rows = [{**row, "leaf": leaf, "leaf_rows": count} for leaf, count in (leaf_rows or {0: 0}).items()]
    return pa.RecordBatch.from_pylist(rows, schema=columns)


def _key_text(key: Sequence[KeyValue]) -> str:
    return json.dumps([key_to_json(value) for value in key])


def _key(text: str) -> tuple[KeyValue, ...]:
    return tuple(map(key_from_json, json.loads(text)))


def data_file(row: Any) -> DataFile | None:
    """Return the file that a row of `result` reports; None when the task had no rows."""
    if not row["rows"]:
        return None
    ends, statistics = (_key(row["min_key"]), _key(row["max_key"])), from_text(row["statistics"])
    return DataFile(row["filename"], row["rows"], row["bytes"], *ends, row["checksum"], statistics)


_LEAF = "__sleeper_leaf"


def bulk_import(
    engine: SparkEngine,
    store: StateStore,
    sources: Sequence[IngestSource],
    matching: Matching = EXACT,
    *,
    message: str | None = None,
    author: str | None = None,
    job_id: str | None = None,
    settings: IngestSettings = DEFAULT_INGEST,
    wanted: LeavesWanted | None = None,
    progress: Progress = SILENT,
    row_checks: Callable[[Schema], Sequence[RowCheck]] = lambda _: (),
) -> Snapshot:
    """Import data through Spark in one commit; nothing is added when any row does not fit the table.

    `row_checks` returns the CHECKs of a schema, which each task evaluates for its rows.

    If the table has one leaf and the data many rows, the leaf is split first, in a commit of its own, as `wanted` says.
    The last line of the progress says how many rows a second were imported, and which leaf got far more than its share.
    """
    load = SparkLoad(engine, store, sources, settings, matching, row_checks=row_checks)
    split = None if wanted is None else _split_before(engine, store, sources, wanted, matching)
    publish = partial(write_and_commit, store, load.write, message=message, author=author, job_id=job_id)
    if split is None:
        return load.run(publish, progress)
    publish = partial(publish, tree=split.tree, prepare=lambda: split.commit(store, author))
    return load.run(publish, progress, split.note)


def _split_before(
    engine: SparkEngine,
    store: StateStore,
    sources: Sequence[IngestSource],
    wanted: LeavesWanted,
    matching: Matching,
) -> SplitBefore | None:
    """Return how the only leaf of a table is split before files are imported; None when it is not.

    A Spark DataFrame is not sampled: to compute its rows twice could take twice as long.
    """
    files = [source for source in sources if isinstance(source, SourceFile)]
    state = store.load()
    if len(files) < len(sources) or len(state.tree.leaves) > 1:
        return None
    by_tasks = partial(sample_keys, engine, sources, matching=matching)
    if all(file.format == "parquet" for file in files):
        sample = partial(sample_of_parquet, files) if holds_keys(files, matching) else by_tasks
        return split_before(store, state, wanted, rows_of_parquet(files), sample)
    return split_before(store, state, wanted, bytes_of(files) // _LEAST_ROW_BYTES, by_tasks)


_LEAST_ROW_BYTES = 8
"""Bytes of a file in which a row of CSV or JSON takes at least, even compressed."""


class SparkLoad:
    """One load through Spark: tasks write the files, and files of failed and repeated attempts are deleted.

    Parameters
    ----------
    store
        The table's; the table need not exist yet.
    matching
        How columns become those of the table.
    row_checks
        Returns the CHECKs of a schema, which each task evaluates for its rows.
    """

    def __init__(
        self,
        engine: SparkEngine,
        store: StateStore,
        sources: Sequence[IngestSource],
        settings: IngestSettings,
        matching: Matching = EXACT,
        *,
        row_checks: Callable[[Schema], Sequence[RowCheck]],
    ) -> None:
        self._engine, self._store, self._sources, self._settings = engine, store, sources, settings
        self._matching, self._row_checks = matching, row_checks
        self._run_id, self._began = store.clock.new_id(), store.clock.now()
        self._references: list[FileReference] = []
        self._crowded: set[str] = set()  # folders in which several attempts may have written

    def write(self, schema: Schema, tree: PartitionTree) -> Iterator[FileReference]:
        """Write the rows to files of the leaves, and yield the references to them."""
        storage, sources = self._store.storage, self._sources
        reached = [storage, *(source.storage for source in sources if isinstance(source, SourceFile))]

        checks = self._row_checks(schema)

        def action(spark: SparkSession) -> tuple[list[Any], bool]:
            hand_over_keys(spark, reached)
            frame = _checked_frame(spark, sources, schema, self._matching)
            rows = _write(spark, frame, schema, tree, storage, self._run_id, self._settings, checks)
            return rows, spark.conf.get("spark.speculation", "false") == "true"

        rows, speculation = self._engine.run(action, "bulk import", expected_bytes=bytes_of(sources))
        for reference, attempt in _references(rows, tree):
            self._references.append(reference)
            if speculation or attempt:
                self._crowded.add(reference.filename.rpartition("/")[0])
            yield reference

    def run(self, publish: Callable[[], Snapshot], progress: Progress, note: str = "") -> Snapshot:
        """Return what `publish` does with the references of `write`; say what was loaded, and delete what was not."""
        store = self._store
        try:
            made = publish()
        except OutcomeUnknown:
            raise  # the files may be in the table: they must stay
        except BaseException:
            discard_run(store, self._run_id, ["data"], keep=())
            raise
        discard_run(store, self._run_id, sorted(self._crowded), keep={each.filename for each in self._references})
        progress.finish("; ".join(filter(None, (*self._summary(), note))))
        return made

    def _summary(self) -> Iterator[str]:
        """Yield the summary of the load, and what it changed."""
        state, seconds = self._store.load(), (self._store.clock.now() - self._began).total_seconds()
        if line := load_summary(self._references, state.tree, state.schema, seconds):
            yield line
        yield from notes_of(self._sources, state.schema, self._matching)


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
        size = sum(file.bytes for job in jobs for file in job.inputs)
        return engine.run_each(actions, "compaction", expected_bytes=size, check=check)

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


def _write(
    spark: SparkSession,
    frame: DataFrame,
    schema: Schema,
    tree: PartitionTree,
    storage: Storage,
    run_id: str,
    settings: IngestSettings,
    checks: Sequence[RowCheck],
) -> list[Any]:
    """Write the rows to files of their leaves, and return what each task reports about its file."""
    leaves, root = [leaf.id for leaf in tree.leaves], tree.root.id
    in_tasks = [check.picklable() for check in checks]

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        batches = iter(batches)
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        folder = leaves[first.column(_LEAF)[0].as_py()] if settings.file_per_leaf else root
        # A task may be retried, or run twice at once: each attempt writes its own file.
        name = paths.data_file(folder, f"{run_id}-{Clock().new_id()}")
        counts: Counter[int] = Counter()
        with opened_checks(in_tasks) as opened:
            rows = (_conformed(batch, schema, counts, opened) for batch in chain([first], batches))
            file = write_sorted(storage, name, schema, rows, settings.writing)
        context = TaskContext.get()
        yield result(file, counts, context.attemptNumber() if context else 0)

    order = [f"`{name}`" for name in schema.sort_order]
    numbered = frame.withColumn(_LEAF, _leaf_number(tree, schema))
    parted = numbered.repartitionById(len(leaves), _LEAF) if settings.file_per_leaf else numbered.repartition(1)
    reports = parted.sortWithinPartitions(*order).mapInArrow(task, RESULT_DDL).collect()
    check_written(spark, storage, {row["filename"] for row in reports if row["rows"]})
    return reports


def _conformed(batch: pa.RecordBatch, schema: Schema, counts: Counter[int], checks: OpenedChecks) -> pa.Table:
    """Return a batch's rows without the number of their leaf, and count the rows of each leaf."""
    for each in pc.value_counts(batch.column(_LEAF)).to_pylist():
        counts[each["values"]] += each["counts"]
    rows = conform(pa.Table.from_batches([batch]).drop_columns([_LEAF]), schema)
    raise_first(tuple(checks.differences(rows)))
    return rows


def _leaf_number(tree: PartitionTree, schema: Schema) -> Column:
    """Return the expression that walks the tree for a row, to the index of its leaf in `tree.leaves`."""
    from pyspark.sql import functions as f

    places = {leaf.id: place for place, leaf in enumerate(tree.leaves)}

    def number(node: Partition) -> Column:
        if node.is_leaf:
            return f.lit(places[node.id])
        left, right = (number(tree[child]) for child in node.child_ids)
        key = f.col(f"`{schema.row_keys[node.dimension].name}`")
        return f.when(key < key_literal(tree.split_point(node)), left).otherwise(right)

    return number(tree.root)


def _references(rows: Sequence[Any], tree: PartitionTree) -> Iterator[tuple[FileReference, int]]:
    """Yield the reference that each leaf gets, and how often the task that wrote its file was started before."""
    of_file = attrgetter("filename")
    for _, group in groupby(sorted(rows, key=of_file), of_file):
        reports = list(group)
        file = data_file(reports[0])
        assert file is not None  # noqa: S101 - a task without rows reports nothing
        for reference in references_to(file, {tree.leaves[row["leaf"]].id: row["leaf_rows"] for row in reports}):
            yield reference, reports[0]["attempt"]
