"""The embedded catalog: one SQLite file in the warehouse, shared by every process on the machine.

This module has, in order: the tables of the file and their upgrades, the queries and conversions of their rows, and
`SqliteCatalog`, each of whose methods is one transaction. `sqlite_file` opens the file and runs transactions.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from sleeper_nb.catalog.catalog_base import (
    Catalog,
    CommitLimits,
    FileClaim,
    PropertiesNote,
    TableEntry,
    checkpoint_expired,
    log_was_cut,
    no_checkpoint,
    savepoint_deleted,
    savepoint_name_used,
    snapshot_not_kept,
    snapshot_not_saved,
    table_exists,
    unknown_table,
    unknown_table_id,
)
from sleeper_nb.catalog.checked_rows import (
    CatalogRows,
    SavepointRow,
    SnapshotRow,
    row_of,
    savepoint_checksum,
    savepoint_columns,
    snapshot_checksum,
    value_of,
)
from sleeper_nb.catalog.sqlite_file import CommitLocks, SqliteFile
from sleeper_nb.clock import Clock
from sleeper_nb.errors import CHECK, CatalogDamaged
from sleeper_nb.model.jobs import Job, Lease, ServiceLease
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot, from_micros, to_micros

logger = logging.getLogger(__name__)

# The tables of the file. Times are microseconds since 1970, UTC.

FORMAT_VERSION = 10
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
  leaves INTEGER, inserted_rows INTEGER, updated_rows INTEGER, deleted_rows INTEGER, expectations TEXT,
  checksum TEXT, PRIMARY KEY (table_id, id)) STRICT;
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
CREATE TABLE IF NOT EXISTS services (
  service TEXT PRIMARY KEY, owner TEXT NOT NULL, holder TEXT NOT NULL, since INTEGER NOT NULL,
  until INTEGER NOT NULL) STRICT;
"""
_TABLE_NAMES = frozenset(re.findall(r"EXISTS (\w+)", TABLES))
_OF_A_TABLE = ("snapshots", "log", "savepoints", "leases", "garbage", "assignments", "jobs", "job_ids")


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
    if version in {1, 2, 3, 4, 5, 6, 7}:
        for name in ("inserted_rows", "updated_rows", "deleted_rows"):
            run.execute(f"ALTER TABLE snapshots ADD COLUMN {name} INTEGER")
    if version in {1, 2, 3, 4, 5, 6, 7, 8}:
        run.execute("ALTER TABLE snapshots ADD COLUMN expectations TEXT")
    run.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def _delete_rows(run: sqlite3.Connection, table_id: str) -> None:
    for name in _OF_A_TABLE:
        run.execute(f"DELETE FROM {name} WHERE table_id = ?", (table_id,))  # noqa: S608 - our own names


# Entries of tables.

_TAKEN = """
SELECT 1 FROM tables WHERE casefold(name) = casefold(:name) OR id = :id
UNION ALL SELECT 1 FROM deleted WHERE id = :id
"""
"""A row when a name or an id is taken; `casefold` is Python's."""
_SELECT_ENTRY = "SELECT id, name, online, properties_checksum FROM tables"
_SELECT_NAMED = f"{_SELECT_ENTRY} WHERE name = ?"
_SELECT_NAMED_LIKE = f"{_SELECT_ENTRY} WHERE casefold(name) = casefold(?)"


def _to_entry(row: tuple[Any, ...]) -> TableEntry:
    table_id, name, online, checksum = row
    return TableEntry(table_id, name, bool(online), checksum)


# Snapshots.

