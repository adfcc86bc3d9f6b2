"""The base of all widgets: a static picture for the saved notebook, controls that follow traits, errors on the page."""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import ipywidgets
from IPython.display import display

from sleeper_nb.errors import SleeperError, hint_text
from sleeper_nb.widgets.explorer_model import Preview

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
.sleeper-live .widget-slider .noUi-handle { border-color: var(--jp-ui-font-color2, currentColor); }
.sleeper-live .sleeper-preview > * > [role="tablist"] > [role="tab"] { color: var(--jp-ui-font-color1, inherit); }
.sleeper-live button:has(> i:only-child) { flex: none; min-width: 28px; padding: 0; text-overflow: clip; }
.sleeper-live .sleeper-travel { max-width: 1080px; }
.sleeper-live .sleeper-travel .widget-hbox { align-items: center; }
.sleeper-live .widget-dropdown > select { appearance: auto; background-image: none; }
.sleeper-live .widget-hbox { flex-wrap: wrap; }
.sleeper-live :is(.sleeper-halves, .sleeper-leaves, .sleeper-travel .widget-hbox) { flex-wrap: nowrap; }
.sleeper-live :is(.sleeper-steps, .sleeper-steps button) { flex: none; }
.sleeper-live .sleeper-travel .sleeper-version { flex: 0 1 auto; min-width: 0; overflow-wrap: anywhere; }
.sleeper-live .sleeper-preview > * > [role="tablist"]:has(> [role="tab"]) { flex-wrap: wrap; }
.sleeper-live .sleeper-preview > * > [role="tablist"] > [role="tab"] { flex: 0 0 auto; min-width: 0; }
.sleeper-live .sleeper-preview > * > [role="tablist"] > [role="tab"] > * { overflow: visible; }
.sleeper-live .sleeper-tables { flex: 0 0 150px; }
.sleeper-live .sleeper-tables :is(.widget-select, .widget-text) { flex-direction: column; width: auto; height: auto; }
.sleeper-live .sleeper-tables .widget-label { width: auto; text-align: left; }
.sleeper-live .sleeper-chosen { flex: 1 1 0; min-width: 0; }
.sleeper-live .sleeper-tables :is(select, input) { width: 100%; flex: none; }
.sleeper-live .sleeper-map { position: relative; max-width: 1080px; }
.sleeper-live .sleeper-map .widget-html { margin: 0; }
.sleeper-live .sleeper-leaves { position: absolute; left: 0; width: 100%; margin: 0; overflow: hidden; }
.sleeper-live .sleeper-leaves button { flex: 1 1 0; min-width: 0; padding: 0; height: 100%; margin: 0; }
.sleeper-live .sleeper-leaves button { background: none; }
.sleeper-live .sleeper-leaves button:hover { outline: 3px solid currentColor; outline-offset: -3px; }
.sleeper-live :is(.sleeper-range, .sleeper-filter, .sleeper-sql .widget-textarea) { width: auto; height: auto; }
.sleeper-live :is(.sleeper-range, .sleeper-filter, .sleeper-sql .widget-textarea) .widget-label { width: auto; }
.sleeper-live .sleeper-tables .sleeper-steps button { flex: 1 1 0; padding: 0; }
.sleeper-live .sleeper-sql button { align-self: flex-start; }
.sleeper-live .sleeper-line { white-space: pre-wrap; display: inline-block; vertical-align: top; }
.sleeper-live .sleeper-same { margin-bottom: 8px; }
.sleeper-live .sleeper-line { user-select: all; font-family: var(--jp-code-font-family, monospace); }
.sleeper-live .sleeper-toggles button { padding: 0 10px !important; }
.sleeper-live .sleeper-toggles { margin: 2px 0; }
.sleeper-live .sleeper-error { border-left: 3px solid var(--jp-error-color1, #d32f2f); padding-left: 8px; }
</style>"""


class LiveWidget(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """A widget whose state is in its traits: a control sets a trait, and is set from the traits.

    Parameters
    ----------
    children
        The widgets on the page, from top to bottom.
    """

    def __init__(self, *children: ipywidgets.Widget) -> None:
        self._syncing = False
        # JupyterLab hands changes of some controls to another thread (a subshell of the kernel) than those of others.
        self._one_at_a_time = threading.RLock()
        super().__init__([ipywidgets.HTML(STYLE), *children])
        self.add_class("sleeper-live")

    def _static(self) -> Preview | None:
        """Return what stays in a saved notebook; None when there is nothing to show."""
        raise NotImplementedError  # pragma: no cover - each widget has its own

    def _set_controls(self) -> None:
        """Set the controls to the values of the traits."""
        raise NotImplementedError  # pragma: no cover - each widget has its own

    def _show_error(self, error: str) -> None:
        """Show an error as HTML; an empty text removes it."""
        raise NotImplementedError  # pragma: no cover - each widget has its own

    def _ipython_display_(self) -> None:
        """Display the static picture as an output of its own, then the live widget.

        A notebook that is opened again cannot show the widget, and the front-end puts an error in its place.
        """
        self._attempt(self._display_static)
        display({**self._repr_mimebundle_(), "text/plain": repr(self)}, raw=True)

    def _display_(self) -> Preview | None:
        """Return the static picture, for marimo: it shows no ipywidgets, and asks for this instead."""
        return self._static()

    def _display_static(self) -> None:
        kept = self._static()
        if kept is not None:
            display(static_bundle(kept), raw=True)

    def _setter(self, trait: str, value: Callable[[Any], Any] = lambda value: value) -> Callable[[Any], None]:
        """Return an observer that sets a trait to the new value of a control, unless the widget set the control."""

        def set_trait(change: Any) -> None:
            with self._one_at_a_time:
                if not self._syncing and change["new"] is not None:
                    self._attempt(lambda: setattr(self, trait, value(change["new"])))

        return set_trait

    def _attempt(self, action: Callable[[], None]) -> None:
        """Run an action and show its error: an error that a callback raises would not be visible."""
        with self._one_at_a_time:
            try:
                action()
            except Exception as error:  # noqa: BLE001 - every error is shown to the user
                self._set_controls()
                self._show_error(alert(self._explained(error)))

    def _explained(self, error: Exception) -> Exception:
        """Return the error to show; a widget also removes from the page what can no longer be read."""
        return error

    @contextmanager
    def _without_events(self) -> Iterator[None]:
        """Give a context in which the controls can be set without setting traits."""
        with self._one_at_a_time:
            before, self._syncing = self._syncing, True
            try:
                yield
            finally:
                self._syncing = before


def static_bundle(kept: Preview) -> dict[str, str]:
    """Return the output that stays in a saved notebook; it is hidden while the live widget is on the page."""
    return {"text/html": f'<div class="sleeper-static">{kept.html}</div>', "text/plain": kept.text}


def button(description: str, tooltip: str, icon: str = "") -> ipywidgets.Button:
    """Return a button as wide as its text; the name of one with only an icon is its tooltip."""
    return ipywidgets.Button(description=description, tooltip=tooltip, icon=icon, layout={"width": "auto"})


def steps(what: str, move: Callable[[int], object], *, icons: bool = False) -> ipywidgets.HBox:
    """Return two buttons: Previous moves by -1, Next by 1.

    A list needs them because JupyterLab takes the arrow keys in a list to move between cells; a slider, because
    ipywidgets gives its handles no name for a screen reader.
    """

    def step(by: int, name: str, icon: str) -> ipywidgets.Button:
        made = button("", f"{name} {what}", icon) if icons else button(name, f"{name} {what}")
        made.on_click(lambda _: move(by))
        return made

    both = ipywidgets.HBox([step(-1, "Previous", "chevron-left"), step(1, "Next", "chevron-right")])
    both.add_class("sleeper-steps")
    return both


def along(listed: ipywidgets.Select | ipywidgets.SelectionSlider) -> Callable[[int], None]:
    """Return a function that moves the selection in a list by a number of options, within the list."""

    def move(by: int) -> None:
        if listed.options:
            at = -1 if listed.index is None else listed.index
            listed.index = min(max(at + by, 0), len(listed.options) - 1)

    return move


def alert(error: Exception) -> str:
    """Return an error as HTML: its message and its hint."""
    if isinstance(error, SleeperError):
        message, hint = error.message, hint_text(error.hint_parts, "%sleeper")
    else:
        message, hint = f"{type(error).__name__}: {error}", None
    below = f"<div>hint: {html.escape(hint)}</div>" if hint else ""
    return f'<div class="sleeper-error" role="alert"><b>{html.escape(message)}</b>{below}</div>'


def same_as(line: str, word: str = "same as") -> str:
    """Return a command that can be selected with one click, after a word that introduces it."""
    code = f'<code class="sleeper-line" tabindex="0" title="click to select">{html.escape(line)}</code>'
    return f'<div class="sleeper-same">{word} {code}</div>'


LONG = 12
"""Longer lists have a filter."""
MOST = 1000
"""The most options that a list shows at a time."""
Option = tuple[str, str]
Reason = Callable[[str, Sequence[str]], str | None]


def by_label(label: str, words: Sequence[str]) -> str | None:
    """Return an empty text when a label has all words in it, and None when it has not."""
    return "" if all(word in label.casefold() for word in words) else None


class FilteredList(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """A list to select from, with buttons, and with a filter when it is long.

    The filter is a field of its own because JupyterLab takes letters that are typed in a list for commands.

    Parameters
    ----------
    title
        The title above the list.
    what
        What one option is: ``"table"``.
    chosen
        Called with each selection.
    without_events
        A context in which selections are not reported: the list is being set.
    rows
        The most options that are visible at once.
    fixed
        Options, as label and value, that are listed whatever the filter.
    reason
        Returns why an option is found by words in lower case, which is written after its label: empty where the label
        is enough, None where it is not found. By the label alone unless given.
    least
        Longer lists have a filter.
    hint
        What can be typed into the filter; part of an option unless given.
    """

    def __init__(
        self,
        title: str,
        what: str,
        chosen: Callable[[Any], None],
        without_events: Callable[[], AbstractContextManager[None]],
        rows: int,
        fixed: tuple[Option, ...] = (),
        *,
        reason: Reason = by_label,
        least: int = LONG,
        hint: str = "",
    ) -> None:
        self._what, self._tell, self._without_events, self._rows = what, chosen, without_events, rows
        self._fixed, self._reason, self._least = fixed, reason, least
        self._options: tuple[Option, ...] = ()
        self._chosen: str | None = None
        self.filter = ipywidgets.Text(description="Filter", placeholder=hint or f"part of a {what}")
        self.list = ipywidgets.Select(description=title)
        self._moves, self._note = steps(what, along(self.list)), ipywidgets.HTML()
        super().__init__()
        self._set_parts()
        for widget, name in ((self, "choice"), (self.filter, "filter"), (self.list, what)):
            widget.add_class(f"sleeper-{name}")
        self.list.observe(chosen, "value")
        self.filter.observe(lambda _: self.narrow(), "value")

    def show(self, options: tuple[Option, ...], chosen: str | None) -> None:
        """Show options, as label and value, and select one of them."""
        with self._without_events():
            if self._options != options:
                self._options = options
                self._set_parts()
            self._chosen = chosen
            self.narrow()

    def pick(self, value: str) -> None:
        """Select a value, and clear the filter."""
        self.filter.value = ""
        self._tell({"new": value})

    def _set_parts(self) -> None:
        is_long = len(self._options) > self._least
        if not is_long:
            self.filter.value = ""
        self.children = (*((self.filter,) if is_long else ()), self.list, self._moves, self._note)
        self.list.rows = min(max(len(self._options) + len(self._fixed), 2), self._rows)
        for step in self._moves.children:
            step.disabled = not self._options

    def narrow(self) -> None:
        """List the options that match the filter; of very many, the thousand with the selected one."""
        with self._without_events():
            matches = self._matches(self.filter.value.casefold().split())
            at = next((i for i, (_, value) in enumerate(matches) if value == self._chosen), 0)
            first = at - at % MOST
            listed = (*self._fixed, *matches[first : first + MOST])
            if self.list.options != listed:
                self.list.options = listed
            self.list.value = self._chosen if any(value == self._chosen for _, value in listed) else None
            self._note.value = f'<div role="status">{html.escape(self._counts(matches, first))}</div>'

    def _matches(self, words: Sequence[str]) -> list[Option]:
        """Return the options that words find, first those whose labels have them all."""
        found = [(self._reason(label, words), label, value) for label, value in self._options]
        by_label = [(label, value) for why, label, value in found if why == ""]
        return by_label + [(f"{label} · {why}", value) for why, label, value in found if why]

    def _counts(self, matches: Sequence[Option], first: int) -> str:
        """Return which of the options are listed; nothing when it is all of them."""
        if not matches and self._options:
            return f"no {self._what} has {self.filter.value.strip()!r} in it"
        if len(matches) <= MOST:
            return f"{len(matches):,} of {len(self._options):,} {self._what}s" if self.filter.value.strip() else ""
        part = f"{first + 1:,}–{min(first + MOST, len(matches)):,}" if first else f"first {MOST:,}"
        return f"{part} of {len(matches):,} {self._what}s"
