"""Run a generator in a thread of its own, a few items ahead of whoever uses them."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import closing
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


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
