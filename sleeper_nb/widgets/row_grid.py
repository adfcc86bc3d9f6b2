"""The row grid as a widget: it sends pages and headers to the page, and takes what the user does there.

``static/row_grid.js`` draws. It decides nothing: a click becomes a message, the message another `GridQuery`, and its
rows are sent back. So tests need no browser for what a click means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anywidget
import traitlets

from sleeper_nb.display.figure import clip
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.report import Data, cell_text, is_missing
from sleeper_nb.widgets.column_bars import FRACTIONS, WHOLE_NUMBERS, ColumnSummary
from sleeper_nb.widgets.row_grid_model import GridPage, RowGridModel
from sleeper_nb.widgets.row_grid_query import ColumnFilter, GridQuery

_STATIC: Final = Path(__file__).parent / "static"
_LONGEST_CELL: Final = 200
"""Characters; the whole value is sent when it is opened."""
_LONGEST_TEXT: Final = 100_000
_MOST_ITEMS: Final = 500
"""Items of one list or map that are shown when it is opened."""
_MOST_COLUMNS: Final = 200
"""The most columns of a page: more than a screen shows."""


class RowGrid(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is built on ipywidgets, which ships no types
    """A table of rows that is sorted, filtered, searched and paged by the engine.

    Parameters
    ----------
    attempt
        Runs an action and shows its error.
    changed
        Called with the query that a user's action leads to; the owner then calls `show`.

    Attributes
    ----------
    columns, shown, headers, detail
        What the page draws: all columns; rows and how they were found; headers of some columns; an opened value.
    """

    _esm = _STATIC / "row_grid.js"
    _css = _STATIC / "row_grid.css"
    columns = traitlets.List().tag(sync=True)
    shown = traitlets.Dict().tag(sync=True)
    headers = traitlets.Dict().tag(sync=True)
    detail = traitlets.Dict().tag(sync=True)

    def __init__(self, attempt: Callable[[Callable[[], None]], None], changed: Callable[[GridQuery], None]) -> None:
        super().__init__()
        self._attempt, self._changed = attempt, changed
        self._model: RowGridModel | None = None
        self._page: GridPage | None = None
        self._serial = 0
        self.on_msg(lambda _, message, __: self._attempt(lambda: self.take(message)))

    def __repr__(self) -> str:
        return f"RowGrid({self._page.counts!r})" if self._page is not None else "RowGrid()"

    def page_of(self, model: RowGridModel) -> GridPage | None:
        """Return the page that is shown of a version; None when another one is shown."""
        return self._page if self._model is model else None

    def show(self, model: RowGridModel, page: GridPage) -> None:
        """Show a page of a version."""
        known, before = self._model, self._page
        self._model, self._page = model, page
        same_rows = known is model and before is not None and _rows_of(before) == _rows_of(page)
        if not same_rows:
            self._serial += 1
        with self.hold_sync():
            if known is None or known.schema != model.schema:
                self.columns = _columns(model)
            if not same_rows:
                self.headers = {"serial": self._serial, "columns": {}}
            if before is not None and before.query != page.query:
                self.detail = {}
            self.shown = self._content(model, page)

    def take(self, message: Mapping[str, Any]) -> None:
        """Do what a message from the page says."""
        if self._model is None or self._page is None:
            return
        model, query = self._model, self._page.query
        match message:
            case {"do": "sort", "column": str(name)}:
                self._changed(query.sorted_by(name, also=bool(message.get("also"))))
            case {"do": "type", "column": str(name), "text": str(text)}:
                typed = ColumnFilter.of_text(_column(model, name), text)
                self._changed(query.filtered(name, typed, typed=True))
            case {"do": "choose", "column": str(name), "bars": [int(begin), int(end)]}:
                self._changed(query.filtered(name, model.bars_of(name).chosen(begin, end), typed=False))
            case {"do": "choose", "column": str(name)}:
                self._changed(query.filtered(name, None, typed=False))
            case {"do": "search", "text": str(text)}:
                self._changed(replace(query, search=text, first=0))
            case {"do": "clear"}:
                self._changed(replace(query, search="", filters=(), first=0))
            case {"do": "turn", "first": int(first)}:
                self._changed(replace(query, first=first))
            case {"do": "size", "rows": int(rows)}:
                self._changed(replace(query, rows=rows, first=query.first // max(rows, 1) * rows))
            case {"do": "columns", "names": [*names]}:
                self._changed(replace(query, columns=tuple(map(str, names[:_MOST_COLUMNS]))))
            case {"do": "headers", "columns": [*names], "serial": int(serial)}:
                self._send_headers(model, query, list(map(str, names[:_MOST_COLUMNS])), serial)
            case {"do": "open", "row": int(row), "column": str(name)}:
                value, column = self._page.value(row, name), _column(model, name)
                place = query.first + row
                self.detail = {"row": place, "column": name, "type": column.text, "tree": tree_of(value)}
            case _:
                raise InvalidInput(f"the grid cannot do {message.get('do')!r}", hint="reload the page")

    def _send_headers(self, model: RowGridModel, query: GridQuery, names: list[str], serial: int) -> None:
        if serial != self._serial:  # of rows that are not shown any more
            return
        chosen = {each.column: each for each in query.filters if not each.typed}
        found = {each.column.name: _header(each, chosen) for each in model.summaries(names, query)}
        self.headers = {"serial": serial, "columns": {**self.headers["columns"], **found}}

    def _content(self, model: RowGridModel, page: GridPage) -> dict[str, Any]:
        query = page.query
        return {
            "serial": self._serial,
            "fetched": page.rows.column_names,
            "rows": [[None if is_missing(each) else clip(cell_text(each), _LONGEST_CELL) for each in row]
                     for row in page.cells()],
            "first": query.first,
            "page": query.rows,
            "total": page.total,
            "last": page.is_last,
            "counts": page.counts,
            "search": query.search,
            "sorts": [{"column": each.column, "descending": each.descending} for each in query.sorts],
            "typed": {each.column: each.typed for each in query.filters if each.typed},
            "chosen": {each.column: list(model.covered(each)) for each in query.filters if not each.typed},
            "filtered": not query.is_all,
            "quick": model.is_quick,
            "bytes": str(model.bytes),
        }  # fmt: skip


def _rows_of(page: GridPage) -> tuple[Any, ...]:
    return page.query.filters, page.query.search.strip()


def _column(model: RowGridModel, name: str) -> Any:
    if name not in model.fields:
        raise NotFound.of("column", name, model.schema.names)
    return model.fields[name]


def _columns(model: RowGridModel) -> list[dict[str, Any]]:
    """Return all columns: keys first, as they stay at the left."""
    schema = model.schema
    roles = {each.name: "row key" for each in schema.row_keys} | {each.name: "sort key" for each in schema.sort_keys}
    return [
        {"name": each.name, "type": each.text, "role": roles.get(each.name, ""),
         "number": each.type.name in WHOLE_NUMBERS | FRACTIONS}
        for each in schema.fields
    ]  # fmt: skip


def _header(summary: ColumnSummary, chosen: Mapping[str, ColumnFilter]) -> dict[str, Any]:
    bars = summary.bars
    covered = () if bars is None else bars.covered(chosen.get(summary.column.name))
    labels = [] if bars is None else [clip(bars.label(number), _LONGEST_CELL) for number in range(len(bars.marks))]
    return {
        "bars": labels, "counts": list(summary.counts), "of": list(summary.of), "nulls": summary.null_share,
        "chosen": list(covered),
    }  # fmt: skip


def tree_of(value: Any) -> dict[str, Any]:
    """Return a value as the page shows it when it is opened: its text, or a tree of lists, maps and structs."""
    if isinstance(value, dict):
        return _tree("struct", [(str(name), each) for name, each in value.items()])
    if isinstance(value, list):
        is_map = bool(value) and all(isinstance(each, tuple) for each in value)  # as Arrow gives one
        pairs = [(cell_text(Data(key)), each) for key, each in value] if is_map else list(enumerate(value))
        return _tree("map" if is_map else "list", [(str(key), each) for key, each in pairs])
    text = value if isinstance(value, str) else cell_text(Data(value))
    if len(text) <= _LONGEST_TEXT:
        return {"text": text}
    return {"text": f"{text[:_LONGEST_TEXT]}… (first {_LONGEST_TEXT:,} of {len(text):,} characters)"}


def _tree(kind: str, items: list[tuple[str, Any]]) -> dict[str, Any]:
    shown = [[name, tree_of(each)] for name, each in items[:_MOST_ITEMS]]
    more = f"… and {len(items) - _MOST_ITEMS:,} more" if len(items) > _MOST_ITEMS else ""
    return {"text": f"{kind} of {len(items):,}", "items": shown, "more": more}
