"""Find the type of a column: of texts, or of two sources that each have their own; say why values have none. Pure.

The type of two sources is the one that a source with the values of both would have: a column or field that is empty in
one has the type of the other, whole numbers and fractions are doubles or decimals, and structs have the fields of both.
The load then checks each value.

The type of texts is the narrowest that holds each as it is written. A text that writes a time of day or a zone is a
time, also at midnight, and one that writes a fraction or an exponent is a double, also a whole one: the next rows may
have another time or another fraction, which the narrower type refuses. Numbers with leading zeros are texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import Action, HintParts, InvalidInput
from sleeper_nb.load.casts import BAD_VALUE, LEADING_ZERO, cast_apart, exactly
from sleeper_nb.load.conform import giving_type, row_number
from sleeper_nb.load.csv_text import are_moments_of_digits, as_written_in, has_pattern, without_thousands
from sleeper_nb.model.csv_format import DEFAULT_CSV, CsvFormat
from sleeper_nb.model.evolution import DIGITS, widens
from sleeper_nb.model.schema import FieldType, is_list_type

_MOST_DIGITS: Final = 38


class TypeMismatchError(Exception):
    """Two types of which none holds the values of both.

    Parameters
    ----------
    path
        Where in the column: ``.zip`` in a struct with a field of that name, ``[]`` in a list; "" for the column itself.
    """

    def __init__(self, path: str, one: pa.DataType, other: pa.DataType) -> None:
        super().__init__(path, one, other)
        self.path = path
        self.names = tuple(str(_field_type(kind) or kind) for kind in (one, other))


def joined_type(one: pa.DataType, other: pa.DataType, path: str = "") -> pa.DataType:
    """Return the Arrow type that holds the values of two; `TypeMismatchError` when there is none."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if is_list_type(one) and is_list_type(other):
        return pa.list_(joined_type(one.value_type, other.value_type, f"{path}[]"))
    if pa.types.is_map(one) and pa.types.is_map(other):
        key = joined_type(one.key_type, other.key_type, f"{path}.key")
        return pa.map_(key, joined_type(one.item_type, other.item_type, f"{path}.value"))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        known, given = ({each.name: each for each in kind} for kind in (one, other))
        fields = []
        for name in {**known, **given}:
            pair = [of[name] for of in (known, given) if name in of]
            nullable = len(pair) < 2 or any(each.nullable for each in pair)
            kind = joined_type(pair[0].type, pair[-1].type, f"{path}.{name}")
            fields.append(pa.field(name, kind, nullable=nullable))
        return pa.struct(fields)
    wider = _wider(_field_type(one), _field_type(other))
    if wider is None:
        raise TypeMismatchError(path, one, other)
    return wider.arrow


def _field_type(kind: pa.DataType) -> FieldType | None:
    try:
        return FieldType.from_arrow(kind)
    except InvalidInput:
        return None


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
    fits, kind = _is_written_so(values, name, csv_format), FieldType(name)
    wrong = np.flatnonzero(~fits).tolist()
    if len(wrong) > most:
        return tuple(wrong[: most + 1])

    def cast(texts: pa.Array) -> pa.Array:
        return exactly(as_written_in(csv_format, texts, kind), kind)

    try:
        _, refused = cast_apart(values.filter(pa.array(fits)), cast, kind.arrow, most - len(wrong))
    except UnicodeDecodeError:  # the load says which text is not UTF-8
        return None
    places = np.flatnonzero(fits)
    return tuple(sorted([*wrong, *(int(places[at]) for at, _ in refused)]))


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


_MOST_SHOWN: Final = 60
_MOST_NAMES: Final = 1000
_FIRST_OBJECTS: Final = 1000


@dataclass(frozen=True, slots=True)
class WithoutType:
    """Why values have no type that a column of a table can have, and what to do."""

    problem: str
    hint: HintParts


