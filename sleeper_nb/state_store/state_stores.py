"""The state stores that write files, all state stores by name, and how the one of a table is opened."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Sequence
from functools import cache, partial
from typing import ClassVar

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.clock import Clock, Retry
from sleeper_nb.errors import InvalidInput, NotFound, StorageError
from sleeper_nb.model.properties import STATE_STORES
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.state_store.history import History, Metadata
from sleeper_nb.state_store.state_store_base import CommitStep, StateStore
from sleeper_nb.storage.file_cache import NO_CACHE
from sleeper_nb.storage.filesystem import Storage

logger = logging.getLogger(__name__)


def state_store_named(name: str) -> type[StateStore]:
    """Return the class of a name: one of `STATE_STORES`. Only that one is imported.

    `NotFound` when there is no such class; the message names the nearest one.
    """
    if name == S3StateStore.name:
        return S3StateStore
    if name == TransactionLogStateStore.name:
        return TransactionLogStateStore
    if name == "DynamoDBStateStore":
        from sleeper_nb.state_store.dynamodb.store import DynamoDBStateStore

        return DynamoDBStateStore
    raise NotFound.of("state store", name, STATE_STORES)


class S3StateStore(StateStore):
    """Each commit writes the full metadata, as one Parquet file for references and one for partitions.

    It works on any storage and any catalog, which names the current files, and is the default. The cost of a commit
    grows with the number of files of the table; a compaction can have any number of inputs, since all metadata is
    rewritten anyway.
    """

    name: ClassVar[str] = "S3StateStore"

    def commit_steps(self, head: Snapshot, steps: Sequence[CommitStep]) -> tuple[Snapshot, ...] | None:
        (step,) = steps
        at = Metadata.of(head)
        metadata = self.history.write(step.after, step.before, at)
        new = metadata.on(step.snapshot)
        written = {*metadata.paths} - (at.paths if at else set())
        if head.state_store != self.name:  # a migration
            self._check_readable(new, metadata, written)
        commit = partial(self.catalog.commit, self.table_id, head, new, properties=step.properties)
        won = self.settle(new, commit, written)
        return (new,) if won else None

    def _check_readable(self, new: Snapshot, metadata: Metadata, written: set[str]) -> None:
        """Read what was written for a snapshot; delete it and raise when that cannot be read."""
        fresh = History(self.table_id, self.catalog, self.storage.caching(NO_CACHE), self.clock)
        try:
            fresh.read(new.id, new.schema_id, metadata, new.schema_checksum)
        except BaseException:
            self.history.discard(written)
            raise


CHECKPOINT_EVERY = 100
"""The least distance of checkpoints in snapshots; the square root of the number of files when that is more."""


class TransactionLogStateStore(StateStore):
    """Keeps numbered transactions in the catalog, and Parquet checkpoints of the state, which are rare.

    A snapshot is read by replaying the log from the newest checkpoint at or before it. The cost of a commit does not
    depend on the number of files, and queued changes of one process share one commit. The log is cut only when
    snapshots expire, after a checkpoint from which every retained snapshot can be read; a writer that was suspended
    since still has the old head as its condition, and loses.
    """

    name: ClassVar[str] = "TransactionLogStateStore"
    changes_per_commit: ClassVar[int] = 64

    _checkpoint = 0
    """The newest snapshot that is known to be a checkpoint."""

    def commit_steps(self, head: Snapshot, steps: Sequence[CommitStep]) -> tuple[Snapshot, ...] | None:
        from sleeper_nb.model.transactions import to_entry  # reading a table needs no transaction

        entries = [to_entry(step.transaction, step.snapshot.id, step.snapshot.time) for step in steps]
        if max(map(len, entries)) > self.catalog.limits.entry_bytes:
            logger.info("table %s: the change is too large for the log; writing full metadata", self.table_id)
            return self._commit_in_full(head, steps)
        new = tuple(step.snapshot for step in steps)
        commit = partial(self.catalog.commit, self.table_id, head, *new, log=entries, properties=steps[-1].properties)
        if not self.settle(new[-1], commit, set()):
            return None
        self._write_checkpoint_if_due(new[-1], steps[-1].after)
        return new

    def write_for_savepoint(self, snapshot: Snapshot) -> Metadata:
        """Write the log since the last checkpoint, for any number of files; full metadata if that log is long."""
        return self.history.logged(snapshot) or super().write_for_savepoint(snapshot)

    def _commit_in_full(self, head: Snapshot, steps: Sequence[CommitStep]) -> tuple[Snapshot, ...] | None:
        """Commit changes that are too large for the log, each with full metadata instead."""
        new: list[Snapshot] = []
        written: set[str] = set()
        try:
            for step in steps:
                self.history.keep_schema(step.after)
                metadata = self.history.write(step.after, None, None)
                written |= metadata.paths
                new.append(metadata.on(step.snapshot))
        except BaseException:
            self.history.discard(written)
            raise
        commit = partial(self.catalog.commit, self.table_id, head, *new, properties=steps[-1].properties)
        won = self.settle(new[-1], commit, written)
        return tuple(new) if won else None

    def _write_checkpoint_if_due(self, newest: Snapshot, state: TableState) -> None:
        every = max(CHECKPOINT_EVERY, math.isqrt(newest.references or newest.files))
        if newest.id - self._checkpoint < every:
            return
        try:
            # another process may have written a checkpoint
            self._checkpoint = self.catalog.checkpoint(self.table_id, newest.id).id
            if newest.id - self._checkpoint >= every:
                self._checkpoint = self.history.materialised(newest, state).id
        except (StorageError, NotFound) as error:
            # The commit is done; a checkpoint only makes reading faster, and the next commit tries again.
            logger.warning("table %s: no checkpoint at snapshot %d: %s", self.table_id, newest.id, error)


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
