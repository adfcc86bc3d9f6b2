"""The in-memory DuckDB databases of a session; each question has a connection, and names, of its own."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

from sleeper_nb.clock import Clock
from sleeper_nb.engines.cache_folder import cache_folder
from sleeper_nb.errors import SessionClosed

if TYPE_CHECKING:
    import duckdb

_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,  # nothing is downloaded
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # a misspelt table must not become some variable of ours
}


def connect_anew() -> duckdb.DuckDBPyConnection:
    """Return a connection to a database of its own: for tasks in other processes."""
    return Database().connect()


class Database:
    """DuckDB databases without a file, so without a lock on one; opened with the first question.

    Opening one takes longer than a small question, and each has threads and a memory limit of its own, so that answers
    which a notebook keeps would add them up. A connection costs nothing. What one calls its views
    (`relations.name_rows`) no other sees, and they go with it; so do they of answers that outlive the session.

    There are two: one without limits, for the relations that a program is handed, which it may write to files; and one
    that runs the text of statements, and whose settings keep it from all files but those of the tables.

    Both are released when the interpreter exits, even while a thread or IPython still refers to them: DuckDB reports
    every object that is alive after that as leaked, in 45 lines on the error stream.
    """

    def __init__(self) -> None:
        self._lock, self._closed = threading.Lock(), False
        self._kept: dict[Literal["first", "confined"], duckdb.DuckDBPyConnection] = {}
        weakref.finalize(self, self._kept.clear)
        self._folders: frozenset[str] = frozenset()

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Return a new connection without limits, which shows times in UTC."""
        with self._lock:
            self._check_open()
            if "first" not in self._kept:
                self._kept["first"] = _opened()
            return self._kept["first"].cursor()

    def connect_confined(self, folders: Iterable[str], files: Iterable[str] = ()) -> duckdb.DuckDBPyConnection:
        """Return a new connection that can open no file but some, has no network, and whose settings are locked.

        Parameters
        ----------
        folders
            The folders of tables' files. A database whose settings are locked takes no more of them, so a statement
            that needs another opens a new one, for itself and those after it.
        files
            Files that the statement names; it gets a database of its own.
        """
        self._check_open()
        wanted, named = frozenset(folders), sorted(files)
        if named:
            return _confined(wanted, named)
        with self._lock:
            if "confined" not in self._kept or not wanted <= self._folders:
                self._folders |= wanted
                self._kept["confined"] = _confined(self._folders, [])
            return self._kept["confined"].cursor()

    def close(self) -> None:
        """Release the databases, and open no more. Answers that were handed out keep theirs until they go."""
        with self._lock:
            self._closed = True
            self._kept.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed.of("the session's DuckDB")


def _opened() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(":memory:", config={**_CONFIG, "temp_directory": str(_spill_folder())})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def _spill_folder() -> Path:
    """Return a folder for what does not fit into memory, which DuckDB creates when it needs it, and deletes.

    DuckDB lets statements open all files of that folder, which by default is ``.tmp`` in the current one.
    """
    return cache_folder() / f"duckdb-{Clock().new_id()}"


def _confined(folders: frozenset[str], files: list[str]) -> duckdb.DuckDBPyConnection:
    connection = _opened()
    connection.execute("SET GLOBAL allowed_directories = $folders", {"folders": sorted(folders)})
    connection.execute("SET GLOBAL allowed_paths = $files", {"files": files})
    connection.execute("SET GLOBAL enable_external_access = false")
    connection.execute("SET GLOBAL lock_configuration = true")
    return connection


# Stopping DuckDB: an interrupt reaches Python only when DuckDB returns, which a long pipeline may not do for hours.

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