_SNAPSHOT = tuple(field.name for field in fields(Snapshot))
_COLUMNS = ", ".join(f'"{name}"' for name in (*_SNAPSHOT, "checksum"))
_SELECT_SNAPSHOT = f"SELECT {_COLUMNS} FROM snapshots WHERE table_id = ?"  # noqa: S608 - our own column names
_RETAINED = " AND NOT expired"
_AS_OF = f"{_RETAINED} AND time <= ? ORDER BY id DESC LIMIT 1"
_SELECT_CURRENT_OF_ALL = f"""
SELECT tables.id, tables.current_snapshot, tables.current_commit,
  (SELECT max(id) FROM snapshots WHERE table_id = tables.id),
  {", ".join(f'snapshots."{name}"' for name in (*_SNAPSHOT, "checksum"))}
FROM tables LEFT JOIN snapshots ON snapshots.table_id = tables.id AND snapshots.id = tables.current_snapshot
"""  # noqa: S608 - our own column names
_SELECT_CURRENT = f"{_SELECT_CURRENT_OF_ALL} WHERE tables.id = ?"
_SELECT_HEAD = "SELECT current_snapshot, current_commit FROM tables WHERE id = ?"
_INSERT_SNAPSHOT = f"INSERT INTO snapshots (table_id, {_COLUMNS}) VALUES (?{', ?' * len(_SNAPSHOT)}, ?)"  # noqa: S608
_FLOOR = """
SELECT coalesce(max(id), 0) FROM snapshots WHERE table_id = :table AND files_path NOT NULL AND id <=
  (SELECT min(id) FROM snapshots WHERE table_id = :table AND NOT expired)
"""
"""The newest snapshot from whose full metadata every retained one can be read."""


def _from_snapshot(table_id: str, snapshot: Snapshot) -> tuple[Any, ...]:
    return (table_id, *row_of(snapshot).values(), snapshot_checksum(table_id, snapshot))


def _to_snapshot_row(table_id: str, catalog: str, row: Sequence[Any]) -> SnapshotRow:
    *values, checksum = row
    return SnapshotRow(table_id, catalog, dict(zip(_SNAPSHOT, values, strict=True)), checksum)


@dataclass(frozen=True, slots=True)
class _CurrentRow:
    """A row of `_SELECT_CURRENT`: the snapshot that the table names as current, its row, and the newest one's id."""

    table_id: str
    current: int
    commit_id: str
    newest: int | None
    snapshot: SnapshotRow

    @classmethod
    def of(cls, catalog: str, row: Sequence[Any]) -> _CurrentRow:
        table_id, current, commit_id, newest, *snapshot = row
        return cls(table_id, current, commit_id, newest, _to_snapshot_row(table_id, catalog, snapshot))

    @property
    def agrees(self) -> bool:
        """Whether the newest snapshot is the current one, as each commit leaves it."""
        return self.newest == self.current and self.snapshot.values["commit_id"] == self.commit_id

    def checked(self) -> Snapshot:
        if not self.agrees:
            why = f"snapshot {self.current} of commit {self.commit_id} is current, the newest is {self.newest}"
            message = f"{self.snapshot.catalog} contradicts itself about table {self.table_id}: {why}"
            raise CatalogDamaged(
                message, hint=("nothing was changed; ", CHECK, " shows what is damaged; restore a copy")
            )
        return self.snapshot.checked()


# Metadata files that nothing names any more.

_GARBAGE_IF_UNNAMED = """
INSERT OR IGNORE INTO garbage (table_id, path, since) SELECT :table, :path, :now WHERE
  NOT EXISTS (SELECT 1 FROM snapshots WHERE table_id = :table AND :path IN (files_path, partitions_path)) AND
  NOT EXISTS (SELECT 1 FROM savepoints WHERE table_id = :table AND :path IN (files_path, partitions_path, log_path))
"""


def _add_unnamed_to_garbage(run: sqlite3.Connection, table_id: str, paths: Collection[str], now: datetime) -> None:
    for path in paths:
        run.execute(_GARBAGE_IF_UNNAMED, {"table": table_id, "path": path, "now": to_micros(now)})


# Savepoints: the row of a deleted one keeps its id and name, which are never used again.

