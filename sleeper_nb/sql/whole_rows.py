"""Refuse a row as a whole in the conditions and values of a statement that changes rows.

The engine reads the table and the source of a merge with columns of this package, their places and numbers. A star, or
a name of either as a value, would have these in it: a text or a comparison of the row would be a wrong one. In a
subquery too such a name is refused, also where it means a table of the subquery: that can have another name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sleeper_nb.change.row_changes import MergeRows, RowChange, conditions_of, values_of
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import Slice
from sleeper_nb.sql.grammar import placed
from sleeper_nb.sql.references import table_references
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token, skip_brackets, unquote

_QUERIES = frozenset({"SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT"})


def check_no_whole_rows(change: RowChange, columns: Collection[str]) -> None:
    """Raise `InvalidInput` for a row of the table or of the source as a whole.

    Parameters
    ----------
    change
        The change.
    columns
        The columns of the table: such a name is a column, even if the table has it too.
    """
    relations = [change.target.name]
    relations += [change.source.name.text] if isinstance(change, MergeRows) and change.source.name is not None else []
    names = frozenset(map(str.casefold, relations)) - {name.casefold() for name in columns}
    for part in (*conditions_of(change), *values_of(change)):
        if not isinstance(part, Slice):
            continue
        found = _whole_row(Statement.of(part.text, dialect=part.written.dialect), names)
        if found is not None:
            token, is_in_query = found
            hint = "name the columns that are meant, such as n or t.n"
            if is_in_query and token.kind != "symbol":
                hint += f"; for a column {token.text} of another table write u.{token.text}; a query takes another name"
            error = InvalidInput(f"{token.text} stands for a whole row here", hint=hint)
            raise placed(error, part.written, part.at + token.start)


def _whole_row(expression: Statement, names: frozenset[str]) -> tuple[Token, bool] | None:
    """Return the first token that stands for a whole row, and whether it is in a query."""
    tokens, own, end_of_query = expression.tokens, set[int](), 0
    for at, token in enumerate(tokens):
        if at >= end_of_query and _opens_query(tokens, at):
            end_of_query = skip_brackets(tokens, at)
            own = _names_of_tables(expression, at, end_of_query)
        before, following = _around(tokens, at)
        is_in_query = at < end_of_query
        is_star = token.symbol == "*" and (before is None or before.symbol in {"(", ",", ".", "["})
        is_columns = token.word == "COLUMNS" and following is not None and following.symbol == "("
        if not is_in_query and (is_star or is_columns):
            return token, False
        if is_star and at > 1 and tokens[at - 1].symbol == "." and _name(expression, tokens[at - 2]) in names:
            return tokens[at - 2], is_in_query
        is_value = token.kind in {"word", "quoted"} and _stands_alone(before, following)
        if is_value and token.start not in own and _name(expression, token) in names:
            return token, is_in_query
    return None


def _opens_query(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].symbol == "(" and at + 1 < len(tokens) and tokens[at + 1].word in _QUERIES


def _names_of_tables(expression: Statement, at: int, after: int) -> set[int]:
    """Return where the query in the brackets from an index to another one names a table."""
    tokens = expression.tokens
    start, last = tokens[at + 1].start, tokens[after - 1]
    text = expression.text[start : last.start if last.symbol == ")" else last.end]
    found = set[int]()
    for table in table_references(Statement.of(text, dialect=expression.dialect)):
        end = expression.index_from(start + table.end)
        found |= {start + table.start, *(each.start for each in tokens[end : end + 1] if table.alias is not None)}
    return found


def _name(statement: Statement, token: Token) -> str:
    return unquote(token, dialect=statement.dialect).casefold() if token.kind in {"word", "quoted"} else ""


def _around(tokens: Sequence[Token], at: int) -> tuple[Token | None, Token | None]:
    return tokens[at - 1] if at else None, tokens[at + 1] if at + 1 < len(tokens) else None


def _stands_alone(before: Token | None, after: Token | None) -> bool:
    """Return whether a name between two tokens is a value: not a qualifier, field, parameter, label, type or alias."""
    if before is not None and (before.symbol in {".", ":", "$", ")"} or before.kind == "number" or before.word == "AS"):
        return False
    is_unit = after is not None and after.word == "FROM" and before is not None and before.symbol == "("
    return after is None or not (is_unit or after.symbol in {".", "(", ":"} or after.kind == "string")
