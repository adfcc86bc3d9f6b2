"""Row processing of a table: its filters, its iterator and its aggregations, as its properties define them.

Queries and compaction apply them in this order: filters drop rows, the iterator changes rows, and rows with equal row
keys and sort keys are combined into one. Compaction applies only what cannot change the result of a later query, see
`DataProcessing.in_compaction`.

::

    sleeper.table.filters=ageOff(time,86400000)
    sleeper.table.iterator.class.name=my_package.latest:newest_only
    sleeper.table.iterator.config=3
    sleeper.table.aggregations=sum(visits),max(longest),map_sum(by_country)

With aggregations by a sequence column, a load changes rows, and a row can mark its key as deleted::

    sleeper.table.aggregations=last(*,changed_at)
    sleeper.table.aggregations.delete.column=deleted
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.aggregations import (
    FIRST,
    LAST,
    LAST_NOT_NULL,
    Aggregation,
    aggregations_of,
    calls,
    field_named,
    one_of,
)
from sleeper_nb.model.permissions import NOTHING_ALLOWED, Permissions

if TYPE_CHECKING:
    from sleeper_nb.model.properties import TableProperties
    from sleeper_nb.model.schema import Schema
    from sleeper_nb.model.state import TableState

FILTERS = "sleeper.table.filters"
AGGREGATIONS = "sleeper.table.aggregations"
DELETE_COLUMN = "sleeper.table.aggregations.delete.column"
ITERATOR = "sleeper.table.iterator.class.name"
ITERATOR_CONFIG = "sleeper.table.iterator.config"
PROCESSING_PROPERTIES = (FILTERS, ITERATOR, ITERATOR_CONFIG, AGGREGATIONS, DELETE_COLUMN)
"""The properties of row processing, in the order in which they are applied."""

_AGED = ("long", "timestamp")
_FILTERS = ("ageOff",)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AgeOff:
    """A filter that drops rows that have reached a maximum age, and rows without a time.

    The rule is Sleeper's: a row stays while ``now - time < max_age_ms``.

    Parameters
    ----------
    field
        A long, milliseconds since 1970 in UTC; or, beyond Sleeper, a timestamp.
    """

    field: str
    max_age_ms: int

    def oldest_kept(self, now: datetime) -> int:
        """Return the oldest time that is kept at a moment, in milliseconds since 1970."""
        return (now - _EPOCH) // timedelta(milliseconds=1) - self.max_age_ms + 1

    def __str__(self) -> str:
        return f"ageOff({self.field},{self.max_age_ms})"


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
    written
        The aggregations as the property has them, where `aggregations` has more.
    delete_column
        The value field that hides a key where it is true in the last row of the key; "" for none.
    keeps_winners
        Whether a key keeps each row that wins one of the comparisons, because later rows must be compared with it.
    keeps_marks
        Whether rows that hide their keys are kept, because rows with a smaller sequence may be loaded later.
    """

    filters: tuple[AgeOff, ...] = ()
    iterator: PythonIterator | None = None
    aggregations: tuple[Aggregation, ...] = ()
    now: datetime = _EPOCH
    written: tuple[Aggregation, ...] = ()
    delete_column: str = ""
    keeps_winners: bool = False
    keeps_marks: bool = False

    @classmethod
    def of(cls, properties: TableProperties, schema: Schema, now: datetime) -> DataProcessing:
        """Return the processing that a table's properties define, checked against the schema that reads its rows.

        `NotFound` when there is no such field; the hint names the nearest. `InvalidInput` when a filter or aggregation
        does not support the type of its field, or when aggregations do not name each value field once, or contradict
        each other.
        """
        filters, name, config, written, delete_column = properties.values(*PROCESSING_PROPERTIES)
        iterator = PythonIterator(name, config, properties.permissions) if name else None
        for filtered in filters:
            _check_filter(filtered, schema)
        aggregations = aggregations_of(written, delete_column, schema) if written or delete_column else ()
        return cls(filters, iterator, aggregations, now, written, delete_column)

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
            needed |= {*schema.sort_order, *self._deciding(needed)}
        return tuple(name for name in schema.names if name in needed)

    def _deciding(self, requested: Collection[str]) -> Iterator[str]:
        """Yield the columns that decide which rows' values some requested columns have."""
        for each in self.aggregations:
            if each.field == self.delete_column:
                yield from (each.field, each.sequence)
            elif each.field in requested and each.sequence not in {"", each.field}:
                yield from (each.sequence, *self.chosen_together(each))

    def chosen_together(self, rule: Aggregation) -> tuple[str, ...]:
        """Return the fields whose values come from the same row as those of an aggregation by a sequence.

        Between rows of an equal sequence they decide in this order, by the greatest value: so a delete wins.
        """
        if rule.operation == LAST_NOT_NULL:
            return (rule.field,)
        how = rule.operation, rule.sequence
        fields = [each.field for each in self.aggregations if (each.operation, each.sequence) == how]
        return tuple(sorted(fields, key=lambda name: name != self.delete_column))

    def in_compaction(self, schema: Schema) -> DataProcessing:
        """Return the part that compaction may apply permanently without changing the result of any later query.

        - Filters may be applied: a row that is too old stays too old.
        - The iterator may be applied if there are no filters: one could later drop a row that the iterator relied on.
        - Rows may be combined if there is no iterator and no filter on a value field, as these need the single rows:
          an old row cannot be dropped from a sum. They are combined as in `in_part`.

        Queries apply the rest.
        """
        on_keys = all(schema.role(filtered.field) != "value" for filtered in self.filters)
        return replace(
            self.in_part(),
            iterator=None if self.filters else self.iterator,
            aggregations=self.aggregations if on_keys and self.iterator is None else (),
        )

    def in_part(self) -> DataProcessing:
        """Return how to combine some rows of a key, so that the result can still be combined with its other rows.

        One row says all when each value comes from the row whose sequence it keeps. With ``last_not_null``, a value may
        be older than its row; with ``last`` and ``first`` of one sequence, one of the two is.
        """
        last, first = ({each.sequence for each in self.aggregations if each.operation == op} for op in (LAST, FIRST))
        is_older = any(each.operation == LAST_NOT_NULL for each in self.aggregations) or bool(last & first)
        return replace(self, keeps_winners=is_older, keeps_marks=bool(self.delete_column))

    def __str__(self) -> str:
        iterator = (f"{self.iterator.name}({self.iterator.config})",) if self.iterator else ()
        aggregations = (self.written or self.aggregations) if self.aggregations else ()
        deletes = (f"deletes by {self.delete_column}",) if aggregations and self.delete_column else ()
        return ", ".join((*map(str, self.filters), *iterator, *map(str, aggregations), *deletes))


NOTHING = DataProcessing()
"""No processing: rows are returned as stored."""


def parse_filters(text: str) -> tuple[AgeOff, ...]:
    """Read the property `FILTERS`: ``ageOff(field,milliseconds)``; unlike in Sleeper, commas may separate several."""
    filters = []
    for name, argument in calls(text, "ageOff(time,86400000)"):
        one_of(name, _FILTERS, "filter")
        field, comma, age = (part.strip() for part in argument.rpartition(","))
        if not comma or not field or not re.fullmatch(r"[0-9]{1,18}", age):
            raise InvalidInput(
                f"({argument}) are not valid arguments of the filter ageOff", hint="write ageOff(field,milliseconds)"
            )
        filters.append(AgeOff(field, int(age)))
    return tuple(filters)


def _check_filter(filtered: AgeOff, schema: Schema) -> None:
    field = field_named(filtered.field, schema)
    if field.type.name not in _AGED:
        raise InvalidInput(
            f"{filtered} cannot take the time from field {field.name!r}, which is {field.type}",
            hint="use a long, in milliseconds since 1970, or a timestamp",
        )
