"""The model of the explorer and the timeline: tables that stay open, their versions, and a preview of each tab.

A move of the slider asks the catalog for one version and reads its metadata once; a click on a tab reads no metadata.
Each asks the catalog whether the table is still there, and is opened again by Refresh. No widget is needed here.
"""

from __future__ import annotations

import html
import logging
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from sleeper_nb.display.partition_picture import drawn_leaves, partition_map
from sleeper_nb.display.preview import MAX_BYTES, bounded_with_html
from sleeper_nb.display.timeline_picture import change_text, timeline
from sleeper_nb.errors import InvalidInput
from sleeper_nb.last_used import LastUsed
from sleeper_nb.model.file_reference import Totals
from sleeper_nb.model.partitions import write_region
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.public_types import QueryResult
from sleeper_nb.report import counted, notes_line, report_for
from sleeper_nb.sql_text import with_version
from sleeper_nb.widgets.row_grid_model import FIRST_COLUMNS, GridPage, RowGridModel

if TYPE_CHECKING:
    from sleeper_nb.model.savepoints import RetainedVersions
    from sleeper_nb.model.state import TableState
    from sleeper_nb.report import Grid
    from sleeper_nb.session import Session
    from sleeper_nb.table import Table
    from sleeper_nb.table_at import TableAt

logger = logging.getLogger(__name__)

Tab = Literal["schema", "rows", "partitions", "files", "history", "savepoints", "sql"]
TABS: tuple[Tab, ...] = ("schema", "rows", "partitions", "files", "history", "savepoints", "sql")
SHOWN_ROWS, STATIC_ROWS = 20, 5
PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""Names that SQL takes without quotes."""
_HELD_VERSIONS = 2
"""The timeline compares two."""
_SCROLL = '<div style="overflow-x:auto;margin-top:4px;">'


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """A version that can be selected.

    Parameters
    ----------
    number
        Of its snapshot.
    committed
        When, UTC.
    change
        What its commit did, in a few words; empty when the snapshot has expired and only a savepoint holds it.
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
        The equivalent command.
    listing, text
        The answer, as HTML and as text.
    picture
        Shown above the listing, as HTML.
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
class SqlAnswer:
    """The answer of a statement.

    Parameters
    ----------
    preview
        The first rows of a query; what another statement would do.
    result
        All rows of a query, for a chart; None of another statement.
    """

    preview: Preview
    result: QueryResult | None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a query; none of another statement."""
        return () if self.result is None else self.result.names


@dataclass(frozen=True, slots=True)
class Ranges:
    """The key ranges that can be selected at a version.

    Parameters
    ----------
    named
        The label of each leaf, its keys and rows, by its id.
    top, drawn
        Where the picture shows the leaves (`drawn_leaves`), and the id of the first in each box.
    """

    named: Mapping[str, str]
    top: int
    drawn: tuple[str, ...]


class ExploreModel:
    """Opens tables of a session for the explorer and the timeline; it reads in process and never starts Spark."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def tables(self) -> tuple[str, ...]:
        """Return the names of all tables."""
        return self._session.table_names()

    def has_table(self, name: str) -> bool:
        """Return whether a table of that name exists now."""
        return name in self._session.table_names()

    def open(self, name: str) -> ShownTable:
        """Open a table: its entry in the catalog and its properties are read now; `NotFound` names the nearest."""
        return ShownTable(self._session, self._session.table(name))

    def reopened_if_changed(self, opened: ShownTable) -> ShownTable:
        """Return an opened table while its entry in the catalog is the same; otherwise open its name again.

        This costs one request to the catalog. The entry changes when the table is renamed, deleted or created again,
        goes on- or offline, or gets other properties.

        Raises
        ------
        NotFound
            When no table has that name any more.
        """
        if not opened.table.inspect.has_changed():
            return opened
        logger.debug("table %s changed in the catalog; a widget opens it again", opened.name)
        return self.open(opened.name)


