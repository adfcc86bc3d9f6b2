"""Read a JSON file as columns of the table's types: one object per line, or one array of objects.

Numbers keep all digits that are written. Arrow parses blocks of lines where it gives the same values as the rules of
casts. Where it might not (numbers with more digits than a double holds, lists, maps, structs, 32-bit floats), and where
it fails, Python's parser reads the block.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from json import JSONDecodeError, JSONDecoder, dumps
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import json

from sleeper_nb.errors import Hint, InvalidInput
from sleeper_nb.load.casts import BAD_VALUE, InexactValueError, as_written, from_base64, to_float
from sleeper_nb.load.conform import (
    BadValue,
    RawColumns,
    converted,
    with_default,
)
from sleeper_nb.load.csv_text import null_hint
from sleeper_nb.load.load_options import EXACT, Matching
from sleeper_nb.load.python_values import NumberText, ValueRules, from_python
from sleeper_nb.load.source_files import BLOCK_BYTES, OriginalRows, SourceFile, check_is_text, read_errors
from sleeper_nb.model.schema import FieldType, Schema

_DOUBTFUL_NUMBER = re.compile(rb"[0-9][0-9.]{15,}(?:[eE][+-]?[0-9]+)?|[0-9][0-9.]*[eE][+-]?[0-9]{3,}")
"""Numbers with many digits, and very large or small ones: a double may not hold all digits that are written."""
_DIGITS = bytes.maketrans(b"123456789.E-", b"0000000000e+")
_DOUBTFUL_DIGITS = (b"0" * 16, b"0e000", b"0e+000")
"""What such a number has in it, once its characters are translated; to look for that is ten times faster."""
_ARROW = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "boolean": pa.bool_(), "double": pa.float64(),
          "date": pa.string(), "timestamp": pa.string(), "tinyint": pa.int64(), "smallint": pa.int64(),
          "time": pa.string(), "uuid": pa.string()}  # fmt: skip
_ESCAPED = "surrogateescape"
"""Keeps bytes that are not UTF-8 in a text, so that the cast can refuse the value."""
_DEEPEST = 500
"""From this depth on, Arrow's JSON parser could overflow the stack and end the process."""
_HEAD = 16
"""Bytes at the beginning of a file that show whether it is text."""
_BETWEEN_ROWS = re.compile(rb"\}\s*\{")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SPACE = re.compile(r"\s*")


def json_parts(file: SourceFile, schema: Schema, matching: Matching = EXACT) -> Iterator[RawColumns]:
    """Yield the rows of a JSON file in parts.

    Raises `InvalidInput` for text that is not JSON or not an object; the error names the line.
    """
    hint_of_nulls = partial(null_hint, csv_format=file.csv, empty=False)
    # Arrow would guess the types of columns whose names are only similar to those of the table.
    is_plain = not matching.by_name and not matching.columns and not file.csv.given_nulls
    for block in _blocks(file):
        parsed = _parsed_by_arrow(block.text, schema, matching) if is_plain and not block.is_array else None
        if parsed is not None:
            place = _line_places(block.text, block.line)
            yield RawColumns.of(parsed, place, rename=partial(matching.names, schema=schema))
        else:
            objects = _with_nulls(_objects(file, block), file)
            yield columns_of_objects(objects, schema, matching, null_hint=hint_of_nulls)


def json_names(file: SourceFile) -> Iterator[str]:
    with read_errors(file):
        for _, row in _json_rows(file):
            yield from row


def json_sample(file: SourceFile) -> list[dict[str, Any]]:
    """Return the first objects of a JSON file; its numbers with fractions as doubles."""
    return [row for _, row in _with_nulls(_first_objects(file), file)]


def line_in_sample(file: SourceFile, row: int) -> str:
    return f"line {_first_objects(file)[row][0]:,}"


def _first_objects(file: SourceFile) -> list[tuple[int, dict[str, Any]]]:
    with read_errors(file):
        return [row for block in itertools.islice(_blocks(file), 1) for row in _objects(file, block, _OF_DOUBLES)]


