"""From the words that name a version to the snapshot or savepoint that holds it; an unknown one names others."""

from __future__ import annotations

from dataclasses import dataclass

from sleeper_nb.catalog.base import Catalog
from sleeper_nb.errors import NotFound
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Moment, SavepointReference, Snapshot, SnapshotReference, VersionReference


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
        if isinstance(self.version, Savepoint):
            found = f"savepoint {self.version.id}{f' {self.version.name!r}' if self.version.name else ''}, {found}"
        return f"{found} (newest at {self.asked})" if isinstance(self.asked, Moment) else found


def resolve(catalog: Catalog, table_id: str, table: str, asked: VersionReference | None) -> Resolved:
    """Return the version of a table that a reference names; the current one for None.

    A snapshot that has expired is still found when a savepoint saves it. A moment is resolved to the newest snapshot
    at or before it, and, where those have expired, to the closest savepoint before it.

    Raises
    ------
    NotFound
        Naming the nearest candidates, or the earliest moment that can be reached.
    """
    if asked is None:
        return Resolved(catalog.current(table_id))
    snapshots, savepoints = catalog.snapshots(table_id), catalog.savepoints(table_id)
    versions: list[Snapshot | Savepoint] = [*snapshots, *savepoints]
    of = f" of table {table!r}"
    if isinstance(asked, SavepointReference):
        for savepoint in savepoints:
            if asked.id_or_name in {savepoint.id, savepoint.name}:
                return Resolved(savepoint, asked)
        names = [str(word) for savepoint in savepoints for word in (savepoint.name, savepoint.id) if word]
        raise NotFound.of("savepoint", asked.id_or_name, names, where=of)
    if isinstance(asked, SnapshotReference):
        for version in versions:
            if version.number == asked.id:
                return Resolved(version, asked)
        raise NotFound(f"no snapshot {asked.id}{of}", hint=_retained(versions))
    past = [version for version in versions if version.committed <= asked.time]
    if past:
        return Resolved(
            max(past, key=lambda version: version.committed), asked
        )  # of equals the first: the snapshot rather than its savepoint
    earliest = min(version.committed for version in versions)
    raise NotFound(f"no version{of} as old as {asked}", hint=f"the earliest that can be reached is {Moment(earliest)}")


def _retained(versions: list[Snapshot | Savepoint]) -> str:
    kept = sorted({version.number for version in versions})
    runs: list[list[int]] = []
    for number in kept:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return "there are: " + ", ".join("–".join(map(str, run)) for run in runs)