_REPEATED = ("id", "name", "files_path", "partitions_path", "saves", "log_path")
_SELECT_SAVEPOINTS = f"""
SELECT body, checksum, {", ".join(_REPEATED)} FROM savepoints WHERE table_id = ? AND body NOT NULL ORDER BY id
"""  # noqa: S608 - our own column names
_SELECT_UNUSED = "SELECT id FROM savepoints WHERE table_id = ? AND body IS NULL"


def _to_savepoint_row(table_id: str, catalog: str, row: Sequence[Any]) -> SavepointRow:
    body, checksum, *repeated = row
    return SavepointRow(table_id, catalog, repeated[0], body, checksum, dict(zip(_REPEATED, repeated, strict=True)))


def _check_keeps_version(run: sqlite3.Connection, table_id: str, savepoint: Savepoint, extra_of: int | None) -> None:
    """Raise unless the version that a savepoint is to keep is retained, or kept by the savepoint `extra_of`."""
    saved = savepoint.saved_snapshot_id
    if extra_of is not None:
        kept = "SELECT 1 FROM savepoints WHERE table_id = ? AND id = ? AND saves = ? AND body NOT NULL"
        if not run.execute(kept, (table_id, extra_of, saved)).fetchone():
            raise savepoint_deleted(extra_of)
    else:
        retained = "SELECT 1 FROM snapshots WHERE table_id = ? AND id = ? AND NOT expired"
        if not run.execute(retained, (table_id, saved)).fetchone():
            raise snapshot_not_saved(saved)
    if savepoint.log is not None:
        start = "SELECT 1 FROM snapshots WHERE table_id = ? AND id = ? AND files_path = ? AND NOT expired"
        if not run.execute(start, (table_id, savepoint.log.after, savepoint.full_manifest_list)).fetchone():
            raise checkpoint_expired(savepoint.log.after)


# Leases of readers.

_LEASE = tuple(field.name for field in fields(Lease))
_SELECT_LEASES = f"SELECT {', '.join(_LEASE)} FROM leases WHERE table_id = ? ORDER BY since, id"  # noqa: S608 - our own names
_IS_KEPT = """
SELECT EXISTS (SELECT 1 FROM snapshots WHERE table_id = :table AND id = :id AND NOT expired)
  OR EXISTS (SELECT 1 FROM savepoints WHERE table_id = :table AND saves = :id AND body NOT NULL)
  OR EXISTS (SELECT 1 FROM leases WHERE table_id = :table AND snapshot_id = :id)
"""
_INSERT_LEASE = f"INSERT INTO leases (table_id, {', '.join(_LEASE)}) VALUES (?{', ?' * len(_LEASE)})"  # noqa: S608


def _to_lease(row: tuple[Any, ...]) -> Lease:
    return value_of(Lease, dict(zip(_LEASE, row, strict=True)))


# Leases of services.

_SERVICE = tuple(field.name for field in fields(ServiceLease))
_SELECT_SERVICE = f"SELECT {', '.join(_SERVICE)} FROM services WHERE service = ?"  # noqa: S608 - our own names
_TAKE_SERVICE = f"""
INSERT INTO services ({", ".join(_SERVICE)}) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (service) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _SERVICE)}
WHERE services.owner = ? OR services.until <= ?
"""  # noqa: S608 - our own names


def _to_service(row: tuple[Any, ...]) -> ServiceLease:
    return value_of(ServiceLease, dict(zip(_SERVICE, row, strict=True)))


# Claims of compaction jobs on files, records of runs of jobs of every kind, and the ids of jobs.

