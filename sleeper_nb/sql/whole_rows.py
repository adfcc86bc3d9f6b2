"""Refuse a row as a whole in the conditions and values of a statement that changes rows.

The engine reads the table and the source of a merge with columns of this package, their places and numbers. A star, or
a name of either as a value, would have these in it: a text or a comparison of the row would be a wrong one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sleeper_nb.errors import InvalidInput
from sleeper_nb.sql.delete_update import DeleteRows, UpdateRows
from sleeper_nb.sql.grammar import placed
from sleeper_nb.sql.insertion import OverwriteRows, ReplacedWhere
from sleeper_nb.sql.merge_rows import InsertColumns, MergeRows, UpdateColumns
from sleeper_nb.sql.statement import Slice, Statement
from sleeper_nb.sql.tokens import Token, skip_brackets, unquote
from sleeper_nb.sql.writes import RowChange

_QUERIES = frozenset({"SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT"})


def check_no_whole_rows(change: RowChange, statement: Statement, columns: Collection[str]) -> None:
    """Raise `InvalidInput` for a row as a whole outside subqueries, whose own tables have no such columns.

    Parameters
    ----------
    change, statement
        What the statement says, and the statement.
    columns
        The columns of the table: such a name is a column, even if the table has it too.
    """
    names = {name.casefold() for name in _relations(change)} - {name.casefold() for name in columns}
    for part in _parts(change):
        if part is None:
            continue
        first, after = statement.index_from(part.at), statement.index_from(part.end)
        token = _whole_row(statement, statement.tokens[first:after], names)
        if token is not None:
            problem = f"{token.text} stands for a whole row here"
            error = InvalidInput(problem, hint="name the columns that are meant, such as n or t.n")
            raise placed(error, statement, token.start)


def _relations(change: RowChange) -> Iterator[str]:
    """Yield the names by which columns are qualified."""
    match change:
        case OverwriteRows():
            yield change.table.text.rpartition(".")[2]
        case MergeRows(target, source):
            yield target.name
            if source.name is not None:
                yield source.name.text
        case _:
            yield change.target.name


def _parts(change: RowChange) -> Iterator[Slice | None]:
    """Yield the conditions and values."""
    match change:
        case DeleteRows(_, condition):
            yield condition
        case UpdateRows(_, assignments, condition):
            yield condition
            yield from (each.value for each in assignments)
        case MergeRows():
            yield change.condition
            for clause in change.clauses:
                yield clause.condition
                if isinstance(clause.action, UpdateColumns | InsertColumns):
                    yield from (each.value for each in clause.action.assignments)
        case OverwriteRows(_, ReplacedWhere(condition)):
            yield condition


def _whole_row(statement: Statement, tokens: Sequence[Token], names: Collection[str]) -> Token | None:
    """Return the first token that stands for a whole row."""
    at = 0
    while at < len(tokens):
        before, token, after = tokens[at - 1] if at else None, tokens[at], tokens[at + 1 : at + 2]
        if token.symbol == "(" and after and after[0].word in _QUERIES:
            at = skip_brackets(tokens, at)
            continue
        is_star = token.symbol == "*" and (before is None or before.symbol in {"(", ",", ".", "["})
        is_columns = token.word == "COLUMNS" and bool(after) and after[0].symbol == "("
        is_name = token.kind in {"word", "quoted"} and _stands_alone(before, after[0] if after else None)
        if is_star or is_columns or (is_name and unquote(token, dialect=statement.dialect).casefold() in names):
            return token
        at += 1
    return None


def _stands_alone(before: Token | None, after: Token | None) -> bool:
    """Return whether a name between two tokens is a value: no qualifier, field, parameter, label, type or unit."""
    if before is not None and (before.symbol in {".", ":", "$"} or before.kind == "number" or before.word == "AS"):
        return False
    return after is None or not (after.symbol in {".", "(", ":"} or after.kind == "string" or after.word == "FROM")
