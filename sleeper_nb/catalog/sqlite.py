"""The embedded catalog: one SQLite file in the warehouse, shared by every process on the machine."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import shutil
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from sleeper_nb.catalog.catalog_base import (
    Assignment,
    Catalog,
    CommitLimits,
    TableEntry,
    deleted_meanwhile,
    lost_checkpoint,
)
from sleeper_nb.catalog.checked_rows import (
    CatalogRows,
    SavepointRow,
    SnapshotRow,
    savepoint_checksum,
    savepoint_columns,
    snapshot_checksum,
)
from sleeper_nb.catalog.locks import Turns
from sleeper_nb.clock import Clock
from sleeper_nb.errors import (
    CHECK,
    CHOOSE_RETAINED,
    FREE_SPACE,
    SAVE_RETAINED,
    Action,
    AlreadyExists,
    CatalogDamaged,
    DiskFull,
    NotFound,
    SessionClosed,
    SleeperError,
    StorageError,
)
from sleeper_nb.model.jobs import Job, Lease
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot, from_micros, to_micros

logger = logging.getLogger(__name__)

# Claims of compaction jobs and records of jobs of every kind in the SQLite catalog, each within a transaction.

_JOB = tuple(field.name for field in fields(Job))
_TIMES = frozenset({"created", "started", "finished"})
SELECT_JOBS = f"SELECT {', '.join(_JOB)} FROM jobs WHERE table_id = ? ORDER BY created DESC, id DESC LIMIT ?"  # noqa: S608
_PUT_JOB = f"INSERT OR REPLACE INTO jobs (table_id, {', '.join(_JOB)}) VALUES (?{', ?' * len(_JOB)})"  # noqa: S608
SELECT_CLAIMS = """
SELECT job_id, partition_id, until, json_group_array(filename) FROM assignments
WHERE table_id = ? AND until > ? GROUP BY job_id, partition_id, until ORDER BY job_id
"""
_PRUNE = """
DELETE FROM jobs WHERE table_id = :table AND (created < :before OR (created, id) IN
  (SELECT created, id FROM jobs WHERE table_id = :table ORDER BY created DESC, id DESC LIMIT -1 OFFSET :keep))
"""


def claim_files(run: sqlite3.Connection, table_id: str, assignment: Assignment, now: datetime, job: Job | None) -> bool:
    """Claim files, all or none, and with them note the job."""
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
        return False
    if job is not None:
        put_job(run, table_id, job)
    return True


def to_claim(row: tuple[Any, ...]) -> Assignment:
    """Return what a row of `SELECT_CLAIMS` holds."""
    job, partition, until, names = row
    return Assignment(job, partition, tuple(json.loads(names)), from_micros(until))


def put_job(run: sqlite3.Connection, table_id: str, job: Job) -> None:
    """Write the record of a run, in place of an older one of it."""
    run.execute(_PUT_JOB, (table_id, *(_plain(name, getattr(job, name)) for name in _JOB)))


def to_job(row: tuple[Any, ...]) -> Job:
    """Return what a row of `SELECT_JOBS` holds."""
    return Job(**{name: _value(name, plain) for name, plain in zip(_JOB, row, strict=True)})


def _plain(name: str, value: Any) -> Any:
    if name in _TIMES:
        return None if value is None else to_micros(value)
    return json.dumps(value) if name == "partition_ids" else value


def _value(name: str, plain: Any) -> Any:
    if name in _TIMES:
        return None if plain is None else from_micros(plain)
    return tuple(json.loads(plain)) if name == "partition_ids" else plain


def prune_jobs(run: sqlite3.Connection, table_id: str, before: datetime, keep: int) -> None:
    """Forget runs that are older than a moment, and all but the newest."""
    run.execute(_PRUNE, {"table": table_id, "before": to_micros(before), "keep": keep})


def ids_of(table_id: str, new: Iterable[Snapshot]) -> list[tuple[str, str, int]]:
    """Return the rows of `job_ids` that snapshots add: table, id of the job, snapshot."""
    return [(table_id, snapshot.job_id, snapshot.id) for snapshot in new if snapshot.job_id is not None]


def are_new(run: sqlite3.Connection, ids: Iterable[tuple[str, str, int]]) -> bool:
    """Return whether no job of these ids has made a snapshot."""
    used = "SELECT 1 FROM job_ids WHERE table_id = ? AND job_id = ?"
    return not any(run.execute(used, one[:2]).fetchone() for one in ids)


# Leases of readers in the SQLite catalog, each step within a transaction.

_LEASE = tuple(field.name for field in fields(Lease))
SELECT_LEASES = f"SELECT {', '.join(_LEASE)} FROM leases WHERE table_id = ? ORDER BY since, id"  # noqa: S608 - our own names
_IS_KEPT = """
SELECT EXISTS (SELECT 1 FROM snapshots WHERE table_id = :table AND id = :id AND NOT expired)
  OR EXISTS (SELECT 1 FROM savepoints WHERE table_id = :table AND saves = :id AND body NOT NULL)
  OR EXISTS (SELECT 1 FROM leases WHERE table_id = :table AND snapshot_id = :id)
