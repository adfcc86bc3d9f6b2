"""Compaction: plan which files merge, claim them, merge each job as a stream, check it, and commit it as it finishes.

A job's safety, in steps:

1. The plan is made from one state, leaving out files that another job has claimed.
2. The catalog gives the job its inputs, all or none, until a moment that the job's process keeps putting off; when the
   process dies, they are free after that moment.
3. The merge writes a file that nobody knows yet, named by the job; order is checked while it is written.
4. Rows read and rows written are compared: as many must be written, or no more where the table's filters, iterator or
   aggregations leave out some. A difference raises, deletes the output and frees the inputs.
5. One commit replaces the inputs by the output, and its rules hold the inputs to be there still. A job whose claim has
   ended is refused before, one whose inputs are gone is refused there; its output is deleted.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import TypeVar

from sleeper_nb.catalog.catalog_base import FileClaim, steady
from sleeper_nb.errors import OutcomeUnknown, SleeperError, StateRuleBroken
from sleeper_nb.model.processing import NOTHING, DataProcessing
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot, files_text
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import ReplaceFileReferences
from sleeper_nb.operations.compaction_plan import (
    CompactionJob,
    StrategySettings,
    claims_text,
    plan_compaction,
    reason,
)
from sleeper_nb.operations.job_tracking import JobTracker, forget_old_jobs
from sleeper_nb.operations.loading.ingest import (
    discard_files,
    reference_to,
    write_sorted,
)
from sleeper_nb.operations.renewing import Renewing
from sleeper_nb.operations.row_processing import Processor
from sleeper_nb.operations.scanning.read_rows import leaf_rows
from sleeper_nb.progress import Progress, unchecked
from sleeper_nb.report import Bytes, Grid, Report, counted, rate_text
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.data_files import AS_DEFAULT, DataFile, DataFileSettings
from sleeper_nb.storage.filesystem import Storage

# The jobs of one compaction, from the claim on their inputs to their commit, and what is told and tidied up.

CLAIM_TIME = timedelta(minutes=20)
"""How long the inputs of a job stay claimed after the last renewal, and so after its process has died."""
RENEWED_EVERY = timedelta(minutes=5)
"""A claim has 15 minutes left at least, as clocks may be that far apart."""


class ClaimedJobs:
    """Claims the inputs of jobs, commits what they wrote, and tells the catalog of each step.

    Claims end by themselves; a thread renews them for as long as the process works on the jobs, however long that is.

    Parameters
    ----------
    store
        The table's.
    tracker
        Keeps the records.
    author
        Who history says it was.
    """

    def __init__(self, store: StateStore, tracker: JobTracker, author: str | None) -> None:
        self._store, self._tracker, self._author = store, tracker, author
        self._held: dict[str, FileClaim] = {}
        self._lock = threading.Lock()
        self._renewing = Renewing("sleeper-claims", RENEWED_EVERY, self.renew, lambda: bool(self._held))
        self.done: list[tuple[CompactionJob, Snapshot]] = []
        self.refused: list[CompactionJob] = []

    @property
    def settled(self) -> int:
        """How many were committed or refused."""
        return len(self.done) + len(self.refused)

    @property
    def rows(self) -> int:
        """How many rows were merged in what was committed."""
        return sum(job.rows for job, _ in self.done)

    def claim(self, job: CompactionJob) -> bool:
        """Claim a job's inputs, and note the job in the same step; return False when another has one of them."""
        now = self._store.clock.now()
        claim = FileClaim(job.id, job.partition_id, job.filenames, now + CLAIM_TIME)
        record = self._tracker.created(
            job.id, "compaction", partition_ids=(job.partition_id,), files=len(job.filenames)
        )
        claimed = self._store.catalog.claim_files(self._store.table_id, claim, now, record)
        if claimed:
            with self._lock:
                self._held[job.id] = claim
            self._renewing.begin()
        else:
            self._tracker.refused(job.id)
        return claimed

    def renew(self) -> None:
        """Renew the claims of all jobs that are not settled; one whose inputs another job has claimed is given up."""
        for job_id in list(self._held):
            with self._lock, contextlib.suppress(SleeperError):  # the next round comes before it ends
                if (claim := self._held.get(job_id)) is None:
                    continue
                now = self._store.clock.now()
                if not self._store.catalog.claim_files(
                    self._store.table_id, replace(claim, until=now + CLAIM_TIME), now
                ):
                    del self._held[job_id]

    def commit(self, job: CompactionJob, file: DataFile | None) -> None:
        """Commit what a job wrote; one that came too late is refused. Its claim is renewed no longer."""
        output = None if file is None else reference_to(file, job.partition_id, job_id=job.id)
        try:
            self._check_claim(job)
            change = ReplaceFileReferences(job.id, job.partition_id, job.filenames, output)
            snapshot = self._store.commit(change, author=self._author)
        except StateRuleBroken as error:
            self._settle(job)
            self.refused.append(job)
            self._tracker.failed(job.id, error.message)
            return
        self._settle(job)
        self.done.append((job, snapshot))
        written = 0 if output is None else output.rows
        self._tracker.finished(job.id, rows_read=job.rows, rows_written=written, snapshot_id=snapshot.id)

    def _settle(self, job: CompactionJob) -> None:
        with self._lock:
            self._held.pop(job.id, None)

    def _check_claim(self, job: CompactionJob) -> None:
        """Refuse a job whose claim has ended. One that ends right behind this check fails by the commit's rules."""
        store = self._store
        if job.id not in {claim.job_id for claim in store.catalog.claims(store.table_id, store.clock.now())}:
            reason = f"the claim of compaction job {job.id} on its inputs has ended, as it was not renewed in time"
            raise StateRuleBroken(reason, hint="compact again")

    def give_up(self, error: BaseException, proposed: Iterable[CompactionJob]) -> None:
        """Leave nothing of jobs that are not done, when an error or an interrupt ends the whole work."""
        self._stop_renewing()
        self._tracker.ended_by(error)
        if not isinstance(error, OutcomeUnknown):  # else an output may be in the table; claims end by themselves
            self.clean_up(proposed)

    def clean_up(self, jobs: Iterable[CompactionJob]) -> None:
        """Delete outputs that were not committed, and release all claims."""
        self._stop_renewing()
        jobs, done = list(jobs), {job.id for job, _ in self.done}
        discard_files(self._store, [job.output for job in jobs if job.id not in done])
        for job in jobs:
            self._store.catalog.release_claim(self._store.table_id, job.id)
        forget_old_jobs(self._store)

    def _stop_renewing(self) -> None:
        with self._lock:  # so that no renewal follows the release of a claim
            self._held.clear()
        self._renewing.end()


