"""Charts of more rows than can be drawn: what the engine sums up (`sleeper_nb.sql.chart_sums`), and its points.

Lines and areas become the least, mean and greatest of ranges, a scatter the number of rows in small rectangles, bars
the largest sums. A histogram is always counted by the engine. The notes of the chart say what was done.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa

from sleeper_nb.display.chart import Chart
from sleeper_nb.display.chart_marks import LEAST_SPAN, RANGES, ChartColumns, Point, XType, edge_text
from sleeper_nb.display.chart_points import (
    MOST_BARS,
    MOST_FACETS,
    MOST_SERIES,
    NOT_ABOVE_ZERO,
    NOT_DRAWN,
    TOO_LARGE,
    frequent_note,
    in_few_groups,
    label_of,
    left_out,
)
from sleeper_nb.display.vega import OTHERS
from sleeper_nb.report import cell_text, counted, values_of
from sleeper_nb.sql.chart_sums import (
    MOST_DRAWN,
    ChartAxis,
    ChartGroups,
    ChartQuery,
    ChartValue,
    bands,
    bars,
    bins,
    counts,
)

_BANDS = {(False, False): 300, (True, False): 100, (False, True): 60, (True, True): 24}
_BINS = {False: (50, 30), True: (24, 16)}
"""Ranges along an axis, by whether there are series, and facets."""
_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000), ("millisecond", 1))
_START = datetime(1970, 1, 1, tzinfo=UTC)


def query_of_chart(columns: ChartColumns) -> tuple[tuple[ChartValue, ...], ChartQuery]:
    """Return what the engine sums up for a chart: the columns that it reads, and the query of them."""
    groups = ChartGroups(
        MOST_SERIES if columns.color is not None and columns.kind != "scatter" else 0,
        MOST_FACETS if columns.facet is not None else 0,
    )
    ranges_x, ranges_y = _ranges(columns)
    across = ChartAxis("x", ranges_x, columns.is_log("x"), columns.x_type != "number")
    up = ChartAxis("y", ranges_y, columns.is_log("y"))
    match columns.kind:
        case "hist":
            query = counts(RANGES, groups, is_log=across.is_log)
        case "bar":
            query = bars(MOST_BARS, groups, is_log=up.is_log)
        case "scatter":
            query = bins(across, up, groups, _shade(columns))
        case _:
            query = bands(across, up, groups)
    return tuple(_values(columns)), query


def _ranges(columns: ChartColumns) -> tuple[int, int]:
    if columns.kind == "scatter":
        return _BINS[columns.facet is not None]
    return _BANDS[columns.color is not None, columns.facet is not None], 1


def _shade(columns: ChartColumns) -> str:
    """Return which value of a column colours a rectangle: of numbers the mean, of others the most frequent."""
    if columns.color is None:
        return ""
    return "avg(shade)" if columns.has_gradient else "mode(shade)"


def _values(columns: ChartColumns) -> Iterable[ChartValue]:
    forms: Mapping[XType, Literal["number", "moment", "value"]] = {"label": "value", "number": "number"}
    yield ChartValue("x", columns.x, forms.get(columns.x_type, "moment"))
    if columns.kind != "hist":
        yield ChartValue("y", columns.y, "number")
    if columns.color is not None and columns.kind == "scatter":
        yield ChartValue("shade", columns.color, "number" if columns.has_gradient else "value")
    elif columns.color is not None:
        yield ChartValue("c", columns.color, "value")
    if columns.facet is not None:
        yield ChartValue("f", columns.facet, "value")


def chart_of_sums(sums: pa.Table, columns: ChartColumns, footer: str = "") -> Chart:
    """Return the chart of what the engine answered to `query_of_chart`."""
    make = {"hist": _counted, "bar": _largest, "scatter": _rectangles}.get(columns.kind, _means)
    kept, notes = _in_kept_groups(_rows(sums), columns)
    columns, points, own = make(kept, columns)
    points = sorted(points, key=lambda p: (str(p.facet), str(p.series), p.x, p.y))
    if columns.kind == "scatter" and columns.color is not None:
        points, cut = in_few_groups(points, columns)
        own = [*own, *cut]
    return Chart(columns, tuple(points), (*own, *notes, *filter(None, [footer])))


Row = dict[str, Any]
_Made = tuple[ChartColumns, Sequence[Point], list[str]]


def _rows(sums: pa.Table) -> list[Row]:
    table = {name: values_of(sums[name]) for name in sums.column_names}
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def _in_kept_groups(rows: Sequence[Row], columns: ChartColumns) -> tuple[list[Row], list[str]]:
    """Return rows with the labels of their series and facets, without those that are not drawn, and a note of these."""
    notes = _cut(rows, "f", columns.facet, MOST_FACETS)
    rows = [row for row in rows if row["kept_f"]]
    if columns.kind in {"line", "area"}:
        notes += _cut(rows, "c", columns.color, MOST_SERIES)
        rows = [row for row in rows if row["kept_c"]]
    for row in rows:
        others = f"{row['many_c'] - MOST_SERIES:,}{OTHERS}"
        has_series = columns.color is not None and columns.kind != "scatter"
        row["series"] = (label_of(row["c"]) if row["kept_c"] else others) if has_series else None
        row["facet"] = None if columns.facet is None else label_of(row["f"])
    return list(rows), notes


def _cut(rows: Sequence[Row], name: str, column: str | None, most: int) -> list[str]:
    cut = sum(int(row["n"]) + int(row.get("missing", 0)) for row in rows if not row[f"kept_{name}"])
    return frequent_note(cut, column, most, rows[0][f"many_{name}"]) if rows else []


def _drawn(rows: Iterable[Row], columns: ChartColumns, *needed: str) -> tuple[list[Row], list[str]]:
    """Return the rows that can be drawn, and a note of how many of the engine's cannot."""
    drawn, missing = [], 0
    for row in rows:
        if all(row[name] is not None and math.isfinite(row[name]) for name in needed):
            drawn.append(row)
        else:
            missing += row["n"]
    return drawn, left_out(missing, _why(columns))


