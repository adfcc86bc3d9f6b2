"""JSON files as columns: an object a line, or one array of objects; numbers keep all digits that are written.

Arrow reads blocks of lines where it gives the same values as the rule of casts. Where it may not (numbers with more
digits than a double has, lists, maps, 32-bit numbers), and where it fails, Python's parser reads the block and decides.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from json import JSONDecodeError, JSONDecoder
from typing import Any

import pyarrow as pa
from pyarrow import json

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.loading.casting import InexactValueError
from sleeper_nb.operations.loading.conforming import Difference, RawColumns, inexact
from sleeper_nb.operations.loading.python_values import NumberText, from_python
from sleeper_nb.operations.loading.source_files import SourceFile
from sleeper_nb.operations.loading.texts import as_written, from_base64, to_float

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
