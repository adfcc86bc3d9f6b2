"""A bulk load: many rows are sorted with bounded memory, written to files of their leaves, and added in one commit.

A writer writes the files: threads of this process (`bulk_threads`), or tasks of Spark. What they share is here: the
shares of a task's memory, slices of rows, checks and progress; and the load itself, which publishes the files, deletes
those that must not stay, and says what was loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Protocol

import pyarrow as pa

from sleeper_nb.errors import OutcomeUnknown, StorageError
from sleeper_nb.load.conform import note_more_differences
from sleeper_nb.load.file_formats import WHOLE_FILE_BYTES
from sleeper_nb.load.ingest import (
    IngestSettings,
    discard_run,
    load_summary,
    write_and_commit,
)
from sleeper_nb.load.matching import Matching
from sleeper_nb.load.row_checks import JudgedRows
from sleeper_nb.load.run_files import RunFiles, most_of_leaf, unmerged_note
from sleeper_nb.load.sources import IngestSource, bytes_of, is_spark, notes_of
from sleeper_nb.load.split_before_import import SplitBefore
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.report import rate_text
from sleeper_nb.state_store.state_store_base import StateStore

_TIMES_IN_MEMORY = 2
"""About how many times the bytes of a file its rows take in memory."""
_SHARE = 8
"""The part of a task's memory for the rows that are sorted at once: sorting copies them, and needs numbers for each."""


def slice_bytes(settings: IngestSettings) -> int:
    """Return about how many bytes of rows a task sorts at once."""
    return settings.task_bytes // _SHARE


def merge_bytes(settings: IngestSettings) -> int:
    """Return about how many bytes of rows a merge of sorted runs holds."""
    return settings.task_bytes // _SHARE


def part_bytes(settings: IngestSettings) -> int:
    """Return from how many bytes of rows on a leaf is written by several tasks, each to a file of its own."""
    return settings.task_bytes


def times_in_memory(file_bytes: int) -> int:
    """Return about how many bytes the rows of a file have in memory."""
    return _TIMES_IN_MEMORY * file_bytes


class BufferedRows:
    """Rows that are kept in memory until they are enough to be sorted.

    Parameters
    ----------
    most
        About how many bytes of rows there may be.
    """

    def __init__(self, most: int) -> None:
        self._most, self._rows, self.bytes = most, list[pa.Table](), 0

    @property
    def is_full(self) -> bool:
        """Whether no more rows should be added."""
        return self.bytes >= self._most

    def add(self, rows: pa.Table) -> None:
        """Add rows."""
        if rows.num_rows:
            self._rows.append(rows)
            self.bytes += rows.nbytes

    def taken(self) -> pa.Table:
        """Return all rows, of which none is left here; there must be some."""
        rows, self._rows, self.bytes = self._rows, [], 0
        return pa.concat_tables(rows)


def check_all_written(written: int, expected: int) -> None:
    """Raise `StorageError` when merges wrote another number of rows than was sorted."""
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
    step
        What is under way.
    rows, seconds
        How many rows were read, and how long the load has taken.
    done
        Which share of the whole work is done.
    """
    left = seconds * (1 - done) / done if done else 0
    return f"{step}{rate_text(rows, seconds)}" + (f", about {left:,.0f} s left" if left >= 1 else "")


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
    def run_files(self) -> RunFiles: ...  # noqa: D102 - above

    @property
    def crowded(self) -> Collection[str]: ...  # noqa: D102 - above

    @property
    def judged(self) -> JudgedRows: ...  # noqa: D102 - above

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
    sources
        What is loaded.
    matching
        How columns become those of the table.
    writer
        Writes the files.
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

    def run(self, publish: Callable[[], Snapshot], progress: Progress, note: str = "") -> Snapshot:
        """Return what `publish` does with the references of `write`; say what was loaded, and delete what was not."""
        store = self._store
        try:
            made = publish()
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
    ) -> Snapshot:
        """Add the rows to the table in one commit; nothing is added when any row does not fit the table.

        With `split`, a commit before it splits the only leaf.
        """
        publish = partial(
            write_and_commit,
            self._store,
            self.write,
            message=message,
            author=author,
            job_id=job_id,
            judged=lambda: self.judged,
        )
        if split is None:
            return self.run(publish, progress)
        publish = partial(publish, tree=split.tree, prepare=lambda: split.commit(self._store, author))
        return self.run(publish, progress, split.note)

    @property
    def judged(self) -> JudgedRows:
        """How many of the rows break each expectation of the table, once all are written."""
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
        """Whether compaction has something to merge of what was loaded."""
        return self._writer.run_files.most > 0 and most_of_leaf(self._references) > 1

    def _summary(self) -> Iterator[str]:
        if self._written_for is None:  # a job of the same id had loaded them before
            return
        schema, tree = self._written_for
        seconds = (self._store.clock.now() - self._began).total_seconds()
        if line := load_summary(self._references, tree, schema, seconds):
            yield line
        yield from notes_of(self._sources, schema, self._matching)
