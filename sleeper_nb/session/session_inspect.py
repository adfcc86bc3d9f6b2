"""`SessionInspect`: the jobs and schemas of all tables, and how far jobs are, read again while they run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import FileClaim, TableEntry
from sleeper_nb.errors import SleeperError
from sleeper_nb.model.jobs import Job
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import BackgroundJob
from sleeper_nb.read.job_tracking import LISTED_JOBS, STALE_REASONS, Which, jobs_of, list_jobs, newest_jobs
from sleeper_nb.report import SHOWN_ROWS, Grid, Listing, Report, StateWord, cell_text, counted, duration_text
from sleeper_nb.session.table_opener import TableOpener

logger = logging.getLogger(__name__)

MOST_JOBS = 500
"""The most runs of a table that are read, the newest."""
_COLUMNS = ("table", "kind", "state", "partition", "rows", "rows/s", "left", "job")
_SHORT = 8  # characters of the id of a job that are shown


@dataclass(frozen=True, slots=True)
class JobSeen:
    """One run of a job and its rows: those of its inputs while it runs, None where they are not known."""

    table: str
    job: Job
    rows: int | None

    @property
    def runs(self) -> bool:
        """Whether it is still running."""
        return not self.job.ended and self.job.reason not in STALE_REASONS

    @property
    def finished(self) -> bool:
        """Whether it succeeded."""
        return self.job.state == "FINISHED"


@dataclass(frozen=True, slots=True, repr=False)
class JobsSeen(Report):
    """The progress of some jobs at one moment.

    Parameters
    ----------
    title
        What is watched.
    jobs
        The runs, the newest first.
    now
        The moment.
    running
        Whether any work is still running.
    stoppable
        Whether this session does the work and can stop it.
    reason
        Why the work ended early; None when it did not.
    nothing
        The text when there was nothing to do.
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
        """The rows of finished jobs and of all jobs, as far as they are known."""
        return sum(one.rows or 0 for one in self.jobs if one.finished), sum(one.rows or 0 for one in self.jobs)

    @property
    def share(self) -> float:
        """The completed share, from 0 to 1: of the rows, or of the jobs where rows are not known."""
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
    def summary(self) -> str:
        """``2 of 3 jobs · 1,200 of 3,600 rows · 600 rows/s · 4 s left``; for work that ended early, why."""
        if not self.jobs:
            return self.reason or ("looking for work" if self.running else self.nothing)
        count = f"{self.finished:,} of {counted(len(self.jobs), 'job')}"
        if self.reason is not None:
            return f"{self.reason}: {count} {'is' if len(self.jobs) == 1 else 'are'} committed"
        (done, total), rate = self.rows, self.rate
        known = all(one.rows is not None for one in self.jobs)
        to_come = sum(one.rows or 0 for one in self.jobs if one.runs)
        left = _about(to_come / rate) if self.running and rate and to_come else ""
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
        shown = self.jobs[:SHOWN_ROWS]
        said = 2 if all(self.title == f"{one.job.kind} of {one.table}" for one in shown) else 0
        rows = tuple((*self._cells(one)[said:-1], one.job.id[:_SHORT]) for one in shown)
        cut = f"the newest {SHOWN_ROWS} of {len(self.jobs):,} jobs" if len(self.jobs) > SHOWN_ROWS else ""
        footer = " · ".join(filter(None, (self.summary, cut)))
        return Grid(_COLUMNS[said:] if rows else ("",), rows, self.title, footer)

    def to_dict(self) -> dict[str, Any]:
        cells = [self._cells(one) for one in self.jobs]
        return {name: [row[i] for row in cells] for i, name in enumerate(_COLUMNS)}

    def _cells(self, one: JobSeen) -> tuple[object, ...]:
        job, rate = one.job, one.job.rows_per_second
        state = StateWord(job.state) if job.reason is None else f"{cell_text(StateWord(job.state))}: {job.reason}"
        partitions, shown = ", ".join(job.partition_ids), None if rate is None else round(rate)
        return one.table, job.kind, state, partitions, one.rows, shown, self._left(one), job.id

    def _left(self, one: JobSeen) -> str | None:
        """Return the remaining time of a job at the speed of those that have finished."""
        ended = [(e.rows, e.job.seconds) for e in self.jobs if e.finished and e.rows and e.job.seconds]
        if not one.runs or one.job.started is None or not one.rows or not ended:
            return None
        rate = sum(rows for rows, _ in ended) / sum(seconds or 0.0 for _, seconds in ended)
        return _about(max(0.0, one.rows / rate - (self.now - one.job.started).total_seconds()))


def _about(seconds: float) -> str:
    """Return a time to come, to whole seconds."""
    return f"{seconds:.0f} s" if seconds < 59.5 else duration_text(seconds)


