"""Publish a version of a table as an Iceberg snapshot: new metadata beside the same data files.

Why other engines always find a whole version, in steps:

1. A lease keeps garbage collection from the files of the version.
2. Position deletes, manifests and the manifest list are written under new names, which no reader knows yet.
3. ``metadata/vN.metadata.json`` names them. It is created only if no other publisher has made this number: the second
   of two starts again from the metadata of the first.
4. ``metadata/version-hint.text`` gets the number in one atomic write.

A crash at any step leaves the older metadata as they were; the next publication deletes what was left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.report import Grid, Report, counted, notes_line
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.resolve import Resolved

SUPERSEDED_TIME = timedelta(days=7)
"""How long the files of a published version stay after a newer one was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """How a version is published.

    Parameters
    ----------
    processing
        The filters, iterator and aggregations of its rows.
    retained
        How long published versions are kept that a newer one has superseded; those with a savepoint stay.
    author
        Who publishes.
    force
        Whether versions that another engine has written into the same metadata may be hidden.
    """

    processing: DataProcessing
    retained: timedelta = SUPERSEDED_TIME
    author: str | None = None
    force: bool = False


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class PublishReport(Report):
    """A version that other engines can read.

    Parameters
    ----------
    table
        The name of the table.
    snapshot_id
        The version; also the id of the Iceberg snapshot.
    address
        The table's folder, with its scheme: ``file:///…`` or ``s3://…``.
    metadata
        The file that describes the table, below its folder: ``metadata/v3.metadata.json``.
    main
        The newest published version, which engines read unless they are given another.
    tags
        The published savepoints: the name of each tag, and the snapshot that it names.
    data_files, delete_files, rows
        What the published version has.
    warnings
        What some engines cannot read, a sentence each.
    is_nothing
        Whether the same had been published before, so nothing was written.
    """

    table: str
    snapshot_id: int
    address: str
    metadata: str
    main: int
    tags: Mapping[str, int] = field(default_factory=dict)
    data_files: int = 0
    delete_files: int = 0
    rows: int = 0
    warnings: tuple[str, ...] = ()
    is_nothing: bool = False

    @property
    def metadata_address(self) -> str:
        """The address of the file that describes the table."""
        return f"{self.address}/{self.metadata}"

    def grid(self) -> Grid:
        """Return what was published."""
        rows: list[tuple[object, ...]] = [
            ("snapshot", self.snapshot_id),
            ("address", self.address),
            ("metadata", self.metadata),
            ("rows", self.rows),
            ("data files", self.data_files),
            ("delete files", self.delete_files),
            *(("tag", f"{name} (snapshot {number})") for name, number in self.tags.items()),
        ]
        title = f"{self.table}: snapshot {self.snapshot_id} is published"
        before = "it was published before; nothing was written" if self.is_nothing else ""
        return Grid(("", ""), tuple(rows), title, notes_line(before, *self.warnings))


def publish(store: StateStore, table: str, version: Resolved, settings: PublishSettings) -> PublishReport:
    """Publish a version.

    `InvalidInput` when a reader would get wrong rows of it; the hint says what cures that. `ConflictError` when another
    engine has written into the metadata since, and no `force`.
    """
    raise NotImplementedError(counted(1, table), store, version, settings)
