"""The order of values of any type, as numbers: equal values have equal numbers, and greater values have greater ones.

The order is total, so that a choice between values never depends on the order in which they come. Nulls come first.
Numbers, times, text and bytes have the order of keys; NaN is greater than all numbers, and -0.0 less than 0.0. Lists,
maps and structs are ordered by their first item that differs; a list that another one begins with is less.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Ranks = np.ndarray[tuple[int], np.dtype[np.int64]]
_SIGN = 2**63 - 1


def ranks(values: pa.Array) -> Ranks:
    """Return numbers in the order of the values; they can be compared only with each other."""
    kind = values.type
    if pa.types.is_floating(kind):
        return _dense(_of_floats(values))
    if pa.types.is_map(kind):
        valid = values.drop_null()
        inside = slice(valid.offsets[0].as_py(), valid.offsets[-1].as_py()) if len(valid) else slice(0, 0)
        items = np.stack([ranks(valid.keys[inside]), ranks(valid.items[inside])], axis=1)
        return _dense(as_bytes(values, lengths(valid), items.astype(">u4")))
    if pa.types.is_list(kind):
        valid = values.drop_null()
        items = ranks(pc.list_flatten(valid)).reshape(-1, 1)
        return _dense(as_bytes(values, lengths(valid), items.astype(">u4")))
    if pa.types.is_struct(kind):
        valid = values.drop_null()
        members = np.stack([ranks(part) for part in valid.flatten()], axis=1)
        return _dense(as_bytes(values, np.ones(len(valid), np.int32), members.astype(">u4")))
    return _dense(values)


def _dense(values: pa.Array) -> Ranks:
    """Return the ranks of values that Arrow orders: 0 for null, and from 1 without gaps for the others."""
    found = np.zeros(len(values), np.int64)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    found[valid] = pc.rank(values.drop_null(), sort_keys="ascending", tiebreaker="dense").to_numpy()
    return found


def _of_floats(values: pa.Array) -> pa.Array:
    floats = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    floats = np.where(np.isnan(floats), np.nan, floats)  # one NaN of many
    bits = floats.view(np.int64)
    return pa.array(np.where(bits < 0, bits ^ _SIGN, bits), mask=values.is_null().to_numpy(zero_copy_only=False))


def lengths(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    found: np.ndarray[tuple[int], np.dtype[np.int32]] = np.diff(values.offsets.to_numpy())
    return found


def as_bytes(
    values: pa.Array,
    counts: np.ndarray[tuple[int], np.dtype[np.int32]],
    items: np.ndarray[tuple[int, int], np.dtype[np.integer]],
) -> pa.Array:
    """Return for each value the bytes of the numbers of its items.

    Parameters
    ----------
    values
        Lists, maps or structs.
    counts
        How many items each has that is not null.
    items
        A row of numbers for each of these items.
    """
    data = np.ascontiguousarray(items)
    is_valid = values.is_valid()
    all_lengths = np.zeros(len(values), np.int64)
    all_lengths[is_valid.to_numpy(zero_copy_only=False)] = counts
    offsets = np.concatenate(([0], np.cumsum(all_lengths))) * data.shape[1] * data.itemsize
    buffers = [is_valid.buffers()[1], pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
