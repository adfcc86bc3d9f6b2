"""Bulk loads by threads of this process: no Spark is started, as on one machine its tasks would only cost time.

1. Each thread takes the next piece of the data, such as some row groups of a Parquet file, reads it with the code of an
   ingest, and gathers slices. It sorts each slice, cuts it by leaf, and stores the parts as runs in a temporary file.
2. Then each thread takes the next leaf, merges its runs, and writes a data file. A large leaf is cut into ranges of
   keys, so that several threads write it, each a file.

Without a merge, the first step writes the parts of a slice as data files instead (`run_files`); only runs beyond the
bound go to the temporary file, and through the second step.

Memory depends on the number of threads and the table's properties, not on the number of rows.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from sleeper_nb.clock import Clock
from sleeper_nb.errors import Cancelled
from sleeper_nb.load.bulk_load import (
    BufferedRows,
    check_all_written,
    merge_bytes,
    part_bytes,
    progress_text,
    slice_bytes,
    times_in_memory,
)
from sleeper_nb.load.conform import raise_first
from sleeper_nb.load.file_formats import pieces_of, pieces_to_read
from sleeper_nb.load.ingest import (
    IngestSettings,
    references_to,
    rows_by_leaf,
    sorted_by_leaf,
    write_sorted,
)
from sleeper_nb.load.key_order import Key, sort_rows
from sleeper_nb.load.matching import Matching
from sleeper_nb.load.parquet_files import BATCH_ROWS
from sleeper_nb.load.row_checks import NOT_JUDGED, JudgedRows, RowCheck, no_rows_judged, opened_checks
from sleeper_nb.load.run_files import ALL_MERGED, RunFiles
from sleeper_nb.load.sorted_runs import Run, Spool, ranges_of
from sleeper_nb.load.source_files import SourceFile
from sleeper_nb.load.sources import IngestSource, read_source
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import Progress
from sleeper_nb.storage import paths
from sleeper_nb.storage.data_files import DataFile
from sleeper_nb.storage.filesystem import Storage

_POLL_SECONDS = 0.2
_SORTING = 0.6
"""About which share of the time the first step takes."""


def threads_of_machine() -> int:
    """Return how many threads can run at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(slots=True)
