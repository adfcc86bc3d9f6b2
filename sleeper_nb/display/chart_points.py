"""From the rows of an answer to the points of its chart: which columns are drawn, what is left out, and how it says so.

The columns are chosen first (`columns_of_chart`), from their names and types alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.display.chart import Chart
from sleeper_nb.display.chart_marks import ChartColumns, ChartKind, LogAxes, Point, XType, neighbours_of
from sleeper_nb.display.vega import OTHERS
from sleeper_nb.errors import Action, Hint, InvalidInput, NotFound
from sleeper_nb.report import Data, cell_text, counted, values_of
from sleeper_nb.sql.chart_sums import MOST_DRAWN

MOST_POINTS = 10_000
"""Rows of a line or an area that are drawn one by one; more are summed up by the engine."""
MOST_DOTS = 2_000
"""Rows of a scatter."""
MOST_BARS = 60
MOST_SERIES, MOST_FACETS = 10, 12
NOT_DRAWN = "null or not finite"
TOO_LARGE = "too large to draw"
NOT_ABOVE_ZERO = "not above 0, on a logarithmic axis"
_CHOOSE_X = Action("-x COLUMN", "x='COLUMN'")
_CHOOSE = ("choose the columns: ", Action("-x COLUMN -y COLUMN", "x='COLUMN', y='COLUMN'"))

_MOST_MILLISECONDS = 8.64e15  # of a date of JavaScript
_MILLISECONDS = {"s": 1000.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
_DAY = 86_400_000.0


# Which columns are drawn.


def columns_of_chart(
    schema: pa.Schema,
    kind: ChartKind | None = None,
    x: str | None = None,
    y: str | None = None,
    *,
    color: str | None = None,
    facet: str | None = None,
    log: LogAxes | None = None,
) -> ChartColumns:
    """Return what to draw of rows with a schema.

    Parameters
    ----------
    schema
        Of the rows.
    kind
        As of `ChartColumns`. When None, the types of the columns tell: ``"line"`` over dates and times, ``"bar"`` over
        other values that are no numbers, ``"scatter"`` of two columns of numbers, ``"hist"`` of one.
    x, y
        Names of columns; when None, the first of the others, and the first other one of numbers. A histogram has only
        `x`.
    color, facet
        Names of columns whose values are told apart by colour, or by a small chart each; none when None.
    log
        The axes that are logarithmic.

    Raises
    ------
    NotFound
        When there is no such column, naming the nearest.
    InvalidInput
        When a column has the wrong type: `y` must be numbers, `x` numbers, dates or times, of bars any.
    """
    for name in (color, facet):
        if name is not None:
            _check_named(schema.names, name)
    free = [name for name in schema.names if name not in {color, facet}]
    if kind is None:
        kind, x, y = _by_types(schema, free, x, y)
    if kind == "hist":
        if y is not None:
            hint = ("choose it: ", _CHOOSE_X)
            raise InvalidInput("a histogram has one column; its height is the number of rows", hint=hint)
        across, up = _column(schema.names, free, x, 0, kind), "rows"
        _check_numbers(schema, across, times=False, hint=("choose a column of numbers: ", _CHOOSE_X))
    else:
        across = _column(schema.names, free, x, 0, kind)
        up = _column(schema.names, free, y or _first_number(schema, free, across), 1, kind)
        if kind != "bar":
            _check_numbers(schema, across, times=True)
        _check_numbers(schema, up, times=False)
    across_type, is_log = schema.field(across).type, bool(log and "x" in log)
    if is_log and (kind == "bar" or not _is_number(across_type)):
        raise InvalidInput(
            f"an axis of {across!r} cannot be logarithmic: it has no numbers",
            hint=("leave out ", Action("--log x", "log='x'")),
        )
    has_gradient = kind == "scatter" and color is not None and _is_number(schema.field(color).type)
    return ChartColumns(kind, across, up, color, facet, log, _x_type(kind, across_type), has_gradient)


def _by_types(
    schema: pa.Schema, free: Sequence[str], x: str | None, y: str | None
) -> tuple[ChartKind, str, str | None]:
    """Return the kind of a chart and its columns: `y` is the first column of numbers, of a histogram none."""
    across = _column(schema.names, free, x, 0, "hist")
    up, of = y or _first_number(schema, free, across), schema.field(across).type
    if up is None and _is_number(of):
        return "hist", across, None
    if up is None:
        hint = "select a column of numbers too: SELECT city, count(*) AS n … GROUP BY city"
        raise InvalidInput(f"no chart has only column {across!r}, which is {of}", hint=hint)
    if _is_time(of):
        return "line", across, up
    return ("scatter" if _is_number(of) else "bar"), across, up


def _first_number(schema: pa.Schema, free: Sequence[str], across: str) -> str | None:
    return next((name for name in free if name != across and _is_number(schema.field(name).type)), None)


def _check_named(names: Sequence[str], name: str) -> None:
    if name not in names:
        raise NotFound.of("column", name, names)


def _column(names: Sequence[str], free: Sequence[str], name: str | None, place: int, kind: ChartKind) -> str:
    if name is not None:
        _check_named(names, name)
        return name
    if place < len(free):
        return free[place]
    if kind == "hist":
        raise InvalidInput("a histogram needs a column of numbers", hint=("choose it: ", _CHOOSE_X))
    raise InvalidInput(f"a {kind} chart needs two columns", hint="select x and y, in this order")


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind)) and not pa.types.is_duration(kind)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _check_numbers(schema: pa.Schema, name: str, *, times: bool, hint: Hint = _CHOOSE) -> None:
    kind = schema.field(name).type
    if not _is_number(kind) and not (times and _is_time(kind)):
        wanted = "numbers, dates or times" if times else "numbers"
        raise InvalidInput(f"column {name!r} is {kind}, not {wanted}", hint=hint)


def _x_type(kind: ChartKind, across: pa.DataType) -> XType:
    if kind == "bar":
        return "label"
    if pa.types.is_time(across):
        return "time of day"
    return "moment" if _is_time(across) else "number"


# Rows that are drawn one by one.


def can_draw(rows: pa.Table, columns: ChartColumns) -> bool:
    """Return whether rows, or up to one more than `MOST_POINTS` of them, can be drawn one by one."""
    most = {"scatter": MOST_DOTS, "bar": MOST_BARS, "hist": -1}
    return bool(rows.num_rows <= most.get(columns.kind, MOST_POINTS))


def chart_of_rows(rows: pa.Table, columns: ChartColumns, footer: str = "") -> Chart:
    """Return a chart of rows, whose columns are chosen."""
    values, missing = _drawable(_values(rows, columns), columns)
    points, cut = in_few_groups(_points(values, columns), columns)
    notes = [*missing, *cut]
    if columns.kind in {"line", "area"} and (step := neighbours_of(points)) > 1:
        notes.append(f"drawn as the lowest and the highest of every {step:,} neighbouring points")
    return Chart(columns, tuple(points), (*notes, *filter(None, [footer])))


def _values(rows: pa.Table, columns: ChartColumns) -> pa.Table:
    """Return ``x``, ``y`` and ``gradient`` as doubles, and ``label``, ``series`` and ``facet`` as they are."""
    values = {"label": rows[columns.x], "y": _doubles(rows[columns.y])}
    if columns.kind != "bar":
        values["x"] = _doubles(rows[columns.x])
    if columns.color is not None:
        color = rows[columns.color]
        values |= {"gradient": _doubles(color)} if columns.has_gradient else {"series": color}
    if columns.facet is not None:
        values["facet"] = rows[columns.facet]
    return pa.table(values)


def _doubles(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as doubles; dates and times as milliseconds."""
    kind = column.type
    if not _is_time(kind):
        return column.cast(pa.float64(), safe=False)
    whole = pa.int32() if kind.bit_width == 32 else pa.int64()
    ends = pa.array([2 ** (kind.bit_width - 1) - 1, 1 - 2 ** (kind.bit_width - 1)], whole)  # DuckDB's infinity
    places = column.cast(whole)
    finite = pc.if_else(pc.is_in(places, ends), None, places)
    unit = _DAY if pa.types.is_date32(kind) else _MILLISECONDS[getattr(kind, "unit", "ms")]
    return pc.multiply(finite.cast(pa.float64(), safe=False), unit)


