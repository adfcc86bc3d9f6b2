"""The explorer: the tables of a session at any of their versions, drawn by the front end and answered from here."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from sleeper_nb.progress import Watch
from sleeper_nb.sql_text import KEYWORDS
from sleeper_nb.widgets import explorer_picture as pictures
from sleeper_nb.widgets.action_answers import ActionAnswers
from sleeper_nb.widgets.asked_widget import AskedWidget, request_key, start_of
from sleeper_nb.widgets.change_answers import ChangeAnswers
from sleeper_nb.widgets.explorer_answers import ExplorerAnswers, Notebook, query_of
from sleeper_nb.widgets.keyspace_answers import KeySpaceAnswers
from sleeper_nb.widgets.open_tables import OpenTables
from sleeper_nb.widgets.request_lanes import Background, Method, answered, failure_of, run_in_thread
from sleeper_nb.widgets.sql_answers import SqlAnswers
from sleeper_nb.widgets.static_picture import StaticPicture, failure_picture

if TYPE_CHECKING:
    from sleeper_nb.model.schema import Schema
    from sleeper_nb.public_types import QueryResult
    from sleeper_nb.session import Session

Tab: TypeAlias = Literal["rows", "changes", "schema", "partitions", "history", "sql"]
Filter: TypeAlias = Mapping[str, Any]
TABS: Final[tuple[Tab, ...]] = ("rows", "changes", "schema", "partitions", "history", "sql")
FIRST_ROWS: Final = 100
"""The rows of the first block, and their columns, as the grid asks for them first (``frontend/src/grid``)."""
FIRST_COLUMNS: Final = 40
_CREATE: Final = "%sleeper create --form"


class Explorer(AskedWidget):
    """The tables of a session at any of their versions; made by `sleeper_nb.widgets.explore`.

    Parameters
    ----------
    session
        The session whose tables are shown. Everything is read in process: Spark is never started.
    table, version
        The table and the version to begin with: the first table by name, and its newest version, when None.
    tab
        What to begin with; ``"changes"`` compares the version with the one before.
    only
        Whether no other table can be chosen.
    background
        Runs a function in the background; a test runs it itself.
    """

    def __init__(
        self,
        session: Session,
        table: str | None = None,
        version: int | str | None = None,
        *,
        tab: Tab = "rows",
        only: bool = False,
        background: Background = run_in_thread,
    ) -> None:
        self._tables, notebook = OpenTables(session), Notebook.here()
        self._own, self._sql = ExplorerAnswers(self._tables, notebook), SqlAnswers(self._tables)
        self._changes = ChangeAnswers(self._tables)
        self._newest = 0
        answers: dict[str, Any] = {}
        selection = self._first_selection(table, version, tab, answers)
        start = start_of("one table" if only else "explorer", answers, notebook, KEYWORDS)
        methods = _methods(notebook, self._own, self._changes, self._sql, self._tables)
        super().__init__(methods, start, selection, background)

    def __repr__(self) -> str:
        return f"Explorer(table={self.table!r}, version={self.version!r})"

    # What is selected: in step with the page

    @property
    def table(self) -> str:
        """The name of the table that is shown; empty when there is none. Setting it shows its newest version."""
        return str(self.selection["table"])

    @table.setter
    def table(self, name: str) -> None:
        table = self._tables.table(name)
        self._newest = self._newest_of(table.name)
        query = {"filters": [], "sorts": [], "search": ""}
        self._select(table=table.name, version=self._newest, before=None, query=query)

    @property
    def version(self) -> int:
        """The number of the version that is shown; it can be set to ``12`` or to ``"savepoint.half-year"``."""
        return int(self.selection["version"])

    @version.setter
    def version(self, version: int | str) -> None:
        number = self._tables.number(self.table, version)
        typed = [each for each in self.filters if not {"bars", "value"} & each.keys()]  # bars are those of one version
        self._select(version=number, query={**self.selection["query"], "filters": typed})

    @property
    def before(self) -> int | None:
        """The number of the version that it is compared with; None for none. It can be set as `version`."""
        number = self.selection["before"]
        return None if number is None else int(number)

    @before.setter
    def before(self, version: int | str | None) -> None:
        self._select(before=None if version is None else self._tables.number(self.table, version))

    @property
    def tab(self) -> Tab:
        """Which tab is open: ``"rows"``, ``"changes"``, ``"schema"``, ``"partitions"``, ``"history"`` or ``"sql"``."""
        tab: Tab = self.selection["tab"]
        return tab

    @tab.setter
    def tab(self, tab: Tab) -> None:
        if tab not in TABS:
            raise InvalidInput(f"no tab {tab!r}", hint=f"the tabs are {', '.join(TABS)}")
        self._select(tab=tab)

    @property
    def filters(self) -> tuple[Filter, ...]:
        """What rows must meet, all of it: ``{"column": "delay", "text": "> 60"}``; it can be set.

        ``{"column": "delay", "bars": [2, 4]}`` and ``{"column": "carrier", "value": 0}`` are bars of a column's header.
        """
        return tuple(self.selection["query"]["filters"])

    @filters.setter
    def filters(self, filters: Sequence[Filter]) -> None:
        query = {**self.selection["query"], "filters": [dict(each) for each in filters]}
        query_of(self._tables.rows(self.table, self.version), query, Watch())  # or it raises
        self._select(query=query)

    @property
    def where(self) -> str:
        """The filters and the search as one SQL condition; empty when all rows are shown."""
        if not self.table:
            return ""
        model = self._tables.rows(self.table, self.version)
        return model.where(query_of(model, self.selection["query"], Watch()))

    @property
    def statement(self) -> str:
        """The SQL that is typed on the SQL tab; it can be set."""
        return str(self.selection["statement"])

    @statement.setter
    def statement(self, statement: str) -> None:
        self._select(statement=statement)

    def rows(self) -> QueryResult:
        """Return the rows that the filters leave, in the order of the page, not read yet.

        Raises
        ------
        InvalidInput
            When there is no table.
        """
        if not self.table:
            raise InvalidInput("there is no table yet", hint=f"{_CREATE} makes one")
        model = self._tables.rows(self.table, self.version)
        statement = model.statement(query_of(model, self.selection["query"], Watch()))
        return self._tables.at(self.table, self.version).sql(statement)

    def refresh(self) -> None:
        """Look for new tables and versions; one that shows the newest version moves on to the new one."""
        self._tables.forget()
        was_newest, names = self.version == self._newest, self._tables.names()
        if self.table not in names:
            self._select(table="", version=0, before=None)
            if names:
                self.table = names[0]
        else:
            self._newest = self._newest_of(self.table)
            if was_newest:
                self._select(version=self._newest)
        self.send({"do": "refresh"})

    def close(self) -> None:
        """Remove the widget from the page, and stop what it reads."""
        super().close()
        self._sql.close()

    # The first frame, and what stays in the file

    def picture(self) -> StaticPicture:
        """Return what stays in a saved notebook; an error in place of what cannot be read now."""
        if not self.table:
            return pictures.empty_picture(_CREATE)
        try:
            table, at = self._tables.table(self.table), self._tables.at(self.table, self.version)
            if self.tab == "history":
                return pictures.history_picture(table, at)
            before = self.before if self.tab == "changes" else None
            return pictures.picture_of(table, at, before, self._content())
        except SleeperError as error:
            return failure_picture(failure_of(error))

    def _content(self) -> StaticPicture:
        at = self._tables.at(self.table, self.version)
        match self.tab:
            case "changes" if self.before is not None:
                asked = {"table": self.table, "before": self.before, "after": self.version, "asked": []}
                return pictures.changes_picture(at, answered(self._changes.changes(asked, Watch())))
            case "schema":
                return pictures.schema_picture(at)
            case "partitions":
                return pictures.partitions_picture(at)
            case "sql" if self.statement:
                return pictures.sql_picture(at, self.statement, self._sql.fetched())
        return pictures.rows_picture(at, self.rows() if self.where or self.selection["query"]["sorts"] else None)

    def _first_selection(
        self, table: str | None, version: int | str | None, tab: Tab, answers: dict[str, Any]
    ) -> dict[str, Any]:
        """Return what is selected first, and add the answers of the requests that the page makes for it."""
        query = {"filters": [], "sorts": [], "search": ""}
        selection = {"table": "", "version": 0, "before": None, "tab": tab, "query": query, "statement": ""}
        names = self._answer(answers, "tables", {})["names"]
        if table is None and not names:
            return selection
        name = self._tables.table(names[0] if table is None else table).name
        if name not in names:
            raise NotFound.of("table", name, names)  # pragma: no cover - dropped in between
        numbers = self._answer(answers, "open", {"table": name})["versions"]["number"]
        self._newest = numbers[-1]
        number = self._newest if version is None else self._tables.number(name, version)
        older = [each for each in numbers if each < number]
        selection |= {"table": name, "version": number, "before": (older or [number])[-1] if tab == "changes" else None}
        # What cannot be read is asked for by the page, which shows why.
        with contextlib.suppress(SleeperError):
            self._answer(answers, "schema", {"table": name, "version": number})
            if tab == "rows":
                columns = first_columns(self._tables.at(name, number).schema)
                block = {"first": 0, "count": FIRST_ROWS, "columns": columns}
                self._answer(answers, "rows", {"table": name, "version": number, "query": query, **block})
        return selection

    def _answer(self, answers: dict[str, Any], what: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(self._own, what)(asked, Watch())
        answers[request_key(what, asked)] = answer
        return answer

    def _newest_of(self, name: str) -> int:
        return self._tables.table(name).at().resolved.snapshot_id

    def _select(self, **values: Any) -> None:
        self.selection = {**self.selection, **values}


def first_columns(schema: Schema) -> list[str]:
    """Return the columns that the grid shows first: keys before others, as many as it asks for."""
    keys = [each.name for each in (*schema.row_keys, *schema.sort_keys)]
    return [*keys, *(name for name in schema.names if name not in keys)][:FIRST_COLUMNS]


def _methods(
    notebook: Notebook, own: ExplorerAnswers, changes: ChangeAnswers, sql: SqlAnswers, tables: OpenTables
) -> dict[str, Method]:
    """Return what answers each request of the page."""
    actions, key_space = ActionAnswers(tables), KeySpaceAnswers(tables)
    return {
        "tables": own.tables,
        "details": own.details,
        "search": own.search,
        "open": own.open,
        "schema": own.schema,
        "commit": own.commit,
        "rows": own.rows,
        "headers": own.headers,
        "cube": own.cube,
        "value": own.value,
        "keep": own.keep,
        "write": notebook.write_cell,
        "changes": changes.changes,
        "plan": actions.plan,
        "act": actions.act,
        "keyspace": key_space.keyspace,
        "leaf": key_space.leaf,
        "sql": sql.sql,
        "page": sql.page,
        "cell": sql.cell,
        "complete": sql.complete,
        "chart": sql.chart,
    }
