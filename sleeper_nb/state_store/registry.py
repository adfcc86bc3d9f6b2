"""The state stores by name, and how the one of a table is opened."""

from __future__ import annotations

import contextlib
import logging
from functools import cache, partial

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.clock import Clock, Retry
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.properties import STATE_STORES
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.file_cache import NO_CACHE
from sleeper_nb.storage.filesystem import Storage

logger = logging.getLogger(__name__)


def state_store_named(name: str) -> type[StateStore]:
    """Return the class of a name: one of `STATE_STORES`. Only that one is imported.

    `NotFound` when there is no such class; the message names the nearest one.
    """
    if name == "S3StateStore":
        from sleeper_nb.state_store.s3_state_store import S3StateStore

        return S3StateStore
    if name == "TransactionLogStateStore":
        from sleeper_nb.state_store.transaction_log import TransactionLogStateStore

        return TransactionLogStateStore
    if name == "DynamoDBStateStore":
        from sleeper_nb.state_store.dynamodb.store import DynamoDBStateStore

        return DynamoDBStateStore
    raise NotFound.of("state store", name, STATE_STORES)


def erase_state(table_id: str, catalog: Catalog, storage: Storage, clock: Clock) -> None:
    """Delete what any state store keeps of a deleted table outside its folder; safe to run again.

    Parameters are those of `StateStore`.
    """
    for name in STATE_STORES:
        logger.debug("deleting what %s keeps of table %s", name, table_id)
        with contextlib.suppress(InvalidInput):  # a class that needs another catalog
            state_store_named(name)(table_id, catalog, storage, clock, Retry()).erase()


def open_state_store(
    name: str, table_id: str, catalog: Catalog, storage: Storage, clock: Clock, retry: Retry
) -> StateStore:
    """Return a state store of the class `name`, which follows the table when it is migrated to another class.

    `NotFound` when there is no such class; the message names the nearest one.
    """
    kind = state_store_named(name)
    logger.debug("opening the %s of table %s", name, table_id)
    # Each store owns its successor and none points back, so their caches are freed with the last user.
    successor = cache(
        partial(open_state_store, table_id=table_id, catalog=catalog, storage=storage, clock=clock, retry=retry)
    )
    return kind(table_id, catalog, storage, clock, retry, successor)


def without_cache(store: StateStore) -> StateStore:
    """Return another store of the same table, which reads again what this store may have cached."""
    storage = store.storage if store.storage.local else store.storage.caching(NO_CACHE)
    return open_state_store(store.name, store.table_id, store.catalog, storage, store.clock, store.retry)
