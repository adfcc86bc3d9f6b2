"""Find the type of a column: of texts, or of two sources that each have their own; say why values have none. Pure.

The type of two sources is the one that a source with the values of both would have: a column or field that is empty in
one has the type of the other, whole numbers and fractions are doubles or decimals, and structs have the fields of both.
The load then checks each value.

The type of texts is the narrowest that holds each as it is written. A text that writes a time of day or a zone is a
time, also at midnight, and one that writes a fraction or an exponent is a double, also a whole one: the next rows may
have another time or another fraction, which the narrower type refuses. Numbers with leading zeros are texts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import Action, HintParts, InvalidInput
from sleeper_nb.load.casts import BAD_VALUE, LEADING_ZERO, InexactValueError, exactly
from sleeper_nb.load.conform import giving_type, row_number
from sleeper_nb.load.csv_text import are_moments_of_digits, as_written_in, has_pattern, without_thousands
from sleeper_nb.model.csv_format import DEFAULT_CSV, CsvFormat
from sleeper_nb.model.evolution import DIGITS, widens
from sleeper_nb.model.schema import FieldType, is_list_type

_MOST_DIGITS: Final = 38
_ORDER: Final = ("tinyint", "smallint", "int", "long", "float", "double", "date", "timestamp")


@dataclass(frozen=True, slots=True)
class TypeMismatch:
    """Two types of which none holds the values of both.

    Parameters
    ----------
    path
        Where in the column: ``.zip`` in a struct with a field of that name, ``[]`` in a list; "" for the column itself.
    """

    path: str
    types: tuple[str, str]

    @property
    def is_nested(self) -> bool:
        """Whether one of the types is nested and the other is not, or is nested otherwise."""
        return any("<" in each for each in self.types)


@dataclass(frozen=True, slots=True)
class JoinedType:
    """The type for two sources, with strings where none holds the values of both."""

    type: pa.DataType
    mismatches: tuple[TypeMismatch, ...] = ()


def joined_type(one: pa.DataType, other: pa.DataType, path: str = "") -> JoinedType:
    """Return the Arrow type that holds the values of two."""
    if one == other or pa.types.is_null(other):
        return JoinedType(one)
    if pa.types.is_null(one):
        return JoinedType(other)
    if is_list_type(one) and is_list_type(other):
        inner = joined_type(one.value_type, other.value_type, f"{path}[]")
        return JoinedType(pa.list_(inner.type), inner.mismatches)
    if pa.types.is_map(one) and pa.types.is_map(other):
        key = joined_type(one.key_type, other.key_type, f"{path}.key")
        item = joined_type(one.item_type, other.item_type, f"{path}.value")
        return JoinedType(pa.map_(key.type, item.type), (*key.mismatches, *item.mismatches))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _joined_structs(one, other, path)
    wider, names = _wider(_field_type(one), _field_type(other)), (_name(one), _name(other))
    if wider is not None:
        return JoinedType(wider.arrow)
    return JoinedType(pa.string(), (TypeMismatch(path, (min(names, key=_place), max(names, key=_place))),))


def _joined_structs(one: pa.StructType, other: pa.StructType, path: str) -> JoinedType:
    known, given = ({each.name: each for each in kind} for kind in (one, other))
    fields: list[pa.Field] = []
    mismatches: list[TypeMismatch] = []
    for name in {**known, **given}:
        pair = [of[name] for of in (known, given) if name in of]
        inner = joined_type(pair[0].type, pair[-1].type, f"{path}.{name}")
        mismatches += inner.mismatches
        fields.append(pa.field(name, inner.type, nullable=len(pair) < 2 or any(each.nullable for each in pair)))
    return JoinedType(pa.struct(fields), tuple(mismatches))


def _field_type(kind: pa.DataType) -> FieldType | None:
    try:
        return FieldType.from_arrow(kind)
    except InvalidInput:
        return None


def _name(kind: pa.DataType) -> str:
    return str(_field_type(kind) or kind)


def _place(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def _wider(one: FieldType | None, other: FieldType | None) -> FieldType | None:
    """Return the type that holds the values of two simple types; None when there is none."""
    if one is None or other is None:
        return None
    if {one.name, other.name} == {"date", "timestamp"}:
        return FieldType("timestamp")
    if {one.name, other.name} == {"uuid", "string"}:
        return FieldType("string")
    if widens(one, other) or widens(other, one):
        return other if widens(one, other) else one
    digits, more = _digits(one), _digits(other)
    if digits is not None and more is not None:
        scale = max(digits[1], more[1])
        return FieldType("decimal", (min(max(digits[0], more[0]) + scale, _MOST_DIGITS), scale))
    are_numbers = all(_digits(each) is not None or each.name in {"float", "double"} for each in (one, other))
    return FieldType("double") if are_numbers else None


def _digits(kind: FieldType) -> tuple[int, int] | None:
    """Return how many digits a whole number or a decimal may have before and after the point; None for another type."""
    if kind.name == "decimal":
        arguments: tuple[Any, ...] = kind.arguments
        return arguments[0] - arguments[1], arguments[1]
    return (DIGITS[kind.name], 0) if kind.name in DIGITS else None


TEXT_TYPES = ("long", "double", "boolean", "date", "timestamp")
"""The types that a column of texts may have, the narrowest first; any other text is a string."""
TIMES = ("date", "timestamp")
_SPACE: Final = r"[\s\pZ\x0b\x1c-\x1f\x{85}]*"
_SHAPES = {
    "long": r"[+-]?\d+",
    "double": r"[+-]?(\d+MARK?\d*|MARK\d+)(e[+-]?\d+)?|[+-]?(nan|inf(inity)?)",
    "boolean": "true|false",
    "date": r"-?\d{4,}-\d\d-\d\d",
    "timestamp": r"-?\d{4,}-\d\d-\d\d([t ].*)?",
}
"""How the texts of a type are written, with MARK for the decimal mark; a cast then checks each value."""

_CAST_TOGETHER: Final = 20_000
"""Texts of which the first that does not fit is searched together, by several casts of parts of them."""


def distinct(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    return texts.unique().drop_null()


def type_of_texts(values: pa.Array, types: Sequence[str], csv_format: CsvFormat = DEFAULT_CSV) -> FieldType:
    """Return the narrowest type that holds each of some distinct texts exactly, as a file writes it.

    Digits are a date or a time first, where the file writes these so.
    """
    if not len(values):
        return FieldType("string")
    first = [name for name in TIMES if are_moments_of_digits(csv_format, values, name)]
    for name in dict.fromkeys((*first, *types)):
        if misfits(values, name, csv_format, 0) == ():
            return FieldType(name)
    return FieldType("string")


def has_codes(values: pa.Array, csv_format: CsvFormat = DEFAULT_CSV) -> bool:
    """Return whether texts of which the type is a string are codes: one has leading zeros, or all are only digits."""
    try:
        digits = values.filter(pc.match_substring_regex(without_thousands(csv_format, values), r"^\s*[+-]?\d+\s*$"))
        zeros = pc.any(pc.match_substring_regex(without_thousands(csv_format, digits), LEADING_ZERO)).as_py()
    except (pa.ArrowInvalid, UnicodeDecodeError):  # the load says which text is not UTF-8
        return False
    return bool(zeros) or 0 < len(digits) == len(values)


def misfits(values: pa.Array, name: str, csv_format: CsvFormat, most: int) -> tuple[int, ...] | None:
    """Return the places of the texts that a type does not hold as they are written; None when they are not known.

    Parameters
    ----------
    most
        So many are wanted: of more, `most` + 1 are returned, not the first ones.
    """
    fits = _is_written_so(values, name, csv_format)
    wrong = np.flatnonzero(~fits).tolist()
    if len(wrong) > most:
        return tuple(wrong[: most + 1])
    places = np.flatnonzero(fits)
    others = values.filter(pa.array(fits)) if wrong else values
    try:
        for start in range(0, len(others), _CAST_TOGETHER):
            begin, end = start, min(start + _CAST_TOGETHER, len(others))
            while (at := _first_misfit(others.slice(begin, end - begin), name, csv_format)) is not None:
                wrong.append(int(places[begin + at]))
                begin += at + 1
                if len(wrong) > most:
                    return tuple(sorted(wrong))
    except (InexactValueError, UnicodeDecodeError):  # the load says which text is not UTF-8
        return None
    return tuple(sorted(wrong))


def _is_written_so(values: pa.Array, name: str, csv_format: CsvFormat) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each text whether it may be of a type by its characters, without a cast."""
    if has_pattern(csv_format, name):
        return np.ones(len(values), np.bool_)
    shape = _SHAPES[name].replace("MARK", re.escape(csv_format.decimal))
    if name in {"long", "double"}:
        values = without_thousands(csv_format, values)
    fits = pc.match_substring_regex(values, rf"^(?is:{_SPACE}({shape}){_SPACE})$")
    if name in {"long", "double"}:
        fits = pc.and_not(fits, pc.match_substring_regex(values, LEADING_ZERO))
    return np.asarray(fits.to_numpy(zero_copy_only=False), np.bool_)


