"""What of a table is published: read it, verify it, and take it away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sleeper_nb.maintain.findings import Finding
from sleeper_nb.report import Grid, Report, counted
from sleeper_nb.state_store.state_store_base import StateStore


@dataclass(frozen=True, slots=True)
class Published:
    """The versions of a table that other engines can read.

    Parameters
    ----------
    address, metadata
        As in `PublishReport`.
    main
        The newest published version.
    updated
        When something was published last, UTC.
    snapshots
        The published versions, oldest first, and when each was published.
    tags
        The names of savepoints, and the versions that they name.
    is_moved
        Whether the folder was moved or copied since, so that addresses in the metadata are of another place.
    """

    address: str
    metadata: str
    main: int
    updated: datetime
    snapshots: Mapping[int, datetime]
    tags: Mapping[str, int]
    is_moved: bool


@dataclass(frozen=True, slots=True, repr=False)
class UnpublishReport(Report):
    """What was taken away: the versions that other engines could read, and the files that described them."""

    snapshots: tuple[int, ...]
    files: int

    def grid(self) -> Grid:
        """Return the counts."""
        if not self.files:
            return Grid((), (), footer="nothing was published")
        versions = counted(len(self.snapshots), "version")
        return Grid((), (), footer=f"unpublished {versions}: deleted {counted(self.files, 'metadata file')}")


def published(store: StateStore) -> Published | None:
    """Return what is published; None for nothing. It reads two small files.

    `StorageError` when the newest metadata cannot be read.
    """
    raise NotImplementedError(store)


def unpublish(store: StateStore) -> UnpublishReport:
    """Release the published versions and delete their metadata, also when these are damaged; a second call is safe."""
    raise NotImplementedError(store)


def verify(store: StateStore) -> tuple[Finding, ...]:
    """Return what of the published metadata is missing or differs from the versions that it describes."""
    raise NotImplementedError(store)
