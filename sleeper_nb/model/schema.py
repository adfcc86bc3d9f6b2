"""A table's schema: its fields, their types, and how to read them from Python, JSON, Arrow or DDL.

A schema has row keys, sort keys and values. A type has three forms: text (``decimal(10,2)``), Sleeper's JSON, and the
Arrow type that stores it. Sleeper has only int, long, string, bytearray, list and map: the JSON of all others
extends it. DDL is the body of ``%%sleeper create``: ``name TYPE [KEY|SORT] [NULL] [DEFAULT 0]``.

A schema also has the rules of the table, which loads keep: defaults, CHECKs and unique keys; and comments.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar, cast

import pyarrow as pa

from sleeper_nb.arguments import checked, described
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.model.constants import constant, constant_text
from sleeper_nb.model.sql_values import quoted_text
from sleeper_nb.report import Grid, Report

KEY_TYPES = ("int", "long", "string", "bytearray", "date", "timestamp")
"""The types of row keys and sort keys. Order: numbers and times by value, strings by UTF-8 bytes, bytes unsigned.

Sleeper has no dates and timestamps, so it cannot read a schema with them.
"""

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
    "time": (pa.time64("us"), "TimeType"),
    "tinyint": (pa.int8(), "TinyIntType"),
    "smallint": (pa.int16(), "SmallIntType"),
    "uuid": (pa.string(), "UuidType"),  # as its text: Spark cannot read Parquet's UUID
}
SIMPLE_TYPES = tuple(_SIMPLE)
"""The types without arguments."""
_ALIASES = {
    "integer": "int", "int32": "int", "bigint": "long", "int64": "long", "str": "string", "varchar": "string",
    "text": "string", "utf8": "string", "bytes": "bytearray", "binary": "bytearray", "blob": "bytearray",
    "float64": "double", "real": "float", "float32": "float", "bool": "boolean",
    "timestamptz": "timestamp", "datetime": "timestamp", "array": "list",
    "int16": "smallint", "short": "smallint", "byte": "tinyint", "guid": "uuid", "doubleprecision": "double",
    "timestampwithtimezone": "timestamp", "timestampwithlocaltimezone": "timestamp",
}  # fmt: skip
_INSTEAD = {
    "int8": "tinyint (8 bits) or long (8 bytes)",
    **dict.fromkeys(("utinyint", "uint8"), "smallint"),
    **dict.fromkeys(("usmallint", "uint16"), "int"),
    **dict.fromkeys(("uinteger", "uint32"), "long"),
    **dict.fromkeys(("ubigint", "uint64"), "decimal(20,0)"),
    **dict.fromkeys(("char", "json", "enum"), "string"),
    **dict.fromkeys(("interval", "duration"), "long, such as a number of microseconds"),
    **dict.fromkeys(("row", "record", "struct"), "struct<a:int,b:string?>"),
    **dict.fromkeys(("timestamp_ntz", "timestamp_ltz", "timestampwithouttimezone"), "timestamp"),
    **dict.fromkeys(("decimal", "numeric", "number", "hugeint"), "decimal(p,s) with s ≤ p ≤ 38"),
}
"""For types that other systems have, the type here that holds their values."""
MOST_NESTED = 20
"""How deep lists, maps and structs may be nested: deeper than real data, shallow enough for every engine."""
_NAME = re.compile(r"[^\W\d][\w$]*")
_JSON_NAMES = {json: name for name, (_, json) in _SIMPLE.items()}


def holds_text(arrow: pa.DataType) -> bool:
    """Return whether a column of an Arrow type holds text, at any depth."""
    types = pa.types
    if types.is_dictionary(arrow) or types.is_run_end_encoded(arrow):
        return holds_text(arrow.value_type)
    if types.is_nested(arrow):
        return any(holds_text(arrow.field(i).type) for i in range(arrow.num_fields))
    return any(test(arrow) for test in (types.is_string, types.is_large_string, types.is_string_view))


def is_list_type(arrow: pa.DataType) -> bool:
    """Return whether values of an Arrow type are lists: of any length or a fixed one, with offsets of any size."""
    types = pa.types
    tests = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    return any(test(arrow) for test in tests)


def is_utf8(column: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether all text of a column is UTF-8; Arrow does not check that when it reads or receives a column.

    Text outside the slice of a sliced list column is checked too.
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
    """The type of a field; equal text means equal type.

    Parameters
    ----------
    name
        ``int``, ``long``, ``string``, ``bytearray``, ``double``, ``float``, ``boolean``, ``date``, ``timestamp``
        (an instant, microseconds, UTC), ``time`` (of a day, microseconds), ``tinyint``, ``smallint``, ``uuid`` (its
        text), ``decimal``, ``list``, ``map`` or ``struct``.
    arguments
        Precision and scale of a decimal; the types of a list's elements, or of a map's keys and values; the members of
        a struct.
    """

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.arguments[0]},{self.arguments[1]})"
        if self.arguments:
            return f"{self.name}<{','.join(str(a) for a in self.arguments)}>"
        return self.name

    def holds(self, *names: str) -> bool:
        """Return whether this is a type of one of some names, or has one inside."""
        inner = (each.type if isinstance(each, Member) else each for each in self.arguments)
        return self.name in names or any(isinstance(each, FieldType) and each.holds(*names) for each in inner)

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of a column of this type, in memory and in Parquet.

        Fields of structs are nullable there, whatever they are here: where the struct is null, they have no value.
        Loads check that a field which is not nullable has no nulls.
        """
        if self.name == "decimal":
            return pa.decimal128(*self.arguments)
        if self.name == "list":
            return pa.list_(self.arguments[0].arrow)
        if self.name == "map":
            return pa.map_(self.arguments[0].arrow, self.arguments[1].arrow)
        if self.name == "struct":
            return pa.struct([(member.name, member.type.arrow) for member in self.arguments])
        return _SIMPLE[self.name][0]

    def to_json(self) -> Any:
        """Return Sleeper's JSON of the type: ``"IntType"``, ``{"ListType": …}``."""
        if self.name == "decimal":
            return {"DecimalType": {"precision": self.arguments[0], "scale": self.arguments[1]}}
        if self.name == "list":
            return {"ListType": {"elementType": self.arguments[0].to_json()}}
        if self.name == "map":
            return {"MapType": {"keyType": self.arguments[0].to_json(), "valueType": self.arguments[1].to_json()}}
        if self.name == "struct":
            return {"StructType": {"fields": [member.to_json() for member in self.arguments]}}
        return _SIMPLE[self.name][1]

    @classmethod
    def from_json(cls, value: Any) -> FieldType:
        """Read what `to_json` wrote.

        `InvalidInput` when it is not the JSON of a type, or is nested deeper than `MOST_NESTED`.
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
            if kind == "StructType":
                return _struct(
                    Member(each["name"], cls._from_json(each["type"], depth + 1), bool(each.get("nullable", False)))
                    for each in body["fields"]
                )
        except InvalidInput:
            raise
        except (AttributeError, KeyError, TypeError, ValueError):
            pass
        known = ", ".join((*_JSON_NAMES, "DecimalType", "ListType", "MapType", "StructType"))
        raise InvalidInput(f"unknown field type {value!r}", hint=f"the types are {known}")

    @classmethod
    def from_arrow(cls, arrow: pa.DataType) -> FieldType:
        """Return the type that stores an Arrow type without loss.

        `InvalidInput` when there is none (unsigned 64-bit numbers, durations), or it is nested deeper than
        `MOST_NESTED`.
        """
        return cls._from_arrow(arrow, 0)

    @classmethod
    def _from_arrow(cls, arrow: pa.DataType, depth: int) -> FieldType:
        _check_depth(depth)
        for name, (own, _) in _SIMPLE.items():
            if arrow == own:
                return cls(name)
        if pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
            return cls._from_arrow(arrow.value_type, depth)
        if pa.types.is_timestamp(arrow):
            return cls("timestamp")
        if pa.types.is_struct(arrow):
            inner = ((each.name, cls._from_arrow(each.type, depth + 1), each.nullable) for each in arrow)
            return _struct(Member(*each) for each in inner)
        for test, name in _WIDER:
            if test(arrow):
                return cls(name)
        if pa.types.is_decimal(arrow) and arrow.precision <= 38:
            return cls("decimal", (arrow.precision, arrow.scale))
        if is_list_type(arrow):
            return cls("list", (cls._from_arrow(arrow.value_type, depth + 1),))
        if pa.types.is_map(arrow):
            of = arrow.key_type, arrow.item_type
            return cls("map", tuple(cls._from_arrow(each, depth + 1) for each in of))
        raise InvalidInput(f"no field type can hold the Arrow type {arrow}", hint=_hint_to_cast(arrow))


def _hint_to_cast(arrow: pa.DataType) -> str:
    if pa.types.is_uint64(arrow):
        return "cast it to decimal(20,0), or to long if all values are below 2^63"
    if pa.types.is_duration(arrow):
        return "cast it to a number of microseconds: a long"
    if pa.types.is_decimal(arrow):
        return "cast it to a decimal of at most 38 digits, or to string"
    return "cast the column, or leave it out"


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a struct; named as columns are."""

    name: str
    type: FieldType
    nullable: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)

    def __str__(self) -> str:
        return f"{self.name}:{self.type}{'?' if self.nullable else ''}"

    def to_json(self) -> dict[str, Any]:
        nullable = {"nullable": True} if self.nullable else {}
        return {"name": self.name, "type": self.type.to_json(), **nullable}


