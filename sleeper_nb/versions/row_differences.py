"""Which rows were added and which removed between two versions, read as sorted streams in bounded memory.

`stream_changes` reads the regions of a comparison one by one. Where both versions have files, `difference` compares the
two sorted streams of rows as multisets: equal rows cancel each other, and what is left was added or removed. Rows are
compared by `comparable_values`, which says what equal means for each type.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.read.predicate import RowFilter
from sleeper_nb.read.read_rows import coalesced, leaf_rows, opened_condition
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.read.scan_plan import PlannedLeaf
from sleeper_nb.read.value_order import as_bytes, lengths
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.versions.comparison import DifferingRegion, VersionComparison

Key = tuple[Any, ...]
_Places = np.ndarray[tuple[int], np.dtype[np.int64]]
_GroupNumbers = np.ndarray[tuple[int], np.dtype[np.int32]]

RowChangeKind = Literal["added", "removed"]
KINDS: tuple[RowChangeKind, ...] = ("added", "removed")


class RowDifference(NamedTuple):
    """Rows that only the earlier version has, and rows that only the later one has, each in key order."""

    removed: pa.RecordBatch
    added: pa.RecordBatch


class RowCounts(NamedTuple):
    """How many rows were added and removed."""

    added: int
    removed: int


def count_changes(comparison: VersionComparison, storage: Storage, *, progress: Progress = SILENT) -> RowCounts:
    """Return how many rows were added and removed.

    A region where files were only added, or only removed, is counted from metadata when rows are not processed.
    """
    (added, removed), unknown = recorded_counts(comparison)
    for change in stream_changes(unknown, storage, progress=progress):
        added, removed = added + change.added.num_rows, removed + change.removed.num_rows
    return RowCounts(added, removed)


def recorded_counts(comparison: VersionComparison) -> tuple[RowCounts, VersionComparison]:
    """Return the counts of the regions whose metadata has them, and the comparison of the other regions.

    Metadata has them where only one version has files, when rows are not processed and no condition is asked.
    """
    added = removed = 0
    unknown = []
    has_counts = comparison.stored_rows and comparison.where is None
    for region in comparison.regions:
        is_counted = has_counts and not (region.before.files and region.after.files)
        after, before = (region.after.rows, region.before.rows) if is_counted else (None, None)
        if after is None or before is None:
            unknown.append(region)
        else:
            added, removed = added + after, removed + before
    return RowCounts(added, removed), comparison.of(unknown)


def stream_changes(
    comparison: VersionComparison,
    storage: Storage,
    kinds: Collection[RowChangeKind] = KINDS,
    *,
    progress: Progress = SILENT,
) -> Iterator[RowDifference]:
    """Yield the rows that were added and removed and meet the condition: region by region, in key order within each.

    An unchanged row is in neither; a row whose values changed is in both.

    Rows of a kind that is not needed may be yielded too, but regions that can only have such are not read.

    `NotFound`, `StorageError` when a file is gone or cannot be read. `InvalidInput` when rows cannot be processed.
    """
    for changes in changes_by_region(comparison, storage, kinds, progress):
        yield from changes


def changes_by_region(
    comparison: VersionComparison, storage: Storage, kinds: Collection[RowChangeKind], progress: Progress
) -> Iterator[Iterator[RowDifference]]:
    """Yield what `stream_changes` does, for each region in turn; a key is in one region only."""
    with opened_condition(comparison.where) as row_filter:
        for changes in _all_changes(comparison, storage, kinds, progress):
            yield changes if row_filter is None else _meeting(row_filter, changes)


def _meeting(row_filter: RowFilter, changes: Iterable[RowDifference]) -> Iterator[RowDifference]:
    for change in changes:
        met = RowDifference(_met(row_filter, change.removed), _met(row_filter, change.added))
        if met.removed.num_rows or met.added.num_rows:
            yield met


def _met(row_filter: RowFilter, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows that meet a condition.

    It is tested after the versions are compared: rows that are equal in a comparison can differ in it, as 0.0 and -0.0.
    """
    found = list(row_filter.filter([rows])) if rows.num_rows else []
    return pa.concat_batches(found) if found else rows.slice(0, 0)


