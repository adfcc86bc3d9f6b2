"""File references: which data file supplies rows to which partition at a snapshot.

A reference says that a partition takes rows from a data file. It is live in the snapshots [added, removed). A removed
reference stays as `READY_FOR_GC` until the garbage collector has deleted its file.

References have two forms: `FileReference` is one of them as a value, and `FileReferences` holds all of a snapshot as
columns, so that a million of them stay fast. `FileNames` answers quickly whether a file name may be known.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model import statistics
from sleeper_nb.model.deletions import DELETION_COLUMNS, DELETION_FILE, DeletionVector, deletion_columns
from sleeper_nb.model.keys import KeyValue, arrow_value
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
    """One partition's use of one data file.

    Parameters
    ----------
    filename
        The file's path below the table's folder.
    partition_id
        The partition that takes rows from it.
    rows, bytes
        The file's rows in this partition's region, without deleted ones; the bytes of the whole file.
    min_key, max_key
        Least and greatest value of each row key in the file, in the schema's order.
    rows_exact
        Whether `rows` was counted; False for an estimate.
    only_this_partition
        Whether all rows of the file are in this partition's region; if not, a reader filters.
    job_id
        The compaction job that wrote the file.
    checksum
        Of the whole file (`sleeper_nb.model.checksums`); None for files of releases without checksums.
    statistics
        Of columns of the whole file, as far as they are known.
    deletions
        The rows of the file that the partition no longer has; keys and statistics of the file include them.
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
    statistics: tuple[ColumnStatistics, ...] = field(default=(), kw_only=True)
    deletions: DeletionVector | None = field(default=None, kw_only=True)

    @property
    def filenames(self) -> tuple[str, ...]:
        """The data file, and the file with its deletion vector if there is one."""
        return (self.filename,) if self.deletions is None else (self.filename, self.deletions.filename)


def files_schema(schema: Schema) -> pa.Schema:
    """Return the columns of `FileReferences.table`; each row key adds typed ``min_…`` and ``max_…`` columns.

    Columns with statistics follow, each as ``min_…``, ``max_…`` and ``nulls_…``, once a file has some.
    """
    keys = [pa.field(f"{end}_{f.name}", f.type.arrow) for f in schema.row_keys for end in ("min", "max")]
    return pa.schema([*_COLUMNS, *keys])


def key_names(columns: pa.Schema) -> list[str]:
    """Return the row keys whose values columns of references have."""
    others = statistics.reference_names(columns)
    least = (name for name in columns.names if name.startswith(statistics.MIN) and name not in others)
    return [name.removeprefix(statistics.MIN) for name in least]


