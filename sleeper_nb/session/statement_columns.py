"""The columns that a statement names, found in a table or in its query. Names are found in any case, as SQL does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.load.data_columns import DataColumn, SchemaChoice, columns_of_arrow
from sleeper_nb.load.sources import InMemory
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.query import RowsToLoad
from sleeper_nb.report import counted
from sleeper_nb.sql.grammar import Name, placed
from sleeper_nb.sql.insertion import InsertRows
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.table_definition import ColumnDefinition, CreateTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def found(name: Name, names: Sequence[str], where: str, statement: Statement) -> str:
    """Return the column that a statement names; `NotFound` with the nearest ones and a caret when there is none.

    Parameters
    ----------
    name
        The name; one with dots is of a field in a struct, and its first part is found.
    names
        The columns that exist.
    where
        Text that follows the name in the error: ``" of table 'trips'"``.
    statement
        The statement, for the caret.
    """
    first, dot, rest = name.text.partition(".")
    column = next((each for each in names if each.casefold() == first.casefold()), None)
    if column is None:
        raise placed(NotFound.of("column", first, names, where=where), statement, name.at)
    return f"{column}{dot}{rest}"


def insert_names(
    insert: InsertRows, table: str, schema: Schema, given: Sequence[str], statement: Statement
) -> tuple[str, ...]:
    """Return the columns of a table that the columns of a query go into.

    Parameters
    ----------
    insert
        What the statement says: by position, into some columns, or by name.
    table, schema
        The table's name, and its current schema.
    given
        The names of the query's columns.

    Raises
    ------
    InvalidInput, NotFound
        When there are too few or too many columns, one is named twice, or the table has none of a name.
    """
    where = f" of table {table!r}"
    if insert.by_name:
        names = tuple(found(Name(each, insert.query.end), schema.names, where, statement) for each in given)
        _check_twice(names, lambda _: insert.query.end, statement)
        return names
    if insert.columns is None:
        names, what = schema.names, f"table {table!r} has"
    else:
        names = tuple(found(each, schema.names, where, statement) for each in insert.columns)
        at = dict(zip(names, (each.at for each in insert.columns), strict=True))
        _check_twice(names, at.__getitem__, statement)
        what = "the statement names"
    if len(names) != len(given):
        problem = f"{what} {counted(len(names), 'column')}, but the query has {len(given)}"
        hint = f"the columns of {table} are {', '.join(schema.names)}"
        if insert.columns is None:
            hint = f"name those that you give: INSERT INTO {table} (…), or write BY NAME; {hint}"
        raise placed(InvalidInput(problem, hint=hint), statement, insert.query.end)
    return names


def default_values(insert: InsertRows, table: str, schema: Schema, statement: Statement) -> list[Any]:
    """Return the value of each DEFAULT in the rows of an INSERT.

    Raises
    ------
    InvalidInput
        When a column has neither a default nor NULL, or the columns go by the names of the query, which VALUES lacks.
    """
    if insert.by_name:
        error = InvalidInput("VALUES has no column names", hint="name them: INSERT INTO t (a, b) VALUES (…)")
        raise placed(error, statement, insert.query.end)
    where, names, fields = f" of table {table!r}", schema.names, {field.name: field for field in schema.fields}
    given = names if insert.columns is None else [found(each, names, where, statement) for each in insert.columns]
    values = []
    for each in insert.defaults:
        field = fields[given[each.place]] if each.place < len(given) else None  # `insert_names` refuses it
        if field is not None and field.default is None and not field.nullable:
            error = InvalidInput(f"column {field.name!r} has no default", hint="write a value")
            raise placed(error, statement, each.at)
        values.append(None if field is None else field.default)
    return values


def new_table_names(create: CreateTable, given: Sequence[str], statement: Statement) -> tuple[str, ...]:
    """Return the names of the columns of a new table: those in brackets after its name, or those of its query."""
    if not create.columns:
        _check_named(create, given, statement)
        return tuple(given)
    if len(create.columns) != len(given):
        problem = f"the statement names {counted(len(create.columns), 'column')}, but the query has {len(given)}"
        hint = f"name all of them, or none: {', '.join(given)}"
        raise placed(InvalidInput(problem, hint=hint), statement, create.columns[0].name.at)
    return tuple(column.name.text for column in create.columns)


def _check_named(create: CreateTable, given: Sequence[str], statement: Statement) -> None:
    """Raise when a column of a query cannot be one of a table, as an expression without a name cannot."""
    at = create.name.at if create.query is None else create.query.end
    _check_twice([name.casefold() for name in given], lambda _: at, statement)
    for name in given:
        try:
            Field(name, FieldType("string"))
        except InvalidInput as error:
            hint = "name it: count(*) AS n; a name has letters, digits and _"
            problem = f"column {name!r} of the query cannot be one of a table"
            raise placed(InvalidInput(problem, hint=hint), statement, at) from error


def new_schema(
    create: CreateTable, definitions: Mapping[str, Any], rules: Mapping[str, Any], statement: Statement
) -> Schema:
    """Return the schema that a statement defines; a value may be NULL unless it says NOT NULL.

    Parameters
    ----------
    definitions
        What `definition` returns of each column, by name.
    rules
        The comment and the checks of the table, as `Schema` takes them.
    """
    columns = {column.name.text: column for column in create.columns}
    names, where = tuple(columns), " in the statement"
    row_keys = [found(key, names, where, statement) for key in create.row_keys]
    sort_keys = [found(key, names, where, statement) for key in create.sort_keys]
    if len(columns) < len(create.columns):
        twice = next(each.name for each in create.columns if columns[each.name.text] is not each)
        raise placed(InvalidInput(f"column {twice.text!r} occurs twice", hint="rename one"), statement, twice.at)
    if not row_keys:
        hint = f"write them after the columns: ROW KEYS (…), some of {', '.join(names)}"
        raise placed(InvalidInput(f"table {create.name.text!r} has no ROW KEYS", hint=hint), statement, create.name.at)
    keys = {*row_keys, *sort_keys}
    try:
        return Schema(
            {name: _of_key(definitions[name]) for name in row_keys},
            {name: _of_key(definitions[name]) for name in sort_keys},
            {name: definitions[name] for name in columns if name not in keys},
            **rules,
        )
    except InvalidInput as error:
        raise placed(error, statement, create.columns[0].name.at) from error


def definition(column: ColumnDefinition, default: Any) -> Any:
    """Return a column as a schema says it: its type, ``double?`` when it may be NULL; with a default and a comment."""
    text = nullable_type(column)
    extra = {"default": default, "comment": column.comment or None}
    given = {name: value for name, value in extra.items() if value is not None}
    return {"type": text, **given} if given else text


def schema_of_query(
    create: CreateTable,
    rows: RowsToLoad | DataFrame,
    choice: SchemaChoice,
    defaults: Mapping[str, Any],
    rules: Mapping[str, Any],
    statement: Statement,
) -> Schema:
    """Return the schema of a table with the columns of a query, and with the rules that its statement has.

    Parameters
    ----------
    rows
        The rows of the query, under the names of the table's columns.
    choice
        The keys, and the types of some columns, that the statement gives.
    defaults
        The default of each column that has one, by name.
    rules
        As of `new_schema`.
    """
    schema = choice.schema(_columns_to_load(rows))
    written = {column.name.text: column for column in create.columns}

    def ruled(field: Field) -> Field:
        column = written.get(field.name)
        if column is None:
            return field
        nullable = field.nullable and not column.not_null
        return replace(field, nullable=nullable, default=defaults.get(field.name), comment=column.comment or None)

    try:
        return Schema(map(ruled, schema.row_keys), map(ruled, schema.sort_keys), map(ruled, schema.values), **rules)
    except InvalidInput as error:
        raise placed(error, statement, create.columns[0].name.at if create.columns else create.name.at) from error


def _columns_to_load(rows: RowsToLoad | DataFrame) -> tuple[DataColumn, ...]:
    if isinstance(rows, RowsToLoad):
        return columns_of_arrow(rows.schema)
    from sleeper_nb.engines.spark import load_frames

    return columns_of_arrow(load_frames.schema_of_frame((InMemory(rows),)))


def nullable_type(column: ColumnDefinition) -> str:
    """Return the type of a column as written, with ? when it may be NULL."""
    return column.type if column.not_null else f"{column.type}?"


def _of_key(defined: Any) -> Any:
    """Return the definition of a key, which is never NULL."""
    if isinstance(defined, dict):
        return {**defined, "type": defined["type"].removesuffix("?")}
    return defined.removesuffix("?")


def _check_twice(names: Sequence[str], place: Callable[[str], int], statement: Statement) -> None:
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise placed(InvalidInput(f"column {twice!r} occurs twice", hint="name it once"), statement, place(twice))
