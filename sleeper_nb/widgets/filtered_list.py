"""A list to choose from, with a field that narrows it when it is long, and its buttons to go back and forth."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import ipywidgets

from sleeper_nb.widgets.live import along, steps

LONG = 12
"""A list of more has a field to narrow it."""
MOST = 1000
"""So many are listed at a time."""
Option = tuple[str, str]


class FilteredList(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """A list of which one is chosen; typing goes into its field, as in a list JupyterLab takes letters for commands.

    Parameters
    ----------
    title
        What stands above the list.
    what
        What one of it is: ``"table"``.
    chosen
        Is told of each choice.
    quietly
        Within it a choice is told to nobody: the list is being set.
    rows
        How many are seen at once, at most.
    fixed
        Options, as words and value, that are there whatever was typed.
    """

    def __init__(
        self,
        title: str,
        what: str,
        chosen: Callable[[Any], None],
        quietly: Callable[[], AbstractContextManager[None]],
        rows: int,
        fixed: tuple[Option, ...] = (),
    ) -> None:
        self._what, self._tell, self._quietly, self._rows, self._fixed = what, chosen, quietly, rows, fixed
        self._options: tuple[Option, ...] = ()
        self._chosen: str | None = None
        self.filter = ipywidgets.Text(description="Filter", placeholder=f"part of a {what}")
        self.list = ipywidgets.Select(description=title)
        self._moves, self._note = steps(what, along(self.list)), ipywidgets.HTML()
        super().__init__()
        self._set_parts()
        for widget, name in ((self, "choice"), (self.filter, "filter"), (self.list, what)):
            widget.add_class(f"sleeper-{name}")
        self.list.observe(chosen, "value")
        self.filter.observe(lambda _: self._narrow(), "value")

    def show(self, options: tuple[Option, ...], chosen: str | None) -> None:
        """Show options, as words and value, and which of them is chosen."""
        with self._quietly():
            if self._options != options:
                self._options = options
                self._set_parts()
            self._chosen = chosen
            self._narrow()

    def pick(self, value: str) -> None:
        """Choose one, whatever the list was narrowed to."""
        self.filter.value = ""
        self._tell({"new": value})

    def _set_parts(self) -> None:
        is_long = len(self._options) > LONG
        if not is_long:
            self.filter.value = ""
        self.children = (*((self.filter,) if is_long else ()), self.list, self._moves, self._note)
        self.list.rows = min(max(len(self._options) + len(self._fixed), 2), self._rows)
        for step in self._moves.children:
            step.disabled = not self._options

    def _narrow(self) -> None:
        """List what was asked for; of very many, the thousand with the one that is chosen."""
        with self._quietly():
            asked = self.filter.value.casefold().split()
            found = [one for one in self._options if all(word in one[0].casefold() for word in asked)]
            at = next((i for i, (_, value) in enumerate(found) if value == self._chosen), 0)
            first = at - at % MOST
            listed = (*self._fixed, *found[first : first + MOST])
            if self.list.options != listed:
                self.list.options = listed
            self.list.value = self._chosen if any(value == self._chosen for _, value in listed) else None
            self._note.value = f'<div role="status">{html.escape(self._said(found, first))}</div>'

    def _said(self, found: Sequence[Option], first: int) -> str:
        if not found and self._options:
            return f"no {self._what} has {self.filter.value.strip()!r} in it"
        if len(found) <= MOST:
            return f"{len(found):,} of {len(self._options):,} {self._what}s" if self.filter.value.strip() else ""
        part = f"{first + 1:,}–{min(first + MOST, len(found)):,}" if first else f"first {MOST:,}"
        return f"{part} of {len(found):,} {self._what}s"
