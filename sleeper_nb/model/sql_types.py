"""How SQL writes the types of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sleeper_nb.model.schema import FieldType
from sleeper_nb.model.sql_quotes import quoted_name

_TYPES_OF_FIELDS: Final[Mapping[str, str]] = {
    "int": "INTEGER", "long": "BIGINT", "string": "VARCHAR", "bytearray": "BLOB", "double": "DOUBLE", "float": "FLOAT",
    "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMPTZ", "time": "TIME", "tinyint": "TINYINT",
    "smallint": "SMALLINT", "uuid": "UUID",
}  # fmt: skip


def duckdb_type(kind: FieldType) -> str:
    """Return DuckDB's type of a field's values."""
    if kind.name == "list":
        return f"{duckdb_type(kind.arguments[0])}[]"
    if kind.name == "map":
        return f"MAP({', '.join(map(duckdb_type, kind.arguments))})"
    if kind.name == "struct":
        members = (f"{quoted_name(each.name)} {duckdb_type(each.type)}" for each in kind.arguments)
        return f"STRUCT({', '.join(members)})"
    return str(kind).upper() if kind.name == "decimal" else _TYPES_OF_FIELDS[kind.name]
