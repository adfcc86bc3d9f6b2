"""A file reference: as a value, as a row of the columns in which metadata files and states hold them, and in sums.

A reference says that a partition takes rows from a data file. It is live in the snapshots [added, removed). A removed
reference stays as `READY_FOR_GC` until the garbage collector has deleted its file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model import statistics
from sleeper_nb.model.deletions import DELETION_COLUMNS, DELETION_FILE, DeletionVector, deletion_columns
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.statistics import ColumnStatistics

ACTIVE = "ACTIVE"
READY_FOR_GC = "READY_FOR_GC"

TIME = pa.timestamp("us", tz="UTC")
PAIR = ("partition_id", "filename")
"""The columns that identify an active reference of a snapshot."""
CONTENT = (*PAIR, DELETION_FILE)
"""The columns that say which rows a reference gives."""
VALUE_COLUMNS = statistics.PREFIXES
"""The prefixes of the columns with values of rows; null in removed references, as nothing reads them there."""
_COLUMNS = (
    pa.field("filename", pa.string(), nullable=False),  # below the table's folder, with / as separator
    pa.field("partition_id", pa.string(), nullable=False),
    pa.field("rows", pa.int64(), nullable=False),
    pa.field("rows_exact", pa.bool_(), nullable=False),
    pa.field("only_this_partition", pa.bool_(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("job_id", pa.string()),  # the compaction job that wrote the file; null for ingested files
    pa.field("checksum", pa.string()),  # of the whole file; null for files of releases without checksums
    *DELETION_COLUMNS,  # the rows of the file that were deleted; null for none
    pa.field("status", pa.string(), nullable=False),
    pa.field("added_snapshot", pa.int64(), nullable=False),
    pa.field("removed_snapshot", pa.int64()),
    pa.field("updated_at", TIME, nullable=False),
)


@dataclass(frozen=True, slots=True)
class FileReference:
    """One partition's use of one data file."""

    filename: str  # the file's path below the table's folder
    partition_id: str  # the partition that takes rows from it
    # rows, bytes: the file's rows in this partition's region, without deleted ones; the bytes of the whole file
    rows: int
    bytes: int
    # min_key, max_key: least and greatest value of each row key in the file, in the schema's order
    min_key: tuple[KeyValue, ...]
    max_key: tuple[KeyValue, ...]
    rows_exact: bool = field(default=True, kw_only=True)  # whether `rows` was counted; False for an estimate
    # whether all rows of the file are in this partition's region; if not, a reader filters
    only_this_partition: bool = field(default=True, kw_only=True)
    job_id: str | None = field(default=None, kw_only=True)  # the compaction job that wrote the file
    # of the whole file (`sleeper_nb.model.checksums`); None for files of releases without checksums
    checksum: str | None = field(default=None, kw_only=True)
    # of columns of the whole file, as far as they are known
    statistics: tuple[ColumnStatistics, ...] = field(default=(), kw_only=True)
    # the rows of the file that the partition no longer has; keys and statistics of the file include them
    deletions: DeletionVector | None = field(default=None, kw_only=True)

    @property
    def filenames(self) -> tuple[str, ...]:
        return (self.filename,) if self.deletions is None else (self.filename, self.deletions.filename)


def files_schema(schema: Schema) -> pa.Schema:
    """Return the columns of `FileReferences.table`; each row key adds typed ``min_…`` and ``max_…`` columns.

    Columns with statistics follow, each as ``min_…``, ``max_…`` and ``nulls_…``, once a file has some.
    """
    keys = [pa.field(f"{end}_{f.name}", f.type.arrow) for f in schema.row_keys for end in ("min", "max")]
    return pa.schema([*_COLUMNS, *keys])


def key_names(columns: pa.Schema) -> list[str]:
    others = statistics.reference_names(columns)
    least = statistics.MIN
    return [name.removeprefix(least) for name in columns.names if name.startswith(least) and name not in others]


def without_statistics(references: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    others = statistics.reference_names(references.schema)
    return references.select([name for name in references.schema.names if name not in others])


def completed(references: pa.Table) -> pa.Table:
    """Return references of an older release with the columns that it lacked added as nulls."""
    for place, column in enumerate(_COLUMNS):
        if column.nullable and column.name not in references.column_names:
            references = references.add_column(place, column, pa.nulls(references.num_rows, column.type))
    return references


def of_other_keys(removed: pa.Table, schema: Schema) -> pa.Table:
    """Return removed references with the row key columns of another schema, all null, and without statistics."""
    columns = files_schema(schema)
    kept = {name: removed[name] for name in removed.column_names if not name.startswith(VALUE_COLUMNS)}
    keys = {f.name: pa.nulls(removed.num_rows, f.type) for f in columns if f.name not in kept}
    return pa.table({**kept, **keys}).select(columns.names).cast(columns)


def to_values(rows: pa.Table) -> Iterator[FileReference]:
    keys, plain = key_names(rows.schema), without_statistics(rows)
    for row, of_file in zip(plain.to_pylist(), statistics.of_references(rows), strict=True):
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
            statistics=of_file,
            deletions=DeletionVector.of(row),
        )


class Addition(NamedTuple):
    """A reference, and the commit that added it."""

    reference: FileReference
    snapshot_id: int
    time: datetime


