"""`TransactionLogStateStore`: a commit appends its transaction to a log; checkpoints with full metadata are rare.

A snapshot is read by replaying the log from the newest checkpoint at or before it. The cost of a commit does not depend
on the number of files, and queued changes of one process share one commit. The log is cut only when snapshots expire,
after a checkpoint from which every retained snapshot can be read; a writer that was suspended since still has the old
head as its condition, and loses.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from sleeper_nb.errors import NotFound, StorageError
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import to_entry
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.state_store_base import CommitStep, StateStore

logger = logging.getLogger(__name__)

CHECKPOINT_EVERY = 100
"""The least distance of checkpoints in snapshots; the square root of the number of files when that is more."""


class TransactionLogStateStore(StateStore):
    """Keeps numbered transactions in the catalog, and Parquet checkpoints of the state."""

    changes_per_commit: ClassVar[int] = 64

    _checkpoint = 0
    """The newest snapshot that is known to be a checkpoint."""

    def publish(self, head: Snapshot, steps: Sequence[CommitStep]) -> tuple[Snapshot, ...] | None:
        entries = [to_entry(step.transaction, step.snapshot.id, step.snapshot.time) for step in steps]
        if max(map(len, entries)) > self.catalog.limits.entry_bytes:
            logger.info("table %s: the change is too large for the log; writing full metadata", self.table_id)
            return self._publish_in_full(head, steps)
        new = tuple(step.snapshot for step in steps)
        commit = partial(self.catalog.commit, self.table_id, head, *new, log=entries, properties=steps[-1].properties)
        if not self.settle(new[-1], commit, set()):
            return None
        self._write_checkpoint_if_due(new[-1], steps[-1].after)
        return new

    def write_for_savepoint(self, snapshot: Snapshot) -> Metadata:
        """Write the log since the last checkpoint, for any number of files; full metadata if that log is long."""
        return self.history.logged(snapshot) or super().write_for_savepoint(snapshot)

    def _publish_in_full(self, head: Snapshot, steps: Sequence[CommitStep]) -> tuple[Snapshot, ...] | None:
        """Publish changes that are too large for the log, each with full metadata instead."""
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
