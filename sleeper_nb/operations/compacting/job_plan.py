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
from sleeper_nb.report import counted
from sleeper_nb.storage import paths

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
    blocked_by: tuple[Assignment, ...] = ()


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


def claims_text(claims: Sequence[Assignment]) -> str:
    """Say which jobs have claimed how many files, and until when; empty when there are no claims."""
    first = claims[:_MOST_CLAIMS]
    said = [
        f"{counted(len(claim.filenames), 'file')} {'is' if len(claim.filenames) == 1 else 'are'} claimed by compaction"
        f" job {claim.job_id} until {claim.until:%H:%M:%S} UTC"
        for claim in first
    ]
    others = len(claims) - len(first)
    return "; ".join([*said, f"others by {counted(others, 'more job')}"] if others else said)