def _all_changes(
    comparison: VersionComparison, storage: Storage, kinds: Collection[RowChangeKind], progress: Progress
) -> Iterator[Iterator[RowDifference]]:
    schema, keys = comparison.schema, comparison.after.sort_order
    process_before = Processor.of(comparison.processing_before, comparison.before)
    process_after = Processor.of(comparison.processing_after, comparison.after)
    names_before, names_after = comparison.names(comparison.before), comparison.names(comparison.after)
    nothing = pa.RecordBatch.from_pylist([], schema)
    for i, region in enumerate(comparison.regions):
        progress.update("comparing the versions", i, len(comparison.regions))
        if not any(_can_have(region, kind) for kind in kinds):
            continue
        step = partial(progress.update, "comparing the versions", i, len(comparison.regions))
        old = _rows(region.before, process_before, names_before, storage, schema, step)
        new = _rows(region.after, process_after, names_after, storage, schema, step)
        if not region.after.files:
            yield (RowDifference(batch, nothing) for batch in old if batch.num_rows)
        elif not region.before.files:
            yield (RowDifference(nothing, batch) for batch in new if batch.num_rows)
        else:
            yield difference(old, new, schema, keys)


def _can_have(region: DifferingRegion, kind: RowChangeKind) -> bool:
    return bool(region.after.files if kind == "added" else region.before.files)


def _rows(
    leaf: PlannedLeaf,
    process: Processor,
    names: Mapping[str, str],
    storage: Storage,
    schema: pa.Schema,
    step: Callable[[], None],
) -> Iterator[pa.RecordBatch]:
    """Yield the processed rows of a version with the columns that are compared; each batch is a step of the work."""
    for batch in leaf_rows(leaf.files, process, storage):
        step()
        named = batch.select(list(names.values())).rename_columns(list(names))
        yield _in_schema(named, schema)


