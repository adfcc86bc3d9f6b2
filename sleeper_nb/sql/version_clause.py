"""The version clause after a table's name: ``VERSION AS OF …``, ``TIMESTAMP AS OF …``, ``AT (…)`` and ``@ref``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import Dialect
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token, skip_brackets, spells, unquote

if TYPE_CHECKING:
    from collections.abc import Sequence

RESERVED = frozenset({
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH", "QUALIFY", "WINDOW", "UNION",
    "INTERSECT", "EXCEPT", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ON", "USING", "PIVOT",
    "UNPIVOT", "PIVOT_WIDER", "PIVOT_LONGER", "TABLESAMPLE", "LATERAL", "WITH", "TABLE", "VALUES", "INSERT", "SET",
    "AS", "FOR", "WHEN", "RETURNING", "AND", "OR", "THEN", "END",
})  # fmt: skip
"""Words that can follow a table, so that none of them is an alias or a table's name unless it is quoted."""
_UNIT = re.compile(
    r"(NANO|MICRO|MILLI)?SECONDS?|MINUTES?|HOURS?|DAYS?|WEEKS?|MONTHS?|QUARTERS?|YEARS?|DECADES?|CENTUR(Y|IES)"
    r"|MILLENNI(UM|A)S?"
)
"""All of an engine: one that is left out would be read as the table's alias, and the interval as one of seconds."""
_REFERENCE = re.compile(r"\w+(?:[-.:]\w+)*")
_WHOLE_NUMBER = re.compile(r"-?[0-9]+")
_KINDS: dict[str, Literal["version", "timestamp"]] = {
    "VERSION": "version", "SYSTEM_VERSION": "version", "TIMESTAMP": "timestamp", "SYSTEM_TIME": "timestamp",
}  # fmt: skip
_BEGINNINGS = frozenset({"AT", "FOR", *_KINDS})
_TYPES = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATETIME"})
_HINT = "write VERSION AS OF 12, VERSION AS OF 'before-fix' for a savepoint, or TIMESTAMP AS OF '2026-11-01 10:00:00'"


@dataclass(frozen=True, slots=True)
class VersionClause:
    """Which version of a table a statement asks for, and the span of the clause in it.

    The kind is ``"reference"`` for ``table@ref``, which may be a version or a time. `text` is the literal or expression
    as written, quotes included; `literal` the value of a plain one, None for what the engine evaluates.
    """

    kind: Literal["version", "timestamp", "reference"]
    text: str
    literal: str | int | None
    start: int
    end: int


def read_clause(statement: Statement, at: int) -> tuple[VersionClause, int] | None:
    """Return the clause that begins at an index of the tokens, and the index after it; None when none begins there.

    Raises for one that names no version.
    """
    tokens = statement.tokens
    if not (0 <= at < len(tokens) and (tokens[at].symbol == "@" or tokens[at].word in _BEGINNINGS)):
        return None
    if tokens[at].symbol == "@":
        return _reference(statement, at) if at and tokens[at].start == tokens[at - 1].end else None
    if spells(tokens, at, "AT", "(") and spells(tokens, at + 3, "=>") and tokens[at + 2].word in _KINDS:
        after = skip_brackets(tokens, at + 1)
        kind, first, last = _KINDS[tokens[at + 2].word], at + 4, after - 1
    else:
        head = at + 1 if spells(tokens, at, "FOR") else at
        if not (spells(tokens, head + 1, "AS", "OF") and tokens[head].word in _KINDS):
            return None
        kind, first = _KINDS[tokens[head].word], head + 3
        after = last = _version(tokens, first) if kind == "version" else _expression(tokens, first)
    if first >= last or not _closed(tokens, at, after):
        raise InvalidInput(f"no version in {statement.text[tokens[at].start : tokens[after - 1].end]!r}", hint=_HINT)
    text = statement.text[tokens[first].start : tokens[last - 1].end]
    literal = _literal(text, tokens[first:last], statement.dialect, bare=kind == "version")
    return VersionClause(kind, text, literal, tokens[at].start, tokens[after - 1].end), after


