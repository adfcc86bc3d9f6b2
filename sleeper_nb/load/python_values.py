"""Convert Python values to Arrow arrays of a table's types by the rules of casts, and prepare casts on request. Pure.

Arrow's own conversion to a given type drops what does not fit: nanoseconds, fractions, digits. So the values of each
Python type are first converted to the Arrow type that holds them, and then cast exactly.

Without a request, a number, a boolean, a date or a time never becomes text, as it may be in the wrong column. With it,
each becomes the shortest text that is read back as the same value; words such as ``yes`` become booleans, texts with
leading zeros become numbers, and texts of JSON become lists and maps. `prepared` only changes the kind or drops the
zeros: the rules of `casts` then check each value, so a value that does not fit is an error with or without the request,
and nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from itertools import accumulate, chain
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.load.casts import (
    BAD_VALUE,
    NUMBERS,
    InexactValueError,
    Misfit,
    check_member,
    check_nulls,
    exactly,
    first_bad,
    kind_of,
    plain_values,
    to_int,
)
from sleeper_nb.model.schema import FieldType

_NO_VALUES = frozenset({type(None), "NaTType", "NAType"})
_NUMBERS = NUMBERS | {"boolean"}
_ARROW: tuple[tuple[type, str, pa.DataType], ...] = (
    (bool, "boolean", pa.bool_()), (int, "long", pa.int64()), (float, "double", pa.float64()),
    (str, "string", pa.string()), (bytes, "bytearray", pa.binary()),
    (datetime, "timestamp", pa.timestamp("us", "UTC")), (date, "date", pa.date32()),
    (time, "time", pa.time64("us")), (UUID, "uuid", pa.uuid()),
)  # fmt: skip
Base64 = Callable[[str], bytes]


class NumberText(str):
    """A number as a file writes it, with all of its digits."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class NoValue:
    """A place in a file that has no value: what is wrong with it, and the text that it shows instead, or ""."""

    misfit: Misfit
    shown: str = ""


@dataclass(frozen=True, slots=True)
class ValueRules:
    """How Python values become those of a field.

    Parameters
    ----------
    base64
        Decodes a text to bytes, for files that write bytes as text; if None, the bytes are the text in UTF-8.
    cast
        Whether casts are requested.
    """

    base64: Base64 | None = None
    cast: bool = False


def from_python(values: Sequence[Any], target: FieldType, how: ValueRules = ValueRules()) -> pa.Array:
    """Return Python values as an array of a field's type, without changing any; None, NaT and NA of pandas are null.

    Raises `InexactValueError` for the first value that the type cannot hold exactly.
    """
    kinds = set(map(type, values))
    if len(kinds) == 1 and not _is_null(next(iter(kinds))):
        return _of_one_type(values, next(iter(kinds)), target, how)
    indices: dict[type, list[int]] = {kind: [] for kind in kinds}
    for i, value in enumerate(values):
        indices[type(value)].append(i)
    arrays, errors = [], []
    for kind, of_kind in indices.items():
        if _is_null(kind):
            arrays.append(pa.nulls(len(of_kind), target.arrow))
            continue
        try:
            arrays.append(_of_one_type([values[i] for i in of_kind], kind, target, how))
        except InexactValueError as error:
            errors.append(error.at(of_kind[error.index or 0]))
    if errors:
        raise min(errors, key=lambda error: error.index or 0)
    return _in_order(arrays, list(chain.from_iterable(indices.values())), target)


def _is_null(kind: type) -> bool:
    return kind in _NO_VALUES or (kind.__name__ in _NO_VALUES and kind.__module__.startswith("pandas."))


def _in_order(parts: Sequence[pa.Array], indices: Sequence[int], target: FieldType) -> pa.Array:
    """Return the values of all parts in their original order; `indices` are their original indices."""
    if not parts:
        return pa.nulls(0, target.arrow)
    if len(parts) == 1:
        return parts[0]
    order = np.empty(len(indices), np.int64)
    order[np.array(indices)] = np.arange(len(indices))
    return pa.concat_arrays(parts).take(pa.array(order))


