"""A chart of an answer as points for the page, which draws them: the marks that `QueryResult.plot` made. Pure."""

from __future__ import annotations

import shlex
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sleeper_nb.display.chart import Chart
from sleeper_nb.display.chart_marks import ChartKind, Point, XType, thinned
from sleeper_nb.display.vega import name_order
from sleeper_nb.errors import NotFound
from sleeper_nb.report import Data

_KINDS: Final[dict[str, ChartKind | None]] = {
    "": None, "bar": "bar", "line": "line", "area": "area", "dot": "scatter", "hist": "hist",
}  # fmt: skip
_MARKS: Final = {kind: mark for mark, kind in _KINDS.items()}
_X_KINDS: Final[dict[XType, str]] = {"number": "number", "moment": "time", "time of day": "time", "label": "name"}
_SHADES: Final = 5
"""Ranges of a column of numbers whose values are told apart by colour."""


@dataclass(frozen=True, slots=True)
class ChartChoice:
    """Which chart of an answer is drawn; empty where the types of the columns choose."""

    mark: str
    x: str
    y: str
    color: str

    @classmethod
    def of(cls, asked: Mapping[str, Any], names: Sequence[str]) -> ChartChoice:
        """Return what the page asks for, without columns that the answer does not have; a histogram has no `y`."""
        if asked["mark"] not in _KINDS:
            raise NotFound.of("mark", asked["mark"], filter(None, _KINDS))
        x, y, color = (name if name in names else "" for name in (asked["x"], asked["y"], asked["color"]))
        return cls(asked["mark"], x, "" if asked["mark"] == "hist" else y, color)

    @property
    def kind(self) -> ChartKind | None:
        """The kind of chart, as `QueryResult.plot` takes it."""
        return _KINDS[self.mark]

    @property
    def options(self) -> str:
        """``--plot bar -x carrier``."""
        given = {"-x": self.x, "-y": self.y, "--color": self.color}
        columns = [f"{option} {shlex.quote(name)}" for option, name in given.items() if name]
        return " ".join(["--plot", *([] if self.kind is None else [self.kind]), *columns])


def answer_of(chart: Chart, source: str, line: str) -> dict[str, Any]:
    """Return a chart as the page draws it, and the line that draws the same.

    The notes do not say the `source` of the rows: it is below them already.
    """
    columns = chart.columns
    color, names = _colors(chart)
    is_stacked = chart.kind == "area" and color is not None and all(point.y >= 0 for point in chart.points)
    is_drawn_whole = is_stacked or chart.kind not in {"line", "area"}
    points = chart.points if is_drawn_whole else thinned(chart.points)
    made = [_point(each, names.get(each.series), chart) for each in points]
    order = {each.x: each.label for each in sorted(chart.points, key=lambda point: point.x)}
    is_named = columns.x_type == "label"
    return {
        "mark": _MARKS[chart.kind],
        "title": chart.title,
        "x": {
            "label": chart.x,
            "kind": _X_KINDS[columns.x_type],
            **({"order": list(dict.fromkeys(order.values()))} if is_named else {}),
        },
        "y": {"label": chart.y},
        "color": color,
        "points": made,
        "notes": [note for each in chart.notes if (note := each.removesuffix(source).strip(" ·"))],
        "line": line,
    }


def _point(point: Point, color: str | None, chart: Chart) -> dict[str, Any]:
    x, y, x2 = point.x, point.y, point.end
    if chart.kind == "scatter" and point.end is not None and point.greatest is not None:
        x, y, x2 = x / 2 + point.end / 2, y / 2 + point.greatest / 2, None  # a dot for all rows of a rectangle
    made: dict[str, Any] = {"x": point.label if chart.columns.x_type == "label" else x, "y": y}
    if x2 is not None and chart.columns.x_type != "label":
        made["x2"] = x2
    if color is not None:
        made["color"] = color
    if point.rows is not None:
        made["rows"] = point.rows
    if point.least is not None and point.greatest is not None:
        made |= {"low": point.least, "high": point.greatest}
    return made


def _colors(chart: Chart) -> tuple[dict[str, Any] | None, dict[str | float | None, str]]:
    """Return the names of the colours in an order of their own, and the name of each series."""
    if chart.columns.color is None:
        return None, {}
    series = {each.series for each in chart.points}
    if not chart.columns.has_gradient:
        names: dict[str | float | None, str] = {each: str(each) for each in series}
        order = sorted(names.values(), key=name_order)
    else:
        names, order = _shades(sorted(each for each in series if isinstance(each, float | int)))
    return {"label": chart.columns.color, "order": order}, names


def _shades(values: Sequence[float]) -> tuple[dict[str | float | None, str], list[str]]:
    """Return the range that each value is in, and the names of the ranges in their order."""
    if len(values) <= _SHADES:
        return {each: str(Data(each)) for each in values}, [str(Data(each)) for each in values]
    ends = sorted({values[-(-len(values) * part // _SHADES) - 1] for part in range(1, _SHADES + 1)})
    begins = [values[0], *ends[:-1]]
    named = [f"{Data(low)} to {Data(high)}" for low, high in zip(begins, ends, strict=True)]
    return {each: named[bisect_left(ends, each)] for each in values}, named
