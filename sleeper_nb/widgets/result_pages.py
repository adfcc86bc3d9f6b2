"""The rows of an answer in the grid of the explorer, and charts of them: what ``sql --interactive`` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sleeper_nb.progress import Watch
from sleeper_nb.widgets.asked_widget import AskedWidget, request_key, start_of
from sleeper_nb.widgets.explorer_answers import Notebook
from sleeper_nb.widgets.explorer_picture import answer_grid
from sleeper_nb.widgets.request_lanes import Background, run_in_thread
from sleeper_nb.widgets.sql_answers import ShownAnswer
from sleeper_nb.widgets.static_picture import StaticPicture

if TYPE_CHECKING:
    from sleeper_nb.public_types import QueryResult

_FIRST_PAGE: Final = {"first": 0, "count": 100}


class ResultPages(AskedWidget):
    """The rows of an answer; made by `sleeper_nb.widgets.pages`.

    Parameters
    ----------
    result
        Its rows; nothing else may read them until `close`.
    statement
        The statement that it answers, for the lines that the page shows.
    background
        Runs a function in the background; a test runs it itself.
    """

    def __init__(self, result: QueryResult, statement: str = "", *, background: Background = run_in_thread) -> None:
        self._source, self._sql, notebook = result.source_text, ShownAnswer(), Notebook.here()
        self._sql.show(result, statement)
        answers = {request_key("page", _FIRST_PAGE): self._sql.page(_FIRST_PAGE, Watch())}
        methods = {
            "page": self._sql.page,
            "cell": self._sql.cell,
            "chart": self._sql.chart,
            "write": notebook.write_cell,
        }
        query = {"filters": [], "sorts": [], "search": ""}
        selection = {
            "table": "", "version": 0, "before": None, "tab": "sql", "query": query, "statement": statement,
        }  # fmt: skip
        super().__init__(methods, start_of("answer", answers, notebook), selection, background)

    def __repr__(self) -> str:
        return f"ResultPages({self.picture().text.splitlines()[-1]!r})"

    def close(self) -> None:
        """Remove the widget from the page, and release the answer."""
        super().close()
        self._sql.close()

    def picture(self) -> StaticPicture:
        """Return the first rows, which stay in a saved notebook."""
        rows = self._sql.fetched()
        if rows is None:
            return StaticPicture("", self._source)
        grid = answer_grid(rows, self._source)
        return StaticPicture(f'<div style="overflow-x:auto;">{grid.html()}</div>', grid.text())
