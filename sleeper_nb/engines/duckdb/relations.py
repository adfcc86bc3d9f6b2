"""DuckDB: planned scans as relations, SQL over them, and SQL over the Parquet files of metadata; without Spark.

DuckDB itself applies a table's filters. Rows that are combined or go through an iterator are a stream of our own
reader.

Of files with deletion vectors, DuckDB reads the place of each row as well, and an anti join removes the deleted
ones. The conditions of a statement reach the Parquet reader through it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, cast

import duckdb
import pyarrow as pa

from sleeper_nb.engines.duckdb.duckdb_errors import explained
from sleeper_nb.engines.duckdb.duckdb_reads import JudgedQueries, Query
from sleeper_nb.engines.duckdb.interrupts import fetched
from sleeper_nb.engines.undisturbed import undisturbed
from sleeper_nb.errors import RAISED, InvalidInput, SleeperError
from sleeper_nb.maintain.system_tables import SystemRows
from sleeper_nb.model.deletions import FILE_NUMBER, PLACES, POSITION
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.sql_values import duckdb_type, quoted_name, quoted_text
from sleeper_nb.read.live_rows import placed_files, placed_schema, positions_of
from sleeper_nb.read.read_rows import check_contents, check_files, placed_rows, stream
from sleeper_nb.read.row_processing import Processor, in_microseconds
from sleeper_nb.read.scan_plan import (
    PlannedFile,
    ScanPlan,
    only_with_deletions,
)
from sleeper_nb.sql.bound_lakes import BoundLake, LakeColumn
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.variables import BoundVariable
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.local_files import as_pattern

if TYPE_CHECKING:
    from sleeper_nb.sql.chart_sums import ChartQuery, ChartValue


def is_native(plan: ScanPlan) -> bool:
    """Return whether DuckDB itself reads and filters the rows of a plan."""
    return plan.processing.iterator is None and not plan.processing.aggregations


def _filtered_by_age(rows: duckdb.DuckDBPyRelation, plan: ScanPlan) -> duckdb.DuckDBPyRelation:
    done = plan.processing
    for each in done.filters:
        oldest = each.oldest_kept(done.now)
        is_time = pa.types.is_timestamp(plan.schema.arrow.field(each.field).type)
        least = f"make_timestamptz({in_microseconds(oldest)})" if is_time else f"{oldest}"
        rows = rows.filter(duckdb.SQLExpression(f"{quoted_name(each.field)} >= {least}"))  # a null meets no condition
    return rows


def _processed(
    connection: duckdb.DuckDBPyConnection, plan: ScanPlan, storage: Storage, columns: Sequence[str] | None
) -> duckdb.DuckDBPyRelation:
    """Return the rows of a plan as our own reader processes them; an iterator that does not exist raises at once."""
    Processor.of(plan.processing, plan.schema)
    names = columns or plan.schema.names
    types = pa.schema([plan.schema.arrow.field(name) for name in names])
    return _of_arrow(connection, ArrowStream(types, lambda: stream(plan, storage, columns=names)))


def relation(
    connection: duckdb.DuckDBPyConnection,
    plan: ScanPlan,
    storage: Storage,
    *,
    columns: Sequence[str] | None = None,
    is_whole: bool = True,
    with_places: bool = False,
) -> duckdb.DuckDBPyRelation:
    """Return the rows of a plan as a relation, which reads the files and processes the rows when it is executed.

    Parameters
    ----------
    columns
        What is needed at least, as our own reader does not know the statement; all when None.
    is_whole
        Whether all rows of most columns will be read, so that the whole files are checked first, however large.
    with_places
        Whether the columns `deletions.PLACES` follow those of the schema; only for plans that process no rows.

    Raises
    ------
    NotFound, StorageError
        When a file is gone or cannot be read.
    AssertionError
        When rows that are processed would have places.
    """
    try:
        if with_places:
            return _relation_with_places(connection, plan, storage, is_whole)
        if not is_native(plan):
            read = [field for field in plan.schema.fields if columns is None or field.name in columns]
            return _with_uuids(_processed(connection, plan, storage, columns), read)
        return _relation(connection, plan, storage, is_whole)
    except duckdb.Error as error:
        check_files(plan.files, storage)
        raise explained(error) from error


def name_table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    plan: ScanPlan,
    storage: Storage,
    *,
    columns: Sequence[str] | None = None,
    is_whole: bool = True,
    with_places: bool = False,
) -> None:
    """Give the rows of a plan a name that only later statements of this connection can read; as `relation`.

    Files whose rows are the answer as they are become a view at once, and so does a table of which no file is read:
    DuckDB opens files fewer times than for a relation of them.
    """
    if not plan.files and plan.processing.is_nothing:
        query = _rowless(plan.schema, with_places=with_places)
    elif not with_places and _is_as_in_files(plan, storage):
        query = _rows_in_files(plan, storage)
    else:
        rows = relation(connection, plan, storage, columns=columns, is_whole=is_whole, with_places=with_places)
        name_rows(connection, name, rows)
        return
    _check(plan, storage, is_whole)
    try:
        fetched(connection, f"CREATE OR REPLACE TEMP VIEW {quoted_name(name)} AS {query}")
    except duckdb.Error as error:
        check_files(plan.files, storage)
        raise explained(error) from error


def _rows_in_files(plan: ScanPlan, storage: Storage) -> str:
    """Return the query of a plan whose rows are those of its files as they are."""
    columns = ", ".join(map(quoted_name, plan.schema.names))
    files = ", ".join(quoted_text(as_pattern(storage.locate(file))) for file in plan.filenames)
    return f"SELECT {columns} FROM read_parquet([{files}], hive_partitioning = false)"  # noqa: S608 - literals


def _is_as_in_files(plan: ScanPlan, storage: Storage) -> bool:
    """Return whether all rows of a plan's files are its rows, with the same columns, and DuckDB itself opens them."""
    return (
        storage.local
        and bool(plan.files)
        and plan.processing.is_nothing
        and not plan.schema.is_altered
        and not any(field.type.holds("uuid") for field in plan.schema.fields)
        and plan.by_region_and_deletions().keys() == {(None, False)}
    )


