"""Sums of rows for charts, in words that both engines read: ranges along one axis or two, and the largest bars.

Each query reads ``v``, the rows of a chart: ``x``, ``y``, and perhaps ``c`` and ``f``, by which it is cut into series
and facets. ``x`` and ``y`` are doubles, moments are milliseconds; the ``x`` of bars is any value. A query is a list of
common tables and a SELECT, so that an engine computes ``v`` once: a statement that samples gives other rows the next
time.
"""

# ruff: noqa: S608 - the words are our own, and only numbers are put in
from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

_FINITE: Final = "CASE WHEN v BETWEEN -1.7976931348623157E308 AND 1.7976931348623157E308 THEN v END"
"""Both engines have NaN as the greatest of all."""
_LOW: Final = f"min({_FINITE})"
_HIGH: Final = f"max({_FINITE})"
MOST_DRAWN: Final = 8e307
"""Of an axis of doubles whose span must be a double too."""
_LEAST_SPAN: Final = "1E-290"
_GROUP: Final = "kept_{0}, {0}, many_{0}"
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
TIME_STEPS: Final = (
    *(1, 10, 100),
    *(count * _SECOND for count in (1, 2, 5, 10, 15, 30)),
    *(count * _MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14, 28, 91, 182, 364, 1820, 3640, 36_400)),
)
"""Milliseconds that a range of moments may have."""


@dataclass(frozen=True, slots=True)
class ChartValue:
    """A column of ``v``: its name there, the column of the rows, and whether it becomes a double or stays as it is."""

    name: Literal["x", "y", "c", "f", "shade"]
    column: str
    form: Literal["number", "moment", "value"]


@dataclass(frozen=True, slots=True)
class ChartQuery:
    """A query of ``v``: common tables, each ``name AS (…)``, and a SELECT."""

    tables: tuple[str, ...]
    select: str

    def of(self, *before: str) -> str:
        """Return the statement, whose first tables define ``v``."""
        return f"WITH {', '.join((*before, *self.tables))} {self.select}"


@dataclass(frozen=True, slots=True)
class ChartAxis:
    """A column of doubles along which ranges are: with a logarithm or not, of moments or not, and how many at most."""

    name: str
    ranges: int
    is_log: bool = False
    is_time: bool = False

    @property
    def value(self) -> str:
        """The place on the axis; NULL of what it cannot show."""
        if self.is_log:
            return f"CASE WHEN {self.name} > 0 AND {self.name} <= {_double(MOST_DRAWN)} THEN log10({self.name}) END"
        return _within(self.name)

    def step(self) -> str:
        """Return how long a range is, between ``low`` and ``high`` of the axis: 1, 2 or 5, or a length of time."""
        low, high = f"low_{self.name}", f"high_{self.name}"
        span = f"({high} - {low}) / {self.ranges}"
        if self.is_time:
            steps = " ".join(f"WHEN {span} <= {step} THEN {_double(step)}" for step in TIME_STEPS)
            return f"CASE {steps} ELSE {_double(1000 * TIME_STEPS[-1])} END"
        power = f"power(10, floor(log10({span})))"
        digits = " ".join(f"WHEN {span} <= {digit} * {power} THEN {digit} * {power}" for digit in (1, 2, 5))
        return (
            f"CASE WHEN {high} - {low} > {_LEAST_SPAN} THEN CASE {digits} ELSE 10 * {power} END ELSE {_double(1)} END"
        )

    def bounds(self) -> str:
        """Return the ends of the axis, as aggregates."""
        return f"min({self.name}) AS low_{self.name}, max({self.name}) AS high_{self.name}"

    def place(self) -> str:
        """Return the number of a range, of a row whose table has the step."""
        return f"floor({self.name} / step_{self.name})"


