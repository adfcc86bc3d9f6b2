"""Data to load as Spark DataFrames: read by Spark's own reader or, with the same values, by Arrow in tasks.

Spark's reader is the quicker one for plain local Parquet files of one schema. CSV, JSON, buckets, and what Spark reads
otherwise than Arrow (nanoseconds, unsigned numbers, columns that only some files have) are read by a task for each file
or range of row groups, with the code of an ingest in process: the same values, and the same errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from sleeper_nb.engines.spark.frames import columns_text, exact_reader
from sleeper_nb.engines.spark.reach import jvm_opens
from sleeper_nb.engines.spark.session import SparkEngine
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.loading.conforming import Difference, RawColumns, compare, conform, no_place
from sleeper_nb.operations.loading.file_formats import BATCH_ROWS, open_parquet, pieces_of
from sleeper_nb.operations.loading.ingest import rows_by_leaf
from sleeper_nb.operations.loading.ingest_plan import IngestPlan, make_plan
from sleeper_nb.operations.loading.source_files import SourceFile
from sleeper_nb.operations.loading.sources import InMemory, Source, conformed, is_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASK_BYTES = 128 << 20
"""About how much of a Parquet file one task reads."""
_MOST_TASKS = 1000
_FOOTERS_AT_ONCE = 16


def frame_of(spark: SparkSession, sources: Sequence[Source], schema: Schema) -> DataFrame:
    """Return the rows of all sources; those that Spark's own reader gives may have other types than the schema's."""
    if is_spark(sources):
        (source,) = sources
        assert isinstance(source, InMemory)  # noqa: S101 - no file is a DataFrame
        return source.data  # type: ignore[no-any-return]
    files = [source for source in sources if isinstance(source, SourceFile)]
    footers = _footers(files)
    if len(files) == len(sources) and _read_alike(files, footers, schema):
        return exact_reader(spark).parquet(*[file.address for file in files])
    # Spark takes nanoseconds for whole numbers, and views of strings not at all: conform first, as in process.
    frames = [
        spark.createDataFrame(conformed(source, schema).table(schema))
        for source in sources
        if isinstance(source, InMemory)
    ]
    return reduce(lambda left, right: left.unionAll(right), [*_by_tasks(spark, files, footers, schema), *frames])


def cast_frame(frame: DataFrame, schema: Schema) -> DataFrame:
    """Return the rows with the table's types, cast in Python tasks by our own rule; as they are where they have them.

    Spark would cast by itself, and with loss, wherever it compares a key with a split point.
    """
    from pyspark.sql.types import StructType

    rows = columns_text(schema.fields)
    wanted = {
        field.name: field.dataType.simpleString() for field in cast("StructType", StructType.fromDDL(rows)).fields
    }
    there = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    if all(there.get(name, kind) == kind for name, kind in wanted.items()):
        return frame

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from conform(pa.Table.from_batches([batch]), schema).to_batches()

    return frame.mapInArrow(task, rows)


def plan_frame(engine: SparkEngine, state: TableState, sources: Sequence[Source], *, strategy: str) -> IngestPlan:
    """Return what an import of a Spark DataFrame would do; each task looks at its own rows."""
    schema, tree = state.schema, state.tree

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = compare(RawColumns.of(pa.Table.from_batches([batch]), no_place), schema)
            rows: list[dict[str, Any]] = [{"rows": found.rows}]
            rows += [{"column": d.column, "problem": d.problem, "change": d.change} for d in found.differences]
            if not found.differences:
                keys = pa.table({key.name: found.columns[key.name] for key in schema.row_keys})
                rows += [{"leaf": leaf, "rows": n} for leaf, n in rows_by_leaf(keys, tree, schema).items()]
            yield pa.RecordBatch.from_pylist(rows, schema=_LOOKED)

    def action(spark: SparkSession) -> tuple[list[Any], list[Difference]]:
        frame = frame_of(spark, sources, schema)
        named = compare(RawColumns.of(frame.limit(0).toArrow()), schema).differences
        return frame.mapInArrow(
            task, "leaf string, rows long, column string, problem string, change string"
        ).collect(), [*named]

    looked, named = engine.run(action, "planning the import")
    rows = sum(row["rows"] for row in looked if row["leaf"] is None and row["column"] is None)
    by_leaf: Counter[str] = Counter()
    for row in looked:
        if row["leaf"] is not None:
            by_leaf[row["leaf"]] += row["rows"]
    told = {
        row["column"]: Difference(row["column"], row["problem"], row["change"])
        for row in reversed(looked)
        if row["column"]
    }
    differences = {d.column: d for d in (*named, *told.values())}
    order = {name: place for place, name in enumerate(schema.names)}
    more = sorted((d for d in differences.values() if d not in named), key=lambda d: order.get(d.column, -1))
    return make_plan(state, rows, by_leaf, [*named, *more], strategy=strategy, through_spark=True)


_LOOKED = pa.schema([
    ("leaf", pa.string()), ("rows", pa.int64()), ("column", pa.string()), ("problem", pa.string()),
    ("change", pa.string()),
])  # fmt: skip


def _footers(files: Sequence[SourceFile]) -> dict[str, tuple[pa.Schema, int]]:
    """Return the schema and the number of row groups of each Parquet file, by address."""

    def look(file: SourceFile) -> tuple[pa.Schema, int]:
        with open_parquet(file) as opened:
            return opened.schema_arrow, opened.num_row_groups

    parquet = [file for file in files if file.format == "parquet"]
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        return dict(zip((file.address for file in parquet), pool.map(look, parquet), strict=True))


def _read_alike(files: Sequence[SourceFile], footers: dict[str, tuple[pa.Schema, int]], schema: Schema) -> bool:
    """Return whether Spark's own reader gives the rows of all files, with the types and values that the table has."""
    if not files or len(footers) < len({file.address for file in files}):
        return False
    first, *others = (schema for schema, _ in footers.values())
    names = [name.casefold() for name in first.names]
    return (
        all(jvm_opens(file.address) for file in files)
        and all(other.equals(first) for other in others)
        and len(set(names)) == len(names)
        and all(_alike(field.type) for field in first)
        and all(first.field(f.name).type == f.type.arrow for f in schema.fields if f.name in first.names)
    )


def _alike(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_list(kind):
        return _alike(kind.value_type)
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
    spark: SparkSession, files: Sequence[SourceFile], footers: dict[str, tuple[pa.Schema, int]], schema: Schema
) -> Iterator[DataFrame]:
    """Yield the rows of files, conformed, read in Python tasks; nothing when there is no file."""
    pieces = [piece for file in files for piece in _pieces(file, footers)]
    if not pieces:
        return

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                file, row_groups = pieces[number]
                for rows in pieces_of(file, schema, row_groups):
                    yield from rows.to_batches(BATCH_ROWS)

    numbers = spark.range(len(pieces), numPartitions=min(len(pieces), _MOST_TASKS))
    yield numbers.mapInArrow(task, columns_text(schema.fields))


def _pieces(file: SourceFile, footers: dict[str, tuple[pa.Schema, int]]) -> Iterator[tuple[SourceFile, range | None]]:
    if file.address not in footers:
        yield file, None
        return
    groups = footers[file.address][1]
    count = max(1, min(groups, -(-file.bytes // _TASK_BYTES)))
    for start, end in pairwise(round(i * groups / count) for i in range(count + 1)):
        yield file, range(start, end) if count > 1 else None
