"""How much of its files a scan reads: the row groups that can hold its keys, as the footers of the files tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from sleeper_nb.model.partitions import Region
from sleeper_nb.operations.scanning.footers import row_groups
from sleeper_nb.operations.scanning.planning import OpenedGroups, ScanPlan
from sleeper_nb.storage.filesystem import Storage

MOST_FOOTERS = 1000
"""Of more files the footers are not read: a plan is asked for to know what a scan costs, and must cost less."""


def with_row_groups(plan: ScanPlan, storage: Storage, columns: Sequence[str] | None = None) -> ScanPlan:
    """Return the plan with what is read of its files: row groups that can hold the keys, and their columns' bytes.

    Parameters
    ----------
    plan
        The files of a scan. With more than 1,000 of them it is returned as it is.
    storage
        The table's folder, whose files' footers are read.
    columns
        The columns that the scan reads; all when None. Row keys are counted in, where a file is cut to a region.

    Raises
    ------
    NotFound, StorageError
        When a file is gone or its footer cannot be read.
    """
    uses: dict[str, list[Region | None]] = defaultdict(list)
    for file in plan.files:
        uses[file.filename].append(file.region)
    if len(uses) > MOST_FOOTERS:
        return plan
    with ThreadPoolExecutor(storage.at_once) as pool:
        footers = list(pool.map(lambda name: row_groups(name, plan.schema, storage), uses))
    wanted = {field.column for field in plan.schema.fields if columns is None or field.name in columns}
    keys = {key.name for key in plan.schema.row_keys}
    found, size = 0, 0
    for groups, regions in zip(footers, uses.values(), strict=True):
        needed = wanted if None in regions else wanted | keys
        for group in groups:
            if any(region is None or group.may_meet(region) for region in regions):
                found += 1
                size += sum(count for name, count in group.column_bytes.items() if name in needed)
    return replace(plan, opened=OpenedGroups(sum(map(len, footers)), found, size))
