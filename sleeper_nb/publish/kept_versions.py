"""Which published versions stay, and the leases that keep their files.

The newest stays, and so do those of savepoints. Others are superseded: they stay for a time, for readers that have
begun. Garbage collection knows all of them by their leases.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sleeper_nb.catalog.catalog_base import free_space_and_retry
from sleeper_nb.model.jobs import PUBLISHED, Lease
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.publish.table_metadata import MAIN
from sleeper_nb.state_store.state_store_base import StateStore

logger = logging.getLogger(__name__)

FOR_EVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
INTERRUPTED: Final = timedelta(hours=1)
"""A lease of this age on a version that is not published is that of a publication that was interrupted."""
MOST_SUPERSEDED: Final = 100
"""How many superseded versions are kept at most: readers read all of them each time."""


def tag_of(savepoint: Savepoint) -> str:
    """Return the name of the tag of a savepoint: its name, or ``savepoint.3`` where that cannot be one."""
    return f"savepoint.{savepoint.id}" if savepoint.name in {None, "", MAIN} else str(savepoint.name)


@dataclass(frozen=True, slots=True)
class KeptVersions:
    """The published versions that stay.

    Parameters
    ----------
    ends
        For each version, when its lease ends.
    tags
        The versions of savepoints, by the names of tags.
    """

    ends: Mapping[int, datetime]
    tags: Mapping[str, int]

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


def release_leases(store: StateStore, leases: Mapping[int, Iterable[Lease]]) -> None:
    """Release leases of published versions."""
    for each in leases.values():
        for lease in each:
            store.catalog.release_lease(store.table_id, lease)
