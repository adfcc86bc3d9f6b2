"""Cast values to the types of a table: each value exactly, or not at all. Pure.

A cast is exact when the result, cast back, is the original value. `exactly` casts an array by `RULES`, a table of
source kinds and field types, which the reference prints. The rules hold for parts of lists, maps and structs as for
columns, and for every input: Arrow, pandas, Polars, Python values, CSV, JSON, Parquet, and Spark's batches in its
workers.

Texts, from CSV, JSON or columns of texts, have one grammar (`PARSERS`). Numbers are decimal and must keep every digit
that is written: ``9007199254740993`` does not fit a double, nor does ``1e400``. White space around a value is ignored.
A timestamp without a time zone is in UTC.
"""

from __future__ import annotations

import base64
import difflib
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model.schema import SIMPLE_TYPES, FieldType, Member, is_list_type, is_utf8
from sleeper_nb.report import values_of

JUDGED = ("uuid", "struct", "time")
"""Types whose Arrow types do not say which values they may hold: texts, nulls, times after the end of a day.

Their values are looked at in each load.
"""
Fit = Literal["exact", "where it fits", "refused"]
Cast = Callable[[pa.Array, FieldType], pa.Array]
BAD_VALUE = (pa.ArrowException, OverflowError, TypeError, ValueError, ArithmeticError, RecursionError)
"""The errors of Arrow and Python for a value that does not fit."""
_OPEN_EXTENSIONS = frozenset({"arrow.json", "arrow.bool8"})
_MOST_SHOWN = 60
_WHOLE = ("tinyint", "smallint", "int", "long")
NUMBERS = frozenset({*_WHOLE, "float", "double", "decimal"})
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MOMENTS = {
    "date": re.compile(r"-?\d{4,}-\d\d-\d\d[Tt ]", re.ASCII),
    "timestamp": re.compile(r"-?\d{4,}-\d\d-\d\d", re.ASCII),
}
"""How a text begins that may be a time, which only does not fit: a date must have no time of day."""
LEADING_ZERO: Final = r"^\s*[+-]?0\d"
"""How a text begins that is no number, although its digits are: cast back, the number lacks the zeros."""
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(?:[. ]\d{3})*,\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Misfit:
    """What is wrong with a value of a type that may fit, as ``is missing`` in a struct; and what to do about it."""

    problem: str
    hint: str


class InexactValueError(Exception):
    """A value that a field type cannot hold exactly.

    Parameters
    ----------
    index
        The index of the row, from 0; None when the whole kind is refused and there is no value to show.
    path
        Where in its column the value is: ``.zip`` in a struct with a field of that name; "" for the column itself.
    misfit
        What is wrong, when it is not the type of the value: a field of a struct is missing, unknown or null; a time is
        no time of day.

    Attributes
    ----------
    verdict
        What is wrong, where a subclass says it.
    """

    verdict = ""

    def __init__(
        self,
        kind: str,
        target: FieldType,
        index: int | None = None,
        value: Any = None,
        path: str = "",
        misfit: Misfit | None = None,
    ) -> None:
        super().__init__(kind, target, index, value, path, misfit)
        self.kind, self.target, self.index, self.value = kind, target, index, value
        self.path, self.misfit = path, misfit

    def at(self, index: int) -> InexactValueError:
        return InexactValueError(self.kind, self.target, index, self.value, self.path, self.misfit)

    def within(self, name: str) -> InexactValueError:
        return InexactValueError(self.kind, self.target, self.index, self.value, f".{name}{self.path}", self.misfit)

    @property
    def shown(self) -> str:
        try:
            value = as_written(self.value) if isinstance(self.value, str) else self.value
            text = repr(value) if isinstance(value, str | bytes) else str(value)
        except RecursionError:
            text = "a deeply nested value"
        return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"

    @property
    def is_bad_text(self) -> bool:
        return self.kind == self.target.name == "string" and self.index is not None

    @property
    def is_not_a_number(self) -> bool:
        """Whether the value is a text that should become a number but is not one."""
        is_text = self.kind == "string" and isinstance(self.value, str) and self.target.name in NUMBERS
        return is_text and not _NUMBER.fullmatch(self.value.strip())

    @property
    def has_leading_zeros(self) -> bool:
        """Whether the value is a text whose leading zeros a number would not have."""
        is_text = self.kind == "string" and isinstance(self.value, str) and self.target.name in NUMBERS
        return is_text and re.match(LEADING_ZERO, self.value) is not None and not self.is_not_a_number

    @property
    def is_not_a_moment(self) -> bool:
        """Whether the value is a text that should become a date or a time but does not begin as one."""
        is_text = self.kind == "string" and isinstance(self.value, str) and self.target.name in _MOMENTS
        return is_text and not _MOMENTS[self.target.name].match(self.value.strip())

    @property
    def is_refused(self) -> bool:
        return fit(self.kind, self.target.name) == "refused"

    @property
    def hint(self) -> str:
        """What to do about the value."""
        if self.misfit is not None:
            return self.misfit.hint
        if self.is_not_a_number:
            return _number_hint(self.value)
        if self.is_refused:
            return _HINTS_REFUSED.get((self.kind, self.target.name)) or f"convert it to {self.target} first"
        if self.kind == "string" and self.target.name in _HINTS_OF_TEXTS:
            return _HINTS_OF_TEXTS[self.target.name]
        return _HINTS.get(self.target.name, "convert it to {} first").format(self.target)


