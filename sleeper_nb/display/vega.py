"""From a chart to Vega-Lite, and to a PNG of it: marks, axes, colours, tooltips and zoom.

The background is transparent and all words are grey, so that a chart can be read on a light page and on a dark one.
Altair is imported for its own charts only: its import takes longer than everything else that shows a chart.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sleeper_nb.display.chart_marks import LEAST_SPAN, RANGES, Point, edge_text, neighbours_of, span, thinned
from sleeper_nb.display.figure import clip
from sleeper_nb.errors import InvalidInput, NotInstalled
from sleeper_nb.report import NULL, sentence, without_reason

if TYPE_CHECKING:
    import altair as alt

    from sleeper_nb.display.chart import Chart

    AnyChart = alt.Chart | alt.LayerChart | alt.FacetChart

logger = logging.getLogger(__name__)

WIDTH, HEIGHT = 720, 300
"""px of the whole picture; on a page, a chart is as wide as its cell."""
_NARROW = 560  # px of a chart in a window of 700
_MOST_WIDTH = 3000  # characters
_UNSEEN_STYLE = "width:100%;height:0;margin:0;padding:0;border:0;visibility:hidden"
_SMALL_HEIGHT, _SMALL_COLUMNS = 150, 3  # of small charts, without their axes
_AXIS_WIDTH, _LEGEND_WIDTH, _BETWEEN = 45, 110, 20  # px beside small charts
_MOST_PICTURE = 48_000  # bytes
_MOST_LABEL, _MOST_NOTE = 80, 100  # characters
_MOST_LEGEND = 24  # characters
_MOST_EVEN = 100  # rows of a rectangle up to which colours are even
_SEEN_POINTS = 50  # a line of more points has no visible dots
_DOT, _SMALL_DOT = 60, 30  # square px: what the mouse has to meet
_MOST_PLAIN, _LEAST_PLAIN = 1e12, 1e-6  # other heights are written as 1e+12
_STANDING = frozenset({"bar", "hist", "area"})
"""Marks from the foot of the chart: a logarithmic axis begins below the least, which would have no height."""
_ENGINES = frozenset({"duckdb", "spark"})
_UNSEEN = "\N{ZERO WIDTH SPACE}"
_WORDS: Final = "#7a7a7a"
"""Grey that has the same contrast to white as to JupyterLab's black: 4.3."""
_LINES: Final = "#80808040"
_COLORS: Final = (
    "#0072b2", "#d9900a", "#009e73", "#c0679a", "#d55e00", "#4aa5d8", "#8a7d00", "#6f5bb5", "#a0522d", "#b0305c",
    "#8b9098",
)  # fmt: skip
"""Those of the charts of the explorer, in their order; the last is for all others."""
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
_STEPS_ACROSS, _STEPS_UP = 20, 6  # of an axis with the room of a chart
_INSIDE: Final = 6  # px from the edge to the first and the last point
_BETWEEN_BARS: Final = 0.45  # of their places
_VEGA_LITE: Final = "v5.20.1"
"""What Altair writes; JupyterLab draws all of the fifth version."""
_FOR_BOTH_THEMES: Final = {
    "view": {"continuousWidth": 300, "continuousHeight": 300, "stroke": None},
    "mark": {"color": _COLORS[0]},
    "range": {"category": [*_COLORS]},
    "axisX": {"grid": False},
    "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
    "font": _FONT,
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "domainColor": _LINES,
        "gridColor": _LINES,
        "labelColor": _WORDS,
        "tickColor": _LINES,
        "titleColor": _WORDS,
    },
    "background": "transparent",
    "legend": {"labelColor": _WORDS, "labelFontSize": 12, "titleColor": _WORDS, "titleFontSize": 12},
    "title": {
        "color": _WORDS,
        "fontSize": 16,
        "fontWeight": 600,
        "subtitleColor": _WORDS,
        "subtitleFontSize": 12,
        "offset": 12,
    },
}
_TITLE_ABOVE: Final = {"titleAngle": 0, "titleAlign": "left", "titleBaseline": "bottom", "titleX": 0, "titleY": -8}
_VIEW: Final = "chart"
"""The layer that the mouse meets: selections are of this one."""
OTHERS: Final = " others"
"""How the name of the series ends that stands for those without a colour of their own."""


