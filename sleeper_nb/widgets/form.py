"""The form for a new table as ipywidgets: its fields, their problems, and the cell that does the same."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets
import traitlets
from IPython import get_ipython

from sleeper_nb.errors import InvalidInput, SleeperError
from sleeper_nb.model.keys import typed_split_points
from sleeper_nb.widgets.live import LiveWidget, alert, button
from sleeper_nb.widgets.static_picture import StaticPicture
from sleeper_nb.widgets.table_draft import ROLES, TYPES, ColumnDraft, TableDraft

if TYPE_CHECKING:
    from sleeper_nb.session import Session

_NARROW = {"description_width": "initial"}
_HEADS = ("Name", "Type", "Role", "Nullable", "")
# The name of a control is for screen readers where the head of its column says it to all others.
_STYLE = """<style>
.sleeper-create .sleeper-column { display: grid; gap: 2px 8px; align-items: center; max-width: 760px; }
.sleeper-create .sleeper-column {
  grid-template-columns: minmax(120px, 3fr) minmax(100px, 3fr) minmax(90px, 2fr) 70px 80px;
}
.sleeper-create .sleeper-column > * { width: auto; margin: 0; min-width: 0; }
.sleeper-create .sleeper-column :is(.widget-text, .widget-dropdown) .widget-label,
.sleeper-create .sleeper-column .widget-checkbox span { position: absolute; width: 1px; height: 1px; overflow: hidden; }
.sleeper-create .sleeper-column .widget-checkbox span { white-space: nowrap; clip-path: inset(50%); }
.sleeper-create .sleeper-column .widget-label { clip-path: inset(50%); }
.sleeper-create .sleeper-heads { font-weight: 600; opacity: 0.75; }
.sleeper-create > .widget-text { max-width: 460px; }
.sleeper-create > .widget-text .widget-label { width: 100px !important; text-align: left; }
</style>"""
_COPY = """
function render({ model, el }) {
  const button = document.createElement("button");
  button.className = "jupyter-widgets jupyter-button widget-button";
  button.style.width = "auto";
  const told = (words) => { button.textContent = words; };
  told("Copy cell");
  button.onclick = () => navigator.clipboard.writeText(model.get("text")).then(() => told("Copied"));
  model.on("change:text", () => told("Copy cell"));
  el.append(button);
}
export default { render };
"""


class CopyButton(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget ships no types
    """A button that copies a text; it says so until the text changes."""

    _esm = _COPY
    text = traitlets.Unicode().tag(sync=True)


class CreateForm(LiveWidget):
    """A form that creates a table, or gives the cell that does; made by `sleeper_nb.widgets.create_form`.

    Parameters
    ----------
    session
        The session to create the table in.
    draft
        What the fields hold at first. In a draft with data, columns are neither added nor removed.
    write
        Puts a text into a new cell of the notebook; None outside a notebook.
    afterwards
        Calls a function once, when the next cell has run: the text is a cell by then.

    Attributes
    ----------
    draft
        The values of the fields; it can be set.
    cell
        The cell that creates the table.
    problems
        What is wrong, as errors; the cell would raise the first.
    """

    draft = traitlets.Instance(TableDraft, ())

    def __init__(
        self,
        session: Session,
        draft: TableDraft | None = None,
        write: Callable[[str], object] | None = None,
        afterwards: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self._session, self._write_cell, self._afterwards = session, write, afterwards
        self._others = session.table_names()
        self.problems: tuple[SleeperError, ...] = ()
        self._name = ipywidgets.Text(description="Table name", style=_NARROW)
        heads = ipywidgets.HBox([ipywidgets.HTML(head) for head in _HEADS])
        self._splits = ipywidgets.Text(
            description="Split points", placeholder="values of the first row key: g,n,t", style=_NARROW
        )
        self._rows = ipywidgets.VBox()
        self._columns: list[_ColumnRow] = []
        self._add = button("Add a column", "Add a column below the last")
        self._add.layout.align_self = "flex-start"
        self._create = button("Create table", "Create the table, and show it")
        self._create.button_style = "primary"
        self._copy = CopyButton()
        self._write = button("Insert cell", "Put the cell below the next one that you run")
        self._messages, self._shown = ipywidgets.HTML(), ipywidgets.HTML()
        buttons = ipywidgets.HBox([self._create, self._copy, *([self._write] if write else [])])
        columns = ipywidgets.VBox([ipywidgets.HTML(_STYLE), heads, self._rows, self._add])
        super().__init__(self._name, columns, self._splits, self._messages, buttons, self._shown)
        for widget, kind in ((self, "create"), (self._shown, "cell"), (heads, "column"), (heads, "heads")):
            widget.add_class(f"sleeper-{kind}")
        for control in (self._name, self._splits):
            control.observe(self._read, "value")
        self._add.on_click(lambda _: self._attempt(self._add_column))
        self._create.on_click(lambda _: self._attempt(self.create))
        self._write.on_click(lambda _: self._attempt(self.write))
        self.observe(lambda _: self._show(), "draft")
        if draft is not None:
            self.draft = draft
        self._show()

    def __repr__(self) -> str:
        return f"CreateForm({self.draft.name!r})"

    @property
    def cell(self) -> str:
        """The cell that creates the table."""
        draft: TableDraft = self.draft
        return draft.cell

    def create(self) -> None:
        """Create the table, and show it in place of the messages."""
        if self.problems:
            raise self.problems[0]
        draft: TableDraft = self.draft
        if draft.source:  # as it is typed: its variables are those of the notebook
            made = get_ipython().run_line_magic("sleeper", draft.cell.removeprefix("%sleeper "))
        else:
            made = self._session.create_table(draft.name, draft.schema(), typed_split_points(draft.splits))
        self._others = self._session.table_names()
        self._create.disabled = True  # until the draft is of another table
        self._messages.value = f'<div role="status">Created.{made._repr_html_()}</div>'

    def write(self) -> None:
        """Put the cell into the notebook; the front-end inserts it when the next cell runs, below that one."""
        if self.problems:
            raise self.problems[0]
        if self._write_cell is None:
            raise InvalidInput("there is no notebook to write to", hint="copy the cell")
        self._write_cell(self.cell)
        self._messages.value = '<div role="status">The cell will appear below the next cell that you run.</div>'
        if self._afterwards is not None:
            self._afterwards(self._show)

    def _read(self, _: Any = None) -> None:
        if not self._syncing:
            columns = tuple(row.column for row in self._columns)
            self.draft = replace(self.draft, name=self._name.value.strip(), columns=columns, splits=self._splits.value)

    def _add_column(self) -> None:
        self.draft = replace(self.draft, columns=(*self.draft.columns, ColumnDraft(nullable=True)))
        self._columns[-1].name.focus()

    def _remove(self, row: _ColumnRow) -> None:
        self.draft = replace(self.draft, columns=tuple(one.column for one in self._columns if one is not row))

    def _set_controls(self) -> None:
        """Set the controls from the draft; existing rows are kept, as the user may be typing in one."""
        with self._without_events():
            if self._name.value.strip() != self.draft.name:
                self._name.value = self.draft.name
            if self._splits.value != self.draft.splits:
                self._splits.value = self.draft.splits
            while len(self._columns) > len(self.draft.columns):
                self._columns.pop().close()
            while len(self._columns) < len(self.draft.columns):
                row = _ColumnRow(self._read, lambda row: self._attempt(lambda: self._remove(row)))
                self._columns.append(row)
            self._add.disabled = bool(self.draft.source)
            for number, (row, column) in enumerate(zip(self._columns, self.draft.columns, strict=True), 1):
                row.show(number, column, of_data=bool(self.draft.source))
            if self._rows.children != tuple(self._columns):
                self._rows.children = tuple(self._columns)

    def _show(self) -> None:
        self._set_controls()
        wrong = self.draft.problems(self._others)
        unnamed = self.draft.unnamed()
        self.problems = (*wrong, *unnamed)
        self._write.disabled = self._create.disabled = bool(self.problems)
        self._copy.text = self.cell
        missing = "".join(f"<div>{html.escape(f'{each.message}: {each.hint}')}</div>" for each in unnamed)
        self._messages.value = "".join(map(alert, wrong)) + (f'<div role="status">{missing}</div>' if missing else "")
        code = f'<pre class="sleeper-line" tabindex="0" aria-label="the cell to copy">{html.escape(self.cell)}</pre>'
        self._shown.value = f"<div>The same as a cell:</div>{code}"

    def _show_error(self, error: str) -> None:
        self._messages.value = error

    def _static(self) -> StaticPicture:
        return StaticPicture(f"<pre>{html.escape(self.cell)}</pre>", self.cell)


class _ColumnRow(ipywidgets.HBox):  # type: ignore[misc]  # ipywidgets ships no types
    """The controls of one column."""

    def __init__(self, changed: Callable[[Any], None], removed: Callable[[_ColumnRow], None]) -> None:
        self.name = ipywidgets.Text(style=_NARROW)
        self.type = ipywidgets.Dropdown(options=TYPES, description="Type", style=_NARROW, layout={"width": "auto"})
        self.role = ipywidgets.Dropdown(options=ROLES, description="Role", style=_NARROW, layout={"width": "auto"})
        self.nullable = ipywidgets.Checkbox(description="Nullable", indent=False, layout={"width": "auto"})
        self.remove = button("Remove", "")
        super().__init__([self.name, self.type, self.role, self.nullable, self.remove])
        self.add_class("sleeper-column")
        for control in (self.name, self.type, self.role, self.nullable):
            control.observe(changed, "value")
        self.remove.on_click(lambda _: removed(self))

    @property
    def column(self) -> ColumnDraft:
        return ColumnDraft(self.name.value.strip(), self.type.value, self.role.value, self.nullable.value)

    def show(self, number: int, column: ColumnDraft, *, of_data: bool) -> None:
        """Set the fields from a column, and number them; the data says the name, and whether there are nulls."""
        self.name.disabled = self.remove.disabled = of_data
        self.name.description = f"Column {number}"
        self.remove.tooltip = f"Remove column {number}"
        if column.type not in self.type.options:
            self.type.options = (*TYPES, column.type)
        if column != self.column:
            self.name.value, self.type.value = column.name, column.type
            self.role.value = column.role
        self.nullable.value = column.is_nullable
        self.nullable.disabled = of_data or column.role != "value"
