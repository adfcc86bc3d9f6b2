"""A large set of file names that is cheap to copy, and answers quickly whether a name may be in it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.uint64]

_SUFFIX = 8  # the length of ".parquet", with which most names end
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