# Batches that another thread makes while those before them are used: the merge goes on while a file is written.

T = TypeVar("T")

DEPTH = 16
"""So many may be ready and not yet used."""


def made_ahead(items: Generator[T], depth: int = DEPTH) -> Generator[T]:
    """Yield the items of a generator, which runs in a thread of its own, at most `depth` ahead.

    What it raises is raised here, in its place. When the caller stops early, by an error or an interrupt, the generator
    is closed before this one ends: nothing runs on behind it.
    """
    made: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()
    room, stopped = Semaphore(depth), False

    def make() -> None:
        try:
            with closing(items):
                for item in items:
                    made.put((item,))
                    room.acquire()
                    if stopped:
                        return
            made.put(None)
        except BaseException as error:  # noqa: BLE001 - it is raised again where the items are used
            made.put(error)

    thread = Thread(target=make, daemon=True)
    thread.start()
    try:
        while (got := made.get()) is not None:
            if isinstance(got, BaseException):
                raise got
            room.release()
            yield got[0]
    finally:
        stopped = True
        room.release()
        thread.join()


@dataclass(frozen=True, slots=True, repr=False)
class CompactionReport(Report):
    """What a compaction did; of a dry run, what it would do.

    Parameters
    ----------
    jobs
        The jobs that were committed, in the order of the plan.
    snapshots
        The snapshot that each job made; empty for a dry run.
    refused
        Jobs that came too late: other writers had taken their inputs. Nothing of them is left.
    strategy
        The strategy that chose the files.
    settings
        The numbers that it went by.
    waiting
        Jobs beyond the table's limits, which a later run will do.
    blocked_by
        Claims of other jobs, which run or whose process died, without which there would be something to merge. A claim
        ends at its moment unless its process, being alive, renews it.
    """

    jobs: tuple[CompactionJob, ...]
    snapshots: tuple[Snapshot, ...]
    refused: tuple[CompactionJob, ...]
    strategy: str
    settings: StrategySettings
    waiting: int
    dry_run: bool
    blocked_by: tuple[FileClaim, ...] = ()

    @property
    def rows(self) -> int:
        """Rows that were merged."""
        return sum(job.rows for job in self.jobs)

    @property
    def blocked_text(self) -> str:
        """Which files wait for the end of other jobs' claims; empty when none do."""
        return claims_text(self.blocked_by)

    def grid(self) -> Grid:
        """Return one row a job: what merges into what and why, and the snapshot that it made if it was done."""
        late = f"{counted(len(self.refused), 'job')} came too late and left nothing" if self.refused else ""
        more = f"{counted(self.waiting, 'job')} wait for the next run: see the limits in the properties"
        footer = " · ".join(filter(None, (late, more if self.waiting else "", self.blocked_text)))
        if not self.jobs:
            return Grid(("",), (), f"compaction ({self.strategy}): nothing to merge", footer)
        made = [()] * len(self.jobs) if self.dry_run else [(snapshot.id,) for snapshot in self.snapshots]
        rows = tuple((*self._row(job), *snapshot) for job, snapshot in zip(self.jobs, made, strict=True))
        would = "would merge" if self.dry_run else "merged"
        title = f"compaction ({self.strategy}): {would} {merged_text(self.jobs)} into {len(self.jobs):,}"
        columns = ("partition", "files", "rows", "bytes", "why", "merges", "into")
        return Grid((*columns, *(() if self.dry_run else ("snapshot",))), rows, title, footer)

    def _row(self, job: CompactionJob) -> tuple[object, ...]:
        why = reason(self.strategy, job.inputs, self.settings)
        size = Bytes(sum(file.bytes for file in job.inputs))
        merges = ", ".join(map(_short, job.filenames))
        return job.region, len(job.inputs), job.rows, size, why, merges, _short(job.output)


