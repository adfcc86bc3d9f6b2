"""Migrate a live table: move its metadata to another state store, in one commit.

Why it is safe, in steps:

1. Snapshots that only the old state store can read get full metadata as Parquet. Each is complete by itself, so after a
   crash some of them are done.
   The current one is read again without anything that this process has in memory, and so is what is written for the
   new snapshot: what others could not read is not made current.
2. One commit makes the new state store keep the next snapshot, on the condition that the head is still that of step 1.
   If another writer was faster, the commit fails and step 1 is repeated for the new snapshot.
3. Every store looks up in the head, each time, which state store keeps it; so writers that were opened before continue
   in the new one.
4. The table's properties only repeat this: the head decides. After a crash before this step, the next process that
   opens the table completes it (`property_files`).
"""

from __future__ import annotations

import logging

from sleeper_nb.errors import InvalidInput, NotFound, StorageError
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import MigrateStateStore
from sleeper_nb.state_store.commit_queue import Announce
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.state_store.state_stores import without_cache
from sleeper_nb.storage import paths

logger = logging.getLogger(__name__)


def migrate_state_store(
    store: StateStore,
    to: str,
    *,
    announce: Announce | None = None,
    author: str | None = None,
    message: str | None = None,
) -> Snapshot:
    """Move a table's metadata to the state store class named `to`; history and savepoints stay readable.

    `announce` is that of `StateStore.commit`.

    `InvalidInput` when the table's metadata is already there; nothing is changed. `NotFound` when there is no such
    class; the hint names the nearest.
    """
    target = store.named(to)
    source = store.named(store.head().state_store)

    def change(state: TableState) -> MigrateStateStore:
        if store.head().state_store == target.name:
            raise InvalidInput(f"the table's metadata is already in {target.name}", hint="there is nothing to migrate")
        materialise_history(store)
        keep_schemas(store)
        store.history.keep_schema(state)
        without_cache(store).load(store.head())  # this store may have in memory what is gone
        return MigrateStateStore(target.name)

    snapshot = store.commit(change, author=author, message=message, announce=announce)
    logger.info(
        "table %s: snapshot %d moved metadata from %s to %s", store.table_id, snapshot.id, source.name, target.name
    )
    try:
        source.forget()
    except StorageError as error:
        raise StorageError(
            f"the table has moved to {target.name} in snapshot {snapshot.id}, but its metadata in {source.name} could "
            f"not be deleted: {error.message}",
            hint="the old metadata is no longer read, and is deleted with the table",
        ) from error
    return snapshot


def materialise_history(store: StateStore) -> None:
    """Write full metadata as Parquet for each retained snapshot that only its own state store can read."""
    written = 0
    for snapshot in store.retained():
        if not store.named(snapshot.state_store).keeps_history_itself:
            continue
        try:
            store.materialised(snapshot)
            written += 1
        except NotFound:
            if snapshot.id in {kept.id for kept in store.catalog.snapshots(store.table_id)}:
                raise
            logger.debug("table %s: snapshot %d expired during the migration", store.table_id, snapshot.id)
    logger.info("table %s: wrote full metadata of %d snapshots", store.table_id, written)


def keep_schemas(store: StateStore) -> None:
    """Write the missing schema files of retained snapshots that are read by the schema in the transaction log."""
    for snapshot in {each.schema_id: each for each in store.retained()}.values():
        if store.storage.has(paths.schema(snapshot.schema_id)):
            continue
        try:
            store.history.keep_schema(store.load(snapshot))
        except (NotFound, StorageError) as error:  # it cannot be read now either, as a check says
            logger.warning("table %s: snapshot %d is not whole: %s", store.table_id, snapshot.id, error.message)
