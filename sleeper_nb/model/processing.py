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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.permissions import NOTHING_ALLOWED, Permissions

if TYPE_CHECKING:
    from sleeper_nb.model.properties import TableProperties
    from sleeper_nb.model.schema import Field, Schema
    from sleeper_nb.model.state import TableState


# Aggregations: how the value fields of rows with equal keys are combined; their text, and which fit a schema.
#
# ``sum``, ``min`` and ``max`` compute a value from all rows of a key, and ``map_…`` do it for each key of maps.
# ``last``, ``last_not_null`` and ``first`` choose the value of one row, by the value that each row has in a *sequence*
# column: with them, a load of rows with the same keys changes rows.
#
# - All ``last`` of one sequence take their values from one row; so do all ``first``. Rows of an equal sequence are
#   compared by these values, in the order of the fields: the greatest wins, and nulls come first. So the order in which
#   files are merged never matters. A row without a sequence loses against all others.
# - ``last_not_null`` takes the last value that is not null, of each field by itself.
# - A row in which the column of deletes is true wins against rows of the same sequence, and hides its key. Compaction
#   keeps it, so that a row with a smaller sequence stays hidden whenever it is loaded.

SUMMED = ("tinyint", "smallint", "int", "long", "float", "double", "decimal")
"""The types of values that can be added."""
_EXACT = (
    "tinyint", "smallint", "int", "long", "decimal", "string", "bytearray", "boolean", "date", "timestamp", "time",
    "uuid",
)  # fmt: skip
COMPARED = (*_EXACT, "float", "double")
"""The types of values that have an order."""
_MAPS = "map_"
LAST, LAST_NOT_NULL, FIRST = "last", "last_not_null", "first"
OF_SEQUENCE = (LAST, LAST_NOT_NULL, FIRST)
"""The operations that choose the value of one row, by a sequence column."""
_COMPUTED = ("sum", "min", "max", "map_sum", "map_min", "map_max")
OPERATIONS = (*_COMPUTED, *OF_SEQUENCE)
"""How values of rows with equal keys are combined; the map operations work on each key of the maps."""
ALL_OTHERS = "*"
"""In place of a field: each value field that has no aggregation of its own."""

_CALL = re.compile(r"\s*([^\s(),]+)\s*\(([^()]*)\)\s*(,|$)")


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How one value field of rows with equal keys is combined."""

    operation: str  # one of `OPERATIONS`
    field: str  # the value field; `ALL_OTHERS` as it is written
    # the field whose greatest value wins, or least value for ``first``, if the operation is one of `OF_SEQUENCE`. A
    # null loses against every value.
    sequence: str = ""

    @property
    def of_maps(self) -> bool:
        return self.operation.startswith(_MAPS)

    @property
    def item_operation(self) -> str:
        return self.operation.removeprefix(_MAPS)

    def __str__(self) -> str:
        return f"{self.operation}({self.field}{',' if self.sequence else ''}{self.sequence})"


def calls(text: str, example: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the arguments of each call in a text such as ``a(b),c(d,e)``."""
    at = 0
    while at < len(text.rstrip()):
        call = _CALL.match(text, at)
        if call is None or (call[3] and not text[call.end() :].strip()):
            raise InvalidInput(f"cannot read {text[at:].strip()!r}", hint=f"write {example}")
        yield call[1], call[2]
        at = call.end()


def one_of(name: str, known: tuple[str, ...], kind: str) -> str:
    """Return the known name that equals a name, ignoring case; `NotFound` names the nearest."""
    exact: Mapping[str, str] = {each.casefold(): each for each in known}
    if name.casefold() not in exact:
        raise NotFound.of(kind, name, known)
    return exact[name.casefold()]


def field_named(name: str, schema: Schema) -> Field:
    for field in schema.fields:
        if field.name == name:
            return field
    raise NotFound.of("field", name, schema.names)


def parse_aggregations(text: str) -> tuple[Aggregation, ...]:
    return tuple(_aggregation(name, argument) for name, argument in calls(text, "sum(visits),max(longest)"))


