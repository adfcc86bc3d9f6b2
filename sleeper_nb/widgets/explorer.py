"""The explorer as ipywidgets: tables on the left, versions and tabs on the right, each with its equivalent command."""

from __future__ import annotations

import html
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ipywidgets
import traitlets

from sleeper_nb.display.partition_picture import LEAF
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.progress import Watch
from sleeper_nb.widgets.explorer_model import (
    TABS,
    ExploreModel,
    ListedVersion,
    Preview,
    Ranges,
    ShownTable,
    ShownVersion,
    Tab,
    sql_line,
)
from sleeper_nb.widgets.latest_work import Background, LatestWork, run_in_thread
from sleeper_nb.widgets.live import (
    FilteredList,
    LiveWidget,
    alert,
    along,
    button,
    same_as,
    steps,
)
from sleeper_nb.widgets.row_grid import RowGrid
from sleeper_nb.widgets.row_grid_model import GridPage, RowGridModel
from sleeper_nb.widgets.row_grid_query import GridQuery
from sleeper_nb.widgets.sql_model import ChartChoice, DrawnChart, SqlModel
from sleeper_nb.widgets.sql_page import SqlPage
from sleeper_nb.widgets.table_search import TableSearch

if TYPE_CHECKING:
    from sleeper_nb.display.chart import Chart
    from sleeper_nb.session import Session


_FEW_TABLES = 3
_NONE = ("none: choose one to see its rows", "")


