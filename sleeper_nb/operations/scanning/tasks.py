"""Which planned files must be read together, and how they are shared out among the tasks of an engine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sleeper_nb.operations.scanning.planning import PlannedFile, PlannedLeaf

FileGroup = tuple[PlannedFile, ...]
"""Files whose rows are read together."""

TASK_BYTES: Final = 128 << 20
"""The most that a task reads, if it is more than one group (Spark's ``spark.sql.files.maxPartitionBytes``)."""
OPEN_BYTES: Final = 1 << 20
"""What opening a file counts for, as bytes that are read meanwhile: a quarter of Spark's own figure, as our kernel
opens many little files in one go."""

MERGED_FILES: Final = 64
MERGED_BYTES: Final = 16 << 20
"""Little files of one task are opened together, up to so many and so large: opening each takes longer than a merge."""


def groups_of(leaves: Iterable[PlannedLeaf], *, apart: bool) -> list[FileGroup]:
    """Return the files of each leaf; each file alone, `apart`, where every row stays as it is or goes."""
    if apart:
        return [(file,) for leaf in leaves for file in leaf.files]
    return [leaf.files for leaf in leaves if leaf.files]


def packed(groups: Sequence[FileGroup], parallelism: int) -> list[tuple[FileGroup, ...]]:
    """Return groups for each task, in order, by Spark's own rule for files: a task each core, or more for much data.

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


def merged_groups(groups: Sequence[FileGroup]) -> tuple[FileGroup, ...]:
    """Return the same files in fewer groups, where every row stays as it is or goes: little files become one group."""
    merged: list[list[PlannedFile]] = []
    size = 0
    for group in groups:
        more = sum(file.bytes for file in group)
        if not merged or len(merged[-1]) + len(group) > MERGED_FILES or size + more > MERGED_BYTES:
            merged.append([])
            size = 0
        merged[-1].extend(group)
        size += more
    return tuple(map(tuple, merged))