def _drawable(values: pa.Table, columns: ChartColumns) -> tuple[pa.Table, list[str]]:
    """Return the rows that can be drawn; and how many were left out, and why."""
    across = MOST_DRAWN if columns.x_type == "number" else _MOST_MILLISECONDS
    most = {"x": across, "y": MOST_DRAWN, "gradient": MOST_DRAWN}
    numbers = [name for name in most if name in values.column_names]
    kept, notes = values, []
    for why, tested in ((NOT_DRAWN, numbers), (TOO_LARGE, numbers), (NOT_ABOVE_ZERO, columns.log or "")):
        before = kept.num_rows
        for name in tested:
            kept = kept.filter(_meets(kept[name], why, most[name]))
        notes += left_out(before - kept.num_rows, why)
    return kept, notes


def _meets(numbers: pa.ChunkedArray, why: str, most: float) -> pa.ChunkedArray:
    """Return for each number whether it is not left out for a reason."""
    if why == NOT_DRAWN:
        return pc.fill_null(pc.is_finite(numbers), False)  # noqa: FBT003 - Arrow's own
    return pc.less_equal(pc.abs(numbers), most) if why == TOO_LARGE else pc.greater(numbers, 0.0)


def left_out(rows: int, why: str) -> list[str]:
    """Return ``3 rows left out: null or not finite``, or nothing when there are none."""
    return [f"{counted(rows, 'row')} left out: {why}"] if rows else []


