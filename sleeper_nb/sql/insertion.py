"""``INSERT``: rows of a query that are added to a table, and which rows of it they replace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sleeper_nb.change.row_changes import (
    DefaultValue,
    InsertRows,
    NamedQueries,
    OverwriteRows,
    ReplacedAll,
    ReplacedByColumns,
    ReplacedWhere,
    Target,
)
from sleeper_nb.model.sql_values import Given, Name, QueryPart
from sleeper_nb.sql.composition import Composition, Piece
from sleeper_nb.sql.delete_update import check_no_evolution, check_not_named, read_distinct_names
from sleeper_nb.sql.expressions import read_expression
from sleeper_nb.sql.foreign_statements import to_add_new_rows, to_update_rows
from sleeper_nb.sql.grammar import StatementReader, begins_query, is_name, opens_query
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import CLOSING, skip_brackets, spells

_HINT: Final = "write INSERT INTO t SELECT …, INSERT INTO t (a, b) VALUES (…) or INSERT INTO t BY NAME SELECT …"
_REPLACE_HINT: Final = (
    "write INSERT INTO t REPLACE WHERE condition SELECT …, or INSERT INTO t REPLACE USING (a, b) SELECT …"
)
_OVERWRITE_HINT: Final = "write INSERT OVERWRITE t SELECT …, or INSERT OVERWRITE t (a, b) VALUES (…)"


_DEFAULT: Final = "DEFAULT"


def query_with_values(insert: InsertRows, statement: Statement, values: Sequence[Any]) -> Composition:
    """Return the query of an INSERT with a value in place of each of its defaults."""
    left_out = [(insert.query.start, insert.query.end)]
    left_out += [(each.at, each.at + len(_DEFAULT)) for each in insert.defaults]
    pieces: list[Piece] = []
    begin = 0
    for number, (start, end) in enumerate([*left_out, (len(statement.text), 0)]):
        first, after = statement.index_from(begin), statement.index_from(start)
        pieces += [statement.between(first, after)] if first < after else []
        pieces += [Given(values[number - 1])] if 0 < number <= len(values) else []
        begin = end
    return Composition(tuple(pieces))


def read_insert(reader: StatementReader, named: NamedQueries | None) -> InsertRows | OverwriteRows | None:
    """Read ``INSERT INTO …`` and ``INSERT OVERWRITE …``; None for any other, such as one into a folder."""
    start = reader.offset
    reader.skip("INSERT")
    check_no_evolution(reader)
    _check_no_alternative(reader)
    if reader.skip("INTO"):
        return _insert(reader, named, start)
    if not reader.skip("OVERWRITE") or _is_folder(reader):
        return None
    reader.skip("TABLE")
    table = reader.read_table(_OVERWRITE_HINT)
    check_not_named(reader, table, named)
    _check_no_partition(reader, table)
    columns = _columns(reader, _OVERWRITE_HINT)
    return _overwrite(_inserted(reader, table, start, columns, _OVERWRITE_HINT), ReplacedAll(), named)


def _check_no_alternative(reader: StatementReader) -> None:
    """Raise for ``INSERT OR REPLACE`` and the like, and where INTO is missing."""
    at = reader.offset
    if reader.skip("OR") and reader.word in _ALTERNATIVES:
        words, hint = f"OR {reader.word}", _ALTERNATIVES[reader.word]
        reader.at += 1
        reader.skip("INTO")
        raise reader.error(f"INSERT takes no {words}", hint(str(reader.read_table(_HINT))), at)
    if reader.offset != at:
        raise reader.error("INTO is expected", _HINT)
    token = reader.peek()
    if token is not None and token.word not in {"INTO", "OVERWRITE"} and is_name(token):
        raise reader.error("INTO is expected", _HINT.replace("INTO t", f"INTO {token.text}"))


_ALTERNATIVES: Final = {"REPLACE": to_update_rows, "IGNORE": to_add_new_rows}


def _is_folder(reader: StatementReader) -> bool:
    after = reader.peek(2 if reader.spells("LOCAL", "DIRECTORY") else 1)
    is_named = reader.spells("DIRECTORY") or reader.spells("LOCAL", "DIRECTORY")
    return is_named and after is not None and (after.kind == "string" or after.word in {"USING", "STORED", "ROW"})


def _insert(reader: StatementReader, named: NamedQueries | None, start: int) -> InsertRows | OverwriteRows:
    reader.skip("TABLE")
    table = reader.read_table(_HINT)
    _check_no_partition(reader, table)
    columns, by_name = _columns(reader, _HINT)
    if not reader.spells("REPLACE"):
        return _inserted(reader, table, start, (columns, by_name), _HINT)
    at = reader.offset
    reader.skip("REPLACE")
    check_not_named(reader, table, named)
    replaced = _replaced(reader, table, at)
    if columns is None and not by_name:
        columns, by_name = _columns(reader, _REPLACE_HINT)
    return _overwrite(_inserted(reader, table, start, (columns, by_name), _REPLACE_HINT), replaced, named)


def _overwrite(
    insert: InsertRows, replaced: ReplacedWhere | ReplacedByColumns | ReplacedAll, named: NamedQueries | None
) -> OverwriteRows:
    return OverwriteRows(Target(insert.table), insert, replaced, named, insert.written)


def _replaced(reader: StatementReader, table: Name, at: int) -> ReplacedWhere | ReplacedByColumns:
    """Read ``WHERE condition`` or ``USING (a, b)`` after ``REPLACE``."""
    if reader.skip("WHERE"):
        return ReplacedWhere(read_expression(reader, "a condition", _REPLACE_HINT, query_after=True))
    if reader.skip("USING"):
        return ReplacedByColumns(read_distinct_names(reader, _REPLACE_HINT))
    if reader.spells("ON"):
        hint = f"write REPLACE USING (a, b), or MERGE INTO {table} USING (SELECT …) AS s ON …"
        raise reader.error("INSERT takes no REPLACE ON", hint, at)
    raise reader.error("WHERE or USING is expected after REPLACE", _REPLACE_HINT)


def _columns(reader: StatementReader, hint: str) -> tuple[tuple[Name, ...] | None, bool]:
    """Read ``(a, b)``, ``BY NAME``, ``BY POSITION`` or nothing: the columns, and whether they go by their names."""
    columns = None if not reader.spells("(") or opens_query(reader) else reader.read_names("a column", hint)
    by_name = reader.skip("BY", "NAME")
    if by_name and columns is not None:
        raise reader.error(
            "INSERT takes the names of columns or BY NAME, not both", "leave one of them out", reader.offset
        )
    _ = by_name or reader.skip("BY", "POSITION")
    return columns, by_name


def _inserted(
    reader: StatementReader, table: Name, start: int, columns: tuple[tuple[Name, ...] | None, bool], hint: str
) -> InsertRows:
    """Read the query up to the end; `columns` are its names, and whether it goes by name."""
    if not begins_query(reader):
        raise reader.error("a query or VALUES is expected", hint)
    query, defaults = QueryPart(start, reader.offset), tuple(_defaults(reader))
    _check_end(reader, table)
    return InsertRows(table, query, reader.statement.written, *columns, defaults)


def _defaults(reader: StatementReader) -> Iterator[DefaultValue]:
    """Yield each ``DEFAULT`` that is a value by itself in the rows of a VALUES that comes next."""
    tokens, at = reader.tokens, reader.at + 1
    while reader.spells("VALUES") and spells(tokens, at, "("):
        after, place, begins = skip_brackets(tokens, at), 0, True
        at += 1
        while at < after:
            token = tokens[at]
            if begins and token.word == _DEFAULT and (spells(tokens, at + 1, ",") or spells(tokens, at + 1, ")")):
                yield DefaultValue(token.start, place)
            begins = token.symbol == ","
            place += begins
            at = skip_brackets(tokens, at) if token.symbol in CLOSING else at + 1
        at = after + spells(tokens, after, ",")


def _check_no_partition(reader: StatementReader, table: Name) -> None:
    if not reader.spells("PARTITION", "("):
        return
    hint = f"name the columns whose values are replaced: INSERT INTO {table} REPLACE USING (a, b) SELECT …"
    raise reader.error("a table has no partitions with names", hint, reader.offset)


_AFTER_CONFLICT: Final = (("(",), ("DO",), ("ON", "CONSTRAINT"))
"""What follows ``ON CONFLICT`` in its clause; otherwise the words join a table on a column of that name."""


def _check_end(reader: StatementReader, table: Name) -> None:
    """Raise for clauses of other databases after the query, which would change rows or return them."""
    while not reader.is_at_end:
        if reader.spells("(") or reader.spells("["):
            reader.at = skip_brackets(reader.tokens, reader.at)
            continue
        if any(reader.spells("ON", "CONFLICT", *after) for after in _AFTER_CONFLICT):
            leaves = any(spells(reader.tokens, at, "DO", "NOTHING") for at in range(reader.at, len(reader.tokens)))
            hint = (to_add_new_rows if leaves else to_update_rows)(str(table))
            raise reader.error("INSERT takes no ON CONFLICT", hint, reader.offset)
        if reader.spells("ON", "DUPLICATE", "KEY", "UPDATE"):
            raise reader.error("INSERT takes no ON DUPLICATE KEY", to_update_rows(str(table)), reader.offset)
        if reader.spells("RETURNING") and reader.statement.rules.takes_returning:
            hint = "leave it out: the answer has the number of rows and the new snapshot"
            raise reader.error("INSERT takes no RETURNING", hint, reader.offset)
        reader.at += 1
