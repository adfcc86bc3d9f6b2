"""Listings of jobs: the newest runs of one table or of several, with their rates and what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal, get_args

from sleeper_nb.catalog.base import Catalog, TableEntry
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.jobs import KEPT_JOBS, Job
from sleeper_nb.report import Listing

Which = Literal["all", "running", "failed"]
SHOWN = 50
CLAIM_ENDED = "claim ended: its process is gone, and its inputs are free"
RUN_AGAIN = "a later run of the job added the rows: this one added nothing, and can add nothing any more"
OVER = frozenset({CLAIM_ENDED, RUN_AGAIN})
"""Why a job that is noted as running does not run, or does so in vain."""
_COLUMNS = (
    "state", "kind", "job", "partition", "files", "rows", "rows/s", "started", "duration", "snapshot", "reason",
)  # fmt: skip


def jobs_of(catalog: Catalog, table_id: str, which: Which, limit: int, now: datetime) -> tuple[Job, ...]:
    """Return the newest runs of a table's jobs; a compaction whose claim on its files has ended says so.

    Parameters
    ----------
    catalog, table_id
        Where the table is.
    which
        All, only those that have not ended, or only those that failed; a claim that ended counts as failed,
        and so does a load that a later run of the same id has overtaken.
    limit
        How many at most.
    now
        The moment at which claims are looked at.

    Raises
    ------
    InvalidInput
        When the limit is less than 1, or `which` is none of the three.
    """
    if limit < 1 or which not in get_args(Which):
        hint = "give a limit of 1 or more, and one of all, running and failed"
        raise InvalidInput(f"cannot list {limit} of the jobs {which!r}", hint=hint)
    asked = limit if which == "all" else KEPT_JOBS
    found = catalog.jobs(table_id, asked)
    if any(map(_needs_claim, found)):
        claims = {claim.job_id for claim in catalog.assignments(table_id, now)}
        lost = {(job.created, job.id) for job in found if _needs_claim(job) and job.id not in claims}
        # Read again behind the claims: a job is told to have ended before its claim is released.
        found = tuple(
            replace(job, reason=CLAIM_ENDED) if _needs_claim(job) and (job.created, job.id) in lost else job
            for job in catalog.jobs(table_id, asked)
        )
    found = _without_overtaken(found)
    return tuple(job for job in found if which == "all" or _is_one(job, which))[:limit]


def _without_overtaken(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return jobs, newest first; of a load that seems to run although a later run of its id is done, it is said."""
    done: set[str] = set()
    told = []
    for job in jobs:
        overtaken = job.kind != "compaction" and not job.ended and job.id in done
        told.append(replace(job, reason=RUN_AGAIN) if overtaken else job)
        if job.state == "FINISHED":
            done.add(job.id)
    return tuple(told)


def _needs_claim(job: Job) -> bool:
    return job.kind == "compaction" and not job.ended


def _is_one(job: Job, which: Which) -> bool:
    lost = job.state == "FAILED" or job.reason in OVER
    return lost if which == "failed" else not job.ended and not lost


def listing(title: str, jobs: Sequence[tuple[TableEntry, Job]], now: datetime, *, with_table: bool) -> Listing[Job]:
    """Return jobs as a table, one row a run."""
    cells = tuple(((entry.name,) if with_table else ()) + _cells(job, now) for entry, job in jobs)
    columns = (("table",) if with_table else ()) + _COLUMNS
    return Listing(tuple(job for _, job in jobs), columns, cells, title, "" if jobs else "no job")


def newest(jobs: Iterable[tuple[TableEntry, Job]], limit: int) -> list[tuple[TableEntry, Job]]:
    """Return the newest runs of several tables, newest first."""
    return sorted(jobs, key=lambda one: (one[1].created, one[1].id), reverse=True)[:limit]


def _cells(job: Job, now: datetime) -> tuple[object, ...]:
    rate, rows = job.rows_per_second, job.rows_written if job.rows_read is None else job.rows_read
    if job.ended or job.started is None or job.reason in OVER:
        seconds = job.seconds
    else:
        seconds = max(0.0, (now - job.started).total_seconds())
    return (
        job.state, job.kind, job.id, ", ".join(job.partition_ids), job.files or None, rows,
        None if rate is None else round(rate), job.started, None if seconds is None else duration(seconds),
        job.snapshot_id, job.reason,
    )  # fmt: skip


def duration(seconds: float) -> str:
    """Return a time span as text: ``0.25 s``, ``12.3 s``, ``4 min 5 s``, ``2 h 3 min``."""
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
