"""Jobs in DynamoDB: claims of compaction jobs on files, records of runs, ids of jobs, and leases of services.

A claim has any number of files, all or none. They are in chunks, one item each, so that thousands fit in one
transaction; an item for each file would reach the limit of a transaction at a hundred. Two jobs cannot claim one file,
since all claims of a table follow one another:

1. The item `claims` holds the number of the last claim and its job. It is read first, then all jobs. The items of that
   last job are waited for when they are not visible yet; those of earlier claims were waited for by the claim after
   them.
2. A claim is refused when one of its files is in another job's claim that has not ended.
3. One transaction writes the job's items and the next number if the number is still the one that was read. A process
   that loses this condition reads again.

Ending a claim needs no number: a process that has not seen the end is only too careful. Claims that have ended by time
are removed by the transaction of a later one, and so never while their job claims again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any

from sleeper_nb.catalog.catalog_base import FileClaim
from sleeper_nb.catalog.checked_rows import row_of, value_of
from sleeper_nb.catalog.dynamodb.client import Rows
from sleeper_nb.catalog.dynamodb.items import CLAIMS, JOB, JOB_ID, RUN, Item
from sleeper_nb.clock import Retry
from sleeper_nb.errors import ConflictError, InvalidInput
from sleeper_nb.model.jobs import Job, ServiceLease
from sleeper_nb.model.snapshots import Snapshot, from_micros, to_micros

logger = logging.getLogger(__name__)

# Claims on files.

CHUNK_BYTES = 300_000
CLAIM_BYTES = 3_500_000
"""The most that one claim can hold; a transaction of DynamoDB has at most 4 MB."""
RETRY = Retry(max_attempts=40, first_wait=0.02, max_wait=1.0)

Claims = dict[str, list[Item]]
"""The items of each job's claim, by the id of the job."""


def claim_files(rows: Rows, claim: FileClaim, now: datetime, max_items: int, job: Job | None = None) -> bool:
    """Claim files and record the job; `ConflictError` when other jobs claimed files during every attempt."""
    record = [] if job is None else [job_record(rows, job)]
    chunks = _chunks(claim)
    for attempt in RETRY.attempts(rows.db.clock):
        last, jobs = _last_and_claims(rows)
        others = (chunk for job, items in jobs.items() if job != claim.job_id for chunk in items)
        if any(_overlaps(chunk, claim, now) for chunk in others):
            release_claim(rows, claim.job_id)
            return False
        if _write_claim(rows, claim, chunks, last, jobs, now, record, max_items):
            return True
        logger.info("job %s: another job claimed files first, attempt %d", claim.job_id, attempt + 1)
    raise ConflictError(
        f"other jobs claimed files during each of {RETRY.max_attempts} attempts",
        hint="nothing was claimed; run it again",
    )


def claims_under_way(rows: Rows, now: datetime) -> tuple[FileClaim, ...]:
    _, jobs = _last_and_claims(rows)
    found = []
    for job_id, chunks in sorted(jobs.items()):
        head = chunks[0]
        if head["until"] > to_micros(now):
            names = tuple(name for chunk in chunks for name in chunk["filenames"])
            found.append(FileClaim(job_id, head["partition_id"], names, from_micros(head["until"])))
    return tuple(found)


def release_claim(rows: Rows, job_id: str) -> None:
    found = rows.query(f"{JOB}{job_id}#", columns="#item, #job_id")
    rows.write_each({}, [row["item"] for row in found if row["job_id"] == job_id])


def _last_and_claims(rows: Rows) -> tuple[Item | None, Claims]:
    last = rows.get(CLAIMS)
    visible = {row["item"]: row for row in rows.query(JOB)}
    if last is not None:
        names = [_name(last["job_id"], chunk) for chunk in range(last["chunks"])]
        if any(visible.get(name, {}).get("number", 0) < last["number"] for name in names):
            visible |= {row["item"]: row for row in rows.settled(names)}
    jobs: Claims = defaultdict(list)
    for _, row in sorted(visible.items()):
        jobs[row["job_id"]].append(row)
    return last, jobs


