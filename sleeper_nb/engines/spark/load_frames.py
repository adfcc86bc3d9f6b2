"""The rows of a load as a frame of Spark: Python tasks read its files, and conform them, as an ingest in process does.

So there are the same values, and the same errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias, cast

import pyarrow as pa

from sleeper_nb.engines.spark.frames import columns_text, of_arrow, schema_for_spark
from sleeper_nb.load.casts import JUDGED
from sleeper_nb.load.conform import conform
from sleeper_nb.load.file_formats import BATCH_ROWS, RowGroups, pieces_of, pieces_to_read
from sleeper_nb.load.load_options import EXACT, Matching
from sleeper_nb.load.source_files import SourceFile
from sleeper_nb.load.sources import IngestSource, InMemory, is_spark, read_source
from sleeper_nb.model.schema import Schema

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
    files = [source for source in sources if isinstance(source, SourceFile)]
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
    """Return the DataFrame that sources are; callers ask `is_spark` first."""
    (source,) = sources
    assert isinstance(source, InMemory)  # noqa: S101 - no file is a DataFrame
    return source.data  # type: ignore[no-any-return]


def schema_of_frame(sources: Sequence[IngestSource]) -> pa.Schema:
    """Return the Arrow schema of a Spark DataFrame; no row is computed."""
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
    spark: SparkSession, files: Sequence[SourceFile], schema: Schema, matching: Matching
) -> Iterator[DataFrame]:
    """Yield a frame of the conformed rows of files, read by Python tasks; nothing when there is no file."""
    pieces, for_spark = pieces_of_files(files), schema_for_spark(schema)
    if not pieces:
        return

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in rows_of_pieces(batches, pieces, schema, matching):
            yield from rows.cast(for_spark).to_batches(BATCH_ROWS)

    yield numbers_of(spark, pieces).mapInArrow(task, columns_text(schema.fields))


FilePiece: TypeAlias = tuple[SourceFile, RowGroups | None]
"""A file, and the row groups of it that a task reads; None for the whole file."""


def pieces_of_files(files: Sequence[SourceFile], most_bytes: int = _TASK_BYTES) -> list[FilePiece]:
    """Return what each task reads."""

    def pieces(file: SourceFile) -> list[FilePiece]:
        return [(file, row_groups) for row_groups in pieces_to_read(file, most_bytes)]

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
            file, row_groups = pieces[number]
            yield from pieces_of(file, schema, row_groups, matching)