_JOB = tuple(field.name for field in fields(Job))
_SELECT_JOBS = f"SELECT {', '.join(_JOB)} FROM jobs WHERE table_id = ? ORDER BY created DESC, id DESC LIMIT ?"  # noqa: S608
_PUT_JOB = f"INSERT OR REPLACE INTO jobs (table_id, {', '.join(_JOB)}) VALUES (?{', ?' * len(_JOB)})"  # noqa: S608
_SELECT_CLAIMS = """
SELECT job_id, partition_id, until, json_group_array(filename) FROM assignments
WHERE table_id = ? AND until > ? GROUP BY job_id, partition_id, until ORDER BY job_id
"""
_DELETE_OLD_JOBS = """
DELETE FROM jobs WHERE table_id = :table AND (created < :before OR (created, id) IN
  (SELECT created, id FROM jobs WHERE table_id = :table ORDER BY created DESC, id DESC LIMIT -1 OFFSET :keep))
"""


def _to_claim(row: tuple[Any, ...]) -> FileClaim:
    job, partition, until, names = row
    return FileClaim(job, partition, tuple(json.loads(names)), from_micros(until))


def _to_job(row: tuple[Any, ...]) -> Job:
    values = dict(zip(_JOB, row, strict=True))
    return value_of(Job, {**values, "partition_ids": tuple(json.loads(values["partition_ids"]))})


def _from_job(table_id: str, job: Job) -> tuple[Any, ...]:
    return (table_id, *{**row_of(job), "partition_ids": json.dumps(job.partition_ids)}.values())


def _job_ids(table_id: str, new: Iterable[Snapshot]) -> list[tuple[str, str, int]]:
    return [(table_id, snapshot.job_id, snapshot.id) for snapshot in new if snapshot.job_id is not None]


def _are_unused(run: sqlite3.Connection, ids: Iterable[tuple[str, str, int]]) -> bool:
    used = "SELECT 1 FROM job_ids WHERE table_id = ? AND job_id = ?"
    return not any(run.execute(used, (table_id, job_id)).fetchone() for table_id, job_id, _ in ids)


_MAKE_CURRENT = (
    "UPDATE tables SET current_snapshot = :id, current_commit = :commit, "
    "properties_checksum = coalesce(:text, properties_checksum) "
    "WHERE id = :table AND current_commit = :expected AND (:text IS NULL OR properties_checksum IS :noted)"
)


