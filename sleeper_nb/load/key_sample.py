"""Sample the row keys of data before it is loaded, for the partitions of a new table; and judge columns as keys."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.load.casts import BAD_VALUE, plain_chunks, plain_values
from sleeper_nb.load.conform import Difference, compare_column, raise_first
from sleeper_nb.load.data_columns import DataColumn, first_values
from sleeper_nb.load.file_formats import pieces_of
from sleeper_nb.load.folder_values import folder_column
from sleeper_nb.load.matching import Matching
from sleeper_nb.load.parquet_files import open_parquet, read_parquet
from sleeper_nb.load.source_files import SourceFile
from sleeper_nb.load.sources import IngestSource
from sleeper_nb.model.even_partitions import MOST_LEAVES
from sleeper_nb.model.schema import KEY_TYPES, Field, Schema

SAMPLED_KEYS = 20_000
"""Keys in a sample; more for many leaves, so that each has at least `_KEYS_PER_LEAF`."""
_KEYS_PER_LEAF = 1_000
ROWS_PER_LEAF = 2_000_000
"""About how many rows each leaf of a new table gets, where the user does not say."""
_MOST_LEAVES_UNASKED = 64
_MOST_READ = 50_000_000
"""Of files with more rows, the keys of evenly spaced row groups are read."""
LOOKED_AT = 1_000_000
"""Rows that are looked at to propose keys."""
_SEED = 0
_AT_ONCE = 4
"""Row groups whose keys are read at the same time."""


@dataclass(frozen=True, slots=True)
class KeySample:
    """Some of the row keys of data.

    Parameters
    ----------
    keys
        A column for each row key, with its field's type; nulls are left out.
    rows
        The number of rows of the data.
    """

    keys: pa.Table
    rows: int


def sample_size(leaves: int | None) -> int:
    """Return how many keys are sampled for a number of leaves."""
    return max(SAMPLED_KEYS, _KEYS_PER_LEAF * min(leaves or 1, MOST_LEAVES))


def default_leaves(rows: int) -> int:
    """Return the number of leaves of a new table that is created with some rows."""
    return min(max(rows // ROWS_PER_LEAF, 1), _MOST_LEAVES_UNASKED)


def sample_of(rows: pa.Table, schema: Schema, size: int) -> KeySample:
    """Return a sample of the row keys of rows in memory; the same rows always give the same sample."""
    keys = rows.select([key.name for key in schema.row_keys])
    return KeySample(some_of(keys, size), rows.num_rows)


def some_of(keys: pa.Table, size: int) -> pa.Table:
    """Return at most `size` rows, chosen at random but always the same, in their order."""
    if keys.num_rows <= size:
        return keys
    chosen = np.random.default_rng(_SEED).choice(keys.num_rows, size, replace=False, shuffle=False)
    return keys.take(pa.array(np.sort(chosen)))


def rows_of_parquet(files: Sequence[SourceFile]) -> int:
    """Return the number of rows in Parquet files, from their footers."""
    rows = 0
    for file in files:
        with open_parquet(file) as opened:
            rows += opened.metadata.num_rows
    return rows


def holds_keys(files: Sequence[SourceFile], matching: Matching) -> bool:
    """Return whether files are Parquet that has the row keys by their names, so that only these need to be read."""
    return not matching.renames_columns and all(file.format == "parquet" and not file.folder_values for file in files)


def sample_of_parquet(files: Sequence[SourceFile], schema: Schema, size: int, *, refuse: bool = False) -> KeySample:
    """Return a sample of the row keys of Parquet files, of which only the columns of the keys are read.

    Values that do not fit the schema are left out, as the load refuses them; with `refuse`, the first is raised.
    """
    groups: list[tuple[SourceFile, int, int]] = []
    for file in files:
        with open_parquet(file) as opened:
            metadata = opened.metadata
            groups += [(file, i, metadata.row_group(i).num_rows) for i in range(metadata.num_row_groups)]
    rows = sum(count for *_, count in groups)
    step = max(1, -(-rows // _MOST_READ))
    read = groups[step // 2 :: step] or groups
    share = size / max(1, sum(count for *_, count in read))

    def sampled(group: tuple[SourceFile, int, int]) -> pa.Table:
        file, number, _ = group
        keys = _keys_of(file, number, schema, refuse=refuse)
        return some_of(keys, max(1, round(share * keys.num_rows)))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return KeySample(pa.concat_tables([_as_nullable(schema).empty_table(), *pool.map(sampled, read)]), rows)


def sample_of_files(files: Sequence[SourceFile], schema: Schema, size: int, matching: Matching) -> KeySample:
    """Return a sample of the row keys of files of any format, all of whose rows are read, and counted.

    Raises
    ------
    InvalidInput
        When a row does not fit the schema.
    """
    names, kept, rows = [key.name for key in schema.row_keys], _as_nullable(schema).empty_table(), 0
    for file in files:
        for part in pieces_of(file, schema, None, matching):
            rows += part.num_rows
            # a part keeps as large a share as all parts before it, so that early rows have no more weight
            share = some_of(part.select(names), -(-size * part.num_rows // max(rows, 1)))
            kept = some_of(pa.concat_tables([kept, share.cast(kept.schema)]), size)
    return KeySample(kept, rows)


def _keys_of(file: SourceFile, group: int, schema: Schema, *, refuse: bool) -> pa.Table:
    """Return the row keys of a row group, without rows whose keys do not fit; with `refuse`, raise for the first."""
    with open_parquet(file) as opened:
        names = opened.schema_arrow.names
        of_folders = {value.name: value for value in file.folder_values if value.name not in names}
        columns = {}
        for key in schema.row_keys:
            field = Field(key.name, key.type, nullable=not refuse)
            if key.name in of_folders:
                read = folder_column(of_folders[key.name], field, opened.metadata.row_group(group).num_rows)
            else:
                read = read_parquet(file, opened, key.name, group)
            column = read if isinstance(read, Difference) else compare_column(read, field, is_row_key=True)
            if isinstance(column, Difference):
                if refuse:
                    _refuse(file, opened, column, field)
                return _as_nullable(schema).empty_table()
            columns[key.name] = column
        return pa.table(columns, schema=_as_nullable(schema)).drop_null()


def _refuse(file: SourceFile, opened: Any, difference: Difference, key: Field) -> None:
    """Raise the difference of a row key, which was found in one row group, with its row in the whole file."""
    if key.name in opened.schema_arrow.names:
        whole = compare_column(read_parquet(file, opened, key.name), key, is_row_key=True)
        difference = whole if isinstance(whole, Difference) else difference
    raise_first([replace(difference, source=file.label)])


def _as_nullable(schema: Schema) -> pa.Schema:
    return pa.schema([key.arrow.with_nullable(nullable=True) for key in schema.row_keys])


@dataclass(frozen=True, slots=True)
class KeyCandidate:
    """A column that may be a row key, judged by the first rows of the data.

    Parameters
    ----------
    distinct, nulls
        How many different values, and how many nulls, there are; 0 where values are not compared.
    rows
        The rows that were looked at.
    compared
        Whether its values can be compared: lists, maps, structs and values of several types cannot.
    """

    column: DataColumn
    distinct: int
    nulls: int
    rows: int
    compared: bool = True

    @property
    def fits(self) -> bool:
        """Whether the column can be a row key of these rows."""
        of_key_type = self.column.type is not None and self.column.type.name in KEY_TYPES
        return of_key_type and self.compared and not self.nulls


def key_candidates(sources: Sequence[IngestSource], columns: Sequence[DataColumn]) -> tuple[KeyCandidate, ...]:
    """Return the columns as possible row keys: those that can be one first, then by the number of different values."""
    first = dict(first_values(sources[0], LOOKED_AT))
    found, rows = [], max(map(len, first.values()), default=0)
    for each in columns:
        values = _comparable(first.get(each.name_in_data))
        try:
            distinct = None if values is None else pc.count_distinct(values).as_py()
        except pa.ArrowException:  # lists, maps and structs are not compared
            distinct = None
        nulls = 0 if values is None else values.null_count
        found.append(KeyCandidate(each, distinct or 0, nulls, rows, compared=distinct is not None))
    return tuple(sorted(found, key=lambda each: (not each.fits, -each.distinct)))


def _comparable(values: Any) -> pa.Array | pa.ChunkedArray | None:
    """Return the values of a column as plain Arrow values; None when they are of several types."""
    if values is None:
        return None
    try:
        found = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=True)
        return plain_chunks(found) if isinstance(found, pa.ChunkedArray) else plain_values(found)
    except BAD_VALUE:
        return None
