"""Read the footers of data files: the keys and sizes of row groups, without reading a row.

`row_groups` reads one footer; `with_row_groups` adds to a scan plan how much of its files a scan reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from sleeper_nb.errors import StorageError, first_line
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.read.scan_plan import OpenedGroups, ScanPlan
from sleeper_nb.storage.filesystem import Storage

Ends = tuple[KeyValue, KeyValue] | None
"""The minimum and maximum value of a key; None if the file has no statistics for it."""
MOST_FOOTERS = 1000
"""A plan with more files gets no row groups: reading a plan must cost less than the scan."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a data file: its row count, the minimum and maximum of each row key, and each column's bytes."""

    rows: int
    ends: tuple[Ends, ...]
    column_bytes: Mapping[str, int]

    def may_overlap(self, region: Region) -> bool:
        """Return whether any of its rows can lie in the region; True if the statistics do not tell."""
        return all(_may_overlap(ends, wanted) for ends, wanted in zip(self.ends, region.ranges, strict=True))

    def lies_in(self, region: Region) -> bool:
        """Return whether all of its rows lie in the region; False if the statistics do not tell."""
        for ends, wanted in zip(self.ends, region.ranges, strict=True):
            if ends is None or ends[0] not in wanted or ends[1] not in wanted:
                return False
        return True


def row_groups(filename: str, schema: Schema, storage: Storage, checksum: str | None = None) -> tuple[RowGroup, ...]:
    """Return the row groups of a data file, in order; of a bucket, from the copy of its footer on this machine.

    `NotFound`, `StorageError` when the file does not exist any more, or is not a Parquet file.

    Parameters
    ----------
    checksum
        That of the file, by which a copy is known; when None, the footer is read.
    """
    if storage.local or checksum is None:
        return groups_in(_footer(filename, storage), schema)
    address = storage.locate(filename)
    kept = storage.cache.part(address, checksum, "footer")
    if kept is not None:
        try:
            return groups_in(pq.read_metadata(pa.BufferReader(kept)), schema)
        except (pa.ArrowException, OSError):  # another release wrote it, or a disk changed it
            storage.cache.drop_part(address, checksum, "footer")
    footer, written = _footer(filename, storage), pa.BufferOutputStream()
    footer.write_metadata_file(written)
    storage.cache.put_part(address, checksum, "footer", written.getvalue().to_pybytes())
    return groups_in(footer, schema)


def _footer(filename: str, storage: Storage) -> pq.FileMetaData:
    with storage.input(filename) as stream:
        try:
            return pq.read_metadata(stream)
        except pa.ArrowInvalid as error:
            hint = "the file may be truncated or not a Parquet file: restore it from a copy"
            raise StorageError(f"cannot read {storage.locate(filename)}: {first_line(error)}", hint=hint) from error


def groups_in(footer: pq.FileMetaData, schema: Schema) -> tuple[RowGroup, ...]:
    """Return the row groups that the footer of a data file describes, in order."""
    groups, keys = [], [key.name for key in schema.row_keys]  # Python's dates do not reach as far as other columns'
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        ends: dict[str, Ends] = {}
        sizes: dict[str, int] = {}
        for column in map(group.column, range(group.num_columns)):
            name = column.path_in_schema.partition(".")[0]
            if name in keys:
                statistics = column.statistics
                has_ends = statistics is not None and statistics.has_min_max
                ends[name] = (statistics.min, statistics.max) if has_ends else None
            sizes[name] = sizes.get(name, 0) + column.total_compressed_size
        groups.append(RowGroup(group.num_rows, tuple(ends.get(name) for name in keys), sizes))
    return tuple(groups)


def _may_overlap(ends: Ends, wanted: Range) -> bool:
    if ends is None:
        return True
    low, high = ends
    return (wanted.max is None or low < wanted.max) and (wanted.min is None or high >= wanted.min)  # type: ignore[operator]


def with_row_groups(plan: ScanPlan, storage: Storage, columns: Sequence[str] | None = None) -> ScanPlan:
    """Return the plan with the row groups and bytes that the scan reads, according to the files' footers.

    `NotFound`, `StorageError` when a file does not exist any more or its footer cannot be read.

    Parameters
    ----------
    plan
        The files of a scan. A plan with more than 1,000 files is returned unchanged.
    columns
        The columns that the scan reads; all when None. Row keys are added for files that are filtered to a region.
    """
    uses: dict[str, list[Region | None]] = defaultdict(list)
    checksums = {file.filename: file.checksum for file in plan.files}
    for file in plan.files:
        uses[file.filename].append(file.region)
    if len(uses) > MOST_FOOTERS:
        return plan
    with ThreadPoolExecutor(storage.at_once) as pool:
        footers = list(pool.map(lambda name: row_groups(name, plan.schema, storage, checksums[name]), uses))
    wanted = {field.column for field in plan.schema.fields if columns is None or field.name in columns}
    keys = {key.name for key in plan.schema.row_keys}
    group_count, size = 0, 0
    for groups, regions in zip(footers, uses.values(), strict=True):
        needed = wanted if None in regions else wanted | keys
        for group in groups:
            if any(region is None or group.may_overlap(region) for region in regions):
                group_count += 1
                size += sum(count for name, count in group.column_bytes.items() if name in needed)
    return replace(plan, opened=OpenedGroups(sum(map(len, footers)), group_count, size))
