"""What of a table is published: read it, and take it away."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sleeper_nb.errors import NotFound, StorageError
from sleeper_nb.publish import metadata_folder as folder
from sleeper_nb.publish.data_entries import Address
from sleeper_nb.publish.kept_versions import published_leases, release_leases, tag_of
from sleeper_nb.publish.table_metadata import TableMetadata
from sleeper_nb.report import Grid, Report, counted
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths

__all__ = [
    "Published",
    "UnpublishReport",
    "check_unpublishing",
    "published",
    "tag_of",
    "unpublish",
    "versions_to_unpublish",
]


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

    What another engine has written is not looked at. `StorageError` when the metadata cannot be read.
    """
    number = folder.hinted(store.storage)
    if number is None:
        return None
    body = folder.read_body(store.storage, number)
    if not folder.is_ours(body, number):
        found = folder.find(store.storage).metadata
        if found is None:
            return None
        return _of(store, found, number)
    return _of(store, folder.parsed(store.storage, body, number), number)


def _of(store: StateStore, metadata: TableMetadata, number: int) -> Published | None:
    if metadata.main is None:
        return None
    return Published(
        address=metadata.address,
        metadata=paths.table_metadata(number),
        main=metadata.main,
        updated=metadata.updated,
        snapshots={each.id: each.published for each in sorted(metadata.snapshots, key=lambda each: each.id)},
        tags=metadata.tags,
        is_moved=metadata.address != Address(store.storage.root).text,
    )


def check_unpublishing(store: StateStore, table: str) -> None:
    """Raise `ConfirmationNeeded` when unpublishing would delete what another engine has written."""
    with contextlib.suppress(StorageError, NotFound):  # what is damaged can only go
        folder.find(store.storage).check_unchanged(table, force=False, deletes=True)


def versions_to_unpublish(store: StateStore) -> tuple[int, ...]:
    """Return the snapshots that `unpublish` takes away: ours, and what another engine has written into the metadata.

    Those of others are not known where the metadata are damaged.
    """
    others: tuple[int, ...] = ()
    with contextlib.suppress(StorageError, NotFound):
        others = folder.find(store.storage).hidden
    return tuple(sorted({*published_leases(store), *others}))


def unpublish(store: StateStore) -> UnpublishReport:
    """Release the published versions and delete their metadata, also when these are damaged; a second call is safe.

    Readers find nothing rather than a part, and so does the next publication after a crash: the metadata of a number go
    before what they name, the newest last. What a publication writes meanwhile is deleted, too, until nothing is left;
    one that ends later finds that what it used again is gone, or that its own files are, and begins again.
    """
    snapshots, deleted = set[int](), set[str]()
    while True:
        leases = published_leases(store)  # before the list: the files of a publication are older than its lease
        files = {each.path for each in store.storage.list(paths.PUBLISHED)}
        snapshots |= leases.keys()
        if not files:
            release_leases(store, leases)
            return UnpublishReport(tuple(sorted(snapshots)), len(deleted))
        deleted |= files
        store.storage.delete(paths.VERSION_HINT)
        for number in sorted(filter(None, map(paths.table_metadata_number, files))):
            store.storage.delete(paths.table_metadata(number))
        store.storage.delete_all(paths.PUBLISHED)
