"""The tables of the SQLite catalog: columns, upgrades, and how a snapshot becomes a row and a path garbage."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sleeper_nb.catalog.base import TableEntry
from sleeper_nb.catalog.checked_rows import SnapshotRow, snapshot_checksum
from sleeper_nb.errors import CatalogDamaged
from sleeper_nb.model.snapshots import Snapshot, to_micros

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
            raise CatalogDamaged(message, hint="nothing was changed; check tells what is damaged; restore a copy")
        return self.snapshot.checked()


def to_entry(row: tuple[Any, ...]) -> TableEntry:
    """Return what a row of `SELECT_ENTRY` holds."""
    table_id, name, online, checksum = row
    return TableEntry(table_id, name, bool(online), checksum)


def collect(run: sqlite3.Connection, table_id: str, paths: Collection[str], now: datetime) -> None:
    """Note metadata files as garbage, but for those that a snapshot or a savepoint names."""
    for path in paths:
        run.execute(GARBAGE_IF_UNNAMED, {"table": table_id, "path": path, "now": to_micros(now)})