class ShownTable:
    """A table that a widget holds open: its versions as they were listed last, and the last two that were opened.

    Parameters
    ----------
    session
        Runs queries.
    table
        As it was opened; its properties are not read again.

    Attributes
    ----------
    name
        The table's name.
    versions
        What can be chosen, oldest first: the snapshots, and the versions that only savepoints still hold.
    labels
        The label of each of them, by its number.
    """

    versions: tuple[ListedVersion, ...]
    labels: Mapping[int, str]

    def __init__(self, session: Session, table: Table) -> None:
        self._session, self.table, self.name = session, table, table.name
        self._opened = LastUsed[int, ShownVersion](_HELD_VERSIONS)
        self.list_versions()

    def list_versions(self) -> None:
        """Ask the catalog again for the versions that can be chosen."""
        self._retained = self.table.inspect.versions()
        self.versions = _listed(self._retained)
        self.labels = {version.number: version.label for version in self.versions}

    def list_if_unlisted(self, *numbers: int) -> None:
        """Ask the catalog again when one of some versions was committed after the last list."""
        if not self.labels.keys() >= set(numbers):
            self.list_versions()

    def at(self, version: int | str) -> ShownVersion:
        """Open the version that ``12`` or ``"savepoint.half-year"`` names; one that has expired is `NotFound`."""
        number = version if isinstance(version, int) else self.table.at(version).resolved.snapshot_id
        at = self.table.at(number)
        held = self._opened.get(number)
        if held is None or held.resolved != at.resolved:
            held = ShownVersion(self.table, at, number, RowGridModel(at))
        return self._opened.put(number, held)

    def opened(self, number: int) -> ShownVersion:
        """Return a version as it was opened last; it is opened if it is not held any more."""
        return self._opened.get(number) or self.at(number)

    def held_rows(self, number: int) -> RowGridModel | None:
        """Return what answers the grid of rows of a version that is held open; None for another."""
        held = self._opened.get(number)
        return None if held is None else held.row_grid

    def timeline(self, version: int, before: int | None = None) -> str:
        """Return a picture of the rows over all listed versions.

        It points out one version, and one that it is compared with.
        """
        return timeline(self._retained.snapshots, self._retained.savepoints, version, before, name=self.name)

    def sql(self, statement: str, number: int) -> SqlAnswer:
        """Return the answer of a query, which DuckDB answers, or the plan of a statement that changes tables.

        Every table is opened for it. Where the statement reads this table without a version, it reads the version
        `number`.

        Raises
        ------
        InvalidInput
            When the statement is neither: a view, a written file or a changed setting is refused before anything runs.
        """
        statement = with_version(statement, self.name, number)
        result = self._session.sql(statement, engine="duckdb", data={}, dry_run=True)
        if isinstance(result, QueryResult):
            return SqlAnswer(_shown(sql_line(statement), result.grid()), result)
        plan = report_for(result, "%sleeper").grid()
        return SqlAnswer(_shown(sql_line(statement, "--dry-run"), plan), None)

    def static(self, number: int, *tab: Preview, page: GridPage | None = None) -> Preview:
        """Return the picture that stays in a saved notebook: a tab's content, or partitions and first rows.

        With the first page of the grid, these are not read again.
        """
        opened = self.opened(number)
        self.list_if_unlisted(number)
        label = html.escape(self.labels[number])
        head = f'<div style="margin-bottom:4px;"><b>{html.escape(self.name)}</b> · {label}</div>'
        if tab:
            lines = (f"<pre>{html.escape(each.line)}</pre>" if each.line else "" for each in tab)
            body = "".join(line + each.html for line, each in zip(lines, tab, strict=True))
        else:
            body = opened.first_rows_below_partitions(page).html
        # The moment stays out of the text: two runs of one notebook are compared by it.
        return Preview(f"%sleeper explore {self.name}", head + body, opened.summary)


