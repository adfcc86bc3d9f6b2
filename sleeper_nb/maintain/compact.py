"""Compaction: plan which files to merge, claim them, merge each job as a stream, check it, and commit it.

A job is safe for these reasons:

1. The plan is made from one state and skips files that another job has claimed.
2. The catalog grants a job the claim on its inputs, all or none, until a moment that the job's process keeps extending.
   When the process dies, the claim ends by itself and the files are free again.
3. The merge writes to a file that no snapshot references, named after the job; the order of its rows is checked while
   it is written.
4. The number of rows written must equal the number read; where the table's filters, iterator or aggregations drop rows,
   it must not be larger. Otherwise the job fails, its output is deleted, and its claim is released.
5. One commit replaces the inputs by the output, provided that all inputs are still there. A job whose claim has ended,
   or whose inputs are gone, is refused and its output is deleted.

The module reads from top to bottom: `compact` runs a whole compaction, `CompactionReport` says what it did, `run_job`
merges the files of one job, and `ClaimedJobs` claims, renews and commits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

from sleeper_nb.catalog.catalog_base import FileClaim, read_consistently
from sleeper_nb.errors import OutcomeUnknown, SleeperError, StateRuleBroken, StorageError
from sleeper_nb.load.ingest import discard_files, reference_to, write_sorted
from sleeper_nb.maintain.compaction_plan import CompactionJob, StrategySettings, claims_text, plan_compaction, reason
from sleeper_nb.model.processing import DataProcessing
from sleeper_nb.model.properties import ALL_DEFAULTS, TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot, files_text
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import ReplaceFileReferences
from sleeper_nb.progress import Progress, unchecked
from sleeper_nb.read.background import Renewing, prefetched
from sleeper_nb.read.job_tracking import JobTracker, forget_old_jobs
from sleeper_nb.read.read_rows import leaf_rows
from sleeper_nb.read.request_estimate import CommitCosts, RequestEstimate
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.report import Bytes, Grid, TableReport, counted, notes_line, rate_text
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.data_files import AS_DEFAULT, DataFile, DataFileSettings
from sleeper_nb.storage.filesystem import Storage

logger = logging.getLogger(__name__)

CLAIM_TIME = timedelta(minutes=20)
"""A claim ends this long after its last renewal; so also the longest time that a dead process blocks its inputs."""
RENEWED_EVERY = timedelta(minutes=5)
"""How often claims are renewed. At least 15 minutes always remain, more than the clocks of machines may differ."""
PREFETCHED_BATCHES = 16
"""How many merged batches may wait to be written."""

T = TypeVar("T")

JobRunner = Callable[[Sequence[CompactionJob], Schema], Generator[tuple[CompactionJob, DataFile | None]]]
"""Runs jobs and yields each with its output (None without rows) as it finishes; each engine has its own."""


def compact(
    store: StateStore,
    runner: JobRunner,
    *,
    strategy: str,
    settings: StrategySettings,
    dry_run: bool,
    progress: Progress,
    author: str | None = None,
    partition_id: str | None = None,
    excluded: Collection[str] = (),
    tracker: JobTracker | None = None,
    properties: TableProperties = ALL_DEFAULTS,
) -> CompactionReport:
    """Plan, claim, run and commit jobs. Each job is committed when it finishes; an interrupt loses only running jobs.

    `NotFound`, `InvalidInput` when the strategy or partition is unknown, or the partition is not a leaf.

    Parameters
    ----------
    runner
        Runs the jobs: in this process (`run_in_process`) or on Spark.
    """
    state, claims = _state_and_claims(store, consistent=dry_run)
    proposed, waiting, blocked_by = plan_compaction(
        state,
        strategy,
        settings,
        claims,
        store.clock,
        store.most_compaction_inputs,
        partition_id,
        excluded,
        DataProcessing.at(properties, state, store.clock.now()),
    )
    if dry_run:
        return CompactionReport(
            proposed, (), (), strategy, settings, waiting,
            dry_run=True, blocked_by=blocked_by, requests=_requests(store, state, proposed),
        )  # fmt: skip
    logger.debug("table %s: compaction plans %d jobs, %d wait", store.table_id, len(proposed), waiting)
    jobs: list[CompactionJob] = []
    claimed = ClaimedJobs(store, tracker or JobTracker(store, author), author)
    began = store.clock.now()
    try:
        jobs = [job for job in proposed if claimed.claim(job)]
        progress.update("compacting", 0, len(jobs))
        with closing(runner(jobs, state.schema)) as results:  # closing it after an error stops the running jobs
            for job, file in results:
                claimed.commit(job, file)
                seconds = (store.clock.now() - began).total_seconds()
                progress.update(f"compacting{rate_text(claimed.rows, seconds)}", claimed.settled, len(jobs))
    except BaseException as error:
        claimed.give_up(error, proposed)
        raise
    claimed.clean_up(jobs)
    snapshots = {job.id: snapshot for job, snapshot in claimed.done}
    finished = tuple(job for job in jobs if job.id in snapshots)
    return CompactionReport(
        finished,
        tuple(snapshots[job.id] for job in finished),
        tuple(claimed.refused),
        strategy,
        settings,
        waiting,
        dry_run=False,
        blocked_by=blocked_by,
    )


def _state_and_claims(store: StateStore, *, consistent: bool) -> tuple[TableState, tuple[FileClaim, ...]]:
    """Return the current state, and the claims of other jobs on its files.

    Claims are read before the state. In the other order, a job that commits in between would leave its inputs in the
    state and no claim on them. A job that claims in between does no harm, as each job claims its inputs again. Only a
    dry run needs both from the same moment (`consistent`); a run must not fail because claims change all the time.
    """

    def read_claims() -> tuple[FileClaim, ...]:
        return store.catalog.claims(store.table_id, store.clock.now())

    if consistent:
        return read_consistently(store.load, read_claims)
    claims = read_claims()
    return store.load(), claims


@dataclass(frozen=True, slots=True, repr=False)
class CompactionReport(TableReport):
    """What a compaction did; for a dry run, what it would do.

    Parameters
    ----------
    jobs
        The jobs that were committed, in the order of the plan.
    snapshots
        The snapshot that each job made; empty for a dry run.
    refused
        Jobs that came too late, because other writers had replaced their inputs. Their outputs were deleted.
    strategy
        The strategy that chose the files.
    settings
        The strategy's settings.
    waiting
        Number of jobs beyond the table's limits; a later run does them.
    dry_run
        Whether the jobs were only planned.
    blocked_by
        Claims of other jobs, running or dead, that leave nothing to merge. A claim ends at its moment unless a living
        process renews it.
    requests
        Of a dry run in S3: about what the jobs would ask.
    """

    jobs: tuple[CompactionJob, ...]
    snapshots: tuple[Snapshot, ...]
    refused: tuple[CompactionJob, ...]
    strategy: str
    settings: StrategySettings
    waiting: int
    dry_run: bool
    blocked_by: tuple[FileClaim, ...] = ()
    requests: RequestEstimate | None = None

    @property
    def rows(self) -> int:
        """Number of rows that were merged."""
        return sum(job.rows for job in self.jobs)

    @property
    def blocked_text(self) -> str:
        """The claims that leave nothing to merge, as text; "" when there are none."""
        return claims_text(self.blocked_by)

    def grid(self) -> Grid:
        """Return one row per job: which files it merges into which file and why, and the snapshot that it made."""
        late = f"{counted(len(self.refused), 'job')} came too late and left nothing" if self.refused else ""
        more = f"{counted(self.waiting, 'job')} wait for the next run: see the limits in the properties"
        requests = "" if self.requests is None else str(self.requests)
        footer = notes_line(late, more if self.waiting else "", self.blocked_text, requests)
        if not self.jobs:
            return Grid(("",), (), f"compaction ({self.strategy}): nothing to merge", footer)
        columns, rows = self.cells()
        verb = "would merge" if self.dry_run else "merged"
        title = f"compaction ({self.strategy}): {verb} {merged_text(self.jobs)} into {len(self.jobs):,}"
        return Grid(columns, rows, title, footer)

    def cells(self) -> tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]:
        """Return a row for each job."""
        columns: tuple[str, ...] = ("partition", "files", "rows", "bytes", "why", "merges", "into")
        rows = tuple(map(self._row, self.jobs))
        if not self.dry_run:
            columns = (*columns, "snapshot")
            rows = tuple((*row, snapshot.id) for row, snapshot in zip(rows, self.snapshots, strict=True))
        return columns, rows

    def _row(self, job: CompactionJob) -> tuple[object, ...]:
        why = reason(self.strategy, job.inputs, self.settings)
        size = Bytes(sum(file.bytes for file in job.inputs))
        merges = ", ".join(map(_short_name, job.filenames))
        return job.region, len(job.inputs), job.rows, size, why, merges, _short_name(job.output)


def _requests(store: StateStore, state: TableState, jobs: Sequence[CompactionJob]) -> RequestEstimate | None:
    costs = CommitCosts.of(store, state) if jobs else None
    if costs is None:
        return None
    inputs = [file for job in jobs for file in job.inputs]
    return costs.compaction(len(inputs), len(jobs), sum(file.bytes for file in inputs))


def _short_name(filename: str) -> str:
    """Return the first 8 characters of a data file's name: enough to find it among a table's files."""
    return filename.rpartition("/")[2][:8]


def merged_text(jobs: Sequence[CompactionJob]) -> str:
    """Return how many files some jobs merge, as text; jobs of several partitions can share a file."""
    return files_text(len({name for job in jobs for name in job.filenames}), sum(len(job.inputs) for job in jobs))


def ignore_start(_: str) -> None:
    """Ignore that a job starts."""


def run_job(
    job: CompactionJob,
    schema: Schema,
    storage: Storage,
    writing: DataFileSettings = AS_DEFAULT,
    check: Callable[[], None] = unchecked,
    *,
    process: Processor | None = None,
) -> DataFile | None:
    """Merge a job's inputs into its output, check that no row was lost, and return the output.

    Runs anywhere that reaches the table's storage: in this process, or in a task on a Spark executor. One thread merges
    and processes rows while another one checks their order, encodes and writes them.

    `StateRuleBroken` when the number of rows written is wrong; the output has been deleted.

    Parameters
    ----------
    writing
        How the output is written.
    check
        Called before each batch; when it raises, the job's output is deleted.
    process
        The job's processing, if the driver has already found its functions.

    Returns
    -------
    The output; None when no row is left.
    """
    merged = leaf_rows(job.inputs, process or Processor.of(job.processing, schema), storage)
    with closing(prefetched(_with_check(merged, check), PREFETCHED_BATCHES)) as rows:
        file = write_sorted(storage, job.output, schema, rows, writing)
    read, written = job.rows, 0 if file is None else file.rows
    may_drop_rows = not job.processing.is_nothing
    if job.rows_exact and (written > read or (written < read and not may_drop_rows)):
        logger.error("compaction job %s read %d rows but wrote %d; deleting its output", job.id, read, written)
        storage.delete(job.output)
        raise StateRuleBroken(
            f"compaction job {job.id} read {read:,} rows but wrote {written:,}",
            hint="nothing was committed; check the table's data files",
        )
    return file


def run_in_process(
    storage: Storage,
    writing: DataFileSettings = AS_DEFAULT,
    on_start: Callable[[str], None] = ignore_start,
    check: Callable[[], None] = unchecked,
) -> JobRunner:
    """Return the runner that merges one job after the other in this process; it calls `on_start` with each job's id."""

    def run(jobs: Sequence[CompactionJob], schema: Schema) -> Generator[tuple[CompactionJob, DataFile | None]]:
        for job in jobs:
            check()
            on_start(job.id)
            yield job, run_job(job, schema, storage, writing, check)

    return run


