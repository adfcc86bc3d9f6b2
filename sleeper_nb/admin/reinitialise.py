"""Reinitialise a table: delete its contents in one commit, optionally with new partitions and a new schema.

1. A new schema is written under an unused id.
2. One commit makes every file unused, and sets the new partition tree and schema. So the table is never without
   partitions, and readers of older versions continue.
3. What was published for other engines is taken away.
4. The older snapshots are forgotten. Savepoints are kept, with the files of their versions.
5. Garbage collection deletes, after its delay, the files that no savepoint and no reader keeps.

A crash leaves the table as it was, or empty; running it again completes it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sleeper_nb.admin.alter import SchemaCommit
from sleeper_nb.catalog.catalog_base import retained
from sleeper_nb.errors import Action, ConfirmationNeeded, StorageError
from sleeper_nb.model.file_reference import data_files
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.savepoints import RetainedVersions, savepoint_label
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import ClearTable
from sleeper_nb.publish.published import unpublish, versions_to_unpublish
from sleeper_nb.report import CONFIRM, Bytes, Grid, Report, cell_text, counted, nothing_done
from sleeper_nb.state_store.state_store_base import StateStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fresh:
    """The schema and the partitions that a table gets when it is reinitialised."""

    schema: Schema | None = None  # None keeps the current one
    points: Sequence[KeyValue] | None = None  # values of the first row key; None keeps the current partitions

    def changes_nothing(self, state: TableState) -> bool:
        return self.points is None and self.schema is None and not state.totals().files

    def change(self, store: StateStore, state: TableState, schema_id: int) -> ClearTable:
        tree = None
        if self.points is not None:
            tree = PartitionTree.from_split_points(self.schema or state.schema, self.points, store.clock.new_id)
        return ClearTable(tree) if self.schema is None else ClearTable(tree, schema_id, self.schema)


@dataclass(frozen=True, slots=True, repr=False)
class ReinitialiseReport(Report):
    """What reinitialising did; of a plan, what it would do.

    Parameters
    ----------
    table
        The table's name.
    snapshot
        The new snapshot; None for a plan, and when the table was empty already.
    rows, files, bytes
        Rows and data files that the table had, and the size of the files.
    snapshots
        How many older snapshots are forgotten.
    savepoints
        The name of each, or its id; they are kept and can be read.
    partitions_before, partitions_after
        Leaf partitions.
    new_schema
        Whether the table gets the schema of its properties file.
    dry_run
        Whether this is a plan.
    unpublished
        How many versions other engines could read; they are taken away.
    again
        How to do what was planned: the whole line, where a command made the plan.
    instance
        The table's instance, if it is not the open one.
    """

    table: str
    snapshot: Snapshot | None
    rows: int
    files: int
    bytes: int
    snapshots: int
    savepoints: tuple[str, ...]
    partitions_before: int
    partitions_after: int
    new_schema: bool
    dry_run: bool
    unpublished: int = 0
    again: str = "--force"
    instance: str = ""
    prefix: str = ""

    @property
    def needs_confirmation(self) -> bool:
        """Whether it is done only with ``force=True``: always."""
        return True

    def grid(self) -> Grid:
        """Return what is deleted and what is kept."""
        rows: list[tuple[object, ...]] = [
            ("rows", cell_text(self.rows)),
            ("data files", f"{self.files:,}, {Bytes(self.bytes)}"),
            ("older snapshots", self._fate_of_snapshots),
            ("leaf partitions", f"{self.partitions_before:,}, then {self.partitions_after:,}"),
            ("schema", "the new one of the properties file" if self.new_schema else "stays"),
            ("savepoints", f"{', '.join(self.savepoints)}: stay, and can be read" if self.savepoints else "none"),
        ]
        if self.unpublished:
            rows.append(("published versions", f"{self.unpublished:,}: other engines can no longer read them"))
        instance = f" of instance {self.instance}" if self.instance else ""
        title = f"{'would delete' if self.dry_run else 'deleted'} all contents of table {self.table}{instance}"
        if self.dry_run:
            footer = nothing_done(Action(self.again, "force=True"), self.prefix)
        else:
            footer = "garbage collection deletes the files after its delay"
            footer += "; delete the savepoints to free the others" if self.savepoints else ""
        return Grid(("", ""), tuple(rows), title, footer)

    @property
    def _fate_of_snapshots(self) -> str:
        if not (self.dry_run and self.snapshots):
            return cell_text(self.snapshots)
        keeping = Action(f"delete {self.table} --force", "table.delete(force=True)").text(self.prefix)
        rest = " (savepoints can)" if self.savepoints else ""
        return f"{self.snapshots:,}: can no longer be read{rest}; to keep them: {keeping}"


def reinitialise(
    store: StateStore, name: str, fresh: Fresh, *, force: bool, dry_run: bool, author: str | None = None
) -> ReinitialiseReport:
    """Delete all contents of a table.

    `ConfirmationNeeded` when neither `force` nor `dry_run` is set; nothing was changed. `StateRuleBroken` when the row
    keys would change but the partitions would not; nothing was changed.
    """
    kept = retained(store.catalog, store.table_id)
    state = store.load(kept.current)
    fresh.change(store, state, state.schema_id + 1).validate(state)
    published = versions_to_unpublish(store)
    plan = replace(_plan(name, fresh, state, kept), unpublished=len(published))
    if dry_run:
        return plan
    if not force:
        deleted = f"{counted(plan.rows, 'row')} and {counted(plan.snapshots, 'snapshot')}"
        staying = ""
        if plan.savepoints:
            staying = f"; {counted(len(plan.savepoints), 'savepoint')} ({', '.join(plan.savepoints)}) would stay"
        message = f"this deletes all contents of table {name!r}: {deleted}{staying}"
        raise ConfirmationNeeded(message, hint=CONFIRM, plan=plan)
    cleared, snapshot = _clear(store, fresh, state, author)
    current = cleared.snapshot_id if snapshot is None else snapshot.id
    if published:
        unpublish(store)  # its columns and types may be others now
    older = [each.id for each in store.catalog.snapshots(store.table_id) if each.id < current]
    try:
        store.catalog.expire_snapshots(store.table_id, older, store.clock.now())
    except StorageError as error:
        raise StorageError(
            f"table {name!r} is empty since snapshot {current}, but older snapshots are still kept: {error.message}",
            hint="run it again",
        ) from error
    # Read only now: from here on, no savepoint of a forgotten version can be created.
    saved = [point for point in store.catalog.savepoints(store.table_id) if point.saved_snapshot_id < current]
    done = _plan(name, fresh, cleared, RetainedVersions(kept.snapshots, tuple(saved)))
    logger.info(
        "table %r: reinitialised at snapshot %d; %d rows deleted, %d snapshots expired, %d savepoints kept",
        name,
        current,
        done.rows,
        len(older),
        len(saved),
    )
    return replace(done, snapshot=snapshot, snapshots=len(older), unpublished=len(published), dry_run=False)


def _clear(
    store: StateStore, fresh: Fresh, state: TableState, author: str | None
) -> tuple[TableState, Snapshot | None]:
    """Return the state that was cleared, and the new snapshot; None when the table was empty already."""
    if fresh.changes_nothing(state):
        return state, None
    if fresh.schema is not None:
        schema = fresh.schema
        schema_commit = SchemaCommit(
            store, lambda *_: schema, lambda current, schema_id, _: fresh.change(store, current, schema_id)
        )
        cleared, _, snapshot = schema_commit.commit(author=author)
        return cleared, snapshot
    cleared = state

    def change(current: TableState) -> ClearTable:
        nonlocal cleared
        cleared = current
        return fresh.change(store, current, current.schema_id)

    snapshot = store.commit(change, author=author)
    return cleared, snapshot


def _plan(name: str, fresh: Fresh, state: TableState, kept: RetainedVersions) -> ReinitialiseReport:
    files, size = data_files(state.files.active)
    leaves = len(state.tree.leaves)
    return ReinitialiseReport(
        table=name,
        snapshot=None,
        rows=state.totals().rows,
        files=files,
        bytes=size,
        snapshots=len(kept.snapshots) - (1 if fresh.changes_nothing(state) else 0),
        savepoints=tuple(map(savepoint_label, kept.savepoints)),
        partitions_before=leaves,
        partitions_after=leaves if fresh.points is None else len(fresh.points) + 1,
        new_schema=fresh.schema is not None,
        dry_run=True,
    )
