"""What is a query: a statement of DuckDB that gives rows and changes nothing, told by the words that it begins with."""

from __future__ import annotations

from sleeper_nb.engines.sql.tokens import Token, skip_brackets, tokenize
from sleeper_nb.errors import InvalidInput

_BEGINNINGS = (
    *("SELECT", "WITH", "FROM", "DESCRIBE", "DESC", "SUMMARIZE", "SHOW", "VALUES", "TABLE", "PIVOT", "UNPIVOT"),
    "EXPLAIN",
)
_HINT = "begin with SELECT, WITH, FROM, DESCRIBE or SUMMARIZE; tables are changed by commands"


def check_query(sql: str) -> None:
    """Make sure that a statement only reads; what ``EXPLAIN ANALYZE`` runs must do so too.

    Raises
    ------
    InvalidInput
        Naming the word that it begins with.
    """
    tokens = tokenize(sql, dialect="duckdb")
    if tokens and tokens[0].word == "EXPLAIN":
        tokens = _explained(tokens)
    first = next((token for token in tokens if not token.is_symbol("(")), None)
    if first is None:
        raise InvalidInput("there is no query", hint=_HINT)
    if first.word not in _BEGINNINGS:
        raise InvalidInput(f"no query begins with {first.text!r}", hint=_HINT)


def _explained(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Return the statement behind ``EXPLAIN`` and its options."""
    rest = tokens[1:]
    if rest and rest[0].word == "ANALYZE":
        rest = rest[1:]
    if len(rest) > 1 and rest[0].is_symbol("(") and rest[1].word in {"ANALYZE", "FORMAT"}:
        rest = rest[skip_brackets(rest, 0) :]
    return rest