def _first_misfit(values: pa.Array, name: str, csv_format: CsvFormat) -> int | None:
    """Return the index of the first text that a cast refuses; None when it refuses none.

    `InexactValueError` when there is one, but not known which; `UnicodeDecodeError` for a text that is not UTF-8.
    """
    kind = FieldType(name)
    try:
        exactly(as_written_in(csv_format, values, kind), kind)
    except InexactValueError as error:
        if error.index is None:
            raise
        return error.index
    return None


_NUMBERS = (int, float, Decimal, np.integer, np.floating)
_MOST_NULLS: Final = 3
_MOST_OF_DOUBLE: Final = 2**53
"""Arrow makes no double of a larger whole number."""
_MOST_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class WithoutType:
    """Why values have no type that a column of a table can have, and what to do."""

    problem: str
    hint: HintParts


_NOT_OF_TABLES: Final = {
    "complex": ("complex numbers", "make two columns, of their real and imaginary parts"),
    "longdouble": ("numbers of 128 bits", "convert them first: astype('float64')"),
    "period": ("periods", "convert them first, to timestamps with to_timestamp(), or to texts with astype(str)"),
    "interval": ("intervals", "convert them first, to texts with astype(str), or make two columns, of their ends"),
}
"""What pandas and NumPy have that no column of a table can hold, by the type, and what to do."""
_DOUBLE: Final = 8
"""The bytes of the longest number with a fraction that a column can hold."""


