"""The chart of an answer: bars, a line or a histogram, drawn by Altair in a notebook and as a line of text elsewhere.

A notebook gets Vega-Lite, which JupyterLab draws itself, without a network, and a picture of it for every other viewer
and for the saved file. Altair and the converter are imported when the chart is displayed, not before.
"""

from __future__ import annotations

import base64
import logging
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.display.figure import clip
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.report import Data, Grid, cell_text, counted, values_of

if TYPE_CHECKING:
    from altair import Axis as AltairAxis
    from altair import Chart as AltairChart
    from altair import LayerChart as AltairLayers
    from altair import X as AltairX
    from altair import Y as AltairY

logger = logging.getLogger(__name__)

ChartKind = Literal["line", "bar", "hist"]
KINDS: tuple[ChartKind, ...] = ("line", "bar", "hist")
MOST_POINTS = 10_000
"""Rows of a chart; of more the first are drawn, and the chart says so."""
RANGES = 30
"""Of a histogram."""
VEGA_LITE = "application/vnd.vegalite.v5+json"
_MOST_BARS, _MOST_NEIGHBOURS = 60, 300
_WIDTH, _HEIGHT = 720, 300  # px, of the whole picture
_MOST_PICTURE = 48_000  # bytes
_MOST_LABEL, _MOST_NOTE = 80, 100  # characters
_SEEN_POINTS = 50  # a line of more points has no visible dots
_DOT = 60  # square px: what the mouse has to meet
_BLOCKS = "▁▂▃▄▅▆▇█"
_NOT_DRAWN = "null or not finite"
_TOO_LARGE = "too large to draw"
_CHOOSE = "choose the columns: -x COLUMN -y COLUMN"

