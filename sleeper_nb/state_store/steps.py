"""One change on its way to a commit, and the snapshot that tells of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import CommitPoint, TableState
from sleeper_nb.model.transactions import MigrateStateStore, Transaction
from sleeper_nb.state_store.commit_queue import Waiting


@dataclass(frozen=True, slots=True)
class Step:
    """One change on its way: what it makes of the state, and the snapshot that will say so."""

    transaction: Transaction
    before: TableState
    after: TableState
    snapshot: Snapshot


def step_of(waiting: Waiting, state: TableState, point: CommitPoint, commit_id: str, state_store: str) -> Step:
    """Return what a change that somebody waits for makes of a state; raise when its rules forbid it.

    The state store that keeps the snapshot is the given one, or that to which the change migrates the table.
    """
    change = waiting.change
    transaction = change if isinstance(change, Transaction) else change(state)
    transaction.validate(state)
    after = transaction.apply(state, point)
    if isinstance(transaction, MigrateStateStore):
        state_store = transaction.state_store
    named = {each.filename for each in getattr(transaction, "references", ())}
    made = snapshot_of(after, state, point, commit_id, state_store, transaction.operation, *waiting.said, named=named)
    return Step(transaction, state, after, made)


def snapshot_of(
    after: TableState,
    before: TableState | None,
    point: CommitPoint,
    commit_id: str,
    state_store: str,
    operation: str,
    message: str | None,
    author: str | None,
    job_id: str | None = None,
    *,
    named: Collection[str] = (),
) -> Snapshot:
    """Return what the catalog and history say of a state, in which `before` became `after`.

    The files `named` are those to which the commit made references: of what it removed, these are still in use.
    """
    references, rows, _ = after.totals()
    references_before, rows_before, _ = before.totals() if before else (0, 0, 0)
    unreferenced = max(0, after.files.removed_count - before.files.removed_count) if before else 0
    files, _, size = after.files.data_totals
    files_before = before.files.data_totals.files if before else 0
    removed = len(after.files.removed_last(unreferenced) - after.files.shared.uses.keys() - set(named))
    return Snapshot(
        id=point.snapshot_id,
        commit_id=commit_id,
        time=point.time,
        operation=operation,
        schema_id=after.schema_id,
        files=files,
        rows=rows,
        bytes=size,
        added_files=files - files_before + removed,
        removed_files=removed,
        added_rows=rows - rows_before,
        references=references,
        added_references=references - references_before + unreferenced,
        removed_references=unreferenced,
        files_path=None,
        partitions_path=None,
        state_store=state_store,
        message=message,
        author=author,
        job_id=job_id,
        schema_checksum=after.schema_checksum,
        processing=after.processing,
        leaves=len(after.tree.leaves),
    )