def _with_nulls(rows: Iterable[tuple[int, dict[str, Any]]], file: SourceFile) -> list[tuple[int, dict[str, Any]]]:
    if not (nulls := frozenset(file.csv.given_nulls)):
        return list(rows)

    def value(each: Any) -> Any:
        return None if isinstance(each, str) and not isinstance(each, NumberText) and each in nulls else each

    return [(number, {name: value(each) for name, each in row.items()}) for number, row in rows]


def _json_rows(file: SourceFile) -> Iterator[tuple[int, dict[str, Any]]]:
    return (row for block in _blocks(file) for row in _objects(file, block))


def json_rows_at(file: SourceFile, rows: Sequence[int]) -> OriginalRows:
    """Return the objects of a JSON file that have some indexes."""
    wanted = set(rows)
    found = [each for row, each in enumerate(_json_rows(file)) if row in wanted]
    names = dict.fromkeys(name for _, values in found for name in values)
    return OriginalRows({name: [values.get(name) for _, values in found] for name in names}, [n for n, _ in found])


class _Block(NamedTuple):
    """Some of the text of a file: whole lines from the first on, or all of it, if it is an array."""

    text: bytes
    line: int
    is_array: bool


def _blocks(file: SourceFile) -> Iterator[_Block]:
    with file.open() as opened:
        stream = io.BufferedReader(opened)
        check_is_text(file, stream.peek(_HEAD)[:_HEAD])
        line = 1
        while text := stream.read(BLOCK_BYTES):
            if line == 1 and text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
                yield _Block(text + stream.read(), line, is_array=True)
                return
            text += stream.readline()
            yield _Block(text, line, is_array=False)
            line += text.count(b"\n")


def _parsed_by_arrow(block: bytes, schema: Schema, matching: Matching) -> pa.Table | None:
    """Return the rows as Arrow reads them, with the names in the file; None if it fails or might change a value."""
    given = {name: in_file for in_file, name in matching.renames}
    fields = [(given.get(field.name, field.name), field) for field in schema.fields]
    known = [(name, _ARROW.get(field.type.name)) for name, field in fields]
    if any(kind is None for _, kind in known) or len(dict(known)) < len(known):
        return None
    doubles = any(kind == pa.float64() for _, kind in known)
    if doubles and not _fits_doubles(block):
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
    for name, field in fields:
        nulls = table[name].null_count
        # Arrow does not tell a null from a member that a row does not have, which Python's parser does
        if nulls and (field.default is not None or (not field.nullable and nulls == table.num_rows)):
            return None
    # Arrow also returns the columns of the given schema that are not in the file; they have no value.
    return table.select([i for i in range(len(names)) if table.column(i).null_count < table.num_rows])


