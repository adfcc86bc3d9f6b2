"""Read a file of any format as columns of the table's types, as a whole or in pieces; Parquet and Excel are here.

The types of columns that the table has are never guessed, as a guess depends on which rows are looked at: a file gives
the same values and the same errors in this process and in a task that reads a part of it. Folders such as ``year=2013``
give columns, too. Excel files are not read through pandas, which makes a column of whole numbers with an empty cell one
of floats.
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from typing import Any, TypeAlias
from zipfile import BadZipFile, ZipFile

import pyarrow as pa
from pyarrow import parquet

from sleeper_nb.errors import Action, Hint, InvalidInput, NotInstalled, StorageError
from sleeper_nb.load.casts import NUMBERS, InexactValueError, Misfit, exactly
from sleeper_nb.load.conform import (
    Conformed,
    Difference,
    RawColumns,
    column_of_parts,
    compare,
    compare_parts,
    inexact,
    no_place,
    row_after,
)
from sleeper_nb.load.csv_files import csv_names, csv_parts, csv_rows_at, matched_names
from sleeper_nb.load.csv_text import null_hint
from sleeper_nb.load.json_files import columns_of_objects, json_parts, json_rows_at
from sleeper_nb.load.lake_tables import LakePart, LakeTable
from sleeper_nb.load.load_options import EXACT, Matching, nameless
from sleeper_nb.load.python_values import NoValue, without_leading_zeros
from sleeper_nb.load.source_files import FolderValue, OriginalRows, SourceFile, read_errors, taken
from sleeper_nb.model.csv_format import CsvFormat
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.report import counted

BATCH_ROWS = 65_536
"""Number of rows in a piece of a Parquet file."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Some row groups of a Parquet file, which is opened for each such part of it.

    Parameters
    ----------
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


def parquet_parts(
    file: SourceFile, schema: Schema, row_groups: RowGroups | None, matching: Matching
) -> Iterator[RawColumns]:
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
    with open_parquet(file) as opened:
        found, _ = taken(opened.iter_batches(BATCH_ROWS), rows, opened.schema_arrow)
    return OriginalRows(dict(zip(found.column_names, found.columns, strict=True)), [row + 1 for row in rows])


def with_folder_values(raw: RawColumns, file: SourceFile, schema: Schema, matching: Matching) -> RawColumns:
    """Return the columns with those that the names of the file's folders give, such as ``year=2013``.

    A column that the file has too must have the same value in every row.
    """
    if not file.folder_values:
        return raw
    names, columns, differences = list(raw.names), dict(raw.columns), list(raw.differences)
    fields = {field.name: field for field in schema.fields}
    added = []
    for name, value in folder_columns(file, raw.names, schema, matching):
        is_in_file = name in names
        if not is_in_file:
            names.append(name)
        if name not in fields:
            continue
        column = folder_column(value, fields[name], raw.rows)
        if isinstance(column, Difference):
            differences.append(column)
        elif not is_in_file:
            columns[name] = column
            added.append(name)
        elif name in columns and (difference := _contradiction(columns[name], column, fields[name], value)):
            differences.append(difference)
    notes = {**raw.notes, added[0]: f"taken from the names of folders: {', '.join(added)}"} if added else raw.notes
    return replace(raw, names=tuple(names), columns=columns, differences=tuple(differences), notes=notes)


def folder_columns(
    file: SourceFile, names: Sequence[str], schema: Schema, matching: Matching
) -> list[tuple[str, FolderValue]]:
    """Return the table's names for the columns that the file's folders give, each with its value."""
    given = matching.folder_names([value.name for value in file.folder_values], schema)
    return [
        (name, value)
        for name, value in zip(given, file.folder_values, strict=True)
        if value.is_below or (name in schema.names and name not in names)
    ]


def folder_column(value: FolderValue, field: Field, rows: int) -> pa.ChunkedArray | Difference:
    """Return the value of a folder's name as a column; its text is read as that of a CSV file.

    But ``month=01`` is a number, too: the zeros are there for the order of the folders.
    """
    text = pa.array([value.text], pa.string())
    try:
        scalar = exactly(without_leading_zeros(text) if field.type.name in NUMBERS else text, field.type)[0]
    except InexactValueError as error:
        difference = inexact(error, field, f"folder {value.name}={value.text}")
        return replace(difference, values=rows)
    return pa.chunked_array([pa.repeat(scalar, rows)], field.type.arrow)


