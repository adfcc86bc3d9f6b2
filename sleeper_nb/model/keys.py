"""Values of row keys: check them against their field, read them from text, write them as text; split points files.

A split points file is Sleeper's: one value of the first row key per line, in ascending order. Numbers are decimal,
strings are plain text or the base64 of their UTF-8, byte arrays are always base64.
"""

from __future__ import annotations

import base64
import binascii
import csv
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sleeper_nb.arguments import described
from sleeper_nb.errors import Action, InvalidInput, SleeperError
from sleeper_nb.model.schema import Field

if TYPE_CHECKING:
    import pyarrow as pa

KeyValue = int | str | bytes
"""A value of a row key. Python orders all three as Parquet and Arrow do: strings by their UTF-8, bytes unsigned."""

_LIMITS = {"int": 2**31, "long": 2**63}


def arrow_value(value: KeyValue, kind: pa.DataType | None = None) -> pa.Scalar[Any]:
    """Return a value as Arrow holds it in a column of a type, by default of texts.

    `pyarrow.scalar` would import pandas first, which takes longer than a small query.
    """
    import pyarrow as pa

    kind = kind or pa.string()
    if isinstance(value, int):
        buffers = [None, pa.py_buffer(struct.pack("=i" if pa.types.is_int32(kind) else "=q", value))]
    else:
        data = value.encode() if isinstance(value, str) else value
        buffers = [None, pa.py_buffer(struct.pack("=ii", 0, len(data))), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, 1, buffers)[0]


def check_key(field: Field, value: Any, *, what: str = "value") -> KeyValue:
    """Return `value` if row key `field` can hold it.

    Raises
    ------
    InvalidInput
        When it has another type or is out of range; the message calls it `what`.
    """
    kind = field.type.name
    if kind in _LIMITS and isinstance(value, int) and not isinstance(value, bool):
        if -_LIMITS[kind] <= value < _LIMITS[kind]:
            return value
        raise InvalidInput(f"{what} {value} is out of range for row key {field.name!r}", hint=f"it is {kind}")
    if kind == "string" and isinstance(value, str):
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise InvalidInput(
                f"{what} {value!r} of row key {field.name!r} has an unpaired surrogate", hint="it must be valid UTF-8"
            )
        return value
    if kind == "bytearray" and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    shown = repr(value) if isinstance(value, str | bytes) else described(value)
    raise InvalidInput(
        f"{what} {shown} is not a value of row key {field.name!r}",
        hint=f"the row key is {kind}, not {type(value).__name__}",
    )


def parse_key(field: Field, text: str, *, what: str = "value") -> KeyValue:
    """Read a value of row key `field` from text: numbers in decimal, strings as they are, byte arrays in base64.

    The rule is that of Sleeper's split points files.
    """
    kind = field.type.name
    if kind == "string":
        return check_key(field, text, what=what)
    try:
        return check_key(field, base64.b64decode(text, validate=True) if kind == "bytearray" else int(text), what=what)
    except (ValueError, binascii.Error) as error:
        if isinstance(error, InvalidInput):
            raise
        expected = "base64" if kind == "bytearray" else "a whole number"
        message = f"{what} {text!r} is not a value of row key {field.name!r}"
        raise InvalidInput(message, hint=f"write {expected}") from error


def key_text(value: KeyValue | None) -> str:
    """Return a key in readable form: bytes in hexadecimal, an unbounded end as ``∞``."""
    if value is None:
        return "∞"
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


def key_after(field: Field, value: KeyValue) -> KeyValue | None:
    """Return the next greater value that row key `field` can hold; None when there is none."""
    if isinstance(value, int):
        return None if value == _LIMITS[field.type.name] - 1 else value + 1
    return value + "\0" if isinstance(value, str) else value + b"\0"


def read_split_points(
    text: str,
    field: Field,
    *,
    strings_base64: bool = False,
    source: str = "the split points",
    shows_lines: bool = True,
) -> tuple[KeyValue, ...]:
    """Read the split points in the text of a file.

    Parameters
    ----------
    text
        One value per line, no header. Windows line endings are accepted.
    field
        The first row key.
    strings_base64
        Whether strings are base64 (``sleeper.table.splits.base64.encoded``); byte arrays always are.
    source
        The name of the file in errors.
    shows_lines
        Whether errors may show the text of a line; they always show its number.

    Raises
    ------
    InvalidInput
        When a line is blank, is not a value of the key, or is not greater than the line before; the error names the
        first such line. An empty file is valid: it has no split points, and the table has one partition.
    """
    points: list[KeyValue] = []
    for number, line in _lines(text):
        where = f"line {number} of {source}"
        if not line:
            raise InvalidInput(
                f"{where} is blank", hint="write one value per line; an empty string cannot be a split point"
            )
        try:
            point = _split_point(line, field, where, strings_base64=strings_base64)
        except InvalidInput:
            if shows_lines:
                raise
            hint = f"write one {field.type} per line"
            raise InvalidInput(f"{where} is not a value of {field.name!r}", hint=hint) from None
        if points and point <= points[-1]:  # type: ignore[operator]
            if not shows_lines:
                problem = "it does not come after the line before"
            elif point == points[-1]:
                problem = f"{key_text(point)} occurs twice"
            else:
                problem = f"{key_text(point)} does not come after {key_text(points[-1])}"
            raise InvalidInput(f"{where}: {problem}", hint="write values in increasing order, each once")
        points.append(point)
    return tuple(points)


def typed_split_points(text: str) -> list[str]:
    """Return the texts of split points given in one line, as for ``--splits``: ``g,n,t``; ``"a,b",c``."""
    return next(csv.reader([text], skipinitialspace=True)) if text.strip() else []


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers; only line feeds separate them, as strings may hold any other character."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, 1):
        yield number, line.removesuffix("\r")


def _split_point(line: str, field: Field, where: str, *, strings_base64: bool) -> KeyValue:
    try:
        if field.type.name == "string" and strings_base64:
            line = base64.b64decode(line, validate=True).decode()
        return parse_key(field, line)
    except SleeperError as error:
        raise InvalidInput(f"{where}: {error.message}", hint=error.hint_parts) from error
    except ValueError as error:
        raise InvalidInput(
            f"{where} is {line!r}, not UTF-8 text in base64", hint="encode it, or leave out base64"
        ) from error


def write_split_points(points: Iterable[KeyValue], field: Field, *, strings_base64: bool = False) -> str:
    """Return the text of a file from which `read_split_points` reads the same points.

    Parameters
    ----------
    points
        Values of the first row key, in increasing order.
    field
        The first row key.
    strings_base64
        Whether strings are written in base64 of their UTF-8; byte arrays always are.

    Raises
    ------
    InvalidInput
        When a string would be read back differently, such as one with a line break.
    """
    lines = []
    for point in points:
        if isinstance(point, bytes) or (isinstance(point, str) and strings_base64):
            content = point.encode() if isinstance(point, str) else point
            lines.append(base64.b64encode(content).decode())
        else:
            lines.append(str(point))
            if isinstance(point, str) and ("\n" in point or point.endswith("\r") or point.startswith("\ufeff")):
                raise InvalidInput(
                    f"split point {point!r} of {field.name!r} does not fit on a line of text",
                    hint=("add ", Action("--base64", "strings_base64=True")),
                )
    return "".join(f"{line}\n" for line in lines)
