"""Rollback: make a table what it was at an older version, by one more commit; no data file is read or written."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.evolution import reads_files_of
from sleeper_nb.model.files import data_files
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import Rollback
from sleeper_nb.operations.versioning.resolve import Resolved
from sleeper_nb.report import Answer, Grid, Listing, Report, Stacked, counted
from sleeper_nb.state_store.state_store_base import StateStore


@dataclass(frozen=True, slots=True, repr=False)
class RollbackReport(Report):
    """What a rollback did; of a dry run, what it would do.

    Parameters
    ----------
    to
        The version that the table is again.
    snapshot
        The new snapshot; None for a dry run, and when the table was that already.
    undone
        The retained snapshots behind `to`, newest first; each can still be read, and rolled back to.
    added_files, removed_files
        Files that are in use again, and no longer.
    files_before, files_after
        Data files in use.
    rows_before, rows_after
        Of the table.
    partitions_before, partitions_after
        Leaf partitions.
    is_nothing
        Whether the table was what it was then already.
    keeps_schema
        Whether the version had another schema than the table now, which stays.
    """

    to: Resolved
    snapshot: Snapshot | None
    undone: tuple[Snapshot, ...]
    added_files: int
    removed_files: int
    files_before: int
    files_after: int
    rows_before: int
    rows_after: int
    partitions_before: int
    partitions_after: int
    is_nothing: bool
    dry_run: bool
    keeps_schema: bool = False

    def grid(self) -> Grid:
        """Return what changes; what is undone stands below it."""
        columns = " · the columns stay those of now" if self.keeps_schema else ""
        if self.is_nothing:
            return Grid((), (), footer=f"the table is what it was at {self.to} already; nothing was done{columns}")
        rows: list[tuple[object, ...]] = [
            ("rows", self.rows_before, self.rows_after),
            ("files", self.files_before, self.files_after),
        ]
        if self.partitions_before != self.partitions_after:
            rows.append(("leaf partitions", self.partitions_before, self.partitions_after))
        verb = "would roll back" if self.snapshot is None else f"snapshot {self.snapshot.id}: rolled back"
        footer = f"{'nothing was changed' if self.dry_run else ''}{columns}".removeprefix(" · ")
        return Grid(("", "before", "after"), tuple(rows), f"{verb} to {self.to}", footer)

    def undone_snapshots(self) -> Listing[Snapshot]:
        """Return the commits that are undone, newest first."""
        cells = tuple((s.id, s.operation, s.added_rows, s.message) for s in self.undone)
        title = f"{counted(len(self.undone), 'snapshot')} undone, which can still be read"
        return Listing(self.undone, ("snapshot", "operation", "+rows", "message"), cells, title)

    def _parts(self) -> Report:
        """Return the two tables, or the one where nothing is undone."""
        changes = Answer(self.grid())
        shown = not self.is_nothing and self.undone
        return Stacked((("changes", changes), ("undone", self.undone_snapshots()))) if shown else changes

    def __repr__(self) -> str:
        return repr(self._parts())

    def _repr_html_(self) -> str:
        return self._parts()._repr_html_()


class _NothingToDoError(Exception):
    """Another session has made the table what it was already."""


def roll_back(
    store: StateStore, to: Resolved, *, dry_run: bool, author: str | None = None, message: str | None = None
) -> RollbackReport:
    """Make a table what it was at a version: rows, files and partitions; history goes on with one more snapshot.

    The schema of now stays: rows of then have the columns of now, null where they had none.

    What others commit meanwhile is undone as well. A garbage collection that was faster makes it fail: see
    `Rollback.validate`.
    """
    then, now = store.load(to.version), store.load()

    def between(state: TableState) -> Rollback:
        if not reads_files_of(then.schema, state.schema):
            raise InvalidInput(
                f"the rows of {to} do not fit the schema that the table has now",
                hint=f"read them as they were: @{to.snapshot_id}",
            )
        return Rollback.between(state, then)

    change, snapshot = between(now), None

    def planned(state: TableState) -> Rollback:
        nonlocal now, change
        now, change = state, between(state)  # what is reported is what the last try undid
        if change.is_nothing:
            raise _NothingToDoError
        return change

    if not (dry_run or change.is_nothing):
        with contextlib.suppress(_NothingToDoError):
            snapshot = store.commit(planned, author=author, message=message or f"to {to}")
    # after the commit: a commit of another thread that this one follows is in the catalog no earlier
    found = store.catalog.snapshots(store.table_id)
    undone = tuple(s for s in found if to.snapshot_id < s.id <= now.snapshot_id)
    return RollbackReport(
        to=to,
        snapshot=snapshot,
        undone=undone,
        added_files=len({reference.filename for reference in change.references}),
        removed_files=len({filename for _, filename in change.removed}),
        files_before=_data_files(now),
        files_after=_data_files(then),
        rows_before=now.totals().rows,
        rows_after=then.totals().rows,
        partitions_before=len(now.tree.leaves),
        partitions_after=len(then.tree.leaves),
        is_nothing=change.is_nothing,
        dry_run=dry_run,
        keeps_schema=then.schema_id != now.schema_id,
    )


def _data_files(state: TableState) -> int:
    """Return how many data files a version reads; one that several partitions share counts once."""
    return data_files(state.files.active)[0]
