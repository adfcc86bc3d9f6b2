"""The versions of a table: list them, pin one by a savepoint, and compare two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sleeper_nb.catalog.catalog_base import retained
from sleeper_nb.changes import Changes
from sleeper_nb.display.listings import Pictured
from sleeper_nb.display.timeline_picture import timeline, timeline_lines
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput
from sleeper_nb.model.expectations import counts_line
from sleeper_nb.model.savepoints import Savepoint, savepoint_label, savepoints_by_snapshot
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.report import CONFIRM, Listing
from sleeper_nb.table_at import TableAt
from sleeper_nb.versions.comparison import ComparedRows, compare, newer_schema
from sleeper_nb.versions.delete_savepoint import (
    SavepointDeletion,
    delete_savepoint,
    plan_savepoint_deletion,
)
from sleeper_nb.versions.expire import Retention


def history(table: OpenTable, limit: int | None) -> Pictured[Snapshot]:
    """Return the retained snapshots, newest first, below a timeline of them and of the savepoints.

    Where one of them changed rows, three columns say how many were inserted, updated and deleted; where the table had
    expectations, one says how many of the rows that came break which.
    """
    if limit is not None and limit < 1:
        raise InvalidInput(f"cannot list {limit} snapshots", hint="give a limit of 1 or more")
    versions = retained(table.components.catalog, table.entry.id)
    shown, total = versions.snapshots[:limit], len(versions.snapshots)
    saved = savepoints_by_snapshot(versions.savepoints)
    has_changes = any(s.inserted_rows is not None for s in shown)
    has_expectations = any(s.expectations is not None for s in shown)
    cells = tuple(
        (s.id, s.time, s.operation, s.message, s.added_rows, s.rows,
         *((s.inserted_rows, s.updated_rows, s.deleted_rows) if has_changes else ()),
         ", ".join(savepoint_label(point) for point in saved.get(s.id, ())),
         *((_judged(s),) if has_expectations else ()), s.added_files, s.removed_files, s.files, s.references)
        for s in shown
    )  # fmt: skip
    columns = ("snapshot", "time", "operation", "message", "+rows", "rows",
               *(("inserted", "updated", "deleted") if has_changes else ()), "savepoint",
               *(("expectations",) if has_expectations else ()), "+files", "−files", "files", "references")  # fmt: skip
    footer = f"the newest {len(shown):,} of {total:,} snapshots" if len(shown) < total else ""
    listing = Listing(shown, columns, cells, f"history of {table.name}", footer)
    picture = timeline(versions.snapshots, versions.savepoints, name=table.name)
    lines = timeline_lines(versions.snapshots, versions.savepoints, name=table.name)
    return Pictured(listing, picture, lines)


def _judged(snapshot: Snapshot) -> str:
    """Return which expectations the rows of a commit break; "met" when none, "" when there were none."""
    return "" if snapshot.expectations is None else counts_line(snapshot.broken_expectations) or "met"


def delete(table: OpenTable, savepoint: Savepoint, *, dry_run: bool, force: bool) -> SavepointDeletion:
    """Delete a savepoint; when that loses its version, only with `force`."""
    plan = plan_savepoint_deletion(table.store, savepoint, Retention.of(table.properties))
    if dry_run:
        return plan
    if plan.needs_confirmation and not force:
        raise ConfirmationNeeded(
            f"this deletes snapshot {savepoint.saved_snapshot_id} of table {table.name!r} for good: "
            f"only savepoint {savepoint.name or savepoint.id!r} keeps it",
            hint=CONFIRM,
            plan=plan,
        )
    delete_savepoint(table.store, savepoint)
    return replace(plan, dry_run=False)


def changes(
    table: OpenTable,
    before: TableAt,
    after: TableAt,
    where: str | None,
    keys: Any,
    region: Mapping[str, tuple[Any, Any]] | str | None,
    *,
    images: bool,
) -> Changes:
    """Return the rows that differ between two versions, not read yet; the other parameters as of `Table.changes`."""
    old, new = before.state, after.state
    now = table.components.clock.now()  # one moment for both: a row must not become too old between them
    schema, are_all = newer_schema(old, new), where is None and keys is None and region is None
    condition = None if where is None else table.components.engines.condition(where, schema)
    rows = ComparedRows.of(schema, keys, region, condition)
    comparison = compare(old, new, table.processing_of(old, now), table.processing_of(new, now), rows)
    guards = tuple(version.guard(version.state.totals().bytes) for version in (before, after))
    resolved, storage = (before.resolved, after.resolved), table.store.storage
    return Changes(table.name, *resolved, (old, new), comparison, storage, guards, images, are_all)
