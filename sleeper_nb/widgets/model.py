"""What the explorer knows and says, without any widget: tables, their versions, and a preview of each."""

from __future__ import annotations

import html
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from sleeper_nb.errors import InvalidInput
from sleeper_nb.operations.scanning.planning import files_of
from sleeper_nb.render import bounded, partition_map
from sleeper_nb.render_timeline import change_text, timeline
from sleeper_nb.report import Bytes, cell_text, counted

if TYPE_CHECKING:
    from sleeper_nb.report import Grid
    from sleeper_nb.session import Session

Tab = Literal["schema", "rows", "partitions", "files", "history", "savepoints"]
TABS: tuple[Tab, ...] = ("schema", "rows", "partitions", "files", "history", "savepoints")
SHOWN_ROWS, STATIC_ROWS = 20, 5
COMPARED_BYTES = 64 << 20
"""Versions of more bytes are compared when somebody asks, not at each move of a handle."""
_SCROLL = '<div style="overflow-x:auto;margin-top:4px;">'


@dataclass(frozen=True, slots=True)
class Version:
    """A version that can be chosen.

    Parameters
    ----------
    number
        Of its snapshot.
    committed
        When, UTC.
    change
        What its commit did, in a few words; empty when the snapshot has expired and a savepoint still holds it.
    rows
        Of the table at the version.
    savepoints
        The names, or else ids, of the savepoints that hold it.
    """

    number: int
    committed: datetime
    change: str
    rows: int
    savepoints: tuple[str, ...]

    @property
    def label(self) -> str:
        """``snapshot 12 · 2026-11-01 10:02 UTC · ingest +28,135 rows · savepoint half-year``."""
        saved = tuple(f"savepoint {name}" for name in self.savepoints)
        parts = (f"snapshot {self.number}", f"{self.committed:%Y-%m-%d %H:%M} UTC", self.change, *saved)
        return " · ".join(filter(None, parts))


@dataclass(frozen=True, slots=True, repr=False)
class Preview:
    """What one tab shows.

    Parameters
    ----------
    line
        The magic line that gives the same.
    html, text
        The answer, twice.
    """

    line: str
    html: str
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


class ExploreModel:
    """The tables of a session as the explorer sees them; it reads in process and never starts Spark."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def tables(self) -> tuple[str, ...]:
        """Return the names of all tables."""
        return tuple(entry.name for entry in self._session.components.catalog.tables())

    def name(self, table: str) -> str:
        """Return a table's name as it was given to it; `NotFound` names the nearest."""
        return self._session.table(table).name

    def number(self, table: str, version: int | str) -> int:
        """Return the number of the version that ``12``, ``"savepoint.half-year"`` and so on name."""
        return self._session.table(table).at(version).resolved.snapshot_id

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return what can be chosen, oldest first: the snapshots, and what only savepoints still hold."""
        found = self._session.table(table)
        names: dict[int, tuple[str, ...]] = {}
        for point in found.savepoints():
            held = names.get(point.saved_snapshot_id, ())
            names[point.saved_snapshot_id] = (*held, point.name or str(point.id))
        versions = {
            point.saved_snapshot_id: Version(
                point.saved_snapshot_id, point.snapshot_time, "", point.record_count, names[point.saved_snapshot_id]
            )
            for point in found.savepoints()
        }
        for s in found.snapshots():
            versions[s.id] = Version(s.id, s.time, change_text(s), s.rows, names.get(s.id, ()))
        return tuple(versions[number] for number in sorted(versions))

    def preview(self, table: str, version: int, tab: Tab) -> Preview:
        """Return what a tab shows of a table at the version of that number.

        Raises
        ------
        NotFound
            When the table or version is gone.
        """
        found = self._session.table(table)
        at = found.at(version)
        of = f"{found.name}@{version}"
        if tab == "schema":
            return _shown(f"%sleeper describe {of} --fields", at.fields().grid())
        if tab == "rows":
            return _shown(f"%sleeper scan {of} --limit {SHOWN_ROWS}", at.scan(limit=SHOWN_ROWS).grid())
        if tab == "files":
            files = at.files()
            return _shown(f"%sleeper files {of}", files.grid(), files.picture)
        if tab == "partitions":
            leaves = at.leaves()
            return _shown(f"%sleeper partitions {of}", leaves.grid(), leaves.picture)
        if tab == "history":
            return _shown(f"%sleeper history {found.name}", found.snapshots().grid())
        if tab == "savepoints":
            return _shown(f"%sleeper savepoints {found.name}", found.savepoints().grid())
        raise InvalidInput(f"no tab {tab!r}", hint=f"the tabs are {', '.join(TABS)}")

    def timeline(self, table: str, version: int, before: int | None = None) -> str:
        """Return the rows over all versions as a picture that points one out, and one that it is compared with."""
        found = self._session.table(table)
        return timeline(tuple(found.snapshots()), tuple(found.savepoints()), version, before, name=found.name)

    def difference(self, table: str, before: int, after: int) -> Preview:
        """Return what changed between two versions; where much would have to be read for it, only how to ask."""
        found = self._session.table(table)
        line = f"%sleeper diff {found.name} {before} {after}"
        size = sum(found.at(number).state.totals().bytes for number in {before, after})
        if size > COMPARED_BYTES:
            text = f"{cell_text(Bytes(size))} may have to be read to compare them"
            return Preview(line, f"<div>{text}</div>", text)
        return _shown(line, found.diff(before, after).grid())

    def static(self, table: str, version: int) -> Preview:
        """Return the picture that stays in a saved notebook: the partitions and the first rows."""
        found = self._session.table(table)
        at = found.at(version)
        label = next(v.label for v in self.versions(table) if v.number == at.resolved.snapshot_id)
        line = f"%sleeper explore {found.name}"
        head = f'<div style="margin-bottom:4px;"><b>{html.escape(found.name)}</b> · {html.escape(label)}</div>'
        files, count = files_of(at.state)[0], at.state.totals().rows
        first = replace(at.scan(limit=STATIC_ROWS).grid(), footer=f"first {min(STATIC_ROWS, count)} of {count:,} rows")
        rows = _shown(line, first, partition_map(at))
        leaves = len(at.partitions.leaves)
        # The moment stays out of the text: two runs of one notebook are compared by it.
        what = ", ".join((counted(count, "row"), counted(files, "file"), counted(leaves, "partition")))
        text = f"{found.name} at {at.resolved}: {what}"
        return Preview(line, head + rows.html, text)


def _shown(line: str, grid: Grid, picture: str = "") -> Preview:
    grid = bounded(grid)
    return Preview(line, f"{picture}{_SCROLL}{grid.html()}</div>", grid.text())
