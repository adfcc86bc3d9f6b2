"""The progress of long work, and work in the background. Notebook and console decide how progress is shown."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from sleeper_nb.errors import Cancelled, SleeperError, StillRunning
from sleeper_nb.report import Grid, Report

logger = logging.getLogger(__name__)

T = TypeVar("T")
State = Literal["running", "finished", "failed", "cancelled"]


@runtime_checkable
class Progress(Protocol):
    """Receives the progress of one piece of work at a time."""

    def update(self, text: str, done: int = 0, total: int = 0) -> None:
        """Report what is under way, and how many of how many steps are done (0 of 0 when not known)."""

    def finish(self, text: str = "") -> None:
        """Report the end of the work, with the one line that stays; an empty text leaves nothing."""


class Silent:
    """The progress that shows nothing: the default everywhere."""

    def update(self, text: str, done: int = 0, total: int = 0) -> None:
        """Show nothing."""

    def finish(self, text: str = "") -> None:
        """Show nothing."""


SILENT = Silent()


@contextmanager
def finishing(progress: Progress) -> Iterator[Progress]:
    """Yield the progress of a piece of work, and clear it when the work ends or fails."""
    try:
        yield progress
    finally:
        progress.finish()


def unchecked() -> None:
    """Continue: the check of work that only an interrupt stops."""


class Watch:
    """The progress of background work: recorded, not shown. It stops work that was cancelled."""

    def __init__(self) -> None:
        self.text = ""
        self._cancelled = threading.Event()
        self._lock, self._stops = threading.Lock(), list[Callable[[], object]]()

    def update(self, text: str, done: int = 0, total: int = 0) -> None:
        """Record what is under way; raise `Cancelled` when the work was cancelled."""
        self.check()
        self.text = f"{text}, {done:,} of {total:,}" if total else text

    def finish(self, text: str = "") -> None:
        """Record the last line, if there is one."""
        self.text = text or self.text

    def cancel(self) -> None:
        """Cancel the work: its next `check` raises, and what it runs is stopped (`stopping`)."""
        with self._lock:
            self._cancelled.set()
            stops = tuple(self._stops)
        for stop in stops:
            stop()

    @contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """Give a context in which a cancel also calls a function, such as `QueryResult.cancel`, from its own thread.

        `Cancelled` when the work was cancelled before.
        """
        with self._lock:
            self.check()
            self._stops.append(stop)
        try:
            yield
        finally:
            with self._lock:
                self._stops.remove(stop)

    def check(self) -> None:
        """Raise `Cancelled` when the work was cancelled."""
        if self._cancelled.is_set():
            raise Cancelled("cancelled", hint="earlier commits are kept; run it again for the rest")


class BackgroundJob(Report, Generic[T]):
    """A handle on work that runs in a thread of its own while the notebook is used. Made by `Maintenance.compact`.

    Parameters
    ----------
    title
        What it is: ``"compaction of flights"``.
    work
        The work; it calls `Watch.check` or `Watch.update` now and then, so that it can be cancelled.
    about
        The id of the table that it works on.
    began
        When it began.
    """

    __slots__ = ("_ended", "_error", "_result", "_watch", "about", "began", "title")

    def __init__(self, title: str, work: Callable[[Watch], T], about: str = "", began: datetime | None = None) -> None:
        self.title, self.about, self.began = title, about, began
        self._watch, self._ended = Watch(), threading.Event()
        self._result: list[T] = []
        self._error: BaseException | None = None
        # A daemon, so that a hanging server cannot keep the process alive: `BackgroundJobs` cancels it at the end.
        threading.Thread(target=self._run, args=(work,), name=title, daemon=True).start()

    def _run(self, work: Callable[[Watch], T]) -> None:
        logger.info("%s: started in the background", self.title)
        try:
            self._result.append(work(self._watch))
        except BaseException as error:  # noqa: BLE001 - raised by `result`
            self._error = error
            level = logging.INFO if isinstance(error, Cancelled) else logging.WARNING
            logger.log(level, "%s: ended in the background: %r", self.title, error)
        else:
            logger.info("%s: finished in the background", self.title)
        finally:
            self._ended.set()

    @property
    def done(self) -> bool:
        """Whether it has ended: finished, failed or cancelled."""
        return self._ended.is_set()

    @property
    def state(self) -> State:
        """``"running"``, ``"finished"``, ``"failed"`` or ``"cancelled"``."""
        if not self.done:
            return "running"
        if self._error is None:
            return "finished"
        return "cancelled" if isinstance(self._error, Cancelled) else "failed"

    @property
    def reason(self) -> str | None:
        """Why it failed or was cancelled, in one line; None while it runs, and when it has finished."""
        error = self._error
        return error.message if isinstance(error, SleeperError) else None if error is None else repr(error)

    def result(self, timeout: float | None = None) -> T:
        """Wait, and return what the work returned.

        Parameters
        ----------
        timeout
            How long to wait, in seconds; None waits until it ends. An interrupt ends the waiting, not the work.

        Raises
        ------
        StillRunning
            When it still runs after `timeout`.
        Cancelled
            When the work was cancelled.
        SleeperError
            When the work failed: its own error.
        """
        if not self._ended.wait(timeout):
            raise StillRunning(f"{self.title} still runs after {timeout} s", hint="wait longer, or call cancel()")
        if self._error is not None:
            raise self._error
        return self._result[0]

    def cancel(self, *, wait: bool = True) -> bool:
        """Stop the work, and return whether it stopped before its end.

        Its earlier commits are kept; everything else is undone.

        Parameters
        ----------
        wait
            Return when it has stopped; otherwise return at once, and it stops soon.
        """
        self._watch.cancel()
        if wait:
            self._ended.wait()
        return self.state == "cancelled"

    def grid(self) -> Grid:
        """Return its state and its progress."""
        rows: list[tuple[object, ...]] = [("state", self.state)]
        if self.reason is not None:
            rows.append(("reason", self.reason))
        elif not self.done and self._watch.text:
            rows.append(("progress", self._watch.text))
        footer = "" if self.done else "result() waits for it, cancel() stops it"
        return Grid(("", ""), tuple(rows), f"{self.title}, in the background", footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the title, the state and the last line of its progress."""
        return {"title": self.title, "state": self.state, "progress": self._watch.text}


class BackgroundJobs:
    """The background work of one session; it ends before the session does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: list[BackgroundJob[Any]] = []

    def start(
        self, title: str, work: Callable[[Watch], T], about: str = "", began: datetime | None = None
    ) -> BackgroundJob[T]:
        """Start work on the table with the id `about`, and return its handle."""
        with self._lock:
            if not self._jobs:
                atexit.register(self.close)
            self._jobs = [job for job in self._jobs if not job.done]
            job = BackgroundJob(title, work, about, began)
            self._jobs.append(job)
            return job

    def running(self, about: str | None = None) -> tuple[BackgroundJob[Any], ...]:
        """Return the handles on work that has not ended: of one table, or of all."""
        with self._lock:
            return tuple(job for job in self._jobs if not job.done and about in {None, job.about})

    def close(self) -> None:
        """Cancel all work, and wait until it has ended."""
        atexit.unregister(self.close)
        with self._lock:
            jobs, self._jobs = self._jobs, []
        for job in jobs:
            job.cancel(wait=False)  # all first, so that they stop at the same time
        for job in jobs:
            job.cancel()
