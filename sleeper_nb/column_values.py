"""A column's values as Python has them; dates and times of other years as text, text that is not UTF-8 as bytes."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DAYS_IN_400_YEARS = 146_097
_DAY_0 = date(1970, 1, 1).toordinal()


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return a column's values as Python has them.

    Dates and times outside of the years 1 to 9999 are text, and text that is not UTF-8 is bytes.
    """
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):  # of date and datetime, or of decoding
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
        if types.is_string(kind) or types.is_large_string(kind):
            return scalar.as_buffer().to_pybytes()
        raise


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
