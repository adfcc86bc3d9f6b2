"""Read one Parquet, CSV or JSON file as columns of the table's types, as a whole or in pieces.

The types of columns that the table has are never guessed, as a guess depends on which rows are looked at: a file gives
the same values and the same errors in this process and in a task that reads a part of it. `read_file` and `pieces_of`
come first, then CSV and JSON.

A CSV file: every value is read as text and converted by the rules for texts (`casts`). NULL is the null text without
quotes, by default an empty value. A quoted null text is a text; if the column holds neither texts nor bytes, it can
only mean NULL as well. Bytes are base64, and lists, maps and structs JSON, as an export writes them. Arrow reads
``"a" b`` as ``a b``, so the quotes of a file are checked while Arrow reads it, block by block. If all of them open or
close a value or are doubled inside one, the file is well-formed. If one is not, as in ``5" disk``, Python's CSV parser
decides.

A JSON file: one object per line, or one array of objects; numbers keep all digits that are written. Arrow parses
blocks of lines where it gives the same values as the rules of casts. Where it might not (numbers with more digits than
a double holds, lists, maps, structs, 32-bit floats), and where it fails, Python's parser reads the block.
"""

from __future__ import annotations

import contextlib
import csv as python_csv
import io
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from json import JSONDecodeError, JSONDecoder
from lzma import LZMAError
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json, parquet

from sleeper_nb.errors import Action, HintParts, InvalidInput, SleeperError, StorageError
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.operations.loading.casts import (
    BAD_VALUE,
    InexactValueError,
    as_written,
    exactly,
    first_bad,
    from_base64,
    to_float,
)
from sleeper_nb.operations.loading.conform import (
    BadValue,
    Conformed,
    Difference,
    RawColumns,
    cast_column,
    compare,
    compare_parts,
    first_line,
    fitting_values,
    inexact,
    row_after,
    row_number,
    with_count,
    with_default,
)
from sleeper_nb.operations.loading.csv_text import (
    KeptLines,
    as_written_in,
    hint_for,
    text_stream,
)
from sleeper_nb.operations.loading.matching import EXACT, Matching, nameless
from sleeper_nb.operations.loading.python_values import NumberText, from_python
from sleeper_nb.operations.loading.requested_casts import prepared, prepared_values
from sleeper_nb.operations.loading.source_files import CsvFormat, FolderValue, SourceFile
from sleeper_nb.operations.loading.spreadsheets import CellWithoutValue, sheet_rows
from sleeper_nb.report import values_of

logger = logging.getLogger(__name__)

BATCH_ROWS = 65_536
"""Number of rows in a piece of a Parquet file."""
BLOCK_BYTES = 8 << 20
"""Bytes of a CSV or JSON file that are parsed together, plus the rest of the last line; no CSV row can be longer."""
_WHOLE_FILE_BYTES = 256 << 20
"""An error in a file up to this size is searched in the whole file, so that it is the same for every piece."""


def read_file(file: SourceFile, schema: Schema, matching: Matching = EXACT) -> Conformed:
    """Read a whole file; return the columns that fit a table, and every difference.

    Raises
    ------
    StorageError
        When the file is truncated, or not in the format that its name says.
    """
    with _read_errors(file):
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
    with _read_errors(file):
        if file.format == "parquet":
            with open_parquet(file) as opened:
                return tuple(opened.schema_arrow.names)
        if file.format == "json" or not file.csv.header:
            return ()
        if file.format == "csv":
            return _csv_names(file, file.csv.for_file(file.path), ())
        return _with_numbers(sheet_rows(file)[0])


def json_names(file: SourceFile) -> Iterator[str]:
    """Yield the names of the members of every object of a JSON file, row after row."""
    with _read_errors(file), file.open() as opened:
        for _, row in _json_rows(io.BufferedReader(opened), file):
            yield from row