def _aggregation(name: str, argument: str) -> Aggregation:
    operation = one_of(name, OPERATIONS, "aggregation")
    if operation not in OF_SEQUENCE:
        return Aggregation(operation, argument.strip())
    field, *sequence = (part.strip() for part in argument.split(","))
    if len(sequence) != 1 or not field or not sequence[0]:
        raise InvalidInput(
            f"{operation}({argument}) does not name a field and its sequence column",
            hint=f"write {operation}({field or ALL_OTHERS},changed_at)",
        )
    return Aggregation(operation, field, sequence[0])


def aggregations_of(written: Sequence[Aggregation], delete_column: str, schema: Schema) -> tuple[Aggregation, ...]:
    """Return the aggregation of each value field, after a check against the schema.

    A sequence column keeps the value that won, and so does the column of deletes: their aggregations may be left out.

    `NotFound` when there is no such field; the hint names the nearest. `InvalidInput` when a field cannot be combined
    so, has no aggregation or two, or when aggregations contradict each other.

    Parameters
    ----------
    delete_column
        The value field that marks rows as deletes of their keys; "" for none.

    Returns
    -------
    One for each value field, in their order.
    """
    rules: dict[str, Aggregation] = {}
    for each in written:
        _check_fields(each, schema)
        if each.field in rules:
            raise InvalidInput(f"value field {each.field!r} is combined twice", hint="give it one aggregation")
        rules[each.field] = each
    others = rules.pop(ALL_OTHERS, None)
    for sequence, kept in _of_sequences(written).items():
        rules[sequence] = _kept(sequence, kept, rules.get(sequence))
    if delete_column:
        _check_delete_column(delete_column, schema)
        rules.setdefault(delete_column, Aggregation(LAST, delete_column, _only_sequence(written, delete_column)))
    for field in schema.values:
        if field.name not in rules:
            rules[field.name] = _of_others(others, field, written)
        _check_type(rules[field.name], field)
    found = tuple(rules[field.name] for field in schema.values)
    if delete_column:
        _check_deletes(found, delete_column)
    return found


def _check_fields(each: Aggregation, schema: Schema) -> None:
    if each.field == ALL_OTHERS and not each.sequence:
        raise InvalidInput(f"{each} does not name a field", hint=f"{ALL_OTHERS} goes with {', '.join(OF_SEQUENCE)}")
    names = [name for name in (each.field, each.sequence) if name not in {"", ALL_OTHERS}]
    for name in names:
        role = schema.role(field_named(name, schema).name)
        if role != "value" and name == each.field:
            raise InvalidInput(f"{each} cannot combine {role} {name!r}", hint="name value fields only")
        if role != "value":
            hint = "name a value field as the sequence: rows with other keys are not combined"
            raise InvalidInput(f"{each} cannot compare {role} {name!r}", hint=hint)
    if each.sequence and field_named(each.sequence, schema).type.name not in COMPARED:
        kind = field_named(each.sequence, schema).type
        raise InvalidInput(
            f"{each} cannot order rows by field {each.sequence!r}, which is {kind}",
            hint="name a number, time, string or bytes as the sequence",
        )


def _of_sequences(written: Iterable[Aggregation]) -> dict[str, Aggregation]:
    """Return what each sequence column keeps: its greatest value, if any ``last`` is by it, or else its least."""
    kept: dict[str, Aggregation] = {}
    for each in written:
        if each.sequence and (each.operation != FIRST or each.sequence not in kept):
            operation = FIRST if each.operation == FIRST else LAST
            kept[each.sequence] = Aggregation(operation, each.sequence, each.sequence)
    return kept


def _kept(sequence: str, kept: Aggregation, own: Aggregation | None) -> Aggregation:
    plain = Aggregation("min" if kept.operation == FIRST else "max", sequence)
    if own in {None, kept, plain}:
        return kept
    raise InvalidInput(
        f"{own} contradicts that {sequence!r} is a sequence column, which keeps the value that wins",
        hint=f"leave out {own}, or write {plain}",
    )


