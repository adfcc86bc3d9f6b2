"""Put rows in the table's key order: Arrow's own sort, or the same order from whole numbers, which is much faster.

Each key column is turned into words of 64 bits that sort as its values do. Numbers and times are one word. Strings and
bytes are one word for every 8 bytes after the prefix that all values share, and one more for the length where values
differ only in zeros at the end. NumPy sorts the first word; further words are read only for rows that are equal so far,
which usually are few. NumPy's fast sort of whole numbers is not stable, so the last word is the row's own index.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_Words: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint64]]
_Indices: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
_WordsOf: TypeAlias = Callable[[_Indices], _Words]
"""Returns one word of each of some rows."""

Key: TypeAlias = tuple[Any, ...]
"""The values of the key columns of a row, as Python compares them in key order."""

_WORD, _WORD_BITS = 8, 64
_SIGN = np.uint64(1 << 63)


def sort_rows(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the rows sorted by some columns, first column first; equal rows keep their order, nulls are last.

    Parameters
    ----------
    rows
        In any order.
    names
        The columns, of the types that keys have.
    """
    rows = rows.combine_chunks()
    order = key_order(rows, names)
    if order is None:
        return rows.sort_by([(name, "ascending") for name in names])
    return in_order(rows, order)


def in_order(rows: pa.Table, order: _Indices) -> pa.Table:
    """Return the rows in an order that `key_order` returned; rows that have it already are not copied."""
    return rows if (order[1:] > order[:-1]).all() else rows.take(pa.array(order))


def key_order(rows: pa.Table, names: Sequence[str]) -> _Indices | None:
    """Return the indices of the rows in key order; None when only Arrow's own sort gives it.

    That is so for nulls, for types that keys do not have, and for a column of more bytes than one Arrow array can have.
    """
    columns: list[Iterator[_WordsOf]] = []
    for name in names:
        words = _column_words(rows[name])
        if words is None:
            return None
        columns.append(words)
    return _sorted(rows.num_rows, (word for words in columns for word in words))


def _sorted(rows: int, words: Iterator[_WordsOf]) -> _Indices:
    """Return the stable order of rows by words, of which each splits the groups that the words before it left equal."""
    order: _Indices = np.arange(rows)
    places: _Indices = np.arange(rows)  # positions in `order` of the rows that have equals
    groups: _Words = np.zeros(rows, np.uint64)  # of the rows at these places, ascending
    for word in chain(words, [_own_index]):
        if not len(places):
            break  # no two rows are equal any more
        mine = order[places]
        values = word(mine)
        if len(places) == rows and (values[1:] > values[:-1]).all():
            break  # as they came: loads of rows that are in order already are common
        by_group = _order_in_groups(groups, values)
        order[places] = mine[by_group]
        values = values[by_group]
        begins = np.ones(len(values) + 1, np.bool_)  # of a group; the last one is the end
        np.not_equal(values[1:], values[:-1], out=begins[1:-1])
        begins[1:-1] |= groups[1:] != groups[:-1]
        has_equals = ~(begins[:-1] & begins[1:])
        places, groups = places[has_equals], np.cumsum(begins[:-1][has_equals]).astype(np.uint64)
    return order


def _own_index(rows: _Indices) -> _Words:
    """Return the last word, in which all rows differ: so the sort is stable, although NumPy's fast sort is not."""
    return rows.view(np.uint64)


def _order_in_groups(groups: _Words, values: _Words) -> _Indices:
    """Return the order by value within ascending groups."""
    if groups[0] == groups[-1]:
        return np.argsort(values)
    values, groups = _small(values), groups - groups[0]
    if _bits(values) + _bits(groups) > _WORD_BITS:  # equal values get equal numbers, as small as possible
        order = np.argsort(values)
        ascending = values[order]
        ranks = np.zeros(len(values), np.uint64)
        np.cumsum(ascending[1:] != ascending[:-1], out=ranks[1:])
        values = np.empty_like(values)
        values[order] = ranks
    return np.argsort(groups << np.uint64(_bits(values)) | values)