_HINTS = {
    "tinyint": "round it first, or use a column of type smallint or int",
    "smallint": "round it first, or use a column of type int or long",
    "int": "round it first, or use a column of type long, decimal(p,s) or double",
    "long": "round it first, or use a column of type decimal(20,0) or double",
    "decimal": "round it to the scale of {} first, or use a wider decimal",
    "float": "round it to 32 bits first, such as numpy.float32(x), or use a column of type double",
    "double": "use a column of type decimal(p,s) or long, or convert it to double first",
    "boolean": "write true, false, 1 or 0",
    "date": "drop the time of day first, or use a column of type timestamp; a text is written 2026-11-21",
    "timestamp": "round it to microseconds first, such as x.dt.floor('us') in pandas; "
    "a text is written 2026-11-21T10:30:00.123456Z",
    "string": "convert it to UTF-8 text first, or use a column of type bytearray",
    "time": "round it to microseconds first; a text is written 10:30:00.123456, without a time zone",
    "uuid": "a UUID is 32 hexadecimal digits: f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "map": "give lists of (key, value) pairs, no key NULL",
}
_IN_A_DAY = "give times from 00:00:00 to 23:59:59.999999, or use a column of type long"
_HINTS_OF_TEXTS = {
    "date": "write a day as 2026-11-21, without a time of day, or use a column of type timestamp",
    "timestamp": "write a time as 2026-11-21T10:30:00.123456Z, with at most 6 digits after the point",
    "time": "write a time of day as 10:30:00.123456, with at most 6 digits after the point, without a time zone",
}
_HINTS_REFUSED = {
    **{(kind, name): "a number has no unit of time: convert it first, such as pandas.to_datetime(x, unit='s')"
       for kind in ("int", "long", "unsigned long", "float", "double", "decimal") for name in ("date", "timestamp")},
    **{(kind, "string"): "convert it to text first, such as str(x)"
       for kind in ("boolean", "int", "long", "unsigned long", "float", "double", "decimal", "date", "timestamp",
                    "timestamp (s, ms, ns)", "time")},
    ("struct", "map"): "give lists of (key, value) pairs", ("bytearray", "uuid"): "give it as text, such as str(x)",
    **{(kind, "struct"): "give a dictionary with a value for each field" for kind in ("list", "map")},
    **{(kind, "time"): "take its time of day first, such as x.dt.time in pandas"
       for kind in ("timestamp", "timestamp (s, ms, ns)")},
}  # fmt: skip


def _number_hint(text: str) -> str:
    if _DECIMAL_COMMA.fullmatch(text.strip()):
        whole, _, decimals = text.strip().rpartition(",")
        digits = re.sub("[^0-9+-]", "", whole)
        return f"write a decimal point and no thousands separators: {digits}.{decimals}"
    return "write a number such as 12 or 1.5, leave missing values empty, or use a column of type string"


@dataclass(frozen=True, slots=True)
class Rule:
    """How values of one source kind are cast to one field type."""

    fit: Fit
    cast: Cast


def fit(kind: str, name: str) -> Fit:
    """Return whether values of a source kind are cast to a field type: always, where they fit, or never."""
    return RULES[kind, name].fit if (kind, name) in RULES else "refused"


@lru_cache(maxsize=1024)
def kind_of(arrow: pa.DataType) -> str:
    """Return the source kind of an Arrow type: its row in the table of casts."""
    types = pa.types
    if types.is_dictionary(arrow) or types.is_run_end_encoded(arrow):
        return kind_of(arrow.value_type)
    if isinstance(arrow, pa.UuidType):
        return "uuid"
    if isinstance(arrow, pa.BaseExtensionType):
        return kind_of(arrow.storage_type) if arrow.extension_name in _OPEN_EXTENSIONS else "other"
    return next((kind for kind, test in _KINDS if test(arrow)), "other")


