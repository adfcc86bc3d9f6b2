"""`S3StateStore`: each commit writes Parquet files with the full metadata; the catalog names the current ones.

It works on any storage and any catalog, and is the default. The cost of a commit grows with the number of files of the
table; a compaction can have any number of inputs, since all metadata is rewritten anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.state_store.history import History, Metadata
from sleeper_nb.state_store.state_store_base import CommitStep, StateStore
from sleeper_nb.storage.file_cache import NO_CACHE


class S3StateStore(StateStore):
    """The full metadata of every snapshot, as one Parquet file for references and one for partitions."""

    def publish(self, head: Snapshot, steps: Sequence[CommitStep]) -> tuple[Snapshot, ...] | None:
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
