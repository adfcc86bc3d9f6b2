"""A panel that shows what an action would do, and its command; the action runs when its button is pressed."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets

from sleeper_nb.widgets.command_line import CommandLine
from sleeper_nb.widgets.live import button


class PlanPanel(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """The plan of one action; empty while none is planned.

    Parameters
    ----------
    attempt
        Runs an action and shows its error.
    """

    def __init__(self, attempt: Callable[[Callable[[], None]], None]) -> None:
        self._attempt = attempt
        self._run: Callable[[], None] | None = None
        self._shown: tuple[ipywidgets.Widget, ...] = ()
        self._is_open = False
        self._plan, self._command = ipywidgets.HTML(), CommandLine()
        self.confirm = button("", "Do what the plan says")
        self.cancel = button("Cancel", "Close the plan; nothing is changed")
        super().__init__()
        self.add_class("sleeper-plan")
        self.confirm.on_click(lambda _: self._attempt(self._confirmed))
        self.cancel.on_click(lambda _: self.clear())

    def show(self, plan: str, line: str, name: str, run: Callable[[], None] | None, *fields: ipywidgets.Widget) -> None:
        """Show a plan.

        Parameters
        ----------
        plan
            What would be done, as HTML.
        line
            The command that does it.
        name
            What the button says.
        run
            Does it; None when there is nothing to do.
        fields
            Controls above the plan.
        """
        self._plan.value = f'<div role="status">{plan}</div>'
        self._command.line = line
        self._run, self.confirm.description = run, name
        self.confirm.disabled = run is None
        shown = (*fields, self._plan, self._command, ipywidgets.HBox([self.confirm, self.cancel]))
        if self._shown != fields or not self._is_open:  # a field that is being typed in stays where it is
            self.children = shown
        self._shown, self._is_open = fields, True

    def clear(self) -> None:
        """Show no plan."""
        self._run, self._is_open = None, False
        self.children = ()

    def _confirmed(self) -> None:
        run, self._run = self._run, None  # a second click finds nothing to do
        if run is not None:
            run()
