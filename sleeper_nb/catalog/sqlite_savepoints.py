"""Savepoints in the SQLite catalog, each step within a transaction: ids and names that are never given again."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sleeper_nb.catalog.base import deleted_meanwhile, lost_checkpoint
from sleeper_nb.catalog.checked_rows import SavepointRow, savepoint_checksum, savepoint_columns
from sleeper_nb.catalog.sqlite_tables import collect
from sleeper_nb.errors import AlreadyExists, NotFound
from sleeper_nb.model.savepoints import Savepoint

_REPEATED = ("id", "name", "files_path", "partitions_path", "saves", "log_path")
SELECT = f"""
SELECT body, checksum, {", ".join(_REPEATED)} FROM savepoints WHERE table_id = ? AND body NOT NULL ORDER BY id
"""  # noqa: S608 - our own column names
SELECT_UNUSED = "SELECT id FROM savepoints WHERE table_id = ? AND body IS NULL"


def read_row(table_id: str, catalog: str, row: Sequence[Any]) -> SavepointRow:
    """Return a row of `SELECT`."""
    body, checksum, *repeated = row
    return SavepointRow(table_id, catalog, repeated[0], body, checksum, dict(zip(_REPEATED, repeated, strict=True)))


def reserve(run: sqlite3.Connection, table_id: str) -> int:
    """Return the next id."""
    (last,) = run.execute("SELECT max(id) FROM savepoints WHERE table_id = ?", (table_id,)).fetchone()
    run.execute("INSERT INTO savepoints (table_id, id) VALUES (?, ?)", (table_id, (last or 0) + 1))
    return int(last or 0) + 1


def add(run: sqlite3.Connection, table_id: str, savepoint: Savepoint, beside: int | None = None) -> None:
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
            hint="save a snapshot that history shows",
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


def delete(run: sqlite3.Connection, table_id: str, savepoint_id: int, now: datetime) -> None:
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
