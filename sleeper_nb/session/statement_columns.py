"""The columns that a statement names, found in a table or in its query. Names are found in any case, as SQL does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleeper_nb.engines.frames_to_load import schema_of_frame
from sleeper_nb.errors import InvalidInput
from sleeper_nb.load.data_columns import DataColumn, SchemaChoice, columns_of_arrow
from sleeper_nb.load.sources import InMemory
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.query import RowsToLoad
from sleeper_nb.query.inserted_rows import check_twice, found
from sleeper_nb.report import counted
from sleeper_nb.sql.grammar import placed
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.table_statements import ColumnDefinition, CreateTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    check_twice([name.casefold() for name in given], lambda _: at, statement)
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
    return columns_of_arrow(schema_of_frame((InMemory(rows),)))


def nullable_type(column: ColumnDefinition) -> str:
    return column.type if column.not_null else f"{column.type}?"


def _of_key(defined: Any) -> Any:
    if isinstance(defined, dict):
        return {**defined, "type": defined["type"].removesuffix("?")}
    return defined.removesuffix("?")
