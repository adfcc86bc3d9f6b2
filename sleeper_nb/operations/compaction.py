"""Compaction: plan which files merge, claim them, merge each job as a stream, check it, and commit it as it finishes.

A job's safety, in steps:

1. The plan is made from one state, leaving out files that another job has claimed.
2. The catalog gives the job its inputs, all or none, until a moment; a job that dies frees them then.
3. The merge writes a file that nobody knows yet, named by the job; order is checked while it is written.
4. Rows read and rows written are compared; a difference raises, deletes the output and frees the inputs.
5. One commit replaces the inputs by the output, and its rules hold the inputs to be there still. A job whose claim has
   ended is refused before, one whose inputs are gone is refused there; its output is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta

from sleeper_nb.catalog.base import Assignment
from sleeper_nb.clock import Clock
from sleeper_nb.errors import OutcomeUnknown, StateRuleBroken
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import ReplaceFileReferences
from sleeper_nb.operations.ahead import made_ahead
from sleeper_nb.operations.ingest import discard_files, reference_to, write_sorted
from sleeper_nb.operations.planning import PlannedFile
from sleeper_nb.operations.reading import merged
from sleeper_nb.operations.strategies import StrategySettings, strategy_named, within
from sleeper_nb.progress import Progress
from sleeper_nb.report import Bytes, Grid, Report, counted
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.data_file_settings import DataFileSettings
from sleeper_nb.storage.data_files import AS_DEFAULT, DataFile
from sleeper_nb.storage.filesystem import Storage

ASSIGNMENT_TIME = timedelta(hours=1)
"""How long a job may take before its inputs are free for another."""


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """A decision to merge some files of one partition into one."""

    id: str
    partition_id: str
    region: str
    inputs: tuple[PlannedFile, ...]
    rows_exact: bool

    @property
    def rows(self) -> int:
        """Rows of the inputs in the partition."""
        return sum(file.rows for file in self.inputs)

    @property
    def filenames(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(file.filename for file in self.inputs)

    @property
    def output(self) -> str:
        """The name of the file that the job writes."""
        return paths.data_file(self.partition_id, self.id)


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
    """

    jobs: tuple[CompactionJob, ...]
    snapshots: tuple[Snapshot, ...]
    refused: tuple[CompactionJob, ...]
    strategy: str
    dry_run: bool

    @property
    def rows(self) -> int:
        """Rows that were merged."""
        return sum(job.rows for job in self.jobs)

    def grid(self) -> Grid:
        """Return one row a job, with the snapshot that it made if it was done."""
        refused = f"{counted(len(self.refused), 'job')} came too late and left nothing" if self.refused else ""
        if not self.jobs:
            return Grid(("",), (), f"compaction ({self.strategy}): nothing to merge", refused)
        made = [()] * len(self.jobs) if self.dry_run else [(snapshot.id,) for snapshot in self.snapshots]
        rows = tuple(
            (job.region, len(job.inputs), job.rows, Bytes(sum(file.bytes for file in job.inputs)), *snapshot)
            for job, snapshot in zip(self.jobs, made, strict=True)
        )
        files = sum(len(job.inputs) for job in self.jobs)
        would = "would merge" if self.dry_run else "merged"
        title = f"compaction ({self.strategy}): {would} {counted(files, 'file')} into {len(self.jobs):,}"
        columns = ("partition", "files", "rows", "bytes", *(() if self.dry_run else ("snapshot",)))
        return Grid(columns, rows, title, refused)


Runner = Callable[[Sequence[CompactionJob], Schema], Generator[tuple[CompactionJob, DataFile | None]]]
"""Runs jobs and yields each with its output as it finishes; an engine's way to do `run_job`."""


def plan_compaction(
    state: TableState,
    strategy: str,
    settings: StrategySettings,
    claimed: Sequence[Assignment],
    clock: Clock,
    most_inputs: int | None = None,
) -> tuple[CompactionJob, ...]:
    """Return the jobs that a strategy proposes for each leaf; files that a job has claimed are left out.

    No job has more than `most_inputs` files, which is as many as the state store can replace at once.
    """
    choose = within(strategy_named(strategy), most_inputs)
    taken = {(claim.partition_id, name) for claim in claimed for name in claim.filenames}
    jobs = []
    for leaf in state.tree.leaves:
        free = [f for f in state.files.active_in({leaf.id}) if (leaf.id, f.filename) not in taken]
        for batch in choose(free, settings):
            inputs = tuple(
                PlannedFile(f.filename, f.rows, f.bytes, None if f.only_this_partition else leaf.region) for f in batch
            )
            exact = all(f.rows_exact for f in batch)
            jobs.append(CompactionJob(clock.new_id(), leaf.id, leaf.region.text(state.schema), inputs, exact))
    return tuple(jobs)


