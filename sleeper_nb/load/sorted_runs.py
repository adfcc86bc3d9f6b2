"""Sort rows by the table's keys: at once, or in sorted runs and a merge with bounded memory if they are too many.

Each key column is turned into words of 64 bits that sort as its values do. Numbers and times are one word. Strings and
bytes are one word for every 8 bytes after the prefix that all values share, and one more for the length where values
differ only in zeros at the end. NumPy sorts the first word; further words are read only for rows that are equal so far,
which usually are few. NumPy's fast sort of whole numbers is not stable, so the last word is the row's own index.

A run is a slice of the rows that was sorted at once. It is stored in pieces of about a megabyte, each an Arrow stream
in lz4, in a temporary file without a name, so that nothing of it is left, however the process ends. The first key of
each piece is kept in memory. A merge reads pieces in the order of their first keys until it has its share of memory.
All rows up to the first key of the next piece are then complete, so they are sorted and yielded; the others wait for
the next round. Few rows wait: of each run less than a piece. Too many runs are first merged into fewer, longer ones.

Without a merge, each leaf gets a data file of every run that has rows of it: the load is done sooner, and readers merge
the files until a compaction has. Scans, commits and requests to a bucket grow with these files, so there is a bound; a
load that would be beyond it merges all runs.
"""

from __future__ import annotations

import math
import tempfile
import threading
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from types import TracebackType
from typing import IO, Any, Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import StorageError
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.properties import IMPORT_TASK_BYTES

_Words: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint64]]
_Indices: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
_WordsOf: TypeAlias = Callable[[_Indices], _Words]
"""Returns one word of each of some rows."""

Key: TypeAlias = tuple[Any, ...]
"""The values of the key columns of a row, as Python compares them in key order."""

_WORD, _WORD_BITS = 8, 64
_SIGN = np.uint64(1 << 63)


