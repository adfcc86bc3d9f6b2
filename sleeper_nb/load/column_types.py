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
from sleeper_nb.report import class_name

_MOST_DIGITS: Final = 38
_ORDER: Final = ("tinyint", "smallint", "int", "long", "float", "double", "date", "timestamp")


@dataclass(frozen=True, slots=True)
class TypeMismatch:
    """Two types of which none holds the values of both.

    Parameters
    ----------
    path
        Where in the column: ``.zip`` in a struct with a field of that name, ``[]`` in a list; "" for the column itself.
    types
        The types as texts.
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
    """Return the different texts of a column, without NULL."""
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


@dataclass(frozen=True, slots=True)
class MixedValues:
    """What is wrong with the values of a column, "" where it is not known; and what to do, also if it is a key."""

    problem: str
    hint: HintParts
    hint_of_key: HintParts = ()


_NOT_OF_TABLES: Final = {
    "complex": ("complex numbers", "make two columns, of their real and imaginary parts"),
    "longdouble": ("numbers of 128 bits", "convert them first: astype('float64')"),
    "period": ("periods", "convert them first, to timestamps with to_timestamp(), or to texts with astype(str)"),
    "interval": ("intervals", "convert them first, to texts with astype(str), or make two columns, of their ends"),
}
"""What pandas and NumPy have that no column of a table can hold, by the type, and what to do."""
_DOUBLE: Final = 8
"""The bytes of the longest number with a fraction that a column can hold."""


def of_pandas_alone(name: str, values: Any) -> MixedValues | None:
    """Describe a column of a type of pandas or NumPy that no column of a table has; None for others."""
    dtype = getattr(values, "dtype", None)
    dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)  # of what pandas.cut makes
    kind = str(getattr(dtype, "name", "")).partition("[")[0]
    if isinstance(dtype, np.dtype):
        kind = (
            "complex" if dtype.kind == "c" else "longdouble" if dtype.kind == "f" and dtype.itemsize > _DOUBLE else ""
        )
    return _not_of_tables(name, kind) if kind in _NOT_OF_TABLES else None


def _not_of_tables(name: str, kind: str) -> MixedValues:
    what, hint = _NOT_OF_TABLES[kind]
    return MixedValues(f"column {name!r} has {what}, and no column of a table can", (hint,))


def mixed_in_memory(name: str, values: Any) -> MixedValues:
    """Describe values that pandas or Python holds."""
    if any(isinstance(each, complex | np.complexfloating) for each in values):
        return _not_of_tables(name, "complex")
    problem, texts = _numbers_and_texts(name, values, row_number)
    if not texts:
        hint = ("convert the column to one type first",)
        found = _without_type(_UntypedColumn(name, values, row_number))
        return found or MixedValues(_different_kinds(name, values, row_number), hint)
    replaced, as_text = f"replace {_listed(texts)} by a number", (", or store it as text: ", _as_text(name))
    return MixedValues(problem, (f"{replaced} or None first", *as_text), (f"{replaced} first", *as_text))


def mixed_in_file(
    name: str, values: Any, csv_format: CsvFormat, place: Callable[[int], str], *, empty: bool
) -> MixedValues:
    """Describe values of a JSON or Excel file.

    Parameters
    ----------
    place
        Names the row or cell of a value by its index.
    empty
        Whether empty texts mean NULL.
    """
    problem, texts = _numbers_and_texts(name, values, place)
    if not texts:
        problem = _different_kinds(name, values, place)
        found = None if problem else _without_type(_UntypedColumn(name, values, place))
        return found or MixedValues(problem, ("correct the data, or store it as text: ", _as_text(name)))
    as_text = ("store it as text: ", _as_text(name))
    is_null = all(csv_format.can_be_null_text(each) and not any(map(str.isdigit, each)) for each in texts)
    if len(texts) > _MOST_NULLS or not is_null:
        return MixedValues(problem, ("correct the data, or ", *as_text))
    them = "them" if len(texts) > 1 else "it"
    nulls = csv_format.null_option(*texts, empty=empty)
    of_key = ("correct the data, or ", *as_text)
    return MixedValues(problem, (f"to load {them} as NULL: ", nulls, "; or ", *as_text), of_key)


def mixed_in_json(name: str, values: Any, csv_format: CsvFormat, line_of: Callable[[int], str]) -> MixedValues:
    """Describe values of a JSON file, where texts can hold objects and lists; `line_of` names the line of a value."""
    problem = _different_kinds(name, values, line_of)
    if not problem and (found := _without_type(_UntypedColumn(name, values, line_of, is_json=True))):
        return found
    if not problem or _numbers_and_texts(name, values, row_number)[1]:
        return mixed_in_file(name, values, csv_format, row_number, empty=False)
    is_plain = all(isinstance(value, dict | list | str) for _, value in _set_values(values))
    return MixedValues(problem, ("to keep its JSON as text: ", giving_type(name, "string", cast=not is_plain)))


_MOST_NAMES: Final = 1000
_DEEPEST: Final = 20


def objects_of_many_names(name: str, values: Sequence[Any]) -> MixedValues | None:
    """Describe a column of JSON whose objects have thousands of names, most of which each object lacks; or None.

    Arrow would make a struct with a field for each name, and take the time of all rows for each of them.
    """
    wide = _wide_objects(values)
    if wide is None:
        return None
    path, names, items = wide
    problem = f"column {f'{name}{path}'!r} has objects with {names:,} different names, most of which each object lacks"
    as_text: HintParts = ("keep its JSON as text: ", giving_type(name, "string"))
    try:
        kind = f"map<string,{FieldType.from_arrow(pa.array(items).type)}>"
    except (*BAD_VALUE, InvalidInput):
        return MixedValues(problem, as_text)
    if path:
        return MixedValues(problem, (f"give its type, with {kind} there, or ", *as_text))
    return MixedValues(problem, ("make it a map: ", giving_type(name, kind), "; or ", *as_text))


def _wide_objects(values: Sequence[Any], path: str = "") -> tuple[str, int, list[Any]] | None:
    """Return where objects with many names are, how many, and the values of all names; None if nowhere."""
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
    given = sum(map(len, members.values()))
    if len(members) > _MOST_NAMES and 2 * given < len(members) * len(objects):
        return path, len(members), [value for of_name in members.values() for value in of_name]
    found_below = (_wide_objects(of_name, f"{path}.{name}") for name, of_name in members.items())
    return next(filter(None, found_below), None)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    names = {dict: "an object", list: "a list", str: "a text", bytes: "bytes"}
    found = next((text for kind, text in names.items() if isinstance(value, kind)), "")
    return found or ("a number" if isinstance(value, _NUMBERS) else f"a {type(value).__name__}")


def _different_kinds(name: str, values: Any, place: Callable[[int], str]) -> str:
    """Return where values are of two kinds, as a problem; "" where they are not."""
    seen: dict[str, tuple[str, int]] = {}
    for path, row, each in _values_within(values):
        kind, (before, first) = _kind_of(each), seen.setdefault(path, (_kind_of(each), row))
        if kind != before:
            at = f"column {f'{name}{path}'!r} has values of several types"
            places = [f" in {each}" if each else "" for each in (place(first), place(row))]
            return f"{at}: {before}{places[0]}, and {kind}{places[1]}"
    return ""


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


_MOST_OF_DOUBLE: Final = 2**53
"""Arrow makes no double of a larger whole number."""
_MOST_SHOWN: Final = 256
"""Bits of a number that is written in a message."""


@dataclass(frozen=True, slots=True)
class _UntypedColumn:
    """A column whose values have no type together; `place` names the row or line of a value."""

    name: str
    values: Any
    place: Callable[[int], str]
    is_json: bool = False

    def at(self, path: str, row: int) -> str:
        place = self.place(row)
        return f"column {f'{self.name}{path}'!r}{place and ', '}{place}"

    def fractions(self, path: str) -> list[tuple[int, float]]:
        """Return the floats at a path, each with its row."""
        within = _values_within(self.values)
        floats = [(row, each) for at, row, each in within if at == path and isinstance(each, float)]
        return [(row, each) for row, each in floats if not math.isnan(each)]

    def of_number(self, path: str, number: int, problem: str, as_decimal: str) -> MixedValues:
        """Describe a number that is too long; as a key it may be a text, as no key is a decimal."""
        of_key = ("store it as text: ", _as_text(self.name))
        return MixedValues(problem, self.as_decimal(path, number, as_decimal), of_key)

    def as_decimal(self, path: str, number: int, what: str) -> HintParts:
        """Return how to load a number and its column's fractions as decimals, or as text if they are too long."""
        scale = max((_decimals(each) for _, each in self.fractions(path)), default=0)
        fits = abs(number) < 10 ** max(_MOST_DIGITS - scale, 0)
        keep_json = ("keep its JSON as text: ", giving_type(self.name, "string"))
        kind = f"decimal({_MOST_DIGITS},{scale})"
        if path and not fits:
            return keep_json if self.is_json else ("convert it to a text first",)
        if path:
            return (f"give its type, with {kind} there", *((", or ", *keep_json) if self.is_json else ()))
        if not fits:
            return ("store it as text: ", _as_text(self.name))
        return (f"{what}: ", giving_type(self.name, kind))