def _of_one_type(values: Sequence[Any], kind: type, target: FieldType, how: ValueRules) -> pa.Array:
    if issubclass(kind, np.ndarray) and any(not value.ndim for value in values):
        return from_python([value if value.ndim else value[()] for value in values], target, how)
    if hasattr(kind, "asDict"):  # a row of Spark
        values, kind = [value.asDict() for value in values], dict
    if target.name == "struct" and issubclass(kind, dict):
        return _structs(values, target, how)
    if issubclass(kind, np.ndarray | list | tuple | dict):
        return _nested(values, kind, target, how)
    if issubclass(kind, NumberText | Decimal):
        return _numbers(values, target, how)
    if issubclass(kind, bytearray | memoryview):
        values, kind = [bytes(value) for value in values], bytes
    if issubclass(kind, pa.Scalar):
        return from_python([value.as_py() for value in values], target, how)
    if issubclass(kind, np.void) and not values[0].dtype.fields:
        values, kind = [value.tobytes() for value in values], bytes
    # not texts and bytes: numpy's arrays of those drop trailing zeros
    if issubclass(kind, np.generic) and not issubclass(kind, str | bytes):
        return _converted(values, _of_numpy, target, "other", how)
    if kind is str and target.name == "bytearray" and (decode := how.base64) is not None:
        return _converted(values, lambda part: pa.array([decode(text) for text in part]), target, "string", how)
    for base, name, arrow in _ARROW:
        if issubclass(kind, base):
            is_by_text = target.name in _NUMBERS or (how.cast and target.name == "string")
            if base is int and is_by_text and not (min(values) >= -(2**63) and max(values) < 2**63):
                return _numbers(values, target, how)
            return _converted(values, partial(_array_of, kind=kind, arrow=arrow), target, name, how)
    misfit = values[0].misfit if isinstance(values[0], NoValue) else None
    raise InexactValueError("other", target, 0, values[0], misfit=misfit)


def _of_numpy(values: Sequence[np.generic]) -> pa.Array:
    if isinstance(values[0], np.longdouble):
        doubles = [float(value) for value in values]
        if any(one != other and one == one for one, other in zip(values, doubles, strict=True)):  # noqa: PLR0124 - NaN
            raise pa.ArrowInvalid("it has more digits than a double")
        return pa.array(doubles)
    units = {value.dtype for value in values}
    if len(units) > 1:  # numpy would cast all to the finest unit and overflow
        return pa.array([_in_microseconds(value) for value in values], pa.timestamp("us"))
    return pa.array(np.array(values))


def _in_microseconds(value: Any) -> int | None:
    if np.isnat(value):
        return None
    moment = value.astype("datetime64[us]")
    if moment.astype(value.dtype) != value:
        raise pa.ArrowInvalid("it has nanoseconds, or is too far away")
    return int(moment.astype(np.int64))


def _array_of(values: Sequence[Any], kind: type, arrow: pa.DataType) -> pa.Array:
    if kind.__name__ == "Timestamp" and any(value.nanosecond for value in values):  # Arrow would drop them
        zone = "UTC" if any(value.tzinfo for value in values) else None
        return pa.array([value.as_unit("ns").to_datetime64() for value in values]).cast(pa.timestamp("ns", zone))
    if pa.types.is_timestamp(arrow) and not any(value.tzinfo for value in values):
        arrow = pa.timestamp("us")
    elif pa.types.is_timestamp(arrow) and kind.__name__ != "Timestamp":
        values = [_in_utc(value) for value in values]
    if issubclass(kind, UUID):
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array([value.bytes for value in values], pa.binary(16)))
    if issubclass(kind, time) and any(value.tzinfo for value in values):
        raise pa.ArrowInvalid("it has a time zone")  # Arrow would drop it
    return pa.array(values, arrow)


def _in_utc(value: datetime) -> datetime:
    """Return a time in UTC if its zone has fractions of a second, which Arrow would drop; otherwise unchanged."""
    offset = value.utcoffset()
    return value.astimezone(UTC) if offset is not None and offset.microseconds else value


def _converted(
    values: Sequence[Any],
    convert: Callable[[Sequence[Any]], pa.Array],
    target: FieldType,
    kind: str,
    how: ValueRules,
) -> pa.Array:
    """Return values converted to Arrow and cast to a field's type; an error names the first value that does not fit."""
    try:
        array = convert(values)
    except BAD_VALUE as error:
        index = first_bad(values, convert) or 0
        raise InexactValueError(kind, target, index, values[index]) from error
    try:
        return cast_exactly(array, target, is_requested=how.cast)
    except InexactValueError as error:
        index = error.index or 0
        source_kind = kind if kind == "decimal" else error.kind  # decimals are cast as text
        raise InexactValueError(source_kind, error.target, index, values[index]) from error


