"""One in-memory DuckDB for all that a session asks of it; each question has a connection, and names, of its own."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


class Database:
    """A DuckDB without a file, so without a lock on one; opened with the first question.

    To open one takes longer than a small question, and each has threads and a limit of memory of its own, so that
    answers which a notebook keeps would add them up. A connection costs nothing. What one calls its views
    (`relations.name_rows`) no other sees, and they go with it; so do they of answers that outlive the session.

    It is released when the interpreter exits, also while a thread or IPython still refers to it: DuckDB reports every
    object that is alive after that as leaked, on 45 lines of the error stream.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: list[duckdb.DuckDBPyConnection] = []
        weakref.finalize(self, self._first.clear)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Return a new connection, which shows times in UTC."""
        import duckdb

        with self._lock:
            if not self._first:
                first = duckdb.connect(
                    ":memory:",
                    config={
                        "autoinstall_known_extensions": False,  # nothing is downloaded
                        "autoload_known_extensions": False,
                        "python_enable_replacements": False,  # a misspelt table must not become some variable of ours
                    },
                )
                self._first.append(first)
            connection = self._first[0].cursor()
        connection.execute("SET TimeZone = 'UTC'")
        return connection

    def close(self) -> None:
        """Release the database. Answers that were handed out keep it until they go."""
        with self._lock:
            self._first.clear()
