"""The timeline as ipywidgets: two handles over the versions of a table, their difference, and the rollback command."""

from __future__ import annotations

import html
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets
import traitlets

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.widgets.explorer_model import ExploreModel, Preview
from sleeper_nb.widgets.live import LiveWidget, alert, button, same_as, steps

if TYPE_CHECKING:
    from sleeper_nb.session import Session


_NOTHING = Preview("", "", "")


class Timeline(LiveWidget):
    """One table over its versions; made by `sleeper_nb.widgets.timeline`.

    Parameters
    ----------
    session
        The session that has the table. Everything is read in process: Spark is never started.
    table
        The name of the table.

    Attributes
    ----------
    table
        The name of the table, as it was created.
    before, after
        The numbers of the two versions that are compared; either can be set to ``12`` or ``"savepoint.half-year"``.
        Rows are shown at `after`. The initial values are the last two versions.
    difference, preview
        The difference of the two, and the rows at `after`; each ``line`` is the equivalent command.
    rollback_line
        The command that rolls the table back to `before`; empty until its button is pressed.
    """

    before = traitlets.Any()
    after = traitlets.Any()
    difference = traitlets.Instance(Preview, ("", "", ""))
    preview = traitlets.Instance(Preview, ("", "", ""))
    rollback_line = traitlets.Unicode()

    def __init__(self, session: Session, table: str) -> None:
        self._model = ExploreModel(session)
        self._opened = self._model.open(table)
        self.table = self._opened.name
        self._picture, self._label, self._error = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
        self._handles = ipywidgets.SelectionRangeSlider(
            options=[("", 0), ("", 1)], continuous_update=False, readout=False
        )
        self._again = button("Refresh", "Look for new versions")
        self._back = button("Roll back…", "Write the command that rolls the table back to the left handle")
        self._line, self._between, self._rows = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
        left, right = (
            steps(f"version on the {side}", partial(self._step, handle), icons=True)
            for handle, side in enumerate(("left", "right"))
        )
        self._chosen, self._travel = ipywidgets.HBox([left, self._label, right]), ipywidgets.VBox()
        buttons = ipywidgets.HBox([self._again, self._back])
        super().__init__(self._travel, buttons, self._line, self._error, self._between, self._rows)
        names = (
            (self, "timeline"),
            (self._travel, "travel"),
            (self._label, "version"),
            (self._between, "difference"),
            (self._rows, "preview"),
        )
        for widget, name in names:
            widget.add_class(f"sleeper-{name}")
        numbers = list(self._opened.labels)
        self.after, self.before = numbers[-1], numbers[-2] if len(numbers) > 1 else numbers[-1]
        self._handles.observe(lambda change: self._attempt(lambda: self._moved(change["new"])), "value")
        self._again.on_click(lambda _: self._attempt(self.refresh))
        self._back.on_click(lambda _: self._attempt(self.write_rollback))
        self.observe(lambda _: self._show(), ["before", "after"])
        self._show()

    def __repr__(self) -> str:
        return f"Timeline(table={self.table!r}, before={self.before!r}, after={self.after!r})"

    def refresh(self) -> None:
        """Open the table again and look for new versions.

        A right handle at the newest version moves on to the new one; others stay while their version is retained.
        """
        was_newest = self.after == max(self._opened.labels)
        self._opened = self._model.open(self.table)
        labels = self._opened.labels
        with self.hold_trait_notifications():
            if was_newest or self.after not in labels:
                self.after = max(labels)
            if self.before not in labels:
                self.before = min(labels)
        self._show()

    @traitlets.validate("before", "after")  # type: ignore[untyped-decorator]  # traitlets has no types here
    def _check(self, proposal: Any) -> int:
        return self._opened.at(proposal["value"]).number

    def _moved(self, handles: tuple[int, int]) -> None:
        if not self._syncing:
            with self.hold_trait_notifications():
                self.before, self.after = handles

    def _step(self, handle: int, by: int) -> None:
        """Move one handle, not beyond the other or the ends."""
        stops = [*self._handles.index]
        least, most = ((0, stops[1]), (stops[0], len(self._opened.labels) - 1))[handle]
        stops[handle] = min(max(stops[handle] + by, least), most)
        self._handles.index = tuple(stops)

    def write_rollback(self) -> None:
        """Show the command that rolls the table back to `before`, as the button does; nothing is run."""
        if len(self._opened.labels) < 2:
            raise InvalidInput("there is nothing to roll back to", hint="the table has one version")
        self.rollback_line = f"%sleeper rollback {self.table} {self.before}"
        look = f"{self.rollback_line} --dry-run"
        self._line.value = same_as(look, "to look at first") + same_as(self.rollback_line, "to do")

    def _static(self) -> Preview:
        picture = self._opened.timeline(self.after, self.before)
        text = f"{self.table} from snapshot {self.before} to {self.after}\n{self.difference.text}"
        return Preview(f"%sleeper timeline {self.table}", picture + self.difference.html, text)

    def _show_error(self, error: str) -> None:
        self._error.value = error

    def _explained(self, error: Exception) -> Exception:
        if not isinstance(error, NotFound) or self._model.has_table(self.table):
            return error
        self._travel.children = ()
        self._back.disabled = True
        self._clear()
        hint = "%sleeper tables lists those that there are, %sleeper timeline NAME opens one"
        return NotFound(f"no table {self.table!r} any more: it was renamed or deleted", hint=hint)

    def _clear(self) -> None:
        """Remove from the page what is of versions that cannot be read."""
        self._line.value = self._between.value = self._rows.value = self.rollback_line = ""
        self.difference = self.preview = _NOTHING

    def _show(self) -> None:
        self._error.value = self._line.value = self.rollback_line = ""
        try:
            self._fill()
        except Exception as error:  # noqa: BLE001 - the error is shown, and another version can be selected
            self._error.value = alert(self._explained(error))
            self._clear()

    def _fill(self) -> None:
        self._opened = self._model.reopened_if_changed(self._opened)
        self._opened.list_if_unlisted(self.before, self.after)
        self._set_controls()
        self._picture.value = self._opened.timeline(self.after, self.before)
        ends = (html.escape(self._opened.labels[number]) for number in (self.before, self.after))
        self._label.value = f'<b role="status">{" → ".join(ends)}</b>'
        self.difference = self._opened.difference(self.before, self.after)
        self.preview = self._opened.opened(self.after).preview("rows")
        for place, shown in ((self._between, self.difference), (self._rows, self.preview)):
            place.value = f"{same_as(shown.line)}{shown.html}"

    def _set_controls(self) -> None:
        """Set the controls to the values of the traits."""
        with self._without_events():
            stops = tuple((label, number) for number, label in self._opened.labels.items())
            self._back.disabled = len(stops) < 2
            if len(stops) < 2:  # the front-end cannot draw a slider with a single stop
                self._travel.children = (self._label,)
                return
            if self._handles.options != stops:
                self._handles.options = stops
                self._handles.layout = {"width": f"calc({100 - 100 / len(stops):.3f}% + 10px)", "margin": "0 auto"}
            self._handles.value = (min(self.before, self.after), max(self.before, self.after))
            self._travel.children = (self._picture, self._handles, self._chosen)