def _struct(members: Iterable[Member]) -> FieldType:
    known = tuple(members)
    if not known:
        raise InvalidInput("a struct has no fields", hint="write struct<a:int,b:string?>")
    seen: set[str] = set()
    for each in known:
        if each.name.casefold() in seen:  # Spark and DuckDB fold case
            raise InvalidInput(f"field {each.name!r} of a struct occurs twice", hint="give each field another name")
        seen.add(each.name.casefold())
    return FieldType("struct", known)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        hint = "use letters, digits and _, and start with a letter or _"
        raise InvalidInput(f"{name!r} is not a valid field name", hint=hint)


_WIDER = (
    (lambda t: isinstance(t, pa.UuidType), "uuid"),
    (lambda t: isinstance(t, pa.JsonType), "string"),
    (lambda t: isinstance(t, pa.Bool8Type), "boolean"),
    (pa.types.is_uint8, "smallint"),
    (pa.types.is_uint16, "int"),
    (pa.types.is_time, "time"),
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

    The fields of a struct are written ``struct<name:string,age:int?>``; their names keep their case. DuckDB's words are
    read too: ``INTEGER[]``, ``MAP(VARCHAR, BIGINT)`` and ``STRUCT(name VARCHAR)``, whose fields may be NULL.

    `InvalidInput` when the text is not a type (the hint names the nearest one), or is nested deeper than `MOST_NESTED`.
    """
    return _parse(text.strip(), 0)


def _parse(text: str, depth: int) -> FieldType:
    _check_depth(depth)
    if text.endswith("[]"):
        return FieldType("list", (_parse(text[:-2].strip(), depth + 1),))
    head, bracket, rest = re.split(r"([<(])", text, maxsplit=1) if "<" in text or "(" in text else (text, "", "")
    name = re.sub(r"\s+", "", head).lower()
    name, rest = _ALIASES.get(name, name), rest.strip()
    if not bracket and name in _SIMPLE:
        return FieldType(name)
    if name in {"decimal", "numeric"} and (digits := _PRECISION.fullmatch(rest)):
        precision, scale = int(digits[1]), int(digits[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return FieldType("decimal", (precision, scale))
    if bracket and rest.endswith(_CLOSING[bracket]):
        inner = _split_arguments(rest[:-1])
        if (name, len(inner)) in {("list", 1), ("map", 2)}:
            return FieldType(name, tuple(_parse(part.strip(), depth + 1) for part in inner))
        if name == "struct":
            return _struct(_parse_member(part, depth + 1, all_nullable=bracket == "(") for part in inner)
    types = f"the types are {', '.join(_SIMPLE)}, decimal(p,s), list<t>, map<k,v>, struct<a:t>"
    types += "; a trailing ? means nullable"
    near = _nearest(name)
    hint = f"did you mean {near}? {types}" if near else types
    raise InvalidInput(f"unknown field type {text!r}", hint=hint)


_CLOSING = {"<": ">", "(": ")"}
_PRECISION = re.compile(r"\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_SIZED = re.compile(r"(.+)\[\d+\]")
_MEMBER = re.compile(r"\s*([^\s:<]+)(?:\s*:\s*|\s+)(.+)", re.DOTALL)


def _parse_member(text: str, depth: int, *, all_nullable: bool) -> Member:
    match = _MEMBER.fullmatch(text)
    if match is None:
        raise InvalidInput(
            f"a field of a struct is {text.strip()!r}", hint="write its name and type: struct<a:int,b:string?>"
        )
    kind = match[2].strip()
    of_type = _parse(kind.removesuffix("?").strip(), depth)
    return Member(match[1], of_type, all_nullable or kind.endswith("?"))


def _check_depth(depth: int) -> None:
    if depth > MOST_NESTED:
        raise InvalidInput(f"lists, maps and structs are nested more than {MOST_NESTED} deep", hint="use fewer levels")


def _nearest(name: str) -> str | None:
    if sized := _SIZED.fullmatch(name):
        return f"{sized[1]}[]"
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


_PARTS = (("row_keys", "rowKeyFields"), ("sort_keys", "sortKeyFields"), ("values", "valueFields"))
_RETIRED, _CHECKS, _COMMENT, _UNIQUE = "retiredColumns", "checks", "comment", "uniqueKeys"


@dataclass(frozen=True, slots=True)
class Field:
    """A named, typed column; only values can be nullable.

    Parameters
    ----------
    stored
        The name of the column in data files; None when it is `name`.
    late
        Whether older data files may lack the column, or hold it with a narrower type.
    default
        The value in rows whose load does not name the column: a Python value of the type, or its text. None for none.
    comment
        What the column means; None for none.
    """

    name: str
    type: FieldType
    nullable: bool = False
    stored: str | None = None
    late: bool = False
    default: Any = None
    comment: str | None = None

    def __post_init__(self) -> None:
        name, of_type = cast("tuple[object, object]", (self.name, self.type))  # callers may pass anything
        if not isinstance(name, str) or not isinstance(of_type, FieldType):
            message = f"a field cannot be made of {described(name)} and {described(of_type)}"
            raise InvalidInput(message, hint='write sl.Schema({"id": "string"}), or give fields of another schema')
        _check_name(self.name)
        if self.stored == self.name:
            object.__setattr__(self, "stored", None)
        if self.default is not None:
            object.__setattr__(self, "default", _default_of(self))
        object.__setattr__(self, "comment", checked_comment(self.comment, f"column {self.name!r}"))

    @property
    def column(self) -> str:
        """The name of the column in data files."""
        return self.stored or self.name

    @property
    def text(self) -> str:
        """The type as written in a schema: ``double?`` for a nullable double."""
        return f"{self.type}{'?' if self.nullable else ''}"

    @property
    def default_text(self) -> str | None:
        """The default as text: ``0``, ``2026-01-31``; None for none."""
        return None if self.default is None else constant_text(self.default, self.type.arrow)

    @property
    def default_literal(self) -> str | None:
        """The default as it is written in SQL: ``0``, ``'text'``; None for none."""
        return None if self.default is None else _literal_text(self)

    @property
    def definition(self) -> str:
        """The type, default and comment, as in a line of ``%%sleeper create``: ``double? DEFAULT 0``."""
        default = "" if self.default is None else f" DEFAULT {_literal_text(self)}"
        return f"{self.text}{default}{'' if self.comment is None else f' COMMENT {quoted_text(self.comment)}'}"

    @property
    def arrow(self) -> pa.Field:
        """The Arrow field of the column in memory and in Parquet."""
        return pa.field(self.name, self.type.arrow, nullable=self.nullable)


def _default_of(field: Field) -> Any:
    try:
        return constant(field.default, field.type.arrow, str(field.type))
    except InvalidInput as error:
        raise InvalidInput(f"default of column {field.name!r}: {error.message}", hint=error.hint_parts) from error


def checked_comment(comment: object, of: str) -> str | None:
    """Return a comment, None for an empty one; raise when it is not text."""
    if comment is not None and not isinstance(comment, str):
        raise InvalidInput(f"the comment of {of} is {described(comment)}, not text", hint='write comment="in dollars"')
    try:
        (comment or "").encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"the comment of {of} is not UTF-8", hint="write it as text") from error
    return comment or None


def _literal_text(field: Field) -> str:
    """Return a default as DDL writes it: numbers and booleans bare, anything else in quotes."""
    text = field.default_text or ""
    if isinstance(field.default, bytes):
        return f"X'{text}'"
    types = pa.types
    bare = any(test(field.type.arrow) for test in (types.is_integer, types.is_decimal, types.is_boolean))
    return text if bare or (isinstance(field.default, float) and _BARE.fullmatch(text)) else quoted_text(text)


_BARE = re.compile(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK of a table: a condition on one row, in SQL. Loads refuse rows for which it is false; NULL passes."""

    name: str
    condition: str

    def __post_init__(self) -> None:
        for what in (self.name, self.condition):
            if not isinstance(cast("object", what), str):
                raise InvalidInput(f"a check cannot be made of {described(what)}", hint=_CHECK_HINT)
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(f"{self.name!r} is not a valid name of a check", hint=_CHECK_HINT)
        if not self.condition.strip():
            raise InvalidInput(f"check {self.name!r} has no condition", hint=_CHECK_HINT)
        object.__setattr__(self, "condition", self.condition.strip())

    def __str__(self) -> str:
        return f"{self.name}: {self.condition}"


_CHECK_HINT = 'write checks={"fare_positive": "fare >= 0"}'
Fields = Mapping[str, Any] | Iterable[Field]
Checks = Mapping[str, str] | Iterable[Check]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Schema(Report):
    """Row keys that partition and sort the table, sort keys that order rows of equal row keys, and values.

    Parameters
    ----------
    row_keys
        At least one; ``{"carrier": "string", "flight": "int"}``. Types: int, long, string, bytearray; also date and
        timestamp in the years 1 to 9999, which Sleeper does not have.
    sort_keys
        Types: those of row keys.
    values
        Any type; a trailing ``?`` makes a value nullable: ``{"dep_delay": "double?"}``.
    retired
        Columns of older data files that are no longer read; no field may use their names in data files.
    checks
        Conditions that each row must meet, by name, as after ``WHERE``: ``{"fare_positive": "fare >= 0"}``.
    comment
        What the table holds.
    unique_keys
        Whether no two rows may have the same row keys.

    Attributes
    ----------
    fields, names
        All fields, and their names: row keys, sort keys, values.
    arrow
        The Arrow schema of the table's rows and data files.
    sort_order
        The columns by which every data file is sorted, ascending: row keys, then sort keys.
    is_renamed
        Whether some column has another name in data files.

    Raises
    ------
    InvalidInput
        When a name is used twice, a type is unknown, or a key has a type that keys cannot have.
    """

    EXAMPLE: ClassVar[str] = 'sl.Schema({"city": "string"}, {"at": "timestamp"}, {"fare": "double?"})'

    row_keys: tuple[Field, ...]
    sort_keys: tuple[Field, ...]
    values: tuple[Field, ...]
    retired: tuple[str, ...]
    checks: tuple[Check, ...]
    comment: str | None
    unique_keys: bool
    fields: tuple[Field, ...] = dataclasses.field(init=False, compare=False)
    names: tuple[str, ...] = dataclasses.field(init=False, compare=False)
    arrow: pa.Schema = dataclasses.field(init=False, compare=False)
    sort_order: tuple[str, ...] = dataclasses.field(init=False, compare=False)
    is_renamed: bool = dataclasses.field(init=False, compare=False)

    @checked
    def __init__(
        self,
        row_keys: Fields,
        sort_keys: Fields = (),
        values: Fields = (),
        retired: Iterable[str] = (),
        checks: Checks = (),
        comment: str | None = None,
        unique_keys: bool = False,
    ) -> None:
        for name, fields in (("row_keys", row_keys), ("sort_keys", sort_keys), ("values", values)):
            object.__setattr__(self, name, fields_of(fields))
        object.__setattr__(self, "retired", tuple(retired))
        given = [Check(*each) for each in checks.items()] if isinstance(checks, Mapping) else checks
        object.__setattr__(self, "checks", tuple(given))
        object.__setattr__(self, "comment", checked_comment(comment, "the table"))
        object.__setattr__(self, "unique_keys", unique_keys)
        # computed once: a table may have thousands of columns, and reading each row uses some of these
        object.__setattr__(self, "fields", (*self.row_keys, *self.sort_keys, *self.values))
        object.__setattr__(self, "names", tuple(each.name for each in self.fields))
        self._check()
        object.__setattr__(self, "arrow", pa.schema([each.arrow for each in self.fields]))
        object.__setattr__(self, "sort_order", tuple(each.name for each in (*self.row_keys, *self.sort_keys)))
        object.__setattr__(self, "is_renamed", any(each.stored for each in self.fields))

    def _check(self) -> None:
        if not self.row_keys:
            raise InvalidInput(
                "a schema needs at least one row key",
                hint='write KEY after a column: id STRING KEY; in Python row_keys={"id": "string"}',
            )
        seen: set[str] = set()
        for field in self.fields:
            if field.name.casefold() in seen:  # Spark and DuckDB fold case
                raise InvalidInput(f"field {field.name!r} occurs twice", hint="give each field a different name")
            seen.add(field.name.casefold())
        columns: set[str] = set()
        for name in (*(field.column for field in self.fields), *self.retired):
            if name.casefold() in columns:
                raise InvalidInput(
                    f"two fields use column {name!r} of data files", hint="give each field a different column"
                )
            columns.add(name.casefold())
        for role, fields in (("row key", self.row_keys), ("sort key", self.sort_keys)):
            for field in fields:
                if field.type.name not in KEY_TYPES:
                    raise InvalidInput(
                        f"{role} {field.name!r} cannot be a {field.type}",
                        hint=f"a {role} is {', '.join(KEY_TYPES[:-1])} or {KEY_TYPES[-1]}",
                    )
                if field.nullable:
                    raise InvalidInput(f"{role} {field.name!r} cannot be nullable", hint="only values can be null")
                if field.default is not None:
                    hint = "only values can have one; each row names its keys"
                    raise InvalidInput(f"{role} {field.name!r} cannot have a default", hint=hint)
        self._check_rules()

    def _check_rules(self) -> None:
        names: set[str] = set()
        for check in self.checks:
            if not isinstance(cast("object", check), Check):
                raise InvalidInput(f"a check cannot be {described(check)}", hint=_CHECK_HINT)
            if check.name.casefold() in names:
                raise InvalidInput(f"check {check.name!r} occurs twice", hint="give each check a different name")
            names.add(check.name.casefold())

    @property
    def in_files(self) -> Schema:
        """The schema of data files: each field has the name of its column there; `self` when no name differs."""
        if not self.is_renamed:
            return self
        values = [Field(field.column, field.type, field.nullable, late=field.late) for field in self.values]
        return Schema(self.row_keys, self.sort_keys, values, self.retired)

    @property
    def is_altered(self) -> bool:
        """Whether the columns of data files may differ from the fields."""
        return bool(self.retired) or any(field.stored or field.late for field in self.fields)

    @property
    def as_new(self) -> Schema:
        """The schema of a new table with the same fields and rules, which has no older data files."""
        values = tuple(dataclasses.replace(each, stored=None, late=False) for each in self.values)  # keys never change
        return dataclasses.replace(self, values=values, retired=())

    def role(self, name: str) -> str:
        """Return ``"row key"``, ``"sort key"`` or ``"value"``."""
        if any(field.name == name for field in self.row_keys):
            return "row key"
        return "sort key" if any(field.name == name for field in self.sort_keys) else "value"

    @property
    def checksum(self) -> str:
        """The checksum of the schema's file."""
        return checksum_of(self.to_json().encode())

    def to_json(self) -> str:
        """Return Sleeper's JSON of the schema.

        Only altered tables, and those with rules or comments, have members that Sleeper does not know.
        """
        parts: dict[str, Any] = {key: [_field_json(f) for f in getattr(self, attribute)] for attribute, key in _PARTS}
        extra = {
            _RETIRED: list(self.retired),
            _CHECKS: [{"name": each.name, "condition": each.condition} for each in self.checks],
            _COMMENT: self.comment,
            _UNIQUE: self.unique_keys,
        }
        return json.dumps({**parts, **{name: value for name, value in extra.items() if value}}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Read what `to_json` wrote, or a schema file of Sleeper."""
        try:
            body = json.loads(text)
            parts = {attribute: [_field_from(f) for f in body.get(key, [])] for attribute, key in _PARTS}
            retired = tuple(body.get(_RETIRED, ()))
            checks = [Check(each["name"], each["condition"]) for each in body.get(_CHECKS, ())]
            comment, unique = body.get(_COMMENT), body.get(_UNIQUE, False) is True
        except (json.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
            raise InvalidInput(
                f"not the JSON of a schema: {error}", hint='{"rowKeyFields": [{"name": …, "type": …}], …}'
            ) from error
        return cls(**parts, retired=retired, checks=checks, comment=comment, unique_keys=unique)

    @classmethod
    def from_ddl(cls, text: str) -> Schema:
        """Read the body of ``%%sleeper create``: definitions separated by commas or lines.

        A column is ``name TYPE [KEY|SORT] [NULL] [DEFAULT constant] [COMMENT 'text']``. For the table there are
        ``[CONSTRAINT name] CHECK (condition)``, ``UNIQUE KEYS`` and ``COMMENT 'text'``.

        Raises
        ------
        InvalidInput
            When a line cannot be read; the error names it.
        """
        parts: dict[str, list[Field]] = {"KEY": [], "SORT": [], "": []}
        checks: list[Check] = []
        comments: list[str] = []
        unique = False
        for number, definition in _definitions(text):
            if check := _CHECK_LINE.fullmatch(definition):
                name = check["name"] or free_check_name(each.name for each in checks)
                checks.append(Check(name, check["condition"]))
            elif _UNIQUE_LINE.fullmatch(definition):
                unique = True
            elif (comment := _COMMENT_LINE.fullmatch(definition)) and not comments:
                comments.append(_unquoted(comment[1]))
            else:
                role, field = _field_of(number, definition)
                parts[role].append(field)
        comment_text = comments[0] if comments else None
        return cls(parts["KEY"], parts["SORT"], parts[""], checks=checks, comment=comment_text, unique_keys=unique)

    @classmethod
    def from_arrow(cls, schema: pa.Schema, row_keys: Iterable[str], sort_keys: Iterable[str] = ()) -> Schema:
        """Return a schema with the types of Arrow columns; all but the keys become values, nullable as in Arrow.

        A key of 8 or 16 bits becomes an int.
        """
        keys, sorts = tuple(row_keys), tuple(sort_keys)
        for name in (*keys, *sorts):
            if name not in schema.names:
                raise InvalidInput(f"no column {name!r}", hint=f"the columns are {', '.join(schema.names)}")
        types = {f.name: FieldType.from_arrow(f.type) for f in schema}
        types |= {name: FieldType("int") for name in (*keys, *sorts) if types[name].name in {"tinyint", "smallint"}}
        rest = [f for f in schema if f.name not in {*keys, *sorts}]
        return cls(
            [Field(name, types[name]) for name in keys],
            [Field(name, types[name]) for name in sorts],
            [Field(f.name, types[f.name], f.nullable) for f in rest],
        )

    def grid(self) -> Grid:
        """Return one row per field, with defaults and comments where there are any; then the rules of the table."""
        extra = [name for name in ("default", "comment") if any(getattr(f, name) is not None for f in self.fields)]
        rows = tuple(
            (
                *(f.name, self.role(f.name), str(f.type), "yes" if f.nullable else "no"),
                *((f.default_text if name == "default" else f.comment) or "" for name in extra),
            )
            for f in self.fields
        )
        footer = "; ".join(f"{name} {text}" for name, text in self.rules)
        return Grid(("field", "role", "type", "nullable", *extra), rows, footer=footer)

    @property
    def rules(self) -> tuple[tuple[str, str], ...]:
        """The comment, checks and unique keys of the table, as names and texts."""
        keys = ", ".join(field.name for field in self.row_keys)
        return (
            *((("comment", self.comment),) if self.comment else ()),
            *((f"check {each.name}", each.condition) for each in self.checks),
            *((("unique keys", keys),) if self.unique_keys else ()),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments that recreate the schema."""
        parts: dict[str, Any] = {
            attribute: {f.name: _plain(f) for f in getattr(self, attribute)} for attribute, _ in _PARTS
        }
        checks = {each.name: each.condition for each in self.checks}
        extra = {"checks": checks, "comment": self.comment, "unique_keys": self.unique_keys}
        return {**parts, **{name: value for name, value in extra.items() if value}}


def _plain(field: Field) -> str | dict[str, str]:
    extra = {"default": field.default_text, "comment": field.comment}
    given = {name: text for name, text in extra.items() if text is not None}
    return {"type": field.text, **given} if given else field.text


def _field_json(field: Field) -> dict[str, Any]:
    extra: dict[str, Any] = {"nullable": field.nullable, "storedName": field.stored, "addedLater": field.late}
    given = {name: value for name, value in extra.items() if value}
    if field.default is not None:  # an empty text is a default too
        given["default"] = field.default_text
    if field.comment is not None:
        given["comment"] = field.comment
    return {"name": field.name, "type": field.type.to_json(), **given}


def _field_from(body: Any) -> Field:
    nullable, late = bool(body.get("nullable", False)), bool(body.get("addedLater", False))
    return Field(
        body["name"], FieldType.from_json(body["type"]), nullable, body.get("storedName"), late,
        body.get("default"), body.get("comment"),
    )  # fmt: skip


_COMMENT_HINT = "write comments after --, not after #"
_KEY_HINT = "write KEY after each row key; to refuse rows with equal row keys, write UNIQUE KEYS in a line of its own"
_LINE_HINT = "write: name TYPE [KEY|SORT] [NULL] [DEFAULT 0] [COMMENT 'text'], or CHECK (condition)"
_QUOTED = re.compile(r"""["'`\[]([^"'`\]]+)["'`\]](.*)""", re.DOTALL)
_STRING = r"'(?:[^']|'')*'"
_LITERAL = rf"(?:(?:DATE|TIME|TIMESTAMPTZ|TIMESTAMP|UUID|X)\s*)?{_STRING}|[-+]?[\w.]+(?:(?<=[eE])[-+]\d+)?"
_OPTION = re.compile(
    rf"\s+(?:(?P<role>KEY|SORT)|(?P<not>NOT\s+)?(?P<null>NULL)|DEFAULT\s+(?P<default>{_LITERAL})"
    rf"|COMMENT\s+(?P<comment>{_STRING}))(?=\s|$)",
    re.IGNORECASE,
)
_WORDS = r"DOUBLE\s+PRECISION|TIMESTAMP\s+WITH\s+(?:LOCAL\s+)?TIME\s+ZONE"
_DEFINITION = re.compile(
    rf"(?P<name>[^\s,]+)\s+(?P<type>(?:{_WORDS}|\w+|\w+\s*\([^']*\)|\w+\s*<.*>)(?:\s*\[\])*\??)"
    rf"(?P<options>(?:{re.sub(r'[?]P<[a-z]+>', '?:', _OPTION.pattern)})*)",
    re.IGNORECASE,
)
_CHECK_LINE = re.compile(r"(?:CONSTRAINT\s+(?P<name>\S+)\s+)?CHECK\s*\((?P<condition>.*)\)", re.IGNORECASE | re.DOTALL)
_UNIQUE_LINE = re.compile(r"UNIQUE\s+KEYS", re.IGNORECASE)
_COMMENT_LINE = re.compile(rf"COMMENT\s+({_STRING})", re.IGNORECASE)


def free_check_name(taken: Iterable[str]) -> str:
    names = {name.casefold() for name in taken}
    return next(free for i in count(1) if (free := f"check_{i}") not in names)


def parse_field(definition: str) -> Field:
    """Return the value field that a line of ``%%sleeper create`` defines: ``fare DOUBLE NULL DEFAULT 0``.

    `InvalidInput` when it cannot be read, or defines a key.
    """
    name, _, kind = definition.partition(" ")
    if "?" in kind or _DEFINITION.fullmatch(definition) is None:  # such as a type with spaces in it
        with suppress(InvalidInput):
            (field,) = fields_of({name: kind})
            return field
    role, field = _field_of(None, definition)
    if role:
        raise InvalidInput(f"column {name!r} cannot be a key", hint="only value columns can be added")
    return field


def _field_of(number: int | None, definition: str) -> tuple[str, Field]:
    match, line = _DEFINITION.fullmatch(definition), "" if number is None else f"line {number}: "
    if match is None:
        raise InvalidInput(f"{line}cannot read {definition!r}", hint=_definition_hint(definition))
    options: dict[str, str] = {}
    for option in _OPTION.finditer(match["options"]):
        given = {name: text for name, text in option.groupdict().items() if text is not None}
        if options.keys() & given.keys():
            hint = f"write {next(iter(given)).upper()} once"
            raise InvalidInput(f"{line}cannot read {definition!r}", hint=hint)
        options |= given
    try:
        of_type, is_null = parse_type(match["type"].rstrip("?")), "null" in options and "not" not in options
        default = _default_in(options, match["name"], of_type)
        comment = _unquoted(options["comment"]) if "comment" in options else None
        nullable = is_null or match["type"].endswith("?")
        field = Field(match["name"], of_type, nullable, default=default, comment=comment)
    except InvalidInput as error:
        if "#" not in definition:
            raise
        raise InvalidInput(f"{line}cannot read {definition!r}", hint=_COMMENT_HINT) from error
    return options.get("role", "").upper(), field


def _default_in(options: Mapping[str, str], name: str, of_type: FieldType) -> Any:
    try:
        return constant_of_literal(options["default"], of_type) if "default" in options else None
    except InvalidInput as error:
        raise InvalidInput(f"default of column {name!r}: {error.message}", hint=error.hint_parts) from error


def constant_of_literal(text: str, of_type: FieldType) -> Any:
    """Return the constant that a literal of SQL means for a type; None for NULL.

    `InvalidInput` when the type cannot hold it exactly, or a text has no quotes.
    """
    if text.upper() == "NULL":
        return None
    quote = text.find("'")
    if quote < 0 and of_type.name in {"string", "bytearray"}:
        hint = "write it in quotes: 'JFK'" if of_type.name == "string" else "write X'00ff'"
        raise InvalidInput(f"{text} is not a constant of type {of_type}", hint=hint)
    if of_type.name == "bytearray" and not text.upper().startswith("X"):
        raise InvalidInput(f"{text} is not a constant of type {of_type}", hint="write X'00ff'")
    return constant(text if quote < 0 else _unquoted(text[quote:]), of_type.arrow, str(of_type))


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _definition_hint(definition: str) -> str:
    if quoted := _QUOTED.fullmatch(definition):
        name = re.sub(r"\W+", "_", quoted[1].strip())
        return f"write {name}{quoted[2]}: names have no quotes, only letters, digits and _"
    if re.search(r"\bPRIMARY\s+KEY\b", definition, re.IGNORECASE):
        return _KEY_HINT
    return _COMMENT_HINT if "#" in definition else _LINE_HINT


def fields_of(fields: Fields) -> tuple[Field, ...]:
    """Return fields given as ``{"note": "string?"}``, or as `Field` values."""
    if not isinstance(fields, Mapping):
        given = tuple(fields)
        if not all(isinstance(field, Field) for field in given):
            raise InvalidInput(f"{described(fields)} has no field types", hint='write {"id": "string", "n": "int"}')
        return given
    return tuple(_given_field(name, given) for name, given in fields.items())


_MEMBERS = ("type", "default", "comment")


def _given_field(name: str, given: Any) -> Field:
    members = given if isinstance(given, Mapping) else {"type": given}
    if unknown := [each for each in members if each not in _MEMBERS]:
        raise NotFound.of("member", str(unknown[0]), _MEMBERS, where=f" of field {name!r}")
    text = members.get("type")
    if not isinstance(text, str):
        raise InvalidInput(f"the type of field {name!r} is {text!r}, not text", hint='write {"id": "string"}')
    of_type, nullable = parse_type(text.strip().removesuffix("?")), text.strip().endswith("?")
    return Field(name, of_type, nullable, default=members.get("default"), comment=members.get("comment"))


def _definitions(text: str) -> list[tuple[int, str]]:
    """Return each definition with its line; ``--`` begins a comment, except in quotes."""
    definitions = []
    for number, line in enumerate(text.splitlines(), 1):
        parts, is_open = _parts_of(line)
        if is_open:
            raise InvalidInput(f"line {number}: a bracket or quote is not closed in {line.strip()!r}", hint="close it")
        definitions += [(number, part.strip()) for part in parts if part.strip()]
    return definitions


def _parts_of(line: str) -> tuple[list[str], bool]:
    """Split a line at commas outside brackets and quotes; return also whether a bracket or quote stays open."""
    parts, part, quoted = [], "", False
    brackets: list[str] = []
    for place, c in enumerate(line):
        if not quoted and line.startswith("--", place):
            break
        quoted ^= c == "'"
        if not quoted and (c in "()" or (c in "<>" and "(" not in brackets)):  # in (), < and > compare
            if c in ")>" and brackets:
                brackets.pop()
            else:
                brackets.append(c)
        if c == "," and not brackets and not quoted:
            parts.append(part)
            part = ""
        else:
            part += c
    return [*parts, part], bool(brackets) or quoted


# A schema in a file: Sleeper's JSON, or lines of our own.

_QUOTED_WORD = re.compile(r"'([^']+)'")


def read_schema(text: str, source: str) -> Schema:
    """Return the schema that a file holds: Sleeper's JSON, or lines as `Schema.from_ddl` takes them.

    `InvalidInput`: names the source, and the line where that is known.
    """
    is_json = text.lstrip().startswith("{")
    try:
        return Schema.from_json(text) if is_json else Schema.from_ddl(text)
    except SleeperError as error:
        message = f"{source}: {error.message}"
        word = _QUOTED_WORD.search(error.message)
        if is_json and word and "line " not in error.message:
            lines = [number for number, line in enumerate(text.splitlines(), 1) if f'"{word[1]}"' in line]
            message = f"line {lines[-1]} of {message}" if lines else message
        raise InvalidInput(message, hint=error.hint_parts) from error
