"""Process sorted rows as a stream: a table's filters, iterator and aggregations.

`Processor` applies all three to the rows of one leaf. Filters drop old rows; the iterator is a user's function (see
`sleeper_nb.read.iterators`); `aggregate` combines rows that are equal on all keys into one, a batch at a time;
at the end, keys whose last row marks them as deleted are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.permissions import Function
from sleeper_nb.model.processing import FIRST, LAST_NOT_NULL, AgeOff, Aggregation, DataProcessing
from sleeper_nb.model.schema import Schema
from sleeper_nb.read.iterators import find_iterator, run_iterator
from sleeper_nb.read.value_order import Ranks, ranks
from sleeper_nb.storage.data_files import run_starts

_RunStarts = np.ndarray[tuple[int], np.dtype[np.int64]]
_SAFE = 2.0**62
"""A sum of longs whose float estimate is below this cannot have overflowed."""


@dataclass(frozen=True, slots=True)
class Processor:
    """A table's processing, ready to run. It can be pickled with the iterator's function and sent to Spark tasks.

    Parameters
    ----------
    processing
        The filters, iterator and aggregations.
    schema
        The schema that the rows are read with.
    """

    processing: DataProcessing
    schema: Schema
    function: Function | None = None

    @classmethod
    def of(cls, processing: DataProcessing, schema: Schema) -> Processor:
        """Return the processor after finding the iterator's function; raises as `find_iterator` does."""
        return cls(processing, schema, find_iterator(processing.iterator) if processing.iterator else None)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the processed rows of one leaf, still sorted.

        `InvalidInput` when the iterator fails or breaks its contract, or a sum does not fit its field.

        Parameters
        ----------
        batches
            The leaf's rows in key order, at least with the columns of `DataProcessing.columns`.
        """
        rows: Iterable[pa.RecordBatch] = map(self._with_table_types, batches)
        for each in self.processing.filters:
            rows = self._young_enough(rows, each)
        if self.processing.iterator is not None and self.function is not None:
            rows = run_iterator(rows, self.function, self.processing.iterator, self.schema)
        if self.processing.aggregations:
            rows = aggregate(rows, self.processing, self.schema)
            if self.processing.delete_column and not self.processing.keeps_marks:
                rows = map(self._not_deleted, rows)
        return (batch for batch in rows if batch.num_rows)

    def in_part(self) -> Processor:
        """Return what processes some rows of a key, so that they can still be combined with its other rows."""
        return replace(self, processing=self.processing.in_part())

    def _not_deleted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of the keys that are not deleted; a batch has all rows of a key."""
        if not self.processing.keeps_winners:
            gone = is_true(batch[self.processing.delete_column])
        else:
            starts = run_starts(batch, self.schema.sort_order)
            gone = np.repeat(deleted(batch, starts, self.processing), np.diff(starts, append=batch.num_rows))
        return batch.filter(pa.array(~gone)) if gone.any() else batch

    def _with_table_types(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        # Engines use other types for text, and declare every column nullable.
        return batch.cast(pa.schema([self.schema.arrow.field(name) for name in batch.schema.names]))

    def _young_enough(self, batches: Iterable[pa.RecordBatch], each: AgeOff) -> Iterator[pa.RecordBatch]:
        kind, oldest = self.schema.arrow.field(each.field).type, each.oldest_kept(self.processing.now)
        if pa.types.is_timestamp(kind):
            oldest = in_microseconds(oldest)
        least = pa.scalar(oldest, pa.int64()).cast(kind)
        for batch in batches:
            kept = pc.fill_null(pc.greater_equal(batch[each.field], least), False)  # noqa: FBT003 - a row without a time is dropped
            yield batch if pc.all(kept).as_py() else batch.filter(kept)


def in_microseconds(milliseconds: int) -> int:
    """Return milliseconds as microseconds that fit 64 bits; a time before all valid times stays before them."""
    return max(milliseconds, -(2**52)) * 1000


def aggregate(
    batches: Iterable[pa.RecordBatch], processing: DataProcessing, schema: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield one row for each key, with the values of its rows combined; or the rows that win, see `DataProcessing`.

    Holds one batch and the rows of one key in memory. NaN is the greatest value, as in SQL. A null item of a map counts
    as absent, and combined maps are sorted by their keys. Aggregations of columns that the batches lack are skipped.

    `InvalidInput` when a sum does not fit the type of its field; the error names the key.

    Parameters
    ----------
    batches
        Rows sorted by row keys and sort keys, with the table's types.
    processing
        How the values of each field are combined.

    Yields
    ------
    Batches that have all rows of each of their keys.
    """
    in_part = processing.in_part()
    rows = _aggregated(batches, in_part, schema)
    if in_part.keeps_winners and not processing.keeps_winners:  # the parts are batches here
        rows = (_combined_rows(each, processing, schema) for each in rows)
    return rows


def _aggregated(
    batches: Iterable[pa.RecordBatch], processing: DataProcessing, schema: Schema
) -> Iterator[pa.RecordBatch]:
    last: pa.RecordBatch | None = None  # the rows of the last key, which may continue in the next batch
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = batch if last is None else pa.concat_batches([last, batch])
        rows = _combined_rows(rows, processing, schema)
        begin = int(run_starts(rows, schema.sort_order)[-1]) if processing.keeps_winners else rows.num_rows - 1
        last = rows.slice(begin)
        if begin:
            yield rows.slice(0, begin)
    if last is not None:
        yield last


def _combined_rows(rows: pa.RecordBatch, processing: DataProcessing, schema: Schema) -> pa.RecordBatch:
    """Return the combined rows of some sorted rows; rows that have their key for themselves stay unchanged."""
    starts = run_starts(rows, schema.sort_order)
    if len(starts) == rows.num_rows:
        return rows
    lengths = np.diff(starts, append=rows.num_rows)
    several = lengths > 1
    # Only rows that share their key are combined; all others stay the same, down to the order of a map's items.
    is_shared = np.repeat(several, lengths)
    shared = rows.filter(pa.array(is_shared))
    shared_starts = np.concatenate(([0], np.cumsum(lengths[several])[:-1]))
    combine = _winning_rows if processing.keeps_winners else _one_row_each
    combined, places = combine(shared, shared_starts, processing, schema)
    sources = np.arange(rows.num_rows)
    left = ~is_shared
    filled = np.flatnonzero(is_shared)[places]
    sources[filled], left[filled] = rows.num_rows + np.arange(len(places)), True
    return pa.concat_batches([rows, combined]).take(pa.array(sources[left]))


_Combined = tuple[pa.RecordBatch, _RunStarts]
"""Combined rows, and the indices of the rows whose places they take."""


def _one_row_each(rows: pa.RecordBatch, starts: _RunStarts, processing: DataProcessing, schema: Schema) -> _Combined:
    firsts = rows.take(pa.array(starts))
    columns = {name: firsts[name] for name in rows.schema.names}
    columns |= _computed(rows, starts, processing, schema)
    for each in winners(rows, starts, processing):
        columns |= {name: each.values(rows, name) for name in each.fields}
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema), starts


def _winning_rows(rows: pa.RecordBatch, starts: _RunStarts, processing: DataProcessing, schema: Schema) -> _Combined:
    """Return those rows of each key that win a comparison; what is computed from all others is in the first of them."""
    wins = np.zeros(rows.num_rows, bool)
    for each in winners(rows, starts, processing):
        wins[each.rows[each.rows >= 0]] = True
    wins[starts] |= ~np.logical_or.reduceat(wins, starts)  # any row is as good where no column is asked that can win
    runs = np.repeat(np.arange(len(starts)), np.diff(starts, append=rows.num_rows))
    left = np.flatnonzero(wins)
    firsts = np.flatnonzero(np.diff(runs[left], prepend=-1))
    adds = ~wins
    adds[left[firsts]] = True
    added = rows.filter(pa.array(adds))
    computed = _computed(added, np.flatnonzero(np.diff(runs[adds], prepend=-1)), processing, schema)
    winning = rows.take(pa.array(left))
    columns = {name: winning[name] for name in rows.schema.names}
    sources = np.arange(len(left))
    sources[firsts] = len(left) + np.arange(len(firsts))
    for name, values in computed.items():
        columns[name] = pa.concat_arrays([columns[name], values]).take(pa.array(sources))
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema), left


def _computed(
    rows: pa.RecordBatch, starts: _RunStarts, processing: DataProcessing, schema: Schema
) -> dict[str, pa.Array]:
    columns = {}
    for each in processing.aggregations:
        if each.sequence or each.field not in rows.schema.names:
            continue
        try:
            columns[each.field] = _combined(rows[each.field], starts, each)
        except _TooLarge as error:
            row = int(starts[error.at])
            key = ", ".join(f"{name} {rows[name][row].as_py()!r}" for name in schema.sort_order)
            raise InvalidInput(
                f"{each} of {key} is too large for {rows[each.field].type}",
                hint=f"alter the table: give column {each.field!r} a wider type, such as long or decimal(38,0)",
            ) from None
    return columns


class _TooLarge(Exception):  # noqa: N818 - it never leaves this module
    """A sum that does not fit its type; `at` is the index of its run."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
"""Integers by their bits."""


def _combined(values: pa.Array, starts: _RunStarts, each: Aggregation) -> pa.Array:
    """Return one value for each run of values; a run begins at each of `starts`."""
    if each.of_maps:
        return _combined_maps(values, starts, each)
    if each.operation == "sum":
        return _sums(values, starts)
    kind, is_min = values.type, each.operation == "min"
    if pa.types.is_floating(kind):
        # NaN is greater than all other values, so the result does not depend on the order of rows.
        reduce_floats = np.fmin if is_min else np.maximum
        return pa.array(reduce_floats.reduceat(values.to_numpy(), starts), kind)
    if _is_integer_like(kind):
        integers = values.view(_INTEGERS[kind.bit_width])
        reduce_integers = np.minimum if is_min else np.maximum
        return pa.array(reduce_integers.reduceat(integers.to_numpy(), starts)).view(kind)
    run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    order = [("run", "ascending"), ("value", "ascending" if is_min else "descending")]
    sorted_indices = pc.sort_indices(
        pa.RecordBatch.from_arrays([pa.array(run), values], ["run", "value"]), sort_keys=order
    )
    return values.take(sorted_indices.take(pa.array(starts)))


def _is_integer_like(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp, pa.types.is_time)
    return any(test(kind) for test in tests)


def _sums(values: pa.Array, starts: _RunStarts) -> pa.Array:
    """Return the sum of each run; raise `_TooLarge` for the first one that does not fit the type."""
    kind = values.type
    if pa.types.is_decimal(kind):
        return _decimal_sums(values, starts)
    if pa.types.is_floating(kind):
        with np.errstate(all="ignore"):  # a sum that is too large for a float is infinite
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


def _decimal_sums(values: pa.Array, starts: _RunStarts) -> pa.Array:
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


def _combined_maps(values: pa.MapArray, starts: _RunStarts, each: Aggregation) -> pa.MapArray:
    """Return one map for each run of maps, sorted by keys, with the items of each key combined."""
    offsets = values.offsets.to_numpy()
    keys, items = values.keys[offsets[0] : offsets[-1]], values.items[offsets[0] : offsets[-1]]
    run = np.repeat(np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values))), np.diff(offsets))
    if items.null_count:
        valid = items.is_valid()
        keys, items, run = keys.filter(valid), items.filter(valid), run[valid.to_numpy(zero_copy_only=False)]
    # Maps repeat their keys: sorting the ranks of keys is several times faster than sorting the keys themselves.
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


