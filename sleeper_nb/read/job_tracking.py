"""Track jobs: record the progress of ingests and compactions in the catalog, and list the newest runs.

`JobTracker` writes the records of compactions, `run_tracked` those of an ingest; `add_once` makes an ingest with a job
id safe to run again. `jobs_of` reads the records: a job that a record calls running may be dead, which it finds by the
job's claim, by a later run with the same id, or by its process, if that was one of this machine.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, TypeVar, get_args

from sleeper_nb.catalog.catalog_base import Catalog, TableEntry
from sleeper_nb.errors import Cancelled, ConfirmationNeeded, InvalidInput, JobDone, SleeperError, StorageError
from sleeper_nb.model.jobs import KEPT_JOBS, KEPT_TIME, DoneBefore, Job, JobKind
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.transactions import Rollback
from sleeper_nb.report import Listing, StateWord, duration_text
from sleeper_nb.state_store.state_store_base import StateStore

logger = logging.getLogger(__name__)


class JobTracker:
    """Records the state of jobs of one table in the catalog; each job is reported by one thread at a time.

    Records are only for information: when one cannot be written, the work goes on, and the next report of the job
    includes it.
    """

    def __init__(self, store: StateStore, author: str | None = None) -> None:
        self._store, self._author = store, author
        self._jobs: dict[str, Job] = {}
        self._written: dict[str, Job] = {}

    def created(
        self, job_id: str, kind: JobKind, now: datetime, *, partition_ids: tuple[str, ...] = (), files: int = 0
    ) -> Job:
        """Return the first record of a job; the caller writes it in the same step as the job's claim."""
        job = Job(
            id=job_id, kind=kind, state="CREATED", created=now, partition_ids=partition_ids, files=files,
            author=self._author, reason=None if kind == "compaction" else own_process(),
        )  # fmt: skip
        self._jobs[job_id] = job
        return job

    def refused(self, job_id: str) -> None:
        """Forget a job that was not recorded, as another job has claimed its files."""
        self._jobs.pop(job_id, None)

    def began(self, job_id: str, since: datetime | None = None) -> None:
        self._record(self._jobs[job_id].running(since or self._store.clock.now()))

    def finished(
        self,
        job_id: str,
        *,
        rows_read: int | None,
        rows_written: int,
        snapshot_id: int | None,
        outcome: str | None = None,
    ) -> None:
        """Record that a job finished; `snapshot_id` is None if it added no rows."""
        now = self._store.clock.now()
        done = self._jobs[job_id].done(now, rows_read=rows_read, rows_written=rows_written, snapshot_id=snapshot_id)
        self._record(replace(done, reason=outcome))

    def failed(self, job_id: str, reason: str) -> None:
        self._record(self._jobs[job_id].failed(self._store.clock.now(), reason))

    def cancelled(self, job_id: str, reason: str) -> None:
        self._record(self._jobs[job_id].cancelled(self._store.clock.now(), reason))

    def ended_by(self, error: BaseException) -> None:
        """Record how all unfinished jobs end, when an error or interrupt ends the whole run."""
        now = self._store.clock.now()
        reason = error.message if isinstance(error, SleeperError) else repr(error)
        for job in list(self._jobs.values()):
            if job.ended:
                self._record(job)
            elif isinstance(error, Cancelled) or not isinstance(error, Exception):
                self._record(job.cancelled(now, "on request" if isinstance(error, Cancelled) else "interrupted"))
            elif job.started is None:
                self._record(job.cancelled(now, f"not begun, since the run failed: {reason}"))
            else:
                self._record(job.failed(now, reason))

    def _record(self, job: Job) -> None:
        self._jobs[job.id] = job
        if self._written.get(job.id) == job:
            return
        try:
            self._store.catalog.put_job(self._store.table_id, job)
        except StorageError as error:
            table_id = self._store.table_id
            logger.warning("table %s: job %s (%s) not recorded: %s", table_id, job.id, job.state, error.message)
            return
        self._written[job.id] = job
        if job.state == "FAILED":
            logger.warning("table %s: %s job %s failed: %s", self._store.table_id, job.kind, job.id, job.reason)
        else:
            logger.debug("table %s: %s job %s is %s", self._store.table_id, job.kind, job.id, job.state)


def forget_old_jobs(store: StateStore) -> None:
    """Delete old and surplus job records; job ids that must not be used twice are kept."""
    try:
        store.catalog.prune_jobs(store.table_id, store.clock.now() - KEPT_TIME, KEPT_JOBS)
    except StorageError as error:  # the next job tries again
        logger.warning("table %s: cannot delete old job records: %s", store.table_id, error.message)


REMOVED = "removed by a purge"
"""Stands in place of the reason of a job: that may quote a key or a value of a row."""


