"""What changed between two versions, read step by step, each step a frozen value. No widget here.

Metadata is there at once: files and partitions. Rows are compared next, then columns are counted, unless that would
read a large version unasked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.progress import Watch
from sleeper_nb.report import counted
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
"""How many columns are counted."""


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
    """Files and partitions that differ between two versions, from metadata.

    Parameters
    ----------
    partitions, partitions_of
        The partitions whose files differ, and how many the newer version has.
    added, removed
        The files that only one of the versions reads.
    keys
        The key range of each such file's partition, by its name; of several partitions how many they are.
    """

    partitions: tuple[PartitionDiff, ...]
    partitions_of: int
    added: tuple[FileDiff, ...]
    removed: tuple[FileDiff, ...]
    keys: Mapping[str, str]


class ChangedColumn(NamedTuple):
    """A column that has another type or name in the newer version, or that only one of the versions has.

    Parameters
    ----------
    name
        Its name in the newer version; in the older one where only that has it.
    before, after
        Its type at each version, after its name where that differs; empty where the version does not have it.
    """

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, eq=False)
class VersionDiff:
    """What is known so far of the change from one version to another.

    Parameters
    ----------
    table, before, after
        The table's name, and the numbers of the versions.
    schema
        That of the newer version.
    changed_columns
        The columns that differ in type, name or existence.
    files
        Files and partitions.
    compared_bytes, counted_bytes
        What comparing the rows, and counting the columns, has to read at most.
    rows, diff
        The compared rows, and the totals; None until they are read.
    columns
        The first columns, counted; None until they are read.
    """

    table: str
    before: int
    after: int
    schema: Schema
    changed_columns: tuple[ChangedColumn, ...]
    files: FilesDiff
    compared_bytes: int
    counted_bytes: int
    rows: ImageSummary | None = None
    diff: Diff | None = None
    columns: tuple[ColumnCountsDiff, ...] | None = None

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
        """All columns; of more than are counted, keys and changed ones first."""
        names = self.schema.names
        if self.rows is None or len(names) <= COLUMNS:
            return tuple(names)
        first = {name for name in names if name in self.keys or name in self.rows.cells}
        return (*(name for name in names if name in first), *(name for name in names if name not in first))

    def unread(self, asked: frozenset[str]) -> dict[str, int]:
        """Return how many bytes of what is not known must be read, where that is so much that a user asks for it."""
        sizes = {"rows": (self.rows, self.compared_bytes), "columns": (self.columns, self.counted_bytes)}
        return {
            what: size
            for what, (known, size) in sizes.items()
            if known is None and size > READ_UNASKED and what not in asked
        }

    def is_read(self, asked: frozenset[str]) -> bool:
        """Return whether nothing more is read of it."""
        unknown = {what for what, known in (("rows", self.rows), ("columns", self.columns)) if known is None}
        return unknown <= self.unread(asked).keys()


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

    def read(
        self, watch: Watch, asked: frozenset[str] = frozenset(), known: VersionDiff | None = None
    ) -> Iterator[VersionDiff]:
        """Yield what changed, first from metadata, then with rows, then with columns.

        Parameters
        ----------
        watch
            Can cancel it.
        asked
            ``"rows"`` and ``"columns"``: what is read however large it is.
        known
            What was read of the same two versions before; it is not read again.
        """
        change = self.recorded() if known is None else known
        yield change
        if change.rows is None and "rows" not in change.unread(asked):
            change = self.with_rows(change, watch)
            yield change
        watch.check()
        if change.columns is None and "columns" not in change.unread(asked):
            yield self.with_columns(change, watch)

    def recorded(self) -> VersionDiff:
        """Return what metadata has."""
        old, new = self._before.state, self._after.state
        numbers = self._before.resolved.snapshot_id, self._after.resolved.snapshot_id
        sizes = {number: state.files.data_totals.bytes for number, state in zip(numbers, (old, new), strict=True)}
        newer = max(self._before, self._after, key=lambda each: each.resolved.snapshot_id)
        columns = _changed_columns(self._before.schema, self._after.schema)
        files = self._files(old, new)
        return VersionDiff(
            self._table.name, *numbers, newer.schema, columns, files, self._changes.bytes, sum(sizes.values())
        )

    def with_rows(self, change: VersionDiff, watch: Watch) -> VersionDiff:
        """Return it with the rows that differ; exact counts and the first rows of each kind."""
        rows = self._changes.summary(MOST_ROWS, progress=watch)
        return replace(change, rows=rows, diff=self._changes.diff(rows.counts))

    def with_columns(self, change: VersionDiff, watch: Watch) -> VersionDiff:
        """Return it with the first columns counted in both versions."""
        return replace(change, columns=self._columns.of(change.column_names[:COLUMNS], watch))

    def _files(self, old: TableState, new: TableState) -> FilesDiff:
        removed, added = old.files.unshared(new.files)
        counts = [dict(zip(*_counted(each), strict=True)) for each in (removed, added)]
        rows = [{name: each.rows for name, each in state.files.by_partition().items()} for state in (old, new)]
        order = {leaf.id: place for place, leaf in enumerate(new.tree.leaves)}
        partitions, keys = [], {}
        for name in sorted(counts[0].keys() | counts[1].keys(), key=lambda each: (order.get(each, -1), each)):
            tree, schema = (new.tree, new.schema) if name in new.tree else (old.tree, old.schema)
            (gone, came), (before, after) = ([each.get(name, 0) for each in both] for both in (counts, rows))
            keys[name] = tree[name].region.text(schema)
            partitions.append(PartitionDiff(keys[name], before, after, came, gone))
        of_files = {**_keys_of_files(removed, keys), **_keys_of_files(added, keys)}
        return FilesDiff(tuple(partitions), len(new.tree.leaves), *self._changes.files(), of_files)

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


def _keys_of_files(references: pa.Table, keys: Mapping[str, str]) -> dict[str, str]:
    """Return the key range of the partition of each file, or how many partitions it is in."""
    found = references.group_by("filename").aggregate([("partition_id", "count"), ("partition_id", "min")])
    columns = (found[name].to_pylist() for name in ("filename", "partition_id_count", "partition_id_min"))
    return {
        name: keys[partition] if count == 1 else counted(count, "partition")
        for name, count, partition in zip(*columns, strict=True)
    }


def _changed_columns(before: Schema, after: Schema) -> tuple[ChangedColumn, ...]:
    """Return the columns that differ; a column is the same one when its files know it by the same name."""
    old, new = ({each.column: each for each in schema.fields} for schema in (before, after))
    found = []
    for column in dict.fromkeys((*new, *old)):
        was, now = old.get(column), new.get(column)
        name = now.name if now is not None else was.name if was is not None else ""
        texts = ["" if each is None else each.text if each.name == name else f"{each.name} {each.text}"
                 for each in (was, now)]  # fmt: skip
        if texts[0] != texts[1]:
            found.append(ChangedColumn(name, *texts))
    return tuple(found)
