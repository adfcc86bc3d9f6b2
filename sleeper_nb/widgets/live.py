"""What the widgets share: a static twin that stays in the notebook, controls that follow traits, errors to be seen."""

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

# While the live widget is on the page, the static picture above it would say everything twice.
STYLE = """<style>
.jp-OutputArea:has(.sleeper-live) > .jp-OutputArea-child:has(.sleeper-static) { display: none; }
.sleeper-live { max-width: 1244px; }
.sleeper-live .widget-html { height: auto; }
.sleeper-live .widget-html-content { flex: 1 1 0; min-width: 0; line-height: 1.45; }
.sleeper-live .widget-html-content { color: var(--jp-content-font-color1, inherit); }
.sleeper-live :is(th, td:not(:last-child)) { white-space: nowrap; }
.sleeper-live .widget-slider .noUi-handle { border-color: var(--jp-ui-font-color2, currentColor); }
.sleeper-live .sleeper-preview > .lm-TabBar .lm-TabBar-tab { color: var(--jp-ui-font-color1, inherit); }
.sleeper-live button:has(> i:only-child) { flex: none; min-width: 28px; padding: 0; text-overflow: clip; }
.sleeper-live .sleeper-travel { max-width: 1080px; }
.sleeper-live .sleeper-travel .widget-hbox { align-items: center; }
.sleeper-live .widget-dropdown > select { appearance: auto; background-image: none; }
.sleeper-live .widget-hbox { flex-wrap: wrap; }
.sleeper-live :is(.sleeper-halves, .sleeper-leaves, .sleeper-travel .widget-hbox) { flex-wrap: nowrap; }
.sleeper-live :is(.sleeper-steps, .sleeper-steps button) { flex: none; }
.sleeper-live .sleeper-travel .sleeper-version { flex: 0 1 auto; min-width: 0; overflow-wrap: anywhere; }
.sleeper-live .sleeper-preview > .lm-TabBar > .lm-TabBar-content { flex-wrap: wrap; }
.sleeper-live .sleeper-preview > .lm-TabBar .lm-TabBar-tab { flex: 0 0 auto; min-width: 0; }
.sleeper-live .sleeper-preview > .lm-TabBar .lm-TabBar-tabLabel { overflow: visible; }
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
.sleeper-live .sleeper-error { border-left: 3px solid var(--jp-error-color1, #d32f2f); padding-left: 8px; }
</style>"""


class LiveWidget(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """A widget whose traits are the truth: a control hands its change on to a trait, and shows what the traits say.

    Parameters
    ----------
    children
        Below the style and above nothing; `error` may be among them.
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
        """Make the controls say what the traits say."""
        raise NotImplementedError  # pragma: no cover - each widget has its own

    def _say(self, error: str) -> None:
        """Show an error, or none."""
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

    def _asked(self, trait: str, value: Callable[[Any], Any] = lambda value: value) -> Callable[[Any], None]:
        """Return what hands the change of a control on to a trait, unless the control itself was just set."""

        def hand_on(change: Any) -> None:
            with self._one_at_a_time:
                if not self._syncing and change["new"] is not None:
                    self._attempt(lambda: setattr(self, trait, value(change["new"])))

        return hand_on

    def _attempt(self, action: Callable[[], None]) -> None:
        """Do something; an error is shown, because what a control's callback raises is seen by nobody."""
        with self._one_at_a_time:
            try:
                action()
            except Exception as error:  # noqa: BLE001 - whatever it is, it has to be seen
                self._set_controls()
                self._say(alert(self._told(error)))

    def _told(self, error: Exception) -> Exception:
        """Return what is to be said of an error; what cannot be read any more is taken from the page."""
        return error

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        with self._one_at_a_time:
            before, self._syncing = self._syncing, True
            try:
                yield
            finally:
                self._syncing = before


def static_bundle(kept: Preview) -> dict[str, str]:
    """Return the output that stays in a saved notebook, and is hidden where the live widget is on the page."""
    return {"text/html": f'<div class="sleeper-static">{kept.html}</div>', "text/plain": kept.text}


def button(description: str, tooltip: str, icon: str = "") -> ipywidgets.Button:
    """Return a button as wide as what stands on it; one with only an icon is called what its tooltip says."""
    return ipywidgets.Button(description=description, tooltip=tooltip, icon=icon, layout={"width": "auto"})


def steps(what: str, move: Callable[[int], object], *, icons: bool = False) -> ipywidgets.HBox:
    """Return two buttons, of which one moves by -1 and one by 1.

    They go through a list, as of the arrow keys in a list JupyterLab makes moves between cells; and along a slider, as
    ipywidgets gives its handles no name that a screen reader could say.
    """

    def step(by: int, name: str, icon: str) -> ipywidgets.Button:
        made = button("", f"{name} {what}", icon) if icons else button(name, f"{name} {what}")
        made.on_click(lambda _: move(by))
        return made

    both = ipywidgets.HBox([step(-1, "Previous", "chevron-left"), step(1, "Next", "chevron-right")])
    both.add_class("sleeper-steps")
    return both


def along(listed: ipywidgets.Select | ipywidgets.SelectionSlider) -> Callable[[int], None]:
    """Return what moves the choice among some options by so many of them, as far as there are any."""

    def move(by: int) -> None:
        if listed.options:
            at = -1 if listed.index is None else listed.index
            listed.index = min(max(at + by, 0), len(listed.options) - 1)

    return move


def alert(error: Exception) -> str:
    """Return an error as HTML: what is wrong, and the hint."""
    if isinstance(error, SleeperError):
        message, hint = error.message, hint_text(error.hint_parts, "%sleeper")
    else:
        message, hint = f"{type(error).__name__}: {error}", None
    below = f"<div>hint: {html.escape(hint)}</div>" if hint else ""
    return f'<div class="sleeper-error" role="alert"><b>{html.escape(message)}</b>{below}</div>'


def same_as(line: str, word: str = "same as") -> str:
    """Return a magic line, to be selected with one click, and before it what it is."""
    code = f'<code class="sleeper-line" tabindex="0" title="click to select">{html.escape(line)}</code>'
    return f'<div class="sleeper-same">{word} {code}</div>'


# A list to choose from, with a field that narrows it when it is long, and its buttons to go back and forth.

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
