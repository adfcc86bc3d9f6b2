"""The pager as ipywidgets: the rows of an answer page by page, with Previous, Next and the size of a page."""

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
    """The rows of an answer, page by page; made by `sleeper_nb.widgets.pages`.

    Parameters
    ----------
    model
        Fetches rows.
    rows
        The number of rows on a page.

    Attributes
    ----------
    first, rows
        The number of rows before the page, and on a page; both can be set and observed.
    page
        The page that is shown.
    """

    first = traitlets.Int(0, min=0)
    rows = traitlets.Int(20, min=1, max=MOST_SHOWN)

    def __init__(self, model: PagesModel, rows: int = 20) -> None:
        self._model = model
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
        self.page: Page = model.page(0, rows)
        self._back.on_click(lambda _: self._turn(lambda: model.page_before(self.first, self.rows).first))
        self._on.on_click(lambda _: self._turn(lambda: self.page.first + self.page.rows.num_rows))
        self._size.observe(self._setter("rows", rows_of_page), "value")
        self.observe(lambda _: self._attempt(self._show), ["first", "rows"])
        self._fill()

    def __repr__(self) -> str:
        return f"Pager({self.page.summary!r})"

    def close(self) -> None:
        """Remove the widget from the page and release the answer."""
        self._model.close()
        super().close()

    def _turn(self, first: Callable[[], int]) -> None:
        self._attempt(lambda: setattr(self, "first", first()))

    def _show(self) -> None:
        self._show_error("")
        try:
            self.page = self._model.page(self.first, self.rows)
        except Exception:
            self.first = self.page.first  # the page that is still shown
            raise
        self.first = self.page.first  # the last page, when there are fewer rows
        self._fill()

    def _fill(self) -> None:
        self._set_controls()
        grid = self.page.grid()
        self._label.value = f'<b role="status">{html.escape(grid.footer)}</b>'
        self._table.value = f'<div style="overflow-x:auto;">{replace(grid, footer="").html()}</div>'

    def _set_controls(self) -> None:
        with self._without_events():
            self._size.value = self.rows
        self._back.disabled, self._on.disabled = self.page.first == 0, self.page.is_last

    def _static(self) -> Preview:
        grid = self.page.grid()
        return Preview("%sleeper sql --interactive", grid.html(), grid.text())

    def _show_error(self, error: str) -> None:
        self._error.value = error
