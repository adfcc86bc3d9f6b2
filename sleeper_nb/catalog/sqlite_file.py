"""One SQLite file that threads and processes share: transactions, clear errors, room in reserve, locks of commits.

Writers take SQLite's write lock at the start of a transaction (BEGIN IMMEDIATE), so a condition that was read cannot
change before the rows that depend on it are written. WAL mode lets readers continue meanwhile; `synchronous=FULL` makes
an acknowledged commit survive a power cut.

Deleting snapshots or tables writes to the file too, and a full disk has no room for that. So a second file, the
reserve, takes up room beforehand. Only work that frees space gives it up, a part at a time, and takes it back from
what it has freed.

A file may come from another person. Views, triggers and computed columns would run their SQL in our statements, so a
file that has any, or a table that no release made, is refused before a statement reads its rows.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import shutil
import sqlite3
import sys
import threading
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from sleeper_nb.clock import Clock, Retry
from sleeper_nb.errors import (
    FREE_SPACE,
    UNCHANGED_FIRST,
    Action,
    CatalogDamaged,
    DiskFull,
    SessionClosed,
    SleeperError,
    StorageError,
)

try:
    import fcntl
except ImportError:  # Windows has no such locks: writers try at the same time
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

BUSY_SECONDS = 60.0
"""How long a writer waits for another writer's lock; a commit holds it for milliseconds."""

_DAMAGED = "the file is damaged or was overwritten: restore it from a copy; data files and metadata are still there"
_HINTS = {
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_BUSY: "another program has locked the file: close it, then run it again",
    sqlite3.SQLITE_LOCKED: "another program has locked the file: close it, then run it again",
    sqlite3.SQLITE_READONLY: "the file or its folder cannot be written to: check the permissions",
}

T = TypeVar("T")

_STEPS = 100_000
"""After how many steps of SQLite's virtual machine Python looks for an interrupt: a few milliseconds."""
_RUNS_SQL = re.compile(r"\b(?:(?:virtual|check|generated|as|collate|references)\b|default\s*\()", re.IGNORECASE)
"""What a plain table does not have: words of SQL that SQLite runs when rows are read or written."""
_NAMES_AND_TEXTS = re.compile(
    r"""'[^']*'|"[^"]*"|`[^`]*`|\[[^]]*\]|--[^\n]*|/\*.*?(?:\*/|$)""",
    re.DOTALL,
)
"""What has no words of SQL, one after the other: texts, names in each kind of quotes, and comments."""


def guard(connection: sqlite3.Connection) -> None:
    """Keep SQLite from running what a file brings, and let Ctrl-C end any statement."""
    connection.set_progress_handler(lambda: 0, _STEPS)  # Python runs handlers of signals where it enters a function
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE)
        for what in (sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER, sqlite3.SQLITE_DBCONFIG_ENABLE_VIEW):
            connection.setconfig(what, False)  # noqa: FBT003 - it has no name


