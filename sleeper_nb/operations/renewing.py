"""A thread that renews what ends by itself, for as long as this process works on it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta


class Renewing:
    """Renews at intervals, in a thread that ends when nothing is left to renew.

    Parameters
    ----------
    name
        The thread's.
    every
        The interval.
    renew
        Renews everything; it raises nothing.
    needed
        Whether there is anything to renew; it must not wait for anything.
    """

    def __init__(self, name: str, every: timedelta, renew: Callable[[], None], needed: Callable[[], bool]) -> None:
        self._name, self._every, self._renew, self._needed = name, every, renew, needed
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """See that the thread runs; call it when something is there to renew."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive() or self._wake.is_set():
                self._wake = threading.Event()
                self._thread = threading.Thread(target=self._run, args=(self._wake,), name=self._name, daemon=True)
                self._thread.start()

    def end(self) -> None:
        """Let the thread end at once, or after what it is renewing."""
        self._wake.set()

    def _run(self, wake: threading.Event) -> None:
        while not wake.wait(self._every.total_seconds()):
            self._renew()
            with self._lock:
                if not self._needed():
                    self._thread = None
                    return
