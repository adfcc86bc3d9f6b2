"""What a watch of jobs knows and says, without any widget: how far each is, how quick, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.operations.job_tracking import STALE_REASONS, duration, jobs_of
from sleeper_nb.report import SHOWN_ROWS, Grid, Report, counted

if TYPE_CHECKING:
    from sleeper_nb.catalog.catalog_base import FileClaim, TableEntry
    from sleeper_nb.model.jobs import Job
    from sleeper_nb.progress import BackgroundJob
    from sleeper_nb.session import Session

MOST_JOBS = 500
"""So many of a table's newest runs are looked at."""
_COLUMNS = ("table", "state", "kind", "job", "partition", "rows", "rows/s", "left")


@dataclass(frozen=True, slots=True)
class JobSeen:
    """One run of a job and the rows that it reads: those of its inputs while it runs, None where nobody knows them."""

    table: str
    job: Job
    rows: int | None

    @property
    def runs(self) -> bool:
        """Whether more will come of it."""
        return not self.job.ended and self.job.reason not in STALE_REASONS

    @property
    def finished(self) -> bool:
        """Whether it did what it was to do."""
        return self.job.state == "FINISHED"


@dataclass(frozen=True, slots=True, repr=False)
class JobsSeen(Report):
    """How far some jobs are, at one moment.

    Parameters
    ----------
    title
        What is watched.
    jobs
        The runs, the newest first.
    now
        The moment.
    running
        Whether anything more will come.
    stoppable
        Whether this session does the work, so that it can be stopped here.
    reason
        Why the work as a whole ended early; None where it did not.
    nothing
        What is said when there was nothing to do.
    """

    title: str
    jobs: tuple[JobSeen, ...]
    now: datetime
    running: bool
    stoppable: bool = False
    reason: str | None = None
    nothing: str = "no job runs"

    @property
    def finished(self) -> int:
        """How many did what they were to do."""
        return sum(one.finished for one in self.jobs)

    @property
    def failed(self) -> int:
        """How many failed, or were left by their process."""
        return sum(not one.runs and one.job.state not in {"FINISHED", "CANCELLED"} for one in self.jobs)

    @property
    def cancelled(self) -> int:
        """How many were stopped."""
        return sum(one.job.state == "CANCELLED" for one in self.jobs)

    @property
    def went_wrong(self) -> bool:
        """Whether anything failed or was stopped."""
        return bool(self.reason is not None or self.failed or self.cancelled)

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return not self.running and not self.jobs and self.reason is None

    @property
    def rows(self) -> tuple[int, int]:
        """How many rows were read by jobs that have finished, and how many there are for all, as far as is known."""
        return sum(one.rows or 0 for one in self.jobs if one.finished), sum(one.rows or 0 for one in self.jobs)

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1: in rows, or in jobs where rows are not known."""
        known = all(one.rows for one in self.jobs)
        done, total = self.rows if known else (self.finished, len(self.jobs))
        return done / total if total else 0.0

    @property
    def rate(self) -> float | None:
        """Rows a second of all jobs together, since the first began; None until one has finished."""
        began = [one.job.started for one in self.jobs if one.job.started is not None]
        last = self.now
        if not self.running:
            ends = (one.job.finished for one in self.jobs if one.finished)
            last = max((end for end in ends if end is not None), default=self.now)
        seconds = (last - min(began)).total_seconds() if began else 0.0
        return self.rows[0] / seconds if seconds > 0 and self.rows[0] else None

    @property
    def said(self) -> str:
        """``2 of 3 jobs · 1,200 of 3,600 rows · 600 rows/s · 4.00 s left``; of work that ended early, why."""
        if not self.jobs:
            return self.reason or ("looking for work" if self.running else self.nothing)
        count = f"{self.finished:,} of {counted(len(self.jobs), 'job')}"
        if self.reason is not None:
            return f"{self.reason}: {count} {'is' if len(self.jobs) == 1 else 'are'} committed"
        (done, total), rate = self.rows, self.rate
        known = all(one.rows is not None for one in self.jobs)
        to_come = sum(one.rows or 0 for one in self.jobs if one.runs)
        left = duration(to_come / rate) if self.running and rate and to_come else ""
        parts = (
            count,
            (f"{done:,} of {counted(total, 'row')}" if known else counted(done, "row")) if total else "",
            f"{rate:,.0f} rows/s" if rate else "",
            f"{left} left" if left else "",
            f"{self.failed:,} failed" if self.failed else "",
            f"{self.cancelled:,} cancelled" if self.cancelled else "",
        )
        return " · ".join(filter(None, parts))

    def grid(self) -> Grid:
        """Return a row for each job, and below them what they come to."""
        rows = tuple(self._cells(one) for one in self.jobs[:SHOWN_ROWS])
        cut = f"the newest {SHOWN_ROWS} of {len(self.jobs):,} jobs" if len(self.jobs) > SHOWN_ROWS else ""
        footer = " · ".join(filter(None, (self.said, cut)))
        return Grid(_COLUMNS if rows else ("",), rows, self.title, footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the columns of all jobs, each with its values."""
        cells = [self._cells(one) for one in self.jobs]
        return {name: [row[i] for row in cells] for i, name in enumerate(_COLUMNS)}

    def _cells(self, one: JobSeen) -> tuple[object, ...]:
        job, rate = one.job, one.job.rows_per_second
        state = job.state if job.reason is None else f"{job.state}: {job.reason}"
        partitions, shown = ", ".join(job.partition_ids), None if rate is None else round(rate)
        return one.table, state, job.kind, job.id, partitions, one.rows, shown, self._left(one)

    def _left(self, one: JobSeen) -> str | None:
        """Return how long a job may take still, if it is as quick as those that have finished."""
        ended = [(e.rows, e.job.seconds) for e in self.jobs if e.finished and e.rows and e.job.seconds]
        if not one.runs or one.job.started is None or not one.rows or not ended:
            return None
        rate = sum(rows for rows, _ in ended) / sum(seconds or 0.0 for _, seconds in ended)
        return duration(max(0.0, one.rows / rate - (self.now - one.job.started).total_seconds()))


