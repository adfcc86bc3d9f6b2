"""One Parquet, CSV or JSON file as columns: read as the table's types, the same whole or in pieces.

No type of a column that the table knows is left to a guess, as a guess depends on which rows are looked at: a file
gives the same values, and the same errors, in process and in a task that reads a part of it.
"""

from __future__ import annotations

import contextlib
import csv as python_csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from json import JSONDecodeError, JSONDecoder
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json, parquet

from sleeper_nb.errors import Action, InvalidInput, SleeperError, StorageError
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
    Conformed,
    Difference,
    RawColumns,
    compare,
    compare_parts,
    first_line,
    inexact,
    row_number,
)
from sleeper_nb.operations.loading.python_values import NumberText, from_python
from sleeper_nb.operations.loading.source_files import CsvFormat, SourceFile
from sleeper_nb.report import values_of

# Quotes of a CSV file: a quoted value ends at its closing quote, which a delimiter or the end of the line follows.
#
# Arrow reads ``"a" b`` as ``a b``. So the quotes of a file are looked at while Arrow reads it, a block at a time. Where
# all of them open or close a value, or are doubled within one, the file is well-formed. Where one does not, as in
# ``5" disk``, the caller lets Python's parser decide.

_QUOTE = ord('"')


class Quotes:
    """The quotes of a file, seen block by block.

    Parameters
    ----------
    delimiter
        What separates values.

    Attributes
    ----------
    regular
        Whether every quote that was seen opens or closes a value, or is doubled.
    """

    def __init__(self, delimiter: str) -> None:
        separator = delimiter.encode()
        self._opens, self._closes = _table(separator[-1]), _table(separator[0])
        self._seen, self._before, self._last = 0, b"\n", b""
        self.regular = True

    def see(self, block: bytes) -> None:
        """Look at the next block."""
        if not self.regular or not block:
            return
        text = self._before + self._last + block  # the last byte of a block is judged when the next one is known
        codes = np.frombuffer(text, np.uint8)
        places = np.flatnonzero(codes[1:-1] == _QUOTE) + 1
        opening, closing = places[self._seen % 2 :: 2], places[1 - self._seen % 2 :: 2]
        self.regular = bool(self._opens[codes[opening - 1]].all() and self._closes[codes[closing + 1]].all())
        self._seen += len(places)
        self._before, self._last = text[-2:-1], text[-1:]

    def end(self) -> None:
        """Look at the end of the file."""
        self.see(b"\n")