class SqliteCatalog(Catalog):
    """A catalog in one file. Without `sync`, a power cut can cost the last changes, never the file."""

    limits = CommitLimits(snapshots=1000, entry_bytes=8 << 20)

    def __init__(self, path: Path, *, sync: bool = True) -> None:
        self._file = SqliteFile(path, sync=sync, format_version=FORMAT_VERSION, tables=_TABLE_NAMES, upgrade=upgrade)
        self._locks = CommitLocks(path.with_name(f"{path.name}-turns"))

    def create_table(self, entry: TableEntry, first: Snapshot) -> None:
        with self._file.transaction() as run:
            if run.execute(_TAKEN, {"name": entry.name, "id": entry.id}).fetchone():
                raise table_exists(entry.name)
            run.execute(
                "INSERT INTO tables VALUES (?, ?, ?, ?, ?, ?)",
                (entry.id, entry.name, entry.online, first.id, first.commit_id, entry.properties_checksum),
            )
            run.execute(_INSERT_SNAPSHOT, _from_snapshot(entry.id, first))

    def rename_table(self, table_id: str, old: str, new: str) -> None:
        with self._file.transaction() as run:
            if run.execute(
                "SELECT 1 FROM tables WHERE casefold(name) = casefold(?) AND id != ?", (new, table_id)
            ).fetchone():
                raise table_exists(new)
            if not run.execute("UPDATE tables SET name = ? WHERE id = ? AND name = ?", (new, table_id, old)).rowcount:
                raise unknown_table(old)

    def delete_table(self, table_id: str, name: str) -> None:
        with self._file.transaction() as run:
            if not run.execute("DELETE FROM tables WHERE id = ? AND name = ?", (table_id, name)).rowcount:
                raise unknown_table(name)
            _delete_rows(run, table_id)
            run.execute("INSERT OR IGNORE INTO deleted VALUES (?)", (table_id,))

    def deleted(self) -> tuple[str, ...]:
        return tuple(table_id for (table_id,) in self._file.rows("SELECT id FROM deleted ORDER BY id"))

    def forget_deleted(self, table_id: str) -> None:
        with self._file.transaction() as run:
            if run.execute("DELETE FROM deleted WHERE id = ?", (table_id,)).rowcount:
                _delete_rows(run, table_id)  # rows that other processes wrote before they noticed

    def set_online(self, table_id: str, online: bool) -> None:
        with self._file.transaction() as run:
            if not run.execute("UPDATE tables SET online = ? WHERE id = ?", (online, table_id)).rowcount:
                raise unknown_table_id(table_id)

    def note_properties(self, table_id: str, note: PropertiesNote) -> bool:
        with self._file.transaction() as run:
            change = "UPDATE tables SET properties_checksum = ? WHERE id = ? AND properties_checksum IS ?"
            noted = run.execute(change, (note.text, table_id, note.expected)).rowcount
            if not noted and not run.execute("SELECT 1 FROM tables WHERE id = ?", (table_id,)).fetchone():
                raise unknown_table_id(table_id)
            return bool(noted)

    def tables(self) -> tuple[TableEntry, ...]:
        return self._file.read(_to_entry, f"{_SELECT_ENTRY} ORDER BY name")

    def find_table(self, name: str) -> TableEntry | None:
        # The index on names is tried first: only a name in another case, or an unknown one, scans all tables.
        read = self._file.read
        found = read(_to_entry, _SELECT_NAMED, (name,)) or read(_to_entry, _SELECT_NAMED_LIKE, (name,))
        return next(iter(found), None)

    def entry(self, table_id: str) -> TableEntry | None:
        return next(iter(self._file.read(_to_entry, f"{_SELECT_ENTRY} WHERE id = ?", (table_id,))), None)

    def current(self, table_id: str) -> Snapshot:
        rows = self._file.rows(_SELECT_CURRENT, (table_id,))
        if not rows:
            raise unknown_table_id(table_id)
        return _CurrentRow.of(self._file.name, rows[0]).checked()

    def current_of_all(self) -> dict[str, Snapshot]:
        found = (_CurrentRow.of(self._file.name, row) for row in self._file.rows(_SELECT_CURRENT_OF_ALL))
        return {row.table_id: row.checked() for row in found if row.agrees}

    def _snapshot(self, table_id: str, *row: Any) -> Snapshot:
        return _to_snapshot_row(table_id, self._file.name, row).checked()

    def audit(self, table_id: str) -> CatalogRows:
        name = self._file.name
        heads = self._file.rows(_SELECT_HEAD, (table_id,))
        if not heads:
            raise unknown_table_id(table_id)
        snapshots = self._file.rows(f"{_SELECT_SNAPSHOT}{_RETAINED} ORDER BY id DESC", (table_id,))
        savepoints = self._file.rows(_SELECT_SAVEPOINTS, (table_id,))
        return CatalogRows.of(
            heads[0],
            (_to_snapshot_row(table_id, name, row) for row in snapshots),
            (_to_savepoint_row(table_id, name, row) for row in savepoints),
            (row_id for (row_id,) in self._file.rows(_SELECT_UNUSED, (table_id,))),
        )

    def commit(
        self,
        table_id: str,
        expected: Snapshot,
        *new: Snapshot,
        log: Sequence[bytes] = (),
        properties: PropertiesNote | None = None,
    ) -> bool:
        ids = _job_ids(table_id, new)
        change = {"id": new[-1].id, "commit": new[-1].commit_id, "table": table_id, "expected": expected.commit_id}
        note = {"text": properties and properties.text, "noted": properties and properties.expected}
        with self._file.transaction() as run:
            won = _are_unused(run, ids) and run.execute(_MAKE_CURRENT, {**change, **note}).rowcount
            if won:
                run.executemany(_INSERT_SNAPSHOT, [_from_snapshot(table_id, snapshot) for snapshot in new])
                entries = zip(new, log, strict=True) if log else ()
                run.executemany("INSERT INTO log VALUES (?, ?, ?)", [(table_id, s.id, entry) for s, entry in entries])
                run.executemany("INSERT INTO job_ids VALUES (?, ?, ?)", ids)
            return bool(won)

    def commit_lock(self, table_id: str, clock: Clock) -> AbstractContextManager[None]:
        return self._locks.hold(table_id, clock)

    def log(self, table_id: str, after: int, until: int) -> tuple[bytes, ...]:
        rows = self._file.rows(
            "SELECT entry FROM log WHERE table_id = ? AND id > ? AND id <= ? ORDER BY id", (table_id, after, until)
        )
        if len(rows) != max(0, until - after):
            raise log_was_cut(after)
        return tuple(entry for (entry,) in rows)

    def whole_log(self, table_id: str) -> dict[int, bytes]:
        return dict(self._file.rows("SELECT id, entry FROM log WHERE table_id = ? ORDER BY id", (table_id,)))

    def checkpoint(self, table_id: str, at: int) -> Snapshot:
        rows = self._file.rows(
            f"{_SELECT_SNAPSHOT} AND id <= ? AND files_path NOT NULL ORDER BY id DESC LIMIT 1", (table_id, at)
        )
        if not rows:
            raise no_checkpoint(at)
        return self._snapshot(table_id, *rows[0])

    def materialise(self, table_id: str, snapshot: Snapshot) -> bool:
        with self._file.transaction() as run:
            changed = run.execute(
                "UPDATE snapshots SET files_path = ?, partitions_path = ?, files_checksum = ?, "
                "partitions_checksum = ?, checksum = ? "
                "WHERE table_id = ? AND id = ? AND files_path IS NULL AND NOT expired",
                (
                    snapshot.files_path,
                    snapshot.partitions_path,
                    snapshot.files_checksum,
                    snapshot.partitions_checksum,
                    snapshot_checksum(table_id, snapshot),
                    table_id,
                    snapshot.id,
                ),
            ).rowcount
            return bool(changed)

    def has_commit(self, table_id: str, commit_id: str) -> bool:
        return bool(
            self._file.rows("SELECT 1 FROM snapshots WHERE table_id = ? AND commit_id = ?", (table_id, commit_id))
        )

    def snapshots(self, table_id: str) -> tuple[Snapshot, ...]:
        rows = self._file.rows(f"{_SELECT_SNAPSHOT}{_RETAINED} ORDER BY id DESC", (table_id,))
        return tuple(self._snapshot(table_id, *row) for row in rows)

    def expire_snapshots(self, table_id: str, ids: Collection[int], now: datetime) -> None:
        with self._file.transaction() as run:
            run.executemany(
                "UPDATE snapshots SET expired = 1 WHERE table_id = :table AND id = :id AND id != "
                "(SELECT current_snapshot FROM tables WHERE id = :table)",
                [{"table": table_id, "id": snapshot_id} for snapshot_id in ids],
            )
            (floor,) = run.execute(_FLOOR, {"table": table_id}).fetchone()
            # An expired snapshot above the floor goes only when it has no metadata that a later one is read from.
            gone = run.execute(
                "DELETE FROM snapshots WHERE table_id = ? AND expired AND (id < ? OR files_path IS NULL) "
                "RETURNING files_path, partitions_path",
                (table_id, floor),
            ).fetchall()
            run.execute("DELETE FROM log WHERE table_id = ? AND id <= ?", (table_id, floor))
            _add_unnamed_to_garbage(run, table_id, {path for paths in gone for path in paths if path}, now)

    def snapshot(self, table_id: str, snapshot_id: int) -> Snapshot | None:
        if abs(snapshot_id) >= 2**63:  # a user can type it, but SQLite cannot hold it
            return None
        rows = self._file.rows(f"{_SELECT_SNAPSHOT}{_RETAINED} AND id = ?", (table_id, snapshot_id))
        return self._snapshot(table_id, *rows[0]) if rows else None

    def snapshot_as_of(self, table_id: str, moment: datetime) -> Snapshot | None:
        rows = self._file.rows(f"{_SELECT_SNAPSHOT}{_AS_OF}", (table_id, to_micros(moment)))
        return self._snapshot(table_id, *rows[0]) if rows else None

    def savepoints(self, table_id: str) -> tuple[Savepoint, ...]:
        rows = self._file.rows(_SELECT_SAVEPOINTS, (table_id,))
        return tuple(_to_savepoint_row(table_id, self._file.name, row).checked() for row in rows)

    def reserve_savepoint_id(self, table_id: str) -> int:
        with self._file.transaction() as run:
            (last,) = run.execute("SELECT max(id) FROM savepoints WHERE table_id = ?", (table_id,)).fetchone()
            new = int(last or 0) + 1
            run.execute("INSERT INTO savepoints (table_id, id) VALUES (?, ?)", (table_id, new))
            return new

    def is_savepoint_name_used(self, table_id: str, name: str) -> bool:
        return bool(self._file.rows("SELECT 1 FROM savepoints WHERE table_id = ? AND name = ?", (table_id, name)))

    def add_savepoint(self, table_id: str, savepoint: Savepoint, extra_of: int | None = None) -> None:
        body = savepoint.to_json()
        with self._file.transaction() as run:
            _check_keeps_version(run, table_id, savepoint, extra_of)
            used = "SELECT 1 FROM savepoints WHERE table_id = ? AND name = ?"
            if run.execute(used, (table_id, savepoint.name)).fetchone():
                raise savepoint_name_used(savepoint.name)
            run.execute(
                "UPDATE savepoints SET name = :name, files_path = :files_path, partitions_path = :partitions_path, "
                "body = :body, saves = :saves, log_path = :log_path, checksum = :checksum "
                "WHERE table_id = :table AND id = :id",
                {
                    **savepoint_columns(savepoint),
                    "body": body,
                    "checksum": savepoint_checksum(table_id, body),
                    "table": table_id,
                },
            )

    def delete_savepoint(self, table_id: str, savepoint_id: int, now: datetime) -> None:
        with self._file.transaction() as run:
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
            _add_unnamed_to_garbage(run, table_id, list(filter(None, paths or ())), now)

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
            (kept,) = run.execute(_IS_KEPT, {"table": table_id, "id": lease.snapshot_id}).fetchone()
            if not kept:
                raise snapshot_not_kept(lease.snapshot_id)
            run.execute(_INSERT_LEASE, (table_id, *row_of(lease).values()))
        logger.debug("table %s: lease %s on snapshot %d", table_id, lease.id, lease.snapshot_id)

    def leases(self, table_id: str) -> tuple[Lease, ...]:
        return self._file.read(_to_lease, _SELECT_LEASES, (table_id,))

    def renew_lease(self, table_id: str, lease: Lease, until: datetime) -> bool:
        with self._file.transaction() as run:
            statement = "UPDATE leases SET until = ? WHERE table_id = ? AND id = ? AND until = ?"
            values = to_micros(until), table_id, lease.id, to_micros(lease.until)
            renewed = bool(run.execute(statement, values).rowcount)
        if not renewed:
            logger.warning("table %s: lease %s could not be renewed: it was released or renewed", table_id, lease.id)
        return renewed

    def release_lease(self, table_id: str, lease: Lease) -> bool:
        with self._file.transaction() as run:
            statement = "DELETE FROM leases WHERE table_id = ? AND id = ? AND until = ?"
            return bool(run.execute(statement, (table_id, lease.id, to_micros(lease.until))).rowcount)

    def claim_files(self, table_id: str, claim: FileClaim, now: datetime, job: Job | None = None) -> bool:
        with self._file.transaction() as run:
            run.execute(
                "DELETE FROM assignments WHERE table_id = ? AND (until <= ? OR job_id = ?)",
                (table_id, to_micros(now), claim.job_id),
            )
            rows = [
                (table_id, claim.partition_id, name, claim.job_id, to_micros(claim.until)) for name in claim.filenames
            ]
            claimed = run.executemany("INSERT OR IGNORE INTO assignments VALUES (?, ?, ?, ?, ?)", rows).rowcount
            if claimed != len(rows):
                run.execute("DELETE FROM assignments WHERE table_id = ? AND job_id = ?", (table_id, claim.job_id))
                return False
            if job is not None:
                run.execute(_PUT_JOB, _from_job(table_id, job))
            return True

    def claims(self, table_id: str, now: datetime) -> tuple[FileClaim, ...]:
        return self._file.read(_to_claim, _SELECT_CLAIMS, (table_id, to_micros(now)))

    def release_claim(self, table_id: str, job_id: str) -> None:
        with self._file.transaction() as run:
            run.execute("DELETE FROM assignments WHERE table_id = ? AND job_id = ?", (table_id, job_id))

    def put_job(self, table_id: str, job: Job) -> None:
        with self._file.transaction() as run:
            run.execute(_PUT_JOB, _from_job(table_id, job))

    def jobs(self, table_id: str, limit: int) -> tuple[Job, ...]:
        return self._file.read(_to_job, _SELECT_JOBS, (table_id, limit))

    def prune_jobs(self, table_id: str, before: datetime, keep: int) -> None:
        with self._file.transaction() as run:
            run.execute(_DELETE_OLD_JOBS, {"table": table_id, "before": to_micros(before), "keep": keep})

    def snapshot_of_job(self, table_id: str, job_id: str) -> int | None:
        rows = self._file.rows("SELECT snapshot_id FROM job_ids WHERE table_id = ? AND job_id = ?", (table_id, job_id))
        return rows[0][0] if rows else None

    def job_ids(self, table_id: str) -> tuple[str, ...]:
        rows = self._file.rows("SELECT job_id FROM job_ids WHERE table_id = ? ORDER BY job_id", (table_id,))
        return tuple(job_id for (job_id,) in rows)

    def remember_jobs(self, table_id: str, job_ids: Sequence[str], snapshot_id: int) -> None:
        rows = [(table_id, job_id, snapshot_id) for job_id in job_ids]
        with self._file.transaction() as run:
            run.executemany("INSERT OR IGNORE INTO job_ids VALUES (?, ?, ?)", rows)

    def take_service(self, lease: ServiceLease, now: datetime) -> ServiceLease:
        with self._file.transaction() as run:
            run.execute(_TAKE_SERVICE, (*row_of(lease).values(), lease.owner, to_micros(now)))
            row = run.execute(_SELECT_SERVICE, (lease.service,)).fetchone()
        return _to_service(row)

    def service(self, name: str) -> ServiceLease | None:
        return next(iter(self._file.read(_to_service, _SELECT_SERVICE, (name,))), None)

    def release_service(self, lease: ServiceLease) -> None:
        with self._file.transaction() as run:
            run.execute("DELETE FROM services WHERE service = ? AND owner = ?", (lease.service, lease.owner))

    def file_faults(self) -> tuple[str, ...]:
        found = (text for (text,) in self._file.rows("PRAGMA integrity_check(5)"))
        return tuple(f"{self._file.name}: {text}" for text in found if text != "ok")

    def keep_room(self) -> None:
        self._file.keep_room()

    def give_up_room(self) -> bool:
        return self._file.give_up_room()

    def overwrite_deleted(self) -> bool:
        return self._file.empty_log()

    @property
    def identity(self) -> object:
        return self._file.identity

    def close(self) -> None:
        self._file.close()
        self._locks.close()