def _contradiction(
    column: pa.ChunkedArray, expected: pa.ChunkedArray, field: Field, value: FolderValue
) -> Difference | None:
    """Return the difference of a column that is in the file and in a folder's name, with different values."""
    raw, of_any = RawColumns((), {field.name: column}, len(column)), replace(field, nullable=True)
    found = column_of_parts([raw], of_any, EXACT, is_row_key=False)
    if isinstance(found, Difference) or found[0].equals(expected):
        return None
    folder = f"{value.name}={value.text}"
    problem = f"column {field.name!r} is in the file too, with other values than its folder {folder}"
    return Difference(
        field.name, problem, "drop it from the file, or rename the folder", kind="differs from its folder"
    )


Row = tuple[int, tuple[Any, ...]]
_FORMULA = re.compile(rb"<(\w+:)?f[\s/>]")


_NOT_CALCULATED = "open the file in a spreadsheet program and save it, so that it has the results of its formulas"


def sheet_rows(file: SourceFile) -> tuple[tuple[str | None, ...], list[Row]]:
    """Return the names in the header of a sheet, and its rows with their numbers, without empty ones.

    Without a header, the names are those of the first row's cells, all None.

    Raises `NotInstalled` when ``openpyxl`` is missing; `InvalidInput` when the file has several sheets and none is
    named, or not the one that is named; `StorageError` when the file is not an Excel file.
    """
    rows = [
        (number, cells) for number, cells in _cells(file) if number > file.csv.skip_lines and any(map(_is_set, cells))
    ]
    if not rows:
        raise InvalidInput(f"the sheet of {file.label} is empty", hint="name another sheet, or skip fewer lines")
    width = 1 + max(i for _, cells in rows for i, value in enumerate(cells) if _is_set(value))
    rows = [(number, (*cells, *(None,) * width)[:width]) for number, cells in rows]
    if not file.csv.header:
        return (None,) * width, _with_nulls(rows, file)
    wrong = next((value for value in rows[0][1] if isinstance(value, NoValue)), None)
    if wrong is not None:
        problem = f"the header of {file.label} {wrong.misfit.problem}"
        raise InvalidInput(problem, hint="write the names of the columns as texts")
    names = tuple(None if value is None else str(value) for value in rows[0][1])
    return names, _with_nulls(rows[1:], file)


def _is_set(value: Any) -> bool:
    return value is not None and value != ""


def _with_nulls(rows: list[Row], file: SourceFile) -> list[Row]:
    """Return rows in which the texts for NULL, and cells that show one, are None."""
    nulls = set(file.csv.nulls) if file.csv.null_text is not None else {""}

    def is_null(value: Any) -> bool:
        if isinstance(value, NoValue):
            return bool(value.shown) and value.shown in nulls
        return isinstance(value, str) and value in nulls

    return [(number, tuple(None if is_null(value) else value for value in cells)) for number, cells in rows]


def _cells(file: SourceFile) -> Iterator[Row]:
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise NotInstalled.of(f"reading {file.label}", "excel", "; or save the sheet as CSV") from error
    try:
        with file.open() as stream:
            content = stream.read()
        with (
            closing(load_workbook(io.BytesIO(content), read_only=True, data_only=True)) as book,
            closing(load_workbook(io.BytesIO(content), read_only=True)) as of_formulas,
        ):
            rows = _sheet_of(book, file).iter_rows()
            formulas = _sheet_of(of_formulas, file).iter_rows() if _has_formulas(content) else repeat(())
            for number, (cells, written) in enumerate(zip(rows, formulas, strict=False), 1):
                yield number, tuple(map(_value, cells, written or repeat(None)))
    except (BadZipFile, KeyError, InvalidFileException) as error:
        raise StorageError(
            f"cannot read {file.label}: it is not an Excel file", hint="save it as .xlsx or .csv"
        ) from error


def _has_formulas(content: bytes) -> bool:
    """Return whether any sheet has a formula; only then are the sheets read twice."""
    with ZipFile(io.BytesIO(content)) as parts:
        return any(name.endswith(".xml") and _FORMULA.search(parts.read(name)) for name in parts.namelist())


