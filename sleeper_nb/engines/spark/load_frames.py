"""The rows of a load as a frame of Spark: Python tasks read its files, and conform them, as an ingest in process does.

So there are the same values, and the same errors. What an import would do is planned by such tasks, and they sample its
keys.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

from sleeper_nb.engines.spark.frames import arrow_lacks, columns_text, hand_over_keys, of_arrow, schema_for_spark
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.errors import InvalidInput
from sleeper_nb.load.casts import JUDGED
from sleeper_nb.load.conform import Conformed, Difference, RawColumns, compare, conform, grouped, no_place
from sleeper_nb.load.file_formats import BATCH_ROWS, Piece, StoredSource, pieces_of, pieces_to_read
from sleeper_nb.load.ingest import plan_of_counts, rows_by_leaf
from sleeper_nb.load.load_options import EXACT, Matching
from sleeper_nb.load.load_report import IngestPlan
from sleeper_nb.load.row_checks import JudgedRows, OpenedChecks, RowCheck, opened_checks
from sleeper_nb.load.sorted_runs import packed
from sleeper_nb.load.sources import IngestSource, InMemory, is_spark, read_source
from sleeper_nb.load.split import KeySample, some_of
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.model.state import TableState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_TASK_BYTES = 128 << 20
"""About how much of a Parquet file one task reads."""
MOST_TASKS = 1000
"""How many tasks read the files of one load, at the most."""
_FOOTERS_AT_ONCE = 16


def frame_of(
    spark: SparkSession, sources: Sequence[IngestSource], schema: Schema, matching: Matching = EXACT
) -> DataFrame:
    """Return the rows of all sources; a DataFrame of Spark may have other types than the schema's."""
    if is_spark(sources):
        return spark_frame(sources)
    files = [source for source in sources if not isinstance(source, InMemory)]
    # Spark reads nanoseconds as whole numbers, and refuses string views: conform first, as in process.
    frames = [
        of_arrow(spark, read_source(source, schema, matching).table(schema))
        for source in sources
        if isinstance(source, InMemory)
    ]
    return reduce(lambda left, right: left.unionAll(right), [*_by_tasks(spark, files, schema, matching), *frames])


def checked_frame(
    spark: SparkSession, sources: Sequence[IngestSource], schema: Schema, matching: Matching = EXACT
) -> DataFrame:
    """Return the rows to import; columns are checked before any row is read, values by each task."""
    frame = frame_of(spark, sources, schema, matching)
    is_conformed = not is_spark(sources)  # by tasks, which already gave the table's names
    of_frame = EXACT if is_conformed else matching
    conform(frame.limit(0).toArrow(), schema, of_frame)
    return cast_frame(frame, schema, of_frame)


def spark_frame(sources: Sequence[IngestSource]) -> DataFrame:
    """Return the DataFrame that sources are; callers ask `is_spark` first.

    `InvalidInput` when it has a column for which Arrow, in which all rows are loaded, has no type.
    """
    (source,) = sources
    assert isinstance(source, InMemory)  # noqa: S101 - no file is a DataFrame
    frame: DataFrame = source.data
    lacking = next((field for field in frame.schema.fields if arrow_lacks(field.dataType)), None)
    if lacking is not None:
        kind = lacking.dataType.simpleString()
        raise InvalidInput(
            f"column {lacking.name!r} cannot be loaded: Arrow has no type for Spark's {kind}",
            hint=f"cast it to text first: CAST({quoted_name(lacking.name, '`')} AS string)",
        )
    return frame


def schema_of_frame(sources: Sequence[IngestSource]) -> pa.Schema:
    """Return the Arrow schema of a Spark DataFrame, of which no row is computed."""
    return spark_frame(sources).limit(0).toArrow().schema


def first_rows(sources: Sequence[IngestSource], rows: int) -> tuple[InMemory, ...]:
    """Return the first rows of a Spark DataFrame as an Arrow table."""
    return (InMemory(spark_frame(sources).limit(rows).toArrow()),)


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


