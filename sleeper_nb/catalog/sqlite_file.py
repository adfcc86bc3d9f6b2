"""The file of the SQLite catalog: opened, brought to this release's format, and changed by whole transactions.

Writers take SQLite's write lock at the start of a transaction (BEGIN IMMEDIATE), so a condition that was read cannot
change before what depends on it is written. WAL mode lets readers go on meanwhile; `synchronous=FULL` makes an
acknowledged commit survive a power cut.
"""

from __future__ import annotations

import contextlib
import shlex
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from sleeper_nb.catalog.reserve import PART, Reserve
from sleeper_nb.catalog.sqlite_tables import FORMAT_VERSION, upgrade
from sleeper_nb.errors import FREE_SPACE, CatalogDamaged, DiskFull, SessionClosed, SleeperError, StorageError

BUSY_SECONDS = 60.0
"""How long a writer waits for another one's lock; a commit holds it for milliseconds."""


_DAMAGED = "the file is damaged or was overwritten: restore it from a copy; data files and metadata are still there"
_HINTS = {
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_BUSY: "another program holds the file locked: close it, then run it again",
    sqlite3.SQLITE_LOCKED: "another program holds the file locked: close it, then run it again",
    sqlite3.SQLITE_READONLY: "the file, or its folder, may not be written: check the permissions",
}


T = TypeVar("T")


class SqliteFile:
    """A connection that threads share; the parameters are those of `SqliteCatalog`."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        self._path, self._sync = path.absolute(), sync
        self._lock, self._closed = threading.RLock(), False
        self.identity: tuple[int, int] | None = None
        self._reserve = Reserve(self._path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise StorageError(
                f"cannot open the catalog {path}: {error}", hint="is it a folder to write in?"
            ) from error
        try:
            try:
                self._prepare()
            except DiskFull:  # also to read it, SQLite needs a little room
                if not self._reserve.give_up():
                    raise
                self._prepare()
            self.identity = self._number()  # no other file has it as long as this one is open
            self._reserve.keep()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        with self._errors():
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if version > FORMAT_VERSION:
                raise StorageError(
                    f"the catalog {self._path} has format {version}; this release reads up to {FORMAT_VERSION}",
                    hint="upgrade sleeper-nb",
                )
            self._connection.create_function("casefold", 1, str.casefold, deterministic=True)
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if self._sync else 'NORMAL'}")
            if version < FORMAT_VERSION:
                with self.transaction() as run:
                    upgrade(run)
            if self._connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                # SQLite does not wait for this lock; whoever holds it is switching too, or the next to open will.
                with contextlib.suppress(sqlite3.OperationalError):
                    self._connection.execute("PRAGMA journal_mode = WAL")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection
            except UnicodeDecodeError as error:  # of a name or a text that SQLite hands to Python
                raise CatalogDamaged(f"{self.name} is damaged: {error}", hint=_DAMAGED) from error
            except sqlite3.Error as error:
                if self._closed:
                    raise SessionClosed.of(f"the catalog {self._path}") from error
                self._check_there()
                raise self._explained(error) from error

    def _explained(self, error: sqlite3.Error) -> StorageError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of it says more than anyone can act on
        if code == sqlite3.SQLITE_FULL or (
            code in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN} and self._reserve.free() < PART
        ):
            return DiskFull(f"no space left for the catalog {self._path}", hint=FREE_SPACE)
        if "decode to UTF-8" in str(error):
            return CatalogDamaged(f"{self.name} is damaged: {error}", hint=_DAMAGED)
        hint = _HINTS.get(code, "check the disk and the permissions of the file, then run it again")
        return StorageError(f"the catalog {self._path} failed: {error}", hint=hint)

    def keep_room(self) -> None:
        """Keep room in reserve, as much as is missing."""
        self._reserve.keep()

    def give_up_room(self) -> bool:
        """Give up some of the room in reserve, and that of the log of writes; return False when there is none."""
        with self._lock:
            given = self._reserve.give_up()
            with contextlib.suppress(sqlite3.Error):  # a reader is in the way, or there is still too little room
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return given

    def _check_there(self) -> None:
        now = self._number()
        if self.identity not in {None, now}:
            raise StorageError(
                f"the catalog of {self._path.parent} was {'replaced' if now else 'deleted'} since it was opened",
                hint=f"nothing was changed; open it again: {self._opened_by}, or connect in Python",
            )

    @property
    def _opened_by(self) -> str:
        """The line that opens the warehouse; its folder has one for each instance, and the catalog is in that."""
        folder = self._path.parent
        instance = "" if folder.name == "default" else f" --instance {shlex.quote(folder.name)}"
        return f"%sleeper use {shlex.quote(str(folder.parent))}{instance}"

    def _number(self) -> tuple[int, int] | None:
        """Return what tells the file from every other; None when it is not there."""
        try:
            there = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return there.st_dev, there.st_ino

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block as one transaction, whole or not at all.

        Raises
        ------
        StorageError
            When SQLite fails; or when the file was deleted or replaced since it was opened, as SQLite would go on
            writing to what nobody can find any more.
        """
        with self._errors() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")  # inside: an interrupt right behind it must not leave it open
                self._check_there()
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def rows(self, statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self._errors() as connection:
            return connection.execute(statement, parameters).fetchall()

    @property
    def name(self) -> str:
        """What people know the catalog by."""
        return f"the catalog {self._path}"

    def read(self, make: Callable[[tuple[Any, ...]], T], statement: str, parameters: Any = ()) -> tuple[T, ...]:
        """Return what `make` makes of the rows of a query; `CatalogDamaged` when one of them cannot be."""
        rows = self.rows(statement, parameters)
        try:
            return tuple(map(make, rows))
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
            if isinstance(error, SleeperError):
                raise
            raise CatalogDamaged(f"{self.name} is damaged: {error}", hint=_DAMAGED) from error

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._closed = True
            self._connection.close()
