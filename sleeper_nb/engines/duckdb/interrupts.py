"""Stopping DuckDB: an interrupt reaches Python only when DuckDB returns, which a long pipeline may not do for hours."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")

_AGAIN_SECONDS: Final = 0.1
_GIVE_UP_TRIES: Final = 100
_STILL_RUNS: Final = "DuckDB still computes: a function of the statement cannot be stopped. It ends by itself."


def interruptible(connection: duckdb.DuckDBPyConnection, action: Callable[[], T]) -> T:
    """Return what an action on a connection returns; an interrupt stops its query before it is raised here.

    The action runs in a thread of its own when this is the main thread, the only one that interrupts hit.

    Raises
    ------
    KeyboardInterrupt
        The user interrupted. When DuckDB did not stop within ten seconds, a note of the error says so.
    """
    if threading.current_thread() is not threading.main_thread():
        return action()
    running = _Running(action)
    try:
        running.start()
        while not running.ended.wait(_AGAIN_SECONDS):  # some interrupts do not end a wait without a limit
            pass
    except KeyboardInterrupt as stop:
        if not running.stopped_by(connection):
            stop.add_note(_STILL_RUNS)
        raise
    running.join()  # it has ended but for its last steps
    return running.result()


class _Running(threading.Thread, Generic[T]):
    """An action in a thread."""

    def __init__(self, action: Callable[[], T]) -> None:
        super().__init__(name="sleeper-duckdb", daemon=True)
        self._action, self.ended = action, threading.Event()
        self._result: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run the action."""
        try:
            self._result.append(self._action())
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            self._error = error
        finally:
            self.ended.set()

    def stopped_by(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Interrupt the connection until the action has ended; return whether it has."""
        for _ in range(_GIVE_UP_TRIES):  # again and again: the query may not have begun yet
            connection.interrupt()
            if self.ended.wait(_AGAIN_SECONDS):
                return True
        return False

    def result(self) -> T:
        """Return what the action returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._result[0]
