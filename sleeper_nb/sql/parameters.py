"""The ``:name`` parameters of a statement, and their values as both engines take them: plain values or lists."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.sql.statement import Replacement, Statement
from sleeper_nb.sql.tokens import CLOSERS, CLOSING, Token, spells

# Words after which a value begins, so that a colon there can only begin a parameter.
_BEFORE_VALUE = frozenset({"WHEN", "THEN", "ELSE", "CASE", "AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "FROM"})

_PLAIN = (bool, int, float, str, bytes, Decimal, date, time, timedelta)
_NULLS = frozenset({"NoneType", "NaTType", "NAType"})  # by name: neither pandas nor numpy is imported for it
_LARGEST = 1 << 63
_HINT = "bind a number, text, bytes, date, time, or a list of these"
BEFORE_TABLE = frozenset({"FROM", "JOIN", "INTO", "UPDATE", "TABLE", "USING", "OVERWRITE"})
NAME_IT = 'a table name is not a value: write it as it is; or build the text in Python: session.sql(f"…")'
"""The hint of a placeholder where the name of a table belongs."""


def parameter_names(statement: Statement) -> tuple[str, ...]:
    """Return the names of the ``:name`` parameters, each once, in the order of their first use.

    DuckDB's own ``$name`` is one too, in its dialect; the ``$`` of ``flights$files`` is part of a name. Strings,
    comments, casts (``x::int``), struct keys (``{'a':b}``), slices (``x[1:n]``) and anything else that follows a value
    without a space (``alias:table``) are no parameters.
    """
    return tuple(dict.fromkeys(name.text for _, name in _parameters(statement)))


def with_own_parameters(statement: Statement) -> Statement:
    """Return the statement with each ``:name`` as its engine writes it; nothing else changes, not even the length."""
    own = statement.rules.parameter_mark
    marks = (mark for mark, _ in _parameters(statement) if mark.symbol != own)
    return statement.replaced(Replacement(mark.start, mark.end, own) for mark in marks)


def with_duckdb_variables(statement: Statement) -> Statement:
    """Return the statement with a variable of DuckDB's, of the same name, in place of each parameter."""
    return statement.replaced(
        Replacement(mark.start, name.end, f"getvariable('{name.text}')") for mark, name in _parameters(statement)
    )


def _parameters(statement: Statement) -> Iterator[tuple[Token, Token]]:
    """Yield the mark and the name of each parameter."""
    open_brackets: list[str] = []
    tokens = statement.tokens
    for index, token in enumerate(tokens):
        if not token.symbol:
            continue
        before = tokens[index - 1] if index else None
        if token.symbol in CLOSING:
            subscript = token.symbol == "[" and before is not None and before.end == token.start and _is_value(before)
            open_brackets.append("subscript" if subscript else token.symbol)
        elif token.symbol in CLOSERS and open_brackets:
            open_brackets.pop()
        elif token.symbol in {":", "$"} and index + 1 < len(tokens):
            name = tokens[index + 1]
            is_own = token.symbol == statement.rules.parameter_mark
            opens = is_own if token.symbol == "$" else _may_open(before, token, open_brackets)
            if name.kind == "word" and name.start == token.end and opens:
                yield token, name


def _may_open(before: Token | None, colon: Token, open_brackets: Sequence[str]) -> bool:
    """Return whether a colon after a token can begin a parameter."""
    around = open_brackets[-1] if open_brackets else ""
    if before is None:
        return True
    if _is_value(before):
        return before.end < colon.start and (around not in {"subscript", "{"} or before.word in _BEFORE_VALUE)
    return not (around == "subscript" and before.symbol == "[")


def _is_value(token: Token) -> bool:
    return not token.symbol or token.symbol in CLOSERS


def has_table_parameter(tokens: Sequence[Token]) -> bool:
    """Return whether a parameter stands where the name of a table belongs: ``FROM :x``."""
    pairs = (tokens[at + 1 : at + 3] for at, token in enumerate(tokens) if token.word in BEFORE_TABLE)
    return any(len(pair) > 1 and pair[0].symbol in {":", "$"} and pair[1].kind == "word" for pair in pairs)