def to_batch(added: Sequence[Addition], schema: pa.Schema) -> pa.RecordBatch:
    references = [each.reference for each in added]
    values: dict[str, Any] = {
        "status": [ACTIVE] * len(added),
        "added_snapshot": [each.snapshot_id for each in added],
        "removed_snapshot": pa.nulls(len(added), schema.field("removed_snapshot").type),
        "updated_at": [each.time for each in added],
    }
    values |= deletion_columns([reference.deletions for reference in references])
    for i, key in enumerate(key_names(schema)):
        values[f"min_{key}"] = [reference.min_key[i] for reference in references]
        values[f"max_{key}"] = [reference.max_key[i] for reference in references]
    of_files = [reference.statistics for reference in references]
    values |= statistics.reference_columns(of_files, statistics.kinds_in(schema))
    arrays = []
    for each in schema:  # column by column: building rows would take longer where there are many
        column = values.get(each.name)
        if column is None:
            column = map(attrgetter(each.name), references)
        arrays.append(column if isinstance(column, pa.Array) else pa.array(column, each.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def stored_files(references: pa.Table) -> pa.Table:
    """Return the files that references name, with their bytes and checksums: data files, and deletion vectors."""
    names = ["filename", "bytes", "checksum"]
    vectors = references.filter(pc.is_valid(references[DELETION_FILE]))
    vectors = vectors.select([DELETION_FILE, "deletion_bytes", "deletion_checksum"]).rename_columns(names)
    files = references.select(names)
    return pa.concat_tables([files, vectors.cast(files.schema)]) if vectors.num_rows else files


def key_ranges(references: pa.Table) -> Iterator[tuple[str, tuple[KeyValue, ...], tuple[KeyValue, ...]]]:
    keys = key_names(references.schema)
    ends = (zip(*(references[f"{end}_{key}"].to_pylist() for key in keys), strict=True) for end in ("min", "max"))
    yield from zip(references["filename"].to_pylist(), *ends, strict=True)


def naming(removed: pa.Table, filenames: Collection[str]) -> pa.ChunkedArray:
    """Return for each removed reference whether its data file or its deletion vector is one of some files.

    A reference whose vector is deleted serves no version that is kept, even where its data file is still in use.
    """
    names = pa.array(list(filenames), pa.string())
    return pc.or_(pc.is_in(removed["filename"], names), pc.is_in(removed[DELETION_FILE], names))


def contents_of(references: pa.Table) -> pa.ChunkedArray:
    columns = (references[name] for name in CONTENT)
    return pc.binary_join_element_wise(*columns, "/", null_handling="replace", null_replacement="")


# Sums over file references: references, data files, rows and bytes, where partitions may share a file. Pure.


class Totals(NamedTuple):
    """The number of active references, of their rows, and of the bytes of their files."""

    files: int = 0
    rows: int = 0
    bytes: int = 0

    def plus(self, references: pa.RecordBatch | pa.Table, sign: int = 1) -> Totals:
        """Return the totals after adding references; after removing them when the sign is -1."""
        rows, size = (pc.sum(references[name]).as_py() or 0 for name in ("rows", "bytes"))
        return Totals(self.files + sign * references.num_rows, self.rows + sign * rows, self.bytes + sign * size)

    def plus_values(self, references: Sequence[FileReference]) -> Totals:
        rows, size = sum(each.rows for each in references), sum(each.bytes for each in references)
        return Totals(self.files + len(references), self.rows + rows, self.bytes + size)


def data_files(references: pa.Table) -> tuple[int, int]:
    """Return the number of data files and their bytes; a file that several partitions share counts once."""
    if pc.count_distinct(references["filename"]).as_py() == references.num_rows:  # far cheaper than grouping
        return references.num_rows, pc.sum(references["bytes"]).as_py() or 0
    sizes = references.group_by("filename").aggregate([("bytes", "max")])
    return sizes.num_rows, pc.sum(sizes["bytes_max"]).as_py() or 0


class Shared(NamedTuple):
    """The data files that several partitions may share."""

    uses: Mapping[str, tuple[int, int]]  # for each filename, the number of active references and the bytes of the file
    # references, bytes: how much counting each reference overstates the number of files and their bytes
    references: int
    bytes: int

    @classmethod
    def of(cls, active: pa.Table) -> Shared:
        shared = active.filter(pc.invert(active["only_this_partition"]))
        if not shared.num_rows:  # grouping imports pandas, which takes longer than a small query
            return cls.counting({})
        groups = shared.group_by("filename").aggregate([("bytes", "count"), ("bytes", "max")])
        names, counts, sizes = (groups[n].to_pylist() for n in ("filename", "bytes_count", "bytes_max"))
        return cls.counting(dict(zip(names, zip(counts, sizes, strict=True), strict=True)))

    @classmethod
    def counting(cls, uses: Mapping[str, tuple[int, int]]) -> Shared:
        extra = [(count - 1, (count - 1) * size) for count, size in uses.values()]
        return cls(uses, sum(count for count, _ in extra), sum(size for _, size in extra))

    def changed(self, references: Iterable[tuple[str, int]], sign: int) -> Shared:
        """Return the files after adding references (filename, bytes); after removing them when the sign is -1."""
        changes = list(references)
        if not changes:
            return self
        uses = dict(self.uses)
        for name, size in changes:
            count = uses.get(name, (0, 0))[0] + sign
            if count:
                uses[name] = count, size
            else:
                del uses[name]
        return Shared.counting(uses)
