"""Claims of compaction jobs and records of jobs of every kind in the SQLite catalog, each within a transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime
from typing import Any

from sleeper_nb.catalog.base import Assignment
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.snapshots import Snapshot, from_micros, to_micros

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


def claim(run: sqlite3.Connection, table_id: str, assignment: Assignment, now: datetime, job: Job | None) -> bool:
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


def prune(run: sqlite3.Connection, table_id: str, before: datetime, keep: int) -> None:
    """Forget runs that are older than a moment, and all but the newest."""
    run.execute(_PRUNE, {"table": table_id, "before": to_micros(before), "keep": keep})


def ids_of(table_id: str, new: Iterable[Snapshot]) -> list[tuple[str, str, int]]:
    """Return the rows of `job_ids` that snapshots add: table, id of the job, snapshot."""
    return [(table_id, snapshot.job_id, snapshot.id) for snapshot in new if snapshot.job_id is not None]


def are_new(run: sqlite3.Connection, ids: Iterable[tuple[str, str, int]]) -> bool:
    """Return whether no job of these ids has made a snapshot."""
    used = "SELECT 1 FROM job_ids WHERE table_id = ? AND job_id = ?"
    return not any(run.execute(used, one[:2]).fetchone() for one in ids)
