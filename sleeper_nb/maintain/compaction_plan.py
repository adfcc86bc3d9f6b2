"""Plan compaction jobs: which files of each leaf to merge, by a strategy and within the table's limits. Pure.

The strategies are Sleeper's, under Sleeper's names: pure functions of the files' row counts. `plan_compaction` applies
one of them to each leaf, skipping files that other jobs have claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from sleeper_nb.catalog.catalog_base import FileClaim
from sleeper_nb.clock import Clock
from sleeper_nb.errors import NotFound
from sleeper_nb.model.processing import NOTHING, DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.state import TableState
from sleeper_nb.read.scan_plan import PlannedFile, files_by_partition
from sleeper_nb.report import counted
from sleeper_nb.storage import paths


@dataclass(frozen=True, slots=True)
class StrategySettings:
    """The settings of the strategies, with Sleeper's defaults."""

    batch_size: int = 12  # the most files of one job (``sleeper.table.compaction.files.batch.size``)
    ratio: int = 3  # the ratio of the size-ratio strategy (``sleeper.table.compaction.strategy.sizeratio.ratio``)
    # the most jobs that the size-ratio strategy runs in one partition at a time
    # (``sleeper.table.compaction.strategy.sizeratio.max.concurrent.jobs.per.partition``)
    jobs_per_partition: int = 2**31 - 1
    # the most jobs that run in the table at a time (``sleeper.table.compaction.job.creation.limit``)
    jobs: int = 100_000

    @classmethod
    def of(cls, properties: TableProperties) -> StrategySettings:
        """Return the settings that a table's properties hold."""
        prefix = "sleeper.table.compaction"
        values = properties.values(
            f"{prefix}.files.batch.size",
            f"{prefix}.strategy.sizeratio.ratio",
            f"{prefix}.strategy.sizeratio.max.concurrent.jobs.per.partition",
            f"{prefix}.job.creation.limit",
        )
        return cls(*values)


FOLDED_PERCENT = 5
"""From so many percent of deleted rows on, a compaction writes a file without them although it merges it with none."""

FileBatches = list[list[PlannedFile]]
Strategy = Callable[[Sequence[PlannedFile], StrategySettings], FileBatches]


def basic(files: Sequence[PlannedFile], settings: StrategySettings) -> FileBatches:
    """Merge files in batches of exactly the batch size, smallest first; the remaining files wait for more."""
    ordered = _by_rows(files)
    size = settings.batch_size
    return [ordered[i : i + size] for i in range(0, len(ordered) - size + 1, size)]


