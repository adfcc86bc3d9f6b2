"""The casts that a load adds on request: kinds that are refused otherwise become a kind that is cast exactly. Pure.

Without the request, a number, a boolean, a date or a time never becomes text, as it may be in the wrong column. With
it, each becomes the shortest text that is read back as the same value; words such as ``yes`` become booleans, texts
with leading zeros become numbers, and texts of JSON become lists and maps. `prepared` only changes the kind or drops
the zeros: the rules of `casts` then check each value, so a value that does not fit is an error with or without the
request, and nothing is rounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.load.casts import BAD_VALUE, NUMBERS, kind_of, plain_values
from sleeper_nb.load.python_values import NumberText
from sleeper_nb.model.schema import FieldType

TEXT_KINDS = frozenset({
    "boolean", "int", "long", "unsigned long", "float", "double", "decimal", "date", "timestamp",
    "timestamp (s, ms, ns)", "time",
})  # fmt: skip
"""Source kinds that become texts on request."""
_WORDS = {"yes": "true", "y": "true", "t": "true", "on": "true", "no": "false", "n": "false", "f": "false",
          "off": "false"}  # fmt: skip
_LEADING_ZEROS = r"^(\s*[+-]?)0+(\d)"
_ZEROS_OF_A_SECOND = r"(\.[0-9]*[1-9])0+$|\.0+$"
_PLAIN = (bool, int, float, Decimal, date, time, np.generic, NumberText)


def can_be_requested(kind: str, name: str) -> bool:
    """Return whether values of a source kind are cast to a field type only on request."""
    return (kind in TEXT_KINDS and name == "string") or (kind, name) == ("string", "boolean")


def is_word(value: Any, target: FieldType) -> bool:
    """Return whether a value is a word that becomes a boolean on request."""
    return target.name == "boolean" and isinstance(value, str) and value.strip().lower() in _WORDS


def prepared(array: pa.Array, target: FieldType) -> pa.Array:
    """Return an array whose kind is cast exactly to a field's type where the request allows it; or the same array."""
    kind = kind_of(array.type)
    if target.name == "string" and kind in TEXT_KINDS:
        return _texts(plain_values(array))
    if target.name == "boolean" and kind == "string":
        return _truths(plain_values(array))
    if target.name in NUMBERS and kind == "string":
        return without_leading_zeros(plain_values(array))
    if target.name == "list" and kind == "list":
        return _prepared_list(array, target)
    if target.name == "struct" and kind == "struct":
        return _prepared_struct(array, target)
    return array


def _texts(array: pa.Array) -> pa.Array:
    """Return the shortest texts that are read back as the same values; times of a zone are in UTC."""
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    zone = ""
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array, zone = array.cast(pa.timestamp(array.type.unit)), "Z"
    texts = array.cast(pa.string())
    if pa.types.is_temporal(array.type):
        texts = pc.replace_substring_regex(texts, _ZEROS_OF_A_SECOND, r"\1")
    return pc.binary_join_element_wise(texts, zone, "") if zone else texts


def _truths(array: pa.Array) -> pa.Array:
    """Return texts in which yes, y, t, on, no, n, f and off are ``true`` and ``false``."""
    texts = array.cast(pa.string())
    lower = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    words = pa.array(list(_WORDS), pa.string())
    places = pc.index_in(lower, words)
    return pc.if_else(pc.is_valid(places), pa.array(list(_WORDS.values()), pa.string()).take(places), texts)


def without_leading_zeros(array: pa.Array) -> pa.Array:
    """Return texts without the zeros before a number's first digit."""
    return pc.replace_substring_regex(array.cast(pa.string()), _LEADING_ZEROS, r"\1\2")


def _prepared_list(array: pa.Array, target: FieldType) -> pa.Array:
    values = array.flatten()
    inner = prepared(values, target.arguments[0])
    if inner is values:
        return array
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, mask=array.is_null())


def _prepared_struct(array: pa.Array, target: FieldType) -> pa.Array:
    array = plain_values(array)
    types = {member.name: member.type for member in target.arguments}
    given = list(zip(array.type, array.flatten(), strict=True))
    columns = [prepared(values, types[each.name]) if each.name in types else values for each, values in given]
    if all(new is values for new, (_, values) in zip(columns, given, strict=True)):
        return array
    return pa.StructArray.from_arrays(columns, [each.name for each, _ in given], mask=array.is_null())


def prepared_values(values: Sequence[Any], target: FieldType) -> Sequence[Any]:
    """Return Python values, changed as `prepared` changes arrays."""
    if target.name == "string":
        return [_text(value) if isinstance(value, _PLAIN) else value for value in values]
    if target.name == "boolean":
        return [_WORDS.get(value.strip().lower(), value) if isinstance(value, str) else value for value in values]
    if target.name in NUMBERS:
        return [re.sub(_LEADING_ZEROS, r"\1\2", value) if isinstance(value, str) else value for value in values]
    if target.name == "list":
        inner = target.arguments[0]
        return [
            list(prepared_values(list(value), inner)) if isinstance(value, list | tuple) else value for value in values
        ]
    if target.name == "map":
        return [_prepared_map(value, target) if isinstance(value, Mapping) else value for value in values]
    if target.name == "struct":
        types = {member.name: member.type for member in target.arguments}
        return [_prepared_members(value, types) if isinstance(value, dict) else value for value in values]
    return values


def _prepared_members(value: dict[Any, Any], types: Mapping[Any, FieldType]) -> dict[Any, Any]:
    return {name: prepared_values([part], types[name])[0] if name in types else part for name, part in value.items()}


def _prepared_map(value: Mapping[Any, Any], target: FieldType) -> dict[Any, Any]:
    keys, items = target.arguments
    return dict(zip(prepared_values(list(value), keys), prepared_values(list(value.values()), items), strict=True))


def _text(value: Any) -> Any:
    """Return a value as text, as `prepared` writes it; the value itself where Arrow has no exact type for it."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        return format(value, "f") if isinstance(value, Decimal) else str(value)
    try:
        if hasattr(value, "to_datetime64"):  # of pandas, with nanoseconds, and in UTC where it has a zone
            moment = pa.array([value.to_datetime64()])
            zone = None if value.tzinfo is None else "UTC"
            return _texts(moment.cast(pa.timestamp(moment.type.unit, zone)))[0].as_py()
        return _texts(pa.array([value]))[0].as_py()
    except BAD_VALUE:
        return value
