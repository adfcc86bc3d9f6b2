"""Claims of compaction jobs in DynamoDB: any number of files, all or none.

A job's files are in chunks, one item each, so that thousands fit in one transaction; an item for each file would reach
the limit of a transaction at a hundred. Two jobs cannot claim one file, since all claims of a table follow one another:

1. The item `claims` holds the number of the last claim and which job's it was. It is read first, then all jobs. The
   items of that last job are waited for when they do not show yet; those before it were waited for in the same way by
   whoever made the claim after them.
2. Against these, files that are taken by a claim that has not ended refuse the new one.
3. One transaction writes the job's items and the next number, on the condition that the number is still the one read.
   Who loses it reads again.

Ending a claim needs no number: who has not seen it yet is only too careful. Claims that ended by time are removed by
the transaction of a later one, and so never while their job claims again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from datetime import datetime
from typing import Any

from sleeper_nb.catalog.catalog_base import Assignment
from sleeper_nb.catalog.dynamodb import records as jobs_of
from sleeper_nb.catalog.dynamodb.items import CLAIMS, JOB, Item
from sleeper_nb.catalog.dynamodb.rows import Rows
from sleeper_nb.clock import Retry
from sleeper_nb.errors import ConflictError, InvalidInput
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.snapshots import from_micros, to_micros

logger = logging.getLogger(__name__)

CHUNK_BYTES = 300_000
CLAIM_BYTES = 3_500_000
"""What one claim can hold; a transaction of DynamoDB has at most 4 MB."""
RETRY = Retry(max_attempts=40, first_wait=0.02, max_wait=1.0)

Jobs = dict[str, list[Item]]


def claim(rows: Rows, wanted: Assignment, now: datetime, max_items: int, job: Job | None = None) -> bool:
    """Claim files, and with them note the job; `ConflictError` when others claimed in between in every try."""
    noted = [] if job is None else [jobs_of.put_job(rows, job)]
    chunks = _chunks(wanted)
    for attempt in range(RETRY.max_attempts):
        if attempt:
            RETRY.wait(rows.db.clock, attempt)
        last, jobs = _read(rows)
        others = (chunk for job, items in jobs.items() if job != wanted.job_id for chunk in items)
        if any(_holds(chunk, wanted, now) for chunk in others):
            release(rows, wanted.job_id)
            return False
        if _write(rows, wanted, chunks, last, jobs, now, noted, max_items):
            return True
        logger.info("job %s: another job claimed files first, attempt %d", wanted.job_id, attempt + 1)
    raise ConflictError(
        f"other jobs claimed files in between in each of {RETRY.max_attempts} tries",
        hint="nothing was claimed; run it again",
    )


def claimed(rows: Rows, now: datetime) -> tuple[Assignment, ...]:
    """Return the claims that have not ended, by job."""
    _, jobs = _read(rows)
    found = []
    for job_id, chunks in sorted(jobs.items()):
        head = chunks[0]
        if head["until"] > to_micros(now):
            names = tuple(name for chunk in chunks for name in chunk["filenames"])
            found.append(Assignment(job_id, head["partition_id"], names, from_micros(head["until"])))
    return tuple(found)


def release(rows: Rows, job_id: str) -> None:
    """End a job's claim."""
    found = rows.query(f"{JOB}{job_id}#", columns="#item, #job_id")
    rows.write_each({}, [row["item"] for row in found if row["job_id"] == job_id])


def _read(rows: Rows) -> tuple[Item | None, Jobs]:
    last = rows.get(CLAIMS)
    shown = {row["item"]: row for row in rows.query(JOB)}
    if last is not None:
        names = [_name(last["job_id"], chunk) for chunk in range(last["chunks"])]
        if any(shown.get(name, {}).get("number", 0) < last["number"] for name in names):
            shown |= {row["item"]: row for row in rows.settled(names)}
    jobs: Jobs = defaultdict(list)
    for _, row in sorted(shown.items()):
        jobs[row["job_id"]].append(row)
    return last, jobs


def _write(
    rows: Rows,
    wanted: Assignment,
    chunks: list[list[str]],
    last: Item | None,
    jobs: Jobs,
    now: datetime,
    noted: list[Item],
    max_items: int,
) -> bool:
    number = last["number"] if last else 0
    claim_number = {"number": number + 1, "job_id": wanted.job_id, "chunks": len(chunks)}
    until = to_micros(wanted.until)
    job: dict[str, Any] = {"job_id": wanted.job_id, "partition_id": wanted.partition_id, "until": until}
    written = {
        _name(wanted.job_id, at): {**job, "number": number + 1, "filenames": names} for at, names in enumerate(chunks)
    }
    mine = [row["item"] for row in jobs.get(wanted.job_id, ()) if row["item"] not in written]
    ended = [
        row["item"]
        for job_id, items in jobs.items()
        if job_id != wanted.job_id and items[0]["until"] <= to_micros(now)
        for row in items
    ]
    if 1 + len(written) + len(mine) + len(noted) > max_items:
        raise InvalidInput(f"{len(wanted.filenames)} files are too many for one job", hint="make smaller jobs")
    parts = [_next_number(rows, claim_number, number)]
    parts += [rows.put(item, values) for item, values in written.items()] + noted
    parts += [rows.delete(item) for item in (*mine, *ended)][: max_items - len(parts)]
    lost = rows.db.transact(parts)
    if lost is None:
        return True
    met = lost.items[0] or {}
    return all(met.get(name) == value for name, value in claim_number.items()) and _is_there(rows, written)


def _next_number(rows: Rows, values: Item, expected: int) -> Item:
    change = "SET #number = :number, #job_id = :job_id, #chunks = :chunks"
    if expected:
        return rows.update(CLAIMS, change, "#number = :expected", expected=expected, **values)
    return rows.update(CLAIMS, change, "attribute_not_exists(#item)", **values)


def _is_there(rows: Rows, written: dict[str, Item]) -> bool:
    """Return whether exactly these items are there: a claim whose answer was lost, longer than its token counts."""
    found = {row["item"]: row for row in rows.settled(written)}
    return all(found.get(item, {}).get(name) == value for item, row in written.items() for name, value in row.items())


def _holds(chunk: Item, wanted: Assignment, now: datetime) -> bool:
    return (
        chunk["until"] > to_micros(now)
        and chunk["partition_id"] == wanted.partition_id
        and not set(wanted.filenames).isdisjoint(chunk["filenames"])
    )


def _name(job_id: str, chunk: int) -> str:
    return f"{JOB}{job_id}#{chunk:04d}"


def _chunks(wanted: Assignment) -> list[list[str]]:
    """Return the names in lists that each fit in an item."""
    chunks: list[list[str]] = []
    room = 0
    for name in wanted.filenames:
        size = len(name.encode()) + 3
        if size > room:
            chunks.append([])
            room = CHUNK_BYTES
        chunks[-1].append(name)
        room -= size
    if len(chunks) * CHUNK_BYTES > CLAIM_BYTES:
        raise InvalidInput(f"{len(wanted.filenames)} files are too many for one job", hint="make smaller jobs")
    return chunks
