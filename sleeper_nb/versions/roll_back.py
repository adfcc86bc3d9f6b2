"""Roll a table back: restore the contents of an older version by adding a snapshot; no data file is read or written."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from sleeper_nb.errors import HISTORY, Action, InvalidInput, StorageError
from sleeper_nb.model.evolution import broken_promises, reads_files_of
from sleeper_nb.model.file_reference import data_files
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import Rollback
from sleeper_nb.report import Answer, Grid, Listing, Report, Stacked, counted
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.resolve import Resolved

_STAY = frozenset({"alter", "migrate", "properties"})
"""The commits that change no rows: a rollback leaves columns, the state store and properties as they are."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class RollbackReport(Report):
    """What a rollback did; of a dry run, what it would do.

    Parameters
    ----------
    to
        The version whose contents were restored.
    snapshot
        The new snapshot; None for a dry run, and when the table already had those contents.
    undone
        The retained snapshots after `to`, newest first; each can still be read, and rolled back to. What ``alter``,
        ``migrate`` and ``properties`` changed stays in effect.
    added_files, removed_files
        Files that are used again, and files that are no longer used.
    files_before, files_after
        Data files of the table.
    rows_before, rows_after
        Rows of the table.
    partitions_before, partitions_after
        Leaf partitions of the table.
    is_nothing
        Whether the table already had those contents.
    keeps_schema
        Whether the version had another schema; the table keeps its current one.
    lost_columns
        The columns of the version that the table has no more.
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
    lost_columns: tuple[str, ...] = ()

    def grid(self) -> Grid:
        """Return what changes; `undone_snapshots` lists the commits that are undone."""
        verb = "stays" if len(self.lost_columns) == 1 else "stay"
        lost = f": {', '.join(self.lost_columns)} of {self.to} {verb} dropped" if self.lost_columns else ""
        schema = f"columns are not rolled back{lost}" if self.keeps_schema else ""
        if self.is_nothing:
            unchanged = f"nothing to do: the table already has the rows of {self.to}"
            return Grid((), (), footer=" · ".join(filter(None, (unchanged, schema))))
        rows: list[tuple[object, ...]] = [
            ("rows", self.rows_before, self.rows_after),
            ("files", self.files_before, self.files_after),
        ]
        if self.partitions_before != self.partitions_after:
            rows.append(("leaf partitions", self.partitions_before, self.partitions_after))
        verb = "would roll back" if self.snapshot is None else f"snapshot {self.snapshot.id}: rolled back"
        unchanged = "nothing was changed" if self.dry_run else ""
        footer = " · ".join(filter(None, (unchanged, schema)))
        return Grid(("", "before", "after"), tuple(rows), f"{verb} to {self.to}", footer)

    def undone_snapshots(self) -> Listing[Snapshot]:
        """Return the commits that are undone, newest first; the line below names those that stay in effect."""
        stay = [s for s in self.undone if s.operation in _STAY]
        undone = tuple(s for s in self.undone if s not in stay)
        cells = tuple((s.id, s.operation, s.added_rows, s.message) for s in undone)
        verb = "would be undone, and could" if self.dry_run else "undone, which can"
        title = f"{counted(len(undone), 'snapshot')} {verb} still be read"
        names = ", ".join(f"{s.operation} (snapshot {s.id})" for s in stay)
        verb = "would stay" if self.dry_run else "stay"
        footer = f"not undone, and {verb} in effect: {names}" if stay else ""
        return Listing(undone, ("snapshot", "operation", "+rows", "message"), cells, title, footer)

    def _parts(self) -> Report:
        changes = Answer(self.grid())
        if self.is_nothing or not self.undone:
            return changes
        return Stacked((("changes", changes), ("undone", self.undone_snapshots())))

    def __repr__(self) -> str:
        return repr(self._parts())

    def _repr_html_(self) -> str:
        return self._parts()._repr_html_()


class _NothingToDoError(Exception):
    """Another session has restored the same contents in the meantime."""


def roll_back(
    store: StateStore, to: Resolved, *, dry_run: bool, author: str | None = None, message: str | None = None
) -> RollbackReport:
    """Restore the rows, files and partitions of a version by adding a snapshot; history is preserved.

    The table keeps its current schema: a restored row has NULL in columns that the version did not have. Whatever other
    sessions commit in the meantime is undone as well.

    `InvalidInput` when the rows of the version do not fit the current schema. `StateRuleBroken` when garbage collection
    deleted files of the version in the meantime (`Rollback.validate`).
    """
    old, current = store.load(to.version), store.load()
    change, snapshot = _change_to(to, old, current), None

    def planned(state: TableState) -> Rollback:
        nonlocal current, change
        current, change = state, _change_to(to, old, state)  # the report is about the last try
        if change.is_nothing:
            raise _NothingToDoError
        return change

    if not (dry_run or change.is_nothing):
        try:
            snapshot = store.commit(planned, author=author, message=message or f"to {to}")
        except _NothingToDoError:
            logger.info("table %s: another session has restored %s in the meantime", store.table_id, to)
    # Listed after the commit: a commit of another thread that this one follows may not be in the catalog earlier.
    try:
        snapshots = store.catalog.snapshots(store.table_id)
    except StorageError as error:
        if snapshot is None:
            raise
        raise StorageError(
            f"the table was rolled back in snapshot {snapshot.id}, but the commits that it "
            f"undid cannot be listed: {error.message}",
            hint=("do not repeat the rollback: ", HISTORY, " lists it"),
        ) from error
    return RollbackReport(
        to=to,
        snapshot=snapshot,
        undone=tuple(s for s in snapshots if to.snapshot_id < s.id <= current.snapshot_id),
        added_files=len({reference.filename for reference in change.references}),
        removed_files=len({filename for _, filename in change.removed}),
        files_before=_count_data_files(current),
        files_after=_count_data_files(old),
        rows_before=current.totals().rows,
        rows_after=old.totals().rows,
        partitions_before=len(current.tree.leaves),
        partitions_after=len(old.tree.leaves),
        is_nothing=change.is_nothing,
        dry_run=dry_run,
        keeps_schema=old.schema_id != current.schema_id,
        lost_columns=_lost_columns(old.schema, current.schema),
    )


def _lost_columns(old: Schema, current: Schema) -> tuple[str, ...]:
    kept = {field.column for field in current.fields}
    return tuple(field.name for field in old.fields if field.column not in kept)


def _change_to(to: Resolved, old: TableState, current: TableState) -> Rollback:
    if not reads_files_of(old.schema, current.schema):
        raise InvalidInput(
            f"the rows of {to} do not fit the current schema of the table",
            hint=f"query that version instead: @{to.snapshot_id}",
        )
    if new := broken_promises(old.schema, current.schema):
        dropping = Action("alter T --drop-check NAME", "table.alter(checks={name: None})")
        if new == ("unique keys",):
            dropping = Action("alter T --unique-keys false", "table.alter(unique_keys=False)")
        raise InvalidInput(
            f"the rows of {to} were not checked by {', '.join(new)}, which the table has now",
            hint=("drop that first, roll back, and add it again: ", dropping),
        )
    return Rollback.between(current, old)


def _count_data_files(state: TableState) -> int:
    return data_files(state.files.active)[0]