def run_job(
    job: CompactionJob, schema: Schema, storage: Storage, writing: DataFileSettings = AS_DEFAULT
) -> DataFile | None:
    """Merge a job's inputs into its output and check that no row was lost; None when no row was left.

    Runs anywhere that reaches the table's storage: in process, or in a task on a Spark executor. One thread merges
    while another checks the order, encodes and writes.
    """
    with closing(made_ahead(merged(job.inputs, schema, storage))) as rows:
        file = write_sorted(storage, job.output, schema, rows, writing)
    written = 0 if file is None else file.rows
    if job.rows_exact and written != job.rows:
        storage.delete(job.output)
        raise StateRuleBroken(
            f"compaction job {job.id} read {job.rows:,} rows but wrote {written:,}",
            hint="nothing was committed; check the table's data files",
        )
    return file


def run_in_process(storage: Storage, writing: DataFileSettings = AS_DEFAULT) -> Runner:
    """Return the runner that merges one job after the other in this process."""
    return lambda jobs, schema: ((job, run_job(job, schema, storage, writing)) for job in jobs)


def compact(
    store: StateStore,
    runner: Runner,
    *,
    strategy: str,
    settings: StrategySettings,
    dry_run: bool,
    progress: Progress,
    author: str | None = None,
) -> CompactionReport:
    """Plan, claim, run and commit; each job is committed as it finishes, so an interrupt loses only those running."""
    state, now = store.load(), store.clock.now()
    claimed = store.catalog.assignments(store.table_id, now)
    proposed = plan_compaction(state, strategy, settings, claimed, store.clock, store.most_compaction_inputs)
    if dry_run:
        return CompactionReport(proposed, (), (), strategy, dry_run=True)
    jobs: list[CompactionJob] = []
    done: list[tuple[CompactionJob, Snapshot]] = []
    refused: list[CompactionJob] = []
    try:
        jobs = [job for job in proposed if _claim(store, job, now)]
        progress.update("compacting", 0, len(jobs))
        with closing(runner(jobs, state.schema)) as results:  # leaving it by an error stops what still runs
            for job, file in results:
                output = None if file is None else reference_to(file, job.partition_id, job_id=job.id)
                try:
                    _check_claim(store, job)
                    change = ReplaceFileReferences(job.id, job.partition_id, job.filenames, output)
                    done.append((job, store.commit(change, author=author)))
                except StateRuleBroken:
                    refused.append(job)
                progress.update("compacting", len(done) + len(refused), len(jobs))
    except OutcomeUnknown:
        raise  # the output may be in the table: keep it, and let the claims end by themselves
    except BaseException:
        _clean_up(store, proposed, {job.id for job, _ in done})
        raise
    _clean_up(store, jobs, {job.id for job, _ in done})
    done.sort(key=lambda pair: jobs.index(pair[0]))
    finished, snapshots = zip(*done, strict=True) if done else ((), ())
    return CompactionReport(finished, snapshots, tuple(refused), strategy, dry_run=False)


def _claim(store: StateStore, job: CompactionJob, now: datetime) -> bool:
    until = now + ASSIGNMENT_TIME
    return store.catalog.assign(store.table_id, Assignment(job.id, job.partition_id, job.filenames, until), now)


def _check_claim(store: StateStore, job: CompactionJob) -> None:
    """Refuse a job whose claim has ended. One that ends right behind this check is safe too: see step 5."""
    if job.id not in {claim.job_id for claim in store.catalog.assignments(store.table_id, store.clock.now())}:
        raise StateRuleBroken(f"compaction job {job.id} took longer than its claim on its inputs", hint="compact again")


def _clean_up(store: StateStore, jobs: Iterable[CompactionJob], done: set[str]) -> None:
    discard_files(store, [job.output for job in jobs if job.id not in done])
    for job in jobs:
        store.catalog.release(store.table_id, job.id)
