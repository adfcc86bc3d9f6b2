"""Migration: move the metadata of a live table to another state store, in one commit.

Why it is safe, in steps:

1. Snapshots that only the old class can read get their full metadata as Parquet; each is complete by itself, so a
   crash leaves some of them done.
2. One commit makes the new class the keeper of the next snapshot, on the condition that the head of step 1 still is.
   A writer that was faster makes the commit lose, and step 1 is done again for its snapshot.
3. Every store asks the head, each time, who keeps it; so writers that were opened before go on in the new class.
4. The table's properties are only told: the head is what counts, and a crash before this step is mended by the next
   migration.
"""

from __future__ import annotations

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import MigrateStateStore
from sleeper_nb.state_store.state_store_base import StateStore


def migrate_state_store(
    store: StateStore, to: str, *, author: str | None = None, message: str | None = None
) -> Snapshot:
    """Move a table's metadata to the state store of the class `to`; history and savepoints stay readable.

    Raises
    ------
    InvalidInput
        When the table's metadata is there already; nothing is changed.
    NotFound
        When there is no such class; the nearest one is named.
    """
    goal = store.named(to)
    left = store.named(store.head().state_store)

    def change(_state: TableState) -> MigrateStateStore:
        if store.head().state_store == goal.name:
            raise InvalidInput(f"the table's metadata is in {goal.name} already", hint="there is nothing to migrate")
        materialise_history(store)
        return MigrateStateStore(goal.name)

    moved = store.commit(change, author=author, message=message)
    left.forget()
    return moved


def materialise_history(store: StateStore) -> None:
    """Write full metadata as Parquet for each retained snapshot that only its own class can read."""
    for snapshot in store.retained():
        if not store.named(snapshot.state_store).keeps_history_itself:
            continue
        try:
            store.materialised(snapshot)
        except NotFound:
            if snapshot.id in {kept.id for kept in store.catalog.snapshots(store.table_id)}:
                raise  # not because it expired meanwhile
