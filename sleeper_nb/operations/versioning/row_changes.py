"""Which rows were added and which removed between two versions, read as streams in bounded memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.operations.row_processing import Processor
from sleeper_nb.operations.scanning.read_rows import coalesced, leaf_rows
from sleeper_nb.operations.scanning.scan_plan import PlannedLeaf
from sleeper_nb.operations.versioning.comparison import (
    DifferingRegion,
    VersionComparison,
)
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.storage.filesystem import Storage

# Columns of any type as columns that engines can group by: two values are equal in one when they are in the other.
#
# Nulls equal nulls, NaN equals NaN, and 0.0 equals -0.0, in lists and maps too. Maps are equal when their items are, in
# any order.

_GroupNumbers = np.ndarray[tuple[int], np.dtype[np.int32]]


def identity(values: pa.Array) -> pa.Array:
    """Return an array that has equal values exactly where `values` has; lists and maps become byte arrays.

    What is returned can be compared with nothing but itself: the bytes of a list are numbers that its items were given
    in this array.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        nan, zero = (pa.scalar(value, kind) for value in (float("nan"), 0.0))
        return pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))  # NaN has many forms, zero has two
    if pa.types.is_list(kind):
        there = values.drop_null()
        items = _numbered(pc.list_flatten(there))
        return _as_bytes(values, _lengths(there), items.reshape(-1, 1))
    if pa.types.is_map(kind):
        there = values.drop_null()
        offsets, lengths = there.offsets.to_numpy(), _lengths(there)
        inside = slice(offsets[0], offsets[-1]) if len(there) else slice(0, 0)
        keys, items = _numbered(there.keys[inside]), _numbered(there.items[inside])
        order = np.lexsort((keys, np.repeat(np.arange(len(there)), lengths)))
        return _as_bytes(values, lengths, np.stack([keys, items], axis=1)[order])
    return values


def _numbered(values: pa.Array) -> _GroupNumbers:
    """Return a number for each value, null too; equal ones have equal numbers."""
    numbers: _GroupNumbers = identity(values).dictionary_encode(null_encoding="encode").indices.to_numpy()
    return numbers


def _lengths(values: pa.Array) -> _GroupNumbers:
    lengths: _GroupNumbers = np.diff(values.offsets.to_numpy())
    return lengths