def _json_rows(stream: io.BufferedReader, file: SourceFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every object of a JSON file with its line."""
    line = 1
    for block in _blocks(stream):
        if line == 1 and block.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            yield from _array(file, block + stream.read())
            return
        yield from _objects(file, block, line)
        line += block.count(b"\n")


def pieces_of(
    file: SourceFile, schema: Schema, row_groups: range | None = None, matching: Matching = EXACT
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
        As in `read_file`.
    """
    empty, failed = True, None
    try:
        with _read_errors(file):
            for part in _parts(file, schema, row_groups, matching):
                empty = False
                yield compare(part, schema, matching).of(file.label).table(schema)
    except (InvalidInput, StorageError) as error:
        failed = error
    # A file without rows may also lack columns. Raised outside the except: Spark prints the chain of a task's errors.
    if failed is not None:
        logger.debug("%s does not fit the table: %s", file.label, type(failed).__name__)
    if (failed is not None and file.bytes <= _WHOLE_FILE_BYTES) or (empty and row_groups is None):
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
    with _read_errors(file):
        if file.format == "csv":
            return _csv_rows_at(file, schema, matching, rows)
        if file.format == "parquet":
            return _parquet_rows_at(file, rows)
        if file.format == "excel":
            names, cells = sheet_rows(file)
            if not file.csv.header:
                names = matching.columns or tuple(schema.names)
            found = [cells[row] for row in rows]
            columns = zip(*(values for _, values in found), strict=True)
            return OriginalRows(dict(zip(_with_numbers(names), map(list, columns), strict=True)), [n for n, _ in found])
        return _json_rows_at(file, rows)


@dataclass(frozen=True, slots=True)
class OriginalRows:
    """Some rows of a source: its columns as Arrow, pandas or Python has them; the number of each row or its line."""

    columns: Mapping[str, Any]
    numbers: Sequence[int]


def _parquet_rows_at(file: SourceFile, rows: Sequence[int]) -> OriginalRows:
    with open_parquet(file) as opened:
        found = _taken(opened.iter_batches(BATCH_ROWS), rows, opened.schema_arrow)
    return OriginalRows(dict(zip(found.column_names, found.columns, strict=True)), [row + 1 for row in rows])


def _taken(batches: Iterable[pa.RecordBatch], rows: Sequence[int], schema: pa.Schema) -> pa.Table:
    """Return the rows of a stream that have some indexes."""
    wanted, start, found = np.asarray(rows, np.int64), 0, []
    for batch in batches:
        here = wanted[(wanted >= start) & (wanted < start + batch.num_rows)] - start
        found.append(batch.take(pa.array(here)))
        start += batch.num_rows
        if start > rows[-1]:
            break
    return pa.Table.from_batches(found, schema)


def _csv_rows_at(file: SourceFile, schema: Schema, matching: Matching, rows: Sequence[int]) -> OriginalRows:
    csv_format = file.csv.for_file(file.path)
    names = _csv_names(file, csv_format, matching.columns or schema.names)
    with file.open() as stream, closing(_open_csv(stream, names, csv_format, Quotes(csv_format))) as reader:
        found = _taken(reader, rows, reader.schema)
    lines = _lines_of(file, csv_format, rows)
    numbers = [row + 1 for row in rows] if len(lines) < len(rows) else lines
    return OriginalRows(dict(zip(names, found.columns, strict=True)), numbers)


def _json_rows_at(file: SourceFile, rows: Sequence[int]) -> OriginalRows:
    wanted = set(rows)
    with file.open() as opened:
        every = enumerate(_json_rows(io.BufferedReader(opened), file))
        found = [each for row, each in every if row in wanted]
    names = dict.fromkeys(name for _, values in found for name in values)
    return OriginalRows({name: [values.get(name) for _, values in found] for name in names}, [n for n, _ in found])


def open_parquet(file: SourceFile) -> parquet.ParquetFile:
    """Open a Parquet file and read its footer; the caller closes it."""
    with _read_errors(file):
        return parquet.ParquetFile(file.open())


def read_parquet(
    file: SourceFile, opened: parquet.ParquetFile, column: str, row_group: int | None = None
) -> pa.ChunkedArray:
    """Return one column of an open Parquet file, or of one of its row groups."""
    with _read_errors(file):
        rows = opened.read([column]) if row_group is None else opened.read_row_group(row_group, [column])
        return rows.column(column)


@contextlib.contextmanager
def _read_errors(file: SourceFile) -> Iterator[None]:
    """Raise errors of Arrow and the file system as `StorageError`, with the file's address."""
    try:
        yield
    except SleeperError:
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError, LZMAError) as error:
        if isinstance(error, UnicodeError) or "invalid UTF8" in str(error):
            raise _not_in_encoding(file) from error
        hint: HintParts = ("the file may be truncated or not in this format",)
        if file.format == "csv" and "Expected" in str(error):
            hint = (*hint, "; lines before the header are left out with ", Action("--skip-lines N", "skip_lines=N"))
        raise StorageError(f"cannot read {file.label}: {first_line(error)}", hint=hint) from error


def _not_in_encoding(file: SourceFile) -> StorageError:
    encoding = file.csv.encoding or "UTF-8"
    hint: HintParts = ("save it as UTF-8, or convert it: iconv -f LATIN1 -t UTF-8 old > new",)
    if file.format == "csv":
        hint = ("say its encoding, such as ", Action("--encoding latin-1", "encoding='latin-1'"))
    return StorageError(f"cannot read {file.label}: its text is not {encoding}", hint=hint)


def _parts(file: SourceFile, schema: Schema, row_groups: range | None, matching: Matching) -> Iterator[RawColumns]:
    """Yield the rows of a file in parts, with the table's names, not yet converted."""
    if file.format == "csv":
        parts = csv_parts(file, schema, matching)
    elif file.format == "json":
        parts = json_parts(file, schema, matching)
    elif file.format == "excel":
        parts = iter([_sheet(file, schema, matching)])
    else:
        parts = _parquet_parts(file, schema, row_groups, matching)
    for part in parts:
        yield with_folder_values(part, file, schema, matching)


