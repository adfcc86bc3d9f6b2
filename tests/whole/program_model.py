"""What a table must be after a program of changes: plain rows for each version, and what queries make of them.

A column has a token that never changes, whatever it is called, so a row is a dictionary of values by tokens.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import sleeper_nb as sl
from tests.support.builders import START
from tests.support.value_pools import VALUES

Row = Mapping[int, Any]
Named = dict[str, Any]
Role = Literal["row", "sort", "value"]

_HOUR_MS = 3_600_000
_START_MS = int(START.timestamp()) * 1000
POOLS: dict[str, list[Any]] = {
    **VALUES,
    "long": [*VALUES["long"], _START_MS - _HOUR_MS, _START_MS + _HOUR_MS],
    "timestamp": [*VALUES["timestamp"], START - timedelta(hours=1), START + timedelta(hours=1)],
}
"""Values by types; some times are near the moment at which programs begin, so that rows become too old in them."""
SUMMED: dict[str, list[Any]] = {
    "int": [-3, 0, 1, 7],
    "long": [-(2**40), 0, 5],
    "double": [-0.5, 0.25, 2.0],
    "float": [0.5, -2.0],
    "decimal(20,3)": [Decimal("-1.250"), Decimal("0.001")],
    "map<string,long>": [[], [("a", 1)], [("a", 2), ("é", -5)]],
}
"""Values that can be added in any order without rounding or overflow."""
COMPARED: dict[str, list[Any]] = {
    "string": VALUES["string"],
    "date": VALUES["date"],
    "boolean": VALUES["boolean"],
    "bytearray": VALUES["bytearray"],
}
"""Values of which the least and the greatest can be kept, beside those that can be added."""


@dataclass(frozen=True)
class Column:
    """A column; `token` stays when it is renamed."""

    token: int
    name: str
    kind: str
    role: Role
    nullable: bool = False

    @property
    def text(self) -> str:
        """The type as a schema writes it."""
        return f"{self.kind}{'?' if self.nullable else ''}"


@dataclass(frozen=True)
class Processing:
    """What queries do with rows: `age` is the token of a time and milliseconds, `combined` an operation by token."""

    age: tuple[int, int] | None = None
    combined: Mapping[int, str] = field(default_factory=dict)

    @property
    def is_nothing(self) -> bool:
        """Whether rows are given as they are stored."""
        return self.age is None and not self.combined

    def visible(self, columns: Sequence[Column], rows: Iterable[Row], now: datetime) -> list[Row]:
        """Return the rows that a query gives at a moment."""
        young = [row for row in rows if self.age is None or _is_young(row[self.age[0]], self.age[1], now)]
        if not self.combined:
            return young
        groups: dict[Any, list[Row]] = {}
        keys = [column.token for column in columns if column.role != "value"]
        for row in young:
            groups.setdefault(tuple(plain(row[token]) for token in keys), []).append(row)
        return [self._combine(keys, group) for group in groups.values()]

    def _combine(self, keys: list[int], group: list[Row]) -> Row:
        together = {token: _combined(how, [row[token] for row in group]) for token, how in self.combined.items()}
        return {**{token: group[0][token] for token in keys}, **together}


def _is_young(time: Any, age: int, now: datetime) -> bool:
    if time is None:
        return False
    epoch, tick = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
    then = (time - epoch) // tick if isinstance(time, datetime) else time
    return bool((now - epoch) // tick - then < age)


def _combined(how: str, values: list[Any]) -> Any:
    operation = {"sum": sum, "min": min, "max": max}[how.removeprefix("map_")]
    if not how.startswith("map_"):
        return sum(values[1:], values[0]) if how == "sum" else operation(values)
    items: dict[Any, list[Any]] = {}
    for value in values:
        for key, each in value:
            items.setdefault(key, []).append(each)
    return [(key, operation(each)) for key, each in items.items()]


@dataclass(frozen=True)
class Version:
    """One version of a table.

    `rows` are those that were loaded and not undone. `baked` says that a compaction may have applied the processing for
    good, so that only queries with the same processing are known.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    time: datetime
    processing: Processing = Processing()
    baked: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the columns, in their order."""
        return [column.name for column in self.columns]

    def visible(self, now: datetime, columns: Sequence[Column] | None = None) -> list[Named]:
        """Return what a query gives at a moment: by the names of its own columns, or of other ones."""
        own = {column.token for column in self.columns}
        rows = self.processing.visible(self.columns, self.rows, now)
        asked = self.columns if columns is None else columns
        return [{c.name: row.get(c.token) if c.token in own else None for c in asked} for row in rows]


@dataclass
class TableModel:
    """A table: its versions by number, those that are retained, and its savepoints with the versions that they keep."""

    name: str
    summed: bool
    versions: dict[int, Version]
    properties: dict[str, str]
    retained: set[int] = field(default_factory=lambda: {1})
    savepoints: dict[int, int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    next_token: int = 100
    jobs: set[str] = field(default_factory=set)

    @property
    def head(self) -> int:
        """The number of the current version."""
        return max(self.versions)

    @property
    def now(self) -> Version:
        """The current version."""
        return self.versions[self.head]

    @property
    def kept(self) -> list[int]:
        """The versions that can be read."""
        return sorted({*self.retained, *self.savepoints.values()})

    def commit(self, time: datetime, **changes: Any) -> None:
        """Add a version that differs from the current one as it is told."""
        made = replace(self.now, time=time, **changes)
        self.versions[self.head + 1] = made
        self.retained.add(self.head)

    def expected_expiry(self, now: datetime, window: timedelta, least: int, most: int) -> set[int]:
        """Return the versions that an expiry forgets: those whose successor is older than the window."""
        newest = sorted(self.retained, reverse=True)
        gone = set()
        for place, number in enumerate(newest):
            old = place > 0 and now - self.versions[newest[place - 1]].time >= window
            if place >= most or (old and place >= least):
                gone.add(number)
        return gone

    def pool(self, column: Column) -> list[Any]:
        """Return values that a column is loaded with."""
        small = self.summed and column.role == "value" and not column.nullable
        values = ({**SUMMED, **COMPARED} if small else POOLS)[column.kind]
        return [*values, None] if column.nullable else values


def schema_of(columns: Iterable[Column]) -> sl.Schema:
    """Return the schema that has these columns."""
    columns = list(columns)
    parts = ({c.name: c.text for c in columns if c.role == role} for role in ("row", "sort", "value"))
    return sl.Schema(*parts)


def plain(value: Any) -> Any:
    """Return a value so that what is equal for a user is equal and can be counted."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, list | tuple):
        items = tuple(plain(each) for each in value)
        pairs = items and all(isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str) for each in items)
        return tuple(sorted(items, key=repr)) if pairs else items
    return value


def counted(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """Return how often each row is there; `True` is not 1, and a date no time."""
    return Counter(tuple((type(row[name]).__name__, plain(row[name])) for name in names) for row in rows)


def text_of(value: Any) -> Any:
    """Return a value as JSON has it: bytes in base64, times as texts."""
    import base64

    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list | tuple):
        return [text_of(each) for each in value]
    return value
