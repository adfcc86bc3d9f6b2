"""The explorer's tab for SQL: a query, a button that runs it, and its first rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets

from sleeper_nb.widgets.live import button, same_as
from sleeper_nb.widgets.model import Preview


class SqlPage(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """A text to write a query in, and below it the line that gives the same, and its rows.

    Parameters
    ----------
    typed
        Is told of each change of the text.
    """

    def __init__(self, typed: Callable[[Any], None]) -> None:
        self._text = ipywidgets.Textarea(description="Query on DuckDB", rows=5, continuous_update=False)
        self.button = button("Run", "Run the query on DuckDB; nothing can be changed by it")
        self._answer = ipywidgets.HTML()
        super().__init__([self._text, self.button, self._answer])
        self.add_class("sleeper-sql")
        self._text.observe(typed, "value")

    def show(self, statement: str, shown: Preview) -> None:
        """Show a statement, its line, and what it gave."""
        self._text.value = statement
        self._answer.value = f'{same_as(shown.line)}<div role="status">{shown.html}</div>' if shown.line else ""
