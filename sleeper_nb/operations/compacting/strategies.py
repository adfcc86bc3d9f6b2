"""Which files of a leaf to merge: Sleeper's compaction strategies, as pure functions of the files' sizes in rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from sleeper_nb.errors import NotFound
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.operations.scanning.planning import PlannedFile
from sleeper_nb.report import counted


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


Batches = list[list[PlannedFile]]
Strategy = Callable[[Sequence[PlannedFile], StrategySettings], Batches]


def basic(files: Sequence[PlannedFile], settings: StrategySettings) -> Batches:
    """Merge the smallest files in batches of exactly the batch size; a remainder waits for more files."""
    ordered = _by_rows(files)
    size = settings.batch_size
    return [ordered[i : i + size] for i in range(0, len(ordered) - size + 1, size)]


def size_ratio(files: Sequence[PlannedFile], settings: StrategySettings) -> Batches:
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


def everything(files: Sequence[PlannedFile], _settings: StrategySettings) -> Batches:
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

    def bounded(files: Sequence[PlannedFile], settings: StrategySettings) -> Batches:
        batches = strategy(files, replace(settings, batch_size=min(settings.batch_size, most)))
        pieces = [batch[at : at + most] for batch in batches for at in range(0, len(batch), most)]
        return [piece for piece in pieces if len(piece) > 1 or not piece[0].only_this_partition]

    return bounded


def _similar(ordered: Sequence[PlannedFile], ratio: int) -> bool:
    return sum([file.rows for file in ordered[:-1]]) >= ratio * ordered[-1].rows


def _by_rows(files: Sequence[PlannedFile]) -> list[PlannedFile]:
    return sorted(files, key=attrgetter("rows", "filename"))
