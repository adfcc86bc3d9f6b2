"""Listings of jobs: the newest runs of one table or of several, with their rates and what became of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Literal, get_args

from sleeper_nb.catalog.catalog_base import Catalog, TableEntry
from sleeper_nb.errors import (
    Cancelled,
    InvalidInput,
    JobDone,
    SleeperError,
    StorageError,
)
from sleeper_nb.model.jobs import KEPT_JOBS, KEPT_TIME, Job, JobKind, MadeBefore
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.report import Listing
from sleeper_nb.state_store.state_store_base import StateStore

# Tracking: what the catalog is told of jobs, from the claim on their files to their end.


class JobTracker:
    """Keeps the records of some jobs of one table, each told of by one thread at a time.

    Records only tell: when one cannot be written, the work goes on, and the next word of the job writes it again.

    Parameters
    ----------
    store
        The table's.
    author
        Who runs the jobs.
    """

    def __init__(self, store: StateStore, author: str | None = None) -> None:
        self._store, self._author = store, author
        self._jobs: dict[str, Job] = {}
        self._written: dict[str, Job] = {}

    def created(self, job_id: str, kind: JobKind, *, partition_ids: tuple[str, ...] = (), files: int = 0) -> Job:
        """Return the first record of a job, for who writes it together with the claim on its files."""
        now = self._store.clock.now()
        job = Job(
            id=job_id, kind=kind, state="CREATED", created=now, partition_ids=partition_ids, files=files,
            author=self._author,
        )  # fmt: skip
        self._jobs[job_id] = job
        return job

    def refused(self, job_id: str) -> None:
        """Forget a job that was never written down: another one has its files."""
        self._jobs.pop(job_id, None)

    def began(self, job_id: str) -> None:
        """Tell that a job runs."""
        self._tell(self._jobs[job_id].running(self._store.clock.now()))

    def finished(self, job_id: str, *, rows_read: int | None, rows_written: int, snapshot_id: int | None) -> None:
        """Tell that a job did what it was to do."""
        now = self._store.clock.now()
        done = self._jobs[job_id].done(now, rows_read=rows_read, rows_written=rows_written, snapshot_id=snapshot_id)
        self._tell(done)

    def failed(self, job_id: str, reason: str) -> None:
        """Tell that one job failed."""
        self._tell(self._jobs[job_id].failed(self._store.clock.now(), reason))

    def cancelled(self, job_id: str, reason: str) -> None:
        """Tell that one job was given up."""
        self._tell(self._jobs[job_id].cancelled(self._store.clock.now(), reason))

    def ended_by(self, error: BaseException) -> None:
        """Tell what became of all jobs that have not ended, when an error or an interrupt ends the whole work."""
        now = self._store.clock.now()
        reason = error.message if isinstance(error, SleeperError) else repr(error)
        for job in list(self._jobs.values()):
            if job.ended:
                self._tell(job)
            elif isinstance(error, Cancelled) or not isinstance(error, Exception):
                self._tell(job.cancelled(now, "on request" if isinstance(error, Cancelled) else "interrupted"))
            elif job.started is None:
                self._tell(job.cancelled(now, f"not begun, since the run failed: {reason}"))
            else:
                self._tell(job.failed(now, reason))

    def _tell(self, job: Job) -> None:
        self._jobs[job.id] = job
        if self._written.get(job.id) == job:
            return
        with contextlib.suppress(StorageError):
            self._store.catalog.put_job(self._store.table_id, job)
            self._written[job.id] = job


def forget_old_jobs(store: StateStore) -> None:
    """Forget records of jobs that are old, or too many; ids that must not be used twice stay."""
    with contextlib.suppress(StorageError):
        store.catalog.prune_jobs(store.table_id, store.clock.now() - KEPT_TIME, KEPT_JOBS)


def tracked(store: StateStore, kind: JobKind, job_id: str, author: str | None, add: Callable[[], Snapshot]) -> Snapshot:
    """Do what adds rows in one commit, and keep a record of it."""
    before = store.head().id
    tracker = JobTracker(store, author)
    tracker.created(job_id, kind)
    tracker.began(job_id)
    try:
        snapshot = add()
    except JobDone as error:
        tracker.cancelled(job_id, f"{error.message}: nothing was added")
        raise
    except BaseException as error:
        tracker.ended_by(error)
        raise
    made = snapshot.id > before  # there may have been no rows
    rows = snapshot.added_rows if made else 0
    tracker.finished(job_id, rows_read=rows, rows_written=rows, snapshot_id=snapshot.id if made else None)
    forget_old_jobs(store)
    return snapshot


def added_once(store: StateStore, job_id: str, add: Callable[[], Snapshot]) -> Snapshot:
    """Do what adds rows unless the job of the id has added its rows before; then return a note of that.

    Parameters
    ----------
    store, job_id
        The table's, and the job's id.
    add
        Commits under the id, which is what keeps two that do this at once apart.

    Returns
    -------
    The new snapshot; or as `MadeBefore` the one that the job made, the current one where that has expired.
    """
    done = store.catalog.snapshot_of_job(store.table_id, job_id)
    if done is None:
        try:
            return add()
        except JobDone:
            done = store.catalog.snapshot_of_job(store.table_id, job_id)
    return _made_before(store, job_id, done)


def _made_before(store: StateStore, job_id: str, done: int | None) -> MadeBefore:
    first = next((snapshot for snapshot in store.catalog.snapshots(store.table_id) if snapshot.id == done), None)
    shown = first or store.head()
    when = f"job {job_id!r} was done before, in snapshot {done:,}"
    if first is None:
        when += f", which has expired; the table is at snapshot {shown.id:,}"
    values = {field.name: getattr(shown, field.name) for field in fields(Snapshot)}
    return MadeBefore(**values, note=f"{when}. Nothing was added")


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
        claims = {claim.job_id for claim in catalog.claims(table_id, now)}
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