class ThreadsWriter:
    """Writes the rows of a load to files of the leaves.

    Parameters
    ----------
    storage
        The table's folder.
    sources, matching
        What is loaded, and how columns become those of the table; no Spark DataFrame.
    settings
        How files are written, and how much memory each thread takes.
    row_checks
        Returns the CHECKs of a schema.
    clock, progress
        The source of time; shows rows a second, and how long it still takes.
    """

    storage: Storage
    sources: Sequence[IngestSource]
    matching: Matching
    settings: IngestSettings
    row_checks: Callable[[Schema], Sequence[RowCheck]]
    clock: Clock
    progress: Progress
    crowded: tuple[str, ...] = field(default=(), init=False)
    judged: JudgedRows = field(default=NOT_JUDGED, init=False)
    run_files: RunFiles = field(default=ALL_MERGED, init=False)

    def write(self, run_id: str, schema: Schema, tree: PartitionTree) -> Iterator[FileReference]:
        """Write all rows to files whose names begin with an id, and yield the references to them.

        Raises
        ------
        InvalidInput
            The first difference between the rows and the schema, in the order of the data.
        StorageError
            When the temporary folder is full.
        """
        with Spool(schema.sort_order, merge_bytes(self.settings)) as spool:
            checks, units = self.row_checks(schema), list(self._units(schema))
            new_id = partial(_named, run_id, self.clock)
            self.run_files = self._run_files(units, tree)
            runs = _RunsToFiles(self.storage, schema, self.settings, new_id, self.run_files.most)
            sorting = _Sorting(spool, runs, schema, tree, self.settings, checks, no_rows_judged(checks))
            began = self.clock.now()

            def show(step: str, done: int, total: int, share: float) -> None:
                seconds = (self.clock.now() - began).total_seconds()
                self.progress.update(progress_text(f"bulk import: {step}", sorting.rows, seconds, share), done, total)

            step, all_of_it = ("sorting and writing", 1.0) if self.run_files.most else ("sorting", _SORTING)
            sorting.run(units, lambda done: show(step, done, len(units), all_of_it * done / len(units)))
            pa.default_memory_pool().release_unused()  # what sorting had, merging needs in other sizes
            self.judged = sorting.judged
            for written, of_leaf in runs.files:
                yield from references_to(written, of_leaf)
            writing = _Writing(self.storage, spool, sorting, self.settings, new_id)
            with closing(writing.files()) as files:
                for number, (file, counts) in enumerate(files):
                    done = number + 1
                    share = _SORTING + (1 - _SORTING) * done / len(writing.parts)
                    show("writing files", done, len(writing.parts), share)
                    yield from references_to(file, counts)

    def planned(self, schema: Schema, tree: PartitionTree) -> RunFiles:
        """Return which runs `write` would make files; nothing is written."""
        is_merged = self.settings.merge is not False
        return ALL_MERGED if is_merged else self._run_files(list(self._units(schema)), tree)

    def _run_files(self, units: Sequence[_Unit], tree: PartitionTree) -> RunFiles:
        # auto merges: in one process, a compaction takes longer than the merge would have
        if self.settings.merge is not False or not units:
            return ALL_MERGED
        threads = min(len(units), threads_of_machine())
        total = sum(unit.bytes for unit in units)
        return RunFiles.of(total, slice_bytes(self.settings), threads, len(tree.leaves))

    def _units(self, schema: Schema) -> Iterator[_Unit]:
        """Yield what each thread reads at once."""
        for source in self.sources:
            if isinstance(source, SourceFile):
                pieces = list(pieces_to_read(source, slice_bytes(self.settings) // 2))
                for row_groups in pieces:
                    read = partial(pieces_of, source, schema, row_groups, self.matching)
                    yield _Unit(read, times_in_memory(source.bytes) // len(pieces))
            else:
                rows = read_source(source, schema, self.matching).table(schema)
                share = max(BATCH_ROWS, -(-rows.num_rows // (4 * threads_of_machine())))
                for begin in range(0, rows.num_rows, share):
                    part = rows.slice(begin, share)
                    yield _Unit(partial(_batches, part), part.nbytes)


def _named(run_id: str, clock: Clock) -> str:
    return f"{run_id}-{clock.new_id()}"


def _batches(rows: pa.Table) -> Iterator[pa.Table]:
    return (rows.slice(begin, BATCH_ROWS) for begin in range(0, rows.num_rows, BATCH_ROWS))


@dataclass(frozen=True, slots=True)
class _Unit:
    """What a thread reads at once; `bytes` is about how much memory its rows take."""

    read: Callable[[], Iterable[pa.Table]]
    bytes: int


_Part = tuple[str, pa.Table, dict[str, int]]
"""Sorted rows of one file: the partition of its folder, and the number of rows of each leaf."""


@dataclass(slots=True)
class _RunsToFiles:
    """Writes some runs as data files of their leaves, in the thread that sorted them.

    Attributes
    ----------
    files
        What was written, with the rows of each leaf.
    """

    storage: Storage
    schema: Schema
    settings: IngestSettings
    new_id: Callable[[], str]
    left: int
    files: list[tuple[DataFile, dict[str, int]]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def rows(self) -> int:
        return sum(file.rows for file, _ in self.files)

    def take(self) -> bool:
        """Return whether one more run becomes files; the caller then writes it."""
        with self._lock:
            self.left -= 1
            return self.left >= 0

    def write(self, folder: str, rows: pa.Table, counts: dict[str, int]) -> None:
        file = write_sorted(
            self.storage, paths.data_file(folder, self.new_id()), self.schema, [rows], self.settings.writing
        )
        assert file is not None  # noqa: S101 - a part has rows
        with self._lock:
            self.files.append((file, counts))


@dataclass(slots=True)
class _Sorting:
    """The first step.

    Attributes
    ----------
    runs
        The sorted runs of each leaf; where all leaves share one file, those of the root.
    counts
        The rows of each leaf.
    rows
        How many rows were read.
    judged
        How many of them break each expectation.
    """

    spool: Spool
    to_files: _RunsToFiles
    schema: Schema
    tree: PartitionTree
    settings: IngestSettings
    checks: Sequence[RowCheck]
    judged: JudgedRows
    runs: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _failed_at: int | None = None
    _error: BaseException | None = None
    _done: int = 0

    def run(self, units: Sequence[_Unit], show: Callable[[int], None]) -> None:
        """Read, sort and store the rows of all units; raise the error of the first that fails."""
        waiting = iter(enumerate(units))
        threads = max(1, min(len(units), threads_of_machine()))
        with ThreadPoolExecutor(threads, "sleeper-sort") as pool:
            working = [pool.submit(self._work, waiting) for _ in range(threads)]
            try:
                while units:
                    show(self._done)
                    if not wait(working, _POLL_SECONDS).not_done:
                        break
            except BaseException:
                self._fail(-1, None)  # an interrupt: no thread goes on
                raise
        if self._error is not None:
            raise self._error
        for each in working:
            each.result()

    def _work(self, waiting: Iterator[tuple[int, _Unit]]) -> None:
        buffer = BufferedRows(slice_bytes(self.settings))
        number = 0
        try:
            with opened_checks(self.checks) as checks:
                while (unit := self._next(waiting)) is not None:
                    number, what = unit
                    for rows in what.read():
                        if self._is_over(number):
                            return
                        raise_first(tuple(checks.differences(rows)))
                        judged = checks.judged(rows)
                        with self._lock:
                            self.rows += rows.num_rows
                            self.judged = self.judged.plus(judged)
                        buffer.add(rows)
                        if buffer.is_full:
                            self._store(buffer)
                    with self._lock:
                        self._done += 1
            if buffer.bytes and self._failed_at is None:
                self._store(buffer)
        except BaseException as error:  # noqa: BLE001 - raised again by `run`
            self._fail(number, error)

    def _next(self, waiting: Iterator[tuple[int, _Unit]]) -> tuple[int, _Unit] | None:
        with self._lock:
            unit = next(waiting, None)
        return None if unit is None or self._is_over(unit[0]) else unit

    def _is_over(self, number: int) -> bool:
        return self._failed_at is not None and number > self._failed_at

    def _fail(self, number: int, error: BaseException | None) -> None:
        with self._lock:
            if self._failed_at is None or number < self._failed_at:
                self._failed_at, self._error = number, error

    def _store(self, buffer: BufferedRows) -> None:
        to_files = self.to_files.take()
        for folder, rows, counts in self._parts(buffer):
            if self._failed_at is not None:
                return  # what is written is deleted
            if to_files:
                self.to_files.write(folder, rows, counts)
            else:
                self._keep(folder, self.spool.add(rows), counts)

    def _parts(self, buffer: BufferedRows) -> Iterator[_Part]:
        # no variable has the rows before they are sorted: they would stay in memory with the sorted ones
        if not self.settings.file_per_leaf:
            rows = sort_rows(buffer.taken(), self.schema.sort_order)
            yield self.tree.root.id, rows, rows_by_leaf(rows, self.tree, self.schema)
            return
        for leaf, part in sorted_by_leaf(buffer.taken(), self.tree, self.schema):
            yield leaf.id, part, {leaf.id: part.num_rows}

    def _keep(self, folder: str, run: Run, counts: dict[str, int]) -> None:
        with self._lock:
            self.runs[folder].append(run)
            self.counts.update(counts)


@dataclass(frozen=True, slots=True)
class _MergedPart:
    """The rows of one data file: those of a leaf, or a range of them."""

    folder: str
    filename: str
    runs: tuple[Run, ...]
    low: Key | None
    high: Key | None

    @property
    def bytes(self) -> int:
        return sum(piece.bytes for run in self.runs for piece in run)


class _Writing:
    """The second step."""

    def __init__(
        self, storage: Storage, spool: Spool, sorting: _Sorting, settings: IngestSettings, new_id: Callable[[], str]
    ) -> None:
        self._storage, self._spool, self._sorting, self._settings = storage, spool, sorting, settings
        self._stopped = threading.Event()
        most = part_bytes(settings) if settings.file_per_leaf else sys.maxsize
        parts = [
            _MergedPart(folder, paths.data_file(folder, new_id()), tuple(runs), low, high)
            for folder, runs in sorting.runs.items()
            for low, high in ranges_of(runs, most)
        ]
        self.parts = sorted(parts, key=lambda part: -part.bytes)  # the largest first, so that no thread is left alone

    def files(self) -> Generator[tuple[DataFile, Mapping[str, int]]]:
        """Yield each file as soon as it is written, with the rows of each leaf."""
        pool = ThreadPoolExecutor(max(1, min(len(self.parts), threads_of_machine())), "sleeper-merge")
        try:
            working = {pool.submit(self._written, part): part for part in self.parts}
            rows = self._sorting.to_files.rows
            while working:
                for each in wait(working, _POLL_SECONDS, FIRST_COMPLETED).done:
                    part, file = working.pop(each), each.result()
                    if file is not None:  # a range between two keys may have no row
                        rows += file.rows
                        yield file, {part.folder: file.rows} if self._settings.file_per_leaf else self._sorting.counts
            check_all_written(rows, self._sorting.rows)
        finally:
            self._stopped.set()
            pool.shutdown(cancel_futures=True)

    def _written(self, part: _MergedPart) -> DataFile | None:
        rows = self._until_stopped(self._spool.merged(part.runs, part.low, part.high))
        return write_sorted(self._storage, part.filename, self._sorting.schema, rows, self._settings.writing)

    def _until_stopped(self, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for each in rows:
            if self._stopped.is_set():
                raise Cancelled("the load was interrupted")
            yield each