def is_interrupted(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT


def unexpected(connection: sqlite3.Connection, tables: Collection[str] | None = None) -> str | None:
    """Return what a file has besides plain tables, of these names if they are given, such as ``view 'log'``; or None.

    Indexes that SQLite makes for keys have no SQL, and its own tables are statistics.
    """
    for kind, name, text in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        if kind == "index" and text is None:
            continue
        if kind != "table":
            return f"{kind} {name!r}"
        if tables is not None and name not in tables and not name.startswith("sqlite_stat"):
            return f"table {name!r}"
        if _RUNS_SQL.search(_NAMES_AND_TEXTS.sub(" ", text)):
            return f"table {name!r} with computed columns or rules"
    return None


class SqliteFile:
    """A connection to one file, shared by threads; the file and its folder are created when missing.

    A file of a newer format, or with other tables, is refused. `upgrade` brings a file of an older format, or an empty
    one, to `format_version` within a transaction.
    """

    def __init__(
        self,
        path: Path,
        *,
        sync: bool,
        format_version: int,
        tables: Collection[str],
        upgrade: Callable[[sqlite3.Connection], None],
    ) -> None:
        self._format_version, self._tables, self._upgrade = format_version, tables, upgrade
        self._path, self._sync = path.absolute(), sync
        self.name = f"the catalog {self._path}"
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
                f"cannot open the catalog {path}: {error}", hint="check that its folder can be written to"
            ) from error
        try:
            try:
                self._prepare()
            except DiskFull:  # SQLite needs a little room even to read
                if not self._reserve.give_up():
                    raise
                logger.warning("the disk is full: opening the catalog %s with its reserve", self._path)
                self._prepare()
            self.identity = self._file_id()  # no other file has it while this one is open
            self._reserve.keep()
        except BaseException:
            self._connection.close()
            raise
        logger.debug("opened the catalog %s", self._path)

    def _prepare(self) -> None:
        with self._errors():
            guard(self._connection)
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if version > self._format_version:
                raise StorageError(
                    f"the catalog {self._path} has format {version}; this release reads up to {self._format_version}",
                    hint="upgrade sleeper-nb",
                )
            self._check_schema()
            self._connection.create_function("casefold", 1, str.casefold, deterministic=True)
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if self._sync else 'NORMAL'}")
            self._connection.execute("PRAGMA secure_delete = ON")  # the log has keys, which a purge deletes for good
            if version < self._format_version:
                with self.transaction() as run:
                    self._upgrade(run)
                logger.info("the catalog %s has format %d now, before: %d", self._path, self._format_version, version)
            if self._connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                # SQLite does not wait for this lock; its holder is switching too, or the next process to open will.
                with contextlib.suppress(sqlite3.OperationalError):
                    self._connection.execute("PRAGMA journal_mode = WAL")

    def _check_schema(self) -> None:
        what = unexpected(self._connection, self._tables)
        if what is not None:
            raise CatalogDamaged(
                f"{self.name} has the {what}, which sleeper_nb did not make; it was not opened",
                hint="ask the person who gave you the warehouse, or restore the file from a copy",
            )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection
            except UnicodeDecodeError as error:  # in a name or text that SQLite hands to Python
                raise CatalogDamaged(f"{self.name} is damaged: {error}", hint=_DAMAGED) from error
            except sqlite3.Error as error:
                if is_interrupted(error):
                    raise KeyboardInterrupt from None
                if self._closed:
                    raise SessionClosed.of(f"the catalog {self._path}") from error
                self._check_there()
                raise self._explained(error) from error

    def _explained(self, error: sqlite3.Error) -> StorageError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the upper bits say more than a user can act on
        if code == sqlite3.SQLITE_FULL or (
            code in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN} and self._reserve.free() < RESERVE_PART
        ):
            return DiskFull(f"no space left for the catalog {self._path}", hint=FREE_SPACE)
        if "decode to UTF-8" in str(error):
            return CatalogDamaged(f"{self.name} is damaged: {error}", hint=_DAMAGED)
        hint = _HINTS.get(code, "check the disk and the permissions of the file, then run it again")
        return StorageError(f"the catalog {self._path} failed: {error}", hint=hint)

    def keep_room(self) -> None:
        self._reserve.keep()

    def give_up_room(self) -> bool:
        """Give up some of the reserve, and the room of the write-ahead log; return False when nothing is left."""
        with self._lock:
            given = self._reserve.give_up()
            logger.warning("the disk is full: the catalog %s gives up its reserve (%s)", self._path, given)
            with contextlib.suppress(StorageError):  # a reader blocks it, or there is still too little room
                self.empty_log()
        return given

    def empty_log(self) -> bool:
        """Move the write-ahead log into the file, and cut it; return False when another session prevents that.

        Until then, the log has rows that were deleted since. The file overwrites them (``secure_delete``).
        """
        with self._errors() as connection:
            is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not is_busy

    def _check_there(self) -> None:
        now = self._file_id()
        if self.identity not in {None, now}:
            raise StorageError(
                f"the catalog of {self._path.parent} was {'replaced' if now else 'deleted'} since it was opened",
                hint=(UNCHANGED_FIRST, "open it again: ", self._reopening),
            )

    @property
    def _reopening(self) -> Action:
        """What opens the warehouse again; the catalog is in the folder of its instance."""
        folder = self._path.parent
        warehouse, name = str(folder.parent), folder.name
        if name == "default":
            return Action(f"use {shlex.quote(warehouse)}", f"sleeper_nb.connect({warehouse!r})")
        line = f"use {shlex.quote(warehouse)} --instance {shlex.quote(name)}"
        return Action(line, f"sleeper_nb.connect({warehouse!r}, {name!r})")

    def _file_id(self) -> tuple[int, int] | None:
        try:
            there = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return there.st_dev, there.st_ino

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block as one transaction, whole or not at all.

        `StorageError` when SQLite fails; or when the file was deleted or replaced since it was opened, since SQLite
        would go on writing to a file that no other process can open.
        """
        with self._errors() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")  # inside `try`: an interrupt right after it must roll back
                self._check_there()
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def rows(self, statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        with self._errors() as connection:
            return connection.execute(statement, parameters).fetchall()

    def read(self, make: Callable[[tuple[Any, ...]], T], statement: str, parameters: Any = ()) -> tuple[T, ...]:
        """Return the rows of a query, each converted by `make`; `CatalogDamaged` when one cannot be."""
        rows = self.rows(statement, parameters)
        try:
            return tuple(map(make, rows))
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
            if isinstance(error, SleeperError):
                raise
            raise CatalogDamaged(f"{self.name} is damaged: {error}", hint=_DAMAGED) from error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._connection.close()


RESERVE_MIN, RESERVE_MAX = 256 << 10, 4 << 20
"""Bounds of the reserve in bytes; between them it is as large as the catalog, which one transaction can rewrite."""
RESERVE_PART = 64 << 10
"""The least that is given up at a time, in bytes: enough to open a catalog, which needs 32 KiB."""


class Reserve:
    """A file next to the catalog that takes up room; without it, everything works until the disk is full."""

    def __init__(self, catalog: Path) -> None:
        self._catalog, self._path = catalog, catalog.with_name(f"{catalog.name}-reserve")

    def keep(self) -> None:
        """Fill the reserve up, with at most half of the free space."""
        with contextlib.suppress(OSError):  # a read-only folder, or a disk that is full by now
            held = self._path.stat().st_size if self._path.exists() else 0
            missing = min(max(self._catalog.stat().st_size, RESERVE_MIN), RESERVE_MAX) - held
            size = held + min(missing, self.free() // 2)
            if size <= held:
                return
            with self._path.open("ab") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), held, size - held)
                else:  # not Linux
                    file.write(bytes(size - held))

    def give_up(self) -> bool:
        try:
            held = self._path.stat().st_size
            os.truncate(self._path, max(0, held - max(RESERVE_PART, held // 4)))
        except OSError:
            return False
        return held > 0

    def free(self) -> int:
        return shutil.disk_usage(self._catalog.parent).free


# Advisory locks between the processes of one machine that commit to one table, so that fewer commits are lost.
#
# Only the catalog's conditional update makes commits safe. A lock merely saves work: eight writers that try at the same
# time do eight times the work for one commit. So no process waits long for a lock; one that cannot get it continues.

LONGEST_WAIT = timedelta(seconds=0.5)
"""After this a process commits without the lock: its holder was stopped, or its commit takes long."""
POLL = Retry(first_wait=0.0005, max_wait=0.01)


class CommitLocks:
    """Locks in one empty file, one byte for each table; the operating system releases them when their process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @contextlib.contextmanager
    def hold(self, table_id: str, clock: Clock) -> Iterator[None]:
        """Run the block while holding the lock of a table, or after waiting long enough for it."""
        byte = zlib.crc32(table_id.encode())
        try:
            self._wait(byte, clock)
            yield
        finally:
            if self._file is not None:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)

    def _wait(self, byte: int, clock: Clock) -> None:
        """Return when the lock is held, after a while without it, and where there are no locks."""
        polls, end = count(), clock.now() + LONGEST_WAIT
        try:
            if self._file is None and fcntl is not None:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            while self._file is not None and not self._try_lock(self._file, byte):
                if clock.now() >= end:
                    logger.info(
                        "%s: another process has held the lock for %s; committing anyway", self._path, LONGEST_WAIT
                    )
                    return
                POLL.wait(clock, next(polls))
        except OSError as error:  # a full disk, or a network's file system without locks
            logger.info("%s: no advisory lock (%s); committing without it", self._path, error)

    def _try_lock(self, file: int, byte: int) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):  # systems differ in how they report a lock held by another process
            return False
        return True

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


