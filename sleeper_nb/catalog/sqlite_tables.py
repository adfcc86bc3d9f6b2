"""The tables of the SQLite catalog: columns, upgrades, and how a snapshot becomes a row and a path garbage."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sleeper_nb.catalog.base import TableEntry
from sleeper_nb.model.snapshots import Snapshot, from_micros, to_micros

FORMAT_VERSION = 6
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
  leaves INTEGER, PRIMARY KEY (table_id, id)) STRICT;
CREATE TABLE IF NOT EXISTS log (
  table_id TEXT NOT NULL, id INTEGER NOT NULL, entry BLOB NOT NULL, PRIMARY KEY (table_id, id)) STRICT;
CREATE TABLE IF NOT EXISTS savepoints (
  table_id TEXT NOT NULL, id INTEGER NOT NULL, name TEXT, files_path TEXT, partitions_path TEXT, body TEXT,
  saves INTEGER, log_path TEXT, PRIMARY KEY (table_id, id), UNIQUE (table_id, name)) STRICT;
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
_COLUMNS = ", ".join(f'"{name}"' for name in _SNAPSHOT)
SELECT_SNAPSHOT = f"SELECT {_COLUMNS} FROM snapshots WHERE table_id = ?"  # noqa: S608 - our own column names
RETAINED = " AND NOT expired"
AS_OF = f"{RETAINED} AND time <= ? ORDER BY id DESC LIMIT 1"
SELECT_CURRENT = SELECT_SNAPSHOT + " AND id = (SELECT current_snapshot FROM tables WHERE id = ?)"  # noqa: S608
SELECT_CURRENT_OF_ALL = f"""
SELECT table_id, {", ".join(f'snapshots."{name}"' for name in _SNAPSHOT)} FROM tables JOIN snapshots
ON snapshots.table_id = tables.id AND snapshots.id = tables.current_snapshot
"""  # noqa: S608
INSERT_SNAPSHOT = f"INSERT INTO snapshots (table_id, {_COLUMNS}) VALUES (?{', ?' * len(_SNAPSHOT)})"  # noqa: S608
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
    run.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def forget_rows(run: sqlite3.Connection, table_id: str) -> None:
    """Forget everything of a table but its entry in the index."""
    for name in _OF_A_TABLE:
        run.execute(f"DELETE FROM {name} WHERE table_id = ?", (table_id,))  # noqa: S608 - our own names


def snapshot_row(snapshot: Snapshot) -> tuple[Any, ...]:
    """Return the values of `INSERT_SNAPSHOT` behind the table's id."""
    values = ((name, getattr(snapshot, name)) for name in _SNAPSHOT)
    return tuple(to_micros(value) if name == "time" else value for name, value in values)


def to_snapshot(row: Sequence[Any]) -> Snapshot:
    """Return what a row of `SELECT_SNAPSHOT` holds."""
    fields = dict(zip(_SNAPSHOT, row, strict=True))
    return Snapshot(**{**fields, "time": from_micros(fields["time"])})


def to_entry(row: tuple[Any, ...]) -> TableEntry:
    """Return what a row of `SELECT_ENTRY` holds."""
    table_id, name, online, checksum = row
    return TableEntry(table_id, name, bool(online), checksum)


def collect(run: sqlite3.Connection, table_id: str, paths: Collection[str], now: datetime) -> None:
    """Note metadata files as garbage, but for those that a snapshot or a savepoint names."""
    for path in paths:
        run.execute(GARBAGE_IF_UNNAMED, {"table": table_id, "path": path, "now": to_micros(now)})
