"""Recognise the statements that metadata can answer: those that count the rows of one table, or list its columns."""

from __future__ import annotations

from collections.abc import Sequence

from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token, unquote

_COUNT = ("SELECT", "COUNT", "(", "*", ")")
_UNNAMED = {"duckdb": '"count_star()"', "spark": "`count(1)`"}
_DESCRIBES = {"duckdb": {"DESCRIBE", "DESC", "SHOW"}, "spark": {"DESCRIBE", "DESC"}}


def name_of_count(statement: Statement, table: str) -> str | None:
    """Return the column's name in ``SELECT count(*) AS name FROM table AS other``, quoted as SQL needs it.

    None for every other statement: one with a ``WHERE``, ``FILTER`` or ``LIMIT`` is another statement.

    Parameters
    ----------
    statement
        A statement.
    table
        The name of the table in it.
    """
    tokens, dialect = statement.tokens, statement.dialect
    words = statement.words()
    if words[:5] != _COUNT or "FROM" not in words:
        return None
    at = words.index("FROM")
    named, column, alias = tokens[at + 1 : at + 2], tokens[5:at], tokens[at + 2 :]
    if [unquote(token, dialect=dialect) for token in named] != [table] or (alias and not _is_alias(alias)):
        return None
    if not column:
        return _UNNAMED[dialect]
    return column[1].text if _is_alias(column) else None


def lists_columns(statement: Statement, table: str) -> bool:
    """Return whether a statement is ``DESCRIBE table``, or means the same.

    Parameters
    ----------
    statement
        A statement.
    table
        The name of the table in it.
    """
    tokens, dialect = statement.tokens, statement.dialect
    if not tokens or tokens[0].word not in _DESCRIBES[dialect]:
        return False
    at = 1
    while at < len(tokens) and tokens[at].word in {"TABLE", "EXTENDED", "FORMATTED"}:
        at += 1
    return [unquote(token, dialect=dialect) for token in tokens[at:]] == [table]


def _is_alias(tokens: Sequence[Token]) -> bool:
    return len(tokens) == 2 and tokens[0].word == "AS" and tokens[1].kind in {"word", "quoted"}
