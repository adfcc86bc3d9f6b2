"""Recognise the statements that metadata can answer: ``count``, ``min`` and ``max`` of a table, and its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token, unquote

_FUNCTIONS: Final = frozenset({"COUNT", "MIN", "MAX"})
_VALUES: Final = frozenset({"NULL", "TRUE", "FALSE"})
"""Words that are values, also where a column has such a name."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One column of an answer.

    Parameters
    ----------
    column
        The column that it is computed of, as written; None for ``count(*)``.
    """

    function: Literal["count", "min", "max"]
    column: str | None


def aggregates_of(statement: Statement, table: str) -> tuple[Aggregate, ...] | None:
    """Return what ``SELECT count(*), min(a), max(a) AS last FROM table AS other`` asks for.

    None for every other statement: one with a ``WHERE``, ``FILTER`` or ``LIMIT`` is another statement.

    Parameters
    ----------
    table
        The name of the table in it.
    """
    tokens, dialect = statement.tokens, statement.dialect
    words = statement.words()
    if not words or words[0] != "SELECT" or "FROM" not in words:
        return None
    at = words.index("FROM")
    named, alias = tokens[at + 1 : at + 2], tokens[at + 2 :]
    if [unquote(token, dialect=dialect) for token in named] != [table] or (alias and not _is_alias(alias)):
        return None
    found = [_aggregate(part, statement) for part in _parts(tokens[1:at])]
    known = [each for each in found if each is not None]
    return tuple(known) if known and len(known) == len(found) else None


def _parts(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens between commas."""
    begin = 0
    for at, token in enumerate(tokens):
        if token.symbol == ",":
            yield tokens[begin:at]
            begin = at + 1
    yield tokens[begin:]


def _aggregate(tokens: Sequence[Token], statement: Statement) -> Aggregate | None:
    """Return what ``count(*)`` or ``min(a) AS first`` asks for; None for any other tokens."""
    if len(tokens) not in {4, 6} or tokens[0].word not in _FUNCTIONS or tokens[1].symbol + tokens[3].symbol != "()":
        return None
    alias = tokens[4:]
    if alias and not _is_alias(alias):
        return None
    function, what = tokens[0].word.lower(), tokens[2]
    if what.symbol == "*" and function == "count":
        return Aggregate("count", None)
    if what.kind not in {"word", "quoted"} or what.word in _VALUES:
        return None
    return Aggregate(function, unquote(what, dialect=statement.dialect))  # type: ignore[arg-type]


def lists_columns(statement: Statement, table: str) -> bool:
    """Return whether a statement is ``DESCRIBE table``, or means the same.

    Parameters
    ----------
    table
        The name of the table in it.
    """
    tokens, dialect = statement.tokens, statement.dialect
    if not tokens or tokens[0].word not in statement.rules.lists_columns:
        return False
    at = 1
    while at < len(tokens) and tokens[at].word in {"TABLE", "EXTENDED", "FORMATTED"}:
        at += 1
    return [unquote(token, dialect=dialect) for token in tokens[at:]] == [table]


def _is_alias(tokens: Sequence[Token]) -> bool:
    return len(tokens) == 2 and tokens[0].word == "AS" and tokens[1].kind in {"word", "quoted"}
