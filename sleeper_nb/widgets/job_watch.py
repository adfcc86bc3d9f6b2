"""The job watch as ipywidgets: a progress bar, a Stop button and a table of jobs, which stays when they have ended."""

from __future__ import annotations

import threading
from typing import Any

import ipywidgets
from IPython import get_ipython
from IPython.display import DisplayHandle, display

from sleeper_nb.progress import BackgroundJob
from sleeper_nb.session.session_inspect import JobProgress
from sleeper_nb.widgets.live import LiveWidget, alert, button
from sleeper_nb.widgets.request_lanes import Background, run_in_thread
from sleeper_nb.widgets.static_picture import StaticPicture, static_bundle

PAUSE = 0.5
"""Seconds between two reads of the jobs."""


def _cell() -> int | None:
    shell = get_ipython()
    return None if shell is None else shell.execution_count


class JobWatch(LiveWidget):
    """The progress of jobs until they have ended; made by `sleeper_nb.widgets.watch`.

    Parameters
    ----------
    jobs
        Reads the jobs.
    line
        The equivalent command.
    work
        The work of this session that is watched; None to watch all jobs.
    background
        Runs the loop that reads the jobs; called once, when the widget is displayed.

    Attributes
    ----------
    seen
        The jobs as they were read last.
    work
        The handle of the work, whose ``result()`` waits for it; None when all jobs are watched.
    """

    def __init__(
        self,
        jobs: JobProgress,
        line: str,
        work: BackgroundJob[Any] | None = None,
        background: Background = run_in_thread,
    ) -> None:
        self._jobs, self._line, self._background, self.work = jobs, line, background, work
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
        self.seen = jobs.look()
        self._show()

    def __repr__(self) -> str:
        return f"JobWatch({self.seen.title!r})"  # kept in a saved notebook, so without numbers that change

    def refresh(self) -> bool:
        """Read the jobs once and show them; return whether any is still running."""
        self.seen = self._jobs.look()
        self._show()
        if not self.seen.running and self._kept is not None:
            self._kept.update(static_bundle(self._static()), raw=True)
        return self.seen.running

    def stop(self) -> None:
        """Cancel the work; its commits are kept."""
        self._jobs.stop()
        self._stop.disabled, self._stop.description = True, "Stopping…"

    def follow(self) -> None:
        """Display the widget and return when the jobs have ended.

        Raises
        ------
        KeyboardInterrupt
            The user interrupted: the cell ends, the jobs and the widget go on.
        """
        self._following = True  # the kernel reads a click only after the cell, so the button is disabled until then
        self._set_controls()
        super()._ipython_display_()
        self._displayed_in = _cell()
        try:
            self._follow()
        except KeyboardInterrupt as stop:
            if self.seen.running:
                stop.add_note("The jobs continue; press Stop to cancel them.")
                self._following = False
                self._set_controls()
                self._background(self._follow)
            raise

    def close(self) -> None:
        """Remove the widget from the page and stop reading the jobs; the work goes on."""
        self._shut.set()
        super().close()

    def _follow(self) -> None:
        try:
            while not self._shut.is_set() and self.refresh():
                self._jobs.wait(PAUSE)
        except Exception as error:  # noqa: BLE001 - shown on the page: in the background it would not be visible
            self._show_error(alert(error))

    def _display_static(self) -> None:
        self._kept = display(static_bundle(self._static()), raw=True, display_id=True)

    def _ipython_display_(self) -> None:
        if self._displayed_in is not None and self._displayed_in == _cell():
            return  # by `follow`, above
        super()._ipython_display_()
        if self.seen.running:
            self._background(self._follow)

    def _static(self) -> StaticPicture:
        grid = self.seen.grid()
        return StaticPicture(grid.html(), grid.text())

    def _show_error(self, error: str) -> None:
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
        self._show_error("")
        self._set_controls()
        self._table.value = f'<div role="status">{self.seen.grid().html()}</div>'
