"""How one cell of an answer is written: a number, time or size of ours to be read, a value of the user's as it is."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_WHOLE = 1e15
_MOST_IN_32_BITS = 3.4e38


@dataclass(frozen=True, slots=True)
class Bytes:
    """A number of bytes, shown in binary units (``1.2 MiB``)."""

    count: int

    def __str__(self) -> str:
        size = float(self.count)
        for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
            if size < 1024 or unit == "TiB":
                return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
            size /= 1024
        raise AssertionError


@dataclass(frozen=True, slots=True)
class Data:
    """A value of the user's: shown as it is, ``NULL`` where there is none; a number of ours has thousands separated."""

    value: object

    def __str__(self) -> str:
        if self.value is None:
            return "NULL"
        if isinstance(self.value, float):
            return _every_digit(self.value)
        if isinstance(self.value, Decimal):
            return f"{self.value:f}"
        if isinstance(self.value, datetime):
            fraction = f".{self.value.microsecond:06}".rstrip("0") if self.value.microsecond else ""
            return _time_text(self.value, fraction)
        plain = isinstance(self.value, int) and not isinstance(self.value, bool)
        return str(self.value) if plain else cell_text(self.value)


def _time_text(value: datetime, fraction: str = "") -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}{fraction}" + (" UTC" if value.tzinfo else "")


def _every_digit(value: float) -> str:
    """Return a number with all digits that it has; of one from a column of 32 bits, those that 32 bits hold."""
    if value.is_integer() and abs(value) < _MOST_WHOLE:
        return f"{value + 0.0:.0f}"  # a zero has no sign
    in_32_bits = (f"{value:.{digits}g}" for digits in range(6, 10))
    return next((text for text in in_32_bits if _in_32_bits(float(text)) == value), f"{value:.15g}")


def _in_32_bits(value: float) -> float:
    if abs(value) >= _MOST_IN_32_BITS:
        return value
    (single,) = struct.unpack("f", struct.pack("f", value))
    return float(single)


def is_missing(value: object) -> bool:
    """Return whether a cell has no value, of ours or of the user's."""
    return value is None or (isinstance(value, Data) and value.value is None)


def is_number(value: object) -> bool:
    """Return whether a cell belongs to the right of its column."""
    if isinstance(value, Data):
        value = value.value
    return isinstance(value, int | float | Decimal | Bytes) and not isinstance(value, bool)


def data_rows(columns: Iterable[Sequence[object]]) -> tuple[tuple[object, ...], ...]:
    """Return rows of the user's values from their columns."""
    return tuple(zip(*([Data(value) for value in column] for column in columns), strict=True))


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return a column's values as Python has them; dates and times of years that it has not as text."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):  # from date and datetime, which have the years 1 to 9999
        return [_value_or_text(scalar) for scalar in column]


def _value_or_text(scalar: Any) -> Any:
    from pyarrow import types

    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        kind = scalar.type
        if types.is_map(kind):
            return [(_value_or_text(pair["key"]), _value_or_text(pair["value"])) for pair in scalar.values]
        if types.is_struct(kind):
            return {name: _value_or_text(each) for name, each in scalar.items()}
        if types.is_nested(kind):
            return [_value_or_text(each) for each in scalar.values]
        if types.is_date(kind):
            return _far_date(scalar.value, 1 if types.is_date32(kind) else 86_400_000, kind.bit_width)
        if types.is_timestamp(kind):
            return _far_time(scalar.value, _DIGITS[kind.unit], " UTC" if kind.tz else "")
        raise


_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DAYS_IN_400_YEARS = 146_097
_DAY_0 = date(1970, 1, 1).toordinal()


def _far_date(value: int, parts_of_day: int, bits: int) -> str:
    """Return a date of any year as one of ours is written; the ends of the type are DuckDB's infinite ones."""
    if abs(value) == 2 ** (bits - 1) - 1:
        return "infinity" if value > 0 else "-infinity"
    ages, day = divmod(value // parts_of_day, _DAYS_IN_400_YEARS)  # after which the calendar repeats
    near = date.fromordinal(_DAY_0 + day)
    year = near.year + 400 * ages
    return f"{'-' if year < 0 else ''}{abs(year):04}-{near:%m-%d}"


def _far_time(value: int, digits: int, zone: str) -> str:
    text = _far_date(value, 86_400 * 10**digits, 64)
    if text.endswith("infinity"):
        return text
    seconds, rest = divmod(value, 10**digits)
    minutes = seconds // 60 % 1440
    fraction = f".{rest:0{digits}}".rstrip("0") if rest else ""
    return f"{text} {minutes // 60:02}:{minutes % 60:02}:{seconds % 60:02}{fraction}{zone}"


def cell_text(value: object) -> str:
    """Return `value` as one line of text: thousands separated, times in UTC, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Decimal):
        return f"{value:,f}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, datetime):
        return _time_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return "0x" + value.hex()
    # A line break inside a cell would tear the grid: show it as what it is.
    return str(value).replace("\r", "\\r").replace("\n", "\\n")