class JobsModel:
    """Looks at the jobs of a table, or of all: those that run, and those that ended while they were watched.

    Parameters
    ----------
    session
        Whose tables.
    table
        The table; None for all.
    work
        The work of this session that is watched until it ends; without it, whatever runs is watched until nothing does.
    since
        Jobs that were made from this moment on count, also when they have ended; now, when None.
    """

    def __init__(
        self,
        session: Session,
        table: str | None = None,
        work: BackgroundJob[Any] | None = None,
        since: datetime | None = None,
    ) -> None:
        self._session, self._work = session, work
        self._entry = None if table is None else session.table(table).entry
        self._since = session.components.clock.now() if since is None else since
        self._rows: dict[tuple[datetime, str], int | None] = {}  # of each run that was seen before it ended

    def look(self) -> JobsSeen:
        """Return how far the jobs are now."""
        ended = self._work is not None and self._work.done  # before the jobs: what it did last is seen then
        c, own = self._session.components, self._own()
        now = c.clock.now()
        entries = c.catalog.tables() if self._entry is None else (self._entry,)
        jobs = [one for entry in entries for one in self._jobs(entry, now)]
        newest = tuple(sorted(jobs, key=lambda one: (one.job.created, one.job.id), reverse=True))
        running = any(one.runs for one in newest) if self._work is None else not ended
        title = f"jobs of {self._session.instance if self._entry is None else self._entry.name}"
        if self._work is None:
            return JobsSeen(title, newest, now, running, bool(own))
        reason = self._work.reason if ended else None
        return JobsSeen(self._work.title, newest, now, running, bool(own), reason, "nothing to merge")

    def stop(self) -> int:
        """Cancel what this session does of it, as an interrupt would; return how much work that is."""
        own = self._own()
        for work in own:
            work.cancel(wait=False)
        return len(own)

    def _own(self) -> tuple[BackgroundJob[Any], ...]:
        if self._work is not None:
            return () if self._work.done else (self._work,)
        table_id = None if self._entry is None else self._entry.id
        return self._session.components.background.running(table_id)

    def _jobs(self, entry: TableEntry, now: datetime) -> list[JobSeen]:
        catalog = self._session.components.catalog
        found = jobs_of(catalog, entry.id, "all", MOST_JOBS, now)
        unknown = {job.id for job in found if not job.ended and (job.created, job.id) not in self._rows}
        claims = [claim for claim in catalog.claims(entry.id, now) if claim.job_id in unknown] if unknown else []
        expected = self._expected(entry, claims) if claims else {}
        seen = []
        for job in found:
            run = job.created, job.id
            one = JobSeen(entry.name, job, job.rows_written if job.rows_read is None else job.rows_read)
            if one.runs:
                self._rows.setdefault(run, expected.get(job.id))
            if run in self._rows or job.created >= self._since:
                seen.append(one if one.rows is not None else JobSeen(entry.name, job, self._rows.get(run)))
        return seen

    def _expected(self, entry: TableEntry, claims: list[FileClaim]) -> dict[str, int]:
        """Return how many rows the inputs of jobs hold, as far as they are files of the current version."""
        files = self._session.table(entry.name).state.files.active
        rows = {}
        for claim in claims:
            own = pc.and_(
                pc.equal(files["partition_id"], claim.partition_id),
                pc.is_in(files["filename"], pa.array(claim.filenames, pa.string())),
            )
            rows[claim.job_id] = int(pc.sum(files["rows"].filter(own)).as_py() or 0)
        return rows