def without_statistics(references: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """Return references without the columns of statistics."""
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
    """Yield the references in rows as values."""
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
    """Return new active references as rows."""
    references = [each.reference for each in added]
    values: dict[str, Any] = {
        "status": [ACTIVE] * len(added),
        "added_snapshot": [each.snapshot_id for each in added],
        "removed_snapshot": [None] * len(added),
        "updated_at": [each.time for each in added],
    }
    values |= deletion_columns([reference.deletions for reference in references])
    for i, key in enumerate(key_names(schema)):
        values[f"min_{key}"] = [reference.min_key[i] for reference in references]
        values[f"max_{key}"] = [reference.max_key[i] for reference in references]
    of_files = [reference.statistics for reference in references]
    values |= statistics.reference_columns(of_files, statistics.kinds_in(schema))
    for name in schema.names:
        if name not in values:
            values[name] = [getattr(reference, name) for reference in references]
    # column by column: building rows would take many times as long
    return pa.RecordBatch.from_arrays([pa.array(values[f.name], f.type) for f in schema], schema=schema)


Numbers = npt.NDArray[np.uint64]

_SUFFIX = 8  # the length of ".parquet", which all names end with
_HASHED = 16  # how many bytes before it count: the most random part of a name that ends with an id
_SPREAD = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF
_FEW = 64


@dataclass(frozen=True, slots=True, eq=False)
class FileNames:
    """A set of file names that is cheap to copy; it may rarely claim a name that is not in it.

    A name in the set is always found; a false positive occurs at most once in 2⁴⁰ tests. Each name is stored as a
    number, its hash.

    Parameters
    ----------
    arrays
        Sorted numbers. Each array is longer than the next, so that a million single additions leave few arrays.
    recent
        The numbers of the names added last; they become an array when there are many.
    """

    arrays: tuple[Numbers, ...] = ()
    recent: frozenset[int] = frozenset()

    def with_names(self, names: Sequence[str] | pa.ChunkedArray) -> FileNames:
        """Return the set with more names."""
        if len(names) + len(self.recent) < _FEW:
            few = names if isinstance(names, Sequence) else names.to_pylist()
            return FileNames(self.arrays, self.recent | {_number(name) for name in few})
        column = pa.chunked_array([names], pa.string()) if isinstance(names, Sequence) else names
        new = np.sort(np.concatenate([_numbers(column), np.array(list(self.recent), np.uint64)]))
        arrays = list(self.arrays)
        while arrays and len(arrays[-1]) <= len(new):
            new = np.sort(np.concatenate([arrays.pop(), new]))
        return FileNames((*arrays, new))

    def may_hold(self, names: Iterable[str]) -> bool:
        """Return whether one of the names may be in the set."""
        wanted = {_number(name) for name in names}
        if not self.recent.isdisjoint(wanted):
            return True
        numbers = np.array(list(wanted), np.uint64)
        for array in self.arrays:
            places = np.minimum(np.searchsorted(array, numbers), len(array) - 1)
            if (array[places] == numbers).any():
                return True
        return False


def _number(name: str) -> int:
    """Return a number for a name: a mix of its bytes before the suffix, or Python's hash of a short name."""
    text = name.encode()
    if len(text) < _HASHED + _SUFFIX:
        return hash(name) & _MASK
    end = len(text) - _SUFFIX
    first = int.from_bytes(text[end - 16 : end - 8], sys.byteorder)
    return (first * _SPREAD & _MASK) ^ int.from_bytes(text[end - 8 : end], sys.byteorder)


def _numbers(names: pa.ChunkedArray) -> Numbers:
    numbers = [_chunk_numbers(chunk) for chunk in names.chunks if len(chunk)]
    return np.concatenate(numbers) if numbers else np.empty(0, np.uint64)


def _chunk_numbers(names: pa.Array) -> Numbers:
    """Return `_number` of each name, computed for all names at once."""
    _, offsets_buffer, data = names.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[names.offset : names.offset + len(names) + 1].astype(np.int64)
    begins, ends = offsets[:-1], offsets[1:]
    numbers = np.zeros(len(names), np.uint64)
    long = ends - begins >= _HASHED + _SUFFIX
    if long.any():
        # a view of the text with the eight bytes at each position as a number; nothing is copied
        words: Numbers = np.ndarray((data.size - 7,), np.uint64, data, strides=(1,))
        at = ends[long] - _SUFFIX - _HASHED
        numbers[long] = words[at] * np.uint64(_SPREAD) ^ words[at + 8]
    for i in np.flatnonzero(~long):
        numbers[i] = np.uint64(_number(names[int(i)].as_py()))
    return numbers


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
        """Return the totals after adding references."""
        rows, size = sum(each.rows for each in references), sum(each.bytes for each in references)
        return Totals(self.files + len(references), self.rows + rows, self.bytes + size)


def data_files(references: pa.Table) -> tuple[int, int]:
    """Return the number of data files and their bytes; a file that several partitions share counts once."""
    if pc.count_distinct(references["filename"]).as_py() == references.num_rows:  # far cheaper than grouping
        return references.num_rows, pc.sum(references["bytes"]).as_py() or 0
    sizes = references.group_by("filename").aggregate([("bytes", "max")])
    return sizes.num_rows, pc.sum(sizes["bytes_max"]).as_py() or 0


class WaitingFile(NamedTuple):
    """A data file or deletion vector that versions used from one snapshot until before another; and since when not."""

    filename: str
    bytes: int
    added_snapshot: int
    removed_snapshot: int
    removed_at: datetime


def stored_files(references: pa.Table) -> pa.Table:
    """Return the files that references name, with their bytes and checksums: data files, and deletion vectors."""
    names = ["filename", "bytes", "checksum"]
    vectors = references.filter(pc.is_valid(references[DELETION_FILE]))
    vectors = vectors.select([DELETION_FILE, "deletion_bytes", "deletion_checksum"]).rename_columns(names)
    files = references.select(names)
    return pa.concat_tables([files, vectors.cast(files.schema)]) if vectors.num_rows else files


class Shared(NamedTuple):
    """The data files that several partitions may share.

    Parameters
    ----------
    uses
        For each filename, the number of active references and the bytes of the file.
    references, bytes
        How much counting each reference overstates the number of files and their bytes.
    """

    uses: Mapping[str, tuple[int, int]]
    references: int
    bytes: int

    @classmethod
    def of(cls, active: pa.Table) -> Shared:
        """Return the shared files among some active references."""
        shared = active.filter(pc.invert(active["only_this_partition"]))
        if not shared.num_rows:  # grouping imports pandas, which takes longer than a small query
            return cls.counting({})
        groups = shared.group_by("filename").aggregate([("bytes", "count"), ("bytes", "max")])
        names, counts, sizes = (groups[n].to_pylist() for n in ("filename", "bytes_count", "bytes_max"))
        return cls.counting(dict(zip(names, zip(counts, sizes, strict=True), strict=True)))

    @classmethod
    def counting(cls, uses: Mapping[str, tuple[int, int]]) -> Shared:
        """Return the shared files for given uses."""
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


class UnreadColumns(Protocol):
    """Columns of references that stay in a file until they are first needed."""

    @property
    def schema(self) -> pa.Schema:
        """Their names and types."""

    def read(self) -> pa.Table:
        """Return them, with as many rows as the references have; `StorageError` when the file is damaged."""


ReferenceBatches = tuple[pa.RecordBatch, ...]
FEW = 64
"""How many references may wait to become columns."""


class FileReferences:
    """All references of one snapshot, immutable. The cost of a change depends only on the size of the change.

    The loaded references stay as they are. The partitions that have changed since are kept apart, each as a few record
    batches that are merged like the digits of a binary counter, so no row is copied more than log2(rows) times. The
    references added last become columns only when they are read: most commits of a log are never read one by one.
    Statistics of value columns may stay in their file until something needs them: most queries do not.

    Parameters
    ----------
    loaded
        Active references, grouped by partition, partitions in increasing order.
    changed
        All active references of the partitions that differ from `loaded`, except those in `added`.
    added
        The active references that were added last.
    removed
        References that are ready for garbage collection, in the order of their removal.
    totals
        Of the active references.
    names
        The names of all tracked files; None until first needed.
    shared
        The shared files among the active references; None until first needed, as reading a version does not need them.
    """

    def __init__(
        self,
        loaded: Loaded,
        changed: Mapping[str, ReferenceBatches],
        added: tuple[Addition, ...],
        removed: ReferenceBatches,
        totals: Totals,
        names: FileNames | None,
        shared: Shared | None = None,
    ) -> None:
        self._loaded, self._partly_changed, self._added = loaded, changed, added
        self._removed, self._totals, self._given_names = removed, totals, names
        self._known_shared = shared

    @classmethod
    def none(cls, schema: Schema) -> FileReferences:
        """Return an empty set of references for a table with that schema."""
        return cls.of(files_schema(schema).empty_table())

    @classmethod
    def of(cls, table: pa.Table, unread: UnreadColumns | None = None) -> FileReferences:
        """Return the references of what `table` returned: active ones first, by partition, then the others.

        With `unread`, the table lacks its columns of statistics, which are read when they are needed.
        """
        end = pc.index(table["status"], arrow_value(READY_FOR_GC)).as_py()
        active = table if end < 0 else table.slice(0, end)
        removed = () if end < 0 else tuple(table.slice(end).to_batches())
        if unread is not None:  # removed references have no statistics
            removed = _batches_with(removed, tuple(unread.schema))
        return cls(Loaded(active, unread), {}, (), removed, Totals().plus(active), None)

    @property
    def schema(self) -> pa.Schema:
        """The columns: `files_schema`."""
        return self._loaded.schema

    @property
    def totals(self) -> Totals:
        """The totals of the active references."""
        return self._totals

    @property
    def shared(self) -> Shared:
        """The data files that several partitions may share."""
        if self._known_shared is None:
            self._known_shared = Shared.of(self.active_without_statistics)
        return self._known_shared

    @property
    def data_totals(self) -> Totals:
        """The totals of data files: like `totals`, but each file counts once."""
        references, rows, size = self._totals
        return Totals(references - self.shared.references, rows, size - self.shared.bytes)

    @property
    def removed_count(self) -> int:
        """How many references are ready for garbage collection."""
        return sum(batch.num_rows for batch in self._removed)

    @cached_property
    def table(self) -> pa.Table:
        """All rows: the active ones, grouped by partition, then those that are ready for garbage collection."""
        return pa.concat_tables([self.active, self.ready_for_gc])

    @cached_property
    def active(self) -> pa.Table:
        """The rows that a reader uses, grouped by partition, partitions in increasing order."""
        return self._around(self._loaded.table)

    @cached_property
    def active_without_statistics(self) -> pa.Table:
        """The rows of `active` without the statistics of value columns, which are not read for it."""
        return self._around(self._loaded.plain)

    def _around(self, loaded: pa.Table) -> pa.Table:
        """Return the columns of some loaded rows for all active references."""
        names = loaded.column_names
        changed = {name: self._to_table(batches).select(names) for name, batches in self._changed.items()}
        pieces = self._loaded.around(changed, loaded)
        return pa.concat_tables(pieces) if pieces else loaded.schema.empty_table()

    @property
    def ready_for_gc(self) -> pa.Table:
        """The rows that only older snapshots use."""
        return self._to_table(self._removed)

    @property
    def out_of_use(self) -> pa.Table:
        """The rows of `ready_for_gc` whose files are not active in any other partition."""
        return self._unused(self.ready_for_gc, "filename")

    def waiting_files(self) -> Iterator[WaitingFile]:
        """Yield each use of a file by removed references, of those that no active reference uses any more."""
        waiting = self.ready_for_gc
        with_vectors = waiting.filter(pc.is_valid(waiting[DELETION_FILE]))
        for rows, columns in (
            (self.out_of_use, ("filename", "bytes")),
            (self._unused(with_vectors, DELETION_FILE), (DELETION_FILE, "deletion_bytes")),
        ):
            names = (*columns, "added_snapshot", "removed_snapshot", "updated_at")
            yield from map(WaitingFile, *(rows[name].to_pylist() for name in names))

    def _unused(self, waiting: pa.Table, name: str) -> pa.Table:
        if not waiting.num_rows:
            return waiting
        used = self.active_without_statistics[name].combine_chunks()
        return waiting.filter(pc.invert(pc.is_in(waiting[name], used)))

    def removed_last(self, count: int) -> set[str]:
        """Return the names of the files of the last `count` removed references."""
        waiting = self.ready_for_gc
        return set(waiting["filename"].slice(waiting.num_rows - count).to_pylist()) if count else set()

    def runs(self) -> list[tuple[str, int, int]]:
        """Return each partition with active references, and where its rows in `active` begin and end."""
        return _runs(self.active_without_statistics)

    def by_partition(self) -> dict[str, Totals]:
        """Return the totals of each partition that has active references."""
        active = self.active_without_statistics.select(["partition_id", "rows", "bytes"])
        sums = active.group_by("partition_id").aggregate([("rows", "count"), ("rows", "sum"), ("bytes", "sum")])
        columns = (sums[name].to_pylist() for name in ("rows_count", "rows_sum", "bytes_sum"))
        return dict(zip(sums["partition_id"].to_pylist(), map(Totals, *columns), strict=True))

    def active_in(
        self, partition_ids: Collection[str], filenames: Collection[str] | None = None
    ) -> tuple[FileReference, ...]:
        """Return the active references of some partitions, or only those to some files, as values."""
        rows = self.active_rows_in(partition_ids)
        if filenames is not None:
            rows = rows.filter(pc.is_in(rows["filename"], pa.array(list(filenames), pa.string())))
        return tuple(to_values(rows))

    def active_rows_in(self, partition_ids: Collection[str]) -> pa.Table:
        """Return the active rows of some partitions, without looking at any other row."""
        batches = [batch for name in sorted(set(partition_ids)) for batch in self._batches(name)]
        return self._to_table(batches)

    def active_rows_without_statistics_in(self, partition_ids: Collection[str]) -> pa.Table:
        """Return the rows of `active_rows_in` without the statistics of value columns, which are not read for it."""
        plain, pieces = self._loaded.plain, []
        for name in sorted(set(partition_ids)):
            if (changed := self._changed.get(name)) is not None:
                pieces.append(self._to_table(changed).select(plain.column_names))
            elif name in self._loaded.slices:
                pieces.append(self._loaded.rows(name, plain))
        return pa.concat_tables(pieces) if pieces else plain.slice(0, 0)

    def with_added(self, references: Iterable[FileReference], snapshot_id: int, time: datetime) -> FileReferences:
        """Return these references and new active ones."""
        new = tuple(references)
        kinds = statistics.widest_kinds(reference.statistics for reference in new)
        unknown = [(column, kind) for column, kind in kinds if not self._can_hold(column, kind)]
        if unknown:
            return self._with_statistics_of(unknown).with_added(new, snapshot_id, time)
        added = tuple(Addition(reference, snapshot_id, time) for reference in new)
        filenames = list(dict.fromkeys(name for each in new for name in each.filenames))
        totals, names = self._totals.plus_values(new), self._names.with_names(filenames)
        shared = self._known_shared and self._known_shared.changed(
            ((each.filename, each.bytes) for each in new if not each.only_this_partition), 1
        )
        if len(self._added) < FEW and "_changed" not in self.__dict__:  # they are not columns yet
            return FileReferences(
                self._loaded, self._partly_changed, (*self._added, *added), self._removed, totals, names, shared
            )
        return FileReferences(self._loaded, self._changed, added, self._removed, totals, names, shared)

    @cached_property
    def _with_statistics(self) -> Mapping[str, str]:
        """The columns that have statistics, and their types."""
        return dict(statistics.kinds_in(self.schema))

    def _can_hold(self, column: str, kind: str) -> bool:
        """Return whether the statistics of a column need no wider type here; those of another type are left out."""
        known = self._with_statistics.get(column)
        return known is not None and not (kind != known and statistics.holds(kind, known))

    def _with_statistics_of(self, kinds: Iterable[tuple[str, str]]) -> FileReferences:
        """Return the same references with columns for more statistics, unknown for all of them, or with wider ones."""
        fields = statistics.reference_fields(kinds)
        loaded = Loaded(_with_columns(self._loaded.table, fields))
        changed = {name: _batches_with(each, fields) for name, each in self._partly_changed.items()}
        removed = _batches_with(self._removed, fields)
        return FileReferences(
            loaded, changed, self._added, removed, self._totals, self._given_names, self._known_shared
        )

    def with_removed(
        self, filenames: Collection[str], partition_id: str, snapshot_id: int, time: datetime
    ) -> FileReferences:
        """Return the references with those from one partition to some files marked ready for garbage collection."""
        before = self._to_table(self._batches(partition_id)).combine_chunks()
        gone = pc.is_in(before["filename"], pa.array(list(filenames), pa.string()))
        removed_rows = before.filter(gone)
        new: dict[str, pa.Scalar] = {
            "status": pa.scalar(READY_FOR_GC),
            "removed_snapshot": pa.scalar(snapshot_id, pa.int64()),
            "updated_at": pa.scalar(time, TIME),
            **{f.name: pa.scalar(None, f.type) for f in removed_rows.schema if f.name.startswith(VALUE_COLUMNS)},
        }
        marked = removed_rows
        for name, value in new.items():
            i = removed_rows.schema.get_field_index(name)
            marked = marked.set_column(i, removed_rows.schema.field(i), pa.repeat(value, removed_rows.num_rows))
        removed = self._removed
        for batch in marked.combine_chunks().to_batches():
            removed = _appended(removed, batch)
        kept = tuple(before.filter(pc.invert(gone)).to_batches())
        totals = self._totals.plus(removed_rows, -1)
        changed = {**self._changed, partition_id: kept}
        shared = self._known_shared
        if shared is not None:
            several = removed_rows.filter(pc.invert(removed_rows["only_this_partition"]))
            pairs = zip(several["filename"].to_pylist(), several["bytes"].to_pylist(), strict=True)
            shared = shared.changed(pairs, -1)
        return FileReferences(self._loaded, changed, (), removed, totals, self._given_names, shared)

    def of_schema(self, schema: Schema) -> FileReferences:
        """Return the references with the columns for another schema; there must be no active ones."""
        return FileReferences.of(of_other_keys(self.ready_for_gc, schema))

    def ready_for_gc_naming(self, filenames: Collection[str]) -> pa.Table:
        """Return the removed rows that `without` leaves out."""
        waiting = self.ready_for_gc
        return waiting.filter(_named(waiting, filenames))

    def without(self, filenames: Collection[str]) -> FileReferences:
        """Return the references without any to some files, none of which is active."""
        waiting = self.ready_for_gc
        left = tuple(waiting.filter(pc.invert(_named(waiting, filenames))).combine_chunks().to_batches())
        # The names stay in the set: it may hold too many, and no name is ever used again.
        return FileReferences(
            self._loaded, self._changed, (), left, self._totals, self._given_names, self._known_shared
        )

    def knows(self, *filenames: str) -> bool:
        """Return whether one of the files is tracked, active or not: a data file, or one with a deletion vector."""
        if not self._names.may_hold(filenames):
            return False
        return len(self.untracked(filenames)) < len(set(filenames))

    def untracked(self, filenames: Collection[str]) -> set[str]:
        """Return those of some files that are not tracked, active or not."""
        wanted = pa.array(sorted(set(filenames)), pa.string())
        for name in ("filename", DELETION_FILE):
            wanted = wanted.filter(pc.invert(pc.is_in(wanted, self._all(name).combine_chunks())))
        return set(wanted.to_pylist())

    def _all(self, name: str) -> pa.ChunkedArray:
        """Return a column, which is not one of statistics, of all references."""
        return pa.chunked_array(
            [*self.active_without_statistics[name].chunks, *self.ready_for_gc[name].chunks],
            self.schema.field(name).type,
        )

    def unshared(self, others: FileReferences) -> tuple[pa.Table, pa.Table]:
        """Return the active rows of each side that the other side lacks: the partition, the file or its vector."""
        names = self._differing_partitions(others)
        mine, theirs = self.active_rows_in(names), others.active_rows_in(names)
        my_contents, their_contents = _contents(mine), _contents(theirs)
        only_mine = pc.invert(pc.is_in(my_contents, value_set=their_contents))
        only_theirs = pc.invert(pc.is_in(their_contents, value_set=my_contents))
        return mine.filter(only_mine).combine_chunks(), theirs.filter(only_theirs).combine_chunks()

    def _differing_partitions(self, others: FileReferences) -> set[str]:
        """Return the partitions whose references differ, or are in another order."""
        rows = [each.active_without_statistics.select(CONTENT).combine_chunks() for each in (self, others)]
        runs = [{name: (begin, end - begin) for name, begin, end in each.runs()} for each in (self, others)]
        same = {name for name in runs[0].keys() & runs[1].keys()
                if rows[0].slice(*runs[0][name]).equals(rows[1].slice(*runs[1][name]))}  # fmt: skip
        return (runs[0].keys() | runs[1].keys()) - same

    @property
    def _names(self) -> FileNames:
        if self._given_names is None:
            vectors = self._all(DELETION_FILE).drop_null()
            names = FileNames().with_names(self._all("filename"))
            self._given_names = names.with_names(vectors) if len(vectors) else names
        return self._given_names

    @cached_property
    def _changed(self) -> Mapping[str, ReferenceBatches]:
        """All active references of the partitions that differ from the loaded ones."""
        changed = dict(self._partly_changed)
        for name, group in groupby(
            sorted(self._added, key=lambda added: added.reference.partition_id),
            key=lambda added: added.reference.partition_id,
        ):
            before = changed.get(name)
            before = self._loaded.batches(name) if before is None else before
            changed[name] = _appended(before, to_batch(list(group), self.schema))
        return changed

    def _batches(self, partition_id: str) -> ReferenceBatches:
        changed = self._changed.get(partition_id)
        return self._loaded.batches(partition_id) if changed is None else changed

    def _to_table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(batches, self.schema)


@dataclass(frozen=True)
class Loaded:
    """References as they were read, grouped by partition, partitions in increasing order.

    Parameters
    ----------
    known
        All columns, or all but those of statistics.
    unread
        The statistics that are not in `known`: of these rows, and of others after them.
    """

    known: pa.Table
    unread: UnreadColumns | None = None

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        known: pa.Schema = self.known.schema
        return known if self.unread is None else pa.schema([*known, *self.unread.schema])

    @cached_property
    def plain(self) -> pa.Table:
        """All rows without statistics."""
        return without_statistics(self.known)

    @cached_property
    def table(self) -> pa.Table:
        """All columns of all rows; what is unread is read for it."""
        table = self.known
        if self.unread is not None:
            for field, column in zip(self.unread.schema, self.unread.read().columns, strict=True):
                table = table.append_column(field, column.slice(0, table.num_rows))
        return table

    @cached_property
    def slices(self) -> dict[str, tuple[int, int]]:
        """For each partition, in order, where its rows begin and how many there are."""
        return {name: (begin, end - begin) for name, begin, end in _runs(self.known)}

    def rows(self, partition_id: str, columns: pa.Table) -> pa.Table:
        """Return the rows of a partition that has some, of some columns of all rows."""
        return columns.slice(*self.slices[partition_id])

    def batches(self, partition_id: str) -> ReferenceBatches:
        """Return the references of one partition."""
        return tuple(self.rows(partition_id, self.table).to_batches()) if partition_id in self.slices else ()

    def around(self, others: Mapping[str, pa.Table], columns: pa.Table) -> list[pa.Table]:
        """Return some columns of all references in order, as pieces, with some partitions replaced or added."""
        names = list(self.slices)
        pieces, done = [], 0
        for name in sorted(others):
            at = bisect_left(names, name)
            begin = self.slices[names[at]][0] if at < len(names) else columns.num_rows
            pieces += [columns.slice(done, begin - done), others[name]]
            done = begin + self.slices.get(name, (0, 0))[1]
        return [piece for piece in (*pieces, columns.slice(done)) if piece.num_rows]


def _with_columns(rows: pa.Table, fields: Iterable[pa.Field]) -> pa.Table:
    """Return rows with some columns cast to other types, or added with nulls."""
    for each in fields:
        if each.name in rows.schema.names:
            rows = rows.set_column(rows.schema.get_field_index(each.name), each, rows[each.name].cast(each.type))
        else:
            rows = rows.append_column(each, pa.nulls(rows.num_rows, each.type))
    return rows


def _batches_with(batches: ReferenceBatches, fields: Sequence[pa.Field]) -> ReferenceBatches:
    tables = (_with_columns(pa.Table.from_batches([batch]), fields) for batch in batches)
    return tuple(batch for table in tables for batch in table.to_batches())


def _named(removed: pa.Table, filenames: Collection[str]) -> pa.ChunkedArray:
    """Return for each removed reference whether its data file or its deletion vector is one of some files.

    A reference whose vector is deleted serves no version that is kept, even where its data file is still in use.
    """
    names = pa.array(list(filenames), pa.string())
    return pc.or_(pc.is_in(removed["filename"], names), pc.is_in(removed[DELETION_FILE], names))


def _contents(references: pa.Table) -> pa.ChunkedArray:
    """Return the partition, the file and the deletion vector of each reference as one text."""
    columns = (references[name] for name in CONTENT)
    return pc.binary_join_element_wise(*columns, "/", null_handling="replace", null_replacement="")


def _runs(grouped: pa.Table) -> list[tuple[str, int, int]]:
    if not grouped.num_rows:
        return []
    runs = pc.run_end_encode(grouped["partition_id"].combine_chunks())
    ends = runs.run_ends.to_pylist()
    return list(zip(runs.values.to_pylist(), [0, *ends[:-1]], ends, strict=True))


def _appended(batches: ReferenceBatches, new: pa.RecordBatch) -> ReferenceBatches:
    """Return the batches and a new one; preceding batches that are not longer are merged into it."""
    kept = list(batches)
    while kept and kept[-1].num_rows <= new.num_rows:
        new = pa.concat_batches([kept.pop(), new])
    return (*kept, new)
