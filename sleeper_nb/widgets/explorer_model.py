"""What the explorer knows and says, without any widget: tables, their versions, and a preview of each."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from sleeper_nb.catalog.catalog_base import Retained, retained
from sleeper_nb.display.partition_picture import drawn_leaves, partition_map
from sleeper_nb.display.preview import MAX_BYTES, bounded
from sleeper_nb.display.timeline_picture import change_text, timeline
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.files import Totals
from sleeper_nb.model.partitions import write_region
from sleeper_nb.model.savepoints import savepoint_label, savepoints_by_snapshot
from sleeper_nb.operations.scanning.scan_plan import files_of
from sleeper_nb.operations.system_tables import MARK
from sleeper_nb.report import Bytes, cell_text, counted
from sleeper_nb.sql.references import table_references
from sleeper_nb.sql.tokens import quote_name

if TYPE_CHECKING:
    from sleeper_nb.report import Grid
    from sleeper_nb.session import Session
    from sleeper_nb.table import Table

Tab = Literal["schema", "rows", "partitions", "files", "history", "savepoints", "sql"]
TABS: tuple[Tab, ...] = ("schema", "rows", "partitions", "files", "history", "savepoints", "sql")
SHOWN_ROWS, STATIC_ROWS = 20, 5
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""What begins a statement that only reads."""
COMPARED_BYTES = 64 << 20
"""Versions of more bytes are compared when somebody asks, not at each move of a handle."""
_SCROLL = '<div style="overflow-x:auto;margin-top:4px;">'


@dataclass(frozen=True, slots=True)
class ListedVersion:
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
    listing, text
        The answer, as HTML and as text.
    picture
        As HTML too, above the listing.
    """

    line: str
    listing: str
    text: str
    picture: str = ""

    @property
    def html(self) -> str:
        """Picture and listing."""
        return self.picture + self.listing

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges of keys that can be chosen at a version.

    Parameters
    ----------
    named
        For each leaf, by its id, its keys and rows in words.
    top, drawn
        Where the picture shows the leaves (`sleeper_nb.render.drawn_leaves`), and the id of the first in each box.
    """

    named: Mapping[str, str]
    top: int
    drawn: tuple[str, ...]


