"""Bulk loads by tasks of Spark: sorted pieces of rows go through Spark's shuffle, not rows.

1. A task reads its share of the files, or of a DataFrame, as Arrow, and gathers slices. It sorts each slice, cuts it by
   leaf, and hands on packed pieces of about a megabyte. All pieces of a leaf go to one task.
2. That task stores the pieces in a temporary file of its machine, merges them, and writes a data file of the leaf.

A leaf that gets many rows is spread over several tasks, which write a file each: every slice is cut into the same
number of parts at even shares of its own rows, and the tasks of other leaves take the parts. The files of a leaf
overlap little when slices are alike, and more when the data is sorted.

Only the second step writes to the table's folder, so it is the one whose files count, whatever happens to a worker.

Without a merge there is only the first step, and nothing goes through the shuffle: a task writes the parts of each
slice as data files (`RunFiles`). If its rows are more than they seemed, it merges the further slices by itself.
"""

from __future__ import annotations

import os
import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.frames import REPORT_DDL, report
from sleeper_nb.load.bulk_load import BufferedRows, check_all_written, slice_bytes
from sleeper_nb.load.conform import raise_first
from sleeper_nb.load.ingest import IngestSettings, references_to, rows_by_leaf, sorted_by_leaf, write_sorted
from sleeper_nb.load.row_checks import NOT_JUDGED, JudgedRows, OpenedChecks, RowCheck, opened_checks
from sleeper_nb.load.sorted_runs import Key, Piece, Run, Spool, cut_in_pieces, key_at, packed, sort_rows
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


PACKED_DDL: Final = "task int, place binary, content binary"
"""Spark's columns of packed pieces: the number of the task that merges them, what they are (`_Place`), and the rows."""
_PACKED: Final = pa.schema([("task", pa.int32()), ("place", pa.binary()), ("content", pa.binary())])


