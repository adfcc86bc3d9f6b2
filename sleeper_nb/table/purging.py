"""Purge rows of a table: show the plan, or ask for a confirmation, or do it."""

from __future__ import annotations

from sleeper_nb.change.purge import PurgeReport
from sleeper_nb.errors import Action, ConfirmationNeeded, InvalidInput
from sleeper_nb.maintain.online import check_online
from sleeper_nb.progress import finishing
from sleeper_nb.report import counted
from sleeper_nb.table.changing import BoundChange


def purge(
    deletion: BoundChange, *, dry_run: bool, force: bool, message: str | None = None, job_id: str | None = None
) -> PurgeReport:
    """Delete rows, and all versions, savepoints and files that have them; or return what would be deleted.

    Raises
    ------
    ConfirmationNeeded
        When versions, savepoints or all rows would be deleted, without `dry_run` or `force`; the error has the plan.
    StateRuleBroken
        When the table is offline.
    StorageError
        When files to be deleted are reached through a symbolic link; nothing was changed.
    InvalidInput
        When the condition is wrong, or a job id is given.
    """
    table, rows = deletion.table, deletion.purge()
    if job_id is not None:
        raise InvalidInput("a purge takes no job id", hint="omit it: a purge that is repeated only finishes it")
    if not dry_run:
        check_online(table.components.catalog, table.entry, "purging")
    with finishing(table.components.progress):
        if not dry_run:
            rows.check_links()
        if not dry_run and force:
            return rows.run(message=message, author=table.components.author)
        plan = rows.plan()
        if dry_run:
            return plan
        if not plan.needs_confirmation:
            return rows.run(message=message, author=table.components.author)
    raise ConfirmationNeeded(
        f"this deletes {counted(plan.deleted, 'row')} of table {table.name!r} for good, with "
        f"{counted(len(plan.expired), 'snapshot')} and {counted(len(plan.savepoints), 'savepoint')}",
        hint=(Action("--force", "force=True"), " does it; ", Action("--dry-run", "dry_run=True"), " shows the plan"),
        plan=plan,
    )
