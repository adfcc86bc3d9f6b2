"""Read a Parquet file, or some of its row groups, as columns of the table's names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyarrow import parquet

from sleeper_nb.errors import StorageError
from sleeper_nb.load.conform import RawColumns, row_after
from sleeper_nb.load.matching import Matching
from sleeper_nb.load.original_rows import OriginalRows, taken
from sleeper_nb.load.source_files import SourceFile, read_errors
from sleeper_nb.model.schema import Schema

BATCH_ROWS = 65_536
"""Number of rows in a piece of a Parquet file."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Some row groups of a Parquet file, which is opened for each such part of it.

    Parameters
    ----------
    numbers
        Which ones.
    footer
        The `footer_digest` of the file when they were chosen: another file has other rows in them.
    """

    numbers: range
    footer: str


def footer_digest(opened: parquet.ParquetFile) -> str:
    """Return a digest of a file's footer, which has the places, sizes and statistics of all its columns."""
    footer = pa.BufferOutputStream()
    opened.metadata.write_metadata_file(footer)
    return hashlib.sha256(footer.getvalue()).hexdigest()


def open_parquet(file: SourceFile) -> parquet.ParquetFile:
    """Open a Parquet file and read its footer; the caller closes it.

    Its INT96 are microseconds, as DuckDB reads them: nanoseconds would wrap around outside the years 1677 to 2262.
    """
    with read_errors(file):
        return parquet.ParquetFile(file.open(), coerce_int96_timestamp_unit="us")


def read_parquet(
    file: SourceFile, opened: parquet.ParquetFile, column: str, row_group: int | None = None
) -> pa.ChunkedArray:
    """Return one column of an open Parquet file, or of one of its row groups."""
    with read_errors(file):
        rows = opened.read([column]) if row_group is None else opened.read_row_group(row_group, [column])
        return rows.column(column)


def parquet_parts(
    file: SourceFile, schema: Schema, row_groups: RowGroups | None, matching: Matching
) -> Iterator[RawColumns]:
    """Yield the rows of a Parquet file, or of some of its row groups, in parts with the table's names."""
    rename = partial(matching.names, schema=schema)
    with open_parquet(file) as opened:
        if row_groups is not None and footer_digest(opened) != row_groups.footer:
            raise StorageError(f"{file.label} was changed while it was read", hint="run the load again")
        groups = list(row_groups.numbers) if row_groups is not None else list(range(opened.num_row_groups))
        start = sum(opened.metadata.row_group(i).num_rows for i in range(groups[0])) if groups else 0
        for batch in opened.iter_batches(BATCH_ROWS, row_groups=groups):
            yield RawColumns.of(pa.Table.from_batches([batch]), partial(row_after, start), rename)
            start += batch.num_rows


def parquet_rows_at(file: SourceFile, rows: Sequence[int]) -> OriginalRows:
    """Return the rows of a Parquet file that have some indexes."""
    with open_parquet(file) as opened:
        found = taken(opened.iter_batches(BATCH_ROWS), rows, opened.schema_arrow)
    return OriginalRows(dict(zip(found.column_names, found.columns, strict=True)), [row + 1 for row in rows])