def of_pandas_alone(name: str, values: Any) -> WithoutType | None:
    """Describe a column of a type of pandas or NumPy that no column of a table has; None for others."""
    dtype = getattr(values, "dtype", None)
    dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)  # of what pandas.cut makes
    kind = str(getattr(dtype, "name", "")).partition("[")[0]
    if isinstance(dtype, np.dtype):
        is_long = dtype.kind == "f" and dtype.itemsize > _DOUBLE
        kind = "complex" if dtype.kind == "c" else "longdouble" if is_long else ""
    if kind not in _NOT_OF_TABLES:
        return None
    what, hint = _NOT_OF_TABLES[kind]
    return WithoutType(f"column {name!r} has {what}, and no column of a table can", (hint,))


_MOST_NAMES: Final = 1000
_DEEPEST: Final = 20


def objects_of_many_names(name: str, values: Sequence[Any]) -> WithoutType | None:
    """Describe a column of JSON whose objects have thousands of names, most of which each object lacks; or None.

    Arrow would make a struct with a field for each name, and take the time of all rows for each of them.
    """
    wide = _wide_objects(values)
    if wide is None:
        return None
    path, names = wide
    problem = f"column {f'{name}{path}'!r} has objects with {names:,} different names, most of which each object lacks"
    as_text, as_map = giving_type(name, "string"), giving_type(name, "map<string,long>")
    if path:
        return WithoutType(problem, ("give its type, with a map there, or keep its JSON as text: ", as_text))
    return WithoutType(problem, ("make it a map, such as ", as_map, "; or keep its JSON as text: ", as_text))


def _wide_objects(values: Sequence[Any], path: str = "") -> tuple[str, int] | None:
    """Return where objects with many names are, and how many; None if nowhere."""
    if path.count(".") + path.count("[") > _DEEPEST:  # no type is nested deeper
        return None
    lists = [each for each in values if isinstance(each, list)]
    if lists and (found := _wide_objects([item for each in lists for item in each], f"{path}[]")):
        return found
    objects = [each for each in values if isinstance(each, dict)]
    members: dict[str, list[Any]] = {}
    for each in objects:
        for name, value in each.items():
            members.setdefault(name, []).append(value)
    if len(members) > _MOST_NAMES and 2 * sum(map(len, members.values())) < len(members) * len(objects):
        return path, len(members)
    found_below = (_wide_objects(of_name, f"{path}.{name}") for name, of_name in members.items())
    return next(filter(None, found_below), None)


