"""The row keys in one leaf's files, as splitting needs them: medians, and the rows of each file in a region.

Files are sorted, so the first keys of their row groups are an equi-depth sample that costs only reading footers;
Sleeper stores sketches next to its files instead. A leaf with few rows is read completely, but only its row keys.
Counts are exact in both cases: in a large leaf, the row groups that a region's boundary cuts are read.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.errors import StorageError
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import Partition, Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.read.footers import RowGroup, row_groups
from sleeper_nb.read.live_rows import kept, positions_of
from sleeper_nb.read.read_rows import check_unchanged
from sleeper_nb.read.scan_plan import keys_in
from sleeper_nb.storage.filesystem import Storage

logger = logging.getLogger(__name__)

READ_ROWS = 2_000_000
"""The most rows of a leaf that are read to find its medians."""
_FILE = "file"


def leaf_keys(
    storage: Storage,
    schema: Schema,
    leaf: Partition,
    references: Sequence[FileReference],
    read_rows: int = READ_ROWS,
    pool: Executor | None = None,
) -> LeafKeys:
    """Return the keys of a leaf: all of them in memory for at most `read_rows` rows, otherwise by row groups.

    With a `pool`, files are read in parallel.

    `StorageError` when a file outside the table's folder was changed since it was added: its keys are not those of the
    table.
    """
    check_unchanged(references, storage)
    rows = sum(reference.rows for reference in references)
    if rows <= read_rows:
        return KeysInMemory.read(storage, schema, leaf, references, pool)
    logger.debug("leaf %s has %d rows: its medians come from row groups", leaf.id, rows)
    return KeysOfRowGroups(storage, schema, leaf, references, read_rows)


def has_several_keys(storage: Storage, schema: Schema, leaf: Partition, references: Sequence[FileReference]) -> bool:
    """Return whether the rows of a leaf differ in a row key, so that it can be split.

    Files of the leaf alone tell by their least and greatest keys. Of a file that it shares, or that lost rows, the
    footer is read, and row groups that a boundary or a deletion cuts.
    """
    whole = [each for each in references if each.only_this_partition and each.deletions is None]
    values = [{value for each in whole for value in (each.min_key[i], each.max_key[i])} for i in _dimensions(schema)]
    if any(len(each) > 1 for each in values):
        return True
    others = [each for each in references if each not in whole]
    if not others:
        return False
    keys = KeysOfRowGroups(storage, schema, leaf, others)
    return any(len(keys.some_values(i, leaf.region, values[i])) > 1 for i in _dimensions(schema))


class KeysInMemory:
    """The row keys of some rows, in memory.

    Parameters
    ----------
    keys
        A column for each row key, and ``file``: the index of the row's file in `filenames`.
    region
        The region that all keys lie in.
    """

    def __init__(self, keys: pa.Table, filenames: Sequence[str], schema: Schema, region: Region) -> None:
        self._keys, self._filenames, self._schema, self._region = keys, filenames, schema, region
        self._parts: dict[Region, pa.Table] = {}

    @classmethod
    def read(
        cls,
        storage: Storage,
        schema: Schema,
        leaf: Partition,
        references: Sequence[FileReference],
        pool: Executor | None = None,
    ) -> KeysInMemory:
        """Read the row keys of files; from a file shared with other leaves, only the keys of this leaf."""

        def keys_of(number: int, reference: FileReference) -> pa.Table:
            with _opened(storage, reference.filename) as file:
                read = file.read(columns=_key_names(schema), use_threads=False)
            keys = kept(read, 0, positions_of(reference.deletions, storage))
            inside = keys if reference.only_this_partition else keys.filter(keys_in(leaf.region, keys, schema))
            return _with_file_number(inside, number)

        tables = list((pool.map if pool else map)(keys_of, count(), references))
        return cls(_concatenated(tables, schema), [reference.filename for reference in references], schema, leaf.region)

    def rows(self, region: Region) -> int:
        """Return how many rows lie in a region."""
        return int(self._in(region).num_rows)

    def median(self, dimension: int, region: Region) -> KeyValue | None:
        """Return the median of a row key among the rows in a region; None if no row there has a smaller value."""
        values = self._values(dimension, region)
        if not len(values):
            return None
        half = len(values) // 2
        middle: KeyValue = values[pc.partition_nth_indices(values, pivot=half)[half].as_py()].as_py()
        return middle if middle > pc.min(values).as_py() else None

    def second(self, dimension: int, region: Region) -> KeyValue | None:
        """Return the second smallest value of a row key in a region; None if all rows there have the same value."""
        values = self._values(dimension, region)
        above = values.filter(pc.greater(values, pc.min(values)))
        value: KeyValue | None = pc.min(above).as_py()
        return value

    def counts(self, regions: Sequence[Region]) -> Mapping[str, Sequence[int]]:
        """Return for each file name the exact number of its rows in each of some regions."""
        counts = {filename: [0] * len(regions) for filename in self._filenames}
        for i, region in enumerate(regions):
            for each in pc.value_counts(self._in(region)[_FILE]).to_pylist():
                counts[self._filenames[each["values"]]][i] = each["counts"]
        return counts

    def _in(self, region: Region) -> pa.Table:
        if region.covers(self._region):
            return self._keys
        if region not in self._parts:  # the rows, median and counts of a part are each read from it
            self._parts[region] = self._keys.filter(keys_in(region, self._keys, self._schema))
        return self._parts[region]

    def _values(self, dimension: int, region: Region) -> pa.Array:
        return self._in(region)[self._schema.row_keys[dimension].name].combine_chunks()


class PlacedGroup(NamedTuple):
    """A row group with the index of its file, its own index in the file, and the position of its first row there.

    `group` counts only rows that were not deleted; `lost` are the deleted ones.
    """

    file: int
    number: int
    group: RowGroup
    first: int
    lost: int

    @property
    def first_key(self) -> KeyValue:
        ends = self.group.ends[0]
        assert ends is not None  # noqa: S101 - `KeysOfRowGroups` refuses other row groups
        return ends[0]


class KeysOfRowGroups:
    """The first keys of row groups, from the footers; for all else, a sample of row groups spread over the files."""

    def __init__(
        self,
        storage: Storage,
        schema: Schema,
        leaf: Partition,
        references: Sequence[FileReference],
        read_rows: int = READ_ROWS,
    ) -> None:
        self._storage, self._schema, self._leaf, self._read_rows = storage, schema, leaf, read_rows
        self._filenames = [reference.filename for reference in references]
        self._deleted = [positions_of(reference.deletions, storage) for reference in references]
        placed_groups = (placed for file in range(len(references)) for placed in self._groups_of(file))
        self._groups = [placed for placed in placed_groups if placed.group.may_overlap(leaf.region)]

    def rows(self, region: Region) -> int:
        """Return about how many rows lie in a region."""
        begins = (placed for placed in self._overlapping(region) if placed.first_key in region.ranges[0])
        return sum(placed.group.rows for placed in begins)

    def median(self, dimension: int, region: Region) -> KeyValue | None:
        """Return the first key of the row group in the middle; if there is none, the median of the sample."""
        if dimension == 0:
            middle = self._first_key_in_the_middle(region)
            if middle is not None:
                return middle
        return self._sample.median(dimension, region)

    def _first_key_in_the_middle(self, region: Region) -> KeyValue | None:
        begins = sorted((placed.first_key, placed.group.rows) for placed in self._overlapping(region))
        middle, before, here = sum(rows for _, rows in begins) / 2, 0, region.ranges[0]
        for value, rows in begins:
            before += rows
            # a row group that begins before the region does not tell where its rows in the region begin
            if before > middle and value in here:
                return None if value in {begins[0][0], here.min} else value
        return None

    def second(self, dimension: int, region: Region) -> KeyValue | None:
        """Return the second smallest value in the sample; if all of it has one value, that of all rows."""
        found = self._sample.second(dimension, region)
        if found is not None:
            return found
        values: set[KeyValue] = set()
        for placed in self._overlapping(region):
            ends = self._ends(placed, dimension, region)
            values |= ends if len(ends) == 1 else set(self._two_least(placed, dimension, region))
        return sorted(values)[1] if len(values) > 1 else None

    def some_values(self, dimension: int, region: Region, known: Iterable[KeyValue] = ()) -> set[KeyValue]:
        """Return two or more values of a row key in a region, with those known before; one if all rows have the same.

        A row group is read only where its statistics do not tell.
        """
        values = set(known)
        for placed in self._overlapping(region):
            if len(values) > 1:
                break
            values |= self._ends(placed, dimension, region)
        return values

    def _ends(self, placed: PlacedGroup, dimension: int, region: Region) -> set[KeyValue]:
        ends = placed.group.ends[dimension]
        if ends is not None and placed.group.lies_in(region) and not placed.lost:
            return set(ends)
        found = pc.min_max(self._values(placed, dimension, region)).as_py()
        return {found["min"], found["max"]} - {None}

    def _two_least(self, placed: PlacedGroup, dimension: int, region: Region) -> list[KeyValue]:
        return sorted(self._values(placed, dimension, region).unique().to_pylist())[:2]

    def _values(self, placed: PlacedGroup, dimension: int, region: Region) -> pa.ChunkedArray:
        keys = self._read(placed)
        return keys.filter(keys_in(region, keys, self._schema))[self._schema.row_keys[dimension].name]

    def counts(self, regions: Sequence[Region]) -> Mapping[str, Sequence[int]]:
        """Count row groups inside a region by their statistics, and read those that a boundary cuts."""
        counts = {filename: [0] * len(regions) for filename in self._filenames}
        for placed in self._groups:
            overlapped = [i for i, region in enumerate(regions) if placed.group.may_overlap(region)]
            of_file = counts[self._filenames[placed.file]]
            if len(overlapped) == 1 and placed.group.lies_in(regions[overlapped[0]]):
                of_file[overlapped[0]] += placed.group.rows
                continue
            keys = self._read(placed)
            for i in overlapped:
                of_file[i] += pc.sum(keys_in(regions[i], keys, self._schema)).as_py() or 0
        return counts

    def _overlapping(self, region: Region) -> Iterator[PlacedGroup]:
        return (placed for placed in self._groups if placed.group.may_overlap(region))

    @cached_property
    def _sample(self) -> KeysInMemory:
        rows = sum(placed.group.rows for placed in self._groups)
        step = max(1, math.ceil(rows / self._read_rows))
        tables = [_with_file_number(self._read(placed), placed.file) for placed in self._groups[::step]]
        return KeysInMemory(_concatenated(tables, self._schema), self._filenames, self._schema, self._leaf.region)

    def _groups_of(self, file: int) -> Iterator[PlacedGroup]:
        begin = 0
        for number, group in enumerate(row_groups(self._filenames[file], self._schema, self._storage)):
            first, begin = begin, begin + group.rows
            if None in group.ends:
                message = f"data file {self._filenames[file]} has no statistics of its keys"
                raise StorageError(message, hint="compact its partition first")
            deleted = np.searchsorted(self._deleted[file], (first, begin))
            lost = int(deleted[1] - deleted[0])
            yield PlacedGroup(file, number, replace(group, rows=group.rows - lost), first, lost)

    def _read(self, placed: PlacedGroup) -> pa.Table:
        with _opened(self._storage, self._filenames[placed.file]) as file:
            rows = file.read_row_group(placed.number, columns=_key_names(self._schema), use_threads=False)
        return kept(rows, placed.first, self._deleted[placed.file])


LeafKeys = KeysInMemory | KeysOfRowGroups


def _opened(storage: Storage, filename: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(storage.input(filename), page_checksum_verification=True)
    except pa.ArrowException as error:
        raise StorageError(f"cannot read data file {filename}: {error}", hint="restore it from a copy") from error


def _dimensions(schema: Schema) -> range:
    return range(len(schema.row_keys))


def _key_names(schema: Schema) -> list[str]:
    return [key.name for key in schema.row_keys]


def _with_file_number(keys: pa.Table, number: int) -> pa.Table:
    return keys.append_column(_FILE, pa.repeat(pa.scalar(number, pa.int32()), keys.num_rows))


def _concatenated(tables: Sequence[pa.Table], schema: Schema) -> pa.Table:
    columns = [pa.field(key.name, key.type.arrow) for key in schema.row_keys]
    columns.append(pa.field(_FILE, pa.int32()))
    return pa.concat_tables([table.cast(pa.schema(columns)) for table in tables] or [pa.schema(columns).empty_table()])