def altair_chart(specification: dict[str, Any]) -> AnyChart:
    """Return a chart of Altair of a specification, to change or save."""
    try:
        import altair as alt
    except ImportError as error:
        raise NotInstalled.of("a chart of Altair, to change or save,", "charts") from error

    made: AnyChart = alt.Chart.from_dict(specification)
    return made


def specification_of(made: Chart) -> dict[str, Any]:
    """Return the chart as Vega-Lite with tooltips.

    Along numbers and times it can be moved and zoomed, and a legend selects.
    """
    points = list(thinned(made.points)) if made.kind in {"line", "area"} and not made.is_summed else made.points
    notes = _said(made.notes) if points else ["no rows", *_said(made.notes)]
    rows, title = _rows(points, made), clip(sentence(made.title), _MOST_NOTE)
    name = f"data-{hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:32]}"
    drawn, params = _marks(made, points), _selections(made)
    if "layer" in drawn or made.columns.facet is not None:
        params = [{**each, "views": [_VIEW]} for each in params]
    whole = {
        "$schema": f"https://vega.github.io/schema/vega-lite/{_VEGA_LITE}.json",
        "config": _FOR_BOTH_THEMES,
        "title": {"text": title, **({"subtitle": _lines(notes)} if notes else {}), "anchor": "start"},
        "description": f"{title}: {clip(made.range_text(), _MOST_NOTE)}" if points else title,
        "data": {"name": name},
        "datasets": {name: rows},
        **({"params": params} if params else {}),
    }
    facet = made.columns.facet
    if facet is None:
        fit = {"type": "fit", "contains": "padding"}
        return {**whole, **drawn, "width": WIDTH, "height": HEIGHT, "autosize": fit}
    header = {"labelColor": _WORDS, "titleColor": _WORDS}
    title = clip(facet, _MOST_LABEL)
    by = {"field": "facet", "type": "nominal", "title": title, "sort": None, "header": header}
    small = {**drawn, "width": _small_width(made), "height": _SMALL_HEIGHT}
    return {**whole, "facet": by, "spec": small, "columns": _SMALL_COLUMNS}


def at_full_width(specification: dict[str, Any]) -> dict[str, Any]:
    """Return Vega-Lite that takes the width of its cell where it is displayed; charts side by side keep theirs.

    Vega measures the element around the chart, which is only as wide as what is in it: by itself nothing. So an
    invisible field is put into it, which takes the width of the cell, however wide or narrow that is.
    """
    if "facet" in specification:
        return specification
    field = {"input": "text", "name": _UNSEEN, "size": _MOST_WIDTH, "style": _UNSEEN_STYLE, "tabindex": -1}
    widening = {"name": "full_width", "value": "", "bind": field}
    return {**specification, "width": "container", "params": [*specification.get("params", ()), widening]}


def with_properties(chart: AnyChart, changed: Mapping[str, Any]) -> AnyChart:
    """Return the chart with other properties; `InvalidInput` says which one it cannot have."""
    try:
        made: AnyChart = chart.properties(**changed)
        made.to_dict()
    except Exception as error:  # Altair raises errors of several libraries
        names = ", ".join(changed)
        hint = "width=, height= and title= are properties; chart.altair is Altair's own chart, for anything else"
        raise InvalidInput(f"the chart cannot have these properties: {clip(names, _MOST_NOTE)}", hint=hint) from error
    return made


def _small_width(made: Chart) -> int:
    """Return the width of each small chart: together they are as wide as one."""
    columns = min(_SMALL_COLUMNS, len({point.facet for point in made.points}) or 1)
    legend = 0 if made.columns.color is None else _LEGEND_WIDTH
    return (WIDTH - _AXIS_WIDTH - legend) // columns - _BETWEEN


