"""From the words that name a version to the snapshot or savepoint that holds it; an unknown one names others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.errors import NotFound
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import (
    Moment,
    SavepointReference,
    Snapshot,
    SnapshotReference,
    VersionReference,
)
from sleeper_nb.operations.job_tracking import duration


@dataclass(frozen=True, slots=True)
class Resolved:
    """A version that can be read, and how it was found.

    Parameters
    ----------
    version
        Where its metadata is.
    asked
        What the user named; None for the current version.
    """

    version: Snapshot | Savepoint
    asked: VersionReference | None = None

    @property
    def snapshot_id(self) -> int:
        """The number of the version that is read."""
        return self.version.number

    def __str__(self) -> str:
        found = f"snapshot {self.snapshot_id}"
        if not isinstance(self.version, Savepoint):
            return f"{found} (newest at {self.asked})" if isinstance(self.asked, Moment) else found
        found = f"savepoint {self.version.id}{f' {self.version.name!r}' if self.version.name else ''}, {found}"
        if not isinstance(self.asked, Moment):
            return found
        return f"{found} ({_distance(self.version, self.asked)} {self.asked}, of which no snapshot is retained)"


def _distance(version: Savepoint, moment: Moment) -> str:
    seconds = (moment.time - version.committed).total_seconds()
    return f"{duration(seconds).removesuffix(' 0 s').removesuffix(' 0 min')} before" if seconds else "at"


def resolve(catalog: Catalog, table_id: str, table: str, asked: VersionReference | None) -> Resolved:
    """Return the version of a table that a reference names; the current one for None.

    A snapshot that has expired is still found when a savepoint saves it. A moment is resolved to the newest snapshot
    at or before it, and, where those have expired, to the closest savepoint before it. What is found is found at the
    same cost among any number of snapshots.

    Raises
    ------
    NotFound
        Naming the nearest candidates, or the earliest moment that can be reached.
    """
    if asked is None:
        return Resolved(catalog.current(table_id))
    of = f" of table {table!r}"
    if isinstance(asked, SavepointReference):
        return Resolved(_savepoint(catalog.savepoints(table_id), asked, of), asked)
    found = (
        _snapshot(catalog, table_id, asked)
        if isinstance(asked, SnapshotReference)
        else _as_of(catalog, table_id, asked)
    )
    if found is not None:
        return Resolved(found, asked)
    versions: list[Snapshot | Savepoint] = [*catalog.snapshots(table_id), *catalog.savepoints(table_id)]
    if isinstance(asked, SnapshotReference):
        raise NotFound(f"no snapshot {asked.id}{of}", hint=_retained(versions, asked.id))
    earliest = min(version.committed for version in versions)
    raise NotFound(f"no version{of} as old as {asked}", hint=f"the earliest that can be reached is {Moment(earliest)}")


def _savepoint(savepoints: Sequence[Savepoint], asked: SavepointReference, of: str) -> Savepoint:
    for savepoint in savepoints:
        if asked.id_or_name in {savepoint.id, savepoint.name}:
            return savepoint
    # With its word before it, as 1 alone behind @ is a snapshot.
    words = [(point.reference, str(SavepointReference(point.id))) for point in savepoints]
    names = list(dict.fromkeys(word for both in words for word in both))
    raise NotFound.of("savepoint", asked.id_or_name, names, where=of)


def _snapshot(catalog: Catalog, table_id: str, asked: SnapshotReference) -> Snapshot | Savepoint | None:
    found = catalog.snapshot(table_id, asked.id)
    if found is not None:
        return found
    return next((savepoint for savepoint in catalog.savepoints(table_id) if savepoint.number == asked.id), None)


def _as_of(catalog: Catalog, table_id: str, asked: Moment) -> Snapshot | Savepoint | None:
    found = catalog.snapshot_as_of(table_id, asked.time)
    past: list[Snapshot | Savepoint] = [
        point for point in catalog.savepoints(table_id) if point.committed <= asked.time
    ]
    # of equals the first: the snapshot rather than its savepoint
    past = [*([found] if found else []), *past]
    return max(past, key=lambda version: version.committed, default=None)


def _retained(versions: list[Snapshot | Savepoint], asked: int) -> str:
    kept = sorted({version.number for version in versions})
    runs: list[list[int]] = []
    for number in kept:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    earliest = f"the earliest is {kept[0]}; " if asked < kept[0] else ""
    return f"{earliest}there are: " + ", ".join("–".join(map(str, run)) for run in runs)