def _relation(
    connection: duckdb.DuckDBPyConnection, plan: ScanPlan, storage: Storage, is_whole: bool
) -> duckdb.DuckDBPyRelation:
    _check(plan, storage, is_whole)
    parts, grouped = [], plan.by_region_and_deletions()
    for (region, has_deleted), files in grouped.items():
        if not has_deleted:
            part = data_files(connection, storage, [file.filename for file in files], plan.schema)
            parts.append(part if region is None else _within(region, part, plan.schema))
    if any(has_deleted for _, has_deleted in grouped):
        parts += _live_parts(connection, only_with_deletions(plan), storage)
    if not parts:
        return _no_rows(connection, plan.schema)
    with undisturbed():
        rows = _union(parts)
        if tuple(rows.columns) != plan.schema.names:
            rows = rows.select(*map(column, plan.schema.names))
        return _with_uuids(_filtered_by_age(rows, plan), plan.schema.fields)


def _relation_with_places(
    connection: duckdb.DuckDBPyConnection, plan: ScanPlan, storage: Storage, is_whole: bool
) -> duckdb.DuckDBPyRelation:
    files = placed_files(plan)
    if not files:
        return _no_rows(connection, plan.schema, with_places=True)
    _check(plan, storage, is_whole)
    parts = _placed_parts(connection, plan, storage)
    if parts is None:
        placed = ArrowStream(placed_schema(plan.schema.arrow), lambda: placed_rows(files, plan.schema, storage))
        parts = [_of_arrow(connection, placed)]
    return _with_uuids(_union(parts), plan.schema.fields, PLACES.names)


def _check(plan: ScanPlan, storage: Storage, is_whole: bool) -> None:
    if not storage.local:  # Arrow's errors would come late, and from inside DuckDB
        check_files(plan.files, storage)
    else:
        check_contents(plan.files, storage, is_whole=is_whole)


@undisturbed()
def _union(parts: Sequence[duckdb.DuckDBPyRelation]) -> duckdb.DuckDBPyRelation:
    return reduce(lambda rows, part: rows.union(part), parts)


_FILE_INDEX, _ROW_NUMBER = "file_index", "file_row_number"
"""What DuckDB calls the number of a file in the list that it reads, and the place of a row in its file."""
_DELETED: Final = "sleeper:deleted"
_POSITION_BITS: Final = 40
"""The bits of a place that are the position in a file; the others are the file's number. No file has so many rows."""


def _live_parts(
    connection: duckdb.DuckDBPyConnection, plan: ScanPlan, storage: Storage
) -> list[duckdb.DuckDBPyRelation]:
    """Return the rows of files with deletion vectors, without deleted ones, which nothing processes."""
    parts = _placed_parts(connection, plan, storage)
    if parts is None:
        return [_processed(connection, plan, storage, None)]
    with undisturbed():
        return [part.select(*map(column, plan.schema.names)) for part in parts]


