"""The types of fields: their text (``decimal(10,2)``), Sleeper's JSON, and the Arrow type that stores them."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa

from sleeper_nb.errors import InvalidInput

ROW_KEY_TYPES = ("int", "long", "string", "bytearray")
"""What a row key can be: Sleeper's key types. Order: numbers by value, strings by UTF-8 bytes, bytes unsigned."""

SORT_KEY_TYPES = (*ROW_KEY_TYPES, "date", "timestamp")
"""A sort key only orders rows within a file, so it can also be a date or a timestamp."""

_SIMPLE: dict[str, tuple[pa.DataType, str]] = {
    "int": (pa.int32(), "IntType"),
    "long": (pa.int64(), "LongType"),
    "string": (pa.string(), "StringType"),
    "bytearray": (pa.binary(), "ByteArrayType"),
    "double": (pa.float64(), "DoubleType"),
    "float": (pa.float32(), "FloatType"),
    "boolean": (pa.bool_(), "BooleanType"),
    "date": (pa.date32(), "DateType"),
    "timestamp": (pa.timestamp("us", tz="UTC"), "TimestampType"),
}
SIMPLE_TYPES = tuple(_SIMPLE)
"""The types that are one word."""
_ALIASES = {
    "integer": "int", "int32": "int", "bigint": "long", "int64": "long", "str": "string", "varchar": "string",
    "text": "string", "utf8": "string", "bytes": "bytearray", "binary": "bytearray", "blob": "bytearray",
    "float64": "double", "real": "float", "float32": "float", "bool": "boolean",
    "timestamptz": "timestamp", "datetime": "timestamp", "array": "list",
}  # fmt: skip
_INSTEAD = {
    **dict.fromkeys(("tinyint", "smallint", "short", "byte", "int8", "int16"), "int"),
    **dict.fromkeys(("char", "uuid", "json", "enum"), "string"),
    **dict.fromkeys(("timestamp_ntz", "timestamp_ltz"), "timestamp"),
    **dict.fromkeys(("decimal", "numeric", "number", "hugeint"), "decimal(p,s) with s ≤ p ≤ 38"),
    "doubleprecision": "double",
}
"""What holds the values of types that other tables have, and we have not."""
MOST_NESTED = 20
"""How deep lists and maps may be nested: more than data has, and little enough for every engine."""
_JSON_NAMES = {json: name for name, (_, json) in _SIMPLE.items()}


def holds_text(arrow: pa.DataType) -> bool:
    """Return whether a column of an Arrow type holds text, at any depth."""
    types = pa.types
    if types.is_dictionary(arrow) or types.is_run_end_encoded(arrow):
        return holds_text(arrow.value_type)
    if types.is_nested(arrow):
        return any(holds_text(arrow.field(i).type) for i in range(arrow.num_fields))
    return any(test(arrow) for test in (types.is_string, types.is_large_string, types.is_string_view))


