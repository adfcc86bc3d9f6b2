"""Values of every kind, and what each of them is as each type of a field: by Python's own numbers, not by Arrow's."""

from __future__ import annotations

import base64
import math
import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cache, cached_property
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa

from sleeper_nb.load.casts import kind_of
from sleeper_nb.model.schema import FieldType, parse_type

TARGETS = ("int", "long", "float", "double", "boolean", "decimal(10,2)", "decimal(38,0)", "decimal(3,3)", "string",
           "bytearray", "date", "timestamp", "tinyint", "smallint", "time", "uuid")  # fmt: skip
REFUSED = "refused"
A_UUID = UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479")
_TOKYO = timezone(timedelta(hours=9))
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_UTC = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Sample:
    """A value and its Arrow type; `nanoseconds` are those that a `datetime` cannot have."""

    arrow: pa.DataType
    value: Any
    nanoseconds: int = 0

    @property
    def array(self) -> pa.Array:
        """The value as the one of an array."""
        if self.arrow == pa.float16():
            return pa.array(np.array([self.value], np.float16))
        if isinstance(self.value, bytes) and kind_of(self.arrow) == "string":
            return not_utf8(self.value).cast(self.arrow)
        if self.nanoseconds:
            return pa.array([np.datetime64(self.value.replace(tzinfo=None), "ns") + self.nanoseconds], self.arrow)
        if pa.types.is_dictionary(self.arrow):
            return pa.array([self.value]).dictionary_encode()
        return pa.array([self.value], self.arrow)


def not_utf8(value: bytes) -> pa.Array:
    """Return a text of any bytes, which Arrow does not look at."""
    return pa.StringArray.from_buffers(1, *pa.array([value], pa.binary()).buffers()[1:])


def _samples() -> list[Sample]:
    found = [Sample(pa.bool_(), value) for value in (True, False)]
    for bits in (8, 16, 32, 64):
        for signed in (True, False):
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
            kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
            values = (0, 1, 2, low, high, 99_999_999, 100_000_000, 2**24 + 1, 2**31, 2**53 + 1, 2**60)
            found += [Sample(kind, value) for value in dict.fromkeys(values) if low <= value <= high]
    floats = (0.0, -0.0, 1.0, 1.5, 2.0, -1.0, 0.125, float("nan"), float("inf"), -float("inf"))
    found += [Sample(kind, v) for kind in (pa.float16(), pa.float32(), pa.float64()) for v in floats]
    wide = (0.1, 1.239, 1.24, 1e300, 5e-324, 2.0**31, 2.0**53, 2.0**63, -(2.0**63), 1e22, 123456789.01)
    found += [Sample(pa.float64(), value) for value in wide]
    found += [Sample(pa.float32(), float(np.float32(value))) for value in (0.1, 1.239, 2.0**31, 2.0**63, 1e30)]
    decimals = ("0", "1", "2", "-1", "1.5", "1.239", "1.24", "0.1", "9007199254740993", "2147483648", "12345678.90")
    for kind in (pa.decimal128(38, 5), pa.decimal256(60, 5)):
        found += [Sample(kind, Decimal(text)) for text in decimals]
    texts = ("a", "", "0", "1", "1.0", "1.5", " 7 ", "1.239", "1.24", "0x10", "1e400", "1e2", "9007199254740993",
             "1_0", "nan", "-inf", "true", "FALSE", "yes", "2147483648", "2026-01-01", "2026-01-01T00:00:00Z", "é",
             "AQ==", "2026-01-01 10:00:00.123456+09:00", "2026-01-01T10:00:00.123456789Z", "2026-02-30", "NULL",
             "+5", "10:30", "10:30:01.123456", "10:30:01.1234560", "10:30:01.1234567", "24:00", "10:30:00Z",
             str(A_UUID), A_UUID.hex.upper(), "f47ac10b-58cc-4372-a567-0e02b2c3d47")  # fmt: skip
    found += [Sample(pa.string(), text) for text in texts]
    kinds = (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))
    found += [Sample(kind, text) for kind in kinds for text in ("", "1", "1.239", "2026-01-01", "true")]
    found += [Sample(kind, b"a\xff") for kind in (pa.string(), pa.large_string(), pa.string_view())]
    found += [
        Sample(kind, v) for kind in (pa.binary(), pa.large_binary(), pa.binary_view()) for v in (b"", b"a", b"\xff")
    ]
    found += [Sample(pa.binary(2), b"ab")]
    days = (date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2026, 2, 28))
    found += [Sample(kind, day) for kind in (pa.date32(), pa.date64()) for day in days]
    midnight, later = datetime.fromisoformat("2026-01-01"), datetime.fromisoformat("2026-01-01T10:30:01")
    for unit in ("s", "ms", "us", "ns"):
        found += [Sample(pa.timestamp(unit), value) for value in (midnight, later)]
        found += [Sample(pa.timestamp(unit, "UTC"), value.replace(tzinfo=UTC)) for value in (midnight, later)]
    found += [Sample(pa.timestamp("us", "Asia/Tokyo"), midnight.replace(tzinfo=_TOKYO))]
    found += [Sample(_UTC, datetime(2026, 1, 1, 0, 0, 0, 1, UTC))]
    found += [Sample(pa.timestamp("ns"), midnight, 1), Sample(pa.timestamp("ns"), later, 1000)]
    found += [Sample(kind, time(10, 30, 1)) for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("ns"))]
    found += [Sample(pa.time64("us"), value) for value in (time(), time(23, 59, 59, 999_999))]
    found += [Sample(pa.uuid(), A_UUID), Sample(pa.duration("us"), 5)]
    return found


