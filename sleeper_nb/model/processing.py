"""Row processing of a table: its filters, its iterator and its aggregations, as its properties define them.

Queries and compaction apply them in this order: filters drop rows, the iterator changes rows, and rows with equal row
keys and sort keys are combined into one. Compaction applies only what cannot change the result of a later query, see
`DataProcessing.in_compaction`.

::

    sleeper.table.filters=ageOff(time,86400000)
    sleeper.table.iterator.class.name=my_package.latest:newest_only
    sleeper.table.iterator.config=3
    sleeper.table.aggregations=sum(visits),max(longest),map_sum(by_country)
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.permissions import NOTHING_ALLOWED, Permissions

if TYPE_CHECKING:
    from sleeper_nb.model.properties import TableProperties
    from sleeper_nb.model.schema import Field, Schema
    from sleeper_nb.model.state import TableState

FILTERS = "sleeper.table.filters"
AGGREGATIONS = "sleeper.table.aggregations"
ITERATOR = "sleeper.table.iterator.class.name"
ITERATOR_CONFIG = "sleeper.table.iterator.config"
PROCESSING_PROPERTIES = (FILTERS, ITERATOR, ITERATOR_CONFIG, AGGREGATIONS)
"""The properties of row processing, in the order in which they are applied."""

SUMMED = ("tinyint", "smallint", "int", "long", "float", "double", "decimal")
"""The types of values that can be added."""

_EXACT = (
    "tinyint", "smallint", "int", "long", "decimal", "string", "bytearray", "boolean", "date", "timestamp", "time",
    "uuid",
)  # fmt: skip
_COMPARED = (*_EXACT, "float", "double")
_AGED = ("long", "timestamp")
_FILTERS = ("ageOff",)
_MAPS = "map_"
OPERATIONS = ("sum", "min", "max", "map_sum", "map_min", "map_max")
"""How values of rows with equal keys are combined; the map operations work on each key of the maps."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CALL = re.compile(r"\s*([^\s(),]+)\s*\(([^()]*)\)\s*(,|$)")