def objects_of_many_names(name: str, values: Sequence[Any]) -> WithoutType | None:
    """Describe a column of JSON whose objects have thousands of names, most of which each object lacks; or None.

    Arrow would make a struct with a field for each name, and take the time and memory of all rows for each of them. So
    it gets a few objects first.
    """
    names, rows = 0, 1
    while names <= _MOST_NAMES and rows < 2 * min(len(values), _FIRST_OBJECTS):
        try:
            names = _often_lacked(pa.array(values[:rows]))
        except BAD_VALUE:
            return None
        rows *= 2
    if names <= _MOST_NAMES:
        return None
    problem = f"column {name!r} has objects with {names:,} different names"
    as_text, as_map = giving_type(name, "string"), giving_type(name, "map<string,long>")
    return WithoutType(problem, ("make it a map, such as ", as_map, "; or keep its JSON as text: ", as_text))


def _often_lacked(values: pa.Array) -> int:
    """Return the number of fields of the struct with the most fields of which most values lack most."""
    if is_list_type(values.type):
        return _often_lacked(values.flatten())
    if not pa.types.is_struct(values.type):
        return 0
    fields, objects = values.flatten(), len(values) - values.null_count
    given = sum(len(each) - each.null_count for each in fields)
    return max(len(fields) if 2 * given < len(fields) * objects else 0, *map(_often_lacked, fields), 0)


AS_NULL: Final = "to load text as NULL: "
"""How the hint begins that a key has without this option, and the words after it."""


def without_type(
    name: str,
    values: Any,
    place: Callable[[int], str] = row_number,
    csv_format: CsvFormat | None = None,
    *,
    is_json: bool = False,
) -> WithoutType | None:
    """Describe the first of some values that has no type, or not the type of those before it; None where none is so.

    Parameters
    ----------
    place
        Names the row, line or cell of a value by its index.
    csv_format
        The options of the file that has the values; None for values in memory.
    """
    known = list(values)
    row = _first_without_type(known)
    if row is None:
        return None
    value, before = known[row], _type_of(known[:row])
    hint = _hint_of_mixed(name, known, value, csv_format, is_json=is_json)
    if _type_of([value]) is not None:
        problem = f"{_field_type(before) or before}, and {_shown(value)} in {place(row)}"
        return WithoutType(f"column {name!r} has values of several types: {problem}", hint)
    problem = f"no column can hold {_shown(value)}"
    if isinstance(value, int):
        problem = f"{_shown(value)} does not fit 64 bits"
        hint = ("load it as a decimal: ", giving_type(name, "decimal(38,0)"), "; or as text: ", _as_text(name))
    elif csv_format is None or not isinstance(value, dict | list):
        hint = ("correct it, or convert it first, such as str(x)",)
    return WithoutType(f"column {name!r}, {place(row)}: {problem}", hint)


def _type_of(values: list[Any]) -> pa.DataType | None:
    try:
        return pa.array(values, from_pandas=True).type
    except BAD_VALUE:
        return None


def _first_without_type(values: list[Any]) -> int | None:
    """Return the index of the first value that has no type together with those before it."""
    low, high = 0, len(values)
    if _type_of(values) is not None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _type_of(values[:middle]) is None else (middle, high)
    return high - 1


def _hint_of_mixed(
    name: str, values: Sequence[Any], value: Any, csv_format: CsvFormat | None, *, is_json: bool
) -> HintParts:
    """Return how values of several kinds are loaded; a text among the numbers of a file may mean NULL."""
    is_nested = any(isinstance(each, dict | list) for each in values)
    as_text: HintParts = ("store it as text: ", _as_text(name))
    if csv_format is None:
        first = "convert the column to one type first"
        return (first,) if is_nested else (first, ", or ", *as_text)
    if is_nested:
        return ("to keep its JSON as text: ", _as_text(name))
    if isinstance(value, str) and csv_format.can_be_null_text(value) and not any(map(str.isdigit, value)):
        return (AS_NULL, csv_format.null_option(value, empty=not is_json), "; or ", *as_text)
    return ("correct the data, or ", *as_text)


def _as_text(name: str) -> Action:
    return giving_type(name, "string", cast=True)


def _shown(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 4 * _MOST_SHOWN:
        return f"a number of {value.bit_length():,} bits"
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
