"""Spark: planned scans as DataFrames, and SQL over them.

Spark's own reader opens local folders, and buckets that an S3 file system of the session reaches (`file_systems`).
Everything else is read by Python tasks with our own storage, which each task opens by itself; no S3 jars are needed. A
task on a cluster finds keys as boto3 does there: by the role, profile or environment of its machine. A local Spark runs
on this machine, but its workers have the environment of the moment it started, so they get the current AWS variables.
Keys never leave this machine. Machines may not share a folder, so the driver checks that it sees what tasks of a
cluster wrote to a folder, before anything refers to it.
"""

from __future__ import annotations

import contextlib
import logging
import operator
import os
import pickle
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zlib import crc32

import numpy as np
import pyarrow as pa

from sleeper_nb.engines.spark.file_systems import opened_by, scheme_for
from sleeper_nb.engines.spark.gateway import java_class, query_execution, session_state
from sleeper_nb.engines.spark.jvm import is_local
from sleeper_nb.errors import InvalidInput, StorageError, first_line
from sleeper_nb.model.deletions import FILE_NUMBER, PLACES, POSITION
from sleeper_nb.model.keys import KeyValue, plain_time
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.read.live_rows import PlacedFile, Positions, placed_files, placed_schema, positions_of
from sleeper_nb.read.predicate import MOST_REGIONS, Comparison, Condition, comparisons_in
from sleeper_nb.read.read_rows import check_files, leaf_rows, placed_rows
from sleeper_nb.read.row_processing import Processor, in_microseconds
from sleeper_nb.read.scan_plan import FileGroup, PlannedFile, ScanPlan, groups_of
from sleeper_nb.sql.bound_lakes import BoundLake, LakeColumn
from sleeper_nb.sql.chart_sums import ChartQuery, ChartValue
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.variables import BoundVariable
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import DataType

logger = logging.getLogger(__name__)

T = TypeVar("T")

NAMES_AND_SETTINGS: Final = threading.RLock()
"""Held while a statement names views, or changes a setting, of the Spark session that all threads share."""


def hand_over_keys(spark: SparkSession, storages: Iterable[Storage]) -> None:
    """Let Python tasks that start from now on find this process's keys, if Spark is local."""
    context = spark.sparkContext
    if all(storage.local for storage in storages) or not _on_this_machine(spark):
        return
    for name in {name for name in (*context.environment, *os.environ) if name.startswith("AWS_")}:
        # one variable at a time, never empty in between: compaction jobs start their tasks side by side
        if name in os.environ:
            context.environment[name] = os.environ[name]
        else:
            context.environment.pop(name, None)


def check_written(spark: SparkSession, storage: Storage, files: Iterable[str]) -> None:
    """Make sure that this process sees the files which tasks wrote.

    Raises
    ------
    StorageError
        When a machine of a cluster wrote into its own folder, naming the file.
    """
    if not _on_this_machine(spark):
        check_seen(storage, files)


def check_seen(storage: Storage, files: Iterable[str]) -> None:
    """Make sure that this process sees files which tasks wrote; errors as `check_written`."""
    if not storage.local:
        return
    for file in files:
        if not storage.has(file):
            raise StorageError(
                f"a worker of Spark wrote {storage.locate(file)}, which is not on this machine",
                hint="keep the warehouse at s3://…, or in a folder that all machines share",
            )


def _on_this_machine(spark: SparkSession) -> bool:
    return is_local(spark.sparkContext.master)


_TYPE_NAMES = {"long": "bigint", "bytearray": "binary", "list": "array", "uuid": "string", "time": "time(6)"}


def type_text(field_type: FieldType) -> str:
    """Return a field's type in Spark's words."""
    name = _TYPE_NAMES.get(field_type.name, field_type.name)
    if field_type.name == "decimal":
        return str(field_type)
    if field_type.name == "struct":
        members = (f"{quoted_name(each.name, '`')}: {type_text(each.type)}" for each in field_type.arguments)
        return f"struct<{', '.join(members)}>"
    inner = ", ".join(type_text(argument) for argument in field_type.arguments)
    return f"{name}<{inner}>" if inner else name


