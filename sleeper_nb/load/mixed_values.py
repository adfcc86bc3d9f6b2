"""Say what the values of a column are that have several types, or one that no column can have. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sleeper_nb.errors import Action, HintParts, InvalidInput
from sleeper_nb.load.casts import BAD_VALUE
from sleeper_nb.load.conform import giving_type, row_number
from sleeper_nb.model.csv_format import CsvFormat
from sleeper_nb.model.schema import FieldType
from sleeper_nb.report import class_name

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


_MOST_DIGITS: Final = 38
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