# The row of each key whose values win: that with the greatest or least value of a sequence column.
#
# Rows of an equal sequence are compared by the values that they would give, so that the same row wins in whatever order
# rows come and are combined.

_Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Winners:
    """Which rows win, and the fields that take their values.

    Parameters
    ----------
    fields
        Names of value fields.
    rows
        The index of a row for each key; -1 where no row of the key has a value.
    is_null
        Whether the values of each key are null, because no row has one or a delete is the last to say something.
    """

    fields: tuple[str, ...]
    rows: Ranks
    is_null: _Mask

    def values(self, rows: pa.RecordBatch, field: str) -> pa.Array:
        return rows[field].take(pa.array(self.rows, mask=self.is_null))


def winners(rows: pa.RecordBatch, starts: Ranks, processing: DataProcessing) -> list[Winners]:
    """Return the winners for all aggregations by a sequence that some rows have the fields of.

    Parameters
    ----------
    rows
        Rows with each key's together.
    """
    found: dict[tuple[str, ...], Winners] = {}
    for each in processing.aggregations:
        if not each.sequence or each.field not in rows.schema.names:
            continue
        fields = tuple(name for name in processing.chosen_together(each) if name in rows.schema.names)
        if fields not in found:
            won = _winning(rows, starts, each, fields, processing.delete_column)
            is_null = won < 0
            if each.operation == LAST_NOT_NULL and processing.delete_column:
                is_null = is_null | is_true(rows[processing.delete_column].take(pa.array(won, mask=is_null)))
            found[fields] = Winners(fields, won, is_null)
    return list(found.values())