def _placed_parts(
    connection: duckdb.DuckDBPyConnection, plan: ScanPlan, storage: Storage
) -> list[duckdb.DuckDBPyRelation] | None:
    """Return the rows of a plan with their places, but not deleted ones; None when DuckDB cannot tell places."""
    if not storage.local:
        return None
    numbers = {name: number for number, name in enumerate(plan.filenames)}
    parts = []
    for (region, has_deleted), files in plan.by_region_and_deletions().items():
        part = _placed(connection, storage, {file.filename: numbers[file.filename] for file in files}, plan.schema)
        if part is None:
            return None
        if region is not None:
            part = _within(region, part, plan.schema)
        if has_deleted:
            deleted = _of_arrow(connection, _places(files, numbers, storage))
            place = f'"{FILE_NUMBER}"::BIGINT * {1 << _POSITION_BITS} + "{POSITION}"'
            with undisturbed():
                part = part.join(deleted, f'{place} = "{_DELETED}"', how="anti")
        parts.append(part)
    return parts


def _places(files: Sequence[PlannedFile], numbers: Mapping[str, int], storage: Storage) -> pa.Table:
    places = [(numbers[file.filename] << _POSITION_BITS) + positions_of(file.deletions, storage) for file in files]
    return pa.table({_DELETED: pa.chunked_array([pa.array(each) for each in places], pa.int64())})


def _placed(
    connection: duckdb.DuckDBPyConnection, storage: Storage, numbers: Mapping[str, int], schema: Schema
) -> duckdb.DuckDBPyRelation | None:
    """Return the rows of local files with their places; None when a column of the files has the name of one of these.

    DuckDB reads such a column instead.
    """
    rows = _files(connection, storage, list(numbers), schema)
    with undisturbed():
        if {_FILE_INDEX, _ROW_NUMBER} & {name.casefold() for name in rows.columns}:
            return None
        places = (f"{_number_of_file(list(numbers.values()))}::INTEGER", _ROW_NUMBER)
        added = (duckdb.SQLExpression(each).alias(name) for each, name in zip(places, PLACES.names, strict=True))
        return rows.select(*_fields_of(connection, rows, schema), *added)


def _number_of_file(numbers: Sequence[int]) -> str:
    """Return the expression of a file's number: those of the files that DuckDB reads, in their order."""
    if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"({_FILE_INDEX} + {numbers[0]})"
    return f"[{', '.join(map(str, numbers))}][{_FILE_INDEX}::BIGINT + 1]"


@undisturbed()
def _with_uuids(
    rows: duckdb.DuckDBPyRelation, fields: Sequence[Field | LakeColumn], others: Iterable[str] = ()
) -> duckdb.DuckDBPyRelation:
    """Return rows with the texts of UUIDs as DuckDB's UUIDs, also inside other values; `others` are other columns."""
    if not any(field.type.holds("uuid") for field in fields):
        return rows
    return rows.select(
        *(
            column(each.name).cast(duckdb_type(each.type)).alias(each.name)
            if each.type.holds("uuid")
            else column(each.name)
            for each in fields
        ),
        *map(column, others),
    )


def columns_of(fields: Iterable[Field | LakeColumn], *, with_places: bool = False) -> list[tuple[str, str]]:
    """Return the names and DuckDB's types of the columns of a table, and after them of `deletions.PLACES`."""
    columns = [(each.name, duckdb_type(each.type)) for each in fields]
    return [*columns, (FILE_NUMBER, "INTEGER"), (POSITION, "BIGINT")] if with_places else columns


def _rowless(schema: Schema, *, with_places: bool = False) -> str:
    """Return the query of no row with the columns of a schema: SQL, as DuckDB imports pandas before it reads Arrow."""
    columns = columns_of(schema.fields, with_places=with_places)
    typed = (f"CAST(NULL AS {kind}) AS {quoted_name(name)}" for name, kind in columns)
    return f"SELECT {', '.join(typed)} LIMIT 0"


def data_files(
    connection: duckdb.DuckDBPyConnection, storage: Storage, files: Sequence[str], schema: Schema
) -> duckdb.DuckDBPyRelation:
    """Return the rows of data files with the fields of a schema; files of an altered table may have other fields."""
    rows = _files(connection, storage, files, schema)
    with undisturbed():
        return rows.select(*_fields_of(connection, rows, schema)) if schema.is_altered else rows


