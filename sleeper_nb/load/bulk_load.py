"""A bulk load: many rows are sorted with bounded memory, written to files of their leaves, and added in one commit.

A writer writes the files: threads of this process, or tasks of Spark. What they share comes first: the shares of a
task's memory, slices of rows, checks and progress; and the load itself, which commits the files, deletes those that
must not stay, and says what was loaded. The threads follow. Here no Spark is started, as on one machine its tasks would
only cost time:

1. Each thread takes the next piece of the data, such as some row groups of a Parquet file, reads it with the code of an
   ingest, and gathers slices. It sorts each slice, cuts it by leaf, and stores the parts as runs in a temporary file.
2. Then each thread takes the next leaf, merges its runs, and writes a data file. A large leaf is cut into ranges of
   keys, so that several threads write it, each a file.

Without a merge, the first step writes the parts of a slice as data files instead (`RunFiles`); only runs beyond the
bound go to the temporary file, and through the second step. Memory depends on the number of threads and the table's
properties, not on the number of rows.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Protocol

import pyarrow as pa

from sleeper_nb.clock import Clock
from sleeper_nb.errors import Cancelled, OutcomeUnknown, StorageError
from sleeper_nb.load.conform import raise_first
from sleeper_nb.load.file_formats import BATCH_ROWS, WHOLE_FILE_BYTES, pieces_of, pieces_of_batches, pieces_to_read
from sleeper_nb.load.ingest import (
    IngestSettings,
    Made,
    discard_run,
    load_summary,
    references_to,
    rows_by_leaf,
    sorted_by_leaf,
    write_and_commit,
    write_sorted,
)
from sleeper_nb.load.lake_tables import LakeTable
from sleeper_nb.load.load_options import Matching
from sleeper_nb.load.load_report import LoadReport
from sleeper_nb.load.row_checks import NOT_JUDGED, JudgedRows, RowCheck, no_rows_judged, opened_checks
from sleeper_nb.load.sorted_runs import (
    ALL_MERGED,
    Key,
    Run,
    RunFiles,
    Spool,
    most_of_leaf,
    ranges_of,
    sort_rows,
    unmerged_note,
)
from sleeper_nb.load.sources import IngestSource, InMemory, bytes_of, is_spark, notes_of, read_source
from sleeper_nb.load.split import SplitBefore
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.load_hints import note_more_differences
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.report import rate_text
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.data_files import DataFile
from sleeper_nb.storage.filesystem import Storage

_TIMES_IN_MEMORY = 2
"""About how many times the bytes of a file its rows take in memory."""
_SHARE = 8
"""The part of a task's memory for the rows that are sorted at once: sorting copies them, and needs numbers for each."""


def slice_bytes(settings: IngestSettings) -> int:
    """Return about how many bytes of rows a task sorts at once, and a merge of sorted runs holds."""
    return settings.task_bytes // _SHARE


def times_in_memory(file_bytes: int) -> int:
    return _TIMES_IN_MEMORY * file_bytes


class BufferedRows:
    """Rows that are kept in memory until they are enough to be sorted."""

    def __init__(self, most: int) -> None:
        self._most, self._rows, self.bytes = most, list[pa.Table](), 0

    @property
    def is_full(self) -> bool:
        return self.bytes >= self._most

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._rows.append(rows)
            self.bytes += rows.nbytes

    def taken(self) -> pa.Table:
        """Return all rows, of which none is left here; there must be some."""
        rows, self._rows, self.bytes = self._rows, [], 0
        return pa.concat_tables(rows)


def check_all_written(written: int, expected: int) -> None:
    if written != expected:
        raise StorageError(
            f"{written:,} rows of {expected:,} were written",
            hint="this is a bug in the merge of sorted rows; nothing was committed",
        )


def ending_at_first(sources: Sequence[IngestSource]) -> AbstractContextManager[None]:
    """Return what says with an error about rows that there may be more, unless it is of all rows of the only source."""
    is_of_all = len(sources) == 1 and not is_spark(sources) and bytes_of(sources) <= WHOLE_FILE_BYTES
    return nullcontext() if is_of_all else note_more_differences()


def progress_text(step: str, rows: int, seconds: float, done: float) -> str:
    """Return how fast a load is, and how long it still takes.

    Parameters
    ----------
    done
        Which share of the whole work is done.
    """
    left = seconds * (1 - done) / done if done else 0
    return f"{step}{rate_text(rows, seconds)}" + (f", about {left:,.0f} s left" if left >= 1 else "")


@dataclass(frozen=True, slots=True)
class WrittenLoad:
    """A load whose files tasks of an engine wrote by themselves; one commit adds them.

    Parameters
    ----------
    run_id, began
        The id of the job's record when there is no `job_id`, and when it began.
    """

    run_id: str
    began: datetime
    schema: Schema
    message: str | None
    job_id: str | None
    judged: JudgedRows


