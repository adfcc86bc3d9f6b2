"""Which planned files must be read together, and how they are shared out among the tasks of an engine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sleeper_nb.operations.scanning.planning import PlannedFile, PlannedLeaf

FileGroup = tuple[PlannedFile, ...]
"""Files whose rows are read together."""

TASK_BYTES: Final = 128 << 20
"""The most that a task reads, if it is more than one group (Spark's ``spark.sql.files.maxPartitionBytes``)."""
OPEN_BYTES: Final = 4 << 20
"""What opening a file costs, in bytes that could be read meanwhile (Spark's ``spark.sql.files.openCostInBytes``)."""


def groups_of(leaves: Iterable[PlannedLeaf], *, apart: bool) -> list[FileGroup]:
    """Return the files of each leaf; each file alone, `apart`, where every row stays as it is or goes."""
    if apart:
        return [(file,) for leaf in leaves for file in leaf.files]
    return [leaf.files for leaf in leaves if leaf.files]


def packed(groups: Sequence[FileGroup], parallelism: int) -> list[tuple[FileGroup, ...]]:
    """Return groups for each task, in order: about as many tasks as Spark itself would make for files of these sizes.

    Parameters
    ----------
    groups
        None is cut.
    parallelism
        How many tasks run at once.
    """
    costs = [sum(file.bytes + OPEN_BYTES for file in group) for group in groups]
    most = min(TASK_BYTES, max(OPEN_BYTES, -(-sum(costs) // max(1, parallelism))))
    tasks: list[list[FileGroup]] = []
    filled = 0
    for group, cost in zip(groups, costs, strict=True):
        if not tasks or filled + cost > most:
            tasks.append([])
            filled = 0
        tasks[-1].append(group)
        filled += cost
    return [tuple(task) for task in tasks]
