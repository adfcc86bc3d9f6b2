"""Resolve a version reference (number, savepoint, moment) to the snapshot or savepoint that holds the version.

An unknown reference is an error whose hint names the versions that exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.errors import NotFound
from sleeper_nb.model.savepoints import NEWEST, Savepoint
from sleeper_nb.model.snapshots import Moment, SavepointReference, Snapshot, SnapshotReference, VersionReference
from sleeper_nb.report import duration_text


@dataclass(frozen=True, slots=True)
class Resolved:
    """A version that can be read, and how it was found."""

    version: Snapshot | Savepoint
    reference: VersionReference | None = None

    @property
    def snapshot_id(self) -> int:
        return self.version.number

    def __str__(self) -> str:
        text = f"snapshot {self.snapshot_id}"
        if isinstance(self.version, Savepoint):
            name = f" {self.version.name!r}" if self.version.name else ""
            text = f"savepoint {self.version.id}{name}, {text}"
        if not isinstance(self.reference, Moment):
            return text
        if isinstance(self.version, Savepoint):
            distance = _distance(self.version, self.reference)
            return f"{text} ({distance} {self.reference}, for which no snapshot is retained)"
        return f"{text} (newest at {self.reference})"


def _distance(version: Savepoint, moment: Moment) -> str:
    """Return how long before a moment a savepoint's version was committed: ``1 min before``, or ``at``."""
    seconds = (moment.time - version.committed).total_seconds()
    return f"{duration_text(seconds).removesuffix(' 0 s').removesuffix(' 0 min')} before" if seconds else "at"


def resolve(catalog: Catalog, table_id: str, table: str, reference: VersionReference | None) -> Resolved:
    """Return the version of a table that a reference names; the current one for None.

    A snapshot that has expired is still found when a savepoint keeps it. A moment resolves to the newest snapshot at or
    before it; where those have expired, to the closest savepoint before it. The cost does not depend on how many
    snapshots there are.

    `NotFound`: the hint names the nearest candidates, or the earliest moment that can be reached.
    """
    if reference is None:
        return Resolved(catalog.current(table_id))
    of_table = f" of table {table!r}"
    version: Snapshot | Savepoint | None
    if isinstance(reference, SavepointReference):
        version = _savepoint(catalog.savepoints(table_id), reference, of_table)
    elif isinstance(reference, SnapshotReference):
        version = _snapshot(catalog, table_id, reference)
    else:
        version = _as_of(catalog, table_id, reference)
    if version is not None:
        return Resolved(version, reference)
    versions: list[Snapshot | Savepoint] = [*catalog.snapshots(table_id), *catalog.savepoints(table_id)]
    if not versions:  # a table has at least its current one
        raise NotFound(f"no table {table!r}", hint="it was deleted in the meantime")
    if isinstance(reference, SnapshotReference):
        raise NotFound(f"no snapshot {reference.id}{of_table}", hint=_available(versions, reference.id))
    earliest = min(each.committed for each in versions)
    raise NotFound(
        f"no version{of_table} as old as {reference}", hint=f"the earliest that can be reached is {Moment(earliest)}"
    )


def _savepoint(savepoints: Sequence[Savepoint], reference: SavepointReference, of_table: str) -> Savepoint:
    for savepoint in savepoints:
        if reference.id_or_name in {savepoint.id, savepoint.name}:
            return savepoint
    names: list[str] = []
    for savepoint in savepoints:
        # the id is written savepoint.1, because a bare 1 after @ means snapshot 1
        names += [savepoint.reference, str(SavepointReference(savepoint.id))]
    unknown = NotFound.of("savepoint", reference.id_or_name, list(dict.fromkeys(names)), where=of_table)
    if str(reference.id_or_name).casefold() in NEWEST:
        unknown.hint = ("the name of a table alone is its newest version; ", *unknown.hint_parts)
    raise unknown


def _snapshot(catalog: Catalog, table_id: str, reference: SnapshotReference) -> Snapshot | Savepoint | None:
    snapshot = catalog.snapshot(table_id, reference.id)
    if snapshot is not None:
        return snapshot
    return next((point for point in catalog.savepoints(table_id) if point.number == reference.id), None)


def _as_of(catalog: Catalog, table_id: str, moment: Moment) -> Snapshot | Savepoint | None:
    """Return the newest version at or before a moment; a snapshot rather than a savepoint of the same version."""
    candidates: list[Snapshot | Savepoint] = []
    snapshot = catalog.snapshot_as_of(table_id, moment.time)
    if snapshot is not None:
        candidates.append(snapshot)
    candidates += [point for point in catalog.savepoints(table_id) if point.committed <= moment.time]
    return max(candidates, key=lambda version: version.committed, default=None)  # of equals, the first


def _available(versions: Sequence[Snapshot | Savepoint], requested: int) -> str:
    """Return a hint with the numbers of the versions that are kept: ``available: 3, 5–6``."""
    numbers = {version.number for version in versions}
    earliest = f"the earliest is {min(numbers)}; " if requested < min(numbers) else ""
    return f"{earliest}available: {', '.join(number_ranges(numbers))}"


def number_ranges(numbers: Iterable[int]) -> list[str]:
    """Return numbers in order, each run of consecutive ones as a range: ``["3", "5–9"]``."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return [str(first) if first == last else f"{first}–{last}" for first, last in runs]
