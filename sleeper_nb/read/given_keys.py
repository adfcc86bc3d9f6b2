"""The keys that a scan is given, in any form that Python programs have them in, as a list of tuples."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Final

from sleeper_nb.arguments import described, plain_integer
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.keys import KeyValue, check_key
from sleeper_nb.model.schema import Schema

_TO_LIST: Final = ("tolist", "to_list", "to_pylist")
"""How NumPy and pandas, Polars, and Arrow call it."""


def keys_given(schema: Schema, keys: Any) -> list[tuple[KeyValue, ...]]:
    """Return each key once, as the values of the first row keys.

    `InvalidInput` when a key has too many values, or one that its row key cannot have.

    Parameters
    ----------
    keys
        One key, or several: a list, a set, a range, or a column or array of NumPy, pandas, Polars or Arrow. A key is a
        value of the first row key, or a tuple of values of the first few.
    """
    wanted = (key if isinstance(key, tuple) else (key,) for key in _listed(keys))
    try:
        return list(dict.fromkeys(_checked(schema, key) for key in wanted))
    except InvalidInput as error:
        if isinstance(keys, tuple) and _are_all(schema, keys):
            error.hint = (*error.hint_parts, f"; several keys are a list: {list(keys)!r}")
        raise


def _listed(keys: Any) -> list[Any]:
    if isinstance(keys, list):
        return keys
    if isinstance(keys, AbstractSet | range):
        return list(keys)
    if hasattr(keys, "columns"):
        hint = "write a column of it, such as x['city']; or a list of tuples, one for each row"
        raise InvalidInput(f"keys are values or tuples of values, not {described(keys)}", hint=hint)
    to_list = next((found for name in _TO_LIST if (found := getattr(keys, name, None)) is not None), None)
    found = keys if to_list is None else to_list()
    return found if isinstance(found, list) else [found]


def _checked(schema: Schema, key: tuple[Any, ...]) -> tuple[KeyValue, ...]:
    if not 1 <= len(key) <= len(schema.row_keys):
        count = len(schema.row_keys)
        has = "there is 1 row key" if count == 1 else f"there are {count} row keys"
        raise InvalidInput(f"key {key!r} has {len(key)} values", hint=has)
    if isinstance(key[0], list):
        raise InvalidInput(f"key {key[0]!r} is a list", hint=f"a key of several values is a tuple: {tuple(key[0])!r}")
    return tuple(
        check_key(field, plain_integer(value), what="key") for field, value in zip(schema.row_keys, key, strict=False)
    )


def _are_all(schema: Schema, values: tuple[Any, ...]) -> bool:
    try:
        return all(check_key(schema.row_keys[0], plain_integer(value)) is not None for value in values)
    except InvalidInput:
        return False
