"""What long work tells whoever watches it; the faces decide how that is shown."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Literal, Protocol, TypeVar

from sleeper_nb.errors import Cancelled, SleeperError, StillRunning
from sleeper_nb.report import Grid, Report


class Progress(Protocol):
    """A watcher of one piece of work at a time."""

    def update(self, text: str, done: int = 0, total: int = 0) -> None:
        """Say what is under way, and how many of how many steps are done (0 of 0: not known)."""

    def finish(self, text: str = "") -> None:
        """Say that the work ended, with the one line that stays; an empty text leaves nothing."""


def unchecked() -> None:
    """Let work go on: the check of work that nobody but an interrupt stops."""


class Silent:
    """The watcher that shows nothing: the default everywhere."""

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


# Work in the background: each piece in a thread of its own, with a handle that waits for it or cancels it.

T = TypeVar("T")
State = Literal["running", "finished", "failed", "cancelled"]


class Watch:
    """The progress of work in the background: it is noted, not shown, and stops work that was cancelled."""

    def __init__(self) -> None:
        self.said = ""
        self._cancelled = threading.Event()

    def update(self, text: str, done: int = 0, total: int = 0) -> None:
        """Note what is under way, unless it is to stop."""
        self.check()
        self.said = f"{text}, {done:,} of {total:,}" if total else text

    def finish(self, text: str = "") -> None:
        """Note the last word, if there is one."""
        self.said = text or self.said

    def cancel(self) -> None:
        """Let the next `check` raise."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise `Cancelled` when the work is to stop."""
        if self._cancelled.is_set():
            raise Cancelled("cancelled", hint="earlier commits are kept; run it again for the rest")


class BackgroundJob(Report, Generic[T]):
    """A handle on work that goes on while the notebook is used. Made by `Table.compact`.

    Parameters
    ----------
    title
        What it is: ``"compaction of flights"``.
    work
        What to do; it calls `Watch.check` or `Watch.update` now and then.
    about
        The id of the table that it works on.
    """

    __slots__ = ("_ended", "_error", "_result", "_watch", "about", "title")

    def __init__(self, title: str, work: Callable[[Watch], T], about: str = "") -> None:
        self.title, self.about = title, about
        self._watch, self._ended = Watch(), threading.Event()
        self._result: list[T] = []
        self._error: BaseException | None = None
        # A daemon, so that a hanging server cannot keep the process: `BackgroundJobs` cancels it at its end.
        threading.Thread(target=self._run, args=(work,), name=title, daemon=True).start()

    def _run(self, work: Callable[[Watch], T]) -> None:
        try:
            self._result.append(work(self._watch))
        except BaseException as error:  # noqa: BLE001 - raised by `result`
            self._error = error
        finally:
            self._ended.set()

    @property
    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
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
        """Why it failed or was cancelled, in one line; None while it runs, and when it did what it was to do."""
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
            When the time is over.
        Cancelled
            When the work was cancelled.
        SleeperError
            Whatever the work raised.
        """
        if not self._ended.wait(timeout):
            raise StillRunning(f"{self.title} still runs after {timeout} s", hint="wait longer, or cancel() it")
        if self._error is not None:
            raise self._error
        return self._result[0]

    def cancel(self, *, wait: bool = True) -> bool:
        """Stop the work, and return whether it was stopped before its end.

        What it has committed stays; everything else of it is undone.

        Parameters
        ----------
        wait
            Return when it has stopped; else at once, and it stops soon.
        """
        self._watch.cancel()
        if wait:
            self._ended.wait()
        return self.state == "cancelled"

    def grid(self) -> Grid:
        """Return its state, and how far it is."""
        rows: list[tuple[object, ...]] = [("state", self.state)]
        if self.reason is not None:
            rows.append(("reason", self.reason))
        elif not self.done and self._watch.said:
            rows.append(("progress", self._watch.said))
        footer = "" if self.done else "result() waits for it, cancel() stops it"
        return Grid(("", ""), tuple(rows), f"{self.title}, in the background", footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the title, the state and the last word of its progress."""
        return {"title": self.title, "state": self.state, "progress": self._watch.said}


class BackgroundJobs:
    """The work in the background of one session, which ends before the session does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: list[BackgroundJob[Any]] = []

    def start(self, title: str, work: Callable[[Watch], T], about: str = "") -> BackgroundJob[T]:
        """Begin work, on the table of an id, and return the handle on it."""
        with self._lock:
            if not self._jobs:
                atexit.register(self.close)
            self._jobs = [job for job in self._jobs if not job.done]
            job = BackgroundJob(title, work, about)
            self._jobs.append(job)
            return job

    def running(self, about: str | None = None) -> tuple[BackgroundJob[Any], ...]:
        """Return the handles on what has not ended: of one table, or of all."""
        with self._lock:
            return tuple(job for job in self._jobs if not job.done and about in {None, job.about})

    def close(self) -> None:
        """Cancel what runs, and wait until nothing does."""
        atexit.unregister(self.close)
        with self._lock:
            jobs, self._jobs = self._jobs, []
        for job in jobs:
            job.cancel(wait=False)  # all first, so that they stop side by side
        for job in jobs:
            job.cancel()