@dataclass(frozen=True, slots=True)
class WrittenByTask:
    """A file that a task of a load wrote, as it reports it.

    Parameters
    ----------
    references
        One for each leaf that has rows in the file.
    attempt
        How often the task was started before.
    judged
        How many of the rows break each expectation of the table.
    """

    references: tuple[FileReference, ...]
    attempt: int
    judged: JudgedRows


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a packed piece belongs: a part of a leaf, and a run, whose pieces are in the order of their first keys."""

    leaf: int
    part: int
    run: str
    rows: int
    bytes: int
    first: Key


@dataclass(frozen=True, slots=True)
class BulkTasks:
    """What the tasks of a load use, fixed before they begin.

    Parameters
    ----------
    checks
        The CHECKs, which can be sent to other processes.
    merging
        How many tasks merge; 0 where none does, and the sorted runs become files.
    expected_bytes
        About how many bytes of rows there are in all; 0 when that is not known.
    runs
        How many runs each task may write as files, without a merge.
    """

    storage: Storage
    schema: Schema
    tree: PartitionTree
    settings: IngestSettings
    run_id: str
    checks: tuple[RowCheck, ...]
    merging: int = 0
    expected_bytes: int = 0
    runs: int = 0

    def merged(self, pieces: DataFrame) -> DataFrame:
        """Return the reports of the second step, for a frame with what `cut` yields."""
        return pieces.repartitionById(self.merging, "task").mapInArrow(self.merge, REPORT_DDL)

    def cut(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield packed pieces of conformed rows."""
        for buffer in self._slices(tables):
            yield from self._cut(buffer)

    def write_runs(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield a report for each file that was written from conformed rows."""
        merging: dict[int, list[Run]] = defaultdict(list)
        with Spool(self.schema.sort_order, slice_bytes(self.settings), _local_folder()) as spool:
            for number, buffer in enumerate(self._slices(tables)):
                for leaf, part in self._leaves(buffer):
                    if number < self.runs:
                        yield self._written(leaf, [part], part.num_rows)
                    else:
                        merging[leaf].append(spool.add(part))
            for leaf, runs in merging.items():
                yield self._written(leaf, spool.merged(runs), _rows_of(runs))

    def _slices(self, tables: Iterable[pa.Table]) -> Iterator[BufferedRows]:
        pa.set_cpu_count(1)  # each core has a task of its own
        buffer = BufferedRows(slice_bytes(self.settings))
        with opened_checks(self.checks) as checks:
            for rows in tables:
                raise_first(tuple(checks.differences(rows)))
                buffer.add(rows)
                if buffer.is_full:
                    yield buffer
            if buffer.bytes:
                yield buffer

    def _cut(self, buffer: BufferedRows) -> Iterator[pa.RecordBatch]:
        run, size, is_full = Clock().new_id(), buffer.bytes, buffer.is_full
        for leaf, part in self._leaves(buffer):
            pieces = list(cut_in_pieces(part))
            parts = self._parts(part.nbytes / size) if is_full else 1
            for place, piece in enumerate(pieces):
                number = place * parts // len(pieces)
                first = key_at(piece, self.schema.sort_order, 0)
                where = _Place(leaf, number, run, piece.num_rows, piece.nbytes, first)
                yield _as_batch(piece, (leaf + number) % self.merging, where)

    def _leaves(self, buffer: BufferedRows) -> Iterator[tuple[int, pa.Table]]:
        """Yield sorted rows with the number of their leaf; all are of leaf 0 where they share a file."""
        if not self.settings.file_per_leaf:
            yield 0, sort_rows(buffer.taken(), self.schema.sort_order)
            return
        numbers = {leaf.id: number for number, leaf in enumerate(self.tree.leaves)}
        for leaf, rows in sorted_by_leaf(buffer.taken(), self.tree, self.schema):
            yield numbers[leaf.id], rows

    def _parts(self, share: float) -> int:
        """Return how many tasks write a leaf that has such a share of a slice's rows."""
        if not self.settings.file_per_leaf:
            return 1
        return max(1, min(self.merging, int(share * self.expected_bytes) // self.settings.task_bytes))

    def merge(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a report for each file that was written from packed pieces."""
        pa.set_cpu_count(1)
        with Spool(self.schema.sort_order, slice_bytes(self.settings), _local_folder()) as spool:
            for (leaf, _), runs in _stored(batches, spool).items():
                yield self._written(leaf, spool.merged(runs), _rows_of(runs))

    def _written(self, leaf: int, batches: Iterable[pa.Table], expected: int) -> pa.RecordBatch:
        from pyspark import TaskContext

        is_own = self.settings.file_per_leaf
        partition = self.tree.leaves[leaf] if is_own else self.tree.root
        # A task may be retried, or run twice at once: each attempt writes its own file.
        name = paths.data_file(partition.id, f"{self.run_id}-{Clock().new_id()}")
        counts, judged = Counter[str](), NOT_JUDGED

        def counted(checks: OpenedChecks) -> Iterator[pa.Table]:
            nonlocal judged
            for rows in batches:
                judged = judged.plus(checks.judged(rows))  # here, as only what finished tasks wrote is reported once
                counts.update({partition.id: rows.num_rows} if is_own else rows_by_leaf(rows, self.tree, self.schema))
                yield rows

        with opened_checks(self.checks) as checks:
            file = write_sorted(self.storage, name, self.schema, counted(checks), self.settings.writing)
        written = 0 if file is None else file.rows
        if written != expected:
            self.storage.delete(name)
        check_all_written(written, expected)
        context = TaskContext.get()
        attempt = context.attemptNumber() if context else 0
        return report(WrittenByTask(() if file is None else tuple(references_to(file, counts)), attempt, judged))


def _local_folder() -> str | None:
    """Return a folder for temporary files of a task; None for the one that Python takes."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None


def _rows_of(runs: Iterable[Run]) -> int:
    return sum(piece.rows for run in runs for piece in run)


def _as_batch(piece: pa.Table, task: int, where: _Place) -> pa.RecordBatch:
    content = packed(piece)
    offsets = pa.py_buffer(len(content).to_bytes(4, "little").rjust(8, b"\0"))
    column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, content])  # without a copy
    return pa.RecordBatch.from_arrays(
        [pa.array([task], pa.int32()), pa.array([pickle.dumps(where)]), column], schema=_PACKED
    )


def _stored(batches: Iterable[pa.RecordBatch], spool: Spool) -> dict[tuple[int, int], list[Run]]:
    runs: dict[tuple[int, int], dict[str, list[Piece]]] = defaultdict(lambda: defaultdict(list))
    for batch in batches:
        contents: Any = batch.column("content")
        for number, packed_place in enumerate(batch.column("place").to_pylist()):
            where: _Place = pickle.loads(packed_place)  # noqa: S301 - our own tasks made it
            piece = spool.store(contents[number].as_buffer(), where.rows, where.bytes, where.first)
            runs[where.leaf, where.part][where.run].append(piece)
    of_first = attrgetter("first")
    return {part: [tuple(sorted(run, key=of_first)) for run in each.values()] for part, each in runs.items()}
