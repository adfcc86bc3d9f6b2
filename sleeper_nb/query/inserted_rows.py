"""The rows of an ``INSERT``: its query, and the columns of the table that they go into.

Names are found in any case, as SQL does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from sleeper_nb.edit.row_edit import InsertRows
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.sql_values import Name, Written
from sleeper_nb.query.queries import Queries
from sleeper_nb.query.result import QueryResult
from sleeper_nb.report import counted
from sleeper_nb.sql.grammar import placed
from sleeper_nb.sql.row_statements import query_with_values
from sleeper_nb.sql.statement import Composition, SqlText, Statement


def inserted_rows(
    insert: InsertRows, text: SqlText, table: str, schema: Schema, queries: Queries
) -> tuple[QueryResult, tuple[str, ...]]:
    """Return the result of the query of an INSERT, and the columns of the table that its columns go into."""
    query: SqlText | Composition = text.only(insert.query)
    if insert.defaults:
        values = default_values(insert, table, schema)
        query = query_with_values(insert, text.whole(insert.written.dialect), values)
    result = queries.run(query)
    return result, insert_names(insert, table, schema, result.names)


def found(name: Name, names: Sequence[str], where: str, written: Statement | Written) -> str:
    """Return the column that a statement names; `NotFound` with the nearest ones and a caret when there is none.

    Parameters
    ----------
    name
        The name; one with dots is of a field in a struct, and its first part is found.
    names
        The columns that exist.
    where
        Text that follows the name in the error: ``" of table 'trips'"``.
    written
        The statement, for the caret.
    """
    first, dot, rest = name.text.partition(".")
    column = next((each for each in names if each.casefold() == first.casefold()), None)
    if column is None:
        raise placed(NotFound.of("column", first, names, where=where), written, name.at)
    return f"{column}{dot}{rest}"


def insert_names(insert: InsertRows, table: str, schema: Schema, given: Sequence[str]) -> tuple[str, ...]:
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
    where, written = f" of table {table!r}", insert.written
    if insert.by_name:
        names = tuple(found(Name(each, insert.query.end), schema.names, where, written) for each in given)
        check_twice(names, lambda _: insert.query.end, written)
        return names
    if insert.columns is None:
        names, what = schema.names, f"table {table!r} has"
    else:
        names = tuple(found(each, schema.names, where, written) for each in insert.columns)
        at = dict(zip(names, (each.at for each in insert.columns), strict=True))
        check_twice(names, at.__getitem__, written)
        what = "the statement names"
    if len(names) != len(given):
        problem = f"{what} {counted(len(names), 'column')}, but the query has {len(given)}"
        hint = f"the columns of {table} are {', '.join(schema.names)}"
        if insert.columns is None:
            hint = f"name those that you give: INSERT INTO {table} (…), or write BY NAME; {hint}"
        raise placed(InvalidInput(problem, hint=hint), written, insert.query.end)
    return names


def default_values(insert: InsertRows, table: str, schema: Schema) -> list[Any]:
    """Return the value of each DEFAULT in the rows of an INSERT.

    Raises
    ------
    InvalidInput
        When a column has neither a default nor NULL, or the columns go by the names of the query, which VALUES lacks.
    """
    if insert.by_name:
        error = InvalidInput("VALUES has no column names", hint="name them: INSERT INTO t (a, b) VALUES (…)")
        raise placed(error, insert.written, insert.query.end)
    where, names, fields = f" of table {table!r}", schema.names, {field.name: field for field in schema.fields}
    given = names if insert.columns is None else [found(each, names, where, insert.written) for each in insert.columns]
    values = []
    for each in insert.defaults:
        field = fields[given[each.place]] if each.place < len(given) else None  # `insert_names` refuses it
        if field is not None and field.default is None and not field.nullable:
            error = InvalidInput(f"column {field.name!r} has no default", hint="write a value")
            raise placed(error, insert.written, each.at)
        values.append(None if field is None else field.default)
    return values


def check_twice(names: Sequence[str], place: Callable[[str], int], written: Statement | Written) -> None:
    """Raise when a name occurs twice; `place` returns where a name is, for the caret."""
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise placed(InvalidInput(f"column {twice!r} occurs twice", hint="name it once"), written, place(twice))