def _marks(made: Chart, points: Sequence[Point]) -> dict[str, Any]:
    """Return the marks with their axes, colours and tooltips; what the mouse selects is of one plain layer."""
    channels: dict[str, Any] = {"x": _x_axis(made, points), "y": _y_axis(made)}
    if made.columns.color is not None or _is_of_rectangles(made):
        channels["color"] = _color(made)
    if _is_of_rectangles(made):
        channels |= {"x2": {"field": "end"}, "y2": {"field": "greatest"}}
    elif made.kind == "hist" and made.columns.x_type != "label":
        channels["x2"] = {"field": "end"}
    is_dotted = made.kind not in {"line", "area"} or len(points) <= _SEEN_POINTS
    seen = _opacity(made)
    met = {**channels, "opacity": seen if is_dotted else {"value": 0}, "tooltip": _tips(made)}
    drawn = {"name": _VIEW, "mark": _dots(made), "encoding": met}
    if made.kind not in {"line", "area"}:
        return drawn
    # Two plain layers: JupyterLab 4 fails on a selection in a line that has points of its own.
    fill = 0.7 if _is_stacked(made) else 0.3
    line = {"type": "line"} if made.kind == "line" else {"type": "area", "fillOpacity": fill}
    layers = [{"mark": line, "encoding": {**channels, "opacity": seen}}, drawn]
    if made.is_of_bands and not _is_stacked(made):
        ends = {"y": {"field": "least", "type": "quantitative"}, "y2": {"field": "greatest"}}
        band = {"mark": {"type": "area", "fillOpacity": 0.25}, "encoding": {**channels, **ends, "opacity": seen}}
        layers.insert(0, band)
    return {"layer": layers}


def _dots(made: Chart) -> dict[str, Any]:
    """Return the marks that the mouse meets."""
    if _is_of_rectangles(made):
        return {"type": "rect"}
    if made.kind in {"bar", "hist"}:
        return {"type": "bar", "fillOpacity": 0.5 if _has_series(made) and not _is_stacked(made) else 1}
    return {"type": "point", "filled": True, "size": _SMALL_DOT if made.kind == "scatter" else _DOT}


def _selections(made: Chart) -> list[dict[str, Any]]:
    params: list[dict[str, Any]] = []
    if _has_series(made):
        params.append({"name": "series", "select": {"type": "point", "fields": ["series"]}, "bind": "legend"})
    if made.columns.x_type != "label":
        axes = ["x", "y"] if made.kind == "scatter" else ["x"]
        params.append({"name": "zoom", "select": {"type": "interval", "encodings": axes}, "bind": "scales"})
    return params


def _is_of_rectangles(made: Chart) -> bool:
    return made.kind == "scatter" and made.is_summed


def _has_series(made: Chart) -> bool:
    return made.columns.color is not None and not made.columns.has_gradient


def _opacity(made: Chart) -> dict[str, Any]:
    """Return how much of a mark is seen: little of what a legend has not selected."""
    return {"value": 0.1, "condition": {"param": "series", "value": 1}} if _has_series(made) else {"value": 1}


def _color(made: Chart) -> dict[str, Any]:
    if made.columns.color is None:
        most = max((point.rows or 0 for point in made.points), default=0)
        scale = {"type": "log" if most > _MOST_EVEN else "linear", "scheme": "viridis"}
        return {"field": "rows", "type": "quantitative", "title": "rows", "scale": scale}
    color = {"field": "series", "title": clip(made.columns.color, _MOST_LEGEND)}
    if made.columns.has_gradient:
        return {**color, "type": "quantitative", "scale": {"scheme": "viridis"}}
    # in an order of their own: an engine gives the groups of the same statement in another order each time
    names = sorted({str(_clipped(point.series)) for point in made.points}, key=name_order)
    legend = {"labelLimit": 140, "titleLimit": 140}
    return {**color, "type": "nominal", "sort": None, "legend": legend, "scale": {"domain": names}}


def name_order(name: str) -> tuple[int, float, str]:
    """Return what orders the names of series: numbers by their size, then texts, then what has no name of its own."""
    if name == NULL or name.endswith(OTHERS):
        return 2, 0.0, name
    try:
        number = float(name.replace(",", ""))
    except ValueError:
        return 1, 0.0, name
    return (0, number, name) if math.isfinite(number) else (1, 0.0, name)


