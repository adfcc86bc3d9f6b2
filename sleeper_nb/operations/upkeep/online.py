"""Online or offline: whether maintenance may change a table. An offline table can still be read and loaded."""

from __future__ import annotations

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.errors import Action, NotFound, StateRuleBroken


def is_online(catalog: Catalog, table_id: str) -> bool:
    """Return whether a table is online now.

    Raises
    ------
    NotFound
        When the table is gone.
    """
    for entry in catalog.tables():
        if entry.id == table_id:
            return entry.online
    raise NotFound(f"no table with id {table_id!r}", hint="it was deleted in the meantime")


def check_online(catalog: Catalog, table_id: str, name: str, work: str) -> None:
    """Raise `StateRuleBroken` when a table is offline.

    Parameters
    ----------
    catalog, table_id, name
        The table, and its name.
    work
        What the error says cannot be done: ``"compacted"``.
    """
    if not is_online(catalog, table_id):
        online, dry_run = Action(f"online {name}", "table.set_online()"), Action("--dry-run", "dry_run=True")
        raise StateRuleBroken(
            f"table {name!r} is offline, so it cannot be {work}",
            hint=(online, " ends that; ", dry_run, " shows what would be done"),
        )
