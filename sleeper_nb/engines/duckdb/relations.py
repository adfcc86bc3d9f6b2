"""DuckDB: planned scans as relations, SQL over them, and SQL over the Parquet files of metadata; without Spark.

DuckDB itself applies a table's filters and aggregations when its result is the same to the last digit; then it reads
only the files and columns that a statement needs. Otherwise the rows are a stream of our own reader, which does not
know the statement.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

import duckdb
import pyarrow as pa

from sleeper_nb import errors
from sleeper_nb.engines.duckdb.combined_rows import combined, is_exact
from sleeper_nb.engines.duckdb.duckdb_reads import Query, judged
from sleeper_nb.errors import InvalidInput, SleeperError, StorageError
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import FieldType, Schema, quoted_name
from sleeper_nb.operations.row_processing import Processor, in_microseconds
from sleeper_nb.operations.scanning.read_rows import check_contents, check_files, stream
from sleeper_nb.operations.scanning.scan_plan import ScanPlan
from sleeper_nb.operations.system_tables import SystemRows
from sleeper_nb.sql.histogram import HIGH, LOW, range_of
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.variables import BoundVariable
from sleeper_nb.storage.filesystem import Storage

logger = logging.getLogger(__name__)


def is_native(plan: ScanPlan) -> bool:
    """Return whether DuckDB itself can process the rows of a plan, with the same result to the last digit."""
    done = plan.processing
    return done.iterator is None and is_exact(done, plan.schema)


def processed(rows: duckdb.DuckDBPyRelation, plan: ScanPlan) -> duckdb.DuckDBPyRelation:
    """Return the rows of files as DuckDB filters and combines them."""
    done, schema = plan.processing, plan.schema
    for each in done.filters:
        oldest = each.oldest_kept(done.now)
        is_time = pa.types.is_timestamp(schema.arrow.field(each.field).type)
        least = f"make_timestamptz({in_microseconds(oldest)})" if is_time else f"{oldest}"
        rows = rows.filter(duckdb.SQLExpression(f"{quoted_name(each.field)} >= {least}"))  # a null meets no condition
    return combined(rows, done, schema) if done.aggregations else rows


@dataclass(frozen=True, slots=True)
class ProcessedRows:
    """The rows of a plan as an Arrow stream: DuckDB opens a new one each time it scans the relation."""

    plan: ScanPlan
    storage: Storage

    @classmethod
    def of(cls, plan: ScanPlan, storage: Storage) -> ProcessedRows:
        """Return it; an iterator that does not exist raises at once."""
        Processor.of(plan.processing, plan.schema)
        return cls(plan, storage)

    def __arrow_c_schema__(self) -> object:
        return self.plan.schema.arrow.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        rows = pa.RecordBatchReader.from_batches(self.plan.schema.arrow, stream(self.plan, self.storage))
        return rows.__arrow_c_stream__(requested_schema)


# How DuckDB quotes an error of a stream that it reads: the end of a Python stack.
_OURS = re.compile(r"^sleeper_nb\.errors\.(\w+): (.*)(?:\nhint: (.*))?", re.MULTILINE)

_IO = re.compile(r"\bIO Error: ")
# How DuckDB refuses a file that the settings of `Database.connect_confined` forbid.
_REFUSED = re.compile(r'^Permission Error: Cannot access \w+ "(.*?)"')

_MOST_LISTED = 3
_CANDIDATES = "Candidate bindings: "


def relation(
    connection: duckdb.DuckDBPyConnection, plan: ScanPlan, storage: Storage, *, is_whole: bool = True
) -> duckdb.DuckDBPyRelation:
    """Return the rows of a plan as a relation, which reads the files and processes the rows when it is executed.

    Parameters
    ----------
    connection, plan, storage
        What reads, the rows to read, and where they are.
    is_whole
        Whether all rows of most columns will be read, so that the whole files are checked first, however large.

    Raises
    ------
    NotFound, StorageError
        When a file is gone or cannot be read.
    """
    try:
        return _relation(connection, plan, storage, is_whole)
    except duckdb.Error as error:
        check_files(plan.files, storage)
        raise explained(error) from error


def _relation(
    connection: duckdb.DuckDBPyConnection, plan: ScanPlan, storage: Storage, is_whole: bool
) -> duckdb.DuckDBPyRelation:
    if not is_native(plan):
        logger.debug("rows of snapshot %s are processed by our own reader, not by DuckDB", plan.snapshot_id)
        return _with_uuids(connection.from_arrow(ProcessedRows.of(plan, storage)), plan.schema)
    if not storage.local:  # Arrow's errors would come late, and from inside DuckDB
        check_files(plan.files, storage)
    else:
        check_contents(plan.files, storage, is_whole=is_whole)
    parts = []
    for region, filenames in plan.by_region().items():
        part = data_files(connection, storage, filenames, plan.schema)
        parts.append(part if region is None else part.filter(_inside(region, plan.schema)))
    if not parts:
        return _no_rows(connection, plan.schema)
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.union(part)
    if tuple(rows.columns) != plan.schema.names:
        rows = rows.select(*map(column, plan.schema.names))
    return _with_uuids(processed(rows, plan), plan.schema)


def _with_uuids(rows: duckdb.DuckDBPyRelation, schema: Schema) -> duckdb.DuckDBPyRelation:
    """Return rows with the texts of UUIDs as DuckDB's UUIDs, also inside other values."""
    if not any(field.type.holds("uuid") for field in schema.fields):
        return rows
    return rows.select(
        *(
            column(each.name).cast(duckdb_type(each.type)).alias(each.name)
            if each.type.holds("uuid")
            else column(each.name)
            for each in schema.fields
        )
    )


