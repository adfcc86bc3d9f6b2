"""Forgetting snapshots and savepoints in DynamoDB: many items, so each step leaves what the next run completes.

Why it is safe, in steps:

1. What goes is marked first: a snapshot `expired`, a savepoint `deleting`. A mark is never taken back. From then on
   nobody sees it, and a savepoint of an expired snapshot is refused, since adding one writes to the snapshot's item.
   The current snapshot is never marked: only ids below the newest are, and those can never be current again.
2. Then all snapshots and savepoints are read. A savepoint that was added before the mark is among them: its id is
   on its snapshot's item, and is waited for when it does not show yet. So what nothing unmarked names now, nothing
   ever names again: a commit takes over names of the current snapshot only.
3. Such metadata files become garbage before their items go. A crash in between repeats the step, which changes nothing.
4. Of two that mark at once and read later, at least the second to read sees both marks; so nothing is left over.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from itertools import islice
from typing import Any

from sleeper_nb.catalog.catalog_base import deleted_meanwhile, lost_checkpoint
from sleeper_nb.catalog.checked_rows import SavepointRow, savepoint_checksum
from sleeper_nb.catalog.dynamodb.items import (
    DELETED,
    GARBAGE,
    JOB_ID,
    LEASE,
    LOG,
    RUN,
    SAVEPOINT,
    SAVEPOINT_COUNTER,
    SAVEPOINT_NAME,
    SNAPSHOT,
    Item,
    numbered,
    paths_of,
    read_savepoint_item,
)
from sleeper_nb.catalog.dynamodb.rows import Rows, snapshot_rows
from sleeper_nb.clock import Retry
from sleeper_nb.errors import CHOOSE_RETAINED, SAVE_RETAINED, AlreadyExists, ConflictError, NotFound
from sleeper_nb.model.jobs import Job, Lease
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot, from_micros, to_micros

logger = logging.getLogger(__name__)

# Records of jobs in DynamoDB, in order of their creation, and the ids of jobs that must not make a second snapshot.

_TIMES = ("created", "started", "finished")
MOST_PAGE = 1000


def put_job(rows: Rows, job: Job) -> Item:
    """Return the part of a transaction that writes the record of a run."""
    values: dict[str, Any] = {field.name: getattr(job, field.name) for field in fields(job)}
    times = {name: None if values[name] is None else to_micros(values[name]) for name in _TIMES}
    return rows.put(f"{_since(job.created)}#{job.id}", {**values, **times})


def listed_jobs(rows: Rows, limit: int) -> tuple[Job, ...]:
    """Return the newest runs, newest first."""
    if limit < 1:
        return ()
    found = rows.query(RUN, newest_first=True, page=min(limit, MOST_PAGE))
    return tuple(_to_job(item) for item in islice(found, limit))


def prune_jobs(rows: Rows, before: datetime, keep: int) -> None:
    """Forget runs that were created before a moment, and all but so many of the newest."""
    least = _since(before)
    kept = [row["item"] for row in rows.query(RUN, newest_first=True, columns="#item")]
    rows.write_each({}, [item for place, item in enumerate(kept) if place >= keep or item < least])


def job_ids(rows: Rows, new: Iterable[Snapshot]) -> list[Item]:
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


# Savepoints in DynamoDB: ids and names that are never given again, and the tie to a retained snapshot.

RETRY = Retry(max_attempts=40, first_wait=0.02, max_wait=1.0)


def reserve_savepoint(rows: Rows) -> int:
    """Return the next id.

    The counter goes up by a transaction, not by DynamoDB's own adding: adding again after a lost answer would skip one.
    """
    for attempt in range(RETRY.max_attempts):
        if attempt:
            RETRY.wait(rows.db.clock, attempt)
        counter = rows.get(SAVEPOINT_COUNTER)
        if counter is None:
            part = rows.put(SAVEPOINT_COUNTER, {"last": 1}, new=True)
        else:
            change, condition = "SET #last = :next", "#last = :last"
            part = rows.update(SAVEPOINT_COUNTER, change, condition, next=counter["last"] + 1, last=counter["last"])
        if rows.db.transact([part]) is None:
            return int(counter["last"]) + 1 if counter else 1
        logger.info("table %s: another writer made a savepoint first, attempt %d", rows.owner, attempt + 1)
    raise ConflictError(f"others made savepoints in between in each of {RETRY.max_attempts} tries", hint="run it again")


def add_savepoint(rows: Rows, savepoint: Savepoint, beside: int | None = None) -> None:
    """Add a savepoint, and its id to the items of the snapshots that it builds on; none of those may have expired.

    With `beside` it builds on that savepoint instead, which must not be deleted.
    """
    body = savepoint.to_json()
    kept = {
        "id": savepoint.id,
        "files_path": savepoint.full_manifest_list,
        "partitions_path": savepoint.partitions_path,
        "log_path": savepoint.log and savepoint.log.path,
        "body": body,
        "checksum": savepoint_checksum(rows.owner, body),
    }
    retained = "attribute_exists(#item) AND attribute_not_exists(#expired)"
    ids = frozenset({savepoint.id})
    base = rows.update(numbered(SNAPSHOT, savepoint.saved_snapshot_id), "ADD #saved :ids", retained, ids=ids)
    if beside is not None:
        undeleted = "attribute_exists(#item) AND attribute_not_exists(#deleting)"
        base = rows.update(numbered(SAVEPOINT, beside), "ADD #saved :ids", undeleted, ids=ids)
    parts = [
        base,
        rows.put(numbered(SAVEPOINT, savepoint.id), kept, new=True),
        rows.absent(DELETED),
    ]
    if savepoint.name is not None:
        parts.append(rows.put(SAVEPOINT_NAME + savepoint.name, {"id": savepoint.id}, new=True))
    if savepoint.log is not None:
        listed_savepoints = f"{retained} AND #files_path = :path"
        start = numbered(SNAPSHOT, savepoint.log.after)
        parts.append(
            rows.update(start, "ADD #saved :ids", listed_savepoints, ids=ids, path=savepoint.full_manifest_list)
        )
    lost = rows.db.transact(parts)
    if lost is None or (lost.parts[1] and (lost.items[1] or {}).get("body") == kept["body"]):
        return  # done now, or by an earlier try whose answer was lost
    if beside is not None and lost.parts[0]:
        raise deleted_meanwhile(beside)
    if lost.parts[0] or lost.parts[2]:
        raise NotFound(
            f"snapshot {savepoint.saved_snapshot_id} has expired, so it cannot be saved",
            hint=SAVE_RETAINED,
        )
    if lost.parts[1]:
        raise AlreadyExists(f"savepoint {savepoint.id} is there already", hint="reserve another id")
    if savepoint.log is not None and lost.parts[-1]:
        raise lost_checkpoint(savepoint.log.after)
    raise AlreadyExists(
        f"the savepoint name {savepoint.name!r} was used before",
        hint="choose another; the name of a deleted savepoint is never given again",
    )


def listed_savepoints(rows: Rows) -> tuple[Savepoint, ...]:
    """Return the savepoints, oldest first; `CatalogDamaged` when an item was changed."""
    return tuple(row.checked() for row in read(rows))


def read(rows: Rows) -> Iterator[SavepointRow]:
    """Yield the rows of the savepoints, oldest first, also damaged ones."""
    found = rows.query(SAVEPOINT, where="attribute_not_exists(#deleting)")
    return (read_savepoint_item(item, rows.table.name) for item in found)


def given_ids(rows: Rows) -> range:
    """Return every id that was given out: no item tells of a savepoint that was deleted, or never added."""
    counter = rows.get(SAVEPOINT_COUNTER)
    return range(1, int(counter["last"]) + 1 if counter else 1)


# Leases of readers in DynamoDB.
#
# A lease is written first, then its version is looked at: when that is still kept, whoever forgets it later and then
# reads the leases finds this one. So a garbage collection that misses the version among those kept sees the lease. It
# releases those that have ended before it reads the others: as long as another reader's lease is there, the files are.


def add_lease(rows: Rows, lease: Lease) -> None:
    """Add a lease on the condition that its version is kept."""
    values = {field.name: getattr(lease, field.name) for field in fields(lease)}
    times = {"since": to_micros(lease.since), "until": to_micros(lease.until)}
    rows.write_each({LEASE + lease.id: {**values, **times}})
    if not _is_kept(rows, lease):
        logger.info("table %s: lease %s is for snapshot %d, which has expired", rows.owner, lease.id, lease.snapshot_id)
        rows.write_each({}, [LEASE + lease.id])
        raise NotFound(f"snapshot {lease.snapshot_id} has expired", hint=CHOOSE_RETAINED)


def _is_kept(rows: Rows, lease: Lease) -> bool:
    if rows.get(DELETED) is not None:
        return False
    found = rows.get(numbered(SNAPSHOT, lease.snapshot_id))
    if found is not None and not found.get("expired"):
        return True
    if any(savepoint.saved_snapshot_id == lease.snapshot_id for savepoint in listed_savepoints(rows)):
        return True
    return any(other.snapshot_id == lease.snapshot_id and other.id != lease.id for other in listed_leases(rows))


def listed_leases(rows: Rows) -> tuple[Lease, ...]:
    """Return all leases, oldest first."""
    return tuple(sorted(map(_to_lease, rows.query(LEASE)), key=lambda lease: (lease.since, lease.id)))


def renew_lease(rows: Rows, lease: Lease, until: datetime) -> bool:
    """Let a lease end later; return False when it is gone, or renewed by another."""
    change = rows.update(
        LEASE + lease.id,
        "SET #until = :later",
        "#until = :until",
        later=to_micros(until),
        until=to_micros(lease.until),
    )
    lost = rows.db.transact([change])
    return lost is None or (lost.items[0] or {}).get("until") == to_micros(until)


def release_lease(rows: Rows, lease: Lease) -> bool:
    """End a lease; return False when it is gone, or renewed since it was read."""
    part = rows.delete(LEASE + lease.id, "#until = :until", until=to_micros(lease.until))
    return rows.db.transact([part]) is None


def _to_lease(item: Item) -> Lease:
    values: Item = {field.name: item.get(field.name) for field in fields(Lease)}
    return Lease(**{**values, "since": from_micros(item["since"]), "until": from_micros(item["until"])})


MARKS = 25
"""How many items one transaction marks."""


def mark_snapshots(rows: Rows, ids: Collection[int]) -> None:
    """Hide snapshots; never the current one."""
    found, wanted = snapshot_rows(rows), set(ids)
    doomed = [row["item"] for row in found[1:] if row["id"] in wanted and not row.get("expired")]
    # another expiry may have removed some
    marks = (rows.update(item, "SET #expired = :true", "attribute_exists(#item)", true=True) for item in doomed)
    rows.db.transact_each(marks, MARKS)


def mark_savepoint(rows: Rows, savepoint_id: int) -> None:
    """Hide a savepoint; nothing happens when there is none."""
    item = numbered(SAVEPOINT, savepoint_id)
    rows.db.transact([rows.update(item, "SET #deleting = :true", "attribute_exists(#item)", true=True)])


def collect(rows: Rows, now: datetime) -> None:
    """Remove what is marked, and the log behind it; metadata files that nothing else names become garbage."""
    snapshots = snapshot_rows(rows)
    savepoints = _savepoints(rows, snapshots)
    floor = _floor(snapshots)
    # What lies above the floor has no metadata of its own, or some that a later one may be read through.
    gone = [row for row in snapshots if row.get("expired") and (row["id"] < floor or not row.get("files_path"))]
    gone += [row for row in savepoints if row.get("deleting")]
    leaving = {row["item"] for row in gone}
    named = {path for row in (*snapshots, *savepoints) if row["item"] not in leaving for path in paths_of(row)}
    unnamed = {path for row in gone for path in paths_of(row)} - named
    if unnamed:
        unnamed -= {row["item"].removeprefix(GARBAGE) for row in rows.query(GARBAGE)}
    rows.write_each({GARBAGE + path: {"since": to_micros(now)} for path in sorted(unnamed)}, sorted(leaving))
    cut = rows.query(between=(numbered(LOG, 0), numbered(LOG, floor)), columns="#item")
    rows.write_each({}, [row["item"] for row in cut])


def _floor(snapshots: Sequence[Item]) -> int:
    """Return the snapshot whose full metadata every retained one can be read through."""
    least = min((row["id"] for row in snapshots if not row.get("expired")), default=0)
    return max((row["id"] for row in snapshots if row["id"] <= least and row.get("files_path")), default=0)


def _savepoints(rows: Rows, snapshots: Sequence[Item]) -> list[Item]:
    found = list(rows.query(SAVEPOINT))
    saved = {number for row in snapshots if row.get("expired") for number in row.get("saved", ())}
    unseen = saved - {row["id"] for row in found}
    return [*found, *rows.settled(numbered(SAVEPOINT, number) for number in sorted(unseen))]
