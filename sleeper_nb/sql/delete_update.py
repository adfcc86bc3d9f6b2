"""``DELETE`` and ``UPDATE``: which rows of a table they change, and to which values, as values.

Conditions and values are slices of the statement: the engine reads them as they were written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sleeper_nb.change.row_changes import Assignment, DeleteRows, NamedQueries, Target, UpdateRows
from sleeper_nb.model.sql_values import Name, Slice
from sleeper_nb.sql.expressions import read_expression
from sleeper_nb.sql.grammar import StatementReader, is_name
from sleeper_nb.sql.tokens import DUCKDB_RESERVED
from sleeper_nb.sql.version_clause import RESERVED, read_clause

_DELETE_HINT: Final = "write DELETE FROM t [AS x] WHERE condition"
_UPDATE_HINT: Final = "write UPDATE t [AS x] SET a = value, b = value WHERE condition"
_SET_HINT: Final = "write SET a = value, b = DEFAULT"
_TO_MERGE: Final = "write MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN"

_AFTER_EXPRESSION: Final = {
    "RETURNING": "leave it out: the answer has the numbers of rows and the new snapshot",
    "ORDER": "leave it out: write a condition that only these rows meet",
    "LIMIT": "leave it out: write a condition that only these rows meet",
}
"""What other databases take after the condition, and what to write instead."""


def read_delete(reader: StatementReader, named: NamedQueries | None) -> DeleteRows:
    """Read ``DELETE FROM t [[AS] x] [WHERE condition]``."""
    reader.expect("DELETE", hint=_DELETE_HINT)
    reader.expect("FROM", hint=_DELETE_HINT)
    target = read_target(reader, named, _DELETE_HINT)
    if reader.spells("USING"):
        raise reader.error("DELETE takes no USING", f"{_TO_MERGE} DELETE", reader.offset)
    condition = _condition(reader, "DELETE", _DELETE_HINT)
    return DeleteRows(target, condition, named, reader.statement.written)


def read_update(reader: StatementReader, named: NamedQueries | None) -> UpdateRows:
    """Read ``UPDATE t [[AS] x] SET a = value, … [WHERE condition]``."""
    reader.expect("UPDATE", hint=_UPDATE_HINT)
    target = read_target(reader, named, _UPDATE_HINT)
    reader.expect("SET", hint=_UPDATE_HINT)
    assignments = read_assignments(reader, target, frozenset({"WHERE"}))
    if reader.spells("FROM"):
        raise reader.error("UPDATE takes no FROM", f"{_TO_MERGE} UPDATE SET a = s.a", reader.offset)
    condition = _condition(reader, "UPDATE", _UPDATE_HINT)
    return UpdateRows(target, assignments, condition, named, reader.statement.written)


def _condition(reader: StatementReader, verb: str, hint: str) -> Slice | None:
    """Read ``[WHERE condition]``, up to the end."""
    condition = read_expression(reader, "a condition", hint) if reader.skip("WHERE") else None
    instead = _AFTER_EXPRESSION.get(reader.word)
    if instead is not None:
        raise reader.error(f"{verb} takes no {reader.word}", instead, reader.offset)
    reader.expect_end(hint)
    return condition


def read_target(reader: StatementReader, named: NamedQueries | None, hint: str) -> Target:
    """Read ``t [[AS] x]``, whose rows are changed."""
    table = reader.read_table(hint)
    alias = read_alias(reader, hint)
    if read_clause(reader.statement, reader.at) is not None:
        raise reader.error(f"{table.text!r} cannot be written to at a version", "leave the clause out", reader.offset)
    check_not_named(reader, table, named)
    return Target(table, alias)


def check_not_named(reader: StatementReader, table: Name, named: NamedQueries | None) -> None:
    """Raise when the table that is changed has the name of a query of the ``WITH`` before the statement."""
    if named is not None and table.text.casefold() in {name.casefold() for name in named.names}:
        raise reader.error(f"{table.text!r} is also a name of the WITH", "give that query another name", table.at)


def read_alias(reader: StatementReader, hint: str) -> Name | None:
    """Read ``[AS] x``, if it is there."""
    if reader.skip("AS"):
        return reader.read_name("an alias", hint)
    token = reader.peek()
    is_alias = token is not None and is_name(token) and token.word not in RESERVED | DUCKDB_RESERVED
    return reader.read_name("an alias", hint) if is_alias and read_clause(reader.statement, reader.at) is None else None


def read_assignments(reader: StatementReader, target: Target, stops: frozenset[str]) -> tuple[Assignment, ...]:
    """Read ``a = value, b = DEFAULT`` after ``SET``, up to one of some words."""
    if reader.spells("("):
        raise reader.error("SET takes one column at a time", _SET_HINT, reader.offset)
    assignments = [_assignment(reader, stops)]
    while reader.skip(","):
        assignments.append(_assignment(reader, stops))
    check_once(reader, target, (each.column for each in assignments))
    return tuple(assignments)


def _assignment(reader: StatementReader, stops: frozenset[str]) -> Assignment:
    column = reader.read_path("a column", _SET_HINT)
    reader.expect("=", hint=_SET_HINT)
    return Assignment(column, read_value(reader, _SET_HINT, stops | {","}))


def read_value(reader: StatementReader, hint: str, stops: frozenset[str]) -> Slice | None:
    """Read the value of a column; None for ``DEFAULT``."""
    value = read_expression(reader, "a value", hint, stops=stops)
    return None if value.text.upper() == "DEFAULT" else value


def check_once(reader: StatementReader, target: Target, columns: Iterable[Name]) -> None:
    """Raise when a column gets two values."""
    seen: set[str] = set()
    for column in columns:
        qualifier, _, rest = column.text.casefold().partition(".")
        name = rest if rest and target.is_called(qualifier) else column.text.casefold()
        if name in seen:
            raise reader.error(f"column {column.text!r} gets two values", "name each column once", column.at)
        seen.add(name)


def read_distinct_names(reader: StatementReader, hint: str) -> tuple[Name, ...]:
    """Read names of columns in brackets, each once: ``(a, b)``."""
    names = reader.read_names("a column", hint)
    seen: set[str] = set()
    for name in names:
        if name.text.casefold() in seen:
            raise reader.error(f"column {name.text!r} occurs twice", "name it once", name.at)
        seen.add(name.text.casefold())
    return names


def check_no_evolution(reader: StatementReader) -> None:
    """Raise for ``WITH SCHEMA EVOLUTION``, which would change the columns of the table."""
    if reader.spells("WITH", "SCHEMA", "EVOLUTION"):
        hint = "write ALTER TABLE t ADD COLUMN a INT first, and leave it out"
        raise reader.error("only ALTER TABLE changes the columns of a table", hint, reader.offset)
