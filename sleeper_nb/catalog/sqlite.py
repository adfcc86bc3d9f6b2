"""The embedded catalog: one SQLite file in the warehouse, shared by every process on the machine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

from sleeper_nb.catalog import sqlite_jobs, sqlite_leases, sqlite_savepoints
from sleeper_nb.catalog.base import Assignment, Catalog, CommitLimits, TableEntry
from sleeper_nb.catalog.checked_rows import CatalogRows, snapshot_checksum
from sleeper_nb.catalog.sqlite_file import SqliteFile
from sleeper_nb.catalog.sqlite_tables import (
    AS_OF,
    FLOOR,
    INSERT_SNAPSHOT,
    RETAINED,
    SELECT_CURRENT,
    SELECT_CURRENT_OF_ALL,
    SELECT_ENTRY,
    SELECT_HEAD,
    SELECT_NAMED,
    SELECT_NAMED_LIKE,
    SELECT_SNAPSHOT,
    TAKEN,
    CurrentRow,
    collect,
    forget_rows,
    read_snapshot_row,
    snapshot_row,
    to_entry,
)
from sleeper_nb.catalog.turns import Turns
from sleeper_nb.clock import Clock
from sleeper_nb.errors import AlreadyExists, NotFound
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.leases import Lease
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot, from_micros, to_micros


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
        savepoints = self._file.rows(sqlite_savepoints.SELECT, (table_id,))
        return CatalogRows.of(
            heads[0],
            (read_snapshot_row(table_id, name, row) for row in snapshots),
            (sqlite_savepoints.read_row(table_id, name, row) for row in savepoints),
            (row_id for (row_id,) in self._file.rows(sqlite_savepoints.SELECT_UNUSED, (table_id,))),
        )

    def commit(self, table_id: str, expected: Snapshot, *new: Snapshot, log: Sequence[bytes] = ()) -> bool:
        ids = sqlite_jobs.ids_of(table_id, new)
        with self._file.transaction() as run:
            won = (
                sqlite_jobs.are_new(run, ids)
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
        rows = self._file.rows(sqlite_savepoints.SELECT, (table_id,))
        return tuple(sqlite_savepoints.read_row(table_id, self._file.name, row).checked() for row in rows)

    def reserve_savepoint_id(self, table_id: str) -> int:
        with self._file.transaction() as run:
            return sqlite_savepoints.reserve(run, table_id)

    def is_savepoint_name_used(self, table_id: str, name: str) -> bool:
        return bool(self._file.rows("SELECT 1 FROM savepoints WHERE table_id = ? AND name = ?", (table_id, name)))

    def add_savepoint(self, table_id: str, savepoint: Savepoint, beside: int | None = None) -> None:
        with self._file.transaction() as run:
            sqlite_savepoints.add(run, table_id, savepoint, beside)

    def delete_savepoint(self, table_id: str, savepoint_id: int, now: datetime) -> None:
        with self._file.transaction() as run:
            sqlite_savepoints.delete(run, table_id, savepoint_id, now)

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
            sqlite_leases.add(run, table_id, lease)

    def leases(self, table_id: str) -> tuple[Lease, ...]:
        return self._file.read(sqlite_leases.to_lease, sqlite_leases.SELECT, (table_id,))

    def renew_lease(self, table_id: str, lease: Lease, until: datetime) -> bool:
        with self._file.transaction() as run:
            return sqlite_leases.renew(run, table_id, lease, until)

    def release_lease(self, table_id: str, lease: Lease) -> bool:
        with self._file.transaction() as run:
            return sqlite_leases.release(run, table_id, lease)

    def assign(self, table_id: str, assignment: Assignment, now: datetime, job: Job | None = None) -> bool:
        with self._file.transaction() as run:
            return sqlite_jobs.claim(run, table_id, assignment, now, job)

    def assignments(self, table_id: str, now: datetime) -> tuple[Assignment, ...]:
        return self._file.read(sqlite_jobs.to_claim, sqlite_jobs.SELECT_CLAIMS, (table_id, to_micros(now)))

    def release(self, table_id: str, job_id: str) -> None:
        with self._file.transaction() as run:
            run.execute("DELETE FROM assignments WHERE table_id = ? AND job_id = ?", (table_id, job_id))

    def put_job(self, table_id: str, job: Job) -> None:
        with self._file.transaction() as run:
            sqlite_jobs.put_job(run, table_id, job)

    def jobs(self, table_id: str, limit: int) -> tuple[Job, ...]:
        return self._file.read(sqlite_jobs.to_job, sqlite_jobs.SELECT_JOBS, (table_id, limit))

    def prune_jobs(self, table_id: str, before: datetime, keep: int) -> None:
        with self._file.transaction() as run:
            sqlite_jobs.prune(run, table_id, before, keep)

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