def _write_claim(
    rows: Rows,
    claim: FileClaim,
    chunks: list[list[str]],
    last: Item | None,
    jobs: Claims,
    now: datetime,
    record: list[Item],
    max_items: int,
) -> bool:
    """Write a claim if no other was written since `last`; return whether it is written now."""
    number = last["number"] if last else 0
    claim_number = {"number": number + 1, "job_id": claim.job_id, "chunks": len(chunks)}
    until = to_micros(claim.until)
    job: dict[str, Any] = {"job_id": claim.job_id, "partition_id": claim.partition_id, "until": until}
    written = {
        _name(claim.job_id, at): {**job, "number": number + 1, "filenames": names} for at, names in enumerate(chunks)
    }
    replaced = [row["item"] for row in jobs.get(claim.job_id, ()) if row["item"] not in written]
    ended = [
        row["item"]
        for job_id, items in jobs.items()
        if job_id != claim.job_id and items[0]["until"] <= to_micros(now)
        for row in items
    ]
    if 1 + len(written) + len(replaced) + len(record) > max_items:
        raise InvalidInput(f"{len(claim.filenames)} files are too many for one job", hint="make smaller jobs")
    parts = [_next_number(rows, claim_number, number)]
    parts += [rows.put(item, values) for item, values in written.items()] + record
    parts += [rows.delete(item) for item in (*replaced, *ended)][: max_items - len(parts)]
    lost = rows.db.transact(parts)
    if lost is None:
        return True
    met = lost.items[0] or {}
    return all(met.get(name) == value for name, value in claim_number.items()) and _are_written(rows, written)


def _next_number(rows: Rows, values: Item, expected: int) -> Item:
    change = "SET #number = :number, #job_id = :job_id, #chunks = :chunks"
    if expected:
        return rows.update(CLAIMS, change, "#number = :expected", expected=expected, **values)
    return rows.update(CLAIMS, change, "attribute_not_exists(#item)", **values)


def _are_written(rows: Rows, written: dict[str, Item]) -> bool:
    """Return whether exactly these items exist: the claim was written, and the answer lost until its token expired."""
    stored = {row["item"]: row for row in rows.settled(written)}
    return all(stored.get(item, {}).get(name) == value for item, row in written.items() for name, value in row.items())


def _overlaps(chunk: Item, claim: FileClaim, now: datetime) -> bool:
    return (
        chunk["until"] > to_micros(now)
        and chunk["partition_id"] == claim.partition_id
        and not set(claim.filenames).isdisjoint(chunk["filenames"])
    )


def _name(job_id: str, chunk: int) -> str:
    return f"{JOB}{job_id}#{chunk:04d}"


def _chunks(claim: FileClaim) -> list[list[str]]:
    chunks: list[list[str]] = []
    room = 0
    for name in claim.filenames:
        size = len(name.encode()) + 3
        if size > room:
            chunks.append([])
            room = CHUNK_BYTES
        chunks[-1].append(name)
        room -= size
    if len(chunks) * CHUNK_BYTES > CLAIM_BYTES:
        raise InvalidInput(f"{len(claim.filenames)} files are too many for one job", hint="make smaller jobs")
    return chunks


# Records of runs, in the order of their creation, and the ids of jobs, which make one snapshot each.

PAGE = 1000


def job_record(rows: Rows, job: Job) -> Item:
    return rows.put(f"{_record_key(job.created)}#{job.id}", row_of(job))


def newest_jobs(rows: Rows, limit: int) -> tuple[Job, ...]:
    if limit < 1:
        return ()
    found = rows.query(RUN, newest_first=True, page=min(limit, PAGE))
    return tuple(_to_job(item) for item in islice(found, limit))


def delete_old_jobs(rows: Rows, before: datetime, keep: int) -> None:
    least = _record_key(before)
    kept = [row["item"] for row in rows.query(RUN, newest_first=True, columns="#item")]
    rows.write_each({}, [item for place, item in enumerate(kept) if place >= keep or item < least])


def new_job_ids(rows: Rows, new: Iterable[Snapshot]) -> list[Item]:
    return [remembered_job(rows, snapshot.job_id, snapshot.id) for snapshot in new if snapshot.job_id is not None]


def remembered_job(rows: Rows, job_id: str, snapshot_id: int) -> Item:
    return rows.put(JOB_ID + job_id, {"id": snapshot_id}, new=True)


def _record_key(moment: datetime) -> str:
    return f"{RUN}{to_micros(moment):020d}"


def _to_job(item: Item) -> Job:
    return value_of(Job, {**item, "partition_ids": tuple(item["partition_ids"])})


# Leases of services: one item for each, in the index of the instance.


def take_service(rows: Rows, lease: ServiceLease, now: datetime) -> ServiceLease:
    change = "SET #owner = :owner, #holder = :holder, #since = :since, #until = :until"
    condition = f"attribute_not_exists(#{rows.table.range}) OR #owner = :owner OR #until <= :now"
    values = {name: cell for name, cell in row_of(lease).items() if name != "service"}
    lost = rows.db.transact([rows.update(lease.service, change, condition, now=to_micros(now), **values)])
    if lost is None:
        return lease
    return to_service(lease.service, lost.items[0] or values)


def to_service(name: str, item: Item) -> ServiceLease:
    return value_of(ServiceLease, {**item, "service": name})
