"""Which compaction jobs a table needs now: what a strategy proposes, within the limits, as values. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from sleeper_nb.catalog.catalog_base import FileClaim
from sleeper_nb.clock import Clock
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.processing import NOTHING, DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.scanning.scan_plan import PlannedFile, files_by_partition
from sleeper_nb.report import counted
from sleeper_nb.storage import paths

# Which files of a leaf to merge: Sleeper's compaction strategies, as pure functions of the files' sizes in rows.


@dataclass(frozen=True, slots=True)
class StrategySettings:
    """Numbers of the strategies, under Sleeper's names and with its defaults.

    Parameters
    ----------
    batch_size
        Files of a job (``sleeper.table.compaction.files.batch.size``).
    ratio
        Of the size-ratio strategy (``sleeper.table.compaction.strategy.sizeratio.ratio``).
    jobs_per_partition
        Of the size-ratio strategy: so many jobs at most merge files of one partition at a time
        (``sleeper.table.compaction.strategy.sizeratio.max.concurrent.jobs.per.partition``).
    jobs
        So many jobs at most are under way in the table (``sleeper.table.compaction.job.creation.limit``).
    """

    batch_size: int = 12
    ratio: int = 3
    jobs_per_partition: int = 2**31 - 1
    jobs: int = 100_000

    @classmethod
    def of(cls, properties: TableProperties) -> StrategySettings:
        """Return what a table's properties say."""
        prefix = "sleeper.table.compaction"
        return cls(
            properties[f"{prefix}.files.batch.size"],
            properties[f"{prefix}.strategy.sizeratio.ratio"],
            properties[f"{prefix}.strategy.sizeratio.max.concurrent.jobs.per.partition"],
            properties[f"{prefix}.job.creation.limit"],
        )


FileBatches = list[list[PlannedFile]]
Strategy = Callable[[Sequence[PlannedFile], StrategySettings], FileBatches]


def basic(files: Sequence[PlannedFile], settings: StrategySettings) -> FileBatches:
    """Merge the smallest files in batches of exactly the batch size; a remainder waits for more files."""
    ordered = _by_rows(files)
    size = settings.batch_size
    return [ordered[i : i + size] for i in range(0, len(ordered) - size + 1, size)]


def size_ratio(files: Sequence[PlannedFile], settings: StrategySettings) -> FileBatches:
    """Merge files of about the same size, so that a row is rewritten a logarithmic number of times.

    Files may merge when all but the largest together have at least `ratio` times the rows of the largest. Largest
    files are passed over until that holds. When more are left than fit one batch, a window of the batch size slides
    over them by size: a window in which it holds becomes a job.
    """
    ordered = _by_rows(files)
    while len(ordered) > 1 and not _similar(ordered, settings.ratio):
        ordered = ordered[:-1]
    if len(ordered) < 2:
        return []
    if len(ordered) <= settings.batch_size:
        return [ordered]
    jobs, start = [], 0
    while len(window := ordered[start : start + settings.batch_size]) > 1:
        if _similar(window, settings.ratio):
            jobs.append(window)
            start += len(window)
        else:
            start += 1
    return jobs


def everything(files: Sequence[PlannedFile], _settings: StrategySettings) -> FileBatches:
    """Merge all files of the leaf into one, whatever their sizes; a leaf of one whole file is left alone."""
    done = len(files) == 1 and files[0].only_this_partition
    return [] if done or not files else [_by_rows(files)]


STRATEGIES: dict[str, Strategy] = {"size-ratio": size_ratio, "basic": basic, "all": everything}
"""The strategies by the names that users type; the first is the default."""


def reason(strategy: str, batch: Sequence[PlannedFile], settings: StrategySettings) -> str:
    """Return in a few words why a strategy merges a batch."""
    if len(batch) == 1:
        return "its file has rows of other partitions"
    if strategy == "basic":
        return f"a full batch of {len(batch)} files"  # the state store may allow fewer than the property
    if strategy == "size-ratio":
        *others, largest = batch
        times = f"{sum(file.rows for file in others) / largest.rows:.1f} ×" if largest.rows else "as many as"
        return f"{counted(len(others), 'file')} hold {times} the rows of the largest (ratio {settings.ratio})"
    return "every file of the partition"


def strategy_named(name: str) -> Strategy:
    """Return a strategy; `NotFound` names the nearest."""
    if name not in STRATEGIES:
        raise NotFound.of("compaction strategy", name, STRATEGIES)
    return STRATEGIES[name]