def forget_reasons(store: StateStore) -> int:
    """Remove the reasons of all jobs of a table that have ended; return how many there were."""
    jobs = [job for job in store.catalog.jobs(store.table_id, KEPT_JOBS) if job.ended and job.reason is not None]
    jobs = [job for job in jobs if job.reason != REMOVED]
    for job in jobs:
        store.catalog.put_job(store.table_id, replace(job, reason=REMOVED))
    return len(jobs)


class _CommitReport(Protocol):
    """What a load or a change of rows did."""

    @property
    def snapshot(self) -> Snapshot | None:
        """The version that it made; None when no row was added or changed."""
        ...


AnyReport = TypeVar("AnyReport", bound=_CommitReport)


def run_tracked(
    store: StateStore,
    kind: JobKind,
    job_id: str,
    author: str | None,
    add: Callable[[], AnyReport],
    began: datetime | None = None,
    outcome: Callable[[], str] = str,
) -> AnyReport:
    """Call `add`, which adds rows in one commit, and record it as a job; return its report.

    `began` is when other processes began the work; now when None. `outcome` is what the record says once it is done.
    """
    tracker = JobTracker(store, author)
    tracker.created(job_id, kind, began or store.clock.now())
    tracker.began(job_id, began)
    try:
        report = add()
    except (JobDone, ConfirmationNeeded) as error:
        tracker.cancelled(job_id, f"{error.message}: nothing was changed")
        raise
    except BaseException as error:
        tracker.ended_by(error)
        raise
    made = report.snapshot
    rows = 0 if made is None else made.added_rows
    number = None if made is None else made.id
    tracker.finished(job_id, rows_read=rows, rows_written=rows, snapshot_id=number, outcome=outcome() or None)
    forget_old_jobs(store)
    return report


def add_once(store: StateStore, job_id: str, add: Callable[[], AnyReport]) -> AnyReport | DoneBefore:
    """Call `add`, which adds rows, unless a job with the same id has added its rows before.

    Parameters
    ----------
    add
        Commits rows with this id; of two commits with the same id, the second raises `JobDone`.

    Returns
    -------
    What `add` returns, unless the job was done before.
    """
    made = done_before(store, job_id)
    if made is not None:
        return made
    try:
        return add()
    except JobDone:
        logger.info("table %s: job %s was done by another process meanwhile", store.table_id, job_id)
        return _made_before(store, job_id, store.catalog.snapshot_of_job(store.table_id, job_id))


def done_before(store: StateStore, job_id: str) -> DoneBefore | None:
    """Return what a job would return because one with its id was done before; None when none was."""
    done = store.catalog.snapshot_of_job(store.table_id, job_id)
    return None if done is None else _made_before(store, job_id, done)


def _made_before(store: StateStore, job_id: str, done: int | None) -> DoneBefore:
    snapshots = store.catalog.snapshots(store.table_id)
    made = next((snapshot for snapshot in snapshots if snapshot.id == done), None)
    shown = made or store.head()
    note = f"job {job_id!r} was done before, in snapshot {done:,}"
    if made is None:
        note += f", which has expired; the table is at snapshot {shown.id:,}"
    return DoneBefore(shown, f"{note}{_since(snapshots, done or 0)}")


def _since(snapshots: Sequence[Snapshot], done: int) -> str:
    """Return what may have become of the rows of a job that was done, for users."""
    later = [each.id for each in snapshots if each.operation == Rollback.operation and each.id > done]
    if not later:
        return ". Nothing was changed"
    return (
        f". Nothing was changed.\nThe table was rolled back after that, in snapshot {max(later):,}: "
        "if that undid the job, use another job id to do it again"
    )


Which = Literal["all", "running", "failed"]
LISTED_JOBS = 50
"""How many runs a list of jobs shows by default."""
CLAIM_ENDED = "claim ended: its process has died, and its inputs are free again"
RUN_AGAIN = "a later run of the job did the work: this one changed nothing and cannot change anything any more"
PROCESS_ENDED = "its process has ended before the job did: history shows whether its rows were committed"
STALE_REASONS = frozenset({CLAIM_ENDED, RUN_AGAIN, PROCESS_ENDED})
"""Reasons why a job that is recorded as running has died, or runs in vain."""
_COLUMNS = (
    "state", "kind", "started", "duration", "rows", "rows/s", "files", "partition", "snapshot", "reason", "job",
)  # fmt: skip


