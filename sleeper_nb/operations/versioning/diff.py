"""The report of what changed between two versions: rows, columns, files and partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from sleeper_nb.model.keys import KeyValue, key_text
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.scanning.scan_plan import files_of
from sleeper_nb.operations.versioning.resolve import Resolved
from sleeper_nb.operations.versioning.row_changes import RowCounts
from sleeper_nb.report import Bytes, Grid, Listing, Report, cell_text, counted

_MOST_SPLITS, _MOST_COLUMNS, _MOST_LETTERS = 5, 10, 40


@dataclass(frozen=True, slots=True)
class ComparedVersion:
    """One of the two versions.

    Parameters
    ----------
    resolved
        Which version it is, and what the user called it.
    committed
        When, UTC.
    schema_id
        The schema that it is read with.
    rows, files, bytes, partitions
        Its rows in files, data files, their bytes, and leaf partitions.
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
        """Take the facts of a version from its metadata."""
        files, size = files_of(state)
        rows, leaves = state.totals().rows, len(state.tree.leaves)
        return cls(resolved, resolved.version.committed, state.schema_id, rows, files, size, leaves)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, the version by its number and in words."""
        words = {"snapshot": self.resolved.snapshot_id, "version": str(self.resolved)}
        return words | {f.name: getattr(self, f.name) for f in fields(self) if f.name != "resolved"}


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A data file that one of the versions reads and the other does not.

    Parameters
    ----------
    filename
        Its path below the table's folder.
    rows
        Rows that the version takes from it.
    bytes
        Of the whole file.
    """

    filename: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ChangedSplit:
    """A partition that was cut in two at one value of one row key."""

    partition_id: str
    key: str
    point: KeyValue

    def __str__(self) -> str:
        point = cell_text(key_text(self.point))
        return f"{self.key} = {point if len(point) <= _MOST_LETTERS else point[:_MOST_LETTERS] + '…'}"


