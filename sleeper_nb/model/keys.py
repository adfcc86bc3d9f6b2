"""Values of row keys: checked against their field, read from text, and written for people."""

from __future__ import annotations

import base64
import binascii
import csv
from collections.abc import Iterable, Iterator
from typing import Any

from sleeper_nb.arguments import described
from sleeper_nb.errors import Action, InvalidInput, SleeperError
from sleeper_nb.model.schema import Field

KeyValue = int | str | bytes
"""A value of a row key. Python orders the three as Parquet and Arrow do: strings as their UTF-8, bytes unsigned."""

_LIMITS = {"int": 2**31, "long": 2**63}


def check_key(field: Field, value: Any, *, what: str = "value") -> KeyValue:
    """Return `value` when row key `field` can hold it.

    Raises
    ------
    InvalidInput
        When it is of another type or out of range; `what` names it in the message.
    """
    kind = field.type.name
    if kind in _LIMITS and isinstance(value, int) and not isinstance(value, bool):
        if -_LIMITS[kind] <= value < _LIMITS[kind]:
            return value
        raise InvalidInput(f"{what} {value} is out of range for row key {field.name!r}", hint=f"it is {kind}")
    if kind == "string" and isinstance(value, str):
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise InvalidInput(
                f"{what} {value!r} of row key {field.name!r} has half a character", hint="it must be UTF-8"
            )
        return value
    if kind == "bytearray" and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    shown = repr(value) if isinstance(value, str | bytes) else described(value)
    raise InvalidInput(
        f"{what} {shown} is no value of row key {field.name!r}", hint=f"it is {kind}, not {type(value).__name__}"
    )


def parse_key(field: Field, text: str, *, what: str = "value") -> KeyValue:
    """Read a value of row key `field` from text: decimal numbers, strings as they are, byte arrays in base64.

    The same rule as Sleeper's split points files.
    """
    kind = field.type.name
    if kind == "string":
        return check_key(field, text, what=what)
    try:
        return check_key(field, base64.b64decode(text, validate=True) if kind == "bytearray" else int(text), what=what)
    except (ValueError, binascii.Error) as error:
        if isinstance(error, InvalidInput):
            raise
        need = "base64" if kind == "bytearray" else "a whole number"
        raise InvalidInput(f"{what} {text!r} is no value of row key {field.name!r}", hint=f"write {need}") from error


def key_text(value: KeyValue | None) -> str:
    """Return a key for people: bytes in hexadecimal, an unbounded end as ``∞``."""
    if value is None:
        return "∞"
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


def key_after(field: Field, value: KeyValue) -> KeyValue | None:
    """Return the least value greater than `value` that row key `field` can hold; None when there is none."""
    if isinstance(value, int):
        return None if value == _LIMITS[field.type.name] - 1 else value + 1
    return value + "\0" if isinstance(value, str) else value + b"\0"


# The text of a split points file, as Sleeper's: one value of the first row key a line, ascending. Pure.
#
# Numbers are decimal, strings stand as they are or in base64 of their UTF-8, byte arrays always in base64.


def read_split_points(
    text: str,
    field: Field,
    *,
    strings_base64: bool = False,
    source: str = "the split points",
    shows_lines: bool = True,
) -> tuple[KeyValue, ...]:
    """Return the split points that a file holds.

    Parameters
    ----------
    text
        The content: one value a line, no header. Lines may end as on Windows.
    field
        The first row key.
    strings_base64
        Whether strings are in base64 (``sleeper.table.splits.base64.encoded``); byte arrays always are.
    source
        What errors call the file.
    shows_lines
        Whether errors may show what stands in a line; its number they always show.

    Raises
    ------
    InvalidInput
        Naming the first line that is blank, no value of the key, or not above the one before. An empty file has no
        split point: the table has one partition.
    """
    points: list[KeyValue] = []
    for number, line in _lines(text):
        where = f"line {number} of {source}"
        if not line:
            raise InvalidInput(f"{where} is blank", hint="write one value a line; the least value is no split point")
        try:
            point = _value(line, field, where, strings_base64=strings_base64)
        except InvalidInput:
            if shows_lines:
                raise
            hint = f"write one {field.type} a line"
            raise InvalidInput(f"{where} is no value of {field.name!r}", hint=hint) from None
        if points and point <= points[-1]:  # type: ignore[operator]
            same = point == points[-1]
            fault = "it does not come after the line before"
            if shows_lines:
                after = "is there twice" if same else f"does not come after {key_text(points[-1])}"
                fault = f"{key_text(point)} {after}"
            raise InvalidInput(f"{where}: {fault}", hint="write values in increasing order, each once")
        points.append(point)
    return tuple(points)


def typed_split_points(text: str) -> list[str]:
    """Return the texts of split points that stand in one line, as behind ``--splits``: ``g,n,t``; ``"a,b",c``."""
    return next(csv.reader([text], skipinitialspace=True)) if text.strip() else []


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers; only line feeds part them, as a string may hold any other sign."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, 1):
        yield number, line.removesuffix("\r")


def _value(line: str, field: Field, where: str, *, strings_base64: bool) -> KeyValue:
    try:
        if field.type.name == "string" and strings_base64:
            line = base64.b64decode(line, validate=True).decode()
        return parse_key(field, line)
    except SleeperError as error:
        raise InvalidInput(f"{where}: {error.message}", hint=error.hint_parts) from error
    except ValueError as error:
        raise InvalidInput(f"{where} is {line!r}, no base64 of UTF-8", hint="encode it, or leave base64 out") from error


def write_split_points(points: Iterable[KeyValue], field: Field, *, strings_base64: bool = False) -> str:
    """Return the text of a file from which `read_split_points` reads the points again.

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
        When a string would not come back as it is: one with a line break, for instance.
    """
    lines = []
    for point in points:
        if isinstance(point, bytes) or (isinstance(point, str) and strings_base64):
            plain = point.encode() if isinstance(point, str) else point
            lines.append(base64.b64encode(plain).decode())
        else:
            lines.append(str(point))
            if isinstance(point, str) and ("\n" in point or point.endswith("\r") or point.startswith("\ufeff")):
                raise InvalidInput(
                    f"split point {point!r} of {field.name!r} is no line of text",
                    hint=("add ", Action("--base64", "strings_base64=True")),
                )
    return "".join(f"{line}\n" for line in lines)