# Names in a catalog's SQLite file, read without opening the catalog: Tab in a shell asks for them.
#
# The file is never created, upgraded or written to, and nothing waits long for a lock.

_BUSY_SECONDS = 0.2
_ID = "(SELECT id FROM tables WHERE name = :table COLLATE NOCASE)"


@dataclass(frozen=True, slots=True)
class NamesInFile:
    """The names in one catalog; none when the file cannot be read, whatever the reason."""

    path: Path

    def tables(self) -> tuple[str, ...]:
        return tuple(name for (name,) in self._rows("SELECT name FROM tables ORDER BY name"))

    def current_schema(self, table: str) -> tuple[str, int] | None:
        """Return the id of a table, and that of its schema; None when it is not found."""
        select = (
            "SELECT tables.id, schema_id FROM tables JOIN snapshots "
            "ON snapshots.table_id = tables.id AND snapshots.id = current_snapshot "
            "WHERE name = :table COLLATE NOCASE"
        )
        return next(iter(self._rows(select, table)), None)

    def savepoints(self, table: str) -> tuple[tuple[int, str | None], ...]:
        select = f"SELECT id, name FROM savepoints WHERE table_id = {_ID} AND body NOT NULL ORDER BY id"  # noqa: S608
        return tuple(self._rows(select, table))

    def snapshots(self, table: str, most: int) -> tuple[int, ...]:
        select = f"SELECT id FROM snapshots WHERE table_id = {_ID} AND NOT expired ORDER BY id DESC LIMIT {most:d}"  # noqa: S608
        return tuple(number for (number,) in self._rows(select, table))

    def _has_log(self) -> bool:
        """Return whether commits are in SQLite's log; else a reader that locks would leave an empty log behind."""
        log = self.path.with_name(f"{self.path.name}-wal")
        return log.exists() and log.stat().st_size > 0

    def _rows(self, select: str, table: str = "") -> list[Any]:
        try:
            address = f"{self.path.absolute().as_uri()}?{'mode=ro' if self._has_log() else 'immutable=1'}"
            with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as connection:
                guard(connection)
                if unexpected(connection) is not None:  # of another program's file: opening it raises
                    return []
                return connection.execute(select, {"table": table} if table else ()).fetchall()
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            if is_interrupted(error):
                raise KeyboardInterrupt from None
            return []