def _value(cell: Any, written: Any) -> Any:
    """Return the value of a cell, which is also given as it was written if the file has formulas."""
    if cell.data_type == "e":
        error = str(cell.value)
        return NoValue(Misfit(f"shows {error} in cell {cell.coordinate}", "correct the cell"), error)
    # the stored result of a formula can be an empty text
    if cell.value is None and written is not None and written.data_type == "f" and cell.data_type != "str":
        problem = f"has a formula without a stored result in cell {written.coordinate}"
        return NoValue(Misfit(problem, _NOT_CALCULATED))
    return cell.value


def _sheet_of(book: Any, file: SourceFile) -> Any:
    names = [sheet.title for sheet in book.worksheets]
    if file.sheet is None and len(names) == 1:
        return book.worksheets[0]
    if file.sheet is None:
        example = next((name for name in names), "")
        hint = (f"name one of {', '.join(names)}: ", Action(f'--read "sheet={example}"', f"sheet={example!r}"))
        raise InvalidInput(f"{file.label} has {counted(len(names), 'sheet')}", hint=hint)
    if file.sheet not in names:
        raise InvalidInput(f"{file.label} has no sheet {file.sheet!r}", hint=f"it has {', '.join(names)}")
    return book[file.sheet]


def sheet_columns(file: SourceFile, schema: Schema, matching: Matching) -> RawColumns:
    """Return the rows of a sheet with the types of the schema."""
    names, rows = sheet_rows(file)
    if not file.csv.header:
        names = matching.columns or tuple(schema.names)
        if rows and len(names) != len(rows[0][1]):
            width = len(rows[0][1])
            raise InvalidInput(f"the sheet of {file.label} has {width} columns, not {len(names)}", hint="name them all")
    matched = matched_names(_with_numbers(names), file.csv, schema, matching)
    first = {name: matched.index(name) for name in matched}  # the first of each name; a second one is a difference
    objects = [(number, {name: cells[i] for name, i in first.items()}) for number, cells in rows]
    exact = replace(matching, columns=(), renames=(), by_name=False)
    raw = columns_of_objects(objects, schema, exact, "row", null_hint=partial(_hint_of_cell, csv_format=file.csv))
    return replace(raw, names=matched) if rows else raw


def _hint_of_cell(error: InexactValueError, csv_format: CsvFormat) -> Hint:
    if isinstance(error.value, NoValue) and error.value.shown:
        return ("correct the cell, or add ", csv_format.null_option(error.value.shown), " if it means NULL")
    return null_hint(error, csv_format)


def sheet_rows_at(file: SourceFile, schema: Schema, matching: Matching, rows: Sequence[int]) -> OriginalRows:
    """Return the rows of a sheet that have some indexes."""
    names, cells = sheet_rows(file)
    if not file.csv.header:
        names = matching.columns or tuple(schema.names)
    found = [cells[row] for row in rows]
    columns = zip(*(values for _, values in found), strict=True)
    return OriginalRows(dict(zip(_with_numbers(names), map(list, columns), strict=True)), [n for n, _ in found])


def sheet_sample(file: SourceFile) -> list[dict[str, Any]]:
    """Return the rows of a sheet of an Excel file by the names in its header."""
    with read_errors(file):
        names, rows = sheet_rows(file)
    names = _with_numbers(names)
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise InvalidInput(f"column {twice!r} of {file.label} occurs twice", hint="rename one in the sheet's header")
    return [  # the load refuses cells without values
        {name: None if isinstance(cell, NoValue) else cell for name, cell in zip(names, cells, strict=True)}
        for _, cells in rows
    ]


def cell_in_sample(file: SourceFile, name: str, row: int) -> str:
    """Return the name of the cell that `sheet_sample` has in a row, counted from 0, of a column: ``cell B3``."""
    from openpyxl.utils import get_column_letter

    names, rows = sheet_rows(file)
    return f"cell {get_column_letter(_with_numbers(names).index(name) + 1)}{rows[row][0]}"


def _with_numbers(names: Sequence[str | None]) -> tuple[str, ...]:
    return tuple(nameless(i) if name is None else name for i, name in enumerate(names, 1))


logger = logging.getLogger(__name__)

WHOLE_FILE_BYTES = 256 << 20
"""An error in a file up to this size is searched in the whole file, so that it is the same for every piece."""


