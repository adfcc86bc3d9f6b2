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

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from sleeper_nb.catalog.base import Assignment
from sleeper_nb.catalog.steady import steady
from sleeper_nb.cells import Bytes
from sleeper_nb.errors import StateRuleBroken
from sleeper_nb.model.processing import NOTHING, DataProcessing
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot, files_text
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.compacting.ahead import made_ahead
from sleeper_nb.operations.compacting.claimed_jobs import ClaimedJobs
from sleeper_nb.operations.compacting.job_plan import CompactionJob, claims_text, plan_compaction
from sleeper_nb.operations.compacting.strategies import StrategySettings, reason
from sleeper_nb.operations.loading.ingest import write_sorted
from sleeper_nb.operations.processing.processing import Processor
from sleeper_nb.operations.scanning.reading import leaf_rows
from sleeper_nb.operations.tracking.tracking import JobTracker
from sleeper_nb.progress import Progress, unchecked
from sleeper_nb.report import Grid, Report, counted, rate_text
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.storage.data_file_settings import DataFileSettings
from sleeper_nb.storage.data_files import AS_DEFAULT, DataFile
from sleeper_nb.storage.filesystem import Storage

T = TypeVar("T")


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
    blocked_by: tuple[Assignment, ...] = ()

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


Runner = Callable[[Sequence[CompactionJob], Schema], Generator[tuple[CompactionJob, DataFile | None]]]
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
) -> Runner:
    """Return the runner that merges one job after the other in this process, and tells of each that it begins."""

    def run(jobs: Sequence[CompactionJob], schema: Schema) -> Generator[tuple[CompactionJob, DataFile | None]]:
        for job in jobs:
            begun(job)
            yield job, run_job(job, schema, storage, writing, check)

    return run


def _state_and_claims(store: StateStore, *, of_one_moment: bool) -> tuple[TableState, tuple[Assignment, ...]]:
    """Return the current state, and which of its files other jobs have claimed.

    The claims are read first: otherwise a job that commits in between leaves its inputs in the state, free for others.
    A job that claims in between does no harm, as each job asks for its inputs again. Only a plan that is shown needs
    both of one moment, and a run does not fail for many other claims.
    """

    def claims() -> tuple[Assignment, ...]:
        return store.catalog.assignments(store.table_id, store.clock.now())

    if of_one_moment:
        return steady(store.load, claims)
    claimed = claims()
    return store.load(), claimed


def compact(
    store: StateStore,
    runner: Runner,
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