def arrow_for_spark(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type in which Spark takes the values of a column: times of day in nanoseconds."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(arrow_for_spark(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(arrow_for_spark(kind.key_type), arrow_for_spark(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(arrow_for_spark(kind.value_type))
    return pa.time64("ns") if pa.types.is_time(kind) else kind


def schema_for_spark(schema: Schema) -> pa.Schema:
    return pa.schema([each.with_type(arrow_for_spark(each.type)) for each in schema.arrow])


def columns_text(fields: Iterable[Field | LakeColumn]) -> str:
    return ", ".join(f"{quoted_name(field.name, '`')} {type_text(field.type)}" for field in fields)


def data_frame(spark: SparkSession, plan: ScanPlan, storage: Storage, *, with_places: bool = False) -> DataFrame:
    """Return the rows of a plan as a DataFrame; data goes from the files to the executors, not through the driver.

    Files that Spark's own reader does not open (`file_systems`) are read by a Python task each, with our own storage.

    Parameters
    ----------
    with_places
        Whether the columns `deletions.PLACES` follow those of the schema; only for plans that process no rows.

    Raises
    ------
    AssertionError
        When rows that are processed would have places.
    """
    placed = placed_files(plan) if with_places else []
    if not plan.files:
        return spark.createDataFrame([], _columns(plan.schema, with_places=with_places))
    scheme, parts = scheme_for(spark, plan, storage), None
    if scheme is not None:
        with _listing(plan, storage):
            parts = _parts(spark, plan, storage, scheme, with_places=with_places)
    if parts is None:
        logger.debug("%d files are read by Python tasks, not by Spark's own reader", len(plan.files))
        return _placed_by_tasks(spark, placed, plan.schema, storage) if with_places else _by_tasks(spark, plan, storage)
    rows_of_parts = reduce(lambda left, right: left.unionAll(right), parts)
    return reduce(lambda frame, test: frame.filter(test), _kept(plan.processing, plan.schema), rows_of_parts)


def _columns(schema: Schema, *, with_places: bool) -> str:
    text = columns_text(schema.fields)
    return f"{text}, `{FILE_NUMBER}` int, `{POSITION}` bigint" if with_places else text


def exact_reader(spark: SparkSession) -> DataFrameReader:
    """Return a reader that gives all rows of its files unchanged, or fails, whatever the session's settings are.

    Settings could skip damaged or missing files, and shift dates before 1582 into another calendar. Parquet's Java
    library takes 0.0 and -0.0 for different values where it compares a condition with the dictionary of a column.
    """
    return spark.read.options(
        **{
            "ignoreCorruptFiles": "false",
            "ignoreMissingFiles": "false",
            "datetimeRebaseMode": "CORRECTED",
            "int96RebaseMode": "CORRECTED",
            "parquet.page.verify-checksum.enabled": "true",
            "parquet.filter.dictionary.enabled": "false",
        }
    )


@contextlib.contextmanager
def _listing(plan: ScanPlan, storage: Storage) -> Iterator[None]:
    """Check the files of a plan after a block in which Spark lists them.

    Spark takes a file that is gone when it is listed for one without rows, as it does an empty one. It fails at one
    that goes later.
    """
    try:
        yield
    finally:
        check_files(plan.files, storage)


def _parts(
    spark: SparkSession, plan: ScanPlan, storage: Storage, scheme: str, *, with_places: bool
) -> list[DataFrame] | None:
    """Return the rows of a plan's files that count, which nothing processes; None where Spark cannot tell their places.

    `scheme` is from `scheme_for`.
    """
    schema, parts = plan.schema, list[Any]()
    stored, names = columns_text(schema.in_files.fields), [*schema.names, *(PLACES.names if with_places else ())]
    numbers = {name: number for number, name in enumerate(plan.filenames)} if with_places else {}
    for (region, has_deleted), files in plan.by_region_and_deletions().items():
        paths = [opened_by(scheme, storage.locate(file.filename)) for file in files]
        stored_rows = exact_reader(spark).schema(stored).parquet(*paths)
        rows = _placed(stored_rows, files, storage, numbers) if has_deleted or with_places else stored_rows
        if rows is None:
            return None
        part = rows.toDF(*names)
        parts.append(part if region is None else part.filter(_inside(region, schema)))
    return parts


def _placed(
    rows: DataFrame, files: Sequence[PlannedFile], storage: Storage, numbers: Mapping[str, int]
) -> DataFrame | None:
    """Return the rows of files without deleted ones, with their places where the files have `numbers`.

    None where Spark cannot tell places: it gives the position of a row, and a checksum of its file's name tells files.
    """
    from pyspark.sql import functions as f

    names = [file.filename.rpartition("/")[2] for file in files]
    checksums = [crc32(name.encode()) for name in names]
    is_told = len(set(checksums)) == len(files) and all(map(_PLAIN_NAME.fullmatch, names))
    if not is_told or any(name.casefold().startswith(_OF_SPARK) for name in rows.columns):
        return None
    spark, columns = rows.sparkSession, [f.col(quoted_name(name, "`")) for name in rows.columns]
    checksum = f.crc32(f.col("_metadata.file_name").cast("binary"))
    placed = rows.select(*columns, checksum.alias(_CHECKSUM), f.col("_metadata.row_index").alias(POSITION))
    positions = (positions_of(file.deletions, storage) for file in files)
    deleted: Any = pa.concat_tables(map(_deleted_blocks, positions, checksums))
    if deleted.num_rows:
        place = f.shiftleft(f.col(_CHECKSUM), _BITS).bitwiseOR(f.shiftright(f.col(POSITION), _BLOCK))
        is_deleted = (place == f.col(_PLACE)) & f.expr(_IS_DELETED)
        placed = placed.join(f.broadcast(spark.createDataFrame(deleted)), is_deleted, "left_anti")
    if numbers:
        numbered = pa.array([numbers[file.filename] for file in files], pa.int32())
        known: Any = pa.table({_CHECKSUM: pa.array(checksums, pa.int64()), FILE_NUMBER: numbered})
        placed = placed.join(f.broadcast(spark.createDataFrame(known)), _CHECKSUM)
    return placed.select(*columns, *(PLACES.names if numbers else ()))


def _deleted_blocks(positions: Positions, checksum: int) -> pa.Table:
    """Return the blocks of a file that have deleted rows: the place of each, and a bit for each of its rows.

    Rows of a file come in order, so those that follow each other look up the same bits, which are in the processor's
    cache; one place for each deleted row would be two times slower.
    """
    blocks, at = np.unique(positions >> _BLOCK, return_inverse=True)
    is_deleted = np.zeros((len(blocks), 1 << _BLOCK), np.bool_)
    is_deleted[at, positions & (1 << _BLOCK) - 1] = True
    words = np.packbits(is_deleted, axis=1, bitorder="little").view("<i8")
    ends = np.arange(len(blocks) + 1, dtype=np.int32) * words.shape[1]
    return pa.table({_PLACE: blocks | checksum << _BITS, _DELETED: pa.ListArray.from_arrays(ends, words.ravel())})


_CHECKSUM, _PLACE, _DELETED = "sleeper:checksum", "sleeper:place", "sleeper:deleted"
_BLOCK: Final = 12
"""The rows of a block, as a power of two."""
_BITS: Final = 22
"""The bits of a block's number: no file has 2**34 rows."""
_IS_DELETED: Final = (
    f"shiftright(`{_DELETED}`[CAST(shiftright(`{POSITION}`, 6) AS INT) & {(1 << _BLOCK - 6) - 1}], "
    f"CAST(`{POSITION}` & 63 AS INT)) & 1 = 1"
)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_OF_SPARK: Final = ("_metadata", "_tmp_metadata")


def _placed_by_tasks(spark: SparkSession, files: Sequence[PlacedFile], schema: Schema, storage: Storage) -> DataFrame:
    types = placed_schema(schema_for_spark(schema))

    def read(files: Iterator[PlacedFile]) -> Iterator[pa.RecordBatch]:
        return (rows.cast(types) for rows in placed_rows(files, schema, storage))

    hand_over_keys(spark, [storage])
    return in_tasks(spark, files, read, _columns(schema, with_places=True))


MOST_TASKS: Final = 1000


def in_tasks(
    spark: SparkSession,
    parts: Sequence[T],
    work: Callable[[Iterator[T]], Iterator[pa.RecordBatch]],
    columns: str,
    most: int = MOST_TASKS,
) -> DataFrame:
    """Return what Python tasks make of some parts: a task of each, or at most so many tasks of several each."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(parts[number] for batch in batches for number in batch.column(0).to_pylist())

    return spark.range(len(parts), numPartitions=max(1, min(len(parts), most))).mapInArrow(task, columns)


REPORT_DDL: Final = "report binary"
"""Spark's column of what tasks report to this process (`report`)."""


def report(value: object) -> pa.RecordBatch:
    """Return the row by which a task hands a value to this process (`reports`)."""
    return pa.RecordBatch.from_pydict({"report": [pickle.dumps(value)]})


def reports(rows: DataFrame) -> list[Any]:
    """Compute a frame of `REPORT_DDL`, and return what its tasks report."""
    return [pickle.loads(row["report"]) for row in rows.collect()]  # noqa: S301 - our own tasks made it


def met(rows: DataFrame, schema: Schema, condition: Condition, columns: Iterable[str] | None) -> DataFrame:
    """Return the rows that meet a condition, with the requested columns and those that it needs.

    DuckDB evaluates it in Spark's Python workers: in Spark's own SQL it would have another meaning, such as another
    order of NaN, other casts and other functions.
    """
    from pyspark.sql import functions as f

    wanted = set(schema.names if columns is None else columns) | condition.columns
    fields, test = [field for field in schema.fields if field.name in wanted], condition.picklable()

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with test.opened() as opened:
            yield from opened.filter(batches)

    for each in comparisons_in(condition.predicate):  # with these Spark's own reader skips rows
        column = f.col(f"`{each.column}`")
        if isinstance(each, Comparison):
            rows = rows.filter(_COMPARED[each.operator](column, f.lit(each.value)))
        elif len(each.values) <= MOST_REGIONS:  # longer lists cost more than they save
            rows = rows.filter(column.isin(*each.values))
    return rows.select(*[f"`{field.name}`" for field in fields]).mapInArrow(task, columns_text(fields))


def commented(rows: DataFrame, schema: Schema) -> DataFrame:
    """Return rows whose columns have comments, which ``DESCRIBE`` shows: the role of a key, and "not null"."""
    from pyspark.sql import functions as f

    columns = []
    for field in schema.fields:
        role = schema.role(field.name)
        words = [*([role] if role != "value" else []), *([] if field.nullable else ["not null"])]
        columns.append(
            f.col(f"`{field.name}`").alias(field.name, metadata={"comment": ", ".join(words)} if words else {})
        )
    return rows.select(*columns)


_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _kept(processing: DataProcessing, schema: Schema) -> list[Column]:
    from pyspark.sql import functions as f

    tests = []
    for each in processing.filters:
        oldest: Any = f.lit(each.oldest_kept(processing.now))
        if pa.types.is_timestamp(schema.arrow.field(each.field).type):
            oldest = f.timestamp_micros(f.lit(in_microseconds(each.oldest_kept(processing.now))))
        tests.append(f.col(f"`{each.field}`") >= oldest)
    return tests


def _by_tasks(spark: SparkSession, plan: ScanPlan, storage: Storage) -> DataFrame:
    """Return the rows of a plan, read by Python tasks with our own reader.

    One task a leaf when rows of several files must be merged; one task a file when each row is kept or dropped alone.
    """
    process, types = Processor.of(plan.processing, plan.schema), schema_for_spark(plan.schema)

    def read(groups: Iterator[FileGroup]) -> Iterator[pa.RecordBatch]:
        return (rows.cast(types) for group in groups for rows in leaf_rows(group, process, storage))

    hand_over_keys(spark, [storage])
    groups = groups_of(plan.leaves, file_by_file=plan.processing.only_filters)
    return in_tasks(spark, groups, read, columns_text(plan.schema.fields))


def of_arrow(spark: SparkSession, rows: pa.Table) -> DataFrame:
    # PySpark fails at a list, struct or map of a table without any batch
    return spark.createDataFrame(rows if rows.num_rows else rows.schema.empty_table())


def arrow_lacks(kind: DataType) -> bool:
    """Return whether Arrow has no type for one of Spark, such as intervals of months."""
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        to_arrow_type(kind, timezone="UTC")
    except PySparkTypeError:
        return True
    return False


def as_arrow_has_it(rows: DataFrame) -> DataFrame:
    """Return rows with the texts of values for which Arrow has no type."""
    from pyspark.sql import functions as f

    texts = [arrow_lacks(field.dataType) for field in rows.schema.fields]
    if not any(texts):
        return rows
    numbered = rows.toDF(*(f"_{at}" for at in range(len(texts))))  # several columns can have one name
    columns = (
        f.col(own).cast("string") if is_text else f.col(own)
        for own, is_text in zip(numbered.columns, texts, strict=True)
    )
    return numbered.select(*(column.alias(name) for column, name in zip(columns, rows.columns, strict=True)))


def of_variable(spark: SparkSession, variable: BoundVariable) -> DataFrame:
    """Return the rows of a variable; `InvalidInput` when Spark has no type for a column."""
    frame = variable.spark_frame
    if frame is not None and frame.sparkSession is spark:
        return frame
    try:
        return of_arrow(spark, variable.to_arrow())
    except (TypeError, ValueError) as error:  # PySpark's own errors are of these classes too
        problem = f"Spark cannot read {variable}: {first_line(error)}"
        raise InvalidInput(problem, hint="convert the column first, or run the statement on DuckDB") from error


def of_lake(spark: SparkSession, lake: BoundLake) -> DataFrame:
    """Return the rows of a table of another format, which Python tasks read, a part at a time."""
    types = pa.schema([each.with_type(arrow_for_spark(each.type)) for each in lake.schema()])

    def read(parts: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            for rows in lake.batches_of(part):
                yield from pa.Table.from_batches([rows]).cast(types).to_batches()

    hand_over_keys(spark, [lake.table.storage])
    return in_tasks(spark, lake.parts(), read, columns_text(lake.fields))


def query(
    spark: SparkSession,
    statement: Statement,
    views: Mapping[str, DataFrame],
    parameters: Mapping[str, Any] | None = None,
    *,
    session_id: str = "",
) -> DataFrame:
    """Return the rows of a statement that names `views`, with ``:name`` parameters bound by value.

    Spark resolves names when it reads the statement, so the views are dropped when this returns. Of the tables that
    sessions offer by name it finds only those of the session `session_id`; "" for those of any. The caller has made
    sure that the statement only reads (`spark_reads.check_reads`).
    """
    with NAMES_AND_SETTINGS, _only_names_of(spark, session_id), _views(spark, views):
        arguments = {name: _argument(value) for name, value in (parameters or {}).items()}
        return spark.sql(statement.text, args=arguments) if arguments else spark.sql(statement.text)


@contextlib.contextmanager
def _views(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Give frames names, which statements find until the block ends."""
    catalog = session_state(spark).catalog()
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        yield
    finally:
        for name in frames:
            catalog.dropTempView(name)  # not PySpark's, which would also uncache the user's frame


SESSION_ID: Final = "sleeper.session"
"""The property of a thread, in Spark, that names the session whose SQL it runs."""


@contextlib.contextmanager
def _only_names_of(spark: SparkSession, session_id: str) -> Iterator[None]:
    context = spark.sparkContext
    context.setLocalProperty(SESSION_ID, session_id or None)  # type: ignore[arg-type]  # None removes it
    try:
        yield
    finally:
        context.setLocalProperty(SESSION_ID, None)  # type: ignore[arg-type]


def _argument(value: Any) -> Any:
    """Return a value as Spark binds it: a mapping as a map, and the whole numbers of a list all of one type."""
    from pyspark.sql import functions as f

    if isinstance(value, Mapping):
        return f.create_map(*[f.lit(each) for pair in value.items() for each in pair])
    if isinstance(value, list) and value and all(type(each) is int for each in value):
        # Spark takes no casts here; pasting is safe, as each value is an int and nothing else
        return f.expr(f"array({', '.join(f'{each}L' for each in value)})")
    return value


_PICKED: Final = "__sleeper_picked"
_AS_V: Final = f"v AS (SELECT * FROM {_PICKED})"  # noqa: S608 - our own name


def summed_for_chart(rows: DataFrame, values: Sequence[ChartValue], query: ChartQuery) -> pa.Table:
    """Return the answer to a query of `sleeper_nb.sql.chart_sums` over some columns, which are computed once."""
    places = {name: str(number) for number, name in enumerate(rows.columns)}
    numbered = rows.toDF(*map(str, range(len(rows.columns))))  # Spark does not tell `A` from `a`
    kinds = dict(rows.dtypes)
    kept = numbered.select(*(_chart_value(places[v.column], kinds[v.column], v) for v in values)).persist()
    try:
        # not `sql(…, picked=kept)`, which drops its own view of the rows, and with that what Spark has kept of them
        with NAMES_AND_SETTINGS, _views(rows.sparkSession, {_PICKED: kept}):
            sums = rows.sparkSession.sql(query.of(_AS_V))  # Spark plans it when it is read
        return sums.toArrow()
    finally:
        kept.unpersist()


def _chart_value(place: str, kind: str, value: ChartValue) -> Column:
    from pyspark.sql import functions as f

    taken = f.col(f"`{place}`")
    if value.form == "moment":
        days = f.unix_date(taken).cast("double") * 86_400_000.0
        taken = days if kind == "date" else f.unix_micros(taken.cast("timestamp")).cast("double") / 1000.0
    elif value.form == "number":
        taken = taken.cast("double")
    return taken.alias(value.name)


def plan_of(frame: DataFrame) -> str:
    python = java_class(frame.sparkSession, "org.apache.spark.sql.api.python.PythonSQLUtils")
    return str(python.explainString(query_execution(frame), "formatted")).strip()


def key_literal(value: KeyValue) -> Column:
    """Return a row key as Spark's literal; PySpark would move times before 1582 into another calendar."""
    from pyspark.sql import functions as f

    if isinstance(value, datetime):
        return f.timestamp_micros(f.lit(plain_time(value)))
    return f.date_from_unix_date(f.lit(plain_time(value))) if isinstance(value, date) else f.lit(value)


def _inside(region: Region, schema: Schema) -> Column:
    from pyspark.sql import functions as f

    tests = region.comparisons(
        schema, lambda key: f.col(quoted_name(key.name, "`")), lambda _, value: key_literal(value)
    )
    return reduce(operator.and_, tests, f.lit(True))  # noqa: FBT003 - the constant of an expression
