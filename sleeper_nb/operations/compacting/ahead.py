"""Batches that another thread makes while those before them are used: the merge goes on while a file is written."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import TypeVar

T = TypeVar("T")

DEPTH = 16
"""So many may be ready and not yet used."""


def made_ahead(items: Generator[T], depth: int = DEPTH) -> Generator[T]:
    """Yield the items of a generator, which runs in a thread of its own, at most `depth` ahead.

    What it raises is raised here, in its place. When the caller stops early, by an error or an interrupt, the generator
    is closed before this one ends: nothing runs on behind it.
    """
    made: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()
    room, stopped = Semaphore(depth), False

    def make() -> None:
        try:
            with closing(items):
                for item in items:
                    made.put((item,))
                    room.acquire()
                    if stopped:
                        return
            made.put(None)
        except BaseException as error:  # noqa: BLE001 - it is raised again where the items are used
            made.put(error)

    thread = Thread(target=make, daemon=True)
    thread.start()
    try:
        while (got := made.get()) is not None:
            if isinstance(got, BaseException):
                raise got
            room.release()
            yield got[0]
    finally:
        stopped = True
        room.release()
        thread.join()
