"""Read a file of any format as columns of the table's types, as a whole or in pieces.

The types of columns that the table has are never guessed, as a guess depends on which rows are looked at: a file gives
the same values and the same errors in this process and in a task that reads a part of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from sleeper_nb.errors import InvalidInput, StorageError
from sleeper_nb.load.conform import Conformed, RawColumns, compare, compare_parts
from sleeper_nb.load.csv_files import csv_names, csv_parts, csv_rows_at
from sleeper_nb.load.folder_values import with_folder_values
from sleeper_nb.load.json_files import json_parts, json_rows_at
from sleeper_nb.load.matching import EXACT, Matching
from sleeper_nb.load.original_rows import OriginalRows
from sleeper_nb.load.parquet_files import (
    RowGroups,
    footer_digest,
    open_parquet,
    parquet_parts,
    parquet_rows_at,
)
from sleeper_nb.load.source_files import SourceFile, read_errors
from sleeper_nb.load.spreadsheets import sheet_columns, sheet_names, sheet_rows_at
from sleeper_nb.model.schema import Schema

logger = logging.getLogger(__name__)

WHOLE_FILE_BYTES = 256 << 20
"""An error in a file up to this size is searched in the whole file, so that it is the same for every piece."""


def read_file(file: SourceFile, schema: Schema, matching: Matching = EXACT) -> Conformed:
    """Read a whole file; return the columns that fit a table, and every difference.

    Raises
    ------
    StorageError
        When the file is truncated, or not in the format that its name says.
    """
    with read_errors(file):
        if file.format == "parquet":
            with open_parquet(file) as opened:
                raw = RawColumns.of(opened.read(), rename=partial(matching.names, schema=schema))
            parts = [with_folder_values(raw, file, schema, matching)]
        else:
            parts = list(_parts(file, schema, None, matching))
        return compare_parts(parts, schema, matching).of(file.label)


def names_in(file: SourceFile, schema: Schema, matching: Matching = EXACT) -> tuple[str, ...]:
    """Return the names of a file's columns from its footer or header; none for JSON, which has neither."""
    if file.format == "csv" and not file.csv.header:
        return matching.columns or tuple(schema.names)
    return header_names(file) if file.format in {"parquet", "csv"} else ()


def header_names(file: SourceFile) -> tuple[str, ...]:
    """Return the names in the footer or header of a file; none for JSON, and where a file has no header."""
    with read_errors(file):
        if file.format == "parquet":
            with open_parquet(file) as opened:
                return tuple(opened.schema_arrow.names)
        if file.format == "json" or not file.csv.header:
            return ()
        if file.format == "csv":
            return csv_names(file, file.csv.for_file(file.path), ())
        return sheet_names(file)


def pieces_to_read(file: SourceFile, most_bytes: int) -> Iterator[RowGroups | None]:
    """Yield ranges of a Parquet file's row groups, of about so many bytes at most; None for another file."""
    if file.format != "parquet":
        yield None
        return
    with open_parquet(file) as opened:
        sizes = [opened.metadata.row_group(i).total_byte_size for i in range(opened.num_row_groups)]
        footer = footer_digest(opened)
    if len(sizes) < 2:
        yield None  # also when it has no rows, but perhaps other columns
        return
    begin, total = 0, 0
    for i, size in enumerate(sizes):
        if total and total + size > most_bytes:
            yield RowGroups(range(begin, i), footer)
            begin, total = i, 0
        total += size
    yield None if begin == 0 else RowGroups(range(begin, len(sizes)), footer)


def pieces_of(
    file: SourceFile, schema: Schema, row_groups: RowGroups | None = None, matching: Matching = EXACT
) -> Iterator[pa.Table]:
    """Yield the rows of a file in pieces, with the schema's columns and types; holds one piece in memory.

    Parameters
    ----------
    row_groups
        The row groups to read of a Parquet file; all when None.
    matching
        How its columns become those of the table.

    Raises
    ------
    InvalidInput
        When the file does not fit: the first difference in the whole file, or in the piece if the file is large.
    StorageError
        As in `read_file`; or when the file was changed after row groups were chosen.
    """
    empty, failed = True, None
    try:
        with read_errors(file):
            for part in _parts(file, schema, row_groups, matching):
                empty = False
                yield compare(part, schema, matching).of(file.label).table(schema)
    except (InvalidInput, StorageError) as error:
        failed = error
    # A file without rows may also lack columns. Raised outside the except: Spark prints the chain of a task's errors.
    if failed is not None:
        logger.debug("%s does not fit the table: %s", file.label, type(failed).__name__)
    if (failed is not None and file.bytes <= WHOLE_FILE_BYTES) or (empty and row_groups is None):
        read_file(file, schema, matching).table(schema)
    if failed is not None:
        raise failed


def rows_at(file: SourceFile, schema: Schema, matching: Matching, rows: Sequence[int]) -> OriginalRows:
    """Return some rows of a file with all of its columns as the file has them, before any cast.

    Parameters
    ----------
    schema, matching
        Those of the load: files without a header have the names of the table's columns.
    rows
        The indexes of the rows, in order.
    """
    with read_errors(file):
        if file.format == "csv":
            return csv_rows_at(file, schema, matching, rows)
        if file.format == "parquet":
            return parquet_rows_at(file, rows)
        if file.format == "excel":
            return sheet_rows_at(file, schema, matching, rows)
        return json_rows_at(file, rows)


def _parts(file: SourceFile, schema: Schema, row_groups: RowGroups | None, matching: Matching) -> Iterator[RawColumns]:
    """Yield the rows of a file in parts, with the table's names, not yet converted."""
    if file.format == "csv":
        parts = csv_parts(file, schema, matching)
    elif file.format == "json":
        parts = json_parts(file, schema, matching)
    elif file.format == "excel":
        parts = iter([sheet_columns(file, schema, matching)])
    else:
        parts = parquet_parts(file, schema, row_groups, matching)
    for part in parts:
        yield with_folder_values(part, file, schema, matching)