def is_utf8(column: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether all text of a column is UTF-8, which Arrow leaves unchecked when it reads or receives a column.

    Text that a slice of lists hides counts too.
    """
    if not holds_text(column.type):
        return True
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


@dataclass(frozen=True, slots=True)
class FieldType:
    """One type; equal text means equal type.

    Parameters
    ----------
    name
        ``int``, ``long``, ``string``, ``bytearray``, ``double``, ``float``, ``boolean``, ``date``, ``timestamp``
        (an instant, microseconds, UTC), ``decimal``, ``list`` or ``map``.
    arguments
        Precision and scale of a decimal; the types of a list's elements, or of a map's keys and values.
    """

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.arguments[0]},{self.arguments[1]})"
        if self.arguments:
            return f"{self.name}<{','.join(str(a) for a in self.arguments)}>"
        return self.name

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of a column of this type, in memory and in Parquet."""
        if self.name == "decimal":
            return pa.decimal128(*self.arguments)
        if self.name == "list":
            return pa.list_(self.arguments[0].arrow)
        if self.name == "map":
            return pa.map_(self.arguments[0].arrow, self.arguments[1].arrow)
        return _SIMPLE[self.name][0]

    def to_json(self) -> Any:
        """Return Sleeper's JSON of the type (`reference` format: ``"IntType"``, ``{"ListType": …}``)."""
        if self.name == "decimal":
            return {"DecimalType": {"precision": self.arguments[0], "scale": self.arguments[1]}}
        if self.name == "list":
            return {"ListType": {"elementType": self.arguments[0].to_json()}}
        if self.name == "map":
            return {"MapType": {"keyType": self.arguments[0].to_json(), "valueType": self.arguments[1].to_json()}}
        return _SIMPLE[self.name][1]

    @classmethod
    def from_json(cls, value: Any) -> FieldType:
        """Read what `to_json` wrote.

        Raises
        ------
        InvalidInput
            When it is not such JSON, or nested deeper than `MOST_NESTED`.
        """
        return cls._from_json(value, 0)

    @classmethod
    def _from_json(cls, value: Any, depth: int) -> FieldType:
        _check_depth(depth)
        if isinstance(value, str) and value in _JSON_NAMES:
            return cls(_JSON_NAMES[value])
        try:
            ((kind, body),) = value.items()
            if kind == "DecimalType":
                return parse_type(f"decimal({int(body['precision'])},{int(body['scale'])})")
            if kind == "ListType":
                return cls("list", (cls._from_json(body["elementType"], depth + 1),))
            if kind == "MapType":
                of = body["keyType"], body["valueType"]
                return cls("map", tuple(cls._from_json(each, depth + 1) for each in of))
        except InvalidInput:
            raise
        except (AttributeError, KeyError, TypeError, ValueError):
            pass
        known = ", ".join((*_JSON_NAMES, "DecimalType", "ListType", "MapType"))
        raise InvalidInput(f"no field type {value!r}", hint=f"the types are {known}")

    @classmethod
    def from_arrow(cls, arrow: pa.DataType) -> FieldType:
        """Return the type that stores an Arrow type without loss.

        Raises
        ------
        InvalidInput
            When there is none (unsigned 64-bit numbers, structs, durations), or it is nested deeper than `MOST_NESTED`.
        """
        return cls._from_arrow(arrow, 0)

    @classmethod
    def _from_arrow(cls, arrow: pa.DataType, depth: int) -> FieldType:
        _check_depth(depth)
        for name, (own, _) in _SIMPLE.items():
            if arrow == own:
                return cls(name)
        if pa.types.is_dictionary(arrow):
            return cls._from_arrow(arrow.value_type, depth)
        if pa.types.is_timestamp(arrow):
            return cls("timestamp")
        for test, name in _WIDER:
            if test(arrow):
                return cls(name)
        if pa.types.is_decimal(arrow) and arrow.precision <= 38:
            return cls("decimal", (arrow.precision, arrow.scale))
        if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
            return cls("list", (cls._from_arrow(arrow.value_type, depth + 1),))
        if pa.types.is_map(arrow):
            of = arrow.key_type, arrow.item_type
            return cls("map", tuple(cls._from_arrow(each, depth + 1) for each in of))
        raise InvalidInput(f"no field type can hold Arrow's {arrow}", hint="cast the column, or leave it out")


_WIDER = (
    (lambda t: pa.types.is_int8(t) or pa.types.is_int16(t) or pa.types.is_uint8(t) or pa.types.is_uint16(t), "int"),
    (pa.types.is_uint32, "long"),
    (lambda t: pa.types.is_large_string(t) or pa.types.is_string_view(t), "string"),
    (lambda t: pa.types.is_large_binary(t) or pa.types.is_binary_view(t), "bytearray"),
    (pa.types.is_fixed_size_binary, "bytearray"),
    (pa.types.is_float16, "float"),
    (pa.types.is_date64, "date"),
    (pa.types.is_null, "string"),
)


def parse_type(text: str) -> FieldType:
    """Read a type as a user writes it, in any case: ``string``, ``BIGINT``, ``decimal(10,2)``, ``map<string,long>``.

    Raises
    ------
    InvalidInput
        When the text is no type, naming the nearest; or it is nested deeper than `MOST_NESTED`.
    """
    _check_depth(max(accumulate((c == "<") - (c == ">") for c in text), default=0))
    clean = re.sub(r"\s+", "", text).lower()
    name, _, rest = clean.partition("<") if "<" in clean else clean.partition("(")
    name = _ALIASES.get(name, name)
    if not rest and name in _SIMPLE:
        return FieldType(name)
    if name in {"decimal", "numeric"} and (digits := re.fullmatch(r"(\d+)(?:,(\d+))?\)", rest)):
        precision, scale = int(digits[1]), int(digits[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return FieldType("decimal", (precision, scale))
    if rest.endswith(">"):
        inner = _split_arguments(rest[:-1])
        if (name, len(inner)) in {("list", 1), ("map", 2)}:
            return FieldType(name, tuple(parse_type(part) for part in inner))
    types = f"the types are {', '.join(_SIMPLE)}, decimal(p,s), list<t>, map<k,v>; a trailing ? means nullable"
    near = _nearest(name)
    hint = f"did you mean {near}? {types}" if near else types
    raise InvalidInput(f"no field type {text.strip()!r}", hint=hint)


def _check_depth(depth: int) -> None:
    if depth > MOST_NESTED:
        raise InvalidInput(f"lists and maps are nested more than {MOST_NESTED} deep", hint="nest them less deep")


def _nearest(name: str) -> str | None:
    """Return the type that a word which is none may mean, or which was written with what it does not take."""
    if name in _SIMPLE or name in _INSTEAD:
        return _INSTEAD.get(name, name)
    near = difflib.get_close_matches(name, (*_SIMPLE, *_ALIASES), n=1, cutoff=0.7)
    return _ALIASES.get(near[0], near[0]) if near else None


def _split_arguments(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "<(") - (c in ">)")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]