class ShownVersion:
    """One version of a table that a widget holds open; its metadata is read once.

    Parameters
    ----------
    table
        Lists what is not of one version: snapshots and savepoints.
    at
        The version.
    number
        Of its snapshot.
    row_grid
        Answers what the grid of rows asks.

    Attributes
    ----------
    at, resolved
        The version, and its entry in the catalog.
    """

    def __init__(self, table: Table, at: TableAt, number: int, row_grid: RowGridModel) -> None:
        self._table, self.at, self.resolved, self.number = table, at, at.resolved, number
        self.row_grid = row_grid

    @cached_property
    def state(self) -> TableState:
        """The partitions and file references of the version."""
        return self.at.state

    @property
    def bytes(self) -> int:
        """The size of the files of the version."""
        return self.state.files.data_totals.bytes

    @property
    def summary(self) -> str:
        """``flights at snapshot 4: 180 rows, 9 files, 3 partitions``."""
        state = self.state
        files, rows, leaves = state.files.data_totals.files, state.totals().rows, len(state.tree.leaves)
        counts = ", ".join((counted(rows, "row"), counted(files, "file"), counted(leaves, "partition")))
        return f"{self.at.name} at {self.resolved}: {counts}"

    @property
    def statement(self) -> str:
        """The query that the SQL tab begins with: the first rows of the version."""
        name = self.at.name
        name = name if PLAIN_NAME.fullmatch(name) else quoted_name(name)
        return f"SELECT * FROM {name} VERSION AS OF {self.number} LIMIT {SHOWN_ROWS}"  # noqa: S608 - the user's to run

    def preview(self, tab: Tab) -> Preview:
        """Return what a tab shows of the version; `InvalidInput` when there is no such tab."""
        name, at = self.at.name, self.at
        reference = f"{name}@{self.number}"
        match tab:
            case "schema":
                return _shown(f"%sleeper describe {reference} --fields", at.inspect.fields().grid())
            case "rows":
                return _shown(f"%sleeper scan {reference}", at.scan().grid())
            case "partitions":
                leaves = at.inspect.partitions()
                return _shown(f"%sleeper partitions {reference}", leaves.grid(), leaves.picture)
            case "files":
                files = at.inspect.files()
                return _shown(f"%sleeper files {reference}", files.grid(), files.picture)
            case "history":
                return _shown(f"%sleeper history {name}", self._table.history().grid())
            case "savepoints":
                return _shown(f"%sleeper savepoints {name}", self._table.savepoints().grid())
            case "sql":
                return Preview(sql_line(self.statement), "", "not run yet")
        raise InvalidInput(f"no tab {tab!r}", hint=f"the tabs are {', '.join(TABS)}")

    def rows(self, page: GridPage) -> Preview:
        """Return a page of the grid of rows as a preview."""
        line = f"%sleeper scan {self.at.name}@{self.number}" if page.query.is_first else page.line
        return _shown(line, page.grid())

    def ranges(self) -> Ranges:
        """Return the leaves of the version, each with its keys as its label."""
        state = self.state
        totals, leaves = state.files.by_partition(), state.tree.leaves
        named = {
            leaf.id: f"{leaf.region.text(state.schema)} · {counted(totals.get(leaf.id, Totals()).rows, 'row')}"
            for leaf in leaves
        }
        top, drawn = drawn_leaves(state.tree)
        return Ranges(named, top, tuple(leaf.id for leaf in drawn))

    def has_leaf(self, partition_id: str) -> bool:
        """Return whether the version has a leaf partition of that id."""
        tree = self.state.tree
        return partition_id in tree and tree[partition_id].is_leaf

    def rows_of(self, partition_id: str) -> Preview:
        """Return the first rows of one leaf."""
        state = self.state
        region = write_region(state.schema, state.tree[partition_id].region)
        option = f" --region {_word(region)}" if region else ""
        grid = self.at.scan(region=region or None).grid()
        return _shown(f"%sleeper scan {self.at.name}@{self.number}{option}", grid)

    def first_rows_below_partitions(self, page: GridPage | None = None) -> Preview:
        """Return the partitions as a picture, and below it a few rows: of a page of the first columns, or read now."""
        names = self.at.schema.names
        first, rows = names[:FIRST_COLUMNS], self.state.totals().rows
        is_page = page is not None and tuple(page.rows.column_names) == first
        shown = page.grid() if page is not None and is_page else self.at.scan(first, limit=STATIC_ROWS).grid()
        columns = f"{len(first)} of {len(names):,} columns" if len(first) < len(names) else ""
        footer = notes_line(f"first {min(STATIC_ROWS, rows)} of {rows:,} rows", columns)
        return _shown("", replace(shown, rows=shown.rows[:STATIC_ROWS], footer=footer), partition_map(self.at))


def _listed(found: RetainedVersions) -> tuple[ListedVersion, ...]:
    """Return the versions of a table, oldest first, each with the savepoints that hold it."""
    names: dict[int, tuple[str, ...]] = {}
    for point in found.savepoints:
        names[point.saved_snapshot_id] = (*names.get(point.saved_snapshot_id, ()), point.name or str(point.id))
    versions = {
        point.saved_snapshot_id: ListedVersion(
            point.saved_snapshot_id, point.snapshot_time, "", point.record_count, names[point.saved_snapshot_id]
        )
        for point in found.savepoints
    }
    for s in found.snapshots:
        versions[s.id] = ListedVersion(s.id, s.time, change_text(s), s.rows, names.get(s.id, ()))
    return tuple(versions[number] for number in sorted(versions))


def sql_line(statement: str, options: str = "") -> str:
    """Return the cell that runs a statement as the explorer does, with more options."""
    return f"{f'%%sleeper sql --engine duckdb {options}'.rstrip()}\n{statement.strip()}"


def _shown(line: str, grid: Grid, picture: str = "") -> Preview:
    """Return a grid below a picture as what a tab shows, small enough to be saved."""
    grid, listing = bounded_with_html(grid, MAX_BYTES - len(picture.encode()))
    return Preview(line, f"{_SCROLL}{listing}</div>", grid.text(), picture)


def _word(text: str) -> str:
    return shlex.quote(text) if '"' in text or "\\" in text else f'"{text}"'
