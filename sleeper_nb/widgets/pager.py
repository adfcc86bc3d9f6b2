"""The pager of a query's answer as ipywidgets: Previous, Next, how many rows a page has, and which are shown."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import replace

import ipywidgets
import traitlets

from sleeper_nb.report import MOST_SHOWN
from sleeper_nb.widgets.explorer_model import Preview
from sleeper_nb.widgets.live import LiveWidget, button
from sleeper_nb.widgets.pager_model import Page, PagesModel, rows_of_page


class Pager(LiveWidget):
    """An answer to turn the pages of; made by `sleeper_nb.widgets.pages`.

    Parameters
    ----------
    source
        Fetches rows.
    rows
        How many a page has.

    Attributes
    ----------
    first, rows
        How many rows stand before the page, and how many a page has; both can be set and observed.
    page
        The page that is shown.
    """

    first = traitlets.Int(0, min=0)
    rows = traitlets.Int(20, min=1, max=MOST_SHOWN)

    def __init__(self, source: PagesModel, rows: int = 20) -> None:
        self._source = source
        self._back = button("Previous", "The page before")
        self._on = button("Next", "The next page, which is fetched when it is not there yet")
        self._size = ipywidgets.IntText(
            description="Rows a page", continuous_update=False, style={"description_width": "initial"},
            layout={"width": "160px"},
        )  # fmt: skip
        self._label, self._error, self._table = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
        head = ipywidgets.HBox([self._back, self._on, self._size])
        super().__init__(head, self._label, self._error, self._table)
        for widget, name in ((self, "pager"), (self._label, "rows"), (self._table, "page")):
            widget.add_class(f"sleeper-{name}")
        self.rows = rows
        self.page: Page = source.page(0, rows)
        self._back.on_click(lambda _: self._turn(lambda: source.page_before(self.first, self.rows).first))
        self._on.on_click(lambda _: self._turn(lambda: self.page.first + self.page.rows.num_rows))
        self._size.observe(self._asked("rows", rows_of_page), "value")
        self.observe(lambda _: self._attempt(self._show), ["first", "rows"])
        self._fill()

    def __repr__(self) -> str:
        return f"Pager({self.page.said!r})"

    def close(self) -> None:
        """Take the widget from the page and let go of the answer."""
        self._source.close()
        super().close()

    def _turn(self, first: Callable[[], int]) -> None:
        self._attempt(lambda: setattr(self, "first", first()))

    def _show(self) -> None:
        self._say("")
        try:
            self.page = self._source.page(self.first, self.rows)
        except Exception:
            self.first = self.page.first  # the page that is there still
            raise
        self.first = self.page.first  # of the last page, when there are not so many rows
        self._fill()

    def _fill(self) -> None:
        self._set_controls()
        grid = self.page.grid()
        self._label.value = f'<b role="status">{html.escape(grid.footer)}</b>'
        self._table.value = f'<div style="overflow-x:auto;">{replace(grid, footer="").html()}</div>'

    def _set_controls(self) -> None:
        """Make the controls say what the page is."""
        with self._quietly():
            self._size.value = self.rows
        self._back.disabled, self._on.disabled = self.page.first == 0, self.page.is_last

    def _static(self) -> Preview:
        grid = self.page.grid()
        return Preview("%sleeper sql --interactive", grid.html(), grid.text())

    def _say(self, error: str) -> None:
        self._error.value = error
