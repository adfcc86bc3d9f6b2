"""Columns of any type as columns that engines can group by: two values are equal in one when they are in the other.

Nulls equal nulls, NaN equals NaN, and 0.0 equals -0.0, in lists and maps too. Maps are equal when their items are, in
any order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_Numbers = np.ndarray[tuple[int], np.dtype[np.int32]]


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


def _numbered(values: pa.Array) -> _Numbers:
    """Return a number for each value, null too; equal ones have equal numbers."""
    numbers: _Numbers = identity(values).dictionary_encode(null_encoding="encode").indices.to_numpy()
    return numbers


def _lengths(values: pa.Array) -> _Numbers:
    lengths: _Numbers = np.diff(values.offsets.to_numpy())
    return lengths


def _as_bytes(values: pa.Array, lengths: _Numbers, items: np.ndarray[tuple[int, int], np.dtype[np.int32]]) -> pa.Array:
    """Return for each list of numbers its bytes; `lengths` and `items` are those of the values that are not null."""
    data = np.ascontiguousarray(items)
    all_lengths = np.zeros(len(values), np.int64)
    there = values.is_valid()
    all_lengths[there.to_numpy(zero_copy_only=False)] = lengths
    offsets = np.concatenate(([0], np.cumsum(all_lengths))) * data.shape[1] * data.itemsize
    buffers = [there.buffers()[1], pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