def _with_check(batches: Iterable[T], check: Callable[[], None]) -> Generator[T]:
    for batch in batches:
        check()
        yield batch


class ClaimedJobs:
    """Claims the inputs of jobs, commits their outputs, and records each step in the catalog.

    Claims end by themselves; a thread renews them for as long as the process works on the jobs.
    """

    def __init__(self, store: StateStore, tracker: JobTracker, author: str | None) -> None:
        self._store, self._tracker, self._author = store, tracker, author
        self._claims: dict[str, FileClaim] = {}
        self._lock = threading.Lock()
        self._renewing = Renewing("sleeper-claims", RENEWED_EVERY, self.renew, lambda: bool(self._claims))
        self.done: list[tuple[CompactionJob, Snapshot]] = []
        self.refused: list[CompactionJob] = []

    @property
    def settled(self) -> int:
        return len(self.done) + len(self.refused)

    @property
    def rows(self) -> int:
        return sum(job.rows for job, _ in self.done)

    def claim(self, job: CompactionJob) -> bool:
        """Claim a job's inputs and record the job in the same step; return False if another job has one of them."""
        now = self._store.clock.now()
        filenames = job.filenames
        claim = FileClaim(job.id, job.partition_id, filenames, now + CLAIM_TIME)
        record = self._tracker.created(
            job.id, "compaction", now=now, partition_ids=(job.partition_id,), files=len(filenames)
        )
        claimed = self._store.catalog.claim_files(self._store.table_id, claim, now, record)
        if claimed:
            with self._lock:
                self._claims[job.id] = claim
            self._renewing.begin()
        else:
            logger.info("table %s: compaction job %s not run: another job has its inputs", self._store.table_id, job.id)
            self._tracker.refused(job.id)
        return claimed

    def renew(self) -> None:
        """Renew the claims of all jobs that are not settled; drop a claim whose files another job has claimed."""
        for job_id in list(self._claims):
            with self._lock:
                claim = self._claims.get(job_id)
                if claim is not None:
                    self._renew_claim(claim)

    def _renew_claim(self, claim: FileClaim) -> None:
        now, table_id = self._store.clock.now(), self._store.table_id
        try:
            renewed = self._store.catalog.claim_files(table_id, replace(claim, until=now + CLAIM_TIME), now)
        except SleeperError as error:  # the next round comes before the claim ends
            logger.warning("table %s: cannot renew the claim of job %s: %s", table_id, claim.job_id, error.message)
            return
        if renewed:
            logger.debug("table %s: claim of job %s renewed", table_id, claim.job_id)
        else:
            logger.warning("table %s: claim of job %s lost: another job has its inputs", table_id, claim.job_id)
            del self._claims[claim.job_id]

    def commit(self, job: CompactionJob, file: DataFile | None) -> None:
        """Commit a job's output, or refuse the job if it came too late; its claim is not renewed any more."""
        output = None if file is None else reference_to(file, job.partition_id, job_id=job.id)
        try:
            self._check_claim(job)
            vectors = tuple(file.deletions.filename for file in job.inputs if file.deletions is not None)
            change = ReplaceFileReferences(job.id, job.partition_id, job.filenames, output, vectors)
            snapshot = self._store.commit(change, author=self._author)
        except StateRuleBroken as error:
            logger.warning("table %s: compaction job %s refused: %s", self._store.table_id, job.id, error.message)
            self._stop_renewing(job)
            self.refused.append(job)
            self._tracker.failed(job.id, error.message)
            return
        self._stop_renewing(job)
        self.done.append((job, snapshot))
        written = 0 if output is None else output.rows
        logger.debug(
            "table %s: compaction job %s merged %d files into %d rows, snapshot %d",
            self._store.table_id, job.id, len(job.inputs), written, snapshot.id,
        )  # fmt: skip
        self._tracker.finished(job.id, rows_read=job.rows, rows_written=written, snapshot_id=snapshot.id)

    def _check_claim(self, job: CompactionJob) -> None:
        """Refuse a job whose claim has ended. If it ends after this check, the commit's rules refuse the job."""
        store = self._store
        if job.id not in {claim.job_id for claim in store.catalog.claims(store.table_id, store.clock.now())}:
            reason = f"the claim of compaction job {job.id} on its inputs has ended, as it was not renewed in time"
            raise StateRuleBroken(reason, hint="compact again")

    def give_up(self, error: BaseException, proposed: Iterable[CompactionJob]) -> None:
        """Clean up after an error or interrupt that ends the compaction: jobs that are not done leave nothing."""
        logger.info(
            "table %s: compaction ends by %s after %d jobs",
            self._store.table_id, type(error).__name__, len(self.done),
        )  # fmt: skip
        self._stop_renewing_all()
        self._tracker.ended_by(error)
        if not isinstance(error, OutcomeUnknown):  # then an output may be in the table; claims end by themselves
            self.clean_up(proposed)

    def clean_up(self, jobs: Iterable[CompactionJob]) -> None:
        """Delete outputs that were not committed, and release all claims."""
        self._stop_renewing_all()
        jobs, done, table_id = list(jobs), {job.id for job, _ in self.done}, self._store.table_id
        left = [job.output for job in jobs if job.id not in done]
        releases = (partial(self._store.catalog.release_claim, table_id, job.id) for job in jobs)
        for step in (partial(discard_files, self._store, left), *releases):
            try:
                step()
            except StorageError as error:  # what is done is committed; claims end, and a sweep deletes the files
                logger.warning("table %s: cannot clean up after compaction jobs: %s", table_id, error.message)
        forget_old_jobs(self._store)

    def _stop_renewing(self, job: CompactionJob) -> None:
        with self._lock:
            self._claims.pop(job.id, None)

    def _stop_renewing_all(self) -> None:
        with self._lock:  # so that no renewal follows the release of a claim
            self._claims.clear()
        self._renewing.end()