"""


def add_lease(run: sqlite3.Connection, table_id: str, lease: Lease) -> None:
    """Add a lease on the condition that its version is kept."""
    (kept,) = run.execute(_IS_KEPT, {"table": table_id, "id": lease.snapshot_id}).fetchone()
    if not kept:
        raise NotFound(f"snapshot {lease.snapshot_id} has expired", hint=CHOOSE_RETAINED)
    values = (to_micros(value) if isinstance(value := getattr(lease, name), datetime) else value for name in _LEASE)
    marks = ", ?" * len(_LEASE)
    run.execute(f"INSERT INTO leases (table_id, {', '.join(_LEASE)}) VALUES (?{marks})", (table_id, *values))  # noqa: S608


def renew_lease(run: sqlite3.Connection, table_id: str, lease: Lease, until: datetime) -> bool:
    """Let a lease end later; return False when it is gone, or renewed by another."""
    statement = "UPDATE leases SET until = ? WHERE table_id = ? AND id = ? AND until = ?"
    return bool(run.execute(statement, (to_micros(until), table_id, lease.id, to_micros(lease.until))).rowcount)


def release_lease(run: sqlite3.Connection, table_id: str, lease: Lease) -> bool:
    """End a lease; return False when it is gone, or renewed since it was read."""
    statement = "DELETE FROM leases WHERE table_id = ? AND id = ? AND until = ?"
    return bool(run.execute(statement, (table_id, lease.id, to_micros(lease.until))).rowcount)


def to_lease(row: tuple[Any, ...]) -> Lease:
    """Return what a row of `SELECT` holds."""
    values = dict(zip(_LEASE, row, strict=True))
    times = {name: from_micros(values[name]) for name in ("since", "until")}
    return Lease(**{**values, **times})


# The tables of the SQLite catalog: columns, upgrades, and how a snapshot becomes a row and a path garbage.

FORMAT_VERSION = 7
TABLES = """
CREATE TABLE IF NOT EXISTS tables (
  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, online INTEGER NOT NULL, current_snapshot INTEGER NOT NULL,
  current_commit TEXT NOT NULL, properties_checksum TEXT) STRICT;
CREATE TABLE IF NOT EXISTS snapshots (
  table_id TEXT NOT NULL, id INTEGER NOT NULL, commit_id TEXT NOT NULL UNIQUE, time INTEGER NOT NULL,
  operation TEXT NOT NULL, schema_id INTEGER NOT NULL, files INTEGER NOT NULL, rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL, added_files INTEGER NOT NULL, removed_files INTEGER NOT NULL, added_rows INTEGER NOT NULL,
  files_path TEXT, partitions_path TEXT, state_store TEXT NOT NULL, message TEXT, author TEXT,
  expired INTEGER NOT NULL DEFAULT 0, job_id TEXT, "references" INTEGER, added_references INTEGER,
  removed_references INTEGER, files_checksum TEXT, partitions_checksum TEXT, schema_checksum TEXT, processing TEXT,
  leaves INTEGER, checksum TEXT, PRIMARY KEY (table_id, id)) STRICT;
CREATE TABLE IF NOT EXISTS log (
  table_id TEXT NOT NULL, id INTEGER NOT NULL, entry BLOB NOT NULL, PRIMARY KEY (table_id, id)) STRICT;
CREATE TABLE IF NOT EXISTS savepoints (
  table_id TEXT NOT NULL, id INTEGER NOT NULL, name TEXT, files_path TEXT, partitions_path TEXT, body TEXT,
  saves INTEGER, log_path TEXT, checksum TEXT, PRIMARY KEY (table_id, id), UNIQUE (table_id, name)) STRICT;
CREATE TABLE IF NOT EXISTS leases (
  table_id TEXT NOT NULL, id TEXT NOT NULL, snapshot_id INTEGER NOT NULL, since INTEGER NOT NULL,
  until INTEGER NOT NULL, purpose TEXT NOT NULL, author TEXT, PRIMARY KEY (table_id, id)) STRICT;
CREATE TABLE IF NOT EXISTS garbage (
  table_id TEXT NOT NULL, path TEXT NOT NULL, since INTEGER NOT NULL, PRIMARY KEY (table_id, path)) STRICT;
CREATE TABLE IF NOT EXISTS assignments (
  table_id TEXT NOT NULL, partition_id TEXT NOT NULL, filename TEXT NOT NULL, job_id TEXT NOT NULL,
  until INTEGER NOT NULL, PRIMARY KEY (table_id, partition_id, filename)) STRICT;