_TYPES_OF_FIELDS: Final[Mapping[str, str]] = {
    "int": "INTEGER", "long": "BIGINT", "string": "VARCHAR", "bytearray": "BLOB", "double": "DOUBLE", "float": "FLOAT",
    "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMPTZ", "time": "TIME", "tinyint": "TINYINT",
    "smallint": "SMALLINT", "uuid": "UUID",
}  # fmt: skip


def duckdb_type(kind: FieldType) -> str:
    """Return DuckDB's type of a field's values."""
    if kind.name == "list":
        return f"{duckdb_type(kind.arguments[0])}[]"
    if kind.name == "map":
        return f"MAP({', '.join(map(duckdb_type, kind.arguments))})"
    if kind.name == "struct":
        members = (f"{quoted_name(each.name)} {duckdb_type(each.type)}" for each in kind.arguments)
        return f"STRUCT({', '.join(members)})"
    return str(kind).upper() if kind.name == "decimal" else _TYPES_OF_FIELDS[kind.name]


def _no_rows(connection: duckdb.DuckDBPyConnection, schema: Schema) -> duckdb.DuckDBPyRelation:
    """Return no row with the columns of a schema; made by SQL, as DuckDB imports pandas before it reads Arrow."""
    columns = (f"CAST(NULL AS {duckdb_type(each.type)}) AS {quoted_name(each.name)}" for each in schema.fields)
    return connection.sql(f"SELECT {', '.join(columns)} LIMIT 0")


def data_files(
    connection: duckdb.DuckDBPyConnection, storage: Storage, files: Sequence[str], schema: Schema
) -> duckdb.DuckDBPyRelation:
    """Return the rows of data files with the fields of a schema; files of an altered table may have other fields."""
    if not schema.is_altered:
        return parquet(connection, storage, files, schema.arrow)
    # DuckDB takes the first file's columns for all, unless it looks into each file
    each = any(field.late for field in schema.fields)
    rows = parquet(connection, storage, files, schema.in_files.arrow, look_into_each=each)
    types = connection.from_arrow(schema.arrow.empty_table()).types
    in_files, chosen = set(rows.columns), []
    for field, kind in zip(schema.fields, types, strict=True):
        value = column(field.column) if field.column in in_files else duckdb.ConstantExpression(None)
        chosen.append((value.cast(kind) if field.late else value).alias(field.name))
    return rows.select(*chosen)


def parquet(
    connection: duckdb.DuckDBPyConnection,
    storage: Storage,
    files: Sequence[str],
    schema: pa.Schema | None = None,
    *,
    look_into_each: bool = False,
) -> duckdb.DuckDBPyRelation:
    """Return some Parquet files as one relation; files in a bucket through Arrow, as DuckDB has no S3 client here."""
    if storage.local:
        located = [storage.locate(path) for path in files]
        # the folders of added files may look like partitions of Hive, whose values would replace columns
        return connection.read_parquet(located, union_by_name=look_into_each, hive_partitioning=False)
    return connection.from_arrow(storage.dataset(files, schema))


def system_table(connection: duckdb.DuckDBPyConnection, rows: SystemRows) -> duckdb.DuckDBPyRelation:
    """Return the rows of a system table as a relation."""
    if rows.path is not None:
        return parquet(connection, rows.storage, [rows.path])
    return connection.from_arrow(rows.columns())


def of_variable(connection: duckdb.DuckDBPyConnection, variable: BoundVariable) -> duckdb.DuckDBPyRelation:
    """Return the rows of a variable as a relation; `SleeperError` when DuckDB cannot read them, or Spark fails."""
    try:
        return connection.from_arrow(variable.to_arrow())
    except duckdb.Error as error:
        ours = explained(error)
        raise InvalidInput(f"{variable}: {ours.message}", hint="convert the column first, or leave it out") from error


def column(name: str) -> duckdb.Expression:
    """Return the expression of a column of any name."""
    return duckdb.ColumnExpression(name)


def parsed(connection: duckdb.DuckDBPyConnection, statement: Statement) -> Query:
    """Return a statement that only reads; as `judged`, with DuckDB's errors as ours."""
    try:
        return judged(connection, statement)
    except duckdb.Error as error:
        raise explained(error) from error