def _small(values: _Words) -> _Words:
    """Return smaller numbers of the same order: without the least, and without the zero bits that all end with."""
    values = values - values.min()
    used = int(np.bitwise_or.reduce(values))
    return values >> np.uint64((used & -used).bit_length() - 1) if used else values


def _bits(values: _Words) -> int:
    return int(values.max()).bit_length()


def _column_words(column: pa.ChunkedArray) -> Iterator[_WordsOf] | None:
    """Return the words of a column, first word first; None when it has none."""
    kind = column.type
    if column.null_count or column.num_chunks > 1:
        return None
    array = column.chunk(0) if column.num_chunks else pa.array([], kind)
    if pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return iter([_number_words(array)]) if not pa.types.is_unsigned_integer(kind) else None
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _text_words(array)
    return None


def _number_words(array: pa.Array) -> _WordsOf:
    """Return the one word of signed numbers, dates or timestamps."""
    plain = pa.int64() if array.type.bit_width == 64 else pa.int32()
    numbers = (array if pa.types.is_integer(array.type) else array.view(plain)).to_numpy(zero_copy_only=False)

    def words(rows: _Indices) -> _Words:
        signed: _Indices = numbers[rows].astype(np.int64)
        return signed.view(np.uint64) ^ _SIGN

    return words


def _text_words(array: pa.Array) -> Iterator[_WordsOf]:
    """Yield the words of strings or bytes: 8 bytes each, filled up with zeros at the end, then the length."""
    if not len(array):
        return
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    if len(content) < _WORD:
        content = np.concatenate((content, np.zeros(_WORD, np.uint8)))
    at_each: Any = np.ndarray((len(content) - _WORD + 1,), ">u8", content, strides=(1,))  # the 8 bytes from each place
    ends, lengths = starts[1:], np.diff(starts)
    first = _common_prefix(array)
    for before in range(first, max(first + 1, int(lengths.max())), _WORD):
        yield partial(_word_at, at_each, starts + before, ends)
    if lengths.min() != lengths.max():
        yield partial(_length_at, lengths)


def _length_at(lengths: _Indices, rows: _Indices) -> _Words:
    return lengths[rows].view(np.uint64)


def _word_at(at_each: Any, begins: _Indices, ends: _Indices, rows: _Indices) -> _Words:
    """Return the bytes of some rows from some places on as numbers, with zeros for those from their ends on."""
    begins, ends = begins[rows], ends[rows]
    places = np.minimum(begins, len(at_each) - 1)
    words: _Words = at_each[places].astype(np.uint64)
    moved = begins - places
    if moved.any():  # near the end of all bytes
        words <<= (_WORD * np.minimum(moved, _WORD - 1)).astype(np.uint64)
    unused = _WORD * np.clip(_WORD - (ends - begins), 0, _WORD)
    is_empty = unused == 8 * _WORD
    shift = np.where(is_empty, 0, unused).astype(np.uint64)
    words = words >> shift << shift
    words[is_empty] = 0
    return words


def _common_prefix(array: pa.Array) -> int:
    ends = pc.min_max(array)
    low, high = (bytes(ends[name].as_buffer()) for name in ("min", "max"))
    return next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))


def key_at(rows: pa.Table, names: Sequence[str], index: int) -> Key:
    """Return the key of a row; times are numbers."""
    return tuple(plain_value(rows[name][index]) for name in names)


def plain_value(value: pa.Scalar) -> Any:
    """Return a value of a key as Python compares it in key order; times are numbers."""
    is_time = pa.types.is_temporal(value.type)
    return value.value if is_time else value.as_py()


def first_from(rows: pa.Table, names: Sequence[str], key: Key, begin: int = 0, *, after: bool = False) -> int:
    """Return the index of the first of sorted rows whose key is at least `key`; or greater, with `after`.

    Parameters
    ----------
    names
        The columns that `key` has values of: the first of those by which the rows are sorted.
    begin
        The index from which on to search.
    """
    search = bisect_right if after else bisect_left
    return search(range(rows.num_rows), key, lo=begin, key=lambda index: key_at(rows, names, index))
