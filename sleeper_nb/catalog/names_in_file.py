"""Names in a catalog's SQLite file, read without opening the catalog: Tab in a shell asks for them.

The file is never created, upgraded or written to, and nothing waits long for a lock.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sleeper_nb.catalog.sqlite_file import guard, is_interrupted, unexpected

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
                interruptions = guard(connection)
                try:
                    if unexpected(connection) is not None:  # of another program's file: opening it raises
                        return []
                    return connection.execute(select, {"table": table} if table else ()).fetchall()
                except sqlite3.Error as error:
                    if is_interrupted(error):
                        raise interruptions.taken() from None
                    raise
        except (sqlite3.Error, OSError, UnicodeDecodeError):
            return []