CREATE TABLE IF NOT EXISTS jobs (
  table_id TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, created INTEGER NOT NULL,
  started INTEGER, finished INTEGER, partition_ids TEXT NOT NULL, files INTEGER NOT NULL, rows_read INTEGER,
  rows_written INTEGER, snapshot_id INTEGER, reason TEXT, author TEXT, PRIMARY KEY (table_id, created, id)) STRICT;
CREATE TABLE IF NOT EXISTS job_ids (
  table_id TEXT NOT NULL, job_id TEXT NOT NULL, snapshot_id INTEGER NOT NULL, PRIMARY KEY (table_id, job_id)) STRICT;
CREATE TABLE IF NOT EXISTS deleted (id TEXT PRIMARY KEY) STRICT;
"""
_OF_A_TABLE = ("snapshots", "log", "savepoints", "leases", "garbage", "assignments", "jobs", "job_ids")
TAKEN = """
SELECT 1 FROM tables WHERE casefold(name) = casefold(:name) OR id = :id
UNION ALL SELECT 1 FROM deleted WHERE id = :id
"""
"""Whether a table can have a name and an id; `casefold` is Python's."""
SELECT_ENTRY = "SELECT id, name, online, properties_checksum FROM tables"
SELECT_NAMED = f"{SELECT_ENTRY} WHERE name = ?"
SELECT_NAMED_LIKE = f"{SELECT_ENTRY} WHERE casefold(name) = casefold(?)"

_SNAPSHOT = (
    "id", "commit_id", "time", "operation", "schema_id", "files", "rows", "bytes", "added_files", "removed_files",
    "added_rows", "files_path", "partitions_path", "state_store", "message", "author", "job_id",
    "references", "added_references", "removed_references",
    "files_checksum", "partitions_checksum", "schema_checksum", "processing", "leaves",
)  # fmt: skip
_COLUMNS = ", ".join(f'"{name}"' for name in (*_SNAPSHOT, "checksum"))
SELECT_SNAPSHOT = f"SELECT {_COLUMNS} FROM snapshots WHERE table_id = ?"  # noqa: S608 - our own column names
RETAINED = " AND NOT expired"
AS_OF = f"{RETAINED} AND time <= ? ORDER BY id DESC LIMIT 1"
SELECT_CURRENT_OF_ALL = f"""
SELECT tables.id, tables.current_snapshot, tables.current_commit,
  (SELECT max(id) FROM snapshots WHERE table_id = tables.id),
  {", ".join(f'snapshots."{name}"' for name in (*_SNAPSHOT, "checksum"))}
FROM tables LEFT JOIN snapshots ON snapshots.table_id = tables.id AND snapshots.id = tables.current_snapshot
"""  # noqa: S608 - our own column names
SELECT_CURRENT = f"{SELECT_CURRENT_OF_ALL} WHERE tables.id = ?"
SELECT_HEAD = "SELECT current_snapshot, current_commit FROM tables WHERE id = ?"
INSERT_SNAPSHOT = f"INSERT INTO snapshots (table_id, {_COLUMNS}) VALUES (?{', ?' * len(_SNAPSHOT)}, ?)"  # noqa: S608
FLOOR = """
SELECT coalesce(max(id), 0) FROM snapshots WHERE table_id = :table AND files_path NOT NULL AND id <=
  (SELECT min(id) FROM snapshots WHERE table_id = :table AND NOT expired)
"""
"""The snapshot whose full metadata every retained one can be read through."""

GARBAGE_IF_UNNAMED = """
INSERT OR IGNORE INTO garbage (table_id, path, since) SELECT :table, :path, :now WHERE
  NOT EXISTS (SELECT 1 FROM snapshots WHERE table_id = :table AND :path IN (files_path, partitions_path)) AND
  NOT EXISTS (SELECT 1 FROM savepoints WHERE table_id = :table AND :path IN (files_path, partitions_path, log_path))
"""


def upgrade(run: sqlite3.Connection) -> None:
    """Bring a catalog of any older format, or an empty one, to `FORMAT_VERSION`; another may have done so meanwhile."""
    (version,) = run.execute("PRAGMA user_version").fetchone()
    for statement in filter(str.strip, TABLES.split(";")):
        run.execute(statement)
    if version == 1:
        run.execute("ALTER TABLE snapshots ADD COLUMN job_id TEXT")
    if version in {1, 2}:
        run.execute("ALTER TABLE savepoints ADD COLUMN saves INTEGER")
        run.execute("UPDATE savepoints SET saves = json_extract(body, '$.savedSnapshotId')")
    if version in {1, 2, 3, 4}:
        run.execute("ALTER TABLE savepoints ADD COLUMN log_path TEXT")
    if version in {1, 2, 3, 4, 5}:
        for name in ("references", "added_references", "removed_references", "leaves"):
            run.execute(f'ALTER TABLE snapshots ADD COLUMN "{name}" INTEGER')
        run.execute("ALTER TABLE tables ADD COLUMN properties_checksum TEXT")
        for name in ("files_checksum", "partitions_checksum", "schema_checksum", "processing"):
            run.execute(f"ALTER TABLE snapshots ADD COLUMN {name} TEXT")
    if version in {1, 2, 3, 4, 5, 6}:
        for name in ("snapshots", "savepoints"):
            run.execute(f"ALTER TABLE {name} ADD COLUMN checksum TEXT")
    run.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def forget_rows(run: sqlite3.Connection, table_id: str) -> None:
    """Forget everything of a table but its entry in the index."""
    for name in _OF_A_TABLE:
        run.execute(f"DELETE FROM {name} WHERE table_id = ?", (table_id,))  # noqa: S608 - our own names


