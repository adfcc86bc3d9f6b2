"""The rows that differ between two versions of a table, read when they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from sleeper_nb.arguments import checked
from sleeper_nb.display.preview import DEFAULT_DISPLAY, preview
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.state import TableState
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.read.read_rows import limited
from sleeper_nb.report import (
    Display,
    Grid,
    Report,
    cell_text,
)
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.tabular import Tabular, as_dict, as_rows
from sleeper_nb.versions import row_differences as changes
from sleeper_nb.versions import row_images
from sleeper_nb.versions.comparison import VersionComparison
from sleeper_nb.versions.diff import Diff, FileDiff, diff, files_of_one
from sleeper_nb.versions.leases import ReadGuard, hold_versions
from sleeper_nb.versions.resolve import Resolved
from sleeper_nb.versions.row_differences import KINDS, RowChangeKind, RowCounts
from sleeper_nb.versions.row_images import ImageCounts, ImageSummary


@dataclass(frozen=True, slots=True, repr=False)
class Changes(Report):
    """The rows that differ between two versions of a table, not read yet.

    Made by `Table.changes`. A row counts as often as it occurs, and a row whose values changed is removed and added.
    ``added`` and ``removed`` are the two kinds; ``rows()`` has both, each row with its kind. The rows of `before`,
    without `removed` and with `added`, are the rows of `after`.

    Parameters
    ----------
    table
        The table's name.
    before, after
        The two versions.
    images
        Whether `rows` says which removed and added row are the two images of an update.
    """

    table: str
    before: Resolved
    after: Resolved
    _states: tuple[TableState, TableState]
    _comparison: VersionComparison
    _storage: Storage
    _guards: tuple[ReadGuard, ...]
    images: bool = False
    _are_all: bool = True

    @property
    def added(self) -> ChangedRows:
        """The rows that only `after` has."""
        return ChangedRows(self, ("added",))

    @property
    def removed(self) -> ChangedRows:
        """The rows that only `before` has."""
        return ChangedRows(self, ("removed",))

    @checked
    def rows(self, limit: int | None = None) -> ChangedRows:
        """Return all of these rows, at most `limit`, each with ``"added"`` or ``"removed"`` in its first column.

        With ``images``, the two rows of a key that has one removed and one added row, and no other, have
        ``"update_preimage"`` and ``"update_postimage"`` there instead. The column is ``change``; ``_change`` in a table
        that has such a column.
        """
        if limit is not None and limit < 0:
            raise InvalidInput(f"the limit {limit} is negative", hint="the limit is 0 or more")
        return ChangedRows(self, KINDS, limit)

    def count(self) -> RowCounts:
        """Return how many rows were added and removed, as a pair; from metadata alone where that is enough."""
        with hold_versions(self._guards, "diff"):
            return changes.count_changes(self._comparison, self._storage)

    def count_images(self) -> ImageCounts:
        """Return how many rows were inserted, updated and deleted, by key; an update counts once."""
        with hold_versions(self._guards, "diff"):
            return row_images.count_images(self._comparison, self._storage)

    @checked
    def summary(self, rows: int = 200, *, progress: Progress = SILENT) -> ImageSummary:
        """Return what changed, by key: exact counts, how many values of each column, and the first rows of each kind.

        Parameters
        ----------
        rows
            How many rows of each kind are kept. Where metadata has the counts, no more rows are read.
        progress
            Callback that receives the key range being compared.
        """
        with hold_versions(self._guards, "diff"):
            return row_images.summarize_images(self._comparison, self._storage, rows, progress=progress)

    @checked
    def diff(self, counted: ImageCounts | None = None, *, progress: Progress = SILENT) -> Diff:
        """Return what changed by numbers and names; rows are read where metadata cannot tell.

        Parameters
        ----------
        counted
            How many rows differ, where that is known already, as of `summary`.
        progress
            Callback that receives the key range being compared.
        """
        if counted is None and self.images:
            with hold_versions(self._guards, "diff"):
                counted = row_images.count_images(self._comparison, self._storage, progress=progress)
        if counted is not None:
            rows = counted.rows
        else:
            with hold_versions(self._guards, "diff"):
                rows = changes.count_changes(self._comparison, self._storage, progress=progress)
        before, after = zip((self.before, self.after), self._states, strict=True)
        processed = not self._comparison.processing_after.is_nothing
        return diff(self.table, before, after, rows, processed=processed, some_rows=not self._are_all, images=counted)

    def files(self) -> tuple[tuple[FileDiff, ...], tuple[FileDiff, ...]]:
        """Return the data files that only `after` reads, and those that only `before` reads; from metadata."""
        old, new = self._states
        return files_of_one(new, old), files_of_one(old, new)

    @property
    def bytes(self) -> int:
        """The size of the files that must be read for exact counts, in bytes; 0 where metadata has them."""
        return changes.recorded_counts(self._comparison)[1].bytes

    def grid(self) -> Grid:
        """Return the first rows of both kinds."""
        return self.rows().grid()

    def to_dict(self) -> dict[str, Any]:
        """Return all rows of each kind: a list of values for each column."""
        return {kind: ChangedRows(self, (kind,)).to_dict() for kind in KINDS}

    @property
    def whose_columns(self) -> str:
        """Whose columns the rows have, as text; "" where both versions have the same."""
        if not self._comparison.columns_differ:
            return ""
        newer = max(self.before, self.after, key=lambda version: version.snapshot_id)
        return f"shown with the columns of {newer}, because the columns differ"

    @property
    def opened(self) -> str:
        """How many of the two versions' files are read to compare them, as text."""
        return f"reads {cell_text(self._comparison.files)}/{cell_text(self._comparison.files_of)} files"

    @checked
    def batches(self, kinds: tuple[RowChangeKind, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one kind, or of both with a column for the kind; region by region, each in key order."""
        with hold_versions(self._guards, "diff"):
            if self.images and kinds == KINDS:
                yield from row_images.stream_images(self._comparison, self._storage, self._column)
                return
            for change in changes.stream_changes(self._comparison, self._storage, kinds):
                if kinds == KINDS:
                    yield changes.labelled(change, self._column, self._comparison.after.sort_order)
                else:
                    yield change.added if kinds == ("added",) else change.removed

    @checked
    def schema(self, kinds: tuple[RowChangeKind, ...]) -> pa.Schema:
        """Return the schema of what `batches` yields."""
        plain = self._comparison.schema
        return changes.labelled_schema(plain, self._column) if kinds == KINDS else plain

    @property
    def _column(self) -> str:
        return changes.kind_column(self._comparison.newer.names)


@dataclass(frozen=True, slots=True, repr=False)
class ChangedRows(Report, Tabular):
    """Rows that were added, removed, or both, not read yet; each call reads them again.

    Made by `Changes`.
    """

    changes: Changes
    kinds: tuple[RowChangeKind, ...]
    limit: int | None = None
    display: Display = DEFAULT_DISPLAY

    def count(self) -> int:
        """Return the number of rows; from metadata alone where that is enough."""
        counts = self.changes.count()._asdict()
        count = sum(int(counts[kind]) for kind in self.kinds)
        return count if self.limit is None else min(count, self.limit)

    def __len__(self) -> int:
        return self.count()

    @checked
    def head(self, rows: int = DEFAULT_DISPLAY.rows) -> pa.Table:
        """Return the first rows, in key order within each leaf; only as much is compared as that needs."""
        return self._read(rows if self.limit is None else min(rows, self.limit))

    def to_arrow(self) -> pa.Table:
        """Read all rows into Arrow: leaf by leaf, in key order within each."""
        return self._read(self.limit)

    def grid(self) -> Grid:
        """Return the first rows, the two versions, and how many files are read to compare them."""
        kinds = " and ".join(self.kinds)
        if self.changes.images and self.kinds == KINDS:
            kinds = "removed, added and updated"
        shown = self.display.rows if self.limit is None else min(self.display.rows, self.limit)
        what = f"{kinds} from {self.changes.before} to {self.changes.after} of {self.changes.table}"
        footer = " · ".join(filter(None, (what, self.changes.whose_columns, self.changes.opened)))
        rows = self._read(shown + 1)  # one more tells that there are more
        return preview(rows, footer, limit=shown, total=self._recorded())

    def _recorded(self) -> int | None:
        """Return the number of rows, whatever the limit, where metadata has it."""
        counts, unknown = changes.recorded_counts(self.changes._comparison)  # noqa: SLF001 - of the same module
        return None if unknown.regions else sum(int(counts._asdict()[kind]) for kind in self.kinds)

    def to_dict(self) -> dict[str, Any]:
        """Return all rows: a list of values for each column."""
        return as_dict(self.to_arrow())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return chain.from_iterable(map(as_rows, limited(self.changes.batches(self.kinds), self.limit)))

    def _read(self, limit: int | None) -> pa.Table:
        rows = limited(self.changes.batches(self.kinds), limit)
        return pa.Table.from_batches(rows, self.changes.schema(self.kinds))
