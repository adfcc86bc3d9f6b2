"""One in-memory DuckDB for all that a session asks of it; each question has a connection, and names, of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def connect_anew() -> duckdb.DuckDBPyConnection:
    """Return a connection to a database of its own: for tasks in other processes."""
    return Database().connect()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Run a query; an interrupt is a `KeyboardInterrupt`, as everywhere, not DuckDB's `RuntimeError`."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from error


class Database:
    """A DuckDB without a file, so without a lock on one; opened with the first question.

    To open one takes longer than a small question, and each has threads and a limit of memory of its own, so that
    answers which a notebook keeps would add them up. A connection costs nothing. What one calls its views
    (`relations.name_rows`) no other sees, and they go with it; so do they of answers that outlive the session.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: duckdb.DuckDBPyConnection | None = None

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Return a new connection, which shows times in UTC."""
        import duckdb

        with self._lock:
            if self._first is None:
                self._first = duckdb.connect(
                    ":memory:",
                    config={
                        "autoinstall_known_extensions": False,  # nothing is downloaded
                        "autoload_known_extensions": False,
                        "python_enable_replacements": False,  # a misspelt table must not become some variable of ours
                    },
                )
            connection = self._first.cursor()
        connection.execute("SET TimeZone = 'UTC'")
        return connection