def _why(columns: ChartColumns) -> str:
    if columns.kind == "hist":
        return NOT_DRAWN if columns.log is None else f"{NOT_DRAWN}, or {NOT_ABOVE_ZERO}"
    parts = (f"{NOT_DRAWN}, {TOO_LARGE}" if columns.log else NOT_DRAWN, NOT_ABOVE_ZERO if columns.log else TOO_LARGE)
    return " or ".join(parts)


def _means(rows: Sequence[Row], columns: ChartColumns) -> _Made:
    drawn, missing = _drawn(rows, columns, "place", "mean")
    axis = _Ranges(columns, "x", drawn)
    points = []
    for row in drawn:
        begin, end = axis.ends(row["place"])
        point = Point(
            (begin / 2 + end / 2), row["mean"], axis.text(row["place"]), series=row["series"], facet=row["facet"]
        )
        points.append(point._replace(least=row["least"], greatest=row["greatest"], rows=row["n"]))
    number = counted(sum(row["n"] for row in drawn), "row")
    said = f"{number}: least, mean and greatest {columns.y} of each {axis.step_text()}"
    return columns, points, [said, *missing] if drawn else missing


def _rectangles(rows: Sequence[Row], columns: ChartColumns) -> _Made:
    drawn, missing = _drawn(rows, columns, "place", "place_y")
    across, up = _Ranges(columns, "x", drawn), _Ranges(columns, "y", drawn)
    points = []
    for row in drawn:
        (begin, end), (low, high) = across.ends(row["place"]), up.ends(row["place_y"])
        shade = row.get("shade")
        series = shade if columns.has_gradient or columns.color is None else label_of(shade)
        point = Point(begin, low, across.text(row["place"]), end, series, row["facet"])
        points.append(point._replace(greatest=high, rows=row["n"]))
    number = counted(sum(row["n"] for row in drawn), "row")
    said = [f"{number}, counted in rectangles of {across.step_text()} by {up.step_text()}"]
    if columns.color is not None:
        of = "mean" if columns.has_gradient else "most frequent"
        said.append(f"the colour of each is its {of} {columns.color}")
    return columns, points, [*said, *missing] if drawn else missing