def _tips(made: Chart) -> list[dict[str, Any]]:
    def number(field: str, title: str) -> dict[str, Any]:
        return {"field": field, "type": "quantitative", "title": _tip_name(title), "format": ",.6~g"}

    def text(field: str, title: str) -> dict[str, Any]:
        return {"field": field, "type": "nominal", "title": _tip_name(title)}

    columns = made.columns
    tips = [text("label", made.x), text("height", made.y) if _is_of_rectangles(made) else number("y", made.y)]
    if made.is_of_bands:
        tips[1:] = [number("least", f"least {made.y}"), number("y", f"mean {made.y}")]
        tips.append(number("greatest", f"greatest {made.y}"))
    if made.is_summed:
        tips.append(number("rows", "rows"))
    if columns.color is not None:
        tips.append(number("series", columns.color) if columns.has_gradient else text("series", columns.color))
    if columns.facet is not None:
        tips.append(text("facet", columns.facet))
    return tips


def _is_stacked(made: Chart) -> bool:
    """Return whether series stand on each other; an area without a height at a place has none there."""
    if not _has_series(made) or made.columns.is_log("y") or any(point.y < 0 for point in made.points):
        return False
    if made.kind == "area":
        return neighbours_of(made.points) == 1
    return made.kind in {"bar", "hist"}


def _rows(points: Sequence[Point], made: Chart) -> list[dict[str, Any]]:
    """Return the points as Vega-Lite's data; bars that share a label would be drawn on top of each other."""
    is_named_once = made.columns.x_type == "label"
    rows: list[dict[str, Any]] = []
    names: dict[tuple[str | None, str], dict[float, str]] = {}
    for point in points:
        label = clip(point.label, _MOST_LABEL)
        if is_named_once:
            known = names.setdefault((None, label), {})
            label = known.setdefault(point.x, label + _UNSEEN * len(known))
        row = {"x": point.x, "y": point.y, "label": label, "end": point.end}
        row |= {"series": _clipped(point.series), "facet": _clipped(point.facet)}
        row |= {"least": point.least, "greatest": point.greatest, "rows": point.rows}
        if point.greatest is not None and point.least is None:
            width = point.greatest - point.y
            row["height"] = f"{edge_text(point.y, width)} to {edge_text(point.greatest, width)}"
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def _clipped(value: str | float | None) -> str | float | None:
    return clip(value, _MOST_LEGEND) if isinstance(value, str) else value


def _x_axis(made: Chart, points: Sequence[Point]) -> dict[str, Any]:
    title = clip(made.x, _MOST_LABEL)
    match made.columns.x_type:
        case "label":
            axis: dict[str, Any] = {"labelAngle": _label_angle(points, made), "labelLimit": 120}
            between: dict[str, Any] = {"paddingInner": _BETWEEN_BARS}
            return {"field": "label", "type": "nominal", "sort": None, "title": title, "scale": between, "axis": axis}
        case "number":
            bins = {"bin": "binned"} if made.kind == "hist" else {}
            scale: dict[str, Any] = (
                {"type": "log", "nice": False} if made.columns.is_log("x") else {"zero": False, "nice": False}
            )
            if made.kind != "hist":
                scale["padding"] = _INSIDE
            axis = _number_axis([point.x for point in points], _STEPS_ACROSS)
            return {"field": "x", "type": "quantitative", **bins, "title": title, "scale": scale, "axis": axis}
        case other:
            axis = {"format": "%H:%M:%S" if other == "time of day" else {"month": "%b"}}
            axis |= {"labelOverlap": "greedy", "labelSeparation": 12}
            scale = {"type": "utc", "nice": False, "padding": _INSIDE}
            return {"field": "x", "type": "temporal", "title": title, "scale": scale, "axis": axis}


def _label_angle(points: Sequence[Point], made: Chart) -> int:
    """Return how the labels of bars are turned: not at all where there is room, in a narrow window too."""
    is_grouped = made.columns.color or made.columns.facet
    labels = {point.label for point in points} if is_grouped else [point.label for point in points]
    room = _NARROW if made.columns.facet is None else _small_width(made)
    widest = max((min(len(label), 20) for label in labels), default=0)
    if 6 * (widest + 2) * len(labels) <= room:
        return 0
    return -40 if len(labels) <= RANGES else -90


