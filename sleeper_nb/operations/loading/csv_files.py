"""CSV files as columns: every value is read as text, and means what the grammar of texts says.

NULL is the null text without quotes (an empty value by default). In quotes it is a text; where a column has neither
texts nor bytes, that can only be NULL too. Bytes are base64, lists and maps JSON: as an export writes them.
"""

from __future__ import annotations

import contextlib
import csv as python_csv
import io
from collections.abc import Iterator, Sequence
from contextlib import closing
from json import JSONDecodeError
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from sleeper_nb.column_values import values_of
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.types import FieldType
from sleeper_nb.operations.loading.casting import BAD_VALUE, InexactValueError, exactly, first_bad
from sleeper_nb.operations.loading.conforming import Difference, RawColumns, inexact, row_number
from sleeper_nb.operations.loading.csv_quotes import Quotes
from sleeper_nb.operations.loading.json_files import parsed
from sleeper_nb.operations.loading.python_values import from_python
from sleeper_nb.operations.loading.source_files import CsvFormat, SourceFile
from sleeper_nb.operations.loading.texts import from_base64

BLOCK_BYTES = 8 << 20
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
    form = file.csv.named(file.path)
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
            raise InvalidInput(
                f"the first line of {file.address} is one value, {first[0]!r}",
                hint=f"are its values separated by {word}? --delimiter {word} (in Python: delimiter={delimiter!r})",
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
