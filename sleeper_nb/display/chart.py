"""A result as a chart: bars, a line or a histogram, as escaped, deterministic HTML and as a line of text."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.display.figure import (
    AREA,
    BRAND,
    axis,
    clip,
    clipped_words,
    figure,
    share,
    span,
    y_of,
)
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.report import Data, Grid, Report, cell_text, counted, values_of

ChartKind = Literal["line", "bar", "hist"]
KINDS: tuple[ChartKind, ...] = ("line", "bar", "hist")
MOST_POINTS = 10_000
"""Rows of a chart; of more the first are drawn, and the chart says so."""
RANGES = 30
"""Of a histogram."""
_MOST_BARS, _MOST_STRETCHES = 60, 600
_LINE = 15  # in px: of a line of text
_BLOCKS = "▁▂▃▄▅▆▇█"
_NOT_DRAWN = "null or not finite"
_CHOOSE = "choose the columns: -x COLUMN -y COLUMN"


class _Point(NamedTuple):
    """A mark of the chart: where (0 to 1, the middle of a bar), how high, and what it says."""

    x: float
    y: float
    label: str


@dataclass(frozen=True, slots=True, repr=False)
class Chart(Report):
    """Rows of a result as a picture; `grid` are the points as they are drawn.

    Parameters
    ----------
    kind
        ``"line"`` over numbers, dates or times; ``"bar"`` over any values, at most 60; ``"hist"``, how often the values
        of one column fall into each of 30 equal ranges.
    x, y
        The columns; of a histogram `y` is the count.
    points
        From left to right.
    said
        What was left out, and what the rows are of.
    """

    kind: ChartKind
    x: str
    y: str
    points: tuple[_Point, ...]
    said: tuple[str, ...]

    def grid(self) -> Grid:
        """Return the points."""
        rows = tuple((point.label, point.y) for point in self.points)
        return Grid((self.x, self.y), rows, footer=" · ".join(self.said))

    def to_dict(self) -> dict[str, Any]:
        """Return the labels and heights."""
        return {self.x: [point.label for point in self.points], self.y: [point.y for point in self.points]}

    def __repr__(self) -> str:
        if not self.points:
            return "\n".join([f"{self.y} by {self.x}", " · ".join(("no rows", *self.said))])
        low, high = span([point.y for point in self.points])
        step = max(1, -(-len(self.points) // 80))
        heights = [max(p.y for p in self.points[i : i + step]) for i in range(0, len(self.points), step)]
        drawn = "".join(_BLOCKS[round((len(_BLOCKS) - 1) * share(y, low, high))] for y in heights)
        ends = f"{self.points[0].label} … {self.points[-1].label}"
        return "\n".join([f"{self.y} by {self.x}", drawn, ends, " · ".join((self._range(), *self.said))])

    def _repr_html_(self) -> str:
        title = f"{self.y} by {self.x}"
        if not self.points:
            return figure(title, _LINE, f'<text y="{_LINE - 3}">no rows</text>', [title, *self.said])
        low, high = span([point.y for point in self.points])
        shapes = _line(self.points, low, high) if self.kind == "line" else _bars(self.points, low, high)
        parts = "\n".join((shapes, _tips(self.points), _ends(self.points, each=self.kind == "bar")))
        values, left = axis(low, high)
        place = f'x="{left:.1f}%" width="{100 - left:.1f}%" overflow="visible"'
        drawn = f"<svg {place}>{parts}</svg>\n{values}"  # values last: bars may reach below them where it is narrow
        return figure(title, AREA + _LINE + 4, drawn, [title, self._range(), *self.said])

    def _range(self) -> str:
        values = [point.y for point in self.points]
        return f"{self.y} from {cell_text(min(values))} to {cell_text(max(values))}"


def chart(
    rows: pa.Table, kind: Literal["line", "bar"], x: str | None = None, y: str | None = None, *, footer: str = ""
) -> Chart:
    """Return a chart of rows.

    Parameters
    ----------
    rows
        Up to one more than `MOST_POINTS`, which tells that there are more.
    kind
        As of `Chart`; a histogram has a function of its own.
    x, y
        Names of columns; the first and the second when None.
    footer
        What the rows are of.

    Raises
    ------
    NotFound
        When there is no such column, naming the nearest.
    InvalidInput
        When a column cannot be drawn so: `y` must be numbers, `x` of a line numbers or times.
    """
    names = rows.column_names
    across, up = _column(names, x, 0, kind), _column(names, y, 1, kind)
    said = [f"the first {MOST_POINTS:,} rows"] if rows.num_rows > MOST_POINTS else []
    rows = rows.slice(0, MOST_POINTS)
    drawn = _of_line(rows, across, up) if kind == "line" else _of_bars(rows, across, up)
    said += _left_out(rows.num_rows - drawn.rows, drawn.why)
    return Chart(kind, across, up, tuple(drawn.points), (*said, *filter(None, [footer])))


def column_of_histogram(schema: pa.Schema, x: str | None, y: str | None) -> str:
    """Return the column that a histogram is of: the first when `x` is None; errors as `chart`."""
    if y is not None:
        raise InvalidInput("a histogram has one column; how high it is are its rows", hint="choose it by -x COLUMN")
    name = _column(schema.names, x, 0, "hist")
    _numbers(schema.empty_table(), name, times=False, hint="choose a column of numbers: -x COLUMN")
    return name


def histogram(counts: pa.Table, x: str, *, footer: str = "") -> Chart:
    """Return a chart of how often values fall into each of `RANGES` equal ranges.

    Parameters
    ----------
    counts
        Columns low and high, which are the same in all rows; range, from 0, or null of what is no finite number; n.
    x
        What was counted.
    footer
        What the rows are of.
    """
    found = {row["range"]: row for row in counts.to_pylist()}
    left = found.pop(None, {"n": 0})["n"]
    said = (*_left_out(left), *filter(None, [footer]))
    if not found:
        return Chart("hist", x, "rows", (), said)
    low, high = (next(iter(found.values()))[end] for end in ("low", "high"))
    used = RANGES if high > low else 1
    edges = [_edge_text(low * (1 - i / used) + high * (i / used), high / used - low / used) for i in range(used + 1)]
    heights = [float(found[i]["n"]) if i in found else 0.0 for i in range(used)]
    labels = (f"{begin} to {end}" for begin, end in pairwise(edges))
    points = (_Point((i + 0.5) / used, heights[i], label) for i, label in enumerate(labels))
    return Chart("hist", x, "rows", tuple(points), said)


def _edge_text(edge: float, width: float) -> str:
    """Return an edge of a range with the digits that tell it from the next one."""
    return str(Data(round(edge, 2 - math.floor(math.log10(width))) if width else edge))


def _left_out(rows: int, why: str = _NOT_DRAWN) -> list[str]:
    return [f"{counted(rows, 'row')} left out: {why}"] if rows else []


class _Drawn(NamedTuple):
    points: list[_Point]
    rows: int
    why: str = _NOT_DRAWN


def _column(names: Sequence[str], name: str | None, place: int, kind: ChartKind) -> str:
    if name is None:
        if place >= len(names):
            raise InvalidInput(f"a {kind} chart needs two columns", hint="select x and y, in this order")
        return names[place]
    if name not in names:
        raise NotFound.of("column", name, names)
    return name


def _numbers(rows: pa.Table, name: str, *, times: bool, hint: str = _CHOOSE) -> pa.ChunkedArray:
    """Return a column as doubles; of times and dates their place on the line of time."""
    kind = rows.schema.field(name).type
    if times and pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        ends = pa.array([2 ** (kind.bit_width - 1) - 1, 1 - 2 ** (kind.bit_width - 1)], whole)  # DuckDB's infinity
        places = rows[name].cast(whole)
        return pc.if_else(pc.is_in(places, ends), None, places).cast(pa.int64())
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        wanted = "numbers, dates or times" if times else "numbers"
        raise InvalidInput(f"column {name!r} is {kind}, not {wanted}", hint=hint)
    return rows[name].cast(pa.float64(), safe=False)


def _of_line(rows: pa.Table, x: str, y: str) -> _Drawn:
    places, heights = _numbers(rows, x, times=True), _numbers(rows, y, times=False)
    there = pc.and_(pc.is_finite(places.cast(pa.float64(), safe=False)), pc.is_finite(heights))
    kept = pa.table({"at": places, "height": heights, "label": rows[x]}).filter(pc.fill_null(there, False))  # noqa: FBT003
    kept = kept.sort_by("at")
    at = kept["at"].to_pylist()
    width = (at[-1] - at[0] if at else 0) or 1
    labels = map(_label, values_of(kept["label"]))
    points = [_Point((a - at[0]) / width, b, c) for a, b, c in zip(at, kept["height"].to_pylist(), labels, strict=True)]
    return _Drawn(points, len(points))


def _label(value: object) -> str:
    """Return a value as a label, on which a missing value and the text NULL differ as they do in a table."""
    return str(Data(value)) if value is None or isinstance(value, str) else cell_text(value)


def _of_bars(rows: pa.Table, x: str, y: str) -> _Drawn:
    heights = _numbers(rows, y, times=False)
    kept = pa.table({"height": heights, "label": rows[x]}).filter(pc.fill_null(pc.is_finite(heights), False))  # noqa: FBT003
    shown = kept.slice(0, _MOST_BARS)
    pairs = zip(shown["height"].to_pylist(), map(_label, values_of(shown["label"])), strict=True)
    points = [_Point((i + 0.5) / shown.num_rows, height, label) for i, (height, label) in enumerate(pairs)]
    more = kept.num_rows > _MOST_BARS
    return _Drawn(points, len(points), f"only the first {_MOST_BARS} bars are drawn" if more else _NOT_DRAWN)


def _drawing(shapes: str) -> str:
    frame = 'width="100%" viewBox="0 0 1000 100" preserveAspectRatio="none"'
    return f'<svg height="{AREA}" {frame} style="{BRAND};stroke:{BRAND.partition(":")[2]}">{shapes}</svg>'


def _line(points: Sequence[_Point], low: float, high: float) -> str:
    path = "L".join(f"{1000 * point.x:.1f} {y_of(point.y, low, high)}" for point in _thinned(points))
    look = 'style="fill:none" stroke-width="2" vector-effect="non-scaling-stroke" stroke-linejoin="round"'
    return _drawing(f'<path d="M{path}" {look}/>') if points else ""


def _thinned(points: Sequence[_Point]) -> list[_Point]:
    """Return the points of a line that can be seen: of many neighbours the lowest and the highest, in their order."""
    step = -(-len(points) // _MOST_STRETCHES)
    found: list[_Point] = []
    for i in range(0, len(points), step or 1):
        stretch = points[i : i + step]
        found += sorted({min(stretch, key=lambda p: p.y), max(stretch, key=lambda p: p.y)})
    return found


def _bars(points: Sequence[_Point], low: float, high: float) -> str:
    width = 1000 / max(1, len(points))
    base = float(y_of(0, low, high))
    boxes = []
    for point in points:
        top = float(y_of(point.y, low, high))
        x = 1000 * point.x - 0.4 * width
        boxes.append(f'<rect x="{x:.2f}" y="{min(top, base):.2f}" width="{0.8 * width:.2f}" '
                     f'height="{abs(base - top):.2f}" fill-opacity="0.7" stroke="none"/>')  # fmt: skip
    return _drawing("".join(boxes))


def _tips(points: Sequence[_Point]) -> str:
    """Return unseen boxes that say what lies below the mouse; of many points every so many."""
    step = max(1, -(-len(points) // 200))
    wide = 100 * step / max(1, len(points))
    boxes = (
        f'<rect x="{max(0.0, 100 * point.x - wide / 2):.2f}%" width="{wide:.2f}%" height="{AREA}" fill-opacity="0">'
        f"<title>{html.escape(clip(point.label, 80))}: {html.escape(cell_text(point.y))}</title></rect>"
        for point in points[::step]
    )
    return f"<g>{''.join(boxes)}</g>" if points else ""


def _ends(points: Sequence[_Point], *, each: bool) -> str:
    """Return the labels below: of few bars `each`, otherwise the first and the last."""
    if not each or len(points) > 12:
        shown = [("left", points[0]), ("right", points[-1])] if points else []
    else:
        shown = [("center", point) for point in points]
    most, wide = 24 if len(shown) <= 2 else max(4, 130 // len(shown)), 100 / max(1, len(shown))
    words = (
        clipped_words(
            f'x="{i * wide:.2f}%" width="{wide:.2f}%" y="{AREA - 1}" height="17"', clip(point.label, most), side, pad=0
        )
        for i, (side, point) in enumerate(shown)
    )
    return "".join(words)
