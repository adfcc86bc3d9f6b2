"""The two ways in which all calls of DuckDB are made, so that an interrupt is KeyboardInterrupt and nothing else.

While DuckDB computes, Python sees no interrupt, which could take hours: what reads rows is `interruptible`. A call in
the main thread that sees one raises an error of its own instead, or leaves names half made: what only parses, plans and
names is `undisturbed`.
"""

from __future__ import annotations

import _thread
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sleeper_nb.engines.undisturbed import undisturbed
from sleeper_nb.errors import Cancelled, SleeperError
from sleeper_nb.forks import check_has_threads

if TYPE_CHECKING:
    import duckdb

logger = logging.getLogger(__name__)

T = TypeVar("T")

_AGAIN_SECONDS: Final = 0.1
_CANCEL_SECONDS: Final = 0.01
_GIVE_UP_TRIES: Final = 100
_STILL_RUNS: Final = "DuckDB is still running: a function of the statement cannot be stopped. It ends by itself."


def interruptible(connection: duckdb.DuckDBPyConnection, action: Callable[[], T]) -> T:
    """Return what an action on a connection returns; an interrupt stops its query, and is then raised here.

    The action runs in another thread when this is the main thread, the only one that gets interrupts.

    Raises
    ------
    KeyboardInterrupt
        The user interrupted. When DuckDB did not stop within ten seconds, a note of the error says so.
    EngineError
        This process was forked from one that has read rows.
    """
    check_has_threads()
    if threading.get_ident() != threading.main_thread().ident:
        return action()
    running = _Running(action)
    try:
        _thread.start_new_thread(running.run, ())  # a `Thread` has locks that an interrupt can leave locked
        while not running.ends():
            pass
    except KeyboardInterrupt as stop:
        if not running.stopped_by(connection):
            logger.warning("DuckDB did not stop within %.1f s of an interrupt", _GIVE_UP_TRIES * _AGAIN_SECONDS)
            stop.add_note(_STILL_RUNS)
        raise
    return running.result()


def fetched(connection: duckdb.DuckDBPyConnection, text: str, values: Mapping[str, Any] | None = None) -> list[Any]:
    """Return the rows of a short statement, which reads no data, as tuples."""
    with undisturbed():
        return connection.execute(text, values).fetchall()


class Cancelling:
    """Lets another thread stop what is read on some connections, for good: their queries end with `Cancelled`."""

    def __init__(self) -> None:
        self._lock, self._is_cancelled = threading.Lock(), False
        self._running: list[duckdb.DuckDBPyConnection] = []

    @contextmanager
    def running(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Give a context in which a query runs on a connection.

        Raises
        ------
        Cancelled
            It was cancelled, before or meanwhile.
        """
        with self._lock:
            if self._is_cancelled:
                raise _cancelled()
            self._running.append(connection)
        try:
            yield
        except SleeperError as error:
            if self._is_cancelled:
                raise _cancelled() from error
            raise
        finally:
            with self._lock:
                self._running.remove(connection)

    def cancel(self) -> None:
        """Stop the queries that run, soon, and let no other begin."""
        with self._lock:
            self._is_cancelled, is_running = True, bool(self._running)
        if is_running:
            threading.Thread(target=self._interrupt, name="sleeper-cancel", daemon=True).start()

    def _interrupt(self) -> None:
        waits = threading.Event()
        while True:  # repeatedly: a query may not have started yet
            with self._lock:
                running = tuple(self._running)
            if not running:
                return
            for each in running:
                each.interrupt()
            waits.wait(_CANCEL_SECONDS)


def _cancelled() -> Cancelled:
    return Cancelled("the query was cancelled", hint="run it again to read its rows")


class _Running(Generic[T]):
    """An action that another thread runs.

    It ends by a plain lock: an interrupt can come between any two steps of Python, and would leave an `Event` locked.
    """

    def __init__(self, action: Callable[[], T]) -> None:
        self._actions, self._results, self._errors = [action], list[T](), list[BaseException]()
        self._has_ended, self._end = False, threading.Lock()
        self._end.acquire()

    def run(self) -> None:
        with suppress(IndexError):  # an interrupt came before it began
            action = self._actions.pop()
            try:
                self._results.append(action())
            except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
                self._errors.append(error)
        self._has_ended = True
        self._end.release()

    def ends(self) -> bool:
        """Wait a moment for the end, and return whether it has come."""
        return self._has_ended or self._end.acquire(timeout=_AGAIN_SECONDS)

    def stopped_by(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Interrupt the connection until the action has ended, or let it never begin; return whether that is so."""
        with suppress(IndexError):
            self._actions.pop()
            return True
        for _ in range(_GIVE_UP_TRIES):  # repeatedly: its query may not have started yet
            connection.interrupt()
            if self.ends():
                return True
        return False

    def result(self) -> T:
        """Return what the action returned, or raise what it raised; once."""
        if self._errors:
            raise self._errors.pop()
        return self._results.pop()