def _is_map(arrow: pa.DataType) -> bool:
    """Return whether a type is a map, or the list of key-value structs that Polars uses for one."""
    if pa.types.is_map(arrow):
        return True
    if not is_list_type(arrow) or not pa.types.is_struct(arrow.value_type):
        return False
    return [arrow.value_type.field(i).name for i in range(arrow.value_type.num_fields)] == ["key", "value"]


def _any_of(*tests: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType], bool]:
    return lambda arrow: any(test(arrow) for test in tests)


_KINDS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("null", pa.types.is_null),
    ("boolean", pa.types.is_boolean),
    ("int", _any_of(pa.types.is_int8, pa.types.is_int16, pa.types.is_int32, pa.types.is_uint8, pa.types.is_uint16)),
    ("long", _any_of(pa.types.is_int64, pa.types.is_uint32)),
    ("unsigned long", pa.types.is_uint64),
    ("float", _any_of(pa.types.is_float16, pa.types.is_float32)),
    ("double", pa.types.is_float64),
    ("decimal", pa.types.is_decimal),
    ("string", _any_of(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
    (
        "bytearray",
        _any_of(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    ),
    ("date", pa.types.is_date),
    ("timestamp", lambda arrow: pa.types.is_timestamp(arrow) and arrow.unit == "us"),
    ("timestamp (s, ms, ns)", pa.types.is_timestamp),
    ("time", pa.types.is_time),
    ("map", _is_map),
    ("list", is_list_type),
    ("struct", pa.types.is_struct),
)
KINDS = (*(kind for kind, _ in _KINDS), "uuid", "other")
"""The rows of the table of casts; ``other`` is durations, periods and everything else."""


def exactly(array: pa.Array, target: FieldType) -> pa.Array:
    """Return an array cast to the type of a field, without changing any value.

    Raises `InexactValueError` for the first value that the type cannot hold exactly, or for the whole kind if it is
    never cast.
    """
    if not target.holds(*JUDGED) and array.type.equals(target.arrow, check_metadata=True) and is_utf8(array):
        return array
    kind = kind_of(array.type)
    if kind == "map" and target.name == "list" and is_list_type(array.type):
        kind = "list"
    rule = RULES.get((kind, target.name))
    if rule is None and array.null_count == len(array):
        return pa.nulls(len(array), target.arrow)
    if rule is None:
        raise _refused(kind, target, array)
    plain = plain_values(array)
    try:
        return rule.cast(plain, target)
    except BAD_VALUE as error:
        index = first_bad(plain, lambda part: rule.cast(part, target))
        if index is None:
            raise InexactValueError(kind, target) from error
        raise InexactValueError(kind, target, index, values_of(plain.slice(index, 1))[0]) from error


def _refused(kind: str, target: FieldType, array: pa.Array) -> InexactValueError:
    """Return the error for a kind that is never cast, with the first value if there is one."""
    index = pc.index(array.is_valid(), True).as_py() if len(array) else -1
    if index < 0:
        return InexactValueError(kind, target)
    try:
        value = values_of(array.slice(index, 1))[0]
    except (*BAD_VALUE, ImportError):
        value = str(array.type)
    return InexactValueError(kind, target, index, value)


def first_bad(values: Any, cast: Callable[[Any], Any]) -> int | None:
    """Return the index of the first value for which a cast fails; None if it fails for none. Values are sliceable."""

    def fails(start: int, end: int) -> bool:
        try:
            cast(values[start:end])
        except BAD_VALUE:
            return True
        return False

    low, high = 0, len(values)
    if not high or not fails(low, high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if fails(low, middle):
            high = middle
        else:
            low = middle
    return low


def plain_values(array: pa.Array) -> pa.Array:
    """Return dictionary or run-length encoded values, views and known extension types as plain values."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return array.storage
    if pa.types.is_run_end_encoded(kind):
        return plain_values(pc.run_end_decode(array))
    if pa.types.is_dictionary(kind):  # Arrow cannot look up views
        return plain_values(array.dictionary).take(array.indices)
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):  # Arrow has few casts of these
        return array.cast(pa.decimal128(kind.precision, kind.scale))
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(kind) else array


def plain_chunks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as `plain_values` returns its chunks: Arrow can take rows of it, and count the different ones."""
    chunks = [plain_values(chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks) if chunks else column


def _check(ok: pa.Array) -> None:
    """Raise `ArrowInvalid` unless all values are true; nulls, which come from nulls, are ignored."""
    if pc.all(ok, skip_nulls=True).as_py() is False:
        raise pa.ArrowInvalid("a value would be changed")


def _safely(array: pa.Array, target: FieldType) -> pa.Array:
    """Cast as Arrow does; for kinds for which its cast is exact or fails."""
    return array.cast(target.arrow)


def _nulls(array: pa.Array, target: FieldType) -> pa.Array:
    return pa.nulls(len(array), target.arrow)


def _bit_to_decimal(array: pa.Array, target: FieldType) -> pa.Array:
    return _int_to_decimal(array.cast(pa.int8()), target)


def _int_to_decimal(array: pa.Array, target: FieldType) -> pa.Array:
    # Arrow would require a precision for all digits of the integer type, unless the values are decimals already.
    return _reversibly(array.cast(pa.decimal128(20, 0)), target)


def _int_to_float(array: pa.Array, target: FieldType) -> pa.Array:
    try:
        return array.cast(target.arrow)
    except pa.ArrowInvalid:  # Arrow refuses all large numbers, even exact ones
        return to_float(array.cast(pa.string()), target.arrow)


def _float_to_int(array: pa.Array, target: FieldType) -> pa.Array:
    wide = array.cast(pa.float64())
    _check(pc.less(wide, 2.0**63))  # some processors cast 2**63 to the largest 64-bit number
    return wide.cast(target.arrow)


def _float_to_decimal(array: pa.Array, target: FieldType) -> pa.Array:
    return to_decimal(_float_texts(array), target.arrow)


def _float_texts(array: pa.Array) -> pa.Array:
    return (array.cast(pa.float32()) if pa.types.is_float16(array.type) else array).cast(pa.string())


def _double_to_float(array: pa.Array, target: FieldType) -> pa.Array:
    cast = array.cast(target.arrow)
    _check(pc.or_(pc.equal(cast.cast(pa.float64()), array), pc.is_nan(array)))
    return cast


def _decimal_to_float(array: pa.Array, target: FieldType) -> pa.Array:
    return to_float(array.cast(pa.string()), target.arrow)


def _number_to_bit(array: pa.Array, target: FieldType) -> pa.Array:
    number = array.cast(pa.int64())
    _check(pc.and_(pc.greater_equal(number, 0), pc.less_equal(number, 1)))
    return number.cast(target.arrow)


def _reversibly(array: pa.Array, target: FieldType) -> pa.Array:
    """Cast kinds for which Arrow's cast may change a value: it lets decimals wrap around at 128 bits."""
    cast = array.cast(target.arrow)
    _check(pc.equal(cast.cast(array.type), array))
    return cast


def _date_to_timestamp(array: pa.Array, target: FieldType) -> pa.Array:
    days = _reversibly(array, FieldType("date")).cast(pa.int32()).cast(pa.int64())
    return pc.multiply_checked(days, 86_400_000_000).cast(target.arrow)


def _timestamp_to_timestamp(array: pa.Array, target: FieldType) -> pa.Array:
    if array.type.tz is not None:
        return array.cast(target.arrow)
    return array.cast(pa.timestamp("us")).cast(pa.int64()).cast(target.arrow)  # a time without a zone is UTC


def _timestamp_to_date(array: pa.Array, target: FieldType) -> pa.Array:
    timestamps = _timestamp_to_timestamp(array, FieldType("timestamp"))
    days = timestamps.cast(pa.timestamp("us")).cast(target.arrow)
    _check(pc.equal(_date_to_timestamp(days, FieldType("timestamp")), timestamps))
    return days


def _time_to_time(array: pa.Array, target: FieldType) -> pa.Array:
    cast = array.cast(target.arrow)
    ticks = cast.cast(pa.int64())  # which Arrow does not compare with the length of a day
    outside = pc.or_(pc.less(ticks, 0), pc.greater_equal(ticks, _MICROSECONDS_IN_A_DAY))
    index = pc.index(outside, True).as_py()
    if index >= 0:
        number = ticks[index].as_py()
        problem = f"is {number:,} microseconds after midnight, which is no time of day"
        raise InexactValueError("time", target, index, number, misfit=Misfit(problem, _IN_A_DAY))
    return cast


def _text_to_text(array: pa.Array, target: FieldType) -> pa.Array:
    cast = array.cast(target.arrow)
    cast.validate(full=True)  # a cast does not check that text is UTF-8
    return cast


def _text_to(parse: Callable[[pa.Array, pa.DataType], pa.Array]) -> Cast:
    return lambda array, target: parse(array.cast(pa.string()), target.arrow)


def _text_to_number(parse: Callable[[pa.Array, pa.DataType], pa.Array]) -> Cast:
    def cast(array: pa.Array, target: FieldType) -> pa.Array:
        texts = array.cast(pa.string())
        if _any(pc.match_substring_regex(texts, LEADING_ZERO)):
            raise pa.ArrowInvalid("text with leading zeros is a code, and a number would lose the zeros")
        return parse(texts, target.arrow)

    return cast


def _list_to_list(array: pa.Array, target: FieldType) -> pa.Array:
    offsets = _offsets(array)
    inner = _inner(offsets, array.flatten(), target.arguments[0])
    array = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, mask=array.is_null())
    return array.cast(target.arrow)


def _map_to_map(array: pa.Array, target: FieldType) -> pa.Array:
    if pa.types.is_map(array.type):
        pair = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
        array = array.cast(pa.list_(pair))
    offsets, pairs = _offsets(array), array.flatten()
    columns = pairs.flatten()
    keys, items = (_inner(offsets, column, t) for column, t in zip(columns, target.arguments, strict=True))
    missing = pc.index(keys.is_null(), True).as_py()
    if missing >= 0:
        raise InexactValueError("null", target, _row(offsets, missing), None)
    array = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, mask=array.is_null())
    return array.cast(target.arrow)


def _struct_to_struct(array: pa.Array, target: FieldType) -> pa.Array:
    given: dict[str, pa.Array] = {}
    for part, values in zip(array.type, array.flatten(), strict=True):
        check_member(part.name, target, "struct", given)
        given[part.name] = values
    columns = [_member(given.get(member.name), array, member, target) for member in target.arguments]
    return pa.StructArray.from_arrays(columns, fields=list(target.arrow), mask=array.is_null())


def _member(values: pa.Array | None, array: pa.Array, member: Member, target: FieldType) -> pa.Array:
    if values is None:
        values = pa.nulls(len(array))
        missing = Misfit("is missing", f"add it, or declare it nullable: {member.name}:{member.type}?")
    else:
        missing = Misfit("is NULL", f"fill in the value; only fields declared with ? can be null, as in {member}?")
    try:
        column = exactly(values, member.type)
    except InexactValueError as error:
        raise error.within(member.name) from error
    return check_nulls(column, array.is_valid(), member, target, missing)


def check_nulls(column: pa.Array, is_valid: pa.Array, member: Member, target: FieldType, misfit: Misfit) -> pa.Array:
    """Return the values of a field of structs; raise for the first null in a struct if the field is not nullable."""
    if column.null_count and not member.nullable:
        index = pc.index(pc.and_(column.is_null(), is_valid), True).as_py()
        if index >= 0:
            raise InexactValueError("struct", target, index, None, f".{member.name}", misfit)
    return column


def check_member(name: str, target: FieldType, kind: str, given: Container[str] = (), index: int | None = None) -> None:
    """Raise for a field that a struct does not have, or that is given twice."""
    known = [member.name for member in target.arguments]
    if name in given:
        raise InexactValueError(kind, target, index, None, f".{name}", Misfit("occurs twice", "rename one of them"))
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        instead = f"rename it to {near[0]!r}" if near else "leave it out, or add it to the table's struct"
        misfit = Misfit("is unknown", f"{instead}; the struct has {', '.join(known)}")
        raise InexactValueError(kind, target, index, None, f".{name}", misfit)


def _offsets(array: pa.Array) -> Any:
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _inner(offsets: Any, values: pa.Array, target: FieldType) -> pa.Array:
    """Cast the elements of lists; an error names the row of the list."""
    try:
        return exactly(values, target)
    except InexactValueError as error:
        raise error if error.index is None else error.at(_row(offsets, error.index)) from error


def _row(offsets: Any, place: int) -> int:
    return int(np.searchsorted(offsets, place, side="right")) - 1


_ZONED = r"[Tt ]\d\d.*([Zz]|[+-]\d\d(:?\d\d)?)$"
_FAR = r"^(-\d{4,}|\d{5,})-\d\d-\d\d"
_ANY_YEAR = re.compile(r"(?P<year>-\d{4,7}|\d{5,7})(?P<rest>-\d\d-\d\d.*)", re.ASCII)
_MICROSECONDS_IN_A_DAY = 86_400_000_000
_MICROSECONDS_IN_400_YEARS = 146_097 * 86_400_000_000
_NUMERIC_TEXT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_NAMED = re.compile(r"nan|[+-]?inf(inity)?", re.IGNORECASE)
_SURE_DIGITS = {pa.float64(): 15, pa.float32(): 6}
_SMALL = {pa.float64(): 1e-290, pa.float32(): 1e-30}


def to_int(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse integers; a fraction of zeros is ignored.

    Raises `ArrowInvalid` for a text that is not such a value; so do all parsers below.
    """
    texts = pc.utf8_trim_whitespace(texts)
    if not _any(pc.match_substring_regex(texts, "[^-0-9]")):  # Arrow would also accept 0x10
        return texts.cast(target)
    return pa.array([None if text is None else _whole(text) for text in texts.to_pylist()], target)


def _whole(text: str) -> int:
    if not _NUMERIC_TEXT.fullmatch(text):
        raise pa.ArrowInvalid(f"{text!r} is not a number")
    number = Decimal(text)
    if number.adjusted() > 20 or number != number.to_integral_value():
        raise pa.ArrowInvalid(f"{text!r} is not an integer")
    return int(number)


def to_float(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse floats; a text with more digits than the type holds is refused."""
    texts = pc.utf8_trim_whitespace(texts)
    numbers = texts.cast(target)
    long = pc.greater(pc.utf8_length(texts), _SURE_DIGITS[target])
    if _any(long):
        long = pc.and_(long, pc.not_equal(numbers.cast(pa.string()), texts))
    small = pc.and_(pc.less(pc.abs(numbers), _SMALL[target]), pc.match_substring(texts, "e", ignore_case=True))
    doubtful = pc.or_(pc.or_(long, small), pc.invert(pc.is_finite(numbers)))
    for text, number in zip(texts.filter(doubtful).to_pylist(), numbers.filter(doubtful).to_pylist(), strict=True):
        if not _keeps_digits(text, number):
            raise pa.ArrowInvalid(f"{text!r} has more digits than the type")
    return numbers


def _keeps_digits(text: str, number: float) -> bool:
    if _NAMED.fullmatch(text):
        return True
    if not _NUMERIC_TEXT.fullmatch(text):
        return False
    written = Decimal(text)
    digits = len("".join(map(str, written.as_tuple().digits)).strip("0")) or 1
    return Decimal(f"{number:.{digits - 1}e}") == written


def to_decimal(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse decimals; trailing zeros are ignored."""
    texts = pc.utf8_trim_whitespace(texts)
    if _any(pc.match_substring_regex(texts, "[^-0-9.]")) or _any(pc.greater(pc.utf8_length(texts), 38)):
        return pa.array([None if text is None else _decimal(text) for text in texts.to_pylist()], target)
    # Arrow scales 38 digits by up to 10^38 in 128 bits, where they wrap around.
    return texts.cast(pa.decimal256(76, target.scale)).cast(target)


def _decimal(text: str) -> Decimal:
    number = Decimal(text) if _NUMERIC_TEXT.fullmatch(text) else None
    if number is None or abs(number.adjusted()) > 76:
        if number == 0:
            return Decimal(0)
        raise pa.ArrowInvalid(f"{text!r} is not a decimal")
    return _stripped(number)


def _stripped(number: Decimal) -> Decimal:
    """Return a number without trailing zeros, independent of the decimal context's precision."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 - it is finite
    text = "".join(map(str, digits))
    kept = text.rstrip("0") or "0"
    return Decimal(f"{'-' if sign else ''}{kept}E{exponent + len(text) - len(kept)}")


def to_boolean(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse ``true``, ``false``, ``1`` and ``0``; case does not matter."""
    return pc.utf8_lower(pc.utf8_trim_whitespace(texts)).cast(target)


def to_date(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse dates such as ``2026-11-21``, or midnight of a day; years can have more digits and a sign."""
    texts = pc.utf8_trim_whitespace(texts)
    if not _any(pc.match_substring_regex(texts, "[^-0-9]|^-|^[0-9]{5}")):
        return texts.cast(target)
    if _any(pc.match_substring_regex(texts, _FAR)):
        return pa.array([None if text is None else _day(text) for text in texts.to_pylist()], pa.int32()).cast(target)
    timestamps = to_timestamp(texts, pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    days = timestamps.cast(target)
    if _any(pc.not_equal(days.cast(pa.timestamp("us")), timestamps)):
        raise pa.ArrowInvalid("a day has no time")
    return days


def _day(text: str) -> int:
    """Return the days since 1970 of a date in any year."""
    match = _ANY_YEAR.fullmatch(text)
    year = int(match["year"]) if match else 0
    near = 2000 + year % 400  # after 400 years the calendar repeats
    days = to_date(pa.array([f"{near}{match['rest']}" if match else text]), pa.date32())
    return int(days.cast(pa.int32())[0].as_py()) + ((year - near) // 400 * 146_097 if match else 0)


def to_time(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse times of day such as ``10:30``, ``10:30:00`` and ``10:30:00.123456``."""
    texts = pc.utf8_trim_whitespace(texts)
    texts = pc.replace_substring_regex(texts, r"(\.\d{6})0+$", r"\1")
    moments = pc.binary_join_element_wise("1970-01-01", texts, " ").cast(pa.timestamp("us"))  # Arrow parses no times
    return moments.cast(pa.int64()).cast(target)


_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_HEX = r"^([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$"


def to_uuid(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the texts of UUIDs in their canonical form: hexadecimal digits in lower case, with hyphens."""
    texts = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    texts = pc.replace_substring_regex(texts, _HEX, r"\1-\2-\3-\4-\5")
    _check(pc.match_substring_regex(texts, _UUID))
    return texts.cast(target)


def _uuid_to_text(array: pa.Array, target: FieldType) -> pa.Array:
    return to_uuid(pa.array([value and value.hex() for value in array.to_pylist()], pa.string()), target.arrow)


def to_timestamp(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse ISO 8601 timestamps, with a space or a ``T``; without an offset, ``Z`` or ``UTC`` they are in UTC."""
    texts = pc.utf8_trim_whitespace(texts)
    texts = pc.replace_substring_regex(texts, r"(:\d\d(?:\.\d+)?) ?UTC$", r"\1Z")  # as times are shown
    texts = pc.replace_substring_regex(texts, r"(\.\d{6})0+", r"\1")  # nine digits of a second, the last three zero
    if _any(pc.match_substring_regex(texts, _FAR)):
        numbers = [None if text is None else _microseconds(text, target) for text in texts.to_pylist()]
        return pa.array(numbers).cast(target)
    zoned = pc.match_substring_regex(texts, _ZONED)
    none = pa.scalar(None, pa.string())
    with_zone = pc.if_else(zoned, texts, none).cast(target)
    without = pc.if_else(zoned, none, texts).cast(pa.timestamp("us")).cast(pa.int64()).cast(target)
    return pc.coalesce(with_zone, without)


def _microseconds(text: str, target: pa.DataType) -> int:
    """Return the microseconds since 1970 of a timestamp in any year, including those that Arrow does not parse."""
    match = _ANY_YEAR.fullmatch(text)
    if match is None:
        timestamp = to_timestamp(pa.array([text]), target)
        return int(timestamp.cast(pa.int64())[0].as_py())
    year = int(match["year"])
    near = 2000 + year % 400  # after 400 years the calendar repeats
    moved = to_timestamp(pa.array([f"{near}{match['rest']}"]), target)
    return int(moved.cast(pa.int64())[0].as_py()) + (year - near) // 400 * _MICROSECONDS_IN_400_YEARS


def from_base64(text: str) -> bytes:
    """Return the bytes of a base64 text; raises `ValueError` for anything else."""
    return base64.b64decode(text, validate=True)


def as_written(text: str) -> str | bytes:
    """Return the original bytes of a text that was not UTF-8 in its file; otherwise the text."""
    if not any("\udc80" <= each <= "\udcff" for each in text):
        return text
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text


def _any(tests: Any) -> bool:
    return bool(pc.any(tests, skip_nulls=True).as_py())


PARSERS: Mapping[str, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    "int": to_int, "long": to_int, "float": to_float, "double": to_float, "decimal": to_decimal, "boolean": to_boolean,
    "date": to_date, "timestamp": to_timestamp, "tinyint": to_int, "smallint": to_int, "time": to_time, "uuid": to_uuid,
}  # fmt: skip
"""The parser of each field type that texts are cast to."""


def _rules() -> dict[tuple[str, str], Rule]:
    names = (*SIMPLE_TYPES, "decimal", "list", "map", "struct")
    rules = {("null", name): Rule("exact", _nulls) for name in names}

    def add(how: Fit, cast: Cast, kinds: tuple[str, ...], *targets: str) -> None:
        rules.update({(kind, target): Rule(how, cast) for kind in kinds for target in targets})

    whole, floats = ("int", "long", "unsigned long"), ("float", "double")
    add("exact", _safely, ("boolean",), "boolean", *_WHOLE, "float", "double")
    add("where it fits", _bit_to_decimal, ("boolean",), "decimal")
    add("where it fits", _safely, ("long", "unsigned long"), "int")
    add("where it fits", _safely, whole, "tinyint", "smallint")
    add("where it fits", _safely, ("unsigned long",), "long")
    add("exact", _safely, ("int", "long"), "long")
    add("exact", _safely, ("int",), "int", "double")
    add("where it fits", _int_to_float, ("long", "unsigned long"), "double")
    add("where it fits", _int_to_float, whole, "float")
    add("where it fits", _int_to_decimal, whole, "decimal")
    add("where it fits", _float_to_int, floats, *_WHOLE)
    add("where it fits", _float_to_decimal, floats, "decimal")
    add("exact", _safely, ("float",), "float", "double")
    add("exact", _safely, ("double",), "double")
    add("where it fits", _double_to_float, ("double",), "float")
    add("where it fits", _safely, ("decimal",), *_WHOLE)
    add("where it fits", _reversibly, ("decimal",), "decimal")
    add("where it fits", _decimal_to_float, ("decimal",), "float", "double")
    add("where it fits", _number_to_bit, (*whole, *floats, "decimal"), "boolean")
    _add_others(add)
    return rules


def _add_others(add: Callable[..., None]) -> None:
    add("where it fits", _text_to_text, ("string",), "string")
    add("exact", _safely, ("string",), "bytearray")
    for name, parse in PARSERS.items():
        add("where it fits", (_text_to_number if name in NUMBERS else _text_to)(parse), ("string",), name)
    add("exact", _safely, ("bytearray",), "bytearray")
    add("where it fits", _safely, ("bytearray",), "string")
    add("exact", _reversibly, ("date",), "date")
    add("where it fits", _date_to_timestamp, ("date",), "timestamp")
    add("exact", _timestamp_to_timestamp, ("timestamp",), "timestamp")
    add("where it fits", _timestamp_to_timestamp, ("timestamp (s, ms, ns)",), "timestamp")
    add("where it fits", _timestamp_to_date, ("timestamp", "timestamp (s, ms, ns)"), "date")
    add("where it fits", _time_to_time, ("time",), "time")
    add("exact", _uuid_to_text, ("uuid",), "uuid", "string")
    add("exact", _safely, ("uuid",), "bytearray")
    add("where it fits", _list_to_list, ("list",), "list")
    add("where it fits", _struct_to_struct, ("struct",), "struct")
    add("where it fits", _map_to_map, ("map",), "map")


RULES = _rules()
"""The table of casts, by source kind and field type; a pair that is not in it is refused."""


Misfits = list[tuple[int, InexactValueError]]
"""The index of each value that does not fit, and why."""


def cast_apart(
    values: Any, cast: Callable[[Any], pa.Array], kind: pa.DataType, most: int | None = None
) -> tuple[pa.Array, Misfits]:
    """Return values cast to a type, NULL where a value does not fit, and the values that do not.

    Parameters
    ----------
    values
        An Arrow array or a list. Texts are cast once for each different text.
    cast
        Returns a slice of the values with the type `kind`, or raises `InexactValueError`.
    most
        More misfits than these are not looked for: then all values are NULL.
    """
    if not isinstance(values, pa.Array) or not pa.types.is_string(values.type):
        return _halved(values, cast, kind, most)
    try:
        return cast(values), []
    except InexactValueError:
        pass
    encoded = values.dictionary_encode()
    different, misfits = _halved(encoded.dictionary, cast, kind, most)
    errors = dict(misfits)
    wrong = pc.is_in(encoded.indices, pa.array(list(errors), encoded.indices.type))
    rows = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))[: None if most is None else most + 1].tolist()
    return different.take(encoded.indices), [(row, errors[encoded.indices[row].as_py()]) for row in rows]


def _halved(
    values: Any, cast: Callable[[Any], pa.Array], kind: pa.DataType, most: int | None
) -> tuple[pa.Array, Misfits]:
    """Cast values in parts: up to the first that does not fit, and then the two halves of the others."""
    parts: list[pa.Array] = []
    misfits: Misfits = []
    waiting = [(0, len(values))]
    while waiting:
        start, end = waiting.pop()
        try:
            parts.append(cast(values[start:end]))
            continue
        except InexactValueError as error:
            bad, index = error, error.index
        middle = (start + end) // 2
        if end - start == 1:
            parts.append(pa.nulls(1, kind))
            misfits.append((start, bad))
            if most is not None and len(misfits) > most:
                return pa.nulls(len(values), kind), misfits
        elif index is None:
            waiting += [(middle, end), (start, middle)]
        else:
            first = start + index
            middle = (first + 1 + end) // 2
            waiting += [(middle, end), (first + 1, middle), (first, first + 1), (start, first)]
    return pa.concat_arrays(parts) if parts else pa.array([], kind), misfits
