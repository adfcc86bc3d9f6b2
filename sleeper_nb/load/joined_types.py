"""Find the type that holds the values of two sources of data, of which each has its own. Pure.

It is the type that one source with the values of both would have: a column or field that is empty in one has the type
of the other, whole numbers and fractions are doubles or decimals, and structs have the fields of both. The load then
checks each value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.evolution import DIGITS, widens
from sleeper_nb.model.schema import FieldType, is_list_type

_MOST_DIGITS: Final = 38
_ORDER: Final = ("tinyint", "smallint", "int", "long", "float", "double", "date", "timestamp")


@dataclass(frozen=True, slots=True)
class TypeMismatch:
    """Two types of which none holds the values of both.

    Parameters
    ----------
    path
        Where in the column: ``.zip`` in a struct with a field of that name, ``[]`` in a list; "" for the column itself.
    types
        The types as texts.
    """

    path: str
    types: tuple[str, str]

    @property
    def is_nested(self) -> bool:
        """Whether one of the types is nested and the other is not, or is nested otherwise."""
        return any("<" in each for each in self.types)


@dataclass(frozen=True, slots=True)
class JoinedType:
    """The type for two sources, with strings where none holds the values of both."""

    type: pa.DataType
    mismatches: tuple[TypeMismatch, ...] = ()


def joined_type(one: pa.DataType, other: pa.DataType, path: str = "") -> JoinedType:
    """Return the Arrow type that holds the values of two."""
    if one == other or pa.types.is_null(other):
        return JoinedType(one)
    if pa.types.is_null(one):
        return JoinedType(other)
    if is_list_type(one) and is_list_type(other):
        inner = joined_type(one.value_type, other.value_type, f"{path}[]")
        return JoinedType(pa.list_(inner.type), inner.mismatches)
    if pa.types.is_map(one) and pa.types.is_map(other):
        key = joined_type(one.key_type, other.key_type, f"{path}.key")
        item = joined_type(one.item_type, other.item_type, f"{path}.value")
        return JoinedType(pa.map_(key.type, item.type), (*key.mismatches, *item.mismatches))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _joined_structs(one, other, path)
    wider, names = _wider(_field_type(one), _field_type(other)), (_name(one), _name(other))
    if wider is not None:
        return JoinedType(wider.arrow)
    return JoinedType(pa.string(), (TypeMismatch(path, (min(names, key=_place), max(names, key=_place))),))


def _joined_structs(one: pa.StructType, other: pa.StructType, path: str) -> JoinedType:
    known, given = ({each.name: each for each in kind} for kind in (one, other))
    fields: list[pa.Field] = []
    mismatches: list[TypeMismatch] = []
    for name in {**known, **given}:
        pair = [of[name] for of in (known, given) if name in of]
        inner = joined_type(pair[0].type, pair[-1].type, f"{path}.{name}")
        mismatches += inner.mismatches
        fields.append(pa.field(name, inner.type, nullable=len(pair) < 2 or any(each.nullable for each in pair)))
    return JoinedType(pa.struct(fields), tuple(mismatches))


def _field_type(kind: pa.DataType) -> FieldType | None:
    try:
        return FieldType.from_arrow(kind)
    except InvalidInput:
        return None


def _name(kind: pa.DataType) -> str:
    return str(_field_type(kind) or kind)


def _place(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def _wider(one: FieldType | None, other: FieldType | None) -> FieldType | None:
    """Return the type that holds the values of two simple types; None when there is none."""
    if one is None or other is None:
        return None
    if {one.name, other.name} == {"date", "timestamp"}:
        return FieldType("timestamp")
    if {one.name, other.name} == {"uuid", "string"}:
        return FieldType("string")
    if widens(one, other) or widens(other, one):
        return other if widens(one, other) else one
    digits, more = _digits(one), _digits(other)
    if digits is not None and more is not None:
        scale = max(digits[1], more[1])
        return FieldType("decimal", (min(max(digits[0], more[0]) + scale, _MOST_DIGITS), scale))
    are_numbers = all(_digits(each) is not None or each.name in {"float", "double"} for each in (one, other))
    return FieldType("double") if are_numbers else None


def _digits(kind: FieldType) -> tuple[int, int] | None:
    """Return how many digits a whole number or a decimal may have before and after the point; None for another type."""
    if kind.name == "decimal":
        arguments: tuple[Any, ...] = kind.arguments
        return arguments[0] - arguments[1], arguments[1]
    return (DIGITS[kind.name], 0) if kind.name in DIGITS else None