def _closed(tokens: Sequence[Token], at: int, after: int) -> bool:
    return tokens[at].word != "AT" or tokens[after - 1].symbol == ")"


def _reference(statement: Statement, at: int) -> tuple[VersionClause, int]:
    """Read ``@ref``: letters, digits and ``_ - . :`` without spaces, or anything in quotes."""
    sql, tokens = statement.text, statement.tokens
    start = tokens[at].end
    following = tokens[at + 1] if at + 1 < len(tokens) and tokens[at + 1].start == start else None
    if following is not None and following.kind in {"quoted", "string"}:
        literal = unquote(following, dialect=statement.dialect)
        return VersionClause("reference", following.text, literal, tokens[at].start, following.end), at + 2
    match = _REFERENCE.match(sql, start)
    if match is None:
        raise InvalidInput(f"no version after {sql[tokens[at - 1].start : start]!r}", hint="write table@savepoint.3")
    after = at + 1
    while after < len(tokens) and tokens[after].start < match.end():
        after += 1
    text = match.group()
    literal_value = int(text) if _WHOLE_NUMBER.fullmatch(text) else text
    return VersionClause("reference", text, literal_value, tokens[at].start, match.end()), after


def _literal(text: str, tokens: Sequence[Token], dialect: Dialect, *, bare: bool) -> str | int | None:
    if _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if len(tokens) == 1 and (tokens[0].kind == "string" or (bare and tokens[0].kind == "quoted")):
        return unquote(tokens[0], dialect=dialect)
    return text if bare and tokens[0].kind in {"word", "number"} and _REFERENCE.fullmatch(text) else None


def _version(tokens: Sequence[Token], at: int) -> int:
    """Return the index after one version; a bare ``savepoint.before-fix`` is read as one word."""
    after = _operand(tokens, at)
    while (
        after > at
        and tokens[at].kind == "word"
        and after + 1 < len(tokens)
        and tokens[after].text in {"-", "."}
        and tokens[after].start == tokens[after - 1].end
        and tokens[after + 1].start == tokens[after].end
        and tokens[after + 1].kind in {"word", "number"}
    ):
        after += 2
    return after


def _expression(tokens: Sequence[Token], at: int) -> int:
    """Return the index after a value: a literal, a parameter, a call, or any expression in brackets; arithmetic."""
    at = _operand(tokens, at)
    while at < len(tokens) and tokens[at].symbol in {"+", "-", "*", "/"}:
        at = _operand(tokens, at + 1)
    return at


def _operand(tokens: Sequence[Token], at: int) -> int:
    while at < len(tokens) and tokens[at].symbol in {"+", "-"}:
        at += 1
    if at >= len(tokens) or tokens[at].word in RESERVED:
        return at
    token = tokens[at]
    if token.symbol == "(":
        at = skip_brackets(tokens, at)
    elif token.word == "INTERVAL":
        at = _operand(tokens, at + 1)
        at += at < len(tokens) and _UNIT.fullmatch(tokens[at].word) is not None
    elif token.kind in {"word", "quoted"}:
        at = _named(tokens, at)
    elif token.kind in {"string", "number"}:
        at += 1
    elif token.symbol in {":", "$"}:
        at = min(at + 2, len(tokens))
    while spells(tokens, at, "::") and at + 1 < len(tokens):
        at = _named(tokens, at + 1)
    return at


def _named(tokens: Sequence[Token], at: int) -> int:
    """Return the index after a name, a call or a typed literal such as ``TIMESTAMP '…'``."""
    is_type = tokens[at].word in _TYPES
    at += 1
    while spells(tokens, at, ".") and at + 1 < len(tokens):
        at += 2
    if spells(tokens, at, "("):
        return skip_brackets(tokens, at)
    return at + 1 if is_type and at < len(tokens) and tokens[at].kind == "string" else at
