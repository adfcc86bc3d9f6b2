"""The state of a table at one snapshot: schema, partition tree and file references under one number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from sleeper_nb.model.files import FileReferences, Totals
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema


@dataclass(frozen=True, slots=True)
class CommitPoint:
    """What a commit adds to a transaction: the number and the moment of the snapshot that it makes."""

    snapshot_id: int
    time: datetime


@dataclass(frozen=True, slots=True)
class TableState:
    """Everything needed to read a table at one snapshot.

    One number versions files and partitions together, so a query never sees the files of one moment under the
    partitions of another.

    Parameters
    ----------
    snapshot_id
        The number of the snapshot.
    schema_id, schema, tree, files
        What it holds.
    schema_checksum
        That of the schema's file; None where none was recorded.
    processing
        The properties that say how its rows are processed, as lines of a properties file; None where the snapshot was
        made by a release that did not record them.
    """

    snapshot_id: int
    schema_id: int
    schema: Schema
    tree: PartitionTree
    files: FileReferences
    schema_checksum: str | None = None
    processing: str | None = None

    def at(self, point: CommitPoint, **changes: object) -> TableState:
        """Return the state that `point` publishes, with some fields changed."""
        return replace(self, snapshot_id=point.snapshot_id, **changes)  # type: ignore[arg-type]

    def totals(self) -> Totals:
        """Return the number of active references, of their rows, and of the bytes of their files."""
        return self.files.totals
