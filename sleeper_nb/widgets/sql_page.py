"""The explorer's tab for SQL: the field, the first rows of the answer, and its chart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import ipywidgets

from sleeper_nb.widgets.explorer_model import Preview
from sleeper_nb.widgets.live import same_as
from sleeper_nb.widgets.sql_editor import SqlEditor
from sleeper_nb.widgets.sql_model import CHART_KINDS, ChartChoice, DrawnChart, SqlModel

_CHOSEN_BY_TYPES = ("by the types", "")
_ONE_COLOUR = ("one colour", "")


class SqlPage(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """A field for a query, the equivalent command, the first rows and their chart.

    Parameters
    ----------
    model
        Remembers queries, and has the answer.
    attempt
        Runs an action and shows its error.
    typed, run
        Called with the text: after a pause in typing, and when it is to run.
    chosen
        Called with the chart that the user chooses.
    without_events
        A context in which choices are not reported.
    """

    def __init__(
        self,
        model: SqlModel,
        attempt: Callable[[Callable[[], None]], None],
        typed: Callable[[str], None],
        run: Callable[[str], None],
        chosen: Callable[[Any], None],
        without_events: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._model, self._chosen, self._without_events = model, chosen, without_events
        self.editor = SqlEditor(attempt, typed, run, model.words)
        self._answer, self._failure = ipywidgets.HTML(), ipywidgets.HTML()
        self._controls = {
            "kind": ipywidgets.Dropdown(description="Chart", options=CHART_KINDS),
            "x": ipywidgets.Dropdown(description="Along x"),
            "y": ipywidgets.Dropdown(description="Height"),
            "color": ipywidgets.Dropdown(description="Colours"),
        }
        self._choices, self._drawn = ipywidgets.HBox(), ipywidgets.Output()
        self._choices.add_class("sleeper-chart-choices")
        super().__init__([self.editor, self._answer, self._choices, self._failure, self._drawn])
        self.add_class("sleeper-sql")
        self._choice = ChartChoice()
        for name, control in self._controls.items():
            control.observe(lambda change, name=name: self._choose(name, change["new"]), "value")

    def show(self, statement: str, shown: Preview, choice: ChartChoice, drawn: DrawnChart | None, failure: str) -> None:
        """Show a statement, its command and answer; the choice of a chart, and it, or why there is none."""
        self.editor.show(statement, self._model.earlier)
        self._answer.value = f'{same_as(shown.line)}<div role="status">{shown.html}</div>' if shown.line else ""
        self._failure.value, self._choice = failure, choice
        columns = self._model.columns
        fitting = choice.within(columns)
        with self._without_events():
            for name, control in self._controls.items():
                if name != "kind":
                    first = _ONE_COLOUR if name == "color" else _CHOSEN_BY_TYPES
                    control.options = (first, *((column, column) for column in dict.fromkeys(columns)))
                control.value = getattr(fitting, name)
        has_chart = choice.kind != CHART_KINDS[0]
        shown_controls = [self._controls["kind"], *(self._controls[name] for name in ("x", "y", "color") if has_chart)]
        if choice.kind == "hist":
            shown_controls.remove(self._controls["y"])
        self._choices.children = tuple(shown_controls) if columns else ()
        self._drawn.outputs = () if drawn is None else (_output(drawn),)

    def _choose(self, name: str, value: str | None) -> None:
        if value is not None:
            self._chosen({"new": replace(self._choice, **{name: value})})


def _output(drawn: DrawnChart) -> dict[str, Any]:
    return {"output_type": "display_data", "data": drawn.data, "metadata": drawn.metadata}