def _by_tasks(
    spark: SparkSession, files: Sequence[StoredSource], schema: Schema, matching: Matching
) -> Iterator[DataFrame]:
    """Yield a frame of the conformed rows of files, read by Python tasks; nothing when there is no file."""
    pieces, for_spark = pieces_of_files(files), schema_for_spark(schema)
    if not pieces:
        return

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in rows_of_pieces(batches, pieces, schema, matching):
            yield from rows.cast(for_spark).to_batches(BATCH_ROWS)

    yield numbers_of(spark, pieces).mapInArrow(task, columns_text(schema.fields))


FilePiece: TypeAlias = tuple[StoredSource, Piece]
"""A file or lake table, and what a task reads of it."""


def pieces_of_files(files: Sequence[StoredSource], most_bytes: int = _TASK_BYTES) -> list[FilePiece]:
    """Return what each task reads."""

    def pieces(file: StoredSource) -> list[FilePiece]:
        return [(file, piece) for piece in pieces_to_read(file, most_bytes)]

    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        return [piece for found in pool.map(pieces, files) for piece in found]


def numbers_of(spark: SparkSession, pieces: Sequence[FilePiece], most: int = MOST_TASKS) -> DataFrame:
    """Return a frame of the numbers of pieces, for tasks that read these (`rows_of_pieces`)."""
    return spark.range(len(pieces), numPartitions=min(len(pieces), most)).toDF("number")


def rows_of_pieces(
    batches: Iterable[pa.RecordBatch], pieces: Sequence[FilePiece], schema: Schema, matching: Matching
) -> Iterator[pa.Table]:
    """Yield the rows of the pieces whose numbers a task gets."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            file, piece = pieces[number]
            yield from pieces_of(file, schema, piece, matching)


_LOOKED_AT = pa.schema(
    [("leaf", pa.string()), ("rows", pa.int64()), ("difference", pa.binary()), ("judged", pa.binary())]
)


def plan_frame(
    engine: SparkRuntime,
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


_LEAST_SHARE = 2_000
"""Keys that each task keeps at least."""
_SAMPLED = pa.schema([("rows", pa.int64()), ("keys", pa.binary())])


def sample_keys(
    engine: SparkRuntime, sources: Sequence[IngestSource], schema: Schema, size: int, *, matching: Matching = EXACT
) -> KeySample:
    """Return a sample of the row keys of data that Spark reads, and count its rows, in one pass over the keys.

    Each task keeps a share of the sample that is the same for all, and the driver weighs the shares by their rows.
    """
    keys_only, most = Schema(schema.row_keys), max(_LEAST_SHARE, size // 8)
    reached = [source.storage for source in sources if not isinstance(source, InMemory)]

    def action(spark: SparkSession) -> list[tuple[int, pa.Table]]:
        hand_over_keys(spark, reached)
        frame = checked_frame(spark, sources, schema, matching).select(*(f"`{name}`" for name in keys_only.names))

        def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows, kept = 0, keys_only.arrow.empty_table()
            for batch in batches:
                rows += batch.num_rows
                # a batch keeps as large a share as all batches before it, so that early rows have no more weight
                part = some_of(
                    conform(pa.Table.from_batches([batch]), keys_only), -(-most * batch.num_rows // max(rows, 1))
                )
                kept = some_of(pa.concat_tables([kept, part]), most)
            yield pa.RecordBatch.from_pydict({"rows": [rows], "keys": [bytes(packed(kept))]}, schema=_SAMPLED)

        answers = frame.mapInArrow(task, "rows long, keys binary").collect()
        return [(row["rows"], pa.ipc.open_stream(bytes(row["keys"])).read_all()) for row in answers]

    parts = engine.run(action, "sampling keys")
    total = sum(rows for rows, _ in parts)
    shares = [some_of(keys, max(1, size * rows // total)) for rows, keys in parts if rows]
    return KeySample(pa.concat_tables([keys_only.arrow.empty_table(), *shares]), total)
