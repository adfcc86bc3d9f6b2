"""The row keys in the files of one leaf: where its middle lies, and how many rows of each file lie in a region.

Files are sorted, so the least key of each row group is an equi-depth sample that costs only the footers; Sleeper
keeps sketches beside its files instead. A leaf of few rows is read whole, its row keys only. Counts are exact in both
cases: of a large leaf, the row groups that a border cuts are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import cached_property
from itertools import count
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.errors import StorageError
from sleeper_nb.model.files import FileReference
from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import Partition, Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.scanning.footers import RowGroup, row_groups
from sleeper_nb.operations.scanning.scan_plan import keys_in
from sleeper_nb.storage.filesystem import Storage

READ_ROWS = 2_000_000
"""Up to so many rows of a leaf are read for its medians."""
_FILE = "file"


class LeafKeys(ABC):
    """What the files of a leaf hold of each row key."""

    @abstractmethod
    def rows(self, region: Region) -> int:
        """Return how many rows lie in a region, about."""

    @abstractmethod
    def median(self, dimension: int, region: Region) -> KeyValue | None:
        """Return the value of a row key in the middle of a region's rows; None when no row there has a smaller one."""

    @abstractmethod
    def second(self, dimension: int, region: Region) -> KeyValue | None:
        """Return the least value but one of a row key in a region; None when its rows have one value only."""

    @abstractmethod
    def counts(self, regions: Sequence[Region]) -> Mapping[str, Sequence[int]]:
        """Return for each file how many of its rows lie in each of some regions, exactly."""


def leaf_keys(
    storage: Storage,
    schema: Schema,
    leaf: Partition,
    references: Sequence[FileReference],
    read_rows: int = READ_ROWS,
    pool: Executor | None = None,
) -> LeafKeys:
    """Open the files of a leaf, several at once in a `pool`; a leaf of at most `read_rows` rows is read whole."""
    if sum(reference.rows for reference in references) <= read_rows:
        return KeysInMemory.read(storage, schema, leaf, references, pool)
    return KeysOfRowGroups(storage, schema, leaf, references, read_rows)


