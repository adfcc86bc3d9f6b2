"""Records of jobs (the runs of ingest and compaction with their state and outcome), and leases on versions.

A lease is a reader's hold on a version: until it ends, garbage collection keeps the files of that version. A service
lease is the right of one process to do an instance's regular work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.report import Grid, Report, StateWord, counted

JobKind = Literal["ingest", "bulk-import", "compaction", "change"]
JobState = Literal["CREATED", "RUNNING", "FINISHED", "FAILED", "CANCELLED"]
"""The states of Sleeper's reports, except that `RUNNING` is ``IN_PROGRESS`` there."""
ENDED = frozenset({"FINISHED", "FAILED", "CANCELLED"})
KEPT_TIME = timedelta(days=7)
KEPT_JOBS = 5000
"""How long, and how many of, a table's job records are kept; ids that must not be reused are kept for ever."""
MOST_ID = 500
PUBLISHED = "published as Iceberg"
"""The purpose of the leases of published versions: other engines may read their files at any time."""
_MOST_REASON = 300


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Job(Report):
    """One run of a job on one table; running the same id again makes another record.

    Parameters
    ----------
    id
        The id of the job; together with `created` it identifies the run.
    kind
        The kind of work.
    state
        `CREATED` until it begins, `RUNNING` until it ends.
    created, started, finished
        UTC; None until it happens.
    partition_ids
        The partitions that it works on; empty when they are not known in advance.
    files
        Its input files.
    rows_read, rows_written
        None until they are known.
    snapshot_id
        The snapshot that it made.
    reason
        Why the job failed or was cancelled, in one line; of a load or change that runs, in which process; of a load
        that kept rows back, in which file.
    author
        Who ran it.
    """

    id: str
    kind: JobKind
    state: JobState
    created: datetime
    started: datetime | None = None
    finished: datetime | None = None
    partition_ids: tuple[str, ...] = ()
    files: int = 0
    rows_read: int | None = None
    rows_written: int | None = None
    snapshot_id: int | None = None
    reason: str | None = None
    author: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self.state in ENDED

    @property
    def seconds(self) -> float | None:
        """How long it ran, in seconds; None until it has ended."""
        if self.started is None or self.finished is None:
            return None
        return (self.finished - self.started).total_seconds()

    @property
    def rows_per_second(self) -> float | None:
        """Rows per second: rows read, or rows written if the rows read are unknown."""
        rows = self.rows_written if self.rows_read is None else self.rows_read
        return rows / self.seconds if rows is not None and self.seconds else None

    def running(self, now: datetime) -> Job:
        """Return the job as running."""
        return replace(self, state="RUNNING", started=self.started or now)

    def done(self, now: datetime, *, rows_read: int | None, rows_written: int | None, snapshot_id: int | None) -> Job:
        """Return the job as finished."""
        return replace(
            self, state="FINISHED", started=self.started or self.created, finished=now, reason=None,
            rows_read=rows_read, rows_written=rows_written, snapshot_id=snapshot_id,
        )  # fmt: skip

    def failed(self, now: datetime, reason: str) -> Job:
        """Return the job as failed, with the first line of the reason."""
        return replace(self, state="FAILED", finished=now, reason=_one_line(reason))

    def cancelled(self, now: datetime, reason: str) -> Job:
        """Return the job as cancelled, with the first line of the reason."""
        return replace(self, state="CANCELLED", finished=now, reason=_one_line(reason))

    def grid(self) -> Grid:
        """Return the run as a card."""
        facts = (
            ("state", StateWord(self.state)),
            ("partition", ", ".join(self.partition_ids)),
            ("files", self.files or None),
            ("rows read", self.rows_read),
            ("rows written", self.rows_written),
            ("started", self.started),
            ("finished", self.finished),
            ("snapshot", self.snapshot_id),
            ("reason", self.reason),
        )
        return Grid(("", ""), tuple(fact for fact in facts if fact[1] not in {None, ""}), f"{self.kind} {self.id}")


def _one_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _MOST_REASON else line[: _MOST_REASON - 1] + "…"


def check_job_id(job_id: str) -> str:
    """Return a job id given by a user if it is valid.

    `InvalidInput` when it is empty, longer than 500 bytes in UTF-8, or not one printable line.
    """
    is_one_line = isinstance(job_id, str) and bool(job_id.strip()) and job_id.isprintable()
    if not is_one_line or len(job_id.encode()) > MOST_ID:
        hint = f"use one line of text, such as 2026-11-21/flights, of at most {counted(MOST_ID, 'byte')}"
        raise InvalidInput(f"{job_id!r} is not a valid job id", hint=hint)
    return job_id


@dataclass(frozen=True, slots=True)
class DoneBefore:
    """What a run of a job finds that was done before: the version made then, or the current one if that has expired."""

    snapshot: Snapshot
    note: str


@dataclass(frozen=True, slots=True)
class Lease:
    """One reader's hold on one version of a table.

    Parameters
    ----------
    id
        Unique to the lease.
    snapshot_id
        The version that is read.
    since, until
        When it began, and when it ends unless its reader renews it, UTC.
    purpose
        The kind of read: ``scan``, ``sql``, ``export``, ``stream``, ``rollback``; or `PUBLISHED`.
    author
        Who holds the lease.
    """

    id: str
    snapshot_id: int
    since: datetime
    until: datetime
    purpose: str
    author: str | None = None

    def has_ended(self, now: datetime) -> bool:
        """Return whether the lease has ended."""
        return self.until <= now

    @property
    def is_published(self) -> bool:
        """Whether no reader of this package holds it: the version is published for other engines."""
        return self.purpose == PUBLISHED


@dataclass(frozen=True, slots=True)
class ServiceLease:
    """The right of one process to be the only one that does some regular work on an instance, until a moment."""

    service: str  # the work, such as ``maintain``
    owner: str  # unique to one run of the process
    holder: str  # the process in words, for others that wait for the lease: its machine and its number
    # since, until: when the owner took the lease, and when it ends unless the owner renews it, UTC
    since: datetime
    until: datetime
