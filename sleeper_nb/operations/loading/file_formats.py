"""One Parquet, CSV or JSON file as columns: read as the table's types, the same whole or in pieces.

No type of a column that the table knows is left to a guess, as a guess depends on which rows are looked at: a file
gives the same values, and the same errors, in process and in a task that reads a part of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyarrow import parquet

from sleeper_nb.errors import InvalidInput, SleeperError, StorageError
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.loading.conforming import (
    Conformed,
    RawColumns,
    compare,
    compare_parts,
    first_line,
    row_number,
)
from sleeper_nb.operations.loading.csv_files import csv_parts
from sleeper_nb.operations.loading.json_files import json_parts
from sleeper_nb.operations.loading.source_files import SourceFile

BATCH_ROWS = 65_536
"""Rows of a piece of a Parquet file."""
_TOLD_WHOLE_BYTES = 256 << 20


def read_file(file: SourceFile, schema: Schema) -> Conformed:
    """Return a whole file as far as it fits a table, with every difference.

    Raises
    ------
    StorageError
        When it is not whole, or not of the format that its name says.
    """
    with _told(file):
        if file.format == "parquet":
            with open_parquet(file) as opened:
                return compare(RawColumns.of(opened.read()), schema).of(file.address)
        return compare_parts(list(_parts(file, schema, None)), schema).of(file.address)


def pieces_of(file: SourceFile, schema: Schema, row_groups: range | None = None) -> Iterator[pa.Table]:
    """Yield the rows of a file piece by piece, with the schema's columns and types; memory holds one piece.

    Parameters
    ----------
    file
        The file.
    schema
        The table's schema.
    row_groups
        Of a Parquet file only these; all when None.

    Raises
    ------
    InvalidInput
        When the file does not fit: the first difference of the whole file, of the piece where that is large.
    StorageError
        As `read_file`.
    """
    empty, failed = True, None
    try:
        with _told(file):
            for part in _parts(file, schema, row_groups):
                empty = False
                yield compare(part, schema).of(file.address).table(schema)
    except (InvalidInput, StorageError) as error:
        failed = error
    # without rows it may lack columns too; both are raised here, as an error's chain is seen behind a task of Spark
    if (failed is not None and file.bytes <= _TOLD_WHOLE_BYTES) or (empty and row_groups is None):
        read_file(file, schema).table(schema)
    if failed is not None:
        raise failed


def open_parquet(file: SourceFile) -> parquet.ParquetFile:
    """Return a Parquet file of which only the footer was read; close it."""
    with _told(file):
        return parquet.ParquetFile(file.open())


def read_parquet(file: SourceFile, opened: parquet.ParquetFile, column: str) -> pa.ChunkedArray:
    """Return one column of an open Parquet file."""
    with _told(file):
        return opened.read([column]).column(column)


@contextlib.contextmanager
def _told(file: SourceFile) -> Iterator[None]:
    try:
        yield
    except SleeperError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, UnicodeError) or "invalid UTF8" in str(error):
            hint = "save it as UTF-8, or convert it: iconv -f LATIN1 -t UTF-8 old > new"
            raise StorageError(f"cannot read {file.address}: its text is not UTF-8", hint=hint) from error
        hint = "is it whole, and of that format?"
        raise StorageError(f"cannot read {file.address}: {first_line(error)}", hint=hint) from error


def _parts(file: SourceFile, schema: Schema, row_groups: range | None) -> Iterator[RawColumns]:
    """Yield the rows of a file in parts."""
    if file.format == "csv":
        yield from csv_parts(file, schema)
    elif file.format == "json":
        yield from json_parts(file, schema)
    else:
        with open_parquet(file) as opened:
            groups = list(row_groups) if row_groups is not None else list(range(opened.num_row_groups))
            start = sum(opened.metadata.row_group(i).num_rows for i in range(groups[0])) if groups else 0
            for batch in opened.iter_batches(BATCH_ROWS, row_groups=groups):
                yield RawColumns.of(pa.Table.from_batches([batch]), partial(_row_after, start))
                start += batch.num_rows


def _row_after(start: int, row: int) -> str:
    return row_number(start + row)