def _sheet(file: SourceFile, schema: Schema, matching: Matching) -> RawColumns:
    """Return the rows of a sheet with the types of the schema."""
    names, rows = sheet_rows(file)
    if not file.csv.header:
        names = matching.columns or tuple(schema.names)
        if rows and len(names) != len(rows[0][1]):
            width = len(rows[0][1])
            raise InvalidInput(f"the sheet of {file.label} has {width} columns, not {len(names)}", hint="name them all")
    matched = _matched_names(_with_numbers(names), file.csv, schema, matching)
    first = {name: matched.index(name) for name in matched}  # the first of each name; a second one is a difference
    wrong = tuple(_cells_without_values(first, rows))
    objects = [(number, {name: _cell_value(cells[i]) for name, i in first.items()}) for number, cells in rows]
    raw = _columns_of_objects(objects, schema, replace(matching, columns=(), renames=(), by_name=False), "row")
    if not rows:
        return raw
    if matching.keep_back:
        bad = tuple(_cells_apart({name: i for name, i in first.items() if name in schema.names}, rows))
        return replace(raw, names=matched, bad=(*raw.bad, *bad))
    unread = {each.column for each in wrong}
    columns = {name: column for name, column in raw.columns.items() if name not in unread}
    return replace(raw, names=matched, columns=columns, differences=(*wrong, *raw.differences))


def _cell_value(cell: Any) -> Any:
    return None if isinstance(cell, CellWithoutValue) else cell


def _cells_apart(places: Mapping[str, int], rows: Sequence[tuple[int, tuple[Any, ...]]]) -> Iterator[BadValue]:
    """Yield each cell that shows an error, or has a formula without a result, with its row."""
    for row, (number, cells) in enumerate(rows):
        for each in _cells_without_values(places, [(number, cells)]):
            yield BadValue(row, each)


def _cells_without_values(
    places: Mapping[str, int], rows: Sequence[tuple[int, tuple[Any, ...]]]
) -> Iterator[Difference]:
    """Yield the difference of each column in which cells show errors, or have formulas without results."""
    for name, i in places.items():
        wrong = [cells[i] for _, cells in rows if isinstance(cells[i], CellWithoutValue)]
        if wrong:
            problem = f"column {name!r}, cell {wrong[0].cell}: {wrong[0].problem}"
            kind, place = wrong[0].problem, f"cell {wrong[0].cell}"
            yield Difference(
                name, problem, wrong[0].hint, kind=kind, values=len(wrong), example=wrong[0].error or "=", place=place
            )


def _with_numbers(names: Sequence[str | None]) -> tuple[str, ...]:
    """Return the names in the header of a sheet, with the number of each column that has none there."""
    return tuple(nameless(i) if name is None else name for i, name in enumerate(names, 1))


def _parquet_parts(
    file: SourceFile, schema: Schema, row_groups: range | None, matching: Matching
) -> Iterator[RawColumns]:
    rename = partial(matching.names, schema=schema)
    with open_parquet(file) as opened:
        groups = list(row_groups) if row_groups is not None else list(range(opened.num_row_groups))
        start = sum(opened.metadata.row_group(i).num_rows for i in range(groups[0])) if groups else 0
        for batch in opened.iter_batches(BATCH_ROWS, row_groups=groups):
            yield RawColumns.of(pa.Table.from_batches([batch]), partial(row_after, start), rename)
            start += batch.num_rows


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
    """Return the value of a folder's name as a column; its text is read as that of a CSV file."""
    try:
        scalar = exactly(pa.array([value.text], pa.string()), field.type)[0]
    except InexactValueError as error:
        difference = inexact(error, field, lambda _: f"folder {value.name}={value.text}")
        return replace(difference, values=rows)
    return pa.chunked_array([pa.repeat(scalar, rows)], field.type.arrow)


def _contradiction(
    column: pa.ChunkedArray, expected: pa.ChunkedArray, field: Field, value: FolderValue
) -> Difference | None:
    """Return the difference of a column that is in the file and in a folder's name, with different values."""
    cast = cast_column(column, field, row_number, is_row_key=False)
    if isinstance(cast, Difference) or cast.equals(expected):
        return None
    folder = f"{value.name}={value.text}"
    problem = f"column {field.name!r} is in the file too, with other values than its folder {folder}"
    return Difference(
        field.name, problem, "drop it from the file, or rename the folder", kind="differs from its folder"
    )


_END = "\x1c\x1d\x1e\x1f"
"""The value of the row that marks the end of a file; none of its characters can be a delimiter."""
_DELIMITERS = (";", "\t", "|", ",")
_TEXT_TYPES = frozenset({"string", "bytearray"})
"""Types in which a quoted null text is a value."""