@dataclass(frozen=True, slots=True)
class ChartGroups:
    """By what rows are cut into series and facets, and how many of each stay; 0 when there are none."""

    series: int = 0
    facets: int = 0

    @property
    def columns(self) -> str:
        """Whether a row's series and facet stay, their values, and how many there are, of rows that have the keys."""
        none = "CAST(1 AS INT) AS kept_{0}, CAST(NULL AS INT) AS {0}, CAST(1 AS BIGINT) AS many_{0}"
        both = (("c", self.series), ("f", self.facets))
        return ", ".join((_GROUP if most else none).format(name) for name, most in both)

    @property
    def keys(self) -> str:
        """The columns that `ranked` gives each row, a comma after each: none for what rows are not cut into."""
        return "".join(f"{_GROUP.format(name)}, " for name, most in (("c", self.series), ("f", self.facets)) if most)

    def ranked(self, values: str = "x, y") -> tuple[str, ...]:
        """Return the tables after which ``grouped`` has ``p`` with those keys; groups with most rows stay."""
        tables, joins, columns = [], [], []
        for name, most in (("c", self.series), ("f", self.facets)):
            if not most:
                continue
            counts, ranks = f"counts_{name}", f"ranks_{name}"
            tables.append(f"{counts} AS (SELECT {name}, count(*) AS n FROM p GROUP BY {name})")
            ordered = f"row_number() OVER (ORDER BY n DESC, {name}) AS place, count(*) OVER () AS many"
            tables.append(f"{ranks} AS (SELECT {name}, {ordered} FROM {counts})")
            joins.append(f"JOIN {ranks} ON r.{name} IS NOT DISTINCT FROM {ranks}.{name}")
            stays = f"{ranks}.place <= {most}"
            columns.append(
                f"CASE WHEN {stays} THEN 1 ELSE 0 END AS kept_{name}, CASE WHEN {stays} THEN r.{name} END AS {name}, "
                f"{ranks}.many AS many_{name}"
            )
        selected = f"SELECT {', '.join((values, *columns))} FROM p AS r {' '.join(joins)}"
        return (*tables, f"grouped AS ({selected})")

    @property
    def names(self) -> str:
        """The columns of ``v`` that it needs, with a comma before each."""
        return "".join(f", {name}" for name, most in (("c", self.series), ("f", self.facets)) if most)


def bands(x: ChartAxis, y: ChartAxis, groups: ChartGroups) -> ChartQuery:
    """Return least, mean and greatest ``y`` of ranges of ``x``.

    Its columns are those of `ChartGroups`; step_x; place, which is null for rows that cannot be drawn; least, mean,
    greatest; and n.
    """
    up = f"CASE WHEN y > 0 THEN {_within('y')} END" if y.is_log else _within("y")
    rows = f"p AS (SELECT CASE WHEN ({up}) IS NOT NULL THEN {x.value} END AS x, {up} AS y{groups.names} FROM v)"
    tables = (rows, f"ends AS (SELECT {x.bounds()} FROM p)", f"steps AS (SELECT {x.step()} AS step_x FROM ends)")
    values = "min(y) AS least, avg(y) AS mean, max(y) AS greatest, count(*) AS n"
    placed = f"placed AS (SELECT {groups.keys}step_x, {x.place()} AS place, y FROM grouped CROSS JOIN steps)"
    select = f"SELECT {groups.columns}, step_x, place, {values} FROM placed GROUP BY {groups.keys}step_x, place"
    return ChartQuery((*tables, *groups.ranked(), placed), select)


def bins(x: ChartAxis, y: ChartAxis, groups: ChartGroups, shade: str = "") -> ChartQuery:
    """Return how many rows are in ranges of ``x`` and ``y``.

    Its columns are those of `ChartGroups`; step_x, step_y; place and place_y, null for rows that cannot be drawn; n;
    and shade, an aggregate of ``v``'s shade, if one is given.
    """
    own = ", shade" if shade else ""
    rows = f"p AS (SELECT {x.value} AS x, {y.value} AS y{own}{groups.names} FROM v)"
    ends = f"ends AS (SELECT {x.bounds()}, {y.bounds()} FROM p WHERE x IS NOT NULL AND y IS NOT NULL)"
    steps = f"steps AS (SELECT {x.step()} AS step_x, {y.step()} AS step_y FROM ends)"
    known = "CASE WHEN x IS NOT NULL AND y IS NOT NULL THEN {} END"
    places = f"{known.format(x.place())} AS place, {known.format(y.place())} AS place_y"
    placed = f"placed AS (SELECT {groups.keys}step_x, step_y, {places}{own} FROM grouped CROSS JOIN steps)"
    values = f"count(*) AS n{f', {shade} AS shade' if shade else ''}"
    by = f"{groups.keys}step_x, step_y, place, place_y"
    select = f"SELECT {groups.columns}, step_x, step_y, place, place_y, {values} FROM placed GROUP BY {by}"
    return ChartQuery((rows, ends, steps, *groups.ranked(f"x, y{own}"), placed), select)


