"""One partition's use of one data file: as a value, and as a row of the columns that keep a million of them.

A reference says that a partition takes rows from a data file. It is live in the snapshots [added, removed). A removed
reference stays as `READY_FOR_GC` until the garbage collector has deleted its file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.schema import Schema

ACTIVE = "ACTIVE"
READY_FOR_GC = "READY_FOR_GC"

TIME = pa.timestamp("us", tz="UTC")
PAIR = ("partition_id", "filename")
"""The columns that name a reference among the active ones of a snapshot."""
KEY_COLUMNS = ("min_", "max_")
"""How the names of columns begin that tell of row keys; a removed reference has none there, as nothing reads it."""
_COLUMNS = (
    pa.field("filename", pa.string(), nullable=False),  # below the table's folder, with / between its parts
    pa.field("partition_id", pa.string(), nullable=False),
    pa.field("rows", pa.int64(), nullable=False),
    pa.field("rows_exact", pa.bool_(), nullable=False),
    pa.field("only_this_partition", pa.bool_(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("job_id", pa.string()),  # the compaction job that wrote the file; null for ingested files
    pa.field("checksum", pa.string()),  # of the whole file; null for files of releases that kept none
    pa.field("status", pa.string(), nullable=False),
    pa.field("added_snapshot", pa.int64(), nullable=False),
    pa.field("removed_snapshot", pa.int64()),
    pa.field("updated_at", TIME, nullable=False),
)


@dataclass(frozen=True, slots=True)
class FileReference:
    """One partition's use of one data file.

    Parameters
    ----------
    filename
        The file's path below the table's folder.
    partition_id
        The partition that takes rows from it.
    rows, bytes
        Rows of the file in this partition's region; bytes of the whole file.
    min_key, max_key
        Least and greatest value of each row key in the file, in the schema's order.
    rows_exact
        Whether `rows` was counted; False for an estimate.
    only_this_partition
        Whether all rows of the file are in this partition's region; if not, a reader filters.
    job_id
        The compaction job that wrote the file.
    checksum
        Of the whole file (`sleeper_nb.model.checksums`); None for files of releases that kept none.
    """

    filename: str
    partition_id: str
    rows: int
    bytes: int
    min_key: tuple[KeyValue, ...]
    max_key: tuple[KeyValue, ...]
    rows_exact: bool = field(default=True, kw_only=True)
    only_this_partition: bool = field(default=True, kw_only=True)
    job_id: str | None = field(default=None, kw_only=True)
    checksum: str | None = field(default=None, kw_only=True)


def files_schema(schema: Schema) -> pa.Schema:
    """Return the columns of `FileReferences.table`: those above, then typed ``min_…`` and ``max_…`` of each row key."""
    keys = [pa.field(f"{end}_{f.name}", f.type.arrow) for f in schema.row_keys for end in ("min", "max")]
    return pa.schema([*_COLUMNS, *keys])


def completed(references: pa.Table) -> pa.Table:
    """Return references as an older release wrote them with the columns that it did not have, which are null."""
    for place, column in enumerate(_COLUMNS):
        if column.nullable and column.name not in references.column_names:
            references = references.add_column(place, column, pa.nulls(references.num_rows, column.type))
    return references


def of_other_keys(removed: pa.Table, schema: Schema) -> pa.Table:
    """Return removed references with the columns for the row keys of another schema, which are null."""
    columns = files_schema(schema)
    there = {name: removed[name] for name in removed.column_names if not name.startswith(KEY_COLUMNS)}
    nothing = {f.name: pa.nulls(removed.num_rows, f.type) for f in columns if f.name not in there}
    return pa.table({**there, **nothing}).select(columns.names).cast(columns)


def to_values(rows: pa.Table) -> Iterator[FileReference]:
    """Yield the references that rows hold."""
    keys = [name[4:] for name in rows.column_names if name.startswith("min_")]
    for row in rows.to_pylist():
        yield FileReference(
            row["filename"],
            row["partition_id"],
            row["rows"],
            row["bytes"],
            tuple(row[f"min_{key}"] for key in keys),
            tuple(row[f"max_{key}"] for key in keys),
            rows_exact=row["rows_exact"],
            only_this_partition=row["only_this_partition"],
            job_id=row["job_id"],
            checksum=row["checksum"],
        )


class Addition(NamedTuple):
    """A reference, and the commit that added it."""

    reference: FileReference
    snapshot_id: int
    time: datetime


def to_batch(added: Sequence[Addition], schema: pa.Schema) -> pa.RecordBatch:
    """Return new active references as rows."""
    references = [each.reference for each in added]
    values: dict[str, list[Any]] = {
        "status": [ACTIVE] * len(added),
        "added_snapshot": [each.snapshot_id for each in added],
        "removed_snapshot": [None] * len(added),
        "updated_at": [each.time for each in added],
    }
    for i, key in enumerate(name[4:] for name in schema.names if name.startswith("min_")):
        values[f"min_{key}"] = [reference.min_key[i] for reference in references]
        values[f"max_{key}"] = [reference.max_key[i] for reference in references]
    for name in schema.names:
        if name not in values:
            values[name] = [getattr(reference, name) for reference in references]
    # a column at a time: as rows they would take many times as long
    return pa.RecordBatch.from_arrays([pa.array(values[f.name], f.type) for f in schema], schema=schema)