class LoadWriter(Protocol):
    """Writes the rows of a load to files of the leaves.

    Attributes
    ----------
    crowded
        The folders in which files may be that `write` did not yield, after it has ended.
    judged
        How many of the rows break each expectation of the table, after it has ended.
    run_files
        Which sorted runs became files, after it has ended.
    """

    @property
    def run_files(self) -> RunFiles: ...

    @property
    def crowded(self) -> Collection[str]: ...

    @property
    def judged(self) -> JudgedRows: ...

    def write(self, run_id: str, schema: Schema, tree: PartitionTree) -> Iterator[FileReference]:
        """Write all rows to files whose names begin with an id, and yield the references to them."""

    def planned(self, schema: Schema, tree: PartitionTree) -> RunFiles:
        """Return which sorted runs `write` would make files."""


class BulkLoad:
    """One bulk load.

    Parameters
    ----------
    store
        The table's; the table need not exist yet.
    """

    def __init__(
        self, store: StateStore, sources: Sequence[IngestSource], matching: Matching, writer: LoadWriter
    ) -> None:
        self._store, self._sources, self._matching, self._writer = store, sources, matching, writer
        self._run_id, self._began = store.clock.new_id(), store.clock.now()
        self._references: list[FileReference] = []
        self._written_for: tuple[Schema, PartitionTree] | None = None

    def write(self, schema: Schema, tree: PartitionTree) -> Iterator[FileReference]:
        """Write the rows to files of the leaves, and yield the references to them."""
        self._written_for = schema, tree
        with ending_at_first(self._sources):
            for reference in self._writer.write(self._run_id, schema, tree):
                self._references.append(reference)
                yield reference

    def run(self, commit: Callable[[], Made], progress: Progress, note: str = "") -> Made:
        """Return what `commit` does with the references of `write`; say what was loaded, and delete what was not."""
        store = self._store
        try:
            made = commit()
        except OutcomeUnknown:
            raise  # the files may be in the table: they must stay
        except BaseException:
            discard_run(store, self._run_id, ["data"], keep=())
            raise
        kept = {each.filename for each in self._references}
        discard_run(store, self._run_id, sorted(self._writer.crowded), keep=kept)
        progress.finish("; ".join(filter(None, (*self._summary(), note))))
        return made

    def imported(
        self,
        *,
        message: str | None = None,
        author: str | None = None,
        job_id: str | None = None,
        split: SplitBefore | None = None,
        progress: Progress = SILENT,
    ) -> LoadReport:
        """Add the rows to the table in one commit; nothing is added when any row does not fit the table.

        With `split`, a commit before it splits the only leaf.
        """
        commit = partial(
            write_and_commit,
            self._store,
            self.write,
            message=message,
            author=author,
            job_id=job_id,
            judged=lambda: self.judged,
        )
        if split is None:
            return self.run(commit, progress)
        commit = partial(commit, tree=split.tree, prepare=lambda: split.commit(self._store, author))
        return self.run(commit, progress, split.note)

    @property
    def judged(self) -> JudgedRows:
        return self._writer.judged

    @property
    def runs_note(self) -> str:
        """What became of the sorted runs, once all are written; "" where they were merged, as they should be."""
        if not self._references:
            return ""
        runs = self._writer.run_files
        return runs.note or (unmerged_note(most_of_leaf(self._references)) if runs.most else "")

    @property
    def is_unmerged(self) -> bool:
        return self._writer.run_files.most > 0 and most_of_leaf(self._references) > 1

    def _summary(self) -> Iterator[str]:
        if self._written_for is None:  # a job of the same id had loaded them before
            return
        schema, tree = self._written_for
        seconds = (self._store.clock.now() - self._began).total_seconds()
        if line := load_summary(self._references, tree, schema, seconds):
            yield line
        yield from notes_of(self._sources, schema, self._matching)


_POLL_SECONDS = 0.2
_SORTING = 0.6
"""About which share of the time the first step takes."""


def threads_of_machine() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(slots=True)
class ThreadsWriter:
    """Writes the rows of a load to files of the leaves.

    Parameters
    ----------
    sources, matching
        What is loaded, and how columns become those of the table; no Spark DataFrame.
    settings
        How files are written, and how much memory each thread takes.
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
        with Spool(schema.sort_order, slice_bytes(self.settings)) as spool:
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
        for source in self.sources:
            if isinstance(source, LakeTable) and len(source.parts()) == 1:
                yield from self._shared_units(source, schema)
            elif not isinstance(source, InMemory):
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

    def _shared_units(self, table: LakeTable, schema: Schema) -> Iterator[_Unit]:
        """Yield what each thread reads of a table that is one stream: the next batches."""
        threads, batches = threads_of_machine(), _Shared(table.all_batches())
        for _ in range(threads):
            read = partial(pieces_of_batches, table, schema, batches, self.matching)
            yield _Unit(read, times_in_memory(table.bytes) // threads)


class _Shared(Iterator[pa.RecordBatch]):
    """Batches of which several threads take the next."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches, self._lock = batches, threading.Lock()

    def __next__(self) -> pa.RecordBatch:
        with self._lock:
            return next(self._batches)


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
    """Writes some runs as data files of their leaves, in the thread that sorted them."""

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
        most = settings.task_bytes if settings.file_per_leaf else sys.maxsize
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