def plain_values(statement: Statement, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each parameter of a statement.

    What is given may be values of Python, numpy, pandas, Arrow or Polars; those that are no values of SQL only count
    when the statement uses them. `NotFound` when there is no value of a name: the hint has only names of values.
    `InvalidInput` when it is no value, or a list is used where each value of it is meant.
    """
    values = {}
    for name in parameter_names(statement):
        if name not in given:
            error = unknown_parameter(name, given)
            error.hint = NAME_IT if has_table_parameter(statement.tokens) else error.hint_parts
            raise error
        values[name] = plain_value(name, given[name])
    _check_lists(statement, values)
    return values


def unknown_parameter(name: str, given: Mapping[str, Any]) -> NotFound:
    """Return the error of a parameter without a value: what gives it one, unless it is another one misspelt."""
    known = [other for other, value in given.items() if _may_be_bound(value)]
    error = NotFound.of("parameter", name, known)
    if not difflib.get_close_matches(name, known):
        source = f":{name} takes the value of the notebook's variable {name} (in Python: params={{{name!r}: …}})"
        error.hint = (source, "; ", *error.hint_parts) if known else source
    return error


def plain_value(name: str, value: Any) -> Any:
    """Return the value of a parameter as both engines take it; `InvalidInput` when it is no value of SQL."""
    if type(value).__name__ in _NULLS:
        return None
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        return plain_value(name, _of_numpy(value))
    if hasattr(value, "as_py"):
        return plain_value(name, value.as_py())
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return Decimal(value)  # Spark has no larger whole number
    if isinstance(value, _PLAIN):
        return _of_pandas(name, value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Mapping):
        return {key: plain_value(name, each) for key, each in value.items()}
    if _is_list(value):
        return [plain_value(name, each) for each in value]
    raise InvalidInput(f"parameter {name!r} is a {type(value).__name__}, no value of SQL", hint=_HINT)


def _of_numpy(value: Any) -> Any:
    item = value.item()
    if value.dtype.kind not in "mM" or not isinstance(item, int):
        return item
    import pandas as pd

    # Python's own times have no nanoseconds, so that numpy gives their number instead.
    return pd.Timestamp(value[()]) if value.dtype.kind == "M" else pd.Timedelta(value[()])


def _of_pandas(name: str, value: Any) -> Any:
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        hint = "round it to microseconds, the unit of a table's times, as .floor('us') of pandas does"
        raise InvalidInput(f"parameter {name!r} has nanoseconds, which would be lost", hint=hint)
    if isinstance(value, datetime) and hasattr(value, "to_pydatetime"):
        return value.to_pydatetime(warn=False)
    return value.to_pytimedelta() if hasattr(value, "to_pytimedelta") else value


def _is_list(value: object) -> bool:
    """Return whether something is values in a row: a table, which has columns of them, is not."""
    listed = isinstance(value, Sequence | AbstractSet) or (hasattr(value, "__array__") and hasattr(value, "__len__"))
    return listed and not hasattr(value, "columns")


def _may_be_bound(value: object) -> bool:
    if _is_list(value):
        return True  # without a look at each of what may be millions
    try:
        plain_value("", value)
    except InvalidInput:
        return False
    return True


def _check_lists(statement: Statement, values: Mapping[str, Any]) -> None:
    """Raise for ``IN (:name)`` of a list, which the engines refuse with a message about types."""
    if not any(isinstance(value, list) for value in values.values()):
        return
    tokens = statement.tokens
    for index in range(len(tokens) - 4):
        name = tokens[index + 3].text
        in_brackets = spells(tokens, index, "IN", "(", ":") and tokens[index + 4].symbol == ")"
        if in_brackets and isinstance(values.get(name), list):
            raise InvalidInput(
                f"IN (:{name}) compares with the whole list, not with each value of it",
                hint=f"write array_contains(:{name}, COLUMN)",
            )
