"""Reinitialising: delete a table's contents in one commit, and with it, perhaps, make its partitions and schema anew.

1. A changed schema is written under an id that nobody has taken.
2. One commit makes every file unused, with the tree and the schema that the table has from then on. So the table is
   never without partitions, and who reads an older version goes on.
3. The older snapshots are forgotten. Savepoints stay, with the files of their versions.
4. Garbage collection deletes, after its delay, what no savepoint and no reader keeps.

A crash leaves the table as it was, or empty; running it again does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sleeper_nb.catalog.catalog_base import Retained, retained
from sleeper_nb.errors import Action, ConfirmationNeeded
from sleeper_nb.model.files import data_files
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import ClearTable
from sleeper_nb.operations.administration.schema_commit import SchemaCommit
from sleeper_nb.report import (
    CONFIRM,
    Bytes,
    Grid,
    Report,
    cell_text,
    counted,
    nothing_done,
)
from sleeper_nb.state_store.state_store_base import StateStore


@dataclass(frozen=True, slots=True)
class Fresh:
    """What a table has from its reinitialising on.

    Parameters
    ----------
    schema
        Its schema, when that is another than it has now; None when it stays.
    points
        Values of the first row key at which new partitions are cut; None when the partitions stay.
    """

    schema: Schema | None = None
    points: Sequence[KeyValue] | None = None

    def leaves_alone(self, state: TableState) -> bool:
        """Return whether a table is what it would be already."""
        return self.points is None and self.schema is None and not state.totals().files

    def change(self, store: StateStore, state: TableState, schema_id: int) -> ClearTable:
        """Return the change of a state; the id is that of the new schema, if there is one."""
        tree = None
        if self.points is not None:
            tree = PartitionTree.from_split_points(self.schema or state.schema, self.points, store.clock.new_id)
        return ClearTable(tree) if self.schema is None else ClearTable(tree, schema_id, self.schema)


@dataclass(frozen=True, slots=True, repr=False)
class ReinitialiseReport(Report):
    """What a reinitialising did; of a plan, what it would do.

    Parameters
    ----------
    table
        The table's name.
    snapshot
        The new snapshot; None for a plan, and when the table was empty already.
    rows, files, bytes
        That the table had; data files.
    snapshots
        Older ones, which are forgotten.
    savepoints
        The name of each, or its id; they stay, and can be read.
    partitions_before, partitions_after
        Leaf partitions.
    new_schema
        Whether the table gets the schema of its properties file.
    dry_run
        Whether this is a plan.
    again
        What is typed to do it: the whole line, where a command was asked for the plan.
    instance
        Whose table it is, where that is not the one that is open.
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
    again: str = "--force"
    instance: str = ""
    prefix: str = ""

    def grid(self) -> Grid:
        """Return what goes and what stays."""
        rows: tuple[tuple[object, ...], ...] = (
            ("rows", cell_text(self.rows)),
            ("data files", f"{self.files:,}, {Bytes(self.bytes)}"),
            ("older snapshots", cell_text(self.snapshots)),
            ("leaf partitions", f"{self.partitions_before:,}, then {self.partitions_after:,}"),
            ("schema", "the changed one of the properties file" if self.new_schema else "stays"),
            ("savepoints", f"{', '.join(self.savepoints)}: stay, and can be read" if self.savepoints else "none"),
        )
        of = f" of instance {self.instance}" if self.instance else ""
        title = f"{'would delete' if self.dry_run else 'deleted'} all contents of table {self.table}{of}"
        if self.dry_run:
            footer = nothing_done(Action(self.again, "force=True"), self.prefix)
        else:
            footer = "garbage collection deletes the files after its delay"
            footer += "; delete the savepoints to free the others" if self.savepoints else ""
        return Grid(("", ""), rows, title, footer)


def reinitialise(
    store: StateStore, name: str, fresh: Fresh, *, force: bool, dry_run: bool, author: str | None = None
) -> ReinitialiseReport:
    """Delete all contents of a table.

    Parameters
    ----------
    store, name
        The table's.
    fresh
        What it has from then on.
    force
        Do it.
    dry_run
        Only return what would be done.
    author
        Who history says it was.

    Raises
    ------
    ConfirmationNeeded
        When neither `force` nor `dry_run` is set; nothing was changed.
    StateRuleBroken
        When the row keys would change and the partitions stay; nothing was changed.
    """
    kept = retained(store.catalog, store.table_id)
    state = store.load(kept.current)
    fresh.change(store, state, state.schema_id + 1).validate(state)
    plan = _plan(name, fresh, state, kept)
    if dry_run:
        return plan
    if not force:
        gone = f"{counted(plan.rows, 'row')} and {counted(plan.snapshots, 'snapshot')}"
        staying = f"; {counted(len(plan.savepoints), 'savepoint')} ({', '.join(plan.savepoints)}) would stay"
        message = f"this deletes all contents of table {name!r}: {gone}{staying if plan.savepoints else ''}"
        raise ConfirmationNeeded(message, hint=CONFIRM, plan=plan)
    cleared, made = _clear(store, fresh, state, author)
    current = cleared.snapshot_id if made is None else made.id
    older = [snapshot.id for snapshot in store.catalog.snapshots(store.table_id) if snapshot.id < current]
    store.catalog.expire_snapshots(store.table_id, older, store.clock.now())
    # Read only now: no savepoint of a version that was forgotten can be made from here on.
    saved = [point for point in store.catalog.savepoints(store.table_id) if point.saved_snapshot_id < current]
    done = _plan(name, fresh, cleared, Retained(kept.snapshots, tuple(saved)))
    return replace(done, snapshot=made, snapshots=len(older), dry_run=False)


def _clear(
    store: StateStore, fresh: Fresh, state: TableState, author: str | None
) -> tuple[TableState, Snapshot | None]:
    """Return the state that was cleared, and the new snapshot; None when the table was empty already."""
    if fresh.leaves_alone(state):
        return state, None
    if fresh.schema is not None:
        schema = fresh.schema
        planned = SchemaCommit(store, lambda *_: schema, lambda now, schema_id, _: fresh.change(store, now, schema_id))
        cleared, _, made = planned.commit(author=author)
        return cleared, made
    cleared = state

    def change(now: TableState) -> ClearTable:
        nonlocal cleared
        cleared = now
        return fresh.change(store, now, now.schema_id)

    made = store.commit(change, author=author)
    return cleared, made


def _plan(name: str, fresh: Fresh, state: TableState, kept: Retained) -> ReinitialiseReport:
    files, size = data_files(state.files.active)
    leaves = len(state.tree.leaves)
    return ReinitialiseReport(
        table=name,
        snapshot=None,
        rows=state.totals().rows,
        files=files,
        bytes=size,
        snapshots=len(kept.snapshots) - fresh.leaves_alone(state),
        savepoints=tuple(point.name or str(point.id) for point in kept.savepoints),
        partitions_before=leaves,
        partitions_after=leaves if fresh.points is None else len(fresh.points) + 1,
        new_schema=fresh.schema is not None,
        dry_run=True,
    )
