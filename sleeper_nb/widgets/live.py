"""The base of the form and the job watch: a picture for the saved notebook, controls that follow traits, errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import ipywidgets
from IPython.display import display

from sleeper_nb.widgets.request_lanes import failure_of
from sleeper_nb.widgets.static_picture import StaticPicture, failure_picture, static_bundle

# Selectors name our own classes, those of ipywidgets and ARIA roles; the classes inside JupyterLab are not public.
# While a live widget is on the page, the static picture would say everything twice, so the output before the widget's
# is hidden. The depth of the picture in it is given: a cell is not hidden because the next one has a live widget.
STYLE = """<style>
:has(> * > .sleeper-static):has(+ * .sleeper-live) { display: none; }
.sleeper-live { max-width: 1244px; }
.sleeper-live .widget-html { height: auto; }
.sleeper-live .widget-html-content { flex: 1 1 0; min-width: 0; line-height: 1.45; }
.sleeper-live .widget-html-content { color: var(--jp-content-font-color1, inherit); }
.sleeper-live :is(th, td:not(:last-child)) { white-space: nowrap; }
.sleeper-live .widget-dropdown > select { appearance: auto; background-image: none; }
.sleeper-live .widget-hbox { flex-wrap: wrap; }
.sleeper-live .sleeper-line { white-space: pre-wrap; display: inline-block; vertical-align: top; }
.sleeper-live .sleeper-line { user-select: all; font-family: var(--jp-code-font-family, monospace); }
.sleeper-live .sleeper-error { border-left: 3px solid var(--jp-error-color1, #d32f2f); padding-left: 8px; }
</style>"""


class LiveWidget(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """A widget whose state is in its traits: a control sets a trait, and is set from the traits."""

    def __init__(self, *children: ipywidgets.Widget) -> None:
        self._syncing = False
        # JupyterLab hands changes of some controls to another thread (a subshell of the kernel) than those of others.
        self._one_at_a_time = threading.RLock()
        super().__init__([ipywidgets.HTML(STYLE), *children])
        self.add_class("sleeper-live")

    def _static(self) -> StaticPicture:
        raise NotImplementedError  # pragma: no cover - each widget has its own

    def _set_controls(self) -> None:
        raise NotImplementedError  # pragma: no cover - each widget has its own

    def _show_error(self, error: str) -> None:
        raise NotImplementedError  # pragma: no cover - each widget has its own

    def _ipython_display_(self) -> None:
        """Display the static picture as an output of its own, then the live widget.

        A notebook that is opened again cannot show the widget, and the front-end puts an error in its place.
        """
        self._attempt(self._display_static)
        display({**self._repr_mimebundle_(), "text/plain": repr(self)}, raw=True)

    def _display_(self) -> StaticPicture:
        """Return the static picture, for marimo: it shows no ipywidgets, and asks for this instead."""
        return self._static()

    def _display_static(self) -> None:
        display(static_bundle(self._static()), raw=True)

    def _attempt(self, action: Callable[[], None]) -> None:
        """Run an action and show its error: an error that a callback raises would not be visible."""
        with self._one_at_a_time:
            try:
                action()
            except Exception as error:  # noqa: BLE001 - every error is shown to the user
                self._set_controls()
                self._show_error(alert(error))

    @contextmanager
    def _without_events(self) -> Iterator[None]:
        """Give a context in which the controls can be set without setting traits."""
        with self._one_at_a_time:
            before, self._syncing = self._syncing, True
            try:
                yield
            finally:
                self._syncing = before


def button(description: str, tooltip: str, icon: str = "") -> ipywidgets.Button:
    """Return a button as wide as its text; the name of one with only an icon is its tooltip."""
    return ipywidgets.Button(description=description, tooltip=tooltip, icon=icon, layout={"width": "auto"})


def alert(error: Exception) -> str:
    """Return an error as HTML: its message and its hint."""
    return f'<div class="sleeper-error">{failure_picture(failure_of(error)).html}</div>'