class JobProgress:
    """Tells how far the jobs of one table or of all are: those that run, and those that ended meanwhile.

    Made by `Session.inspect.job_progress`, whose parameters say which.
    """

    def __init__(
        self,
        tables: TableOpener,
        instance: str,
        entry: TableEntry | None,
        work: BackgroundJob[Any] | None,
        since: datetime | None,
    ) -> None:
        self._tables, self._instance, self._entry, self._work = tables, instance, entry, work
        began = None if work is None else work.began
        self._since = since or began or tables.components.clock.now()
        self._rows: dict[tuple[datetime, str], int | None] = {}  # of each run that was read before it ended

    def wait(self, seconds: float) -> None:
        """Wait between two looks."""
        self._tables.components.clock.sleep(seconds)

    def look(self) -> JobsSeen:
        """Return the progress of the jobs now."""
        ended = self._work is not None and self._work.done  # read before the jobs, so that its last job is among them
        c, own = self._tables.components, self._own()
        now = c.clock.now()
        entries = c.catalog.tables() if self._entry is None else (self._entry,)
        jobs = [one for entry in entries for one in self._jobs(entry, now)]
        newest = tuple(sorted(jobs, key=lambda one: (one.job.created, one.job.id), reverse=True))
        running = any(one.runs for one in newest) if self._work is None else not ended
        title = f"jobs of {self._instance if self._entry is None else self._entry.name}"
        if self._work is None:
            return JobsSeen(title, newest, now, running, bool(own))
        reason = self._work.reason if ended else None
        return JobsSeen(self._work.title, newest, now, running, bool(own), reason, "nothing to merge")

    def stop(self) -> int:
        """Cancel the work of this session, as an interrupt does; return how many pieces of work were cancelled."""
        own = self._own()
        for work in own:
            work.cancel(wait=False)
        return len(own)

    def _own(self) -> tuple[BackgroundJob[Any], ...]:
        if self._work is not None:
            return () if self._work.done else (self._work,)
        table_id = None if self._entry is None else self._entry.id
        return self._tables.components.background.running(table_id)

    def _jobs(self, entry: TableEntry, now: datetime) -> list[JobSeen]:
        catalog = self._tables.components.catalog
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
        """Return the rows of the inputs of each job, as far as they are files of the current version."""
        files = self._tables.store_of(entry).load().files.active
        rows = {}
        for claim in claims:
            own = pc.and_(
                pc.equal(files["partition_id"], claim.partition_id),
                pc.is_in(files["filename"], pa.array(claim.filenames, pa.string())),
            )
            rows[claim.job_id] = int(pc.sum(files["rows"].filter(own)).as_py() or 0)
        return rows


class SessionInspect:
    """Lists what all tables of an instance have; made by `Session.inspect`."""

    def __init__(self, tables: TableOpener, instance: str) -> None:
        self._tables, self._instance = tables, instance

    @checked
    def jobs(self, which: Which = "all", *, limit: int = LISTED_JOBS) -> Listing[Job]:
        """Return the newest runs of the jobs of all tables, newest first; otherwise as `Table.inspect.jobs`."""
        catalog, now = self._tables.components.catalog, self._tables.components.clock.now()
        runs = ((entry, job) for entry in catalog.tables() for job in jobs_of(catalog, entry.id, which, limit, now))
        return list_jobs(f"jobs of {self._instance}", newest_jobs(runs, limit), now, with_table=True)

    @checked
    def job_progress(
        self, table: str | None = None, work: BackgroundJob[Any] | None = None, since: datetime | None = None
    ) -> JobProgress:
        """Return what tells how far jobs are, whichever process runs them, and stops those of this session.

        Parameters
        ----------
        table
            The table whose jobs are watched; those of all tables when None.
        work
            Work in the background, as ``table.maintenance.start_compaction`` returns it: watched until it ends.
            None watches all jobs that run.
        since
            Jobs created at or after this moment count even when they have ended; when None, those of `work`, or those
            from now on.
        """
        entry = None if table is None else self._tables.entry(table)
        return JobProgress(self._tables, self._instance, entry, work, since)

    @property
    def identity(self) -> object:
        """Equal for two sessions that have the same instance open, by whatever address; None where that is unknown."""
        return self._tables.components.catalog.identity

    def schemas(self) -> Iterator[tuple[str, Schema]]:
        """Yield the name and the current schema of each table; a table whose schema cannot be read is left out."""
        catalog = self._tables.components.catalog
        heads = catalog.current_of_all()
        for entry in catalog.tables():
            if entry.id not in heads:
                continue
            head = heads[entry.id]
            try:
                yield entry.name, self._tables.store_of(entry).schema(head.schema_id, head.schema_checksum)
            except SleeperError as error:
                logger.debug("the schema of table %s cannot be read: %s", entry.name, error.message)
