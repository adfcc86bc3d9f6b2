"""What changed between two versions, for the timeline: read step by step, each step a frozen value. No widget here.

Metadata is there at once: files and partitions. Rows are compared next, then columns are counted, unless that would
read a large version unasked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.progress import Progress
from sleeper_nb.widgets.column_changes import ColumnComparison, ColumnCountsDiff

if TYPE_CHECKING:
    from sleeper_nb.changes import Changes
    from sleeper_nb.public_types import Diff, FileDiff, ImageSummary
    from sleeper_nb.table import Table
    from sleeper_nb.table_at import TableAt

READ_UNASKED: Final = 64 << 20
"""Bytes; what needs more is read when the user asks for it."""
MOST_ROWS: Final = 200
"""The most changed rows of each kind that are kept."""
COLUMNS: Final = 24
"""How many columns are shown at a time."""


@dataclass(frozen=True, slots=True)
class PartitionDiff:
    """One partition whose files differ.

    Parameters
    ----------
    keys
        Its key range as text.
    rows_before, rows_after
        Rows of its files.
    files_added, files_removed
        How many files only the later, and only the earlier version has there.
    """

    keys: str
    rows_before: int
    rows_after: int
    files_added: int
    files_removed: int


@dataclass(frozen=True, slots=True)
class FilesDiff:
    """Files and partitions that differ between two versions, from metadata."""

    partitions: tuple[PartitionDiff, ...]
    partitions_of: int
    added: tuple[FileDiff, ...]
    removed: tuple[FileDiff, ...]


@dataclass(frozen=True, slots=True, eq=False)
class VersionDiff:
    """What is known so far of the change from one version to another.

    Parameters
    ----------
    table, before, after
        The table's name, and the numbers of the versions.
    schema
        That of the newer version.
    files
        Files and partitions.
    compared_bytes, counted_bytes
        What comparing the rows, and counting the columns, has to read at most.
    rows, diff
        The compared rows, and the totals; None until they are read.
    columns
        The counted columns; None until they are read.
    first_column
        The place of the first of them in `column_names`.
    """

    table: str
    before: int
    after: int
    schema: Schema
    files: FilesDiff
    compared_bytes: int
    counted_bytes: int
    rows: ImageSummary | None = None
    diff: Diff | None = None
    columns: tuple[ColumnCountsDiff, ...] | None = None
    first_column: int = 0

    @property
    def line(self) -> str:
        """The command that compares the versions."""
        return f"%sleeper diff {self.table} {self.before} {self.after}"

    @property
    def keys(self) -> tuple[str, ...]:
        """The row keys and sort keys."""
        return self.schema.sort_order

    @property
    def column_names(self) -> tuple[str, ...]:
        """All columns; of more than are shown at a time, keys and changed ones first."""
        names = self.schema.names
        if self.rows is None or len(names) <= COLUMNS:
            return tuple(names)
        first = {name for name in names if name in self.keys or name in self.rows.cells}
        return (*(name for name in names if name in first), *(name for name in names if name not in first))

    @property
    def is_complete(self) -> bool:
        """Whether all of it is known."""
        return self.diff is not None and self.columns is not None


class VersionPair:
    """Two versions of a table, which are compared without Spark.

    Parameters
    ----------
    table
        The table.
    before, after
        Its versions.
    """

    def __init__(self, table: Table, before: TableAt, after: TableAt) -> None:
        self._table, self._before, self._after = table, before, after

    def read(self, progress: Progress, asked: frozenset[str] = frozenset()) -> Iterator[VersionDiff]:
        """Yield what changed, first from metadata, then with rows, then with columns.

        Parameters
        ----------
        progress
            Receives the key range being compared; it may raise to stop the work.
        asked
            ``"rows"`` and ``"columns"``: what is read however large it is.
        """
        change = self.recorded()
        yield change
        if change.compared_bytes <= READ_UNASKED or "rows" in asked:
            change = self.with_rows(change, progress)
            yield change
        progress.update("counting columns")
        if change.counted_bytes <= READ_UNASKED or "columns" in asked:
            yield self.with_columns(change)

    def recorded(self) -> VersionDiff:
        """Return what metadata has."""
        old, new = self._before.state, self._after.state
        numbers = self._before.resolved.snapshot_id, self._after.resolved.snapshot_id
        sizes = {number: state.files.data_totals.bytes for number, state in zip(numbers, (old, new), strict=True)}
        newer = max(self._before, self._after, key=lambda each: each.resolved.snapshot_id)
        return VersionDiff(
            self._table.name, *numbers, newer.schema, self._files(old, new), self._changes.bytes, sum(sizes.values())
        )

    def with_rows(self, change: VersionDiff, progress: Progress) -> VersionDiff:
        """Return it with the rows that differ; exact counts and the first rows of each kind."""
        rows = self._changes.summary(MOST_ROWS, progress=progress)
        return replace(change, rows=rows, diff=self._changes.diff(rows.counts))

    def with_columns(self, change: VersionDiff, first: int = 0) -> VersionDiff:
        """Return it with some columns counted in both versions, from the place of the first."""
        names = change.column_names[first : first + COLUMNS]
        return replace(change, columns=self._columns.of(names), first_column=first)

    def _files(self, old: TableState, new: TableState) -> FilesDiff:
        removed, added = old.files.unshared(new.files)
        counts = [dict(zip(*_counted(each), strict=True)) for each in (removed, added)]
        rows = [{name: each.rows for name, each in state.files.by_partition().items()} for state in (old, new)]
        order = {leaf.id: place for place, leaf in enumerate(new.tree.leaves)}
        partitions = []
        for name in sorted(counts[0].keys() | counts[1].keys(), key=lambda each: (order.get(each, -1), each)):
            tree, schema = (new.tree, new.schema) if name in new.tree else (old.tree, old.schema)
            (gone, came), (before, after) = ([each.get(name, 0) for each in both] for both in (counts, rows))
            partitions.append(PartitionDiff(tree[name].region.text(schema), before, after, came, gone))
        return FilesDiff(tuple(partitions), len(new.tree.leaves), *self._changes.files())

    @cached_property
    def _changes(self) -> Changes:
        from_version, to_version = (each.resolved.snapshot_id for each in (self._before, self._after))
        return self._table.changes(from_version, to_version, images=True)

    @cached_property
    def _columns(self) -> ColumnComparison:
        return ColumnComparison(self._before, self._after)


def _counted(references: pa.Table) -> Sequence[Sequence[object]]:
    found = references.group_by("partition_id").aggregate([("filename", "count")])
    return found["partition_id"].to_pylist(), found["filename_count"].to_pylist()