def _y_axis(made: Chart) -> dict[str, Any]:
    values = _heights(made)
    stack: dict[str, Any] = {"stack": "zero" if _is_stacked(made) else None}
    if made.columns.color is None and made.kind != "area" and not made.columns.is_log("y"):
        stack = {}
    scale: dict[str, Any]
    if made.columns.is_log("y"):
        scale = {"type": "log"}
        if made.kind in _STANDING and values:
            scale |= {"domain": [min(values) / 2, max(values)], "nice": True}
    elif made.kind == "scatter":
        scale = {"zero": False, "padding": _INSIDE}
    else:
        low, high = span(values)
        over = 1.02 if made.kind == "line" else 1  # the highest point of a line is whole
        scale = {"domain": [low, high * over if high - low > LEAST_SPAN else low + 1], "nice": True}
    axis = _number_axis([0.0, *values], _STEPS_UP)
    if made.columns.facet is None:
        axis |= _TITLE_ABOVE
    return {
        "field": "y",
        "type": "quantitative",
        "title": clip(made.y, _MOST_LABEL),
        "scale": scale,
        "axis": axis,
        **stack,
    }


def _heights(made: Chart) -> list[float]:
    """Return how high marks reach: of series on each other, their sum."""
    if not _is_stacked(made):
        heights = [point.y for point in made.points]
        return [*heights, *(end for p in made.points for end in (p.least, p.greatest) if end is not None)]
    sums: dict[tuple[object, float], float] = {}
    for point in made.points:
        sums[point.facet, point.x] = sums.get((point.facet, point.x), 0.0) + point.y
    return list(sums.values())


def _number_axis(values: Sequence[float], steps: int) -> dict[str, Any]:
    """Return an axis that writes very large and very small numbers as ``1e+12``; few whole numbers have whole steps."""
    most = max(map(abs, values), default=0.0)
    if most >= _MOST_PLAIN or 0 < most < _LEAST_PLAIN:
        return {"format": ".6~g"}
    width = max(values, default=0.0) - min(values, default=0.0)
    is_whole = 0 < width < steps and all(float(each).is_integer() for each in values)
    return {"tickCount": int(width)} if is_whole else {}


def _tip_name(column: str) -> str:
    """Return the name of a column in a tooltip, which would load ``image`` as one and show ``title`` as a heading."""
    return f"column {column}" if column in {"image", "title"} else clip(column, _MOST_LABEL)


def _said(notes: Sequence[str]) -> list[str]:
    """Return the notes below a title: where rows are from, not which engine was chosen, and why."""
    parts = ([without_reason(part) for part in note.split(" · ")] for note in notes)
    return [said for each in parts if (said := " · ".join(part for part in each if part not in _ENGINES))]


def _lines(notes: Sequence[str]) -> list[str]:
    lines = [""]
    for note in notes:
        joined = f"{lines[-1]} · {note}" if lines[-1] else note
        if len(joined) <= _MOST_NOTE or not lines[-1]:
            lines[-1] = clip(joined, 2 * _MOST_NOTE)
        else:
            lines.append(clip(note, 2 * _MOST_NOTE))
    return lines


class ChartPicture(NamedTuple):
    """A PNG, and the size in px at which it is shown."""

    png: bytes
    width: int
    height: int


def picture_of(specification: dict[str, Any]) -> ChartPicture | None:
    """Return the chart as PNG, twice as fine as a page unless that would be large; None when it cannot be made."""
    try:
        import vl_convert
    except ImportError:
        logger.info("a chart is shown without a picture, which needs sleeper-nb[charts]")
        return None
    version = ".".join(_VEGA_LITE.split(".")[:2])
    try:
        for scale in (2, 1):
            png = _recompressed(vl_convert.vegalite_to_png(specification, vl_version=version, scale=scale))
            if len(png) <= _MOST_PICTURE:
                break
    except ValueError as error:
        logger.warning("a chart is shown without a picture: the converter failed with %s", type(error).__name__)
        return None
    width, height = struct.unpack_from(">II", png, 16)
    return ChartPicture(png, width // scale, height // scale)


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
