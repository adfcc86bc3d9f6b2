"""`S3StateStore`: each commit writes Parquet files with the full metadata; the catalog names the current ones.

It works on any storage and any catalog, and is the default. The cost of a commit grows with the number of files of the
table; a compaction can have any number of inputs, since all metadata is rewritten anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.state_store.history import Metadata
from sleeper_nb.state_store.state_store_base import CommitStep, StateStore


class S3StateStore(StateStore):
    """The full metadata of every snapshot, as one Parquet file for references and one for partitions."""

    def publish(self, head: Snapshot, steps: Sequence[CommitStep]) -> tuple[Snapshot, ...] | None:
        (step,) = steps
        at = Metadata.of(head)
        metadata = self.history.write(step.after, step.before, at)
        new = metadata.on(step.snapshot)
        written = {*metadata.paths} - (at.paths if at else set())
        won = self.settle(new, lambda: self.catalog.commit(self.table_id, head, new), written)
        return (new,) if won else None