def without_type(
    name: str,
    values: Any,
    place: Callable[[int], str] = row_number,
    csv_format: CsvFormat | None = None,
    *,
    is_json: bool = False,
) -> WithoutType | None:
    """Describe two values of different kinds in a column, or the first that has no type; None where neither is so.

    Parameters
    ----------
    place
        Names the row, line or cell of a value by its index.
    csv_format
        The options of the file that has the values; None for values in memory.
    """
    seen: dict[str, tuple[Any, int]] = {}
    fractions, large = set[str](), dict[str, tuple[int, int]]()
    for path, row, each in _values_within(values):
        first, at = seen.setdefault(path, (each, row))
        column = f"column {f'{name}{path}'!r}"
        if not isinstance(each, dict | list) and not _has_type(each):
            return WithoutType(
                f"{column}, {place(row)}: {_why_without_type(each)}", _hint_to_give_type(name, path, each)
            )
        if isinstance(each, float):
            fractions.add(path)
        elif isinstance(each, int | np.integer) and abs(int(each)) > _MOST_OF_DOUBLE:
            large.setdefault(path, (int(each), row))
        if path in fractions and path in large:
            number, at = large[path]
            mixed = f"{number} is mixed with fractions, and a double may not hold all its digits"
            return WithoutType(f"{column}, {place(at)}: {mixed}", _hint_of_decimals(name, path, scale=10))
        if _kind_of(each) != _kind_of(first):
            both = f"{_described(first)} in {place(at)}, and {_described(each)} in {place(row)}"
            hint = _hint_of_mixed(name, values, csv_format, is_json=is_json)
            return WithoutType(f"{column} has values of several types: {both}", hint)
    return None


def _hint_of_decimals(name: str, path: str, scale: int) -> HintParts:
    kind = f"decimal(38,{scale})"
    if path:
        return (f"give the type of the column, with {kind} there",)
    return ("load it as a decimal: ", giving_type(name, kind), "; or as text: ", _as_text(name))


def _hint_to_give_type(name: str, path: str, value: Any) -> HintParts:
    if isinstance(value, int):
        return _hint_of_decimals(name, path, scale=0)
    if isinstance(value, tuple):
        return ("if it is a pair of a map, give the type: ", giving_type(name, "map<string,long>"))
    return ("correct it, or convert it first, such as str(x)",)


AS_NULL: Final = "to load text as NULL: "
"""How the hint begins that a key has without this option, and the words after it."""


def _hint_of_mixed(name: str, values: Any, csv_format: CsvFormat | None, *, is_json: bool) -> HintParts:
    """Return how values of several kinds are loaded; a few texts among the numbers of a file may mean NULL."""
    known = [each for _, each in _set_values(values)]
    is_nested = any(isinstance(each, dict | list) for each in known)
    if csv_format is None:
        first = "convert the column to one type first"
        return (first,) if is_nested else (first, ", or store it as text: ", _as_text(name))
    if is_nested:
        is_plain = all(isinstance(each, dict | list | str) for each in known)
        return ("to keep its JSON as text: ", giving_type(name, "string", cast=not is_plain))
    texts = tuple(dict.fromkeys(each for each in known if isinstance(each, str)))
    may_be_null = all(csv_format.can_be_null_text(each) and not any(map(str.isdigit, each)) for each in texts)
    as_text: HintParts = ("store it as text: ", _as_text(name))
    if may_be_null and 0 < len(texts) <= _MOST_NULLS:
        return (AS_NULL, csv_format.null_option(*texts, empty=not is_json), "; or ", *as_text)
    return ("correct the data, or ", *as_text)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    names = {dict: "an object", list: "a list", str: "a text", bytes: "bytes"}
    found = next((text for kind, text in names.items() if isinstance(value, kind)), "")
    return found or ("a number" if isinstance(value, _NUMBERS) else f"a {type(value).__name__}")


def _described(value: Any) -> str:
    return f"the text {_shown(value)}" if isinstance(value, str) else _kind_of(value)


def _why_without_type(value: Any) -> str:
    if isinstance(value, int):
        return f"{_shown(value)} does not fit 64 bits"
    return f"the text {_shown(value)} is not UTF-8" if isinstance(value, str) else f"no column can hold {_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 4 * _MOST_SHOWN:
        return f"a number of {value.bit_length():,} bits"
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _has_type(value: Any) -> bool:
    if isinstance(value, bool | float) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return True
    try:
        pa.array([value], from_pandas=True)
    except BAD_VALUE:
        return False
    return True


def _as_text(name: str) -> Action:
    return giving_type(name, "string", cast=True)


def _values_within(values: Any) -> Iterator[tuple[str, int, Any]]:
    """Yield the values of a column, and those within its lists and objects, each with its path and its row."""
    for row, value in _set_values(values):
        waiting = [("", value)]
        while waiting:
            path, each = waiting.pop()
            yield path, row, each
            if isinstance(each, dict):
                waiting += [(f"{path}.{key}", part) for key, part in reversed(each.items()) if part is not None]
            elif isinstance(each, list):
                waiting += [(f"{path}[]", part) for part in reversed(each) if part is not None]


def _set_values(values: Any) -> Iterator[tuple[int, Any]]:
    for row, each in enumerate(values):
        is_nan = isinstance(each, float) and math.isnan(each)
        if each is not None and not is_nan and type(each).__name__ not in {"NAType", "NaTType"}:  # of pandas
            yield row, each