def _short(filename: str) -> str:
    """Return the first digits of a data file's name: enough to find it among a table's files."""
    return filename.rpartition("/")[2][:8]


def merged_text(jobs: Sequence[CompactionJob]) -> str:
    """Return how many files some jobs merge; jobs of several partitions may share one."""
    return files_text(len({name for job in jobs for name in job.filenames}), sum(len(job.inputs) for job in jobs))


JobRunner = Callable[[Sequence[CompactionJob], Schema], Generator[tuple[CompactionJob, DataFile | None]]]
"""Runs jobs and yields each with its output as it finishes; an engine's way to do `run_job`."""


def run_job(
    job: CompactionJob,
    schema: Schema,
    storage: Storage,
    writing: DataFileSettings = AS_DEFAULT,
    check: Callable[[], None] = unchecked,
    *,
    process: Processor | None = None,
) -> DataFile | None:
    """Merge a job's inputs into its output and check that no row was lost; None when no row was left.

    Runs anywhere that reaches the table's storage: in process, or in a task on a Spark executor, where `process` is
    what the driver made of the job's processing. One thread merges and processes while another checks the order,
    encodes and writes. `check` is called with each batch; when it raises, nothing is left of the job.
    """
    merged = leaf_rows(job.inputs, process or Processor.of(job.processing, schema), storage)
    with closing(made_ahead(checked(merged, check))) as rows:
        file = write_sorted(storage, job.output, schema, rows, writing)
    written = 0 if file is None else file.rows
    if job.rows_exact and (written > job.rows or (written < job.rows and job.processing.is_nothing)):
        storage.delete(job.output)
        raise StateRuleBroken(
            f"compaction job {job.id} read {job.rows:,} rows but wrote {written:,}",
            hint="nothing was committed; check the table's data files",
        )
    return file


