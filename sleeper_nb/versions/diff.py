"""Diff: report what changed between two versions, in rows, columns, files and partitions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from sleeper_nb.model.deletions import DELETION_FILE
from sleeper_nb.model.keys import KeyValue, key_text
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.read.scan_plan import files_of
from sleeper_nb.report import Bytes, Grid, Listing, TableReport, cell_text, counted, folded
from sleeper_nb.versions.resolve import Resolved
from sleeper_nb.versions.row_differences import RowCounts
from sleeper_nb.versions.row_images import ImageCounts

_MOST_SPLITS, _MOST_COLUMNS, _MOST_LETTERS = 5, 10, 40
_NO_ROW = "no row was added or removed"
_LISTS = ("columns", "files_added", "files_removed", "splits", "splits_undone")
"""The fields of `Diff` that `to_dict` gives as lists of dictionaries."""


@dataclass(frozen=True, slots=True)
class ComparedVersion:
    """One of the two versions.

    Parameters
    ----------
    resolved
        The version, and what the user named.
    committed
        When it was committed, UTC.
    rows, files, bytes, partitions
        Rows in its files, its data files, their bytes, and its leaf partitions.
    """

    resolved: Resolved
    committed: datetime
    schema_id: int
    rows: int
    files: int
    bytes: int
    partitions: int

    @classmethod
    def of(cls, resolved: Resolved, state: TableState) -> ComparedVersion:
        files, size = files_of(state)
        rows, leaves = state.totals().rows, len(state.tree.leaves)
        return cls(resolved, resolved.version.committed, state.schema_id, rows, files, size, leaves)

    def to_dict(self) -> dict[str, Any]:
        words = {"snapshot": self.resolved.snapshot_id, "version": str(self.resolved)}
        return words | {f.name: getattr(self, f.name) for f in fields(self) if f.name != "resolved"}


@dataclass(frozen=True, slots=True)
class FileDiff:
    """A data file that one of the versions reads and the other does not.

    Parameters
    ----------
    filename
        Its path below the table's folder.
    rows
        Rows that the version takes from it.
    bytes
        The size of the whole file.
    """

    filename: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SplitDiff:
    """A partition that was split in two at one value of one row key."""

    partition_id: str
    key: str
    point: KeyValue

    def __str__(self) -> str:
        point = cell_text(key_text(self.point))
        return f"{self.key} = {point if len(point) <= _MOST_LETTERS else point[:_MOST_LETTERS] + '…'}"


@dataclass(frozen=True, slots=True)
class ColumnDiff:
    """A column that differs between the versions.

    Parameters
    ----------
    before, after
        Its name in each version; None in the version that does not have it.
    type_before, type_after
        Its type as a schema writes it, ``double?``.
    """

    before: str | None
    after: str | None
    type_before: str | None
    type_after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"column {self.after!r} ({self.type_after}) was added"
        if self.after is None:
            return f"column {self.before!r} ({self.type_before}) was dropped"
        changes = []
        if self.before != self.after:
            changes.append(f"renamed to {self.after!r}")
        if self.type_before != self.type_after:
            changes.append(f"changed from {self.type_before} to {self.type_after}")
        return f"column {self.before!r} was {' and '.join(changes)}"


@dataclass(frozen=True, slots=True, repr=False)
class Diff(TableReport):
    """What changed from one version of a table to another.

    Parameters
    ----------
    table
        The table's name.
    before, after
        The two versions.
    rows
        How many rows were added and removed, as queries return them now; a changed row counts as both. Exact.
    files_added, files_removed
        Data files that only `after` reads, and that only `before` reads.
    splits, splits_undone
        Splits of partitions that only `after` has, and that only `before` has.
    processed
        Whether queries filter or combine rows, so that they return other rows than the files have.
    columns
        Which columns were added, dropped, renamed or given another type.
    some_rows
        Whether `rows` are only those with some keys, or that meet a condition.
    images
        How many of the rows were inserted, updated and deleted, by key; None when that was not asked for.
    vectors_changed
        How many files both versions read with other deletion vectors, so with other rows.
    """

    table: str
    before: ComparedVersion
    after: ComparedVersion
    rows: RowCounts
    files_added: tuple[FileDiff, ...]
    files_removed: tuple[FileDiff, ...]
    splits: tuple[SplitDiff, ...]
    splits_undone: tuple[SplitDiff, ...]
    processed: bool = False
    columns: tuple[ColumnDiff, ...] = ()
    some_rows: bool = False
    images: ImageCounts | None = None
    vectors_changed: int = 0

    @property
    def rows_added(self) -> int:
        """How many rows of `after` are not in `before`."""
        return self.rows.added

    @property
    def rows_removed(self) -> int:
        """How many rows of `before` are not in `after`."""
        return self.rows.removed

    @property
    def files(self) -> Listing[FileDiff]:
        """The files that were added and removed, as a listing."""
        kinds = ["added"] * len(self.files_added) + ["removed"] * len(self.files_removed)
        files = (*self.files_added, *self.files_removed)
        cells = tuple(
            (kind, file.filename.rpartition("/")[2], file.rows, Bytes(file.bytes))
            for kind, file in zip(kinds, files, strict=True)
        )
        title = f"files added and removed: {len(self.files_added):,} and {len(self.files_removed):,}"
        return Listing(files, ("change", "file", "rows", "bytes"), cells, title)

    def grid(self) -> Grid:
        """Return the totals of both versions, and what was added and removed."""
        old, new = self.before, self.after
        added, removed = sum(f.bytes for f in self.files_added), sum(f.bytes for f in self.files_removed)
        rows = (
            ("rows", old.rows, new.rows, self.rows_added, self.rows_removed),
            ("files", old.files, new.files, len(self.files_added), len(self.files_removed)),
            ("bytes", Bytes(old.bytes), Bytes(new.bytes), Bytes(added), Bytes(removed)),
            ("leaf partitions", old.partitions, new.partitions, None, None),
        )
        title = f"{self.table}: from {old.resolved} to {new.resolved}"
        return Grid(("", "before", "after", "added", "removed"), rows, title, " · ".join(self._notes()))

    def _notes(self) -> list[str]:
        notes = []
        if self.some_rows:
            notes.append("rows added and removed are of the chosen rows; all else is of the whole versions")
        if self.processed:
            notes.append("before and after count rows in files; added and removed count rows that queries return")
        if not any(self.rows):
            notes.append("none of the chosen rows was added or removed" if self.some_rows else _NO_ROW)
        elif self.images is not None:
            counts = zip(self.images._fields, self.images, strict=True)
            notes.append("by key: " + ", ".join(f"{count:,} {verb}" for verb, count in counts))
            if self.images.inserted and self.images.deleted:  # it is unknown which of them became which
                notes.append("of a key with several rows, the old ones count as deleted and the new ones as inserted")
        if self.vectors_changed:
            verb = "differs" if self.vectors_changed == 1 else "differ"
            notes.append(f"{counted(self.vectors_changed, 'file')} of both versions {verb} by deletion vectors")
        notes += _column_notes(self.columns)
        notes += _split_notes("split", self.splits)
        notes += _split_notes("no longer split", self.splits_undone)
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        lists = {name: [asdict(each) for each in getattr(self, name)] for name in _LISTS}
        return {
            "table": self.table,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "rows_added": self.rows_added,
            "rows_removed": self.rows_removed,
            **({} if self.images is None else {f"rows_{verb}": count for verb, count in self.images._asdict().items()}),
            **lists,
        }

    def __repr__(self) -> str:
        text = self.grid().text()
        return f"{text}\n{self.files.grid().text()}" if len(self.files) else text

    def _repr_html_(self) -> str:
        files = folded(self.files.title, replace(self.files.grid(), title="").html()) if len(self.files) else ""
        return self.grid().html() + files


def diff(
    table: str,
    before: tuple[Resolved, TableState],
    after: tuple[Resolved, TableState],
    rows: RowCounts,
    *,
    processed: bool,
    some_rows: bool = False,
    images: ImageCounts | None = None,
) -> Diff:
    """Return the report on two versions whose rows have been compared; everything else is in their metadata."""
    (_, old), (_, new) = before, after
    old_splits, new_splits = _splits(old), _splits(new)
    return Diff(
        table,
        ComparedVersion.of(*before),
        ComparedVersion.of(*after),
        rows,
        files_added=files_of_one(new, old),
        files_removed=files_of_one(old, new),
        splits=tuple(split for split in new_splits if split not in old_splits),
        splits_undone=tuple(split for split in old_splits if split not in new_splits),
        processed=processed,
        columns=_changed_columns(old.schema, new.schema),
        some_rows=some_rows,
        images=images,
        vectors_changed=_vectors_changed(old, new),
    )


def _changed_columns(old: Schema, new: Schema) -> tuple[ColumnDiff, ...]:
    """Return the columns that differ: dropped, then changed, then added; matched by their names in data files."""
    before = {field.column: field for field in old.fields}
    after = {field.column: field for field in new.fields}
    dropped = [_changed_column(field, None) for column, field in before.items() if column not in after]
    changed = [
        _changed_column(field, after[column])
        for column, field in before.items()
        if column in after and (field.name, field.text) != (after[column].name, after[column].text)
    ]
    added = [_changed_column(None, field) for column, field in after.items() if column not in before]
    return (*dropped, *changed, *added)


def _changed_column(before: Field | None, after: Field | None) -> ColumnDiff:
    return ColumnDiff(
        before=before.name if before else None,
        after=after.name if after else None,
        type_before=before.text if before else None,
        type_after=after.text if after else None,
    )


def files_of_one(state: TableState, other: TableState) -> tuple[FileDiff, ...]:
    """Return the files that one state reads and the other does not, in order of their commits and keys.

    A file that several leaves share is listed once.
    """
    active = state.files.active
    is_shared = pc.is_in(active["filename"], value_set=other.files.active["filename"])
    min_keys = [f"min_{key.name}" for key in state.schema.row_keys]
    order = [(name, "ascending") for name in ("added_snapshot", *min_keys, "filename")]
    references = active.filter(pc.invert(is_shared)).sort_by(order).select(["filename", "rows", "bytes"])
    files: dict[str, FileDiff] = {}
    for reference in references.to_pylist():
        name = reference["filename"]
        rows = files[name].rows if name in files else 0
        files[name] = FileDiff(name, rows + reference["rows"], reference["bytes"])
    return tuple(files.values())


def _vectors_changed(old: TableState, new: TableState) -> int:
    before, after = (
        set(zip(*(part[name].to_pylist() for name in ("filename", DELETION_FILE)), strict=True))
        for part in old.files.unshared(new.files)
    )
    return len({name for name, _ in before - after} & {name for name, _ in after - before})


def _splits(state: TableState) -> dict[SplitDiff, None]:
    """Return where partitions are split, root first, as the keys of a dictionary: a set that keeps the order."""
    tree, keys = state.tree, [field.name for field in state.schema.row_keys]
    return {
        SplitDiff(node.id, keys[node.dimension], tree.split_point(node)): None
        for node in tree.partitions
        if not node.is_leaf
    }


def _column_notes(columns: tuple[ColumnDiff, ...]) -> list[str]:
    notes = [str(column) for column in columns[:_MOST_COLUMNS]]
    if len(columns) > _MOST_COLUMNS:
        notes.append(f"{len(columns) - _MOST_COLUMNS:,} more columns differ")
    return notes


def _split_notes(verb: str, splits: tuple[SplitDiff, ...]) -> list[str]:
    if not splits:
        return []
    points = ", ".join(map(str, splits[:_MOST_SPLITS]))
    more = f" and {len(splits) - _MOST_SPLITS:,} more" if len(splits) > _MOST_SPLITS else ""
    return [f"{counted(len(splits), 'partition')} {verb} at {points}{more}"]
