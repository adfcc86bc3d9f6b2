"""Work in the background of which only the latest matters: a new piece cancels the one before, and at most one runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sleeper_nb.errors import Cancelled
from sleeper_nb.progress import Watch

Background = Callable[[Callable[[], None]], None]


def run_in_thread(work: Callable[[], None]) -> None:
    """Run a function in the background."""
    threading.Thread(target=work, name="sleeper-widget", daemon=True).start()


class LatestWork:
    """Runs pieces of work one after the other, and leaves out those that a later one has replaced.

    Parameters
    ----------
    background
        Runs a function, in a thread of its own unless a test runs it itself.
    """

    def __init__(self, background: Background = run_in_thread) -> None:
        self._background, self._lock = background, threading.Lock()
        self._next: Callable[[Watch], None] | None = None
        self._watch: Watch | None = None
        self._is_running = False
        self._idle = threading.Event()
        self._idle.set()

    def start(self, work: Callable[[Watch], None]) -> None:
        """Run a piece of work, once the one before has stopped; it handles its own errors, except `Cancelled`."""
        with self._lock:
            self._next = work
            self._idle.clear()
            if self._watch is not None:
                self._watch.cancel()
            if self._is_running:
                return
            self._is_running = True
        self._background(self._run)

    def cancel(self) -> None:
        """Cancel the work that runs, and drop the one that waits."""
        with self._lock:
            self._next = None
            if self._watch is not None:
                self._watch.cancel()
            if not self._is_running:
                self._idle.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until no work runs, and return whether that is so; None waits as long as it takes."""
        return self._idle.wait(seconds)

    def _run(self) -> None:
        while True:
            with self._lock:
                work, self._next = self._next, None
                if work is None:
                    self._watch, self._is_running = None, False
                    self._idle.set()
                    return
                watch = self._watch = Watch()
            try:
                work(watch)
            except Cancelled:
                continue