def _in_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if rows.schema == schema:
        return rows
    names = set(rows.schema.names)
    columns = [
        rows[field.name].cast(field.type) if field.name in names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def labelled(change: RowDifference, column: str, keys: Sequence[str], kinds: pa.Array | None = None) -> pa.RecordBatch:
    """Return the rows in key order, of one key the removed ones first, with the kind of each in a first column.

    `kinds` are those of the removed rows, then of the added ones; by default those of `KINDS`.
    """
    rows, removed = pa.concat_batches(change), change.removed.num_rows
    if kinds is None:
        parts = zip(("removed", "added"), change, strict=True)
        kinds = pa.concat_arrays([pa.repeat(pa.scalar(kind), part.num_rows) for kind, part in parts])
    found = pa.RecordBatch.from_arrays([kinds, *rows.columns], schema=labelled_schema(rows.schema, column))
    if not removed or removed == rows.num_rows:
        return found
    return found.take(pc.sort_indices(rows, sort_keys=[(key, "ascending") for key in keys]))  # a stable sort


def kind_column(names: Iterable[str]) -> str:
    """Return the name of the column with the kind of each row: ``change``, with underscores if a column has it."""
    taken, name = {each.casefold() for each in names}, "change"
    while name in taken:
        name = f"_{name}"
    return name


def labelled_schema(schema: pa.Schema, column: str) -> pa.Schema:
    return schema.insert(0, pa.field(column, pa.string(), nullable=False))


def difference(
    before: Iterable[pa.RecordBatch], after: Iterable[pa.RecordBatch], schema: pa.Schema, keys: Sequence[str]
) -> Iterator[RowDifference]:
    """Yield the rows that are left of each stream when equal rows of both have cancelled each other.

    A row that is twice in one stream and once in the other is left once. Memory holds a batch of each stream, and those
    rows of the last key that may still find an equal row.

    Parameters
    ----------
    before, after
        Batches with the columns of `schema`, sorted by `keys`.
    keys
        The columns that both streams are sorted by; without nulls.

    Yields
    ------
    RowDifference
        In key order: each begins at the last key of the one before, or after it.
    """
    old, new = _Side(coalesced(before), schema, keys), _Side(coalesced(after), schema, keys)
    frontier: Key | None = ()
    while frontier is not None:
        for side in (old, new):
            side.read_more()
        frontier = min((side.last_key() for side in (old, new) if not side.ended), default=None)
        for side in (old, new):
            side.advance(frontier)
        removed, added = _not_cancelled(old.due, new.due)
        change = RowDifference(old.take_final(removed, frontier, new), new.take_final(added, frontier, old))
        if change.removed.num_rows or change.added.num_rows:
            yield change


class _Side:
    """One of the two streams: `due` rows up to the frontier are compared next, rows beyond it wait.

    The frontier is the greatest key up to which both streams have been read; more rows of that very key may follow.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, keys: Sequence[str]) -> None:
        self._batches, self._keys = batches, keys
        self.due = self._held = self._beyond = pa.RecordBatch.from_pylist([], schema)
        self.ended = False

    @property
    def is_past_frontier(self) -> bool:
        return self.ended or self._beyond.num_rows > 0

    def read_more(self) -> None:
        if not self._beyond.num_rows and not self.ended:
            batch = next(self._batches, None)
            self.ended = batch is None
            self._beyond = self._beyond if batch is None else batch

    def last_key(self) -> Key:
        return self._key_at(self._beyond, self._beyond.num_rows - 1)

    def advance(self, frontier: Key | None) -> None:
        """Make due the rows that were held, and those that were read up to the frontier; all rows when it is None."""
        rows = self._beyond
        count = rows.num_rows
        if frontier is not None:
            count = bisect_right(range(count), frontier, key=lambda place: self._key_at(rows, place))
        due = rows.slice(0, count)
        self.due = pa.concat_batches([self._held, due]) if self._held.num_rows else due
        self._beyond = rows.slice(count)

    def take_final(self, left: _Places, frontier: Key | None, other: _Side) -> pa.RecordBatch:
        """Return the uncancelled rows that can find no equal any more; hold the rest.

        Rows of the frontier's key are held until the other side has been read past it.
        """
        rows = self.due if len(left) == self.due.num_rows else self.due.take(pa.array(left))
        count = rows.num_rows
        if frontier is not None and not other.is_past_frontier:
            count = bisect_left(range(count), frontier, key=lambda place: self._key_at(rows, place))
        self._held = rows.slice(count)
        return rows.slice(0, count)

    def _key_at(self, rows: pa.RecordBatch, place: int) -> Key:
        return key_at(rows, place, self._keys)


def key_at(rows: pa.RecordBatch, place: int, keys: Sequence[str]) -> Key:
    return tuple(_ordered_value(rows[name][place]) for name in keys)


def _ordered_value(value: pa.Scalar) -> Any:
    """Return a key's value as a value that Python can order; a time as a number, as Python's end in year 9999."""
    return value.value if isinstance(value, pa.TimestampScalar | pa.Date32Scalar) else value.as_py()


def _not_cancelled(before: pa.RecordBatch, after: pa.RecordBatch) -> tuple[_Places, _Places]:
    """Return the places of the rows that are left on each side, in order; a row that is left twice occurs twice."""
    old, new = before.num_rows, after.num_rows
    if not old or not new:
        return np.arange(old), np.arange(new)
    rows = pa.concat_batches([before, after])
    columns = {f"column {i}": comparable_values(column) for i, column in enumerate(rows.columns)}
    sign = pa.array(np.repeat(np.array([-1, 1]), [old, new]))
    equal = pa.table({**columns, "sign": sign, "place": pa.array(np.arange(old + new))}).group_by(list(columns))
    sums = equal.aggregate([("sign", "sum"), ("place", "min"), ("place", "max")])
    surplus, first, last = (sums[name].to_numpy() for name in ("sign_sum", "place_min", "place_max"))
    # Of equal rows, the first place is an old row if there is any, and the last place is a new row.
    removed = np.sort(np.repeat(first, np.maximum(-surplus, 0)))
    return removed, np.sort(np.repeat(last, np.maximum(surplus, 0))) - old


def comparable_values(values: pa.Array) -> pa.Array:
    """Return an array that has equal values exactly where `values` has, of a type that Arrow can group by.

    Null equals null, NaN equals NaN, and 0.0 equals -0.0, in lists, maps and structs too. Maps are equal when their
    items are, in any order. Lists, maps and structs become byte arrays, whose bytes are numbers that their items were
    given in this array: so the result can be compared only with itself.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        nan, zero = pa.scalar(float("nan"), kind), pa.scalar(0.0, kind)
        return pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))  # NaN has many forms, zero has two
    if pa.types.is_list(kind):
        valid = values.drop_null()
        items = _numbered(pc.list_flatten(valid))
        return as_bytes(values, lengths(valid), items.reshape(-1, 1))
    if pa.types.is_struct(kind):
        valid = values.drop_null()
        numbers = np.stack([_numbered(part) for part in valid.flatten()], axis=1)
        return as_bytes(values, np.ones(len(valid), np.int32), numbers)
    if pa.types.is_map(kind):
        valid = values.drop_null()
        offsets, counts = valid.offsets.to_numpy(), lengths(valid)
        inside = slice(offsets[0], offsets[-1]) if len(valid) else slice(0, 0)
        keys, items = _numbered(valid.keys[inside]), _numbered(valid.items[inside])
        order = np.lexsort((keys, np.repeat(np.arange(len(valid)), counts)))
        return as_bytes(values, counts, np.stack([keys, items], axis=1)[order])
    return values


def _numbered(values: pa.Array) -> _GroupNumbers:
    numbers: _GroupNumbers = comparable_values(values).dictionary_encode(null_encoding="encode").indices.to_numpy()
    return numbers