# Vega computes with doubles and JavaScript's dates: the span of an axis must be a double too.
_MOST_DRAWN = 8e307
_MOST_MILLISECONDS = 8.64e15
_LEAST_SPAN = 1e-300
_MOST_PLAIN, _LEAST_PLAIN = 1e12, 1e-6  # other heights are written as 1e+12
_MILLISECONDS = {"s": 1000.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
_DAY = 86_400_000.0


class Point(NamedTuple):
    """A mark of the chart.

    Parameters
    ----------
    x
        Its place: of a line the number, or milliseconds since 1970; of bars the number of the bar; of a histogram where
        the range begins.
    end
        Where the range of a histogram ends.
    """

    x: float
    y: float
    label: str
    end: float | None = None


XType = Literal["number", "moment", "time of day", "label"]


@dataclass(frozen=True, slots=True, repr=False)
class Chart:
    """Rows of a result as a picture; `grid` has the points, `altair` the chart to go on from.

    Parameters
    ----------
    kind
        ``"line"`` over numbers, dates or times; ``"bar"`` over any values, at most 60; ``"hist"``, how often the values
        of one column fall into each of 30 equal ranges.
    x, y
        The columns; of a histogram `y` is the count.
    points
        From left to right.
    notes
        What was left out, and what the rows are of.
    x_type
        What the horizontal axis is made of.
    """

    kind: ChartKind
    x: str
    y: str
    points: tuple[Point, ...]
    notes: tuple[str, ...]
    x_type: XType = "label"

    def grid(self) -> Grid:
        """Return the points."""
        rows = tuple((point.label, point.y) for point in self.points)
        return Grid((self.x, self.y), rows, footer=" · ".join(self.notes))

    def to_dict(self) -> dict[str, Any]:
        """Return the labels and heights."""
        return {self.x: [point.label for point in self.points], self.y: [point.y for point in self.points]}

    @property
    def title(self) -> str:
        """``flights by month``."""
        return f"{self.y} by {self.x}"

    @property
    def altair(self) -> AltairChart | AltairLayers:
        """A new chart of Altair, to change or save; its columns are ``x``, ``y`` and ``label``. A line has two layers.

        Altair displays a chart with scripts from the internet, unless ``altair.renderers.enable("mimetype")`` was run.
        """
        return _altair_chart(self)

    def __repr__(self) -> str:
        if not self.points:
            return "\n".join([self.title, " · ".join(("no rows", *self.notes))])
        low, high = _span([point.y for point in self.points])
        step = max(1, -(-len(self.points) // 80))
        heights = [max(p.y for p in self.points[i : i + step]) for i in range(0, len(self.points), step)]
        drawn = "".join(_BLOCKS[round((len(_BLOCKS) - 1) * _share(y, low, high))] for y in heights)
        ends = f"{self.points[0].label} … {self.points[-1].label}"
        return "\n".join([self.title, drawn, ends, " · ".join((self.range_text(), *self.notes))])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ARG002
        """Return the chart for notebooks: as Vega-Lite, as a picture of that, and as text.

        There is no HTML among them: JupyterLab would prefer it to Vega-Lite.
        """
        bundle: dict[str, Any] = {"text/plain": repr(self)}
        if not self.points:
            return bundle, {}
        bundle[VEGA_LITE] = specification = self.altair.to_dict()
        picture = _picture(specification)
        if picture is None:
            return bundle, {}
        bundle["image/png"] = base64.b64encode(picture.png).decode()
        return bundle, {"image/png": {"width": picture.width, "height": picture.height}}

    def range_text(self) -> str:
        """Return ``flights from 25 to 29``."""
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
        As of `Chart`; `histogram` makes the third kind.
    x, y
        Names of columns; the first and the second when None.
    footer
        What the rows are of.

    Raises
    ------
    NotFound
        When there is no such column, naming the nearest.
    InvalidInput
        When a column has the wrong type: `y` must be numbers, `x` of a line numbers, dates or times.
    """
    names = rows.column_names
    across, up = _column(names, x, 0, kind), _column(names, y, 1, kind)
    notes = [f"the first {MOST_POINTS:,} rows"] if rows.num_rows > MOST_POINTS else []
    rows = rows.slice(0, MOST_POINTS)
    if kind == "line":
        x_type = _x_type(rows.schema.field(across).type)
        points, left_out = _line_points(rows, across, up)
    else:
        x_type = "label"
        points, left_out = _bar_points(rows, across, up)
    notes += left_out
    if kind == "line" and (step := _neighbours(len(points))) > 1:
        notes.append(f"drawn as the lowest and the highest of every {step:,} neighbouring points")
    return Chart(kind, across, up, points, (*notes, *filter(None, [footer])), x_type)


def column_of_histogram(schema: pa.Schema, x: str | None, y: str | None) -> str:
    """Return the column that a histogram is of: the first when `x` is None; errors as `chart`."""
    if y is not None:
        raise InvalidInput(
            "a histogram has one column; its height is the number of rows", hint="choose it by -x COLUMN"
        )
    name = _column(schema.names, x, 0, "hist")
    _numbers(schema.empty_table(), name, times=False, hint="choose a column of numbers: -x COLUMN")
    return name


def histogram(counts: pa.Table, x: str, *, footer: str = "") -> Chart:
    """Return a chart of how often values fall into each of `RANGES` equal ranges.

    Parameters
    ----------
    counts
        Columns low and high, which are the same in all rows; range, from 0, or null for null and infinite values; n.
    x
        What was counted.
    footer
        What the rows are of.
    """
    counted_ranges = {row["range"]: row for row in counts.to_pylist()}
    left_out = counted_ranges.pop(None, {"n": 0})["n"]
    notes = (*_left_out(left_out, _NOT_DRAWN), *filter(None, [footer]))
    if not counted_ranges:
        return Chart("hist", x, "rows", (), notes)
    low, high = (next(iter(counted_ranges.values()))[end] for end in ("low", "high"))
    used = RANGES if high > low else 1
    edges = [low * (1 - i / used) + high * (i / used) for i in range(used + 1)]
    width = high / used - low / used
    texts = [_edge_text(edge, width) for edge in edges]
    heights = [float(counted_ranges[i]["n"]) if i in counted_ranges else 0.0 for i in range(used)]
    points = tuple(
        Point(begin, height, f"{first} to {last}", end)
        for (begin, end), (first, last), height in zip(pairwise(edges), pairwise(texts), heights, strict=True)
    )
    is_drawable = used > 1 and max(abs(low), abs(high)) <= _MOST_DRAWN and high - low > _LEAST_SPAN
    return Chart("hist", x, "rows", points, notes, "number" if is_drawable else "label")


def _edge_text(edge: float, width: float) -> str:
    """Return an edge of a range with the digits that tell it from the next one."""
    return str(Data(round(edge, 2 - math.floor(math.log10(width))) if width else edge))


def _left_out(rows: int, why: str) -> list[str]:
    return [f"{counted(rows, 'row')} left out: {why}"] if rows else []


# From columns to points.


def _column(names: Sequence[str], name: str | None, place: int, kind: ChartKind) -> str:
    if name is None:
        if place >= len(names):
            raise InvalidInput(f"a {kind} chart needs two columns", hint="select x and y, in this order")
        return names[place]
    if name not in names:
        raise NotFound.of("column", name, names)
    return name


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind)) and not pa.types.is_duration(kind)


def _x_type(kind: pa.DataType) -> XType:
    if pa.types.is_time(kind):
        return "time of day"
    return "moment" if _is_time(kind) else "number"


def _numbers(rows: pa.Table, name: str, *, times: bool, hint: str = _CHOOSE) -> pa.ChunkedArray:
    """Return a column as doubles; dates and times, where they are allowed, as milliseconds."""
    kind = rows.schema.field(name).type
    if times and _is_time(kind):
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        ends = pa.array([2 ** (kind.bit_width - 1) - 1, 1 - 2 ** (kind.bit_width - 1)], whole)  # DuckDB's infinity
        places = rows[name].cast(whole)
        finite = pc.if_else(pc.is_in(places, ends), None, places)
        unit = _DAY if pa.types.is_date32(kind) else _MILLISECONDS[getattr(kind, "unit", "ms")]
        return pc.multiply(finite.cast(pa.float64(), safe=False), unit)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        wanted = "numbers, dates or times" if times else "numbers"
        raise InvalidInput(f"column {name!r} is {kind}, not {wanted}", hint=hint)
    return rows[name].cast(pa.float64(), safe=False)


def _drawable(rows: pa.Table, most: dict[str, float]) -> tuple[pa.Table, list[str]]:
    """Return the rows whose columns can be drawn, each up to some size; and how many were left out, and why."""
    finite, small = (pa.array([True] * rows.num_rows, pa.bool_()) for _ in range(2))
    for name, limit in most.items():
        finite = pc.and_(finite, pc.fill_null(pc.is_finite(rows[name]), False))  # noqa: FBT003
        small = pc.and_(small, pc.fill_null(pc.less_equal(pc.abs(rows[name]), limit), False))  # noqa: FBT003
    kept = rows.filter(pc.and_(finite, small))
    infinite = rows.num_rows - int(pc.sum(finite).as_py() or 0)
    return kept, [
        *_left_out(infinite, _NOT_DRAWN),
        *_left_out(rows.num_rows - infinite - kept.num_rows, _TOO_LARGE),
    ]


def _line_points(rows: pa.Table, x: str, y: str) -> tuple[tuple[Point, ...], list[str]]:
    most = _MOST_MILLISECONDS if _is_time(rows.schema.field(x).type) else _MOST_DRAWN
    numbers = {"x": _numbers(rows, x, times=True), "y": _numbers(rows, y, times=False), "label": rows[x]}
    drawn, left_out = _drawable(pa.table(numbers), {"x": most, "y": _MOST_DRAWN})
    drawn = drawn.sort_by("x")
    labels = map(_label, values_of(drawn["label"]))
    return tuple(map(Point, drawn["x"].to_pylist(), drawn["y"].to_pylist(), labels)), left_out


def _bar_points(rows: pa.Table, x: str, y: str) -> tuple[tuple[Point, ...], list[str]]:
    drawn, left_out = _drawable(pa.table({"y": _numbers(rows, y, times=False), "label": rows[x]}), {"y": _MOST_DRAWN})
    left_out += _left_out(max(0, drawn.num_rows - _MOST_BARS), f"only the first {_MOST_BARS} bars are drawn")
    drawn = drawn.slice(0, _MOST_BARS)
    labels = map(_label, values_of(drawn["label"]))
    return tuple(map(Point, range(drawn.num_rows), drawn["y"].to_pylist(), labels)), left_out


def _label(value: object) -> str:
    """Return a value as a label, on which a missing value and the text NULL differ as they do in a table."""
    return str(Data(value)) if value is None or isinstance(value, str) else cell_text(value)


def _neighbours(points: int) -> int:
    """Return of how many neighbours of a line only the lowest and the highest are drawn."""
    return 1 if points <= 2 * _MOST_NEIGHBOURS else -(-points // _MOST_NEIGHBOURS)


def _thinned(points: Sequence[Point]) -> Iterator[Point]:
    """Yield the points of a line that can be seen: of many neighbours the lowest and the highest, in their order."""
    step = _neighbours(len(points))
    for begin in range(0, len(points), step):
        near = points[begin : begin + step]
        lowest, highest = min(near, key=lambda p: p.y), max(near, key=lambda p: p.y)
        yield from sorted({lowest, highest})


def _share(value: float, low: float, high: float) -> float:
    """Return how high a value is, from 0 to 1; by halves, as the whole way can be more than a number can be."""
    return (value / 2 - low / 2) / (high / 2 - low / 2)


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the vertical axis: zero is always one of them or between."""
    low, high = min([0.0, *values]), max([0.0, *values])
    return low, high if high / 2 > low / 2 else low + 1


# From points to Vega-Lite, and to a picture of it.


def _altair_chart(made: Chart) -> AltairChart | AltairLayers:
    """Return the chart with tooltips; along numbers and times it can be moved and zoomed."""
    import altair as alt

    points = list(_thinned(made.points)) if made.kind == "line" else made.points
    data = alt.InlineData(values=_rows(points, is_named_once=made.x_type == "label"))
    notes = (made.range_text(), *made.notes) if points else ("no rows", *made.notes)
    frame: dict[str, Any] = {
        "data": data,
        "title": alt.TitleParams(text=clip(made.title, _MOST_NOTE), subtitle=_lines(notes), anchor="start"),
        "width": _WIDTH,
        "height": _HEIGHT,
        "autosize": alt.AutoSizeParams(type="fit", contains="padding"),
        "description": clip(made.title, _MOST_NOTE),
    }
    tips = [alt.Tooltip(field="label", type="nominal", title=_tip_name(made.x)),
            alt.Tooltip(field="y", type="quantitative", title=_tip_name(made.y), format=",.6~g")]  # fmt: skip
    x, y = _x_axis(made, points), _y_axis(made)
    drawn: AltairChart
    if made.x_type == "label":
        drawn = alt.Chart(**frame).mark_bar().encode(x=x, y=y, tooltip=tips)
        return drawn
    # With names: Altair's own count up, so that no two saves of a notebook would be the same.
    zoom = alt.selection_interval("zoom", bind="scales", encodings=["x"])
    if made.kind == "hist":
        bars = alt.Chart(**frame, name="chart").mark_bar()
        drawn = bars.encode(x=x, x2=alt.X2(field="end"), y=y, tooltip=tips).add_params(zoom)
        return drawn
    # Two plain layers: JupyterLab 4 fails on a selection in a line that has points of its own.
    is_dotted = len(points) <= _SEEN_POINTS
    line = alt.Chart().mark_line().encode(x=x, y=y)
    dots = alt.Chart(name="chart").mark_point(filled=True, size=_DOT, opacity=1 if is_dotted else 0)
    return alt.layer(line, dots.encode(x=x, y=y, tooltip=tips).add_params(zoom), **frame)


def _rows(points: Sequence[Point], *, is_named_once: bool) -> list[dict[str, Any]]:
    """Return the points as Vega-Lite's data; bars that share a label would be drawn on top of each other."""
    rows: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for point in points:
        label = clip(point.label, _MOST_LABEL)
        if is_named_once:
            seen[label] = seen.get(label, -1) + 1
            label += _UNSEEN * seen[label]
        end = {} if point.end is None else {"end": point.end}
        rows.append({"x": point.x, "y": point.y, "label": label, **end})
    return rows


_UNSEEN = "\N{ZERO WIDTH SPACE}"


def _x_axis(made: Chart, points: Sequence[Point]) -> AltairX:
    import altair as alt

    title = clip(made.x, _MOST_LABEL)
    match made.x_type:
        case "label":
            axis = alt.Axis(labelAngle=_label_angle(points), labelLimit=120)
            return alt.X(field="label", type="nominal", sort=None, title=title, axis=axis)
        case "number":
            bins: Any = "binned" if made.kind == "hist" else alt.Undefined
            scale, axis = alt.Scale(zero=False, nice=False), _number_axis([point.x for point in points])
            return alt.X(field="x", type="quantitative", bin=bins, title=title, scale=scale, axis=axis)
        case _:
            axis = alt.Axis(format="%H:%M:%S") if made.x_type == "time of day" else alt.Axis()
            scale = alt.Scale(type="utc", nice=False)
            return alt.X(field="x", type="temporal", title=title, scale=scale, axis=axis)


def _label_angle(points: Sequence[Point]) -> int:
    """Return how the labels of bars are turned: not at all where there is room."""
    widest = max((min(len(point.label), 20) for point in points), default=0)
    if 6 * (widest + 2) * len(points) <= _WIDTH:
        return 0
    return -40 if len(points) <= RANGES else -90


def _y_axis(made: Chart) -> AltairY:
    import altair as alt

    values = [point.y for point in made.points]
    low, high = _span(values)
    scale = alt.Scale(domain=[low, high if high - low > _LEAST_SPAN else low + 1], nice=True)
    title = clip(made.y, _MOST_LABEL)
    return alt.Y(field="y", type="quantitative", title=title, scale=scale, axis=_number_axis(values))


def _number_axis(values: Sequence[float]) -> AltairAxis:
    """Return an axis that writes very large and very small numbers as ``1e+12``."""
    import altair as alt

    most = max(map(abs, values), default=0.0)
    return alt.Axis(format=".6~g") if most >= _MOST_PLAIN or 0 < most < _LEAST_PLAIN else alt.Axis()


def _tip_name(column: str) -> str:
    """Return the name of a column in a tooltip, which would load ``image`` as one and show ``title`` as a heading."""
    return f"column {column}" if column in {"image", "title"} else clip(column, _MOST_LABEL)


def _lines(notes: Sequence[str]) -> list[str]:
    """Return notes as a few lines: as many on each as there is room for."""
    lines = [""]
    for note in notes:
        joined = f"{lines[-1]} · {note}" if lines[-1] else note
        if len(joined) <= _MOST_NOTE or not lines[-1]:
            lines[-1] = clip(joined, 2 * _MOST_NOTE)
        else:
            lines.append(clip(note, 2 * _MOST_NOTE))
    return lines


class _Picture(NamedTuple):
    """A PNG, and the size in px at which it is shown."""

    png: bytes
    width: int
    height: int


def _picture(specification: dict[str, Any]) -> _Picture | None:
    """Return the chart as PNG, twice as fine as a page unless that would be large; None when it cannot be made."""
    import altair as alt
    import vl_convert

    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    try:
        for scale in (2, 1):
            png = _recompressed(vl_convert.vegalite_to_png(specification, vl_version=version, scale=scale))
            if len(png) <= _MOST_PICTURE:
                break
    except ValueError as error:
        logger.warning("a chart is shown without a picture: the converter failed with %s", type(error).__name__)
        return None
    width, height = struct.unpack_from(">II", png, 16)
    return _Picture(png, width // scale, height // scale)


def _recompressed(png: bytes) -> bytes:
    """Return a PNG with its pixels compressed harder: the converter's are four to ten times as large."""
    before, pixels, after, at = png[:8], b"", b"", 8
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        chunk = png[at : at + size + 12]  # its size, its kind, the content and a checksum
        at += len(chunk)
        if chunk[4:8] == b"IDAT":
            pixels += chunk[8:-4]
        elif pixels:
            after += chunk
        else:
            before += chunk
    body = b"IDAT" + zlib.compress(zlib.decompress(pixels), 9)
    return before + struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body)) + after
