"""How SQL writes names, texts and types; and parts of SQL that a user wrote, as values.

They know where they were written. Python values may stand among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

if TYPE_CHECKING:
    from sleeper_nb.model.schema import FieldType


def quoted_name(name: str, mark: str = '"') -> str:
    """Return the name of a column or table quoted for SQL; Spark's quotation mark is a backtick."""
    return mark + name.replace(mark, mark * 2) + mark


def quoted_text(text: str) -> str:
    return quoted_name(text, "'")


_TYPES_OF_FIELDS: Final[Mapping[str, str]] = {
    "int": "INTEGER", "long": "BIGINT", "string": "VARCHAR", "bytearray": "BLOB", "double": "DOUBLE", "float": "FLOAT",
    "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMPTZ", "time": "TIME", "tinyint": "TINYINT",
    "smallint": "SMALLINT", "uuid": "UUID",
}  # fmt: skip


def duckdb_type(kind: FieldType) -> str:
    if kind.name == "list":
        return f"{duckdb_type(kind.arguments[0])}[]"
    if kind.name == "map":
        return f"MAP({', '.join(map(duckdb_type, kind.arguments))})"
    if kind.name == "struct":
        members = (f"{quoted_name(each.name)} {duckdb_type(each.type)}" for each in kind.arguments)
        return f"STRUCT({', '.join(members)})"
    return str(kind).upper() if kind.name == "decimal" else _TYPES_OF_FIELDS[kind.name]


# What a user wrote.

Dialect = Literal["duckdb", "spark"]
"""Which engine's SQL a text is in; a statement is read in this order when its engine is not named."""
DIALECTS: Final[tuple[Dialect, ...]] = get_args(Dialect)


@dataclass(frozen=True, slots=True)
class Written:
    """A text of SQL as a user wrote it, and which engine's SQL it is."""

    text: str
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of what a user wrote, byte for byte: a condition, a value, a relation; and where it begins."""

    text: str
    at: int
    written: Written = field(repr=False)

    @property
    def end(self) -> int:
        return self.at + len(self.text)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class QueryPart:
    """The query in a statement that writes: the whole text without a span, which is of our own grammar."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Name:
    """A name, without quotes, and where it begins in what a user wrote."""

    text: str
    at: int = 0

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Given:
    """A Python value in the place of an expression."""

    value: Any