def deleted(rows: pa.RecordBatch, starts: Ranks, processing: DataProcessing) -> _Mask:
    mark = processing.delete_column
    (rule,) = (each for each in processing.aggregations if each.field == mark)
    last = _winning(rows, starts, rule, (mark,), mark)
    return is_true(rows[mark].take(pa.array(last)))


def is_true(values: pa.Array) -> _Mask:
    mask: _Mask = pc.fill_null(values, False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - a value
    return mask


def _winning(rows: pa.RecordBatch, starts: Ranks, rule: Aggregation, fields: Sequence[str], mark: str) -> Ranks:
    runs = np.repeat(np.arange(len(starts)), np.diff(starts, append=rows.num_rows))
    left = np.arange(rows.num_rows)
    if rule.operation == LAST_NOT_NULL:
        has_value = rows[rule.field].is_valid().to_numpy(zero_copy_only=False)
        left = np.flatnonzero(has_value | is_true(rows[mark]) if mark else has_value)
        fields = (*([mark] if mark and mark != rule.field else []), rule.field)
    for name in (rule.sequence, *fields):
        left = _greatest(rows[name], left, runs, is_least=name == rule.sequence and rule.operation == FIRST)
    found = np.full(len(starts), -1)
    found[runs[left]] = left
    return found


def _greatest(values: pa.Array, left: Ranks, runs: Ranks, *, is_least: bool) -> Ranks:
    """Return the indices, of some that are left, whose values are the greatest of their run, or the least."""
    firsts = np.flatnonzero(np.diff(runs[left], prepend=-1))
    if len(firsts) == len(left):
        return left  # one row of each run
    order = ranks(values.take(pa.array(left)))
    if is_least:
        order = np.where(order > 0, order.max(initial=0) + 1 - order, 0)  # a null still loses
    best = np.maximum.reduceat(order, firsts)
    tied: Ranks = left[order == np.repeat(best, np.diff(firsts, append=len(left)))]
    return tied
