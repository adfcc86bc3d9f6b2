"""What a Spark task tells the driver of the data file that it wrote: one row for each leaf that has rows of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sleeper_nb.engines.spark.frames import columns_text
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.types import FieldType
from sleeper_nb.storage.data_files import DataFile


def _fields(schema: Schema) -> list[Field]:
    whole = [Field(name, FieldType("long")) for name in ("leaf", "leaf_rows", "attempt", "rows", "bytes")]
    keys = [Field(f"{end}_{key.name}", key.type) for end in ("min", "max") for key in schema.row_keys]
    return [*whole, Field("filename", FieldType("string")), Field("checksum", FieldType("string")), *keys]


def result_ddl(schema: Schema) -> str:
    """Return Spark's columns of `result`."""
    return columns_text(_fields(schema))


def result(
    file: DataFile | None, schema: Schema, leaf_rows: Mapping[int, int] | None = None, attempt: int = 0
) -> pa.RecordBatch:
    """Return what a task tells: its file, None when it had no rows; and of how many rows of which leaf that is.

    Parameters
    ----------
    file
        What the task wrote.
    schema
        The table's schema.
    leaf_rows
        By the place of each leaf in the tree's leaves; nothing where the driver knows it.
    attempt
        How often the task was begun before.
    """
    row: dict[str, Any] = {"rows": 0, "attempt": attempt, "leaf": 0, "leaf_rows": 0}
    if file is not None:
        row |= {"filename": file.filename, "rows": file.rows, "bytes": file.bytes, "checksum": file.checksum}
        row |= {f"min_{key.name}": value for key, value in zip(schema.row_keys, file.min_key, strict=True)}
        row |= {f"max_{key.name}": value for key, value in zip(schema.row_keys, file.max_key, strict=True)}
    columns = pa.schema([pa.field(field.name, field.type.arrow) for field in _fields(schema)])
    rows = [{**row, "leaf": leaf, "leaf_rows": count} for leaf, count in (leaf_rows or {0: 0}).items()]
    return pa.RecordBatch.from_pylist(rows, schema=columns)


def data_file(row: Any, schema: Schema) -> DataFile | None:
    """Return the file that a row of `result` is of; None when the task had no rows."""
    if not row["rows"]:
        return None
    least, greatest = (
        tuple(bytes(v) if isinstance(v := row[f"{end}_{key.name}"], bytearray) else v for key in schema.row_keys)
        for end in ("min", "max")
    )
    return DataFile(row["filename"], row["rows"], row["bytes"], least, greatest, row["checksum"])