def _numbers(values: Sequence[Any], target: FieldType, how: ValueRules) -> pa.Array:
    """Return numbers of any size and precision, cast by their texts."""
    if how.cast and target.name == "string":
        return pa.array([format(value, "f") if isinstance(value, Decimal) else str(value) for value in values])
    if target.name not in _NUMBERS:
        raise InexactValueError("decimal", target, 0, values[0])

    def convert(part: Sequence[Any]) -> pa.Array:
        texts = pa.array([str(value) for value in part], pa.string())
        # the text of a boolean is not a number
        return to_int(texts, pa.int64()) if target.name == "boolean" else texts

    return _converted(values, convert, target, "decimal", how)


def _nested(values: Sequence[Any], kind: type, target: FieldType, how: ValueRules) -> pa.Array:
    parts = [list(value.items()) if issubclass(kind, dict) else list(value) for value in values]
    is_map = target.name == "map"
    if not (is_map or (target.name == "list" and not issubclass(kind, dict))):
        raise InexactValueError("map" if issubclass(kind, dict) else "list", target, 0, values[0])
    offsets = pa.array([0, *accumulate(map(len, parts))], pa.int32())
    if not is_map:
        inner = _elements(chain.from_iterable(parts), offsets, target.arguments[0], how)
        return pa.ListArray.from_arrays(offsets, inner).cast(target.arrow)
    for row, pairs in enumerate(parts):
        if not all(_is_pair(pair) for pair in pairs):
            raise InexactValueError("list", target, row, values[row])
    pairs = [_pair(pair) for part in parts for pair in part]
    keys = _elements((key for key, _ in pairs), offsets, target.arguments[0], how)
    items = _elements((item for _, item in pairs), offsets, target.arguments[1], how)
    if keys.null_count:
        row = _row(offsets, keys.is_null().index(True).as_py())
        raise InexactValueError("map", target, row, values[row])
    return pa.MapArray.from_arrays(offsets, keys, items).cast(target.arrow)


def _structs(values: Sequence[dict[Any, Any]], target: FieldType, how: ValueRules) -> pa.Array:
    """Return dictionaries as an array of a struct type; a field that one lacks is null."""
    for row, value in enumerate(values):
        for name in value:
            check_member(str(name), target, "struct", index=row)
    missing = Misfit("is NULL or missing", "fill in the value; only fields declared with ? can be null")
    columns, is_valid = [], pa.array([True] * len(values))
    for member in target.arguments:
        try:
            column = from_python([value.get(member.name) for value in values], member.type, how)
        except InexactValueError as error:
            raise error.within(member.name) from error
        columns.append(check_nulls(column, is_valid, member, target, missing))
    return pa.StructArray.from_arrays(columns, fields=list(target.arrow))


def _is_pair(value: Any) -> bool:
    if isinstance(value, dict):
        return set(value) == {"key", "value"}
    return isinstance(value, list | tuple | np.ndarray) and len(value) == 2


def _pair(value: Any) -> tuple[Any, Any]:
    return (value["key"], value["value"]) if isinstance(value, dict) else tuple(value)


def _elements(values: Iterable[Any], offsets: pa.Array, target: FieldType, how: ValueRules) -> pa.Array:
    try:
        return from_python(list(values), target, how)
    except InexactValueError as error:
        raise error.at(_row(offsets, error.index or 0)) from error


def _row(offsets: pa.Array, place: int) -> int:
    return int(np.searchsorted(offsets.to_numpy(), place, side="right")) - 1


TEXT_KINDS = frozenset({
    "boolean", "int", "long", "unsigned long", "float", "double", "decimal", "date", "timestamp",
    "timestamp (s, ms, ns)", "time",
})  # fmt: skip
"""Source kinds that become texts on request."""
_WORDS = {"yes": "true", "y": "true", "t": "true", "on": "true", "no": "false", "n": "false", "f": "false",
          "off": "false"}  # fmt: skip
_LEADING_ZEROS = r"^(\s*[+-]?)0+(\d)"
_ZEROS_OF_A_SECOND = r"(\.[0-9]*[1-9])0+$|\.0+$"


def can_be_requested(kind: str, name: str) -> bool:
    """Return whether values of a source kind are cast to a field type only on request."""
    return (kind in TEXT_KINDS and name == "string") or (kind, name) == ("string", "boolean")


def is_word(value: Any, target: FieldType) -> bool:
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


def cast_exactly(array: pa.Array, target: FieldType, *, is_requested: bool) -> pa.Array:
    """Return an array cast to a field's type, as `exactly` does; on request, after `prepared`."""
    return exactly(prepared(array, target) if is_requested else array, target)


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