def snapshot_row(table_id: str, snapshot: Snapshot) -> tuple[Any, ...]:
    """Return the values of `INSERT_SNAPSHOT`."""
    values = ((name, getattr(snapshot, name)) for name in _SNAPSHOT)
    row = (to_micros(value) if name == "time" else value for name, value in values)
    return (table_id, *row, snapshot_checksum(table_id, snapshot))


def read_snapshot_row(table_id: str, catalog: str, row: Sequence[Any]) -> SnapshotRow:
    """Return a row of `SELECT_SNAPSHOT`."""
    *values, checksum = row
    return SnapshotRow(table_id, catalog, dict(zip(_SNAPSHOT, values, strict=True)), checksum)


@dataclass(frozen=True, slots=True)
class CurrentRow:
    """A row of `SELECT_CURRENT`: which snapshot a table's row names, which is the newest, and the row of the first."""

    table_id: str
    current: int
    commit_id: str
    newest: int | None
    snapshot: SnapshotRow

    @classmethod
    def of(cls, catalog: str, row: Sequence[Any]) -> CurrentRow:
        """Return what a row holds."""
        table_id, current, commit_id, newest, *snapshot = row
        return cls(table_id, current, commit_id, newest, read_snapshot_row(table_id, catalog, snapshot))

    @property
    def agrees(self) -> bool:
        """Whether the newest snapshot is the current one, as each commit leaves it."""
        return self.newest == self.current and self.snapshot.values["commit_id"] == self.commit_id

    def checked(self) -> Snapshot:
        """Return the current snapshot; `CatalogDamaged` when the catalog disagrees with itself."""
        if not self.agrees:
            said = f"snapshot {self.current} of commit {self.commit_id} is current, the newest is {self.newest}"
            message = f"{self.snapshot.catalog} disagrees with itself on table {self.table_id}: {said}"
            raise CatalogDamaged(
                message, hint=("nothing was changed; ", CHECK, " shows what is damaged; restore a copy")
            )
        return self.snapshot.checked()


def to_entry(row: tuple[Any, ...]) -> TableEntry:
    """Return what a row of `SELECT_ENTRY` holds."""
    table_id, name, online, checksum = row
    return TableEntry(table_id, name, bool(online), checksum)


def collect(run: sqlite3.Connection, table_id: str, paths: Collection[str], now: datetime) -> None:
    """Note metadata files as garbage, but for those that a snapshot or a savepoint names."""
    for path in paths:
        run.execute(GARBAGE_IF_UNNAMED, {"table": table_id, "path": path, "now": to_micros(now)})


# Savepoints in the SQLite catalog, each step within a transaction: ids and names that are never given again.

_REPEATED = ("id", "name", "files_path", "partitions_path", "saves", "log_path")
SELECT_SAVEPOINTS = f"""
SELECT body, checksum, {", ".join(_REPEATED)} FROM savepoints WHERE table_id = ? AND body NOT NULL ORDER BY id
"""  # noqa: S608 - our own column names
SELECT_UNUSED = "SELECT id FROM savepoints WHERE table_id = ? AND body IS NULL"


def read_row(table_id: str, catalog: str, row: Sequence[Any]) -> SavepointRow:
    """Return a row of `SELECT`."""
    body, checksum, *repeated = row
    return SavepointRow(table_id, catalog, repeated[0], body, checksum, dict(zip(_REPEATED, repeated, strict=True)))


def reserve_savepoint(run: sqlite3.Connection, table_id: str) -> int:
    """Return the next id."""
    (last,) = run.execute("SELECT max(id) FROM savepoints WHERE table_id = ?", (table_id,)).fetchone()
    run.execute("INSERT INTO savepoints (table_id, id) VALUES (?, ?)", (table_id, (last or 0) + 1))
    return int(last or 0) + 1