def jobs_of(catalog: Catalog, table_id: str, which: Which, limit: int, now: datetime) -> tuple[Job, ...]:
    """Return the newest runs of a table's jobs, newest first.

    An unfinished compaction without a claim has the reason `CLAIM_ENDED`, an unfinished load or change whose id a later
    run has finished has the reason `RUN_AGAIN`, and one whose process has ended, on this machine, `PROCESS_ENDED`.

    `InvalidInput` when the limit is less than 1, or `which` is unknown.

    Parameters
    ----------
    which
        All runs, only running ones, or only failed ones; runs with one of these reasons count as failed.
    """
    if limit < 1 or which not in get_args(Which):
        hint = "give a limit of 1 or more, and one of all, running and failed"
        raise InvalidInput(f"cannot list {limit} jobs of the kind {which!r}", hint=hint)
    most = limit if which == "all" else KEPT_JOBS
    jobs = catalog.jobs(table_id, most)
    if dead := _dead(catalog, table_id, jobs, now):
        # Read again: a job is recorded as ended before its claim is released, and before its process ends.
        jobs = tuple(
            job if job.ended else replace(job, reason=dead.get((job.created, job.id), job.reason))
            for job in catalog.jobs(table_id, most)
        )
    jobs = _with_overtaken(jobs)
    return tuple(job for job in jobs if which == "all" or _is_in(job, which))[:limit]


def _dead(catalog: Catalog, table_id: str, jobs: Sequence[Job], now: datetime) -> dict[tuple[datetime, str], str]:
    """Return why some unfinished jobs may be dead, by when they were created and their ids."""
    claiming = [job for job in jobs if _needs_claim(job)]
    claimed = {claim.job_id for claim in catalog.claims(table_id, now)} if claiming else set()
    without_claim = {(job.created, job.id): CLAIM_ENDED for job in claiming if job.id not in claimed}
    return without_claim | {(job.created, job.id): PROCESS_ENDED for job in jobs if _has_ended_process(job)}


def _with_overtaken(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return jobs, newest first, with a reason for unfinished loads and changes whose id a later run has finished."""
    done: set[str] = set()
    marked = []
    for job in jobs:
        is_overtaken = job.kind != "compaction" and not job.ended and job.id in done
        marked.append(replace(job, reason=RUN_AGAIN) if is_overtaken else job)
        if job.state == "FINISHED":
            done.add(job.id)
    return tuple(marked)


_PROCESS = re.compile(r"process (\d+) of (.*) \(([\w-]+) (\d+)\)")


def own_process() -> str:
    """Return the words by which a record names this process, and by which its end can be seen on this machine."""
    number = os.getpid()
    began = _began(number)
    return f"process {number} of {socket.gethostname()}" + (f" ({_machine()} {began})" if began else "")


def _has_ended_process(job: Job) -> bool:
    found = None if job.ended else _PROCESS.fullmatch(job.reason or "")
    return found is not None and found[3] == _machine() and found[4] != _began(int(found[1]))


def _machine() -> str:
    """Return what identifies the processes that this one can see, until the machine starts anew; "" if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot[:13]}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:  # of another operating system
        return ""


def _began(number: int) -> str:
    """Return when a process of this machine began, in its ticks; "" when there is none, or that is unknown."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19] if _machine() else ""
    except (OSError, IndexError):
        return ""


def _needs_claim(job: Job) -> bool:
    return job.kind == "compaction" and not job.ended


def has_failed(job: Job) -> bool:
    """Return whether a run failed, or its process died, or it runs in vain."""
    return job.state == "FAILED" or job.reason in STALE_REASONS


def _is_in(job: Job, which: Which) -> bool:
    return has_failed(job) if which == "failed" else not job.ended and not has_failed(job)


def list_jobs(title: str, jobs: Sequence[tuple[TableEntry, Job]], now: datetime, *, with_table: bool) -> Listing[Job]:
    cells = tuple(((entry.name,) if with_table else ()) + _cells(job, now) for entry, job in jobs)
    columns = (("table",) if with_table else ()) + _COLUMNS
    return Listing(tuple(job for _, job in jobs), columns, cells, title, "" if jobs else "no jobs")


def newest_jobs(jobs: Iterable[tuple[TableEntry, Job]], limit: int) -> list[tuple[TableEntry, Job]]:
    return sorted(jobs, key=lambda pair: (pair[1].created, pair[1].id), reverse=True)[:limit]


def _cells(job: Job, now: datetime) -> tuple[object, ...]:
    rate, rows = job.rows_per_second, job.rows_written if job.rows_read is None else job.rows_read
    if job.ended or job.started is None or has_failed(job):
        seconds = job.seconds
    else:
        seconds = max(0.0, (now - job.started).total_seconds())
    state = "FAILED" if has_failed(job) else job.state  # a record that nobody ended still says RUNNING
    return (
        StateWord(state), job.kind, job.started, None if seconds is None else duration_text(seconds), rows,
        None if rate is None else round(rate), job.files or None, ", ".join(job.partition_ids), job.snapshot_id,
        _PROCESS.sub(r"process \1 of \2", job.reason or "") or None, job.id,
    )  # fmt: skip
