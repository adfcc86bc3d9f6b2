"""Which compaction jobs a table needs now: what a strategy proposes, within the limits, as values. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sleeper_nb.catalog.base import Assignment
from sleeper_nb.clock import Clock
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.processing import NOTHING, DataProcessing
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.compacting.strategies import StrategySettings, strategy_named, within
from sleeper_nb.operations.scanning.planning import PlannedFile, files_by_partition
from sleeper_nb.storage import paths


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
    """The jobs to run now, and how many more the strategy proposes beyond the limits."""

    jobs: tuple[CompactionJob, ...]
    waiting: int


def plan_compaction(
    state: TableState,
    strategy: str,
    settings: StrategySettings,
    claimed: Sequence[Assignment],
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
    free = _free_files(state, taken)
    jobs: list[CompactionJob] = []
    proposed = 0
    for leaf in state.tree.leaves:
        if partition_id not in {None, leaf.id} or leaf.id in but:
            continue
        batches = choose(free.get(leaf.id, ()), settings)
        proposed += len(batches)
        most = settings.jobs_per_partition - running[leaf.id] if strategy == "size-ratio" else len(batches)
        words = leaf.region.text(state.schema) if batches else ""
        for batch in batches[: max(0, most)]:
            exact = all(file.rows_exact for file in batch)
            jobs.append(CompactionJob(clock.new_id(), leaf.id, words, tuple(batch), exact, processing))
    kept = jobs[: max(0, settings.jobs - len(claimed))]
    return CompactionPlan(tuple(kept), proposed - len(kept))


def _free_files(state: TableState, taken: Collection[tuple[str, str]]) -> dict[str, list[PlannedFile]]:
    """Return the free files of each partition."""
    found = files_by_partition(state)
    for name in {partition_id for partition_id, _ in taken} & found.keys():
        found[name] = [file for file in found[name] if (name, file.filename) not in taken]
    return found