class ExploreModel:
    """The tables of a session as the explorer sees them; it reads in process and never starts Spark."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def tables(self) -> tuple[str, ...]:
        """Return the names of all tables."""
        return tuple(entry.name for entry in self._session.components.catalog.tables())

    def is_there(self, table: str) -> bool:
        """Return whether there is a table of that name still."""
        return table in self.tables()

    def name(self, table: str) -> str:
        """Return a table's name as it was given to it; `NotFound` names the nearest."""
        return self._session.table(table).name

    def number(self, table: str, version: int | str) -> int:
        """Return the number of the version that ``12``, ``"savepoint.half-year"`` and so on name."""
        return self._session.table(table).at(version).resolved.snapshot_id

    def versions(self, table: str) -> tuple[ListedVersion, ...]:
        """Return what can be chosen, oldest first: the snapshots, and what only savepoints still hold."""
        kept = self._retained(self._session.table(table))
        saved = savepoints_by_snapshot(kept.savepoints)
        names = {number: tuple(map(savepoint_label, points)) for number, points in saved.items()}
        versions = {
            point.saved_snapshot_id: ListedVersion(
                point.saved_snapshot_id, point.snapshot_time, "", point.record_count, names[point.saved_snapshot_id]
            )
            for point in kept.savepoints
        }
        for s in kept.snapshots:
            versions[s.id] = ListedVersion(s.id, s.time, change_text(s), s.rows, names.get(s.id, ()))
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
            return _shown(f"%sleeper scan {of}", at.scan().grid())
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
        if tab == "sql":
            return Preview(sql_line(self.statement(table, version)), "", "not run yet")
        raise InvalidInput(f"no tab {tab!r}", hint=f"the tabs are {', '.join(TABS)}")

    def ranges(self, table: str, version: int) -> Ranges:
        """Return the leaves of a version, each to be chosen by its keys."""
        at = self._session.table(table).at(version)
        state = at.state
        totals, leaves = state.files.by_partition(), state.tree.leaves
        named = {
            leaf.id: f"{leaf.region.text(state.schema)} · {counted(totals.get(leaf.id, Totals()).rows, 'row')}"
            for leaf in leaves
        }
        top, drawn = drawn_leaves(state.tree)
        return Ranges(named, top, tuple(leaf.id for leaf in drawn))

    def has_leaf(self, table: str, version: int, partition_id: str) -> bool:
        """Return whether a version has a leaf partition of that id."""
        tree = self._session.table(table).at(version).partitions
        return partition_id in tree and tree[partition_id].is_leaf

    def rows_of(self, table: str, version: int, partition_id: str) -> Preview:
        """Return the first rows of one leaf."""
        found = self._session.table(table)
        at = found.at(version)
        region = write_region(at.schema, at.partitions[partition_id].region)
        asked = f" --region {_word(region)}" if region else ""
        return _shown(f"%sleeper scan {found.name}@{version}{asked}", at.scan(region=region or None).grid())

    def statement(self, table: str, version: int) -> str:
        """Return the query to begin with: the first rows of a version."""
        name = self.name(table)
        name = name if _PLAIN.fullmatch(name) else quote_name(name, dialect="duckdb")
        return f"SELECT * FROM {name} VERSION AS OF {version} LIMIT {SHOWN_ROWS}"  # noqa: S608 - the user's to run

    def sql(self, statement: str, table: str, version: int) -> Preview:
        """Return the first rows of a query, which DuckDB answers.

        Where the query names `table` without a version, it reads `version`.

        Raises
        ------
        InvalidInput
            When it is no query: what makes a view, writes a file or changes a setting is refused, before it is run.
        """
        statement = _at_version(statement, table, version)
        return _shown(sql_line(statement), self._session.sql(statement, engine="duckdb", dry_run=True).grid())

    def timeline(self, table: str, version: int, before: int | None = None) -> str:
        """Return the rows over all versions as a picture that points one out, and one that it is compared with."""
        found = self._session.table(table)
        kept = self._retained(found)
        return timeline(kept.snapshots, kept.savepoints, version, before, name=found.name)

    def _retained(self, table: Table) -> Retained:
        return retained(self._session.components.catalog, table.entry.id)

    def difference(self, table: str, before: int, after: int) -> Preview:
        """Return what changed between two versions; where much would have to be read for it, only how to ask."""
        found = self._session.table(table)
        line = f"%sleeper diff {found.name} {before} {after}"
        size = sum(files_of(found.at(number).state)[1] for number in {before, after})
        if size > COMPARED_BYTES:
            text = f"{cell_text(Bytes(size))} may have to be read to compare them"
            return Preview(line, f"<div>{text}</div>", text)
        return _shown(line, found.diff(before, after).grid())

    def static(self, table: str, version: int, *tab: Preview) -> Preview:
        """Return the picture that stays in a saved notebook: what a tab shows, or else partitions and first rows."""
        found = self._session.table(table)
        at = found.at(version)
        label = next(v.label for v in self.versions(table) if v.number == at.resolved.snapshot_id)
        head = f'<div style="margin-bottom:4px;"><b>{html.escape(found.name)}</b> · {html.escape(label)}</div>'
        files, count = files_of(at.state)[0], at.state.totals().rows
        if tab:
            shown = "".join(f"<pre>{html.escape(each.line)}</pre>{each.html}" for each in tab)
        else:
            footer = f"first {min(STATIC_ROWS, count)} of {count:,} rows"
            first = replace(at.scan(limit=STATIC_ROWS).grid(), footer=footer)
            shown = _shown("", first, partition_map(at)).html
        leaves = len(at.partitions.leaves)
        # The moment stays out of the text: two runs of one notebook are compared by it.
        what = ", ".join((counted(count, "row"), counted(files, "file"), counted(leaves, "partition")))
        return Preview(f"%sleeper explore {found.name}", head + shown, f"{found.name} at {at.resolved}: {what}")


def _at_version(statement: str, table: str, version: int) -> str:
    """Return a statement that reads a table at a version wherever it names the table without one."""
    for reference in reversed(table_references(statement, dialect="duckdb")):
        name = reference.name.partition(MARK)[0]
        if name.casefold() == table.casefold() and reference.clause is None and reference.role == "read":
            end = reference.end
            statement = f"{statement[:end]} VERSION AS OF {version}{statement[end:]}"
    return statement


def sql_line(statement: str) -> str:
    """Return the cell that runs a statement as the explorer does."""
    return f"%%sleeper sql --engine duckdb\n{statement.strip()}"


def _shown(line: str, grid: Grid, picture: str = "") -> Preview:
    grid = bounded(grid, MAX_BYTES - len(picture.encode()))
    return Preview(line, f"{_SCROLL}{grid.html()}</div>", grid.text(), picture)


def _word(text: str) -> str:
    """Return a text as one word of a magic line."""
    return shlex.quote(text) if '"' in text or "\\" in text else f'"{text}"'