def sort_rows(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the rows sorted by some columns, first column first; equal rows keep their order, nulls are last."""
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
        yield lambda rows: lengths[rows].view(np.uint64)


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
    """
    search = bisect_right if after else bisect_left
    return search(range(rows.num_rows), key, lo=begin, key=lambda index: key_at(rows, names, index))


MOST_OF_LEAF: Final = 20
MOST_IN_ALL: Final = 10_000
"""The most files that a load without a merge should add to a leaf, and to all leaves."""
FEW: Final = 12
"""So many files of a leaf at most, where nobody asked: a compaction with default settings merges them in one job."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Which runs of a load become data files.

    Parameters
    ----------
    most
        So many runs become files; further ones, if the data is larger than it seemed, are merged. 0: all are merged.
    expected
        About how many runs become files, which is how many files a leaf gets; 0 where all are merged.
    note
        Why all are merged although no merge was asked for; "" where that is not so.
    """

    most: int = 0
    expected: int = 0
    note: str = ""

    @classmethod
    def of(cls, total_bytes: int, run_bytes: int, workers: int, leaves: int) -> RunFiles:
        """Return which runs become files where no merge is asked for.

        Parameters
        ----------
        total_bytes
            About how many bytes of rows there are; 0 when that is not known.
        workers
            How many threads or tasks sort rows, each its own runs.

        Returns
        -------
        All are merged, with the reason, where there would be more files than there should be.
        """
        most, expected = most_runs(leaves), workers * max(1, math.ceil(total_bytes / workers / max(1, run_bytes)))
        if expected <= most:
            return cls(most, expected)
        bound = f"limit {most}" + (f" with {leaves:,} leaves" if most < MOST_OF_LEAF else "")
        note = (
            f"sorted runs will be merged anyway: each leaf would get about {expected:,} files ({bound}); "
            f"a larger {IMPORT_TASK_BYTES} makes fewer"
        )
        return cls(note=note)

    def if_few(self) -> RunFiles:
        """Return the same where a leaf gets few files; where it gets more, all runs are merged."""
        return self if self.expected <= FEW else ALL_MERGED

    def of_worker(self, workers: int) -> int:
        """Return how many runs each of some workers may write as files: at least one, unless all are merged."""
        return max(1, self.most // workers) if self.most else 0


ALL_MERGED: Final = RunFiles()


def most_runs(leaves: int) -> int:
    """Return how many runs may become files of a table with so many leaves."""
    return min(MOST_OF_LEAF, MOST_IN_ALL // leaves)


def most_of_leaf(references: Iterable[FileReference]) -> int:
    return max(Counter(each.partition_id for each in references).values(), default=0)


def unmerged_note(files: int) -> str:
    """Return what a report says of a load that adds so many files to a leaf; "" when there is nothing to merge."""
    return f"up to {files:,} files of each leaf, which compaction merges" if files > 1 else ""


PIECE_BYTES, PIECE_ROWS = 1 << 20, 65_536
"""About the most of a piece in memory."""
_MOST_RUNS = 64
"""The most runs of one merge."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of the rows of a run, which follow each other, in a temporary file.

    Parameters
    ----------
    rows, bytes
        How many rows they are, and how much memory they take.
    """

    offset: int
    length: int
    rows: int
    bytes: int
    first: Key


Run = tuple[Piece, ...]
"""The pieces of a sorted run, in order."""


def cut_in_pieces(rows: pa.Table) -> Iterator[pa.Table]:
    count = max(1, -(-rows.nbytes // PIECE_BYTES), -(-rows.num_rows // PIECE_ROWS))
    size = -(-rows.num_rows // count)
    for begin in range(0, rows.num_rows, size or 1):
        yield rows.slice(begin, size)


def packed(rows: pa.Table) -> pa.Buffer:
    """Return a piece in the form in which it is stored."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
        stream.write_table(rows)
    return sink.getvalue()


class Spool:
    """A temporary file with sorted runs; several threads may use it.

    Raises `StorageError` from all methods: when the file cannot be written or read.

    Parameters
    ----------
    memory
        About how many bytes of rows a merge holds.
    """

    def __init__(self, names: Sequence[str], memory: int, folder: str | None = None) -> None:
        self._names, self._memory = list(names), memory
        self._folder = folder or tempfile.gettempdir()
        self._lock, self._end = threading.Lock(), 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            with suppress(OSError):  # rows that no longer fit on a full disk; an earlier error says so
                self._file.close()

    def add(self, rows: pa.Table) -> Run:
        return tuple(
            self.store(packed(piece), piece.num_rows, piece.nbytes, key_at(piece, self._names, 0))
            for piece in cut_in_pieces(rows)
        )

    def store(self, content: Any, rows: int, size: int, first: Key) -> Piece:
        """Store a piece that is packed; the other parameters are those of `Piece`."""
        length = memoryview(content).nbytes
        try:
            with self._lock:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed in __exit__
                offset = self._end
                self._end += length
                self._file.seek(offset)
                self._file.write(content)
        except OSError as error:
            raise self._failed("write", error) from error
        return Piece(offset, length, rows, size, first)

    def read(self, piece: Piece) -> pa.Table:
        assert self._file is not None  # noqa: S101 - a piece was stored
        try:
            with self._lock:
                self._file.seek(piece.offset)
                content = self._file.read(piece.length)
        except OSError as error:
            raise self._failed("read", error) from error
        return pa.ipc.open_stream(content).read_all()

    def _failed(self, verb: str, error: OSError) -> StorageError:
        hint = "make room there, or name another folder in the environment variable TMPDIR"
        return StorageError(f"cannot {verb} temporary rows in {self._folder}: {error.strerror or error}", hint=hint)

    def merged(self, runs: Sequence[Run], low: Key | None = None, high: Key | None = None) -> Iterator[pa.Table]:
        """Yield the rows of some runs in key order; with `low`, only those from it on, and with `high`, before it."""
        while len(runs) > _MOST_RUNS:
            groups = (runs[i : i + _MOST_RUNS] for i in range(0, len(runs), _MOST_RUNS))
            merged = (tuple(p for rows in self.merged(group, low, high) for p in self.add(rows)) for group in groups)
            runs = [run for run in merged if run]  # some have no row of the range
        pieces = (piece for run in runs for piece in _overlapping(run, low, high))
        waiting = deque(sorted(pieces, key=lambda piece: piece.first))
        held: list[pa.Table] = []
        while waiting:
            size = 0
            while waiting and size < self._memory:
                size += waiting[0].bytes
                held.append(self._between(self.read(waiting.popleft()), low, high))
            rows = pa.concat_tables(held)
            held.clear()
            if len(runs) > 1:
                rows = sort_rows(rows, self._names)
            end = rows.num_rows
            if waiting:
                end = first_from(rows, self._names, waiting[0].first, after=True)
                held.append(rows.slice(end))
            yield rows.slice(0, end)

    def _between(self, rows: pa.Table, low: Key | None, high: Key | None) -> pa.Table:
        begin = 0 if low is None else first_from(rows, self._names, low)
        end = rows.num_rows if high is None else first_from(rows, self._names, high, begin)
        return rows.slice(begin, end - begin)


def _overlapping(run: Run, low: Key | None, high: Key | None) -> Iterator[Piece]:
    """Yield the pieces of a run that can have keys of a range."""
    for piece, following in zip(run, (*run[1:], None), strict=True):
        is_before = low is not None and following is not None and following.first < low
        if not is_before and (high is None or piece.first < high):
            yield piece


def ranges_of(runs: Iterable[Run], part_bytes: int) -> list[tuple[Key | None, Key | None]]:
    """Return ranges of keys, each from the first key on and before the second, of about so many bytes of some runs."""
    pieces = sorted((piece for run in runs for piece in run), key=lambda piece: piece.first)
    ends: list[Key | None] = [None]
    size, start = 0, pieces[0].first
    for piece in pieces:
        if size >= part_bytes and piece.first > start:
            ends.append(piece.first)
            size, start = 0, piece.first
        size += piece.bytes
    return list(pairwise([*ends, None]))
