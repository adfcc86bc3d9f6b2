"""What a ``:name`` stands for, as both engines take it: a plain value of Python, or a list of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.sql.tokens import Dialect, spells, tokenize

_PLAIN = (bool, int, float, str, bytes, Decimal, date, time, timedelta)
_NULLS = frozenset({"NoneType", "NaTType", "NAType"})  # by name: neither pandas nor numpy is imported for it
_LARGEST = 1 << 63
_HINT = "bind a number, text, bytes, date, time, or a list of these"


def plain_values(sql: str, names: Iterable[str], given: Mapping[str, Any], *, dialect: Dialect) -> dict[str, Any]:
    """Return the value of each parameter of a statement.

    Parameters
    ----------
    sql
        The statement.
    names
        Its parameters.
    given
        The values that there are, of Python, numpy, pandas, Arrow or Polars; some may be no values of SQL.
    dialect
        Of the statement.

    Raises
    ------
    NotFound
        When there is none of a name; the hint has only names of values.
    InvalidInput
        When what is given is no value, or a list stands where each value of it is looked for.
    """
    values = {}
    for name in names:
        if name not in given:
            raise _unknown(name, [other for other, value in given.items() if _may_be_bound(value)])
        values[name] = _plain(name, given[name])
    _check_lists(sql, values, dialect)
    return values


def _unknown(name: str, known: Sequence[str]) -> NotFound:
    """Return the error of a parameter without a value: what gives it one, unless it is another one misspelt."""
    error = NotFound.of("parameter", name, known)
    if not difflib.get_close_matches(name, known):
        source = f":{name} takes the value of the notebook's variable {name} (in Python: params={{{name!r}: …}})"
        error.hint = (source, "; ", *error.hint_parts) if known else source
    return error


def _plain(name: str, value: Any) -> Any:
    if type(value).__name__ in _NULLS:
        return None
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        return _plain(name, _of_numpy(value))
    if hasattr(value, "as_py"):
        return _plain(name, value.as_py())
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return Decimal(value)  # Spark has no larger whole number
    if isinstance(value, _PLAIN):
        return _of_pandas(name, value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Mapping):
        return {key: _plain(name, each) for key, each in value.items()}
    if _is_list(value):
        return [_plain(name, each) for each in value]
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
        _plain("", value)
    except InvalidInput:
        return False
    return True


def _check_lists(sql: str, values: Mapping[str, Any], dialect: Dialect) -> None:
    """Raise for ``IN (:name)`` of a list, which engines refuse in words about types."""
    tokens = tokenize(sql, dialect=dialect)
    for index in range(len(tokens) - 4):
        name = tokens[index + 3].text
        in_brackets = spells(tokens, index, "IN", "(", ":") and tokens[index + 4].is_symbol(")")
        if in_brackets and isinstance(values.get(name), list):
            raise InvalidInput(
                f"IN (:{name}) compares with the whole list, not with each value of it",
                hint=f"write array_contains(:{name}, COLUMN)",
            )
