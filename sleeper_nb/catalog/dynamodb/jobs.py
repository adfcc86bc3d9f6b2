"""Records of jobs in DynamoDB, in order of their creation, and the ids of jobs that must not make a second snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime
from itertools import islice
from typing import Any

from sleeper_nb.catalog.dynamodb.items import JOB_ID, RUN, Item
from sleeper_nb.catalog.dynamodb.rows import Rows
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.snapshots import Snapshot, from_micros, to_micros

_TIMES = ("created", "started", "finished")
MOST_PAGE = 1000


def put(rows: Rows, job: Job) -> Item:
    """Return the part of a transaction that writes the record of a run."""
    values: dict[str, Any] = {field.name: getattr(job, field.name) for field in fields(job)}
    times = {name: None if values[name] is None else to_micros(values[name]) for name in _TIMES}
    return rows.put(f"{_since(job.created)}#{job.id}", {**values, **times})


def listed(rows: Rows, limit: int) -> tuple[Job, ...]:
    """Return the newest runs, newest first."""
    if limit < 1:
        return ()
    found = rows.query(RUN, newest_first=True, page=min(limit, MOST_PAGE))
    return tuple(_to_job(item) for item in islice(found, limit))


def prune(rows: Rows, before: datetime, keep: int) -> None:
    """Forget runs that were created before a moment, and all but so many of the newest."""
    least = _since(before)
    kept = [row["item"] for row in rows.query(RUN, newest_first=True, columns="#item")]
    rows.write_each({}, [item for place, item in enumerate(kept) if place >= keep or item < least])


def ids(rows: Rows, new: Iterable[Snapshot]) -> list[Item]:
    """Return the parts of a commit that hold the ids of its jobs to be new, and keep them."""
    named = [(snapshot.job_id, snapshot.id) for snapshot in new if snapshot.job_id is not None]
    return [rows.put(JOB_ID + job_id, {"id": number}, new=True) for job_id, number in named]


def snapshot_of(rows: Rows, job_id: str) -> int | None:
    """Return which snapshot the job of an id has made."""
    found = rows.get(JOB_ID + job_id)
    return None if found is None else int(found["id"])


def _since(moment: datetime) -> str:
    return f"{RUN}{to_micros(moment):020d}"


def _to_job(item: Item) -> Job:
    values: dict[str, Any] = {field.name: item.get(field.name) for field in fields(Job)}
    times = {name: None if values[name] is None else from_micros(values[name]) for name in _TIMES}
    return Job(**{**values, **times, "partition_ids": tuple(values["partition_ids"])})