def _of_others(others: Aggregation | None, field: Field, written: Sequence[Aggregation]) -> Aggregation:
    """Return the aggregation of a field that has none of its own; raise when there is none for all others."""
    if others is not None:
        return Aggregation(others.operation, field.name, others.sequence)
    sequence = next((each.sequence for each in written if each.operation in {LAST, LAST_NOT_NULL}), "")
    computed = Aggregation("map_max" if field.type.name == "map" else "max", field.name)
    missing = Aggregation(LAST, field.name, sequence) if sequence else computed
    raise InvalidInput(
        f"value field {field.name!r} has no aggregation",
        hint=f"give every value field one: {', '.join(map(str, (*written, missing)))}",
    )


def _check_type(each: Aggregation, field: Field) -> None:
    if each.sequence:
        return  # values are chosen, not changed
    if field.nullable:
        raise InvalidInput(f"{each} cannot combine nulls, and field {field.name!r} is nullable",
                           hint=f"declare it as {field.type}, without ?")  # fmt: skip
    is_map = field.type.name == "map"
    inner = field.type.arguments[1] if is_map else field.type
    fitting = SUMMED if each.item_operation == "sum" else COMPARED
    if is_map != each.of_maps or inner.name not in fitting or (is_map and field.type.arguments[0].name not in _EXACT):
        usable = [name for name in _COMPUTED if name.startswith(_MAPS) == is_map]
        what, least, most = ("maps of ", "map_min", "map_max") if is_map else ("", "min", "max")
        hint = (
            f"{', '.join(usable)} combine {what}numbers; {least} and {most} also strings, bytes, dates and timestamps"
        )
        raise InvalidInput(f"{each} cannot combine a {field.type}", hint=hint)


def _check_delete_column(name: str, schema: Schema) -> None:
    field = field_named(name, schema)
    if schema.role(name) != "value" or field.type.name != "boolean":
        what = field.type if schema.role(name) == "value" else f"a {schema.role(name)}"
        hint = "name a value field of type boolean"
        raise InvalidInput(f"field {name!r} cannot mark deletes: it is {what}", hint=hint)


def _only_sequence(written: Iterable[Aggregation], delete_column: str) -> str:
    sequences = sorted({each.sequence for each in written if each.sequence})
    if not sequences:
        raise InvalidInput(
            f"field {delete_column!r} cannot mark deletes: no aggregation has a sequence column",
            hint=f"set the property sleeper.table.aggregations, such as {LAST}({ALL_OTHERS},changed_at)",
        )
    return sequences[-1]


def _check_deletes(rules: Iterable[Aggregation], delete_column: str) -> None:
    """Refuse aggregations that say nothing about deletes: a sum has no part of a row that was deleted."""
    (own,) = (each for each in rules if each.field == delete_column)
    wanted = f"{LAST}({ALL_OTHERS},{own.sequence or 'changed_at'})"
    if own.operation != LAST:
        raise InvalidInput(f"{own} cannot mark deletes", hint=f"leave {own} out, and write {wanted}")
    for each in rules:
        if each.operation not in {LAST, LAST_NOT_NULL} or each.sequence != own.sequence:
            raise InvalidInput(
                f"{each} cannot be used with deletes marked by {delete_column!r} in the order of {own.sequence!r}",
                hint=f"combine all value fields by {LAST} or {LAST_NOT_NULL} of one sequence: {wanted}",
            )


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
    """

    field: str  # a long, milliseconds since 1970 in UTC; or, beyond Sleeper, a timestamp
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
    """The processing that a table applies to its rows when they are read, at one moment."""

    filters: tuple[AgeOff, ...] = ()  # each may drop rows
    iterator: PythonIterator | None = None  # changes the remaining rows
    aggregations: tuple[Aggregation, ...] = ()  # one for each value field, or empty
    now: datetime = _EPOCH  # the moment that ages are measured from, in UTC
    written: tuple[Aggregation, ...] = ()  # the aggregations as the property has them, where `aggregations` has more
    delete_column: str = ""  # the value field that hides a key where it is true in the last row of the key; "" for none
    # whether a key keeps each row that wins one of the comparisons, because later rows must be compared with it
    keeps_winners: bool = False
    # whether rows that hide their keys are kept, because rows with a smaller sequence may be loaded later
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