@dataclass(frozen=True, slots=True)
class AgeOff:
    """A filter that drops rows that have reached a maximum age, and rows without a time.

    The rule is Sleeper's: a row stays while ``now - time < max_age_ms``.

    Parameters
    ----------
    field
        A long, milliseconds since 1970 in UTC; or, beyond Sleeper, a timestamp.
    max_age_ms
        Milliseconds.
    """

    field: str
    max_age_ms: int

    def oldest_kept(self, now: datetime) -> int:
        """Return the oldest time that is kept at a moment, in milliseconds since 1970."""
        return (now - _EPOCH) // timedelta(milliseconds=1) - self.max_age_ms + 1

    def __str__(self) -> str:
        return f"ageOff({self.field},{self.max_age_ms})"


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How one value field of rows with equal keys is combined: `operation` is one of `OPERATIONS`."""

    operation: str
    field: str

    @property
    def of_maps(self) -> bool:
        """Whether the values are maps, whose items are combined key by key."""
        return self.operation.startswith(_MAPS)

    @property
    def item_operation(self) -> str:
        """``"sum"``, ``"min"`` or ``"max"``."""
        return self.operation.removeprefix(_MAPS)

    def __str__(self) -> str:
        return f"{self.operation}({self.field})"


@dataclass(frozen=True, slots=True)
class PythonIterator:
    """A function that changes rows: the name of an entry point, or ``package.module:function``; and its configuration.

    `permissions` are those of the session that reads the rows: the function runs only if they allow its name.
    """

    name: str
    config: str = ""
    permissions: Permissions = dataclasses.field(default=NOTHING_ALLOWED, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DataProcessing:
    """The processing that a table applies to its rows when they are read, at one moment.

    Parameters
    ----------
    filters
        Each may drop rows.
    iterator
        Changes the remaining rows.
    aggregations
        One for each value field, or empty.
    now
        The moment that ages are measured from, in UTC.
    """

    filters: tuple[AgeOff, ...] = ()
    iterator: PythonIterator | None = None
    aggregations: tuple[Aggregation, ...] = ()
    now: datetime = _EPOCH

    @classmethod
    def of(cls, properties: TableProperties, schema: Schema, now: datetime) -> DataProcessing:
        """Return the processing that a table's properties define, checked against the schema that reads its rows.

        Raises
        ------
        NotFound
            When there is no such field; the hint names the nearest.
        InvalidInput
            When a filter or aggregation does not support the type of its field, or when aggregations do not name each
            value field once.
        """
        filters, name, config, aggregations = properties.values(*PROCESSING_PROPERTIES)
        iterator = PythonIterator(name, config, properties.permissions) if name else None
        processing = cls(filters, iterator, aggregations, now)
        for filtered in processing.filters:
            _check_filter(filtered, schema)
        if processing.aggregations:
            _check_aggregations(processing.aggregations, schema)
        return processing

    @classmethod
    def at(cls, properties: TableProperties, state: TableState, now: datetime) -> DataProcessing:
        """Return the processing that a version records; a version of an earlier release has that of the properties."""
        return cls.of(properties.processed_as(state.processing), state.schema, now)

    @property
    def is_nothing(self) -> bool:
        """Whether rows are returned as stored."""
        return self.only_filters and not self.filters

    @property
    def only_filters(self) -> bool:
        """Whether each row is kept or dropped unchanged, independently of other rows."""
        return self.iterator is None and not self.aggregations

    def columns(self, schema: Schema, requested: Iterable[str]) -> tuple[str, ...]:
        """Return the columns to read in order to return the requested ones."""
        if self.iterator is not None:
            return schema.names
        needed = {*requested, *(filtered.field for filtered in self.filters)}
        if self.aggregations:
            needed |= set(schema.sort_order)
        return tuple(name for name in schema.names if name in needed)

    def in_compaction(self, schema: Schema) -> DataProcessing:
        """Return the part that compaction may apply permanently without changing the result of any later query.

        - Filters may be applied: a row that is too old stays too old.
        - The iterator may be applied if there are no filters: one could later drop a row that the iterator relied on.
        - Rows may be combined if there is no iterator and no filter on a value field, as these need the single rows:
          an old row cannot be dropped from a sum.

        Queries apply the rest.
        """
        on_keys = all(schema.role(filtered.field) != "value" for filtered in self.filters)
        return replace(
            self,
            iterator=None if self.filters else self.iterator,
            aggregations=self.aggregations if on_keys and self.iterator is None else (),
        )

    def __str__(self) -> str:
        iterator = (f"{self.iterator.name}({self.iterator.config})",) if self.iterator else ()
        return ", ".join((*map(str, self.filters), *iterator, *map(str, self.aggregations)))


NOTHING = DataProcessing()
"""No processing: rows are returned as stored."""


def parse_filters(text: str) -> tuple[AgeOff, ...]:
    """Read the property `FILTERS`: ``ageOff(field,milliseconds)``; unlike in Sleeper, commas may separate several."""
    filters = []
    for name, argument in _calls(text, "ageOff(time,86400000)"):
        _one_of(name, _FILTERS, "filter")
        field, comma, age = (part.strip() for part in argument.rpartition(","))
        if not comma or not field or not re.fullmatch(r"[0-9]{1,18}", age):
            raise InvalidInput(
                f"({argument}) are not valid arguments of the filter ageOff", hint="write ageOff(field,milliseconds)"
            )
        filters.append(AgeOff(field, int(age)))
    return tuple(filters)


def parse_aggregations(text: str) -> tuple[Aggregation, ...]:
    """Read the property `AGGREGATIONS`: ``sum(a),max(b),map_sum(c)``."""
    example = "sum(visits),max(longest)"
    return tuple(
        Aggregation(_one_of(name, OPERATIONS, "aggregation"), argument.strip())
        for name, argument in _calls(text, example)
    )


def _calls(text: str, example: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text.rstrip()):
        call = _CALL.match(text, at)
        if call is None or (call[3] and not text[call.end() :].strip()):
            raise InvalidInput(f"cannot read {text[at:].strip()!r}", hint=f"write {example}")
        yield call[1], call[2]
        at = call.end()


def _one_of(name: str, known: tuple[str, ...], kind: str) -> str:
    exact: Mapping[str, str] = {each.casefold(): each for each in known}
    if name.casefold() not in exact:
        raise NotFound.of(kind, name, known)
    return exact[name.casefold()]


def _field(name: str, schema: Schema) -> Field:
    for field in schema.fields:
        if field.name == name:
            return field
    raise NotFound.of("field", name, schema.names)


def _check_filter(filtered: AgeOff, schema: Schema) -> None:
    field = _field(filtered.field, schema)
    if field.type.name not in _AGED:
        raise InvalidInput(
            f"{filtered} cannot take the time from field {field.name!r}, which is {field.type}",
            hint="use a long, in milliseconds since 1970, or a timestamp",
        )


def _check_aggregations(aggregations: tuple[Aggregation, ...], schema: Schema) -> None:
    seen: set[str] = set()
    for each in aggregations:
        field = _field(each.field, schema)
        if schema.role(field.name) != "value":
            raise InvalidInput(
                f"{each} cannot combine {schema.role(field.name)} {field.name!r}", hint="name value fields only"
            )
        if field.name in seen:
            raise InvalidInput(f"value field {field.name!r} is combined twice", hint="give it one aggregation")
        seen.add(field.name)
        _check_type(each, field)
    for field in schema.values:
        if field.name not in seen:
            missing = Aggregation("map_max" if field.type.name == "map" else "max", field.name)
            raise InvalidInput(
                f"value field {field.name!r} has no aggregation",
                hint=f"give every value field one: {', '.join(map(str, (*aggregations, missing)))}",
            )


def _check_type(each: Aggregation, field: Field) -> None:
    if field.nullable:
        raise InvalidInput(f"{each} cannot combine nulls, and field {field.name!r} is nullable",
                           hint=f"declare it as {field.type}, without ?")  # fmt: skip
    is_map = field.type.name == "map"
    inner = field.type.arguments[1] if is_map else field.type
    fitting = SUMMED if is_map or each.item_operation == "sum" else _COMPARED
    if is_map != each.of_maps or inner.name not in fitting or (is_map and field.type.arguments[0].name not in _EXACT):
        usable = [name for name in OPERATIONS if name.startswith(_MAPS) == is_map]
        numbers = "maps of numbers" if is_map else "numbers; min and max also strings, bytes, dates and timestamps"
        raise InvalidInput(f"{each} cannot combine a {field.type}", hint=f"{', '.join(usable)} combine {numbers}")
