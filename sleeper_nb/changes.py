"""The rows that changed between two versions of a table: compared when asked, in the form that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.arguments import checked
from sleeper_nb.cells import cell_text
from sleeper_nb.errors import InvalidInput
from sleeper_nb.operations.versioning import changes
from sleeper_nb.operations.versioning.changes import KINDS, Kind, RowCounts
from sleeper_nb.operations.versioning.comparison import Comparison
from sleeper_nb.operations.versioning.leases import ReadGuard, guarded
from sleeper_nb.operations.versioning.versions import Resolved
from sleeper_nb.preview import DEFAULT_DISPLAY, preview
from sleeper_nb.report import Display, Grid, Report
from sleeper_nb.scan import as_dict, as_pandas, as_polars
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True, slots=True, repr=False)
class Changes(Report):
    """The rows that one version of a table has and another does not, both ways, not read yet.

    Made by `Table.changes`. A row counts as often as it is there, and one whose values changed is removed and added.
    ``added`` and ``removed`` are the two kinds; ``rows()`` has both, each row with its kind. So the rows of `before`,
    without `removed` and with `added`, are the rows of `after`.

    Parameters
    ----------
    table
        The table's name.
    before, after
        The two versions.
    """

    table: str
    before: Resolved
    after: Resolved
    _comparison: Comparison
    _storage: Storage
    _guards: tuple[ReadGuard, ...]

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

        The column is ``change``; ``_change`` in a table that has such a column.
        """
        if limit is not None and limit < 0:
            raise InvalidInput(f"the limit {limit} is negative", hint="the limit is 0 or more")
        return ChangedRows(self, KINDS, limit)

    def count(self) -> RowCounts:
        """Return how many rows were added and removed, as a pair; by metadata alone where files tell."""
        with guarded(self._guards, "diff"):
            return changes.count(self._comparison, self._storage)

    def grid(self) -> Grid:
        """Return the first rows of both kinds."""
        return self.rows().grid()

    def to_dict(self) -> dict[str, Any]:
        """Return all rows of each kind, a list of values per column."""
        return {kind: ChangedRows(self, (kind,)).to_dict() for kind in KINDS}

    @property
    def opened(self) -> str:
        """How many of the two versions' files are read to compare them."""
        return f"reads {cell_text(self._comparison.files)}/{cell_text(self._comparison.files_of)} files"

    @checked
    def batches(self, kinds: tuple[Kind, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one kind, or of both with a column that tells which; region by region, by keys in each."""
        with guarded(self._guards, "diff"):
            for change in changes.stream(self._comparison, self._storage, kinds):
                if kinds == KINDS:
                    yield changes.labelled(change, self._column, self._comparison.after.sort_order)
                else:
                    yield change.added if kinds == ("added",) else change.removed

    @checked
    def schema(self, kinds: tuple[Kind, ...]) -> pa.Schema:
        """Return the columns of what `batches` yields."""
        plain = self._comparison.schema
        return changes.labelled_schema(plain, self._column) if kinds == KINDS else plain

    @property
    def _column(self) -> str:
        taken = {name.casefold() for name in self._comparison.newer.names}
        name = "change"
        while name in taken:
            name = f"_{name}"
        return name


@dataclass(frozen=True, slots=True, repr=False)
class ChangedRows(Report):
    """Rows that were added, that were removed, or both, not read yet; each call reads them anew.

    Made by `Changes`.
    """

    changes: Changes
    kinds: tuple[Kind, ...]
    limit: int | None = None
    display: Display = DEFAULT_DISPLAY

    def count(self) -> int:
        """Return the number of rows; from metadata alone where files tell."""
        found = self.changes.count()._asdict()
        count = sum(int(found[kind]) for kind in self.kinds)
        return count if self.limit is None else min(count, self.limit)

    @checked
    def head(self, rows: int = DEFAULT_DISPLAY.rows) -> pa.Table:
        """Return the first rows, in key order within each leaf; no more is compared than that takes."""
        return self._read(rows if self.limit is None else min(rows, self.limit))

    def to_arrow(self) -> pa.Table:
        """Read all rows into Arrow: leaf by leaf, in key order within each."""
        return self._read(self.limit)

    def to_pandas(self) -> pd.DataFrame:
        """Read all rows into pandas; integers with NULLs are its ``Int32`` and ``Int64``."""
        return as_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Read all rows into Polars."""
        return as_polars(self.to_arrow())

    def grid(self) -> Grid:
        """Return the first rows, which versions they are between, and how many files are read to know."""
        kinds = " and ".join(self.kinds)
        footer = (
            f"{kinds} from {self.changes.before} to {self.changes.after} of {self.changes.table} · "
            f"{self.changes.opened}"
        )
        return preview(self.head(self.display.rows + 1), footer, limit=self.display.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return all rows, a list of values per column."""
        return as_dict(self.to_arrow())

    def _read(self, limit: int | None) -> pa.Table:
        found, left = [], limit
        if left != 0:
            for batch in self.changes.batches(self.kinds):
                given = batch.slice(0, left)
                found.append(given)
                left = None if left is None else left - given.num_rows
                if left == 0:
                    break
        return pa.Table.from_batches(found, self.changes.schema(self.kinds))