class KeysInMemory(LeafKeys):
    """The row keys of all rows that were read.

    Parameters
    ----------
    keys
        A column for each row key, and `file`, the number of the file in `filenames`.
    region
        That they all lie in.
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
        """Read the row keys of files; of a file that other leaves share, those of this one."""

        def keys_of(number: int, reference: FileReference) -> pa.Table:
            with _opened(storage, reference.filename) as file:
                keys = file.read(columns=_names(schema), use_threads=False)
            inside = keys if reference.only_this_partition else keys.filter(keys_in(leaf.region, keys, schema))
            return _numbered(inside, number)

        tables = list((pool.map if pool else map)(keys_of, count(), references))
        return cls(_joined(tables, schema), [reference.filename for reference in references], schema, leaf.region)

    def rows(self, region: Region) -> int:
        """Count them, exactly."""
        return int(self._in(region).num_rows)

    def median(self, dimension: int, region: Region) -> KeyValue | None:
        """Return the value in the middle when a row is below it."""
        values = self._values(dimension, region)
        if not len(values):
            return None
        place = len(values) // 2
        middle: KeyValue = values[pc.partition_nth_indices(values, pivot=place)[place].as_py()].as_py()
        return middle if middle > pc.min(values).as_py() else None

    def second(self, dimension: int, region: Region) -> KeyValue | None:
        """Return the least value above the least."""
        values = self._values(dimension, region)
        above = values.filter(pc.greater(values, pc.min(values)))
        found: KeyValue | None = pc.min(above).as_py()
        return found

    def counts(self, regions: Sequence[Region]) -> Mapping[str, Sequence[int]]:
        """Count the rows that were read."""
        found = {filename: [0] * len(regions) for filename in self._filenames}
        for i, region in enumerate(regions):
            for each in pc.value_counts(self._in(region)[_FILE]).to_pylist():
                found[self._filenames[each["values"]]][i] = each["counts"]
        return found

    def _in(self, region: Region) -> pa.Table:
        if region.covers(self._region):
            return self._keys
        if region not in self._parts:  # each part is asked for its rows, its median and its counts
            self._parts[region] = self._keys.filter(keys_in(region, self._keys, self._schema))
        return self._parts[region]

    def _values(self, dimension: int, region: Region) -> pa.Array:
        return self._in(region)[self._schema.row_keys[dimension].name].combine_chunks()


class PlacedGroup(NamedTuple):
    """A row group, the number of its file, and its own number there."""

    file: int
    number: int
    group: RowGroup

    @property
    def least(self) -> KeyValue:
        """The least first row key."""
        ends = self.group.ends[0]
        assert ends is not None  # noqa: S101 - `KeysOfRowGroups` takes no others
        return ends[0]


class KeysOfRowGroups(LeafKeys):
    """The least row key of each row group, from the footers; other keys, from row groups spread over the files."""

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
        found = (placed for number in range(len(references)) for placed in self._groups_of(number))
        self._groups = [placed for placed in found if placed.group.may_overlap(leaf.region)]

    def rows(self, region: Region) -> int:
        """Count the row groups that begin in the region."""
        begins = (placed for placed in self._meeting(region) if placed.least in region.ranges[0])
        return sum(placed.group.rows for placed in begins)

    def median(self, dimension: int, region: Region) -> KeyValue | None:
        """Return the first key of the row group in the middle; where that tells nothing, the middle of the sample."""
        found = None if dimension else self._middle(region)
        return self._sample.median(dimension, region) if found is None else found

    def _middle(self, region: Region) -> KeyValue | None:
        begins = sorted((placed.least, placed.group.rows) for placed in self._meeting(region))
        middle, before, here = sum(rows for _, rows in begins) / 2, 0, region.ranges[0]
        for value, rows in begins:
            before += rows
            # a row group that begins below the region says nothing of where its rows in the region begin
            if before > middle and value in here:
                return None if value in {begins[0][0], here.min} else value
        return None

    def second(self, dimension: int, region: Region) -> KeyValue | None:
        """Return what the sample says."""
        return self._sample.second(dimension, region)

    def counts(self, regions: Sequence[Region]) -> Mapping[str, Sequence[int]]:
        """Count whole row groups by their statistics, and read those that a border cuts."""
        found = {filename: [0] * len(regions) for filename in self._filenames}
        for placed in self._groups:
            met = [i for i, region in enumerate(regions) if placed.group.may_overlap(region)]
            of_file = found[self._filenames[placed.file]]
            if len(met) == 1 and placed.group.lies_in(regions[met[0]]):
                of_file[met[0]] += placed.group.rows
                continue
            keys = self._read(placed)
            for i in met:
                of_file[i] += pc.sum(keys_in(regions[i], keys, self._schema)).as_py() or 0
        return found

    def _meeting(self, region: Region) -> Iterator[PlacedGroup]:
        return (placed for placed in self._groups if placed.group.may_overlap(region))

    @cached_property
    def _sample(self) -> KeysInMemory:
        step = max(1, -(-sum(placed.group.rows for placed in self._groups) // self._read_rows))
        tables = [_numbered(self._read(placed), placed.file) for placed in self._groups[::step]]
        return KeysInMemory(_joined(tables, self._schema), self._filenames, self._schema, self._leaf.region)

    def _groups_of(self, file: int) -> Iterator[PlacedGroup]:
        for number, group in enumerate(row_groups(self._filenames[file], self._schema, self._storage)):
            if None in group.ends:
                what = f"data file {self._filenames[file]} has no statistics of its keys"
                raise StorageError(what, hint="compact its partition first")
            yield PlacedGroup(file, number, group)

    def _read(self, placed: PlacedGroup) -> pa.Table:
        with _opened(self._storage, self._filenames[placed.file]) as file:
            return file.read_row_group(placed.number, columns=_names(self._schema), use_threads=False)


def _opened(storage: Storage, filename: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(storage.input(filename), page_checksum_verification=True)
    except pa.ArrowException as error:
        raise StorageError(f"cannot read data file {filename}: {error}", hint="restore it from a copy") from error


def _names(schema: Schema) -> list[str]:
    return [key.name for key in schema.row_keys]


def _numbered(keys: pa.Table, number: int) -> pa.Table:
    return keys.append_column(_FILE, pa.repeat(pa.scalar(number, pa.int32()), keys.num_rows))


def _joined(tables: Sequence[pa.Table], schema: Schema) -> pa.Table:
    columns = [pa.field(key.name, key.type.arrow) for key in schema.row_keys]
    columns.append(pa.field(_FILE, pa.int32()))
    return pa.concat_tables([table.cast(pa.schema(columns)) for table in tables] or [pa.schema(columns).empty_table()])