def _files(
    connection: duckdb.DuckDBPyConnection, storage: Storage, files: Sequence[str], schema: Schema
) -> duckdb.DuckDBPyRelation:
    if not schema.is_altered:
        return parquet(connection, storage, files, schema.arrow)
    # DuckDB takes the first file's columns for all, unless it looks into each file
    each = any(field.late for field in schema.fields)
    return parquet(connection, storage, files, schema.in_files.arrow, look_into_each=each)


def _fields_of(
    connection: duckdb.DuckDBPyConnection, rows: duckdb.DuckDBPyRelation, schema: Schema
) -> list[duckdb.Expression]:
    """Return the fields of a schema, in terms of the columns that data files have."""
    if not schema.is_altered:
        # a star where it is the same: DuckDB's package compares each expression with each column
        is_all = rows.columns == list(schema.names)
        return [duckdb.StarExpression()] if is_all else [column(name) for name in schema.names]
    types = _of_arrow(connection, schema.arrow.empty_table()).types
    in_files, chosen = set(rows.columns), []
    for field, kind in zip(schema.fields, types, strict=True):
        value = column(field.column) if field.column in in_files else duckdb.ConstantExpression(None)
        chosen.append((value.cast(kind) if field.late else value).alias(field.name))
    return chosen


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
        located = [as_pattern(storage.locate(path)) for path in files]
        # the folders of added files may look like partitions of Hive, whose values would replace columns
        with undisturbed():
            return connection.read_parquet(located, union_by_name=look_into_each, hive_partitioning=False)
    return _of_arrow(connection, storage.dataset(files, schema))


@undisturbed()
def _of_arrow(connection: duckdb.DuckDBPyConnection, rows: object) -> duckdb.DuckDBPyRelation:
    return connection.from_arrow(rows)


@undisturbed()
def _no_rows(
    connection: duckdb.DuckDBPyConnection, schema: Schema, *, with_places: bool = False
) -> duckdb.DuckDBPyRelation:
    return connection.sql(_rowless(schema, with_places=with_places))


def system_table(connection: duckdb.DuckDBPyConnection, rows: SystemRows) -> duckdb.DuckDBPyRelation:
    if rows.path is not None:
        return parquet(connection, rows.storage, [rows.path])
    return _of_arrow(connection, rows.columns())


def of_variable(connection: duckdb.DuckDBPyConnection, variable: BoundVariable) -> duckdb.DuckDBPyRelation:
    """Return the rows of a variable as a relation; `SleeperError` when DuckDB cannot read them, or Spark fails."""
    try:
        return _of_arrow(connection, variable.to_arrow())
    except duckdb.Error as error:
        ours = explained(error)
        raise InvalidInput(f"{variable}: {ours.message}", hint="convert the column first, or leave it out") from error


def of_lake(
    connection: duckdb.DuckDBPyConnection, lake: BoundLake, columns: Sequence[str] | None
) -> duckdb.DuckDBPyRelation:
    """Return the rows of a table of another format, with some of its columns; each scan reads them again."""
    rows = _of_arrow(connection, ArrowStream(lake.schema(columns), lambda: lake.batches(columns)))
    return _with_uuids(rows, [each for each in lake.fields if columns is None or each.name in columns])


def column(name: str) -> duckdb.Expression:
    return duckdb.ColumnExpression(name)


def parsed(connect: Callable[[], duckdb.DuckDBPyConnection], statement: Statement, queries: JudgedQueries) -> Query:
    """Return a statement that only reads; as `queries` judge it, with DuckDB's errors as ours."""
    try:
        return queries.of(connect, statement)
    except duckdb.Error as error:
        raise explained(error) from error


@undisturbed()
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


@undisturbed()
def filtered(rows: duckdb.DuckDBPyRelation, condition: str) -> duckdb.DuckDBPyRelation:
    """Return the rows that meet a condition, which was checked before (`sleeper_nb.engines.duckdb.conditions`)."""
    try:
        return rows.filter(condition)
    except duckdb.Error as error:
        raise explained(error) from error


@undisturbed()
def name_rows(connection: duckdb.DuckDBPyConnection, name: str, rows: object) -> None:
    """Give rows, of this connection or of Arrow, a name that only later statements of this connection can read."""
    connection.register(name, rows)  # a temporary view, which `create_view` does not make


