"""DuckDB: planned scans as relations, SQL over them, and SQL over the metadata Parquet files. No Spark started."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import duckdb
import pyarrow as pa

from sleeper_nb import errors
from sleeper_nb.engines.duckdb.duckdb_reads import Query, judged
from sleeper_nb.errors import InvalidInput, SleeperError, StorageError
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.processing import Aggregation
from sleeper_nb.model.schema import Field, Schema, quoted_name
from sleeper_nb.operations.row_processing import Processor, in_microseconds
from sleeper_nb.operations.scanning.read_rows import check_contents, check_files, stream
from sleeper_nb.operations.scanning.scan_plan import ScanPlan
from sleeper_nb.operations.system_tables import SystemRows
from sleeper_nb.sql.histogram import HIGH, LOW, range_of
from sleeper_nb.sql.statement import Statement
from sleeper_nb.storage.filesystem import Storage

# DuckDB: rows as a table's filters, iterator and aggregations give them; by DuckDB itself where it does the same.
#
# What DuckDB does itself, it does to the files and columns that a statement needs. The rest is a stream of the kernel
# of `sleeper_nb.operations.processing.processing`, which has no knowledge of the statement.

_TYPES = {"int": "INTEGER", "long": "BIGINT"}
_HUGEINT_DIGITS = 38
"""Sums of decimals with so many digits can go beyond them unseen."""


def is_native(plan: ScanPlan) -> bool:
    """Return whether DuckDB itself can do what a plan does with its rows, with the same result to the last digit."""
    done = plan.processing
    return done.iterator is None and all(_in_sql(each, plan.schema) is not None for each in done.aggregations)


def processed(rows: duckdb.DuckDBPyRelation, plan: ScanPlan) -> duckdb.DuckDBPyRelation:
    """Return the rows of files as DuckDB filters and combines them."""
    done, schema = plan.processing, plan.schema
    for each in done.filters:
        oldest = each.oldest_kept(done.now)
        is_time = pa.types.is_timestamp(schema.arrow.field(each.field).type)
        least = f"make_timestamptz({in_microseconds(oldest)})" if is_time else f"{oldest}"
        rows = rows.filter(duckdb.SQLExpression(f"{quoted_name(each.field)} >= {least}"))  # a null is no time, and goes
    if not done.aggregations:
        return rows
    values = {each.field: _in_sql(each, schema) for each in done.aggregations}
    chosen = [f"{values.get(name) or quoted_name(name)} AS {quoted_name(name)}" for name in schema.names]
    return rows.aggregate(", ".join(chosen), ", ".join(map(quoted_name, schema.sort_order)))


def _in_sql(each: Aggregation, schema: Schema) -> str | None:
    """Return an aggregation in DuckDB's SQL, which fails where a sum does not fit its field; None where it differs."""
    (field,) = (field for field in schema.values if field.name == each.field)
    if each.of_maps:
        return None
    if each.operation != "sum":
        return f"{each.operation}({quoted_name(field.name)})"
    kind = _summed_type(field)
    return None if kind is None else f"CAST(sum({quoted_name(field.name)}) AS {kind})"


def _summed_type(field: Field) -> str | None:
    # not float and double: DuckDB adds them in an order of its own, and rounds otherwise each time
    if field.type.name == "decimal" and field.type.arguments[0] < _HUGEINT_DIGITS:
        return str(field.type)
    return _TYPES.get(field.type.name)


@dataclass(frozen=True, slots=True)
class ProcessedRows:
    """The rows of a plan as an Arrow stream: DuckDB begins a new one each time that it scans the relation."""

    plan: ScanPlan
    storage: Storage

    @classmethod
    def of(cls, plan: ScanPlan, storage: Storage) -> ProcessedRows:
        """Make it; an iterator that is not there is an error at once."""
        Processor.of(plan.processing, plan.schema)
        return cls(plan, storage)

    def __arrow_c_schema__(self) -> object:
        return self.plan.schema.arrow.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        rows = pa.RecordBatchReader.from_batches(self.plan.schema.arrow, stream(self.plan, self.storage))
        return rows.__arrow_c_stream__(requested_schema)


# How DuckDB repeats an error of a stream that it reads: the end of a Python stack.
_OURS = re.compile(r"^sleeper_nb\.errors\.(\w+): (.*)(?:\nhint: (.*))?", re.MULTILINE)

_IO = re.compile(r"\bIO Error: ")
# How DuckDB refuses a file that the settings of `Database.connect_confined` keep from it.
_REFUSED = re.compile(r'^Permission Error: Cannot access \w+ "(.*?)"')

_MOST_LISTED = 3


