"""The in-memory DuckDB databases of a session; each query has its own connection, with its own names."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal

from sleeper_nb.clock import Clock
from sleeper_nb.engines.cache_folder import cache_folder
from sleeper_nb.engines.duckdb.duckdb_reads import JudgedQueries
from sleeper_nb.engines.undisturbed import undisturbed
from sleeper_nb.errors import SessionClosed
from sleeper_nb.forks import check_has_threads
from sleeper_nb.storage.local_files import as_pattern

if TYPE_CHECKING:
    import duckdb

logger = logging.getLogger(__name__)

_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,  # nothing is downloaded
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # a misspelt table must not become a Python variable
}

_NOT_FOR_PLANS: Final = (
    "statistics_propagation", "empty_result_pullup", "compressed_materialization", "late_materialization", "top_n",
    "top_n_window_elimination", "join_filter_pushdown", "unused_columns", "column_lifetime",
)  # fmt: skip
"""Optimizers that the planning database does without: they draw conclusions from the data, which its empty tables
lack; add conditions that are known only while a statement runs; or leave out columns, after which DuckDB cannot
serialize most plans of three tables."""


def connect_anew() -> duckdb.DuckDBPyConnection:
    """Return a connection to a new database: for tasks in other processes."""
    return Database().connect()


class Database:
    """DuckDB databases without a file, so without a file lock; opened with the first query.

    Opening a database takes longer than a small query, and each has its own threads and memory limit, which would add
    up over the results that a notebook keeps. A connection costs nothing. The names that it gives to rows
    (`relations.name_rows`) are invisible to other connections, and go when it does, also after the session has ended.

    There are three: one without limits, for relations that a program gets and may write to files; a confined one that
    runs the text of statements, and whose settings forbid all files but those of the tables; and one that parses
    statements, and plans them over empty tables, and can open no file. The confined one keeps the footers of the files
    that it has read, as these never change, until its memory is short.

    Statements that were judged are remembered in `judged_queries`.

    All are released when the interpreter exits, even if a thread or IPython still refers to them: DuckDB reports every
    object that is alive after that as leaked, in 45 lines on the error stream.
    """

    def __init__(self) -> None:
        self._lock, self._closed = threading.Lock(), False
        self._kept: dict[Literal["first", "confined", "planning"], duckdb.DuckDBPyConnection] = {}
        weakref.finalize(self, self._kept.clear)
        self._folders = frozenset[str]()
        self._of_thread = threading.local()
        self.judged_queries = JudgedQueries()

    @undisturbed()
    def connection_of_thread(self) -> duckdb.DuckDBPyConnection:
        """Return the connection of this thread's relations: DuckDB combines only relations of one connection.

        Only these relations keep it, and a program that asked for it; then, or once it is closed, there is a new one.
        One connection runs one statement at a time, so each thread has another.
        """
        self._check_open()
        kept = getattr(self._of_thread, "connection", None)
        connection = None if kept is None else kept()
        if connection is None or _is_closed(connection):
            connection = self.connect()
            self._of_thread.connection = weakref.ref(connection)
        return connection

    @undisturbed()
    def connect(self) -> duckdb.DuckDBPyConnection:
        """Return a new connection without limits, which shows times in UTC."""
        with self._lock:
            self._check_open()
            if "first" not in self._kept:
                self._kept["first"] = _opened()
            return self._kept["first"].cursor()

    @undisturbed()
    def connect_confined(self, folders: Iterable[str] = (), files: Iterable[str] = ()) -> duckdb.DuckDBPyConnection:
        """Return a new connection that can open only some files, has no network and locked settings.

        Parameters
        ----------
        folders
            The folders of tables' files. A database with locked settings accepts no more of them, so a statement that
            needs another folder opens a new database, for itself and later statements.
        files
            Files that the statement names; with any, it gets its own database.
        """
        wanted, named = frozenset(folders), sorted(files)
        with self._lock:
            self._check_open()
            if named:
                return _confined(wanted, named)
            if "confined" not in self._kept or not wanted <= self._folders:
                self._folders |= wanted
                logger.debug("opens a confined DuckDB for %d folders", len(self._folders))
                self._kept["confined"] = _confined(self._folders, [])
            return self._kept["confined"].cursor()

    @undisturbed()
    def connect_planning(self) -> duckdb.DuckDBPyConnection:
        """Return a new connection that parses and plans statements, and can open no file."""
        with self._lock:
            self._check_open()
            if "planning" not in self._kept:
                self._kept["planning"] = _planning()
            return self._kept["planning"].cursor()

    def close(self) -> None:
        """Release the databases, and open no more. Results that a program holds keep theirs."""
        with self._lock:
            self._closed = True
            self._kept.clear()

    def _check_open(self) -> None:
        check_has_threads()
        if self._closed:
            raise SessionClosed.of("the session's DuckDB")


def _is_closed(connection: duckdb.DuckDBPyConnection) -> bool:
    import duckdb

    try:
        connection.sql("SELECT 1")  # is planned, not run: a result that is being fetched stays
    except (duckdb.ConnectionException, duckdb.FatalException):  # the latter after an error of DuckDB's own
        return True
    return False


def _planning() -> duckdb.DuckDBPyConnection:
    connection = _opened(threads=1)  # it reads no rows: each statement takes half a millisecond less
    connection.execute(f"SET GLOBAL disabled_optimizers = '{','.join(_NOT_FOR_PLANS)}'")
    _confine(connection, [], [])
    return connection


def _opened(**settings: int) -> duckdb.DuckDBPyConnection:
    import duckdb

    # for data that does not fit into memory: DuckDB creates it when needed, and deletes it. It lets statements open all
    # files of that folder, which by default is ``.tmp`` in the current folder
    spilled = cache_folder() / f"duckdb-{Clock().new_id()}"
    config = {**_CONFIG, **settings, "temp_directory": str(spilled)}
    connection = duckdb.connect(":memory:", config=config)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    # the type of a column is the table's: GeoParquet's footer would make GEOMETRY of bytes, which are others then
    connection.execute("SET GLOBAL enable_geoparquet_conversion = false")
    return connection


def _confined(folders: frozenset[str], files: list[str]) -> duckdb.DuckDBPyConnection:
    connection = _opened()
    connection.execute("SET GLOBAL parquet_metadata_cache = true")
    _confine(connection, sorted(folders), files)
    return connection


def _confine(connection: duckdb.DuckDBPyConnection, folders: list[str], files: list[str]) -> None:
    folders = [*folders, *(path for each in folders if (path := as_pattern(each)) != each)]  # it compares patterns too
    connection.execute("SET GLOBAL allowed_directories = $folders", {"folders": folders})
    connection.execute("SET GLOBAL allowed_paths = $files", {"files": files})
    connection.execute("SET GLOBAL enable_external_access = false")
    connection.execute("SET GLOBAL lock_configuration = true")
