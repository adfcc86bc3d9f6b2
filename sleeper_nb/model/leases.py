"""A reader's hold on a version: until it ends, garbage collection leaves the version's files where they are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Lease:
    """One reader's hold on one version of a table.

    Parameters
    ----------
    id
        Unique to the lease.
    snapshot_id
        The version that is read.
    since, until
        When it began, and when it ends unless its reader renews it, UTC.
    purpose
        What reads: ``scan``, ``sql``, ``export``, ``stream``, ``rollback``.
    author
        Who reads.
    """

    id: str
    snapshot_id: int
    since: datetime
    until: datetime
    purpose: str
    author: str | None = None

    def has_ended(self, now: datetime) -> bool:
        """Return whether it holds nothing any more."""
        return self.until <= now
