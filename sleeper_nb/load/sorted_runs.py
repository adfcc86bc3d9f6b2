"""Sort more rows than fit in memory: sorted runs in a temporary file, and merges of them with bounded memory.

A run is sorted, and stored in pieces of about a megabyte, each an Arrow stream in lz4. The first key of each piece is
kept in memory. A merge reads pieces in the order of their first keys until it has its share of memory. All rows up to
the first key of the next piece are then complete, so they are sorted and yielded; the others wait for the next round.
Few rows wait: of each run less than a piece. Too many runs are first merged into fewer, longer ones.

The temporary file has no name, so that nothing of it is left, however the process ends.
"""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import IO, Any, Self

import pyarrow as pa

from sleeper_nb.errors import StorageError
from sleeper_nb.load.key_order import Key, first_from, key_at, sort_rows

PIECE_BYTES, PIECE_ROWS = 1 << 20, 65_536
"""About the most of a piece in memory."""
_MOST_RUNS = 64
"""The most runs of one merge."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of the rows of a run, which follow each other, in a temporary file.

    Parameters
    ----------
    offset, length
        Where they are in the file, in bytes.
    rows, bytes
        How many rows they are, and how much memory they take.
    first
        The key of the first row.
    """

    offset: int
    length: int
    rows: int
    bytes: int
    first: Key


Run = tuple[Piece, ...]
"""The pieces of a sorted run, in order."""


def cut_in_pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield sorted rows in pieces."""
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

    Parameters
    ----------
    names
        The columns by which all runs are sorted.
    memory
        About how many bytes of rows a merge holds.
    folder
        Where the file is; the folder for temporary files when None.

    Raises
    ------
    StorageError
        From all methods: when the file cannot be written or read.
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
        """Store sorted rows as a run."""
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
        """Return the rows of a piece."""
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
