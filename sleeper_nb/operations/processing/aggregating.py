"""Aggregations: rows of a sorted stream that are equal on all keys become one row, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.processing import Aggregation
from sleeper_nb.model.schema import Schema
from sleeper_nb.storage.sorted_keys import run_starts

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