class PartitionsPage(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """The tab for partitions: a picture and a list of key ranges. Select a range, in either, to see its rows.

    Parameters
    ----------
    chosen
        Called with each selection: the id of a leaf, empty for none.
    without_events
        A context in which selections are not reported.
    """

    def __init__(
        self, chosen: Callable[[Any], None], without_events: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._line, self._picture, self._rows, self._listing = (ipywidgets.HTML() for _ in range(4))
        # The keyboard uses the list and its buttons: there may be too many leaves to tab through.
        self._boxes = ipywidgets.HBox()
        self._ranges = FilteredList("Range of keys", "range", chosen, without_events, 7, (_NONE,))
        self._list = self._ranges.list
        map_ = ipywidgets.VBox([self._picture, self._boxes])
        super().__init__([self._line, map_, self._ranges, self._rows, self._listing])
        for widget, name in ((map_, "map"), (self._boxes, "leaves"), (self._rows, "found")):
            widget.add_class(f"sleeper-{name}")
        self._shown: Ranges | None = None

    def show(self, shown: Preview, ranges: Ranges | None, chosen: str, rows: Preview | None) -> None:
        """Show the partitions and the rows of the selected one; without ranges, show neither."""
        self._listing.value, self._picture.value = shown.listing, shown.picture
        line = same_as(rows.line) if rows is not None and rows.line else ""
        self._rows.value = "" if rows is None else f'{line}<div role="status">{rows.html}</div>'
        if self._shown != ranges:
            self._shown = ranges
            self._boxes.children = () if ranges is None else self._made(ranges)
        named = {} if ranges is None else ranges.named
        options = tuple((words, name) for name, words in named.items())
        self._ranges.show(options, chosen if chosen in named else "")
        self._line.value = same_as(shown.line) if shown.line else ""  # last: it says of which version all this is

    def _made(self, ranges: Ranges) -> tuple[ipywidgets.Button, ...]:
        """Return a button over each box of the picture; it selects the leaf, or the first of a group of leaves."""
        self._boxes.layout = {"top": f"{ranges.top}px", "height": f"{LEAF}px"}
        boxes = []
        for name in ranges.drawn:
            box = ipywidgets.Button(tooltip=f"rows of {ranges.named[name]}", tabbable=False)
            box.on_click(lambda _, name=name: self._ranges.pick(name))
            boxes.append(box)
        return tuple(boxes)


class RowsPage(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """The tab for rows: the equivalent command, and the grid.

    Parameters
    ----------
    attempt
        Runs an action and shows its error.
    changed
        Called with the query that a user's action leads to.
    """

    def __init__(self, attempt: Callable[[Callable[[], None]], None], changed: Callable[[GridQuery], None]) -> None:
        self._line, self._source, self.grid = ipywidgets.HTML(), ipywidgets.HTML(), RowGrid(attempt, changed)
        super().__init__()
        self.add_class("sleeper-rows")

    def show(self, line: str, model: RowGridModel, page: GridPage) -> None:
        """Show a page of a version, and its command."""
        self.grid.show(model, page)
        self._line.value, self._source.value = same_as(line), html.escape(page.source)  # last: of the rows shown now
        self._set_parts(self._line, self.grid, self._source)

    def show_failure(self, model: RowGridModel | None) -> None:
        """Show no command; and no rows, unless they are of the version that could not be read now."""
        if model is None or self.grid.page_of(model) is None:
            self._set_parts()

    def _set_parts(self, *parts: ipywidgets.Widget) -> None:
        self.set_trait("children", parts)


_NOTHING = Preview("", "", "")
_EMPTY = Preview(
    "%sleeper create --form",
    f"{same_as('%sleeper create --form', 'There is no table yet. A form makes one:')}"
    f"{same_as('%%sleeper create NAME', 'and so does a cell:')}",
    "There is no table yet.",
)


class Explorer(LiveWidget):
    """The tables of a session at any of their versions; made by `sleeper_nb.widgets.explore`.

    Parameters
    ----------
    session
        The session whose tables are shown. Everything is read in process: Spark is never started.
    table
        The table to begin with, at its newest version; the first by name when None.
    background
        Runs a function in the background: the schemas of all tables are read once one searches in them.

    Attributes
    ----------
    table
        The name of the table that is shown; empty when there is none yet.
    version
        The number of the version that is shown; can be set to ``12`` or to ``"savepoint.half-year"``.
    tab
        ``"schema"``, ``"rows"``, ``"partitions"``, ``"files"``, ``"history"``, ``"savepoints"`` or ``"sql"``.
    preview
        What is shown; its ``line`` is the equivalent command.
    rows
        Which rows the rows tab shows: their order, filters, search and page, a `GridQuery`.
    partition
        The id of the leaf partition whose rows are shown; empty for none.
    partition_rows
        The rows of that partition, as a `Preview`; None for none.
    statement
        The query of the SQL tab; `run` runs it.
    plot
        Which chart of its answer is drawn, a `ChartChoice`.
    """

    table = traitlets.Unicode()
    version = traitlets.Any()
    tab = traitlets.Unicode("rows")
    preview = traitlets.Instance(Preview, (_EMPTY.line, _EMPTY.html, _EMPTY.text))
    rows = traitlets.Instance(GridQuery, ())
    partition = traitlets.Unicode()
    partition_rows = traitlets.Instance(Preview, allow_none=True)
    statement = traitlets.Unicode()
    plot = traitlets.Instance(ChartChoice, ())

    def __init__(self, session: Session, table: str | None = None, *, background: Background = run_in_thread) -> None:
        self._model, self._queries = ExploreModel(session), SqlModel(session)
        self._drawn: DrawnChart | None = None
        self._opened: ShownTable | None = None
        self._travel_shown: tuple[tuple[ListedVersion, ...], int] | None = None
        self._suggested = ""
        self._search, self._work = TableSearch(session), LatestWork(background)
        self._choice = FilteredList(
            "Tables", "table", self._setter("table"), self._without_events, 12,
            reason=self._search.reason, least=_FEW_TABLES, hint="name, column, key or comment",
        )  # fmt: skip
        self._picker = self._choice.list
        self._again = button("Refresh", "Look for new tables and versions")
        self._picture, self._label, self._error = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
        self._slider = ipywidgets.SelectionSlider(options=[("", 0)], continuous_update=False, readout=False)
        self._chosen = ipywidgets.HBox([steps("version", along(self._slider), icons=True), self._label])
        self._travel = ipywidgets.VBox()
        self._partitions, self._sql = (
            PartitionsPage(self._setter("partition"), self._without_events),
            SqlPage(
                self._queries, self._attempt, self._type, self._run_typed, self._setter("plot"), self._without_events
            ),
        )
        self._rows = RowsPage(self._attempt, lambda query: setattr(self, "rows", query))
        own: dict[Tab, ipywidgets.Widget] = {"rows": self._rows, "partitions": self._partitions, "sql": self._sql}
        self._pages = tuple(own.get(tab) or ipywidgets.HTML() for tab in TABS)
        titles = ["SQL" if tab == "sql" else tab.capitalize() for tab in TABS]
        self._tabs = ipywidgets.Tab(self._pages, titles=titles, selected_index=TABS.index(self.tab))
        left, self._empty = ipywidgets.VBox([self._choice, self._again]), ipywidgets.HTML(_EMPTY.html)
        self._right = ipywidgets.VBox()
        halves = ipywidgets.HBox([left, self._right])
        super().__init__(halves)
        parts = {"explorer": self, "halves": halves, "tables": left, "chosen": self._right, "preview": self._tabs}
        parts |= {"travel": self._travel, "version": self._label}
        for name, widget in parts.items():
            widget.add_class(f"sleeper-{name}")
        self._slider.observe(self._setter("version"), "value")
        self._tabs.observe(self._setter("tab", TABS.__getitem__), "selected_index")
        self._again.on_click(lambda _: self._attempt(self.refresh))
        self._choice.filter.observe(self._search_tables, "value")
        self.observe(self._to_newest, "table")
        self.observe(lambda _: self._show(), ["version", "tab"])
        self.observe(lambda _: None if self._syncing else self._show(), ["rows", "partition", "statement"])
        self.observe(lambda _: None if self._syncing else self._show_answer(), "plot")
        self._names = self._model.tables()
        if table is not None or self._names:
            self.table = table or self._names[0]
        else:
            self._show()

    def __repr__(self) -> str:
        return f"Explorer(table={self.table!r}, version={self.version!r})"

    def refresh(self) -> None:
        """Open the table again and look for new tables and versions.

        A widget at the newest version moves on to the new one; an older version stays while it is retained.
        """
        self._names = self._model.tables()
        if self.table not in self._names:
            self.table = next(iter(self._names), "")
            return
        was_newest = self._opened is None or self.version == max(self._opened.labels)
        self._opened = self._model.open(self.table)
        newest = max(self._opened.labels)
        if self.version != newest and (was_newest or self.version not in self._opened.labels):
            self.version = newest
        else:
            self._show()

    def _search_tables(self, change: Any) -> None:
        """Read the schemas when a search begins; tables whose names match are listed at once."""
        if change["old"] or not change["new"]:
            return

        def read(watch: Watch) -> None:
            try:
                self._search.read(watch)
            finally:
                with self._one_at_a_time:
                    self._choice.narrow()

        self._work.start(read)

    def run(self) -> None:
        """Run the statement of the SQL tab, and show its first rows and its chart, or its error."""
        self.tab, self._error.value = "sql", ""
        statement, version, opened = self.statement, self.version, self._open_table
        ask = lambda: self._queries.run(statement, lambda: opened().sql(statement, version))  # noqa: E731
        self.preview = _answer(sql_line(statement), ask)
        self._show_answer()

    @property
    def chart(self) -> Chart | None:
        """The chart that the SQL tab shows; None when it shows none."""
        return None if self._drawn is None else self._drawn.chart

    def _type(self, text: str) -> None:
        """Keep what is being typed; the answer stays until the next one."""
        with self._without_events():
            self.statement = text

    def _run_typed(self, text: str) -> None:
        self._type(text)
        self.run()

    def _show_answer(self) -> None:
        answer, failure, self._drawn = self._queries.answer, "", None
        if answer is not None and answer.result is not None:
            with self._without_events():
                self.plot = self.plot.within(answer.columns)
            try:
                chart = self.plot.drawn(answer)
                self._drawn = None if chart is None else DrawnChart.of(chart)
            except Exception as error:  # noqa: BLE001 - the error is shown, and other columns can be chosen
                failure = alert(error)
            statement = answer.preview.line.partition("\n")[2]
            self.preview = replace(answer.preview, line=sql_line(statement, self.plot.options))
        with self._without_events():
            self._sql.show(self.statement, self.preview, self.plot, self._drawn, failure)

    def _static(self) -> Preview | None:
        if not self.table:
            return None
        rows = (self.partition_rows,) if self.tab == "partitions" and self.partition_rows is not None else ()
        opened = self._open_table()
        if self.tab == "rows" and self.rows.is_first:
            page = self._rows.grid.page_of(opened.opened(self.version).row_grid)
            return opened.static(self.version, page=page)
        chart = (self._drawn.preview,) if self.tab == "sql" and self._drawn is not None else ()
        return opened.static(self.version, self.preview, *chart, *rows)

    def _show_error(self, error: str) -> None:
        self._error.value = error

    def _explained(self, error: Exception) -> Exception:
        if not isinstance(error, NotFound):
            return error
        names = self._model.tables()
        if self.table in ("", *names):
            is_old = not set(self._names) <= set(names)
            again = "press Refresh: a table of the list was renamed or deleted"
            return NotFound(error.message, hint=(*error.hint_parts, "; ", again)) if is_old else error
        self._travel.children = ()
        self.preview = _NOTHING
        self._show_page(_NOTHING)
        return NotFound(f"no table {self.table!r} any more: it was renamed or deleted", hint="press Refresh")

    @traitlets.validate("table")  # type: ignore[untyped-decorator]  # traitlets has no types here
    def _check_table(self, proposal: Any) -> str:
        self._opened = self._model.open(proposal["value"]) if proposal["value"] else None
        return "" if self._opened is None else self._opened.name

    @traitlets.validate("version")  # type: ignore[untyped-decorator]
    def _check_version(self, proposal: Any) -> int | None:
        return self._open_table().at(proposal["value"]).number if self.table else None

    @traitlets.validate("partition")  # type: ignore[untyped-decorator]
    def _check_partition(self, proposal: Any) -> str:
        partition_id = proposal["value"]
        if partition_id and not (self.table and self._open_version().has_leaf(partition_id)):
            hint = f"%sleeper partitions {self.table}@{self.version} lists them"
            raise NotFound(f"no leaf partition {partition_id!r}", hint=hint)
        return str(partition_id)

    @traitlets.validate("rows")  # type: ignore[untyped-decorator]
    def _check_rows(self, proposal: Any) -> GridQuery:
        query: GridQuery = proposal["value"]
        is_ours = self._syncing or not self.table
        return query if is_ours else query.checked_for(self._open_version().row_grid.schema)

    @traitlets.validate("plot")  # type: ignore[untyped-decorator]
    def _check_plot(self, proposal: Any) -> ChartChoice:
        choice: ChartChoice = proposal["value"]
        return choice.checked()

    @traitlets.validate("tab")  # type: ignore[untyped-decorator]
    def _check_tab(self, proposal: Any) -> str:
        if proposal["value"] not in TABS:
            raise InvalidInput(f"no tab {proposal['value']!r}", hint=f"the tabs are {', '.join(TABS)}")
        return str(proposal["value"])

    def _to_newest(self, _: Any) -> None:
        with self._without_events():
            self.rows = GridQuery()
        newest = None if self._opened is None else max(self._opened.labels)
        if self.version == newest:
            self._show()  # the other table has a version of that number too, so its observer is not called
        else:
            self.version = newest

    def _show(self) -> None:
        self._error.value = ""
        try:
            self._fill()
        except Exception as error:  # noqa: BLE001 - the error is shown, and another version can be selected
            explained = self._explained(error)
            self._error.value = alert(explained)
            self._show_page(_NOTHING)
            self.preview = Preview("", self._error.value, str(explained))

    def _fill(self) -> None:
        """Set the controls and fill the open tab; the others are filled when they are opened."""
        if not self.table:
            self._set_controls()
            self.preview = _EMPTY
        else:
            opened = self._opened = self._model.reopened_if_changed(self._open_table())
            version = opened.opened(self.version)
            opened.list_if_unlisted(version.number)
            self._set_controls()
            self._show_travel(opened)
            self._follow(version)
            if self.tab == "rows":
                self._show_rows(version)
                return
            is_sql = self.tab == "sql"
            self.preview = Preview(sql_line(self.statement), "", "not run yet") if is_sql else version.preview(self.tab)
        self._show_page(self.preview)

    def _show_rows(self, version: ShownVersion) -> None:
        model, grid = version.row_grid, self._rows.grid
        try:
            page = model.page(self.rows)
        except Exception:
            with self._without_events():
                shown = grid.page_of(model)  # the rows that are still there
                self.rows = self.rows if shown is None else shown.query
            raise
        self.preview = version.rows(page)
        with self._without_events():
            self.rows = replace(page.query, columns=self.rows.columns)
            self._rows.show(self.preview.line, model, page)

    def _open_table(self) -> ShownTable:
        """Return the table that is open; it is opened again when the last attempt failed."""
        if self._opened is None:
            self._opened = self._model.open(self.table)
        return self._opened

    def _open_version(self) -> ShownVersion:
        return self._open_table().opened(self.version)

    def _show_travel(self, opened: ShownTable) -> None:
        """Draw the versions above the slider, unless they are drawn already with this one pointed out."""
        if self._travel_shown != (opened.versions, self.version):
            self._picture.value = opened.timeline(self.version)
            self._label.value = f'<b role="status">{html.escape(opened.labels[self.version])}</b>'
            self._travel_shown = opened.versions, self.version

    def _follow(self, version: ShownVersion) -> None:
        """Drop a partition that the version does not have, and a suggested statement of another version."""
        with self._without_events():
            self.rows = self.rows.within(version.row_grid.schema)
            if self.partition and not version.has_leaf(self.partition):
                self.partition = ""
            if self.statement == self._suggested:
                self.statement = self._suggested = version.statement

    def _show_page(self, shown: Preview) -> None:
        page = self._pages[TABS.index(self.tab)]
        with self._without_events():
            if page is self._rows:
                opened = self._opened
                self._rows.show_failure(None if opened is None else opened.held_rows(self.version))
            elif page is self._sql:
                self._queries.answer = self._drawn = None
                self._sql.show(self.statement, shown, self.plot, None, "")
            elif page is self._partitions:
                self._show_partitions(shown)
            else:
                page.value = f"{same_as(shown.line)}{shown.html}" if shown.line else ""

    def _show_partitions(self, shown: Preview) -> None:
        ranges = self._open_version().ranges() if self.table and shown.line else None
        rows = None
        if ranges and self.partition:
            rows = _answer("", lambda: self._open_version().rows_of(self.partition))
        self.partition_rows = rows
        self._partitions.show(shown, ranges, self.partition, rows)

    def _set_controls(self) -> None:
        with self._without_events():
            if self.table and self.table not in self._names:
                self._names = self._model.tables()
            self._choice.show(tuple((name, name) for name in self._names), self.table or None)
            shown = (self._travel, self._error, self._tabs) if self.table else (self._error, self._empty)
            self._right.children = shown
            self._tabs.selected_index = TABS.index(self.tab)
            labels = {} if self._opened is None else self._opened.labels
            stops = tuple((label, number) for number, label in labels.items())
            if len(stops) < 2:  # the front-end cannot draw a slider with a single stop
                self._travel.children = (self._label,) if stops else ()
                return
            if self._slider.options != stops:
                self._slider.options = stops
                # Its handle stands below the bar of its version, whose middle is half a bar from the edge.
                self._slider.layout = {"width": f"calc({100 - 100 / len(stops):.3f}% + 10px)", "margin": "0 auto"}
            if self.version in labels:
                self._slider.value = self.version
            self._travel.children = (self._picture, self._slider, self._chosen)


def _answer(line: str, ask: Callable[[], Preview]) -> Preview:
    """Return what a function returns; an error is returned as a preview that shows it."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - every error is shown to the user
        return Preview(line, alert(error), str(error))