def _decimals(number: float) -> int:
    exponent = Decimal(repr(float(number))).normalize().as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def _shown(number: int) -> str:
    bits = number.bit_length()
    return str(number) if bits <= _MOST_SHOWN else f"a number of about {int(bits * math.log10(2)) + 1:,} digits"


def _without_type(column: _UntypedColumn) -> MixedValues | None:
    """Describe the first value that no type of Arrow holds, whatever the others are; None when each has a type."""
    for row, each in _set_values(column.values):
        if isinstance(each, bool | float) or (isinstance(each, int) and -(2**63) <= each < 2**63):
            continue
        if not _has_type(each) and (found := _of_no_type(column, row, "", each)):
            return found
    return _mixed_with_fractions(column)


def _mixed_with_fractions(column: _UntypedColumn) -> MixedValues | None:
    """Describe a whole number in a column of fractions that a double may not hold; None when there is none."""
    wide: dict[str, tuple[int, int]] = {}
    for path, row, each in _values_within(column.values):
        if isinstance(each, int | np.integer) and abs(int(each)) > _MOST_OF_DOUBLE:
            wide.setdefault(path, (row, int(each)))
    for path, (row, number) in wide.items():
        if fractions := column.fractions(path):
            first = column.place(fractions[0][0])
            mixed = f"is mixed with fractions{first and f' ({first})'}"
            problem = f"{column.at(path, row)}: {number} {mixed}, and a double may not hold all its digits"
            return column.of_number(path, number, problem, "load them as decimals")
    return None