def add_savepoint(run: sqlite3.Connection, table_id: str, savepoint: Savepoint, beside: int | None = None) -> None:
    """Add a savepoint on the condition that its snapshot is retained, or another savepoint of it, and its name new."""
    if beside is not None:
        kept = "SELECT 1 FROM savepoints WHERE table_id = ? AND id = ? AND saves = ? AND body NOT NULL"
        if not run.execute(kept, (table_id, beside, savepoint.saved_snapshot_id)).fetchone():
            raise deleted_meanwhile(beside)
    elif not run.execute(
        "SELECT 1 FROM snapshots WHERE table_id = ? AND id = ? AND NOT expired",
        (table_id, savepoint.saved_snapshot_id),
    ).fetchone():
        raise NotFound(
            f"snapshot {savepoint.saved_snapshot_id} has expired, so it cannot be saved",
            hint=SAVE_RETAINED,
        )
    if (
        savepoint.log is not None
        and not run.execute(
            "SELECT 1 FROM snapshots WHERE table_id = ? AND id = ? AND files_path = ? AND NOT expired",
            (table_id, savepoint.log.after, savepoint.full_manifest_list),
        ).fetchone()
    ):
        raise lost_checkpoint(savepoint.log.after)
    if run.execute("SELECT 1 FROM savepoints WHERE table_id = ? AND name = ?", (table_id, savepoint.name)).fetchone():
        raise AlreadyExists(
            f"the savepoint name {savepoint.name!r} was used before",
            hint="choose another; the name of a deleted savepoint is never given again",
        )
    body = savepoint.to_json()
    run.execute(
        "UPDATE savepoints SET name = :name, files_path = :files_path, partitions_path = :partitions_path, "
        "body = :body, saves = :saves, log_path = :log_path, checksum = :checksum WHERE table_id = :table AND id = :id",
        {
            **savepoint_columns(savepoint),
            "body": body,
            "checksum": savepoint_checksum(table_id, body),
            "table": table_id,
        },
    )


def delete_savepoint(run: sqlite3.Connection, table_id: str, savepoint_id: int, now: datetime) -> None:
    """Forget a savepoint but for its id and name; metadata files that nothing else names become garbage."""
    paths = run.execute(
        "SELECT files_path, partitions_path, log_path FROM savepoints "
        "WHERE table_id = ? AND id = ? AND body IS NOT NULL",
        (table_id, savepoint_id),
    ).fetchone()
    run.execute(
        "UPDATE savepoints SET files_path = NULL, partitions_path = NULL, log_path = NULL, body = NULL, "
        "checksum = NULL WHERE table_id = ? AND id = ?",
        (table_id, savepoint_id),
    )
    collect(run, table_id, list(filter(None, paths or ())), now)


# Room on disk that the embedded catalog keeps in reserve, so that a full disk can still be cleaned up.
#
# To forget a snapshot or a table is to write, and a full disk has no room for that. A file that holds nothing takes the
# room beforehand. Only work that frees space gives it up, a part at a time, and takes it again from what it has freed.

LEAST, MOST = 256 << 10, 4 << 20
"""Bytes in reserve: as many as the catalog has, as one transaction can rewrite all of it, within these bounds."""
PART = 64 << 10
"""Given up at a time, at least; it is enough to open a catalog, which needs 32 KiB."""


