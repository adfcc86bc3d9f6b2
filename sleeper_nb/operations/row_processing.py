"""The processing kernel: filters, an iterator and aggregations over sorted Arrow batches, as a stream."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.permissions import Function
from sleeper_nb.model.processing import (
    AgeOff,
    Aggregation,
    DataProcessing,
    PythonIterator,
)
from sleeper_nb.model.schema import Schema
from sleeper_nb.storage.data_files import is_sorted, run_starts

# Aggregations: rows of a sorted stream that are equal on all keys become one row, a batch at a time.

_Starts = np.ndarray[tuple[int], np.dtype[np.int64]]
_SAFE = 2.0**62
"""A sum of longs that is smaller than this as a float cannot have wrapped around."""


def aggregated(
    batches: Iterable[pa.RecordBatch], aggregations: Sequence[Aggregation], schema: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield one row for each key, its values combined; columns that the batches do not have are passed over.

    Holds a batch and one row. ``sum`` must fit the field's type; NaN is the greatest value, as in SQL. A map's item
    that is null counts as absent, and combined maps are sorted by their keys.

    Parameters
    ----------
    batches
        Rows sorted by row keys and sort keys, with the table's types and at least these columns.
    aggregations
        How values are combined.
    schema
        The table's schema.

    Raises
    ------
    InvalidInput
        When a sum does not fit its field, naming the key.
    """
    held: pa.RecordBatch | None = None  # the row of the last key, which may go on in the next batch
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = batch if held is None else pa.concat_batches([held, batch])
        rows = _combined_rows(rows, aggregations, schema)
        held = rows.slice(rows.num_rows - 1)
        if rows.num_rows > 1:
            yield rows.slice(0, rows.num_rows - 1)
    if held is not None:
        yield held


def _combined_rows(rows: pa.RecordBatch, aggregations: Sequence[Aggregation], schema: Schema) -> pa.RecordBatch:
    starts = run_starts(rows, schema.sort_order)
    if len(starts) == rows.num_rows:
        return rows
    lengths = np.diff(starts, append=rows.num_rows)
    several = lengths > 1
    # Only rows that share their key are touched: the others stay as they are, to the order of a map's items.
    shared = rows.filter(pa.array(np.repeat(several, lengths)))
    shared_starts = np.concatenate(([0], np.cumsum(lengths[several])[:-1]))
    firsts = shared.take(pa.array(shared_starts))
    columns = {name: firsts[name] for name in rows.schema.names}
    for each in aggregations:
        if each.field in columns:
            try:
                columns[each.field] = _combined(shared[each.field], shared_starts, each)
            except _TooLarge as error:
                key = ", ".join(f"{name} {firsts[name][error.at].as_py()!r}" for name in schema.sort_order)
                raise InvalidInput(
                    f"{each} of {key} is too large for {columns[each.field].type}",
                    hint="give the field a wider type in a new table, and ingest the rows there",
                ) from None
    combined = pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)
    place = starts.copy()
    place[several] = rows.num_rows + np.arange(len(shared_starts))
    return pa.concat_batches([rows, combined]).take(pa.array(place))