def size_ratio(files: Sequence[PlannedFile], settings: StrategySettings) -> FileBatches:
    """Merge files of similar size, so that a row is rewritten a logarithmic number of times.

    Files are similar when all but the largest together have at least `ratio` times the rows of the largest. The largest
    files are skipped until the rest are similar. If more remain than fit in one batch, a window of the batch size
    slides over them, ordered by size, and each window of similar files becomes a job.
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


def all_files(files: Sequence[PlannedFile], _settings: StrategySettings) -> FileBatches:
    """Merge all files of the leaf into one, regardless of size; a leaf with one file of its own is done already."""
    is_done = len(files) == 1 and _is_whole(files[0])
    return [] if is_done or not files else [_by_rows(files)]


STRATEGIES: dict[str, Strategy] = {"size-ratio": size_ratio, "basic": basic, "all": all_files}
"""The strategies by name; the first is the default."""


def reason(strategy: str, batch: Sequence[PlannedFile], settings: StrategySettings) -> str:
    """Return why a strategy merges a batch of files, as a short text."""
    if len(batch) == 1 and batch[0].deletions is not None:
        return f"its file has {counted(batch[0].deletions.rows, 'deleted row')}"
    if len(batch) == 1:
        return "its file has rows of other partitions"
    if strategy == "basic":
        return f"a full batch of {len(batch)} files"  # a state store may allow fewer files than the property
    if strategy == "size-ratio":
        *others, largest = batch
        times = f"{sum(file.rows for file in others) / largest.rows:.1f} ×" if largest.rows else "as many as"
        return f"{counted(len(others), 'file')} hold {times} the rows of the largest (ratio {settings.ratio})"
    return "every file of the partition"


def strategy_named(name: str) -> Strategy:
    if name not in STRATEGIES:
        raise NotFound.of("compaction strategy", name, STRATEGIES)
    return STRATEGIES[name]


def choose_batches(
    strategy: str, files: Sequence[PlannedFile], settings: StrategySettings, most_inputs: int | None = None
) -> FileBatches:
    """Return the batches of a leaf's files that a strategy merges, each with at most `most_inputs` files.

    A larger batch is cut, smallest files first. If one file is left over, it waits for the next plan, unless it also
    has rows of other partitions. A file with deleted rows that is in no batch is written alone, without these rows: by
    ``all`` always, by the other strategies from `FOLDED_PERCENT` on.
    """
    choose, least = strategy_named(strategy), 0 if strategy == "all" else FOLDED_PERCENT
    if most_inputs is None:
        return _with_deletions_folded(choose(files, settings), files, least)
    batches = choose(files, replace(settings, batch_size=min(settings.batch_size, most_inputs)))
    pieces = [batch[at : at + most_inputs] for batch in batches for at in range(0, len(batch), most_inputs)]
    kept = [piece for piece in pieces if len(piece) > 1 or not _is_whole(piece[0])]
    return _with_deletions_folded(kept, files, least)


def _with_deletions_folded(batches: FileBatches, files: Sequence[PlannedFile], least: int) -> FileBatches:
    """Return the batches, and each file that is in none of them and has at least so many percent of deleted rows."""
    merged = {file.filename for batch in batches for file in batch}
    left = (file for file in files if file.deletions is not None and file.filename not in merged)
    return [*batches, *([file] for file in left if _deleted_percent(file) >= least)]


def _deleted_percent(file: PlannedFile) -> float:
    deleted = 0 if file.deletions is None else file.deletions.rows
    return 100 * deleted / max(1, deleted + file.rows)


def _is_whole(file: PlannedFile) -> bool:
    return file.only_this_partition and file.deletions is None


def _similar(ordered: Sequence[PlannedFile], ratio: int) -> bool:
    return sum([file.rows for file in ordered[:-1]]) >= ratio * ordered[-1].rows


def _by_rows(files: Sequence[PlannedFile]) -> list[PlannedFile]:
    return sorted(files, key=attrgetter("rows", "filename"))


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """The decision to merge some files of one partition into one file."""

    id: str
    partition_id: str
    region: str
    inputs: tuple[PlannedFile, ...]
    rows_exact: bool  # whether the row counts of all inputs are exact
    processing: DataProcessing = NOTHING  # the filters, iterator and aggregations that are applied for good

    @property
    def rows(self) -> int:
        return sum([file.rows for file in self.inputs])

    @property
    def filenames(self) -> tuple[str, ...]:
        return tuple([file.filename for file in self.inputs])

    @property
    def output(self) -> str:
        return paths.data_file(self.partition_id, self.id)


class CompactionPlan(NamedTuple):
    """The jobs to run now, the number of jobs beyond the limits, and the claims that leave a leaf nothing to merge.

    `blocked_by` holds the claims of other jobs on leaves where the strategy would merge files if none were claimed.
    """

    jobs: tuple[CompactionJob, ...]
    waiting: int
    blocked_by: tuple[FileClaim, ...] = ()


def plan_compaction(
    state: TableState,
    strategy: str,
    settings: StrategySettings,
    claims: Sequence[FileClaim],
    clock: Clock,
    most_inputs: int | None = None,
    partition_id: str | None = None,
    excluded: Collection[str] = (),
    processing: DataProcessing = NOTHING,
) -> CompactionPlan:
    """Plan the jobs that a strategy proposes, skipping files that other jobs have claimed.

    Beyond the limits of `settings`, jobs wait: those of one partition as in Sleeper, those of the table from the right.

    `NotFound` when there is no such strategy or partition. `InvalidInput` when the partition is not a leaf.

    Parameters
    ----------
    most_inputs
        The most files that the state store can replace in one commit; None is no limit.
    processing
        The table's; each job applies the part of it that may be applied for good.
    """
    processing = processing.in_compaction(state.schema)
    strategy_named(strategy)
    if partition_id is not None:
        state.tree.check_is_leaf(partition_id)
    claimed_files = {(claim.partition_id, name) for claim in claims for name in claim.filenames}
    running = Counter(claim.partition_id for claim in claims)
    files_of_leaf = files_by_partition(state)
    blocked: set[str] = set()
    jobs: list[CompactionJob] = []
    proposed = 0
    for leaf in state.tree.leaves:
        if partition_id not in {None, leaf.id} or leaf.id in excluded:
            continue
        files = files_of_leaf.get(leaf.id, ())
        free = [file for file in files if (leaf.id, file.filename) not in claimed_files]
        batches = choose_batches(strategy, free, settings, most_inputs)
        if not batches and running[leaf.id] and choose_batches(strategy, files, settings, most_inputs):
            blocked.add(leaf.id)
        proposed += len(batches)
        if not batches:
            continue
        if strategy == "size-ratio":
            batches = batches[: max(0, settings.jobs_per_partition - running[leaf.id])]
        region = leaf.region.text(state.schema)
        for batch in batches:
            exact = all(file.rows_exact for file in batch)
            jobs.append(CompactionJob(clock.new_id(), leaf.id, region, tuple(batch), exact, processing))
    within_limit = jobs[: max(0, settings.jobs - len(claims))]
    blocked_by = tuple(claim for claim in claims if claim.partition_id in blocked)
    return CompactionPlan(tuple(within_limit), proposed - len(within_limit), blocked_by)


_MOST_CLAIMS = 3


def claims_text(claims: Sequence[FileClaim]) -> str:
    """Return which jobs have claimed how many files and until when, as text; "" without claims."""
    texts = []
    for claim in claims[:_MOST_CLAIMS]:
        verb = "is" if len(claim.filenames) == 1 else "are"
        files = f"{counted(len(claim.filenames), 'file')} {verb}"
        texts.append(f"{files} claimed by compaction job {claim.job_id} until {claim.until:%H:%M:%S} UTC")
    if len(claims) > _MOST_CLAIMS:
        texts.append(f"others by {counted(len(claims) - _MOST_CLAIMS, 'more job')}")
    return "; ".join(texts)
