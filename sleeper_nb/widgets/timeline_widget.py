"""The timeline as ipywidgets: two handles over the versions of a table, what changed between them, and two actions."""

from __future__ import annotations

import html
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import ipywidgets
import traitlets
from IPython.display import DisplayHandle, display

from sleeper_nb.errors import ConflictError, InvalidInput, NotFound
from sleeper_nb.model.savepoints import check_savepoint_name
from sleeper_nb.progress import Watch
from sleeper_nb.report import Bytes, cell_text
from sleeper_nb.widgets.change_html import (
    KINDS,
    ShownRows,
    columns_html,
    files_html,
    headline,
    static_html,
    totals,
)
from sleeper_nb.widgets.command_line import CommandLine
from sleeper_nb.widgets.explorer_model import ExploreModel, Preview
from sleeper_nb.widgets.latest_work import Background, LatestWork, run_in_thread
from sleeper_nb.widgets.live import LiveWidget, alert, button, static_bundle, steps
from sleeper_nb.widgets.plan_panel import PlanPanel
from sleeper_nb.widgets.version_change import COLUMNS, VersionDiff, VersionPair

if TYPE_CHECKING:
    from sleeper_nb.session import Session
    from sleeper_nb.table import Table

VIEWS: Final = {"rows": "Changed rows", "columns": "Columns", "files": "Files and partitions"}
_NOTHING: Final = Preview("", "", "")
_PATIENCE: Final = 5.0
"""Seconds for which the cell waits for the change, so that it is in the saved picture."""
_PICTURE_ROOM: Final = 48_000
"""Bytes of the saved picture without the history above it."""