class _TooLarge(Exception):  # noqa: N818 - it never leaves this module
    """A sum that its type cannot hold; `at` says which one."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def _combined(values: pa.Array, starts: _Starts, each: Aggregation) -> pa.Array:
    """Return one value for each run; a run begins at each of `starts`."""
    if each.of_maps:
        return _combined_maps(values, starts, each)
    kind = values.type
    if each.operation == "sum":
        return _summed(values, starts)
    if pa.types.is_floating(kind):
        # NaN is greater than all others, so that it does not matter in which order rows meet
        reduced = np.fmin if each.operation == "min" else np.maximum
        return pa.array(reduced.reduceat(values.to_numpy(), starts), kind)
    if _is_number(kind):
        whole = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        ends = np.minimum if each.operation == "min" else np.maximum
        return pa.array(ends.reduceat(whole.to_numpy(), starts)).view(kind)
    run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    order = [("run", "ascending"), ("value", "ascending" if each.operation == "min" else "descending")]
    found = pc.sort_indices(pa.RecordBatch.from_arrays([pa.array(run), values], ["run", "value"]), sort_keys=order)
    return values.take(found.take(pa.array(starts)))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _summed(values: pa.Array, starts: _Starts) -> pa.Array:
    kind = values.type
    if pa.types.is_decimal(kind):
        return _summed_decimals(values, starts)
    if pa.types.is_floating(kind):
        with np.errstate(all="ignore"):  # what is too large for a float is infinite
            sums = np.add.reduceat(values.to_numpy().astype(np.float64), starts)
            return pa.array(sums.astype(kind.to_pandas_dtype()), kind)
    wide = values.to_numpy().astype(np.int64)
    sums = np.add.reduceat(wide, starts)
    ends = np.append(starts[1:], len(wide))
    for i in np.flatnonzero(np.abs(np.add.reduceat(wide.astype(np.float64), starts)) >= _SAFE):
        if not -(2**63) <= sum(wide[starts[i] : ends[i]].tolist()) < 2**63:
            raise _TooLarge(int(i))
    least, most = (np.iinfo(kind.to_pandas_dtype()).min, np.iinfo(kind.to_pandas_dtype()).max)
    outside = np.flatnonzero((sums < least) | (sums > most))
    if len(outside):
        raise _TooLarge(int(outside[0]))
    return pa.array(sums, kind)


def _summed_decimals(values: pa.Array, starts: _Starts) -> pa.Array:
    kind = values.type
    run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    wide = pa.table({"run": run, "value": values.cast(pa.decimal256(76, kind.scale))})
    sums = wide.group_by("run", use_threads=False).aggregate([("value", "sum")]).sort_by("run")["value_sum"]
    try:
        return sums.combine_chunks().cast(kind)
    except pa.ArrowInvalid:
        most = 10**kind.precision
        too_large = (i for i, each in enumerate(sums.to_pylist()) if abs(each.scaleb(kind.scale)) >= most)
        raise _TooLarge(next(too_large)) from None


def _combined_maps(values: pa.MapArray, starts: _Starts, each: Aggregation) -> pa.MapArray:
    """Return one map for each run, sorted by keys, each key's items combined."""
    offsets = values.offsets.to_numpy()
    keys, items = values.keys[offsets[0] : offsets[-1]], values.items[offsets[0] : offsets[-1]]
    run = np.repeat(np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values))), np.diff(offsets))
    if items.null_count:
        there = items.is_valid()
        keys, items, run = keys.filter(there), items.filter(there), run[there.to_numpy(zero_copy_only=False)]
    # Maps repeat their keys: as numbers in the order of the keys they sort several times faster than as texts.
    encoded = keys.dictionary_encode()
    in_order = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(in_order), np.int64)
    rank[in_order.to_numpy()] = np.arange(len(in_order))
    place = run * len(rank) + rank[encoded.indices.to_numpy()]
    order = np.argsort(place, kind="stable")
    place = place[order]
    key_starts = np.flatnonzero(np.diff(place, prepend=-1))
    run_of_key, number_of_key = np.divmod(place[key_starts], max(1, len(rank)))
    if len(key_starts):
        try:
            items = _combined(items.take(pa.array(order)), key_starts, Aggregation(each.item_operation, each.field))
        except _TooLarge as error:
            raise _TooLarge(int(run_of_key[error.at])) from None
    counts = np.bincount(run_of_key, minlength=len(starts))
    ends = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    keys = encoded.dictionary.take(in_order).take(pa.array(number_of_key))
    return pa.MapArray.from_arrays(ends, keys, items, type=values.type)