class Reserve:
    """A file beside the catalog that takes up room. Without it, all works as before until the disk is full.

    Parameters
    ----------
    catalog
        The file of the catalog.
    """

    def __init__(self, catalog: Path) -> None:
        self._catalog, self._path = catalog, catalog.with_name(f"{catalog.name}-reserve")

    def keep(self) -> None:
        """Take the room, or what is missing of it; of little free space not more than half."""
        with contextlib.suppress(OSError):  # a folder to read in only, or a disk that has filled up meanwhile
            held = self._path.stat().st_size if self._path.exists() else 0
            missing = min(max(self._catalog.stat().st_size, LEAST), MOST) - held
            size = held + min(missing, self.free() // 2)
            if size <= held:
                return
            with self._path.open("ab") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), held, size - held)
                else:  # not Linux
                    file.write(bytes(size - held))

    def give_up(self) -> bool:
        """Give up a part of the room; return False when nothing is left of it."""
        try:
            held = self._path.stat().st_size
            os.truncate(self._path, max(0, held - max(PART, held // 4)))
        except OSError:
            return False
        return held > 0

    def free(self) -> int:
        """Return how many bytes of the disk are free."""
        return shutil.disk_usage(self._catalog.parent).free


# The file of the SQLite catalog: opened, brought to this release's format, and changed by whole transactions.
#
# Writers take SQLite's write lock at the start of a transaction (BEGIN IMMEDIATE), so a condition that was read cannot
# change before what depends on it is written. WAL mode lets readers go on meanwhile; `synchronous=FULL` makes an
# acknowledged commit survive a power cut.

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
                logger.warning("the disk is full: opening the catalog %s with its reserve", self._path)
                self._prepare()
            self.identity = self._number()  # no other file has it as long as this one is open
            self._reserve.keep()
        except BaseException:
            self._connection.close()
            raise
        logger.debug("opened the catalog %s", self._path)

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
                logger.info("the catalog %s has format %d now, before: %d", self._path, FORMAT_VERSION, version)
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
            logger.warning("the disk is full: the catalog %s gives up its reserve (%s)", self._path, given)
            with contextlib.suppress(sqlite3.Error):  # a reader is in the way, or there is still too little room
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return given

    def _check_there(self) -> None:
        now = self._number()
        if self.identity not in {None, now}:
            raise StorageError(
                f"the catalog of {self._path.parent} was {'replaced' if now else 'deleted'} since it was opened",
                hint=("nothing was changed; open it again: ", self._reopening),
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


class SqliteCatalog(Catalog):
    """A catalog in one file.

    Parameters
    ----------
    path
        The file; it is made when it is not there, as is its folder.
    sync
        Whether a change waits until the disk has it. If not, a power cut can cost the last ones, never the file.
    """

    limits = CommitLimits(snapshots=1000, entry_bytes=8 << 20)

    def __init__(self, path: Path, *, sync: bool = True) -> None:
        self._file = SqliteFile(path, sync=sync)
        self._turns = Turns(path.with_name(f"{path.name}-turns"))

    def create_table(self, entry: TableEntry, first: Snapshot) -> None:
        with self._file.transaction() as run:
            if run.execute(TAKEN, {"name": entry.name, "id": entry.id}).fetchone():
                raise AlreadyExists(f"table {entry.name!r} is there already", hint="choose another name")
            run.execute(
                "INSERT INTO tables VALUES (?, ?, ?, ?, ?, ?)",
                (entry.id, entry.name, entry.online, first.id, first.commit_id, entry.properties_checksum),
            )
            run.execute(INSERT_SNAPSHOT, snapshot_row(entry.id, first))

    def rename_table(self, table_id: str, old: str, new: str) -> None:
        with self._file.transaction() as run:
            if run.execute(
                "SELECT 1 FROM tables WHERE casefold(name) = casefold(?) AND id != ?", (new, table_id)
            ).fetchone():
                raise AlreadyExists(f"table {new!r} is there already", hint="choose another name")
            if not run.execute("UPDATE tables SET name = ? WHERE id = ? AND name = ?", (new, table_id, old)).rowcount:
                raise NotFound(f"no table {old!r}", hint="it was renamed or deleted meanwhile")

    def delete_table(self, table_id: str, name: str) -> None:
        with self._file.transaction() as run:
            if not run.execute("DELETE FROM tables WHERE id = ? AND name = ?", (table_id, name)).rowcount:
                raise NotFound(f"no table {name!r}", hint="it was renamed or deleted meanwhile")
            forget_rows(run, table_id)
            run.execute("INSERT OR IGNORE INTO deleted VALUES (?)", (table_id,))

    def deleted(self) -> tuple[str, ...]:
        return tuple(table_id for (table_id,) in self._file.rows("SELECT id FROM deleted ORDER BY id"))

    def forget_deleted(self, table_id: str) -> None:
        with self._file.transaction() as run:
            if run.execute("DELETE FROM deleted WHERE id = ?", (table_id,)).rowcount:
                forget_rows(run, table_id)  # what those wrote who had not heard of it

    def set_online(self, table_id: str, online: bool) -> None:
        with self._file.transaction() as run:
            if not run.execute("UPDATE tables SET online = ? WHERE id = ?", (online, table_id)).rowcount:
                raise _gone(table_id)

    def note_properties(self, table_id: str, checksum: str) -> None:
        with self._file.transaction() as run:
            change = "UPDATE tables SET properties_checksum = ? WHERE id = ?"
            if not run.execute(change, (checksum, table_id)).rowcount:
                raise _gone(table_id)

    def tables(self) -> tuple[TableEntry, ...]:
        return self._file.read(to_entry, f"{SELECT_ENTRY} ORDER BY name")

    def find_table(self, name: str) -> TableEntry | None:
        # By the index on names first: only a name in another case, or none of a table's, has all of them looked at.
        read = self._file.read
        found = read(to_entry, SELECT_NAMED, (name,)) or read(to_entry, SELECT_NAMED_LIKE, (name,))
        return next(iter(found), None)

    def entry(self, table_id: str) -> TableEntry | None:
        return next(iter(self._file.read(to_entry, f"{SELECT_ENTRY} WHERE id = ?", (table_id,))), None)

    def current(self, table_id: str) -> Snapshot:
        rows = self._file.rows(SELECT_CURRENT, (table_id,))
        if not rows:
            raise _gone(table_id)
        return CurrentRow.of(self._file.name, rows[0]).checked()

    def current_of_all(self) -> dict[str, Snapshot]:
        found = (CurrentRow.of(self._file.name, row) for row in self._file.rows(SELECT_CURRENT_OF_ALL))
        return {row.table_id: row.checked() for row in found if row.agrees}

    def _snapshot(self, table_id: str, *row: Any) -> Snapshot:
        return read_snapshot_row(table_id, self._file.name, row).checked()

    def audit(self, table_id: str) -> CatalogRows:
        name = self._file.name
        heads = self._file.rows(SELECT_HEAD, (table_id,))
        if not heads:
            raise _gone(table_id)
        snapshots = self._file.rows(f"{SELECT_SNAPSHOT}{RETAINED} ORDER BY id DESC", (table_id,))
        savepoints = self._file.rows(SELECT_SAVEPOINTS, (table_id,))
        return CatalogRows.of(
            heads[0],
            (read_snapshot_row(table_id, name, row) for row in snapshots),
            (read_row(table_id, name, row) for row in savepoints),
            (row_id for (row_id,) in self._file.rows(SELECT_UNUSED, (table_id,))),
        )

    def commit(self, table_id: str, expected: Snapshot, *new: Snapshot, log: Sequence[bytes] = ()) -> bool:
        ids = ids_of(table_id, new)
        with self._file.transaction() as run:
            won = (
                are_new(run, ids)
                and run.execute(
                    "UPDATE tables SET current_snapshot = ?, current_commit = ? WHERE id = ? AND current_commit = ?",
                    (new[-1].id, new[-1].commit_id, table_id, expected.commit_id),
                ).rowcount
            )
            if won:
                run.executemany(INSERT_SNAPSHOT, [snapshot_row(table_id, snapshot) for snapshot in new])
                entries = zip(new, log, strict=True) if log else ()
                run.executemany("INSERT INTO log VALUES (?, ?, ?)", [(table_id, s.id, entry) for s, entry in entries])
                run.executemany("INSERT INTO job_ids VALUES (?, ?, ?)", ids)
            return bool(won)

    def turn(self, table_id: str, clock: Clock) -> AbstractContextManager[None]:
        return self._turns.turn(table_id, clock)

    def log(self, table_id: str, after: int, until: int) -> tuple[bytes, ...]:
        rows = self._file.rows(
            "SELECT entry FROM log WHERE table_id = ? AND id > ? AND id <= ? ORDER BY id", (table_id, after, until)
        )
        if len(rows) != max(0, until - after):
            raise NotFound(f"the transaction log was cut behind snapshot {after}", hint="read a retained snapshot")
        return tuple(entry for (entry,) in rows)

    def whole_log(self, table_id: str) -> dict[int, bytes]:
        return dict(self._file.rows("SELECT id, entry FROM log WHERE table_id = ? ORDER BY id", (table_id,)))

    def checkpoint(self, table_id: str, at: int) -> Snapshot:
        rows = self._file.rows(
            f"{SELECT_SNAPSHOT} AND id <= ? AND files_path NOT NULL ORDER BY id DESC LIMIT 1", (table_id, at)
        )
        if not rows:
            raise NotFound(f"no metadata of snapshot {at} is left", hint="it has expired; read a retained snapshot")
        return self._snapshot(table_id, *rows[0])

    def materialise(self, table_id: str, snapshot: Snapshot) -> bool:
        with self._file.transaction() as run:
            changed = run.execute(
                "UPDATE snapshots SET files_path = ?, partitions_path = ?, files_checksum = ?, "
                "partitions_checksum = ?, checksum = ? "
                "WHERE table_id = ? AND id = ? AND files_path IS NULL AND NOT expired",
                (
                    *(snapshot.files_path, snapshot.partitions_path),
                    *(snapshot.files_checksum, snapshot.partitions_checksum),
                    *(snapshot_checksum(table_id, snapshot), table_id, snapshot.id),
                ),
            ).rowcount
            return bool(changed)

    def has_commit(self, table_id: str, commit_id: str) -> bool:
        return bool(
            self._file.rows("SELECT 1 FROM snapshots WHERE table_id = ? AND commit_id = ?", (table_id, commit_id))
        )

    def snapshots(self, table_id: str) -> tuple[Snapshot, ...]:
        rows = self._file.rows(f"{SELECT_SNAPSHOT}{RETAINED} ORDER BY id DESC", (table_id,))
        return tuple(self._snapshot(table_id, *row) for row in rows)

    def expire_snapshots(self, table_id: str, ids: Collection[int], now: datetime) -> None:
        with self._file.transaction() as run:
            run.executemany(
                "UPDATE snapshots SET expired = 1 WHERE table_id = :table AND id = :id AND id != "
                "(SELECT current_snapshot FROM tables WHERE id = :table)",
                [{"table": table_id, "id": snapshot_id} for snapshot_id in ids],
            )
            (floor,) = run.execute(FLOOR, {"table": table_id}).fetchone()
            # what lies above the floor has no metadata of its own, or some that a later one may be read through
            gone = run.execute(
                "DELETE FROM snapshots WHERE table_id = ? AND expired AND (id < ? OR files_path IS NULL) "
                "RETURNING files_path, partitions_path",
                (table_id, floor),
            ).fetchall()
            run.execute("DELETE FROM log WHERE table_id = ? AND id <= ?", (table_id, floor))
            collect(run, table_id, {path for paths in gone for path in paths if path}, now)

    def snapshot(self, table_id: str, snapshot_id: int) -> Snapshot | None:
        if abs(snapshot_id) >= 2**63:  # what anybody may type, and no number of SQLite's
            return None
        rows = self._file.rows(f"{SELECT_SNAPSHOT}{RETAINED} AND id = ?", (table_id, snapshot_id))
        return self._snapshot(table_id, *rows[0]) if rows else None

    def snapshot_as_of(self, table_id: str, moment: datetime) -> Snapshot | None:
        rows = self._file.rows(f"{SELECT_SNAPSHOT}{AS_OF}", (table_id, to_micros(moment)))
        return self._snapshot(table_id, *rows[0]) if rows else None

    def savepoints(self, table_id: str) -> tuple[Savepoint, ...]:
        rows = self._file.rows(SELECT_SAVEPOINTS, (table_id,))
        return tuple(read_row(table_id, self._file.name, row).checked() for row in rows)

    def reserve_savepoint_id(self, table_id: str) -> int:
        with self._file.transaction() as run:
            return reserve_savepoint(run, table_id)

    def is_savepoint_name_used(self, table_id: str, name: str) -> bool:
        return bool(self._file.rows("SELECT 1 FROM savepoints WHERE table_id = ? AND name = ?", (table_id, name)))

    def add_savepoint(self, table_id: str, savepoint: Savepoint, beside: int | None = None) -> None:
        with self._file.transaction() as run:
            add_savepoint(run, table_id, savepoint, beside)

    def delete_savepoint(self, table_id: str, savepoint_id: int, now: datetime) -> None:
        with self._file.transaction() as run:
            delete_savepoint(run, table_id, savepoint_id, now)

    def garbage(self, table_id: str) -> tuple[tuple[str, datetime], ...]:
        query = "SELECT path, since FROM garbage WHERE table_id = ? ORDER BY path"
        return self._file.read(lambda row: (row[0], from_micros(row[1])), query, (table_id,))

    def add_garbage(self, table_id: str, paths: Collection[str], now: datetime) -> None:
        with self._file.transaction() as run:
            rows = [(table_id, path, to_micros(now)) for path in paths]
            run.executemany("INSERT OR IGNORE INTO garbage VALUES (?, ?, ?)", rows)

    def forget_garbage(self, table_id: str, paths: Collection[str]) -> None:
        with self._file.transaction() as run:
            run.executemany("DELETE FROM garbage WHERE table_id = ? AND path = ?", [(table_id, path) for path in paths])

    def add_lease(self, table_id: str, lease: Lease) -> None:
        with self._file.transaction() as run:
            add_lease(run, table_id, lease)

    def leases(self, table_id: str) -> tuple[Lease, ...]:
        return self._file.read(to_lease, SELECT_LEASES, (table_id,))

    def renew_lease(self, table_id: str, lease: Lease, until: datetime) -> bool:
        with self._file.transaction() as run:
            return renew_lease(run, table_id, lease, until)

    def release_lease(self, table_id: str, lease: Lease) -> bool:
        with self._file.transaction() as run:
            return release_lease(run, table_id, lease)

    def assign(self, table_id: str, assignment: Assignment, now: datetime, job: Job | None = None) -> bool:
        with self._file.transaction() as run:
            return claim_files(run, table_id, assignment, now, job)

    def assignments(self, table_id: str, now: datetime) -> tuple[Assignment, ...]:
        return self._file.read(to_claim, SELECT_CLAIMS, (table_id, to_micros(now)))

    def release(self, table_id: str, job_id: str) -> None:
        with self._file.transaction() as run:
            run.execute("DELETE FROM assignments WHERE table_id = ? AND job_id = ?", (table_id, job_id))

    def put_job(self, table_id: str, job: Job) -> None:
        with self._file.transaction() as run:
            put_job(run, table_id, job)

    def jobs(self, table_id: str, limit: int) -> tuple[Job, ...]:
        return self._file.read(to_job, SELECT_JOBS, (table_id, limit))

    def prune_jobs(self, table_id: str, before: datetime, keep: int) -> None:
        with self._file.transaction() as run:
            prune_jobs(run, table_id, before, keep)

    def snapshot_of_job(self, table_id: str, job_id: str) -> int | None:
        rows = self._file.rows("SELECT snapshot_id FROM job_ids WHERE table_id = ? AND job_id = ?", (table_id, job_id))
        return rows[0][0] if rows else None

    def file_faults(self) -> tuple[str, ...]:
        found = (text for (text,) in self._file.rows("PRAGMA integrity_check(5)"))
        return tuple(f"{self._file.name}: {text}" for text in found if text != "ok")

    def keep_room(self) -> None:
        self._file.keep_room()

    def give_up_room(self) -> bool:
        return self._file.give_up_room()

    @property
    def identity(self) -> object:
        return self._file.identity

    def close(self) -> None:
        self._file.close()
        self._turns.close()


def _gone(table_id: str) -> NotFound:
    return NotFound(f"no table with id {table_id!r}", hint="it was deleted meanwhile")