def bars(most: int, groups: ChartGroups, *, is_log: bool = False) -> ChartQuery:
    """Return the sums of ``y`` for each ``x``: the largest sums, and all others as one.

    Its columns are those of `ChartGroups`; place, from 1, and null for the others; x; total; n, the rows of the sum;
    missing, those that cannot be drawn; and many, how many ``x`` there are.
    """
    up = f"CASE WHEN y > 0 THEN {_within('y')} END" if is_log else _within("y")
    order = "ORDER BY total DESC NULLS LAST, x"
    largest = "top.place, CASE WHEN top.place IS NOT NULL THEN parts.x END AS x"
    both = "parts CROSS JOIN numbers LEFT JOIN top ON parts.x IS NOT DISTINCT FROM top.x"
    summed = "sum(y) AS total, count(y) AS n, count(*) - count(y) AS missing"
    is_whole = not groups.series and not groups.facets  # then each part is a sum
    tables = (
        f"p AS (SELECT x, {up} AS y{groups.names} FROM v)",
        *groups.ranked(),
        f"parts AS (SELECT {groups.keys}x, {summed} FROM grouped GROUP BY {groups.keys}x)",
        f"sums AS (SELECT x, {'total FROM parts' if is_whole else 'sum(total) AS total FROM parts GROUP BY x'})",
        "numbers AS (SELECT count(*) AS many FROM sums)",
        f"most AS (SELECT x, total FROM sums {order} LIMIT {most})",  # a rank of all would sort all
        f"top AS (SELECT x, row_number() OVER ({order}) AS place FROM most)",
        f"placed AS (SELECT {groups.keys}{largest}, many, total, n, missing FROM {both})",
    )
    values = "sum(total) AS total, sum(n) AS n, sum(missing) AS missing"
    select = f"SELECT {groups.columns}, place, x, many, {values} FROM placed GROUP BY {groups.keys}place, x, many"
    return ChartQuery(tables, select)


def counts(ranges: int, groups: ChartGroups | None = None, *, is_log: bool = False) -> ChartQuery:
    """Return how many rows are in equal ranges of ``x``, between its least and its greatest, or of its logarithm.

    Its columns are low and high, the same in all rows; place, from 0, null for rows that cannot be drawn; n; and those
    of `ChartGroups`.
    """
    groups = groups or ChartGroups()
    value = f"CASE WHEN x > 0 THEN log10({_FINITE.replace('v', 'x')}) END" if is_log else "x"
    tables = (
        f"p AS (SELECT {value} AS v{groups.names} FROM v)",
        f"ends AS (SELECT {_LOW} AS low, {_HIGH} AS high FROM p)",
        *groups.ranked("v"),
        f"placed AS (SELECT {groups.keys}low, high, {_range_of(ranges)} AS place FROM grouped CROSS JOIN ends)",
    )
    by = f"{groups.keys}low, high, place"
    return ChartQuery(tables, f"SELECT {groups.columns}, low, high, place, count(*) AS n FROM placed GROUP BY {by}")


def _double(value: float) -> str:
    return f"CAST({value!r} AS DOUBLE)"


def _within(name: str) -> str:
    return f"CASE WHEN {name} BETWEEN -{_double(MOST_DRAWN)} AND {_double(MOST_DRAWN)} THEN {name} END"


def _range_of(ranges: int) -> str:
    """Return the number of a value's range, from 0, between ``low`` and ``high``; NULL of what is not between them."""
    # half of each: between two doubles may lie more than a double holds
    along = "coalesce((v / 2 - low / 2) / nullif(high / 2 - low / 2, 0), 0)"
    return f"CASE WHEN v BETWEEN low AND high THEN CAST(least({ranges - 1}, floor({ranges} * {along})) AS INT) END"
