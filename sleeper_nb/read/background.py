"""Work in threads: claims and leases are renewed while this process needs them; items are made ahead of their use."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from datetime import timedelta
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Renewing:
    """Calls a function at intervals in a background thread, which ends when nothing is left to renew.

    Parameters
    ----------
    renew
        Renews everything; it must not raise.
    needed
        Returns whether there is anything to renew; it must not block.
    """

    def __init__(self, name: str, every: timedelta, renew: Callable[[], None], needed: Callable[[], bool]) -> None:
        self._name, self._every, self._renew, self._needed = name, every, renew, needed
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start the thread unless it runs; call this when there is something to renew."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive() or self._wake.is_set():
                self._wake = threading.Event()
                self._thread = threading.Thread(target=self._run, args=(self._wake,), name=self._name, daemon=True)
                self._thread.start()

    def end(self) -> None:
        self._wake.set()

    def _run(self, wake: threading.Event) -> None:
        while not wake.wait(self._every.total_seconds()):
            self._renew()
            with self._lock:
                if not self._needed():
                    self._thread = None
                    return


def prefetched(items: Generator[T], depth: int) -> Generator[T]:
    """Yield the items of a generator that runs in a thread of its own, at most `depth` items ahead.

    An error of the generator is raised here, after the items before it. When the caller stops early, by an error or an
    interrupt, the generator is closed before this one ends, so nothing keeps running.
    """
    ready: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()
    free, stopped = Semaphore(depth), False

    def fill() -> None:
        try:
            with closing(items):
                for item in items:
                    ready.put((item,))
                    free.acquire()
                    if stopped:
                        return
            ready.put(None)
        except BaseException as error:  # noqa: BLE001 - it is raised again in the thread that uses the items
            logger.debug("prefetch thread ends by %s: %s", type(error).__name__, error)
            ready.put(error)

    thread = Thread(target=fill, daemon=True)
    thread.start()
    try:
        while (got := ready.get()) is not None:
            if isinstance(got, BaseException):
                raise got
            free.release()
            yield got[0]
    finally:
        stopped = True
        free.release()
        thread.join()