def within(strategy: Strategy, most: int | None) -> Strategy:
    """Return the strategy with at most so many files in a batch, the smallest together; as it is when None.

    What is left of a batch as a single file waits for the next plan, unless it has rows of other partitions.
    """
    if most is None:
        return strategy

    def bounded(files: Sequence[PlannedFile], settings: StrategySettings) -> FileBatches:
        batches = strategy(files, replace(settings, batch_size=min(settings.batch_size, most)))
        pieces = [batch[at : at + most] for batch in batches for at in range(0, len(batch), most)]
        return [piece for piece in pieces if len(piece) > 1 or not piece[0].only_this_partition]

    return bounded


def _similar(ordered: Sequence[PlannedFile], ratio: int) -> bool:
    return sum([file.rows for file in ordered[:-1]]) >= ratio * ordered[-1].rows


def _by_rows(files: Sequence[PlannedFile]) -> list[PlannedFile]:
    return sorted(files, key=attrgetter("rows", "filename"))


_MOST_CLAIMS = 3


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """A decision to merge some files of one partition into one, their rows processed on the way."""

    id: str
    partition_id: str
    region: str
    inputs: tuple[PlannedFile, ...]
    rows_exact: bool
    processing: DataProcessing = NOTHING

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


class CompactionPlan(NamedTuple):
    """The jobs to run now, how many more the strategy proposes beyond the limits, and the claims that leave none to do.

    `blocked_by` are the claims of other jobs on leaves for which the strategy proposes something only when it takes
    their files as well.
    """

    jobs: tuple[CompactionJob, ...]
    waiting: int
    blocked_by: tuple[FileClaim, ...] = ()


def plan_compaction(
    state: TableState,
    strategy: str,
    settings: StrategySettings,
    claimed: Sequence[FileClaim],
    clock: Clock,
    most_inputs: int | None = None,
    partition_id: str | None = None,
    but: Collection[str] = (),
    processing: DataProcessing = NOTHING,
) -> CompactionPlan:
    """Plan the jobs that a strategy proposes for each leaf, or for one; files that a job has claimed are left out.

    No job has more than `most_inputs` files, which is as many as the state store can replace at once. Beyond the limits
    of `settings`, jobs wait: in one partition as in Sleeper, in the table those of the leaves on the right. The leaves
    `but` are passed over. Of `processing` each job does what may be done for good.
    """
    processing = processing.in_compaction(state.schema)
    choose = within(strategy_named(strategy), most_inputs)
    if partition_id is not None and not state.tree[partition_id].is_leaf:
        raise InvalidInput(f"partition {partition_id!r} is no leaf", hint="name one that partitions lists")
    taken = {(claim.partition_id, name) for claim in claimed for name in claim.filenames}
    running = Counter(claim.partition_id for claim in claimed)
    every = files_by_partition(state)
    blocked: set[str] = set()
    jobs: list[CompactionJob] = []
    proposed = 0
    for leaf in state.tree.leaves:
        if partition_id not in {None, leaf.id} or leaf.id in but:
            continue
        files = every.get(leaf.id, ())
        batches = choose([file for file in files if (leaf.id, file.filename) not in taken], settings)
        if not batches and running[leaf.id] and choose(files, settings):
            blocked.add(leaf.id)
        proposed += len(batches)
        most = settings.jobs_per_partition - running[leaf.id] if strategy == "size-ratio" else len(batches)
        words = leaf.region.text(state.schema) if batches else ""
        for batch in batches[: max(0, most)]:
            exact = all(file.rows_exact for file in batch)
            jobs.append(CompactionJob(clock.new_id(), leaf.id, words, tuple(batch), exact, processing))
    kept = jobs[: max(0, settings.jobs - len(claimed))]
    blocked_by = tuple(claim for claim in claimed if claim.partition_id in blocked)
    return CompactionPlan(tuple(kept), proposed - len(kept), blocked_by)


def claims_text(claims: Sequence[FileClaim]) -> str:
    """Say which jobs have claimed how many files, and until when; empty when there are no claims."""
    first = claims[:_MOST_CLAIMS]
    said = [
        f"{counted(len(claim.filenames), 'file')} {'is' if len(claim.filenames) == 1 else 'are'} claimed by compaction"
        f" job {claim.job_id} until {claim.until:%H:%M:%S} UTC"
        for claim in first
    ]
    others = len(claims) - len(first)
    return "; ".join([*said, f"others by {counted(others, 'more job')}"] if others else said)
