"""Check the online flag of a table: maintenance leaves an offline table alone; it can still be read and loaded."""

from __future__ import annotations

from sleeper_nb.catalog.catalog_base import Catalog, TableEntry, unknown_table_id
from sleeper_nb.errors import Action, StateRuleBroken


def is_online(catalog: Catalog, table_id: str) -> bool:
    """Return whether a table is online now; `NotFound` when the table was deleted."""
    entry = catalog.entry(table_id)
    if entry is None:
        raise unknown_table_id(table_id)
    return entry.online


def check_online(catalog: Catalog, table: TableEntry, work: str) -> None:
    """Raise `StateRuleBroken` when a table is offline.

    Parameters
    ----------
    catalog, table
        The catalog, and the table's entry as it was opened; whether it is online is read again.
    work
        The refused work, as the error names it: ``"compaction"``.
    """
    if not is_online(catalog, table.id):
        name = table.name
        online, dry_run = Action(f"online {name}", "table.maintenance.online()"), Action("--dry-run", "dry_run=True")
        raise StateRuleBroken(
            f"table {name!r} is offline: {work} is not allowed",
            hint=(online, " puts it online; ", dry_run, " shows what would be done"),
        )