SAMPLES = _samples()


def expected(sample: Sample, target: FieldType, *, text_file: bool = False) -> Any:
    """Return what a value is as a type, or `REFUSED`; in a text file bytes are base64."""
    kind, value = sample.arrow, sample.value
    types = pa.types
    if isinstance(value, time):
        return value if target.name == "time" else REFUSED
    if isinstance(value, UUID):
        return {"uuid": str(value), "string": str(value), "bytearray": value.bytes}.get(target.name, REFUSED)
    if types.is_duration(kind):
        return REFUSED
    if isinstance(value, str):
        return _of_text(value, target, text_file=text_file)
    if isinstance(value, bytes):
        return value if target.name == "bytearray" else _decoded(value) if target.name == "string" else REFUSED
    if isinstance(value, datetime):
        return _of_moment(value.replace(tzinfo=value.tzinfo or UTC), sample.nanoseconds, target)
    if isinstance(value, date):
        moment = datetime(value.year, value.month, value.day, tzinfo=UTC)
        return {"date": value, "timestamp": moment}.get(target.name, REFUSED)
    if isinstance(value, float):
        digits = np.float32(value) if types.is_float32(kind) or types.is_float16(kind) else value
        return _of_number(value, Decimal(str(digits)), target)
    return _of_number(value, Decimal(value), target)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return REFUSED


