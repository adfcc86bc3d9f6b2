"""The watch of jobs as ipywidgets: a bar, a table of jobs, a button that stops; what stays is how it ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ipywidgets
from IPython import get_ipython
from IPython.display import DisplayHandle, display

from sleeper_nb.clock import Clock
from sleeper_nb.progress import BackgroundJob
from sleeper_nb.widgets.explorer_model import Preview
from sleeper_nb.widgets.live import LiveWidget, alert, button, static_bundle
from sleeper_nb.widgets.watch_model import JobsModel

PAUSE = 0.5
"""Seconds between two looks."""


def in_thread(work: Callable[[], None]) -> None:
    """Do something beside the notebook's cells."""
    threading.Thread(target=work, name="sleeper-watch", daemon=True).start()


def _cell() -> int | None:
    """Return the number of the cell that runs; None outside IPython."""
    shell = get_ipython()
    return None if shell is None else shell.execution_count


class JobWatch(LiveWidget):
    """Jobs and how far they are, until they have ended; made by `sleeper_nb.widgets.watch`.

    Parameters
    ----------
    source
        Looks at the jobs.
    clock
        Waits between two looks.
    line
        The magic line that gives the same.
    work
        What is watched of this session's own work, if it is that.
    beside
        Runs what looks again and again; it is called once, when the widget is displayed.

    Attributes
    ----------
    seen
        What was seen last.
    work
        The handle of the work, whose ``result()`` waits for it; None where others' jobs are watched.
    """

    def __init__(
        self,
        source: JobsModel,
        clock: Clock,
        line: str,
        work: BackgroundJob[Any] | None = None,
        beside: Callable[[Callable[[], None]], None] = in_thread,
    ) -> None:
        self._source, self._clock, self._line, self._beside, self.work = source, clock, line, beside, work
        self._shut = threading.Event()
        self._kept: DisplayHandle | None = None
        self._displayed_in: int | None = None
        self._following = False
        self._bar = ipywidgets.FloatProgress(min=0.0, max=1.0, description="Progress")
        self._stop = button("Stop", "Cancel it, as an interrupt does")
        self._table, self._error = ipywidgets.HTML(), ipywidgets.HTML()
        self._head = ipywidgets.HBox()
        super().__init__(self._head, self._error, self._table)
        self.add_class("sleeper-watch")
        self._stop.on_click(lambda _: self._attempt(self.stop))
        self.seen = source.look()
        self._show()

    def __repr__(self) -> str:
        return (
            f"JobWatch({self.seen.title!r})"  # what a saved notebook keeps of the widget itself, so nothing that moves
        )

    def refresh(self) -> bool:
        """Look once, and show it; return whether there is more to come."""
        self.seen = self._source.look()
        self._show()
        if not self.seen.running and self._kept is not None:
            self._kept.update(static_bundle(self._static()), raw=True)
        return self.seen.running

    def stop(self) -> None:
        """Cancel the work; what it has committed stays."""
        self._source.stop()
        self._stop.disabled, self._stop.description = True, "Stopping…"

    def follow(self) -> None:
        """Display the widget and return when the jobs have ended.

        Raises
        ------
        KeyboardInterrupt
            The user interrupted: the cell ends, the jobs and what is displayed of them go on.
        """
        self._following = True  # a click would be read when the cell has ended, so there is none yet
        self._set_controls()
        super()._ipython_display_()
        self._displayed_in = _cell()
        try:
            self._follow()
        except KeyboardInterrupt as stop:
            if self.seen.running:
                stop.add_note("The jobs go on; the button Stop ends them.")
                self._following = False
                self._set_controls()
                self._beside(self._follow)
            raise

    def close(self) -> None:
        """Take the widget from the page and look no more; the work goes on."""
        self._shut.set()
        super().close()

    def _follow(self) -> None:
        try:
            while not self._shut.is_set() and self.refresh():
                self._clock.sleep(PAUSE)
        except Exception as error:  # noqa: BLE001 - nobody else would see it: this runs beside the cells
            self._say(alert(error))

    def _display_static(self) -> None:
        self._kept = display(static_bundle(self._static()), raw=True, display_id=True)

    def _ipython_display_(self) -> None:
        if self._displayed_in is not None and self._displayed_in == _cell():
            return  # by `follow`, above
        super()._ipython_display_()
        if self.seen.running:
            self._beside(self._follow)

    def _static(self) -> Preview:
        grid = self.seen.grid()
        return Preview(self._line, grid.html(), grid.text())

    def _say(self, error: str) -> None:
        self._error.value = error

    def _set_controls(self) -> None:
        self._bar.value = self.seen.share
        self._bar.bar_style = "danger" if self.seen.went_wrong else "info" if self.seen.running else "success"
        self._head.children = () if self.seen.is_idle else (self._bar, self._stop)
        if not self.seen.running:
            self._stop.disabled, self._stop.description = True, "Stop"
        elif self._stop.description == "Stop":
            self._stop.disabled = self._following or not self.seen.stoppable

    def _show(self) -> None:
        self._say("")
        self._set_controls()
        self._table.value = f'<div role="status">{self.seen.grid().html()}</div>'
