"""The state of a table at one snapshot: schema, partition tree and file references under one number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from sleeper_nb.model.file_reference import Totals
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema


@dataclass(frozen=True, slots=True)
class CommitPoint:
    """What a commit adds to a transaction: the number and the time of the snapshot that it creates."""

    snapshot_id: int
    time: datetime


@dataclass(frozen=True, slots=True)
class TableState:
    """Everything needed to read a table at one snapshot.

    Files and partitions are versioned together by one number, so a query never combines the files of one snapshot with
    the partitions of another.
    """

    snapshot_id: int
    schema_id: int
    schema: Schema
    tree: PartitionTree
    files: FileReferences
    schema_checksum: str | None = None  # the checksum of the schema's file; None if none was recorded
    # the properties of its row processing, as lines of a properties file; None if the snapshot was made by a release
    # that did not record them
    processing: str | None = None

    def at(self, point: CommitPoint, **changes: object) -> TableState:
        return replace(self, snapshot_id=point.snapshot_id, **changes)  # type: ignore[arg-type]

    def totals(self) -> Totals:
        return self.files.totals