def _fits_doubles(block: bytes) -> bool:
    """Return whether doubles hold all digits of the numbers in a block."""
    translated = block.translate(_DIGITS)
    if not any(digits in translated for digits in _DOUBTFUL_DIGITS):
        return True
    try:
        to_float(pa.array(_DOUBTFUL_NUMBER.findall(block), pa.binary()).cast(pa.string()), pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _may_be_deep(block: bytes) -> bool:
    """Return whether lists and objects may be nested so deeply that Arrow's parser would end the process."""
    return _nested_count(block) >= _DEEPEST and _nested_count(_STRING.sub(b"", block)) >= _DEEPEST


def _nested_count(block: bytes) -> int:
    """Return how many lists and objects begin inside rows; outside texts, ``} {`` occurs only between two rows."""
    return block.count(b"[") + block.count(b"{") - len(_BETWEEN_ROWS.findall(block)) - 1


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
_OF_DOUBLES = JSONDecoder(object_pairs_hook=_object)


def _objects(file: SourceFile, block: _Block, decoder: JSONDecoder = _DECODER) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the object on each line, or those of an array, each with its line."""
    if block.is_array:
        yield from _array(file, block.text, decoder)
        return
    for number, line in enumerate(block.text.split(b"\n"), block.line):
        if not line.strip():
            continue
        try:
            text = _first_text(line) if number == 1 else line.decode(errors=_ESCAPED)
            yield number, _checked_object(decoder.decode(text))
        except (ValueError, RecursionError) as error:
            raise _not_json(file, number, error) from error


def _first_text(content: bytes) -> str:
    return content.decode("utf-8-sig", _ESCAPED)


def _array(file: SourceFile, content: bytes, decoder: JSONDecoder) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of an array, each with the line on which it begins."""
    line, done = 1, 0
    try:
        text = _first_text(content)
        at = _skip(text, _skip(text, 0) + 1)
        while text[at : at + 1] != "]":
            line, done = line + text.count("\n", done, at), at
            row, at = decoder.raw_decode(text, at)
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


def _with_json_texts(values: Sequence[Any], kind: FieldType) -> Sequence[Any]:
    """Return values with the JSON of objects and lists where the type of the table is a text."""
    if kind.name == "string":
        return [_json_of(each) if isinstance(each, dict | list) else each for each in values]
    if not kind.holds("string"):
        return values
    if kind.name == "struct":
        types = {member.name: member.type for member in kind.arguments}
        return [_members_with_json_texts(each, types) if isinstance(each, dict) else each for each in values]
    inner = kind.arguments[-1]
    return [
        dict(zip(each, _with_json_texts(list(each.values()), inner), strict=True))
        if isinstance(each, dict)
        else _with_json_texts(each, inner)
        if isinstance(each, list) and kind.name == "list"
        else each
        for each in values
    ]


def _members_with_json_texts(value: dict[str, Any], types: Mapping[str, FieldType]) -> dict[str, Any]:
    return {name: _with_json_texts([part], types[name])[0] if name in types else part for name, part in value.items()}


def _json_of(value: Any) -> Any:
    try:
        return _json_text(value)
    except RecursionError:
        return value  # the cast refuses it


def _json_text(value: Any) -> str:
    """Return a value as JSON text, with all digits of its numbers."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, dict):
        return f"{{{','.join(f'{_json_text(name)}:{_json_text(part)}' for name, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_json_text, value))}]"
    return dumps(value, ensure_ascii=False)


def columns_of_objects(
    rows: Sequence[tuple[int, dict[Any, Any]]],
    schema: Schema,
    matching: Matching,
    unit: str = "line",
    *,
    null_hint: Callable[[InexactValueError], Hint] | None,
) -> RawColumns:
    """Return objects, each with its line or row, as columns with the types of the schema.

    `null_hint` returns the option with which a text of a file means NULL, or ""; None for objects in memory, whose
    texts are no base64 or JSON of values.
    """
    if not rows:  # without objects, no column is missing
        return RawColumns.of(schema.arrow.empty_table())
    given = tuple(dict.fromkeys(name for _, row in rows for name in row))
    names = matching.names(tuple(map(str, given)), schema)
    columns: dict[str, pa.ChunkedArray] = {}
    bad: list[BadValue] = []
    fields = {field.name: field for field in schema.fields}

    def place(row: int) -> str:
        return f"{unit} {rows[row][0]:,}"

    def convert(values: Sequence[Any], kind: FieldType) -> pa.Array:
        values = values if null_hint is None else _with_json_texts(values, kind)
        return from_python(values, kind, ValueRules(None if null_hint is None else from_base64, matching.cast))

    for key, name in zip(given, names, strict=True):
        values = [row.get(key) for _, row in rows]
        if name not in fields:
            unknown = untyped_column(values) if null_hint is None else None
            columns |= {} if unknown is None else {name: unknown}
            continue
        to_field = partial(convert, kind=fields[name].type)
        column, wrong = converted(values, to_field, fields[name], matching, null_hint or (lambda _: ""))
        columns[name] = with_default(column, fields[name], [key in row for _, row in rows])
        bad += wrong
    return RawColumns(names, columns, len(rows), place=place, bad=tuple(bad))


def untyped_column(values: Any) -> pa.ChunkedArray | None:
    """Return a column that the table lacks, for its type in the message; None if Arrow has no type for it."""
    try:
        return pa.chunked_array([pa.array(values, from_pandas=True)])
    except BAD_VALUE:
        return None