def untold(job: CompactionJob) -> None:
    """Tell nobody that a job begins."""


def checked(batches: Iterable[T], check: Callable[[], None]) -> Generator[T]:
    """Yield batches, each behind a check that may end the work."""
    for batch in batches:
        check()
        yield batch


def run_in_process(
    storage: Storage,
    writing: DataFileSettings = AS_DEFAULT,
    begun: Callable[[CompactionJob], None] = untold,
    check: Callable[[], None] = unchecked,
) -> JobRunner:
    """Return the runner that merges one job after the other in this process, and tells of each that it begins."""

    def run(jobs: Sequence[CompactionJob], schema: Schema) -> Generator[tuple[CompactionJob, DataFile | None]]:
        for job in jobs:
            begun(job)
            yield job, run_job(job, schema, storage, writing, check)

    return run


def _state_and_claims(store: StateStore, *, of_one_moment: bool) -> tuple[TableState, tuple[FileClaim, ...]]:
    """Return the current state, and which of its files other jobs have claimed.

    The claims are read first: otherwise a job that commits in between leaves its inputs in the state, free for others.
    A job that claims in between does no harm, as each job asks for its inputs again. Only a plan that is shown needs
    both of one moment, and a run does not fail for many other claims.
    """

    def claims() -> tuple[FileClaim, ...]:
        return store.catalog.claims(store.table_id, store.clock.now())

    if of_one_moment:
        return steady(store.load, claims)
    claimed = claims()
    return store.load(), claimed


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
    but: Collection[str] = (),
    tracker: JobTracker | None = None,
    processing: DataProcessing = NOTHING,
) -> CompactionReport:
    """Plan, claim, run and commit; each job is committed as it finishes, so an interrupt loses only those running."""
    state, claimed = _state_and_claims(store, of_one_moment=dry_run)
    proposed, waiting, blocked_by = plan_compaction(
        state, strategy, settings, claimed, store.clock, store.most_compaction_inputs, partition_id, but, processing
    )
    if dry_run:
        return CompactionReport(proposed, (), (), strategy, settings, waiting, dry_run=True, blocked_by=blocked_by)
    jobs: list[CompactionJob] = []
    under_way = ClaimedJobs(store, tracker or JobTracker(store, author), author)
    began = store.clock.now()
    try:
        jobs = [job for job in proposed if under_way.claim(job)]
        progress.update("compacting", 0, len(jobs))
        with closing(runner(jobs, state.schema)) as results:  # leaving it by an error stops what still runs
            for job, file in results:
                under_way.commit(job, file)
                seconds = (store.clock.now() - began).total_seconds()
                progress.update(f"compacting{rate_text(under_way.rows, seconds)}", under_way.settled, len(jobs))
    except BaseException as error:
        under_way.give_up(error, proposed)
        raise
    under_way.clean_up(jobs)
    done = sorted(under_way.done, key=lambda pair: jobs.index(pair[0]))
    finished, snapshots = zip(*done, strict=True) if done else ((), ())
    refused = tuple(under_way.refused)
    return CompactionReport(
        finished, snapshots, refused, strategy, settings, waiting, dry_run=False, blocked_by=blocked_by
    )