def read_file(file: SourceFile, schema: Schema, matching: Matching = EXACT) -> Conformed:
    """Read a whole file; return the columns that fit a table, and every difference.

    Raises `StorageError` when the file is truncated, or not in the format that its name says.
    """
    with read_errors(file):
        if file.format == "parquet":
            with open_parquet(file) as opened:
                raw = RawColumns.of(opened.read(), rename=partial(matching.names, schema=schema))
            parts = [with_folder_values(raw, file, schema, matching)]
        else:
            parts = list(_parts(file, schema, None, matching))
        return compare_parts(parts, schema, matching).of(file.label)


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
        return _with_numbers(sheet_rows(file)[0])


StoredSource: TypeAlias = SourceFile | LakeTable
"""What a load reads piece by piece, also in tasks of other processes."""
Piece: TypeAlias = RowGroups | LakePart
"""What of it is read at once; all when None."""


def pieces_to_read(file: StoredSource, most_bytes: int) -> Iterator[Piece]:
    """Yield ranges of a Parquet file's row groups, of about so many bytes at most; the data files of a lake table.

    None for another file.
    """
    if isinstance(file, LakeTable):
        yield from file.parts()
        return
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
    file: StoredSource, schema: Schema, piece: Piece = None, matching: Matching = EXACT
) -> Iterator[pa.Table]:
    """Yield the rows of a file in pieces, with the schema's columns and types; holds one piece in memory.

    Parameters
    ----------
    piece
        What to read of it, of those that `pieces_to_read` yields; all when None.

    Raises
    ------
    InvalidInput
        When the file does not fit: the first difference in the whole file, or in the piece if the file is large.
    StorageError
        As in `read_file`; or when the file was changed after row groups were chosen.
    """
    if isinstance(file, LakeTable):
        parts = file.parts() if piece is None else [piece]
        batches = (batch for part in parts for batch in file.batches(part))  # type: ignore[arg-type]
        yield from pieces_of_batches(file, schema, batches, matching)
        return
    row_groups = piece if isinstance(piece, RowGroups) else None
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


def key_pieces(file: StoredSource, schema: Schema, matching: Matching) -> Iterator[pa.Table]:
    """Yield pieces with the row keys, and perhaps more columns, of all rows of a file or lake table."""
    keys, given = Schema(schema.row_keys), tuple[str, ...]()
    if isinstance(file, LakeTable):
        given = tuple(file.schema.names)
    elif file.format == "parquet" and not file.folder_values:
        given = header_names(file)
    names = matching.names(given, schema) if given else ()
    own = {mine: name for mine, name in zip(given, names, strict=True) if name in keys.names}
    if len(own) < len(keys.names):
        yield from pieces_of(file, schema, None, matching)
        return
    as_named = replace(matching, columns=(), renames=tuple(own.items()), by_name=False)
    start = 0
    with closing(_batches_with(file, list(own))) as batches:
        for batch in batches:
            place = no_place if isinstance(file, LakeTable) else partial(row_after, start)
            raw = RawColumns.of(pa.Table.from_batches([batch]), place, partial(as_named.names, schema=keys))
            yield compare(raw, keys, as_named).of(file.label).table(keys)
            start += batch.num_rows


def _batches_with(file: StoredSource, columns: Sequence[str]) -> Generator[pa.RecordBatch, None, None]:
    if isinstance(file, LakeTable):
        yield from file.all_batches(columns)
        return
    with open_parquet(file) as opened, read_errors(file):
        yield from opened.iter_batches(BATCH_ROWS, columns=columns)


def pieces_of_batches(
    table: LakeTable, schema: Schema, batches: Iterable[pa.RecordBatch], matching: Matching
) -> Iterator[pa.Table]:
    """Yield batches of a lake table with the schema's columns and types; errors are those of `pieces_of`."""
    for part in conformed_batches(table, schema, batches, matching):
        yield part.table(schema)


def conformed_batches(
    table: LakeTable, schema: Schema, batches: Iterable[pa.RecordBatch], matching: Matching
) -> Iterator[Conformed]:
    """Yield batches of a lake table as they fit another; first one without rows, for the columns."""
    for batch in chain([pa.RecordBatch.from_pylist([], table.schema)], batches):
        raw = RawColumns.of(pa.Table.from_batches([batch]), no_place, partial(matching.names, schema=schema))
        yield compare(raw, schema, matching).of(table.label)


def rows_at(file: SourceFile, schema: Schema, matching: Matching, rows: Sequence[int]) -> OriginalRows:
    """Return some rows of a file with all of its columns as the file has them, before any cast.

    Parameters
    ----------
    schema, matching
        Those of the load: files without a header have the names of the table's columns.
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
