"""Read the rows of one data file that were not deleted: the positions of its deletion vector are skipped.

Other files are read by engines, which do not count rows. A file with a vector is read here, row group by row group, so
the position of each row in the file is known.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, groupby
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.errors import StorageError
from sleeper_nb.model.deletions import FILE_NUMBER, PLACES, POSITION, POSITIONS, DeletionVector
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.read.background import prefetched
from sleeper_nb.read.footers import RowGroup, groups_in
from sleeper_nb.read.scan_plan import PlannedFile, ScanPlan, keys_in
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import damaged, read_checked

Positions = npt.NDArray[np.int64]
"""Positions of rows in a data file, from 0, increasing."""

NO_POSITIONS: Final[Positions] = np.empty(0, np.int64)
_BATCH_ROWS: Final = 65_536
_READ_AHEAD: Final = 2
"""Batches that are read while deleted rows are taken out of the one before."""


def positions_of(vector: DeletionVector | None, storage: Storage) -> Positions:
    """Return the positions of a deletion vector; none for no vector.

    `NotFound`, `StorageError` when the vector's file is gone, or was changed after it was written.
    """
    if vector is None:
        return NO_POSITIONS
    content = read_checked(storage, vector.filename, vector.checksum)
    try:
        positions: Positions = pq.read_table(pa.BufferReader(content), schema=POSITIONS)["position"].to_numpy()
    except pa.ArrowException as error:
        raise damaged(storage, vector.filename) from error
    if len(positions) != vector.rows or (len(positions) > 1 and (np.diff(positions) <= 0).any()):
        raise damaged(storage, vector.filename)
    return positions


def kept(rows: pa.RecordBatch | pa.Table, first: int, deleted: Positions) -> pa.RecordBatch | pa.Table:
    """Return consecutive rows of a file without deleted ones; `first` is the position of the first row."""
    begin, end = np.searchsorted(deleted, (first, first + rows.num_rows))
    if begin == end:
        return rows
    mask = np.ones(rows.num_rows, np.bool_)
    mask[deleted[begin:end] - first] = False
    return rows.filter(pa.array(mask))


@dataclass(frozen=True, slots=True, eq=False)
class LiveRows:
    """The rows of one data file without deleted ones, in the order of the file.

    Parameters
    ----------
    regions
        Only rows in one of these regions count, which do not overlap; None is the whole file.
    only
        The only positions that count, none of them deleted; all others when None. Row groups without them are not read.
    """

    filename: str
    deleted: Positions
    schema: Schema
    storage: Storage
    regions: Sequence[Region | None] = (None,)
    only: Positions | None = None

    @classmethod
    def of(cls, file: PlannedFile, schema: Schema, storage: Storage, regions: Sequence[Region | None]) -> LiveRows:
        deleted, only = positions_of(file.deletions, storage), None
        if file.only is not None:
            only = np.setdiff1d(positions_of(file.only, storage), deleted, assume_unique=True)
        return cls(file.filename, deleted, schema, storage, regions, only)

    def batches(
        self, columns: Sequence[str] | None = None, *, with_positions: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the columns of the schema, or some of them, in the types of the schema.

        With `with_positions`, the last column is `POSITION`.
        """
        named = {field.name: field for field in self.schema.fields}
        chosen = [named[name] for name in (self.schema.names if columns is None else columns)]
        limits = [region for region in self.regions if region is not None]
        is_cut = len(limits) == len(self.regions)
        needed = [*chosen, *(key for key in self.schema.row_keys if is_cut and key not in chosen)]
        types = pa.schema([self.schema.arrow.field(each.name) for each in needed])
        selected = [each.name for each in chosen]
        stored = self._stored({each.column for each in needed}, limits if is_cut else None)
        with closing(prefetched(stored, _READ_AHEAD)) as parts:
            for at, part in parts:
                batch = pa.RecordBatch.from_arrays(
                    [_column(part, each.column, types.field(each.name).type) for each in needed], schema=types
                )
                if with_positions:
                    batch = batch.append_column(PLACES.field(POSITION), pa.array(np.arange(at, at + batch.num_rows)))
                batch = kept(batch, at, self.deleted) if self.only is None else _taken(batch, at, self.only)
                if is_cut:
                    batch = _inside(batch, limits, self.schema)
                yield batch.select([*selected, POSITION] if with_positions else selected)

    def _stored(self, names: set[str], limits: Sequence[Region] | None) -> Generator[tuple[int, pa.RecordBatch]]:
        """Yield rows of the row groups that can reach into some regions, and the position of the first one.

        Their columns are as the file has them.
        """
        with self.storage.input(self.filename) as stream:
            try:
                file = pq.ParquetFile(stream, pre_buffer=not self.storage.local, page_checksum_verification=True)
            except pa.ArrowInvalid as error:
                hint = "the file may be truncated or not a Parquet file: restore it from a copy"
                problem = f"cannot read {self.storage.locate(self.filename)}: {error}"
                raise StorageError(problem, hint=hint) from error
            groups, all_names = groups_in(file.metadata, self.schema), file.schema_arrow.names
            there = [each for each in all_names if each in names] or all_names[:1]
            starts = list(accumulate((group.rows for group in groups), initial=0))
            reached = [at for at, group in enumerate(groups) if _reaches(group, limits)]
            if self.only is not None:
                ends = np.searchsorted(self.only, starts)
                reached = [at for at in reached if ends[at] < ends[at + 1]]
            for run in _runs(reached):
                at = starts[run[0]]
                for batch in file.iter_batches(_BATCH_ROWS, row_groups=run, columns=there):
                    yield at, batch
                    at += batch.num_rows


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A data file whose rows are read with their places.

    Parameters
    ----------
    number
        Of the file, as in the column `FILE_NUMBER`.
    parts
        The file as planned, for each region of which its rows count; all with the same deletion vector.
    """

    number: int
    parts: tuple[PlannedFile, ...]

    def batches(self, schema: Schema, storage: Storage) -> Iterator[pa.RecordBatch]:
        """Yield its rows, without deleted ones, with the columns of the schema and then `PLACES`."""
        first = self.parts[0]
        rows = LiveRows.of(first, schema, storage, [part.region for part in self.parts])
        for batch in rows.batches(with_positions=True):
            number = pa.repeat(pa.scalar(self.number, PLACES.field(FILE_NUMBER).type), batch.num_rows)
            yield batch.add_column(batch.num_columns - 1, PLACES.field(FILE_NUMBER), number)


def placed_files(plan: ScanPlan) -> list[PlacedFile]:
    """Return the files of a plan with their numbers; one is there twice if two leaves deleted different rows of it.

    `AssertionError` when the plan's rows are processed: what comes out has no place.
    """
    if not plan.processing.is_nothing:
        raise AssertionError(f"rows that go through {plan.processing} have no places in files")
    numbers = {name: number for number, name in enumerate(plan.filenames)}
    parts: dict[tuple[str, DeletionVector | None], list[PlannedFile]] = {}
    for file in plan.files:
        parts.setdefault((file.filename, file.deletions), []).append(file)
    return [PlacedFile(numbers[name], tuple(files)) for (name, _), files in parts.items()]


def placed_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*schema, *PLACES])


def _taken(rows: pa.RecordBatch, first: int, only: Positions) -> pa.RecordBatch:
    begin, end = np.searchsorted(only, (first, first + rows.num_rows))
    return rows.take(pa.array(only[begin:end] - first))


def _reaches(group: RowGroup, limits: Sequence[Region] | None) -> bool:
    return limits is None or any(group.may_overlap(limit) for limit in limits)


def _runs(numbers: Sequence[int]) -> Iterator[list[int]]:
    for _, run in groupby(enumerate(numbers), key=lambda each: each[1] - each[0]):
        yield [number for _, number in run]


def _column(rows: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    """Return a column in the type of the table; null if the file was written before the table had it."""
    place = rows.schema.get_field_index(name)
    if place < 0:
        return pa.nulls(rows.num_rows, kind)
    column = rows.column(place)
    return column if column.type == kind else column.cast(kind)


def _inside(batch: pa.RecordBatch, limits: Sequence[Region], schema: Schema) -> pa.RecordBatch:
    table = pa.Table.from_batches([batch])
    inside = reduce(pc.or_, (keys_in(limit, table, schema) for limit in limits))
    return batch.filter(inside.combine_chunks() if isinstance(inside, pa.ChunkedArray) else inside)