def to_arrow(rows: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return all rows of a relation; values that Arrow has no type for are the texts that DuckDB makes of them."""
    try:
        return _as_arrow_has_it(rows).to_arrow_table()
    except duckdb.Error as error:
        raise explained(error) from error


def count(rows: duckdb.DuckDBPyRelation) -> int:
    try:
        return int(rows.aggregate("count(*)").fetchall()[0][0])
    except duckdb.Error as error:
        raise explained(error) from error


def batches(rows: duckdb.DuckDBPyRelation, size: int) -> Generator[pa.Table]:
    """Yield the rows of a relation in batches of about `size` rows, at least one; each is read when it is requested."""
    try:
        with _as_arrow_has_it(rows).to_arrow_reader(size) as reader:
            yield from (pa.Table.from_batches([batch], reader.schema) for batch in reader)
            yield pa.Table.from_batches([], reader.schema)
    except (duckdb.Error, pa.ArrowException, OSError) as error:  # errors after the first batch come through Arrow
        raise explained(error) from error


_AS_TEXT: Final = {"bignum", "bit", "time with time zone", "type", "uhugeint", "variant"}
"""Types of which DuckDB gives Arrow other values, bytes of its own, or nothing."""


@undisturbed()
def _as_arrow_has_it(rows: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Return rows whose values arrive in Arrow; by places, as several columns can have one name."""
    kinds = [_arrow_type(kind) for kind in rows.types]
    if not any(kinds):
        return rows
    places = (duckdb.SQLExpression(f"#{at}") for at in range(1, len(kinds) + 1))
    return rows.select(
        *(
            (place.cast(kind) if kind else place).alias(name)
            for place, kind, name in zip(places, kinds, rows.columns, strict=True)
        )
    )


def _arrow_type(kind: Any) -> str:
    """Return a type with texts where Arrow has no values; "" when it has all of them."""
    if kind.id in _AS_TEXT:
        return "VARCHAR"
    if kind.id not in {"list", "array", "struct", "map"}:
        return ""
    parts = [(name, part) for name, part in kind.children if name != "size"]
    found = [_arrow_type(part) for _, part in parts]
    if not any(found):
        return ""
    types = [each or str(part) for each, (_, part) in zip(found, parts, strict=True)]
    if kind.id == "map":
        return f"MAP({', '.join(types)})"
    if kind.id == "struct":
        members = (f"{quoted_name(name)} {each}" for each, (name, _) in zip(types, parts, strict=True))
        return f"STRUCT({', '.join(members)})"
    return f"{types[0]}[{dict(kind.children).get('size', '')}]"


def summed_for_chart(rows: duckdb.DuckDBPyRelation, values: Sequence[ChartValue], query: ChartQuery) -> pa.Table:
    """Return the answer to a query of `sleeper_nb.sql.chart_sums` over some columns, which are computed once."""
    try:
        picked = rows.select(*(_chart_value(value).alias(value.name) for value in values))
        sums = picked.query("picked", query.of("v AS MATERIALIZED (SELECT * FROM picked)"))
        return to_arrow(cast("duckdb.DuckDBPyRelation", sums))  # it is None of a statement without rows
    except duckdb.Error as error:
        raise explained(error) from error


def _chart_value(value: ChartValue) -> duckdb.Expression:
    taken = column(value.column)
    if value.form == "moment":
        return duckdb.FunctionExpression("epoch", taken) * duckdb.ConstantExpression(1000.0)
    return taken.cast("DOUBLE") if value.form == "number" else taken


def counted_in_ranges(rows: duckdb.DuckDBPyRelation, name: str, ranges: int) -> pa.Table:
    """Return how many values of a column fall into each of equal ranges: columns low, high, place and n."""
    from sleeper_nb.sql.chart_sums import ChartValue, counts

    return summed_for_chart(rows, (ChartValue("x", name, "number"),), counts(ranges))


@undisturbed()
def _within(region: Region, rows: duckdb.DuckDBPyRelation, schema: Schema) -> duckdb.DuckDBPyRelation:
    tests = region.comparisons(schema, lambda key: column(key.name), lambda _, value: duckdb.ConstantExpression(value))
    met = duckdb.ConstantExpression(True)  # noqa: FBT003 - the constant of an expression
    for test in tests:
        met &= test
    return rows.filter(met)


@dataclass(frozen=True, slots=True, eq=False)
class ArrowStream:
    """Rows as an Arrow stream: DuckDB opens a new one each time it scans the relation."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self._kept()).__arrow_c_stream__(requested_schema)

    def _kept(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.batches()
        except SleeperError as error:
            RAISED.keep(error)
            raise
