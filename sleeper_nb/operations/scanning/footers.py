"""What the footers of data files tell of their row groups: keys and sizes, without reading a row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from sleeper_nb.errors import StorageError
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.scanning.scan_plan import OpenedGroups, ScanPlan
from sleeper_nb.storage.filesystem import Storage

Ends = tuple[KeyValue, KeyValue] | None
"""The least and the greatest value; None where the statistics do not tell."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a data file: its rows, the ends of each row key, and the bytes of each column in the file."""

    rows: int
    ends: tuple[Ends, ...]
    column_bytes: Mapping[str, int]

    def may_meet(self, region: Region) -> bool:
        """Return whether a row of it can lie in the region, as far as the statistics tell."""
        return all(_meet(ends, of_key) for ends, of_key in zip(self.ends, region.ranges, strict=True))

    def lies_in(self, region: Region) -> bool:
        """Return whether all of its rows lie in the region; False also where the statistics do not tell."""
        known = zip(self.ends, region.ranges, strict=True)
        return all(ends is not None and ends[0] in of_key and ends[1] in of_key for ends, of_key in known)


def row_groups(filename: str, schema: Schema, storage: Storage) -> tuple[RowGroup, ...]:
    """Return the row groups of a data file, in their order.

    Raises
    ------
    NotFound, StorageError
        When the file is gone, or is no Parquet file.
    """
    with storage.input(filename) as stream:
        try:
            footer = pq.read_metadata(stream)
        except pa.ArrowInvalid as error:
            why = str(error).partition("\n")[0]
            raise StorageError(f"cannot read {storage.locate(filename)}: {why}", hint="is it whole?") from error
    found = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        ends: dict[str, Ends] = {}
        sizes: dict[str, int] = {}
        for column in map(group.column, range(group.num_columns)):
            name = column.path_in_schema.partition(".")[0]
            told = column.statistics
            ends[name] = (told.min, told.max) if told is not None and told.has_min_max else None
            sizes[name] = sizes.get(name, 0) + column.total_compressed_size
        keys = tuple(ends.get(key.name) for key in schema.row_keys)
        found.append(RowGroup(group.num_rows, keys, sizes))
    return tuple(found)


def _meet(ends: Ends, wanted: Range) -> bool:
    if ends is None:
        return True
    low, high = ends
    return (wanted.max is None or low < wanted.max) and (wanted.min is None or high >= wanted.min)  # type: ignore[operator]


# How much of its files a scan reads: the row groups that can hold its keys, as the footers of the files tell.

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