# Iterators: Python functions that change rows, found by name and held to what they promise.
#
# An iterator is a function ``(batch: pa.RecordBatch, config: str) -> pa.RecordBatch``. It gets every column of the
# table and all rows of a row key in one batch, sorted by row keys and sort keys; it gives rows with the same columns,
# still sorted, and with keys between the first and the last that it got. Rows of other row keys must not matter to
# it, nor which of several rows that are equal on all keys comes first.
#
# Compaction runs it on some files of a leaf, and queries run it on what compaction left. So it must not matter either
# whether it has seen a part of the rows before: ``f(f(a) + b) == f(a + b)``. To keep the last row of each key, to drop
# rows or to round values are such functions; to number rows, or to double values, are none.
ENTRY_POINTS = "sleeper_nb.iterators"
"""The group of entry points in which packages offer iterators by a short name."""


def find(iterator: PythonIterator) -> Function:
    """Return the function that an iterator's name means, if the user has allowed that name.

    Nothing is imported before: the name comes from a file of the warehouse.

    Raises
    ------
    NotAllowed
        When the user has not allowed it; the hint says how to.
    NotFound
        When there is no such entry point, module or function; the nearest is named.
    InvalidInput
        When the module cannot be imported, or the name is of something that cannot be called.
    """
    name = iterator.name
    given = iterator.permissions.function(name)
    if given is not None:
        return given
    if ":" in name:
        return _function(name)
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    if name not in points.names:
        known = sorted(points.names)
        error = NotFound.of("iterator", name, known)
        raise error if known else NotFound(error.message, hint="write package.module:function")
    return _called(name, _imported(name, points[name].load))


def _function(name: str) -> Function:
    module_name, _, path = name.partition(":")
    module = _imported(name, lambda: importlib.import_module(module_name))
    found = module
    for part in path.split("."):
        if not hasattr(found, part):
            functions = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
            raise NotFound.of("function", path, functions, where=f" in {module_name}")
        found = getattr(found, part)
    return _called(name, found)


def _imported(name: str, load: Callable[[], object]) -> object:
    try:
        return load()
    except Exception as error:  # whatever the import of somebody's module raises
        raise InvalidInput(
            f"iterator {name!r} cannot be imported: {type(error).__name__}: {error}",
            hint="its package must be installed wherever the table is read, on Spark's executors too",
        ) from error


def _called(name: str, found: object) -> Function:
    if not callable(found):
        raise InvalidInput(f"iterator {name!r} is a {type(found).__name__}", hint="name a function of (batch, config)")
    return found