def _points(values: pa.Table, columns: ChartColumns) -> list[Point]:
    if columns.kind in {"line", "area"}:
        values = values.sort_by("x")
    labels = _labels(values, "label")
    across = values["x"].to_pylist() if "x" in values.column_names else _bar_places(labels, columns)
    up, facets = values["y"].to_pylist(), _labels(values, "facet")
    series = values["gradient"].to_pylist() if columns.has_gradient else _labels(values, "series")
    made = zip(across, up, labels, series, facets, strict=True)
    return [Point(x, y, label, series=its_series, facet=its_facet) for x, y, label, its_series, its_facet in made]


def _labels(values: pa.Table, name: str) -> list[Any]:
    if name not in values.column_names:
        return [None] * values.num_rows
    return [label_of(value) for value in values_of(values[name])]


def _bar_places(labels: Sequence[str], columns: ChartColumns) -> list[float]:
    """Return the number of each bar; bars that differ by colour or facet share the place of their label."""
    if columns.color is None and columns.facet is None:
        return list(map(float, range(len(labels))))
    places = {label: float(number) for number, label in enumerate(dict.fromkeys(labels))}
    return [places[label] for label in labels]


def label_of(value: object) -> str:
    """Return a value as a label, on which a missing value and the text NULL differ as they do in a table."""
    return str(Data(value)) if value is None or isinstance(value, str) else cell_text(value)


# Few colours, few small charts, few points of a line.


def in_few_groups(points: Sequence[Point], columns: ChartColumns) -> tuple[Sequence[Point], list[str]]:
    """Return the points of as many series and facets as can be told apart, and a note of the others.

    The series and facets with the most points stay. Others become one series: of areas, which stand on each other, the
    sum of theirs. Those of a line are left out, as it would go up and down between them.
    """
    points, notes = _of_frequent(points, "facet", columns.facet, MOST_FACETS)
    if columns.has_gradient:
        return points, notes
    is_summed = columns.kind == "area" and all(point.y >= 0 for point in points)
    if columns.kind in {"line", "area"} and not is_summed:
        points, cut = _of_frequent(points, "series", columns.color, MOST_SERIES)
        return points, notes + cut
    series, others = _frequent([point.series for point in points], MOST_SERIES)
    if not others:
        return points, notes
    name = f"{others:,}{OTHERS}"
    if is_summed:
        return _with_sums_of_others(points, series, name), notes
    return [p if p.series in series else p._replace(series=name) for p in points], notes


def _with_sums_of_others(points: Sequence[Point], series: Collection[object], name: str) -> list[Point]:
    """Return the points of some series, and a series that is as high at each place as all others together."""
    kept = [point for point in points if point.series in series]
    sums: dict[tuple[object, float], Point] = {}
    for point in points:
        if point.series not in series:
            at = point.facet, point.x
            sums[at] = point._replace(series=name, y=point.y + (sums[at].y if at in sums else 0))
    return sorted((*kept, *sums.values()), key=lambda point: point.x)


def _of_frequent(
    points: Sequence[Point], part: Literal["series", "facet"], column: str | None, most: int
) -> tuple[Sequence[Point], list[str]]:
    values, others = _frequent([getattr(point, part) for point in points], most)
    if not others:
        return points, []
    kept = [point for point in points if getattr(point, part) in values]
    return kept, frequent_note(len(points) - len(kept), column, most, most + others)


def frequent_note(rows: int, column: str | None, most: int, all_values: int) -> list[str]:
    """Return a note of rows whose value of a column is not among the most frequent, if there are any."""
    return left_out(rows, f"only the {most} most frequent of {all_values:,} values of {column} are drawn")


def _frequent(values: Sequence[object], most: int) -> tuple[set[object], int]:
    """Return the most frequent values, of equally frequent ones the first; and how many others there are."""
    counts = Counter(values)
    return {value for value, _ in counts.most_common(most)}, max(0, len(counts) - most)