def _has_type(value: Any) -> bool:
    try:
        pa.array([value], from_pandas=True)
    except BAD_VALUE:
        return False
    return True


def _of_no_type(column: _UntypedColumn, row: int, path: str, value: Any) -> MixedValues | None:
    """Describe a value that has no type; None when only its parts are of several types."""
    where = column.at(path, row)
    if isinstance(value, list | tuple) and value and all(isinstance(each, tuple) and len(each) == 2 for each in value):
        as_map = giving_type(column.name, "map<string,long>")
        return MixedValues(f"{where}: pairs may be a map, but map types are not guessed", ("such as ", as_map))
    if isinstance(value, list | tuple | dict):
        named = value.items() if isinstance(value, dict) else ((None, each) for each in value)
        parts = ((f"{path}[]" if name is None else f"{path}.{name}", each) for name, each in named)
        return next((_of_no_type(column, row, at, each) for at, each in parts if not _has_type(each)), None)
    if isinstance(value, int):
        problem = f"{where}: {_shown(value)} does not fit 64 bits"
        return column.of_number(path, value, problem, "load it as a decimal")
    if isinstance(value, Decimal):
        problem = f"{where}: {value} does not fit a decimal of {_MOST_DIGITS} digits"
        return MixedValues(
            problem, ("convert it to a text first",) if path else ("store it as text: ", _as_text(column.name))
        )
    if isinstance(value, str):
        return MixedValues(f"{where}: the text {value!r} is not UTF-8", ("correct it, or remove its surrogates",))
    return MixedValues(f"{where}: no column can hold a {class_name(value)}", ("convert it first, such as str(x)",))


def _as_text(name: str) -> Action:
    return giving_type(name, "string", cast=True)


def _listed(texts: tuple[str, ...]) -> str:
    return repr(texts[0]) if len(texts) == 1 else "the texts"


def _numbers_and_texts(name: str, values: Any, place: Callable[[int], str]) -> tuple[str, tuple[str, ...]]:
    """Return what is wrong with a column of numbers and texts, and the different texts; nothing for other columns."""
    texts: dict[str, int] = {}
    numbers = 0
    for row, each in _set_values(values):
        if isinstance(each, str):
            texts.setdefault(each, row)
        elif isinstance(each, _NUMBERS) and not isinstance(each, bool):
            numbers += 1
        else:
            return "", ()
    if not texts or not numbers:
        return "", ()
    first, row = next(iter(texts.items()))
    where = f"{', first' if len(texts) > 1 else ''} in {place(row)}"
    what = f"the text {first!r}" if len(texts) == 1 else f"{len(texts):,} different texts such as {first!r}"
    return f"column {name!r} has values of several types: numbers, and {what}{where}", tuple(texts)


def _set_values(values: Any) -> Iterator[tuple[int, Any]]:
    for row, each in enumerate(values):
        is_nan = isinstance(each, float) and math.isnan(each)
        if each is not None and not is_nan and type(each).__name__ not in {"NAType", "NaTType"}:  # of pandas
            yield row, each
