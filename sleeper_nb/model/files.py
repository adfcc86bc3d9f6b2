"""Which file feeds which partition: references as columns of one Arrow table, so that a million of them stay quick.

A reference says that a partition takes rows from a data file. It is live in the snapshots [added, removed). Removed
references stay in the table as `READY_FOR_GC` until the garbage collector has deleted their file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.schema import Schema

ACTIVE = "ACTIVE"
READY_FOR_GC = "READY_FOR_GC"

_TIME = pa.timestamp("us", tz="UTC")
_COLUMNS = (
    pa.field("filename", pa.string(), nullable=False),  # below the table's folder, with / between its parts
    pa.field("partition_id", pa.string(), nullable=False),
    pa.field("rows", pa.int64(), nullable=False),
    pa.field("rows_exact", pa.bool_(), nullable=False),
    pa.field("only_this_partition", pa.bool_(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("job_id", pa.string()),  # the compaction job that wrote the file; null for ingested files
    pa.field("status", pa.string(), nullable=False),
    pa.field("added_snapshot", pa.int64(), nullable=False),
    pa.field("removed_snapshot", pa.int64()),
    pa.field("updated_at", _TIME, nullable=False),
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


def files_schema(schema: Schema) -> pa.Schema:
    """Return the columns of `FileReferences.table`: those above, then typed ``min_…`` and ``max_…`` of each row key."""
    keys = [pa.field(f"{end}_{f.name}", f.type.arrow) for f in schema.row_keys for end in ("min", "max")]
    return pa.schema([*_COLUMNS, *keys])


@dataclass(frozen=True)
class FileReferences:
    """All references of one snapshot; `table` is sorted by partition, then file name, so a partition is one slice."""

    table: pa.Table

    @classmethod
    def none(cls, schema: Schema) -> FileReferences:
        """Return no references, for a table of that schema."""
        return cls(files_schema(schema).empty_table())

    @cached_property
    def active(self) -> pa.Table:
        """The rows of `table` that a reader uses."""
        return self.table.filter(pc.equal(self.table["status"], ACTIVE)).combine_chunks()

    @cached_property
    def _slices(self) -> dict[str, tuple[int, int]]:
        """For each partition, where its rows begin in `active` and how many they are."""
        if not self.active.num_rows:
            return {}
        runs = pc.run_end_encode(self.active["partition_id"].combine_chunks())
        ends = runs.run_ends.to_pylist()
        begins = [0, *ends]
        names = runs.values.to_pylist()
        return {name: (begin, end - begin) for name, begin, end in zip(names, begins, ends, strict=False)}

    @property
    def ready_for_gc(self) -> pa.Table:
        """The rows of `table` that only older snapshots use."""
        return self.table.filter(pc.equal(self.table["status"], READY_FOR_GC))

    def active_in(self, partition_ids: Collection[str]) -> tuple[FileReference, ...]:
        """Return the active references of some partitions, as values."""
        return tuple(self._values(self.active_rows_in(partition_ids)))

    def active_rows_in(self, partition_ids: Collection[str]) -> pa.Table:
        """Return the rows of `active` that belong to some partitions, without looking at any other row."""
        slices = [self.active.slice(*self._slices[name]) for name in sorted(partition_ids) if name in self._slices]
        return pa.concat_tables(slices) if slices else self.active.slice(0, 0)

    def _values(self, rows: pa.Table) -> Iterator[FileReference]:
        keys = [name[4:] for name in self.table.column_names if name.startswith("min_")]
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
            )

    def with_added(self, references: Iterable[FileReference], snapshot_id: int, time: datetime) -> FileReferences:
        """Return these references and new active ones."""
        rows = [_row(reference, self.table.schema, snapshot_id, time) for reference in references]
        added = pa.Table.from_pylist(rows, schema=self.table.schema)
        order = [("partition_id", "ascending"), ("filename", "ascending")]
        return FileReferences(pa.concat_tables([self.table, added]).sort_by(order).combine_chunks())

    def with_removed(
        self, filenames: Collection[str], partition_id: str, snapshot_id: int, time: datetime
    ) -> FileReferences:
        """Return the references with those of one partition to some files ready for garbage collection."""
        t = self.table
        gone = pc.and_(
            pc.and_(
                pc.equal(t["partition_id"], partition_id),
                pc.is_in(t["filename"], pa.array(list(filenames), pa.string())),
            ),
            pc.equal(t["status"], ACTIVE),
        )
        new: dict[str, pa.Scalar] = {
            "status": pa.scalar(READY_FOR_GC),
            "removed_snapshot": pa.scalar(snapshot_id, pa.int64()),
            "updated_at": pa.scalar(time, _TIME),
        }
        for name, value in new.items():
            i = t.schema.get_field_index(name)
            t = t.set_column(i, t.schema.field(i), pc.if_else(gone, value, t[name]))
        return FileReferences(t)

    def without(self, filenames: Collection[str]) -> FileReferences:
        """Return the references without every trace of some files."""
        gone = pc.is_in(self.table["filename"], pa.array(list(filenames), pa.string()))
        return FileReferences(self.table.filter(pc.invert(gone)))

    def knows(self, filename: str) -> bool:
        """Return whether a file is tracked, active or not."""
        return bool(pc.any(pc.equal(self.table["filename"], filename)).as_py())


def _row(reference: FileReference, schema: pa.Schema, snapshot_id: int, time: datetime) -> dict[str, Any]:
    keys = [name[4:] for name in schema.names if name.startswith("min_")]
    return {
        "filename": reference.filename,
        "partition_id": reference.partition_id,
        "rows": reference.rows,
        "rows_exact": reference.rows_exact,
        "only_this_partition": reference.only_this_partition,
        "bytes": reference.bytes,
        "job_id": reference.job_id,
        "status": ACTIVE,
        "added_snapshot": snapshot_id,
        "removed_snapshot": None,
        "updated_at": time,
        **{f"min_{key}": value for key, value in zip(keys, reference.min_key, strict=True)},
        **{f"max_{key}": value for key, value in zip(keys, reference.max_key, strict=True)},
    }
