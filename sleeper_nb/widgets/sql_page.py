"""The explorer's tab for SQL: a query, a button that runs it, and its first rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import ipywidgets

from sleeper_nb.clock import Clock
from sleeper_nb.widgets.live import button, same_as
from sleeper_nb.widgets.model import Preview

_LATE = timedelta(seconds=0.5)


class SqlPage(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """A text to write a query in, and below it the line that gives the same, and its rows.

    Parameters
    ----------
    typed
        Is told of each change of the text.
    run
        Runs the text.
    clock
        Says which text belongs to a click: JupyterLab sends both at once but on ways of their own (the subshells of a
        kernel), so that the click may come first; a text right behind it is what was meant to be run.
    """

    def __init__(self, typed: Callable[[Any], None], run: Callable[[], None], clock: Clock) -> None:
        self._typed, self._run, self._clock = typed, run, clock
        self._shown, self._late_until = "", clock.now()
        self._text = ipywidgets.Textarea(description="Query on DuckDB", rows=5, continuous_update=False)
        self.button = button("Run", "Run the query on DuckDB; nothing can be changed by it")
        self._answer = ipywidgets.HTML()
        super().__init__([self._text, self.button, self._answer])
        self.add_class("sleeper-sql")
        self._text.observe(self._take, "value")
        self.button.on_click(lambda _: self._press())

    def show(self, statement: str, shown: Preview) -> None:
        """Show a statement, its line, and what it gave."""
        self._shown = statement
        self._text.value = statement
        self._answer.value = f'{same_as(shown.line)}<div role="status">{shown.html}</div>' if shown.line else ""

    def _press(self) -> None:
        self._late_until = self._clock.now() + _LATE
        self._run()

    def _take(self, change: Any) -> None:
        is_late = change["new"] != self._shown and self._clock.now() < self._late_until
        self._typed(change)
        if is_late:
            self._run()