class DiffPage(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """What changed: its totals and command, and the rows, columns or files, one of them at a time.

    Parameters
    ----------
    owner
        The timeline, whose ``view`` and ``kind`` the controls set.
    """

    def __init__(self, owner: Timeline) -> None:
        self._owner = owner
        self._head, self._content = ipywidgets.HTML(), ipywidgets.HTML()
        self.command = CommandLine()
        self.views = ipywidgets.ToggleButtons(options=[(name, view) for view, name in VIEWS.items()])
        self.kinds = ipywidgets.ToggleButtons(options=[(kind, kind) for kind in KINDS])
        for toggle in (self.views, self.kinds):
            _fit(toggle)
        self.ask = button("", "Read it now")
        self.turns = tuple(
            button(f"{name} columns", f"Show the {name.lower()} columns") for name in ("Previous", "Next")
        )
        self._paging = ipywidgets.HBox(self.turns)
        super().__init__()
        self.add_class("sleeper-difference")

    def show(self, change: VersionDiff | None, loading: str) -> None:
        """Show a change as far as it is known; `loading` is what is being read, empty when nothing is."""
        owner, parts = self._owner, [self._head, self.command, self.views]
        if change is None:
            self._head.value = _status(loading)
            self.set_trait("children", [self._head])
            return
        self.views.value = owner.view
        notes = "" if change.diff is None else change.diff.grid().footer
        self._head.value = f"{headline(change)}<div>{html.escape(notes)}</div>{_status(loading)}"
        self.command.line = self._line(change)
        content, controls = self._shown(change, loading)
        self._content.value = content
        self.set_trait("children", [*parts, *controls, self._content])

    def clear(self) -> None:
        """Show nothing."""
        self.children = ()

    def _line(self, change: VersionDiff) -> str:
        options = {"rows": " --rows --images", "columns": " --images", "files": ""}
        return change.line + options[self._owner.view]

    def _shown(self, change: VersionDiff, loading: str) -> tuple[str, list[ipywidgets.Widget]]:
        """Return the content of the view that is open, and the controls above it."""
        view = self._owner.view
        if view == "files":
            return files_html(change.files), []
        is_known = change.rows if view == "rows" else change.columns
        if is_known is None:
            if loading:
                return "", []
            verb, size = {
                "rows": ("Compare the rows", change.compared_bytes),
                "columns": ("Count the columns", change.counted_bytes),
            }[view]
            self.ask.description = f"{verb} (reads up to {Bytes(size)})"
            return "", [self.ask]
        if view == "columns":
            of = len(change.schema.names)
            self.turns[0].disabled = change.first_column == 0
            self.turns[1].disabled = change.first_column + COLUMNS >= of
            return columns_html(change), [self._paging] if of > COLUMNS else []
        assert change.rows is not None  # noqa: S101 - just checked
        counts = totals(change.rows)
        options = tuple((f"{kind} {counts[kind]:,}", kind) for kind in KINDS)
        if self.kinds.options != options:
            self.kinds.options = options
        self.kinds.value = self._owner.kind
        return ShownRows.of(change, self._owner.kind).html(), [self.kinds] if counts["all"] else []


def _fit(toggles: ipywidgets.ToggleButtons) -> None:
    toggles.style.button_width = "auto"
    toggles.add_class("sleeper-toggles")


def _status(text: str) -> str:
    return f'<div role="status"><i>{html.escape(text)}</i></div>' if text else ""


class Timeline(LiveWidget):
    """One table over its versions; made by `sleeper_nb.widgets.timeline`.

    Parameters
    ----------
    session
        The session that has the table. Everything is read in process: Spark is never started.
    table
        The name of the table.
    background
        Runs a function in the background; a test runs it itself.

    Attributes
    ----------
    table
        The name of the table, as it was created.
    before, after
        The numbers of the two versions that are compared; either can be set to ``12`` or ``"savepoint.half-year"``.
        The initial values are the last two versions.
    view
        ``"rows"``, ``"columns"`` or ``"files"``: what is shown of the change.
    kind
        Which rows are shown: ``"all"``, ``"added"``, ``"removed"`` or ``"changed"``.
    change
        What is known of the change, a `VersionDiff`; None while nothing is. `wait` waits for it.
    difference
        The totals of the change; its ``line`` is the equivalent command. Empty until the rows are compared.
    rollback_line, savepoint_line
        The command of the plan that is shown; empty while there is none.
    """

    before = traitlets.Any()
    after = traitlets.Any()
    view = traitlets.Enum(list(VIEWS), "rows")
    kind = traitlets.Enum(KINDS, "all")
    change = traitlets.Instance(VersionDiff, allow_none=True)
    difference = traitlets.Instance(Preview, ("", "", ""))
    rollback_line = traitlets.Unicode()
    savepoint_line = traitlets.Unicode()

    def __init__(self, session: Session, table: str, background: Background = run_in_thread) -> None:
        self._model = ExploreModel(session)
        self._opened = self._model.open(table)
        self.table = self._opened.name
        self._work, self._serial, self._loading = LatestWork(background), 0, ""
        self._pair: VersionPair | None = None
        self._kept: tuple[int, DisplayHandle] | None = None
        self._make_controls()
        super().__init__(self._travel, self._buttons, self._plan, self._done, self._error, self._page)
        names = {"timeline": self, "travel": self._travel, "version": self._label}
        for name, widget in names.items():
            widget.add_class(f"sleeper-{name}")
        self._is_moving = False
        numbers = list(self._opened.labels)
        self.after, self.before = numbers[-1], numbers[-2] if len(numbers) > 1 else numbers[-1]
        self._follow_controls()
        self._show()

    def _make_controls(self) -> None:
        self._picture, self._label, self._error, self._done = (ipywidgets.HTML() for _ in range(4))
        self._handles = ipywidgets.SelectionRangeSlider(
            options=[("", 0), ("", 1)], continuous_update=False, readout=False
        )
        self._again = button("Refresh", "Look for new versions")
        self._back = button("Roll back…", "Plan a rollback to the version of the left handle")
        self._save = button("Create savepoint…", "Plan a savepoint of one of the two versions")
        left, right = (
            steps(f"version on the {side}", partial(self._step, handle), icons=True)
            for handle, side in enumerate(("left", "right"))
        )
        self._chosen, self._travel = ipywidgets.HBox([left, self._label, right]), ipywidgets.VBox()
        self._buttons = ipywidgets.HBox([self._again, self._back, self._save])
        self._plan, self._page = PlanPanel(self._attempt), DiffPage(self)
        self._saved = ipywidgets.ToggleButtons(description="Version")
        _fit(self._saved)
        self._name = ipywidgets.Text(description="Name", placeholder="optional, such as before-fix")

    def _follow_controls(self) -> None:
        self._handles.observe(lambda change: self._attempt(lambda: self._moved(change["new"])), "value")
        self._again.on_click(lambda _: self._attempt(self.refresh))
        self._back.on_click(lambda _: self._attempt(self.plan_rollback))
        self._save.on_click(lambda _: self._attempt(self.plan_savepoint))
        self._page.views.observe(self._setter("view"), "value")
        self._page.kinds.observe(self._setter("kind"), "value")
        self._page.ask.on_click(lambda _: self._attempt(lambda: self._load(frozenset({self.view}))))
        for by, turn in zip((-COLUMNS, COLUMNS), self._page.turns, strict=True):
            turn.on_click(lambda _, by=by: self._attempt(lambda: self._turn_columns(by)))
        for field in (self._saved, self._name):
            field.observe(lambda _: None if self._syncing else self._attempt(self._show_savepoint), "value")
        self.observe(lambda _: None if self._is_moving else self._show(), ["before", "after"])
        self.observe(lambda _: self._show_change(), ["view", "kind"])

    def __repr__(self) -> str:
        return f"Timeline(table={self.table!r}, before={self.before!r}, after={self.after!r})"

    def refresh(self) -> None:
        """Open the table again and look for new versions.

        A right handle at the newest version moves on to the new one; others stay while their version is retained.
        """
        was_newest = self.after == max(self._opened.labels)
        self._opened = self._model.open(self.table)
        labels = self._opened.labels
        self._move(
            self.before if self.before in labels else min(labels),
            max(labels) if was_newest or self.after not in labels else self.after,
        )

    def wait(self, seconds: float | None = None) -> VersionDiff | None:
        """Wait until the change has been read, and return it; None waits as long as it takes."""
        self._work.wait(seconds)
        change: VersionDiff | None = self.change
        return change

    def close(self) -> None:
        """Remove the widget from the page, and stop reading."""
        self._work.cancel()
        super().close()

    @traitlets.validate("before", "after")  # type: ignore[untyped-decorator]  # traitlets has no types here
    def _check(self, proposal: Any) -> int:
        return self._opened.at(proposal["value"]).number

    # The handles

    def _move(self, before: int, after: int) -> None:
        """Compare two versions; what was read of them before is read again."""
        self._is_moving = True  # one of two changes, which must not be shown twice
        try:
            with self.hold_trait_notifications():
                self.before, self.after = before, after
        finally:
            self._is_moving = False
        self._show()

    def _moved(self, handles: tuple[int, int]) -> None:
        if not self._syncing:
            self._move(*handles)

    def _step(self, handle: int, by: int) -> None:
        """Move one handle, not beyond the other or the ends."""
        stops = [*self._handles.index]
        least, most = ((0, stops[1]), (stops[0], len(self._opened.labels) - 1))[handle]
        stops[handle] = min(max(stops[handle] + by, least), most)
        self._handles.index = tuple(stops)

    def _show(self) -> None:
        with self._one_at_a_time:
            self._error.value = self._done.value = ""
            self._clear()
            try:
                self._fill()
            except Exception as error:  # noqa: BLE001 - the error is shown, and another version can be selected
                self._show_error(alert(self._explained(error)))

    def _fill(self) -> None:
        self._opened = self._model.reopened_if_changed(self._opened)
        self._opened.list_if_unlisted(self.before, self.after)
        self._set_controls()
        self._picture.value = self._opened.timeline(self.after, self.before)
        ends = (html.escape(self._opened.labels[number]) for number in (self.before, self.after))
        self._label.value = f'<b role="status">{" → ".join(ends)}</b>'
        old, new = (self._opened.opened(number).at for number in (self.before, self.after))
        self._pair = VersionPair(self._opened.table, old, new)
        self._load()

    # What is read in the background

    def _load(self, asked: frozenset[str] = frozenset()) -> None:
        """Read the change of the two versions; what was begun for others is stopped, and never shown."""
        pair = self._pair
        if pair is None:
            return
        self._begin(f"loading: comparing snapshot {self.before} with snapshot {self.after}")
        serial = self._serial
        self._work.start(lambda watch: self._read(serial, watch, lambda steps: pair.read(steps, asked)))

    def _turn_columns(self, by: int) -> None:
        change, pair = self.change, self._pair
        if change is None or change.columns is None or pair is None:
            return
        first = min(max(change.first_column + by, 0), len(change.schema.names) - 1)
        self._begin("loading: counting columns", replace(change, columns=None))
        serial = self._serial
        self._work.start(lambda watch: self._read(serial, watch, lambda _: iter([pair.with_columns(change, first)])))

    def _begin(self, loading: str, known: VersionDiff | None = None) -> None:
        self._serial += 1
        self._loading, self.change = loading, known
        if known is None:
            self.difference = _NOTHING
        self._show_change()

    def _read(self, serial: int, watch: Watch, read: Any) -> None:
        """Take what is read, step by step, as long as the handles have not moved."""
        try:
            for change in read(_ShownSteps(watch, lambda text: self._take(serial, self.change, text))):
                watch.check()
                self._take(serial, change, self._loading)
            self._take(serial, self.change, "")
        except Exception as error:  # noqa: BLE001 - shown on the page: in the background it would not be visible
            watch.check()  # of cancelled work nothing is shown
            self._take(serial, self.change, "", error)

    def _take(self, serial: int, change: VersionDiff | None, loading: str, error: Exception | None = None) -> None:
        with self._one_at_a_time:
            if serial != self._serial:
                return
            self._loading, self.change = loading, change
            if change is not None and change.diff is not None:
                grid = change.diff.grid()
                self.difference = Preview(f"{change.line} --images", grid.html(), grid.text())
            if error is not None:
                self._show_error(alert(self._explained(error)))
            self._show_change()
            if not loading and self._kept is not None and self._kept[0] == serial:
                self._kept[1].update(static_bundle(self._static()), raw=True)

    def _show_change(self) -> None:
        with self._without_events():
            if self.change is None and not self._loading:
                self._page.clear()
            else:
                self._page.show(self.change, self._loading)

    # Actions: the plan first, then a button that carries it out

    def plan_rollback(self) -> None:
        """Show what a rollback to `before` would do, and its command, as the button does; nothing is changed."""
        if len(self._opened.labels) < 2:
            raise InvalidInput("there is nothing to roll back to", hint="the table has one version")
        self._clear_plan()
        table, to = self._table(), self.before
        current = table.at().resolved.snapshot_id
        plan = table.rollback(to, dry_run=True)
        self.rollback_line = f"%sleeper rollback {self.table} {to}"
        run = None if plan.is_nothing else partial(self._roll_back, to, current)
        self._plan.show(plan._repr_html_(), self.rollback_line, f"Roll back to snapshot {to}", run)

    def _roll_back(self, to: int, planned_on: int) -> None:
        """Roll back, unless the plan is of an older state of the table: then show a new plan."""
        table = self._table()
        current = table.at().resolved.snapshot_id
        if current != planned_on:
            self.plan_rollback()
            raise ConflictError(
                f"snapshot {current} was committed after this plan was made, so nothing was rolled back",
                hint="look at the new plan, and press the button again",
            )
        report = table.rollback(to)
        made = report.snapshot
        self._opened = self._model.open(self.table)
        self._move(current, current if made is None else made.id)
        undo = f"; %sleeper rollback {self.table} {current} undoes it" if made is not None else ""
        self._say(f"snapshot {self.after}: rolled back to {report.to}{undo}")

    def plan_savepoint(self) -> None:
        """Show what a savepoint of `after` would keep, and its command, as the button does; nothing is changed."""
        self._clear_plan()
        with self._without_events():
            sides = dict.fromkeys((self.after, self.before))
            self._saved.options = tuple((f"snapshot {number}", number) for number in sides)
            self._saved.value, self._name.value = self.after, ""
        self._show_savepoint()

    def _show_savepoint(self) -> None:
        number, name = self._saved.value, self._name.value.strip()
        self._error.value = ""
        option = f" --name {name}" if name else ""
        problem = _name_problem(name)
        self.savepoint_line = "" if problem else f"%sleeper create-savepoint {self.table}@{number}{option}"
        files = self._opened.opened(number)
        named = f"savepoint {name}" if name else "a savepoint without a name"
        plan = problem or (
            f"<div>{html.escape(named)} would pin snapshot {number}: {html.escape(files.summary.partition(': ')[2])}, "
            f"{cell_text(Bytes(files.bytes))}. It does not expire until the savepoint is deleted.</div>"
        )
        run = None if problem else partial(self._create_savepoint, number, name)
        title = f"Create savepoint {name}" if name else f"Create savepoint of snapshot {number}"
        self._plan.show(plan, self.savepoint_line, title, run, self._saved, self._name)

    def _create_savepoint(self, number: int, name: str) -> None:
        try:
            made = self._table().create_savepoint(name or None, snapshot=number)
        except Exception:
            self._show_savepoint()  # so that another name can be tried
            raise
        self._opened = self._model.open(self.table)
        self._move(self.before, self.after)
        self._say(f"savepoint {made.name or made.id} pins snapshot {number}")

    def _table(self) -> Table:
        self._opened = self._model.reopened_if_changed(self._opened)
        return self._opened.table

    def _say(self, text: str) -> None:
        self._done.value = f'<div role="status"><b>{html.escape(text)}</b></div>'

    def _clear_plan(self) -> None:
        self._plan.clear()
        self._error.value = self._done.value = self.rollback_line = self.savepoint_line = ""

    # The saved picture, errors and controls

    def _ipython_display_(self) -> None:
        self._work.wait(_PATIENCE)  # without the lock, which the work needs
        super()._ipython_display_()

    def _display_(self) -> Preview:
        self._work.wait(_PATIENCE)
        return self._static()

    def _display_static(self) -> None:
        handle = display(static_bundle(self._static()), raw=True, display_id=True)
        self._kept = (self._serial, handle) if self._loading else None

    def _static(self) -> Preview:
        picture = self._opened.timeline(self.after, self.before)
        ends = " → ".join(html.escape(self._opened.labels[number]) for number in (self.before, self.after))
        head = f'<div style="margin-bottom:4px;"><b>{html.escape(self.table)}</b> · {ends}</div>'
        change = _status(self._loading) if self.change is None else static_html(self.change, _PICTURE_ROOM)
        text = f"{self.table} from snapshot {self.before} to {self.after}\n{self.difference.text}"
        return Preview(f"%sleeper timeline {self.table}", head + picture + change, text)

    def _show_error(self, error: str) -> None:
        self._error.value = error

    def _explained(self, error: Exception) -> Exception:
        if not isinstance(error, NotFound) or self._model.has_table(self.table):
            return error
        self._travel.children = ()
        self._back.disabled = self._save.disabled = True
        self._clear()
        hint = "%sleeper tables lists those that there are, %sleeper timeline NAME opens one"
        return NotFound(f"no table {self.table!r} any more: it was renamed or deleted", hint=hint)

    def _clear(self) -> None:
        self._work.cancel()
        self._serial += 1
        self._loading, self._pair = "", None
        self.change, self.difference = None, _NOTHING
        self.rollback_line = self.savepoint_line = ""
        self._plan.clear()
        self._page.clear()

    def _set_controls(self) -> None:
        with self._without_events():
            stops = tuple((label, number) for number, label in self._opened.labels.items())
            self._back.disabled, self._save.disabled = len(stops) < 2, False
            if len(stops) < 2:  # the front-end cannot draw a slider with a single stop
                self._travel.children = (self._label,)
                return
            if self._handles.options != stops:
                self._handles.options = stops
                self._handles.layout = {"width": f"calc({100 - 100 / len(stops):.3f}% + 10px)", "margin": "0 auto"}
            self._handles.value = (min(self.before, self.after), max(self.before, self.after))
            self._travel.children = (self._picture, self._handles, self._chosen)


class _ShownSteps:
    """The progress of the work as a percentage on the page; it stops work that was cancelled."""

    def __init__(self, watch: Watch, show: Any) -> None:
        self._watch, self._show, self._text = watch, show, ""

    def update(self, text: str, done: int = 0, total: int = 0) -> None:
        self._watch.check()
        shown = f"loading: {text}, {100 * done // total} %" if total > 1 else f"loading: {text}"
        if shown != self._text:
            self._text = shown
            self._show(shown)

    def finish(self, text: str = "") -> None:
        """Show nothing more."""


def _name_problem(name: str) -> str:
    """Return what is wrong with the name of a savepoint, as HTML; nothing when it can be used."""
    try:
        if name:
            check_savepoint_name(name)
    except InvalidInput as error:
        return alert(error)
    return ""