def query(
    connection: duckdb.DuckDBPyConnection, statement: Query, parameters: Mapping[str, Any] | None = None
) -> duckdb.DuckDBPyRelation:
    """Return the rows of one statement, with ``$name`` parameters bound by value.

    Raises
    ------
    InvalidInput
        With DuckDB's first line, when it refers to what is not there.
    """
    values = dict(parameters) if parameters else None
    try:
        return connection.sql(statement.text, params=values)
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        raise explained(error) from _with_place(connection, statement, values, error)
    except duckdb.Error as error:
        raise explained(error) from error


def _with_place(
    connection: duckdb.DuckDBPyConnection, statement: Query, values: dict[str, Any] | None, error: duckdb.Error
) -> duckdb.Error:
    """Return the error with its line and caret, which DuckDB leaves out when it makes a relation."""
    try:
        connection.execute(f"EXPLAIN {statement.asked}", values)
    except type(error) as placed:
        return placed
    except duckdb.Error:
        pass
    return error


def filtered(rows: duckdb.DuckDBPyRelation, condition: str) -> duckdb.DuckDBPyRelation:
    """Return the rows that meet a condition, which was checked before (`sleeper_nb.engines.duckdb.conditions`)."""
    try:
        return rows.filter(condition)
    except duckdb.Error as error:
        raise explained(error) from error


def name_rows(connection: duckdb.DuckDBPyConnection, name: str, rows: duckdb.DuckDBPyRelation) -> None:
    """Give rows a name that only later statements of this connection can read."""
    connection.register(name, rows)  # a temporary view, which `create_view` does not make


def to_arrow(rows: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return all rows of a relation."""
    try:
        return rows.to_arrow_table()
    except duckdb.Error as error:
        raise explained(error) from error


def count(rows: duckdb.DuckDBPyRelation) -> int:
    """Return the number of rows of a relation."""
    try:
        return int(rows.aggregate("count(*)").fetchall()[0][0])
    except duckdb.Error as error:
        raise explained(error) from error


def batches(rows: duckdb.DuckDBPyRelation, size: int) -> Generator[pa.Table]:
    """Yield the rows of a relation in batches of about `size` rows, at least one; each is read when it is requested."""
    try:
        with rows.to_arrow_reader(size) as reader:
            yield from (pa.Table.from_batches([batch], reader.schema) for batch in reader)
            yield reader.schema.empty_table()
    except (duckdb.Error, pa.ArrowException, OSError) as error:  # errors after the first batch come through Arrow
        raise explained(error) from error


def counted_in_ranges(rows: duckdb.DuckDBPyRelation, name: str, ranges: int) -> pa.Table:
    """Return how many values of a column fall into each of equal ranges: columns low, high, range and n."""
    try:
        values = rows.select(column(name).cast("DOUBLE").alias("v"))
        # windows over all rows, not a second scan: a statement that samples would give other rows then
        along = values.project(f"v, {LOW} OVER () AS low, {HIGH} OVER () AS high")
        return to_arrow(along.aggregate(f'low, high, {range_of(ranges)} AS "range", count(*) AS n'))
    except duckdb.Error as error:
        raise explained(error) from error


def explained(error: Exception) -> SleeperError:
    """Return DuckDB's error as a `SleeperError`: its first line, and its own hint where it gives one."""
    ours = _OURS.search(str(error))
    if ours is not None and isinstance(kind := getattr(errors, ours[1], None), type):
        return kind(ours[2], hint=ours[3])  # type: ignore[no-any-return]
    lines = [line.strip() for line in str(error).splitlines()]
    if refused := _REFUSED.search(lines[0] if lines else ""):
        hint = "SQL reads tables, and local files whose paths are written as text or parameters"
        return InvalidInput(f"SQL may not open {refused[1]!r}", hint=hint)
    first = next(filter(None, lines), type(error).__name__)
    if _IO.search(first):
        return StorageError(f"DuckDB: {first}", hint="run it again; the file may have been deleted or changed")
    return InvalidInput(f"DuckDB: {first}", hint=_hint(lines))


def _hint(lines: Sequence[str]) -> str | None:
    """Return DuckDB's own hint: one line, or a line with the first few of the list below it."""
    at = next((i for i, line in enumerate(lines) if i and line.startswith(("Candidate", "Did you mean", "HINT"))), None)
    if at is not None and lines[at].startswith(_CANDIDATES):
        return f"did you mean {lines[at].removeprefix(_CANDIDATES).replace(', ', ' or ')}?"
    if at is None or not lines[at].endswith(":"):
        return None if at is None else lines[at]
    items = list(takewhile(bool, lines[at + 1 :]))
    more = [f"and {len(items) - _MOST_LISTED} more"] if len(items) > _MOST_LISTED else []
    return f"{lines[at]} {'; '.join([*items[:_MOST_LISTED], *more])}" if items else None


def _inside(region: Region, schema: Schema) -> duckdb.Expression:
    tests = region.comparisons(schema, lambda key: column(key.name), lambda _, value: duckdb.ConstantExpression(value))
    met = duckdb.ConstantExpression(True)  # noqa: FBT003 - the constant of an expression
    for test in tests:
        met &= test
    return met
