"""Rollback: make a table what it was at an older version, by one more commit; no data file is read or written."""

from __future__ import annotations

from dataclasses import dataclass

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.clear_table import rows_fit
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import Rollback
from sleeper_nb.operations.versioning.versions import Resolved
from sleeper_nb.report import Grid, Report, counted
from sleeper_nb.state_store.base import StateStore


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
    rows_before, rows_after
        Of the table.
    partitions_before, partitions_after
        Leaf partitions.
    is_nothing
        Whether the table was what it was then already.
    """

    to: Resolved
    snapshot: Snapshot | None
    undone: tuple[Snapshot, ...]
    added_files: int
    removed_files: int
    rows_before: int
    rows_after: int
    partitions_before: int
    partitions_after: int
    is_nothing: bool
    dry_run: bool

    def grid(self) -> Grid:
        """Return what changes, and below it the commits that are undone."""
        if self.is_nothing:
            return Grid((), (), footer=f"the table is what it was at {self.to} already; nothing was done")
        rows: list[tuple[object, ...]] = [
            ("rows", self.rows_before, self.rows_after),
            ("files", f"−{self.removed_files:,}", f"+{self.added_files:,}"),
        ]
        if self.partitions_before != self.partitions_after:
            rows.append(("leaf partitions", self.partitions_before, self.partitions_after))
        rows += [(f"undoes snapshot {s.id}", s.operation, s.message or f"{s.added_rows:+,} rows") for s in self.undone]
        verb = "would roll back" if self.snapshot is None else f"snapshot {self.snapshot.id}: rolled back"
        still = f"{counted(len(self.undone), 'snapshot')} undone, which can still be read"
        footer = "nothing was changed" if self.dry_run else still
        return Grid(("", "before", "after"), tuple(rows), f"{verb} to {self.to}", footer)


def roll_back(
    store: StateStore, to: Resolved, *, dry_run: bool, author: str | None = None, message: str | None = None
) -> RollbackReport:
    """Make a table what it was at a version: rows, files and partitions; history goes on with one more snapshot.

    What others commit meanwhile is undone as well. A garbage collection that was faster makes it fail: see
    `Rollback.validate`.
    """
    then, now = store.load(to.version), store.load()

    def between(state: TableState) -> Rollback:
        if not rows_fit(then.schema, state.schema):
            raise InvalidInput(
                f"the rows of {to} do not fit the schema that the table has now",
                hint=f"read them as they were: @{to.snapshot_id}",
            )
        return Rollback.between(state, then)

    change = between(now)
    undone = tuple(s for s in store.catalog.snapshots(store.table_id) if s.id > to.snapshot_id)
    snapshot = None
    if not (dry_run or change.is_nothing):
        said = message or f"to {to}"
        snapshot = store.commit(between, author=author, message=said)
    return RollbackReport(
        to=to,
        snapshot=snapshot,
        undone=undone,
        added_files=len({reference.filename for reference in change.references}),
        removed_files=len({filename for _, filename in change.removed}),
        rows_before=now.totals().rows,
        rows_after=then.totals().rows,
        partitions_before=len(now.tree.leaves),
        partitions_after=len(then.tree.leaves),
        is_nothing=change.is_nothing,
        dry_run=dry_run,
    )
