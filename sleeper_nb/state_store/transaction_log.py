"""`TransactionLogStateStore`: a commit adds its transaction to a log; full metadata is written now and then.

A snapshot is read by replaying the log from the newest full metadata at or before it, the checkpoint. What a commit
costs does not depend on the number of files, and changes that wait in one process share one commit. The log is cut only
where the catalog forgets snapshots, behind a checkpoint that every retained one can be read through; a writer that was
asleep meanwhile still names the old head as its condition, and loses.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import ClassVar

from sleeper_nb.errors import NotFound, StorageError
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import to_entry
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.state_store_base import CommitStep, StateStore

logger = logging.getLogger(__name__)

CHECKPOINT_EVERY = 100
"""Snapshots between two checkpoints at least; with many files, whose checkpoint takes longer, their square root."""


class TransactionLogStateStore(StateStore):
    """Numbered transactions in the catalog, and Parquet checkpoints of the state."""

    changes_per_commit: ClassVar[int] = 64

    _checkpoint = 0
    """The newest snapshot that this store knows to have its full metadata as Parquet."""

    def publish(self, head: Snapshot, steps: Sequence[CommitStep]) -> tuple[Snapshot, ...] | None:
        entries = [to_entry(step.transaction, step.snapshot.id, step.snapshot.time) for step in steps]
        if max(map(len, entries)) > self.catalog.limits.entry_bytes:
            logger.info("table %s: the change is too large for the log; writing full metadata", self.table_id)
            return self._publish_in_full(head, steps)
        new = tuple(step.snapshot for step in steps)
        if not self.settle(new[-1], lambda: self.catalog.commit(self.table_id, head, *new, log=entries), set()):
            return None
        self._write_checkpoint_if_due(new[-1], steps[-1].after)
        return new

    def written_for_savepoint(self, snapshot: Snapshot) -> Metadata:
        """Write the log since the checkpoint, however many files the table has; all of it only where that is long."""
        return self.history.logged(snapshot) or super().written_for_savepoint(snapshot)

    def _publish_in_full(self, head: Snapshot, steps: Sequence[CommitStep]) -> tuple[Snapshot, ...] | None:
        """Publish changes that are too big for the log: each with its full metadata instead."""
        new: list[Snapshot] = []
        written: set[str] = set()
        try:
            for step in steps:
                metadata = self.history.write(step.after, None, None)
                written |= metadata.paths
                new.append(metadata.on(step.snapshot))
        except BaseException:
            self.history.discard(written)
            raise
        won = self.settle(new[-1], lambda: self.catalog.commit(self.table_id, head, *new), written)
        return tuple(new) if won else None

    def _write_checkpoint_if_due(self, newest: Snapshot, state: TableState) -> None:
        every = max(CHECKPOINT_EVERY, math.isqrt(newest.references or newest.files))
        if newest.id - self._checkpoint < every:
            return
        try:
            # another process may have written one
            self._checkpoint = self.catalog.checkpoint(self.table_id, newest.id).id
            if newest.id - self._checkpoint >= every:
                self._checkpoint = self.history.materialised(newest, state).id
        except (StorageError, NotFound) as error:
            # It would only make reading quicker; the commit stands, and the next one tries again.
            logger.warning("table %s: no checkpoint at snapshot %d: %s", self.table_id, newest.id, error)