@dataclass(frozen=True, slots=True)
class ChangedColumn:
    """A column that is not the same in both versions.

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
        renamed = f"renamed to {self.after!r}" if self.before != self.after else ""
        retyped = f"changed from {self.type_before} to {self.type_after}" if self.type_before != self.type_after else ""
        return f"column {self.before!r} was {' and '.join(filter(None, (renamed, retyped)))}"


@dataclass(frozen=True, slots=True, repr=False)
class Diff(Report):
    """What changed from one version of a table to another.

    Parameters
    ----------
    table
        The table's name.
    before, after
        The two versions.
    rows
        How many rows were added and removed, as queries give them now; a changed row is one of each. Exact.
    files_added, files_removed
        Data files that only `after` reads, and that only `before` reads.
    splits, splits_undone
        Splits of partitions that only `after` has, and that only `before` has.
    processed
        Whether queries filter or combine rows, so that what they give is not what is in files.
    columns
        Which columns were added, dropped, renamed or given another type.
    """

    table: str
    before: ComparedVersion
    after: ComparedVersion
    rows: RowCounts
    files_added: tuple[ChangedFile, ...]
    files_removed: tuple[ChangedFile, ...]
    splits: tuple[ChangedSplit, ...]
    splits_undone: tuple[ChangedSplit, ...]
    processed: bool = False
    columns: tuple[ChangedColumn, ...] = ()

    @property
    def rows_added(self) -> int:
        """Rows of `after` that `before` does not have."""
        return self.rows.added

    @property
    def rows_removed(self) -> int:
        """Rows of `before` that `after` does not have."""
        return self.rows.removed

    @property
    def files(self) -> Listing[ChangedFile]:
        """The files that were added and removed, as a listing."""
        both = [("added", file) for file in self.files_added] + [("removed", file) for file in self.files_removed]
        cells = tuple((kind, f.filename.rpartition("/")[2], f.rows, Bytes(f.bytes)) for kind, f in both)
        title = f"files added and removed: {len(self.files_added):,} and {len(self.files_removed):,}"
        return Listing(tuple(file for _, file in both), ("change", "file", "rows", "bytes"), cells, title)

    def grid(self) -> Grid:
        """Return the sums of both versions, and what was added and removed."""
        old, new = self.before, self.after
        added, removed = (sum(f.bytes for f in each) for each in (self.files_added, self.files_removed))
        rows = (
            ("rows", old.rows, new.rows, self.rows_added, self.rows_removed),
            ("files", old.files, new.files, len(self.files_added), len(self.files_removed)),
            ("bytes", Bytes(old.bytes), Bytes(new.bytes), Bytes(added), Bytes(removed)),
            ("leaf partitions", old.partitions, new.partitions, None, None),
        )
        title = f"{self.table}: from {old.resolved} to {new.resolved}"
        unchanged = "" if any(self.rows) else "no row was added or removed"
        differs = "rows before and after are those in files; added and removed, those that queries give"
        said = (
            differs if self.processed else "",
            unchanged,
            *_columns_said(self.columns),
            _said("split", self.splits),
            _said("no longer split", self.splits_undone),
        )
        return Grid(("", "before", "after", "added", "removed"), rows, title, " · ".join(filter(None, said)))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        many = {name: [asdict(each) for each in getattr(self, name)] for name in _MANY}
        return {
            "table": self.table,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "rows_added": self.rows_added,
            "rows_removed": self.rows_removed,
            **many,
        }

    def __repr__(self) -> str:
        return "\n".join((self.grid().text(), *([self.files.grid().text()] if len(self.files) else [])))

    def _repr_html_(self) -> str:
        return self.grid().html() + (self.files.grid().html() if len(self.files) else "")


_MANY = ("columns", "files_added", "files_removed", "splits", "splits_undone")


def diff(
    table: str,
    before: tuple[Resolved, TableState],
    after: tuple[Resolved, TableState],
    rows: RowCounts,
    *,
    processed: bool,
) -> Diff:
    """Return the report of two versions, whose rows have been compared already; metadata tells the rest."""
    (_, old), (_, new) = before, after
    old_splits, new_splits = _splits(old), _splits(new)
    return Diff(
        table,
        ComparedVersion.of(*before),
        ComparedVersion.of(*after),
        rows,
        files_added=_files_of_one(new, old),
        files_removed=_files_of_one(old, new),
        splits=tuple(split for split in new_splits if split not in old_splits),
        splits_undone=tuple(split for split in old_splits if split not in new_splits),
        processed=processed,
        columns=_changed_columns(old.schema, new.schema),
    )


def _changed_columns(old: Schema, new: Schema) -> tuple[ChangedColumn, ...]:
    """Return the columns that differ; a column is the same one in both as long as data files call it the same."""
    before, after = ({field.column: field for field in schema.fields} for schema in (old, new))
    both = [column for column in before if column in after]
    pairs: list[tuple[Field | None, Field | None]] = [
        (field, None) for column, field in before.items() if column not in after
    ]
    pairs += [(before[column], after[column]) for column in both]
    pairs += [(None, field) for column, field in after.items() if column not in before]
    changes = (
        ChangedColumn(*(f.name if f else None for f in pair), *(f.text if f else None for f in pair)) for pair in pairs
    )
    return tuple(one for one in changes if (one.before, one.type_before) != (one.after, one.type_after))


def _files_of_one(state: TableState, other: TableState) -> tuple[ChangedFile, ...]:
    """Return the files that one state reads and the other does not, in order of their commits and keys.

    A file that several leaves share is there once.
    """
    mine, theirs = (each.files.active for each in (state, other))
    only = mine.filter(pc.invert(pc.is_in(mine["filename"], value_set=theirs["filename"])))
    least = (f"min_{key.name}" for key in state.schema.row_keys)
    ordered = only.sort_by([(name, "ascending") for name in ("added_snapshot", *least, "filename")])
    found: dict[str, ChangedFile] = {}
    for name, rows, size in zip(*(ordered[n].to_pylist() for n in ("filename", "rows", "bytes")), strict=True):
        before = found[name].rows if name in found else 0
        found[name] = ChangedFile(name, before + rows, size)
    return tuple(found.values())


def _splits(state: TableState) -> dict[ChangedSplit, None]:
    """Return where partitions are split, root first: a set that keeps the order."""
    tree, keys = state.tree, [field.name for field in state.schema.row_keys]
    inner = (node for node in tree.partitions if not node.is_leaf)
    return dict.fromkeys(ChangedSplit(node.id, keys[node.dimension], tree.split_point(node)) for node in inner)


def _columns_said(columns: tuple[ChangedColumn, ...]) -> Iterator[str]:
    yield from map(str, columns[:_MOST_COLUMNS])
    if (more := len(columns) - _MOST_COLUMNS) > 0:
        yield f"{more:,} more columns differ"


def _said(what: str, splits: tuple[ChangedSplit, ...]) -> str:
    if not splits:
        return ""
    more = f" and {len(splits) - _MOST_SPLITS:,} more" if len(splits) > _MOST_SPLITS else ""
    return f"{counted(len(splits), 'partition')} {what} at {', '.join(map(str, splits[:_MOST_SPLITS]))}{more}"