def _as_bytes(
    values: pa.Array, lengths: _GroupNumbers, items: np.ndarray[tuple[int, int], np.dtype[np.int32]]
) -> pa.Array:
    """Return for each list of numbers its bytes; `lengths` and `items` are those of the values that are not null."""
    data = np.ascontiguousarray(items)
    all_lengths = np.zeros(len(values), np.int64)
    there = values.is_valid()
    all_lengths[there.to_numpy(zero_copy_only=False)] = lengths
    offsets = np.concatenate(([0], np.cumsum(all_lengths))) * data.shape[1] * data.itemsize
    buffers = [there.buffers()[1], pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


# Which rows one sorted stream has and another has not, each as often as it does: the difference of two multisets.

_Key = tuple[Any, ...]
_Places = np.ndarray[tuple[int], np.dtype[np.int64]]


class RowChange(NamedTuple):
    """Rows that only the one side has, and rows that only the other has, each in key order."""

    removed: pa.RecordBatch
    added: pa.RecordBatch


def difference(
    before: Iterable[pa.RecordBatch], after: Iterable[pa.RecordBatch], schema: pa.Schema, keys: Sequence[str]
) -> Iterator[RowChange]:
    """Yield the rows that are left of each stream when equal rows of both have cancelled each other.

    A row that is twice in one stream and once in the other is left once. Rows are equal when all their values are
    (`row_identity`). It holds a batch of each stream, and of the rows of one key those that have not found their equal.

    Parameters
    ----------
    before, after
        Batches with the columns of `schema`, sorted by `keys`.
    schema
        The columns that are compared.
    keys
        The columns that both streams are sorted by; without nulls.

    Yields
    ------
    Change
        The keys of each follow those of the one before, or are equal to its last ones.
    """
    old, new = (_Side(coalesced(batches), schema, keys) for batches in (before, after))
    frontier: _Key | None = ()
    while frontier is not None:
        for side in (old, new):
            side.fill()
        frontier = min((side.last_key() for side in (old, new) if not side.ended), default=None)
        for side in (old, new):
            side.advance(frontier)
        removed, added = _not_cancelled(old.due, new.due)
        found = RowChange(old.give(removed, frontier, new), new.give(added, frontier, old))
        if found.removed.num_rows or found.added.num_rows:
            yield found


class _Side:
    """One of the streams: rows that are due to be compared, up to the frontier, and those that were read beyond it.

    The frontier is the greatest key up to which both streams are known; of its own rows more may come.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, keys: Sequence[str]) -> None:
        self._batches, self._keys = batches, keys
        self.due = self._held = self._beyond = pa.RecordBatch.from_pylist([], schema)
        self.ended = False

    def fill(self) -> None:
        """Read more, when all that was read has been compared."""
        if not self._beyond.num_rows and not self.ended:
            read = next(self._batches, None)
            self.ended = read is None
            self._beyond = self._beyond if read is None else read

    def last_key(self) -> _Key:
        """Return the greatest key that was read."""
        return self._key_at(self._beyond, self._beyond.num_rows - 1)

    def advance(self, frontier: _Key | None) -> None:
        """Make due what was held, and what was read up to the frontier; everything when it is None."""
        here = self._beyond
        places = range(here.num_rows)
        count = len(places) if frontier is None else bisect_right(places, frontier, key=self._keys_of(here))
        now = here.slice(0, count)
        self.due = pa.concat_batches([self._held, now]) if self._held.num_rows else now
        self._beyond = here.slice(count)

    def give(self, left: _Places, frontier: _Key | None, other: _Side) -> pa.RecordBatch:
        """Return the due rows that are left and can find no equal any more; hold the others of them.

        Equals of a row with the frontier's key may come until the other side has read beyond it.
        """
        rows = self.due if len(left) == self.due.num_rows else self.due.take(pa.array(left))
        known = rows.num_rows
        if frontier is not None and not other.ended and not other._beyond.num_rows:
            known = bisect_left(range(rows.num_rows), frontier, key=self._keys_of(rows))
        self._held = rows.slice(known)
        return rows.slice(0, known)

    def _keys_of(self, rows: pa.RecordBatch) -> Callable[[int], _Key]:
        return lambda place: self._key_at(rows, place)

    def _key_at(self, rows: pa.RecordBatch, place: int) -> _Key:
        return tuple(_comparable(rows[name][place]) for name in self._keys)


def _comparable(value: pa.Scalar) -> Any:
    """Return a key's value as something that Python can order; a time as a number, as Python's end in year 9999."""
    return value.value if isinstance(value, pa.TimestampScalar | pa.Date32Scalar) else value.as_py()


def _not_cancelled(before: pa.RecordBatch, after: pa.RecordBatch) -> tuple[_Places, _Places]:
    """Return the places of the rows that are left on each side, in order; one that is left twice is there twice."""
    old, new = before.num_rows, after.num_rows
    if not old or not new:
        return np.arange(old), np.arange(new)
    rows = pa.concat_batches([before, after])
    columns = {f"column {i}": identity(column) for i, column in enumerate(rows.columns)}
    sign = pa.array(np.repeat(np.array([-1, 1]), [old, new]))
    equal = pa.table({**columns, "sign": sign, "place": pa.array(np.arange(old + new))}).group_by(list(columns))
    sums = equal.aggregate([("sign", "sum"), ("place", "min"), ("place", "max")])
    more, first, last = (sums[name].to_numpy() for name in ("sign_sum", "place_min", "place_max"))
    # Of equal rows the first is one of the old ones, if there are any, and the last one of the new ones.
    removed = np.sort(np.repeat(first, np.maximum(-more, 0)))
    return removed, np.sort(np.repeat(last, np.maximum(more, 0))) - old


RowChangeKind = Literal["added", "removed"]
KINDS: tuple[RowChangeKind, ...] = ("added", "removed")


class RowCounts(NamedTuple):
    """How many rows were added and removed."""

    added: int
    removed: int


def stream(
    comparison: VersionComparison,
    storage: Storage,
    kinds: Collection[RowChangeKind] = KINDS,
    *,
    progress: Progress = SILENT,
) -> Iterator[RowChange]:
    """Yield the rows that were added and removed: region by region, in key order within each.

    A row that did not change is in neither, a row whose values changed is in both.

    Parameters
    ----------
    comparison
        What is read.
    storage
        The table's folder.
    kinds
        What is asked for. Of the other kind there may be rows too; but a region that can only have such is not read.
    progress
        Watches.

    Raises
    ------
    NotFound, StorageError
        When a file is gone or cannot be read.
    InvalidInput
        When rows cannot be processed.
    """
    schema, keys = comparison.schema, comparison.after.sort_order
    processors = (
        Processor.of(comparison.processing_before, comparison.before),
        Processor.of(comparison.processing_after, comparison.after),
    )
    names = [comparison.names(each) for each in (comparison.before, comparison.after)]
    nothing = pa.RecordBatch.from_pylist([], schema)
    for i, region in enumerate(comparison.regions):
        progress.update("comparing the versions", i, len(comparison.regions))
        if not any(_can_have(region, kind) for kind in kinds):
            continue
        sides = (region.before, region.after)
        old, new = (_rows(*each, storage, schema) for each in zip(sides, processors, names, strict=True))
        if not region.after.files:
            yield from (RowChange(batch, nothing) for batch in old)
        elif not region.before.files:
            yield from (RowChange(nothing, batch) for batch in new)
        else:
            yield from difference(old, new, schema, keys)


def count(comparison: VersionComparison, storage: Storage, *, progress: Progress = SILENT) -> RowCounts:
    """Return how many rows were added and removed; where files were only added or only removed, metadata tells."""
    known, unknown = RowCounts(0, 0), []
    for region in comparison.regions:
        rows = _told(region) if comparison.stored_rows else None
        if rows is None:
            unknown.append(region)
        else:
            known = RowCounts(known.added + rows.added, known.removed + rows.removed)
    added, removed = known
    for change in stream(comparison.of(unknown), storage, progress=progress):
        added, removed = added + change.added.num_rows, removed + change.removed.num_rows
    return RowCounts(added, removed)


def labelled(change: RowChange, column: str, keys: Sequence[str]) -> pa.RecordBatch:
    """Return the rows of both kinds in key order, each with its kind in a column of that name, which comes first."""
    rows = pa.concat_batches([_with_kind(change.removed, column, "removed"), _with_kind(change.added, column, "added")])
    if not change.removed.num_rows or not change.added.num_rows:
        return rows
    return rows.take(pc.sort_indices(rows, sort_keys=[(key, "ascending") for key in keys]))


def labelled_schema(schema: pa.Schema, column: str) -> pa.Schema:
    """Return the columns of `labelled` rows."""
    return schema.insert(0, pa.field(column, pa.string(), nullable=False))


def in_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of another version's schema with the columns of this one; what they do not have is null."""
    if rows.schema == schema:
        return rows
    names = set(rows.schema.names)
    columns = [
        rows[field.name].cast(field.type) if field.name in names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_kind(rows: pa.RecordBatch, column: str, kind: RowChangeKind) -> pa.RecordBatch:
    kinds = pa.repeat(pa.scalar(kind), rows.num_rows)
    return pa.RecordBatch.from_arrays([kinds, *rows.columns], schema=labelled_schema(rows.schema, column))


def _can_have(region: DifferingRegion, kind: RowChangeKind) -> bool:
    return bool(region.after.files if kind == "added" else region.before.files)


def _told(region: DifferingRegion) -> RowCounts | None:
    """Return the counts of a region that has files of one version only, where metadata tells them."""
    if region.before.files and region.after.files:
        return None
    added, removed = region.after.rows, region.before.rows
    return None if added is None or removed is None else RowCounts(added, removed)


def _rows(
    leaf: PlannedLeaf, process: Processor, names: Mapping[str, str], storage: Storage, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the processed rows of a version with the columns that are compared."""
    for batch in leaf_rows(leaf.files, process, storage):
        named = batch.select(list(names.values())).rename_columns(list(names))
        yield in_schema(named, schema)
