"""The marks of a chart: the columns it draws, its points, and which points of many a line needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sleeper_nb.errors import joined
from sleeper_nb.report import Data

ChartKind = Literal["line", "bar", "hist", "scatter", "area"]
LogAxes = Literal["x", "y", "xy"]
XType = Literal["number", "moment", "time of day", "label"]
KINDS: tuple[ChartKind, ...] = ("line", "bar", "hist", "scatter", "area")
RANGES = 30
"""Of a histogram."""
MOST_NEIGHBOURS = 300
LEAST_SPAN = 1e-300
"""Of an axis: Vega computes with doubles, so its span must be one too."""


class Point(NamedTuple):
    """A mark of the chart."""

    x: float  # the number, or milliseconds since 1970; of bars the number of the bar; of a range where it begins
    y: float
    label: str  # the text of `x`
    end: float | None = None  # where the range along x ends
    series: str | float | None = None  # its colour: the text of a value, or of a scatter a number
    facet: str | None = None  # the text of a value: which of the small charts it is in
    # Of a mark that stands for many rows between which heights it is; `y` is their mean, of a rectangle its foot.
    least: float | None = None
    greatest: float | None = None
    rows: int | None = None  # how many rows it stands for


@dataclass(frozen=True, slots=True)
class ChartColumns:
    """Which chart to draw, of which columns.

    ``"line"``, ``"area"`` and ``"scatter"`` are over numbers, dates or times, ``"bar"`` over any values; ``"hist"`` is
    how often the values of one column fall into each of 30 ranges.
    """

    kind: ChartKind
    x: str
    y: str  # of a histogram the count
    color: str | None = None  # a column whose values are told apart by colour
    facet: str | None = None  # a column whose values have a small chart each
    log: LogAxes | None = None
    x_type: XType = "label"
    has_gradient: bool = False  # whether colours run along numbers, and do not tell series apart

    def is_log(self, axis: Literal["x", "y"]) -> bool:
        """Return whether an axis is logarithmic."""
        return self.log is not None and axis in self.log

    def with_not_drawn(self, names: Iterable[str], footer: str) -> str:
        """Return a footer that names the columns of an answer that the chart leaves out: ``not drawn: origin · …``."""
        left = [name for name in names if name not in {self.x, self.y, self.color, self.facet}]
        return " · ".join(filter(None, (f"not drawn: {joined(left)}" if left else "", footer)))

    @property
    def title(self) -> str:
        """``flights by month, carrier and origin``."""
        *first, last = filter(None, (self.x, self.color, self.facet))
        return f"{self.y} by {' and '.join(filter(None, (', '.join(first), last)))}"


def span(values: Sequence[float], *, with_zero: bool = True) -> tuple[float, float]:
    """Return the ends of an axis; `with_zero`, zero is one of them or between."""
    zero = [0.0] if with_zero else []
    low, high = min([*zero, *values]), max([*zero, *values])
    return low, high if high / 2 > low / 2 else low + 1


def lines_of(points: Iterable[Point]) -> list[list[Point]]:
    """Return the points of each line: those of one facet and series."""
    lines: dict[tuple[object, object], list[Point]] = {}
    for point in points:
        lines.setdefault((point.facet, point.series), []).append(point)
    return list(lines.values())


def neighbours_of(points: Sequence[Point]) -> int:
    """Return of how many neighbours on a line only the lowest and the highest are drawn."""
    return 1 if len(points) <= 2 * MOST_NEIGHBOURS else -(-len(points) // MOST_NEIGHBOURS)


def thinned(points: Sequence[Point]) -> Iterator[Point]:
    """Yield the points of lines that can be seen: of many neighbours the lowest and the highest, in their order."""
    step = neighbours_of(points)
    for line in lines_of(points):
        for begin in range(0, len(line), step):
            near = line[begin : begin + step]
            lowest, highest = min(near, key=lambda p: p.y), max(near, key=lambda p: p.y)
            yield from sorted({lowest, highest}, key=lambda p: p[:3])


def edge_text(edge: float, width: float) -> str:
    """Return an edge of a range with the digits that tell it from the next one."""
    return str(Data(round(edge, 2 - math.floor(math.log10(width))) if width else edge))