def _table(separator: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return by byte whether it may stand outside of a quote that opens or closes a value."""
    table = np.zeros(256, np.bool_)
    table[[separator, _QUOTE, ord("\n"), ord("\r")]] = True
    return table


# JSON files as columns: an object a line, or one array of objects; numbers keep all digits that are written.
#
# Arrow reads blocks of lines where it gives the same values as the rule of casts. Where it may not (numbers with more
# digits than a double has, lists, maps, 32-bit numbers), and where it fails, Python's parser reads the block and
# decides.

BLOCK_BYTES = 8 << 20
"""Bytes that are parsed together, and the rest of the last line."""
_DOUBTFUL_NUMBER = re.compile(rb"[0-9][0-9.]{15,}(?:[eE][+-]?[0-9]+)?|[0-9][0-9.]*[eE][+-]?[0-9]{3,}")
"""Numbers with many digits, very large and very small ones: a double may not be what is written."""
_ARROW = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "boolean": pa.bool_(), "double": pa.float64(),
          "date": pa.string(), "timestamp": pa.string()}  # fmt: skip
_ESCAPED = "surrogateescape"
"""Bytes that are not UTF-8 stay visible in a text, so that the cast refuses the value that has them."""
_DEEP = 500
_BETWEEN_ROWS = re.compile(rb"\}\s*\{")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SPACE = re.compile(r"\s*")


def json_parts(file: SourceFile, schema: Schema) -> Iterator[RawColumns]:
    """Yield the rows of a JSON file in parts.

    Raises
    ------
    InvalidInput
        For what is no JSON, or no object, with its line.
    """
    with file.open() as opened:
        stream = io.BufferedReader(opened)
        line = 1
        for block in _blocks(stream):
            if line == 1 and block.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
                yield _of_rows(list(_array(file, block + stream.read())), schema)
                return
            quick = _by_arrow(block, schema)
            if quick is not None:
                yield RawColumns.of(quick, _places(block, line))
            else:
                yield _of_rows(list(_lines(file, block, line)), schema)
            line += block.count(b"\n")


def _blocks(stream: io.BufferedReader) -> Iterator[bytes]:
    """Yield whole lines."""
    while block := stream.read(BLOCK_BYTES):
        yield block + stream.readline()


def _by_arrow(block: bytes, schema: Schema) -> pa.Table | None:
    """Return the rows as Arrow reads them; None where it fails, or may read something else than is written."""
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
        return None  # several objects on a line: not ours to count
    try:
        names = table.column_names
    except UnicodeDecodeError:
        return None
    # Arrow adds the columns that it was told of; one without any value is not in the file
    return table.select([i for i in range(len(names)) if table.column(i).null_count < table.num_rows])


def _may_be_deep(block: bytes) -> bool:
    """Return whether lists and objects within the rows may be nested so deep that Arrow's parser ends the process."""
    return _nested(block) >= _DEEP and _nested(_STRING.sub(b"", block)) >= _DEEP


def _nested(block: bytes) -> int:
    """Return how many lists and objects begin within rows; outside of texts ``} {`` is only between two rows."""
    return block.count(b"[") + block.count(b"{") - len(_BETWEEN_ROWS.findall(block)) - 1


def _fit_doubles(numbers: list[bytes]) -> bool:
    """Return whether doubles have all digits of some numbers."""
    try:
        to_float(pa.array(numbers, pa.binary()).cast(pa.string()), pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _places(block: bytes, first: int) -> Any:
    def place(row: int) -> str:
        full = [i for i, line in enumerate(block.split(b"\n")) if line.strip()]
        return f"line {first + full[row]:,}"

    return place


def parsed(text: str) -> Any:
    """Return what a JSON text means; numbers with a fraction as they are written."""
    return _DECODER.decode(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name is there twice")
    return made


_DECODER = JSONDecoder(object_pairs_hook=_object, parse_float=NumberText)


def _lines(file: SourceFile, block: bytes, first: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(block.split(b"\n"), first):
        if line.strip():
            try:
                yield number, _checked(parsed(_text(line)) if number == 1 else parsed(line.decode(errors=_ESCAPED)))
            except (ValueError, RecursionError) as error:
                raise _no_json(file, number, error) from error


def _text(content: bytes) -> str:
    """Return the begin of a file as text."""
    return content.decode("utf-8-sig", _ESCAPED)


def _array(file: SourceFile, content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of an array, each with the line on which it begins."""
    line, done = 1, 0
    try:
        text = _text(content)
        at = _skip(text, _skip(text, 0) + 1)
        while text[at : at + 1] != "]":
            line, done = line + text.count("\n", done, at), at
            row, at = _DECODER.raw_decode(text, at)
            yield line, _checked(row)
            at = _after(text, _skip(text, at))
        _check_end(text, at)
    except (ValueError, RecursionError) as error:
        raise _no_json(file, line, error) from error


def _after(text: str, at: int) -> int:
    """Return where the next value of an array begins, or the bracket that closes it."""
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
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _checked(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - one error for all that is no row
    for name in row:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"the name {as_written(name)!r} is not UTF-8") from None
    return row


def _no_json(file: SourceFile, line: int, error: ValueError | RecursionError) -> InvalidInput:
    said = error.msg if isinstance(error, JSONDecodeError) else str(error)
    if isinstance(error, RecursionError):
        said = "lists and objects are nested too deep"
    hint = "write one object a line, or one array of objects; the file may have been cut"
    return InvalidInput(f"cannot read {file.address}, line {line:,}: {said}", hint=hint)


def _of_rows(rows: Sequence[tuple[int, dict[str, Any]]], schema: Schema) -> RawColumns:
    if not rows:  # no object lacks a name
        return RawColumns.of(schema.arrow.empty_table())
    names = tuple(dict.fromkeys(name for _, row in rows for name in row))
    columns: dict[str, pa.ChunkedArray] = {}
    bad: list[Difference] = []

    def place(row: int) -> str:
        return f"line {rows[row][0]:,}"

    for field in schema.fields:
        if field.name in names:
            values = [row.get(field.name) for _, row in rows]
            try:
                columns[field.name] = pa.chunked_array([from_python(values, field.type, base64=from_base64)])
            except InexactValueError as error:
                bad.append(inexact(error, field, place))
    return RawColumns(names, columns, len(rows), tuple(bad), place=place)


# CSV files as columns: every value is read as text, and means what the grammar of texts says.
#
# NULL is the null text without quotes (an empty value by default). In quotes it is a text; where a column has neither
# texts nor bytes, that can only be NULL too. Bytes are base64, lists and maps JSON: as an export writes them.

"""Bytes that are parsed together; no row can be longer."""
_END = "\x1c\x1d\x1e\x1f"  # no character of it can be a delimiter
_DELIMITERS = (";", "\t", "|", ",")
_SURE = frozenset({"string", "bytearray"})


def csv_parts(file: SourceFile, schema: Schema) -> Iterator[RawColumns]:
    """Yield the rows of a CSV file in parts, with the types of the schema.

    Raises
    ------
    InvalidInput
        When the file ends within quotes, or a row has more or fewer values than there are columns.
    """
    form = file.csv.for_file(file.path)
    names = _names(file, form, schema)
    _check_delimiter(file, names if form.header else _first_record(file, form), form, schema)
    last: pa.RecordBatch | None = None
    start = 0
    quotes = Quotes(form.separator)
    try:
        with (
            file.open() as stream,
            closing(csv.open_csv(_Ended(stream, names, form, quotes), *_options(names, form))) as reader,
        ):
            for batch in reader:
                if not batch.num_rows:
                    continue
                if last is not None:
                    yield _typed(file, form, last, start, schema)
                    start += last.num_rows
                last = batch
    except pa.ArrowInvalid as error:
        if _END in str(error):
            raise _within_quotes(file) from error
        raise
    if last is None or not _is_end(last):
        raise _within_quotes(file)
    if not quotes.regular:
        _check_quotes(file, form)
    yield _typed(file, form, last.slice(0, last.num_rows - 1), start, schema)


def _options(names: Sequence[str], form: CsvFormat) -> tuple[Any, ...]:
    return (
        csv.ReadOptions(
            use_threads=False,  # so that an error names its row
            block_size=BLOCK_BYTES,
            column_names=None if form.header else list(names),
        ),
        csv.ParseOptions(delimiter=form.separator, newlines_in_values=True, ignore_empty_lines=len(names) > 1),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[form.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,  # the cast does, which names the line and the value
        ),
    )


class _Ended(io.RawIOBase):
    """A stream with one row more at its end: where that is no row when it is read, the file was cut within quotes."""

    def __init__(self, stream: Any, names: Sequence[str], form: CsvFormat, quotes: Quotes) -> None:
        super().__init__()
        self._stream, self._last, self._ended, self._quotes = stream, b"\n", False, quotes
        self._row = f"{_END}{form.separator * (len(names) - 1)}\n".encode()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        found = bytes(self._stream.read(BLOCK_BYTES if size < 0 else size))
        if found:
            self._last = found[-1:]
            self._quotes.see(found)
            return found
        if self._ended:
            return b""
        self._ended = True
        self._quotes.end()
        return self._row if self._last in {b"\n", b"\r"} else b"\n" + self._row


def _is_end(batch: pa.RecordBatch) -> bool:
    return bool(batch.num_rows) and batch.column(0)[-1].as_py() == _END


def _within_quotes(file: SourceFile) -> InvalidInput:
    return InvalidInput(
        f"{file.address} ends within quotes", hint='copy the file again: it was cut, or a " is not closed'
    )


def _check_quotes(file: SourceFile, form: CsvFormat) -> None:
    """Raise `InvalidInput` when a value goes on after its closing quote."""
    with _Records(file, form, strict=True) as records:
        try:
            for _ in records.rows:
                pass
        except python_csv.Error as error:
            if "expected after" not in str(error):  # a value longer than Python's parser takes
                return
            raise InvalidInput(
                f"{file.address}, line {records.rows.line_num:,}: a value goes on after its closing quote",
                hint='write a quote within quotes twice, such as "a ""b"" c"; nothing was ingested',
            ) from error


def _names(file: SourceFile, form: CsvFormat, schema: Schema) -> tuple[str, ...]:
    if not form.header:
        return tuple(schema.names)
    with _Records(file, form) as records:
        for record in records.rows:
            if record:
                return tuple(record)
    raise pa.ArrowInvalid("the file is empty")


def _first_record(file: SourceFile, form: CsvFormat) -> tuple[str, ...]:
    with contextlib.suppress(python_csv.Error), _Records(file, form) as records:  # a value may be too long for it
        return tuple(next(filter(None, records.rows), ()))
    return ()


def _check_delimiter(file: SourceFile, first: Sequence[str], form: CsvFormat, schema: Schema) -> None:
    """Raise for a file whose first line is one value, and names or fills the table's columns when it is split."""
    if len(first) != 1 or len(schema.names) == 1 or first[0] in schema.names:
        return
    for delimiter in _DELIMITERS:
        parts = first[0].split(delimiter)
        fits = set(parts) & set(schema.names) if form.header else len(parts) == len(schema.names)
        if delimiter != form.separator and len(parts) > 1 and fits:
            word = "tab" if delimiter == "\t" else f"'{delimiter}'"
            option = Action(f"--delimiter {word}", f"delimiter={delimiter!r}")
            raise InvalidInput(
                f"the first line of {file.address} is one value, {first[0]!r}",
                hint=(f"are its values separated by {word}? add ", option),
            )


class _Records:
    """The records of a file as Python's own parser has them, which knows their lines."""

    def __init__(self, file: SourceFile, form: CsvFormat, *, strict: bool = False) -> None:
        self._text = io.TextIOWrapper(
            io.BufferedReader(file.open()), encoding="utf-8-sig", errors="surrogateescape", newline=""
        )
        self.rows = python_csv.reader(self._text, delimiter=form.separator, strict=strict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._text.close()


def _line_of(file: SourceFile, form: CsvFormat, row: int) -> str:
    """Return the line on which a row begins; the number of the row where a value is too long to look for it."""
    left = row + form.header
    try:
        with _Records(file, form) as records:
            line = 1
            for record in records.rows:
                if record:
                    if not left:
                        return f"line {line:,}"
                    left -= 1
                line = records.rows.line_num + 1
    except (python_csv.Error, UnicodeDecodeError):
        pass
    return row_number(row)


def _typed(file: SourceFile, form: CsvFormat, batch: pa.RecordBatch, start: int, schema: Schema) -> RawColumns:
    """Return a part of a file with the types of the schema."""
    columns, bad = {}, []
    fields = {field.name: field for field in schema.fields}

    def place(row: int) -> str:
        return _line_of(file, form, start + row)

    for name, texts in zip(batch.schema.names, batch.columns, strict=True):
        if name not in fields:
            continue
        made = _of_texts(texts, fields[name], form, place)
        if isinstance(made, Difference):
            bad.append(made)
        else:
            columns[name] = pa.chunked_array([made])
    return RawColumns(tuple(batch.schema.names), columns, batch.num_rows, tuple(bad), place=place)


def _of_texts(texts: pa.Array, field: Field, form: CsvFormat, place: Any) -> pa.Array | Difference:
    kind = field.type
    if kind.name not in _SURE:
        texts = pc.if_else(pc.equal(texts, form.null), pa.scalar(None, pa.string()), texts)
    try:
        if kind.name == "bytearray":
            return _by_value(texts, kind, from_base64)
        return _by_value(texts, kind, None) if kind.arguments and kind.name != "decimal" else exactly(texts, kind)
    except InexactValueError as error:
        return inexact(error, field, place)


def _by_value(texts: pa.Array, kind: FieldType, decode: Any) -> pa.Array:
    """Return values that Python reads: bytes, or JSON."""
    values = values_of(texts)
    read = decode or parsed

    def made(part: Sequence[str | None]) -> list[Any]:
        return [None if text is None else read(text) for text in part]

    try:
        decoded = made(values)
    except (*BAD_VALUE, JSONDecodeError) as error:
        index = first_bad(values, made) or 0
        raise InexactValueError("string", kind, index, values[index]) from error
    return from_python(decoded, kind, base64=from_base64)


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
