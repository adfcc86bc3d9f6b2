"""The embedded catalog: one SQLite file in the warehouse, shared by every process on the machine.

Writers take SQLite's write lock at the start of a transaction (BEGIN IMMEDIATE), so a condition that was read cannot
change before what depends on it is written. WAL mode lets readers go on meanwhile; `synchronous=FULL` makes an
acknowledged commit survive a power cut.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from sleeper_nb.catalog.base import Assignment, Catalog, TableEntry
from sleeper_nb.errors import AlreadyExists, NotFound, StorageError
from sleeper_nb.model.snapshots import Savepoint, Snapshot, from_micros, to_micros

FORMAT_VERSION = 1
BUSY_SECONDS = 60.0
"""How long a writer waits for another one's lock; a commit holds it for milliseconds."""

_TABLES = """
CREATE TABLE IF NOT EXISTS tables (
  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, online INTEGER NOT NULL, current_snapshot INTEGER NOT NULL,
  current_commit TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS snapshots (
  table_id TEXT NOT NULL, id INTEGER NOT NULL, commit_id TEXT NOT NULL UNIQUE, time INTEGER NOT NULL,
  operation TEXT NOT NULL, schema_id INTEGER NOT NULL, files INTEGER NOT NULL, rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL, added_files INTEGER NOT NULL, removed_files INTEGER NOT NULL, added_rows INTEGER NOT NULL,
  files_path TEXT NOT NULL, partitions_path TEXT NOT NULL, message TEXT, author TEXT,
  PRIMARY KEY (table_id, id)) STRICT;
CREATE TABLE IF NOT EXISTS savepoints (
  table_id TEXT NOT NULL, id INTEGER NOT NULL, name TEXT, files_path TEXT, partitions_path TEXT, body TEXT,
  PRIMARY KEY (table_id, id), UNIQUE (table_id, name)) STRICT;
CREATE TABLE IF NOT EXISTS garbage (
  table_id TEXT NOT NULL, path TEXT NOT NULL, since INTEGER NOT NULL, PRIMARY KEY (table_id, path)) STRICT;
CREATE TABLE IF NOT EXISTS assignments (
  table_id TEXT NOT NULL, partition_id TEXT NOT NULL, filename TEXT NOT NULL, job_id TEXT NOT NULL,
  until INTEGER NOT NULL, PRIMARY KEY (table_id, partition_id, filename)) STRICT;
"""

_SNAPSHOT = (
    "id", "commit_id", "time", "operation", "schema_id", "files", "rows", "bytes", "added_files", "removed_files",
    "added_rows", "files_path", "partitions_path", "message", "author",
)  # fmt: skip
_SELECT_SNAPSHOT = f"SELECT {', '.join(_SNAPSHOT)} FROM snapshots WHERE table_id = ?"  # noqa: S608 - our own column names
_SELECT_CURRENT = _SELECT_SNAPSHOT + " AND id = (SELECT current_snapshot FROM tables WHERE id = ?)"  # noqa: S608
_INSERT_SNAPSHOT = f"INSERT INTO snapshots (table_id, {', '.join(_SNAPSHOT)}) VALUES (?{', ?' * len(_SNAPSHOT)})"  # noqa: S608
_GARBAGE_IF_UNNAMED = """
INSERT OR IGNORE INTO garbage (table_id, path, since) SELECT :table, :path, :now WHERE
  NOT EXISTS (SELECT 1 FROM snapshots WHERE table_id = :table AND :path IN (files_path, partitions_path)) AND
  NOT EXISTS (SELECT 1 FROM savepoints WHERE table_id = :table AND :path IN (files_path, partitions_path))
"""


