"""Aggregations: how the value fields of rows with equal keys are combined; their text, and which fit a schema.

``sum``, ``min`` and ``max`` compute a value from all rows of a key, and ``map_…`` do it for each key of maps. ``last``,
``last_not_null`` and ``first`` choose the value of one row, by the value that each row has in a *sequence* column: with
them, a load of rows with the same keys changes rows.

- All ``last`` of one sequence take their values from one row; so do all ``first``. Rows of an equal sequence are
  compared by these values, in the order of the fields: the greatest wins, and nulls come first. So the order in which
  files are merged never matters. A row without a sequence loses against all others.
- ``last_not_null`` takes the last value that is not null, of each field by itself.
- A row in which the column of deletes is true wins against rows of the same sequence, and hides its key. Compaction
  keeps it, so that a row with a smaller sequence stays hidden whenever it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sleeper_nb.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from sleeper_nb.model.schema import Field, Schema

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
    """How one value field of rows with equal keys is combined.

    Parameters
    ----------
    operation
        One of `OPERATIONS`.
    field
        The value field; `ALL_OTHERS` as it is written.
    sequence
        The field whose greatest value wins, or least value for ``first``, if the operation is one of `OF_SEQUENCE`. A
        null loses against every value.
    """

    operation: str
    field: str
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