def _largest(rows: Sequence[Row], columns: ChartColumns) -> _Made:
    missing = sum(row["missing"] for row in rows)
    known = [row for row in rows if row["n"]]
    drawn = [row for row in known if row["place"] is not None]
    others = [row for row in known if row["place"] is None]
    places = _bar_places(drawn)
    points = [
        Point(places[row["place"]], row["total"], label_of(row["x"]), series=row["series"], facet=row["facet"])
        for row in drawn
    ]
    number, many = sum(row["n"] for row in known), next((row["many"] for row in rows), 0)
    notes = []
    if others:
        rest = counted(many - MOST_BARS, "other")
        total = _sum_text(sum(row["total"] for row in others))
        notes.append(f"the {MOST_BARS} largest, and {rest} that come to {total} together")
    if number > many:
        notes.append(f"each bar is the sum of {columns.y}, of {counted(number, 'row')}")
    return columns, points, [*notes, *left_out(missing, _why(columns))]


def _bar_places(rows: Sequence[Row]) -> dict[int, float]:
    """Return where each bar stands: along their numbers or times, and other values by size."""
    values = {row["place"]: row["x"] for row in rows}
    is_ordered = all(isinstance(value, int | float | Decimal | date) for value in values.values())
    order = sorted(values, key=lambda place: values[place] if is_ordered else place)
    return {place: float(number) for number, place in enumerate(order)}


def _sum_text(total: float) -> str:
    return f"{total:,.0f}" if 1000 <= abs(total) < 1e15 else cell_text(total)


def _counted(rows: Sequence[Row], columns: ChartColumns) -> _Made:
    drawn, missing = _drawn(rows, columns, "place")
    if not drawn:
        return columns, (), missing
    low, high = drawn[0]["low"], drawn[0]["high"]
    used = RANGES if high > low else 1
    edges = [low * (1 - i / used) + high * (i / used) for i in range(used + 1)]
    is_log = columns.is_log("x")
    if is_log:
        edges = [10**edge for edge in edges]
    texts = [edge_text(edge, _width_at(edges, i)) for i, edge in enumerate(edges)]
    heights: dict[tuple[Any, Any], dict[int, int]] = defaultdict(dict)
    for row in drawn:
        heights[row["series"], row["facet"]][row["place"]] = row["n"]
    points = [
        Point(edges[i], float(number.get(i, 0)), f"{texts[i]} to {texts[i + 1]}", edges[i + 1], series, facet)
        for (series, facet), number in heights.items()
        for i in range(used)
        if number.get(i, 0) or not columns.is_log("y")
    ]
    is_drawable = used > 1 and max(abs(low), abs(high)) <= MOST_DRAWN and edges[-1] - edges[0] > LEAST_SPAN
    return replace(columns, x_type="number" if is_drawable else "label"), points, missing


def _width_at(edges: Sequence[float], place: int) -> float:
    """Return the width of the narrower range at an edge, by halves of what can be more than a number can be."""
    at = min(place, len(edges) - 2)
    return edges[at + 1] / 2 * 2 - edges[at] if abs(edges[at]) < MOST_DRAWN else 2 * (edges[at + 1] / 2 - edges[at] / 2)


class _Ranges:
    """The ranges along an axis: where each begins and ends, and how it is called."""

    def __init__(self, columns: ChartColumns, axis: Literal["x", "y"], rows: Sequence[Row]) -> None:
        self._step = float(rows[0][f"step_{axis}"]) if rows else 1.0
        self._is_log = columns.is_log(axis)
        self._type: XType = columns.x_type if axis == "x" else "number"
        self._name = columns.x if axis == "x" else columns.y

    def ends(self, place: float) -> tuple[float, float]:
        ends = (place * self._step, (place + 1) * self._step)
        return (10 ** ends[0], 10 ** ends[1]) if self._is_log else ends

    def text(self, place: float) -> str:
        begin, end = self.ends(place)
        if self._type == "number":
            return f"{edge_text(begin, end - begin)} to {edge_text(end, end - begin)}"
        return self._moment(begin)

    def _moment(self, milliseconds: float) -> str:
        try:
            at = _START + timedelta(milliseconds=milliseconds)
        except OverflowError:
            return cell_text(milliseconds)
        if self._type == "time of day":
            return f"{at:%H:%M:%S}"
        return at.date().isoformat() if self._step >= _UNITS[0][1] else cell_text(at.replace(tzinfo=None))

    def step_text(self) -> str:
        """Return ``5 minutes`` or ``0.2 of fare``."""
        if self._is_log:
            return f"{cell_text(self._step)} of log10 {self._name}"
        if self._type == "number":
            return f"{cell_text(self._step)} of {self._name}"
        unit, size = next((unit, size) for unit, size in _UNITS if self._step % size == 0 or size == 1)
        return counted(round(self._step / size), unit)
