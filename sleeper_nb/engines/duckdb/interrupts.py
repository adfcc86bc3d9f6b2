"""Let an interrupt stop a query of DuckDB: while DuckDB computes, Python sees no interrupt, which could take hours."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    import duckdb

logger = logging.getLogger(__name__)

T = TypeVar("T")

_AGAIN_SECONDS: Final = 0.1
_GIVE_UP_TRIES: Final = 100
_STILL_RUNS: Final = "DuckDB is still running: a function of the statement cannot be stopped. It ends by itself."


def interruptible(connection: duckdb.DuckDBPyConnection, action: Callable[[], T]) -> T:
    """Return what an action on a connection returns; an interrupt stops its query, and is then raised here.

    The action runs in another thread when this is the main thread, the only one that gets interrupts.

    Raises
    ------
    KeyboardInterrupt
        The user interrupted. When DuckDB did not stop within ten seconds, a note of the error says so.
    """
    if threading.current_thread() is not threading.main_thread():
        return action()
    running, worker = _Running(action), _worker()
    try:
        worker.actions.put(running)
        while not running.ended.wait(_AGAIN_SECONDS):  # some interrupts do not end a wait without a timeout
            pass
    except KeyboardInterrupt as stop:
        if not running.stopped_by(connection):
            logger.warning("DuckDB did not stop within %.1f s of an interrupt", _GIVE_UP_TRIES * _AGAIN_SECONDS)
            stop.add_note(_STILL_RUNS)
        raise
    return running.result()


class _Running(Generic[T]):
    """An action that another thread runs."""

    def __init__(self, action: Callable[[], T]) -> None:
        self.ended = threading.Event()
        self._actions, self._results, self._errors = [action], list[T](), list[BaseException]()

    def run(self) -> None:
        """Run the action; nothing of it is kept afterwards, as its thread goes on."""
        try:
            self._results.append(self._actions.pop()())
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            self._errors.append(error)

    def stopped_by(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Interrupt the connection until the action has ended; return whether it has."""
        for _ in range(_GIVE_UP_TRIES):  # repeatedly: the query may not have started yet
            connection.interrupt()
            if self.ended.wait(_AGAIN_SECONDS):
                return True
        return False

    def result(self) -> T:
        """Return what the action returned, or raise what it raised; once."""
        if self._errors:
            raise self._errors.pop()
        return self._results.pop()


class _Worker(threading.Thread):
    """A thread that runs one action after the other: to begin one for each takes longer than many a query.

    Parameters
    ----------
    idle
        Where the thread puts itself when it has nothing to do.
    """

    def __init__(self, idle: list[_Worker]) -> None:
        super().__init__(name="sleeper-duckdb", daemon=True)
        self.actions, self._idle = SimpleQueue[_Running[Any]](), idle

    def run(self) -> None:
        """Run the actions as they come."""
        while True:
            running = self.actions.get()
            running.run()
            self._idle.append(self)
            running.ended.set()


def _worker() -> _Worker:
    """Return a thread that has nothing to do; a new one where the last is still running what could not be stopped."""
    idle = _idle_in(os.getpid())
    if idle:
        return idle.pop()
    worker = _Worker(idle)
    worker.start()
    return worker


@cache
def _idle_in(process: int) -> list[_Worker]:  # noqa: ARG001 - a forked process has no other threads
    """Return the threads of a process that wait for an action."""
    return []