def csv_parts(file: SourceFile, schema: Schema, matching: Matching = EXACT) -> Iterator[RawColumns]:
    """Yield the rows of a CSV file in parts, with the types of the schema.

    Raises
    ------
    InvalidInput
        When the file ends inside quotes, or a row has more or fewer values than there are columns.
    """
    csv_format = file.csv.for_file(file.path)
    names = _csv_names(file, csv_format, matching.columns or schema.names)
    first_record = names if csv_format.header else _first_record(file, csv_format)
    _check_delimiter(file, first_record, csv_format, schema)
    typed = _TypedCsv(file, csv_format, schema, matching, _matched_names(names, csv_format, schema, matching))
    quotes = Quotes(csv_format)
    last: pa.RecordBatch | None = None  # kept back, as the last batch ends with the row that marks the end
    start = 0
    try:
        with file.open() as stream, closing(_open_csv(stream, names, csv_format, quotes)) as reader:
            for batch in reader:
                if not batch.num_rows:
                    continue
                if last is not None:
                    yield typed.columns(last, start)
                    start += last.num_rows
                last = batch
    except pa.ArrowInvalid as error:
        if _END in str(error):
            raise _ends_inside_quotes(file) from error
        raise
    if last is None or not _has_end_row(last):
        raise _ends_inside_quotes(file)
    if not quotes.regular:
        logger.debug("%s has irregular quotes: checking them with Python's parser", file.label)
        _check_quotes(file, csv_format)
    yield typed.columns(last.slice(0, last.num_rows - 1), start)


def csv_sample(file: SourceFile) -> list[tuple[str, pa.Array]]:
    """Return the names of the columns of a CSV file, each with the texts of its first rows, NULL where they mean it."""
    csv_format = file.csv.for_file(file.path)
    if not csv_format.header:
        hint = "add a line with the names; or create the table first, and load the file with its columns"
        raise InvalidInput(f"{file.label} has no names of columns", hint=hint)
    with _read_errors(file):
        names = _csv_names(file, csv_format, ())
        _check_delimiter_of_sample(file, names, csv_format)
        with (
            file.open() as stream,
            closing(_open_csv(stream, names, csv_format, Quotes(csv_format))) as reader,
        ):
            texts = pa.Table.from_batches([next(iter(reader))])
    rows = texts.num_rows - 1 if texts.num_rows and texts.column(0)[-1].as_py() == _END else texts.num_rows
    # between quotes it is a text, unless the column turns out to hold numbers
    nulls = pa.array(csv_format.nulls, pa.string())
    columns = [column.slice(0, rows).combine_chunks() for column in texts.columns]
    return [
        (name, pc.if_else(pc.is_in(column, nulls), pa.scalar(None, pa.string()), column))
        for name, column in zip(names, columns, strict=True)
    ]


def _check_delimiter_of_sample(file: SourceFile, names: Sequence[str], csv_format: CsvFormat) -> None:
    """Raise `InvalidInput` if the header is one name, but another delimiter makes several of it."""
    other = next((each for each in _DELIMITERS if each != csv_format.separator and each in names[0]), None)
    if len(names) == 1 and other is not None:
        raise _other_delimiter(file, names[0], other)


def _open_csv(stream: Any, names: Sequence[str], csv_format: CsvFormat, quotes: Quotes) -> csv.CSVStreamingReader:
    """Return Arrow's reader of a CSV file; every column is text."""
    read = csv.ReadOptions(
        use_threads=False,  # so that an error names its row
        block_size=BLOCK_BYTES,
        column_names=None if csv_format.header else list(names),
    )
    parse = csv.ParseOptions(
        delimiter=csv_format.separator,
        quote_char=csv_format.quote_char or False,
        escape_char=csv_format.escape or False,
        newlines_in_values=True,
        ignore_empty_lines=len(names) > 1,
    )
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=list(csv_format.nulls),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        check_utf8=False,  # the cast does, and names the line and the value
    )
    text = text_stream(stream, csv_format)
    return csv.open_csv(_WithEndRow(text, names, csv_format, quotes), read, parse, convert)


class _WithEndRow(io.RawIOBase):
    """A stream with one more row at its end. If Arrow does not read it as a row, the file ends inside quotes."""

    def __init__(self, stream: Any, names: Sequence[str], csv_format: CsvFormat, quotes: Quotes) -> None:
        super().__init__()
        self._stream, self._last_byte, self._ended, self._quotes = stream, b"\n", False, quotes
        self._row = f"{_END}{csv_format.separator * (len(names) - 1)}\n".encode()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = bytes(self._stream.read(BLOCK_BYTES if size < 0 else size))
        if block:
            self._last_byte = block[-1:]
            self._quotes.check(block)
            return block
        if self._ended:
            return b""
        self._ended = True
        self._quotes.end()
        return self._row if self._last_byte in {b"\n", b"\r"} else b"\n" + self._row


def _has_end_row(batch: pa.RecordBatch) -> bool:
    return bool(batch.num_rows) and batch.column(0)[-1].as_py() == _END