def _of_moment(moment: datetime, nanoseconds: int, target: FieldType) -> Any:
    if nanoseconds % 1000 or target.name not in {"date", "timestamp"}:
        return REFUSED
    moment = moment.astimezone(UTC) + timedelta(microseconds=nanoseconds // 1000)
    if target.name == "timestamp":
        return moment
    return moment.date() if moment.time() == datetime.min.time() else REFUSED


def _of_number(number_of: Any, written: Decimal, target: FieldType) -> Any:
    """Return a number as a type; `written` are its digits, the fewest that mean it."""
    value = Decimal(number_of)
    match target.name:
        case "tinyint" | "smallint" | "int" | "long":
            bits = {"tinyint": 7, "smallint": 15, "int": 31, "long": 63}[target.name]
            fits = value.is_finite() and value == int(value) and -(2**bits) <= value < 2**bits
            return int(value) if fits else REFUSED
        case "boolean":
            return bool(value) if value.is_finite() and value in (0, 1) else REFUSED
        case "decimal":
            precision, scale = target.arguments
            if not written.is_finite() or abs(written) >= 10 ** (precision - scale):
                return REFUSED
            return written if written * 10**scale == int(written * 10**scale) else REFUSED
        case "double":
            number = float(value)
            kept = not value.is_finite() or Decimal(number) == value
            digits = not isinstance(number_of, int) and value.is_finite() and Decimal(repr(number)) == written
            return number if kept or digits else REFUSED
        case "float":
            with np.errstate(over="ignore"):
                number = np.float32(float(value))
            if not isinstance(number_of, float):  # digits, which the number must keep
                return float(number) if _keeps(float(number), written) else REFUSED
            return float(number) if not value.is_finite() or float(number) == float(value) else REFUSED
        case _:
            return REFUSED


def _keeps(number: float, written: Decimal) -> bool:
    """Return whether a float, rounded to as many digits as are written, is what is written."""
    digits = len(written.normalize().as_tuple().digits)
    return Decimal(f"{number:.{digits - 1}e}") == written


def _of_text(text: str, target: FieldType, *, text_file: bool) -> Any:
    stripped = text.strip()
    match target.name:
        case "string":
            return text
        case "bytearray":
            if not text_file:
                return text.encode()
            try:
                return base64.b64decode(text, validate=True)
            except ValueError:
                return REFUSED
        case "boolean":
            return {"true": True, "false": False, "1": True, "0": False}.get(stripped.lower(), REFUSED)
        case "time":
            parts = re.fullmatch(r"(\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)0*", stripped)
            try:
                return time.fromisoformat(parts[1]) if parts else REFUSED
            except ValueError:
                return REFUSED
        case "uuid":
            is_one = re.fullmatch(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", stripped)
            return str(UUID(stripped)) if is_one else REFUSED
        case "date" | "timestamp":
            try:
                moment = pd.Timestamp(stripped) if re.match(r"\d{4}-", stripped) else None
            except ValueError:
                return REFUSED
            if moment is None:
                return REFUSED
            zoned = moment if moment.tzinfo else moment.tz_localize("UTC")
            return _of_moment(zoned.floor("us").to_pydatetime(), zoned.nanosecond, target)
    if stripped in {"nan", "-inf"}:
        return float(stripped) if target.name in {"float", "double"} else REFUSED
    if not _NUMBER.fullmatch(stripped):
        return REFUSED
    if target.name in {"float", "double"}:
        number = float(stripped)
        if target.name == "float":
            with np.errstate(over="ignore"):
                number = float(np.float32(number))
        digits = repr(number) if target.name == "double" else str(np.float32(number))
        return number if Decimal(digits) == Decimal(stripped) or Decimal(number) == Decimal(stripped) else REFUSED
    if Decimal(stripped) > 10**100:
        return REFUSED
    return _of_number(Decimal(stripped), Decimal(stripped), target)


@dataclass(frozen=True)
class Case:
    """A column: a sample, alone or within a list or a map, and the field that it shall become."""

    name: str
    sample: Sample
    target: FieldType
    depth: str = ""

    @cached_property
    def field(self) -> FieldType:
        """The type of the column."""
        nested = {"": "{}", "list": "list<{}>", "map": "map<string,{}>"}[self.depth]
        return parse_type(nested.format(self.target))

    @cached_property
    def column(self) -> pa.Array:
        """The column, of one row."""
        inner = self.sample.array
        if not self.depth:
            return inner
        offsets = pa.array([0, 1], pa.int32())
        if self.depth == "list":
            return pa.ListArray.from_arrays(offsets, inner)
        return pa.MapArray.from_arrays(offsets, pa.array(["k"]), inner)

    @property
    def value(self) -> Any:
        """The value that Python has of the column."""
        return self.column.to_pylist()[0]

    def wrapped(self, value: Any) -> Any:
        """Return a value as the column has it."""
        return {"": value, "list": [value], "map": [("k", value)]}[self.depth]


@cache
def cases() -> list[Case]:
    """Return a column for every sample, type and depth."""
    found = []
    for sample in SAMPLES:
        for text in TARGETS:
            for depth in ("", "list", "map"):
                found.append(Case(f"c{len(found)}", sample, parse_type(text), depth))
    return found


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal; NaN is NaN."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return type(left) is type(right) and left == right


def as_digits(sample: Sample) -> Sample:
    """Return a float as the digits that JSON has of it."""
    finite = isinstance(sample.value, float) and np.isfinite(sample.value)
    return replace(sample, value=Decimal(repr(sample.value))) if finite else sample


def as_double(sample: Sample) -> Sample:
    """Return a sample of a shorter float as the double that Python makes of it."""
    return replace(sample, arrow=pa.float64()) if isinstance(sample.value, float) else sample
