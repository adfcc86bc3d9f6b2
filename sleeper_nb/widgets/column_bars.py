"""The small histogram in the header of a column: which bars it has, and what a chosen bar means as a filter. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from sleeper_nb.model.schema import Field
from sleeper_nb.report import Data, cell_text
from sleeper_nb.widgets.row_grid_query import ColumnFilter

BARS: Final = 24
"""About how many equal ranges a histogram has."""
TOP_VALUES: Final = 8
"""How many values of a column of text or booleans have a bar of their own: the most frequent."""
WHOLE_NUMBERS: Final = frozenset({"tinyint", "smallint", "int", "long"})
FRACTIONS: Final = frozenset({"float", "double", "decimal"})
ORDERED: Final = WHOLE_NUMBERS | FRACTIONS | {"date", "timestamp", "time"}
"""Types whose bars are ranges."""
NAMED: Final = frozenset({"string", "boolean", "uuid"})
"""Types whose bars are values."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND
_ROUND_SECONDS: Final = (1, 5, 15, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400)
_NICE: Final = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Bars:
    """The bars of a column: of ranges the greatest value of each, in increasing order; otherwise the value of each."""

    column: Field
    marks: tuple[Any, ...]

    @property
    def are_ranges(self) -> bool:
        """Whether a bar stands for a range of values."""
        return self.column.type.name in ORDERED

    def label(self, bar: int) -> str:
        """Return what a bar stands for, as text."""
        marks = [cell_text(Data(each)) for each in self.marks]
        if not self.are_ranges:
            return marks[bar]
        return f"{marks[bar - 1]} < … ≤ {marks[bar]}" if bar else f"≤ {marks[bar]}"

    def chosen(self, begin: int, end: int) -> ColumnFilter:
        """Return the filter for the bars from one to another, both included."""
        begin, end = (min(max(each, 0), len(self.marks) - 1) for each in sorted((begin, end)))
        name = self.column.name
        if not self.are_ranges:
            return ColumnFilter(name, "in", self.marks[begin : end + 1])
        return ColumnFilter(name, "above", (self.marks[begin - 1] if begin else None, self.marks[end]))


def ranges_between(column: Field, low: Any, high: Any) -> Bars:
    """Return about `BARS` equal ranges that hold all values between two, with round ends."""
    name = column.type.name
    if name in FRACTIONS:
        return Bars(column, _round_fractions(column, low, high))
    to_number, of_number = _NUMBERS_OF.get(name, (int, int))
    begin, end = to_number(low), to_number(high)
    width = -(-(end - begin + 1) // BARS)
    first = begin + width - 1
    if name in {"timestamp", "time"} or (name in WHOLE_NUMBERS and width > 1):
        width = math.ceil(_nice(width)) if name in WHOLE_NUMBERS else _round_time(width)
        first = begin // width * width + (width if begin % width else 0)
    marks = [*range(first, end, width), end]
    return Bars(column, tuple(of_number(each) for each in marks))


def _round_fractions(column: Field, low: Any, high: Any) -> tuple[Any, ...]:
    span = float(high) / BARS - float(low) / BARS
    if span <= 0 or not math.isfinite(span):
        return (high,)
    width = _nice(span)
    first = math.floor(float(low) / width) + 1
    ends = [float(f"{number * width:.12g}") for number in range(first, first + BARS + 1)]
    inside = [end for end in ends if float(low) < end < float(high)]
    if column.type.name != "decimal":
        return (*inside, high)
    digits = Decimal(1).scaleb(-column.type.arguments[1])
    return tuple(dict.fromkeys((*(Decimal(str(end)).quantize(digits) for end in inside), high)))


def _nice(width: float) -> float:
    """Return the next round number that is not smaller."""
    power = 10.0 ** math.floor(math.log10(width))
    return next((each * power for each in _NICE if each * power >= width * (1 - 1e-9)), 10 * power)


def _round_time(width: int) -> int:
    """Return the next round number of microseconds that is not smaller."""
    days = -(-width // _DAY) * _DAY
    return next((each * _SECOND for each in _ROUND_SECONDS if each * _SECOND >= width), days)


def _micros(value: datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


def _micros_of_day(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


_NUMBERS_OF: Final[dict[str, tuple[Callable[[Any], int], Callable[[int], Any]]]] = {
    "date": (date.toordinal, date.fromordinal),
    "timestamp": (_micros, lambda number: _EPOCH + number * _MICROSECOND),
    "time": (_micros_of_day, lambda number: (_EPOCH + number * _MICROSECOND).time()),
}


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """What the header of a column shows of the rows that are found."""

    column: Field
    bars: Bars | None  # None for a type without
    rows: int
    nulls: int  # in how many of the rows the column is NULL
    counts: Sequence[int] = ()  # how many of the rows each bar has
    of: Sequence[int] = ()  # how many of all rows each bar has
    distinct: int | None = None  # how many different values; None where they are not counted
    exact: bool = False  # whether `distinct` is exact, or an estimate
    ends: tuple[Any, Any] | None = None  # of bars that are ranges, the least and the greatest value of all rows


@dataclass(frozen=True, slots=True)
class BarCube:
    """Bars of columns, counted by the bars of one column: `counts` and `nulls` by the other's name, then by its bar."""

    rows: Sequence[int]
    counts: Mapping[str, Sequence[Sequence[int]]]
    nulls: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, brushed: Bars, others: Mapping[str, Bars | None], found: Mapping[int, Sequence[Any]]) -> BarCube:
        """Return the cube of what was found by bar: its rows, then of each other column its values and its bars."""
        groups = [found.get(bar) for bar in range(len(brushed.marks))]
        rows = [group[0] if group else 0 for group in groups]
        counts, nulls = {}, {}
        for at, (name, bars) in enumerate(others.items()):
            filled = [group[1 + 2 * at] if group else 0 for group in groups]
            nulls[name] = [all_ - some for all_, some in zip(rows, filled, strict=True)]
            counts[name] = [counts_of(bars, group[2 + 2 * at] if group else None) for group in groups]
        return cls(rows, counts, nulls)


def counts_of(bars: Bars | None, counted: Sequence[tuple[Any, int]] | None) -> list[int]:
    """Return the count of each bar, of the answer to `version_statement.counted_bars`."""
    width = 0 if bars is None else len(bars.marks)
    return [count for _, count in counted or ()][:width] or [0] * width