def _ends_inside_quotes(file: SourceFile) -> InvalidInput:
    hint = 'copy the file again if it was truncated, or close the open "'
    return InvalidInput(f"{file.label} ends inside quotes", hint=hint)


def _check_quotes(file: SourceFile, csv_format: CsvFormat) -> None:
    """Raise `InvalidInput` if a value continues after its closing quote."""
    with _Records(file, csv_format, strict=True) as records:
        try:
            for _ in records.rows:
                pass
        except python_csv.Error as error:
            if "expected after" not in str(error):  # a value is longer than Python's parser accepts
                return
            raise InvalidInput(
                f"{file.label}, line {records.lines_read:,}: a value continues after its closing quote",
                hint='double a quote inside quotes, as in "a ""b"" c"; nothing was changed',
            ) from error


def _csv_names(file: SourceFile, csv_format: CsvFormat, of_table: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns: those in the header, or `of_table` if the file has no header."""
    if not csv_format.header:
        return tuple(of_table)
    with _Records(file, csv_format) as records:
        for record in records.rows:
            if record:
                return tuple(record)
    raise pa.ArrowInvalid("the file is empty")


def _matched_names(
    names: tuple[str, ...], csv_format: CsvFormat, schema: Schema, matching: Matching
) -> tuple[str, ...]:
    """Return the table's names for the columns of a CSV file; without a header they already have them."""
    return matching.names(names, schema) if csv_format.header else names


def _first_record(file: SourceFile, csv_format: CsvFormat) -> tuple[str, ...]:
    """Return the values of the first line; none if the parser cannot read it, as a value may be too long for it."""
    with contextlib.suppress(python_csv.Error), _Records(file, csv_format) as records:
        return tuple(next(filter(None, records.rows), ()))
    return ()


def _check_delimiter(file: SourceFile, first: Sequence[str], csv_format: CsvFormat, schema: Schema) -> None:
    """Raise `InvalidInput` if the first line is one value, but another delimiter splits it into the table's columns."""
    if len(first) != 1 or len(schema.names) == 1 or first[0] in schema.names:
        return
    for delimiter in _DELIMITERS:
        parts = first[0].split(delimiter)
        if delimiter == csv_format.separator or len(parts) == 1:
            continue
        fits = bool(set(parts) & set(schema.names)) if csv_format.header else len(parts) == len(schema.names)
        if fits:
            raise _other_delimiter(file, first[0], delimiter)


def _other_delimiter(file: SourceFile, first: str, delimiter: str) -> InvalidInput:
    word = "tab" if delimiter == "\t" else f"'{delimiter}'"
    option = Action(f"--delimiter {word}", f"delimiter={delimiter!r}")
    return InvalidInput(
        f"the first line of {file.label} is one value, {first!r}",
        hint=(f"if {word} separates its values, add ", option),
    )


class _Records:
    """The records of a file, read by Python's own parser, which counts lines."""

    def __init__(self, file: SourceFile, csv_format: CsvFormat, *, strict: bool = False) -> None:
        stream = text_stream(file.open(), csv_format)
        self._kept = stream if isinstance(stream, KeptLines) else None
        self._text = io.TextIOWrapper(
            io.BufferedReader(stream), encoding="utf-8-sig", errors="surrogateescape", newline=""
        )
        self.rows = python_csv.reader(
            self._text,
            delimiter=csv_format.separator,
            quotechar=csv_format.quote_char,
            escapechar=csv_format.escape,
            quoting=python_csv.QUOTE_MINIMAL if csv_format.quote_char else python_csv.QUOTE_NONE,
            strict=strict,
        )

    @property
    def lines_read(self) -> int:
        """The number in the file of the last line that was read."""
        return self.line_in_file(self.rows.line_num)

    def line_in_file(self, line: int) -> int:
        """Return the number in the file of a line, counting those that the format leaves out."""
        return self._kept.original(line) if self._kept else line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._text.close()


def _line_of(file: SourceFile, csv_format: CsvFormat, row: int) -> str:
    """Return the line on which a row begins, as text; the row's number if the parser cannot read the file so far."""
    lines = _lines_of(file, csv_format, [row])
    return f"line {lines[0]:,}" if lines else row_number(row)


def _lines_of(file: SourceFile, csv_format: CsvFormat, rows: Sequence[int]) -> list[int]:
    """Return the lines on which some rows begin, in order; of those before the first that the parser cannot read."""
    wanted, lines, row, line = set(rows), [], -int(csv_format.header), 1
    with contextlib.suppress(python_csv.Error, UnicodeDecodeError), _Records(file, csv_format) as records:
        for record in records.rows:
            if record:
                if row in wanted:
                    lines.append(records.line_in_file(line))
                row += 1
            line = records.rows.line_num + 1
            if len(lines) == len(wanted):
                break
    return lines


@dataclass(frozen=True, slots=True)
class _TypedCsv:
    """Gives the texts of a CSV file the types of the schema; `names` are the table's names for its columns."""

    file: SourceFile
    format: CsvFormat
    schema: Schema
    matching: Matching
    names: tuple[str, ...]

    def columns(self, batch: pa.RecordBatch, start: int) -> RawColumns:
        """Return a batch of texts, whose first row is row `start` of the file, with the types of the schema."""
        columns, differences = {}, []
        fields = {field.name: field for field in self.schema.fields}

        def place(row: int) -> str:
            return _line_of(self.file, self.format, start + row)

        bad: list[BadValue] = []
        for name, texts in zip(self.names, batch.columns, strict=True):
            if name not in fields:
                continue
            if self.matching.keep_back:
                convert = partial(self._values, kind=fields[name].type)
                columns[name], wrong = fitting_values(texts, convert, fields[name], self.matching)
                bad += wrong
                continue
            column = self._column(texts, fields[name], place)
            if isinstance(column, Difference):
                differences.append(column)
            else:
                columns[name] = pa.chunked_array([column])
        return RawColumns(self.names, columns, batch.num_rows, tuple(differences), place=place, bad=tuple(bad))

    def _column(self, texts: pa.Array, field: Field, place: Any) -> pa.Array | Difference:
        """Return texts as values of a field, or the first difference with the number of values that do not fit."""
        try:
            return self._values(texts, field.type)
        except InexactValueError as error:
            difference = inexact(error, field, place, self.matching)
            if hint := hint_for(error, self.format):
                difference = replace(difference, hint=hint)
            return with_count(difference, texts, lambda part: self._values(part, field.type))

    def _values(self, texts: pa.Array, kind: FieldType) -> pa.Array:
        if kind.name not in _TEXT_TYPES:
            nulls = pa.array(self.format.nulls, pa.string())
            texts = pc.if_else(pc.is_in(texts, nulls), pa.scalar(None, pa.string()), texts)
        if kind.name == "bytearray":
            return _decoded(texts, kind, from_base64)
        if kind.arguments and kind.name != "decimal":
            return _decoded(texts, kind, parse_json)
        values = as_written_in(self.format, texts, kind)
        return exactly(prepared(values, kind) if self.matching.cast else values, kind)


def _decoded(texts: pa.Array, kind: FieldType, decode: Callable[[str], Any]) -> pa.Array:
    """Return texts as values of a type, each decoded in Python: bytes, or JSON."""

    def decode_all(part: Sequence[str | None]) -> list[Any]:
        return [None if text is None else decode(text) for text in part]

    values = values_of(texts)
    try:
        decoded = decode_all(values)
    except (*BAD_VALUE, JSONDecodeError) as error:
        index = first_bad(values, decode_all) or 0
        raise InexactValueError("string", kind, index, values[index]) from error
    return from_python(decoded, kind, base64=from_base64)


class Quotes:
    """Checks the quotes of a CSV file block by block.

    Parameters
    ----------
    csv_format
        The characters between and around values.

    Attributes
    ----------
    regular
        Whether every quote so far opens or closes a value, or is doubled inside one; unknown, so False, where quotes
        can be escaped.
    """

    def __init__(self, csv_format: CsvFormat) -> None:
        self._quote = ord(csv_format.quote_char or "\0")
        self._may_stand_beside = _byte_set(ord(csv_format.separator), self._quote)
        self._quote_count, self._byte_before, self._last = 0, b"\n", b""
        self._none = csv_format.quote_char is None
        self.regular = self._none or csv_format.escape is None

    def check(self, block: bytes) -> None:
        """Check the next block."""
        if self._none or not self.regular or not block:
            return
        text = self._byte_before + self._last + block  # the last byte of a block is checked with the next block
        codes = np.frombuffer(text, np.uint8)
        places = np.flatnonzero(codes[1:-1] == self._quote) + 1
        opening, closing = places[self._quote_count % 2 :: 2], places[1 - self._quote_count % 2 :: 2]
        opens_regularly = self._may_stand_beside[codes[opening - 1]].all()
        closes_regularly = self._may_stand_beside[codes[closing + 1]].all()
        self.regular = bool(opens_regularly and closes_regularly)
        self._quote_count += len(places)
        self._byte_before, self._last = text[-2:-1], text[-1:]

    def end(self) -> None:
        """Check the end of the file."""
        self.check(b"\n")


def _byte_set(separator: int, quote: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each byte whether it may stand next to a quote, outside the value that it opens or closes."""
    allowed = np.zeros(256, np.bool_)
    allowed[[separator, quote, ord("\n"), ord("\r")]] = True
    return allowed


_DOUBTFUL_NUMBER = re.compile(rb"[0-9][0-9.]{15,}(?:[eE][+-]?[0-9]+)?|[0-9][0-9.]*[eE][+-]?[0-9]{3,}")
"""Numbers with many digits, and very large or small ones: a double may not hold all digits that are written."""
_ARROW = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "boolean": pa.bool_(), "double": pa.float64(),
          "date": pa.string(), "timestamp": pa.string(), "tinyint": pa.int64(), "smallint": pa.int64(),
          "time": pa.string(), "uuid": pa.string()}  # fmt: skip
_ESCAPED = "surrogateescape"
"""Keeps bytes that are not UTF-8 in a text, so that the cast can refuse the value."""
_DEEPEST = 500
"""From this depth on, Arrow's JSON parser could overflow the stack and end the process."""
_BETWEEN_ROWS = re.compile(rb"\}\s*\{")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SPACE = re.compile(r"\s*")


def json_parts(file: SourceFile, schema: Schema, matching: Matching = EXACT) -> Iterator[RawColumns]:
    """Yield the rows of a JSON file in parts.

    Raises
    ------
    InvalidInput
        For text that is not JSON or not an object; the error names the line.
    """
    with file.open() as opened:
        stream = io.BufferedReader(opened)
        line = 1
        for block in _blocks(stream):
            if line == 1 and block.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
                yield _columns_of_objects(list(_array(file, block + stream.read())), schema, matching)
                return
            # Arrow would guess the types of columns that are renamed afterwards.
            parsed = None if matching.renames_columns else _parsed_by_arrow(block, schema)
            if parsed is not None:
                yield RawColumns.of(parsed, _line_places(block, line))
            else:
                yield _columns_of_objects(list(_objects(file, block, line)), schema, matching)
            line += block.count(b"\n")


def sheet_sample(file: SourceFile) -> list[dict[str, Any]]:
    """Return the rows of a sheet of an Excel file by the names in its header."""
    with _read_errors(file):
        names, rows = sheet_rows(file)
    names = _with_numbers(names)
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise InvalidInput(f"column {twice!r} of {file.label} occurs twice", hint="rename one in the sheet's header")
    return [  # the load refuses cells without values
        {name: _cell_value(cell) for name, cell in zip(names, cells, strict=True)} for _, cells in rows
    ]


def json_sample(file: SourceFile) -> list[dict[str, Any]]:
    """Return the first objects of a JSON file; its numbers with fractions as doubles."""
    with _read_errors(file), file.open() as opened:
        stream = io.BufferedReader(opened)
        block = next(_blocks(stream), b"")
        is_array = block.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        rows = _array(file, block + stream.read()) if is_array else _objects(file, block, 1)
        return [_with_doubles(row) for _, row in rows]


def _with_doubles(value: Any) -> Any:
    if isinstance(value, NumberText):
        return float(value)
    if isinstance(value, dict):
        return {name: _with_doubles(each) for name, each in value.items()}
    return [_with_doubles(each) for each in value] if isinstance(value, list) else value


def _blocks(stream: io.BufferedReader) -> Iterator[bytes]:
    """Yield blocks of whole lines."""
    while block := stream.read(BLOCK_BYTES):
        yield block + stream.readline()


def _parsed_by_arrow(block: bytes, schema: Schema) -> pa.Table | None:
    """Return the rows as Arrow reads them; None if it fails or might change a value."""
    known = [(field.name, _ARROW.get(field.type.name)) for field in schema.fields]
    if any(kind is None for _, kind in known):
        return None
    doubles = any(kind == pa.float64() for _, kind in known)
    if doubles and not _fit_doubles(_DOUBTFUL_NUMBER.findall(block)):
        return None
    if _may_be_deep(block):
        return None
    options = json.ParseOptions(explicit_schema=pa.schema(known), unexpected_field_behavior="infer")
    try:
        table = json.read_json(io.BytesIO(block), json.ReadOptions(block_size=len(block) + 1), options)
    except pa.ArrowException:
        return None
    if table.num_rows != sum(1 for line in block.splitlines() if line.strip()):
        return None  # there are several objects on a line, so lines cannot be counted
    try:
        names = table.column_names
    except UnicodeDecodeError:
        return None
    matters = [f for f in schema.fields if f.default is not None or _is_null(table[f.name], f)]
    if any(_may_be_null(table[f.name], f.name, block) for f in matters):
        return None
    # Arrow also returns the columns of the given schema that are not in the file; they have no value.
    return table.select([i for i in range(len(names)) if table.column(i).null_count < table.num_rows])


def _is_null(column: pa.ChunkedArray, field: Field) -> bool:
    """Return whether all values of a column are NULL that may have none: it is either missing, or null in each row."""
    return not field.nullable and column.null_count == len(column)


def _may_be_null(column: pa.ChunkedArray, name: str, block: bytes) -> bool:
    """Return whether some row may say null, which Arrow does not tell from a member that the row does not have."""
    nulls = column.null_count
    return 0 < nulls < len(column) or (nulls > 0 and (name.encode() in block or rb"\u" in block))


def _may_be_deep(block: bytes) -> bool:
    """Return whether lists and objects may be nested so deeply that Arrow's parser would end the process."""
    return _nested_count(block) >= _DEEPEST and _nested_count(_STRING.sub(b"", block)) >= _DEEPEST


def _nested_count(block: bytes) -> int:
    """Return how many lists and objects begin inside rows; outside texts, ``} {`` occurs only between two rows."""
    return block.count(b"[") + block.count(b"{") - len(_BETWEEN_ROWS.findall(block)) - 1


def _fit_doubles(numbers: list[bytes]) -> bool:
    """Return whether doubles hold all digits of some numbers."""
    try:
        to_float(pa.array(numbers, pa.binary()).cast(pa.string()), pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _line_places(block: bytes, first: int) -> Callable[[int], str]:
    """Return a function from the index of a row to its line, as text; the block begins at line `first`."""

    def place(row: int) -> str:
        lines = [i for i, line in enumerate(block.split(b"\n")) if line.strip()]
        return f"line {first + lines[row]:,}"

    return place


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; numbers with a fraction are `NumberText`, with all their digits."""
    return _DECODER.decode(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name occurs twice")
    return members


_DECODER = JSONDecoder(object_pairs_hook=_object, parse_float=NumberText)


def _objects(file: SourceFile, block: bytes, first: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the object on each line, with the line's number; the block begins at line `first`."""
    for number, line in enumerate(block.split(b"\n"), first):
        if not line.strip():
            continue
        try:
            text = _first_text(line) if number == 1 else line.decode(errors=_ESCAPED)
            yield number, _checked_object(parse_json(text))
        except (ValueError, RecursionError) as error:
            raise _not_json(file, number, error) from error


def _first_text(content: bytes) -> str:
    """Return the beginning of a file as text, without a byte order mark."""
    return content.decode("utf-8-sig", _ESCAPED)


def _array(file: SourceFile, content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of an array, each with the line on which it begins."""
    line, done = 1, 0
    try:
        text = _first_text(content)
        at = _skip(text, _skip(text, 0) + 1)
        while text[at : at + 1] != "]":
            line, done = line + text.count("\n", done, at), at
            row, at = _DECODER.raw_decode(text, at)
            yield line, _checked_object(row)
            at = _next_value(text, _skip(text, at))
        _check_end(text, at)
    except (ValueError, RecursionError) as error:
        raise _not_json(file, line, error) from error


def _next_value(text: str, at: int) -> int:
    """Return the position of the next value of an array, or of its closing bracket."""
    if text[at : at + 1] == "]":
        return at
    if text[at : at + 1] != ",":
        raise ValueError("the array is not closed" if at >= len(text) else "a comma is missing")
    at = _skip(text, at + 1)
    if text[at : at + 1] == "]":
        raise ValueError("a value is missing after a comma")
    return at


def _check_end(text: str, at: int) -> None:
    if _skip(text, at + 1) < len(text):
        raise ValueError("something follows the array")


def _skip(text: str, at: int) -> int:
    """Return the position after any white space."""
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _checked_object(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 - one error for everything that is not a row
    for name in row:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"the name {as_written(name)!r} is not UTF-8") from None
    return row


def _not_json(file: SourceFile, line: int, error: ValueError | RecursionError) -> InvalidInput:
    reason = error.msg if isinstance(error, JSONDecodeError) else str(error)
    if isinstance(error, RecursionError):
        reason = "lists and objects are nested too deeply"
    hint = "write one object per line, or one array of objects; the file may be truncated"
    return InvalidInput(f"cannot read {file.label}, line {line:,}: {reason}", hint=hint)


def _columns_of_objects(
    rows: Sequence[tuple[int, dict[str, Any]]], schema: Schema, matching: Matching, unit: str = "line"
) -> RawColumns:
    """Return objects, each with its line or row, as columns with the types of the schema."""
    if not rows:  # without objects, no column is missing
        return RawColumns.of(schema.arrow.empty_table())
    given = tuple(dict.fromkeys(name for _, row in rows for name in row))
    names = matching.names(given, schema)
    columns: dict[str, pa.ChunkedArray] = {}
    differences: list[Difference] = []
    bad: list[BadValue] = []
    fields = {field.name: field for field in schema.fields}

    def place(row: int) -> str:
        return f"{unit} {rows[row][0]:,}"

    def convert(values: Sequence[Any], kind: FieldType) -> pa.Array:
        values = prepared_values(values, kind) if matching.cast else values
        return from_python(values, kind, base64=from_base64)

    for key, name in zip(given, names, strict=True):
        if name not in fields:
            continue
        values = [row.get(key) for _, row in rows]
        to_field = partial(convert, kind=fields[name].type)
        wrong: tuple[BadValue, ...] = ()
        try:
            if matching.keep_back:
                column, wrong = fitting_values(values, to_field, fields[name], matching)
            else:
                column = pa.chunked_array([to_field(values)])
        except InexactValueError as error:
            difference = inexact(error, fields[name], place, matching)
            differences.append(with_count(difference, values, to_field))
            continue
        columns[name] = with_default(column, fields[name], [key in row for _, row in rows])
        bad += wrong
    return RawColumns(names, columns, len(rows), tuple(differences), place=place, bad=tuple(bad))