def iterated(
    batches: Iterable[pa.RecordBatch], function: Function, iterator: PythonIterator, schema: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield what an iterator makes of sorted rows that have every column; of all rows of a row key at once.

    Holds the rows of one row key, and a batch. Raises `InvalidInput`, naming the iterator, when it fails or breaks its
    promise.
    """
    for batch in _whole_keys(batches, [key.name for key in schema.row_keys]):
        try:
            found = function(batch, iterator.config)
        except Exception as error:
            raise InvalidInput(
                f"iterator {iterator.name!r} failed: {type(error).__name__}: {error}",
                hint="mend the function; no row was changed",
            ) from error
        yield _checked(found, batch, iterator.name, schema)


def _whole_keys(batches: Iterable[pa.RecordBatch], keys: list[str]) -> Iterator[pa.RecordBatch]:
    """Cut a sorted stream anew, so that no two batches have rows of the same row key."""
    held: list[pa.RecordBatch] = []  # rows of one row key, which may go on
    for batch in batches:
        if not batch.num_rows:
            continue
        cut = int(run_starts(batch, keys)[-1])
        if cut or not (held and _same_key(held[-1], batch, keys)):
            yield from _joined([*held, batch.slice(0, cut)])
            held = []
        held.append(batch.slice(cut))
    yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = [batch for batch in batches if batch.num_rows]
    if rows:
        yield pa.concat_batches(rows)


def _same_key(one: pa.RecordBatch, other: pa.RecordBatch, keys: list[str]) -> bool:
    return all(one[key][0] == other[key][0] for key in keys)


def _checked(found: object, given: pa.RecordBatch, name: str, schema: Schema) -> pa.RecordBatch:
    if not isinstance(found, pa.RecordBatch):
        raise InvalidInput(
            f"iterator {name!r} gave a {type(found).__name__}, no RecordBatch", hint="return a pyarrow.RecordBatch"
        )
    if found.schema.names != given.schema.names:
        raise InvalidInput(
            f"iterator {name!r} gave the columns {', '.join(found.schema.names)}",
            hint=f"it must give those that it got: {', '.join(given.schema.names)}",
        )
    try:
        rows = found.cast(schema.arrow)
        rows.validate(full=True)  # Arrow trusts that text is UTF-8
    except (ValueError, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(
            f"iterator {name!r} gave rows that do not fit the table: {str(error).splitlines()[0]}",
            hint="it must keep the types of the columns, and give no null where it got none",
        ) from error
    keys = list(schema.sort_order)
    # Between the ends of what it got, each batch follows the one before, in this leaf's part of the table too.
    ends = [given.slice(0, 1), rows, given.slice(given.num_rows - 1)]
    if not is_sorted(pa.Table.from_batches(ends).select(keys)):
        raise InvalidInput(
            f"iterator {name!r} gave rows that are not sorted, or whose keys it did not get",
            hint=f"keep the rows in order of {', '.join(keys)}",
        )
    return rows


@dataclass(frozen=True, slots=True)
class Processor:
    """A table's processing, ready to run; the iterator's function travels with it to wherever the rows are.

    Parameters
    ----------
    processing
        What is done.
    schema
        The schema that the rows are read with.
    function
        The iterator's, when there is one.
    """

    processing: DataProcessing
    schema: Schema
    function: Function | None = None

    @classmethod
    def of(cls, processing: DataProcessing, schema: Schema) -> Processor:
        """Find the iterator's function; raises `NotAllowed`, or why it cannot be imported."""
        return cls(processing, schema, find(processing.iterator) if processing.iterator else None)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the processed rows of one leaf; they stay sorted.

        Parameters
        ----------
        batches
            The leaf's rows in key order, with the columns of `DataProcessing.columns` at least.

        Raises
        ------
        InvalidInput
            When the iterator fails or breaks its promise, or a sum does not fit its field.
        """
        rows: Iterable[pa.RecordBatch] = map(self._conformed, batches)
        for each in self.processing.filters:
            rows = self._younger(rows, each)
        if self.processing.iterator is not None and self.function is not None:
            rows = iterated(rows, self.function, self.processing.iterator, self.schema)
        if self.processing.aggregations:
            rows = aggregated(rows, self.processing.aggregations, self.schema)
        return (batch for batch in rows if batch.num_rows)

    def _conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        # engines have types of their own for texts, and call everything nullable
        return batch.cast(pa.schema([self.schema.arrow.field(name) for name in batch.schema.names]))

    def _younger(self, batches: Iterable[pa.RecordBatch], each: AgeOff) -> Iterator[pa.RecordBatch]:
        kind, oldest = self.schema.arrow.field(each.field).type, each.oldest_kept(self.processing.now)
        if pa.types.is_timestamp(kind):
            oldest = in_microseconds(oldest)
        least = pa.scalar(oldest, pa.int64()).cast(kind)
        for batch in batches:
            kept = pc.fill_null(pc.greater_equal(batch[each.field], least), False)  # noqa: FBT003 - what has no time goes
            yield batch if pc.all(kept).as_py() else batch.filter(kept)


def in_microseconds(milliseconds: int) -> int:
    """Return a time as every engine can hold it: one before all times that there are stays before them."""
    return max(milliseconds, -(2**52)) * 1000
