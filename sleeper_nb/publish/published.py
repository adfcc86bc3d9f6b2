"""What of a table is published: read it, which versions stay, the leases that keep their files, and take it away.

The newest stays, and so do those of savepoints. Others are superseded: they stay for a time, for readers that have
begun. Garbage collection knows all of them by their leases.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final

from sleeper_nb.catalog.catalog_base import free_space_and_retry
from sleeper_nb.errors import NotFound, StorageError
from sleeper_nb.model.jobs import PUBLISHED, Lease
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.publish import metadata_folder as folder
from sleeper_nb.publish.data_entries import Address
from sleeper_nb.publish.table_metadata import MAIN, TableMetadata
from sleeper_nb.report import Grid, Report, counted
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths

FOR_EVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
INTERRUPTED: Final = timedelta(hours=1)
"""A lease of this age on a version that is not published is that of a publication that was interrupted."""
MOST_SUPERSEDED: Final = 100
"""How many superseded versions are kept at most: readers read all of them each time."""


@dataclass(frozen=True, slots=True)
class Published:
    """The versions of a table that other engines can read."""

    address: str  # as in `PublishReport`
    metadata: str
    main: int  # the newest published version
    updated: datetime  # when something was published last, UTC
    snapshots: Mapping[int, datetime]  # the published versions, oldest first, and when each was published
    tags: Mapping[str, int]  # the names of savepoints, and the versions that they name
    # whether the folder was moved or copied since, so that addresses in the metadata are of another place
    is_moved: bool


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


# Which versions stay, and their leases.


def tag_of(savepoint: Savepoint) -> str:
    """Return the name of the tag of a savepoint: its name, or ``savepoint.3`` where that cannot be one."""
    return f"savepoint.{savepoint.id}" if savepoint.name in {None, "", MAIN} else str(savepoint.name)


@dataclass(frozen=True, slots=True)
class KeptVersions:
    """The published versions that stay."""

    ends: Mapping[int, datetime]  # for each version, when its lease ends
    tags: Mapping[str, int]  # the versions of savepoints, by the names of tags

    @property
    def main(self) -> int:
        return max(self.ends)

    @classmethod
    def of(
        cls,
        there: Mapping[int, datetime],
        version: int,
        savepoints: Iterable[Savepoint],
        now: datetime,
        retained: timedelta,
    ) -> KeptVersions:
        """Return which versions stay when one is published. Pure.

        Parameters
        ----------
        there
            The versions that are published already, and when the lease of each ends.
        """
        known = {number: end for number, end in there.items() if end > now} | {version: FOR_EVER}
        tags = {tag_of(each): each.saved_snapshot_id for each in savepoints if each.saved_snapshot_id in known}
        stay = {max(known), *tags.values()}
        ends = dict.fromkeys(stay, FOR_EVER)
        superseded = {number: min(end, now + retained) for number, end in known.items() if number not in stay}
        for number in sorted(superseded, reverse=True)[:MOST_SUPERSEDED]:
            if superseded[number] > now or number == version:
                ends[number] = superseded[number]
        ends.setdefault(version, now + retained)
        return cls(ends, tags)


def published_leases(store: StateStore) -> dict[int, list[Lease]]:
    """Return the leases of published versions, by version."""
    found: dict[int, list[Lease]] = {}
    for lease in store.catalog.leases(store.table_id):
        if lease.is_published:
            found.setdefault(lease.snapshot_id, []).append(lease)
    return found


def lease_ends(store: StateStore) -> dict[int, datetime]:
    return {number: max(each.until for each in leases) for number, leases in published_leases(store).items()}


def add_lease(store: StateStore, version: int, until: datetime, author: str | None) -> Lease:
    """Keep the files of a version; `NotFound` when nothing keeps it any more."""
    lease = Lease(store.clock.new_id(), version, store.clock.now(), until, PUBLISHED, author)
    free_space_and_retry(store.catalog, lambda: store.catalog.add_lease(store.table_id, lease))
    return lease


def settle_leases(
    store: StateStore, kept: KeptVersions, before: Collection[int], author: str | None, *, spares_others: bool
) -> None:
    """Give each version that stays one lease until its end, and release those of versions that were published before.

    The lease of a version that another process is publishing stays; for ever, if `spares_others`.
    """
    found, now = published_leases(store), store.clock.now()
    for version, end in kept.ends.items():
        leases = found.get(version, [])
        same = [lease for lease in leases if lease.until == end]
        if not same and not (leases and store.catalog.renew_lease(store.table_id, leases[0], end)):
            add_lease(store, version, end, author)
        for lease in leases:
            if lease not in (same[:1] or leases[:1]):
                store.catalog.release_lease(store.table_id, lease)
    for version, leases in found.items():
        for lease in leases:
            is_left = not spares_others and now - lease.since > INTERRUPTED
            if version not in kept.ends and (version in before or is_left):
                store.catalog.release_lease(store.table_id, lease)


# Take all away.


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
            for lease in chain.from_iterable(leases.values()):
                store.catalog.release_lease(store.table_id, lease)
            return UnpublishReport(tuple(sorted(snapshots)), len(deleted))
        deleted |= files
        store.storage.delete(paths.VERSION_HINT)
        for number in sorted(filter(None, map(paths.table_metadata_number, files))):
            store.storage.delete(paths.table_metadata(number))
        store.storage.delete_all(paths.PUBLISHED)