def relation(
    connection: duckdb.DuckDBPyConnection, plan: ScanPlan, storage: Storage, *, is_whole: bool = True
) -> duckdb.DuckDBPyRelation:
    """Return the rows of a plan as a relation that reads its files, and processes their rows, when it is asked.

    Parameters
    ----------
    connection, plan, storage
        Who reads what, and where it is.
    is_whole
        Whether all rows of most columns will be read, so that their files are checked first, however large they are.

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
        return connection.from_arrow(ProcessedRows.of(plan, storage))
    if not storage.local:  # Arrow's errors would come late, and from inside DuckDB
        check_files(plan.files, storage)
    else:
        check_contents(plan.files, storage, is_whole=is_whole)
    parts = []
    for region, filenames in plan.by_region().items():
        part = data_files(connection, storage, filenames, plan.schema)
        parts.append(part if region is None else part.filter(_inside(region, plan.schema)))
    if not parts:
        return connection.from_arrow(plan.schema.arrow.empty_table())
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.union(part)
    if tuple(rows.columns) != plan.schema.names:
        rows = rows.select(*map(column, plan.schema.names))
    return processed(rows, plan)


def data_files(
    connection: duckdb.DuckDBPyConnection, storage: Storage, files: Sequence[str], schema: Schema
) -> duckdb.DuckDBPyRelation:
    """Return the rows of data files with the fields of a schema; those of a table that was altered may differ."""
    if not schema.is_altered:
        return parquet(connection, storage, files, schema.arrow)
    # one file's columns count for all, unless DuckDB is told to look into each
    each = any(field.late for field in schema.fields)
    rows = parquet(connection, storage, files, schema.in_files.arrow, look_into_each=each)
    types = connection.from_arrow(schema.arrow.empty_table()).types
    there, chosen = set(rows.columns), []
    for field, kind in zip(schema.fields, types, strict=True):
        value = column(field.column) if field.column in there else duckdb.ConstantExpression(None)
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
    """Return some Parquet files as one relation; those of a bucket through Arrow, as DuckDB has no S3 client."""
    if storage.local:
        return connection.read_parquet([storage.locate(path) for path in files], union_by_name=look_into_each)
    return connection.from_arrow(storage.dataset(files, schema))


def system_table(connection: duckdb.DuckDBPyConnection, rows: SystemRows) -> duckdb.DuckDBPyRelation:
    """Return the rows of a system table as a relation."""
    if rows.path is not None:
        return parquet(connection, rows.storage, [rows.path])
    return connection.from_arrow(rows.columns())


def column(name: str) -> duckdb.Expression:
    """Return the expression of a column, whatever its name."""
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
    try:
        return connection.sql(statement.text, params=dict(parameters) if parameters else None)
    except duckdb.Error as error:
        raise explained(error) from error


def filtered(rows: duckdb.DuckDBPyRelation, condition: str) -> duckdb.DuckDBPyRelation:
    """Return the rows that meet a condition, which was judged before (`sleeper_nb.engines.duckdb.conditions`)."""
    try:
        return rows.filter(condition)
    except duckdb.Error as error:
        raise explained(error) from error


def name_rows(connection: duckdb.DuckDBPyConnection, name: str, rows: duckdb.DuckDBPyRelation) -> None:
    """Give rows a name, under which the next statements of the connection, and of no other, read them."""
    connection.register(name, rows)  # a temporary view, which `create_view` does not make


def to_arrow(rows: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return all rows of a relation."""
    try:
        return rows.to_arrow_table()
    except duckdb.Error as error:
        raise explained(error) from error


def batches(rows: duckdb.DuckDBPyRelation, size: int) -> Generator[pa.Table]:
    """Yield the rows of a relation, about so many at a time and one batch at least; none is read before its turn."""
    try:
        with rows.to_arrow_reader(size) as reader:
            yield from (pa.Table.from_batches([batch], reader.schema) for batch in reader)
            yield reader.schema.empty_table()
    except (duckdb.Error, pa.ArrowException, OSError) as error:  # what fails behind the first batch comes by Arrow
        raise explained(error) from error


def counted_in_ranges(rows: duckdb.DuckDBPyRelation, name: str, ranges: int) -> pa.Table:
    """Return how many values of a column fall into each of equal ranges: columns low, high, range and n."""
    try:
        given = rows.select(column(name).cast("DOUBLE").alias("v"))
        # windows over all, not a second look: a statement that samples would give other rows then
        along = given.project(f"v, {LOW} OVER () AS low, {HIGH} OVER () AS high")
        return to_arrow(along.aggregate(f'low, high, {range_of(ranges)} AS "range", count(*) AS n'))
    except duckdb.Error as error:
        raise explained(error) from error


def explained(error: Exception) -> SleeperError:
    """Return DuckDB's error as one of ours: its first line, and its own hint where it gives one."""
    ours = _OURS.search(str(error))
    if ours is not None and isinstance(kind := getattr(errors, ours[1], None), type):
        return kind(ours[2], hint=ours[3])  # type: ignore[no-any-return]
    lines = [line.strip() for line in str(error).splitlines()]
    if refused := _REFUSED.search(lines[0] if lines else ""):
        hint = "SQL reads tables, and local files whose paths are written as text or parameters"
        return InvalidInput(f"SQL may not open {refused[1]!r}", hint=hint)
    first = next(filter(None, lines), type(error).__name__)
    if _IO.search(first):
        return StorageError(f"DuckDB: {first}", hint="was the file deleted or changed meanwhile? run it again")
    return InvalidInput(f"DuckDB: {first}", hint=_hint(lines))


def _hint(lines: Sequence[str]) -> str | None:
    """Return DuckDB's own hint: a line, or of a list below a line the first few."""
    at = next((i for i, line in enumerate(lines) if i and line.startswith(("Candidate", "Did you mean", "HINT"))), None)
    if at is None or not lines[at].endswith(":"):
        return None if at is None else lines[at]
    listed = list(takewhile(bool, lines[at + 1 :]))
    more = [f"and {len(listed) - _MOST_LISTED} more"] if len(listed) > _MOST_LISTED else []
    return f"{lines[at]} {'; '.join([*listed[:_MOST_LISTED], *more])}" if listed else None


def _inside(region: Region, schema: Schema) -> duckdb.Expression:
    tests = region.comparisons(schema, lambda key: column(key.name), lambda _, value: duckdb.ConstantExpression(value))
    met = duckdb.ConstantExpression(True)  # noqa: FBT003 - the constant of an expression
    for test in tests:
        met &= test
    return met
