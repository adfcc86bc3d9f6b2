"""Findings: the values that a check collects, and the report that it returns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sleeper_nb.errors import Action
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.report import SHOWN_ROWS, Bytes, Grid, TableReport, counted
from sleeper_nb.storage.places import StoredFile
from sleeper_nb.versions.resolve import number_ranges

CheckedVersion = Snapshot | Savepoint
VersionKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    kind: str  # one or two words, always the same for the same fault
    what: str
    where: str
    means: str


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something that looks wrong in a version, or in the catalog when `version` is None; not confirmed yet.

    It becomes a `Finding` when it still concerns something that is retained at the end of the check.
    """

    kind: str
    what: str
    means: str
    version: VersionKey | None = None
    filename: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport(TableReport):
    """The result of a check.

    Parameters
    ----------
    table, snapshot_id
        The table, and its current snapshot.
    versions, files
        How many snapshots and savepoints, and how many data files, were checked.
    deep
        Whether the data files were read.
    findings
        What is wrong; empty when nothing is.
    orphans
        Old files that no version names: they use space, but are not a fault.
    without_checksum
        How many data files were written by releases without checksums: a changed bit in them can go unnoticed.
    rows_without_checksum
        How many rows of snapshots and savepoints in the catalog, and after a deep check how many entries of the
        transaction log, were written by earlier builds without checksums.
    """

    table: str
    snapshot_id: int
    versions: int
    files: int
    deep: bool
    findings: tuple[Finding, ...]
    orphans: tuple[StoredFile, ...]
    without_checksum: int = 0
    rows_without_checksum: int = 0
    prefix: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def grid(self) -> Grid:
        """Return a row for each of the first findings; the line below says how many there are, and what was read."""
        count = len(self.findings)
        verdict = f"{counted(count, 'thing')} wrong" if count else "all is well"
        columns, rows = self.cells()
        title = f"check of {self.table} at snapshot {self.snapshot_id}: {verdict}"
        columns = columns if rows else ("",)
        cut = f"first {SHOWN_ROWS} of {count:,} · " if count > SHOWN_ROWS else ""
        return Grid(columns, rows[:SHOWN_ROWS], title, cut + "; ".join(self._notes()))

    def cells(self) -> tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]:
        """Return a row for each finding, however many there are."""
        return ("wrong", "what", "where", "means"), tuple((f.kind, f.what, f.where, f.means) for f in self.findings)

    def _notes(self) -> list[str]:
        read = "read whole" if self.deep else "looked up"
        notes = [f"{counted(self.versions, 'version')}, {counted(self.files, 'data file')} {read}"]
        if self.orphans:
            size = Bytes(sum(file.bytes for file in self.orphans))
            unnamed = f"{counted(len(self.orphans), 'file')} of {size}"
            sweep = Action(f"sweep-orphans {self.table}", "table.maintenance.sweep_orphans()")
            notes.append(f"no version names {unnamed} (not a fault): {sweep.text(self.prefix)} lists them")
        if self.without_checksum:
            files = counted(self.without_checksum, "data file")
            compact = Action(f"compact {self.table} --strategy all", "table.maintenance.compact('all')")
            notes.append(f"{files} of an older release without a checksum: {compact.text(self.prefix)} adds it")
        if self.rows_without_checksum:
            rows = counted(self.rows_without_checksum, "row")
            notes.append(f"{rows} in the catalog of an earlier build without a checksum")
        return notes


def key_of(version: CheckedVersion) -> VersionKey:
    return ("savepoint" if isinstance(version, Savepoint) else "snapshot", version.id)


def to_findings(suspicions: Iterable[Suspicion]) -> tuple[Finding, ...]:
    """Return a finding for each fault, with all versions in which it occurs."""
    versions: dict[tuple[str, str, str], list[VersionKey]] = defaultdict(list)
    for suspicion in suspicions:
        keys = versions[suspicion.kind, suspicion.what, suspicion.means]
        if suspicion.version is not None:
            keys.append(suspicion.version)
    return tuple(Finding(kind, what, where_text(keys), means) for (kind, what, means), keys in versions.items())


def where_text(keys: Sequence[VersionKey]) -> str:
    """Return versions as text: ``snapshots 3–9, 12, savepoint 1``; ``the catalog`` when there are none."""
    parts = []
    for kind in ("snapshot", "savepoint"):
        numbers = {number for each, number in keys if each == kind}
        if numbers:
            noun = kind if len(numbers) == 1 else f"{kind}s"
            parts.append(f"{noun} {', '.join(number_ranges(numbers))}")
    return ", ".join(parts) or "the catalog"
