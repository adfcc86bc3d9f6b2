"""How one cell of an answer is written: a number, time or size of ours to be read, a value of the user's as it is."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from sleeper_nb.column_values import values_of

if TYPE_CHECKING:
    import pyarrow as pa

NULL = "NULL"
"""How a missing value of the user's is shown. A text that reads the same is shown in quotes."""
_MOST_WHOLE = 1e16
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
    """A value of the user's: shown as it is, ``NULL`` where there is none; a number of ours has thousands separated.

    Parameters
    ----------
    value
        What is shown.
    single
        Whether its numbers have 32 bits, so that they are written with the digits that tell these apart.
    """

    value: object
    single: bool = False

    def __str__(self) -> str:
        value = self.value
        if value is None:
            return NULL
        if isinstance(value, str) and value.strip("'") == NULL:
            return f"'{cell_text(value)}'"  # a text that says NULL is not a missing value
        if isinstance(value, float):
            return _every_digit(value, single=self.single)
        if isinstance(value, Decimal):
            return f"{value:f}"
        if isinstance(value, datetime):
            fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
            return _time_text(value, fraction)
        if isinstance(value, dict):
            return f"{{{', '.join(f'{name}: {self._inner(each)}' for name, each in value.items())}}}"
        if isinstance(value, list):
            return self._of_list(value)
        if type(value).__name__ == "MonthDayNano":
            return _interval_text(*cast("tuple[int, int, int]", value))
        plain = isinstance(value, int) and not isinstance(value, bool)
        return str(value) if plain else cell_text(value)

    def _of_list(self, values: list[object]) -> str:
        if values and all(isinstance(each, tuple) for each in values):  # as Arrow gives a map
            pairs = (f"{self._inner(key)}: {self._inner(each)}" for key, each in cast("list[tuple[Any, Any]]", values))
            return f"{{{', '.join(pairs)}}}"
        return f"[{', '.join(map(self._inner, values))}]"

    def _inner(self, value: object) -> str:
        """Return a value within another one: a text has quotes, or it could not be told where it ends."""
        return repr(value) if isinstance(value, str) else str(Data(value, self.single))


def _time_text(value: datetime, fraction: str = "") -> str:
    return value.replace(microsecond=0, tzinfo=None).isoformat(" ") + fraction + (" UTC" if value.tzinfo else "")


def _interval_text(months: int, days: int, nanoseconds: int) -> str:
    parts = [f"{number} {noun}{'s' * (number != 1)}" for number, noun in ((months, "month"), (days, "day")) if number]
    if nanoseconds or not parts:
        parts.append(f"{Decimal(nanoseconds).scaleb(-9).normalize():f} s")
    return " ".join(parts)


def _every_digit(value: float, *, single: bool) -> str:
    """Return a number with as few digits as tell it from every other one of its size."""
    if value.is_integer() and abs(value) < _MOST_WHOLE:
        return f"{value + 0.0:.0f}"  # a zero has no sign
    in_32_bits = (f"{value:.{digits}g}" for digits in range(6, 10) if single)
    return next((text for text in in_32_bits if _in_32_bits(float(text)) == value), repr(value))


def _in_32_bits(value: float) -> float:
    if abs(value) >= _MOST_IN_32_BITS:
        return value
    (found,) = struct.unpack("f", struct.pack("f", value))
    return float(found)


def is_missing(value: object) -> bool:
    """Return whether a cell has no value, of ours or of the user's."""
    return value is None or (isinstance(value, Data) and value.value is None)


def is_number(value: object) -> bool:
    """Return whether a cell belongs to the right of its column."""
    if isinstance(value, Data):
        value = value.value
    return isinstance(value, int | float | Decimal | Bytes) and not isinstance(value, bool)


def data_rows(rows: pa.Table) -> tuple[tuple[object, ...], ...]:
    """Return the cells of a table of the user's, row by row."""
    kinds = (set(re.findall(r"float|double", str(column.type))) for column in rows.columns)
    cells = (
        [Data(value, kind == {"float"}) for value in values_of(column)]
        for column, kind in zip(rows.columns, kinds, strict=True)
    )
    return tuple(zip(*cells, strict=True))


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