class SqliteCatalog(Catalog):
    """A catalog in one file.

    Parameters
    ----------
    path
        The file; it is made when it is not there, as is its folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
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
            self._prepare()
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
            self._connection.execute("PRAGMA synchronous = FULL")
            if version < FORMAT_VERSION:
                with self._transaction() as run:
                    for statement in filter(str.strip, _TABLES.split(";")):
                        run.execute(statement)
                    run.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            if self._connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                # SQLite does not wait for this lock; whoever holds it is switching too, or the next to open will.
                with contextlib.suppress(sqlite3.OperationalError):
                    self._connection.execute("PRAGMA journal_mode = WAL")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection
            except sqlite3.Error as error:
                hint = "is the disk full, or the file locked by another program?"
                raise StorageError(f"the catalog {self._path} failed: {error}", hint=hint) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._errors() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")  # inside: an interrupt right behind it must not leave it open
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _rows(self, statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        with self._errors() as connection:
            return connection.execute(statement, parameters).fetchall()

    def create_table(self, entry: TableEntry, first: Snapshot) -> None:
        with self._transaction() as run:
            if run.execute("SELECT 1 FROM tables WHERE name = ? OR id = ?", (entry.name, entry.id)).fetchone():
                raise AlreadyExists(f"table {entry.name!r} is there already", hint="choose another name")
            run.execute(
                "INSERT INTO tables VALUES (?, ?, ?, ?, ?)",
                (entry.id, entry.name, entry.online, first.id, first.commit_id),
            )
            run.execute(_INSERT_SNAPSHOT, (entry.id, *_snapshot_row(first)))

    def tables(self) -> tuple[TableEntry, ...]:
        rows = self._rows("SELECT id, name, online FROM tables ORDER BY name")
        return tuple(TableEntry(table_id, name, bool(online)) for table_id, name, online in rows)

    def current(self, table_id: str) -> Snapshot:
        rows = self._rows(_SELECT_CURRENT, (table_id, table_id))
        if not rows:
            raise NotFound(f"no table with id {table_id!r}", hint="it was deleted meanwhile")
        return _snapshot(rows[0])

    def commit(self, table_id: str, expected: Snapshot, new: Snapshot) -> bool:
        with self._transaction() as run:
            won = run.execute(
                "UPDATE tables SET current_snapshot = ?, current_commit = ? WHERE id = ? AND current_commit = ?",
                (new.id, new.commit_id, table_id, expected.commit_id),
            ).rowcount
            if won:
                run.execute(_INSERT_SNAPSHOT, (table_id, *_snapshot_row(new)))
            return bool(won)

    def has_commit(self, table_id: str, commit_id: str) -> bool:
        return bool(self._rows("SELECT 1 FROM snapshots WHERE table_id = ? AND commit_id = ?", (table_id, commit_id)))

    def snapshots(self, table_id: str) -> tuple[Snapshot, ...]:
        return tuple(map(_snapshot, self._rows(f"{_SELECT_SNAPSHOT} ORDER BY id DESC", (table_id,))))

    def expire_snapshots(self, table_id: str, ids: Collection[int], now: datetime) -> None:
        with self._transaction() as run:
            for snapshot_id in ids:
                paths = run.execute(
                    "DELETE FROM snapshots WHERE table_id = :table AND id = :id AND id != (SELECT current_snapshot "
                    "FROM tables WHERE id = :table) RETURNING files_path, partitions_path",
                    {"table": table_id, "id": snapshot_id},
                ).fetchone()
                _collect(run, table_id, paths or (), now)

    def savepoints(self, table_id: str) -> tuple[Savepoint, ...]:
        rows = self._rows("SELECT body FROM savepoints WHERE table_id = ? AND body NOT NULL ORDER BY id", (table_id,))
        return tuple(Savepoint.from_json(body) for (body,) in rows)

    def reserve_savepoint_id(self, table_id: str) -> int:
        with self._transaction() as run:
            (last,) = run.execute("SELECT max(id) FROM savepoints WHERE table_id = ?", (table_id,)).fetchone()
            run.execute("INSERT INTO savepoints (table_id, id) VALUES (?, ?)", (table_id, (last or 0) + 1))
            return int(last or 0) + 1

    def add_savepoint(self, table_id: str, savepoint: Savepoint) -> None:
        with self._transaction() as run:
            if not run.execute(
                "SELECT 1 FROM snapshots WHERE table_id = ? AND id = ?", (table_id, savepoint.saved_snapshot_id)
            ).fetchone():
                raise NotFound(
                    f"snapshot {savepoint.saved_snapshot_id} has expired, so it cannot be saved",
                    hint="save a snapshot that history shows",
                )
            if run.execute(
                "SELECT 1 FROM savepoints WHERE table_id = ? AND name = ?", (table_id, savepoint.name)
            ).fetchone():
                raise AlreadyExists(
                    f"the savepoint name {savepoint.name!r} was used before",
                    hint="choose another; the name of a deleted savepoint is never given again",
                )
            run.execute(
                "UPDATE savepoints SET name = ?, files_path = ?, partitions_path = ?, body = ? "
                "WHERE table_id = ? AND id = ?",
                (
                    savepoint.name, savepoint.full_manifest_list, savepoint.partitions_path, savepoint.to_json(),
                    table_id, savepoint.id,
                ),
            )  # fmt: skip

    def delete_savepoint(self, table_id: str, savepoint_id: int, now: datetime) -> None:
        with self._transaction() as run:
            paths = run.execute(
                "SELECT files_path, partitions_path FROM savepoints WHERE table_id = ? AND id = ? AND body IS NOT NULL",
                (table_id, savepoint_id),
            ).fetchone()
            run.execute(
                "UPDATE savepoints SET files_path = NULL, partitions_path = NULL, body = NULL "
                "WHERE table_id = ? AND id = ?",
                (table_id, savepoint_id),
            )
            _collect(run, table_id, paths or (), now)

    def garbage(self, table_id: str) -> tuple[tuple[str, datetime], ...]:
        rows = self._rows("SELECT path, since FROM garbage WHERE table_id = ? ORDER BY path", (table_id,))
        return tuple((path, from_micros(since)) for path, since in rows)

    def forget_garbage(self, table_id: str, paths: Collection[str]) -> None:
        with self._transaction() as run:
            run.executemany("DELETE FROM garbage WHERE table_id = ? AND path = ?", [(table_id, path) for path in paths])

    def assign(self, table_id: str, assignment: Assignment, now: datetime) -> bool:
        with self._transaction() as run:
            run.execute(
                "DELETE FROM assignments WHERE table_id = ? AND (until <= ? OR job_id = ?)",
                (table_id, to_micros(now), assignment.job_id),
            )
            rows = [
                (table_id, assignment.partition_id, name, assignment.job_id, to_micros(assignment.until))
                for name in assignment.filenames
            ]
            claimed = run.executemany("INSERT OR IGNORE INTO assignments VALUES (?, ?, ?, ?, ?)", rows).rowcount
            if claimed != len(rows):
                run.execute("DELETE FROM assignments WHERE table_id = ? AND job_id = ?", (table_id, assignment.job_id))
            return claimed == len(rows)

    def assignments(self, table_id: str, now: datetime) -> tuple[Assignment, ...]:
        rows = self._rows(
            "SELECT job_id, partition_id, until, json_group_array(filename) FROM assignments "
            "WHERE table_id = ? AND until > ? GROUP BY job_id, partition_id, until ORDER BY job_id",
            (table_id, to_micros(now)),
        )
        return tuple(
            Assignment(job, partition, tuple(json.loads(names)), from_micros(until))
            for job, partition, until, names in rows
        )

    def release(self, table_id: str, job_id: str) -> None:
        with self._transaction() as run:
            run.execute("DELETE FROM assignments WHERE table_id = ? AND job_id = ?", (table_id, job_id))

    def close(self) -> None:
        with self._lock:
            self._connection.close()


def _snapshot_row(snapshot: Snapshot) -> tuple[Any, ...]:
    values = ((name, getattr(snapshot, name)) for name in _SNAPSHOT)
    return tuple(to_micros(value) if name == "time" else value for name, value in values)


def _snapshot(row: tuple[Any, ...]) -> Snapshot:
    fields = dict(zip(_SNAPSHOT, row, strict=True))
    return Snapshot(**{**fields, "time": from_micros(fields["time"])})


def _collect(run: sqlite3.Connection, table_id: str, paths: Collection[str], now: datetime) -> None:
    for path in paths:
        run.execute(_GARBAGE_IF_UNNAMED, {"table": table_id, "path": path, "now": to_micros(now)})
